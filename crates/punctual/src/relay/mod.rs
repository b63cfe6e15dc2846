//! Connections to clusters.

use punctual_core::id::{ClusterId, Generation};

use crate::settings::{Door, Endpoint};

/// Connections to one start of one cluster.
#[derive(Debug)]
pub struct Pool {
    cluster: ClusterId,
    generation: Generation,
    name: String,
    endpoint: Endpoint,
    door: Door,
}

impl Pool {
    /// An empty pool.
    pub fn new(cluster: ClusterId, generation: Generation, name: String, endpoint: Endpoint, door: Door) -> Pool {
        Pool { cluster, generation, name, endpoint, door }
    }
}
