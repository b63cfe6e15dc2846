//! ServiceTime in phases: a task begins in phase j with probability r_j, stays there for an exponential time of rate γ_j,
//! goes on to phase k with probability R_jk, and ends with what is left of one.
//!
//! Erlang, hyperexponential and Coxian times are of this kind, and every distribution is close to one that is. A task
//! passes phase j on average v_j times, where v = r + v R; its mean service time Σ v_j / γ_j is scaled to one.

use std::fmt;

use punctual_core::rng::Rng;
use serde::{Deserialize, Serialize};

/// A phase-type distribution of mean one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseType {
    first: Vec<f64>,
    next: Vec<Vec<f64>>,
    rates: Vec<f64>,
    visits: Vec<f64>,
    ends: Vec<f64>,
}

/// Why there is no such distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPhases {
    /// No phase, or too many.
    Count {
        /// How many there are at most.
        most: usize,
    },
    /// The vector, the matrix and the rates are not of one size.
    Sizes,
    /// A rate is not positive and finite.
    Rate,
    /// Probabilities are negative, or those of the first phase are not one together, or those of a next one are more.
    Probabilities,
    /// From some phase there is no way out.
    Endless,
    /// The squared coefficient of variation is below that of the kind that was asked for.
    Variation,
}

/// Phases that a distribution may have.
pub const MOST_PHASES: usize = 64;

/// By how much probabilities may miss one, having been written with a few digits.
const SLACK: f64 = 1e-9;

impl PhaseType {
    /// The distribution of first phases r, next phases R and rates γ; the rates are scaled so that the mean is one.
    pub fn new(first: Vec<f64>, next: Vec<Vec<f64>>, rates: Vec<f64>) -> Result<PhaseType, NoPhases> {
        let phases = rates.len();
        if phases == 0 || phases > MOST_PHASES {
            return Err(NoPhases::Count { most: MOST_PHASES });
        }
        if first.len() != phases || next.len() != phases || next.iter().any(|row| row.len() != phases) {
            return Err(NoPhases::Sizes);
        }
        if rates.iter().any(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return Err(NoPhases::Rate);
        }
        let sound = |row: &[f64]| row.iter().all(|p| *p >= 0.0) && row.iter().sum::<f64>() <= 1.0 + SLACK;
        if !sound(&first) || first.iter().sum::<f64>() < 1.0 - SLACK || !next.iter().all(|row| sound(row)) {
            return Err(NoPhases::Probabilities);
        }
        let visits = visits(&first, &next).ok_or(NoPhases::Endless)?;
        let mean: f64 = visits.iter().zip(&rates).map(|(visits, rate)| visits / rate).sum();
        let rates = rates.into_iter().map(|rate| rate * mean).collect();
        let ends = next.iter().map(|row| (1.0 - row.iter().sum::<f64>()).max(0.0)).collect();
        Ok(PhaseType { first, next, rates, visits, ends })
    }

    /// One phase.
    pub fn exponential() -> PhaseType {
        let one = || vec![1.0];
        PhaseType { first: one(), next: vec![vec![0.0]], rates: one(), visits: one(), ends: one() }
    }

    /// So many like phases, one after the other: squared coefficient of variation 1 / `phases`.
    pub fn erlang(phases: usize) -> Result<PhaseType, NoPhases> {
        PhaseType::coxian(vec![1.0; phases], vec![1.0; phases.saturating_sub(1)])
    }

    /// One of two phases, each bringing half of the mean, so that the squared coefficient of variation, at least one, is
    /// as asked.
    pub fn hyperexponential(variation: f64) -> Result<PhaseType, NoPhases> {
        if !(variation.is_finite() && variation >= 1.0) {
            return Err(NoPhases::Variation);
        }
        let p = 0.5 * (1.0 + ((variation - 1.0) / (variation + 1.0)).sqrt());
        PhaseType::new(vec![p, 1.0 - p], vec![vec![0.0; 2]; 2], vec![2.0 * p, 2.0 * (1.0 - p)])
    }

    /// One phase after the other, each but the last followed by the next with that probability.
    pub fn coxian(rates: Vec<f64>, go_on: Vec<f64>) -> Result<PhaseType, NoPhases> {
        let phases = rates.len();
        if phases > MOST_PHASES {
            return Err(NoPhases::Count { most: MOST_PHASES });
        }
        if go_on.len() + 1 != phases {
            return Err(if phases == 0 { NoPhases::Count { most: MOST_PHASES } } else { NoPhases::Sizes });
        }
        let mut next = vec![vec![0.0; phases]; phases];
        for (phase, probability) in go_on.into_iter().enumerate() {
            next[phase][phase + 1] = probability;
        }
        let mut first = vec![0.0; phases];
        first[0] = 1.0;
        PhaseType::new(first, next, rates)
    }

    /// How many phases there are.
    pub fn phases(&self) -> usize {
        self.rates.len()
    }

    /// r: with which probability a task begins in each phase.
    pub fn first(&self) -> &[f64] {
        &self.first
    }

    /// R: with which probability a phase follows another.
    pub fn next(&self) -> &[Vec<f64>] {
        &self.next
    }

    /// γ: the rate at which each phase ends, the mean of the whole being one.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// With which probability the task ends when a phase does.
    pub fn end(&self, phase: usize) -> f64 {
        self.ends[phase]
    }

    /// The share of its service that a task spends in each phase.
    pub fn shares(&self) -> Vec<f64> {
        self.visits.iter().zip(&self.rates).map(|(visits, rate)| visits / rate).collect()
    }

    /// A service time.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        let mut phase = choose(&self.first, rng).unwrap_or(self.rates.len() - 1);
        let mut time = rng.exponential(1.0 / self.rates[phase]);
        while let Some(next) = choose(&self.next[phase], rng) {
            phase = next;
            time += rng.exponential(1.0 / self.rates[phase]);
        }
        time
    }
}

/// One of them, each with its probability, or none.
fn choose(probabilities: &[f64], rng: &mut Rng) -> Option<usize> {
    let mut left = rng.unit();
    probabilities.iter().position(|probability| {
        left -= probability;
        left < 0.0
    })
}

/// v = r + v R, by elimination; nothing if a phase leads nowhere.
fn visits(first: &[f64], next: &[Vec<f64>]) -> Option<Vec<f64>> {
    let n = first.len();
    // (I − R)ᵀ vᵀ = rᵀ.
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let mut row: Vec<f64> = (0..n).map(|j| f64::from(u8::from(i == j)) - next[j][i]).collect();
            row.push(first[i]);
            row
        })
        .collect();
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < SLACK {
            return None;
        }
        let pivot = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).skip(column).for_each(|(value, by)| *value -= factor * by);
        }
    }
    Some((0..n).map(|i| (rows[i][n] / rows[i][i]).max(0.0)).collect())
}

impl fmt::Display for NoPhases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPhases::Count { most } => write!(f, "there must be between 1 and {most} phases"),
            NoPhases::Sizes => write!(f, "first phases, next phases and rates are not of one size"),
            NoPhases::Rate => write!(f, "a rate is not a positive number"),
            NoPhases::Probabilities => write!(f, "probabilities are negative or do not add up"),
            NoPhases::Endless => write!(f, "from some phase there is no way to the end"),
            NoPhases::Variation => {
                write!(f, "a hyperexponential time has a squared coefficient of variation of one or more")
            }
        }
    }
}

impl std::error::Error for NoPhases {}

#[cfg(test)]
mod tests {
    use punctual_core::rng::Stream;

    use super::*;

    /// Mean and squared coefficient of variation of so many draws.
    fn moments(phases: &PhaseType, draws: u32) -> (f64, f64) {
        let mut rng = Rng::stream(5, Stream::Work);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let time = phases.draw(&mut rng);
            sum += time;
            squares += time * time;
        }
        let mean = sum / f64::from(draws);
        (mean, squares / f64::from(draws) / (mean * mean) - 1.0)
    }

    #[test]
    fn each_kind_has_mean_one_and_its_variation() {
        let kinds = [
            (PhaseType::exponential(), 1.0),
            (PhaseType::erlang(4).expect("it exists"), 0.25),
            (PhaseType::hyperexponential(4.0).expect("it exists"), 4.0),
            // Mean 1/2 + 1/2·1/1 = 1; second moment 2/4 + 1/2 (2·1/2·1 + 2) = 2.
            (PhaseType::coxian(vec![2.0, 1.0], vec![0.5]).expect("it exists"), 1.0),
        ];
        for (phases, variation) in kinds {
            let (mean, squared) = moments(&phases, 200_000);
            assert!((mean - 1.0).abs() < 0.025, "{phases:?}: mean {mean}");
            assert!((squared / variation - 1.0).abs() < 0.08, "{phases:?}: {squared}, not {variation}");
            assert!((phases.shares().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn phases_may_lead_back() {
        // From the second phase back to the first half of the time: both are passed twice on average.
        let phases = PhaseType::new(vec![1.0, 0.0], vec![vec![0.0, 1.0], vec![0.5, 0.0]], vec![1.0, 3.0]);
        let phases = phases.expect("it exists");
        // 2/1 + 2/3 is the mean before it is scaled.
        assert!((phases.rates()[0] - 8.0 / 3.0).abs() < 1e-12);
        assert_eq!((phases.end(0), phases.end(1)), (0.0, 0.5));
        assert!((moments(&phases, 100_000).0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        let refused = |first: Vec<f64>, next, rates| PhaseType::new(first, next, rates).expect_err("it is not one");
        assert_eq!(refused(vec![], vec![], vec![]), NoPhases::Count { most: MOST_PHASES });
        assert_eq!(refused(vec![1.0], vec![], vec![1.0]), NoPhases::Sizes);
        assert_eq!(refused(vec![1.0], vec![vec![0.0]], vec![f64::NAN]), NoPhases::Rate);
        assert_eq!(refused(vec![0.5], vec![vec![0.0]], vec![1.0]), NoPhases::Probabilities);
        assert_eq!(refused(vec![1.0], vec![vec![1.0]], vec![1.0]), NoPhases::Endless);
        assert_eq!(PhaseType::hyperexponential(0.5), Err(NoPhases::Variation));
        assert_eq!(PhaseType::erlang(0), Err(NoPhases::Count { most: MOST_PHASES }));
    }
}
