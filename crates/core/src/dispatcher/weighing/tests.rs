//! Queries go where the fewest SLOs are missed, at the least cost. Cluster 0 has four units, cluster 1 eight.

use super::*;
use crate::dispatcher::Decision;
use crate::dispatcher::predicting::tests::{Bench, plain};
use crate::event::{Command, Event};
use crate::mode::Mode;
use crate::policy::Policy;
use crate::predict::model::tests::model;
use crate::route::Why;

fn bench(routing: Routing) -> Bench {
    Bench::with(Policy { routing, counting: Counting::Median, ..Policy::default() })
}

fn secs(secs: u64) -> Option<Span> {
    Some(Span::from_secs(secs))
}

fn last(bench: &Bench) -> &Decision {
    bench.dispatcher.decisions.back().unwrap()
}

fn weighed(bench: &Bench, cluster: u32) -> &Weighed {
    last(bench).candidates[cluster as usize].weighed.as_deref().unwrap()
}

#[test]
fn a_query_goes_where_its_slo_is_kept_and_else_where_it_is_cheapest() {
    // 40 seconds of work: ten on four units, five on eight.
    for (slo, cluster, why) in
        [(secs(7), 1, Why::FewestViolations), (secs(20), 0, Why::Cheapest), (None, 0, Why::Cheapest)]
    {
        let mut bench = bench(Routing::Slo);
        bench.adopts(plain(40.0));
        assert_eq!((bench.arrives_with(1, slo).0, last(&bench).why), (cluster, why));
        assert_eq!(weighed(&bench, 0).own, f64::from(u8::from(slo == secs(7))));
        // Waking a cluster costs its minimum of a minute.
        let minute = |units: f64| units * 0.375 / 60.0;
        assert!((weighed(&bench, 0).cost - minute(4.0)).abs() < 1e-12);
        assert!((weighed(&bench, 1).cost - minute(8.0)).abs() < 1e-12);
    }
}

#[test]
fn what_is_paid_for_already_costs_nothing() {
    let mut bench = bench(Routing::Slo);
    bench.adopts(plain(40.0));
    bench.arrives_with(1, secs(7));
    bench.finishes(1);
    // Cluster 1 has most of its minute left.
    assert_eq!((bench.arrives_with(2, secs(20)).0, last(&bench).why), (1, Why::Cheapest));
    assert_eq!(weighed(&bench, 1).cost, 0.0);
}

#[test]
fn those_that_run_are_not_harmed_if_that_can_be_helped() {
    let mut bench = bench(Routing::Slo);
    bench.adopts(plain(40.0));
    assert_eq!(bench.arrives_with(1, secs(7)).0, 1);
    assert_eq!((bench.arrives_with(2, secs(60)).0, last(&bench).why), (0, Why::FewestViolations));
    let there = weighed(&bench, 1);
    assert_eq!((there.violations, there.own, there.harmed.as_slice()), (1.0, 0.0, &[QueryId(1)][..]));
    // Blind to what runs, nobody is harmed, and the awake cluster is the cheaper.
    let mut blind = self::bench(Routing::SloStage);
    blind.adopts(plain(40.0));
    assert_eq!(blind.arrives_with(1, secs(7)).0, 1);
    assert_eq!((blind.arrives_with(2, secs(60)).0, last(&blind).why), (1, Why::Cheapest));
    assert_eq!(weighed(&blind, 1).violations, 0.0);
}

#[test]
fn who_is_late_already_is_harmed_no_more() {
    let mut bench = bench(Routing::Slo);
    bench.adopts(plain(40.0));
    assert_eq!(bench.arrives_with(1, secs(7)).0, 1);
    bench.now += 10;
    bench.arrives_with(2, secs(60));
    assert_eq!((weighed(&bench, 1).violations, weighed(&bench, 1).harmed.len()), (0.0, 0));
}

#[test]
fn the_clock_of_an_slo_runs_while_a_query_waits() {
    let mut bench = bench(Routing::Slo);
    bench.adopts(plain(40.0));
    // Four slots each: the ninth waits.
    for number in 1..9 {
        bench.arrives_with(number, None);
    }
    assert_eq!(bench.sends(9, secs(20)), [], "it waits");
    bench.now += 30;
    bench.finishes(1);
    bench.finishes(2);
    let decision = bench.dispatcher.decisions.iter().find(|decision| decision.query == QueryId(9)).unwrap();
    assert_eq!(decision.waited, Span::from_secs(31));
    let standings = &bench.dispatcher.predicting.as_ref().unwrap().standings;
    let standing = standings.values().flatten().find(|standing| standing.query == QueryId(9)).unwrap();
    assert_eq!(standing.due.map(|due| standing.placed.since(due)), secs(11));
}

#[test]
fn what_was_weighed_is_what_is_expected() {
    let mut bench = bench(Routing::Slo);
    bench.adopts(model(3, 1));
    for number in 1..60 {
        let slo = Span::from_millis(50 * (number % 7));
        let cluster = bench.arrives_with(number, Some(slo));
        let decision = last(&bench);
        if decision.why != Why::OnlyOne && decision.why != Why::LeastOutstanding {
            assert_eq!(decision.predicted, Some(weighed(&bench, cluster.0).predicted), "query {number}");
        }
        if number >= 6 {
            bench.finishes(number - 5);
        }
    }
}

#[test]
fn nothing_that_is_expected_is_ever_lowered() {
    let mut bench = bench(Routing::Slo);
    bench.adopts(model(3, 1));
    let outlooks = |bench: &Bench| {
        let standings = &bench.dispatcher.predicting.as_ref().unwrap().standings;
        let all = standings.values().flatten().map(|standing| (standing.query, standing.outlook));
        all.collect::<std::collections::BTreeMap<_, _>>()
    };
    for number in 1..9 {
        let before = outlooks(&bench);
        bench.arrives_with(number, secs(1));
        let after = outlooks(&bench);
        for (query, outlook) in before {
            let now = after[&query];
            assert!(now.ln_median() >= outlook.ln_median() && now.upper() >= outlook.upper() * (1.0 - 1e-12));
        }
    }
}

#[test]
fn short_queries_and_those_without_a_model_go_by_what_is_outstanding() {
    let mut bench = bench(Routing::Slo);
    bench.arrives_with(1, secs(1));
    assert_eq!(last(&bench).why, Why::LeastOutstanding);
    bench.adopts(plain(0.01));
    bench.arrives_with(2, secs(1));
    assert_eq!(last(&bench).why, Why::LeastOutstanding);
    assert!(last(&bench).candidates.iter().all(|candidate| candidate.weighed.is_none()));
}

#[test]
fn slos_of_zero_and_without_end_are_weighed() {
    let mut bench = bench(Routing::Slo);
    bench.adopts(plain(40.0));
    assert_eq!(bench.arrives_with(1, Some(Span::ZERO)).0, 0);
    assert_eq!((weighed(&bench, 0).own, weighed(&bench, 1).own), (1.0, 1.0));
    bench.arrives_with(2, Some(Span::from_micros(u64::MAX)));
    assert_eq!((weighed(&bench, 0).own, weighed(&bench, 1).own), (0.0, 0.0));
}

/// What an afternoon of queries is answered with: under `mode`, with `slo` to be tried and turns as what routes else.
fn afternoon(mode: Mode) -> (Vec<Command>, Bench) {
    let (routing, baseline) = (Routing::Slo, Routing::RoundRobin);
    let policy = Policy { routing, baseline, routing_mode: mode, counting: Counting::Median, ..Policy::default() };
    let mut bench = Bench::with(policy);
    bench.adopts(plain(40.0));
    let mut commands = Vec::new();
    for number in 1..=6 {
        commands.extend(bench.sends(number, secs(7)));
    }
    (commands, bench)
}

#[test]
fn a_policy_on_trial_is_recorded_and_changes_nothing() {
    let (off, bench) = afternoon(Mode::Off);
    assert!(bench.dispatcher.decisions.iter().all(|decision| decision.instead.is_none()));
    assert!(bench.dispatcher.decisions.iter().all(|decision| decision.candidates[0].weighed.is_none()));
    for mode in [Mode::Shadow, Mode::Suggest] {
        let (commands, mut bench) = afternoon(mode);
        assert_eq!(commands, off, "{mode}");
        // In turn, the first goes to four units, where it is late; it would have gone to eight.
        let first = &bench.dispatcher.decisions[0];
        let instead = first.instead.expect("on trial");
        assert_eq!((first.cluster, first.why, instead.cluster), (ClusterId(0), Why::Turn, ClusterId(1)));
        assert_eq!(instead.regret.map(|regret| regret.violations), Some(1.0));
        let verdicts = bench.dispatcher.view(Time::ZERO).routing.verdicts;
        assert_eq!(verdicts.decisions, 6);
        let elsewhere = |decision: &&Decision| decision.instead.is_some_and(|other| other.cluster != decision.cluster);
        assert_eq!(verdicts.elsewhere, bench.dispatcher.decisions.iter().filter(elsewhere).count() as u64);
        // Another trial begins at nothing; the same one goes on.
        let policy = bench.dispatcher.policy().clone();
        bench.does(Event::PolicyAdopted(Box::new(policy.clone())));
        assert_eq!(bench.dispatcher.view(Time::ZERO).routing.verdicts, verdicts);
        bench.does(Event::PolicyAdopted(Box::new(Policy { counting: Counting::P90, ..policy })));
        assert_eq!(bench.dispatcher.view(Time::ZERO).routing.verdicts.decisions, 0);
    }
    let (on, bench) = afternoon(Mode::On);
    assert_ne!(on, off);
    assert_eq!(bench.dispatcher.decisions[0].cluster, ClusterId(1));
    assert!(bench.dispatcher.decisions.iter().all(|decision| decision.instead.is_none()));
}

#[test]
fn a_fork_routes_by_what_routes() {
    let (_, bench) = afternoon(Mode::Shadow);
    let fork = bench.dispatcher.fork();
    assert_eq!((fork.policy.routes_by(), fork.policy.routing_mode), (Routing::RoundRobin, Mode::On));
}
