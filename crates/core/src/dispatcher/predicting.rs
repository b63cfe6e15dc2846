//! What the dispatcher expects of queries: a model follows what runs where, and learns from what ends.
//!
//! ```text
//!   placed ──▶ look: how long, among those that run there ──▶ evidence, history
//!   ended  ──▶ leaves the scene; corrections and record learn from it
//! ```
//!
//! A model never blocks a query. The dispatcher runs the same without one; and if one fails, it is given up, which is
//! counted, until another is adopted.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::weighing::{Standing, predicted};
use super::{Dispatcher, Live, LiveState};
use crate::class;
use crate::id::{ClusterId, ModelId, QueryId, Units};
use crate::predict::correction::Corrections;
use crate::predict::distribution::{Prediction, Z90};
use crate::predict::model::Model;
use crate::predict::predictor::{Look, Predictor, Profile};
use crate::predict::record::Record;
use crate::query::{Predicted, Query, Status};
use crate::time::{Span, Time};

/// Models kept at hand: the one in force, those that may follow, and those that a replay comes back to.
const AT_HAND: usize = 4;

/// Models that may be adopted. They are no part of the state: a checkpoint names the one in force, and whoever reads it
/// provides it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models(Vec<(ModelId, Arc<Model>)>);

impl PartialEq for Models {
    fn eq(&self, _: &Models) -> bool {
        true
    }
}

impl Models {
    fn find(&self, id: ModelId) -> Option<Arc<Model>> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, model)| Arc::clone(model))
    }
}

/// A model in force with all that it follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Predicting {
    pub(crate) model: ModelId,
    pub(crate) predictor: Predictor,
    pub(crate) corrections: Corrections,
    pub(crate) record: Record,
    /// What is expected by now of those that run, on each cluster in the order of its scene.
    pub(crate) standings: BTreeMap<ClusterId, Vec<Standing>>,
    /// True in a fork: what ends there was drawn from predictions, and says nothing about them.
    pub(super) is_fork: bool,
    #[serde(skip)]
    pub(super) spare: Spare,
}

/// Room for a look, kept from one to the next, and for which query the last one is still true. It is no part of the state:
/// without it, a look is made again to the same bits.
#[derive(Debug, Default)]
pub(super) struct Spare {
    look: Option<Look>,
    of: Option<QueryId>,
}

impl Spare {
    /// The last look.
    pub(super) fn look(&self) -> Option<&Look> {
        self.look.as_ref()
    }

    /// Looks anew.
    pub(super) fn renew(&mut self, model: &Model, of: QueryId, look: impl FnOnce(&mut Look)) {
        look(self.look.get_or_insert_with(|| Look::new(model)));
        self.of = Some(of);
    }

    /// What Stage says of a query alone on a size.
    pub(super) fn by_stage(&mut self, model: &Model, query: &Profile, size: Units) -> Prediction {
        let alone = self.look.get_or_insert_with(|| Look::new(model)).alone_on(model, query, size);
        Prediction::new(alone.ln, Z90 * alone.spread)
    }

    /// True if the last look was for this query, on this cluster among others, and nothing has happened since.
    fn is_of(&self, now: Time, query: QueryId, on: ClusterId) -> bool {
        let same = |look: &Look| look.now() == now && look.clusters().any(|cluster| cluster == on);
        self.of == Some(query) && self.look.as_ref().is_some_and(same)
    }
}

impl Clone for Spare {
    fn clone(&self) -> Spare {
        Spare::default()
    }
}

impl PartialEq for Spare {
    fn eq(&self, _: &Spare) -> bool {
        true
    }
}

/// What was expected of a query when it was placed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Expected {
    /// What the model said.
    by_model: Prediction,
    /// The same, corrected by what had ended.
    pub(super) prediction: Prediction,
    /// ln of the seconds that it would take alone.
    alone: f64,
}

impl Expected {
    /// In times; None if it is no number.
    pub(crate) fn predicted(&self) -> Option<Predicted> {
        predicted(self.prediction, Prediction::new(self.alone, 0.0))
    }
}

impl Dispatcher {
    /// Puts a model at hand, so that [`Event::ModelAdopted`](crate::Event::ModelAdopted) can put it in force. Decides
    /// nothing by itself.
    pub fn provide(&mut self, id: ModelId, model: Arc<Model>) {
        self.models.0.retain(|(known, _)| *known != id);
        if self.models.0.len() >= AT_HAND {
            let in_force = self.model();
            let oldest = self.models.0.iter().position(|(known, _)| Some(*known) != in_force);
            oldest.map(|at| self.models.0.remove(at));
        }
        self.models.0.push((id, model));
    }

    /// The model in force, whether it is at hand or not.
    pub fn model(&self) -> Option<ModelId> {
        self.predicting.as_ref().map(|predicting| predicting.model)
    }

    /// Puts a model in force. It knows of what runs already, but nothing of how it went lately.
    pub(super) fn model_adopted(&mut self, id: ModelId) {
        let Some(model) = self.models.find(id) else { return self.makes_no_sense() };
        self.predicting = Some(Box::new(Predicting {
            model: id,
            predictor: Predictor::new(&model),
            corrections: Corrections::default(),
            record: Record::default(),
            standings: BTreeMap::new(),
            is_fork: false,
            spare: Spare::default(),
        }));
        let open: Vec<ClusterId> = self.clusters.values().filter(|cluster| cluster.is_open()).map(|c| c.id).collect();
        open.into_iter().for_each(|cluster| self.follow_cluster(cluster));
        let mut running: Vec<(Time, QueryId, ClusterId)> = Vec::new();
        for (query, live) in &mut self.live {
            live.expected = None;
            if let LiveState::Running { cluster, placed, .. } = live.state {
                running.push((placed, *query, cluster));
            }
        }
        running.sort();
        running.into_iter().for_each(|(placed, query, cluster)| self.expect(query, cluster, placed));
    }

    /// A cluster is ready, with nothing on it, or it has gone.
    pub(super) fn follow_cluster(&mut self, id: ClusterId) {
        let Some(cluster) = self.clusters.get(&id) else { return };
        let (open, size) = (cluster.is_open(), cluster.spec.units);
        self.guarded(|predicting, model| match open {
            true => predicting.open(model, id, size),
            false => predicting.close(id),
        });
    }

    /// A query was placed: what is to be expected of it there?
    pub(super) fn expect(&mut self, id: QueryId, on: ClusterId, placed: Time) {
        let (Some(live), Some(cluster)) = (self.live.get(&id), self.clusters.get(&on)) else { return };
        if live.query.class == class::CONTROL || self.predicting.is_none() {
            return;
        }
        let Some(profile) = profile(&live.query) else { return };
        let (size, least) = (cluster.spec.units, self.policy.min_modelled);
        let (arrived, on) = (live.arrived, (on, size));
        let due = live.query.slo.map(|slo| arrived + slo);
        let expected =
            self.guarded(|predicting, model| predicting.place(model, placed, (&profile, arrived, due), on, least));
        if let Some(live) = self.live.get_mut(&id) {
            live.expected = expected.flatten();
        }
    }

    /// A query that was placed did not run after all.
    pub(super) fn forget_expected(&mut self, id: QueryId, on: ClusterId) {
        let now = self.now;
        if let Some(live) = self.live.get_mut(&id) {
            live.expected = None;
        }
        self.guarded(|predicting, _| predicting.leave(now, on, id, false));
    }

    /// A query has ended: what does that say of what was expected?
    pub(super) fn learn(&mut self, live: &Live, status: Status, blocked: Span) {
        let LiveState::Running { cluster: on, placed, .. } = live.state else { return };
        let (id, now, finished) = (live.query.id, self.now, status == Status::Finished);
        let size = self.clusters.get(&on).map(|cluster| cluster.spec.units);
        self.guarded(|predicting, _| {
            predicting.leave(now, on, id, finished);
            let (Some(expected), Some(size), false) = (live.expected, size, predicting.is_fork) else { return };
            let (kind, seconds) = ((live.query.fingerprint, size), (now.since(placed) - blocked).secs_f64());
            predicting.corrections.learn(now, kind, expected.by_model, seconds, finished);
            if finished {
                predicting.record.note(expected.prediction, seconds);
            }
        });
    }

    /// Does something with the model in force. If that fails, or the model is not at hand, none is in force any longer.
    pub(super) fn guarded<R>(&mut self, act: impl FnOnce(&mut Predicting, &Model) -> R) -> Option<R> {
        let mut predicting = self.predicting.take()?;
        let model = self.models.find(predicting.model);
        let done = model.and_then(|model| catch_unwind(AssertUnwindSafe(|| act(&mut predicting, &model))).ok());
        match done {
            Some(_) => self.predicting = Some(predicting),
            None => self.models_failed += 1,
        }
        done
    }
}

impl Predicting {
    /// Expects and follows a query that is placed. One that Stage expects to be done within `least` is not followed: it
    /// is gone before it matters to others. None if what comes out is no number.
    fn place(
        &mut self,
        model: &Model,
        now: Time,
        (query, arrived, due): (&Profile, Time, Option<Time>),
        (on, size): (ClusterId, Units),
        least: Span,
    ) -> Option<Expected> {
        let alone = self.spare.by_stage(model, query, size);
        let followed = alone.upper() >= least.secs_f64();
        let by_model = if followed {
            if !self.spare.is_of(now, query.id, on) {
                self.spare.renew(model, query.id, |look| self.predictor.look(model, now, query, &[on], look));
            }
            let look = self.spare.look()?;
            let at = look.clusters().position(|cluster| cluster == on)?;
            self.predictor.place(model, look, on).then(|| look.newcomer(at))?
        } else {
            alone
        };
        let prediction = self.corrections.correct(query.shape, size, by_model);
        if followed {
            self.stand(now, (query.id, arrived, due), on, alone, (by_model, prediction));
        }
        let sound = |prediction: Prediction| prediction.ln_median().is_finite() && prediction.spread().is_finite();
        (sound(by_model) && sound(prediction)).then_some(Expected { by_model, prediction, alone: alone.ln_median() })
    }

    /// The query of the last look has been placed: it stands where it does, and those that ran there are raised.
    fn stand(
        &mut self,
        now: Time,
        (query, arrived, due): (QueryId, Time, Option<Time>),
        on: ClusterId,
        alone: Prediction,
        (by_model, outlook): (Prediction, Prediction),
    ) {
        let Some(look) = self.spare.look() else { return };
        let others = look.clusters().position(|cluster| cluster == on).map_or(&[][..], |at| look.others(at));
        let (standings, width) = (self.standings.entry(on).or_default(), self.corrections.width());
        standings.iter_mut().zip(others).for_each(|(standing, by_model)| standing.raise(*by_model, width));
        let moved = outlook.ln_median() - by_model.ln_median();
        standings.push(Standing { query, arrived, placed: now, due, alone, moved, outlook });
        self.spare.of = None;
    }

    fn leave(&mut self, now: Time, on: ClusterId, query: QueryId, finished: bool) {
        self.spare.of = None;
        self.predictor.leave(now, on, query, finished);
        if let Some(standings) = self.standings.get_mut(&on) {
            standings.retain(|standing| standing.query != query);
        }
    }

    fn open(&mut self, model: &Model, cluster: ClusterId, size: Units) {
        self.close(cluster);
        self.predictor.open(model, cluster, size);
    }

    fn close(&mut self, cluster: ClusterId) {
        self.spare.of = None;
        self.predictor.close(cluster);
        self.standings.remove(&cluster);
    }
}

/// The query as the predictor sees it; None if it was not read for that.
pub(super) fn profile(query: &Query) -> Option<Profile> {
    let traits = query.traits.as_ref()?;
    Some(Profile { id: query.id, shape: query.fingerprint, text: traits.text, features: traits.features })
}

#[cfg(test)]
pub(super) mod tests;
