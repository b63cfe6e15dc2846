//! The way of a query: it arrives, waits, is placed, and ends exactly once.

use super::{CancelSent, Decision, Dispatcher, Due, Hold, Live, LiveState, Pin, seat_of};
use crate::admit::lanes::OPEN;
use crate::class;
use crate::cluster::{Cluster, Phase, Seat};
use crate::event::{Abandoned, Command, Full, LossCause, Outcome, PinEnd, Refusal};
use crate::id::{ClusterId, QueryId, SessionId};
use crate::query::{Ended, Query, SqlState, Status, violated};
use crate::route::{Alternative, Candidate, Router, Why};
use crate::time::Span;

/// What an ended query leaves behind besides its times.
#[derive(Default)]
struct Traces {
    sqlstate: Option<SqlState>,
    rows: u64,
    bytes: u64,
    /// How long it waited for its client.
    blocked: Span,
}

/// What a query is placed on.
struct Grounds {
    why: Why,
    candidates: Vec<Candidate>,
    instead: Option<Alternative>,
}

impl Dispatcher {
    pub(super) fn arrived(&mut self, mut query: Query, commands: &mut Vec<Command>) {
        if self.live.contains_key(&query.id) {
            return self.makes_no_sense();
        }
        if query.class.0 as usize >= self.policy.classes.len() {
            query.class = class::DEFAULT;
        }
        let (id, seat) = (query.id, seat_of(query.class));
        let hold = self.sessions.entry(query.session).or_default();
        let (pin, busy) = (hold.pin, hold.query.is_some());
        if !busy {
            hold.query = Some(id);
        }
        self.scale_arrived(&query);
        self.enter(query);
        if busy {
            self.refuse(id, Refusal::NotItsTurn, commands);
        } else if let Some(pin) = pin {
            // It may hold locks that running queries want: it is not queued again.
            let grounds = Grounds { why: Why::Pinned, candidates: Vec::new(), instead: None };
            self.place(id, pin.cluster, grounds, commands);
        } else if self.shutdown.is_some() {
            self.refuse(id, Refusal::ShuttingDown, commands);
        } else {
            let none_idle = self.finds_none_idle(id);
            let placed = self.goes_at_once(id, seat, commands);
            if !placed {
                self.wait(id, false);
                self.place_waiting(commands);
            }
            if none_idle {
                self.none_is_idle(commands);
            }
            if !placed {
                self.scale_from_nothing(commands);
                self.refuse_if_it_cannot_wait(id, seat, commands);
            }
        }
    }

    /// Places a query that has come where nothing waits and nothing is full. It is its turn, so it need not queue for that:
    /// most queries of most gateways take this way.
    fn goes_at_once(&mut self, id: QueryId, seat: Seat, commands: &mut Vec<Command>) -> bool {
        let nothing_waits = self.control.is_empty() && self.again.is_empty() && self.queues.len() == 0;
        seat == Seat::Slot && nothing_waits && self.may_run(id) && self.place_if_there_is_room(id, commands)
    }

    /// Makes the query live. It is in no queue yet.
    fn enter(&mut self, query: Query) {
        let (id, seq) = (query.id, self.next_seq);
        self.next_seq += 1;
        let admission = self.admission(&query);
        let (state, tried, lost) = (LiveState::Waiting { until: self.now }, Vec::new(), false);
        self.live.insert(id, Live { query, arrived: self.now, seq, state, tried, lost, expected: None, admission });
    }

    /// Has a live query wait: in its class's queue, or, if a cluster has turned it away, before all of those.
    fn wait(&mut self, id: QueryId, again: bool) {
        let until = self.may_wait_until(id);
        let Some(live) = self.live.get_mut(&id) else { return };
        live.state = LiveState::Waiting { until };
        let seq = live.seq;
        match seat_of(live.query.class) {
            Seat::Control => drop(self.control.insert(seq, id)),
            Seat::Slot if again || self.is_for_writers(id) => drop(self.again.insert(seq, id)),
            Seat::Slot => self.queue(id),
        }
        self.timers.insert((until, Due::WaitLimit(id)));
    }

    /// All queries that wait.
    pub(super) fn waiting(&self) -> Vec<QueryId> {
        let mut waiting: Vec<QueryId> = self.control.values().chain(self.again.values()).copied().collect();
        waiting.extend(self.queues.iter().map(|(_, query)| query));
        waiting.sort_by_key(|id| self.live.get(id).map(|live| (seat_of(live.query.class) as usize, live.seq)));
        waiting
    }

    fn refuse_if_it_cannot_wait(&mut self, id: QueryId, seat: Seat, commands: &mut Vec<Command>) {
        let Some(live) = self.live.get(&id) else { return };
        if !matches!(live.state, LiveState::Waiting { .. }) {
            return;
        }
        let limit = self.policy.max_waiting;
        if !self.has_hope(live) {
            let tried = live.tried.len() as u32;
            let because = if tried == 0 { Refusal::NoCluster } else { Refusal::NoClusterCouldRun { tried } };
            self.refuse(id, because, commands);
        } else if seat == Seat::Slot {
            // One that goes anyway takes nobody's place.
            self.refuse_if_late_anyway(id, commands);
            self.refuse_what_is_too_much(id, commands);
        } else if self.control.len() > limit as usize {
            self.refuse(id, Refusal::Full { of: Full::Gateway, lane: OPEN, limit, wait: None }, commands);
        }
    }

    /// Refuses whatever waits once no cluster is there, nor is one coming: the last one was drained, say.
    pub(super) fn refuse_without_hope(&mut self, commands: &mut Vec<Command>) {
        let waits = self.control.len() + self.again.len() + self.queues.len() > 0;
        if !waits || self.is_any_coming() {
            return;
        }
        for query in self.waiting() {
            self.refuse(query, Refusal::NoCluster, commands);
        }
    }

    /// True if a cluster that has not turned the query away is there or will be.
    fn has_hope(&self, live: &Live) -> bool {
        let for_writers = self.goes_to_writers(live);
        self.clusters.values().any(|cluster| {
            let turned_away = live.tried.contains(&(cluster.id, cluster.generation));
            if for_writers && !cluster.spec.writer {
                return false;
            }
            match cluster.phase {
                // It comes back; but one that was lost is tried at once or not at all.
                Phase::Ready if cluster.down => !live.lost,
                Phase::Failed => !live.lost,
                Phase::Starting | Phase::Ready => !turned_away,
                Phase::Draining | Phase::Stopping | Phase::Gone => cluster.leaves_a_place,
            }
        })
    }

    /// Places waiting queries while there is room: control queries, then those that a cluster has turned away, which may have
    /// run already, then whoever's turn it is.
    pub(super) fn place_waiting(&mut self, commands: &mut Vec<Command>) {
        let mut after = 0;
        while let Some((&seq, &id)) = self.control.range(after..).next() {
            after = seq + 1;
            let Some(live) = self.live.get(&id) else { continue };
            let (fresh, candidates) = (live.tried.is_empty(), self.open_for(live, Seat::Control));
            match Router::choose_control(&candidates) {
                Some((cluster, why)) => self.place(id, cluster, Grounds { why, candidates, instead: None }, commands),
                // No room anywhere; only a query that some cluster turned away may just be out of luck.
                None if fresh => break,
                None => {}
            }
        }
        if !self.again.is_empty() {
            self.place_again(commands);
        }
        while let Some(id) = self.next_in_turn()
            && self.place_if_there_is_room(id, commands)
        {}
    }

    fn place_again(&mut self, commands: &mut Vec<Command>) {
        let writers_have_room = self.writers().any(|cluster| self.has_room(cluster, Seat::Slot));
        for id in self.again.values().copied().collect::<Vec<_>>() {
            if (writers_have_room || !self.is_for_writers(id)) && self.may_run(id) {
                self.place_if_there_is_room(id, commands);
            }
        }
    }

    /// Places a query, if a cluster has room for it.
    fn place_if_there_is_room(&mut self, id: QueryId, commands: &mut Vec<Command>) -> bool {
        let Some(live) = self.live.get(&id) else { return false };
        let mut candidates = self.open_for(live, Seat::Slot);
        let Some((cluster, why, instead)) = self.route(id, &mut candidates) else { return false };
        self.place(id, cluster, Grounds { why, candidates, instead }, commands);
        true
    }

    /// Where a query goes, why, and what a policy on trial would have done.
    fn route(&mut self, id: QueryId, open: &mut [Candidate]) -> Option<(ClusterId, Why, Option<Alternative>)> {
        self.weigh(id, open);
        self.call_roll();
        let (cluster, why) = self.router.choose(self.policy.routes_by(), open, &self.roll)?;
        let on_trial = self.policy.routing_mode.watches();
        let instead = on_trial.then(|| self.trial.consider(self.policy.routing, (open, &self.roll), cluster)).flatten();
        Some((cluster, why, instead))
    }

    /// The ready clusters that have room for the query and have not turned it away, in the order of their ids; without
    /// those where something will not stop, which may keep others from beginning, unless there are no other ones.
    pub(super) fn open_for(&self, live: &Live, seat: Seat) -> Vec<Candidate> {
        let for_writers = self.goes_to_writers(live);
        let open = || {
            let may = self.clusters.values().filter(|cluster| !for_writers || cluster.spec.writer);
            let with_room = may.filter(|cluster| self.has_room(cluster, seat));
            with_room.filter(|cluster| !live.tried.contains(&(cluster.id, cluster.generation)))
        };
        let any_calm = open().any(|cluster| cluster.doubted.is_none());
        open()
            .filter(|cluster| !any_calm || cluster.doubted.is_none())
            .map(|cluster| Candidate {
                cluster: cluster.id,
                units: cluster.spec.units,
                outstanding: cluster.taken(seat),
                slots: cluster.spec.slots,
                awake: cluster.timer.awake(self.now),
                weighed: None,
            })
            .collect()
    }

    /// Clusters where what changes something has to run.
    fn writers(&self) -> impl Iterator<Item = &Cluster> {
        self.clusters.values().filter(|cluster| cluster.spec.writer)
    }

    /// True if a query has to run where things can be changed. It waits for that on its own, in the order of arrival: in a
    /// queue of those that can run anywhere it would hold them up.
    fn goes_to_writers(&self, live: &Live) -> bool {
        live.query.claim.writes && self.writers().next().is_some()
    }

    fn is_for_writers(&self, id: QueryId) -> bool {
        self.live.get(&id).is_some_and(|live| self.goes_to_writers(live))
    }

    /// Sends a waiting query to a cluster that has room for it, or that its session holds.
    fn place(&mut self, id: QueryId, to: ClusterId, grounds: Grounds, commands: &mut Vec<Command>) {
        self.leave_queue(id);
        let (Some(live), Some(cluster)) = (self.live.get_mut(&id), self.clusters.get_mut(&to)) else { return };
        live.state = LiveState::Running { cluster: to, placed: self.now, cancel: None };
        let session = live.query.session;
        let seat = cluster.idle_pins.remove(&session).unwrap_or(seat_of(live.query.class));
        cluster.enter(id, seat, self.now);
        let kept = self.sessions.get_mut(&session).and_then(|hold| hold.pin.as_mut()?.ticket.take());
        commands.push(Command::Run { query: id, cluster: to });
        self.expect(id, to, self.now);
        self.gets_ticket(id, to, kept);
        let Some(live) = self.live.get(&id) else { return };
        self.decisions.push_back(Decision {
            at: self.now,
            query: id,
            class: live.query.class,
            cluster: to,
            why: grounds.why,
            waited: self.now.since(live.arrived),
            predicted: live.expected.and_then(|expected| expected.predicted()),
            candidates: grounds.candidates,
            instead: grounds.instead,
        });
        while self.decisions.len() > self.policy.decisions_kept as usize {
            self.decisions.pop_front();
        }
        if let Some(pin) = self.sessions.get_mut(&session).and_then(|hold| hold.pin.as_mut())
            && let Some(at) = pin.idle_until.take()
        {
            self.timers.remove(&(at, Due::PinIdle(session)));
        }
    }

    /// Takes a query out of its queue, if it is in one.
    fn leave_queue(&mut self, id: QueryId) {
        if let Some(live) = self.live.get(&id)
            && let LiveState::Waiting { until } = live.state
        {
            let (class, seq) = (live.query.class, live.seq);
            self.timers.remove(&(until, Due::WaitLimit(id)));
            match seat_of(class) {
                Seat::Control => drop(self.control.remove(&seq)),
                Seat::Slot => self.unqueue(id),
            }
        }
    }

    pub(super) fn bounced(&mut self, id: QueryId, from: ClusterId, lost: bool, commands: &mut Vec<Command>) {
        let Some((session, seat, cancelled)) = self.running_on(id, from) else { return self.makes_no_sense() };
        let hold = self.sessions.get(&session).filter(|hold| hold.query == Some(id));
        let pinned = hold.is_some_and(|hold| hold.pin.is_some());
        self.leave_seat(id, None, None);
        self.forget_expected(id, from);
        if let Some(live) = self.live.get_mut(&id) {
            live.lost |= lost;
        }
        if cancelled {
            self.refuse(id, Refusal::Cancelled, commands);
        } else if pinned {
            // Its transaction was on that cluster and cannot go elsewhere.
            let because = Abandoned::ClusterLost { cause: LossCause::Unreachable };
            commands.push(Command::Abandon { query: id, because });
            self.end(id, Status::Lost, Traces::default(), commands);
        } else {
            self.wait_again(id, from);
            self.place_waiting(commands);
            self.refuse_if_it_cannot_wait(id, seat, commands);
        }
        self.stop_if_drained(from, commands);
    }

    /// Has a query wait again, in its old place, not to be sent to `tried` again.
    fn wait_again(&mut self, id: QueryId, tried: ClusterId) {
        let generation = self.clusters.get(&tried).map_or_else(Default::default, |cluster| cluster.generation);
        let Some(live) = self.live.get_mut(&id) else { return };
        live.tried.push((tried, generation));
        self.moved(id);
        self.wait(id, true);
    }

    /// Session, seat and whether it was cancelled, of a query that runs on that cluster.
    fn running_on(&self, id: QueryId, on: ClusterId) -> Option<(SessionId, Seat, bool)> {
        let live = self.live.get(&id)?;
        match live.state {
            LiveState::Running { cluster, cancel, .. } if cluster == on => {
                Some((live.query.session, seat_of(live.query.class), cancel.is_some()))
            }
            _ => None,
        }
    }

    pub(super) fn finished(
        &mut self,
        id: QueryId,
        (outcome, blocked): (Outcome, Span),
        pinned: bool,
        commands: &mut Vec<Command>,
    ) {
        let Some(LiveState::Running { cluster, cancel, .. }) = self.live.get(&id).map(|live| live.state.clone()) else {
            return self.makes_no_sense();
        };
        let cancelled = cancel.is_some();
        let (status, traces) = match outcome {
            Outcome::Finished { rows, bytes } => (Status::Finished, Traces { sqlstate: None, rows, bytes, blocked }),
            Outcome::Failed { sqlstate, rows, bytes } => {
                let status = if cancelled { Status::Cancelled } else { Status::Failed };
                (status, Traces { sqlstate: Some(sqlstate), rows, bytes, blocked })
            }
            Outcome::Lost if cancelled => (Status::Cancelled, Traces::default()),
            Outcome::Lost => (Status::Lost, Traces::default()),
        };
        let session = self.live.get(&id).map(|live| live.query.session);
        let held = session.filter(|_| pinned && outcome != Outcome::Lost);
        self.leave_seat(id, held, (status == Status::Finished).then_some(blocked));
        self.end(id, status, traces, commands);
        self.stop_if_drained(cluster, commands);
    }

    /// Frees the seat of a running query, or leaves it to its session, which then holds the cluster. `finished`: it has come
    /// to its end, having waited so long for its client.
    pub(super) fn leave_seat(&mut self, id: QueryId, pinned_by: Option<SessionId>, finished: Option<Span>) {
        self.settle_account(id, finished);
        let Some(live) = self.live.get_mut(&id) else { return };
        let LiveState::Running { cluster: on, cancel, .. } = live.state else { return };
        let (session, ticket) = (live.query.session, live.admission.ticket.take());
        if let Some(sent) = cancel {
            self.timers.remove(&(sent.grace_ends, Due::CancelGrace(id)));
            if let Some(cluster) = self.clusters.get_mut(&on) {
                cluster.cancelled -= 1;
                cluster.judge(self.now);
            }
        }
        // A session that has ended in the meantime holds nothing, even if another has come under its number.
        let mine = self.sessions.get(&session).is_some_and(|hold| hold.query == Some(id));
        let pinned_by = pinned_by.filter(|_| mine);
        if let Some(cluster) = self.clusters.get_mut(&on) {
            cluster.leave(id, pinned_by, self.now);
        }
        if let Some(ticket) = ticket.filter(|_| pinned_by.is_none()) {
            self.takes_ticket(ticket);
        }
        let Some(hold) = self.sessions.get_mut(&session).filter(|_| mine) else { return };
        match pinned_by {
            Some(session) => {
                let since = hold.pin.map_or(self.now, |pin| pin.since);
                let idle_until = self.now + self.policy.pin_idle;
                hold.pin = Some(Pin { cluster: on, since, idle_until: Some(idle_until), ticket });
                self.timers.insert((idle_until, Due::PinIdle(session)));
            }
            None => hold.pin = None,
        }
    }

    pub(super) fn cancel(&mut self, id: QueryId, commands: &mut Vec<Command>) {
        match self.live.get(&id).map(|live| live.state.clone()) {
            Some(LiveState::Waiting { .. }) => self.refuse(id, Refusal::Cancelled, commands),
            Some(LiveState::Running { cluster, .. }) => self.send_cancel(id, cluster, None, commands),
            // A cancel that comes too late is everyday life, not a fault.
            None => {}
        }
    }

    /// Has a cluster told to stop a query; `ran_for`: since that is as long as its class allows.
    pub(super) fn send_cancel(
        &mut self,
        id: QueryId,
        on: ClusterId,
        ran_for: Option<Span>,
        commands: &mut Vec<Command>,
    ) {
        let grace_ends = self.now + self.policy.cancel_grace;
        let Some(live) = self.live.get_mut(&id) else { return };
        if let LiveState::Running { cancel, .. } = &mut live.state {
            commands.push(Command::Cancel { query: id, cluster: on, ran_for });
            if cancel.is_none() {
                *cancel = Some(CancelSent { grace_ends });
                self.timers.insert((grace_ends, Due::CancelGrace(id)));
                if let Some(cluster) = self.clusters.get_mut(&on) {
                    cluster.cancelled += 1;
                    cluster.judge(self.now);
                }
            }
        }
    }

    /// A cancelled query has had its time. Its client is answered; its cluster, if it can be killed, is replaced, since
    /// the query may go on burning there for as long as it likes.
    pub(super) fn will_not_stop(&mut self, id: QueryId, commands: &mut Vec<Command>) {
        let Some(LiveState::Running { cluster: on, .. }) = self.live.get(&id).map(|live| live.state.clone()) else {
            return;
        };
        commands.push(Command::Abandon { query: id, because: Abandoned::WillNotStop });
        let killable = match self.clusters.get_mut(&on).filter(|cluster| cluster.spec.killable) {
            Some(cluster) => cluster.stuck.insert(id),
            None => false,
        };
        self.leave_seat(id, None, None);
        self.end(id, Status::Cancelled, Traces::default(), commands);
        if killable {
            self.replace(on, commands);
        }
        self.stop_if_drained(on, commands);
    }

    pub(super) fn session_ended(&mut self, session: SessionId, commands: &mut Vec<Command>) {
        let Some(Hold { query, .. }) = self.sessions.get(&session).cloned() else { return };
        let pinned_to = self.release_pin(session);
        self.sessions.remove(&session);
        match query.and_then(|id| self.live.get(&id)).map(|live| (live.query.id, live.state.clone())) {
            // Nobody is left to be told.
            Some((id, LiveState::Waiting { .. })) => self.end(id, Status::Cancelled, Traces::default(), commands),
            Some((id, LiveState::Running { cluster, .. })) => self.send_cancel(id, cluster, None, commands),
            None => {}
        }
        if let Some(cluster) = pinned_to {
            self.stop_if_drained(cluster, commands);
        }
    }

    /// Takes a session's cluster away between two queries.
    pub(super) fn end_pin(&mut self, session: SessionId, because: PinEnd, commands: &mut Vec<Command>) {
        if let Some(cluster) = self.release_pin(session) {
            commands.push(Command::EndPin { session, because });
            self.stop_if_drained(cluster, commands);
        }
    }

    /// Frees an idle pin's seat and says where it was.
    pub(super) fn release_pin(&mut self, session: SessionId) -> Option<ClusterId> {
        let hold = self.sessions.get_mut(&session)?;
        let pin = hold.pin.take()?;
        if hold.query.is_none() {
            self.sessions.remove(&session);
        }
        if let Some(at) = pin.idle_until {
            self.timers.remove(&(at, Due::PinIdle(session)));
        }
        if let Some(cluster) = self.clusters.get_mut(&pin.cluster) {
            cluster.idle_pins.remove(&session);
        }
        if let Some(ticket) = pin.ticket {
            self.takes_ticket(ticket);
        }
        Some(pin.cluster)
    }

    /// Ends a query that does not run, and tells its session why.
    pub(super) fn refuse(&mut self, id: QueryId, because: Refusal, commands: &mut Vec<Command>) {
        let lost = self.live.get(&id).is_some_and(|live| live.lost);
        let status = match because {
            Refusal::Cancelled => Status::Cancelled,
            Refusal::NoCluster | Refusal::NoClusterCouldRun { .. } if lost => Status::Lost,
            _ => Status::Refused,
        };
        commands.push(Command::Refuse { query: id, because });
        self.end(id, status, Traces::default(), commands);
    }

    /// Ends a query whose seat is free already, because its cluster did not outlive it.
    pub(super) fn end_lost(&mut self, id: QueryId, cancelled: bool, commands: &mut Vec<Command>) {
        self.end(id, if cancelled { Status::Cancelled } else { Status::Lost }, Traces::default(), commands);
    }

    /// The only way out: counts the query, has it written down and forgets it.
    fn end(&mut self, id: QueryId, status: Status, traces: Traces, commands: &mut Vec<Command>) {
        self.leave_queue(id);
        let Some(live) = self.live.remove(&id) else { return };
        self.learn(&live, status, traces.blocked);
        self.note_end(&live, status);
        let session = live.query.session;
        if let Some(hold) = self.sessions.get_mut(&session)
            && hold.query == Some(id)
        {
            hold.query = None;
            if hold.pin.is_none() {
                self.sessions.remove(&session);
            }
        }
        let (cluster, placed) = match live.state {
            LiveState::Waiting { .. } => (None, None),
            LiveState::Running { cluster, placed, .. } => {
                (self.clusters.get(&cluster).map(|cluster| (cluster.id, cluster.spec.units)), Some(placed))
            }
        };
        let slo = live.query.slo.filter(|_| live.query.class != class::CONTROL);
        // That its class cut it short is no choice of its client.
        let late = match status {
            Status::Cancelled if live.admission.cut_short => slo.map(|_| true),
            _ => violated(status, self.now.since(live.arrived) - traces.blocked, slo),
        };
        if let Some(tally) = self.tallies.get_mut(live.query.class.0 as usize) {
            tally.count(status, late);
        }
        self.scale_ended(live.arrived, late);
        commands.push(Command::Record(Box::new(Ended {
            predicted: live.expected.and_then(|expected| expected.predicted()),
            query: live.query,
            priority: live.admission.priority,
            lane: live.admission.lane,
            cluster,
            arrived: live.arrived,
            placed,
            ended: self.now,
            blocked: traces.blocked,
            status,
            sqlstate: traces.sqlstate,
            rows: traces.rows,
            bytes: traces.bytes,
            violated: late,
        })));
    }
}
