//! Small random runs with everything checked that must hold: the test that finds what nobody thought of.
//!
//! A scenario is a function of its seed: policy, scaling, clusters, workload, delays and faults are all drawn. After every
//! event the dispatcher's own [`check`] runs, and a [`Watch`] that recomputes from events and commands alone what must
//! hold for queries, seats, pins and clusters, for who is admitted, and for what is decided about the fleet. At the end, every query has ended exactly once, the bill agrees with a
//! slow reference, the journal replays to the same commands from its start and from a checkpoint on the way, and the
//! same scenario once more gives the same commands.

mod admission;
mod bill;
mod draw;
mod ending;
mod fleet;
mod many;
pub mod models;
mod planned;
mod seen;
mod shrink;
mod watch;

use std::fmt;

use punctual_core::check::check;
use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::Event;
use punctual_core::policy::Policy;
use punctual_core::time::{Span, Time};

use crate::journal::{Entry, replay};
use crate::outcome::{Outcome, Tracker};
use crate::run::Run;
use crate::workload::{Arrival, Mix, Pattern, generate};
use crate::world::{Conditions, World};

use watch::Watch;

pub use draw::random;
pub use many::{Summary, many};
pub use seen::Seen;
pub use shrink::shrink;

/// All that a run depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it was drawn from, and the seed of everything in it.
    pub seed: u64,
    /// The rules.
    pub policy: Policy,
    /// When queries arrive.
    pub pattern: Pattern,
    /// What they are.
    pub mix: Mix,
    /// Until when they arrive.
    pub horizon: Span,
    /// How the world treats the dispatcher.
    pub conditions: Conditions,
    /// What the configuration and operators want, and when. In the end, a shutdown.
    pub script: Vec<(Time, Event)>,
}

/// A scenario in which all was well.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What came of it.
    pub outcome: Outcome,
    /// Queries that arrived.
    pub arrived: u64,
    /// What occurred.
    pub seen: Seen,
}

/// Something that must hold did not.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The scenario's seed.
    pub seed: u64,
    /// After which event, counted from one.
    pub event: u64,
    /// When.
    pub at: Time,
    /// What.
    pub what: String,
    /// The last events before it, oldest first.
    pub before: Vec<Entry>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, event {}, at {}: {}", self.seed, self.event, self.at, self.what)?;
        for entry in &self.before {
            writeln!(f, "  {} {:?} -> {:?}", entry.now, entry.event, entry.commands)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// More events than any scenario needs: one that goes on for longer never ends.
const MOST_EVENTS: u64 = 200_000;

/// How many of the last events a failure shows.
const SHOWN: usize = 12;

/// Runs a scenario and checks everything.
pub fn run(scenario: &Scenario) -> Result<Report, Box<Failure>> {
    let mut record = Recording::default();
    match checked(scenario, &mut record) {
        Ok(report) => Ok(report),
        Err(what) => {
            let shown = record.entries.len().saturating_sub(SHOWN);
            let last = record.entries.last();
            Err(Box::new(Failure {
                seed: scenario.seed,
                event: record.entries.len() as u64,
                at: last.map_or(Time::ZERO, |entry| entry.now),
                what,
                before: record.entries.split_off(shown),
            }))
        }
    }
}

impl Scenario {
    fn dispatcher(&self) -> Dispatcher {
        let mut dispatcher = Dispatcher::new(self.seed, self.policy.clone());
        models::provide(&mut dispatcher);
        dispatcher
    }

    fn start(&self) -> Run<impl Iterator<Item = Arrival> + use<>> {
        let workload = generate(self.seed, &self.pattern, &self.mix, self.horizon);
        let world = World::new(self.seed, self.conditions.clone(), self.script.clone());
        Run::new(self.dispatcher(), workload, world)
    }
}

/// The journal of a run, with a checkpoint on the way.
#[derive(Default)]
struct Recording {
    entries: Vec<Entry>,
    /// How many entries came before it, and its serialised form.
    checkpoint: Option<(usize, Vec<u8>)>,
}

impl Recording {
    /// Takes a checkpoint after the 1st, 2nd, 4th, 8th… event and keeps the last: it lies in the second half.
    fn take(&mut self, entry: Entry, dispatcher: &Dispatcher) -> Result<(), String> {
        self.entries.push(entry);
        if self.entries.len().is_power_of_two() {
            let bytes = postcard::to_stdvec(dispatcher).map_err(|error| format!("no checkpoint: {error}"))?;
            self.checkpoint = Some((self.entries.len(), bytes));
        }
        Ok(())
    }
}

fn checked(scenario: &Scenario, record: &mut Recording) -> Result<Report, String> {
    let mut run = scenario.start();
    let mut watch = Watch::new(&scenario.policy);
    let (mut tracker, mut seen) = (Tracker::default(), Seen::new());
    while let Some(step) = run.step() {
        tracker.take(&step);
        let scaled = step.scaled();
        seen::count(&mut seen, &step.event, step.commands);
        seen::count_scaled(&mut seen, &scaled);
        record.take(Entry::of(&step), step.dispatcher)?;
        watch.take(step.now, &step.event, step.commands, &scaled)?;
        seen::count_capped(&mut seen, watch.capped());
        if let Some(broken) = check(step.dispatcher).first() {
            return Err(format!("check: {broken}"));
        }
        if record.entries.len() as u64 > MOST_EVENTS {
            return Err("it never ends".into());
        }
    }
    watch.at_the_end()?;
    let end = run.now();
    at_rest(run.dispatcher())?;
    same_cost(watch.cost(end), run.dispatcher().cost(end))?;
    let outcome = tracker.outcome(run.dispatcher(), end);
    let ended: u64 = outcome.classes.values().map(|class| class.tally.total()).sum();
    if ended != watch.arrived {
        return Err(format!("{} queries arrived, {ended} were counted", watch.arrived));
    }
    replays(scenario, record, run.dispatcher())?;
    same_again(scenario, &outcome)?;
    Ok(Report { outcome, arrived: watch.arrived, seen })
}

/// The dispatcher itself must know that nothing is left.
fn at_rest(dispatcher: &Dispatcher) -> Result<(), String> {
    let view = dispatcher.view(Time::ZERO);
    if !view.queries.is_empty() || view.waiting > 0 {
        return Err(format!("{} queries are left in the dispatcher", view.queries.len()));
    }
    if dispatcher.is_shut_down() { Ok(()) } else { Err("it was to shut down, and has not".into()) }
}

fn same_cost(reference: f64, cost: f64) -> Result<(), String> {
    let tolerance = 1e-9 * reference.max(1.0);
    if (reference - cost).abs() <= tolerance { Ok(()) } else { Err(format!("it cost {reference} $, not {cost} $")) }
}

/// The journal gives the same commands again and ends in the same state, from its start and from the checkpoint.
fn replays(scenario: &Scenario, record: &Recording, end: &Dispatcher) -> Result<(), String> {
    let mut from = vec![("the start", scenario.dispatcher(), &record.entries[..])];
    if let Some((index, bytes)) = &record.checkpoint {
        let mut checkpoint =
            postcard::from_bytes(bytes).map_err(|error| format!("a checkpoint does not read: {error}"))?;
        models::provide(&mut checkpoint);
        from.push(("a checkpoint", checkpoint, &record.entries[*index..]));
    }
    for (name, checkpoint, entries) in from {
        let replayed = replay(checkpoint, entries).map_err(|diverged| format!("replay from {name}: {diverged}"))?;
        if replayed != *end {
            return Err(format!("replay from {name} ends in another state"));
        }
    }
    Ok(())
}

fn same_again(scenario: &Scenario, outcome: &Outcome) -> Result<(), String> {
    let mut run = scenario.start();
    let mut tracker = Tracker::default();
    while let Some(step) = run.step() {
        tracker.take(&step);
    }
    let again = tracker.outcome(run.dispatcher(), run.now());
    if again == *outcome { Ok(()) } else { Err("the same seed gave other commands".into()) }
}
