//! How many run, in all, of each class and in each lane: limits are kept by asking here before anything is placed.

use serde::{Deserialize, Serialize};

use crate::id::{ClassId, LaneId};

/// What a running query, or the session that keeps its place, counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) class: ClassId,
    pub(crate) lane: LaneId,
    /// The priority that it has there: where the rules change, its lane follows from that.
    pub(crate) priority: i32,
}

/// How many tickets are out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    total: u32,
    classes: Vec<u32>,
    lanes: Vec<u32>,
}

impl Counts {
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    pub(crate) fn class(&self, class: ClassId) -> u32 {
        self.classes.get(class.0 as usize).copied().unwrap_or(0)
    }

    pub(crate) fn lane(&self, lane: LaneId) -> u32 {
        self.lanes.get(lane.0 as usize).copied().unwrap_or(0)
    }

    /// True if as many run of everything.
    pub(crate) fn same_as(&self, other: &Counts) -> bool {
        let classes = self.classes.len().max(other.classes.len()) as u32;
        let lanes = self.lanes.len().max(other.lanes.len()) as u32;
        self.total == other.total
            && (0..classes).all(|class| self.class(ClassId(class)) == other.class(ClassId(class)))
            && (0..lanes).all(|lane| self.lane(LaneId(lane)) == other.lane(LaneId(lane)))
    }

    pub(crate) fn enter(&mut self, ticket: Ticket) {
        self.total += 1;
        *at(&mut self.classes, ticket.class.0) += 1;
        *at(&mut self.lanes, ticket.lane.0) += 1;
    }

    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.total = self.total.saturating_sub(1);
        for count in [at(&mut self.classes, ticket.class.0), at(&mut self.lanes, ticket.lane.0)] {
            *count = count.saturating_sub(1);
        }
    }
}

/// Numbers of classes and lanes are small: the policy bounds them.
fn at(counts: &mut Vec<u32>, index: u32) -> &mut u32 {
    let index = index as usize;
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    &mut counts[index]
}
