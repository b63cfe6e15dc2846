//! Plans come, wait, are in force and end. Clusters 0 and 1 are there for good; a day is 1,000 s long, a start takes 50 s.

use super::*;
use crate::billing::Price;
use crate::dispatcher::predicting::tests::{Bench, plain};
use crate::event::Event;
use crate::id::{ClusterId, Generation};
use crate::plan::Spinup;
use crate::route::{Counting, Routing};
use crate::scale::{Scaled, Scaling};
use crate::time::Span;

const DAY: u64 = 10_000;

fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

fn at(secs: u64) -> Time {
    Time::from_micros(secs * 1_000_000)
}

fn offer(units: u32) -> Spec {
    let price = Price { per_unit_hour: 1.0, minimum: secs(60) };
    let name = format!("spare{units}");
    Spec { offer: Some(name.clone()), name, units: Units(units), slots: 4, price, killable: true, writer: false }
}

fn policy() -> Policy {
    let scaling = Scaling {
        mode: Mode::On,
        offers: vec![offer(4), offer(8), offer(16)],
        observations: 3,
        idle: secs(100),
        lifetime: secs(200),
        start_takes: secs(50),
        ..Scaling::default()
    };
    Policy { scaling, routing: Routing::Slo, planning: Mode::On, ..Policy::default() }
}

/// Other knobs than those of the policy.
fn knobs() -> Knobs {
    Knobs { idle: secs(77), late_share: 0.5, counting: Counting::P90, ..Knobs::of(&policy()) }
}

fn plan(id: u64, day: u64, fleet: &[u32], spinups: &[(u64, u32)]) -> Plan {
    let spinup = |&(at, size): &(u64, u32)| Spinup { at: secs(at), size: Units(size) };
    Plan {
        id: PlanId(id),
        from: at(day),
        until: at(day + 1_000),
        fleet: fleet.iter().copied().map(Units).collect(),
        spinups: spinups.iter().map(spinup).collect(),
        knobs: knobs(),
        made_for: policy().ground(),
    }
}

/// A dispatcher that plans, its clock at `now`.
fn bench(policy: Policy, now: u64) -> Bench {
    let mut bench = Bench::with(policy);
    bench.now = now - 1;
    bench
}

fn adopts(bench: &mut Bench, plan: Plan) -> Vec<Command> {
    bench.does(Event::PlanAdopted(Box::new(plan)))
}

/// Wakes when the dispatcher wants to be woken, up to then: what it starts, and when.
fn until(bench: &mut Bench, end: u64) -> Vec<(u64, u32)> {
    let mut starts = Vec::new();
    while let Some(wake) = bench.dispatcher.next_wakeup().filter(|wake| *wake <= at(end)) {
        bench.now = (wake.micros() / 1_000_000).max(bench.now + 1) - 1;
        let commands = bench.does(Event::Woke);
        starts.extend(sizes(&commands).into_iter().map(|size| (bench.now, size)));
        for command in commands {
            if let Command::Stop { cluster, generation, .. } = command {
                bench.does(Event::ClusterStopped { cluster, generation });
            }
        }
    }
    bench.now = bench.now.max(end - 1);
    starts
}

fn sizes(commands: &[Command]) -> Vec<u32> {
    let size = |command: &Command| if let Command::Start { spec, .. } = command { Some(spec.units.0) } else { None };
    commands.iter().filter_map(size).collect()
}

fn starts(bench: &Bench) -> Vec<(u64, u32, &'static str)> {
    let plans = bench.dispatcher.planning.plans();
    let all = plans.iter().flat_map(|followed| &followed.starts);
    all.map(|start| (start.at.micros() / 1_000_000, start.size.0, start.fate.name())).collect()
}

fn concluded(bench: &Bench) -> Option<(u64, Conclusion)> {
    bench.dispatcher.planning.last().map(|last| (last.plan.0, last.because))
}

fn refused(bench: &Bench) -> Option<PlanRefusal> {
    match concluded(bench) {
        Some((_, Conclusion::Refused(because))) => Some(because),
        _ => None,
    }
}

fn log(bench: &Bench) -> Vec<(Act, Because)> {
    bench.dispatcher.scaler.log.iter().map(|Scaled { act, because, .. }| (*act, *because)).collect()
}

fn ready(bench: &mut Bench, cluster: u32) {
    bench.does(Event::ClusterReady { cluster: ClusterId(cluster), generation: Generation(0) });
}

fn in_force(bench: &Bench) -> bool {
    let now = Knobs::of(bench.dispatcher.policy());
    assert!(now == knobs() || now == Knobs::of(&policy()));
    now == knobs()
}

#[test]
fn a_plan_starts_its_fleet_before_the_day_and_the_others_at_their_times_and_its_knobs_hold_for_the_day() {
    let mut bench = bench(policy(), 9_000);
    assert_eq!(adopts(&mut bench, plan(7, DAY, &[4, 8], &[(100, 16), (100, 4), (600, 8)])), []);
    assert_eq!((refused(&bench), in_force(&bench)), (None, false));
    assert_eq!(until(&mut bench, 9_949), []);
    assert_eq!(until(&mut bench, 9_999), [(9_950, 4), (9_950, 8)]);
    ready(&mut bench, 2);
    assert!(!in_force(&bench));
    until(&mut bench, 10_001);
    assert!(in_force(&bench));
    assert_eq!(until(&mut bench, 10_999), [(10_100, 16), (10_100, 4), (10_600, 8)]);
    assert!(in_force(&bench));
    let states: Vec<&str> = starts(&bench).iter().map(|start| start.2).collect();
    assert_eq!(states, ["started"; 5]);
    assert_eq!(log(&bench)[0], (Act::Start(Units(4), Some(ClusterId(2))), Because::Planned(PlanId(7))));
    // What was ready and idle has been stopped, as anything would have been.
    assert!(log(&bench).iter().any(|(act, _)| *act == Act::Stop(ClusterId(2))));
    assert_eq!(until(&mut bench, 11_001), []);
    assert_eq!((in_force(&bench), concluded(&bench)), (false, Some((7, Conclusion::Done))));
}

#[test]
fn of_the_fleet_only_what_is_not_there_is_started() {
    let mut bench = bench(policy(), 9_900);
    // One of four units is there already, and may be stopped; those of the configuration do not count.
    bench.does(Event::ClusterWanted(offer(4)));
    assert_eq!(adopts(&mut bench, plan(7, DAY, &[4, 4, 8], &[])), []);
    assert_eq!(until(&mut bench, 9_960), [(9_950, 4), (9_950, 8)]);
    assert_eq!(starts(&bench), [(9_950, 4, "skipped"), (9_950, 4, "started"), (9_950, 8, "started")]);
}

#[test]
fn a_plan_that_comes_late_starts_what_is_not_over() {
    let mut bench = bench(policy(), 10_300);
    let commands = adopts(&mut bench, plan(7, DAY, &[4], &[(100, 16), (300, 8), (400, 8)]));
    assert_eq!((sizes(&commands), in_force(&bench)), (vec![4, 8], true));
    assert_eq!(starts(&bench)[1..], [(10_100, 16, "skipped"), (10_300, 8, "started"), (10_400, 8, "waiting")]);
    assert_eq!(log(&bench)[0], (Act::Nothing, Because::PlannedBefore(PlanId(7))));
    // An hour after its beginning a day does without what it should have begun with.
    for (now, expected) in [(13_599, vec![4]), (13_600, vec![])] {
        let mut bench = self::bench(policy(), now);
        let plan = Plan { until: at(20_000), ..plan(7, DAY, &[4], &[]) };
        assert_eq!(sizes(&adopts(&mut bench, plan)), expected);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    let good = || plan(7, DAY, &[4], &[(100, 8)]);
    let mut bench = bench(policy(), 9_000);
    let mut says = |plan: Plan| {
        assert_eq!(adopts(&mut bench, plan), []);
        assert!(bench.dispatcher.planning.plans().is_empty());
        refused(&bench).expect("a refusal")
    };
    let over = Plan { from: at(7_000), until: at(8_000), ..good() };
    assert_eq!(says(over), PlanRefusal::Over);
    assert_eq!(says(Plan { until: at(DAY), ..good() }), PlanRefusal::NoDay);
    let ground = policy().ground();
    assert_eq!(says(Plan { made_for: 1, ..good() }), PlanRefusal::OtherGround { made_for: 1, ground });
    assert_eq!(says(plan(7, DAY, &[5], &[])), PlanRefusal::NoSuchSize(Units(5)));
    assert_eq!(says(plan(7, DAY, &[], &[(1, 4), (2, 3)])), PlanRefusal::NoSuchSize(Units(3)));
    assert_eq!(says(plan(7, DAY, &[], &[(2, 4), (1, 4)])), PlanRefusal::OutOfOrder(secs(1)));
    assert_eq!(says(plan(7, DAY, &[], &[(1_000, 4)])), PlanRefusal::OutsideTheDay(secs(1_000)));
    assert_eq!(says(plan(7, DAY, &[4], &[(1, 4); MOST_STARTS])), PlanRefusal::TooManyStarts(256));
    let nonsense = Knobs { late_share: 1.5, ..knobs() };
    assert_eq!(says(Plan { knobs: nonsense, ..good() }), PlanRefusal::NoShare(1.5));
    adopts(&mut bench, good());
    assert_eq!((concluded(&bench), bench.dispatcher.planning.plans().len()), (None, 1));
    adopts(&mut bench, good());
    assert_eq!(refused(&bench), Some(PlanRefusal::Already));
    for day in 1..4 {
        adopts(&mut bench, plan(7 + day, DAY + day * 1_000, &[], &[]));
    }
    adopts(&mut bench, plan(11, DAY + 4_000, &[], &[]));
    assert_eq!(refused(&bench), Some(PlanRefusal::TooManyPlans(4)));
    bench.does(Event::ShutdownWanted { within: secs(1) });
    adopts(&mut bench, plan(12, DAY, &[], &[]));
    assert_eq!(refused(&bench), Some(PlanRefusal::ShuttingDown));
    let mut off = self::bench(Policy { planning: Mode::Off, ..policy() }, 9_000);
    adopts(&mut off, good());
    assert_eq!((refused(&off), off.dispatcher.planning.plans().len()), (Some(PlanRefusal::Off), 0));
}

#[test]
fn plans_that_are_watched_are_noted_and_nothing_happens() {
    for mode in [Mode::Shadow, Mode::Suggest] {
        let mut bench = bench(Policy { planning: mode, ..policy() }, 9_990);
        assert_eq!(adopts(&mut bench, plan(7, DAY, &[4], &[(100, 16)])), []);
        assert_eq!((until(&mut bench, 10_500), in_force(&bench)), (vec![], false));
        let because = Because::Planned(PlanId(7));
        assert_eq!(log(&bench), [(Act::Start(Units(4), None), because), (Act::Start(Units(16), None), because)]);
        assert!(bench.dispatcher.scaler.log.iter().all(|scaled| scaled.mode == mode));
        assert_eq!(starts(&bench), [(9_950, 4, "watched"), (10_100, 16, "watched")]);
        // Watched until then, it acts from now on.
        bench.does(Event::PolicyAdopted(Box::new(policy())));
        assert!(in_force(&bench));
    }
}

#[test]
fn planned_starts_keep_to_the_budgets() {
    let mut tight = policy();
    tight.scaling.most = 4;
    tight.scaling.most_per_hour = Some(24.5);
    let ground = tight.ground();
    let mut bench = bench(tight, 9_990);
    // Those that are there for good cost 4.50 $ an hour.
    let plan = Plan { made_for: ground, ..plan(7, DAY, &[16], &[(1, 8), (2, 4), (3, 4)]) };
    assert_eq!(sizes(&adopts(&mut bench, plan)), [16]);
    assert_eq!(until(&mut bench, 10_010), [(10_002, 4)]);
    let fates: Vec<Fate> = bench.dispatcher.planning.plans()[0].starts.iter().map(|start| start.fate).collect();
    let dear = Because::MostPerHour { would: 28.5, most: 24.5 };
    let started = |id| Fate::Started(ClusterId(id));
    assert_eq!(fates, [started(2), Fate::Refused(dear), started(3), Fate::Refused(Because::MostClusters(4))]);
    assert_eq!(log(&bench)[1], (Act::Nothing, dear));
}

#[test]
fn what_triggers_start_leaves_room_for_what_is_planned_soon() {
    let mut tight = policy();
    (tight.scaling.most, tight.scaling.selector) = (4, crate::scale::Selector::Horizontal);
    let ground = tight.ground();
    let plan = Plan { made_for: ground, ..plan(7, DAY, &[], &[(400, 8), (500, 8)]) };
    // Both planned ones come within the 250 s for which one that is started now would live and start.
    let mut late = bench(tight.clone(), 10_251);
    adopts(&mut late, plan.clone());
    assert_eq!(sizes(&late.does(Event::ScalingWanted)), []);
    assert_eq!(log(&late), [(Act::Nothing, Because::ReservedClusters { planned: 2, most: 4 })]);
    // Earlier, only one does.
    let mut early = bench(tight.clone(), 10_240);
    adopts(&mut early, plan.clone());
    assert_eq!(sizes(&early.does(Event::ScalingWanted)), [8]);
    let watched_plan = plan.clone();
    // Money, too; and those of the fleet that are there need none.
    let mut dear = tight.clone();
    (dear.scaling.most, dear.scaling.most_per_hour) = (10, Some(23.0));
    let ground = dear.ground();
    let plan = Plan { made_for: ground, fleet: vec![Units(8)], ..plan };
    let mut rich = bench(dear, 9_900);
    rich.does(Event::ClusterWanted(offer(8)));
    adopts(&mut rich, Plan { spinups: vec![Spinup { at: secs(100), size: Units(8) }], ..plan });
    assert_eq!(sizes(&rich.does(Event::ScalingWanted)), []);
    assert_eq!(log(&rich), [(Act::Nothing, Because::ReservedPerHour { would: 28.5, planned: 8.0, most: 23.0 })]);
    // A plan that is only watched reserves nothing.
    let mut watched = bench(Policy { planning: Mode::Shadow, ..tight }, 10_251);
    adopts(&mut watched, watched_plan);
    assert_eq!(sizes(&watched.does(Event::ScalingWanted)), [8]);
}

#[test]
fn a_query_that_waits_with_no_cluster_there_comes_before_what_is_planned() {
    let mut tight = policy();
    tight.scaling.most = 1;
    let ground = tight.ground();
    let mut bench = bench(policy(), 9_900);
    bench.dispatcher = Dispatcher::new(1, tight);
    adopts(&mut bench, Plan { made_for: ground, ..plan(7, DAY, &[8], &[]) });
    assert_eq!(sizes(&bench.sends(1, None)), [4]);
    until(&mut bench, 9_960);
    let fates: Vec<Fate> = bench.dispatcher.planning.plans()[0].starts.iter().map(|start| start.fate).collect();
    assert_eq!(fates, [Fate::Refused(Because::MostClusters(1))]);
}

#[test]
fn another_policy_keeps_a_plan_that_was_made_for_it_and_drops_it_otherwise() {
    let mut bench = bench(policy(), 9_990);
    adopts(&mut bench, plan(7, DAY, &[], &[(100, 16)]));
    until(&mut bench, 10_010);
    assert!(in_force(&bench));
    // Other knobs: those come back later.
    let mut other = policy();
    (other.scaling.window, other.decisions_kept) = (secs(9), 7);
    bench.does(Event::PolicyAdopted(Box::new(other.clone())));
    assert!(in_force(&bench) && bench.dispatcher.policy.decisions_kept == 7);
    assert_eq!(until(&mut bench, 11_002), [(10_100, 16)]);
    assert_eq!(*bench.dispatcher.policy(), other);
    // Another ground.
    adopts(&mut bench, plan(8, 11_000, &[], &[(500, 16)]));
    assert_eq!(*bench.dispatcher.policy(), knobs().turned(&other));
    other.violation_target = 0.2;
    bench.does(Event::PolicyAdopted(Box::new(other.clone())));
    assert_eq!(*bench.dispatcher.policy(), other);
    assert_eq!((concluded(&bench), until(&mut bench, 12_100)), (Some((8, Conclusion::GroundChanged)), vec![]));
    // Switched off.
    other.violation_target = policy().violation_target;
    bench.does(Event::PolicyAdopted(Box::new(other.clone())));
    adopts(&mut bench, plan(9, 12_000, &[], &[]));
    assert_eq!(*bench.dispatcher.policy(), knobs().turned(&other));
    let off = Policy { planning: Mode::Off, ..other };
    bench.does(Event::PolicyAdopted(Box::new(off.clone())));
    assert_eq!((bench.dispatcher.policy(), concluded(&bench)), (&off, Some((9, Conclusion::SwitchedOff))));
}

#[test]
fn a_plan_can_be_taken_back_or_replaced() {
    let mut bench = bench(policy(), 9_990);
    adopts(&mut bench, plan(7, DAY, &[], &[(100, 16)]));
    adopts(&mut bench, plan(8, DAY + 1_000, &[], &[(100, 16)]));
    // Tomorrow's stays when today's is made anew.
    adopts(&mut bench, plan(9, DAY, &[], &[(200, 8)]));
    assert_eq!(concluded(&bench), Some((7, Conclusion::ReplacedBy(PlanId(9)))));
    assert_eq!(until(&mut bench, 10_500), [(10_200, 8)]);
    bench.does(Event::PlanDropped);
    assert_eq!((in_force(&bench), concluded(&bench)), (false, Some((9, Conclusion::Dropped))));
    assert_eq!(bench.dispatcher.planning.wake, None);
    assert_eq!(until(&mut bench, 12_000), []);
    let senseless = bench.dispatcher.senseless;
    bench.does(Event::PlanDropped);
    assert_eq!(bench.dispatcher.senseless, senseless + 1);
}

#[test]
fn one_day_follows_another() {
    let mut bench = bench(policy(), 9_990);
    let other = Knobs { idle: secs(78), ..knobs() };
    adopts(&mut bench, Plan { knobs: other, ..plan(8, DAY + 1_000, &[8], &[]) });
    adopts(&mut bench, plan(7, DAY, &[4], &[]));
    assert_eq!(until(&mut bench, 10_960), [(10_950, 8)]);
    assert!(in_force(&bench));
    until(&mut bench, 11_001);
    assert_eq!(Knobs::of(bench.dispatcher.policy()), other);
    until(&mut bench, 12_001);
    assert!(!in_force(&bench) && bench.dispatcher.planning.plans().is_empty());
}

#[test]
fn a_fork_follows_no_plan() {
    let mut bench = bench(policy(), 9_990);
    bench.adopts(plain(40.0));
    adopts(&mut bench, plan(7, DAY, &[4], &[(100, 16)]));
    until(&mut bench, 10_010);
    let mut fork = bench.dispatcher.fork();
    let mut commands = Vec::new();
    fork.handle(at(20_000), Event::Woke, &mut commands);
    assert_eq!((sizes(&commands), crate::check::check(&fork)), (vec![], vec![]));
    // It goes by the knobs that hold when it is made, for good.
    assert_eq!(Knobs::of(fork.policy()), knobs());
    assert!(in_force(&bench));
}

#[test]
fn a_shutdown_starts_nothing_that_was_planned() {
    let mut bench = bench(policy(), 9_990);
    adopts(&mut bench, plan(7, DAY, &[], &[(100, 16)]));
    bench.does(Event::ShutdownWanted { within: secs(1_000_000) });
    assert_eq!((until(&mut bench, 20_000), bench.dispatcher.planning.wake), (vec![], None));
}

#[test]
fn the_reasons_read_well() {
    let says = [
        PlanRefusal::OtherGround { made_for: 1, ground: 2 }.to_string(),
        PlanRefusal::NoSuchSize(Units(3)).to_string(),
        Because::ReservedClusters { planned: 1, most: 4 }.to_string(),
        Because::ReservedPerHour { would: 24.0, planned: 8.0, most: 23.0 }.to_string(),
        Fate::Refused(Because::MostClusters(1)).to_string(),
    ];
    assert_eq!(
        says,
        [
            "it was made for another policy or other clusters (0000000000000001, not 0000000000000002)",
            "no elastic cluster has its size 3",
            "a cluster is planned to start soon, and 4 may be there",
            "the clusters would cost $24.00 an hour, $8.00 of it planned to start soon, and $23.00 may be spent",
            "one cluster is there, as many as may be",
        ]
    );
}
