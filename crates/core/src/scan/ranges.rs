//! Sets of instants (or of numbers), as ranges.
//!
//! A set only ever grows by mistake: where there would be too many ranges, those with the least between them become one.
//! It is never complemented, since the complement of what is too large is too small; who wants the opposite of a predicate
//! builds the set of the opposite predicate.

use super::calendar::Micros;

/// The least of what is unbounded below.
pub(crate) const LEAST: Micros = Micros::MIN / 4;
/// The end of what is unbounded above.
pub(crate) const MOST: Micros = Micros::MAX / 4;

/// Ends are moved as if none were further away than this.
const FURTHEST: Micros = 1 << 90;

/// The most ranges that a set has.
const LIMIT: usize = 64;

/// A set of whole numbers: half-open ranges, in order, none empty, none touching the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(Micros, Micros)>);

impl Ranges {
    /// Everything.
    pub(crate) fn all() -> Ranges {
        Ranges(vec![(LEAST, MOST)])
    }

    /// Nothing.
    pub(crate) fn none() -> Ranges {
        Ranges(Vec::new())
    }

    /// From `from` on, before `to`.
    pub(crate) fn between(from: Micros, to: Micros) -> Ranges {
        let (from, to) = (from.max(LEAST), to.min(MOST));
        Ranges(if from < to { vec![(from, to)] } else { Vec::new() })
    }

    /// The ranges in order: from, and before.
    pub(crate) fn pieces(&self) -> &[(Micros, Micros)] {
        &self.0
    }

    /// What is in either.
    pub(crate) fn or(self, other: Ranges) -> Ranges {
        if self.0.is_empty() {
            return other;
        }
        let mut pieces = self.0;
        pieces.extend(other.0);
        Ranges::of(pieces)
    }

    /// What is in both.
    pub(crate) fn and(&self, other: &Ranges) -> Ranges {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut pieces = Vec::new();
        while let (Some(&&(from, to)), Some(&&(also_from, also_to))) = (left.peek(), right.peek()) {
            if from.max(also_from) < to.min(also_to) {
                pieces.push((from.max(also_from), to.min(also_to)));
            }
            if to < also_to {
                left.next()
            } else {
                right.next()
            };
        }
        Ranges::of(pieces)
    }

    /// With other ends: `ends` says which. Ends that are not finite stay.
    pub(crate) fn map(self, ends: impl Fn(Micros, Micros) -> (Micros, Micros)) -> Ranges {
        let moved = self.0.into_iter().map(|(from, to)| {
            let (new_from, new_to) = ends(near(from), near(to));
            (if from == LEAST { LEAST } else { new_from }, if to == MOST { MOST } else { new_to })
        });
        Ranges::of(moved.collect())
    }

    /// The same, mirrored: `ends` gets a range and says the new one; what had no end has no beginning then.
    pub(crate) fn mirror(self, ends: impl Fn(Micros, Micros) -> (Micros, Micros)) -> Ranges {
        let moved = self.0.into_iter().map(|(from, to)| {
            let (new_from, new_to) = ends(near(from), near(to));
            (if to == MOST { LEAST } else { new_from }, if from == LEAST { MOST } else { new_to })
        });
        Ranges::of(moved.collect())
    }

    /// Where it begins; None if it has no beginning. Zero if there is nothing in it: ask for [`Ranges::pieces`] first.
    pub(crate) fn start(&self) -> Option<Micros> {
        self.0.first().map_or(Some(0), |(from, _)| (*from > LEAST).then_some(*from))
    }

    /// How much it is in all; None: without bound.
    pub(crate) fn total(&self) -> Option<Micros> {
        let bounded = |&(from, to): &(Micros, Micros)| (from > LEAST && to < MOST).then_some(to - from);
        self.0.iter().map(bounded).sum()
    }

    fn of(mut pieces: Vec<(Micros, Micros)>) -> Ranges {
        pieces.retain(|(from, to)| from < to);
        pieces.sort_unstable();
        let mut merged: Vec<(Micros, Micros)> = Vec::with_capacity(pieces.len());
        for (from, to) in pieces {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from.max(LEAST), to.min(MOST))),
            }
        }
        if merged.len() > LIMIT {
            close_gaps(&mut merged);
        }
        Ranges(merged)
    }
}

fn near(at: Micros) -> Micros {
    at.clamp(-FURTHEST, FURTHEST)
}

/// Leaves [`LIMIT`] ranges, those with the widest gaps between them.
fn close_gaps(pieces: &mut Vec<(Micros, Micros)>) {
    let mut gaps: Vec<(Micros, usize)> =
        pieces.windows(2).enumerate().map(|(at, pair)| (pair[1].0 - pair[0].1, at)).collect();
    gaps.sort_unstable();
    let mut close = vec![false; pieces.len()];
    gaps.iter().take(pieces.len() - LIMIT).for_each(|(_, at)| close[*at] = true);
    let mut kept: Vec<(Micros, Micros)> = Vec::with_capacity(LIMIT);
    for (at, piece) in pieces.iter().enumerate() {
        match kept.last_mut() {
            Some(last) if close[at - 1] => last.1 = piece.1,
            _ => kept.push(*piece),
        }
    }
    *pieces = kept;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(pieces: &[(Micros, Micros)]) -> Ranges {
        Ranges::of(pieces.to_vec())
    }

    fn has(ranges: &Ranges, at: Micros) -> bool {
        ranges.pieces().iter().any(|(from, to)| *from <= at && at < *to)
    }

    #[test]
    fn what_touches_is_one() {
        assert_eq!(of(&[(3, 5), (1, 3), (7, 7), (8, 9)]).pieces(), [(1, 5), (8, 9)]);
        assert_eq!(Ranges::between(5, 5), Ranges::none());
        assert_eq!(Ranges::all().and(&of(&[(1, 2), (4, 6)])), of(&[(1, 2), (4, 6)]));
        assert_eq!(Ranges::none().total(), Some(0));
        assert_eq!(of(&[(1, 2), (4, 6)]).total(), Some(3));
        assert_eq!((of(&[(1, MOST)]).total(), of(&[(1, MOST)]).start()), (None, Some(1)));
        assert_eq!(Ranges::all().start(), None);
    }

    #[test]
    fn too_many_ranges_merge_where_least_is_between() {
        let many: Vec<_> = (0..200).map(|at| (at * 10, at * 10 + 1)).chain([(100_000, 100_001)]).collect();
        let few = of(&many);
        assert_eq!(few.pieces().len(), LIMIT);
        assert_eq!(few.pieces()[LIMIT - 1], (100_000, 100_001));
        assert!(many.iter().all(|(from, _)| has(&few, *from)));
    }

    #[test]
    fn ends_that_are_not_there_do_not_move() {
        assert_eq!(Ranges::all().map(|from, to| (from + 5, to - 5)), Ranges::all());
        assert_eq!(of(&[(7, MOST)]).mirror(|from, to| (1 - to, 1 - from)), of(&[(LEAST, -6)]));
    }

    proptest! {
        #[test]
        fn sets_hold_what_they_should(
            left in prop::collection::vec((0..100_i128, 0..20_i128), 0..8),
            right in prop::collection::vec((0..100_i128, 0..20_i128), 0..8),
        ) {
            let set = |pieces: &[(i128, i128)]| of(&pieces.iter().map(|(at, len)| (*at, at + len)).collect::<Vec<_>>());
            let (left, right) = (set(&left), set(&right));
            let (both, either) = (left.and(&right), left.clone().or(right.clone()));
            for at in -1..130 {
                prop_assert_eq!(has(&both, at), has(&left, at) && has(&right, at));
                prop_assert_eq!(has(&either, at), has(&left, at) || has(&right, at));
            }
        }
    }
}
