//! How a cluster went lately: what its last run of the same text took, and how far off the estimates were.
//!
//! One text on one size varies by a factor of two in the median, and most of that is the cache: a repeat on the cluster
//! that just ran it is quick, the first one after a start is slow. So each cluster remembers, for each text and for
//! each fingerprint, when it ran last and how that compared with what was expected, and over all queries how far off
//! the fluid estimate has been. These are inputs of the network, which learns what they are worth; they correct it as
//! queries end, without training.

use serde::{Deserialize, Serialize};

use super::recent::Recent;
use crate::fingerprint::Fingerprint;
use crate::time::Time;

/// How the last run of something ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Echo {
    /// When it ended.
    pub at: Time,
    /// ln of its latency over what it was expected to take alone.
    pub over_alone: f64,
    /// ln of its latency over the fluid estimate made when it arrived.
    pub over_fluid: f64,
}

/// What one cluster remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// When its first query arrived.
    pub begun: Option<Time>,
    /// How many of its queries have ended.
    pub ended: u32,
    /// How far off the fluid estimate is: running means of [`Echo::over_fluid`], over about five and twenty queries.
    pub off: [f64; 2],
    texts: Recent<u64, Echo>,
    shapes: Recent<Fingerprint, Echo>,
}

/// How much a query that ends moves the running means.
const WEIGHTS: [f64; 2] = [0.2, 0.05];

impl Past {
    /// The last run of a text.
    pub fn text(&self, text: u64) -> Option<&Echo> {
        self.texts.get(&text)
    }

    /// The last run of a fingerprint.
    pub fn shape(&self, shape: Fingerprint) -> Option<&Echo> {
        self.shapes.get(&shape)
    }

    /// A query has ended.
    pub fn learn(&mut self, text: u64, shape: Fingerprint, echo: Echo) {
        self.ended = self.ended.saturating_add(1);
        for (off, weight) in self.off.iter_mut().zip(WEIGHTS) {
            *off += weight * (echo.over_fluid - *off);
        }
        self.texts.put(text, echo.at, echo);
        self.shapes.put(shape, echo.at, echo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(at: u64, over_fluid: f64) -> Echo {
        Echo { at: Time::from_micros(at), over_alone: 0.0, over_fluid }
    }

    #[test]
    fn the_last_run_counts() {
        let mut past = Past::default();
        past.learn(7, Fingerprint(1), echo(1, 0.0));
        past.learn(7, Fingerprint(2), echo(2, 1.0));
        assert_eq!((past.text(7), past.text(8)), (Some(&echo(2, 1.0)), None));
        assert_eq!(past.shape(Fingerprint(1)), Some(&echo(1, 0.0)));
    }

    #[test]
    fn the_means_follow_what_ends() {
        let mut past = Past::default();
        past.learn(1, Fingerprint(1), echo(1, 1.0));
        past.learn(1, Fingerprint(1), echo(2, 1.0));
        assert!((past.off[0] - 0.36).abs() < 1e-12 && (past.off[1] - 0.0975).abs() < 1e-12, "{:?}", past.off);
        assert_eq!(past.ended, 2);
    }
}
