//! Queries that change their class or lane on the way: what runs for longer than its class allows, what turns out to be lighter
//! or heavier than was thought, and everything when the rules change.
//!
//! ```text
//!   runs ──(runtime cap)──▶ cancel │ cascade: runs on, counted in another class
//!                                  │ resubmit: the same, and is asked back ──Bounced──▶ waits in that class
//! ```
//!
//! A query that moves while it runs is counted in its new class and lane whether there is room or not: it runs already, and to
//! stop it would help nobody. Nothing new is admitted there until there is room again. The class that it came in stays
//! what history and its SLO go by, unless it waits anew.

use std::collections::BTreeSet;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::{Admission, Dispatcher, Due, LiveState};
use crate::admit::counts::Ticket;
use crate::admit::terms::Then;
use crate::class;
use crate::cluster::Phase;
use crate::event::Command;
use crate::fingerprint::Fingerprint;
use crate::id::{ClassId, ClusterId, QueryId};
use crate::statement::Kind;
use crate::time::Time;

/// How many that wait are looked at when one of their shape ends: it costs as many predictions.
const LOOKS: usize = 32;

/// Waiting queries of one shape whose priority goes by what is foreseen of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Foreseen {
    pub(super) waiting: BTreeSet<QueryId>,
    /// The one that was looked at last.
    looked_at: Option<QueryId>,
}

impl Foreseen {
    /// The next few, in turn: all of them have been looked at after as many ends as it takes.
    fn next(&mut self) -> Vec<QueryId> {
        let after = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let upto = self.looked_at.map_or(Bound::Excluded(QueryId(0)), Bound::Included);
        let rest = self.waiting.range((after, Bound::Unbounded)).chain(self.waiting.range((Bound::Unbounded, upto)));
        let next: Vec<QueryId> = rest.take(LOOKS).copied().collect();
        self.looked_at = next.last().copied();
        next
    }
}

impl Dispatcher {
    /// Queries of a shape have turned out to be lighter or heavier than was thought: those that wait move to the lane that they
    /// would be in if they came now, a few with each that ends.
    pub(super) fn move_lanes(&mut self, shape: Fingerprint) {
        let Some(foreseen) = self.foreseen.get_mut(&shape) else { return };
        for id in foreseen.next() {
            let Some(query) = self.live.get(&id).map(|live| live.query.clone()) else { continue };
            let found = self.admission(&query);
            let Some(live) = self.live.get(&id) else { continue };
            let same = (live.admission.priority, live.admission.lane) == (found.priority, found.lane);
            if same || self.again.contains_key(&live.seq) {
                continue;
            }
            self.unqueue(id);
            if let Some(live) = self.live.get_mut(&id) {
                live.admission = found;
            }
            self.queue(id);
        }
    }

    /// At `due`, a query had run for as long as what it counts as allows.
    pub(in crate::dispatcher) fn ran_too_long(&mut self, id: QueryId, due: Time, commands: &mut Vec<Command>) {
        let Some(live) = self.live.get_mut(&id) else { return };
        live.admission.cap_at = None;
        let (LiveState::Running { cluster, cancel: None, .. }, Some(ticket)) = (&live.state, live.admission.ticket)
        else {
            return;
        };
        let cluster = *cluster;
        let cap = self.terms(ticket.class).and_then(|terms| terms.cap.as_ref());
        let (then, runtime) = (cap.map(|cap| cap.then.clone()), cap.map(|cap| cap.runtime));
        let named = |name: &str| class::find(&self.policy.classes, name).filter(|found| *found != class::CONTROL);
        match then {
            None => {}
            Some(Then::Cancel) => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.admission.cut_short = true;
                }
                self.send_cancel(id, cluster, runtime, commands);
            }
            Some(Then::Cascade(name)) => {
                if let Some(to) = named(&name) {
                    self.cascade(id, to, due);
                }
            }
            Some(Then::Resubmit(name)) => {
                let Some(to) = named(&name) else { return };
                self.cascade(id, to, due);
                if self.may_come_back(id, cluster) {
                    if let Some(live) = self.live.get_mut(&id) {
                        live.admission.moves_to = Some(to);
                    }
                    commands.push(Command::Recall { query: id, cluster });
                }
            }
        }
    }

    /// True if a running query can be sent elsewhere: it only reads, holds nothing, and there is a place for it to wait, and a
    /// cluster to wait for that has not turned it away.
    fn may_come_back(&self, id: QueryId, from: ClusterId) -> bool {
        let Some(live) = self.live.get(&id) else { return false };
        let hold = self.sessions.get(&live.query.session).filter(|hold| hold.query == Some(id));
        let is_free = hold.is_some_and(|hold| hold.pin.is_none());
        let elsewhere = self.clusters.values().any(|other| {
            let comes = matches!(other.phase, Phase::Ready | Phase::Starting);
            other.id != from && comes && !live.tried.contains(&(other.id, other.generation))
        });
        live.query.kind == Kind::Select && is_free && elsewhere && self.shutdown.is_none() && !self.is_queue_over(1)
    }

    /// A running query counts as one of another class from now on, however many of that run; and may run for as long as that one
    /// says. A time that was over when the last one was, at `due`, is not looked at: or two classes might hand it to each other
    /// for ever.
    fn cascade(&mut self, id: QueryId, to: ClassId, due: Time) {
        let (Some(live), Some(terms)) = (self.live.get(&id), self.terms(to)) else { return };
        let LiveState::Running { placed, .. } = live.state else { return };
        let Some(before) = live.admission.ticket else { return };
        let priority = before.priority.min(terms.priority);
        let ticket = Ticket { class: to, lane: self.policy.lanes.lane_of(terms, priority), priority };
        let cap_at = self.cap_of(to).map(|runtime| placed + runtime).filter(|at| *at > due);
        self.takes_ticket(before);
        self.counts.enter(ticket);
        self.block_if_full(to);
        self.timers.extend(cap_at.map(|at| (at, Due::RuntimeCap(id))));
        if let Some(live) = self.live.get_mut(&id) {
            (live.admission.ticket, live.admission.cap_at) = (Some(ticket), cap_at);
        }
    }

    /// A query comes back from its cluster and waits again: in another class, if it was to move, and as if it came only now.
    pub(in crate::dispatcher) fn moved(&mut self, id: QueryId) {
        let Some(to) = self.live.get_mut(&id).and_then(|live| live.admission.moves_to.take()) else { return };
        let Some(mut query) = self.live.get(&id).map(|live| live.query.clone()) else { return };
        query.class = to;
        let admission = Admission { waits_since: Some(self.now), ..self.admission(&query) };
        if let Some(live) = self.live.get_mut(&id) {
            (live.query.class, live.admission) = (to, admission);
        }
    }

    /// The rules are others: all that wait are queued anew, and what runs counts as what it would be now, and may run for as
    /// long.
    pub(in crate::dispatcher) fn readmit(&mut self, renumbered: impl Fn(ClassId) -> ClassId) {
        let waiting: Vec<QueryId> = self.queues.iter().map(|(_, query)| query).collect();
        (self.queues, self.counts) = Default::default();
        self.foreseen.clear();
        self.accounts.renumber(self.now, self.policy.half_life, &renumbered);
        for id in self.live.keys().copied().collect::<Vec<_>>() {
            let Some(query) = self.live.get(&id).map(|live| live.query.clone()) else { continue };
            let found = self.admission(&query);
            let Some(kept) = self.live.get(&id).map(|live| live.admission.clone()) else { continue };
            let ticket = kept.ticket.map(|ticket| self.reissued(ticket, &renumbered));
            let moves_to = kept.moves_to.map(&renumbered);
            let Some(live) = self.live.get_mut(&id) else { continue };
            live.admission = Admission {
                priority: found.priority,
                lane: found.lane,
                weight: found.weight,
                ticket,
                moves_to,
                ..kept
            };
            self.counts_again(ticket);
            self.recap(id);
        }
        let sessions: Vec<_> = self.sessions.keys().copied().collect();
        for session in sessions {
            let kept = self.sessions.get(&session).and_then(|hold| hold.pin?.ticket);
            let ticket = kept.map(|ticket| self.reissued(ticket, &renumbered));
            if let Some(pin) = self.sessions.get_mut(&session).and_then(|hold| hold.pin.as_mut()) {
                pin.ticket = ticket;
            }
            self.counts_again(ticket);
        }
        waiting.into_iter().for_each(|id| self.queue(id));
        self.policy.lanes.ids().for_each(|lane| self.follow_pace(lane));
        self.block_all_full();
    }

    /// A ticket by the rules that there are now.
    fn reissued(&self, ticket: Ticket, renumbered: impl Fn(ClassId) -> ClassId) -> Ticket {
        let class = renumbered(ticket.class);
        let lane = self.terms(class).map(|terms| self.policy.lanes.lane_of(terms, ticket.priority));
        Ticket { class, lane: lane.unwrap_or_default(), ..ticket }
    }

    /// A running query may run for as long as the rules say now; if it has for longer already, its time is over.
    fn recap(&mut self, id: QueryId) {
        let Some(live) = self.live.get(&id) else { return };
        let LiveState::Running { placed, ref cancel, .. } = live.state else { return };
        let runtime = live.admission.ticket.filter(|_| cancel.is_none()).and_then(|ticket| self.cap_of(ticket.class));
        let (before, cap_at) = (live.admission.cap_at, runtime.map(|runtime| (placed + runtime).max(self.now)));
        if let Some(at) = before {
            self.timers.remove(&(at, Due::RuntimeCap(id)));
        }
        self.timers.extend(cap_at.map(|at| (at, Due::RuntimeCap(id))));
        if let Some(live) = self.live.get_mut(&id) {
            live.admission.cap_at = cap_at;
        }
    }

    fn counts_again(&mut self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.counts.enter(ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_each_end_the_next_few_are_looked_at_and_after_enough_all_have_been() {
        let mut foreseen = Foreseen { waiting: (0..70).map(QueryId).collect(), looked_at: None };
        let mut next = |gone: &[u64]| -> Vec<u64> {
            foreseen.waiting.retain(|id| !gone.contains(&id.0));
            foreseen.next().iter().map(|id| id.0).collect()
        };
        assert_eq!(next(&[]), (0..32).collect::<Vec<_>>());
        assert_eq!(next(&[31, 33]), [32].into_iter().chain(34..65).collect::<Vec<_>>());
        assert_eq!(next(&[]), (65..70).chain(0..27).collect::<Vec<_>>());
        assert_eq!(next(&(3..70).collect::<Vec<_>>()), [0, 1, 2], "each once");
    }
}
