//! Other settings, while sessions and queries go on.
//!
//! ```text
//!  Adopt ──▶ what is due ──▶ PolicyAdopted ──▶ sessions: other rules ──▶ ClusterWanted, DrainWanted
//!            (old names)     (old → new by name)
//! ```
//!
//! Ids of classes are places in the list of one policy. What is live is renumbered by the dispatcher, by name. A query that
//! was classified by rules of before and is still on its way here is [translated](Driver::translate) in the same manner, so
//! that it is treated as if it had arrived just before. Sessions get the new rules after the dispatcher, so there is no
//! other way round.

use std::sync::Arc;

use punctual_core::class::Classes;
use punctual_core::cluster::Phase;
use punctual_core::id::ClusterId;
use punctual_core::plan::{Concluded, Conclusion, Plan, PlanRefusal};
use punctual_core::query::Query;
use punctual_core::{Event, Policy};

use super::Driver;
use crate::door::Rules;
use crate::settings::{Cluster, Settings};

impl Driver {
    /// Puts the settings in force, with their classes; false if the dispatcher does not decide, and nothing is changed.
    pub(super) fn adopt_settings(&mut self, settings: Arc<Settings>, classes: Arc<Classes>) -> bool {
        if self.fallback.is_on() {
            return false;
        }
        let old = std::mem::replace(&mut self.settings, Arc::clone(&settings));
        let kinds = settings.clusters.iter().map(|cluster| (cluster.spec.name.clone(), cluster.kind.clone()));
        self.providers.adopt(kinds.collect(), settings.door.clone(), settings.policy.cancel_grace);
        for pool in self.pools.values() {
            let made_from = settings.clusters.iter().find(|cluster| cluster.is_called(pool.name()));
            let bounds = (settings.door.clone(), settings.slots_of(pool.name()));
            pool.adopt(bounds, made_from.and_then(Cluster::login));
            pool.set_only_reads(settings.only_reads(pool.name()));
        }
        self.fallback.adopt(settings.policy.wait_limit);
        if settings.policy != old.policy {
            // What is due by now ends under the names that it has; at this instant nothing else can be due.
            let now = self.clock.now();
            self.take_at(now, Event::Woke);
            self.classes = names(&settings.policy);
            self.lanes = lanes(&settings.policy);
            self.take_at(now, Event::PolicyAdopted(Box::new(settings.policy.clone())));
            if self.fallback.is_on() {
                return false;
            }
        }
        // Queries are not translated without need.
        let same = settings.policy.classes == old.policy.classes;
        let classes = if same { Arc::clone(&self.in_force.rules().classes) } else { classes };
        self.in_force.adopt(Rules { classes, door: settings.door.clone() });
        self.share_clusters(&settings, &old);
        self.share_ready_pools();
        true
    }

    /// Has a day's plan followed; Err with the reason if it is refused, None if the dispatcher does not decide.
    pub(super) fn follow(&mut self, plan: Box<Plan>) -> Option<Result<(), PlanRefusal>> {
        if self.fallback.is_on() {
            return None;
        }
        let id = plan.id;
        self.take(Event::PlanAdopted(plan));
        let refused = match self.dispatcher.plan_concluded() {
            Some(Concluded { plan, because: Conclusion::Refused(because), .. }) if plan == id => Some(because),
            _ => None,
        };
        match refused {
            Some(because) => tracing::warn!(plan = %id, "the plan is not followed: {because}"),
            None => tracing::info!(plan = %id, "a plan is followed"),
        }
        (!self.fallback.is_on()).then_some(refused.map_or(Ok(()), Err))
    }

    /// Has clusters that are new started, and those that are no more drained.
    fn share_clusters(&mut self, new: &Settings, old: &Settings) {
        let has = |settings: &Settings, cluster: &Cluster| {
            settings.clusters.iter().any(|known| known.spec.name == cluster.spec.name)
        };
        for cluster in new.clusters.iter().filter(|cluster| !has(old, cluster)) {
            for _ in 0..cluster.initial {
                self.take(Event::ClusterWanted(cluster.spec.clone()));
            }
        }
        let gone: Vec<&Cluster> = old.clusters.iter().filter(|cluster| !has(new, cluster)).collect();
        for cluster in self.called(&gone, new) {
            self.take(Event::DrainWanted { cluster });
        }
    }

    /// The clusters that were made from these and are not in the settings.
    fn called(&self, tables: &[&Cluster], kept: &Settings) -> Vec<ClusterId> {
        if tables.is_empty() {
            return Vec::new();
        }
        let view = self.dispatcher.view(self.clock.now());
        let there = view.clusters.iter().filter(|cluster| cluster.phase != Phase::Gone);
        let is_kept = |name: &str| kept.clusters.iter().any(|cluster| cluster.spec.name == name);
        let is_one = |name: &str| tables.iter().any(|table| table.is_called(name)) && !is_kept(name);
        there.filter(|cluster| is_one(&cluster.name)).map(|cluster| cluster.id).collect()
    }

    /// Makes a query that was classified by classes which may no longer be in force one of those that are.
    pub(super) fn translate(&self, query: &mut Query, under: &Arc<Classes>) {
        let rules = self.in_force.rules();
        if !Arc::ptr_eq(under, &rules.classes) {
            query.class = rules.classes.translate(query.class, under);
        }
    }
}

/// The names of a policy's lanes, by their ids.
pub(super) fn lanes(policy: &Policy) -> Vec<Arc<str>> {
    policy.lanes.ids().map(|id| policy.lanes.name(id).into()).collect()
}

/// The names of a policy's classes, by their ids.
pub(super) fn names(policy: &Policy) -> Vec<Arc<str>> {
    policy.classes.iter().map(|class| class.name.as_str().into()).collect()
}
