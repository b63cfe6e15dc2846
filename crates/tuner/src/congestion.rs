//! When too much was late: where to look for a moment to start a cluster (AutoSLO, Algorithm 5).
//!
//! One configuration is simulated on several workloads. At each moment a workload is *delinquent* if of the queries that
//! are there at least a share τ will be late, and one at least. Where at least k workloads are, there is congestion that is no accident
//! of one of them; a cluster that is to help must be started δ before it begins.
//!
//! ```text
//!   workload 1   ──────■■■■■■■────────■■──
//!   workload 2   ────────■■■■■■■──────────
//!   workload 3   ─■───────■■■─────────■───        k = 2
//!   congestion            ├────┤      ││
//!   start here      ▲ δ ──┘        ▲──┘ dropped, if less than σ_min after the first
//! ```
//!
//! One pass over all beginnings and ends in the order of time. At instants at which several things happen, only what they come to
//! together counts. A moment before the start of the workloads becomes their start: what is started then is there from
//! the beginning. An empty cluster is not delinquent (the printed line 11 would divide zero by zero).

use punctual_core::time::{Span, Time};

/// A query of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lived {
    /// When it arrived.
    pub arrived: Time,
    /// When it ended.
    pub ended: Time,
    /// Whether it was late.
    pub late: bool,
}

/// What congestion is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Congestion {
    /// The share of late queries from which a workload is delinquent: τ.
    pub share: f64,
    /// So many delinquent workloads are congestion: k, one at least.
    pub workloads: usize,
    /// How long before it begins a cluster is to be started: δ.
    pub lead: Span,
    /// How far apart moments are at least: σ_min.
    pub apart: Span,
}

impl Congestion {
    /// As the paper has it, for so many workloads: k half of them, lead and distance as long as a start takes.
    pub fn of(share: f64, workloads: usize, start_takes: Span) -> Congestion {
        Congestion { share, workloads: workloads.div_ceil(2).max(1), lead: start_takes, apart: start_takes }
    }
}

/// Moments at which to start a cluster, in order: those that lie a lead before congestion begins in these simulations of one
/// configuration, each a list of queries in any order. Workloads begin at time zero.
pub fn moments(logs: &[&[Lived]], congestion: &Congestion) -> Vec<Time> {
    let layout = Layout::of(logs.len());
    let mut sweep = Sweep::new(logs.len(), congestion);
    let mut timeline = layout.timeline(logs).into_iter().peekable();
    while let Some(happened) = timeline.next() {
        sweep.take(layout.workload(happened), happened & 2 != 0, happened & 1 != 0);
        let time = layout.time(happened);
        if timeline.peek().is_none_or(|next| layout.time(*next) != time) {
            sweep.settle(time);
        }
    }
    sweep.finish()
}

/// A beginning or an end, in one number whose order is that of time: microseconds, then which workload, and what. Sorting such
/// numbers is most of the work. A thousand workloads leave room for 142 years, a million for 50 days; what is later is cut.
#[derive(Clone, Copy)]
struct Layout {
    /// Bits below the time.
    tag: u32,
}

impl Layout {
    fn of(workloads: usize) -> Layout {
        Layout { tag: 2 + workloads.max(2).next_power_of_two().trailing_zeros().min(40) }
    }

    fn happened(self, at: Time, workload: usize, begins: bool, late: bool) -> u64 {
        let micros = at.micros().min(u64::MAX >> self.tag);
        micros << self.tag | (workload as u64) << 2 | u64::from(begins) << 1 | u64::from(late)
    }

    fn time(self, happened: u64) -> u64 {
        happened >> self.tag
    }

    fn workload(self, happened: u64) -> usize {
        ((happened & ((1 << self.tag) - 1)) >> 2) as usize
    }

    /// All beginnings and ends, in order of time.
    fn timeline(self, logs: &[&[Lived]]) -> Vec<u64> {
        let mut all = Vec::with_capacity(2 * logs.iter().map(|log| log.len()).sum::<usize>());
        for (workload, log) in logs.iter().enumerate() {
            for lived in *log {
                all.push(self.happened(lived.arrived, workload, true, lived.late));
                // What ends before it began, as no simulation says, was never there.
                all.push(self.happened(lived.ended.max(lived.arrived), workload, false, lived.late));
            }
        }
        all.sort_unstable();
        all
    }
}

struct Sweep<'a> {
    congestion: &'a Congestion,
    /// Queries that are there, by workload, and the late ones among them.
    there: Vec<(i64, i64)>,
    delinquent: Vec<bool>,
    delinquents: usize,
    /// The moment of the congestion that lasts.
    began: Option<Time>,
    moments: Vec<Time>,
}

impl<'a> Sweep<'a> {
    fn new(workloads: usize, congestion: &'a Congestion) -> Sweep<'a> {
        let (there, delinquent) = (vec![(0, 0); workloads], vec![false; workloads]);
        Sweep { congestion, there, delinquent, delinquents: 0, began: None, moments: Vec::new() }
    }

    fn take(&mut self, workload: usize, begins: bool, late: bool) {
        let by = if begins { 1 } else { -1 };
        let (there, of_late) = &mut self.there[workload];
        *there += by;
        *of_late += by * i64::from(late);
        let is = *there > 0 && *of_late > 0 && *of_late as f64 >= self.congestion.share * *there as f64;
        let was = std::mem::replace(&mut self.delinquent[workload], is);
        self.delinquents = self.delinquents + usize::from(is) - usize::from(was);
    }

    /// All that happens at that time has happened.
    fn settle(&mut self, micros: u64) {
        let congested = self.delinquents >= self.congestion.workloads.max(1);
        if congested && self.began.is_none() {
            self.began = Some(Time::from_micros(micros.saturating_sub(self.congestion.lead.micros())));
        } else if !congested {
            self.close();
        }
    }

    fn close(&mut self) {
        let Some(moment) = self.began.take() else { return };
        // Moments are in order, so the last one is the nearest.
        if self.moments.last().is_none_or(|last| moment.since(*last) >= self.congestion.apart) {
            self.moments.push(moment);
        }
    }

    fn finish(mut self) -> Vec<Time> {
        self.close();
        self.moments
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::rng::Rng;

    use super::*;

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    fn lived(from: u64, to: u64, late: bool) -> Lived {
        Lived { arrived: at(from), ended: at(to), late }
    }

    fn congestion(share: f64, workloads: usize, lead: u64, apart: u64) -> Congestion {
        Congestion { share, workloads, lead: Span::from_secs(lead), apart: Span::from_secs(apart) }
    }

    fn found(logs: &[Vec<Lived>], congestion: &Congestion) -> Vec<u64> {
        let logs: Vec<&[Lived]> = logs.iter().map(Vec::as_slice).collect();
        moments(&logs, congestion).into_iter().map(|at| at.micros() / 1_000_000).collect()
    }

    #[test]
    fn congestion_begins_when_enough_workloads_are_delinquent() {
        // As in the paper's Figure 5: more than 60 % are late in all three from 140 on.
        let logs = [
            vec![lived(100, 200, true), lived(110, 130, false), lived(140, 190, true)],
            vec![lived(120, 180, true)],
            vec![lived(105, 170, true), lived(106, 170, true), lived(107, 170, false)],
        ];
        assert_eq!(found(&logs, &congestion(0.6, 3, 30, 10)), [100]);
        assert_eq!(found(&logs, &congestion(0.6, 2, 30, 10)), [75, 90]);
        assert_eq!(found(&logs, &congestion(0.6, 4, 30, 10)), [0; 0]);
    }

    #[test]
    fn moments_keep_their_distance_and_do_not_lie_before_the_start() {
        let logs = [vec![lived(10, 20, true), lived(50, 60, true), lived(100, 110, true), lived(130, 140, true)]];
        assert_eq!(found(&logs, &congestion(0.5, 1, 30, 45)), [0, 70]);
        assert_eq!(found(&logs, &congestion(0.5, 1, 30, 0)), [0, 20, 70, 100]);
    }

    #[test]
    fn what_happens_at_one_instant_counts_together() {
        // One ends as the next begins: it is one stretch; and one that takes no time was never there.
        let logs = [vec![lived(10, 20, true), lived(20, 30, true), lived(50, 50, true)]];
        assert_eq!(found(&logs, &congestion(0.5, 1, 0, 0)), [10]);
    }

    #[test]
    fn nothing_late_is_no_congestion_even_if_every_share_is_too_much() {
        assert_eq!(found(&[vec![lived(1, 9, false)]], &congestion(0.0, 1, 0, 0)), [0; 0]);
        assert_eq!(found(&[], &congestion(0.0, 0, 0, 0)), [0; 0]);
        assert_eq!(found(&[vec![lived(1, 9, true)]], &congestion(f64::NAN, 1, 0, 0)), [0; 0]);
    }

    #[test]
    fn the_sweep_finds_what_counting_at_every_instant_finds() {
        for seed in 0..200 {
            let mut rng = Rng::numbered(seed, 1 << 32);
            let log = |rng: &mut Rng| -> Vec<Lived> {
                let one = |rng: &mut Rng| {
                    let from = rng.below(60);
                    lived(from, from + rng.below(15), rng.chance(0.4))
                };
                (0..20).map(|_| one(rng)).collect()
            };
            let logs: Vec<Vec<Lived>> = (0..4).map(|_| log(&mut rng)).collect();
            let congestion = congestion(0.3 + 0.4 * rng.unit(), 1 + rng.index(3), 5, rng.below(20));
            assert_eq!(found(&logs, &congestion), slowly(&logs, &congestion), "seed {seed}");
        }
    }

    fn slowly(logs: &[Vec<Lived>], congestion: &Congestion) -> Vec<u64> {
        let congested = |second: u64| {
            let delinquent = |log: &&Vec<Lived>| {
                let there = || log.iter().filter(|lived| lived.arrived <= at(second) && at(second) < lived.ended);
                let late = there().filter(|lived| lived.late).count();
                late > 0 && late as f64 >= congestion.share * there().count() as f64
            };
            logs.iter().filter(delinquent).count() >= congestion.workloads
        };
        let mut moments: Vec<u64> = Vec::new();
        for second in 0..100_u64 {
            let moment = second.saturating_sub(congestion.lead.micros() / 1_000_000);
            let apart = congestion.apart.micros() / 1_000_000;
            let begins = congested(second) && (second == 0 || !congested(second - 1));
            if begins && moments.last().is_none_or(|last| moment - last >= apart) {
                moments.push(moment);
            }
        }
        moments
    }
}
