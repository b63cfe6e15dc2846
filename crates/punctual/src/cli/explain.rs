//! `punctual explain`: what happened to one query, and why, from the journal.
//!
//! The journal is decided again up to the query's end, so what is shown is not a log line that someone thought of
//! writing, but the decision itself with what it was made from. It works while the gateway runs and after it is gone.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use punctual_core::dispatcher::Decision;
use punctual_core::id::{ClusterId, QueryId};
use punctual_core::query::{Ended, Predicted};
use punctual_core::route::{Alternative, Regret, Weighed};
use punctual_core::time::{Span, Time};
use punctual_core::view::View;
use punctual_core::{BUILD, Command, Event};
use serde::Serialize;

use super::{Format, Stop};
use crate::catalog::stamp::timestamp;
use crate::config::{self, Typed};
use crate::journal::{self, Turn};
use crate::print;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The query's id, as in punctual.queries, punctual.decisions, history and notices
    query_id: u64,
    /// The configuration whose journal to read; without one, that of a gateway that runs without one
    #[arg(short, long, value_name = "FILE", conflicts_with = "journal")]
    config: Option<PathBuf>,
    /// The journal to read
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What happened to a query.
#[derive(Debug, Default, Serialize)]
struct Story {
    query: u64,
    class: String,
    slo: Option<Span>,
    arrived: Option<Time>,
    /// Each placement with its evidence: more than one if a cluster could not take it.
    decisions: Vec<Decision>,
    /// The clusters' names at that time.
    clusters: Vec<(u32, String)>,
    /// Verdicts that were not placements.
    refused: Option<String>,
    ended: Option<Ended>,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let dir = match (&flags.journal, &flags.config) {
        (Some(dir), _) => dir.clone(),
        (None, config) => config::read(config.as_deref(), Typed::default()).map_err(Stop::usage)?.journal.dir,
    };
    let mut story = Story { query: flags.query_id, ..Story::default() };
    let replay = journal::replay_watched(&dir, BUILD, &mut |turn| story.notice(&turn)).map_err(Stop::failed)?;
    for (segment, fault) in replay.faulty() {
        print::aside(format_args!(
            "punctual: {}: {fault}; what is told may not be the whole story",
            segment.file.display()
        ));
    }
    if story.arrived.is_none() {
        let message = format!(
            "query {} is not in the journal {}: it has come in the last second, is older than what is kept, or belongs to another gateway",
            flags.query_id,
            dir.display()
        );
        return Err(Stop::Failed(message));
    }
    match flags.format {
        Format::Text => print::line(story.tell().trim_end())?,
        Format::Json => print::json(&story)?,
    }
    Ok(0)
}

impl Story {
    fn notice(&mut self, turn: &Turn<'_>) {
        let me = QueryId(self.query);
        if let Event::Arrived(query) = turn.event
            && query.id == me
        {
            let class = turn.dispatcher.policy().classes.get(query.class.0 as usize);
            self.class = class.map_or_else(String::new, |class| class.name.clone());
            (self.slo, self.arrived) = (query.slo, Some(turn.now));
        }
        for command in turn.commands {
            match command {
                Command::Run { query, .. } if *query == me => self.placed(&turn.dispatcher.view(turn.now)),
                Command::Refuse { query, because } if *query == me => self.refused = Some(because.to_string()),
                Command::Record(ended) if ended.query.id == me => self.ended = Some((**ended).clone()),
                _ => {}
            }
        }
    }

    fn placed(&mut self, view: &View) {
        self.decisions.extend(view.decisions.iter().rev().find(|decision| decision.query.0 == self.query).cloned());
        self.clusters = view.clusters.iter().map(|cluster| (cluster.id.0, cluster.name.clone())).collect();
    }

    fn name(&self, cluster: u32) -> String {
        let name = self.clusters.iter().find(|(id, _)| *id == cluster).map(|(_, name)| name.as_str());
        format!("{cluster} ({})", name.unwrap_or("gone"))
    }

    /// What the policy on trial would have done, in words.
    fn instead(&self, other: &Alternative, chosen: ClusterId) -> String {
        if other.cluster == chosen {
            return format!("the policy on trial would have done the same: {}", other.why);
        }
        let mut text =
            format!("the policy on trial would have chosen cluster {}: {}", self.name(other.cluster.0), other.why);
        if let Some(Regret { violations, cost }) = other.regret {
            let _ = write!(text, "; against that, {violations:+.2} SLO violations and {cost:+.4} dollars");
        }
        text
    }

    fn tell(&self) -> String {
        let mut text = String::new();
        let slo = self.slo.map_or_else(|| "no SLO".to_owned(), |slo| format!("SLO {slo}"));
        let arrived = self.arrived.map_or_else(String::new, timestamp);
        let _ = writeln!(text, "query {}: class {}, {slo}, arrived {arrived}", self.query, self.class);
        for decision in &self.decisions {
            let waited = match decision.waited {
                Span::ZERO => "at once".to_owned(),
                waited => format!("after waiting {waited}"),
            };
            let cluster = self.name(decision.cluster.0);
            let _ = writeln!(text, "  {waited}, placed on cluster {cluster}: {}", decision.why);
            if let Some(Predicted { p50, p90, isolated }) = decision.predicted {
                let _ = writeln!(
                    text,
                    "    expected to take {p50} there, {p90} at most nine times of ten, {isolated} alone"
                );
            }
            for candidate in &decision.candidates {
                let _ = writeln!(
                    text,
                    "    cluster {:<20} {:>3} units, {:>3} of {:>3} slots taken{}{}",
                    self.name(candidate.cluster.0),
                    candidate.units.0,
                    candidate.outstanding,
                    candidate.slots,
                    if candidate.awake { ", awake" } else { "" },
                    if candidate.cluster == decision.cluster { "  <- chosen" } else { "" },
                );
                if let Some(weighed) = &candidate.weighed {
                    let _ = writeln!(text, "      {}", would(weighed));
                }
            }
            if let Some(other) = &decision.instead {
                let _ = writeln!(text, "    {}", self.instead(other, decision.cluster));
            }
        }
        if let Some(because) = &self.refused {
            let _ = writeln!(text, "  did not run: {because}");
        }
        match &self.ended {
            None => text.push_str("  has not ended\n"),
            Some(ended) => {
                let late = match ended.violated {
                    Some(true) => ", SLO missed",
                    Some(false) => ", SLO met",
                    None => "",
                };
                let _ = writeln!(text, "  {} after {}{late}, {} rows", ended.status, ended.latency(), ended.rows);
            }
        }
        text
    }
}

/// What placing a query on a cluster would do, in words.
fn would(weighed: &Weighed) -> String {
    let Weighed { predicted, violations, cost, harmed, .. } = weighed;
    let mut text = format!(
        "would take {} ({} nine times of ten), {violations:+.2} SLO violations, ${cost:.4} more",
        predicted.p50, predicted.p90
    );
    if !harmed.is_empty() {
        let harmed: Vec<String> = harmed.iter().map(ToString::to_string).collect();
        let _ = write!(text, "; would harm {}", harmed.join(", "));
    }
    text
}
