//! What is measured while a run goes on: counts, and the servers of each state added up over time.

use punctual_core::fleet::{Book, State};

use super::outcome::{Outcome, Sample};
use super::setting::{Power, Setting};

/// Counts since the warm-up, and what is needed for averages.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    pub(super) events: u64,
    pub(super) counts: Counts,
    /// Server times that were spent busy, idle-on and in setup since the warm-up.
    spent: [f64; 3],
    /// Servers with at least two tasks, three, and so on; those with one are the busy ones.
    longer: Vec<u32>,
    pub(super) path: Vec<Sample>,
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) arrived: u64,
    pub(super) started: u64,
    pub(super) waited: u64,
    pub(super) finished: u64,
    pub(super) held: u64,
    pub(super) lost: u64,
    pub(super) setups: u64,
    pub(super) aborted: u64,
    pub(super) messages: u64,
    wait: f64,
    longest: f64,
}

impl Meter {
    /// The state of the book has lasted so long.
    #[inline]
    pub(super) fn pass(&mut self, book: &Book, time: f64) {
        for (spent, state) in self.spent.iter_mut().zip([State::Busy, State::IdleOn, State::Setup]) {
            *spent += f64::from(book.count(state)) * time;
        }
    }

    /// The warm-up is over: what was measured so far is forgotten.
    pub(super) fn begin(&mut self) {
        self.counts = Counts::default();
        self.spent = [0.0; 3];
    }

    /// A service begins after a wait.
    #[inline]
    pub(super) fn waited(&mut self, wait: f64) {
        self.counts.started += 1;
        self.counts.waited += 1;
        self.counts.wait += wait;
        self.counts.longest = self.counts.longest.max(wait);
    }

    /// One more task waits at a server, at which so many waited.
    pub(super) fn lengthened(&mut self, waiting: u32) {
        let at = waiting as usize;
        if at == self.longer.len() {
            self.longer.push(0);
        }
        self.longer[at] += 1;
    }

    /// One less task waits at a server, at which so many do now.
    pub(super) fn shortened(&mut self, waiting: u32) {
        self.longer[waiting as usize] -= 1;
    }

    /// Writes the state down.
    pub(super) fn sample(&mut self, book: &Book, at: f64) {
        let share = |count: u32| f64::from(count) / f64::from(book.servers());
        let longer = self.longer.iter().copied().take_while(|count| *count > 0);
        let queues = std::iter::once(book.count(State::Busy)).chain(longer).map(share).collect();
        let (idle_off, setup) = (share(book.count(State::IdleOff)), share(book.count(State::Setup)));
        self.path.push(Sample { at, queues, idle_off, setup });
    }

    /// What came of it.
    pub(super) fn outcome(self, setting: &Setting, bytes: usize) -> Outcome {
        let counts = self.counts;
        let whole = f64::from(setting.servers) * (setting.horizon - setting.warmup);
        let [busy, idle_on, setup] = self.spent.map(|spent| spent / whole);
        let Power { full, idle } = setting.power;
        let power = full * (busy + setup) + idle * idle_on;
        let idly = full * setup + idle * idle_on;
        Outcome {
            events: self.events,
            arrived: counts.arrived,
            started: counts.started,
            waited: counts.waited,
            finished: counts.finished,
            held: counts.held,
            lost: counts.lost,
            setups: counts.setups,
            aborted: counts.aborted,
            messages: counts.messages,
            mean_wait: counts.wait / counts.started.max(1) as f64,
            longest_wait: counts.longest,
            busy,
            idle_on,
            setup,
            idle_off: (1.0 - busy - idle_on - setup).max(0.0),
            power_per_server_w: power,
            wasted: if power > 0.0 { idly / power } else { 0.0 },
            path: self.path,
            bytes: bytes as u64,
        }
    }
}
