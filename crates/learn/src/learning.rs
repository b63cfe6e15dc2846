//! From observations to a model, in two rounds, or in six.
//!
//! ```text
//!   first   learn from Train, watch Validate:                  when to stop, how wide predictions must be
//!   (then   watch what was learnt from, by folds:              how wide they must be, where whole clusters are watched)
//!   last    learn from everything, for as long as the first:   the model
//! ```
//!
//! What is set aside to decide when to stop is a fifth of the data, and mostly queries that nothing else tells about;
//! so once that is decided, the model learns from all of it. Its width is what was measured before that, on queries that
//! training had not seen ([`folds`](crate::folds)).

use std::collections::BTreeMap;

use punctual_core::fingerprint::Fingerprint;
use punctual_core::predict::model::{Model, ModelError, Parts};
use punctual_core::predict::net::{MOST_KNOWN, Shape};
use punctual_core::predict::stage::{Alone, Stage};
use punctual_core::rng::Rng;
use serde::{Deserialize, Serialize};

use crate::contexts::{Contexts, Sight, contexts};
use crate::fallback;
use crate::fit::{Epoch, FitError, Go, Outcome, Settings, State, Training, outcomes, ratios, spread_scale};
use crate::folds::Folds;
use crate::observation::{Observation, Part, isolated};
use crate::stage;
use crate::variant::{Variant, WHOLE};

/// Runs of a fingerprint that are needed to give it a row of its own in the network's table. One run says what the
/// features say, and what it was; a row learnt from it would only repeat that.
const KNOWN_FROM: usize = 2;

/// The stream of random numbers that chooses moments between; training draws from others.
const MOMENTS: u64 = 1 << 40;

/// How to learn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Width of the network's states.
    pub hidden: usize,
    /// How the network is trained.
    pub settings: Settings,
    /// Steps of the optimiser that a training has at least: few queries are gone through more often than
    /// [`Settings::epochs`] says, up to [`MOST_EPOCHS`] times.
    pub steps: usize,
    /// What it may see.
    pub variant: Variant,
}

impl Default for Options {
    fn default() -> Options {
        Options { hidden: 32, settings: Settings::default(), steps: 1_600, variant: WHOLE }
    }
}

/// Which rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Something is set aside to measure on.
    Measuring,
    /// Everything is learnt from.
    Final,
}

/// What happens while a model is learnt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// So many batches of an epoch, of so many, are done.
    Batch {
        /// The round.
        round: Round,
        /// Batches of all its epochs that are done.
        done: u64,
        /// Of how many at most.
        of: u64,
    },
    /// An epoch is done.
    Epoch(Round, Epoch),
}

/// What a model stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A network that corrects the fluid estimate.
    Network,
    /// The fluid estimate, from what queries took alone: too few finished for a network.
    Stage,
    /// The median of each fingerprint: none ran alone either.
    Medians,
}

impl Kind {
    /// The name that reports and files use.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Network => "network",
            Kind::Stage => "stage",
            Kind::Medians => "medians",
        }
    }
}

/// A model, and how it came about.
#[derive(Clone, Debug)]
pub struct Learnt {
    /// What it stands on.
    pub kind: Kind,
    /// The model.
    pub model: Model,
    /// Observations that it learnt from.
    pub learnt_from: usize,
    /// Of these, isolated runs.
    pub isolated: usize,
    /// Epochs of the last round.
    pub epochs: u32,
    /// True if it was stopped before it was done.
    pub stopped: bool,
}

/// Why no model came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum LearnError {
    /// No query that may be learnt from finished.
    NoneFinished {
        /// How many there are.
        queries: usize,
    },
    /// The network cannot be trained.
    Fit(FitError),
    /// What was learnt makes no sense.
    Model(ModelError),
}

impl std::fmt::Display for LearnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LearnError::NoneFinished { queries } => {
                write!(
                    f,
                    "of {queries} queries that may be learnt from none finished, so there are no latencies to learn"
                )
            }
            LearnError::Fit(cause) => write!(f, "{cause}"),
            LearnError::Model(cause) => write!(f, "what was learnt makes no sense: {cause}"),
        }
    }
}

impl std::error::Error for LearnError {}

/// The most often that queries are gone through for the sake of [`Options::steps`].
pub const MOST_EPOCHS: u32 = 100;

/// The fewest finished queries that a network is trained on. With fewer, what they took alone says as much.
pub const FEWEST: usize = 50;

/// Learns a model from the observations whose part is not [`Part::Test`]. `watch` hears of the progress and may stop
/// it: the best so far is kept.
///
/// # Errors
/// If no query that may be learnt from finished.
pub fn learn(
    observations: &[Observation],
    options: &Options,
    watch: &mut dyn FnMut(Progress) -> Go,
) -> Result<Learnt, LearnError> {
    learn_on(observations, options, None, watch, &mut |_| {})
}

/// Learns as [`learn`], going on from where another training on the same observations with the same options was left.
/// `keep` gets, after each epoch, what is needed to do that: the model is the same, bit for bit, as if it had not been
/// interrupted.
///
/// # Errors
/// If no query that may be learnt from finished, or `left` is of another training.
pub fn learn_on(
    observations: &[Observation],
    options: &Options,
    mut left: Option<Unfinished>,
    watch: &mut dyn FnMut(Progress) -> Go,
    keep: &mut dyn FnMut(&Unfinished),
) -> Result<Learnt, LearnError> {
    let usable = || observations.iter().filter(|seen| seen.part != Part::Test);
    let finished = usable().filter(|seen| seen.finished).count();
    if finished == 0 {
        return Err(LearnError::NoneFinished { queries: usable().count() });
    }
    let isolated = isolated(observations);
    if finished < FEWEST {
        return fallback::learn(observations, &isolated);
    }
    let folds = Folds::of(observations, options.settings.seed);
    let mut done = left.as_ref().map_or_else(Vec::new, |left| left.done.clone());
    while done.len() < folds.rounds() {
        let ground = Ground::of(observations, &isolated, |seen| folds.learns(done.len(), seen));
        let found = ground.train(observations, options, (&done, left.take()), watch, keep)?;
        if found.stopped {
            // The first round's model is the best there is.
            let first = Trained { stopped: true, ..done.into_iter().next().unwrap_or(found) };
            let ground = Ground::of(observations, &isolated, |seen| folds.learns(0, seen));
            return ground.learnt(observations, scales(std::slice::from_ref(&first)), first);
        }
        let weights = if done.is_empty() { found.weights } else { Vec::new() };
        done.push(Trained { weights, ..found });
    }
    let ground = Ground::of(observations, &isolated, |seen| seen.part != Part::Test);
    let last = ground.train(observations, options, (&done, left), watch, keep)?;
    ground.learnt(observations, scales(&done), last)
}

/// How wide predictions must be before anything has come after a query, and from then on, by what was watched.
fn scales(done: &[Trained]) -> [f64; 2] {
    let all = |sight: usize| done.iter().flat_map(|round| &round.ratios[sight]).copied().collect();
    [0, 1].map(|sight| spread_scale(all(sight)))
}

/// What queries take alone, as far as the network sees it while it trains: what each run would be expected to take had
/// it not been learnt from.
fn expected(
    observations: &[Observation],
    isolated: &[bool],
    stage: &Stage,
    used: impl Fn(&Observation) -> bool,
) -> Vec<Alone> {
    let of = |(seen, alone): (&Observation, &bool)| stage::estimate_without(stage, seen, *alone && used(seen));
    observations.iter().zip(isolated).map(of).collect()
}

/// What a round stands on.
struct Ground<'a, F> {
    isolated: &'a [bool],
    used: F,
    stage: Stage,
    known: Vec<Fingerprint>,
}

/// A training after one of its epochs: all that it takes to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// What the rounds came to that are over.
    done: Vec<Trained>,
    /// The best epoch so far.
    best: u32,
    state: State,
}

/// What a round came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Trained {
    hidden: usize,
    /// Empty where nobody will ask for them.
    weights: Vec<f32>,
    /// How many spreads above its median each query ended that was watched: looked at as it arrived, when nothing had come
    /// after it, and in hindsight, on the last prediction that stands of it.
    ratios: [Vec<f64>; 2],
    epochs: u32,
    stopped: bool,
}

impl<F: Fn(&Observation) -> bool> Ground<'_, F> {
    fn of<'a>(observations: &[Observation], isolated: &'a [bool], used: F) -> Ground<'a, F> {
        let stage = stage::fit(observations, isolated, &used);
        let known = vocabulary(observations.iter().filter(|seen| used(seen)));
        Ground { isolated, used, stage, known }
    }

    /// Trains on what is used and watches the rest. After the first round, what that came to says for how many epochs of
    /// the same course. With `left`, it goes on from there.
    fn train(
        &self,
        observations: &[Observation],
        options: &Options,
        (done, left): (&[Trained], Option<Unfinished>),
        watch: &mut dyn FnMut(Progress) -> Go,
        keep: &mut dyn FnMut(&Unfinished),
    ) -> Result<Trained, LearnError> {
        let hidden = options.hidden;
        let mut shown = self.contexts(observations, options.settings.seed);
        options.variant.apply(&mut shown, true);
        let is_learnt = |index: &u32| (self.used)(&observations[shown.about[*index as usize].observation as usize]);
        let (train, validation): (Vec<u32>, Vec<u32>) = (0..shown.about.len() as u32).partition(is_learnt);
        // Where nothing is watched, nothing is measured.
        let round = if validation.is_empty() { Round::Final } else { Round::Measuring };
        let shape = Shape { known: self.known.len(), hidden };
        let per_epoch = train.len().div_ceil(options.settings.batch.max(1)).max(1);
        let wanted = u32::try_from(options.steps.div_ceil(per_epoch)).unwrap_or(u32::MAX).min(MOST_EPOCHS);
        let settings = Settings { epochs: options.settings.epochs.max(wanted), ..options.settings };
        let (mut best, mut epochs) = left.as_ref().map_or((1, 0), |left| (left.best, left.state.epoch()));
        let pool = &shown.examples;
        let decides = if done.is_empty() { validation.clone() } else { Vec::new() };
        let training = match left {
            Some(left) => Training::resume(pool, train, decides, shape, settings, left.state),
            None => Training::new(pool, train, decides, shape, settings),
        };
        let mut training = training.map_err(LearnError::Fit)?;
        let all = done.first().map_or(settings.epochs, |first| first.epochs);
        let mut stopped = false;
        while epochs < all && !stopped {
            let epoch = training.epoch(&mut |done, of| {
                let done = u64::from(epochs) * of as u64 + done as u64;
                let go = watch(Progress::Batch { round, done, of: u64::from(all) * of as u64 });
                stopped |= go == Go::Stop;
                go
            });
            let Some(epoch) = epoch else { break };
            epochs = epoch.number;
            best = if epoch.best { epoch.number } else { best };
            keep(&Unfinished { done: done.to_vec(), best, state: training.state().clone() });
            stopped |= watch(Progress::Epoch(round, epoch)) == Go::Stop;
        }
        let net = training.best().map_err(LearnError::Fit)?;
        let found = outcomes(&net, &shown.examples, &validation);
        let ratios = [Sight::AtArrival, Sight::Hindsight].map(|sight| {
            let in_sight = |index: &u32| shown.about[*index as usize].sight == sight;
            let of_kind = validation.iter().zip(&found).filter(|(index, _)| in_sight(index));
            ratios(&of_kind.map(|(_, outcome)| *outcome).collect::<Vec<Outcome>>())
        });
        Ok(Trained { hidden, weights: net.weights().to_vec(), ratios, epochs: best, stopped })
    }

    fn contexts(&self, observations: &[Observation], seed: u64) -> Contexts {
        let expected = expected(observations, self.isolated, &self.stage, &self.used);
        let known = |shape: Fingerprint| self.known.binary_search(&shape).ok().map(|row| row as u32);
        let wanted = |seen: &Observation| seen.part != Part::Test;
        contexts(observations, &expected, known, wanted, &mut Rng::numbered(seed, MOMENTS))
    }

    fn learnt(
        self,
        observations: &[Observation],
        spread_scales: [f64; 2],
        trained: Trained,
    ) -> Result<Learnt, LearnError> {
        let used = |seen: &&Observation| (self.used)(seen);
        let alone = observations.iter().zip(self.isolated).filter(|(seen, alone)| **alone && used(seen));
        let (learnt_from, isolated) = (observations.iter().filter(used).count(), alone.count());
        let parts = Parts {
            stage: self.stage,
            known: self.known,
            hidden: trained.hidden as u32,
            weights: trained.weights,
            spread_scales,
        };
        let model = Model::new(parts).map_err(LearnError::Model)?;
        let kind = Kind::Network;
        Ok(Learnt { kind, model, learnt_from, isolated, epochs: trained.epochs, stopped: trained.stopped })
    }
}

/// The fingerprints that get a row: the most frequent ones, in order.
fn vocabulary<'a>(observations: impl Iterator<Item = &'a Observation>) -> Vec<Fingerprint> {
    let mut counts: BTreeMap<Fingerprint, usize> = BTreeMap::new();
    for seen in observations {
        *counts.entry(seen.shape).or_default() += 1;
    }
    let mut frequent: Vec<(usize, Fingerprint)> =
        counts.into_iter().filter(|(_, runs)| *runs >= KNOWN_FROM).map(|(shape, runs)| (runs, shape)).collect();
    frequent.sort_by(|one, other| other.cmp(one));
    frequent.truncate(MOST_KNOWN);
    let mut known: Vec<Fingerprint> = frequent.into_iter().map(|(_, shape)| shape).collect();
    known.sort();
    known
}
