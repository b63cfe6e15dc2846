//! Round robin: the clusters take turns, in the order of their ids. It is blind to load and size; the baseline that
//! every comparison starts from.

use super::{Candidate, Why};
use crate::id::ClusterId;

/// The first candidate after the cluster that was chosen last, around the end. By id, not by position: clusters that
/// come and go do not make others lose or repeat their turn.
pub(super) fn choose(open: &[Candidate], last: Option<ClusterId>) -> Option<(ClusterId, Why)> {
    let next = open.iter().find(|candidate| Some(candidate.cluster) > last).or(open.first())?;
    Some((next.cluster, Why::Turn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::tests::open;

    #[test]
    fn clusters_take_turns_whatever_their_load() {
        let open = open(&[(1, 9), (4, 0), (1, 0)]);
        let mut last = None;
        let mut turns = Vec::new();
        for _ in 0..5 {
            last = choose(&open, last).map(|(cluster, _)| cluster);
            turns.extend(last.map(|cluster| cluster.0));
        }
        assert_eq!(turns, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_cluster_that_is_full_loses_only_its_own_turn() {
        let all = open(&[(1, 0), (1, 0), (1, 0)]);
        let without_the_second = [all[0].clone(), all[2].clone()];
        assert_eq!(choose(&without_the_second, Some(ClusterId(0))), Some((ClusterId(2), Why::Turn)));
        assert_eq!(choose(&without_the_second, Some(ClusterId(1))), Some((ClusterId(2), Why::Turn)));
    }
}
