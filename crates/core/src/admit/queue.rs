//! The queries that wait, in an order that is fair on three levels: lanes, classes, users.
//!
//! ```text
//!   lane ─┬─ class ─┬─ user: first come, first served
//!         │         └─ user: …                             of users, and of classes, whoever has used least for its share
//!         └─ class ─── user                                goes first: the least key
//! ```
//!
//! Each level keeps its members in the order of their keys, so that the next query is found by looking at one member of each
//! lane, and everything else costs a logarithm. Keys change only where someone is charged (see [`super::usage`]). Classes that
//! may run no more are left out of the order until they may.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::usage::{self, Accounts};
use crate::class::Class;
use crate::id::{ClassId, LaneId, QueryId, UserId};
use crate::time::{Span, Time};

/// In which order waiting queries run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// The oldest first.
    Fifo,
    /// Those whose class, and whose user within it, have used least for their share.
    Fair,
}

/// Where a query waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Spot {
    pub(crate) lane: LaneId,
    pub(crate) class: ClassId,
    pub(crate) user: UserId,
    /// Its place among all that ever came.
    pub(crate) seq: u64,
}

/// A query that waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiter {
    pub(crate) query: QueryId,
    /// log₂ of its weight.
    pub(crate) weight: f64,
    /// Since when it waits.
    pub(crate) since: Time,
}

/// The least goes first; of equals the oldest.
type Key = (i64, u64);

/// What keys are made from.
#[derive(Clone, Copy)]
pub(crate) struct Scoring<'a> {
    pub(crate) order: Order,
    pub(crate) half_life: Span,
    pub(crate) classes: &'a [Class],
    pub(crate) accounts: &'a Accounts,
}

/// All queries that wait for their turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Queues {
    lanes: BTreeMap<LaneId, LaneQueue>,
    /// In which lanes something of a class waits.
    lanes_of: BTreeSet<(ClassId, LaneId)>,
    /// Classes that may run no more for now.
    blocked: BTreeSet<ClassId>,
    len: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct LaneQueue {
    classes: BTreeMap<ClassId, ClassQueue>,
    /// Classes that are not blocked.
    order: BTreeSet<(Key, ClassId)>,
    /// Classes by how many wait of the user of whom most do.
    longest: BTreeSet<(usize, ClassId)>,
    len: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ClassQueue {
    users: BTreeMap<UserId, UserQueue>,
    order: BTreeSet<(Key, UserId)>,
    /// Users by how many of theirs wait.
    lengths: BTreeSet<(usize, UserId)>,
    len: usize,
    /// The score of one who had used nothing when the first of those that wait came.
    floor: f64,
    key: Key,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct UserQueue {
    waiting: BTreeMap<u64, Waiter>,
    floor: f64,
    key: Key,
}

impl Scoring<'_> {
    fn floor(&self, now: Time) -> f64 {
        usage::floor(now, self.half_life)
    }

    /// The key of a user whose oldest query that is.
    fn of_user(&self, (class, user): (ClassId, UserId), floor: f64, (seq, head): (u64, &Waiter)) -> Key {
        if self.order == Order::Fifo {
            return (0, seq);
        }
        let uses = self.classes.get(class.0 as usize).map_or(1.0, |class| class.terms.weight.used);
        let score = match uses {
            // Age alone: or what weighs little would wait for ever.
            0.0 => self.floor(head.since),
            uses => uses * self.accounts.user_score(class, user, self.half_life).max(floor),
        };
        (fixed(score - head.weight), seq)
    }

    /// The key of a class, the first user of which has that key.
    fn of_class(&self, class: ClassId, floor: f64, first: Key) -> Key {
        if self.order == Order::Fifo {
            return first;
        }
        let share = self.classes.get(class.0 as usize).map_or(1.0, |class| class.terms.share);
        let score = self.accounts.class_score(class, self.half_life).max(floor);
        (fixed(score - usage::log2(share.max(f64::MIN_POSITIVE))), first.1)
    }
}

/// Which queries may give way to one that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// Any.
    All,
    /// Those of a lane.
    Lane(LaneId),
    /// Those of a class.
    Class(ClassId),
}

/// To a millionth, so that it has an order. What is no number, or beyond all measure, comes last or first.
fn fixed(score: f64) -> i64 {
    (score * 1_048_576.0) as i64
}

impl Queues {
    /// A query waits from now on, or again.
    pub(crate) fn push(&mut self, spot: Spot, waiter: Waiter, scoring: Scoring<'_>) {
        self.touch(spot, Some(waiter.since), scoring, |queue| queue.insert(spot.seq, waiter).is_none());
    }

    /// A query waits no longer; false if it did not.
    pub(crate) fn remove(&mut self, spot: Spot, scoring: Scoring<'_>) -> bool {
        self.touch(spot, None, scoring, |queue| queue.remove(&spot.seq).is_some())
    }

    /// Someone was charged: its keys are others.
    pub(crate) fn rescore(&mut self, class: ClassId, user: UserId, scoring: Scoring<'_>) {
        for lane in self.lanes_of(class).collect::<Vec<_>>() {
            self.touch(Spot { lane, class, user, seq: 0 }, None, scoring, |_| false);
        }
    }

    /// A class may run no more, or may again.
    pub(crate) fn block(&mut self, class: ClassId, blocked: bool) {
        let changed = if blocked { self.blocked.insert(class) } else { self.blocked.remove(&class) };
        if !changed {
            return;
        }
        for lane in self.lanes_of(class).collect::<Vec<_>>() {
            let Some(lane) = self.lanes.get_mut(&lane) else { continue };
            let Some(queue) = lane.classes.get(&class) else { continue };
            match blocked {
                true => lane.order.remove(&(queue.key, class)),
                false => lane.order.insert((queue.key, class)),
            };
        }
    }

    /// True if a class may run no more.
    pub(crate) fn is_blocked(&self, class: ClassId) -> bool {
        self.blocked.contains(&class)
    }

    /// Changes the waiting queries of one user and puts everything above into its new order. Without `since`, nothing happens
    /// where nobody waits.
    fn touch(
        &mut self,
        spot: Spot,
        since: Option<Time>,
        scoring: Scoring<'_>,
        change: impl FnOnce(&mut BTreeMap<u64, Waiter>) -> bool,
    ) -> bool {
        let Spot { lane: lane_id, class: class_id, user: user_id, .. } = spot;
        let floor = since.map(|since| scoring.floor(since));
        if floor.is_none() && !self.has(spot) && !self.has_class(lane_id, class_id) {
            return false;
        }
        let lane = self.lanes.entry(lane_id).or_default();
        let class = lane.classes.entry(class_id).or_insert_with(|| ClassQueue::new(floor.unwrap_or(0.0)));
        lane.order.remove(&(class.key, class_id));
        let (before, longest_before) = (class.len, class.longest());
        let changed = class.touch((class_id, user_id), floor, scoring, change);
        let more = class.len as isize - before as isize;
        lane.len = lane.len.saturating_add_signed(more);
        self.len = self.len.saturating_add_signed(more);
        let longest = class.longest();
        if longest != longest_before {
            lane.longest.remove(&(longest_before, class_id));
            lane.longest.insert((longest, class_id));
        }
        if before == 0 {
            self.lanes_of.insert((class_id, lane_id));
        }
        match class.order.first() {
            None => {
                lane.classes.remove(&class_id);
                lane.longest.remove(&(0, class_id));
                self.lanes_of.remove(&(class_id, lane_id));
            }
            Some((first, _)) => {
                class.key = scoring.of_class(class_id, class.floor, *first);
                if !self.blocked.contains(&class_id) {
                    lane.order.insert((class.key, class_id));
                }
            }
        }
        if lane.classes.is_empty() {
            self.lanes.remove(&lane_id);
        }
        changed
    }

    /// The lanes in which something of a class waits.
    fn lanes_of(&self, class: ClassId) -> impl Iterator<Item = LaneId> {
        self.lanes_of.range((class, LaneId(0))..=(class, LaneId(u32::MAX))).map(|(_, lane)| *lane)
    }

    fn has(&self, spot: Spot) -> bool {
        let class = self.lanes.get(&spot.lane).and_then(|lane| lane.classes.get(&spot.class));
        class.is_some_and(|class| class.users.contains_key(&spot.user))
    }

    /// True if that query waits there.
    pub(crate) fn holds(&self, spot: Spot, query: QueryId) -> bool {
        let class = self.lanes.get(&spot.lane).and_then(|lane| lane.classes.get(&spot.class));
        let user = class.and_then(|class| class.users.get(&spot.user));
        user.and_then(|user| user.waiting.get(&spot.seq)).is_some_and(|waiter| waiter.query == query)
    }

    fn has_class(&self, lane: LaneId, class: ClassId) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| lane.classes.contains_key(&class))
    }

    /// Lanes in which something waits that its class lets run, and the key of what is next there.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (LaneId, Key)> {
        self.lanes.iter().filter_map(|(id, lane)| Some((*id, lane.order.first()?.0)))
    }

    /// What is next in a lane.
    pub(crate) fn head(&self, lane: LaneId) -> Option<(Spot, QueryId)> {
        let queue = self.lanes.get(&lane)?;
        let (_, class) = queue.order.first()?;
        let of_class = queue.classes.get(class)?;
        let (_, user) = of_class.order.first()?;
        let (seq, waiter) = of_class.users.get(user)?.waiting.first_key_value()?;
        Some((Spot { lane, class: *class, user: *user, seq: *seq }, waiter.query))
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many wait in a lane.
    pub(crate) fn lane_len(&self, lane: LaneId) -> usize {
        self.lanes.get(&lane).map_or(0, |lane| lane.len)
    }

    /// How many of a class wait.
    pub(crate) fn class_len(&self, class: ClassId) -> usize {
        let queue = |lane| self.lanes.get(&lane).and_then(|lane: &LaneQueue| lane.classes.get(&class));
        self.lanes_of(class).filter_map(queue).map(|queue| queue.len).sum()
    }

    /// How many of a user's wait where one of its queries does, and how many users have some there.
    pub(crate) fn user_len(&self, spot: Spot) -> (usize, usize) {
        let class = self.lanes.get(&spot.lane).and_then(|lane| lane.classes.get(&spot.class));
        class.map_or((0, 0), |class| {
            (class.users.get(&spot.user).map_or(0, |queue| queue.waiting.len()), class.users.len())
        })
    }

    /// The newest query of the user of whom most wait, with their number, among some.
    pub(crate) fn longest(&self, among: Among) -> Option<(usize, Spot, QueryId)> {
        let of_class = |lane: LaneId, class: ClassId| {
            let (len, user) = self.lanes.get(&lane)?.classes.get(&class)?.lengths.last()?;
            Some((*len, lane, class, *user))
        };
        let of_lane = |lane: LaneId| of_class(lane, self.lanes.get(&lane)?.longest.last()?.1);
        let (len, lane, class, user) = match among {
            Among::All => self.lanes.keys().filter_map(|lane| of_lane(*lane)).max(),
            Among::Lane(lane) => of_lane(lane),
            Among::Class(class) => self.lanes_of(class).filter_map(|lane| of_class(lane, class)).max(),
        }?;
        let (seq, waiter) = self.lanes.get(&lane)?.classes.get(&class)?.users.get(&user)?.waiting.last_key_value()?;
        Some((len, Spot { lane, class, user, seq: *seq }, waiter.query))
    }

    /// All that wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Spot, QueryId)> {
        self.lanes.iter().flat_map(|(lane, queue)| {
            queue.classes.iter().flat_map(move |(class, of_class)| {
                of_class.users.iter().flat_map(move |(user, of_user)| {
                    of_user.waiting.iter().map(move |(seq, waiter)| {
                        (Spot { lane: *lane, class: *class, user: *user, seq: *seq }, waiter.query)
                    })
                })
            })
        })
    }
}

impl ClassQueue {
    fn new(floor: f64) -> ClassQueue {
        let (users, order, lengths) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        ClassQueue { users, order, lengths, len: 0, floor, key: (0, 0) }
    }

    /// How many wait of the user of whom most do.
    fn longest(&self) -> usize {
        self.lengths.last().map_or(0, |(len, _)| *len)
    }

    fn touch(
        &mut self,
        (class, user): (ClassId, UserId),
        floor: Option<f64>,
        scoring: Scoring<'_>,
        change: impl FnOnce(&mut BTreeMap<u64, Waiter>) -> bool,
    ) -> bool {
        if floor.is_none() && !self.users.contains_key(&user) {
            return false;
        }
        let queue = self.users.entry(user).or_insert_with(|| UserQueue {
            waiting: BTreeMap::new(),
            floor: floor.unwrap_or(0.0),
            key: (0, 0),
        });
        let before = queue.waiting.len();
        self.order.remove(&(queue.key, user));
        self.lengths.remove(&(before, user));
        let changed = change(&mut queue.waiting);
        let after = queue.waiting.len();
        self.len = self.len + after - before;
        match queue.waiting.first_key_value() {
            None => {
                self.users.remove(&user);
            }
            Some((seq, head)) => {
                queue.key = scoring.of_user((class, user), queue.floor, (*seq, head));
                self.order.insert((queue.key, user));
                self.lengths.insert((after, user));
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests;
