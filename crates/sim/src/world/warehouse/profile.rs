//! What a query asks of a cluster, and what a cluster has to give: work, not latencies.
//!
//! A [`Profile`] is a query's side: so much CPU work, so many gigabytes to read, so much memory, and how many units it
//! can use. [`Parameters`] are the warehouse's side, per unit of size. The unit of CPU work is what one unit does in a
//! second, so a cluster of size s does s of it; everything else is in gigabytes.

use super::cache::Tables;
use crate::world::sharing::Work;

/// One of the 99 queries of TPC-DS, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template(u8);

impl Template {
    /// How many there are.
    pub const COUNT: usize = 99;

    /// Template `number`; None unless it is from 1 to 99.
    pub fn new(number: u32) -> Option<Template> {
        u8::try_from(number).ok().filter(|number| (1..=99).contains(number)).map(Template)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Template> {
        (1..=99).map(Template)
    }

    /// From 1 to 99.
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// Its place among all, from zero.
    pub fn index(self) -> usize {
        usize::from(self.0) - 1
    }
}

/// What a query asks of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Work of the processors, in seconds of one unit.
    pub cpu: f64,
    /// What it reads, in GB, from its tables in proportion to their sizes.
    pub io: f64,
    /// What it keeps in memory while it runs, in GB.
    pub memory: f64,
    /// The most units that it can use at once.
    pub most_units: f64,
    /// What it reads from.
    pub tables: Tables,
    /// Which query it is, if it is one of those: a cluster compiles each once.
    pub template: Option<Template>,
}

impl Profile {
    /// Pure CPU work, as [`Sharing`](crate::world::sharing::Sharing) knows it: nothing is read, nothing is kept.
    pub fn of_work(work: Work) -> Profile {
        Profile {
            cpu: work.cpu.secs_f64(),
            io: 0.0,
            memory: 0.0,
            most_units: f64::from(work.most_units.max(1)),
            tables: Tables::NONE,
            template: None,
        }
    }
}

/// What a warehouse gives. Per unit: a cluster of size s has s times as much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// GB that a unit reads in a second from tables in the cluster's cache.
    pub bandwidth: f64,
    /// GB of memory in a unit.
    pub memory: f64,
    /// GB of tables that a unit keeps in its cache.
    pub cache: f64,
    /// How many times as long a GB takes that is not in the cache.
    pub cold: f64,
    /// GB read and written for each GB of memory that is wanted and not there.
    pub spill: f64,
    /// Queries that a unit runs at once; a cluster runs two at least.
    pub slots: f64,
    /// The deviation of the logarithm of the work of one execution.
    pub noise: f64,
    /// Seconds that pass before a query begins to work, whatever the size.
    pub start_up: f64,
    /// Seconds that pass besides when a cluster sees a query for the first time.
    pub compile: f64,
}

impl Parameters {
    /// How many queries a cluster of this many units runs at once.
    pub fn slots_of(&self, units: f64) -> usize {
        // Saturates, and nonsense counts as none.
        ((self.slots * units + 0.5) as usize).max(2)
    }
}
