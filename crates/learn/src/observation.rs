//! What there is to learn from: queries that ran, with when and where.

use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::Units;
use punctual_core::predict::features::Features;
use punctual_core::time::Time;

/// One query that ran on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Which cluster, by a number of the caller's. Queries are neighbours only on the same one.
    pub cluster: u32,
    /// Its size.
    pub size: Units,
    /// When the query reached the cluster.
    pub arrival: Time,
    /// When it ended there.
    pub ended: Time,
    /// True if it finished; otherwise its latency is a lower bound (it was aborted, failed or timed out).
    pub finished: bool,
    /// Its shape.
    pub shape: Fingerprint,
    /// What stands for its text.
    pub text: u64,
    /// What its text and plan say.
    pub features: Features,
    /// What it may be used for.
    pub part: Part,
    /// Somebody else's prediction of its latency in seconds, to compare with. Never an input.
    pub published: Option<f64>,
}

/// What an observation may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// To learn from.
    Train,
    /// To decide when to stop, and how wide predictions are. The last model learns from it too.
    Validate,
    /// To measure. Nothing is learnt from it; when it ran is part of what its neighbours met.
    Test,
}

impl Observation {
    /// Its latency on the cluster, in seconds.
    pub fn seconds(&self) -> f64 {
        self.ended.since(self.arrival).secs_f64()
    }
}

/// Something that happens on a cluster, as history is gone through again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The observation of this index arrives.
    Arrives(usize),
    /// It ends.
    Ends(usize),
}

/// All arrivals and ends, cluster by cluster, in the order in which they happened there. At one instant what ends goes
/// before what arrives, unless it is the same query; equal arrivals keep their order in `observations`.
pub fn turns(observations: &[Observation]) -> Vec<Vec<Turn>> {
    let mut order: Vec<(u32, Time, bool, Time, usize, Turn)> = Vec::with_capacity(2 * observations.len());
    for (index, seen) in observations.iter().enumerate() {
        let ended = seen.ended.max(seen.arrival);
        order.push((seen.cluster, seen.arrival, true, seen.arrival, index, Turn::Arrives(index)));
        // What takes no time ends after it arrives.
        order.push((seen.cluster, ended, ended == seen.arrival, seen.arrival, index, Turn::Ends(index)));
    }
    order.sort_by_key(|(cluster, time, late, arrival, index, turn)| {
        (*cluster, *time, *late, *arrival, *index, matches!(turn, Turn::Ends(_)))
    });
    let by_cluster = order.chunk_by(|one, other| one.0 == other.0);
    by_cluster.map(|turns| turns.iter().map(|turn| turn.5).collect()).collect()
}

/// Which of them ran alone: nothing else ran on their cluster at any moment of theirs.
pub fn isolated(observations: &[Observation]) -> Vec<bool> {
    let mut alone = vec![true; observations.len()];
    for turns in turns(observations) {
        let mut running: Vec<usize> = Vec::new();
        for turn in turns {
            match turn {
                Turn::Arrives(index) => {
                    if !running.is_empty() {
                        alone[index] = false;
                        running.iter().for_each(|neighbour| alone[*neighbour] = false);
                    }
                    running.push(index);
                }
                Turn::Ends(index) => running.retain(|other| *other != index),
            }
        }
    }
    alone
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use punctual_core::predict::features::FEATURES;

    /// A query of `shape` on `cluster` of size 4, from and to in milliseconds.
    pub(crate) fn seen(cluster: u32, shape: u64, from: u64, to: u64) -> Observation {
        Observation {
            cluster,
            size: Units(4),
            arrival: Time::from_micros(from * 1_000),
            ended: Time::from_micros(to * 1_000),
            finished: true,
            shape: Fingerprint(shape),
            text: shape,
            features: [0.0; FEATURES],
            part: Part::Train,
            published: None,
        }
    }

    #[test]
    fn turns_go_by_cluster_and_time_and_ends_go_first() {
        use Turn::{Arrives, Ends};
        let seen = [seen(1, 0, 5, 9), seen(0, 0, 3, 7), seen(0, 0, 7, 7), seen(0, 0, 7, 8), seen(1, 0, 1, 5)];
        let of_0 = vec![Arrives(1), Ends(1), Arrives(2), Ends(2), Arrives(3), Ends(3)];
        assert_eq!(turns(&seen), [of_0, vec![Arrives(4), Ends(4), Arrives(0), Ends(0)]]);
    }

    #[test]
    fn an_end_before_its_start_counts_as_no_time() {
        assert_eq!(turns(&[seen(0, 0, 5, 1)]), [[Turn::Arrives(0), Turn::Ends(0)]]);
        assert_eq!(seen(0, 0, 5, 1).seconds(), 0.0);
    }

    #[test]
    fn alone_is_who_shares_no_moment_of_a_cluster() {
        let seen = [seen(0, 0, 0, 10), seen(0, 0, 10, 30), seen(0, 0, 20, 25), seen(1, 0, 20, 25), seen(0, 0, 30, 31)];
        assert_eq!(isolated(&seen), [true, false, false, true, true]);
    }
}
