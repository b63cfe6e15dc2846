//! Everything that happens because time passed: one enum, one ordered set.

use serde::{Deserialize, Serialize};

use super::{Dispatcher, LiveState, WaitsFor};
use crate::cluster::Phase;
use crate::event::{Command, LossCause, PinEnd, Refusal};
use crate::id::{ClusterId, QueryId, SessionId};
use crate::time::Time;

/// What a timer is for. Its owner holds the time that it is set to, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Due {
    /// A query has waited as long as one may.
    WaitLimit(QueryId),
    /// A cancelled query has had the time to stop.
    CancelGrace(QueryId),
    /// A pinned session has sent nothing for too long.
    PinIdle(SessionId),
    /// A cluster has been in its phase for as long as it may: starting or draining too long, stopping too long for a
    /// shutdown, failed long enough to be tried again.
    PhaseLimit(ClusterId),
    /// The time to shut down in is over.
    Shutdown,
    /// The fleet is to be looked at.
    Scale,
    /// A query has run for as long as its class allows.
    RuntimeCap(QueryId),
    /// A plan has something for this time.
    Plan,
}

impl Dispatcher {
    /// Fires the timers that are due, earliest first. Each is taken out before it fires, and what firing sets lies at
    /// least a millisecond ahead on every way round (see `Cluster::retry_after`) or at the end of time, so this ends.
    pub(super) fn fire_due(&mut self, commands: &mut Vec<Command>) {
        while let Some(&(at, due)) = self.timers.first()
            && at <= self.now
            && at < Time::MAX
        {
            self.timers.pop_first();
            match due {
                Due::WaitLimit(query) => self.waited_too_long(query, commands),
                Due::CancelGrace(query) => self.will_not_stop(query, commands),
                Due::PinIdle(session) => {
                    let limit = self.policy.pin_idle;
                    self.end_pin(session, PinEnd::Idle { limit }, commands);
                }
                Due::PhaseLimit(cluster) => self.phase_limit(cluster, commands),
                Due::Shutdown => self.shutdown_limit(commands),
                Due::Scale => self.scale_tick(),
                Due::Plan => self.plan_due(commands),
                Due::RuntimeCap(query) => self.ran_too_long(query, at, commands),
            }
        }
    }

    fn waited_too_long(&mut self, query: QueryId, commands: &mut Vec<Command>) {
        if let Some(live) = self.live.get(&query)
            && let LiveState::Waiting { until } = live.state
        {
            let limit = until.since(live.admission.waits_since.unwrap_or(live.arrived));
            let lane = live.admission.lane;
            let lacked = self.waits_for(query).unwrap_or(WaitsFor::Cluster);
            self.refuse(query, Refusal::WaitedTooLong { limit, lacked, lane }, commands);
        }
    }

    fn phase_limit(&mut self, id: ClusterId, commands: &mut Vec<Command>) {
        let Some(cluster) = self.clusters.get(&id) else { return };
        let generation = cluster.generation;
        match cluster.phase {
            Phase::Starting => {
                commands.push(Command::Stop { cluster: id, generation, force: true });
                self.cluster_lost(id, generation, LossCause::StartTimedOut, commands);
            }
            Phase::Draining => self.empty_by_force(id, commands),
            Phase::Failed => self.restart(id, commands),
            Phase::Stopping => {
                // Its provider does not answer, and the gateway has to end. One more word to it, and nobody waits for it
                // any longer.
                commands.push(Command::Stop { cluster: id, generation, force: true });
                self.cluster_lost(id, generation, LossCause::Unreachable, commands);
            }
            Phase::Ready | Phase::Gone => {}
        }
    }

    /// The time to shut down in is over: what waits is refused, what runs or is held is cut off, and a cluster that was
    /// to stop by itself and has not is not waited for any longer.
    fn shutdown_limit(&mut self, commands: &mut Vec<Command>) {
        for query in self.waiting() {
            self.refuse(query, Refusal::ShuttingDown, commands);
        }
        for id in self.clusters.keys().copied().collect::<Vec<_>>() {
            match self.clusters.get(&id).map(|cluster| cluster.phase) {
                Some(Phase::Stopping) => self.phase_limit(id, commands),
                _ => {
                    self.drain(id, commands);
                    self.empty_by_force(id, commands);
                }
            }
        }
    }
}
