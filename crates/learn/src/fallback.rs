//! What is learnt from too little for a network: a level and a width.
//!
//! Where some queries ran alone, the model stands on Stage and the fluid estimate: a network whose weights are all zero
//! adds nothing to it. Where none did, it stands on the median of each fingerprint, over all runs. Those medians hold
//! the crowd that was there already, so the fluid estimate is taken back: the head's row says how far the estimate lies
//! above the median, and a few weights of the head subtract just that.

use punctual_core::predict::distribution::Z90;
use punctual_core::predict::model::{Model, Parts};
use punctual_core::predict::net::{Layout, MIX, OUT, SIDE, Shape};
use punctual_core::predict::scene::{FIRST_OVER_ALONE, MOVED_OVER_FIRST};
use punctual_core::predict::stage::{Alone, Stage};
use punctual_core::rng::Rng;

use crate::contexts::{Sight, contexts};
use crate::fit::outcomes;
use crate::learning::{Kind, LearnError, Learnt};
use crate::observation::{Observation, Part};
use crate::stage::{self, UNKNOWN};

/// The narrowest network there is.
const HIDDEN: usize = 16;

/// Predictions at [`UNKNOWN`] that stand beside those there are: few residuals say little.
const PRIOR: f64 = 3.0;

/// Learns from those that are not set aside, of which one at least finished.
pub(crate) fn learn(observations: &[Observation], isolated: &[bool]) -> Result<Learnt, LearnError> {
    let used = |seen: &Observation| seen.part != Part::Test;
    let alone = || observations.iter().zip(isolated).filter(|(seen, alone)| **alone && used(seen));
    let kind = if alone().any(|(seen, _)| seen.finished) { Kind::Stage } else { Kind::Medians };
    let (stage, expected) = match kind {
        Kind::Medians => medians(observations, used),
        _ => {
            let stage = stage::fit(observations, isolated, used);
            let without =
                |(seen, alone): (&Observation, &bool)| stage::estimate_without(&stage, seen, *alone && used(seen));
            let expected = observations.iter().zip(isolated).map(without).collect();
            (stage, expected)
        }
    };
    let weights = weights(kind);
    let parts = Parts { stage, known: Vec::new(), hidden: HIDDEN as u32, weights, spread_scales: [1.0; 2] };
    let model = Model::new(parts.clone()).map_err(LearnError::Model)?;
    let spread_scales = scales(observations, &expected, used, &model);
    let model = Model::new(Parts { spread_scales, ..parts }).map_err(LearnError::Model)?;
    let learnt_from = observations.iter().filter(|seen| used(seen)).count();
    Ok(Learnt { kind, model, learnt_from, isolated: alone().count(), epochs: 0, stopped: false })
}

/// Medians of all that finished, and what each observation is expected to take by those of the others.
fn medians(observations: &[Observation], used: impl Fn(&Observation) -> bool) -> (Stage, Vec<Alone>) {
    let finished: Vec<&Observation> = observations.iter().filter(|seen| used(seen) && seen.finished).collect();
    let all = stage::medians(&finished);
    let expected = observations.iter().map(|seen| {
        let others: Vec<&Observation> = finished.iter().copied().filter(|one| !std::ptr::eq(*one, seen)).collect();
        let whole = others.is_empty() || others.len() == finished.len();
        let of = |stage: &Stage| stage.alone(&seen.features, seen.shape, seen.text, seen.size);
        if whole { of(&all) } else { of(&stage::medians(&others)) }
    });
    let expected = expected.collect();
    (all, expected)
}

/// Weights that add nothing to the fluid estimate, or take it back.
fn weights(kind: Kind) -> Vec<f32> {
    let layout = Layout::of(Shape { known: 0, hidden: HIDDEN });
    let mut weights = vec![0.0; layout.total()];
    if kind == Kind::Medians {
        // The way is through units that pass only what is above zero, so one is for each sign.
        for (unit, sign) in [(0, 1.0), (1, -1.0)] {
            for column in [FIRST_OVER_ALONE, MOVED_OVER_FIRST] {
                weights[layout.side_row.start + column * SIDE + unit] = sign;
            }
            weights[layout.mix_side.start + unit * MIX + unit] = 1.0;
            weights[layout.out_mix.start + unit * OUT] = -sign;
        }
    }
    weights
}

/// How wide predictions must be, at arrival and from then on, by how far off they are.
fn scales(
    observations: &[Observation],
    expected: &[Alone],
    used: impl Fn(&Observation) -> bool,
    model: &Model,
) -> [f64; 2] {
    let shown =
        contexts(observations, expected, |_| None, |seen| used(seen) && seen.finished, &mut Rng::numbered(0, 0));
    let chosen: Vec<u32> = (0..shown.about.len() as u32).collect();
    let found = outcomes(model.net(), &shown.examples, &chosen);
    let scale = |sight: Sight| {
        let of_sight = shown.about.iter().zip(&found).filter(|(about, _)| about.sight == sight);
        let (count, squares) = of_sight.fold((0.0, 0.0), |(count, squares): (f64, f64), (_, outcome)| {
            (count + 1.0, squares + (outcome.label - outcome.median).powi(2))
        });
        let deviation = ((squares + PRIOR * UNKNOWN * UNKNOWN) / (count + PRIOR)).sqrt();
        // Weights of zero say ln 2.
        (count > 0.0).then_some(Z90 * deviation / std::f64::consts::LN_2)
    };
    let at_arrival = scale(Sight::AtArrival).unwrap_or(1.0);
    [at_arrival, scale(Sight::Hindsight).unwrap_or(at_arrival)]
}
