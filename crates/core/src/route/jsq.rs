//! Join the shortest queue: the fewest queries for its size, and of several such a random one. Least outstanding, which
//! always takes the first of them, wears out the same clusters and leaves others to get cold.

use super::{Candidate, Why};
use crate::id::ClusterId;
use crate::rng::Rng;

/// One of the candidates with the least outstanding per unit.
pub(super) fn choose(open: &[Candidate], rng: &mut Rng) -> Option<(ClusterId, Why)> {
    let least = open.iter().reduce(|best, next| if next.less_loaded(best) { next } else { best })?;
    let least: Vec<&Candidate> = open.iter().filter(|candidate| candidate.load(least).is_eq()).collect();
    least.get(rng.index(least.len())).map(|candidate| (candidate.cluster, Why::LeastOutstanding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use crate::route::tests::open;

    #[test]
    fn of_several_with_the_least_load_each_is_chosen_as_often_as_the_other() {
        let open = open(&[(1, 2), (2, 2), (1, 1), (4, 5), (1, 1)]);
        let mut rng = Rng::stream(3, Stream::Routing);
        let mut chosen = [0u32; 5];
        for _ in 0..3_000 {
            if let Some((cluster, _)) = choose(&open, &mut rng) {
                chosen[cluster.0 as usize] += 1;
            }
        }
        assert_eq!((chosen[0], chosen[3]), (0, 0));
        assert!([1, 2, 4].iter().all(|at| chosen[*at].abs_diff(1_000) < 130), "{chosen:?}");
    }
}
