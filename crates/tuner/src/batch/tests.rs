//! Tests of the batch.

use punctual_core::billing::Price;
use punctual_core::class::DEFAULT;
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::route::Routing;
use punctual_core::scale::{Scaling, Selector, Trigger};
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::Troubles;
use punctual_sim::workload::{Mix, Pattern, Size, generate};

use super::*;
use crate::configuration::{Knobs, Spinup};
use crate::spinups::{Search, schedule};

fn spec(units: u32) -> Spec {
    let price = Price { per_unit_hour: 0.36, minimum: Span::from_secs(60) };
    let name = format!("size{units}");
    Spec { offer: Some(name.clone()), name, units: Units(units), slots: 100, price, killable: true, writer: false }
}

/// Queries of 8 s of one unit, for half an hour: a few, and from the tenth to the twentieth minute many. Late after so long.
fn common(slo: Span) -> Common {
    let scaling = Scaling {
        mode: Mode::On,
        trigger: Trigger::None,
        selector: Selector::None,
        offers: vec![spec(2), spec(8)],
        start_takes: Span::from_secs(60),
        ..Scaling::default()
    };
    let policy = Policy { routing: Routing::LeastOutstanding, scaling, ..Policy::default() };
    let troubles = Troubles::default();
    let rehearsal =
        Rehearsal { seed: 3, policy, fleet: Vec::new(), model: None, make: Make::Sharing, clients: None, troubles };
    let workload = |seed: u64| -> Vec<Arrival> {
        let mix = |seed| Mix::of_one(DEFAULT, Some(slo), Size::Fixed(Span::from_secs(8)), seed);
        let few = generate(seed, &Pattern::Poisson { rate: 0.1 }, &mix(1), Span::from_secs(1_800));
        let many = generate(seed + 100, &Pattern::Poisson { rate: 0.6 }, &mix(1), Span::from_secs(600));
        let mut all: Vec<Arrival> = few.collect();
        all.extend(many.zip(1 << 20..).map(|(arrival, number)| Arrival {
            at: arrival.at + Span::from_secs(600),
            session: punctual_core::id::SessionId::of(0, number),
            ..arrival
        }));
        all.sort_by_key(|arrival| arrival.at);
        all
    };
    let (train, validation) = ((0..8).map(workload).collect(), (50..54).map(workload).collect());
    Common { rehearsal, sizes: vec![spec(2), spec(8)], train, validation, promise: Vec::new() }
}

fn configuration(fleet: &[u32]) -> Configuration {
    let knobs = Knobs { idle: Span::from_secs(240), lifetime: Span::from_secs(240), ..Knobs::of(&Policy::default()) };
    Configuration { fleet: fleet.iter().copied().map(Units).collect(), spinups: Vec::new(), knobs }
}

fn batch<'a>(common: &'a Common, threads: usize, stop: &'a AtomicBool) -> Batch<'a> {
    Batch { common, threads, stop, tell: &|_, _| {} }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads_or_on_what_else_is_simulated() {
    let (common, stop) = (common(Span::from_secs(30)), AtomicBool::new(false));
    let all = [configuration(&[2]), configuration(&[8]), configuration(&[2, 2])];
    let one = batch(&common, 1, &stop).simulate(&all, Split::Train).expect("not stopped");
    assert_eq!(one, batch(&common, 5, &stop).simulate(&all, Split::Train).expect("not stopped"));
    let alone = batch(&common, 2, &stop).simulate(&all[1..2], Split::Train).expect("not stopped");
    assert_eq!(alone[0], one[1]);
    assert_eq!((one.len(), one[0].len()), (3, 8));
    // The same arrivals whatever the configuration, and other ones to judge by.
    let arrivals = |of: &Outcome| {
        let mut at: Vec<Time> = of.log.iter().map(|lived| lived.arrived).collect();
        at.sort_unstable();
        at
    };
    assert_eq!(arrivals(&one[0][3]), arrivals(&one[1][3]));
    let judged = batch(&common, 2, &stop).simulate(&all[..1], Split::Validation).expect("not stopped");
    assert_ne!(arrivals(&one[0][0]), arrivals(&judged[0][0]));
    // Eight units make room for what two do not.
    let rate = |of: &[Outcome]| of.iter().map(|outcome| outcome.performance.violation_rate).sum::<f64>() / 8.0;
    assert!(rate(&one[0]) > 0.5 && rate(&one[1]) < 0.2, "{} {}", rate(&one[0]), rate(&one[1]));
}

#[test]
fn a_start_is_scheduled_before_load_that_always_comes() {
    let (common, stop) = (common(Span::from_secs(30)), AtomicBool::new(false));
    let search = Search { rounds: 3, ..Search::of(0.05, vec![Units(2), Units(8)], Span::from_secs(60)) };
    let mut batch = batch(&common, 2, &stop);
    let initial = [configuration(&[2]), configuration(&[8])];
    let found = schedule(&initial, &search, &mut batch).expect("not stopped");
    let candidate = &found.candidates[0];
    let first = candidate.configuration.spinups.first().unwrap_or_else(|| panic!("{candidate:?}"));
    assert!((400.0..720.0).contains(&first.at.secs_f64()), "{first:?}");
    let before = candidate.added[0].before;
    assert!(candidate.train.violation_rate < before.violation_rate / 3.0, "{candidate:?}");
    assert!(candidate.validation.violation_rate < before.violation_rate / 3.0, "{candidate:?}");
    let again = schedule(&initial, &search, &mut super::Batch { threads: 1, ..batch }).expect("not stopped");
    assert_eq!(found, again);
}

#[test]
fn a_race_finds_the_best_without_simulating_what_cannot_win() {
    let (common, stop) = (common(Span::from_secs(10)), AtomicBool::new(false));
    let mut all: Vec<Configuration> = [&[2][..], &[8], &[2, 2], &[8, 8], &[2, 8], &[8, 8, 8]].map(configuration).into();
    all.push(configuration(&[2]).with(Spinup { at: Span::from_secs(540), size: Units(8) }));
    let racing = Racing::of(0.05);
    let heat = Heat { configurations: &all, rival: None };
    let races = batch(&common, 2, &stop).race(&[heat], racing).expect("not stopped");
    let race = &races[0];
    let whole = batch(&common, 2, &stop).simulate(&all, Split::Train).expect("not stopped");
    let means: Vec<Performance> = whole
        .iter()
        .map(|of| crate::configuration::Aggregate::Mean.of(of.iter().map(|outcome| outcome.performance)))
        .collect();
    assert_eq!((race.best, races.len()), (best(&means, 0.05), 1), "{means:?}");
    assert_eq!(race.spared, race.outcomes.iter().map(|of| 8 - of.len()).sum::<usize>());
    assert!(race.spared >= 8, "{}", race.spared);
    for (raced, whole) in race.outcomes.iter().zip(&whole) {
        assert_eq!(raced[..], whole[..raced.len()]);
    }
    assert_eq!(Some(&races), batch(&common, 1, &stop).race(&[heat], racing).as_ref());
    // Against one that is known to be the best, nobody wins; and heats know nothing of each other.
    let known = race.best.expect("one is best");
    let others: Vec<Configuration> = all.iter().take(known).cloned().collect();
    let against = Heat { configurations: &others, rival: Some(&whole[known]) };
    let both = batch(&common, 2, &stop).race(&[against, heat], racing).expect("not stopped");
    assert_eq!((both[0].best, &both[1]), (None, race));
    let left: Vec<usize> = both[0].outcomes.iter().map(Vec::len).collect();
    assert!(both[0].spared == left.iter().map(|of| 8 - of).sum::<usize>() && both[0].spared >= 4, "{left:?}");
}

#[test]
fn what_is_stopped_has_no_answer_and_progress_is_told() {
    let (common, stop) = (common(Span::from_secs(30)), AtomicBool::new(false));
    let told = AtomicUsize::new(0);
    let tell = |done: usize, of: usize| {
        assert!(done <= of && of == 8);
        if told.fetch_add(1, Ordering::Relaxed) == 2 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let mut stopped = Batch { common: &common, threads: 2, stop: &stop, tell: &tell };
    assert_eq!(stopped.simulate(&[configuration(&[2])], Split::Train), None);
    assert!((3..8).contains(&told.load(Ordering::Relaxed)));
    let fresh = AtomicBool::new(false);
    // A size that is none, and nothing at all.
    assert_eq!(batch(&common, 2, &fresh).simulate(&[configuration(&[7])], Split::Train), None);
    assert_eq!(batch(&common, 2, &fresh).simulate(&[], Split::Train), Some(Vec::new()));
    let nobody = Heat { configurations: &[], rival: None };
    let race = Race { outcomes: Vec::new(), best: None, spared: 0 };
    assert_eq!(batch(&common, 2, &fresh).race(&[nobody], Racing::of(0.1)), Some(vec![race]));
}

#[test]
fn what_is_beyond_doubt_is_told_from_chance() {
    assert!(is_positive([1.0, 1.1, 0.9, 1.0].into_iter()) && is_positive([1.0, 1.0].into_iter()));
    assert!(!is_positive([1.0, -0.9, 0.8, -0.7].into_iter()) && !is_positive([1.0].into_iter()));
    assert!(!is_positive([0.0, 0.0, 0.0].into_iter()) && !is_positive([f64::NAN, 1.0].into_iter()));
}
