//! What is listed, compared with what is in hand, again and again: the rest is stopped.
//!
//! ```text
//!            asking          in flight            settled
//!   start ───────────▶ list ───────────▶ list ───────────▶ list, and every few minutes again
//!                                                            │
//!                                   nobody's: its stop, at most a few at once; if it fails, the next list comes soon
//! ```
//!
//! Once is not enough. A start that a killed gateway has left running comes up later; a stop that fails leaves something
//! there. So the list is what counts, not what is remembered: whatever it names that is not in hand is stopped, until it is
//! not named any more. Starts wait until it is known what is there, but not for ever: ten seconds for the list, and for what
//! an earlier gateway is starting as long as a start may take.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::WITHIN;
use super::command::{Failure, Tags, run_command};
use super::in_flight::InFlight;
use super::roll::{Hand, Origin, Roll};
use super::tries::Tries;
use crate::config;
use crate::settings::{Address, Exec};

/// How long starts wait for the first list.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the first list is tried before it is told that it fails.
const FIRST_TRIES: u32 = 5;
/// The longest wait between two lists.
const EVERY: Duration = Duration::from_secs(300);
/// The wait between two looks at whether a start of an earlier gateway has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// Lines of a list that are read.
const MOST_LISTED: usize = 10_000;
/// Stops of what is nobody's that run at once.
const AT_ONCE: usize = 8;

/// A table of the configuration whose clusters commands start and stop.
#[derive(Debug)]
pub(in crate::provider) struct Table {
    pub(super) name: String,
    exec: Mutex<Arc<Exec>>,
    pub(super) roll: Arc<Roll>,
    pub(super) in_flight: InFlight,
    pub(super) known: watch::Sender<Known>,
    /// True once a shutdown has begun.
    pub(super) leaving: watch::Receiver<bool>,
}

/// What is known of what is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) stage: Stage,
    listed: Vec<Listed>,
}

/// How much of what an earlier gateway has left is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The list has not answered yet.
    #[default]
    Asking,
    /// It has, but a start of an earlier gateway still runs.
    InFlight,
    /// Nothing is waited for any longer.
    Settled,
}

/// An answer of `list`.
#[derive(Debug, Default)]
struct List {
    listed: Vec<Listed>,
    /// The names that were in hand when it was asked. What has been stopped since may be listed yet.
    held: BTreeSet<String>,
}

/// A cluster that `list` has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) address: Address,
    /// The run that it is of, if that is told.
    pub(super) run: Option<String>,
}

impl Known {
    /// What is listed under a name.
    pub(super) fn of(&self, name: &str) -> Option<&Listed> {
        self.listed.iter().find(|listed| listed.name == name)
    }
}

impl Table {
    /// A table of that name of a gateway. Starts in flight are marked in `dir`.
    pub(in crate::provider) fn new(
        name: &str,
        exec: &Arc<Exec>,
        roll: &Arc<Roll>,
        dir: &Path,
        leaving: watch::Receiver<bool>,
    ) -> Table {
        Table {
            name: name.to_owned(),
            exec: Mutex::new(Arc::clone(exec)),
            roll: Arc::clone(roll),
            in_flight: InFlight::new(dir, name),
            known: watch::Sender::new(Known::default()),
            leaving,
        }
    }

    /// Its commands are other ones from now on.
    pub(in crate::provider) fn becomes(&self, exec: &Arc<Exec>) {
        *self.exec.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(exec);
    }

    fn exec(&self) -> Arc<Exec> {
        Arc::clone(&self.exec.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A run of that cluster has been stopped.
    pub(super) fn forget(&self, name: &str, run: &str) {
        self.roll.over(name, run);
        self.known.send_if_modified(|known| {
            let before = known.listed.len();
            known.listed.retain(|listed| listed.name != name || listed.run.as_ref().is_some_and(|of| of != run));
            known.listed.len() < before
        });
    }

    fn tags(&self, cluster: &str, run: Option<&String>) -> Tags {
        let (cluster, run) = (cluster.to_owned(), run.cloned().unwrap_or_default());
        Tags { gateway: self.roll.gateway, cluster, generation: 0, size: 0, run }
    }

    async fn list(&self) -> Result<List, Failure> {
        let held = self.roll.names();
        let said = run_command(&self.exec().list, &self.tags(&self.name, None), WITHIN).await?;
        Ok(List { listed: listed(&said), held })
    }

    /// The first list that succeeds, of a few tries.
    async fn first_list(&self) -> Result<List, Failure> {
        let mut tries = Tries::new(&self.leaving);
        for _ in 1..FIRST_TRIES {
            match self.list().await {
                Ok(list) => return Ok(list),
                Err(failure) => tracing::warn!(cluster = self.name, "list: tried again: {failure}"),
            }
            tries.wait().await;
        }
        self.list().await
    }

    fn is_in_flight(&self) -> bool {
        self.in_flight.is_held()
    }

    /// What it has found; if it has failed, that is said.
    fn or_nothing(&self, found: Result<List, Failure>) -> List {
        found.unwrap_or_else(|failure| {
            tracing::error!(cluster = self.name, "what is there from before is not known: list: {failure}");
            List::default()
        })
    }

    /// Tells what is listed, and returns that of it which is nobody's.
    fn compare(&self, list: List) -> Vec<Listed> {
        let stray = strays(&self.roll, &list);
        let doubles = doubles(&list.listed);
        for (cluster, count) in self.roll.doubled(&self.name, doubles) {
            tracing::error!(
                cluster,
                count,
                "several run under one name and cost money, and list does not say of which run they are"
            );
        }
        self.tell(Stage::Settled, list.listed);
        stray
    }

    fn tell(&self, stage: Stage, listed: Vec<Listed>) {
        self.known.send_replace(Known { stage, listed });
    }
}

/// Finds out what is there, tells those who start, and stops what is nobody's, for as long as the gateway lives.
pub(in crate::provider) async fn survey(table: Arc<Table>) {
    let mut stray = begin(&table).await;
    let (mut tries, mut failing): (_, Vec<Listed>) = (Tries::new(&table.leaving), Vec::new());
    let mut rest = start_within(&table).clamp(BETWEEN_LOOKS, EVERY);
    loop {
        let failed = stop_stray(&table, stray, tries.pause()).await;
        for Listed { name, run, .. } in failing.iter().filter(|listed| !failed.contains(listed)) {
            // It has stopped, or is not listed any more.
            table.roll.over(name, run.as_deref().unwrap_or_default());
        }
        failing = failed;
        if failing.is_empty() {
            tries.start_over();
            tries.rest(rest).await;
            rest = (2 * rest).min(EVERY);
        } else {
            tries.wait().await;
        }
        stray = match table.list().await {
            Ok(list) => table.compare(list),
            Err(failure) => {
                tracing::warn!(cluster = table.name, "what is there is not known: list: {failure}");
                failing.clone()
            }
        };
    }
}

/// Until it is known what an earlier gateway has left, or that is not waited for any longer. What of it is nobody's.
async fn begin(table: &Table) -> Vec<Listed> {
    let ends = Instant::now() + start_within(table);
    let was_in_flight = table.is_in_flight();
    let mut first = pin!(table.first_list());
    let in_time = tokio::time::timeout(PATIENCE, &mut first).await;
    let is_late = in_time.is_err();
    let found = in_time.unwrap_or_else(|_| {
        tracing::error!(
            cluster = table.name,
            "what is there from before is not known: list has not answered within {PATIENCE:?}; clusters are started \
             without it"
        );
        Ok(List::default())
    });
    let mut found = table.or_nothing(found);
    wait_for_starts(table, ends, &found.listed).await;
    if is_late {
        table.tell(Stage::Settled, Vec::new());
        found = table.or_nothing(first.await);
    } else if was_in_flight {
        let again = tokio::time::timeout(PATIENCE, table.list()).await;
        found = table.or_nothing(again.unwrap_or(Err(Failure::Hung(PATIENCE))));
    }
    table.compare(found)
}

fn start_within(table: &Table) -> Duration {
    Duration::from(table.exec().start_within)
}

/// Waits for starts that an earlier gateway has left running, not for longer than a start may take.
async fn wait_for_starts(table: &Table, ends: Instant, found: &[Listed]) {
    if !table.is_in_flight() {
        return;
    }
    tracing::warn!(cluster = table.name, "a start of an earlier gateway still runs, and is waited for");
    table.tell(Stage::InFlight, found.to_vec());
    while table.is_in_flight() {
        if Instant::now() >= ends {
            let cluster = &table.name;
            return tracing::error!(cluster, "a start of an earlier gateway runs on and is not waited for any longer");
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// What is listed and nobody's.
fn strays(roll: &Roll, list: &List) -> Vec<Listed> {
    let is_gone = |listed: &Listed| list.held.contains(&listed.name) && roll.get(&listed.name).is_none();
    list.listed.iter().filter(|listed| is_nobodys(roll, listed) && !is_gone(listed)).cloned().collect()
}

fn is_nobodys(roll: &Roll, listed: &Listed) -> bool {
    match roll.get(&listed.name).map(|hand| hand.origin()) {
        None => true,
        Some(Origin::Run(Some(ours))) => listed.run.as_ref().is_some_and(|theirs| *theirs != ours),
        // Not decided yet, or not to be told apart.
        Some(Origin::Undecided | Origin::Run(None)) => false,
    }
}

/// Stops what is nobody's; that of it which did not stop.
async fn stop_stray(table: &Arc<Table>, stray: Vec<Listed>, pause: Duration) -> Vec<Listed> {
    let (mut stops, mut failing) = (JoinSet::new(), Vec::new());
    for stray in stray {
        if stops.len() >= AT_ONCE {
            failing.extend(stops.join_next().await.and_then(Result::ok).flatten());
        }
        stops.spawn(stop(Arc::clone(table), stray, pause));
    }
    while let Some(failed) = stops.join_next().await {
        failing.extend(failed.ok().flatten());
    }
    failing
}

/// Stops one that is nobody's, unless it is somebody's by now; what it is if that fails.
async fn stop(table: Arc<Table>, stray: Listed, pause: Duration) -> Option<Listed> {
    let hand: Option<Arc<Hand>> = table.roll.take_free(&stray.name);
    let _turn = match &hand {
        Some(hand) => match hand.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(_) => return None,
        },
        // Its name is in hand, of another run: the two are told apart.
        None if !is_nobodys(&table.roll, &stray) => return None,
        None => None,
    };
    let Listed { name, address, run } = &stray;
    tracing::warn!(cluster = name, %address, run, "it is there and not wanted: it is stopped");
    let tags = table.tags(name, run.as_ref());
    match run_command(&table.exec().stop, &tags, WITHIN).await {
        Ok(_) => {
            table.forget(name, &tags.run);
            None
        }
        Err(failure) => {
            let tries = table.roll.failed(name, &tags.run);
            tracing::error!(
                cluster = name,
                run,
                tries,
                "it may run on and cost money: stop: {failure}; tried again in {pause:?}"
            );
            Some(stray)
        }
    }
}

/// Names that are listed more than once without a run, so that what is ours cannot be told from what is not; how often.
fn doubles(listed: &[Listed]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for listed in listed.iter().filter(|listed| listed.run.is_none()) {
        *counts.entry(listed.name.clone()).or_insert(0) += 1;
    }
    counts.retain(|_, count| *count > 1);
    counts
}

/// The lines `name address` or `name address run=RUN`; what is not of that form is said and passed over.
fn listed(said: &str) -> Vec<Listed> {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(MOST_LISTED);
    let read = |line: &str| {
        let (name, rest) = line.split_once(char::is_whitespace)?;
        let (address, run) = match rest.rsplit_once(char::is_whitespace) {
            Some((address, last)) if last.starts_with("run=") => (address, last.strip_prefix("run=")),
            _ => (rest, None),
        };
        let run = run.filter(|run| !run.is_empty()).map(str::to_owned);
        Some(Listed { name: name.to_owned(), address: config::address_of(address.trim())?, run })
    };
    lines
        .filter_map(|line| {
            let listed = read(line);
            if listed.is_none() {
                tracing::warn!(line, "list: no name and address");
            }
            listed
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_clusters_and_their_addresses_and_perhaps_their_runs() {
        let said = "fleet-0 db.example.com:5439\n\n  a   unix:/run/a.sock \nnonsense\nb http://x\n\
                    c unix:/with space run=17-0\nd h:1 run=\ne h:1 ran=2\n";
        let read = listed(said);
        let told = |listed: &Listed| format!("{} {} {:?}", listed.name, listed.address, listed.run);
        assert_eq!(
            read.iter().map(told).collect::<Vec<_>>(),
            ["fleet-0 db.example.com:5439 None", "a /run/a.sock None", "c /with space Some(\"17-0\")", "d h:1 None"]
        );
    }

    #[test]
    fn nobodys_is_what_is_not_in_hand_or_of_another_run() {
        let roll = Roll::new(0);
        let hands = ["ours", "taken-over", "undecided"].map(|name| roll.take(name));
        hands[0].comes_from(Some("2-0".into()));
        hands[1].comes_from(None);
        let listed = listed(
            "ours h:1 run=2-0\nours h:2 run=1-0\nours h:3\ntaken-over h:4 run=1-0\nundecided h:5 run=1-0\nfree h:6\ngone h:7\n",
        );
        let list = List { listed, held: ["ours", "gone"].map(str::to_owned).into() };
        let stray: Vec<String> = strays(&roll, &list).iter().map(|stray| stray.address.to_string()).collect();
        assert_eq!(stray, ["h:2", "h:6"], "what was in hand when the list was asked for is gone by now");
    }
}
