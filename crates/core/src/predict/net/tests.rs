//! The network against its definition, alone and in batches, and on input that no one should give.

use super::*;
use crate::math;
use crate::predict::kernel::Path;
use crate::rng::Rng;

const SHAPE: Shape = Shape { known: 5, hidden: 16 };

/// Everything that a prediction needs, drawn from a seed.
struct World {
    net: Net,
    descriptions: Descriptions,
    rng: Rng,
}

impl World {
    fn new(seed: u64, queries: usize) -> World {
        let mut rng = Rng::numbered(seed, 1 << 32);
        let weights = (0..Layout::of(SHAPE).total()).map(|_| rng.normal() as f32 * 0.3).collect();
        let net = Net::new(SHAPE, weights).expect("finite weights");
        let known: Vec<Option<u32>> = (0..queries).map(|_| rng.chance(0.7).then(|| rng.below(5) as u32)).collect();
        let features: Vec<[f32; FEATURES]> =
            (0..queries).map(|_| std::array::from_fn(|_| rng.normal() as f32)).collect();
        let mut descriptions = Descriptions::new(SHAPE);
        descriptions.resize(queries);
        net.describe(&known, &features, &mut descriptions, 0);
        World { net, descriptions, rng }
    }

    fn steps(&mut self, n: usize) -> (Vec<Pair>, Vec<[f32; PAIR]>) {
        let slots = self.descriptions.slots() as u64;
        let rng = &mut self.rng;
        let pairs = (0..n).map(|_| Pair { target: rng.below(slots) as u32, neighbour: rng.below(slots) as u32 });
        (pairs.collect(), (0..n).map(|_| std::array::from_fn(|_| rng.normal() as f32)).collect())
    }

    fn read_one(&self, range: Range<u32>, pairs: &[Pair], rows: &[[f32; PAIR]]) -> States {
        self.read(std::slice::from_ref(&range), pairs, rows)
    }

    fn read(&self, sequences: &[Range<u32>], pairs: &[Pair], rows: &[[f32; PAIR]]) -> States {
        let mut states = States::new(SHAPE);
        let scratch = &mut Scratch::default();
        self.net.read(Side::After, sequences, (pairs, rows), &self.descriptions, &mut states, scratch);
        states
    }
}

/// [1, inputs…] · weights, in 64 bits.
fn layer(width: usize, bias: &[f32], inputs: &[(&[f64], &[f32])]) -> Vec<f64> {
    let mut out: Vec<f64> = (0..width).map(|j| bias.get(j).map_or(0.0, |b| f64::from(*b))).collect();
    for (x, w) in inputs {
        assert_eq!(w.len(), x.len() * width);
        for (x, w) in x.iter().zip(w.chunks(width)) {
            out.iter_mut().zip(w).for_each(|(out, w)| *out += x * f64::from(*w));
        }
    }
    out
}

fn wide(xs: &[f32]) -> Vec<f64> {
    xs.iter().map(|x| f64::from(*x)).collect()
}

/// An LSTM step by its definition.
fn cell_by_definition(world: &World, side: Side, pair: Pair, row: &[f32], h: &mut [f64], c: &mut [f64]) {
    let (net, cell) = (&world.net, world.net.cell(side));
    let (a, b) = (world.descriptions.descriptor(pair.target), world.descriptions.descriptor(pair.neighbour));
    let inputs = [
        (&wide(row)[..], net.part(&cell.pair)),
        (&wide(a), net.part(&cell.target)),
        (&wide(b), net.part(&cell.neighbour)),
        (&*h, net.part(&cell.hidden)),
    ];
    let z = layer(4 * h.len(), net.part(&cell.bias), &inputs);
    let sigmoid = |x: f64| 1.0 / (1.0 + math::exp(-x));
    let tanh = |x: f64| 1.0 - 2.0 / (1.0 + math::exp(2.0 * x));
    let n = h.len();
    for j in 0..n {
        c[j] = sigmoid(z[n + j]) * c[j] + sigmoid(z[j]) * tanh(z[2 * n + j]);
        h[j] = sigmoid(z[3 * n + j]) * tanh(c[j]);
    }
}

#[test]
fn reading_a_sequence_is_the_lstm_of_the_books() {
    let mut world = World::new(1, 7);
    let (pairs, rows) = world.steps(9);
    let states = world.read_one(0..9, &pairs, &rows);
    let (mut h, mut c) = (vec![0.0; SHAPE.hidden], vec![0.0; SHAPE.hidden]);
    for (pair, row) in pairs.iter().zip(&rows) {
        cell_by_definition(&world, Side::After, *pair, row, &mut h, &mut c);
    }
    for (got, expected) in states.h(0).iter().zip(&h) {
        assert!((f64::from(*got) - expected).abs() < 1e-5, "{got} is not {expected}");
    }
}

#[test]
fn the_head_is_its_layers() {
    let mut world = World::new(2, 3);
    let (pairs, rows) = world.steps(6);
    let (before, after) = (world.read_one(0..3, &pairs, &rows), world.read_one(3..6, &pairs, &rows));
    let row: [f32; HEAD] = std::array::from_fn(|_| world.rng.normal() as f32);
    let mut outputs = Vec::new();
    let scratch = &mut Scratch::default();
    world.net.head((&[2], &[row]), &world.descriptions, (&before, &after), scratch, &mut outputs);

    let (net, l) = (&world.net, world.net.layout());
    let relu = |xs: Vec<f64>| xs.into_iter().map(|x| x.max(0.0)).collect::<Vec<_>>();
    let target = wide(world.descriptions.descriptor(2));
    let side = [(&wide(&row)[..], net.part(&l.side_row)), (&target, net.part(&l.side_target))];
    let side = relu(layer(SIDE, net.part(&l.side_bias), &side));
    let (before, after) = (wide(before.h(0)), wide(after.h(0)));
    let mix =
        [(&before[..], net.part(&l.mix_before)), (&after, net.part(&l.mix_after)), (&side, net.part(&l.mix_side))];
    let mix = relu(layer(MIX, net.part(&l.mix_bias), &mix));
    let out = layer(OUT, net.part(&l.out_bias), &[(&mix, net.part(&l.out_mix))]);
    assert!((f64::from(outputs[0].offset) - out[0]).abs() < 1e-5);
    assert!((f64::from(outputs[0].spread) - math::ln(1.0 + math::exp(out[1]))).abs() < 1e-5);
}

#[test]
fn sequences_of_any_lengths_are_read_together_as_each_is_alone() {
    let mut world = World::new(3, 20);
    let (pairs, rows) = world.steps(40);
    let sequences = [0..3, 3..3, 3..15, 15..16, 16..28, 28..40, 5..9];
    let together = world.read(&sequences, &pairs, &rows);
    assert_eq!(together.rows(), sequences.len());
    for (row, sequence) in sequences.iter().enumerate() {
        let alone = world.read_one(sequence.clone(), &pairs, &rows);
        assert_eq!(together.h(row), alone.h(0));
    }
    assert_eq!(together.h(1), [0.0; SHAPE.hidden]);
}

#[test]
fn a_later_arrival_is_one_more_step() {
    let mut world = World::new(4, 20);
    let (pairs, rows) = world.steps(90);
    let sequences: Vec<Range<u32>> = (0..45).map(|s| 2 * s..2 * s + 2).collect();
    let heads: Vec<Range<u32>> = sequences.iter().map(|s| s.start..s.start + 1).collect();
    let mut states = world.read(&heads, &pairs, &rows);
    let second = |s: &Range<u32>| s.start as usize + 1;
    let next: Vec<Pair> = sequences.iter().map(|s| pairs[second(s)]).collect();
    let next_rows: Vec<[f32; PAIR]> = sequences.iter().map(|s| rows[second(s)]).collect();
    let scratch = &mut Scratch::default();
    world.net.step(Side::After, (&next, &next_rows), &world.descriptions, &mut states, scratch);
    let whole = world.read(&sequences, &pairs, &rows);
    assert_eq!((states.h, states.c), (whole.h, whole.c));
}

#[test]
fn every_path_of_the_kernel_predicts_the_same_bits() {
    let mut world = World::new(5, 20);
    let (pairs, rows) = world.steps(60);
    let sequences: Vec<Range<u32>> = (0..12).map(|s| s * 4..s * 5).collect();
    let targets: Vec<u32> = (0..12).collect();
    let head_rows: Vec<[f32; HEAD]> =
        targets.iter().map(|_| std::array::from_fn(|_| world.rng.normal() as f32)).collect();
    let mut seen: Vec<Vec<(u32, u32)>> = Vec::new();
    for kernel in [Path::Scalar, Path::Avx2, Path::Avx512].into_iter().filter_map(Kernel::on) {
        let World { net, descriptions, .. } = &mut world;
        *net = net.clone().on(kernel);
        net.describe(&[Some(1), None], &[[0.3; FEATURES], [-0.7; FEATURES]], descriptions, 4);
        let states = world.read(&sequences, &pairs, &rows);
        let (mut outputs, scratch) = (Vec::new(), &mut Scratch::default());
        let states = (&states, &states);
        world.net.head((&targets, &head_rows), &world.descriptions, states, scratch, &mut outputs);
        seen.push(outputs.iter().map(|out| (out.offset.to_bits(), out.spread.to_bits())).collect());
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn rows_that_are_no_numbers_still_give_finite_outputs() {
    for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        let mut world = World::new(6, 2);
        world.net.describe(&[Some(99), None], &[[poison; FEATURES]; 2], &mut world.descriptions, 0);
        let pairs = [Pair { target: 0, neighbour: 1 }; 3];
        let states = world.read_one(0..3, &pairs, &[[poison; PAIR]; 3]);
        assert!(states.h(0).iter().all(|h| h.is_finite()));
        let (mut outputs, scratch) = (Vec::new(), &mut Scratch::default());
        let states = (&states, &states);
        world.net.head((&[1], &[[poison; HEAD]]), &world.descriptions, states, scratch, &mut outputs);
        assert!(outputs[0].offset.is_finite() && outputs[0].spread.is_finite());
    }
}

#[test]
fn an_unknown_fingerprint_is_described_by_its_features_alone() {
    let mut world = World::new(7, 3);
    let features = [[0.5; FEATURES]; 3];
    world.net.describe(&[None, Some(5), Some(4)], &features, &mut world.descriptions, 0);
    assert_eq!(world.descriptions.descriptor(0), world.descriptions.descriptor(1));
    assert_ne!(world.descriptions.descriptor(0), world.descriptions.descriptor(2));
}

#[test]
fn weights_that_do_not_make_a_network_are_refused() {
    let of = |known, hidden, weights| Net::new(Shape { known, hidden }, weights).map(|_| ());
    assert_eq!(of(1, 24, vec![]), Err(NetError::Hidden { hidden: 24 }));
    assert_eq!(of(1, 0, vec![]), Err(NetError::Hidden { hidden: 0 }));
    assert_eq!(of(1 << 20, 16, vec![]), Err(NetError::Known { known: 1 << 20 }));
    let needed = Layout::of(SHAPE).total();
    assert_eq!(of(5, 16, vec![0.0; 3]), Err(NetError::Count { given: 3, needed }));
    let mut weights = vec![0.0; needed];
    weights[7] = f32::NAN;
    assert_eq!(of(5, 16, weights), Err(NetError::NotFinite { at: 7 }));
}

#[test]
fn parts_follow_each_other_without_gaps() {
    let layout = Layout::of(SHAPE);
    let mut end = 0;
    for (name, range) in layout.parts() {
        assert_eq!(range.start, end, "{name} begins where the part before it ends");
        end = range.end;
    }
    assert_eq!(end, layout.total());
}
