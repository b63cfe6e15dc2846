//! What placing a query would do on each cluster that could take it: the evidence of the routing policies that keep SLOs.
//!
//! ```text
//!   candidates ──▶ one look of the model over all of them ──▶ Δ violations, Δ cost for each ──▶ route::slo
//! ```
//!
//! Each running query has a *standing*: what is expected of it by now. Arrivals after its own raise it; nothing lowers it
//! (AutoSLO, Algorithm 1, lines 6–8), before the newcomer as after it, or a query that is late already would count as
//! harmed wherever the newcomer is tried.

use serde::{Deserialize, Serialize};

use super::Dispatcher;
use super::predicting::{Predicting, profile};
use crate::billing::{Price, Timer};
use crate::class;
use crate::id::{ClusterId, QueryId, Units};
use crate::math;
use crate::predict::distribution::Prediction;
use crate::predict::model::Model;
use crate::predict::predictor::Profile;
use crate::query::Predicted;
use crate::route::{Candidate, Counting, HARMED_NAMED, Routing, Weighed};
use crate::time::{Span, Time};

/// A rise of what a running query counts as a violation from which it is named as harmed.
const HARM: f64 = 0.1;

/// What is expected of a running query by now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) query: QueryId,
    pub(crate) arrived: Time,
    pub(crate) placed: Time,
    /// When it is late; None: never.
    pub(crate) due: Option<Time>,
    /// Alone on its cluster.
    pub(crate) alone: Prediction,
    /// What residuals of its fingerprint said when it was placed: ln of a factor.
    pub(crate) moved: f64,
    /// Among those that run there, corrected. Never lowered.
    pub(crate) outlook: Prediction,
}

/// A cluster that a query may be placed on, as far as its cost goes.
struct Site {
    cluster: ClusterId,
    units: Units,
    price: Price,
    timer: Timer,
}

/// What a query is weighed by.
struct Scales {
    now: Time,
    counting: Counting,
    /// When it is late.
    due: Option<Time>,
    /// Stage alone: blind to what runs there.
    blind: bool,
}

impl Standing {
    /// What it was expected to take, once the model says `by_model` after another arrival.
    fn after(&self, by_model: Prediction, width: f64) -> Prediction {
        self.outlook.raised_to(by_model.moved(self.moved).widened(width))
    }

    /// Takes note of an arrival.
    pub(super) fn raise(&mut self, by_model: Prediction, width: f64) {
        self.outlook = self.after(by_model, width);
    }

    /// When it ends if it takes its predicted median; now at the earliest.
    fn end(&self, prediction: Prediction, now: Time) -> Time {
        now.max(self.placed + Span::from_secs_f64(prediction.median()))
    }
}

impl Scales {
    /// How much a query counts as a violation that was placed then, and is due then.
    fn late(&self, prediction: Prediction, placed: Time, due: Option<Time>) -> f64 {
        let Some(due) = due else { return 0.0 };
        let elapsed = self.now.since(placed).secs_f64();
        self.counting.late(prediction, due.since(placed).secs_f64(), elapsed)
    }
}

impl Site {
    /// What it costs from now on until what runs there ends at `end`: with what has been committed already.
    fn cost(&self, timer: &Timer, end: Time) -> f64 {
        self.price.cost(self.units, timer.committed(end))
    }

    /// Dollars more for a query that ends at `own`, where the others ended at `before` and then end at `after`.
    fn more(&self, now: Time, before: Option<Time>, after: Option<Time>, own: Time) -> f64 {
        let mut with = self.timer.clone();
        with.arrive(now);
        let until = after.map_or(own, |after| after.max(own));
        self.cost(&with, until) - self.cost(&self.timer, before.unwrap_or(now))
    }
}

impl Dispatcher {
    /// Has a query weighed on its candidates, if the policy goes by that and a model is in force.
    pub(super) fn weigh(&mut self, id: QueryId, open: &mut [Candidate]) {
        let routing = self.policy.asks();
        let blind = routing == Routing::SloStage;
        if !routing.predicts() || self.predicting.is_none() || open.len() < 2 {
            return;
        }
        let Some(live) = self.live.get(&id) else { return };
        let (query, now) = (&live.query, self.now);
        let Some(profile) = profile(query).filter(|_| query.class != class::CONTROL) else { return };
        let scales =
            Scales { now, counting: self.policy.counting, due: query.slo.map(|slo| live.arrived + slo), blind };
        let site = |candidate: &Candidate| {
            let cluster = self.clusters.get(&candidate.cluster)?;
            let (units, price, timer) = (cluster.spec.units, cluster.spec.price, cluster.timer.clone());
            Some(Site { cluster: candidate.cluster, units, price, timer })
        };
        let sites: Vec<Site> = open.iter().filter_map(site).collect();
        let least = self.policy.min_modelled;
        let weighed = self.guarded(|predicting, model| predicting.weigh(model, &profile, &sites, &scales, least));
        for (cluster, weighed) in weighed.into_iter().flatten() {
            if let Some(candidate) = open.iter_mut().find(|candidate| candidate.cluster == cluster) {
                candidate.weighed = Some(Box::new(weighed));
            }
        }
    }
}

impl Predicting {
    /// What placing the query would do on each of these clusters; empty if it is expected to be done within `least`
    /// wherever it goes.
    fn weigh(
        &mut self,
        model: &Model,
        query: &Profile,
        sites: &[Site],
        scales: &Scales,
        least: Span,
    ) -> Vec<(ClusterId, Weighed)> {
        let alone: Vec<Prediction> = sites.iter().map(|site| self.spare.by_stage(model, query, site.units)).collect();
        if alone.iter().all(|alone| alone.upper() < least.secs_f64()) {
            return Vec::new();
        }
        if !scales.blind {
            let clusters: Vec<ClusterId> = sites.iter().map(|site| site.cluster).collect();
            let predictor = &mut self.predictor;
            self.spare.renew(model, query.id, |look| predictor.look(model, scales.now, query, &clusters, look));
        }
        let each = sites.iter().zip(alone).filter_map(|(site, alone)| {
            let weighed = self.weigh_one(query, site, alone, scales)?;
            Some((site.cluster, weighed))
        });
        each.collect()
    }

    /// None if it cannot be told, or no number comes out.
    fn weigh_one(&self, query: &Profile, site: &Site, alone: Prediction, scales: &Scales) -> Option<Weighed> {
        let (now, width) = (scales.now, self.corrections.width());
        let look = self.spare.look().filter(|_| !scales.blind);
        let at = match look {
            Some(look) => Some(look.clusters().position(|cluster| cluster == site.cluster)?),
            None => None,
        };
        let by_model = look.zip(at).map_or(alone, |(look, at)| look.newcomer(at));
        let own = self.corrections.correct(query.shape, site.units, by_model);
        let mut sum = Weighed {
            predicted: predicted(own, alone)?,
            violations: 0.0,
            own: scales.late(own, now, scales.due),
            cost: 0.0,
            harmed: Vec::new(),
        };
        sum.violations = sum.own;
        let (mut before, mut after) = (None, None);
        for (other, standing) in self.standings.get(&site.cluster).into_iter().flatten().enumerate() {
            let stood = if scales.blind { standing.alone } else { standing.outlook };
            let stands = match look.zip(at) {
                Some((look, at)) => standing.after(*look.others(at).get(other)?, width),
                None => stood,
            };
            let end = standing.end(stood, now);
            before = before.max(Some(end));
            if scales.blind || stands == stood {
                after = after.max(Some(end));
                continue;
            }
            after = after.max(Some(standing.end(stands, now)));
            let late = |prediction| scales.late(prediction, standing.placed, standing.due);
            let harm = late(stands) - late(stood);
            sum.violations += harm;
            if harm >= HARM && sum.harmed.len() < HARMED_NAMED {
                sum.harmed.push(standing.query);
            }
        }
        sum.cost = site.more(now, before, after, now + sum.predicted.p50);
        (sum.violations.is_finite() && sum.cost.is_finite()).then_some(sum)
    }
}

/// In times; None if it is no number.
pub(super) fn predicted(prediction: Prediction, alone: Prediction) -> Option<Predicted> {
    let seconds = [prediction.median(), prediction.upper(), math::exp(alone.ln_median())];
    let [p50, p90, isolated] = seconds.map(Span::from_secs_f64);
    seconds.iter().all(|seconds| seconds.is_finite()).then_some(Predicted { p50, p90, isolated })
}

#[cfg(test)]
mod tests;
