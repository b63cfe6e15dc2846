//! What works off the queries of one cluster: plain [`Sharing`], the simulated [`Warehouse`], or what is [`Predicted`].
//!
//! Sharing knows CPU work alone and is exact; random scenarios use it. The warehouse knows what TPC-DS queries ask
//! for, and is what policies are measured against.

use std::sync::Arc;

use punctual_core::id::{QueryId, Units};
use punctual_core::time::Time;

use super::predicted::Predicted;
use super::sharing::{Sharing, Work};
use super::warehouse::{Profile, Table, Template, Warehouse};

/// Which of them a world's clusters are, and all that a new one needs.
#[derive(Clone, Debug, Default)]
pub enum Make {
    /// Every cluster is a [`Sharing`] that takes all that it is sent: that there is not too much of it is for the
    /// dispatcher to see to.
    #[default]
    Sharing,
    /// Every cluster is a [`Warehouse`] of this table, and cold when it starts.
    Warehouse {
        /// What the warehouse gives, and what templates ask for.
        table: Arc<Table>,
        /// That of the executions' luck.
        seed: u64,
    },
    /// Queries end when the dispatcher's predictor says.
    Predicted {
        /// That of the draws from what it says.
        seed: u64,
    },
}

impl Make {
    /// A new cluster of so many units, in which nothing has run yet.
    pub fn cluster(&self, units: Units) -> Compute {
        match self {
            Make::Sharing => Compute::Sharing(Sharing::new(units, u32::MAX)),
            Make::Predicted { seed } => Compute::Predicted(Predicted::new(*seed)),
            Make::Warehouse { table, seed } => Compute::Warehouse {
                warehouse: Box::new(Warehouse::new(table.parameters, units, *seed)),
                table: table.clone(),
            },
        }
    }
}

/// One cluster's queries and their progress. Calls carry the time, which is taken not to go back.
#[derive(Clone, Debug)]
pub enum Compute {
    /// Processors, shared.
    Sharing(Sharing),
    /// Everything, shared.
    Warehouse {
        /// The cluster.
        warehouse: Box<Warehouse>,
        /// What templates ask for.
        table: Arc<Table>,
    },
    /// What the predictor says.
    Predicted(Predicted),
}

impl Compute {
    /// A query comes. In a warehouse its template says what it asks for, and its work if it has none; elsewhere
    /// its work does.
    pub fn arrive(&mut self, now: Time, query: QueryId, work: Work, template: Option<Template>) {
        match self {
            Compute::Sharing(sharing) => sharing.arrive(now, query, work),
            Compute::Warehouse { warehouse, table } => {
                let profile = template.map_or_else(|| Profile::of_work(work), |template| table.profile(template));
                warehouse.arrive(now, query, profile);
            }
            Compute::Predicted(predicted) => predicted.arrive(now, query),
        }
    }

    /// A query goes before it has finished. False if it is not here, or has finished by now.
    pub fn leave(&mut self, now: Time, query: QueryId) -> bool {
        match self {
            Compute::Sharing(sharing) => sharing.leave(now, query),
            Compute::Warehouse { warehouse, .. } => warehouse.leave(now, query),
            Compute::Predicted(predicted) => predicted.leave(now, query),
        }
    }

    /// When to ask for what has finished, if no query comes or goes before.
    pub fn next(&self) -> Option<Time> {
        match self {
            Compute::Sharing(sharing) => sharing.next(),
            Compute::Warehouse { warehouse, .. } => warehouse.next(),
            Compute::Predicted(predicted) => predicted.next(),
        }
    }

    /// The queries that have finished by now, in the order in which they did. There may be none: ask again.
    pub fn finished(&mut self, now: Time) -> Vec<QueryId> {
        match self {
            Compute::Sharing(sharing) => sharing.finished(now),
            Compute::Warehouse { warehouse, .. } => warehouse.finished(now),
            Compute::Predicted(predicted) => predicted.finished(now),
        }
    }

    /// How many queries run.
    pub fn running(&self) -> usize {
        match self {
            Compute::Sharing(sharing) => sharing.running(),
            Compute::Warehouse { warehouse, .. } => warehouse.running(),
            Compute::Predicted(predicted) => predicted.running(),
        }
    }

    /// How many queries wait for a slot.
    pub fn waiting(&self) -> usize {
        match self {
            Compute::Sharing(sharing) => sharing.waiting(),
            Compute::Warehouse { warehouse, .. } => warehouse.waiting(),
            Compute::Predicted(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::time::Span;

    use super::*;

    #[test]
    fn a_cluster_is_cold_when_it_starts_and_warm_when_it_has_worked() {
        let mut table = Table::shipped().clone();
        table.parameters.noise = 0.0;
        let make = Make::Warehouse { table: Arc::new(table), seed: 1 };
        let work = Work { cpu: Span::ZERO, most_units: 1 };
        let took = |cluster: &mut Compute, from: u64| {
            let from = Time::ZERO + Span::from_secs(from);
            cluster.arrive(from, QueryId(1), work, Template::new(55));
            loop {
                let now = cluster.next().expect("an end");
                if !cluster.finished(now).is_empty() {
                    return now.since(from);
                }
            }
        };
        let mut cluster = make.cluster(Units(32));
        let (first, second) = (took(&mut cluster, 0), took(&mut cluster, 4_000));
        assert!(second < first, "{first} then {second}");
        assert_eq!(took(&mut make.cluster(Units(32)), 4_000), first);
    }

    #[test]
    fn what_has_no_template_is_pure_work_in_a_warehouse() {
        let mut table = Table::shipped().clone();
        table.parameters.noise = 0.0;
        table.parameters.start_up = 0.0;
        let mut cluster = Make::Warehouse { table: Arc::new(table), seed: 1 }.cluster(Units(4));
        cluster.arrive(Time::ZERO, QueryId(1), Work { cpu: Span::from_secs(8), most_units: 2 }, None);
        let end = cluster.next().expect("an end").since(Time::ZERO).secs_f64();
        assert!((end - 4.0).abs() < 1e-5, "{end}");
    }
}
