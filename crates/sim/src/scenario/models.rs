//! Models of random weights, which predict nonsense: what is decided must hold all the same.

use std::sync::{Arc, LazyLock};

use punctual_core::dispatcher::Dispatcher;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::ModelId;
use punctual_core::predict::model::{Model, Parts};
use punctual_core::predict::net::{Layout, Shape};
use punctual_core::predict::stage::Stage;
use punctual_core::rng::Rng;

/// The models that there are; [`UNKNOWN`] is none of them.
pub const KNOWN: [ModelId; 2] = [ModelId(1), ModelId(2)];

/// A model that nobody provides.
pub const UNKNOWN: ModelId = ModelId(3);

static MODELS: LazyLock<[Arc<Model>; 2]> = LazyLock::new(|| [0.05, 0.5].map(model).map(Arc::new));

/// Puts all models at hand.
pub fn provide(dispatcher: &mut Dispatcher) {
    for (id, model) in KNOWN.into_iter().zip(MODELS.iter()) {
        dispatcher.provide(id, Arc::clone(model));
    }
}

/// A model whose weights have this standard deviation.
fn model(scale: f64) -> Model {
    let shape = Shape { known: 2, hidden: 16 };
    let mut rng = Rng::numbered(1, 3 << 32);
    let weights = (0..Layout::of(shape).total()).map(|_| (scale * rng.normal()) as f32).collect();
    let stage = Stage { spreads: [0.8, 0.6, 0.4, 0.3], ..Stage::default() };
    let known = vec![Fingerprint(0), Fingerprint(1)];
    let parts = Parts { stage, known, hidden: 16, weights, spread_scales: [1.0, 0.8] };
    Model::new(parts).expect("sound parts")
}
