//! Fleets of like clusters by tokens: what starts and stops where [`Tokens`] route, in the place of triggers and studies.
//!
//! ```text
//!   a query finds no cluster idle ──▶ one more starts, within the budgets         (TABS; Mukherjee et al. 2017)
//!   a cluster has been idle for `standby` ──▶ it stops, while more than `least` are ready
//! ```
//!
//! A cluster here is a server there, with differences. It has slots, so that what goes to a busy one runs at once while it
//! has room; what finds no room anywhere waits for all of them, as it does under every policy. A query that its own limits keep
//! waiting (its class's, its lane's, the gateway's) starts nothing: another cluster would not help it. How long a start takes
//! is up to the provider, and how long a cluster stands by is written down ([`Scaling::standby`](crate::scale::Scaling::standby)).

use super::{Dispatcher, seat_of};
use crate::class;
use crate::cluster::{Cluster, Phase, Seat};
use crate::event::Command;
use crate::fleet::{State, Tokens};
use crate::id::QueryId;
use crate::mode::Mode;
use crate::scale::{Act, Because};

impl Dispatcher {
    /// Brings the roll in line with the clusters, if a token policy routes or is on trial.
    pub(super) fn call_roll(&mut self) {
        if self.policy.asks().tokens().is_some() {
            let most = self.most_clusters();
            self.roll.call(most, self.clusters.values().map(|cluster| (cluster.id, state_of(cluster))));
        }
    }

    /// The token policy that starts and stops clusters, if one routes that does.
    pub(crate) fn scales_by_tokens(&self) -> Option<Tokens> {
        self.policy.routes_by().tokens().filter(|tokens| tokens.turns_off())
    }

    /// True if a query that has come finds no cluster idle, and nothing else keeps it from running.
    pub(super) fn finds_none_idle(&self, id: QueryId) -> bool {
        let Some(live) = self.live.get(&id).filter(|live| live.query.class != class::CONTROL) else { return false };
        let idle = || self.open_for(live, seat_of(live.query.class)).iter().any(|open| open.outstanding == 0);
        self.scales_by_tokens().is_some() && self.may_run(id) && !idle()
    }

    /// A query has come that finds no cluster idle.
    pub(super) fn none_is_idle(&mut self, commands: &mut Vec<Command>) {
        let Some(tokens) = self.scales_by_tokens().filter(|_| self.shutdown.is_none()) else { return };
        let quiet = self.now < self.scaler.changed;
        let Some(spec) = self.policy.scaling.offers.get(self.like_the_largest()).cloned() else { return };
        match self.policy.scaling.mode {
            Mode::Off => {}
            Mode::Shadow | Mode::Suggest if quiet || self.roll.count(State::IdleOff) == 0 => {}
            Mode::Shadow | Mode::Suggest => {
                self.note(Act::Start(spec.units, None), Because::NoneIdle, Vec::new());
                self.wait_from(self.now);
            }
            Mode::On => {
                let Some(place) = self.router.start(tokens, &self.roll, self.is_short()) else {
                    return self.start_when_one_is_gone();
                };
                if let Some(because) = self.no_room_for(&spec) {
                    if !quiet {
                        self.note(Act::Nothing, because, Vec::new());
                        self.wait_from(self.now);
                    }
                    return;
                }
                let units = spec.units;
                if let Some(cluster) = self.start_cluster(spec, commands) {
                    self.roll.seat(place, cluster);
                    self.note(Act::Start(units, Some(cluster)), Because::NoneIdle, Vec::new());
                }
            }
        }
    }

    /// True if fewer clusters are starting than queries wait.
    fn is_short(&self) -> bool {
        let starting = self.clusters.values().filter(|cluster| cluster.phase == Phase::Starting).count();
        starting < self.queues.len() + self.again.len()
    }

    /// All that may be are there, and none of them will take the query, since those that are not on are on their way out: the
    /// next to be gone leaves its place to another.
    fn start_when_one_is_gone(&mut self) {
        if self.is_any_coming() {
            return;
        }
        let goes = |cluster: &&mut Cluster| matches!(cluster.phase, Phase::Draining | Phase::Stopping);
        if let Some(cluster) = self.clusters.values_mut().filter(goes).find(|cluster| cluster.spec.offer.is_some()) {
            cluster.leaves_a_place = true;
        }
    }
}

/// The state that a cluster's last token told of; see [`Roll`](crate::fleet::Roll).
pub(crate) fn state_of(cluster: &Cluster) -> State {
    match cluster.phase {
        Phase::Ready if cluster.taken(Seat::Slot) > 0 => State::Busy,
        Phase::Ready => State::IdleOn,
        Phase::Starting | Phase::Draining | Phase::Stopping | Phase::Failed | Phase::Gone => State::Setup,
    }
}

#[cfg(test)]
mod tests;
