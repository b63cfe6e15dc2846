//! A run: the dispatcher, a world and a workload, event by event.
//!
//! The loop is the live driver's, with a heap for a clock: what has reached the door is handled first, then whichever
//! comes first, the world's next happening or the dispatcher's own timer.

use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::policy::Policy;
use punctual_core::time::Time;

use crate::outcome::{Outcome, Tracker};
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
}

impl<W: Iterator<Item = Arrival>> Run<W> {
    /// A run in which nothing has happened. The workload's arrivals are in the order of time; one that is not happens
    /// when it is come to.
    pub fn new(dispatcher: Dispatcher, mut workload: W, mut world: World) -> Run<W> {
        if let Some(first) = workload.next() {
            world.expect(first);
        }
        Run { dispatcher, world, workload, now: Time::ZERO, commands: Vec::new() }
    }

    /// Handles one event and carries out its commands; None when nothing is left that could happen.
    pub fn step(&mut self) -> Option<Step<'_>> {
        let event = self.next_event()?;
        self.commands.clear();
        self.dispatcher.handle(self.now, event.clone(), &mut self.commands);
        for command in &self.commands {
            self.world.carry_out(command, self.now);
        }
        Some(Step { now: self.now, event, commands: &self.commands, dispatcher: &self.dispatcher })
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
