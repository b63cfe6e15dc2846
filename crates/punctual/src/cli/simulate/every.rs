//! Every policy with every seed, on all cores.
//!
//! Each run is a function of its policy and its seed, and results are put where they belong, so how many threads there
//! are and which is quicker changes nothing.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use punctual_sim::rehearsal::{Rehearsal, Rehearsed};

use super::found::Run;
use super::load::{Cut, Load};
use super::shadow::Record;
use crate::cli::progress::Teller;

/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// All that is to be run.
pub(super) struct Every<'a> {
    pub(super) load: &'a Load,
    pub(super) cut: Cut,
    /// One for each policy; each seed puts its own into it.
    pub(super) policies: &'a [Rehearsal],
    /// The first one's, and how many.
    pub(super) seeds: (u64, u64),
    /// How many runs of each policy are kept whole.
    pub(super) kept: Kept,
    /// What was done with these queries, if runs are compared with that.
    pub(super) record: Option<&'a Record>,
}

/// Which runs are kept whole, for pictures and for history.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// The first seed of each policy.
    pub(super) first_seeds: bool,
    /// All seeds of the first policy.
    pub(super) first_policy: bool,
}

/// What came of one run, and all of it if it is kept.
pub(super) type Done = (Run, Option<Rehearsed>);

impl Every<'_> {
    /// Runs them on so many threads at most; by policy, and for each by seed. None if it was stopped.
    pub(super) fn run(&self, threads: usize, stop: &AtomicBool) -> Option<Vec<Vec<Done>>> {
        let seeds = self.seeds.1 as usize;
        let jobs = self.policies.len() * seeds;
        let slots: Vec<Mutex<Option<Done>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
        let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (tell, told) = channel();
        thread::scope(|scope| {
            for _ in 0..threads.clamp(1, jobs.max(1)) {
                let (tell, slots, next, ended) = (tell.clone(), &slots, &next, &ended);
                scope.spawn(move || {
                    while let Some(job) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|job| *job < jobs) {
                        let done = self.one(job / seeds, job % seeds, ended, &tell, stop);
                        if let Ok(mut slot) = slots[job].lock() {
                            *slot = done;
                        }
                    }
                });
            }
            drop(tell);
            watch(&told, &ended, jobs);
        });
        let done: Option<Vec<Done>> = slots.into_iter().map(|slot| slot.into_inner().ok().flatten()).collect();
        let mut done = done?.into_iter();
        Some(self.policies.iter().map(|_| done.by_ref().take(seeds).collect()).collect())
    }

    fn one(
        &self,
        policy: usize,
        seed: usize,
        ended: &AtomicUsize,
        tell: &std::sync::mpsc::Sender<usize>,
        stop: &AtomicBool,
    ) -> Option<Done> {
        let number = self.seeds.0.wrapping_add(seed as u64);
        let arrivals = self.load.arrivals(number, self.cut);
        let _ = tell.send(arrivals.len());
        let rehearsal = Rehearsal { seed: number, make: self.load.make(number), ..self.policies[policy].clone() };
        let mut last = 0;
        let rehearsed = rehearsal.run(&arrivals, &mut |count| {
            ended.fetch_add(count - last, Ordering::Relaxed);
            last = count;
            !stop.load(Ordering::Relaxed)
        })?;
        ended.fetch_add(arrivals.len() - last, Ordering::Relaxed);
        let change = self.record.map(|record| record.change(&arrivals, &rehearsed));
        let run = Run::of(&rehearsed, &self.policies[policy].policy, change);
        let kept = (self.kept.first_seeds && seed == 0) || (self.kept.first_policy && policy == 0);
        Some((run, kept.then_some(rehearsed)))
    }
}

/// Shows how far it is until all threads are done. How much there is in all is known once every run has begun; until then it
/// is taken to be as much as in those that have.
fn watch(told: &Receiver<usize>, ended: &AtomicUsize, jobs: usize) {
    let (mut teller, mut begun, mut queries) = (Teller::new(), 0usize, 0usize);
    loop {
        match told.recv_timeout(LOOK) {
            Ok(more) => (begun, queries) = (begun + 1, queries + more),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let all = (queries as u64).checked_div(begun as u64).unwrap_or(0) * jobs as u64;
        let done = ended.load(Ordering::Relaxed) as u64;
        teller.tell("simulating", (done.min(all), all.max(1)), || format!("{done} of {all} queries"));
    }
}

/// As many threads as there are cores.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(2, NonZero::get)
}
