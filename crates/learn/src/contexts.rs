//! What the network is shown: each query of history, with as much of its neighbourhood as is known at some moment.
//!
//! Hindsight is not foresight. All neighbours that a query ever had give its latency away, since the last of them came
//! while it still ran; a router knows those that run when it arrives and nothing else. A network trained on one kind of
//! sight fails at the other, so each query is shown as it looks [`Sight::AtArrival`], in [`Sight::Hindsight`], and at
//! one moment [`Sight::Between`], chosen by chance, each time with its true latency (ALGORITHMS, section 1.1).
//!
//! History is gone through once, cluster by cluster, in the scenes that live predictions are made in.

use std::ops::Range;

use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::QueryId;
use punctual_core::predict::scene::{Head, Meeting, Newcomer, PAIR, STEPS, Scene};
use punctual_core::predict::stage::Alone;
use punctual_core::rng::Rng;

use crate::examples::{Example, Examples, QueryInput};
use crate::observation::{Observation, Turn, turns};
use crate::stage::ln_seconds;

/// When a query is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// When it arrives: those that run then.
    AtArrival,
    /// After some of those that came later.
    Between,
    /// When it has ended: all that overlapped it.
    Hindsight,
}

/// What an example is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// The index of its observation, which is that of its query among the examples' queries.
    pub observation: u32,
    /// When it is looked at.
    pub sight: Sight,
    /// Its head.
    pub head: Head,
}

/// Everything that training or an evaluation reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contexts {
    /// For the network.
    pub examples: Examples,
    /// One for each example.
    pub about: Vec<About>,
}

/// Goes through history. `alone` holds for each observation what it is expected to take alone, `known` gives the rows
/// of known fingerprints; only the `wanted` ones become examples, all are neighbours. `rng` chooses the moments between.
pub fn contexts(
    observations: &[Observation],
    alone: &[Alone],
    known: impl Fn(Fingerprint) -> Option<u32>,
    wanted: impl Fn(&Observation) -> bool,
    rng: &mut Rng,
) -> Contexts {
    let input = |seen: &Observation| QueryInput { known: known(seen.shape), features: seen.features };
    let mut walk =
        Walk { observations, alone, all: Contexts::default(), open: Vec::new(), meeting: Meeting::default() };
    walk.all.examples.queries = observations.iter().map(input).collect();
    for turns in turns(observations) {
        let Some(Turn::Arrives(first)) = turns.first() else { continue };
        let mut scene = Scene::new(observations[*first].size);
        for turn in turns {
            match turn {
                Turn::Arrives(index) => walk.arrives(&mut scene, index, wanted(&observations[index]), rng),
                Turn::Ends(index) => walk.ends(&mut scene, index),
            }
        }
    }
    walk.all
}

/// A row about a pair, and the index of the neighbour.
type Row = ([f32; PAIR], u32);

/// History on its way.
struct Walk<'a> {
    observations: &'a [Observation],
    alone: &'a [Alone],
    all: Contexts,
    /// As many as run in the scene, in its order.
    open: Vec<Option<Open>>,
    meeting: Meeting,
}

/// A query that runs and will be a context.
struct Open {
    before: Range<u32>,
    after: Vec<Row>,
    at_arrival: Head,
    /// One of the moments so far, each with the same chance: how many rows of the after side, and the head.
    between: Option<(usize, Head)>,
    last: Option<(usize, Head)>,
    moments: u64,
}

impl Walk<'_> {
    fn arrives(&mut self, scene: &mut Scene, index: usize, wanted: bool, rng: &mut Rng) {
        let seen = &self.observations[index];
        let id = QueryId(index as u64);
        let newcomer = Newcomer { id, shape: seen.shape, text: seen.text, alone: self.alone[index] };
        scene.meet(seen.arrival, &newcomer, &mut self.meeting);
        for (at, open) in self.open.iter_mut().enumerate() {
            if let Some(open) = open {
                open.meets((self.meeting.after[at], index as u32), self.meeting.heads[at], rng);
            }
        }
        let open = wanted.then(|| self.opened(scene, index));
        self.open.push(open);
        scene.arrive(seen.arrival, newcomer, &self.meeting);
    }

    fn opened(&mut self, scene: &Scene, index: usize) -> Open {
        let there = scene.running().iter().skip(self.meeting.read_from).map(|running| running.query.id.0 as u32);
        let rows = self.meeting.before.iter().copied().zip(there.chain([index as u32]));
        let before = self.all.keep(rows);
        let pinch = (self.meeting.before[self.meeting.before.len() - 1], index as u32);
        let at_arrival = self.meeting.heads[self.meeting.heads.len() - 1];
        Open { before, after: vec![pinch], at_arrival, between: None, last: None, moments: 0 }
    }

    fn ends(&mut self, scene: &mut Scene, index: usize) {
        let seen = &self.observations[index];
        let id = QueryId(index as u64);
        let Some(at) = scene.running().iter().position(|running| running.query.id == id) else { return };
        scene.leave(seen.ended.max(seen.arrival), at, seen.finished);
        let Some(open) = self.open.remove(at) else { return };
        let after = self.all.keep(open.after);
        let sights = [
            (Sight::AtArrival, Some((1, open.at_arrival))),
            // The last moment is hindsight.
            (Sight::Between, open.between.filter(|_| open.moments > 1)),
            (Sight::Hindsight, open.last),
        ];
        for (sight, moment) in sights {
            let Some((rows, head)) = moment else { continue };
            self.all.about.push(About { observation: index as u32, sight, head });
            self.all.examples.examples.push(Example {
                target: index as u32,
                before: open.before.clone(),
                after: after.start..after.start + rows as u32,
                head: head.row,
                base: head.base as f32,
                label: ln_seconds(seen) as f32,
                bound: !seen.finished,
                group: seen.cluster,
            });
        }
    }
}

impl Contexts {
    /// Keeps rows, and says where.
    fn keep(&mut self, rows: impl IntoIterator<Item = Row>) -> Range<u32> {
        let from = self.examples.rows.len() as u32;
        for (row, neighbour) in rows {
            self.examples.rows.push(row);
            self.examples.neighbours.push(neighbour);
        }
        from..self.examples.rows.len() as u32
    }
}

impl Open {
    fn meets(&mut self, row: Row, head: Head, rng: &mut Rng) {
        // What was the last moment until now is one of those between.
        if let Some(moment) = self.last
            && rng.below(self.moments) == 0
        {
            self.between = Some(moment);
        }
        self.moments += 1;
        if self.after.len() <= STEPS {
            self.after.push(row);
        }
        self.last = Some((self.after.len(), head));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::tests::seen;
    use punctual_core::math;

    fn built(observations: &[Observation], wanted: impl Fn(&Observation) -> bool) -> Contexts {
        let alone = vec![Alone { ln: math::ln(2.0), ..Alone::default() }; observations.len()];
        contexts(observations, &alone, |_| None, wanted, &mut Rng::numbered(1, 1 << 40))
    }

    fn shape_of(contexts: &Contexts, target: u32) -> Vec<(Sight, Vec<u32>, Vec<u32>)> {
        let examples = &contexts.examples;
        let neighbours = |range: &Range<u32>| range.clone().map(|at| examples.neighbours[at as usize]).collect();
        let of_target = examples.examples.iter().zip(&contexts.about).filter(|(example, _)| example.target == target);
        of_target.map(|(one, about)| (about.sight, neighbours(&one.before), neighbours(&one.after))).collect()
    }

    #[test]
    fn each_sight_holds_the_neighbours_known_then() {
        // 0 runs alone at first; 1, 2 and 3 come while it runs; 4 runs elsewhere, 5 comes when all is over.
        let all = [
            seen(0, 0, 0, 100),
            seen(0, 1, 10, 40),
            seen(0, 2, 20, 90),
            seen(0, 3, 50, 60),
            seen(1, 4, 30, 35),
            seen(0, 5, 100, 120),
        ];
        let contexts = built(&all, |_| true);
        let first = shape_of(&contexts, 0);
        assert_eq!(first[0], (Sight::AtArrival, vec![0], vec![0]));
        assert_eq!(first[2], (Sight::Hindsight, vec![0], vec![0, 1, 2, 3]));
        let between = [vec![0, 1], vec![0, 1, 2]];
        assert!(first[1].0 == Sight::Between && between.contains(&first[1].2), "{first:?}");
        let third = [(Sight::AtArrival, vec![0, 1, 2], vec![2]), (Sight::Hindsight, vec![0, 1, 2], vec![2, 3])];
        assert_eq!(shape_of(&contexts, 2), third);
        assert_eq!(shape_of(&contexts, 3), [(Sight::AtArrival, vec![0, 2, 3], vec![3])]);
        assert_eq!(shape_of(&contexts, 4), [(Sight::AtArrival, vec![4], vec![4])]);
        assert_eq!(shape_of(&contexts, 5), [(Sight::AtArrival, vec![5], vec![5])]);
        let label = contexts.examples.examples.iter().find(|example| example.target == 2).unwrap().label;
        assert!((f64::from(label) - math::ln(0.07)).abs() < 1e-6);
        assert_eq!(contexts.examples.check(0), Ok(()));
    }

    #[test]
    fn what_is_not_wanted_is_a_neighbour_all_the_same() {
        let all = [seen(0, 0, 0, 100), seen(0, 1, 10, 40)];
        let contexts = built(&all, |seen| seen.shape == Fingerprint(1));
        assert_eq!(contexts.about.len(), 1);
        assert_eq!(shape_of(&contexts, 1), [(Sight::AtArrival, vec![0, 1], vec![1])]);
    }

    #[test]
    fn the_latency_of_what_still_runs_is_nowhere_in_what_is_known_at_arrival() {
        let all = [seen(0, 0, 0, 100), seen(0, 1, 10, 40), seen(0, 2, 20, 90)];
        let mut longer = all.clone();
        longer[0].ended = punctual_core::time::Time::from_micros(5_000_000);
        longer[2].ended = punctual_core::time::Time::from_micros(9_000_000);
        let known = |all: &[Observation]| {
            let contexts = built(all, |seen| seen.shape == Fingerprint(2));
            let (examples, about) = (&contexts.examples, contexts.about[0]);
            let one = examples.examples[0].clone();
            let rows = |range: Range<u32>| examples.rows[range.start as usize..range.end as usize].to_vec();
            (about.sight, about.head, rows(one.before), rows(one.after))
        };
        assert_eq!(known(&all), known(&longer));
    }

    #[test]
    fn long_neighbourhoods_are_cut_and_moments_between_are_all_taken_sometimes() {
        let mut all = vec![seen(0, 0, 0, 1_000_000)];
        all.extend((1..STEPS as u64 + 50).map(|at| seen(0, 1, at, at + 1)));
        let contexts = built(&all, |seen| seen.shape == Fingerprint(0));
        assert_eq!(contexts.examples.examples[2].after.len(), STEPS + 1);
        let few = [seen(0, 0, 0, 99), seen(0, 1, 1, 2), seen(0, 1, 3, 4), seen(0, 1, 5, 6)];
        let alone = vec![Alone::default(); 4];
        let mut met = [0; 5];
        for seed in 0..200 {
            let contexts = super::contexts(
                &few,
                &alone,
                |_| None,
                |seen| seen.shape == Fingerprint(0),
                &mut Rng::numbered(seed, 1 << 40),
            );
            met[contexts.examples.examples[1].after.len()] += 1;
        }
        assert!(met[2] > 60 && met[3] > 60 && met[2] + met[3] == 200, "{met:?}");
    }
}
