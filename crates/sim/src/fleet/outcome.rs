//! What came of a run.

use serde::{Deserialize, Serialize};

/// What was counted and measured, after the warm-up; times in mean service times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Arrivals, completions, ends of standby and of setup, before the warm-up too.
    pub events: u64,
    /// Tasks that arrived.
    pub arrived: u64,
    /// Tasks whose service began.
    pub started: u64,
    /// Those of them that had waited.
    pub waited: u64,
    /// Tasks whose service ended.
    pub finished: u64,
    /// Tasks that found no server on and were held.
    pub held: u64,
    /// Tasks that found a full server.
    pub lost: u64,
    /// Setups that began.
    pub setups: u64,
    /// Setups that were called off.
    pub aborted: u64,
    /// Messages between dispatcher and servers about their state, besides the tasks and the order to start.
    pub messages: u64,
    /// Mean wait of the tasks whose service began.
    pub mean_wait: f64,
    /// Their longest wait.
    pub longest_wait: f64,
    /// Share of servers that were busy, on average over time.
    pub busy: f64,
    /// Share that was idle-on.
    pub idle_on: f64,
    /// Share in setup.
    pub setup: f64,
    /// Share that was idle-off.
    pub idle_off: f64,
    /// Watts a server, on average.
    pub power_per_server_w: f64,
    /// Share of the energy that servers drew without working: idle-on or in setup.
    pub wasted: f64,
    /// The state over time.
    pub path: Vec<Sample>,
    /// Bytes that the state of the fleet took at the end.
    pub bytes: u64,
}

/// The state of the fleet at an instant, in shares of the servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: f64,
    /// Servers with at least one task, at least two, and so on.
    pub queues: Vec<f64>,
    /// Servers that are idle-off.
    pub idle_off: f64,
    /// Servers in setup.
    pub setup: f64,
}

impl Outcome {
    /// Share of the tasks whose service began that had waited.
    pub fn fraction_waiting(&self) -> f64 {
        self.waited as f64 / self.started.max(1) as f64
    }

    /// Messages for each task that arrived.
    pub fn messages_per_task(&self) -> f64 {
        self.messages as f64 / self.arrived.max(1) as f64
    }
}

impl Sample {
    /// The share of servers that are idle-on.
    pub fn idle_on(&self) -> f64 {
        1.0 - self.queues.first().copied().unwrap_or(0.0) - self.idle_off - self.setup
    }

    /// The greatest difference of a share between the two.
    pub fn distance(&self, other: &Sample) -> f64 {
        let queue = |sample: &Sample, at: usize| sample.queues.get(at).copied().unwrap_or(0.0);
        let deepest = self.queues.len().max(other.queues.len());
        let queues = (0..deepest).map(|at| (queue(self, at) - queue(other, at)).abs());
        let states = [self.idle_off - other.idle_off, self.setup - other.setup].map(f64::abs);
        queues.chain(states).fold(0.0, f64::max)
    }
}
