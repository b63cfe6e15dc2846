//! The clusters' side of the world: providers that start and stop them, engines that run queries.

use punctual_core::cluster::Spec;
use punctual_core::event::{Event, LossCause, Outcome};
use punctual_core::id::{ClusterId, Generation, QueryId, Units};
use punctual_core::query::SqlState;
use punctual_core::time::{Span, Time};

use super::compute::Compute;
use super::predicted::Predicted;
use super::{Due, World};

/// A cluster as it really is.
#[derive(Clone, Debug)]
pub(super) struct Site {
    generation: Generation,
    units: Units,
    up: bool,
    compute: Compute,
    /// Queries there, whether or not anyone still waits for their end.
    here: Vec<QueryId>,
    /// Those of them that were told to stop and do not.
    burning: Vec<QueryId>,
    /// Counts changes, so that an end that was foreseen before the last one is known to be void.
    change: u64,
}

/// What a query fails with that was told to stop.
const QUERY_CANCELED: SqlState = SqlState(*b"57014");
/// What other queries fail with: a division by zero, say.
const DIVISION_BY_ZERO: SqlState = SqlState(*b"22012");

impl Site {
    /// What works there, if it goes by predictions.
    pub(super) fn predicted(&mut self) -> Option<&mut Predicted> {
        if let Compute::Predicted(predicted) = &mut self.compute { Some(predicted) } else { None }
    }
}

impl World {
    /// A provider is asked to start a cluster.
    pub(super) fn start(&mut self, cluster: ClusterId, generation: Generation, spec: &Spec, now: Time) {
        let compute = self.make.cluster(spec.units);
        let (units, up, here, burning) = (spec.units, false, Vec::new(), Vec::new());
        self.sites.insert(cluster, Site { generation, units, up, compute, here, burning, change: 0 });
        let spared = now < self.conditions.starts_spared_until;
        let more = match self.conditions.start_more {
            mean if spared || mean == Span::ZERO => Span::ZERO,
            mean => Span::from_secs_f64(self.chance.starts.exponential(mean.secs_f64())),
        };
        let spread = match self.conditions.start_spread {
            most if spared || most == Span::ZERO => Span::ZERO,
            most => Span::from_micros(self.chance.starts.below(most.micros().saturating_add(1))),
        };
        let fails = !spared && self.chance.strikes(self.conditions.start_failures);
        let due = if fails { Due::StartFails { cluster, generation } } else { Due::Starts { cluster, generation } };
        self.agenda.add(now + self.conditions.start_least + more + spread, due);
    }

    pub(super) fn starts(&mut self, cluster: ClusterId, generation: Generation, now: Time) {
        let Some(site) = self.sites.get_mut(&cluster).filter(|site| site.generation == generation) else { return };
        site.up = true;
        if let Some(mean) = self.conditions.life {
            let after = self.chance.fault_after(mean);
            self.agenda.add(now + after, Due::Dies { cluster, generation });
        }
        self.tell(Event::ClusterReady { cluster, generation }, now);
    }

    pub(super) fn start_fails(&mut self, cluster: ClusterId, generation: Generation, now: Time) {
        if self.sites.get(&cluster).is_some_and(|site| site.generation == generation) {
            self.sites.remove(&cluster);
            self.tell(Event::ClusterLost { cluster, generation, cause: LossCause::StartFailed }, now);
        }
    }

    /// A cluster goes away under whatever runs there. Its provider and its sessions notice, each in its own time.
    pub(super) fn dies(&mut self, cluster: ClusterId, generation: Generation, now: Time) {
        if self.sites.get(&cluster).is_some_and(|site| site.generation == generation) {
            self.tell(Event::ClusterLost { cluster, generation, cause: LossCause::Exited }, now);
            self.take_down(cluster, now);
        }
    }

    /// A provider is asked to stop a cluster. One that is gone already has stopped; a stale order is refused.
    pub(super) fn stop(&mut self, cluster: ClusterId, generation: Generation, now: Time) {
        if self.sites.get(&cluster).is_some_and(|site| site.generation != generation) {
            return;
        }
        self.take_down(cluster, now);
        self.agenda.add(now + self.conditions.stop, Due::Told(Event::ClusterStopped { cluster, generation }));
    }

    /// Ends a cluster with all that runs there.
    fn take_down(&mut self, cluster: ClusterId, now: Time) {
        let Some(site) = self.sites.remove(&cluster) else { return };
        for query in site.here {
            if self.sent.contains_key(&query) {
                self.tell(Event::Finished { query, outcome: Outcome::Lost, blocked: Span::ZERO, pinned: false }, now);
            }
        }
    }

    /// A query reaches the cluster that it was sent to, if that is still there and takes it.
    pub(super) fn reaches(&mut self, query: QueryId, cluster: ClusterId, now: Time) {
        let Some(sent) = self.sent.get(&query) else { return };
        let ask = sent.ask.clone();
        let bounces = self.chance.strikes(self.conditions.bounces);
        match self.sites.get_mut(&cluster).filter(|site| site.up && !bounces) {
            Some(site) => {
                site.compute.arrive(now, query, ask.work_on(site.units), ask.template);
                site.here.push(query);
                self.changed(cluster);
            }
            None => self.tell(Event::Bounced { query, cluster, lost: false }, now),
        }
    }

    /// What a cluster has finished by now is reported, if anyone waits for it.
    pub(super) fn ends(&mut self, cluster: ClusterId, change: u64, now: Time) {
        let Some(site) = self.sites.get_mut(&cluster).filter(|site| site.change == change) else { return };
        let finished = site.compute.finished(now);
        site.here.retain(|query| !finished.contains(query));
        let (generation, burned) = (site.generation, !site.burning.is_empty());
        site.burning.retain(|query| !finished.contains(query));
        if burned && site.burning.is_empty() {
            self.tell(Event::ClusterBurns { cluster, generation, burns: false }, now);
        }
        self.changed(cluster);
        for query in finished {
            let error = self.chance.strikes(self.conditions.errors);
            let outcome = match error {
                false => Outcome::Finished { rows: 1, bytes: 8 },
                true => Outcome::Failed { sqlstate: DIVISION_BY_ZERO, rows: 0, bytes: 0 },
            };
            self.report_end(query, outcome, now);
        }
    }

    /// A query is told to stop; it does unless it is stubborn, or has not got there yet.
    pub(super) fn stops(&mut self, query: QueryId, cluster: ClusterId, now: Time) {
        let Some(sent) = self.sent.get(&query) else { return };
        let Some(site) = self.sites.get_mut(&cluster) else { return };
        if sent.stubborn {
            if site.here.contains(&query) && !site.burning.contains(&query) {
                site.burning.push(query);
                let generation = site.generation;
                self.tell(Event::ClusterBurns { cluster, generation, burns: true }, now);
            }
        } else if site.compute.leave(now, query) {
            site.here.retain(|other| *other != query);
            self.changed(cluster);
            self.report_end(query, Outcome::Failed { sqlstate: QUERY_CANCELED, rows: 0, bytes: 0 }, now);
        }
    }

    /// A session gives up what its query may have done on a cluster, so that it is placed again.
    pub(super) fn recalled(&mut self, query: QueryId, cluster: ClusterId, now: Time) {
        if self.sent.get(&query).is_none_or(|sent| sent.stubborn) {
            return;
        }
        let Some(site) = self.sites.get_mut(&cluster) else { return };
        if site.compute.leave(now, query) {
            site.here.retain(|other| *other != query);
            self.changed(cluster);
            self.tell(Event::Bounced { query, cluster, lost: false }, now);
        }
    }

    fn report_end(&mut self, query: QueryId, outcome: Outcome, now: Time) {
        if let Some(sent) = self.sent.get(&query) {
            let pinned = self.stays(sent.session);
            self.tell(Event::Finished { query, outcome, blocked: Span::ZERO, pinned }, now);
        }
    }

    /// Looks ahead to the cluster's next end, anew after each change.
    pub(super) fn changed(&mut self, cluster: ClusterId) {
        let Some(site) = self.sites.get_mut(&cluster) else { return };
        site.change += 1;
        if let Some(at) = site.compute.next() {
            self.agenda.add(at, Due::Ends { cluster, change: site.change });
        }
    }
}
