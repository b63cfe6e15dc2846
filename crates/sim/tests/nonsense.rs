//! Events that no world would send: unknown ids, stale and future generations, ends of what never began, clocks that go
//! back, limits of nothing and of for ever. The dispatcher need not make sense of them; it must keep its invariants.

use std::collections::BTreeSet;

use punctual_core::admit::Order;
use punctual_core::admit::claim::{Claim, Scan};
use punctual_core::admit::gradient::Adaptive;
use punctual_core::admit::lanes::{Lane, Lanes, Limit};
use punctual_core::admit::terms::{Cap, Quota, Terms, Then, Thresholds, Weight};
use punctual_core::billing::Price;
use punctual_core::check::check;
use punctual_core::class::Class;
use punctual_core::cluster::Spec;
use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event, LossCause, Outcome};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, ClusterId, Generation, ModelId, PlanId, QueryId, SessionId, Units, UserId};
use punctual_core::mode::Mode;
use punctual_core::plan::{Knobs, Plan, Spinup};
use punctual_core::policy::Policy;
use punctual_core::predict::features::FEATURES;
use punctual_core::query::{Query, SqlState, Traits};
use punctual_core::rng::Rng;
use punctual_core::route::{Counting, Routing};
use punctual_core::scale::Scaling;
use punctual_core::statement::Kind;
use punctual_core::time::{Span, Time};
use punctual_sim::scenario::models;

/// Draws nonsense. Ids come from a handful, so that they meet.
struct Nonsense(Rng);

impl Nonsense {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.index(choices.len())]
    }

    fn limit(&mut self) -> Span {
        self.one_of(&[Span::ZERO, Span::from_micros(1), Span::from_secs(1), Span::from_secs(30), Span::MAX])
    }

    fn query(&mut self) -> QueryId {
        QueryId(self.below(12))
    }

    fn cluster(&mut self) -> ClusterId {
        ClusterId(self.below(6) as u32)
    }

    fn policy(&mut self) -> Policy {
        let mut classes = Class::built_in();
        for number in 0..self.below(4) {
            classes.push(Class { name: format!("class{number}"), ..Class::default() });
        }
        for class in &mut classes {
            if self.0.chance(0.7) {
                class.terms = self.terms();
            }
        }
        Policy {
            routing: self.one_of(&Routing::ALL),
            routing_mode: self.one_of(&Mode::ALL),
            baseline: self.one_of(&Routing::ALL),
            counting: Counting::Expected,
            classes,
            violation_target: self.one_of(&[0.0, 1.0, f64::INFINITY]),
            order: self.one_of(&[Order::Fifo, Order::Fair]),
            half_life: self.limit(),
            lanes: self.lanes(),
            max_running: self.some(&[0, 1, u32::MAX]),
            adaptive: self.0.chance(0.3).then(|| self.adaptive()),
            max_waiting: self.one_of(&[0, 1, u32::MAX]),
            wait_limit: self.limit(),
            control_slots: self.one_of(&[0, 1, u32::MAX]),
            pin_idle: self.limit(),
            cancel_grace: self.limit(),
            drain_limit: self.limit(),
            start_limit: self.limit(),
            retry_first: self.limit(),
            retry_most: self.limit(),
            decisions_kept: self.one_of(&[0, 3]),
            min_modelled: self.limit(),
            max_clusters: self.one_of(&[0, 1, 5]),
            scaling: Scaling { offers: self.offers(), ..Scaling::default() },
            planning: self.one_of(&Mode::ALL),
        }
    }

    fn offers(&mut self) -> Vec<Spec> {
        (0..self.below(3)).map(|_| Spec { offer: Some(String::new()), ..self.spec() }).collect()
    }

    fn plan(&mut self, ground: u64, now: Time) -> Plan {
        let times = [Time::ZERO, now, now + Span::from_secs(1), now + Span::from_secs(50), Time::MAX];
        let size = |nonsense: &mut Nonsense| Units(nonsense.one_of(&[0, 1, 1, u32::MAX]));
        Plan {
            id: PlanId(self.below(6)),
            from: self.one_of(&times),
            until: self.one_of(&times),
            fleet: (0..self.below(3)).map(|_| size(self)).collect(),
            spinups: (0..self.below(3)).map(|_| Spinup { at: self.limit(), size: size(self) }).collect(),
            knobs: Knobs { late_share: self.number(), lifetime: self.limit(), ..Knobs::of(&Policy::default()) },
            made_for: self.one_of(&[ground, ground, 0]),
        }
    }

    /// One of these, or none.
    fn some<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        self.0.chance(0.4).then(|| self.one_of(choices))
    }

    fn number(&mut self) -> f64 {
        self.one_of(&[0.0, -0.0, 1.0, -3.0, 1e-300, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])
    }

    fn adaptive(&mut self) -> Adaptive {
        Adaptive { least: self.one_of(&[0, 1, u32::MAX]), tolerance: self.number() }
    }

    fn lanes(&mut self) -> Lanes {
        match self.below(3) {
            0 => Lanes::none(),
            1 => Lanes::hilo(self.number()),
            _ => Lanes::manual((0..self.below(3)).map(|number| self.lane(number)).collect()),
        }
    }

    fn lane(&mut self, number: u64) -> Lane {
        let limit = |nonsense: &mut Nonsense| match nonsense.below(3) {
            0 => None,
            1 => Some(Limit::Count(nonsense.one_of(&[0, 1, u32::MAX]))),
            _ => Some(Limit::Percent(nonsense.number())),
        };
        Lane {
            name: format!("lane{number}"),
            limit: limit(self),
            guarantee: limit(self),
            max_queued: self.some(&[0, 1, u32::MAX]),
            queue_timeout: self.0.chance(0.3).then(|| self.limit()),
        }
    }

    fn terms(&mut self) -> Terms {
        let (low, high) = (i32::MIN, i32::MAX);
        let to = self.one_of(&["class0", "class1", "default", "control", ""]).to_owned();
        let then = [Then::Cancel, Then::Cascade(to.clone()), Then::Resubmit(to)][self.0.index(3)].clone();
        Terms {
            priority: self.one_of(&[low, -1, 0, high]),
            may_ask: self.one_of(&[(0, 0), (low, high), (high, low)]),
            thresholds: self.thresholds(),
            adjustment: self.one_of(&[low, -1, 5, high]),
            lane: self.some(&["lane0", "lane1", "", "default"]).map(str::to_owned),
            share: self.number(),
            weight: self.weight(),
            max_running: self.some(&[0, 1, u32::MAX]),
            max_queued: self.some(&[0, 1, u32::MAX]),
            queue_timeout: self.0.chance(0.3).then(|| self.limit()),
            refuse_late: self.0.chance(0.3),
            cap: self.0.chance(0.4).then(|| Cap { runtime: self.limit(), then }),
            max_memory: None,
            chosen_by: Vec::new(),
            violation_target: self.0.chance(0.3).then(|| self.number()),
        }
    }

    fn thresholds(&mut self) -> Thresholds {
        Thresholds {
            period: self.0.chance(0.2).then(|| self.limit()),
            duration: self.0.chance(0.2).then(|| self.limit()),
            segments: self.some(&[0, u32::MAX]),
            segment_range: self.0.chance(0.2).then(|| self.limit()),
            work: self.0.chance(0.3).then(|| self.number()),
            latency: self.0.chance(0.3).then(|| self.limit()),
        }
    }

    fn weight(&mut self) -> Weight {
        Weight {
            constant: self.number(),
            priority_doubles: self.number(),
            work: self.number(),
            load: self.number(),
            cached: self.number(),
            used: self.number(),
            quota: self.0.chance(0.3).then(|| Quota { work: self.number(), per: self.limit() }),
        }
    }

    fn claim(&mut self) -> Claim {
        let scan = self.0.chance(0.5).then(|| Scan {
            reach: self.0.chance(0.7).then(|| self.limit()),
            duration: self.0.chance(0.7).then(|| self.limit()),
            segments: self.some(&[0, u32::MAX]),
            segment_range: self.0.chance(0.7).then(|| self.limit()),
        });
        let user = UserId(self.one_of(&[0, 1, u64::MAX]));
        Claim { user, priority: self.some(&[i32::MIN, -1, 0, i32::MAX]), scan, writes: false }
    }

    fn spec(&mut self) -> Spec {
        let minimum = self.limit();
        Spec {
            name: String::new(),
            units: Units(self.one_of(&[0, 1, u32::MAX])),
            slots: self.one_of(&[0, 1, 2, u32::MAX]),
            price: Price { per_unit_hour: 0.375, minimum },
            killable: self.0.chance(0.5),
            offer: None,
            writer: false,
        }
    }

    fn event(&mut self, ground: u64, now: Time) -> Event {
        let (query, cluster) = (self.query(), self.cluster());
        let generation = Generation(self.below(3) as u32);
        let session = SessionId(self.below(5));
        match self.below(44) {
            0..=9 => {
                let class = ClassId(self.one_of(&[0, 1, 2, 5, u32::MAX]));
                let slo = self.0.chance(0.5).then(|| self.limit());
                let fingerprint = Fingerprint(0);
                let (claim, traits) = (self.claim(), self.traits());
                Event::Arrived(Query { id: query, session, fingerprint, kind: Kind::Select, class, slo, claim, traits })
            }
            10..=12 => Event::Bounced { query, cluster, lost: self.0.chance(0.3) },
            13..=20 => {
                Event::Finished { query, outcome: self.outcome(), blocked: Span::ZERO, pinned: self.0.chance(0.3) }
            }
            21..=22 => Event::Cancel { query },
            23 => Event::SessionEnded { session },
            24..=25 => Event::ClusterWanted(self.spec()),
            26..=30 => Event::ClusterReady { cluster, generation },
            31 => Event::ClusterLost { cluster, generation, cause: LossCause::Unreachable },
            32 if self.below(3) == 0 => Event::ClusterDown { cluster, generation },
            32 => Event::ClusterStopped { cluster, generation },
            33 if self.below(2) == 0 => Event::ClusterBurns { cluster, generation, burns: self.0.chance(0.7) },
            34 if self.below(2) == 0 => Event::ClusterRanAway { cluster, generation },
            33..=34 => Event::DrainWanted { cluster },
            35 if self.0.chance(0.1) => Event::ShutdownWanted { within: self.limit() },
            36 => Event::PolicyAdopted(Box::new(self.policy())),
            37 => Event::ModelAdopted(ModelId(self.below(4))),
            38..=40 => Event::PlanAdopted(Box::new(self.plan(ground, now))),
            41 if self.below(3) == 0 => Event::PlanDropped,
            _ => Event::Woke,
        }
    }

    fn traits(&mut self) -> Option<Box<Traits>> {
        let value = self.one_of(&[0.0, 1.0, f32::NAN, f32::INFINITY, f32::MIN]);
        self.0.chance(0.8).then(|| Box::new(Traits { text: 0, features: [value; FEATURES] }))
    }

    fn outcome(&mut self) -> Outcome {
        let choices = [
            Outcome::Finished { rows: u64::MAX, bytes: u64::MAX },
            Outcome::Failed { sqlstate: SqlState([0xff; 5]), rows: 0, bytes: 0 },
            Outcome::Lost,
        ];
        self.one_of(&choices)
    }

    fn step(&mut self, now: Time) -> Time {
        let ahead = self.one_of(&[0, 0, 1, 1_000, 1_000_000, 40_000_000]);
        let back = if self.0.chance(0.05) { 5_000_000 } else { 0 };
        Time::from_micros((now.micros() + ahead).saturating_sub(back))
    }
}

#[test]
fn whatever_it_is_told_the_dispatcher_keeps_its_invariants_and_ends_each_query_once() {
    for seed in 0..2_000 {
        let mut nonsense = Nonsense(Rng::numbered(seed, 3 << 32));
        let mut dispatcher = Dispatcher::new(seed, nonsense.policy());
        models::provide(&mut dispatcher);
        let (mut now, mut live) = (Time::ZERO, BTreeSet::new());
        for number in 0..150 {
            now = nonsense.step(now);
            // What is due fires by itself first, so that an id that comes again is known to be free or not.
            let event = nonsense.event(dispatcher.policy().ground(), now);
            for event in [Event::Woke, event] {
                let place = format!("seed {seed}, event {number}");
                handle(&mut dispatcher, now, event, &mut live, &place);
            }
        }
    }
}

/// Handles an event and checks what must hold; `live` are the queries that have not ended.
fn handle(dispatcher: &mut Dispatcher, now: Time, event: Event, live: &mut BTreeSet<QueryId>, place: &str) {
    let mut commands = Vec::new();
    dispatcher.handle(now, event.clone(), &mut commands);
    let place = format!("{place}, at {now}: {event:?} -> {commands:?}");
    assert_eq!(check(dispatcher), [], "{place}");
    if let Event::Arrived(query) = &event {
        // One whose id is live already is not taken in a second time.
        live.insert(query.id);
    }
    for command in &commands {
        if let Command::Record(ended) = command {
            assert!(live.remove(&ended.query.id), "{place}");
        }
    }
    let known: BTreeSet<QueryId> = dispatcher.view(now).queries.iter().map(|query| query.id).collect();
    assert_eq!(known, *live, "{place}");
    assert!(dispatcher.cost(now) >= 0.0, "{place}");
}
