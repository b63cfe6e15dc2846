//! What token policies start and stop. Clusters are called by their ids; a query's session has its number.

use super::*;
use crate::admit::claim::Claim;
use crate::billing::Price;
use crate::check::check;
use crate::class::{Class, DEFAULT};
use crate::cluster::Spec;
use crate::event::{Event, Outcome, Refusal};
use crate::fingerprint::Fingerprint;
use crate::id::{ClusterId, Generation, SessionId, Units};
use crate::policy::Policy;
use crate::query::Query;
use crate::route::{Routing, Why};
use crate::scale::Scaling;
use crate::statement::Kind;
use crate::time::{Span, Time};

fn offer() -> Spec {
    let price = Price { per_unit_hour: 1.0, minimum: Span::from_secs(60) };
    let name = "small".to_owned();
    Spec { offer: Some(name.clone()), name, units: Units(1), slots: 2, price, killable: true, writer: false }
}

fn policy(routing: Routing, most: u32, least: u32) -> Policy {
    let standby = Span::from_secs(100);
    let scaling = Scaling { mode: Mode::On, offers: vec![offer()], standby, most, least, ..Scaling::default() };
    Policy { routing, scaling, ..Policy::default() }
}

/// A dispatcher, a clock in seconds, and what is said in short.
struct Told {
    dispatcher: Dispatcher,
    now: u64,
}

impl Told {
    fn new(policy: Policy, clusters: u32) -> Told {
        let mut told = Told { dispatcher: Dispatcher::new(1, policy), now: 0 };
        for id in 0..clusters {
            told.does(Event::ClusterWanted(offer()));
            told.is_ready(id);
        }
        told
    }

    fn does(&mut self, event: Event) -> Vec<String> {
        let mut commands = Vec::new();
        self.dispatcher.handle(Time::from_micros(1_000_000 * self.now), event, &mut commands);
        assert_eq!(check(&self.dispatcher), []);
        let said = commands.iter().filter_map(|command| match command {
            Command::Run { cluster, .. } => Some(format!("run on {cluster}")),
            Command::Start { cluster, .. } => Some(format!("start {cluster}")),
            Command::Stop { cluster, .. } => Some(format!("stop {cluster}")),
            Command::Refuse { because, .. } => Some(format!("refuse: {because}")),
            _ => None,
        });
        said.collect()
    }

    fn arrives(&mut self, number: u64) -> Vec<String> {
        let (id, session, fingerprint) = (QueryId(number), SessionId(number), Fingerprint(number));
        let claim = Claim::default();
        self.does(Event::Arrived(Query {
            id,
            session,
            fingerprint,
            kind: Kind::Select,
            class: DEFAULT,
            slo: None,
            claim,
            traits: None,
        }))
    }

    fn ends(&mut self, number: u64) -> Vec<String> {
        let outcome = Outcome::Finished { rows: 0, bytes: 0 };
        self.does(Event::Finished { query: QueryId(number), outcome, blocked: Span::ZERO, pinned: false })
    }

    fn is_ready(&mut self, id: u32) -> Vec<String> {
        self.does(Event::ClusterReady { cluster: ClusterId(id), generation: Generation(0) })
    }

    fn last(&self) -> Option<(Act, Because)> {
        self.dispatcher.scaled().last().map(|scaled| (scaled.act, scaled.because))
    }
}

#[test]
fn a_query_that_finds_none_idle_goes_to_a_busy_one_and_starts_another() {
    let mut told = Told::new(policy(Routing::Tabs, 3, 0), 1);
    assert_eq!(told.arrives(1), ["run on 0"]);
    assert_eq!(told.dispatcher.decisions.back().map(|decision| decision.why), Some(Why::Idle));
    assert_eq!(told.arrives(2), ["run on 0", "start 1"]);
    assert_eq!(told.dispatcher.decisions.back().map(|decision| decision.why), Some(Why::NoneIdle));
    assert_eq!(told.last(), Some((Act::Start(Units(1), Some(ClusterId(1))), Because::NoneIdle)));
    // The busy one is full: it waits, and another starts all the same. Then there are as many as may be.
    assert_eq!(told.arrives(3), ["start 2"]);
    assert_eq!(told.arrives(4), Vec::<String>::new());
    assert_eq!(told.is_ready(1), ["run on 1", "run on 1"]);
}

#[test]
fn what_nobody_needs_for_as_long_as_it_stands_by_stops() {
    let mut told = Told::new(policy(Routing::Tabs, 3, 1), 3);
    told.arrives(1);
    let on = told.dispatcher.decisions.back().map(|decision| decision.cluster.0).expect("it runs");
    told.now = 40;
    told.ends(1);
    assert_eq!(told.dispatcher.next_wakeup(), Some(Time::from_micros(100_000_000)));
    told.now = 100;
    let idle: Vec<String> = (0..3).filter(|id| *id != on).map(|id| format!("stop {id}")).collect();
    assert_eq!(told.does(Event::Woke), idle);
    // The last one stays.
    told.now = 1_000;
    assert_eq!(told.does(Event::Woke), Vec::<String>::new());
}

#[test]
fn a_query_that_finds_no_cluster_on_is_held_until_one_is() {
    let mut told = Told::new(policy(Routing::Tabs, 1, 0), 0);
    assert_eq!(told.arrives(1), ["start 0"]);
    assert_eq!(told.is_ready(0), ["run on 0"]);
    told.ends(1);
    told.now = 100;
    assert_eq!(told.does(Event::Woke), ["stop 0"]);
    // There may be one, and it is not gone yet.
    assert_eq!(told.arrives(2), Vec::<String>::new());
    assert_eq!(told.does(Event::ClusterStopped { cluster: ClusterId(0), generation: Generation(0) }), ["start 1"]);
    assert_eq!(told.is_ready(1), ["run on 1"]);
}

#[test]
fn under_delayed_off_a_query_waits_for_an_idle_one_and_as_many_start_as_wait() {
    let mut told = Told::new(policy(Routing::DelayedOff, 4, 0), 1);
    assert_eq!(told.arrives(1), ["run on 0"]);
    assert_eq!(told.arrives(2), ["start 1"]);
    assert_eq!(told.ends(1), ["run on 0"]);
    // One starts, and one waits.
    assert_eq!(told.arrives(3), Vec::<String>::new());
    assert_eq!(told.arrives(4), ["start 2"]);
    assert_eq!(told.is_ready(1), ["run on 1"]);
}

#[test]
fn under_join_the_idle_queue_none_starts_and_none_stops() {
    let mut told = Told::new(policy(Routing::Jiq, 3, 0), 2);
    let on: Vec<String> = (1..5).flat_map(|number| told.arrives(number)).collect();
    assert!(on[0] != on[1] && on.len() == 4, "{on:?}");
    assert_eq!(told.arrives(5), Vec::<String>::new());
    assert_eq!(told.last(), None);
}

#[test]
fn a_query_that_its_class_keeps_waiting_starts_nothing() {
    let mut policy = policy(Routing::Tabs, 3, 0);
    let mut class = Class::built_in().swap_remove(DEFAULT.0 as usize);
    class.terms.max_running = Some(1);
    policy.classes[DEFAULT.0 as usize] = class;
    let mut told = Told::new(policy, 1);
    assert_eq!(told.arrives(1), ["run on 0"]);
    assert_eq!(told.arrives(2), Vec::<String>::new());
    assert_eq!(told.ends(1), ["run on 0"]);
}

#[test]
fn budgets_bind_and_what_only_watches_starts_nothing() {
    let mut poor = policy(Routing::Tabs, 3, 0);
    poor.scaling.most_per_hour = Some(1.5);
    let mut told = Told::new(poor, 1);
    told.arrives(1);
    assert_eq!(told.arrives(2), ["run on 0"]);
    assert_eq!(told.last(), Some((Act::Nothing, Because::MostPerHour { would: 2.0, most: 1.5 })));
    let mut watched = policy(Routing::Tabs, 3, 0);
    watched.scaling.mode = Mode::Shadow;
    let mut told = Told::new(watched, 1);
    told.arrives(1);
    assert_eq!(told.arrives(2), ["run on 0"]);
    assert_eq!(told.last(), Some((Act::Start(Units(1), None), Because::NoneIdle)));
    // It is not said again and again.
    told.arrives(3);
    assert_eq!(told.dispatcher.scaled().count(), 1);
}

#[test]
fn a_policy_that_is_adopted_begins_with_the_clusters_that_are_there() {
    let mut told = Told::new(policy(Routing::LeastOutstanding, 3, 0), 2);
    told.arrives(1);
    told.does(Event::PolicyAdopted(Box::new(policy(Routing::Tabs, 3, 0))));
    assert_eq!(told.dispatcher.roll.count(State::Busy), 1);
    assert_eq!(told.arrives(2), ["run on 1"]);
    assert!(matches!(told.arrives(3)[..], [_, ref start] if start == "start 2"));
    let empty = Dispatcher::new(1, policy(Routing::Tabs, 3, 0)).consider(
        Time::ZERO,
        Query {
            id: QueryId(1),
            session: SessionId(1),
            fingerprint: Fingerprint(1),
            kind: Kind::Select,
            class: DEFAULT,
            slo: None,
            claim: Claim::default(),
            traits: None,
        },
    );
    assert_eq!(empty.starts, ["small-0"]);
    assert!(!matches!(empty.verdict, crate::dispatcher::Verdict::Refuse(Refusal::NoCluster)));
}
