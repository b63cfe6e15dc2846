//! The same network without memory: at every arrival each query's neighbourhood is read again from the beginning.
//!
//! ```text
//!   incremental:   per arrival, one step for each that runs, and one before-pass for the newcomer     O(n)
//!   again:         per arrival, the before-pass and all later arrivals of each that runs              O(n²)
//! ```
//!
//! Nobody should predict like this; it is what AutoSLO's Figure 7b compares incremental inference with, and a second
//! witness: [`punctual_core::predict::predictor`] must come to the same bits.

use std::ops::Range;

use punctual_core::id::Units;
use punctual_core::predict::distribution::Prediction;
use punctual_core::predict::model::Model;
use punctual_core::predict::net::{Descriptions, HEAD, Output, PAIR, Pair, Scratch, Side, States};
use punctual_core::predict::predictor::Profile;
use punctual_core::predict::scene::{Meeting, Newcomer, STEPS, Scene};
use punctual_core::time::Time;

/// One cluster on which queries arrive and none ends.
pub struct Reader<'a> {
    model: &'a Model,
    scene: Scene,
    meeting: Meeting,
    descriptions: Descriptions,
    sides: [Vec<Rows>; 2],
    read: [States; 2],
    scratch: Scratch,
    outputs: Vec<Output>,
}

/// What one query has met on one side.
#[derive(Default)]
struct Rows {
    pairs: Vec<Pair>,
    rows: Vec<[f32; PAIR]>,
}

impl<'a> Reader<'a> {
    /// An empty cluster.
    pub fn new(model: &'a Model, size: Units) -> Reader<'a> {
        let shape = model.net().shape();
        Reader {
            model,
            scene: Scene::new(size),
            meeting: Meeting::default(),
            descriptions: Descriptions::new(shape),
            sides: [Vec::new(), Vec::new()],
            read: [States::new(shape), States::new(shape)],
            scratch: Scratch::default(),
            outputs: Vec::new(),
        }
    }

    /// A query arrives and stays: predictions for all that run, in the order of their arrival, itself last.
    pub fn arrive(&mut self, now: Time, query: &Profile) -> Vec<Prediction> {
        let size = self.scene.size();
        let alone = self.model.stage().alone(&query.features, query.shape, query.text, size);
        let newcomer = Newcomer { id: query.id, shape: query.shape, text: query.text, alone };
        self.scene.meet(now, &newcomer, &mut self.meeting);
        self.keep(query);
        self.scene.arrive(now, newcomer, &self.meeting);
        self.read_all();
        let heads: Vec<[f32; HEAD]> = self.meeting.heads.iter().map(|head| head.row).collect();
        let targets: Vec<u32> = (0..heads.len() as u32).collect();
        let [before, after] = &self.read;
        let net = self.model.net();
        let all = (targets.as_slice(), heads.as_slice());
        net.head(all, &self.descriptions, (before, after), &mut self.scratch, &mut self.outputs);
        let answers = self.meeting.heads.iter().zip(&self.outputs);
        answers.map(|(head, output)| self.model.prediction(head, *output)).collect()
    }

    /// Keeps the rows that the arrival added.
    fn keep(&mut self, query: &Profile) {
        let slot = self.descriptions.slots() as u32;
        self.descriptions.resize(slot as usize + 1);
        let known = self.model.known(query.shape);
        self.model.net().describe(&[known], &[query.features], &mut self.descriptions, slot as usize);
        let Meeting { before, after, read_from, .. } = &self.meeting;
        let [befores, afters] = &mut self.sides;
        for (target, (met, row)) in afters.iter_mut().zip(after).enumerate() {
            // Its own row is the first.
            if met.rows.len() <= STEPS {
                met.push(Pair { target: target as u32, neighbour: slot }, *row);
            }
        }
        let (mut own, mut first) = (Rows::default(), Rows::default());
        for (neighbour, row) in (*read_from as u32..).zip(before) {
            own.push(Pair { target: slot, neighbour: neighbour.min(slot) }, *row);
        }
        if let Some(pinch) = before.last() {
            first.push(Pair { target: slot, neighbour: slot }, *pinch);
        }
        befores.push(own);
        afters.push(first);
    }

    /// Reads every side of every query from its beginning.
    fn read_all(&mut self) {
        for (side, at) in [(Side::Before, 0), (Side::After, 1)] {
            let (mut pairs, mut rows) = (Vec::new(), Vec::new());
            let mut sequences: Vec<Range<u32>> = Vec::with_capacity(self.sides[at].len());
            for met in &self.sides[at] {
                let from = rows.len() as u32;
                pairs.extend_from_slice(&met.pairs);
                rows.extend_from_slice(&met.rows);
                sequences.push(from..rows.len() as u32);
            }
            let steps = (pairs.as_slice(), rows.as_slice());
            let net = self.model.net();
            net.read(side, &sequences, steps, &self.descriptions, &mut self.read[at], &mut self.scratch);
        }
    }
}

impl Rows {
    fn push(&mut self, pair: Pair, row: [f32; PAIR]) {
        self.pairs.push(pair);
        self.rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::fingerprint::Fingerprint;
    use punctual_core::id::{ClusterId, QueryId};
    use punctual_core::predict::features::FEATURES;
    use punctual_core::predict::model::Parts;
    use punctual_core::predict::net::{Layout, Shape};
    use punctual_core::predict::predictor::{Look, Predictor};
    use punctual_core::predict::stage::Stage;
    use punctual_core::rng::Rng;

    use super::*;

    #[test]
    fn reading_again_comes_to_the_same_bits_as_one_step_an_arrival() {
        let mut rng = Rng::numbered(3, 1 << 42);
        let shape = Shape { known: 4, hidden: 16 };
        let weights = (0..Layout::of(shape).total()).map(|_| (0.3 * rng.normal()) as f32).collect();
        let known = (0..4).map(Fingerprint).collect();
        let parts = Parts { stage: Stage::default(), known, hidden: 16, weights, spread_scales: [1.0, 1.2] };
        let model = Model::new(parts).unwrap();
        let (here, size) = (ClusterId(1), Units(8));
        let (mut predictor, mut look, mut reader) =
            (Predictor::new(&model), Look::new(&model), Reader::new(&model, size));
        predictor.open(&model, here, size);
        for number in 0..STEPS as u64 + 9 {
            let mut features = [0.0; FEATURES];
            features.iter_mut().for_each(|value| *value = rng.unit() as f32);
            let query = Profile { id: QueryId(number), shape: Fingerprint(number % 6), text: number % 9, features };
            let now = Time::from_micros(number * 700_000);
            predictor.look(&model, now, &query, &[here], &mut look);
            let again = reader.arrive(now, &query);
            let (newcomer, others) = again.split_last().unwrap();
            assert_eq!((look.newcomer(0), look.others(0)), (*newcomer, others), "arrival {number}");
            assert!(predictor.place(&model, &look, here));
        }
    }
}
