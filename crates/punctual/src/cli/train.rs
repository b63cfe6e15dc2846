//! `punctual train`: from history to a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use punctual_core::time::Time;
use punctual_learn::contest::{self, Contest, contest};
use punctual_learn::fit::{Epoch, Go, Settings};
use punctual_learn::learning::{Kind, Learnt, Options, Progress, Round, Unfinished, learn_on};
use punctual_learn::observation::{Observation, Part};
use serde::Serialize;

use super::aside::Aside;
use super::progress::Teller;
use super::{Format, Stop};
use crate::model::file::{self, Facts};
use crate::model::report::{Judgement, Worth};
use crate::model::seen::{Fold, Seen, Split};
use crate::model::unfinished;
use crate::{history, print};

/// Learn to predict latencies from history.
#[derive(Debug, Args)]
#[command(after_long_help = LONG_HELP)]
pub(super) struct Flags {
    /// A history directory, or one file of it
    history: PathBuf,
    /// The model to write
    #[arg(short, long, value_name = "MODEL")]
    out: PathBuf,
    #[command(flatten)]
    aside: Aside,
    /// Passes over the queries at most; without it, 16, and more for short histories
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    epochs: Option<u32>,
    /// Width of the network's states: a multiple of 16
    #[arg(long, default_value_t = Options::default().hidden, value_parser = width)]
    hidden: usize,
    /// What chance begins with
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Go on with a training that was interrupted; the model is the same as if it had not been
    #[arg(long)]
    resume: bool,
    /// Say whether the new model is better than this one, on what is set aside: the newest fifth, if not said otherwise
    #[arg(long, value_name = "MODEL")]
    against: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const LONG_HELP: &str = "\
A fifth of what may be learnt from decides when to stop and how wide predictions must be; then the model learns from all \
of it. What is set aside by --split is never learnt from: the model is measured on it, at arrival (those that run when a \
query arrives) and in hindsight (all that overlapped it). Use --split none for a model that learns from everything.

Where too few queries finished for a network, the model stands on what they took alone, or else on the median of each \
fingerprint, and says so.

With --against, the new model is called better if, at arrival, on queries that neither has learnt from, its pinball loss \
over the median and the 90 % quantile is lower and its Q-error at p90 at most 5 % higher. The exit code does not say it.

Ctrl-C keeps the best model so far, and the exit code is 1. After each epoch, what it takes to go on is written beside the model (MODEL.training), and \
removed when all is done: after an interruption or a kill, the same command with --resume goes on from there.";

fn width(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(width) if (16..=256).contains(&width) && width % 16 == 0 => Ok(width),
        _ => Err("it must be a multiple of 16 from 16 to 256".to_owned()),
    }
}

/// What came of it, for programs.
#[derive(Serialize)]
struct Report<'a> {
    model: &'a Path,
    kind: Kind,
    learnt_from: usize,
    isolated: usize,
    epochs: u32,
    stopped: bool,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<Worth>,
    #[serde(flatten)]
    contest: Option<Verdict>,
}

impl std::fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (model, learnt_from) = (self.model.display(), print::counted(self.learnt_from as u64, "query", "queries"));
        write!(f, "{model} learnt from {learnt_from} ({} of them alone)", self.isolated)?;
        if self.kind == Kind::Network {
            write!(f, " in {}", print::counted(self.epochs.into(), "epoch", "epochs"))?;
        }
        let stopped = if self.stopped { ", stopped early" } else { "" };
        write!(f, ", {:.0} s{stopped}", self.seconds)
    }
}

/// Whether the model is better than another.
#[derive(Serialize)]
struct Verdict {
    /// None: it cannot be told.
    better: Option<bool>,
    /// Why, in words.
    because: String,
    against: Figures,
}

/// What that stands on: of the new model and the other one.
#[derive(Serialize)]
struct Figures {
    n: usize,
    loss: [f64; 2],
    q_error_p90: [f64; 2],
}

/// 0 if a model was written, 1 if not, or if it was interrupted: then it is the best so far.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let begun = Instant::now();
    // Before an hour is spent on one that can be neither written nor compared.
    file::check(&flags.out).map_err(Stop::failed)?;
    let other = flags.against.as_ref().map(|path| file::read(path)).transpose().map_err(Stop::failed)?;
    let fold = flags.aside.fold(flags.seed);
    let (observations, split) =
        observations(&flags.history, flags.aside.split().or(other.as_ref().map(|_| Split::Time)), fold)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let learnt = train(flags, &observations, &stop)?;
    if !learnt.stopped {
        let _ = std::fs::remove_file(unfinished::path(&flags.out));
    }
    let facts = Facts {
        build: punctual_core::BUILD.to_owned(),
        queries: learnt.learnt_from as u64,
        isolated: learnt.isolated as u64,
        newest: newest(&observations),
        kind: learnt.kind.name().to_owned(),
        epochs: learnt.epochs,
        seed: flags.seed,
        split: split.record(fold.number),
    };
    file::write(&flags.out, &learnt.model, &facts).map_err(Stop::failed)?;
    let judgement = Judgement::of(&learnt.model, &observations);
    let report = Report {
        model: &flags.out,
        kind: learnt.kind,
        learnt_from: learnt.learnt_from,
        isolated: learnt.isolated,
        epochs: learnt.epochs,
        stopped: learnt.stopped,
        seconds: begun.elapsed().as_secs_f64(),
        test: judgement.worth(),
        contest: other.map(|(model, facts)| {
            let other = Judgement::of(&model, &observations);
            let newest = Time::from_micros(facts.newest);
            Verdict::of(&contest(judgement.expected(), other.expected(), &observations, newest))
        }),
    };
    match flags.format {
        Format::Json => print::json(&report)?,
        Format::Text => {
            print::line(format_args!("{report}"))?;
            if let Some(why) = modest(report.kind) {
                print::line(why)?;
            }
            match &report.test {
                Some(worth) => {
                    print::line(format_args!("set aside: {}", split.in_words(fold.number)))?;
                    print::line(format_args!("{worth}"))?;
                }
                None => print::line("nothing is measured: no query that finished is set aside")?,
            }
            if let Some(verdict) = &report.contest {
                print::line(&verdict.because)?;
            }
        }
    }
    if report.stopped {
        return Err(Stop::failed(format_args!(
            "interrupted; {} is the best so far, and the same command with --resume goes on from there",
            flags.out.display()
        )));
    }
    Ok(0)
}

/// The newest arrival that may be learnt from, in microseconds.
fn newest(observations: &[Observation]) -> u64 {
    let learnt = observations.iter().filter(|seen| seen.part != Part::Test);
    learnt.map(|seen| seen.arrival.micros()).max().unwrap_or_default()
}

impl Verdict {
    fn of(contest: &Contest) -> Verdict {
        let Contest { n, loss, q_error_p90, better } = *contest;
        let figures = format!(
            "at arrival, on {n} queries that neither has learnt from, the new model's loss is {:.4} and the other's {:.4}, \
             its Q-error at p90 {:.2} and the other's {:.2}",
            loss[0], loss[1], q_error_p90[0], q_error_p90[1]
        );
        let because = match better {
            Some(true) => format!("better: {figures}"),
            Some(false) => format!("not better: {figures}"),
            None => format!(
                "it cannot be told whether it is better: {n} queries are set aside that neither has learnt from, and {} are \
                 needed",
                contest::ENOUGH
            ),
        };
        Verdict { better, because, against: Figures { n, loss, q_error_p90 } }
    }
}

/// Reads a history as what there is to learn from, and how it was split.
pub(super) fn observations(path: &Path, split: Option<Split>, fold: Fold) -> Result<(Vec<Observation>, Split), Stop> {
    let mut seen = Seen::default();
    let mut unreadable = 0u64;
    for row in history::read(path).map_err(Stop::failed)? {
        match row {
            Ok(row) => seen.push(&row),
            Err(cause) => {
                unreadable += 1;
                if unreadable <= 3 {
                    print::aside(format_args!("punctual: {cause}"));
                }
            }
        }
    }
    if unreadable > 3 {
        print::aside(format_args!("punctual: {} more rows could not be read", unreadable - 3));
    }
    if seen.is_empty() {
        let passed = seen.passed;
        let why = format!("{} holds no query that ran on a cluster ({passed} rows tell nothing)", path.display());
        return Err(Stop::failed(why));
    }
    let split = split.unwrap_or(if seen.has_split() { Split::Column } else { Split::Time });
    Ok((seen.split(&split, fold).map_err(Stop::failed)?, split))
}

/// How to learn, with so many epochs at most if a number was typed.
pub(super) fn options(epochs: Option<u32>, seed: u64) -> Options {
    let default = Options::default();
    let steps = if epochs.is_some() { 0 } else { default.steps };
    let epochs = epochs.unwrap_or(default.settings.epochs);
    Options { settings: Settings { epochs, seed, ..default.settings }, steps, ..default }
}

/// What a model stands on, if it is not a network.
fn modest(kind: Kind) -> Option<String> {
    let needed = punctual_learn::learning::FEWEST;
    let stands_on = match kind {
        Kind::Network => return None,
        Kind::Stage => "what queries took alone, and on how they share a cluster",
        Kind::Medians => "the median of each fingerprint, as none finished alone either",
    };
    Some(format!("fewer than {needed} queries finished, too few for a network: the model stands on {stands_on}"))
}

fn train(flags: &Flags, observations: &[Observation], stop: &AtomicBool) -> Result<Learnt, Stop> {
    let options = Options { hidden: flags.hidden, ..options(flags.epochs, flags.seed) };
    let (file, origin) = (unfinished::path(&flags.out), unfinished::origin(observations, &options));
    let left = if flags.resume { unfinished::read(&file, origin).map_err(Stop::failed)? } else { None };
    if flags.resume && left.is_none() {
        print::aside(format_args!("punctual: {} is not there: learning from the beginning", file.display()));
    }
    let mut complained = false;
    let mut keep = |left: &Unfinished| {
        if let Err(cause) = unfinished::write(&file, origin, left)
            && !std::mem::replace(&mut complained, true)
        {
            print::aside(format_args!("punctual: cannot write {}: {cause}; learning goes on", file.display()));
        }
    };
    let (mut teller, mut last) = (Teller::new(), String::new());
    let mut watch = |progress| {
        match progress {
            Progress::Epoch(_, epoch) => last = epoch_in_words(&epoch),
            Progress::Batch { round: Round::Measuring, done, of } => {
                teller.tell("measuring", (done, of), || last.clone());
            }
            Progress::Batch { round: Round::Final, done, of } => teller.tell("learning", (done, of), || last.clone()),
        }
        if stop.load(Ordering::Relaxed) { Go::Stop } else { Go::On }
    };
    let learnt = learn_on(observations, &options, left, &mut watch, &mut keep);
    drop(teller);
    learnt.map_err(Stop::failed)
}

fn epoch_in_words(epoch: &Epoch) -> String {
    let [p50, p90, _] = epoch.score.q_error;
    format!("epoch {}, Q-error p50 {p50:.2} p90 {p90:.2}", epoch.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_epochs_that_was_typed_is_the_most() {
        let typed = options(Some(3), 7);
        assert_eq!((typed.settings.epochs, typed.settings.seed, typed.steps), (3, 7, 0));
        let default = Options::default();
        assert_eq!(options(None, default.settings.seed), default);
    }
}
