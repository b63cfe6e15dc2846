//! What was decided, so that it can be decided again: events with the commands that they led to, from a checkpoint on.

use std::fmt;

use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::run::Step;

/// One event and the commands that were given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was handled.
    pub now: Time,
    /// What happened.
    pub event: Event,
    /// What was to be done about it.
    pub commands: Vec<Command>,
}

/// A replay gave other commands than the journal has.
#[derive(Clone, Debug, PartialEq)]
pub struct Diverged {
    /// Which entry, counted from zero.
    pub index: usize,
    /// The entry.
    pub entry: Entry,
    /// What the replay gave.
    pub commands: Vec<Command>,
}

impl fmt::Display for Diverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diverged { index, entry, commands } = self;
        write!(
            f,
            "entry {index}, at {}: {:?} led to {:?} then, now to {commands:?}",
            entry.now, entry.event, entry.commands
        )
    }
}

impl std::error::Error for Diverged {}

impl Entry {
    /// The entry of a step.
    pub fn of(step: &Step<'_>) -> Entry {
        Entry { now: step.now, event: step.event.clone(), commands: step.commands.to_vec() }
    }
}

/// Handles the events of `entries` again, from `checkpoint` on, and returns the dispatcher as it is after the last.
/// Stops at the first entry that gives other commands.
pub fn replay(checkpoint: Dispatcher, entries: &[Entry]) -> Result<Dispatcher, Box<Diverged>> {
    let mut dispatcher = checkpoint;
    let mut commands = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        commands.clear();
        dispatcher.handle(entry.now, entry.event.clone(), &mut commands);
        if commands != entry.commands {
            return Err(Box::new(Diverged { index, entry: entry.clone(), commands }));
        }
    }
    Ok(dispatcher)
}
