//! The memory of one statement, where its session has set `work_mem`: as much of the cluster's, and no more.
//!
//! ```text
//!   operator ──▶ of the statement's ──▶ of the cluster's ──▶ granted
//!                      │ more than work_mem    │ all taken
//!                      ▼                       ▼
//!                 it spills where it can, or fails
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::session_state::SessionState;

/// The context of a statement that may use `most` bytes in all.
pub(super) fn capped(state: &SessionState, most: usize) -> Arc<TaskContext> {
    let mut runtime = (**state.runtime_env()).clone();
    let cluster = Arc::clone(&runtime.memory_pool);
    runtime.memory_pool = Arc::new(Capped { cluster, own: FairSpillPool::new(most), most });
    Arc::new(TaskContext::from(state).with_runtime(Arc::new(runtime)))
}

/// A part of a cluster's memory.
#[derive(Debug)]
struct Capped {
    cluster: Arc<dyn MemoryPool>,
    own: FairSpillPool,
    most: usize,
}

impl fmt::Display for Capped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.most, self.cluster)
    }
}

impl MemoryPool for Capped {
    fn name(&self) -> &str {
        "statement"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
        self.cluster.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
        self.cluster.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.cluster.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.cluster.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.own.try_grow(reservation, additional)?;
        self.cluster.try_grow(reservation, additional).inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statement_has_is_the_clusters_and_neither_gives_more_than_it_has() {
        let cluster: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(100));
        let pool = |most| -> Arc<dyn MemoryPool> {
            Arc::new(Capped { cluster: Arc::clone(&cluster), own: FairSpillPool::new(most), most })
        };
        let (small, large) = (pool(60), pool(90));
        let mine = MemoryConsumer::new("mine").register(&small);
        let other = MemoryConsumer::new("other").register(&large);
        assert!(mine.try_grow(61).is_err());
        assert!(mine.try_grow(60).is_ok());
        assert!(other.try_grow(41).is_err());
        assert_eq!((small.reserved(), large.reserved(), cluster.reserved()), (60, 0, 60), "what fails takes nothing");
        assert!(other.try_grow(40).is_ok());
        drop(mine);
        assert_eq!((small.reserved(), cluster.reserved()), (0, 40));
    }
}
