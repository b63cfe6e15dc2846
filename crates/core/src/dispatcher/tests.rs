//! What the dispatcher does in a few plain situations. Random ones by the thousand are in the simulator's tests.

use super::*;
use crate::admit::claim::Claim;
use crate::admit::lanes::OPEN;
use crate::billing::Price;
use crate::class::{Class, DEFAULT};
use crate::cluster::Spec;
use crate::event::{Abandoned, Full, LossCause, Outcome, PinEnd, Refusal};
use crate::fingerprint::Fingerprint;
use crate::id::Units;
use crate::query::{SqlState, Status};
use crate::statement::Kind;

/// A cluster of one unit that is there for good.
fn spec(name: &str, slots: u32) -> Spec {
    let (name, units, price) = (name.into(), Units(1), Price::default());
    Spec { name, units, slots, price, killable: true, offer: None, writer: false }
}

/// A dispatcher with its clock, which checks its invariants after every event.
pub(super) struct Bench {
    pub(super) dispatcher: Dispatcher,
    now: Time,
}

impl Bench {
    /// One ready cluster with that many slots.
    pub(super) fn with_slots(slots: u32, policy: Policy) -> Bench {
        let mut bench = Bench { dispatcher: Dispatcher::new(1, policy), now: Time::ZERO };
        let spec = spec("a", slots);
        bench.does(Event::ClusterWanted(spec));
        bench.does(Event::ClusterReady { cluster: ClusterId(0), generation: Generation(0) });
        bench
    }

    pub(super) fn does(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        self.dispatcher.handle(self.now, event, &mut commands);
        assert_eq!(crate::check::check(&self.dispatcher), [], "at {}", self.now);
        commands
    }

    pub(super) fn after(&mut self, span: Span) -> &mut Bench {
        self.now = self.now + span;
        self
    }

    /// Query and session of the same number.
    pub(super) fn arrives(&mut self, number: u64) -> Vec<Command> {
        self.does(Event::Arrived(query(number, number)))
    }

    pub(super) fn finishes(&mut self, number: u64, pinned: bool) -> Vec<Command> {
        let outcome = Outcome::Finished { rows: 1, bytes: 10 };
        self.does(Event::Finished { query: QueryId(number), outcome, blocked: Span::ZERO, pinned })
    }
}

pub(super) fn query(id: u64, session: u64) -> Query {
    Query {
        id: QueryId(id),
        session: SessionId(session),
        fingerprint: Fingerprint(7),
        kind: Kind::Select,
        class: DEFAULT,
        slo: Some(Span::from_secs(3)),
        claim: Claim::default(),
        traits: None,
    }
}

pub(super) fn runs(number: u64, cluster: u32) -> Command {
    Command::Run { query: QueryId(number), cluster: ClusterId(cluster) }
}

pub(super) fn ends_as(commands: &[Command]) -> Vec<(u64, Status, Option<bool>)> {
    let ended = commands.iter().filter_map(|command| match command {
        Command::Record(ended) => Some((ended.query.id.0, ended.status, ended.violated)),
        _ => None,
    });
    ended.collect()
}

#[test]
fn a_query_runs_at_once_waits_for_a_slot_or_is_refused_with_the_reason() {
    let mut bench = Bench::with_slots(1, Policy { max_waiting: 1, ..Policy::default() });
    assert_eq!(bench.arrives(1), [runs(1, 0)]);
    assert_eq!(bench.arrives(2), []);
    let refused = bench.arrives(3);
    assert_eq!(
        refused[0],
        Command::Refuse {
            query: QueryId(3),
            because: Refusal::Full { of: Full::Gateway, lane: OPEN, limit: 1, wait: None }
        }
    );
    assert_eq!(ends_as(&refused), [(3, Status::Refused, Some(true))]);
    let freed = bench.after(Span::from_secs(2)).finishes(1, false);
    assert_eq!(ends_as(&freed), [(1, Status::Finished, Some(false))]);
    assert_eq!(freed.last(), Some(&runs(2, 0)));
    // It waited two seconds: its SLO of three counts from its arrival.
    let late = bench.after(Span::from_millis(1_001)).finishes(2, false);
    assert_eq!(ends_as(&late), [(2, Status::Finished, Some(true))]);
}

#[test]
fn a_query_waits_no_longer_than_the_limit() {
    let mut bench = Bench::with_slots(1, Policy { wait_limit: Span::from_secs(10), ..Policy::default() });
    bench.arrives(1);
    bench.arrives(2);
    assert_eq!(bench.dispatcher.next_wakeup(), Some(Time::ZERO + Span::from_secs(10)));
    let woke = bench.after(Span::from_secs(10)).does(Event::Woke);
    let because = Refusal::WaitedTooLong { limit: Span::from_secs(10), lacked: WaitsFor::Cluster, lane: OPEN };
    assert_eq!(woke[0], Command::Refuse { query: QueryId(2), because });
    assert_eq!(bench.dispatcher.next_wakeup(), None);
}

#[test]
fn without_any_cluster_a_query_is_refused_at_once() {
    let mut bench = Bench { dispatcher: Dispatcher::new(1, Policy::default()), now: Time::ZERO };
    let refused = bench.arrives(1);
    assert_eq!(refused[0], Command::Refuse { query: QueryId(1), because: Refusal::NoCluster });
}

#[test]
fn a_transaction_keeps_its_slot_between_its_queries_and_never_waits() {
    let mut bench = Bench::with_slots(1, Policy::default());
    bench.arrives(1);
    bench.finishes(1, true);
    assert_eq!(bench.arrives(2), [], "the transaction holds the only slot");
    let mut second = query(3, 1);
    second.slo = None;
    assert_eq!(bench.does(Event::Arrived(second)), [runs(3, 0)]);
    let ended = bench.finishes(3, false);
    assert_eq!(ended.last(), Some(&runs(2, 0)));
}

#[test]
fn a_session_that_sits_on_its_transaction_loses_it() {
    let mut bench = Bench::with_slots(1, Policy { pin_idle: Span::from_secs(60), ..Policy::default() });
    bench.arrives(1);
    bench.finishes(1, true);
    bench.arrives(2);
    let woke = bench.after(Span::from_secs(60)).does(Event::Woke);
    let because = PinEnd::Idle { limit: Span::from_secs(60) };
    assert_eq!(woke, [Command::EndPin { session: SessionId(1), because }, runs(2, 0)]);
}

#[test]
fn housekeeping_neither_waits_behind_queries_nor_starts_the_billing_timer() {
    let mut bench = Bench::with_slots(1, Policy::default());
    let mut keepalive = query(1, 1);
    (keepalive.class, keepalive.slo) = (class::CONTROL, None);
    assert_eq!(bench.does(Event::Arrived(keepalive.clone())), [runs(1, 0)]);
    assert_eq!(bench.dispatcher.view(bench.now + Span::from_secs(9)).cost, 0.0);
    bench.finishes(1, false);
    bench.arrives(2);
    (keepalive.id, keepalive.session) = (QueryId(3), SessionId(3));
    assert_eq!(bench.does(Event::Arrived(keepalive)), [runs(3, 0)]);
    let lost = Event::ClusterLost { cluster: ClusterId(0), generation: Generation(0), cause: LossCause::Exited };
    let statuses = ends_as(&bench.does(lost));
    assert_eq!(statuses, [(2, Status::Lost, Some(true)), (3, Status::Lost, None)]);
}

#[test]
fn a_cluster_that_cannot_take_a_query_is_not_asked_twice() {
    let mut bench = Bench::with_slots(2, Policy::default());
    let spec = spec("b", 2);
    bench.does(Event::ClusterWanted(spec));
    bench.does(Event::ClusterReady { cluster: ClusterId(1), generation: Generation(0) });
    bench.arrives(1);
    let bounce = |cluster| Event::Bounced { query: QueryId(1), cluster: ClusterId(cluster), lost: false };
    assert_eq!(bench.does(bounce(0)), [runs(1, 1)]);
    let refused = bench.does(bounce(1));
    assert_eq!(refused[0], Command::Refuse { query: QueryId(1), because: Refusal::NoClusterCouldRun { tried: 2 } });
}

#[test]
fn a_query_that_will_not_stop_is_abandoned_and_its_cluster_replaced() {
    let mut bench = Bench::with_slots(2, Policy { cancel_grace: Span::from_secs(5), ..Policy::default() });
    bench.arrives(1);
    bench.arrives(2);
    let cancelled = bench.does(Event::Cancel { query: QueryId(1) });
    assert_eq!(cancelled, [Command::Cancel { query: QueryId(1), cluster: ClusterId(0), ran_for: None }]);
    let woke = bench.after(Span::from_secs(5)).does(Event::Woke);
    assert_eq!(woke[0], Command::Abandon { query: QueryId(1), because: Abandoned::WillNotStop });
    assert_eq!(ends_as(&woke), [(1, Status::Cancelled, None)]);
    assert!(matches!(woke.last(), Some(Command::Start { cluster: ClusterId(1), .. })), "{woke:?}");
    // The neighbour finishes in peace; then the runaway is alone, and its cluster is killed.
    let alone = bench.finishes(2, false);
    let stop = Command::Stop { cluster: ClusterId(0), generation: Generation(0), force: true };
    assert_eq!(alone.last(), Some(&stop));
}

#[test]
fn a_cancelled_query_that_fails_was_cancelled_and_one_that_finishes_finished() {
    let mut bench = Bench::with_slots(2, Policy::default());
    bench.arrives(1);
    bench.arrives(2);
    bench.does(Event::Cancel { query: QueryId(1) });
    bench.does(Event::Cancel { query: QueryId(2) });
    let outcome = Outcome::Failed { sqlstate: SqlState(*b"57014"), rows: 0, bytes: 0 };
    let failed = bench.does(Event::Finished { query: QueryId(1), outcome, blocked: Span::ZERO, pinned: false });
    assert_eq!(ends_as(&failed), [(1, Status::Cancelled, None)]);
    assert_eq!(ends_as(&bench.finishes(2, false)), [(2, Status::Finished, Some(false))]);
}

#[test]
fn a_lost_cluster_takes_its_queries_along_and_comes_back() {
    let mut bench = Bench::with_slots(1, Policy::default());
    bench.arrives(1);
    bench.arrives(2);
    let cause = LossCause::Exited;
    let lost = bench.does(Event::ClusterLost { cluster: ClusterId(0), generation: Generation(0), cause });
    assert_eq!(lost[0], Command::Abandon { query: QueryId(1), because: Abandoned::ClusterLost { cause } });
    let restarted = bench.after(Span::from_secs(1)).does(Event::Woke);
    assert!(matches!(restarted[..], [Command::Start { generation: Generation(1), .. }]), "{restarted:?}");
    let stale = bench.does(Event::ClusterReady { cluster: ClusterId(0), generation: Generation(0) });
    assert_eq!(stale, [], "news of the first start");
    let ready = bench.does(Event::ClusterReady { cluster: ClusterId(0), generation: Generation(1) });
    assert_eq!(ready, [runs(2, 0)]);
}

#[test]
fn a_shutdown_finishes_what_is_here_and_stops_the_clusters() {
    let mut bench = Bench::with_slots(1, Policy::default());
    bench.arrives(1);
    bench.arrives(2);
    bench.does(Event::ShutdownWanted { within: Span::from_secs(30) });
    let refused = bench.arrives(3);
    assert_eq!(refused[0], Command::Refuse { query: QueryId(3), because: Refusal::ShuttingDown });
    assert_eq!(bench.finishes(1, false).last(), Some(&runs(2, 0)));
    let stop = Command::Stop { cluster: ClusterId(0), generation: Generation(0), force: false };
    assert_eq!(bench.finishes(2, false).last(), Some(&stop));
    bench.does(Event::ClusterStopped { cluster: ClusterId(0), generation: Generation(0) });
    assert!(bench.dispatcher.is_shut_down());
}

#[test]
fn a_shutdown_cuts_off_what_does_not_end_in_time() {
    let mut bench = Bench::with_slots(1, Policy::default());
    bench.arrives(1);
    bench.arrives(2);
    bench.does(Event::ShutdownWanted { within: Span::from_secs(30) });
    let over = bench.after(Span::from_secs(30)).does(Event::Woke);
    assert_eq!(ends_as(&over), [(2, Status::Refused, Some(true)), (1, Status::Lost, Some(true))]);
}

#[test]
fn a_policy_is_adopted_by_an_event_and_drops_nothing() {
    let mut classes = Class::built_in();
    classes.push(Class { name: "etl".into(), ..Class::default() });
    let mut bench = Bench::with_slots(1, Policy { classes, ..Policy::default() });
    let mut etl = query(1, 1);
    etl.class = ClassId(2);
    bench.does(Event::Arrived(etl));
    for number in 2..6 {
        bench.arrives(number);
    }
    let mut classes = Class::built_in();
    for name in ["dashboards", "etl"] {
        classes.push(Class { name: name.into(), ..Class::default() });
    }
    let adopted = Policy { classes, max_waiting: 1, ..Policy::default() };
    assert_eq!(bench.does(Event::PolicyAdopted(Box::new(adopted.clone()))), []);
    assert_eq!(bench.dispatcher.policy(), &adopted);
    let view = bench.dispatcher.view(bench.now);
    let counts = |class: usize| (view.classes[class].running, view.classes[class].waiting);
    assert_eq!((counts(1), counts(3)), ((0, 4), (1, 0)));
}

#[test]
fn starts_that_fail_at_once_do_not_follow_each_other_within_one_instant() {
    let none = Span::ZERO;
    let policy = Policy { start_limit: none, retry_first: none, retry_most: none, ..Policy::default() };
    let mut bench = Bench { dispatcher: Dispatcher::new(1, policy), now: Time::ZERO };
    let spec = spec("a", 1);
    bench.does(Event::ClusterWanted(spec));
    assert_eq!(bench.does(Event::Woke).len(), 1, "its start is over at once: stop it");
    assert_eq!(bench.dispatcher.next_wakeup(), Some(Time::ZERO + Span::from_millis(1)));
}

#[test]
fn a_query_whose_session_has_gone_leaves_nothing_to_the_next_of_that_number() {
    let mut bench = Bench::with_slots(4, Policy::default());
    bench.arrives(1);
    bench.does(Event::SessionEnded { session: SessionId(1) });
    bench.does(Event::Arrived(query(2, 1)));
    bench.finishes(1, true);
    bench.finishes(2, true);
    assert_eq!(bench.does(Event::Arrived(query(3, 1))), [runs(3, 0)]);
}

#[test]
fn when_the_last_cluster_is_drained_whoever_waits_is_told_at_once() {
    let mut bench = Bench::with_slots(1, Policy::default());
    bench.arrives(1);
    bench.arrives(2);
    let drained = bench.does(Event::DrainWanted { cluster: ClusterId(0) });
    assert_eq!(drained[0], Command::Refuse { query: QueryId(2), because: Refusal::NoCluster });
    assert_eq!(ends_as(&bench.finishes(1, false)), [(1, Status::Finished, Some(false))]);
}

#[test]
fn a_provider_that_never_stops_its_cluster_does_not_hold_up_a_shutdown() {
    let policy = Policy { drain_limit: Span::from_secs(60), ..Policy::default() };
    let mut bench = Bench::with_slots(1, policy);
    bench.does(Event::ShutdownWanted { within: Span::from_secs(5) });
    assert!(!bench.dispatcher.is_shut_down());
    let given_up = bench.after(Span::from_secs(60)).does(Event::Woke);
    assert_eq!(given_up, [Command::Stop { cluster: ClusterId(0), generation: Generation(0), force: true }]);
    assert!(bench.dispatcher.is_shut_down());
}

#[test]
fn a_cluster_whose_provider_does_not_stop_it_is_kept_in_mind_until_the_gateway_ends() {
    let mut bench = Bench::with_slots(1, Policy { drain_limit: Span::from_secs(60), ..Policy::default() });
    bench.does(Event::DrainWanted { cluster: ClusterId(0) });
    assert_eq!(bench.after(Span::from_secs(86_400)).does(Event::Woke), []);
    let phase = |bench: &Bench| bench.dispatcher.clusters.get(&ClusterId(0)).map(|cluster| cluster.phase);
    assert_eq!(phase(&bench), Some(Phase::Stopping));
    bench.does(Event::ShutdownWanted { within: Span::from_secs(5) });
    assert_eq!(phase(&bench), Some(Phase::Stopping), "there is time to stop it yet");
    let given_up = bench.after(Span::from_secs(5)).does(Event::Woke);
    assert_eq!(given_up, [Command::Stop { cluster: ClusterId(0), generation: Generation(0), force: true }]);
    assert!(bench.dispatcher.is_shut_down());
}

#[test]
fn a_cluster_where_something_runs_away_is_replaced_and_killed_when_its_neighbours_are_done() {
    let mut bench = Bench::with_slots(2, Policy::default());
    bench.arrives(1);
    let replaced = bench.does(Event::ClusterRanAway { cluster: ClusterId(0), generation: Generation(0) });
    assert!(matches!(replaced[..], [Command::Start { cluster: ClusterId(1), .. }]), "{replaced:?}");
    let stop = Command::Stop { cluster: ClusterId(0), generation: Generation(0), force: true };
    assert_eq!(bench.finishes(1, false).last(), Some(&stop));
}

/// Two ready clusters of two slots each.
fn two_clusters(policy: Policy) -> Bench {
    let mut bench = Bench::with_slots(2, policy);
    let spec = spec("b", 2);
    bench.does(Event::ClusterWanted(spec));
    bench.does(Event::ClusterReady { cluster: ClusterId(1), generation: Generation(0) });
    bench
}

fn burns(cluster: u32, burns: bool) -> Event {
    Event::ClusterBurns { cluster: ClusterId(cluster), generation: Generation(0), burns }
}

#[test]
fn queries_keep_off_a_cluster_that_was_told_to_stop_something_and_has_not() {
    let mut bench = two_clusters(Policy::default());
    assert_eq!(bench.arrives(1), [runs(1, 0)]);
    assert_eq!(bench.arrives(2), [runs(2, 1)]);
    bench.does(Event::Cancel { query: QueryId(1) });
    // Otherwise the lower id would have it.
    assert_eq!(bench.arrives(3), [runs(3, 1)]);
    // It is better than nothing.
    assert_eq!(bench.arrives(4), [runs(4, 0)]);
    bench.finishes(3, false);
    let sqlstate = SqlState(*b"57014");
    let cancelled = Outcome::Failed { sqlstate, rows: 0, bytes: 0 };
    bench.does(Event::Finished { query: QueryId(1), outcome: cancelled, blocked: Span::ZERO, pinned: false });
    assert_eq!(bench.arrives(5), [runs(5, 0)]);
}

#[test]
fn queries_keep_off_a_cluster_that_burns_until_it_is_calm() {
    let mut bench = two_clusters(Policy::default());
    bench.does(burns(0, true));
    assert_eq!(bench.arrives(1), [runs(1, 1)]);
    assert_eq!(bench.dispatcher.any_ready(), Some(ClusterId(1)));
    bench.does(burns(0, false));
    assert_eq!(bench.arrives(2), [runs(2, 0)]);
    let stale = Event::ClusterBurns { cluster: ClusterId(0), generation: Generation(7), burns: true };
    bench.does(stale);
    assert_eq!(bench.dispatcher.senseless, 1);
}

#[test]
fn what_was_placed_in_doubt_is_recalled_when_its_cluster_is_given_up() {
    let mut bench = Bench::with_slots(4, Policy::default());
    bench.arrives(1);
    bench.after(Span::from_secs(1)).does(burns(0, true));
    bench.after(Span::from_secs(1)).arrives(2);
    bench.arrives(3);
    bench.finishes(3, true);
    bench.does(Event::Arrived(query(4, 3)));
    bench.after(Span::from_secs(5));
    let given_up = bench.does(Event::ClusterRanAway { cluster: ClusterId(0), generation: Generation(0) });
    // Query 1 began before, query 4 is in the middle of something.
    let recalled = Command::Recall { query: QueryId(2), cluster: ClusterId(0) };
    assert_eq!(given_up.last(), Some(&recalled));
    assert_eq!(given_up.iter().filter(|command| matches!(command, Command::Recall { .. })).count(), 1);
    bench.does(Event::Bounced { query: QueryId(2), cluster: ClusterId(0), lost: false });
    let again = bench.does(Event::ClusterReady { cluster: ClusterId(1), generation: Generation(0) });
    assert_eq!(again, [runs(2, 1)]);
}

#[test]
fn a_query_that_will_not_stop_recalls_what_came_after_its_cancel() {
    let mut bench = Bench::with_slots(3, Policy { cancel_grace: Span::from_secs(5), ..Policy::default() });
    bench.arrives(1);
    bench.arrives(2);
    bench.after(Span::from_secs(1)).does(Event::Cancel { query: QueryId(1) });
    bench.after(Span::from_secs(1)).arrives(3);
    let given_up = bench.after(Span::from_secs(4)).does(Event::Woke);
    assert_eq!(ends_as(&given_up), [(1, Status::Cancelled, None)]);
    assert_eq!(given_up.last(), Some(&Command::Recall { query: QueryId(3), cluster: ClusterId(0) }));
}

#[test]
fn at_the_end_of_time_nothing_is_due_for_ever() {
    let mut bench = Bench::with_slots(1, Policy::default());
    let spec = bench.dispatcher.clusters[&ClusterId(0)].spec.clone();
    bench.does(Event::ClusterWanted(spec));
    // What starts takes too long, fails, and is tried again: with nothing ahead of now, for ever.
    bench.now = Time::MAX;
    let commands = bench.does(Event::Woke);
    assert!(matches!(commands[..], [Command::Stop { cluster: ClusterId(1), force: true, .. }]), "{commands:?}");
    assert_eq!(bench.dispatcher.next_wakeup(), None);
}

/// A cluster with one slot, where what changes something runs or not.
fn wanted(name: &str, writer: bool) -> Event {
    Event::ClusterWanted(Spec { writer, ..spec(name, 1) })
}

#[test]
fn what_writes_runs_where_that_is_possible_and_holds_up_nobody() {
    let mut bench = Bench { dispatcher: Dispatcher::new(1, Policy::default()), now: Time::ZERO };
    for (id, writer) in [(0, true), (1, false)] {
        bench.does(wanted(&id.to_string(), writer));
        bench.does(Event::ClusterReady { cluster: ClusterId(id), generation: Generation(0) });
    }
    let writes = |id: u64| Query { claim: Claim { writes: true, ..Claim::default() }, ..query(id, id) };
    let run = |id, cluster| Command::Run { query: QueryId(id), cluster: ClusterId(cluster) };
    assert_eq!(bench.does(Event::Arrived(writes(1))), [run(1, 0)]);
    assert_eq!(bench.does(Event::Arrived(writes(2))), [], "the other cluster has room, and is not for it");
    assert_eq!(bench.does(Event::Arrived(query(3, 3))), [run(3, 1)], "one that can run there does not wait behind it");
    assert_eq!(bench.does(Event::Arrived(query(4, 4))), []);
    assert!(bench.finishes(3, false).contains(&run(4, 1)));
    assert!(bench.finishes(1, false).contains(&run(2, 0)));
    // The writer is gone: what writes waits for it, and is not sent elsewhere.
    let lost = LossCause::Exited;
    bench.does(Event::ClusterLost { cluster: ClusterId(0), generation: Generation(0), cause: lost });
    bench.finishes(4, false);
    assert_eq!(bench.does(Event::Arrived(writes(5))), []);
}

#[test]
fn where_no_cluster_is_for_what_writes_it_runs_anywhere() {
    let mut bench = Bench { dispatcher: Dispatcher::new(1, Policy::default()), now: Time::ZERO };
    bench.does(wanted("a", false));
    bench.does(Event::ClusterReady { cluster: ClusterId(0), generation: Generation(0) });
    let writes = Query { claim: Claim { writes: true, ..Claim::default() }, ..query(1, 1) };
    assert_eq!(bench.does(Event::Arrived(writes)), [Command::Run { query: QueryId(1), cluster: ClusterId(0) }]);
}

#[test]
fn one_that_was_lost_and_can_run_nowhere_else_counts_as_lost() {
    let mut bench = Bench::with_slots(1, Policy::default());
    bench.arrives(1);
    let commands = bench.does(Event::Bounced { query: QueryId(1), cluster: ClusterId(0), lost: true });
    let [Command::Refuse { because, .. }, Command::Record(ended)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((*because, ended.status), (Refusal::NoClusterCouldRun { tried: 1 }, Status::Lost));
}

#[test]
fn nothing_goes_to_a_cluster_that_is_down_and_what_has_begun_nowhere_waits_for_it() {
    let mut bench = Bench::with_slots(1, Policy::default());
    bench.arrives(1);
    bench.arrives(2);
    let (cluster, generation) = (ClusterId(0), Generation(0));
    bench.does(Event::ClusterDown { cluster, generation });
    // What ran there was lost, and there is no other one.
    let commands = bench.does(Event::Bounced { query: QueryId(1), cluster, lost: true });
    assert!(matches!(commands[..], [Command::Refuse { query: QueryId(1), .. }, Command::Record(_)]), "{commands:?}");
    // The next one is not sent after it.
    assert_eq!(bench.dispatcher.waiting(), [QueryId(2)]);
    bench.does(Event::ClusterLost { cluster, generation, cause: LossCause::Exited });
    assert_eq!(bench.dispatcher.waiting(), [QueryId(2)]);
    bench.after(Span::from_secs(60)).does(Event::Woke);
    let ready = Event::ClusterReady { cluster, generation: Generation(1) };
    assert_eq!(bench.does(ready), [Command::Run { query: QueryId(2), cluster }]);
}
