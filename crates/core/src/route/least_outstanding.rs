//! Least outstanding: the cluster with the fewest queries for its size. What load balancers do when they know counts
//! and nothing else; also the fallback where a better policy cannot answer.

use super::{Candidate, Why};
use crate::id::ClusterId;

/// The candidate with the least outstanding per unit; ties go to the lower id.
pub(super) fn choose(open: &[Candidate]) -> Option<(ClusterId, Why)> {
    let least = open.iter().reduce(|best, next| if next.less_loaded(best) { next } else { best })?;
    Some((least.cluster, Why::LeastOutstanding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::tests::open;

    fn pick(loads: &[(u32, u32)]) -> u32 {
        choose(&open(loads)).map_or(u32::MAX, |(cluster, _)| cluster.0)
    }

    #[test]
    fn load_counts_per_unit_of_size() {
        assert_eq!(pick(&[(1, 1), (4, 3)]), 1);
        assert_eq!(pick(&[(1, 1), (4, 5)]), 0);
    }

    #[test]
    fn ties_go_to_the_lower_id() {
        assert_eq!(pick(&[(2, 1), (4, 2), (2, 1)]), 0);
        assert_eq!(pick(&[(1, 0), (8, 0)]), 0);
    }
}
