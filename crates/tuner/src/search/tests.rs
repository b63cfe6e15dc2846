//! Tests of the search for knobs.

use punctual_core::policy::Policy;

use super::*;
use crate::batch::Race;

/// A world in which each knob's second value takes away a part of what is late, and idle clusters cost.
#[derive(Default)]
struct Knobby {
    simulated: Vec<Knobs>,
    judged: usize,
}

fn outcome(knobs: &Knobs, split: Split) -> Outcome {
    let late = [
        (knobs.lifetime == Span::from_secs(3_600), 0.1),
        (knobs.observations == 16, 0.2),
        (knobs.completions == 16, 0.05),
        (knobs.late_share == 0.0, 0.15),
    ];
    let saved: f64 = late.iter().filter(|(is, _)| *is).map(|(_, by)| by).sum();
    let off = if split == Split::Train { 0.0 } else { 0.01 };
    let violation_rate = 0.6 - saved + off;
    let cost = knobs.idle.secs_f64() / 600.0 + if knobs.window == Span::from_secs(600) { 1.0 } else { 0.0 };
    Outcome { performance: Performance { violation_rate, cost }, log: Vec::new() }
}

impl Simulate for Knobby {
    fn simulate(&mut self, configurations: &[Configuration], split: Split) -> Option<Vec<Vec<Outcome>>> {
        self.judged += configurations.len();
        Some(configurations.iter().map(|one| vec![outcome(&one.knobs, split); 3]).collect())
    }

    fn race(&mut self, heats: &[Heat<'_>], _: Racing) -> Option<Vec<Race>> {
        let [heat] = heats else { panic!("one heat at a time") };
        self.simulated.extend(heat.configurations.iter().map(|one| one.knobs));
        // What is far behind its rival is given up.
        let rate = |outcomes: &[Outcome]| outcomes[0].performance.violation_rate;
        let outcomes = heat.configurations.iter().map(|one| {
            let all = vec![outcome(&one.knobs, Split::Train); 3];
            let is_behind = heat.rival.is_some_and(|rival| rate(&all) > rate(rival) + 0.31);
            if is_behind { all[..2].to_vec() } else { all }
        });
        Some(vec![Race { outcomes: outcomes.collect(), best: None, spared: 0 }])
    }
}

fn base() -> Configuration {
    Configuration { fleet: Vec::new(), spinups: Vec::new(), knobs: Knobs::of(&Policy::default()) }
}

fn tuning(strategy: Strategy) -> Tuning {
    Tuning { strategy, space: Space { counting: Vec::new(), ..Space::paper() }, ..Tuning::of(0.1) }
}

fn found(strategy: Strategy) -> (Tuned, Knobby) {
    let mut world = Knobby::default();
    let tuned = tune(&base(), &tuning(strategy), &mut world).expect("not stopped");
    for (at, one) in world.simulated.iter().enumerate() {
        assert!(!world.simulated[..at].contains(one), "{strategy:?} simulates {one:?} twice");
    }
    assert_eq!(tuned.simulated, world.simulated.len());
    (tuned, world)
}

#[test]
fn the_whole_grid_has_the_best_and_judges_ten_of_it() {
    let (tuned, world) = found(Strategy::Grid);
    // 2⁶ combinations, and the knobs as they were: late_share 0.05 is none of the values.
    assert_eq!((tuned.simulated, world.judged), (65, 11));
    let best = &tuned.judged[0];
    let Knobs { lifetime, idle, observations, window, completions, late_share, .. } = best.configuration.knobs;
    assert_eq!((lifetime.secs_f64(), idle.secs_f64(), observations), (3_600.0, 600.0, 16));
    assert_eq!((window.secs_f64(), completions, late_share), (300.0, 16, 0.0));
    assert!((best.train.violation_rate - 0.1).abs() < 1e-9 && (best.validation.violation_rate - 0.11).abs() < 1e-9);
    assert!(tuned.judged.iter().any(|one| one.configuration == base()), "as it was is judged, too");
    assert_eq!(tuned.given_up, 0, "none is far worse than what there was");
    assert!(tuned.judged.is_sorted_by(|a, b| a.validation.violation_rate <= b.validation.violation_rate + 1e-9));
}

#[test]
fn what_is_far_behind_is_given_up_and_not_judged() {
    let (whole, _) = found(Strategy::Grid);
    let best = whole.judged[0].configuration.clone();
    let mut world = Knobby::default();
    let tuned = tune(&best, &tuning(Strategy::Grid), &mut world).expect("not stopped");
    // Of the sixteen sums of what four knobs save, five are more than 0.31 below the best, each with four costs.
    assert_eq!((tuned.simulated, tuned.given_up, world.judged), (64, 20, 10));
    assert_eq!(tuned.judged[0].configuration, best);
}

#[test]
fn descending_and_widening_find_the_same_with_fewer() {
    let whole = found(Strategy::Grid).0;
    for strategy in [Strategy::CoordinateDescent(2), Strategy::AdaptiveBatch(8, 48)] {
        let (tuned, _) = found(strategy);
        assert_eq!(tuned.judged[0], whole.judged[0], "{strategy:?}");
        assert!(tuned.simulated < 50, "{strategy:?}: {}", tuned.simulated);
    }
    // Here knobs do not depend on each other: one round is enough, and a second one finds nothing.
    assert!(found(Strategy::CoordinateDescent(9)).0.simulated <= 1 + 6 * 2);
}

#[test]
fn a_sample_is_as_large_as_asked_for_and_the_same_for_the_same_seed() {
    let (tuned, world) = found(Strategy::Random(20));
    assert_eq!(tuned.simulated, 21);
    assert_eq!(world.simulated, found(Strategy::Random(20)).1.simulated);
    assert_eq!(found(Strategy::Random(1_000)).0.simulated, 65);
    let mut numbers = distinct(&mut Rng::numbered(1, SAMPLE), 100, 99);
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.len() == 99 && numbers.iter().all(|number| *number < 100));
}

#[test]
fn a_space_without_values_leaves_everything_as_it_is() {
    for name in Strategy::NAMES {
        let strategy = Strategy::named(name).expect("it is one of them");
        let mut world = Knobby::default();
        let nothing = Tuning { space: Space::default(), ..tuning(strategy) };
        let tuned = tune(&base(), &nothing, &mut world).expect("not stopped");
        assert_eq!((tuned.judged.len(), &tuned.judged[0].configuration), (1, &base()), "{name}");
        assert_eq!((tuned.simulated, strategy.name()), (1, name));
    }
    assert_eq!((Space::default().combinations(), Space::paper().combinations()), (1, 128));
}
