//! Small rehearsals, and what must come of them.

use punctual_core::billing::Price;
use punctual_core::class::DEFAULT;
use punctual_core::route::Routing;
use punctual_core::scale::{Scaling, Trigger};

use super::*;
use crate::workload::{Mix, Pattern, Size, generate};

fn spec(name: &str, units: u32) -> Spec {
    let price = Price::default();
    Spec { name: name.into(), units: Units(units), slots: 8, price, killable: true, offer: None, writer: false }
}

fn rehearsal(routing: Routing) -> Rehearsal {
    let policy = Policy { routing, decisions_kept: 0, ..Policy::default() };
    let fleet = vec![spec("a", 4), spec("b", 8)];
    Rehearsal { seed: 1, policy, fleet, model: None, make: Make::Sharing, clients: None, troubles: Troubles::default() }
}

/// Queries of three seconds on one unit, one in half a second or so.
fn arrivals(seconds: u64) -> Vec<Arrival> {
    let mix = Mix::of_one(DEFAULT, Some(Span::from_secs(4)), Size::Fixed(Span::from_secs(3)), 1);
    generate(3, &Pattern::Poisson { rate: 2.0 }, &mix, Span::from_secs(seconds)).collect()
}

#[test]
fn every_query_ends_and_times_count_from_the_moment_at_which_the_first_can_come() {
    let arrivals = arrivals(100);
    let rehearsed = rehearsal(Routing::RoundRobin).run(&arrivals, &mut |_| true).expect("it is not stopped");
    assert_eq!(rehearsed.ended.len(), arrivals.len());
    let mut came: Vec<Time> = rehearsed.ended.iter().map(|ended| ended.arrived).collect();
    came.sort_unstable();
    assert!(came.iter().eq(arrivals.iter().map(|arrival| &arrival.at)));
    assert!(rehearsed.ended.iter().all(|ended| ended.placed == Some(ended.arrived)), "all that is there is ready");
    assert_eq!(rehearsed.lives.len(), 2);
    let [clusters, units] = rehearsed.hours();
    let lasted = rehearsed.lasted.secs_f64() / 3_600.0;
    assert!((clusters / lasted - 2.0).abs() < 1e-9 && (units / lasted - 12.0).abs() < 1e-9);
    assert_eq!((rehearsed.actions(), rehearsed.foresight), ([0, 0], None));
}

#[test]
fn in_a_closed_loop_each_client_has_one_query_at_a_time() {
    let arrivals = arrivals(30);
    let alone = Rehearsal { clients: Some(1), ..rehearsal(Routing::RoundRobin) };
    let rehearsed = alone.run(&arrivals, &mut |_| true).expect("it is not stopped");
    let mut last = Time::ZERO;
    for ended in &rehearsed.ended {
        assert_eq!((ended.arrived, ended.latency()), (last, Span::from_secs(3)));
        last = ended.ended;
    }
    assert_eq!(rehearsed.ended.len(), arrivals.len());
    let three = Rehearsal { clients: Some(3), ..alone }.run(&arrivals, &mut |_| true).expect("it is not stopped");
    assert_eq!(three.ended.len(), arrivals.len());
    let third = rehearsed.lasted.secs_f64() / 3.0;
    assert!((three.lasted.secs_f64() - third).abs() <= 3.0);
    let more = Rehearsal { clients: Some(10_000), ..rehearsal(Routing::P2c) }.run(&arrivals, &mut |_| true);
    assert_eq!(more.expect("it is not stopped").ended.len(), arrivals.len());
}

#[test]
fn without_clusters_all_are_refused_and_without_queries_nothing_happens() {
    let empty = Rehearsal { fleet: Vec::new(), ..rehearsal(Routing::LeastOutstanding) };
    let arrivals = arrivals(5);
    for clients in [None, Some(2)] {
        let rehearsed = Rehearsal { clients, ..empty.clone() }.run(&arrivals, &mut |_| true).expect("not stopped");
        assert!(rehearsed.ended.iter().all(|ended| ended.status == Status::Refused));
        assert_eq!(rehearsed.ended.len(), arrivals.len());
    }
    let nothing = rehearsal(Routing::P2c).run(&[], &mut |_| true).expect("it is not stopped");
    assert!(nothing.ended.is_empty() && nothing.outcome.cost == 0.0);
}

#[test]
fn a_thousand_queries_at_one_instant_all_end() {
    let mut arrivals = arrivals(700);
    arrivals.truncate(1_000);
    arrivals.iter_mut().for_each(|arrival| arrival.at = Time::ZERO);
    let rehearsed = rehearsal(Routing::LeastOutstanding).run(&arrivals, &mut |_| true).expect("it is not stopped");
    assert_eq!(rehearsed.ended.len(), 1_000);
    assert!(rehearsed.outcome.total().tally.violated > 900);
}

#[test]
fn starts_of_scaling_are_seen_with_their_reason_and_take_their_time() {
    let mut scaled = rehearsal(Routing::LeastOutstanding);
    scaled.fleet.truncate(1);
    let offers = vec![Spec { offer: Some("c".into()), ..spec("c", 4) }];
    let (mode, trigger, start_takes) = (Mode::On, Trigger::QueueDepth, Span::from_secs(20));
    let selector = punctual_core::scale::Selector::Horizontal;
    scaled.policy.scaling =
        Scaling { mode, trigger, selector, offers, start_takes, queue_depth: 12, ..Scaling::default() };
    let rehearsed = scaled.run(&arrivals(200), &mut |_| true).expect("it is not stopped");
    assert!(rehearsed.actions()[0] > 0, "{:?}", rehearsed.scaled);
    let started = &rehearsed.lives[1];
    assert_eq!(started.ready.map(|ready| ready.since(started.asked)), Some(start_takes));
    let starts = rehearsed.scaled.iter().filter(|scaled| matches!(scaled.act, Act::Start(..))).count();
    assert_eq!(starts, rehearsed.lives.len() - 1, "each once: {:?}", rehearsed.scaled);
    // In the shadow it decides the same at first, and does nothing.
    let shadow = Scaling { mode: Mode::Shadow, ..scaled.policy.scaling.clone() };
    let policy = Policy { scaling: shadow, ..scaled.policy.clone() };
    let shadowed = Rehearsal { policy, ..scaled.clone() }.run(&arrivals(200), &mut |_| true).expect("not stopped");
    let first = |rehearsed: &Rehearsed| (rehearsed.scaled[0].at, rehearsed.scaled[0].because);
    assert_eq!((first(&shadowed), shadowed.lives.len(), shadowed.actions()), (first(&rehearsed), 1, [0, 0]));
    // A start that takes longer than everything helps nobody, and nothing waits for it.
    scaled.policy.scaling.start_takes = Span::from_secs(100_000);
    let never = scaled.run(&arrivals(200), &mut |_| true).expect("it is not stopped");
    assert!(never.lives.len() > 1 && never.lives[1..].iter().all(|life| life.ready.is_none()));
}

#[test]
fn it_stops_when_it_is_told_to() {
    assert!(rehearsal(Routing::P2c).run(&arrivals(300), &mut |_| false).is_none());
}

#[test]
fn what_is_planned_is_asked_for_at_its_time_and_there_a_start_later() {
    let mut rehearsal = rehearsal(Routing::LeastOutstanding);
    let late = Spec { name: "late".into(), offer: Some("late".into()), units: Units(16), ..rehearsal.fleet[0].clone() };
    rehearsal.policy.scaling =
        Scaling { offers: vec![late], start_takes: Span::from_secs(20), most: 3, ..Scaling::default() };
    let arrivals = arrivals(100);
    let planned = |at, size| Spinup { at: Span::from_secs(at), size: Units(size) };
    let spinups = [planned(0, 16), planned(40, 16)];
    let rehearsed = rehearsal.run_with(&spinups, &arrivals, &mut |_| true).expect("it is not stopped");
    // Two are there from the start and three may be: the second of the plan finds no room, as it would find none live.
    let life = rehearsed.lives.last().expect("a cluster");
    let takes = rehearsal.policy.scaling.start_takes;
    assert_eq!((life.name.as_str(), life.asked, life.ready), ("late-2", Time::ZERO, Some(Time::ZERO + takes)));
    assert_eq!(rehearsed.lives.len(), 3);
    let said: Vec<Because> = rehearsed.scaled.iter().map(|scaled| scaled.because).collect();
    assert_eq!(said, [Because::Planned(PlanId(1)), Because::MostClusters(3)]);
    assert_eq!(rehearsed.scaled[1].at, Time::ZERO + Span::from_secs(40));
    assert_eq!(rehearsed.ended.len(), arrivals.len());
    // What nothing offers is not started, and the rest of that plan is not either.
    let other = rehearsal.run_with(&[planned(1, 16), planned(2, 5)], &arrivals, &mut |_| true).expect("not stopped");
    assert_eq!(other.lives.len(), 2);
}
