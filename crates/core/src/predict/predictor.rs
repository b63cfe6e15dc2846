//! Predictions while queries come and go: what each would take on each cluster, and what it would do to those there.
//!
//! ```text
//!   look(query, clusters) ─▶ a look: predictions for the query and for all that run, on each cluster
//!   place(look, cluster)  ─▶ the chosen cluster's part becomes true, the rest is forgotten
//!   leave(cluster, query) ─▶ room, and something learnt
//! ```
//!
//! A look is incremental (AutoSLO, section 4.4): each running query keeps the output of its before side and the state
//! of its after side, so an arrival is one more step for each, all clusters in one batch, and one before-pass for the
//! newcomer on each cluster. Re-reading everything would give the same bits.
//!
//! Slots of [`Descriptions`] are shared by all clusters: what a query is does not depend on where it runs.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::distribution::Prediction;
use super::features::Features;
use super::model::Model;
use super::net::{Descriptions, HEAD, Output, PAIR, Pair, Scratch, Side, States};
use super::scene::{Meeting, Newcomer, STEPS, Scene};
use super::stage::Alone;
use crate::fingerprint::Fingerprint;
use crate::id::{ClusterId, QueryId, Units};
use crate::time::Time;

/// A query, as far as predictions need it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Which.
    pub id: QueryId,
    /// Its shape.
    pub shape: Fingerprint,
    /// What stands for its text.
    pub text: u64,
    /// What its text and plan say.
    pub features: Features,
}

/// The clusters and the queries that a model follows. It holds numbers that depend on the model and not the model, which
/// is passed in, the same one each time: so it can be written down without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    sites: BTreeMap<ClusterId, Site>,
    descriptions: Descriptions,
    free: Vec<u32>,
    /// False: the networks are not asked, and what they would correct is all that is said.
    reads: bool,
}

/// What a cluster runs, in the order of its scene.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Site {
    scene: Scene,
    slots: Vec<u32>,
    before: States,
    after: States,
}

/// What would come of placing a query on each of some clusters. Kept by the caller and reused.
#[derive(Debug)]
pub struct Look {
    query: Option<Profile>,
    now: Time,
    alones: Alones,
    tries: Vec<Try>,
    meetings: Vec<Meeting>,
    /// Predictions for all tries: those that run, then the newcomer, one cluster after the other.
    predictions: Vec<Prediction>,
    batch: Batch,
}

/// What a query takes alone on each size that was asked for: the trees are walked once for each.
#[derive(Debug, Default)]
struct Alones {
    query: Option<Profile>,
    sizes: Vec<(Units, Alone)>,
}

/// One cluster of a look.
#[derive(Clone, Debug)]
struct Try {
    cluster: ClusterId,
    alone: Alone,
    /// Its part of the predictions, and of the states after.
    rows: Range<usize>,
}

/// The rows of all clusters, as the network takes them.
#[derive(Debug)]
struct Batch {
    sequences: Vec<Range<u32>>,
    before_pairs: Vec<Pair>,
    before_rows: Vec<[f32; PAIR]>,
    after_pairs: Vec<Pair>,
    after_rows: Vec<[f32; PAIR]>,
    targets: Vec<u32>,
    heads: Vec<[f32; HEAD]>,
    read: States,
    before: States,
    after: States,
    scratch: Scratch,
    outputs: Vec<Output>,
}

impl Predictor {
    /// A predictor that follows no cluster yet, for this model.
    pub fn new(model: &Model) -> Predictor {
        let descriptions = Descriptions::new(model.net().shape());
        Predictor { sites: BTreeMap::new(), descriptions, free: Vec::new(), reads: true }
    }

    /// From now on the networks are not asked: predictions are those of plain sharing, at a tenth of the work. There is no way back, as
    /// nothing is read of what comes meanwhile.
    pub fn read_no_more(&mut self) {
        self.reads = false;
    }

    /// A cluster is there, with nothing on it.
    pub fn open(&mut self, model: &Model, cluster: ClusterId, size: Units) {
        self.close(cluster);
        let shape = model.net().shape();
        let states = || States::new(shape);
        let site = Site { scene: Scene::new(size), slots: Vec::new(), before: states(), after: states() };
        self.sites.insert(cluster, site);
    }

    /// A cluster has gone, and all that ran there.
    pub fn close(&mut self, cluster: ClusterId) {
        if let Some(site) = self.sites.remove(&cluster) {
            self.free.extend(site.slots);
        }
    }

    /// What runs on a cluster, as predictions see it; None if it is not followed.
    pub fn scene(&self, cluster: ClusterId) -> Option<&Scene> {
        self.sites.get(&cluster).map(|site| &site.scene)
    }

    /// The clusters that are followed, with what runs on each.
    pub fn scenes(&self) -> impl Iterator<Item = (ClusterId, &Scene)> {
        self.sites.iter().map(|(cluster, site)| (*cluster, &site.scene))
    }

    /// What would come of placing `query` now on each of these clusters. Those that are not followed are left out.
    pub fn look(&mut self, model: &Model, now: Time, query: &Profile, clusters: &[ClusterId], look: &mut Look) {
        let slot = self.take_slot(model, query);
        look.begin(now, query);
        for &cluster in clusters {
            let Some(site) = self.sites.get(&cluster) else { continue };
            look.add(model, cluster, site, slot);
        }
        look.compute(model, &self.sites, self.reads.then_some(&self.descriptions));
        self.free.push(slot);
    }

    /// The query of the last look is placed on one of its clusters. False if that was not one of them.
    pub fn place(&mut self, model: &Model, look: &Look, cluster: ClusterId) -> bool {
        let found = look.tries.iter().position(|tried| tried.cluster == cluster);
        let (Some(at), Some(query)) = (found, look.query) else { return false };
        let slot = self.take_slot(model, &query);
        let Some(site) = self.sites.get_mut(&cluster) else { return false };
        let tried = &look.tries[at];
        let newcomer = query.on(tried.alone);
        site.scene.arrive(look.now, newcomer, &look.meetings[at]);
        site.slots.push(slot);
        let rows = tried.rows.clone();
        site.before.resize(rows.len());
        site.before.copy(rows.len() - 1, &look.batch.before, rows.end - 1);
        site.after.gather(&look.batch.after, rows);
        true
    }

    /// A query has ended on a cluster. False if it did not run there.
    pub fn leave(&mut self, now: Time, cluster: ClusterId, query: QueryId, finished: bool) -> bool {
        let Some(site) = self.sites.get_mut(&cluster) else { return false };
        let Some(at) = site.scene.running().iter().position(|running| running.query.id == query) else { return false };
        site.scene.leave(now, at, finished);
        self.free.push(site.slots.remove(at));
        site.before.remove(at);
        site.after.remove(at);
        true
    }

    /// Describes the query in a slot that is free.
    fn take_slot(&mut self, model: &Model, query: &Profile) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.descriptions.resize(self.descriptions.slots() + 1);
            self.descriptions.slots() as u32 - 1
        });
        if !self.reads {
            return slot;
        }
        let known = model.known(query.shape);
        model.net().describe(&[known], &[query.features], &mut self.descriptions, slot as usize);
        slot
    }
}

impl Profile {
    fn on(&self, alone: Alone) -> Newcomer {
        Newcomer { id: self.id, shape: self.shape, text: self.text, alone }
    }
}

impl Look {
    /// Room for looks with this model.
    pub fn new(model: &Model) -> Look {
        let shape = model.net().shape();
        let batch = Batch {
            sequences: Vec::new(),
            before_pairs: Vec::new(),
            before_rows: Vec::new(),
            after_pairs: Vec::new(),
            after_rows: Vec::new(),
            targets: Vec::new(),
            heads: Vec::new(),
            read: States::new(shape),
            before: States::new(shape),
            after: States::new(shape),
            scratch: Scratch::default(),
            outputs: Vec::new(),
        };
        let (alones, tries, meetings, predictions) = Default::default();
        Look { query: None, now: Time::ZERO, alones, tries, meetings, predictions, batch }
    }

    /// When it was.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The clusters looked at, in the order asked for.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        self.tries.iter().map(|tried| tried.cluster)
    }

    /// What the query would take on the cluster of this index.
    pub fn newcomer(&self, at: usize) -> Prediction {
        self.predictions[self.tries[at].rows.end - 1]
    }

    /// What it would take there alone.
    pub fn alone(&self, at: usize) -> Alone {
        self.tries[at].alone
    }

    /// What a query takes alone on a size, whether or not it is the one that was looked at.
    pub fn alone_on(&mut self, model: &Model, query: &Profile, size: Units) -> Alone {
        self.alones.on(model, query, size)
    }

    /// What those that run on the cluster of this index would take then, from their own starts, in the order of its
    /// scene.
    pub fn others(&self, at: usize) -> &[Prediction] {
        let rows = &self.tries[at].rows;
        &self.predictions[rows.start..rows.end - 1]
    }

    fn begin(&mut self, now: Time, query: &Profile) {
        (self.now, self.query) = (now, Some(*query));
        self.tries.clear();
        self.batch.clear();
    }

    /// Adds the rows of one more cluster. The newcomer is in `slot`.
    fn add(&mut self, model: &Model, cluster: ClusterId, site: &Site, slot: u32) {
        let Some(query) = self.query else { return };
        let alone = self.alones.on(model, &query, site.scene.size());
        let at = self.tries.len();
        if self.meetings.len() == at {
            self.meetings.push(Meeting::default());
        }
        let meeting = &mut self.meetings[at];
        site.scene.meet(self.now, &query.on(alone), meeting);
        let from = self.batch.targets.len();
        self.batch.add(site, meeting, slot);
        self.tries.push(Try { cluster, alone, rows: from..self.batch.targets.len() });
    }

    /// `descriptions`: of the slots; None if the networks are not asked.
    fn compute(&mut self, model: &Model, sites: &BTreeMap<ClusterId, Site>, descriptions: Option<&Descriptions>) {
        let Look { tries, meetings, predictions, batch, .. } = self;
        match descriptions {
            Some(descriptions) => batch.compute(model, tries, sites, descriptions),
            None => batch.skip(),
        }
        predictions.clear();
        let heads = meetings.iter().take(tries.len()).flat_map(|meeting| &meeting.heads);
        predictions.extend(heads.zip(&batch.outputs).map(|(head, output)| model.prediction(head, *output)));
    }
}

impl Alones {
    fn on(&mut self, model: &Model, query: &Profile, size: Units) -> Alone {
        if self.query.as_ref() != Some(query) {
            self.query = Some(*query);
            self.sizes.clear();
        }
        if let Some((_, alone)) = self.sizes.iter().find(|(known, _)| *known == size) {
            return *alone;
        }
        let alone = model.stage().alone(&query.features, query.shape, query.text, size);
        self.sizes.push((size, alone));
        alone
    }
}

impl Batch {
    fn clear(&mut self) {
        self.sequences.clear();
        self.before_pairs.clear();
        self.before_rows.clear();
        self.after_pairs.clear();
        self.after_rows.clear();
        self.targets.clear();
        self.heads.clear();
    }

    /// Adds what a newcomer in `slot` means on one cluster.
    fn add(&mut self, site: &Site, meeting: &Meeting, slot: u32) {
        let from = self.before_rows.len() as u32;
        let neighbours = site.slots[meeting.read_from..].iter().copied().chain([slot]);
        self.before_pairs.extend(neighbours.map(|neighbour| Pair { target: slot, neighbour }));
        self.before_rows.extend_from_slice(&meeting.before);
        self.sequences.push(from..self.before_rows.len() as u32);
        let targets = || site.slots.iter().copied().chain([slot]);
        self.after_pairs.extend(targets().map(|target| Pair { target, neighbour: slot }));
        self.after_rows.extend_from_slice(&meeting.after);
        self.after_rows.extend(meeting.before.last());
        self.targets.extend(targets());
        self.heads.extend(meeting.heads.iter().map(|head| head.row));
    }

    /// Nothing is read: nothing is corrected, and states are of no use.
    fn skip(&mut self) {
        for states in [&mut self.before, &mut self.after] {
            states.resize(self.targets.len());
        }
        self.outputs.clear();
        self.outputs.resize(self.targets.len(), Output::NOTHING);
    }

    fn compute(
        &mut self,
        model: &Model,
        tries: &[Try],
        sites: &BTreeMap<ClusterId, Site>,
        descriptions: &Descriptions,
    ) {
        let (net, scratch) = (model.net(), &mut self.scratch);
        let before = (self.before_pairs.as_slice(), self.before_rows.as_slice());
        net.read(Side::Before, &self.sequences, before, descriptions, &mut self.read, scratch);
        for states in [&mut self.before, &mut self.after] {
            states.resize(self.targets.len());
        }
        let followed =
            || tries.iter().enumerate().filter_map(|(at, tried)| Some((at, tried, sites.get(&tried.cluster)?)));
        for (at, tried, site) in followed() {
            for (other, row) in tried.rows.clone().take(site.slots.len()).enumerate() {
                self.before.copy(row, &site.before, other);
                self.after.copy(row, &site.after, other);
            }
            self.before.copy(tried.rows.end - 1, &self.read, at);
            self.after.reset(tried.rows.end - 1);
        }
        let after = (self.after_pairs.as_slice(), self.after_rows.as_slice());
        net.step(Side::After, after, descriptions, &mut self.after, scratch);
        for (_, tried, site) in followed() {
            let full = site.scene.running().iter().enumerate().filter(|(_, running)| running.later() >= STEPS as u32);
            for (other, _) in full {
                self.after.copy(tried.rows.start + other, &site.after, other);
            }
        }
        let targets = (self.targets.as_slice(), self.heads.as_slice());
        net.head(targets, descriptions, (&self.before, &self.after), scratch, &mut self.outputs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::features::FEATURES;
    use crate::predict::model::tests::model;
    use crate::predict::net::Net;
    use crate::rng::Rng;

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn profile(id: u64, rng: &mut Rng) -> Profile {
        let mut features = [0.0; FEATURES];
        features.iter_mut().for_each(|value| *value = rng.unit() as f32);
        Profile { id: QueryId(id), shape: Fingerprint(rng.below(6)), text: rng.below(9), features }
    }

    /// Everything that one query has met, as a network that starts from nothing would read it.
    #[derive(Clone)]
    struct Read {
        slot: u32,
        before: (Vec<Pair>, Vec<[f32; PAIR]>),
        after: (Vec<Pair>, Vec<[f32; PAIR]>),
    }

    /// Notes the rows of the second cluster of a look that became true.
    fn remember(look: &Look, slot: u32, reads: &mut Vec<Read>) {
        let (batch, rows) = (&look.batch, look.tries[1].rows.clone());
        let sequence = batch.sequences[1].start as usize..batch.sequences[1].end as usize;
        let before = (batch.before_pairs[sequence.clone()].to_vec(), batch.before_rows[sequence].to_vec());
        reads.push(Read { slot, before, after: Default::default() });
        for (read, row) in reads.iter_mut().zip(rows) {
            read.after.0.push(batch.after_pairs[row]);
            read.after.1.push(batch.after_rows[row]);
        }
    }

    fn reread(net: &Net, reads: &[Read], heads: &[[f32; HEAD]], descriptions: &Descriptions) -> Vec<Output> {
        let mut scratch = Scratch::default();
        let mut states = [States::new(net.shape()), States::new(net.shape())];
        for (side, states) in [Side::Before, Side::After].into_iter().zip(&mut states) {
            let of = |read: &Read| if side == Side::Before { read.before.clone() } else { read.after.clone() };
            let (mut pairs, mut rows, mut sequences) = (Vec::new(), Vec::new(), Vec::new());
            for (some_pairs, some_rows) in reads.iter().map(of) {
                let from = rows.len() as u32;
                pairs.extend(some_pairs);
                rows.extend(some_rows);
                sequences.push(from..rows.len() as u32);
            }
            net.read(side, &sequences, (&pairs, &rows), descriptions, states, &mut scratch);
        }
        let slots: Vec<u32> = reads.iter().map(|read| read.slot).collect();
        let mut outputs = Vec::new();
        net.head((&slots, heads), descriptions, (&states[0], &states[1]), &mut scratch, &mut outputs);
        outputs
    }

    #[test]
    fn step_by_step_is_the_same_as_reading_everything_again() {
        let (here, elsewhere) = (ClusterId(1), ClusterId(2));
        let mut rng = Rng::numbered(5, 1 << 40);
        let model = model(4, 3);
        let mut predictor = Predictor::new(&model);
        predictor.open(&model, here, Units(4));
        predictor.open(&model, elsewhere, Units(8));
        let mut look = Look::new(&model);
        let mut reads: Vec<Read> = Vec::new();
        for id in 0..60 {
            let query = profile(id, &mut rng);
            let now = at(id * 700);
            predictor.look(&model, now, &query, &[elsewhere, here], &mut look);
            assert!(predictor.place(&model, &look, here));
            let slot = *predictor.sites[&here].slots.last().unwrap();
            remember(&look, slot, &mut reads);
            let rows = look.tries[1].rows.clone();
            let heads = &look.batch.heads[rows.clone()];
            let again = reread(model.net(), &reads, heads, &predictor.descriptions);
            assert_eq!(look.batch.outputs[rows], again, "query {id}");
            // One that is only looked at leaves no trace.
            predictor.look(&model, now, &profile(999, &mut rng), &[here], &mut look);
            if id % 3 == 2 {
                let index = rng.index(reads.len());
                let gone = predictor.scene(here).unwrap().running()[index].query.id;
                assert!(predictor.leave(at(id * 700 + 300), here, gone, true));
                reads.remove(index);
                // Its description stays, since others have met it.
                predictor.free.clear();
            }
        }
        assert_eq!(predictor.scene(here).unwrap().running().len(), 40);
        assert!(predictor.scene(elsewhere).unwrap().running().is_empty());
    }

    #[test]
    fn who_reads_no_more_says_what_networks_would_correct() {
        let (model, mut rng) = (model(4, 3), Rng::numbered(9, 1 << 40));
        let (mut reading, mut look) = (Predictor::new(&model), Look::new(&model));
        reading.open(&model, ClusterId(1), Units(8));
        for id in 0..6 {
            reading.look(&model, at(100 * id), &profile(id, &mut rng), &[ClusterId(1)], &mut look);
            assert!(reading.place(&model, &look, ClusterId(1)));
        }
        let mut plain = reading.clone();
        plain.read_no_more();
        let next = profile(7, &mut rng);
        plain.look(&model, at(1_000), &next, &[ClusterId(1)], &mut look);
        let heads: Vec<_> = look.meetings[0].heads.iter().map(|head| model.prediction(head, Output::NOTHING)).collect();
        assert_eq!(look.predictions, heads);
        assert!(plain.place(&model, &look, ClusterId(1)) && plain.leave(at(1_100), ClusterId(1), QueryId(2), true));
        reading.look(&model, at(1_000), &next, &[ClusterId(1)], &mut look);
        assert_ne!(look.predictions, heads);
    }

    #[test]
    fn predictions_are_those_of_the_look_once_it_is_true() {
        let mut rng = Rng::numbered(6, 1 << 40);
        let model = model(4, 3);
        let mut predictor = Predictor::new(&model);
        let clusters = [ClusterId(3), ClusterId(5), ClusterId(9)];
        clusters.iter().for_each(|cluster| predictor.open(&model, *cluster, Units(4 * cluster.0)));
        let mut look = Look::new(&model);
        for id in 0..30 {
            predictor.look(&model, at(id * 100), &profile(id, &mut rng), &clusters, &mut look);
            let chosen = rng.index(3);
            assert_eq!(look.others(chosen).len(), predictor.scene(clusters[chosen]).unwrap().running().len());
            assert!(
                look.newcomer(chosen).median() > 0.0 && look.newcomer(chosen).upper() > look.newcomer(chosen).median()
            );
            assert!(predictor.place(&model, &look, clusters[chosen]));
        }
        let total: usize = clusters.iter().map(|cluster| predictor.scene(*cluster).unwrap().running().len()).sum();
        assert_eq!((total, predictor.descriptions.slots()), (30, 30));
        for cluster in clusters {
            predictor.close(cluster);
        }
        assert_eq!(predictor.free.len(), 30);
        assert!(!predictor.leave(at(1), clusters[0], QueryId(0), true));
        assert!(!predictor.place(&model, &look, clusters[0]));
    }
}
