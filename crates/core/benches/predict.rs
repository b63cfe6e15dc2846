//! What a prediction costs: one step, one arrival on some clusters, one reading from the beginning.
//!
//! An arrival is all that routing asks of the network: describe the new query; on each cluster read those that run
//! there on its behalf, take one step for each of them on copies of their states, and say what becomes of all. The
//! budget is 0.5 ms on one core for 8 clusters with 32 running queries each.
//!
//! `cargo bench -p punctual-core --bench predict`; beside PyTorch: `crates/core/benches/beside_torch.py`

use std::hint::black_box;
use std::ops::Range;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClusterId, QueryId, Units};
use punctual_core::predict::features::{features, read};
use punctual_core::predict::kernel::{Kernel, Path};
use punctual_core::predict::model::{Model, Parts};
use punctual_core::predict::net::{
    Descriptions, FEATURES, HEAD, Layout, Net, Output, PAIR, Pair, Scratch, Shape, Side, States,
};
use punctual_core::predict::predictor::{Look, Predictor, Profile};
use punctual_core::predict::stage::Stage;
use punctual_core::rng::Rng;
use punctual_core::time::Time;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::Tokenizer;

const SHAPE: Shape = Shape { known: 300, hidden: 32 };

/// Clusters with running queries, and everything that an arrival needs.
struct Fleet {
    net: Net,
    clusters: usize,
    running: usize,
    descriptions: Descriptions,
    features: [f32; FEATURES],
    /// By slot; the last belongs to the new query.
    before: States,
    after: States,
    pair_rows: Vec<[f32; PAIR]>,
    head_rows: Vec<[f32; HEAD]>,
    room: Room,
}

/// Buffers that an arrival fills anew.
struct Room {
    sequences: Vec<Range<u32>>,
    pairs: Vec<Pair>,
    targets: Vec<u32>,
    new_before: States,
    try_before: States,
    try_after: States,
    outputs: Vec<Output>,
    scratch: Scratch,
}

fn numbers<const N: usize>(rng: &mut Rng) -> [f32; N] {
    std::array::from_fn(|_| rng.normal() as f32)
}

impl Fleet {
    fn new(kernel: Kernel, clusters: usize, running: usize) -> Fleet {
        let mut rng = Rng::numbered(1, 1 << 32);
        let weights = (0..Layout::of(SHAPE).total()).map(|_| 0.2 * rng.normal() as f32).collect();
        let net = Net::new(SHAPE, weights).expect("finite weights").on(kernel);
        let slots = clusters * running + 1;
        let mut descriptions = Descriptions::new(SHAPE);
        descriptions.resize(slots);
        let known: Vec<Option<u32>> = (0..slots as u32).map(|slot| Some(slot % 300)).collect();
        let features: Vec<[f32; FEATURES]> = (0..slots).map(|_| numbers(&mut rng)).collect();
        net.describe(&known, &features, &mut descriptions, 0);
        let states = || {
            let mut states = States::new(SHAPE);
            states.resize(slots);
            states
        };
        let room = Room {
            sequences: Vec::new(),
            pairs: Vec::new(),
            targets: Vec::new(),
            new_before: States::new(SHAPE),
            try_before: States::new(SHAPE),
            try_after: States::new(SHAPE),
            outputs: Vec::new(),
            scratch: Scratch::default(),
        };
        let steps = clusters * (running + 1);
        Fleet {
            features: features[0],
            before: states(),
            after: states(),
            pair_rows: (0..steps).map(|_| numbers(&mut rng)).collect(),
            head_rows: (0..steps).map(|_| numbers(&mut rng)).collect(),
            net,
            clusters,
            running,
            descriptions,
            room,
        }
    }

    /// One arrival, tried on every cluster: ends with a prediction for every query that runs and, per cluster, for the
    /// new one.
    fn arrive(&mut self) -> &[Output] {
        let (running, new) = (self.running as u32, (self.clusters * self.running) as u32);
        let Room { sequences, pairs, targets, new_before, try_before, try_after, outputs, scratch } = &mut self.room;
        self.net.describe(&[Some(7)], &[self.features], &mut self.descriptions, new as usize);

        // The new query meets those that run on each cluster, and at last itself.
        sequences.clear();
        pairs.clear();
        for cluster in 0..self.clusters as u32 {
            let met = (cluster * running..(cluster + 1) * running).chain([new]);
            sequences.push(pairs.len() as u32..pairs.len() as u32 + running + 1);
            pairs.extend(met.map(|neighbour| Pair { target: new, neighbour }));
        }
        let steps = (&pairs[..], &self.pair_rows[..]);
        self.net.read(Side::Before, sequences, steps, &self.descriptions, new_before, scratch);

        // Each that runs meets the new one, and the new one itself.
        targets.clear();
        targets.extend((0..new).chain((0..self.clusters).map(|_| new)));
        pairs.clear();
        pairs.extend(targets.iter().map(|&target| Pair { target, neighbour: new }));
        let slots = || targets.iter().map(|&slot| slot as usize);
        try_after.gather(&self.after, slots());
        self.net.step(Side::After, (pairs, &self.pair_rows), &self.descriptions, try_after, scratch);

        try_before.gather(&self.before, slots());
        for cluster in 0..self.clusters {
            try_before.copy(new as usize + cluster, new_before, cluster);
        }
        let states = (&*try_before, &*try_after);
        self.net.head((targets, &self.head_rows), &self.descriptions, states, scratch, outputs);
        outputs
    }

    /// One query read from the beginning on one cluster, hindsight of as many later arrivals included.
    fn whole(&mut self) -> &[Output] {
        let steps = self.running as u32 + 1;
        let Room { pairs, new_before, try_after, outputs, scratch, .. } = &mut self.room;
        pairs.clear();
        pairs.extend((0..steps).map(|slot| Pair { target: 0, neighbour: slot }));
        let steps = (&pairs[..], &self.pair_rows[..]);
        let sequence = 0..pairs.len() as u32;
        let sequences = std::slice::from_ref(&sequence);
        self.net.describe(&[Some(7)], &[self.features], &mut self.descriptions, 0);
        self.net.read(Side::Before, sequences, steps, &self.descriptions, new_before, scratch);
        self.net.read(Side::After, sequences, steps, &self.descriptions, try_after, scratch);
        let states = (&*new_before, &*try_after);
        self.net.head((&[0], &self.head_rows[..1]), &self.descriptions, states, scratch, outputs);
        outputs
    }
}

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("step of 64");
    for path in [Path::Scalar, Path::Avx2, Path::Avx512] {
        let Some(kernel) = Kernel::on(path) else { continue };
        let Fleet { net, descriptions, pair_rows, .. } = Fleet::new(kernel, 1, 64);
        let pairs: Vec<Pair> = (0..64).map(|target| Pair { target, neighbour: 64 }).collect();
        let (mut states, mut scratch) = (States::new(SHAPE), Scratch::default());
        states.resize(64);
        let rows = &pair_rows[..64];
        group.bench_function(format!("{path:?}"), |b| {
            b.iter(|| net.step(Side::After, black_box((&pairs, rows)), &descriptions, &mut states, &mut scratch));
        });
    }
    group.finish();
}

fn arrivals(c: &mut Criterion) {
    let mut group = c.benchmark_group("arrival");
    for (clusters, running) in
        [1, 8, 16].into_iter().flat_map(|clusters| [8, 32, 64].map(|running| (clusters, running)))
    {
        let mut fleet = Fleet::new(Kernel::best(), clusters, running);
        group.bench_function(BenchmarkId::from_parameter(format!("{clusters} x {running}")), |b| {
            b.iter(|| black_box(fleet.arrive().len()));
        });
    }
    for path in [Path::Scalar, Path::Avx2] {
        let Some(kernel) = Kernel::on(path) else { continue };
        let mut fleet = Fleet::new(kernel, 8, 32);
        group.bench_function(format!("8 x 32 {path:?}"), |b| b.iter(|| black_box(fleet.arrive().len())));
    }
    group.finish();
}

fn wholes(c: &mut Criterion) {
    let mut group = c.benchmark_group("from the beginning");
    for running in [8, 32, 64, 297] {
        let mut fleet = Fleet::new(Kernel::best(), 1, running);
        group.bench_function(BenchmarkId::from_parameter(running), |b| b.iter(|| black_box(fleet.whole().len())));
    }
    group.finish();
}

/// A whole look: what the query takes alone, what it meets everywhere, and what the network says of all.
fn looks(c: &mut Criterion) {
    let mut group = c.benchmark_group("look");
    for (clusters, running) in [(1, 32), (8, 8), (8, 32), (8, 64), (16, 32)] {
        let (model, mut predictor, ids, query, now) = followed(clusters, running);
        let mut look = Look::new(&model);
        group.bench_function(BenchmarkId::from_parameter(format!("{clusters} x {running}")), |b| {
            b.iter(|| {
                predictor.look(&model, now, black_box(&query), &ids, &mut look);
                black_box(look.newcomer(0))
            });
        });
    }
    group.finish();
}

/// A predictor that follows clusters on each of which so many queries run.
fn followed(clusters: u32, running: u64) -> (Model, Predictor, Vec<ClusterId>, Profile, Time) {
    let mut rng = Rng::numbered(2, 1 << 32);
    let weights = (0..Layout::of(SHAPE).total()).map(|_| 0.2 * rng.normal() as f32).collect();
    let known = (0..SHAPE.known as u64).map(Fingerprint).collect();
    let (stage, hidden) = (Stage::default(), SHAPE.hidden as u32);
    let parts = Parts { stage, known, hidden, weights, spread_scales: [1.0; 2] };
    let model = Model::new(parts).expect("sound parts");
    let mut predictor = Predictor::new(&model);
    let ids: Vec<ClusterId> = (0..clusters).map(ClusterId).collect();
    ids.iter().for_each(|cluster| predictor.open(&model, *cluster, Units(8)));
    let mut look = Look::new(&model);
    let mut profile = |number: u64| Profile {
        id: QueryId(number),
        shape: Fingerprint(number % 300),
        text: number % 900,
        features: numbers(&mut rng),
    };
    for number in 0..running * u64::from(clusters) {
        let query = profile(number);
        let now = Time::from_micros(number * 50_000);
        predictor.look(&model, now, &query, &ids, &mut look);
        predictor.place(&model, &look, ids[number as usize % ids.len()]);
    }
    let query = profile(1 << 30);
    (model, predictor, ids, query, Time::from_micros(running * u64::from(clusters) * 50_000))
}

/// What a text that was never seen costs before anything is known of it: its features, and with them what it is. Beside
/// it, what the tokenizer that is left the texts with odd corners takes by itself.
fn texts(c: &mut Criterion) {
    let select = "select i_item_id, avg(ss_quantity) agg1, sum(ss_ext_sales_price) agg2 from store_sales, item, \
         date_dim, (select c_customer_sk from customer where c_birth_year between 1950 and 1960) c where ss_item_sk = \
         i_item_sk and ss_sold_date_sk = d_date_sk and d_year = 2001 and i_category in ('Books', 'Home') \
         group by i_item_id having count(*) > 4 order by i_item_id limit 100";
    // As long as the longest queries of TPC-DS.
    let long = format!("{select} union all {select} union all {select} union all {select} union all {select}");
    for (name, text) in [("text of 460 characters", select), ("text of 2,300 characters", &long)] {
        let mut group = c.benchmark_group(name);
        group.bench_function("features", |b| b.iter(|| features(black_box(text), None)));
        group.bench_function("statement and features", |b| b.iter(|| read(black_box(text))));
        let odd = format!("{text} -- ü\n offset 1e0");
        group.bench_function("statement and features of an odd one", |b| b.iter(|| read(black_box(&odd))));
        group.bench_function("tokenizer alone", |b| {
            b.iter(|| Tokenizer::new(&PostgreSqlDialect {}, black_box(text)).tokenize().map(|tokens| tokens.len()));
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = steps, arrivals, wholes, looks, texts
}
criterion_main!(benches);
