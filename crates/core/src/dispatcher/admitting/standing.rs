//! Where a query stands that waits: why, behind how many, for how long still; and who is refused because of that.
//!
//! What is told to a client that waits, what the views show and what refusals say come from here, so that they agree. How long it
//! takes is known by the pace of the lane: how many of it have ended lately while others waited. Where nobody has waited lately
//! nothing is known of it, nothing is foretold, and nobody is refused for being late anyway. Where turns are fair, what comes later may go first; so
//! the places told are the worst that there can be as things are, had everyone used as much.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Dispatcher, LiveState};
use crate::admit::queue::{Among, Order, Spot};
use crate::class;
use crate::cluster::Seat;
use crate::event::{Command, Full, Refusal};
use crate::id::{LaneId, QueryId};
use crate::time::{Span, Time};

/// Over how long it is known how many queries of a lane end: half of what counts is newer than this.
const RATE_HALF_LIFE: Span = Span::from_secs(60);

/// Why a query waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitsFor {
    /// As many of its class run as may.
    Class,
    /// As many of its lane run as may.
    Lane,
    /// As many run in all as may.
    Gateway,
    /// No cluster has room for it.
    Cluster,
    /// Others come before it.
    Turn,
}

impl WaitsFor {
    /// The name that views use.
    pub const fn name(self) -> &'static str {
        match self {
            WaitsFor::Class => "class",
            WaitsFor::Lane => "lane",
            WaitsFor::Gateway => "gateway",
            WaitsFor::Cluster => "cluster",
            WaitsFor::Turn => "turn",
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitsFor::Class => "as many of its class run as may",
            WaitsFor::Lane => "as many of its lane run as may",
            WaitsFor::Gateway => "as many queries run as may",
            WaitsFor::Cluster => "no cluster that is ready has room for it",
            WaitsFor::Turn => "others come before it",
        })
    }
}

/// Where a query that waits stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Why it waits.
    pub because: WaitsFor,
    /// How many of its lane come before it: at most, where turns are fair.
    pub ahead: u32,
    /// How long that takes at the pace of the last minutes; None if nothing of its lane has ended lately while others waited.
    pub expected: Option<Span>,
}

/// How fast a lane gets on: how many of it have ended lately while others of it waited, and for how long others did.
///
/// Time in which nobody waited says nothing: what ends then is as much as comes, not as much as could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    ended: f64,
    /// Seconds.
    waited: f64,
    at: Time,
    /// Some of it wait.
    waiting: bool,
}

impl Pace {
    /// By now: half of what was counts no more.
    fn by(self, now: Time) -> Pace {
        let kept = crate::math::pow(0.5, now.since(self.at).secs_f64() / RATE_HALF_LIFE.secs_f64());
        let more = if self.waiting { (1.0 - kept) * RATE_HALF_LIFE.secs_f64() / std::f64::consts::LN_2 } else { 0.0 };
        Pace { ended: self.ended * kept, waited: self.waited * kept + more, at: self.at.max(now), ..self }
    }

    /// One has ended.
    pub(super) fn note(&mut self, now: Time) {
        *self = self.by(now);
        self.ended += f64::from(u8::from(self.waiting));
    }

    /// Some wait from now on, or none.
    pub(super) fn follow(&mut self, now: Time, waiting: bool) {
        if self.waiting != waiting {
            *self = Pace { waiting, ..self.by(now) };
        }
    }

    /// True if it believes that some wait.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// How long it takes until so many have ended; None if none has lately while others waited.
    fn until(&self, now: Time, queries: usize) -> Option<Span> {
        let pace = self.by(now);
        (pace.ended > 0.5).then(|| Span::from_secs_f64(queries as f64 * pace.waited / pace.ended))
    }
}

impl Dispatcher {
    /// How long it takes until so many queries of a lane have had their turn.
    pub(crate) fn expected_wait(&self, lane: LaneId, ahead: u32) -> Option<Span> {
        self.paces.get(lane.0 as usize)?.until(self.now, ahead as usize + 1)
    }

    /// How many of its lane come before one that waits, where it has come just now: at most, where turns are fair. What a
    /// cluster has turned away comes before all that none has.
    fn ahead_of_newest(&self, id: QueryId) -> u32 {
        let Some(spot) = self.spot(id) else { return 0 };
        if self.again.contains_key(&spot.seq) {
            return self.again.range(..spot.seq).count() as u32;
        }
        let others = self.queues.lane_len(spot.lane).saturating_sub(1);
        let (own, users) = self.queues.user_len(spot);
        match self.policy.order {
            Order::Fair => others.min((own * users).saturating_sub(1)) as u32,
            Order::Fifo => others as u32,
        }
    }

    /// Where a query stands that has come just now; None if it does not wait.
    pub fn queued(&self, id: QueryId) -> Option<Queued> {
        let live = self.live.get(&id).filter(|live| matches!(live.state, LiveState::Waiting { .. }))?;
        Some(match live.query.class == class::CONTROL {
            true => self.stands(id, None, self.control.len().saturating_sub(1)),
            false => self.stands(id, Some(live.admission.lane), self.ahead_of_newest(id) as usize),
        })
    }

    /// Where a query stands behind so many; those of no lane have no pace that is known.
    fn stands(&self, id: QueryId, lane: Option<LaneId>, ahead: usize) -> Queued {
        let (because, ahead) = (self.waits_for(id).unwrap_or(WaitsFor::Cluster), ahead as u32);
        Queued { because, ahead, expected: lane.and_then(|lane| self.expected_wait(lane, ahead)) }
    }

    /// Where every query stands that waits.
    pub(crate) fn queued_all(&self) -> BTreeMap<QueryId, Queued> {
        let mut all = BTreeMap::new();
        all.extend(self.control.values().enumerate().map(|(ahead, id)| (*id, self.stands(*id, None, ahead))));
        all.extend(self.again.values().enumerate().map(|(ahead, id)| {
            let lane = self.live.get(id).map(|live| live.admission.lane);
            (*id, self.stands(*id, lane, ahead))
        }));
        let mut places: Vec<(Spot, QueryId)> = self.queues.iter().collect();
        if self.policy.order == Order::Fifo {
            places.sort_by_key(|(spot, _)| (spot.lane, spot.seq));
        }
        let (mut before, mut in_group) = (None, 0);
        for (spot, id) in places {
            let group = match self.policy.order {
                Order::Fifo => (spot.lane, None),
                Order::Fair => (spot.lane, Some((spot.class, spot.user))),
            };
            in_group = if before == Some(group) { in_group + 1 } else { 0 };
            before = Some(group);
            let ahead = match self.policy.order {
                Order::Fifo => in_group,
                Order::Fair => {
                    let users = self.queues.user_len(spot).1;
                    self.queues.lane_len(spot.lane).min((in_group + 1) * users).saturating_sub(1)
                }
            };
            all.insert(id, self.stands(id, Some(spot.lane), ahead));
        }
        all
    }

    /// Why a waiting query does.
    pub(crate) fn waits_for(&self, id: QueryId) -> Option<WaitsFor> {
        let live = self.live.get(&id)?;
        let (class, lane, total) = (live.query.class, live.admission.lane, self.total());
        let any_room = self.clusters.values().any(|cluster| self.has_room(cluster, Seat::Slot));
        Some(if class == class::CONTROL {
            WaitsFor::Cluster
        } else if self.is_class_full(class) {
            WaitsFor::Class
        } else if self.counts.lane(lane) >= self.policy.lanes.limit(lane, total) {
            WaitsFor::Lane
        } else if self.is_gateway_full() {
            WaitsFor::Gateway
        } else if any_room && !self.again.contains_key(&live.seq) {
            WaitsFor::Turn
        } else {
            WaitsFor::Cluster
        })
    }

    /// Refuses a query that has come and waits, if it may not; or, where turns are fair, the newest of someone of whom more wait.
    pub(in crate::dispatcher) fn refuse_what_is_too_much(&mut self, id: QueryId, commands: &mut Vec<Command>) {
        let Some(spot) = self.spot(id) else { return };
        let Some((full, limit)) = self.too_much(spot) else { return };
        let own = self.queues.user_len(spot).0;
        let longest = match self.policy.order {
            Order::Fifo => None,
            Order::Fair => self.queues.longest(match full {
                Full::Class(class) => Among::Class(class),
                Full::Lane(lane) => Among::Lane(lane),
                Full::Gateway => Among::All,
            }),
        };
        match longest.filter(|(len, ..)| *len > own) {
            Some((_, spot, newest)) => self.refuse(newest, self.full(full, spot, newest, limit), commands),
            None => self.refuse(id, self.full(full, spot, id, limit), commands),
        }
    }

    /// That a query is refused which waits there, since something is full.
    fn full(&self, of: Full, spot: Spot, id: QueryId, limit: u32) -> Refusal {
        let wait = self.expected_wait(spot.lane, self.ahead_of_newest(id));
        Refusal::Full { of, lane: spot.lane, limit, wait }
    }

    /// What is full with this one, and how many may wait there, if anything is.
    fn too_much(&self, spot: Spot) -> Option<(Full, u32)> {
        let of_class = self.terms(spot.class).and_then(|terms| terms.max_queued);
        let of_lane = self.policy.lanes.get(spot.lane).and_then(|lane| lane.max_queued);
        match (of_class, of_lane) {
            (Some(limit), _) if self.queues.class_len(spot.class) > limit as usize => {
                Some((Full::Class(spot.class), limit))
            }
            (_, Some(limit)) if self.queues.lane_len(spot.lane) > limit as usize => {
                Some((Full::Lane(spot.lane), limit))
            }
            _ if self.is_queue_over(0) => Some((Full::Gateway, self.policy.max_waiting)),
            _ => None,
        }
    }

    /// True if with so many more there would be more that wait than may.
    pub(super) fn is_queue_over(&self, more: usize) -> bool {
        self.queues.len() + self.again.len() + more > self.policy.max_waiting as usize
    }

    /// Refuses a query that waits and would be late anyway, if its class wants that. What it has waited already counts.
    pub(in crate::dispatcher) fn refuse_if_late_anyway(&mut self, id: QueryId, commands: &mut Vec<Command>) {
        let Some(live) = self.live.get(&id) else { return };
        let wants = self.terms(live.query.class).is_some_and(|terms| terms.refuse_late);
        let (Some(slo), true, lane) = (live.query.slo, wants, live.admission.lane) else { return };
        let (query, waited) = (live.query.clone(), self.now.since(live.arrived));
        let Some(more) = self.expected_wait(lane, self.ahead_of_newest(id)) else { return };
        let wait = waited + more;
        let takes = self.forecast(&query).map_or(Span::ZERO, |forecast| forecast.latency);
        if wait + takes > slo {
            self.refuse(id, Refusal::TooLate { lane, wait, takes, slo }, commands);
        }
    }
}
