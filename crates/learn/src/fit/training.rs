//! The loop: epochs of batches, the best weights kept, a state that can be put away and taken up again.
//!
//! A training is a function of examples, settings and seed. Every draw comes from a stream that is named by epoch and
//! batch, so that one which was interrupted and resumed at the end of an epoch draws what it would have drawn.

use std::fmt;

use punctual_core::predict::net::{Layout, Net, NetError, Shape};
use punctual_core::rng::Rng;
use serde::{Deserialize, Serialize};

use super::gradient::{Chances, Gradient, gradient};
use super::normal::Normal;
use super::optimiser::{AdamW, one_cycle};
use super::predict::{Score, outcomes, score};
use super::start;
use crate::examples::{Examples, ExamplesError};

/// Examples whose gradient is computed in one piece: the unit of work of a thread.
const CHUNK: usize = 16;
/// Lengths are sorted with a little noise (steps), so that batches are not the same in every epoch.
const LENGTH_NOISE: u64 = 8;
/// Streams of random numbers below this belong to others.
const STREAMS: u64 = 1 << 63;

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Passes over the examples.
    pub epochs: u32,
    /// Examples between two steps of the optimiser.
    pub batch: usize,
    /// The highest learning rate.
    pub rate: f64,
    /// Decay of the weights per unit of learning rate.
    pub decay: f64,
    /// Probability that a known fingerprint is hidden.
    pub hide: f64,
    /// Probability that a unit of the head is dropped; 0 for none.
    pub drop: f64,
    /// Epochs without improvement after which training ends.
    pub patience: u32,
    /// What chance begins with.
    pub seed: u64,
    /// Threads to use; the result does not depend on it.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            epochs: 16,
            batch: 64,
            rate: 5e-3,
            decay: 1e-2,
            hide: 0.1,
            drop: 0.0,
            patience: 6,
            seed: 0,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Why a training cannot begin.
#[derive(Clone, Debug, PartialEq)]
pub enum FitError {
    /// There is nothing to learn from.
    NoExamples,
    /// An index is beyond the examples.
    Index {
        /// The index.
        index: u32,
    },
    /// The examples do not hold together.
    Examples(ExamplesError),
    /// The network's shape, or the weights of a state, are not sound.
    Net(NetError),
    /// The state is of another network.
    State,
    /// A setting is out of its range.
    Setting {
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::NoExamples => write!(f, "training needs at least one example"),
            FitError::Index { index } => write!(f, "training was told of example {index}, which is not there"),
            FitError::Examples(cause) => write!(f, "the examples do not hold together: {cause}"),
            FitError::Net(cause) => write!(f, "the network cannot be trained: {cause}"),
            FitError::State => write!(f, "the state to resume from is of another network"),
            FitError::Setting { name } => write!(f, "the setting {name} is out of its range"),
        }
    }
}

impl std::error::Error for FitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FitError::Examples(cause) => Some(cause),
            FitError::Net(cause) => Some(cause),
            _ => None,
        }
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// Go on.
    On,
    /// Stop here and keep the best so far.
    Stop,
}

/// What an epoch came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Its number, from 1.
    pub number: u32,
    /// Mean cost of the examples that it learnt from, while it did.
    pub cost: f64,
    /// The validation examples after it; the training examples' where there are none to validate on.
    pub score: Score,
    /// Whether it is the best so far.
    pub best: bool,
}

/// Everything that must be kept to go on later, or to end with the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    epoch: u32,
    weights: Vec<f32>,
    optimiser: AdamW,
    best: Vec<f32>,
    best_cost: Option<f64>,
    without_improvement: u32,
}

impl State {
    /// Epochs that are done.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
}

/// A training under way.
pub struct Training<'a> {
    pool: &'a Examples,
    train: Vec<u32>,
    validation: Vec<u32>,
    settings: Settings,
    normal: Normal,
    net: Net,
    state: State,
    stopped: bool,
}

impl<'a> Training<'a> {
    /// A training from the beginning: of a network of `shape`, on the examples `train`, watched on `validation`.
    pub fn new(
        pool: &'a Examples,
        train: Vec<u32>,
        validation: Vec<u32>,
        shape: Shape,
        settings: Settings,
    ) -> Result<Training<'a>, FitError> {
        // Checked before anything is drawn: a shape may be absurdly large.
        let sound = Net::new(shape, Vec::new()).map(|_| ());
        if let Err(cause @ (NetError::Hidden { .. } | NetError::Known { .. })) = sound {
            return Err(FitError::Net(cause));
        }
        let weights = start::weights(shape, &mut Rng::numbered(settings.seed, STREAMS));
        let state = State {
            epoch: 0,
            optimiser: AdamW::new(weights.len()),
            best: weights.clone(),
            weights,
            best_cost: None,
            without_improvement: 0,
        };
        Training::resume(pool, train, validation, shape, settings, state)
    }

    /// A training from where another of the same examples, shape and settings was left.
    pub fn resume(
        pool: &'a Examples,
        train: Vec<u32>,
        validation: Vec<u32>,
        shape: Shape,
        settings: Settings,
        state: State,
    ) -> Result<Training<'a>, FitError> {
        check_settings(&settings)?;
        pool.check(shape.known).map_err(FitError::Examples)?;
        if train.is_empty() {
            return Err(FitError::NoExamples);
        }
        if let Some(&index) = train.iter().chain(&validation).find(|&&index| index as usize >= pool.examples.len()) {
            return Err(FitError::Index { index });
        }
        let net = Net::new(shape, state.weights.clone()).map_err(FitError::Net)?;
        let total = Layout::of(shape).total();
        if !state.optimiser.fits(total) || state.best.len() != total {
            return Err(FitError::State);
        }
        let normal = Normal::of(pool, &train);
        Ok(Training { pool, train, validation, settings, normal, net, state, stopped: false })
    }

    /// Whether there is nothing left to do: all epochs done, patience at an end, or stopped.
    pub fn finished(&self) -> bool {
        let patient = self.state.without_improvement < self.settings.patience;
        self.stopped || self.state.epoch >= self.settings.epochs || !patient
    }

    /// One epoch. `watch` hears after each batch how many are done, and of how many; when it says stop, the epoch is
    /// undone (so that the state can be resumed) and none is returned. A first epoch that is stopped still counts as
    /// the best there is.
    pub fn epoch(&mut self, watch: &mut dyn FnMut(usize, usize) -> Go) -> Option<Epoch> {
        if self.finished() {
            return None;
        }
        let (weights, optimiser) = (self.net.weights().to_vec(), self.state.optimiser.clone());
        let batches = self.batches();
        let mut cost = 0.0;
        for (number, batch) in batches.iter().enumerate() {
            cost += self.batch(number, batch, batches.len());
            if watch(number + 1, batches.len()) == Go::Stop {
                if self.state.best_cost.is_none() {
                    self.state.best = self.net.weights().to_vec();
                }
                self.net.weights_mut().copy_from_slice(&weights);
                self.state.optimiser = optimiser;
                self.stopped = true;
                return None;
            }
        }
        Some(self.judge(cost / self.train.len() as f64))
    }

    /// Runs all epochs that are left. `watch` hears of each.
    pub fn run(&mut self, mut watch: impl FnMut(&Epoch) -> Go) {
        while let Some(epoch) = self.epoch(&mut |_, _| Go::On) {
            if watch(&epoch) == Go::Stop {
                self.stopped = true;
            }
        }
    }

    /// The best network so far, reading raw inputs.
    pub fn best(&self) -> Result<Net, FitError> {
        let best = Net::new(self.net.shape(), self.state.best.clone()).map_err(FitError::Net)?;
        Net::new(self.net.shape(), self.normal.fold(&best)).map_err(FitError::Net)
    }

    /// What must be kept to resume.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Judges the weights after an epoch and keeps them if they are the best.
    fn judge(&mut self, cost: f64) -> Epoch {
        let judged = if self.validation.is_empty() { &self.train } else { &self.validation };
        let score = match Net::new(self.net.shape(), self.normal.fold(&self.net)) {
            Ok(net) => score(&outcomes(&net, self.pool, judged), 1.0),
            // Weights that are no numbers are never the best.
            Err(_) => Score { cost: f64::INFINITY, q_error: [f64::INFINITY; 3], coverage: 0.0 },
        };
        let state = &mut self.state;
        let best = state.best_cost.is_none_or(|best| score.cost < best) && score.cost.is_finite();
        if best {
            state.best_cost = Some(score.cost);
            state.best = self.net.weights().to_vec();
            state.without_improvement = 0;
        } else {
            state.without_improvement += 1;
        }
        state.weights = self.net.weights().to_vec();
        state.epoch += 1;
        Epoch { number: state.epoch, cost, score, best }
    }

    /// The epoch's batches: examples of like length together, batches in random order.
    fn batches(&self) -> Vec<Vec<u32>> {
        let mut rng = self.stream(0);
        let length = |index: u32| {
            let example = &self.pool.examples[index as usize];
            (example.before.len() + example.after.len()) as u64
        };
        let noisy = self.train.iter().map(|&index| (length(index) + rng.below(LENGTH_NOISE), rng.bits(), index));
        let mut order: Vec<(u64, u64, u32)> = noisy.collect();
        order.sort_unstable();
        let batch = |chosen: &[(u64, u64, u32)]| chosen.iter().map(|(_, _, index)| *index).collect();
        let mut batches: Vec<Vec<u32>> = order.chunks(self.settings.batch).map(batch).collect();
        for i in (1..batches.len()).rev() {
            batches.swap(i, rng.index(i + 1));
        }
        batches
    }

    /// One step of the optimiser; the sum of the examples' costs.
    fn batch(&mut self, number: usize, chosen: &[u32], of: usize) -> f64 {
        let gradients = self.gradients(number, chosen);
        let mut sum = vec![0.0f32; self.net.weights().len()];
        for gradient in &gradients {
            sum.iter_mut().zip(&gradient.by_weight).for_each(|(sum, slope)| *sum += slope);
        }
        let steps = u64::from(self.settings.epochs) * of as u64;
        let rate = one_cycle(self.state.optimiser.steps(), steps, self.settings.rate);
        self.state.optimiser.step(self.net.weights_mut(), &sum, rate, self.settings.decay);
        gradients.iter().map(|gradient| gradient.cost).sum()
    }

    /// The gradients of a batch's chunks, in their order. Thread t takes every chunk whose number is t modulo threads.
    fn gradients(&self, number: usize, chosen: &[u32]) -> Vec<Gradient> {
        let chunks: Vec<&[u32]> = chosen.chunks(CHUNK).collect();
        let threads = self.settings.threads.clamp(1, chunks.len());
        let chances = Chances { hide: self.settings.hide, drop: self.settings.drop };
        let share = 1.0 / chosen.len() as f64;
        let of = |at: usize| {
            let mut rng = self.stream(1 + (number * self.settings.batch.div_ceil(CHUNK) + at) as u64);
            gradient(&self.net, self.pool, Some(&self.normal), chunks[at], share, (chances, &mut rng))
        };
        let mine = |thread: usize| (thread..chunks.len()).step_by(threads).map(of).collect::<Vec<Gradient>>();
        let mut found = std::thread::scope(|scope| {
            let mine = &mine;
            let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || mine(thread))).collect();
            let mut found = vec![mine(0).into_iter()];
            for other in others {
                match other.join() {
                    Ok(gradients) => found.push(gradients.into_iter()),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            found
        });
        (0..chunks.len()).filter_map(|at| found[at % threads].next()).collect()
    }

    /// A stream of random numbers of this epoch.
    fn stream(&self, number: u64) -> Rng {
        Rng::numbered(self.settings.seed, STREAMS + (u64::from(self.state.epoch) << 40) + 1 + number)
    }
}

fn check_settings(settings: &Settings) -> Result<(), FitError> {
    let part = |x: f64| (0.0..1.0).contains(&x);
    let sound = [
        ("batch", settings.batch > 0),
        ("rate", settings.rate.is_finite() && settings.rate > 0.0),
        ("decay", settings.decay.is_finite() && settings.decay >= 0.0 && settings.rate * settings.decay < 1.0),
        ("hide", part(settings.hide)),
        ("drop", part(settings.drop)),
        ("threads", settings.threads > 0),
    ];
    match sound.iter().find(|(_, sound)| !sound) {
        Some((name, _)) => Err(FitError::Setting { name }),
        None => Ok(()),
    }
}
