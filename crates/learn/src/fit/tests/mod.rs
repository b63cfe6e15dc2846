//! Gradients against finite differences, and trainings that must learn, repeat and resume.

mod definition;
mod sharing;

use punctual_core::predict::net::{FEATURES, HEAD, Layout, Net, PAIR, Shape};
use punctual_core::rng::Rng;

use super::gradient::{Chances, gradient};
use super::normal::Normal;
use super::*;
use crate::examples::{Example, Examples, QueryInput};
use definition::Definition;

const NOTHING_HIDDEN: Chances = Chances { hide: 0.0, drop: 0.0 };

/// Examples without meaning: sequences of every length from none on, known and unknown queries, bounds.
fn random(seed: u64, examples: usize) -> Examples {
    let mut rng = Rng::numbered(seed, 1 << 32);
    let mut row = |n: usize, scale: f64| (0..n).map(|_| (scale * rng.normal()) as f32).collect::<Vec<f32>>();
    let array = |row: Vec<f32>| -> [f32; PAIR] { row.try_into().expect("as many") };
    let queries = 6;
    let mut pool = Examples::default();
    for query in 0..queries {
        let features: [f32; FEATURES] = row(FEATURES, 1.0).try_into().expect("as many");
        pool.queries.push(QueryInput { known: (query % 3 != 0).then_some(query % 4), features });
    }
    for index in 0..examples as u32 {
        let start = pool.rows.len() as u32;
        let (target, before, after) = (index % queries, index % 5, 1 + index % 3);
        for step in 0..before + after {
            pool.rows.push(array(row(PAIR, 1.0)));
            pool.neighbours.push((target + step * step) % queries);
        }
        pool.examples.push(Example {
            target,
            before: start..start + before,
            after: start + before..start + before + after,
            head: row(HEAD, 1.0).try_into().expect("as many"),
            base: row(1, 1.0)[0],
            label: row(1, 1.5)[0],
            bound: index % 4 == 3,
            group: 0,
        });
    }
    pool
}

fn net(shape: Shape, seed: u64) -> Net {
    Net::new(shape, start::weights(shape, &mut Rng::numbered(seed, 1 << 32))).expect("sound weights")
}

#[test]
fn gradients_are_finite_differences_of_the_definition() {
    let (shape, pool) = (Shape { known: 4, hidden: 16 }, random(1, 19));
    let (net, chosen) = (net(shape, 2), (0..19).collect::<Vec<u32>>());
    let rng = &mut Rng::numbered(3, 1 << 32);
    let found = gradient(&net, &pool, None, &chosen, 1.0, (NOTHING_HIDDEN, rng));
    let weights = net.weights().iter().map(|w| f64::from(*w)).collect();
    let mut definition = Definition { shape, layout: Layout::of(shape), weights, pool: &pool };
    assert!((found.cost - definition.cost(&chosen)).abs() < 1e-4);
    let largest = found.by_weight.iter().fold(0.0f32, |most, slope| most.max(slope.abs()));
    for (name, part) in net.layout().parts() {
        let mut seen = 0.0f64;
        for _ in 0..40 {
            let at = part.start + rng.index(part.len());
            let (weight, eps) = (definition.weights[at], 1e-6);
            let mut cost = |weight| {
                definition.weights[at] = weight;
                definition.cost(&chosen)
            };
            let slope = (cost(weight + eps) - cost(weight - eps)) / (2.0 * eps);
            cost(weight);
            let off = (slope - f64::from(found.by_weight[at])).abs();
            assert!(off < 2e-5 * slope.abs() + 2e-6 * f64::from(largest), "{name}: {slope} by {off}");
            seen = seen.max(slope.abs());
        }
        assert!(seen > 1e-4, "{name} has no slopes to compare");
    }
}

#[test]
fn a_hidden_fingerprint_learns_nothing_and_a_shown_one_does() {
    let (shape, pool) = (Shape { known: 4, hidden: 16 }, random(4, 12));
    let (net, chosen) = (net(shape, 5), (0..12).collect::<Vec<u32>>());
    let of = |hide| {
        let chances = (Chances { hide, drop: 0.0 }, &mut Rng::numbered(6, 1 << 32));
        let found = gradient(&net, &pool, None, &chosen, 1.0, chances);
        found.by_weight[net.layout().embedding.clone()].iter().map(|slope| slope.abs()).sum::<f32>()
    };
    assert_eq!(of(1.0), 0.0);
    assert!(of(0.0) > of(0.5) * 0.5 && of(0.5) > 0.0);
}

#[test]
fn a_folded_network_reads_raw_inputs_as_it_read_normalised_ones() {
    let (shape, mut pool) = (Shape { known: 4, hidden: 16 }, random(7, 20));
    pool.rows.iter_mut().for_each(|row| row[3] = 1000.0 + 50.0 * row[3]);
    pool.queries.iter_mut().for_each(|query| query.features[7] = 5.0);
    let (net, chosen) = (net(shape, 8), (0..20).collect::<Vec<u32>>());
    let normal = Normal::of(&pool, &chosen);
    let folded = Net::new(shape, normal.fold(&net)).expect("sound weights");
    let mut scaled = pool.clone();
    scaled.rows.iter_mut().for_each(|row| *row = normal.pair.apply(row));
    scaled.queries.iter_mut().for_each(|query| query.features = normal.features.apply(&query.features));
    scaled.examples.iter_mut().for_each(|example| example.head = normal.head.apply(&example.head));
    for (raw, normalised) in outcomes(&folded, &pool, &chosen).iter().zip(outcomes(&net, &scaled, &chosen)) {
        assert!((raw.median - normalised.median).abs() < 1e-4);
        assert!((raw.spread - normalised.spread).abs() < 1e-4);
    }
}

#[test]
fn training_sees_the_costs_of_prediction() {
    let (shape, pool) = (Shape { known: 4, hidden: 32 }, random(9, 30));
    let (net, chosen) = (net(shape, 10), (0..30).collect::<Vec<u32>>());
    let rng = &mut Rng::numbered(0, 1 << 32);
    let found = gradient(&net, &pool, None, &chosen, 1.0, (NOTHING_HIDDEN, rng));
    let score = score(&outcomes(&net, &pool, &chosen), 1.0);
    assert!((found.cost / 30.0 - score.cost).abs() < 1e-6);
}

const SMALL: Shape = Shape { known: sharing::KINDS, hidden: 16 };

/// The examples of a world, four of five to learn from and the rest to validate on.
fn split(pool: &Examples) -> (Vec<u32>, Vec<u32>) {
    let held_out = |index: &u32| pool.examples[*index as usize].group % 5 == 4;
    (0..pool.examples.len() as u32).partition(|index| !held_out(index))
}

fn settings() -> Settings {
    Settings { epochs: 3, threads: 1, ..Settings::default() }
}

fn training(pool: &Examples, settings: Settings) -> Training<'_> {
    let (train, validation) = split(pool);
    Training::new(pool, train, validation, SMALL, settings).expect("sound examples")
}

#[test]
fn what_even_sharing_gets_wrong_is_learnt() {
    let pool = sharing::examples(11, 1500);
    let mut training = training(&pool, Settings { epochs: 12, rate: 5e-3, ..settings() });
    training.run(|_| Go::On);
    let net = training.best().expect("sound weights");
    let (_, validation) = split(&pool);
    let found = outcomes(&net, &pool, &validation);
    let scale = spread_scale(ratios(&found));
    let learnt = score(&found, scale);
    let based = |outcome: (&Outcome, &u32)| Outcome {
        median: f64::from(pool.examples[*outcome.1 as usize].base),
        ..*outcome.0
    };
    let base = score(&found.iter().zip(&validation).map(based).collect::<Vec<_>>(), scale);
    assert!(learnt.q_error[0] - 1.0 < 0.7 * (base.q_error[0] - 1.0), "{learnt:?} against {base:?}");
    assert!(learnt.q_error[1] < 0.75 * base.q_error[1], "{learnt:?} against {base:?}");
    assert!((0.85..0.95).contains(&learnt.coverage), "{learnt:?}");
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let pool = sharing::examples(12, 150);
    let of = |threads| {
        let mut training = training(&pool, Settings { threads, drop: 0.1, ..settings() });
        training.run(|_| Go::On);
        training.state().clone()
    };
    let alone = of(1);
    assert_eq!(alone, of(2));
    assert_eq!(alone, of(3));
}

#[test]
fn a_training_resumed_is_the_training_uninterrupted() {
    let pool = sharing::examples(13, 120);
    let (train, validation) = split(&pool);
    let mut whole = training(&pool, settings());
    whole.run(|_| Go::On);

    let mut first = training(&pool, settings());
    first.epoch(&mut |_, _| Go::On).expect("an epoch");
    // Stopped in the middle of the second epoch, put away, taken up.
    assert_eq!(first.epoch(&mut |done, _| if done == 2 { Go::Stop } else { Go::On }), None);
    assert!(first.finished());
    let bytes = postcard::to_allocvec(first.state()).expect("a state can be written");
    let state = postcard::from_bytes(&bytes).expect("and read");
    let mut second =
        Training::resume(&pool, train, validation, SMALL, settings(), state).expect("a state of this training");
    second.run(|_| Go::On);
    assert_eq!(second.state(), whole.state());
}

#[test]
fn a_stop_keeps_the_best_so_far_and_patience_ends_a_training() {
    let pool = sharing::examples(14, 60);
    let mut stopped = training(&pool, settings());
    let start = stopped.state().clone();
    assert_eq!(stopped.epoch(&mut |_, _| Go::Stop), None);
    assert_ne!(stopped.state(), &start, "what a first epoch had learnt is kept");
    assert!(stopped.best().is_ok());

    let mut epochs = Vec::new();
    // A rate at which nothing improves for long.
    let wild = Settings { epochs: 60, rate: 0.3, patience: 2, ..settings() };
    let mut impatient = training(&pool, wild);
    impatient.run(|epoch| {
        epochs.push(*epoch);
        Go::On
    });
    assert!(epochs.len() < 60);
    assert!(epochs.iter().rev().take(2).all(|epoch| !epoch.best));
    let best = epochs.iter().rfind(|epoch| epoch.best).expect("the first is the best at first");
    let (_, validation) = split(&pool);
    let kept = score(&outcomes(&impatient.best().expect("sound weights"), &pool, &validation), 1.0);
    assert_eq!(kept, best.score);
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let pool = sharing::examples(15, 20);
    let of = |train: Vec<u32>, shape, settings| Training::new(&pool, train, vec![], shape, settings).map(|_| ()).err();
    assert_eq!(of(vec![], SMALL, settings()), Some(FitError::NoExamples));
    assert_eq!(of(vec![4000], SMALL, settings()), Some(FitError::Index { index: 4000 }));
    let odd = Shape { known: 8, hidden: 17 };
    assert!(matches!(of(vec![0], odd, settings()), Some(FitError::Net(_))));
    let few = Shape { known: 1, hidden: 16 };
    assert!(matches!(of(vec![0], few, settings()), Some(FitError::Examples(_))));
    let none = Settings { batch: 0, ..settings() };
    assert_eq!(of(vec![0], SMALL, none), Some(FitError::Setting { name: "batch" }));
    let one = of(vec![0], SMALL, settings());
    assert_eq!(one, None, "one example is enough");
    let (train, wider) = (vec![0], Shape { known: 9, hidden: 16 });
    let state = training(&pool, settings()).state().clone();
    let other = Training::resume(&pool, train, vec![], wider, settings(), state).map(|_| ()).err();
    assert!(matches!(other, Some(FitError::Net(_))));
}
