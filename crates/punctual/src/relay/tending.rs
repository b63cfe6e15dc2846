//! Looking after a pool: closing connections that are old, opening those that will be needed, and, once somebody has come,
//! finding out whether its cluster has the types that others have.
//!
//! Both are done aside, so that no query waits for them. What could not be opened is tried again at the next look, not before: a
//! cluster that is in trouble is not asked more often for that.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::pool::Pool;
use super::types::KnownTypes;

/// How often a pool is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Looks after a pool until it is closed or nobody has it any more.
pub async fn tend(pool: Weak<Pool>, types: Arc<KnownTypes>) {
    let mut compared = false;
    loop {
        match pool.upgrade().filter(|pool| !pool.is_closed()) {
            None => return,
            Some(pool) => {
                let now = Instant::now();
                pool.close_old(now);
                pool.open_ahead(now).await;
                if !compared {
                    compared = pool.compare_types(&types).await;
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
