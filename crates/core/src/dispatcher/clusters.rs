//! The way of a cluster: it is wanted, starts, takes queries, drains, stops; or it is lost and comes back.

use super::{Dispatcher, Due, LiveState, RETIRED_KEPT, Retired};
use crate::cluster::{Cluster, Phase, Spec, Step};
use crate::event::{Abandoned, Command, LossCause, PinEnd};
use crate::id::{ClusterId, Generation, QueryId, SessionId};
use crate::time::{Span, Time};

impl Dispatcher {
    /// Starts a cluster, one of an offer under a name of its own; None if there are as many as may be, or a shutdown is wanted.
    pub(super) fn start_cluster(&mut self, spec: Spec, commands: &mut Vec<Command>) -> Option<ClusterId> {
        if self.clusters.len() >= self.policy.max_clusters as usize || self.shutdown.is_some() {
            self.makes_no_sense();
            return None;
        }
        let id = ClusterId(self.next_cluster);
        self.next_cluster += 1;
        let name = spec.offer.as_ref().map(|offer| format!("{offer}-{id}"));
        let cluster = Cluster::new(id, Spec { name: name.unwrap_or_else(|| spec.name.clone()), ..spec }, self.now);
        commands.push(start_command(&cluster));
        self.clusters.insert(id, cluster);
        self.set_phase_limit(id);
        Some(id)
    }

    pub(super) fn restart(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        if self.step(id, Step::Start)
            && let Some(cluster) = self.clusters.get(&id)
        {
            commands.push(start_command(cluster));
        }
    }

    pub(super) fn cluster_ready(&mut self, id: ClusterId, generation: Generation) {
        if !self.is_current(id, generation) || !self.step(id, Step::BecameReady) {
            self.makes_no_sense();
        }
    }

    pub(super) fn cluster_stopped(&mut self, id: ClusterId, generation: Generation, commands: &mut Vec<Command>) {
        if !self.is_current(id, generation) || !self.step(id, Step::Stopped) {
            return self.makes_no_sense();
        }
        self.retire(id, commands);
    }

    /// A cluster cannot be reached: nothing more goes there until its loss, or another start of it, is told.
    pub(super) fn cluster_down(&mut self, id: ClusterId, generation: Generation) {
        let current = self.is_current(id, generation);
        match self.clusters.get_mut(&id) {
            Some(cluster) if current && cluster.is_open() => cluster.down = true,
            _ => self.makes_no_sense(),
        }
    }

    pub(super) fn cluster_lost(
        &mut self,
        id: ClusterId,
        generation: Generation,
        cause: LossCause,
        commands: &mut Vec<Command>,
    ) {
        if !self.is_current(id, generation) || !self.step(id, Step::Lose) {
            return self.makes_no_sense();
        }
        self.cut_off(id, Abandoned::ClusterLost { cause }, PinEnd::ClusterLost { cause }, commands);
        if let Some(cluster) = self.clusters.get_mut(&id) {
            cluster.failed_by = Some(cause);
            cluster.stuck.clear();
            (cluster.ran_away, cluster.burns) = (false, false);
            cluster.judge(self.now);
        }
        self.retire(id, commands);
    }

    /// Something on a cluster goes on working for nobody. If the cluster can be killed it is replaced: its neighbours
    /// finish in peace, then it goes with what runs away there.
    pub(super) fn cluster_ran_away(&mut self, id: ClusterId, generation: Generation, commands: &mut Vec<Command>) {
        let current = self.is_current(id, generation);
        match self.clusters.get_mut(&id) {
            Some(cluster) if current && cluster.spec.killable && cluster.is_open() => {
                cluster.ran_away = true;
                cluster.judge(self.now);
            }
            _ => return self.makes_no_sense(),
        }
        self.replace(id, commands);
    }

    /// Something on a cluster works for nobody, or no longer does. It may be an instant or for ever: until that is known,
    /// queries go elsewhere if they can.
    pub(super) fn cluster_burns(&mut self, id: ClusterId, generation: Generation, burns: bool) {
        let current = self.is_current(id, generation);
        match self.clusters.get_mut(&id) {
            Some(cluster) if current && cluster.is_open() => {
                cluster.burns = burns;
                cluster.judge(self.now);
            }
            _ => self.makes_no_sense(),
        }
    }

    pub(super) fn drain(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        if !self.step(id, Step::Drain) {
            return;
        }
        let Some(cluster) = self.clusters.get(&id) else { return };
        if cluster.phase == Phase::Stopping {
            // It was still starting: there is nothing to finish.
            commands.push(Command::Stop { cluster: id, generation: cluster.generation, force: true });
        }
        self.stop_if_drained(id, commands);
        self.retire(id, commands);
    }

    /// Drains a cluster on which a query will not stop, and starts another like it.
    pub(super) fn replace(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        let Some(cluster) = self.clusters.get(&id) else { return };
        if cluster.phase != Phase::Ready {
            return;
        }
        let (spec, recalled) = (cluster.spec.clone(), self.placed_in_doubt(cluster));
        if self.clusters.len() < self.policy.max_clusters as usize {
            self.drain(id, commands);
            if self.shutdown.is_none() {
                self.start_cluster(spec, commands);
            }
        } else if let Some(cluster) = self.clusters.get_mut(&id) {
            // There is no room for both: the other one starts when this one is gone.
            cluster.leaves_a_place = true;
            self.drain(id, commands);
        }
        commands.extend(recalled.into_iter().map(|query| Command::Recall { query, cluster: id }));
    }

    /// What was placed on a cluster while something would not stop there: it may not have begun. Those from before finish
    /// in peace; what its session holds there, or what could not wait any longer, stays as well.
    fn placed_in_doubt(&self, cluster: &Cluster) -> Vec<QueryId> {
        let Some(since) = cluster.doubted.filter(|_| self.shutdown.is_none()) else { return Vec::new() };
        let may_go = |query: &QueryId| {
            self.live.get(query).is_some_and(|live| {
                let placed_since =
                    matches!(live.state, LiveState::Running { placed, cancel: None, .. } if placed > since);
                let hold = self.sessions.get(&live.query.session).filter(|hold| hold.query == Some(*query));
                let is_free = hold.is_some_and(|hold| hold.pin.is_none());
                placed_since && is_free && self.may_wait_until(*query) > self.now
            })
        };
        cluster.running.keys().copied().filter(may_go).collect()
    }

    /// Stops a draining cluster once nothing holds it, by force if something there does not stop.
    pub(super) fn stop_if_drained(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        let Some(cluster) = self.clusters.get(&id) else { return };
        if cluster.phase != Phase::Draining || !cluster.is_empty() {
            return;
        }
        let (generation, force) = (cluster.generation, cluster.is_in_doubt());
        self.step(id, Step::Empty);
        commands.push(Command::Stop { cluster: id, generation, force });
    }

    /// A draining cluster's time is over: what runs or is held there is cut off.
    pub(super) fn empty_by_force(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        let Some(cluster) = self.clusters.get(&id) else { return };
        if cluster.phase != Phase::Draining {
            return;
        }
        let (units, generation) = (cluster.spec.units, cluster.generation);
        self.step(id, Step::Empty);
        self.cut_off(id, Abandoned::DrainEnded { units }, PinEnd::DrainEnded, commands);
        commands.push(Command::Stop { cluster: id, generation, force: true });
    }

    /// Ends every query that runs on a cluster and every pin that holds it.
    fn cut_off(&mut self, id: ClusterId, because: Abandoned, pins: PinEnd, commands: &mut Vec<Command>) {
        let Some(cluster) = self.clusters.get(&id) else { return };
        let running: Vec<QueryId> = cluster.running.keys().copied().collect();
        let pinned: Vec<SessionId> = cluster.idle_pins.keys().copied().collect();
        for query in running {
            let state = self.live.get(&query).map(|live| live.state.clone());
            let cancelled = matches!(state, Some(LiveState::Running { cancel: Some(_), .. }));
            self.leave_seat(query, None, None);
            commands.push(Command::Abandon { query, because });
            self.end_lost(query, cancelled, commands);
        }
        for session in pinned {
            self.end_pin(session, pins, commands);
        }
    }

    pub(super) fn shut_down(&mut self, within: Span) {
        if self.shutdown.is_none() {
            let until = self.now + within;
            let ids: Vec<ClusterId> = self.clusters.keys().copied().collect();
            ids.iter().for_each(|id| self.clear_phase_limit(*id));
            self.shutdown = Some(until);
            ids.iter().for_each(|id| self.set_phase_limit(*id));
            self.timers.insert((until, Due::Shutdown));
        }
    }

    /// Once a shutdown is wanted and no query and no pin is left, every cluster goes.
    pub(super) fn stop_when_quiet(&mut self, commands: &mut Vec<Command>) {
        if self.shutdown.is_none() || !self.live.is_empty() || !self.sessions.is_empty() {
            return;
        }
        for id in self.clusters.keys().copied().collect::<Vec<_>>() {
            self.drain(id, commands);
        }
    }

    /// True if this is about the cluster's present start.
    fn is_current(&self, id: ClusterId, generation: Generation) -> bool {
        self.clusters.get(&id).is_some_and(|cluster| cluster.generation == generation)
    }

    /// Moves a cluster along its table and its timer with it; false if the table does not have that step.
    fn step(&mut self, id: ClusterId, step: Step) -> bool {
        self.clear_phase_limit(id);
        let stepped = self.clusters.get_mut(&id).is_some_and(|cluster| cluster.step(step, self.now));
        self.set_phase_limit(id);
        if stepped && step != Step::Drain {
            self.follow_cluster(id);
        }
        stepped
    }

    pub(super) fn clear_phase_limit(&mut self, id: ClusterId) {
        if let Some(limit) = self.phase_limit_of(id) {
            self.timers.remove(&(limit, Due::PhaseLimit(id)));
        }
    }

    pub(super) fn set_phase_limit(&mut self, id: ClusterId) {
        if let Some(limit) = self.phase_limit_of(id) {
            self.timers.insert((limit, Due::PhaseLimit(id)));
        }
    }

    /// Until when a cluster may stay in its phase.
    pub(crate) fn phase_limit_of(&self, id: ClusterId) -> Option<Time> {
        let cluster = self.clusters.get(&id)?;
        let limit = match cluster.phase {
            Phase::Starting => self.policy.start_limit,
            Phase::Draining => self.policy.drain_limit,
            // One that has not stopped may still be paid for: it is not forgotten before the gateway has to end.
            Phase::Stopping => return self.shutdown.map(|until| until.max(cluster.since + self.policy.drain_limit)),
            Phase::Failed => cluster.retry_after(self.policy.retry_first, self.policy.retry_most),
            Phase::Ready | Phase::Gone => return None,
        };
        Some(cluster.since + limit)
    }

    /// Forgets a cluster that is gone, but for its cost and a last look at it.
    fn retire(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        if self.clusters.get(&id).is_none_or(|cluster| cluster.phase != Phase::Gone) {
            return;
        }
        if let Some(cluster) = self.clusters.remove(&id) {
            let cost = cluster.cost(self.now);
            if cluster.leaves_a_place && self.shutdown.is_none() {
                self.start_cluster(cluster.spec.clone(), commands);
            }
            self.retired_cost += cost;
            self.retired.push_back(Retired { cluster, cost });
            while self.retired.len() > RETIRED_KEPT {
                self.retired.pop_front();
            }
        }
    }
}

fn start_command(cluster: &Cluster) -> Command {
    Command::Start { cluster: cluster.id, generation: cluster.generation, spec: cluster.spec.clone() }
}
