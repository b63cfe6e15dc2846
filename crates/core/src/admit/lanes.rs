//! Lanes: caps on how many queries of a kind run at once, so that the heavy leave room for the light.
//!
//! Druid has two schemes: `hilo` puts what has a priority below zero into one lane; `manual` has lanes with names, which
//! classes name. A lane can also have a guarantee: while it runs fewer than that its queries go first. It lends that room
//! while it has no use for it, and gets it back as queries end.

use serde::{Deserialize, Serialize};

use super::terms::Terms;
use crate::id::LaneId;
use crate::time::Span;

/// The lane of those that have no other: it has no limit.
pub const OPEN: LaneId = LaneId(0);

/// The lanes, and which queries are in which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lanes {
    by: By,
    lanes: Vec<Lane>,
}

/// What says which lane a query is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum By {
    /// Nothing: all are in one.
    #[default]
    Nothing,
    /// Its priority: below zero it is in the low lane.
    Priority,
    /// The name that its class has.
    Name,
}

/// A lane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// How many of it may run at once; None: no limit of its own.
    pub limit: Option<Limit>,
    /// Up to how many running ones its queries go before those of other lanes.
    pub guarantee: Option<Limit>,
    /// How many of it may wait; one more is refused.
    pub max_queued: Option<u32>,
    /// How long one of it may wait, where its class does not say.
    pub queue_timeout: Option<Span>,
}

/// A number of queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Limit {
    /// So many.
    Count(u32),
    /// This share of all that may run at once, in percent, rounded up.
    Percent(f64),
}

impl Limit {
    /// How many that is where `total` may run at once.
    pub fn of(self, total: u32) -> u32 {
        match self {
            Limit::Count(count) => count,
            Limit::Percent(percent) => (f64::from(total) * percent / 100.0).ceil() as u32,
        }
    }
}

impl Lanes {
    /// One lane without a limit.
    pub fn none() -> Lanes {
        Lanes::default()
    }

    /// What has a priority below zero is in the lane `low`, which may have this share of all that may run.
    pub fn hilo(max_low_percent: f64) -> Lanes {
        let low = Lane { name: "low".to_owned(), limit: Some(Limit::Percent(max_low_percent)), ..Lane::default() };
        Lanes { by: By::Priority, lanes: vec![low] }
    }

    /// These lanes, which classes name. A class that names none, or another, has no limit.
    pub fn manual(lanes: Vec<Lane>) -> Lanes {
        Lanes { by: By::Name, lanes }
    }

    /// The lane of a query.
    pub fn lane_of(&self, terms: &Terms, priority: i32) -> LaneId {
        match self.by {
            By::Nothing => OPEN,
            By::Priority => LaneId(u32::from(priority < 0)),
            By::Name => terms.lane.as_deref().and_then(|name| self.named(name)).unwrap_or(OPEN),
        }
    }

    /// The lane of that name.
    pub fn named(&self, name: &str) -> Option<LaneId> {
        self.lanes.iter().position(|lane| lane.name == name).map(|at| LaneId(at as u32 + 1))
    }

    /// A lane; None for [`OPEN`].
    pub fn get(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.get((id.0 as usize).checked_sub(1)?)
    }

    /// How a lane is called.
    pub fn name(&self, id: LaneId) -> &str {
        self.get(id).map_or("default", |lane| &lane.name)
    }

    /// Every lane, that of those without another first.
    pub fn ids(&self) -> impl Iterator<Item = LaneId> + use<> {
        (0..=self.lanes.len() as u32).map(LaneId)
    }

    /// How many queries of a lane may run at once, where `total` may in all.
    pub fn limit(&self, id: LaneId, total: u32) -> u32 {
        self.get(id).and_then(|lane| lane.limit).map_or(u32::MAX, |limit| limit.of(total))
    }

    /// Up to how many running ones a lane's queries go first.
    pub fn guarantee(&self, id: LaneId, total: u32) -> u32 {
        self.get(id).and_then(|lane| lane.guarantee).map_or(0, |limit| limit.of(total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hilo_puts_what_is_below_zero_into_a_share_rounded_up() {
        let lanes = Lanes::hilo(20.0);
        let lane = |priority| lanes.lane_of(&Terms::default(), priority);
        assert_eq!([lane(-1), lane(0), lane(7)], [LaneId(1), OPEN, OPEN]);
        assert_eq!([0, 1, 5, 6, 11].map(|total| lanes.limit(LaneId(1), total)), [0, 1, 1, 2, 3]);
        assert_eq!(lanes.limit(OPEN, 3), u32::MAX);
        assert_eq!((lanes.name(LaneId(1)), lanes.name(OPEN)), ("low", "default"));
    }

    #[test]
    fn a_lane_that_does_not_exist_has_no_limit() {
        let half = Lane { name: "etl".into(), limit: Some(Limit::Percent(50.0)), ..Lane::default() };
        let two = Lane { name: "adhoc".into(), limit: Some(Limit::Count(2)), ..Lane::default() };
        let lanes = Lanes::manual(vec![half, two]);
        let lane = |name: &str| lanes.lane_of(&Terms { lane: Some(name.into()), ..Terms::default() }, -9);
        assert_eq!([lane("etl"), lane("adhoc"), lane("elt")], [LaneId(1), LaneId(2), OPEN]);
        assert_eq!(lanes.lane_of(&Terms::default(), -9), OPEN);
        assert_eq!((lanes.limit(LaneId(1), 5), lanes.limit(LaneId(2), 5)), (3, 2));
        assert_eq!(lanes.ids().count(), 3);
    }
}
