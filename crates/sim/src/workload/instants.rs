//! When queries arrive.
//!
//! A warehouse's queries come in batches: a dashboard sends its twelve at once, then nobody looks at it for a while.
//! In real traces the median gap is far below the mean and the coefficient of variation of the gaps (CV, deviation
//! over mean) is 3 to 4, where a Poisson process has 1.
//!
//! ```text
//!  Poisson   |   |  |     | |    |   |    |  |     |   | |
//!  batched   ||||·|            ||          |||||||           |
//! ```
//!
//! [`Pattern::Batched`] has both from one construction. A batch holds a geometric number of queries, on average 1/p,
//! with exponential gaps of mean w inside it; between the last of one batch and the first of the next lies an
//! exponential gap of mean M. Since a geometric size does not remember, each gap is of the second kind with
//! probability p, independently: gaps are hyperexponential. For a mean gap g and a CV c, p and M follow from the first
//! two moments,
//!
//! ```text
//!  p M + (1 − p) w = g          p = (g − w)² / (g² (1 + c²)/2 − 2 g w + w²)
//!  2 p M² + 2 (1 − p) w² = g² (1 + c²)          M = (g − (1 − p) w) / p
//! ```
//!
//! With c = 3.5 and w = g/20 a batch holds 7 queries and the median gap is a 23rd of the mean.

use punctual_core::rng::{Rng, Stream};
use punctual_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// How instants of arrival are spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// Independent of each other.
    Poisson {
        /// Arrivals per second. None come if it is not positive.
        rate: f64,
    },
    /// In batches.
    Batched(Batched),
    /// One pattern after the other, and from the first again. Each starts afresh. No phase, or none of any length:
    /// nothing arrives.
    Phased(Vec<Phase>),
}

/// Arrivals in batches, with the mean and the variation that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batched {
    /// Arrivals per second over the long run. None come if it is not positive.
    pub rate: f64,
    /// Deviation of the gaps over their mean. At one and below the process is Poisson.
    pub cv: f64,
    /// Mean gap inside a batch; cut to half the mean gap overall.
    pub within: Span,
}

/// One phase of [`Pattern::Phased`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// How long it lasts.
    pub length: Span,
    /// What arrives meanwhile.
    pub pattern: Pattern,
}

/// Instants of arrival, in order, without end unless nothing arrives.
#[derive(Clone, Debug)]
pub struct Instants {
    rng: Rng,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Gaps { clock: f64, gaps: Gaps },
    Phases { phases: Vec<Phase>, turn: usize, from: f64, clock: f64 },
}

/// Gaps that are `long` with probability `p`, else `short`; both exponential, in seconds.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    p: f64,
    long: f64,
    short: f64,
}

impl Pattern {
    /// The instants of this pattern that belong to `seed`, from time zero.
    pub fn instants(&self, seed: u64) -> Instants {
        let source = match self {
            Pattern::Phased(phases) => Source::Phases { phases: phases.clone(), turn: 0, from: 0.0, clock: 0.0 },
            simple => Source::Gaps { clock: 0.0, gaps: simple.gaps() },
        };
        Instants { rng: Rng::stream(seed, Stream::Arrivals), source }
    }

    /// The gaps of a pattern; phases have none of their own, and count as nothing inside phases.
    fn gaps(&self) -> Gaps {
        match self {
            Pattern::Poisson { rate } => Gaps { p: 1.0, long: mean_gap(*rate), short: 0.0 },
            Pattern::Batched(batched) => batched.gaps(),
            Pattern::Phased(_) => Gaps { p: 1.0, long: f64::INFINITY, short: 0.0 },
        }
    }
}

impl Batched {
    fn gaps(&self) -> Gaps {
        let g = mean_gap(self.rate);
        if self.cv <= 1.0 || g.is_infinite() {
            return Gaps { p: 1.0, long: g, short: 0.0 };
        }
        let w = self.within.secs_f64().min(g / 2.0);
        let half_second_moment = g * g * (1.0 + self.cv * self.cv) / 2.0;
        let p = (g - w) * (g - w) / (half_second_moment - 2.0 * g * w + w * w);
        Gaps { p, long: (g - (1.0 - p) * w) / p, short: w }
    }
}

fn mean_gap(rate: f64) -> f64 {
    if rate > 0.0 { 1.0 / rate } else { f64::INFINITY }
}

impl Gaps {
    fn draw(self, rng: &mut Rng) -> f64 {
        let mean = if rng.chance(self.p) { self.long } else { self.short };
        rng.exponential(mean)
    }
}

impl Iterator for Instants {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let rng = &mut self.rng;
        let seconds = match &mut self.source {
            Source::Gaps { clock, gaps } => {
                *clock += gaps.draw(rng);
                *clock
            }
            Source::Phases { phases, turn, from, clock } => next_in_phases(phases, turn, from, clock, rng)?,
        };
        seconds.is_finite().then(|| Time::ZERO + Span::from_secs_f64(seconds))
    }
}

/// The next instant of a round of phases: a gap that leads past the end of its phase is cut there and drawn anew from
/// the next phase. None after a whole round in which nothing can arrive.
fn next_in_phases(phases: &[Phase], turn: &mut usize, from: &mut f64, clock: &mut f64, rng: &mut Rng) -> Option<f64> {
    let can_arrive = |phase: &Phase| phase.length > Span::ZERO && phase.pattern.gaps().long.is_finite();
    if !phases.iter().any(can_arrive) {
        return None;
    }
    loop {
        let phase = &phases[*turn];
        let end = *from + phase.length.secs_f64();
        let instant = *clock + phase.pattern.gaps().draw(rng);
        if instant < end {
            *clock = instant;
            return Some(instant);
        }
        (*from, *clock) = (end, end);
        *turn = (*turn + 1) % phases.len();
    }
}

/// How the gaps between instants are spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean gap, in seconds.
    pub mean_s: f64,
    /// Median gap, in seconds.
    pub median_s: f64,
    /// Deviation over mean; zero if all come at once.
    pub cv: f64,
}

impl Spread {
    /// Of the gaps between `instants`, which are in order. None with fewer than three.
    pub fn of(instants: &[Time]) -> Option<Spread> {
        let mut gaps: Vec<f64> = instants.windows(2).map(|pair| pair[1].since(pair[0]).secs_f64()).collect();
        if gaps.len() < 2 {
            return None;
        }
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / (count - 1.0);
        let cv = if mean > 0.0 { variance.sqrt() / mean } else { 0.0 };
        Some(Spread { mean_s: mean, median_s: gaps[gaps.len() / 2], cv })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(pattern: &Pattern, count: usize) -> Spread {
        let instants: Vec<Time> = pattern.instants(11).take(count).collect();
        assert!(instants.is_sorted());
        Spread::of(&instants).expect("enough instants")
    }

    #[test]
    fn batched_arrivals_have_the_mean_and_the_variation_that_were_asked_for() {
        for cv in [1.5, 3.0, 3.5, 4.0] {
            let batched = Batched { rate: 2.0, cv, within: Span::from_millis(25) };
            let spread = spread(&Pattern::Batched(batched), 400_000);
            // The deviation of the mean of n gaps is cv/√n of it: five of those are 3 %. The CV's own is about as much.
            assert!((spread.mean_s / 0.5 - 1.0).abs() < 0.03, "cv {cv}: {spread:?}");
            assert!((spread.cv / cv - 1.0).abs() < 0.03, "cv {cv}: {spread:?}");
        }
    }

    #[test]
    fn the_median_gap_of_batched_arrivals_is_far_below_the_mean() {
        let batched = Batched { rate: 2.0, cv: 3.5, within: Span::from_millis(25) };
        let spread = spread(&Pattern::Batched(batched), 100_000);
        assert!(spread.median_s < spread.mean_s / 20.0, "{spread:?}");
    }

    #[test]
    fn a_variation_of_one_is_poisson() {
        let batched = Batched { rate: 4.0, cv: 1.0, within: Span::from_millis(25) };
        let expected: Vec<Time> = Pattern::Poisson { rate: 4.0 }.instants(3).take(100).collect();
        assert_eq!(Pattern::Batched(batched).instants(3).take(100).collect::<Vec<_>>(), expected);
        let spread = spread(&Pattern::Poisson { rate: 4.0 }, 100_000);
        assert!((spread.mean_s - 0.25).abs() < 0.004 && (spread.cv - 1.0).abs() < 0.03, "{spread:?}");
    }

    #[test]
    fn the_instants_of_a_seed_are_the_same_on_every_machine() {
        let batched = Batched { rate: 2.0, cv: 3.5, within: Span::from_millis(25) };
        let instants: Vec<u64> = Pattern::Batched(batched).instants(1).take(6).map(Time::micros).collect();
        assert_eq!(instants, [27_336, 310_370, 330_047, 367_667, 389_964, 394_271]);
    }

    #[test]
    fn phases_take_turns() {
        let phase = |secs, rate| Phase { length: Span::from_secs(secs), pattern: Pattern::Poisson { rate } };
        let pattern = Pattern::Phased(vec![phase(10, 100.0), phase(20, 0.0), phase(10, 10.0)]);
        let instants = pattern.instants(5).take_while(|at| *at < Time::ZERO + Span::from_secs(400));
        let mut counts = [0u32; 4];
        for at in instants {
            counts[(at.micros() / 10_000_000 % 4) as usize] += 1;
        }
        // Ten rounds: 10,000 and 1,000 expected, within five deviations.
        assert!(counts[0].abs_diff(10_000) < 500 && counts[3].abs_diff(1_000) < 158, "{counts:?}");
        assert_eq!(counts[1..3], [0, 0]);
    }

    #[test]
    fn where_nothing_arrives_the_stream_ends() {
        let phase = |secs, rate| Phase { length: Span::from_secs(secs), pattern: Pattern::Poisson { rate } };
        let nothing = [
            Pattern::Poisson { rate: 0.0 },
            Pattern::Poisson { rate: f64::NAN },
            Pattern::Batched(Batched { rate: -1.0, cv: 3.0, within: Span::ZERO }),
            Pattern::Phased(vec![]),
            Pattern::Phased(vec![phase(0, 1.0), phase(5, 0.0)]),
        ];
        for pattern in nothing {
            assert_eq!(pattern.instants(1).next(), None, "{pattern:?}");
        }
    }
}
