//! Many independent runs of a setting, on all the threads that are wanted: means, and how far they can be trusted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use punctual_core::rng::Rng;
use serde::{Deserialize, Serialize};

use super::lean::run;
use super::outcome::Outcome;
use super::setting::{Setting, Wrong};

/// A mean over runs, and half the width of its 95 % interval (Student's t); no width from a single run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval.
    pub half: f64,
}

/// The outcomes of `count` runs from seeds that follow from `seed`, in the order of the seeds, whatever the number of
/// threads. `done` is told of each run that has ended.
pub fn runs(
    setting: &Setting,
    seed: u64,
    count: usize,
    threads: usize,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Outcome>, Wrong> {
    setting.check()?;
    let seeds = seeds(seed, count);
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; count]);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(seed) = seeds.get(number) else { return };
            let outcome = run(setting, *seed, &mut ());
            outcomes.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(outcome);
            done();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(work);
        }
        work();
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.into_iter().flatten().collect()
}

/// The seeds of so many runs.
pub fn seeds(seed: u64, count: usize) -> Vec<u64> {
    // Streams below 2³² belong to core.
    let mut rng = Rng::numbered(seed, 1 << 32);
    (0..count).map(|_| rng.bits()).collect()
}

impl Estimate {
    /// The mean of a value over runs.
    pub fn of(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> Estimate {
        let values: Vec<f64> = outcomes.iter().map(value).collect();
        let count = values.len() as f64;
        if values.is_empty() {
            return Estimate::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        if values.len() == 1 {
            return Estimate { mean, half: 0.0 };
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Estimate { mean, half: student(count - 1.0) * (squares / (count - 1.0) / count).sqrt() }
    }
}

/// The value that Student's t with that many degrees of freedom exceeds with probability 2.5 %, by the expansion around
/// the normal one (Abramowitz and Stegun 26.7.5): within a thousandth from three degrees on; below, from the table.
fn student(degrees: f64) -> f64 {
    if degrees < 3.0 {
        return if degrees < 2.0 { 12.706 } else { 4.303 };
    }
    let z = 1.959_963_985_f64;
    let (z2, n) = (z * z, degrees);
    let first = z * (z2 + 1.0) / 4.0;
    let second = z * (5.0 * z2 * z2 + 16.0 * z2 + 3.0) / 96.0;
    let third = z * (3.0 * z2 * z2 * z2 + 19.0 * z2 * z2 + 17.0 * z2 - 15.0) / 384.0;
    let fourth =
        z * (79.0 * z2 * z2 * z2 * z2 + 776.0 * z2 * z2 * z2 + 1482.0 * z2 * z2 - 1920.0 * z2 - 945.0) / 92_160.0;
    z + first / n + second / (n * n) + third / (n * n * n) + fourth / (n * n * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let setting = Setting { horizon: 20.0, ..Setting::new(20, 0.5) };
        let one = runs(&setting, 1, 5, 1, &|| ()).expect("it can be run");
        assert_eq!(one, runs(&setting, 1, 5, 3, &|| ()).expect("it can be run"));
        assert_eq!(one.len(), 5);
        assert!(one.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn an_interval_is_that_of_students_t() {
        let outcomes: Vec<Outcome> =
            [1.0, 2.0, 3.0, 4.0].map(|mean_wait| Outcome { mean_wait, ..Outcome::default() }).into();
        let estimate = Estimate::of(&outcomes, |outcome| outcome.mean_wait);
        // 3.182 · √(5/3) / 2.
        assert_eq!(estimate.mean, 2.5);
        assert!((estimate.half - 2.054).abs() < 0.003, "{estimate:?}");
        assert!((student(10.0) - 2.228).abs() < 0.001 && (student(99.0) - 1.984).abs() < 0.001);
    }
}
