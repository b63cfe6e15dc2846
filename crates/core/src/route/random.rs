//! Random: any cluster with room, each as likely as the other, whatever its size and load. It is what the others are to be
//! better than.

use super::{Candidate, Why};
use crate::id::ClusterId;
use crate::rng::Rng;

/// One of the candidates.
pub(super) fn choose(open: &[Candidate], rng: &mut Rng) -> Option<(ClusterId, Why)> {
    open.get(rng.index(open.len())).map(|candidate| (candidate.cluster, Why::Drawn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use crate::route::tests::open;

    #[test]
    fn each_is_chosen_as_often_as_the_other_whatever_runs_there() {
        let open = open(&[(1, 0), (1, 7), (4, 2)]);
        let mut rng = Rng::stream(3, Stream::Routing);
        let mut chosen = [0u32; 3];
        for _ in 0..3_000 {
            if let Some((cluster, _)) = choose(&open, &mut rng) {
                chosen[cluster.0 as usize] += 1;
            }
        }
        // 1,000 each, give or take five deviations.
        assert!(chosen.iter().all(|count| count.abs_diff(1_000) < 130), "{chosen:?}");
    }
}
