//! A run: the dispatcher, a world and a workload, event by event.
//!
//! The loop is the live driver's, with a heap for a clock: what has reached the door is handled first, then whichever
//! comes first, the world's next happening or the dispatcher's own timer.

use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::policy::Policy;
use punctual_core::scale::Scaled;
use punctual_core::time::Time;

use crate::outcome::{Outcome, Tracker};
use crate::study;
use crate::workload::Arrival;
use crate::world::World;

/// Runs a workload to its end: until nothing is left that could happen. (Clusters of a limited life are started again for
/// ever; a world that has those needs a shutdown in its script.) `seed` is the dispatcher's; the workload and
/// the world bring their own chance.
pub fn run(seed: u64, workload: impl Iterator<Item = Arrival>, world: World, policy: Policy) -> Outcome {
    let mut run = Run::new(Dispatcher::new(seed, policy), workload, world);
    let mut tracker = Tracker::default();
    while let Some(step) = run.step() {
        tracker.take(&step);
    }
    tracker.outcome(run.dispatcher(), run.now())
}

/// A run that is under way.
#[derive(Clone, Debug)]
pub struct Run<W> {
    dispatcher: Dispatcher,
    world: World,
    workload: W,
    now: Time,
    commands: Vec<Command>,
    /// Decisions about the fleet that were made at `now` and shown.
    shown: usize,
}

/// One event and what the dispatcher made of it.
#[derive(Debug)]
pub struct Step<'a> {
    /// When.
    pub now: Time,
    /// What happened.
    pub event: Event,
    /// What was to be done about it.
    pub commands: &'a [Command],
    /// The dispatcher after it.
    pub dispatcher: &'a Dispatcher,
    /// How many decisions about the fleet it made, of those that it keeps the last ones.
    scaled: usize,
}

impl Step<'_> {
    /// What it decided about the fleet, oldest first.
    pub fn scaled(&self) -> Vec<&Scaled> {
        let mut scaled: Vec<&Scaled> = self.dispatcher.scaled().rev().take(self.scaled).collect();
        scaled.reverse();
        scaled
    }
}

impl<W: Iterator<Item = Arrival>> Run<W> {
    /// A run in which nothing has happened. The workload's arrivals are in the order of time; one that is not happens
    /// when it is come to.
    pub fn new(dispatcher: Dispatcher, mut workload: W, mut world: World) -> Run<W> {
        if let Some(first) = workload.next() {
            world.expect(first);
        }
        Run { dispatcher, world, workload, now: Time::ZERO, commands: Vec::new(), shown: 0 }
    }

    /// Handles one event and carries out its commands; None when nothing is left that could happen.
    pub fn step(&mut self) -> Option<Step<'_>> {
        let before = self.now;
        let event = self.next_event()?;
        self.commands.clear();
        self.dispatcher.handle(self.now, event.clone(), &mut self.commands);
        for command in &self.commands {
            if let Command::Study { study } = command {
                let answer = study::run(&self.dispatcher.study(), study.0);
                let at = self.now + self.world.conditions().study;
                self.world.report_at(at, Event::StudyDone { study: *study, answer });
            }
            self.world.carry_out(command, self.now);
            if let Command::Run { query, cluster } = command {
                self.world.foresee(&self.dispatcher, *query, *cluster, self.now);
            }
        }
        let (now, commands, dispatcher) = (self.now, &self.commands, &self.dispatcher);
        let known = if now == before { self.shown } else { 0 };
        self.shown = dispatcher.scaled().rev().take_while(|scaled| scaled.at == now).count();
        Some(Step { now, event, commands, dispatcher, scaled: self.shown.saturating_sub(known) })
    }

    /// One more query comes, beside the workload's.
    pub fn send(&mut self, arrival: Arrival) {
        self.world.expect(arrival);
    }

    /// The dispatcher as it is now.
    pub fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// The time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.world.heard(self.now) {
                return Some(event);
            }
            let late = self.world.conditions().wakes_late;
            let wakes = self.dispatcher.next_wakeup().map(|at| at + late);
            match (self.world.next_at(), wakes) {
                (None, None) => return None,
                (happens, Some(wakes)) if happens.is_none_or(|at| wakes < at) => {
                    self.now = self.now.max(wakes);
                    return Some(Event::Woke);
                }
                (happens, _) => {
                    self.now = self.now.max(happens.unwrap_or(self.now));
                    if self.world.turn()
                        && let Some(next) = self.workload.next()
                    {
                        self.world.expect(next);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::billing::Price;
    use punctual_core::class::DEFAULT;
    use punctual_core::cluster::Spec;
    use punctual_core::id::Units;
    use punctual_core::query::Status;
    use punctual_core::time::Span;

    use super::*;
    use crate::workload::{Mix, Pattern, Size, generate};
    use crate::world::Conditions;

    /// A query of 3 s every second or so, for 100 s, on one cluster of four units that starts at once.
    fn outcome(seed: u64) -> Outcome {
        let price = Price { per_unit_hour: 0.36, minimum: Span::from_secs(60) };
        let spec =
            Spec { name: "a".into(), units: Units(4), slots: 8, price, killable: true, offer: None, writer: false };
        let script = vec![(Time::ZERO, Event::ClusterWanted(spec))];
        let mix = Mix::of_one(DEFAULT, Some(Span::from_secs(4)), Size::Fixed(Span::from_secs(3)), 1);
        let workload = generate(7, &Pattern::Poisson { rate: 1.0 }, &mix, Span::from_secs(100));
        run(seed, workload, World::new(7, Conditions::default(), script), Policy::default())
    }

    #[test]
    fn a_workload_runs_to_its_end_and_the_outcome_says_what_came_of_it() {
        let outcome = outcome(1);
        let class = &outcome.classes["default"];
        let arrivals = Pattern::Poisson { rate: 1.0 }.instants(7);
        let arrived = arrivals.take_while(|at| *at < Time::ZERO + Span::from_secs(100)).count();
        assert_eq!((class.tally.total(), class.latencies.len()), (arrived as u64, arrived));
        assert_eq!(class.tally.ended(Status::Finished), arrived as u64);
        // Nobody is quicker than alone, and with at most four at once everybody is as quick.
        assert_eq!(class.quantile(0.0), Some(Span::from_secs(3)));
        assert!(class.quantile(0.99) > class.quantile(0.5));
        let late = class.latencies.iter().filter(|latency| **latency > Span::from_secs(4)).count();
        assert_eq!(class.tally.violated, late as u64);
        // Start, and for each query Run and Record.
        assert_eq!((outcome.events, outcome.commands), (2 + 2 * arrived as u64, 1 + 2 * arrived as u64));
        // Four units at 0.36 $ an hour: 0.0004 $ for each second that it was in use.
        let seconds = outcome.cost / 0.0004;
        assert!(seconds > 60.0 && seconds <= outcome.end.since(Time::ZERO).secs_f64(), "{seconds} s");
    }

    #[test]
    fn a_run_is_a_function_of_its_seeds() {
        assert_eq!(outcome(1), outcome(1));
    }
}
