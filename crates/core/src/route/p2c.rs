//! Power of two choices: the less loaded of two clusters drawn at random (Mitzenmacher 2001). Close to least
//! outstanding in balance, without sending a whole burst to one cluster when the counts are stale.

use super::{Candidate, Why};
use crate::id::ClusterId;
use crate::rng::Rng;

/// Draws two different candidates, and takes the one with less outstanding per unit, or of two alike the one drawn first.
pub(super) fn choose(open: &[Candidate], rng: &mut Rng) -> Option<(ClusterId, Why)> {
    let (first, second) = two_of(open.len(), rng);
    let (a, b) = (open.get(first)?, open.get(second)?);
    let better = if b.load(a).is_lt() { b } else { a };
    Some((better.cluster, Why::BetterOf(a.cluster, b.cluster)))
}

/// Two different places in a list of that length, each pair, and each order of it, as likely as the other. (In a list of one
/// the second place does not exist.)
#[inline]
pub fn two_of(len: usize, rng: &mut Rng) -> (usize, usize) {
    let first = rng.index(len);
    let second = rng.index(len.saturating_sub(1));
    (first, second + usize::from(second >= first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use crate::route::tests::open;

    #[test]
    fn the_most_loaded_is_never_chosen_and_the_others_share() {
        let open = open(&[(1, 0), (1, 5), (1, 1)]);
        let mut rng = Rng::stream(3, Stream::Routing);
        let mut chosen = [0u32; 3];
        for _ in 0..3_000 {
            if let Some((cluster, _)) = choose(&open, &mut rng) {
                chosen[cluster.0 as usize] += 1;
            }
        }
        assert_eq!(chosen[1], 0);
        // Cluster 0 wins two of the three pairs, cluster 2 the third: 2000 and 1000, give or take five deviations.
        assert!(chosen[0].abs_diff(2_000) < 130, "{chosen:?}");
    }
}
