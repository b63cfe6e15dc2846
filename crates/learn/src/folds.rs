//! The rounds in which a training watches something, and what each of them learns from.
//!
//! ```text
//!   round 0      learns from Train, watches Validate
//!   round 1…4    learns from all but a quarter of Train's clusters, and watches that quarter
//! ```
//!
//! One round is enough where many queries are watched, each as good a witness as the next. Where whole clusters are held
//! out, they are few, and queries of one resemble each other: the width that the watched fifth of them needs is the
//! width of eight runs, not of a thousand queries. So then every cluster is watched once (cross-fitting: Barber, Candès,
//! Ramdas and Tibshirani 2021, without its pairing of predictions), and the rounds after the first are as long as the first
//! was, whatever they come to: what is chosen for doing well on what is watched is no longer a fair witness.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::rng::Rng;

use crate::observation::{Observation, Part};

/// Into how many folds the clusters that are learnt from are cut.
const FOLDS: usize = 4;

/// The stream of random numbers that cuts the folds: what clusters are numbered by, their size say, must not.
const CUTS: u64 = 2 << 40;

/// Where so many clusters are watched, they are enough.
const MANY: usize = 50;

/// Which rounds there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folds {
    /// True if something is watched at all.
    watches: bool,
    /// The fold of each cluster that is learnt from, where there are folds.
    fold_of: BTreeMap<u32, usize>,
}

impl Folds {
    /// As the parts of the observations say.
    pub(crate) fn of(observations: &[Observation], seed: u64) -> Folds {
        let clusters = |part| -> BTreeSet<u32> {
            observations.iter().filter(|seen| seen.part == part).map(|seen| seen.cluster).collect()
        };
        let (learnt, watched) = (clusters(Part::Train), clusters(Part::Validate));
        let watches = !learnt.is_empty() && !watched.is_empty();
        if !watches || !learnt.is_disjoint(&watched) {
            return Folds { watches, ..Folds::default() };
        }
        let folded = learnt.len() > 1 && watched.len() < MANY;
        let mut rng = Rng::numbered(seed, CUTS);
        let mut order: Vec<(u64, u32)> = learnt.into_iter().map(|cluster| (rng.bits(), cluster)).collect();
        order.sort_unstable();
        let order = order.into_iter().enumerate().filter(|_| folded);
        let fold_of: BTreeMap<u32, usize> = order.map(|(at, (_, cluster))| (cluster, at % FOLDS)).collect();
        Folds { watches, fold_of }
    }

    /// How many rounds there are before that which learns from everything.
    pub(crate) fn rounds(&self) -> usize {
        usize::from(self.watches) + self.fold_of.len().min(FOLDS)
    }

    /// Whether a round learns from an observation; what it does not learn from, the test part apart, it watches.
    pub(crate) fn learns(&self, round: usize, seen: &Observation) -> bool {
        match round {
            0 => seen.part == Part::Train,
            _ => seen.part != Part::Test && self.fold_of.get(&seen.cluster) != Some(&(round - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::tests::seen;

    fn on(clusters: &[(u32, Part)]) -> Vec<Observation> {
        clusters.iter().map(|(cluster, part)| Observation { part: *part, ..seen(*cluster, 0, 0, 1) }).collect()
    }

    #[test]
    fn whole_clusters_are_each_watched_once_and_the_test_part_never_learnt_from() {
        let mut all = on(&[(9, Part::Validate), (7, Part::Test)]);
        all.extend(on(&[(0, Part::Train), (1, Part::Train), (2, Part::Train), (3, Part::Train), (5, Part::Train)]));
        let folds = Folds::of(&all, 3);
        assert_eq!(folds.rounds(), 5);
        for seen in &all {
            let watched = (0..5).filter(|round| !folds.learns(*round, seen)).count();
            assert_eq!(watched, if seen.part == Part::Test { 5 } else { 1 }, "{}", seen.cluster);
        }
    }

    #[test]
    fn single_queries_are_watched_in_one_round_and_nothing_in_none() {
        let folds = Folds::of(&on(&[(0, Part::Validate), (0, Part::Train), (1, Part::Train)]), 3);
        assert_eq!(folds.rounds(), 1);
        assert_eq!(Folds::of(&on(&[(0, Part::Train), (1, Part::Test)]), 3).rounds(), 0);
        assert_eq!(Folds::of(&on(&[(0, Part::Validate), (1, Part::Test)]), 3).rounds(), 0);
        let folds = Folds::of(&on(&[(0, Part::Validate), (1, Part::Train)]), 3);
        assert_eq!(folds.rounds(), 1);
        let many: Vec<(u32, Part)> =
            (0..200).map(|at| (at, if at < 50 { Part::Validate } else { Part::Train })).collect();
        assert_eq!(Folds::of(&on(&many), 3).rounds(), 1);
    }
}
