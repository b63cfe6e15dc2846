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
use punctual_core::predict::features::Features;
use punctual_core::predict::scene::{Head, Meeting, Newcomer, PAIR, STEPS, Scene};
use punctual_core::predict::stage::Alone;
use punctual_core::rng::Rng;

use crate::observation::{Observation, Turn, turns};

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

/// A query that can be a target or a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Its shape.
    pub shape: Fingerprint,
    /// What its text says.
    pub features: Features,
}

/// A row about a pair, and the neighbour's index in [`Contexts::queries`].
pub type Row = ([f32; PAIR], u32);

/// One query in one sight.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// Its index in [`Contexts::queries`], which is that of its observation.
    pub target: u32,
    /// When it is looked at.
    pub sight: Sight,
    /// Rows of the before side, the pinch last.
    pub before: Range<u32>,
    /// Rows of the after side, the pinch first.
    pub after: Range<u32>,
    /// Its head row and base as of that.
    pub head: Head,
    /// ln of its latency in seconds.
    pub label: f64,
    /// True if its latency is a lower bound.
    pub bound: bool,
}

/// Everything that training or an evaluation reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contexts {
    /// One for each observation.
    pub queries: Vec<Shown>,
    /// All rows.
    pub rows: Vec<Row>,
    /// What to read them as.
    pub contexts: Vec<Context>,
}

/// Goes through history. `alone` holds for each observation what it is expected to take alone; only the `wanted` ones
/// become contexts, all are neighbours. `rng` chooses the moments between.
pub fn contexts(
    observations: &[Observation],
    alone: &[Alone],
    wanted: impl Fn(&Observation) -> bool,
    rng: &mut Rng,
) -> Contexts {
    let shown = |seen: &Observation| Shown { shape: seen.shape, features: seen.features };
    let mut walk =
        Walk { observations, alone, all: Contexts::default(), open: Vec::new(), meeting: Meeting::default() };
    walk.all.queries = observations.iter().map(shown).collect();
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
        let from = self.all.rows.len() as u32;
        let there = scene.running().iter().skip(self.meeting.read_from).map(|running| running.query.id.0 as u32);
        let neighbours = there.chain([index as u32]);
        self.all.rows.extend(self.meeting.before.iter().copied().zip(neighbours));
        let pinch = self.all.rows[self.all.rows.len() - 1];
        let at_arrival = self.meeting.heads[self.meeting.heads.len() - 1];
        let before = from..self.all.rows.len() as u32;
        Open { before, after: vec![pinch], at_arrival, between: None, last: None, moments: 0 }
    }

    fn ends(&mut self, scene: &mut Scene, index: usize) {
        let seen = &self.observations[index];
        let id = QueryId(index as u64);
        let Some(at) = scene.running().iter().position(|running| running.query.id == id) else { return };
        scene.leave(seen.ended.max(seen.arrival), at, seen.finished);
        let Some(open) = self.open.remove(at) else { return };
        let from = self.all.rows.len();
        let sights = [
            (Sight::AtArrival, Some((1, open.at_arrival))),
            // The last moment is hindsight.
            (Sight::Between, open.between.filter(|_| open.moments > 1)),
            (Sight::Hindsight, open.last),
        ];
        for (sight, moment) in sights {
            let Some((rows, head)) = moment else { continue };
            self.all.contexts.push(Context {
                target: index as u32,
                sight,
                before: open.before.clone(),
                after: from as u32..(from + rows) as u32,
                head,
                label: crate::stage::ln_seconds(seen),
                bound: !seen.finished,
            });
        }
        self.all.rows.extend(open.after);
    }
}

impl Open {
    fn meets(&mut self, row: Row, head: Head, rng: &mut Rng) {
        // What was the last moment until now is one of those between.
        if let Some(moment) = self.last {
            if rng.below(self.moments) == 0 {
                self.between = Some(moment);
            }
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
        contexts(observations, &alone, wanted, &mut Rng::numbered(1, 1 << 40))
    }

    fn shape_of(contexts: &Contexts, target: u32) -> Vec<(Sight, Vec<u32>, Vec<u32>)> {
        let neighbours = |range: &Range<u32>| range.clone().map(|at| contexts.rows[at as usize].1).collect();
        let of_target = contexts.contexts.iter().filter(|context| context.target == target);
        of_target.map(|context| (context.sight, neighbours(&context.before), neighbours(&context.after))).collect()
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
        let label = contexts.contexts.iter().find(|context| context.target == 2).unwrap().label;
        assert!((label - math::ln(0.07)).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_wanted_is_a_neighbour_all_the_same() {
        let all = [seen(0, 0, 0, 100), seen(0, 1, 10, 40)];
        let contexts = built(&all, |seen| seen.shape == Fingerprint(1));
        assert_eq!(contexts.contexts.len(), 1);
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
            let context = contexts.contexts[0].clone();
            let rows = |range: Range<u32>| contexts.rows[range.start as usize..range.end as usize].to_vec();
            (context.sight, context.head, rows(context.before), rows(context.after))
        };
        assert_eq!(known(&all), known(&longer));
    }

    #[test]
    fn long_neighbourhoods_are_cut_and_moments_between_are_all_taken_sometimes() {
        let mut all = vec![seen(0, 0, 0, 1_000_000)];
        all.extend((1..STEPS as u64 + 50).map(|at| seen(0, 1, at, at + 1)));
        let contexts = built(&all, |seen| seen.shape == Fingerprint(0));
        assert_eq!(contexts.contexts[2].after.len(), STEPS + 1);
        let few = [seen(0, 0, 0, 99), seen(0, 1, 1, 2), seen(0, 1, 3, 4), seen(0, 1, 5, 6)];
        let alone = vec![Alone::default(); 4];
        let mut met = [0; 5];
        for seed in 0..200 {
            let contexts =
                super::contexts(&few, &alone, |seen| seen.shape == Fingerprint(0), &mut Rng::numbered(seed, 1 << 40));
            met[contexts.contexts[1].after.len()] += 1;
        }
        assert!(met[2] > 60 && met[3] > 60 && met[2] + met[3] == 200, "{met:?}");
    }
}
