//! What a plan says, and what a policy is told apart by.

use super::*;
use crate::billing::Price;
use crate::class::Class;
use crate::cluster::Spec;
use crate::route::Routing;
use crate::scale::{Selector, Trigger};

#[test]
fn knobs_are_read_off_a_policy_and_put_back() {
    let policy = Policy::default();
    let mut knobs = Knobs::of(&policy);
    assert_eq!(knobs.turned(&policy), policy);
    (knobs.idle, knobs.late_share, knobs.counting) = (Span::from_secs(7), 0.3, Counting::P90);
    assert_eq!(Knobs::of(&knobs.turned(&policy)), knobs);
}

fn offer() -> Spec {
    let price = Price { per_unit_hour: 0.36, minimum: Span::from_secs(60) };
    let name = "spare".to_owned();
    Spec { offer: Some(name.clone()), name, units: Units(4), slots: 8, price, killable: true, writer: false }
}

#[test]
fn policies_that_differ_in_what_matters_to_a_plan_have_other_grounds() {
    let mut policy = Policy::default();
    policy.scaling.offers = vec![offer()];
    let ground = policy.ground();
    assert_eq!(ground, policy.clone().ground());
    let changes: [fn(&mut Policy); 18] = [
        |policy| policy.routing = Routing::Slo,
        |policy| policy.violation_target = 0.051,
        |policy| policy.classes[1].slo = Some(Span::from_secs(2)),
        |policy| policy.classes.push(Class { name: "etl".to_owned(), ..Class::default() }),
        |policy| policy.max_running = Some(8),
        |policy| policy.max_waiting = 7,
        |policy| policy.wait_limit = Span::from_secs(1),
        |policy| policy.scaling.mode = Mode::On,
        |policy| policy.scaling.trigger = Trigger::None,
        |policy| policy.scaling.selector = Selector::None,
        |policy| policy.scaling.offers[0].units = Units(8),
        |policy| policy.scaling.offers[0].price.per_unit_hour = 0.37,
        |policy| policy.scaling.offers[0].slots = 9,
        |policy| policy.scaling.offers.push(offer()),
        |policy| policy.scaling.start_takes = Span::from_secs(299),
        |policy| policy.scaling.least = 0,
        |policy| policy.scaling.most = 9,
        |policy| policy.scaling.most_per_hour = Some(9.0),
    ];
    let mut grounds: Vec<u64> = changes
        .iter()
        .map(|change| {
            let mut other = policy.clone();
            change(&mut other);
            other.ground()
        })
        .collect();
    grounds.push(ground);
    grounds.sort_unstable();
    grounds.dedup();
    assert_eq!(grounds.len(), changes.len() + 1);
}

#[test]
fn neither_knobs_nor_what_is_for_trouble_and_show_change_the_ground() {
    let policy = Policy::default();
    let ground = policy.ground();
    let knobs = Knobs {
        lifetime: Span::from_secs(1),
        idle: Span::from_secs(2),
        observations: 3,
        window: Span::from_secs(4),
        completions: 5,
        late_share: 0.6,
        counting: Counting::P90,
    };
    assert_eq!(knobs.turned(&policy).ground(), ground);
    let shown = Policy { decisions_kept: 0, pin_idle: Span::ZERO, planning: Mode::On, ..Policy::default() };
    assert_eq!(shown.ground(), ground);
    // What does not route does not matter, nor in which way scaling does not act.
    let mut idle = Policy { routing: Routing::Slo, routing_mode: Mode::Shadow, ..Policy::default() };
    idle.scaling.mode = Mode::Shadow;
    assert_eq!(idle.ground(), ground);
}

#[test]
fn the_fleet_of_a_day_is_asked_for_a_start_earlier() {
    let spinups = vec![Spinup { at: Span::from_secs(50), size: Units(8) }];
    let (from, until) = (Time::from_micros(1_000_000_000), Time::from_micros(2_000_000_000));
    let knobs = Knobs::of(&Policy::default());
    let plan = Plan { id: PlanId(7), from, until, fleet: vec![Units(4)], spinups, knobs, made_for: 1 };
    let followed = plan.clone().followed(Time::ZERO, Span::from_secs(300));
    let at: Vec<u64> = followed.starts.iter().map(|start| start.at.micros() / 1_000_000).collect();
    assert_eq!((at, followed.starts[0].fleet, followed.starts[1].fleet), (vec![700, 1_050], true, false));
    // There is nothing before the beginning of time.
    assert_eq!(plan.followed(Time::ZERO, Span::from_secs(3_000)).starts[0].at, Time::ZERO);
    assert_eq!(PlanId(7).to_string(), "0000000000000007");
}
