//! From runs to a model and what it is worth, on runs whose rules are known: clusters that share by processor sharing,
//! and shapes that slow each other down in a way that no isolated run shows.

use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::Units;
use punctual_core::predict::features::FEATURES;
use punctual_core::rng::Rng;
use punctual_core::time::Time;
use punctual_learn::accuracy::{Accuracy, Judged};
use punctual_learn::contexts::Sight;
use punctual_learn::evaluation::{Expected, evaluate};
use punctual_learn::fit::{Go, Settings};
use punctual_learn::learning::{Kind, LearnError, Learnt, Options, Progress, learn, learn_on};
use punctual_learn::observation::{Observation, Part};
use punctual_learn::variant::WHOLE;

const SHAPES: u64 = 6;

/// `queries` on one cluster, arriving at random, each of a shape with its own work. Shapes of one half that run together
/// make each other twice as slow as sharing would.
fn run(cluster: u32, size: u32, queries: usize, seed: u64) -> Vec<Observation> {
    let mut rng = Rng::numbered(seed, 1 << 41);
    let mut waiting: Vec<(f64, u64, f64)> = Vec::new();
    let mut at = 0.0;
    for _ in 0..queries {
        at += rng.exponential(6.0);
        let shape = rng.below(SHAPES);
        let noise = 0.05 * rng.normal();
        waiting.push((at, shape, 8.0 * (shape + 1) as f64 / f64::from(size) * (1.0 + noise)));
    }
    let mut seen = Vec::new();
    let mut running: Vec<(f64, u64, f64)> = Vec::new();
    let mut arrivals = waiting.into_iter().peekable();
    let mut now = 0.0;
    while arrivals.peek().is_some() || !running.is_empty() {
        let rate = |shape: u64, running: &[(f64, u64, f64)]| {
            let clash = running.iter().filter(|(_, other, _)| *other % 2 == shape % 2).count() > 1;
            1.0 / running.len() as f64 / if clash { 2.0 } else { 1.0 }
        };
        let rates: Vec<f64> = running.iter().map(|(_, shape, _)| rate(*shape, &running)).collect();
        let ends = running.iter().zip(&rates).map(|((_, _, left), rate)| left / rate);
        let next_end = ends.fold(f64::INFINITY, f64::min);
        let next_arrival = arrivals.peek().map_or(f64::INFINITY, |(at, _, _)| at - now);
        let step = next_end.min(next_arrival);
        for ((_, _, left), rate) in running.iter_mut().zip(&rates) {
            *left -= step * rate;
        }
        now += step;
        if next_arrival <= next_end {
            running.extend(arrivals.next());
        } else if let Some(index) = running.iter().position(|(_, _, left)| *left < 1e-9) {
            let (from, shape, _) = running.remove(index);
            seen.push(observation(cluster, size, shape, from, now));
        }
    }
    seen
}

fn observation(cluster: u32, size: u32, shape: u64, from: f64, to: f64) -> Observation {
    let time = |seconds: f64| Time::from_micros((seconds * 1e6) as u64);
    let mut features = [0.0; FEATURES];
    features[0] = shape as f32;
    Observation {
        cluster,
        size: Units(size),
        arrival: time(from),
        ended: time(to),
        finished: true,
        shape: Fingerprint(shape),
        text: shape,
        features,
        part: Part::Train,
        published: None,
    }
}

/// Ten runs on two sizes; the last is held out, and a fifth of the others decides when to stop.
fn runs() -> Vec<Observation> {
    let mut all = Vec::new();
    for cluster in 0..10 {
        all.extend(run(cluster, 4 + 4 * (cluster % 2), 120, u64::from(cluster)));
    }
    for (index, seen) in all.iter_mut().enumerate() {
        seen.part = match seen.cluster {
            9 => Part::Test,
            _ if index % 5 == 0 => Part::Validate,
            _ => Part::Train,
        };
    }
    all
}

/// Learns for so many epochs and no more.
fn learnt(observations: &[Observation], epochs: u32) -> Result<Learnt, LearnError> {
    let settings = Settings { epochs, ..Settings::default() };
    learn(observations, &Options { hidden: 16, settings, steps: 0, ..Options::default() }, &mut |_| Go::On)
}

#[test]
fn a_model_knows_more_than_sharing_and_stage_about_a_run_it_has_not_seen() {
    let runs = runs();
    let options = Options { hidden: 16, ..Options::default() };
    let model = learn(&runs, &options, &mut |_| Go::On).expect("enough to learn from").model;
    let expected = evaluate(&model, &runs, &WHOLE);
    let of = |sight: Sight, what: fn(&Expected) -> Judged| {
        Accuracy::of(expected.iter().filter(|one| one.sight == sight).map(what))
    };
    for sight in [Sight::AtArrival, Sight::Hindsight] {
        let (model, sharing, stage) =
            (of(sight, |one| one.model), of(sight, |one| one.sharing), of(sight, |one| one.stage));
        println!("{sight:?}: model {model:?}\n  sharing {sharing:?}\n  stage {stage:?}");
        assert_eq!(model.n, 120, "each in each sight");
        assert!(model.q_error[1] < 0.85 * sharing.q_error[1] && model.q_error[1] < 0.85 * stage.q_error[1]);
    }
}

#[test]
fn nine_of_ten_queries_like_those_learnt_from_end_below_the_upper_quantile() {
    let mut runs = runs();
    for (index, seen) in runs.iter_mut().enumerate() {
        seen.part = [Part::Train, Part::Train, Part::Train, Part::Validate, Part::Test][index % 5];
    }
    let model = learnt(&runs, 16).expect("enough to learn from").model;
    let expected = evaluate(&model, &runs, &WHOLE);
    for sight in [Sight::AtArrival, Sight::Hindsight] {
        let accuracy = Accuracy::of(expected.iter().filter(|one| one.sight == sight).map(|one| one.model));
        println!("{sight:?}: {accuracy:?}");
        // 240 of them: 0.9 give or take three standard deviations.
        assert!(accuracy.n == 240 && (0.84..=0.96).contains(&accuracy.coverage), "{accuracy:?}");
    }
}

#[test]
fn neither_published_predictions_nor_held_out_latencies_leave_a_trace() {
    let runs = runs();
    let first = learnt(&runs, 2).expect("enough to learn from").model.parts();
    let mut published = runs.clone();
    published.iter_mut().enumerate().for_each(|(index, seen)| seen.published = Some(index as f64));
    assert_eq!(learnt(&published, 2).expect("enough").model.parts(), first);
    let mut longer = runs.clone();
    for seen in longer.iter_mut().filter(|seen| seen.part == Part::Test) {
        seen.ended = Time::from_micros(seen.arrival.micros() + 1 + seen.ended.micros() % 9_000_000);
    }
    assert_eq!(learnt(&longer, 2).expect("enough").model.parts(), first);
    let mut other = runs;
    other[3].ended = Time::from_micros(other[3].ended.micros() + 5_000_000);
    assert_ne!(learnt(&other, 2).expect("enough").model.parts(), first, "what is learnt from does");
}

#[test]
fn only_where_nothing_finished_is_there_no_model() {
    let mut bounds = runs();
    bounds.iter_mut().for_each(|seen| seen.finished = false);
    let queries = bounds.iter().filter(|seen| seen.part != Part::Test).count();
    assert_eq!(learnt(&bounds, 1).map(|_| ()).unwrap_err(), LearnError::NoneFinished { queries });
    assert_eq!(learnt(&[], 1).map(|_| ()).unwrap_err(), LearnError::NoneFinished { queries: 0 });
}

#[test]
fn few_queries_make_a_model_of_what_they_took_alone() {
    let few: Vec<Observation> =
        (0..20).map(|at| observation(0, 4, at % 2, at as f64 * 9.0, at as f64 * 9.0 + 4.0)).collect();
    let learnt = learnt(&few, 1).expect("a model");
    assert_eq!((learnt.kind, learnt.learnt_from, learnt.isolated, learnt.epochs), (Kind::Stage, 20, 20, 0));
    // Two at once share: what each takes alone, times the fluid estimate's 2^0.7.
    let mut pair = vec![observation(1, 4, 0, 0.0, 6.5), observation(1, 4, 1, 0.0, 6.5)];
    pair.iter_mut().for_each(|seen| seen.part = Part::Test);
    let expected = evaluate(&learnt.model, &[few, pair].concat(), &WHOLE);
    let second = expected.iter().rfind(|one| one.sight == Sight::AtArrival).expect("the second of them").model;
    assert!((second.median - (4.0f64 * 2f64.powf(0.7)).ln()).abs() < 0.02, "{second:?}");
}

#[test]
fn few_queries_of_which_none_ran_alone_make_a_model_of_their_medians() {
    let pair = |at: u64| {
        [0, 1].map(|shape| observation(0, 4, shape, at as f64 * 99.0, at as f64 * 99.0 + 5.0 + 10.0 * shape as f64))
    };
    let crowded: Vec<Observation> = (0..20).flat_map(pair).collect();
    let learnt = learnt(&crowded, 1).expect("a model");
    assert_eq!((learnt.kind, learnt.learnt_from, learnt.isolated), (Kind::Medians, 40, 0));
    let mut all = crowded.clone();
    all.extend((50..52).flat_map(pair).map(|seen| Observation { part: Part::Test, ..seen }));
    for one in evaluate(&learnt.model, &all, &WHOLE) {
        let median = [5.0f64, 15.0][all[one.observation].shape.0 as usize].ln();
        assert!((one.model.median - median).abs() < 0.05 && one.model.upper > one.model.median, "{one:?}");
    }
}

#[test]
fn one_query_is_a_model() {
    let one = [observation(0, 4, 3, 1.0, 9.0)];
    let learnt = learnt(&one, 1).expect("a model");
    assert_eq!((learnt.kind, learnt.learnt_from), (Kind::Stage, 1));
    let elsewhere = Observation { part: Part::Test, size: Units(64), cluster: 7, ..one[0].clone() };
    let expected = evaluate(&learnt.model, &[one[0].clone(), elsewhere], &WHOLE);
    assert!(expected.iter().all(|one| one.model.median.is_finite() && one.model.upper > one.model.median));
}

#[test]
fn odd_histories_are_learnt_from_all_the_same() {
    let change = |change: &dyn Fn(usize, &mut Observation)| {
        let mut runs = runs();
        runs.iter_mut().enumerate().for_each(|(index, seen)| change(index, seen));
        let model = learnt(&runs, 1).expect("a model").model;
        let finite = |one: &Expected| one.model.median.is_finite() && one.model.upper >= one.model.median;
        assert!(evaluate(&model, &runs, &WHOLE).iter().all(finite));
    };
    change(&|_, seen| seen.shape = Fingerprint(1));
    change(&|index, seen| seen.shape = Fingerprint(index as u64));
    change(&|_, seen| seen.ended = seen.arrival);
    change(&|_, seen| seen.ended = Time::ZERO);
    change(&|index, seen| seen.finished = index % 9 == 0);
    change(&|_, seen| (seen.arrival, seen.ended) = (Time::ZERO, Time::from_micros(7)));
    change(&|_, seen| seen.part = if seen.part == Part::Test { Part::Test } else { Part::Train });
    change(&|_, seen| seen.size = Units(if seen.part == Part::Test { 64 } else { 4 }));
}

#[test]
fn a_stop_keeps_what_there_is() {
    let runs = runs();
    let mut epochs = 0;
    let settings = Settings { epochs: 50, ..Settings::default() };
    let learnt = learn(&runs, &Options { hidden: 16, settings, ..Options::default() }, &mut |progress| {
        epochs += u32::from(matches!(progress, Progress::Epoch(..)));
        if epochs >= 2 { Go::Stop } else { Go::On }
    });
    let learnt = learnt.expect("the best so far");
    assert!(learnt.stopped && learnt.epochs <= 2 && epochs == 2);
}

#[test]
fn a_training_goes_on_from_any_of_its_epochs_to_the_same_model() {
    let mut queries = run(0, 4, 90, 3);
    queries.iter_mut().step_by(5).for_each(|seen| seen.part = Part::Validate);
    let mut clusters: Vec<Observation> = (0..3).flat_map(|cluster| run(cluster, 4, 30, 3)).collect();
    clusters.iter_mut().filter(|seen| seen.cluster == 0).for_each(|seen| seen.part = Part::Validate);
    let options =
        Options { hidden: 16, settings: Settings { epochs: 2, ..Settings::default() }, steps: 0, variant: WHOLE };
    // Two epochs that measure, at least one for each fold of whole clusters, and at least one of everything.
    for (observations, fewest) in [(queries, 3), (clusters, 5)] {
        let mut kept = Vec::new();
        let mut on = |_: Progress| Go::On;
        let whole = learn_on(&observations, &options, None, &mut on, &mut |left| kept.push(left.clone()));
        let whole = whole.expect("a model");
        assert!(kept.len() >= fewest, "{}", kept.len());
        for left in kept {
            let again = learn_on(&observations, &options, Some(left), &mut on, &mut |_| {}).expect("a model");
            assert_eq!(again.model.parts(), whole.model.parts());
        }
    }
}
