//! The simulated warehouse: how one cluster works off queries that want processors, I/O and memory.
//!
//! It shares nothing with what predicts latencies: it sees work. A query that gets a slot waits out its start-up and
//! then makes progress at a rate that is set by what is scarcest for it among those that run ([`rates`]). Two things
//! make a cluster slower than the sum of its queries. What they keep in memory together may exceed what there is;
//! then everyone writes part of its own to disk and reads it again, the larger the excess the larger the part. And
//! tables that the cluster has not read lately come from afar ([`cache`]). A new cluster has read none, and has yet to
//! compile each query.
//!
//! ```text
//!                arrives           gets a slot       start-up over                      ends
//!                   │─── waits ────────│──── nothing ────│──── progress ──────────────────│
//!   rate changes                                         ╵      ╵ others come and go  ╵
//! ```
//!
//! Progress is counted in whole numbers (2⁻⁹⁶ of the query in a microsecond), so nothing drifts, and where a run is looked
//! at has no effect on it ([`progress`](super::progress)).
//!
//! Each execution's work varies by a log-normal factor that belongs to the seed and the query: the same query has
//! the same luck wherever it is sent.

mod cache;
mod profile;
mod rates;
mod table;

use punctual_core::id::{QueryId, Units};
use punctual_core::math;
use punctual_core::rng::Rng;
use punctual_core::time::{Span, Time};

use super::progress::{Division, Progress, Running};
use cache::Cache;
use rates::{Need, rates};

pub use cache::{Steady, Tables};
pub use profile::{Parameters, Profile, Template};
pub use table::{Table, Unreadable};

/// Binary digits of a query's progress.
const POINT: u32 = 96;
/// All of a query.
const WHOLE: u128 = 1 << POINT;
/// What tells the luck of executions from other chance of the same seed.
const LUCK: u64 = 0x6c75_636b << 32;

/// One cluster of the warehouse.
pub type Warehouse = Progress<Resources>;

/// What a cluster has, and what it has read and compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    parameters: Parameters,
    units: f64,
    seed: u64,
    cache: Cache,
    /// A bit for each template that it has compiled.
    compiled: u128,
}

/// An execution of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    profile: Profile,
    /// What it reads, as seconds of one unit's bandwidth: what was cold when it began counts for more.
    reading: f64,
    luck: f64,
}

impl Warehouse {
    /// An idle cluster that has read nothing yet. Zero units count as one. `seed` is that of the executions' luck.
    pub fn new(parameters: Parameters, units: Units, seed: u64) -> Warehouse {
        let units = f64::from(units.0.max(1));
        let cache = Cache::cold(units * parameters.cache);
        Progress::idle(Resources { parameters, units, seed, cache, compiled: 0 }, parameters.slots_of(units))
    }
}

impl Division for Resources {
    type Ask = Profile;
    type Kept = Execution;

    fn begin(&mut self, now: Time, query: QueryId, profile: Profile) -> (Execution, u128, Time) {
        let here = self.cache.share(profile.tables);
        let read = profile.io * (here + self.parameters.cold * (1.0 - here));
        let text = profile.template.map_or(0, |template| 1u128 << template.index());
        let compile = if text & !self.compiled != 0 { self.parameters.compile } else { 0.0 };
        self.compiled |= text;
        let mut rng = Rng::numbered(self.seed ^ LUCK, query.0.wrapping_add(1 << 33));
        let luck = math::exp(self.parameters.noise * rng.normal());
        let begins = now + Span::from_secs_f64(self.parameters.start_up + compile);
        (Execution { profile, reading: read / self.parameters.bandwidth, luck }, WHOLE, begins)
    }

    fn divide(&mut self, now: Time, running: &mut [Running<Execution>]) {
        let wanted: f64 = running.iter().map(|running| running.kept.profile.memory).sum();
        let there = self.units * self.parameters.memory;
        let outside = if wanted > there { 1.0 - there / wanted } else { 0.0 };
        let seconds_per_gb = outside * self.parameters.spill / self.parameters.bandwidth;
        let need = |running: &Running<Execution>| Need {
            cpu: running.kept.profile.cpu,
            io: running.kept.reading + seconds_per_gb * running.kept.profile.memory,
            most: running.kept.profile.most_units,
        };
        let at_work = |running: &Running<Execution>| running.begins <= now;
        let needs: Vec<Need> = running.iter().filter(|running| at_work(running)).map(need).collect();
        let rates = rates(self.units, &needs);
        for (running, rate) in running.iter_mut().filter(|running| at_work(running)).zip(rates) {
            // Saturates: what goes faster than that is done at once.
            running.rate = ((rate / running.kept.luck * 1e-6) * WHOLE as f64) as u128;
        }
    }

    fn ended(&mut self, execution: &Execution) {
        self.cache.read(execution.profile.tables);
    }
}

#[cfg(test)]
mod tests;
