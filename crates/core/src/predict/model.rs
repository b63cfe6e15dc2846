//! All that training leaves: what queries take alone, which fingerprints are known, and the network.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::distribution::Prediction;
use super::net::{Net, NetError, Output, Shape};
use super::scene::Head;
use super::stage::Stage;
use crate::fingerprint::Fingerprint;

/// A model as plain numbers, for a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// What queries take alone.
    pub stage: Stage,
    /// The fingerprints that have a row of the network's table, in order.
    pub known: Vec<Fingerprint>,
    /// The width of the network's states.
    pub hidden: u32,
    /// Its weights.
    pub weights: Vec<f32>,
    /// What the network's spreads are multiplied by, so that nine of ten queries stay below the 90 % quantile: as long
    /// as nothing has come after the query, and from then on.
    pub spread_scales: [f64; 2],
}

/// A model that can be evaluated.
#[derive(Clone, Debug)]
pub struct Model {
    stage: Stage,
    known: Vec<Fingerprint>,
    net: Net,
    spread_scales: [f64; 2],
}

/// What is wrong with a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelError {
    /// Its estimates of isolated runs.
    Stage(&'static str),
    /// Its fingerprints are not in order, each once.
    Known,
    /// The factor of its spreads is not a number above zero.
    SpreadScale(f64),
    /// Its network.
    Net(NetError),
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::Stage(why) => f.write_str(why),
            ModelError::Known => f.write_str("the known fingerprints are out of order"),
            ModelError::SpreadScale(scale) => write!(f, "spreads cannot be multiplied by {scale}"),
            ModelError::Net(cause) => write!(f, "{cause}"),
        }
    }
}

impl std::error::Error for ModelError {}

impl Model {
    /// The model of these parts, which may come from anywhere.
    ///
    /// # Errors
    /// If they do not make sense or do not fit together.
    pub fn new(parts: Parts) -> Result<Model, ModelError> {
        if let Some(why) = parts.stage.check() {
            return Err(ModelError::Stage(why));
        }
        if !parts.known.is_sorted_by(|one, next| one < next) {
            return Err(ModelError::Known);
        }
        if let Some(&scale) = parts.spread_scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
            return Err(ModelError::SpreadScale(scale));
        }
        let shape = Shape { known: parts.known.len(), hidden: parts.hidden as usize };
        let net = Net::new(shape, parts.weights).map_err(ModelError::Net)?;
        Ok(Model { stage: parts.stage, known: parts.known, net, spread_scales: parts.spread_scales })
    }

    /// Its numbers.
    pub fn parts(&self) -> Parts {
        Parts {
            stage: self.stage.clone(),
            known: self.known.clone(),
            hidden: self.net.shape().hidden as u32,
            weights: self.net.weights().to_vec(),
            spread_scales: self.spread_scales,
        }
    }

    /// What queries take alone.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The network.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// The row of the network's table for a fingerprint.
    pub fn known(&self, shape: Fingerprint) -> Option<u32> {
        self.known.binary_search(&shape).ok().map(|row| row as u32)
    }

    /// The prediction that the network's answer about a head stands for. A query is never expected to end before the
    /// last moment at which it is known to run.
    pub fn prediction(&self, head: &Head, output: Output) -> Prediction {
        let median = output.median(head.base, 0.0);
        let scale = self.spread_scales[usize::from(head.since.is_some())];
        Prediction::new(head.since.map_or(median, |since| median.max(since)), output.upper(0.0, scale))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::predict::net::Layout;
    use crate::rng::Rng;

    /// A model of small random weights that knows the fingerprints below `known`.
    pub(crate) fn model(known: u64, seed: u64) -> Model {
        let shape = Shape { known: known as usize, hidden: 32 };
        let mut rng = Rng::numbered(seed, 1 << 40);
        let weights = (0..Layout::of(shape).total()).map(|_| (0.3 * rng.normal()) as f32).collect();
        let known = (0..known).map(Fingerprint).collect();
        let parts = Parts { stage: Stage::default(), known, hidden: 32, weights, spread_scales: [1.0; 2] };
        Model::new(parts).expect("sound parts")
    }

    #[test]
    fn parts_make_the_model_that_they_came_from() {
        let model = model(3, 1);
        let again = Model::new(model.parts()).unwrap();
        assert_eq!(again.parts(), model.parts());
        assert_eq!((again.known(Fingerprint(2)), again.known(Fingerprint(3))), (Some(2), None));
    }

    #[test]
    fn parts_that_do_not_fit_are_refused_with_the_reason() {
        let refused = |change: &dyn Fn(&mut Parts)| {
            let mut parts = model(3, 1).parts();
            change(&mut parts);
            Model::new(parts).unwrap_err()
        };
        assert_eq!(refused(&|parts| parts.known.swap(0, 1)), ModelError::Known);
        assert_eq!(refused(&|parts| parts.known[1] = Fingerprint(0)), ModelError::Known);
        assert_eq!(refused(&|parts| parts.spread_scales[1] = 0.0), ModelError::SpreadScale(0.0));
        assert!(matches!(refused(&|parts| parts.hidden = 33), ModelError::Net(NetError::Hidden { .. })));
        assert!(matches!(
            refused(&|parts| parts.weights[7] = f32::NAN),
            ModelError::Net(NetError::NotFinite { at: 7 })
        ));
        assert!(matches!(refused(&|parts| parts.known.truncate(2)), ModelError::Net(NetError::Count { .. })));
        assert!(matches!(refused(&|parts| parts.stage.spreads[0] = f64::NAN), ModelError::Stage(_)));
    }
}
