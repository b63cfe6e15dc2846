//! Limits, turns and caps in a few plain situations. Random ones by the thousand are in the simulator's tests.

use super::*;
use crate::admit::lanes::{Lane, Lanes, Limit, OPEN};
use crate::admit::terms::{Cap, Then};
use crate::billing::Price;
use crate::class::{Class, DEFAULT};
use crate::cluster::Spec;
use crate::dispatcher::tests::{Bench, ends_as, query, runs};
use crate::event::{Command, Event, Full, Outcome, Refusal};
use crate::id::{Generation, SessionId, Units};
use crate::policy::Policy;
use crate::query::SqlState;

const HEAVY: ClassId = ClassId(2);
const SLOW: ClassId = ClassId(3);

/// Classes `heavy` and `slow`, on these terms.
fn policy(heavy: Terms, slow: Terms) -> Policy {
    let mut classes = Class::built_in();
    classes.push(Class { name: "heavy".into(), terms: heavy, ..Class::default() });
    classes.push(Class { name: "slow".into(), terms: slow, ..Class::default() });
    Policy { classes, ..Policy::default() }
}

fn capped(seconds: u64, then: Then) -> Terms {
    Terms { cap: Some(Cap { runtime: Span::from_secs(seconds), then }), ..Terms::default() }
}

fn of(class: ClassId, number: u64) -> Query {
    Query { class, ..query(number, number) }
}

fn comes(bench: &mut Bench, query: Query) -> Vec<Command> {
    bench.does(Event::Arrived(query))
}

fn adopts(bench: &mut Bench, policy: Policy) -> Vec<Command> {
    bench.does(Event::PolicyAdopted(Box::new(policy)))
}

fn one_more_cluster(bench: &mut Bench, id: u32) {
    let price = Price::default();
    let spec =
        Spec { name: format!("b{id}"), units: Units(1), slots: 1, price, killable: true, offer: None, writer: false };
    bench.does(Event::ClusterWanted(spec));
    bench.does(Event::ClusterReady { cluster: ClusterId(id), generation: Generation(0) });
}

fn recalls(number: u64, cluster: u32) -> Command {
    Command::Recall { query: QueryId(number), cluster: ClusterId(cluster) }
}

fn cancels(number: u64, cluster: u32) -> Command {
    Command::Cancel { query: QueryId(number), cluster: ClusterId(cluster), ran_for: None }
}

/// It is told to stop since it has run for so many seconds, as long as it may.
fn cuts_short(number: u64, cluster: u32, seconds: u64) -> Command {
    let ran_for = Some(Span::from_secs(seconds));
    Command::Cancel { query: QueryId(number), cluster: ClusterId(cluster), ran_for }
}

#[test]
fn of_a_class_of_which_none_may_run_none_runs() {
    let none = Terms { max_running: Some(0), queue_timeout: Some(Span::from_secs(4)), ..Terms::default() };
    let mut bench = Bench::with_slots(2, policy(none, Terms::default()));
    assert_eq!(comes(&mut bench, of(HEAVY, 1)), []);
    assert_eq!(comes(&mut bench, of(SLOW, 2)), [runs(2, 0)]);
    let woke = bench.after(Span::from_secs(4)).does(Event::Woke);
    let because = Refusal::WaitedTooLong { limit: Span::from_secs(4), lacked: WaitsFor::Class, lane: OPEN };
    assert_eq!(woke[0], Command::Refuse { query: QueryId(1), because });
}

#[test]
fn what_waits_may_wait_as_long_as_it_was_told_whatever_is_adopted() {
    let within = |seconds| Policy { wait_limit: Span::from_secs(seconds), ..Policy::default() };
    let mut bench = Bench::with_slots(1, within(10));
    bench.arrives(1);
    bench.arrives(2);
    assert_eq!(adopts(&mut bench, within(1)), []);
    assert_eq!(bench.after(Span::from_secs(9)).does(Event::Woke), []);
    adopts(&mut bench, within(60));
    let woke = bench.after(Span::from_secs(1)).does(Event::Woke);
    let because = Refusal::WaitedTooLong { limit: Span::from_secs(10), lacked: WaitsFor::Cluster, lane: OPEN };
    assert_eq!(woke[0], Command::Refuse { query: QueryId(2), because });
}

#[test]
fn each_query_of_a_transaction_may_run_for_as_long_as_its_class_allows() {
    let mut bench = Bench::with_slots(1, policy(capped(10, Then::Cancel), Terms::default()));
    comes(&mut bench, of(HEAVY, 1));
    bench.finishes(1, true);
    bench.after(Span::from_secs(60));
    comes(&mut bench, Query { id: QueryId(2), ..of(HEAVY, 1) });
    assert_eq!(bench.after(Span::from_secs(9)).does(Event::Woke), []);
    assert_eq!(bench.after(Span::from_secs(1)).does(Event::Woke), [cuts_short(2, 0, 10)]);
}

#[test]
fn a_query_that_its_class_cuts_short_is_late_and_one_that_its_client_takes_back_is_not() {
    let mut bench = Bench::with_slots(2, policy(capped(10, Then::Cancel), Terms::default()));
    let slo = Some(Span::from_secs(60));
    let failed = |number| {
        let outcome = Outcome::Failed { sqlstate: SqlState(*b"57014"), rows: 0, bytes: 0 };
        Event::Finished { query: QueryId(number), outcome, blocked: Span::ZERO, pinned: false }
    };
    comes(&mut bench, Query { slo, ..of(HEAVY, 1) });
    comes(&mut bench, Query { slo, ..of(HEAVY, 2) });
    assert_eq!(bench.does(Event::Cancel { query: QueryId(2) }), [cancels(2, 0)]);
    assert_eq!(ends_as(&bench.does(failed(2))), [(2, Status::Cancelled, None)]);
    assert_eq!(bench.after(Span::from_secs(10)).does(Event::Woke), [cuts_short(1, 0, 10)]);
    assert_eq!(ends_as(&bench.does(failed(1))), [(1, Status::Cancelled, Some(true))]);
}

#[test]
fn a_timer_that_fires_late_skips_no_cap() {
    let rules = policy(capped(10, Then::Cascade("slow".into())), capped(11, Then::Cancel));
    let mut bench = Bench::with_slots(1, rules);
    comes(&mut bench, of(HEAVY, 1));
    assert_eq!(bench.after(Span::from_secs(12)).does(Event::Woke), [cuts_short(1, 0, 11)]);
    // Two classes do not hand a query to each other for ever.
    let rules = policy(capped(10, Then::Cascade("slow".into())), capped(10, Then::Cascade("heavy".into())));
    let mut bench = Bench::with_slots(1, rules);
    comes(&mut bench, of(HEAVY, 1));
    assert_eq!(bench.after(Span::from_secs(12)).does(Event::Woke), []);
    assert_eq!((bench.dispatcher.counts.class(HEAVY), bench.dispatcher.counts.class(SLOW)), (0, 1));
}

#[test]
fn what_cascades_counts_over_the_limit_and_nothing_more_is_admitted_there() {
    let slow = Terms { max_running: Some(1), ..Terms::default() };
    let mut bench = Bench::with_slots(4, policy(capped(10, Then::Cascade("slow".into())), slow));
    comes(&mut bench, of(HEAVY, 1));
    comes(&mut bench, of(SLOW, 2));
    bench.after(Span::from_secs(10)).does(Event::Woke);
    assert_eq!(bench.dispatcher.counts.class(SLOW), 2);
    assert_eq!(comes(&mut bench, of(SLOW, 3)), []);
    assert_eq!(ends_as(&bench.finishes(2, false)).len(), 1);
    assert_eq!(bench.finishes(1, false).last(), Some(&runs(3, 0)));
}

/// A query of `heavy` ran for 10 s on the first of two clusters, is had back, and finds the other one taken.
fn had_back(slow: Terms) -> Bench {
    let mut bench = Bench::with_slots(1, policy(capped(10, Then::Resubmit("slow".into())), slow));
    comes(&mut bench, of(HEAVY, 1));
    one_more_cluster(&mut bench, 1);
    assert_eq!(comes(&mut bench, of(DEFAULT, 2)), [runs(2, 1)]);
    assert_eq!(bench.after(Span::from_secs(10)).does(Event::Woke), [recalls(1, 0)]);
    bench
}

#[test]
fn what_is_had_back_waits_in_its_new_class_as_if_it_came_then() {
    let slow = Terms { queue_timeout: Some(Span::from_secs(5)), ..Terms::default() };
    let mut bench = had_back(slow.clone());
    assert_eq!(bench.does(Event::Bounced { query: QueryId(1), cluster: ClusterId(0), lost: false }), []);
    assert_eq!(bench.after(Span::from_secs(4)).finishes(2, false).last(), Some(&runs(1, 1)));
    let ended = bench.finishes(1, false);
    assert!(matches!(&ended[0], Command::Record(ended) if ended.query.class == SLOW));

    let mut bench = had_back(slow);
    bench.does(Event::Bounced { query: QueryId(1), cluster: ClusterId(0), lost: false });
    let woke = bench.after(Span::from_secs(5)).does(Event::Woke);
    let because = Refusal::WaitedTooLong { limit: Span::from_secs(5), lacked: WaitsFor::Cluster, lane: OPEN };
    assert_eq!(woke[0], Command::Refuse { query: QueryId(1), because });
}

#[test]
fn nothing_is_had_back_that_has_nowhere_to_go() {
    let rules =
        |max_waiting| Policy { max_waiting, ..policy(capped(10, Then::Resubmit("slow".into())), Terms::default()) };
    // The only other cluster has turned it away.
    let mut bench = Bench::with_slots(1, rules(9));
    one_more_cluster(&mut bench, 1);
    comes(&mut bench, of(HEAVY, 1));
    let sent = bench.does(Event::Bounced { query: QueryId(1), cluster: ClusterId(0), lost: false });
    assert_eq!(sent, [runs(1, 1)]);
    assert_eq!(bench.after(Span::from_secs(10)).does(Event::Woke), []);
    assert_eq!(bench.dispatcher.counts.class(SLOW), 1);
    // Nobody may wait.
    let mut bench = Bench::with_slots(1, rules(0));
    one_more_cluster(&mut bench, 1);
    comes(&mut bench, of(HEAVY, 1));
    assert_eq!(bench.after(Span::from_secs(10)).does(Event::Woke), []);
}

#[test]
fn rules_that_are_adopted_again_change_nothing() {
    let rules = Policy {
        lanes: Lanes::hilo(50.0),
        ..policy(
            Terms { may_ask: (-9, 9), ..capped(10, Then::Cascade("slow".into())) },
            Terms { priority: -1, ..Terms::default() },
        )
    };
    let mut bench = Bench::with_slots(8, rules.clone());
    let low = |number| {
        let mut low = of(HEAVY, number);
        low.claim.priority = Some(-3);
        low
    };
    // A session holds a place in the low lane, one query runs there, another has come there by its cap.
    comes(&mut bench, low(1));
    bench.finishes(1, true);
    comes(&mut bench, of(HEAVY, 2));
    bench.after(Span::from_secs(10)).does(Event::Woke);
    comes(&mut bench, low(3));
    let before = bench.dispatcher.counts.clone();
    assert_eq!((before.lane(LaneId(1)), before.class(SLOW)), (3, 1));
    adopts(&mut bench, rules.clone());
    assert_eq!(bench.dispatcher.counts, before);
    // What runs may run for as long as other rules say, and is cut short if it has already.
    let shorter = Policy { classes: policy(capped(2, Then::Cancel), Terms::default()).classes, ..rules };
    adopts(bench.after(Span::from_secs(1)), shorter.clone());
    assert_eq!(bench.after(Span::from_secs(1)).does(Event::Woke), [cuts_short(3, 0, 2)]);
}

#[test]
fn what_runs_and_waits_keeps_the_name_of_its_class_when_classes_get_other_numbers() {
    let one = Terms { max_running: Some(1), ..Terms::default() };
    let mut bench = Bench::with_slots(8, policy(one.clone(), one));
    let swapped = |mut rules: Policy| {
        rules.classes.swap(HEAVY.0 as usize, SLOW.0 as usize);
        rules
    };
    // A session keeps the one place of heavy, a query waits for it; one of slow runs.
    comes(&mut bench, of(HEAVY, 1));
    bench.finishes(1, true);
    comes(&mut bench, of(HEAVY, 2));
    comes(&mut bench, of(SLOW, 3));
    let class_of = |bench: &Bench, id: u64| bench.dispatcher.live[&QueryId(id)].query.class;
    assert_eq!((class_of(&bench, 2), class_of(&bench, 3)), (HEAVY, SLOW));
    let rules = swapped(bench.dispatcher.policy.clone());
    assert_eq!(adopts(&mut bench, rules), []);
    assert_eq!((class_of(&bench, 2), class_of(&bench, 3)), (SLOW, HEAVY));
    assert_eq!(comes(&mut bench, of(SLOW, 4)), [], "heavy has that number now, and is full");
    assert_eq!(bench.finishes(3, false).len(), 1, "what has ended, and nothing to run");
    assert_eq!(comes(&mut bench, of(HEAVY, 5)), [runs(5, 0)], "slow has that number now, and room");
    let ended = bench.does(Event::SessionEnded { session: SessionId(1) });
    assert_eq!(ended.last(), Some(&runs(2, 0)));
    // Without their classes they are of the class that takes the rest.
    let bare = Policy { classes: Class::built_in(), ..bench.dispatcher.policy.clone() };
    assert_eq!(adopts(&mut bench, bare).last(), Some(&runs(4, 0)));
    assert_eq!([2, 4, 5].map(|id| class_of(&bench, id)), [DEFAULT; 3]);
}

#[test]
fn what_is_said_to_one_who_goes_for_another_is_of_its_own_lane() {
    let lane = Lane { name: "etl".into(), limit: Some(Limit::Count(1)), ..Lane::default() };
    let in_lane = Terms { lane: Some("etl".into()), ..Terms::default() };
    let rules = Policy {
        order: Order::Fair,
        lanes: Lanes::manual(vec![lane]),
        max_waiting: 2,
        ..policy(in_lane, Terms::default())
    };
    let mut bench = Bench::with_slots(1, rules);
    for number in 1..=3 {
        comes(&mut bench, of(HEAVY, number));
    }
    let mut other = of(SLOW, 4);
    other.claim.user = UserId(7);
    let refused = comes(&mut bench, other);
    let because = Refusal::Full { of: Full::Gateway, lane: LaneId(1), limit: 2, wait: None };
    assert_eq!(refused[0], Command::Refuse { query: QueryId(3), because });
}

/// One slot, and a lane of which it is known that one ended within 30 s while another waited.
fn paced(rules: Policy) -> Bench {
    let mut bench = Bench::with_slots(1, rules);
    bench.arrives(1);
    bench.arrives(2);
    bench.after(Span::from_secs(30)).finishes(1, false);
    bench
}

#[test]
fn one_that_would_be_late_anyway_takes_nobody_s_place() {
    let late = Terms { refuse_late: true, ..Terms::default() };
    let mut bench = paced(Policy { order: Order::Fair, max_waiting: 2, ..policy(late, Terms::default()) });
    bench.arrives(3);
    bench.arrives(4);
    let mut other = of(HEAVY, 5);
    other.claim.user = UserId(7);
    let refused = comes(&mut bench, other);
    assert!(matches!(refused[0], Command::Refuse { query: QueryId(5), because: Refusal::TooLate { .. } }));
    assert_eq!(refused.len(), 2, "{refused:?}");
}

#[test]
fn the_time_that_one_has_waited_already_counts_towards_being_late() {
    let late = Terms { refuse_late: true, ..Terms::default() };
    let mut bench = paced(policy(late, Terms::default()));
    one_more_cluster(&mut bench, 1);
    let slo = Some(Span::from_secs(40));
    assert_eq!(comes(&mut bench, Query { slo, ..of(HEAVY, 3) }), [runs(3, 1)]);
    // At one in 25 s it would be early enough now, but not 20 s later.
    let refused =
        bench.after(Span::from_secs(20)).does(Event::Bounced { query: QueryId(3), cluster: ClusterId(1), lost: false });
    let Command::Refuse { because: Refusal::TooLate { wait, slo, .. }, .. } = refused[0] else { panic!("{refused:?}") };
    assert!(wait > slo && wait < Span::from_secs(50), "{wait}");
}

#[test]
fn a_pace_is_that_of_a_lane_in_which_others_wait() {
    let mut bench = Bench::with_slots(1, Policy::default());
    // As many end as come: that says nothing of how many could.
    for number in 1..=9 {
        bench.arrives(number);
        bench.after(Span::from_secs(1)).finishes(number, false);
        bench.after(Span::from_secs(60));
    }
    bench.arrives(10);
    bench.arrives(11);
    assert_eq!(bench.dispatcher.expected_wait(OPEN, 0), None);
    // One a second, however seldom it comes to that.
    for number in 10..=19 {
        bench.after(Span::from_secs(1)).finishes(number, false);
        bench.arrives(number + 2);
    }
    let wait = bench.dispatcher.expected_wait(OPEN, 3).map_or(0.0, Span::secs_f64);
    assert!((wait - 4.0).abs() < 0.05, "{wait}");
}

#[test]
fn what_a_cluster_has_turned_away_stands_before_all_others() {
    let mut bench = Bench::with_slots(1, Policy::default());
    one_more_cluster(&mut bench, 1);
    for number in 1..=4 {
        bench.arrives(number);
    }
    // The first runs on neither: the third takes its place on the one that turned it away.
    assert_eq!(bench.does(Event::Bounced { query: QueryId(1), cluster: ClusterId(0), lost: false }), [runs(3, 0)]);
    let stands = bench.dispatcher.queued_all();
    assert_eq!([stands[&QueryId(1)].ahead, stands[&QueryId(4)].ahead], [0, 0]);
    assert_eq!(bench.dispatcher.queued(QueryId(1)).map(|queued| queued.ahead), Some(0));
}

#[test]
fn only_what_finished_says_how_much_queries_of_a_class_take() {
    let mut bench = Bench::with_slots(1, Policy { order: Order::Fair, ..Policy::default() });
    bench.arrives(1);
    bench.does(Event::Cancel { query: QueryId(1) });
    let outcome = Outcome::Failed { sqlstate: SqlState(*b"57014"), rows: 0, bytes: 0 };
    let who = QueryId(1);
    bench.after(Span::from_secs(4)).does(Event::Finished { query: who, outcome, blocked: Span::ZERO, pinned: false });
    assert_eq!(bench.dispatcher.accounts.usual(DEFAULT), LEAST);
    bench.arrives(2);
    bench.after(Span::from_secs(8)).finishes(2, false);
    assert_eq!(bench.dispatcher.accounts.usual(DEFAULT), 8.0);
}
