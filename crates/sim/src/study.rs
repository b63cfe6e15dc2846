//! What starting a cluster would change: a short simulation for each offer, and for doing nothing (AutoSLO, section 6.3,
//! Algorithm 3).
//!
//! ```text
//!            window       asked for     the new one is ready            drained
//!   ────├───────────────┤·············│·····························│
//!         a  b    c        a  b    c  │     a  b    c      a  b     │
//!                       └── shared ───┘└─ once for each offer ──────┘
//! ```
//!
//! What came within the window comes again and again, on a fork of the dispatcher. Copy k is shifted by k + 1 windows (the
//! printed line 4 shifts the first by none, which replays the past; Figure 4 has it right). What happens until the new
//! cluster is there does not depend on it and is simulated once.
//!
//! Queries end when their predictive distribution says, and coherently: each draws one number, and its end moves with
//! what is expected of it as others come; never a new draw. So all offers meet the same arrivals and the same luck. They
//! see the same arrivals, up to the one at which doing nothing has ended as many as are asked for, and are then drained: their
//! costs cover the same work.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::class::CONTROL;
use punctual_core::cluster::{Phase, Spec};
use punctual_core::dispatcher::Study;
use punctual_core::event::{Command, Event, Outcome};
use punctual_core::id::{ClusterId, Generation, QueryId, SessionId};
use punctual_core::query::{Query, SqlState};
use punctual_core::rng::Rng;
use punctual_core::scale::{Answer, Prospect, Selector};
use punctual_core::{Dispatcher, Span, Time};

use crate::life::Life;

/// The most often that the window comes again.
const COPIES: usize = 30;

/// Steps of predictions after which no more arrivals come than must: one for each query that runs when another comes. A study with this
/// many takes some tenths of a second. Where more comes than can end, every arrival meets more than the last one, and thirty windows of that
/// would take minutes, in which what is to be decided has long been decided otherwise.
const STEPS: usize = 100_000;

/// Ids of copies begin here: no gateway gives such ids.
const COPIED: u64 = 1 << 63;

/// Streams of chance for queries begin here.
const DRAWS: u64 = 1 << 44;

/// Makes a study. `seed` is what its chance begins with.
pub fn run(study: &Study, seed: u64) -> Answer {
    let mut before = Course::new(study, seed);
    let ready = study.at + study.rules.start_takes;
    before.open_what_starts();
    before.until(ready);
    let mut nothing = before.clone();
    nothing.until_ended(study.rules.completions);
    let arrivals = nothing.come;
    let mut prospects = vec![nothing.drained(None)];
    for (number, offer) in study.rules.offers.iter().enumerate() {
        let mut course = before.clone();
        course.open(offer, study.rules.selector == Selector::Vertical);
        while course.come < arrivals && course.step() {}
        prospects.push(course.drained(Some(number as u32)));
    }
    Answer { prospects }
}

/// One way that things may go.
#[derive(Clone)]
struct Course<'a> {
    study: &'a Study,
    dispatcher: Dispatcher,
    seed: u64,
    now: Time,
    /// Arrivals that have come.
    come: usize,
    /// When queries end.
    ends: BTreeSet<(Time, QueryId)>,
    known: BTreeMap<QueryId, Life>,
    /// Queries that were told to stop.
    cut_short: BTreeSet<QueryId>,
    /// Queries that came when the new cluster is there, have an SLO and have ended; and the late ones of them.
    counted: (u32, u32),
    commands: Vec<Command>,
}

impl<'a> Course<'a> {
    /// From now on, with what runs.
    fn new(study: &'a Study, seed: u64) -> Course<'a> {
        let mut course = Course {
            study,
            dispatcher: study.fork.clone(),
            seed,
            now: study.at,
            come: 0,
            ends: BTreeSet::new(),
            known: BTreeMap::new(),
            cut_short: BTreeSet::new(),
            counted: (0, 0),
            commands: Vec::new(),
        };
        for query in study.fork.running().collect::<Vec<_>>() {
            course.expect(query);
        }
        course
    }

    /// Goes on until then.
    fn until(&mut self, end: Time) {
        while self.next().is_some_and(|at| at < end) {
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// Goes on until so many that count have ended, or nothing comes any more, or so many have come and all of it is too much work.
    fn until_ended(&mut self, count: u32) {
        let (least, mut steps) = (self.come + count as usize, 0);
        while self.counted.1 < count && (self.come < least || steps < STEPS) && self.arrival().is_some() {
            let come = self.come;
            if !self.step() {
                break;
            }
            steps += if self.come > come { self.known.len() } else { 0 };
        }
    }

    /// Lets all that is there end: what came of it.
    fn drained(mut self, offer: Option<u32>) -> Prospect {
        let (last, mut end) = (self.come, self.now);
        while let Some((at, _)) = self.ends.first().copied() {
            end = end.max(at);
            self.now = self.now.max(at);
            self.end();
            debug_assert_eq!(self.come, last);
        }
        let minimum = self.study.rules.offers.iter().map(|offer| offer.price.minimum).max().unwrap_or(Span::ZERO);
        let cost = self.dispatcher.cost(end + minimum) - self.study.fork.cost(self.study.at);
        let size = offer.and_then(|offer| self.study.rules.offers.get(offer as usize)).map(|offer| offer.units);
        let (late, all) = self.counted;
        Prospect { offer, size, late_share: f64::from(late) / f64::from(all.max(1)), cost }
    }

    /// What starts already, by a plan say, will be there before the new one.
    fn open_what_starts(&mut self) {
        let view = self.dispatcher.view(self.now);
        let starting = view.clusters.iter().filter(|cluster| cluster.phase == Phase::Starting);
        let takes = self.study.rules.start_takes;
        let mut ready: Vec<_> =
            starting.map(|cluster| (cluster.since + takes, cluster.id, Generation(cluster.generation))).collect();
        ready.sort_unstable();
        for (at, cluster, generation) in ready {
            self.until(at);
            self.handle(Event::ClusterReady { cluster, generation });
        }
    }

    /// The new cluster is there; `alone`: and takes the place of all that can be stopped.
    fn open(&mut self, offer: &Spec, alone: bool) {
        if alone {
            let view = self.dispatcher.view(self.now);
            let stop = |cluster: &&punctual_core::view::ClusterView| cluster.phase == Phase::Ready && cluster.elastic;
            for cluster in view.clusters.iter().filter(stop).map(|cluster| cluster.id).collect::<Vec<_>>() {
                self.handle(Event::DrainWanted { cluster });
            }
        }
        let spec = Spec { offer: Some(offer.name.clone()), ..offer.clone() };
        self.handle(Event::ClusterWanted(spec));
        let started = self.commands.iter().find_map(|command| match command {
            Command::Start { cluster, generation, .. } => Some((*cluster, *generation)),
            _ => None,
        });
        if let Some((cluster, generation)) = started {
            self.handle(Event::ClusterReady { cluster, generation });
        }
    }

    /// When the next thing happens.
    fn next(&self) -> Option<Time> {
        let end = self.ends.first().map(|(at, _)| *at);
        [end, self.arrival(), self.dispatcher.next_wakeup()].into_iter().flatten().min()
    }

    /// Lets the next thing happen; false if nothing is left that could.
    fn step(&mut self) -> bool {
        let (end, arrival) = (self.ends.first().map(|(at, _)| *at), self.arrival());
        let Some(at) = self.next() else { return false };
        self.now = self.now.max(at);
        if end == Some(at) {
            self.end();
        } else if arrival == Some(at) {
            self.arrive();
        } else {
            self.handle(Event::Woke);
        }
        true
    }

    /// When the next query comes.
    fn arrival(&self) -> Option<Time> {
        let count = self.study.arrivals.len();
        if count == 0 || self.come >= COPIES * count {
            return None;
        }
        let copies = (self.come / count) as u64 + 1;
        let shift = Span::from_micros(self.study.width.micros().saturating_mul(copies));
        Some(self.study.arrivals[self.come % count].0 + shift)
    }

    fn arrive(&mut self) {
        let (_, query) = &self.study.arrivals[self.come % self.study.arrivals.len()];
        let number = COPIED + self.come as u64;
        self.come += 1;
        let query = Query { id: QueryId(number), session: SessionId(number), ..query.clone() };
        if query.class != CONTROL {
            self.handle(Event::Arrived(query));
        }
    }

    /// The query whose time has come ends.
    fn end(&mut self) {
        let Some((_, query)) = self.ends.pop_first() else { return };
        self.known.remove(&query);
        let outcome = match self.cut_short.remove(&query) {
            true => Outcome::Failed { sqlstate: SqlState(*b"57014"), rows: 0, bytes: 0 },
            false => Outcome::Finished { rows: 0, bytes: 0 },
        };
        self.handle(Event::Finished { query, outcome, blocked: Span::ZERO, pinned: false });
    }

    fn handle(&mut self, event: Event) {
        self.commands.clear();
        self.dispatcher.handle(self.now, event, &mut self.commands);
        let ready = self.study.at + self.study.rules.start_takes;
        let mut placed: Vec<(QueryId, ClusterId)> = Vec::new();
        for command in &self.commands {
            match command {
                Command::Run { query, cluster } => placed.push((*query, *cluster)),
                // Its class cuts it short. It stops at once.
                Command::Cancel { query, .. } => {
                    if let Some(life) = self.known.remove(query) {
                        self.ends.remove(&(life.end, *query));
                    }
                    self.ends.insert((self.now, *query));
                    self.cut_short.insert(*query);
                }
                Command::Record(ended) => {
                    if let Some(life) = self.known.remove(&ended.query.id) {
                        self.ends.remove(&(life.end, ended.query.id));
                    }
                    if let Some(late) = ended.violated.filter(|_| ended.arrived >= ready) {
                        self.counted = (self.counted.0 + u32::from(late), self.counted.1 + 1);
                    }
                }
                _ => {}
            }
        }
        for (query, cluster) in placed {
            self.expect(query);
            self.put_off(cluster);
        }
    }

    /// Draws when a query ends that has been placed.
    fn expect(&mut self, query: QueryId) {
        let Some((_, placed, prediction)) = self.dispatcher.outlook(query) else {
            // Nothing is expected of it: it matters to nobody.
            self.ends.insert((self.now, query));
            return;
        };
        let share = 1.0 - Rng::numbered(self.seed, DRAWS.wrapping_add(query.0)).unit();
        let life = Life::new(placed, prediction, self.now, share);
        self.ends.insert((life.end, query));
        self.known.insert(query, life);
    }

    /// Those that run on a cluster end at other times by what has come there.
    fn put_off(&mut self, cluster: ClusterId) {
        for (query, _, prediction) in self.dispatcher.outlooks(cluster) {
            let Some(life) = self.known.get_mut(&query).filter(|life| life.prediction != prediction) else { continue };
            self.ends.remove(&(life.end, query));
            life.go_on(self.now, prediction);
            self.ends.insert((life.end, query));
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::admit::claim::Claim;
    use std::sync::Arc;

    use punctual_core::billing::Price;
    use punctual_core::class::DEFAULT;
    use punctual_core::fingerprint::Fingerprint;
    use punctual_core::id::{Generation, ModelId, Units};
    use punctual_core::math;
    use punctual_core::mode::Mode;
    use punctual_core::policy::Policy;
    use punctual_core::predict::features::FEATURES;
    use punctual_core::predict::model::{Model, Parts};
    use punctual_core::predict::net::{Layout, Shape};
    use punctual_core::predict::stage::Stage;
    use punctual_core::query::Traits;
    use punctual_core::route::{Counting, Routing};
    use punctual_core::scale::Scaling;
    use punctual_core::statement::Kind;

    use super::*;

    /// Every query is 40 seconds of work on one unit, shared by all that run.
    fn model() -> Arc<Model> {
        let shape = Shape { known: 0, hidden: 16 };
        let mut stage = Stage { spreads: [0.1; 4], ..Stage::default() };
        stage.trees.start = math::ln(40.0);
        let weights = vec![0.0; Layout::of(shape).total()];
        let parts = Parts { stage, known: Vec::new(), hidden: 16, weights, spread_scales: [1.0; 2] };
        Arc::new(Model::new(parts).expect("sound parts"))
    }

    fn offer(units: u32) -> Spec {
        let name = format!("spare{units}");
        let price = Price::default();
        Spec {
            offer: Some(name.clone()),
            name,
            units: Units(units),
            slots: 1_000,
            price,
            killable: true,
            writer: false,
        }
    }

    fn rules() -> Scaling {
        let offers = [4, 8, 16].map(offer).into();
        Scaling { mode: Mode::On, offers, late_share: 2.0, completions: 50, ..Scaling::default() }
    }

    /// A cluster of four units to which a query comes every `gap` seconds for five minutes, due within a minute.
    fn study(gap: u64, scaling: Scaling) -> Study {
        let counting = Counting::Median;
        let policy = Policy {
            routing: Routing::Slo,
            counting,
            scaling,
            wait_limit: Span::from_secs(9_000),
            ..Policy::default()
        };
        let mut dispatcher = Dispatcher::new(1, policy);
        dispatcher.provide(ModelId(1), model());
        let mut commands = Vec::new();
        let mut does = |at: u64, event| dispatcher.handle(Time::from_micros(at * 1_000_000), event, &mut commands);
        does(0, Event::ModelAdopted(ModelId(1)));
        does(0, Event::ClusterWanted(offer(4)));
        does(0, Event::ClusterReady { cluster: ClusterId(0), generation: Generation(0) });
        let mut last = None;
        for number in 0..300 / gap {
            let traits = Some(Box::new(Traits { text: number, features: [0.0; FEATURES] }));
            let (id, session, slo) = (QueryId(number), SessionId(number), Some(Span::from_secs(60)));
            let (fingerprint, kind, class) = (Fingerprint(1), Kind::Select, DEFAULT);
            // Where they come seldom, each has ended when the next one comes.
            if let Some(query) = last.filter(|_| gap > 10) {
                let outcome = Outcome::Finished { rows: 0, bytes: 0 };
                does((number - 1) * gap + 10, Event::Finished { query, outcome, blocked: Span::ZERO, pinned: false });
            }
            does(
                number * gap,
                Event::Arrived(Query { id, session, fingerprint, kind, class, slo, claim: Claim::default(), traits }),
            );
            last = Some(id);
        }
        does(300, Event::Woke);
        dispatcher.study()
    }

    #[test]
    fn under_load_more_helps_and_the_answer_is_what_the_target_asks_for() {
        // Work comes twice as fast as four units can do it.
        let answer = run(&study(5, rules()), 1);
        let shares: Vec<f64> = answer.prospects.iter().map(|prospect| prospect.late_share).collect();
        assert!(shares[0] > 0.7 && shares[1] < shares[0] && shares[2].max(shares[3]) < 0.1, "{shares:?}");
        let best = answer.best(0.1).expect("one is better") as usize;
        let cost = |at: usize| answer.prospects[at].cost;
        assert_eq!(best, if cost(2) < cost(3) { 1 } else { 2 }, "of those that meet the target the cheapest");
        assert!(answer.prospects.iter().all(|prospect| prospect.cost > 0.0));
    }

    #[test]
    fn without_load_nothing_is_better_than_nothing() {
        let answer = run(&study(30, rules()), 1);
        assert_eq!((answer.prospects[0].late_share, answer.best(0.05)), (0.0, None));
    }

    #[test]
    fn a_study_is_a_function_of_its_start_and_its_seed() {
        let study = study(5, rules());
        assert_eq!(run(&study, 7), run(&study, 7));
        assert_ne!(run(&study, 7), run(&study, 8));
    }

    #[test]
    fn a_larger_one_may_take_the_place_of_the_others() {
        let beside = run(&study(5, rules()), 1);
        let instead = run(&study(5, Scaling { selector: Selector::Vertical, ..rules() }), 1);
        assert_eq!(beside.prospects[0], instead.prospects[0]);
        // Four units in the place of four are fewer than eight.
        assert!(instead.prospects[1].late_share > beside.prospects[1].late_share + 0.1, "{instead:?} {beside:?}");
    }

    #[test]
    fn predictions_without_bound_have_an_end() {
        let mut stage = Stage { spreads: [9.0; 4], ..Stage::default() };
        stage.trees.start = 300.0;
        let weights = vec![0.0; Layout::of(Shape { known: 0, hidden: 16 }).total()];
        let parts = Parts { stage, known: Vec::new(), hidden: 16, weights, spread_scales: [1.0; 2] };
        let mut study = study(30, rules());
        study.fork.provide(ModelId(2), Arc::new(Model::new(parts).expect("sound parts")));
        let mut commands = Vec::new();
        study.fork.handle(study.at, Event::ModelAdopted(ModelId(2)), &mut commands);
        // One that starts and never will: it fails and is tried again for as long as time goes on.
        study.fork.handle(study.at, Event::ClusterWanted(offer(4)), &mut commands);
        let most = 30.0 * 86_400.0 / 3_600.0 * 100.0;
        assert!(run(&study, 1).prospects.iter().all(|prospect| prospect.cost < most));
    }

    #[test]
    fn where_more_comes_than_can_end_a_study_is_cut_short() {
        let study = study(1, rules());
        let mut course = Course::new(&study, 1);
        course.until(study.at + study.rules.start_takes);
        let before = course.come;
        course.until_ended(600);
        // 540 run by then, and one more with each that comes.
        assert_eq!(course.come - before, 600, "as many as must come");
        let mut course = Course::new(&study, 1);
        course.until(study.at + study.rules.start_takes);
        course.until_ended(50);
        assert!((50..400).contains(&(course.come - before)), "{} of {}", course.come - before, course.known.len());
    }

    #[test]
    fn odd_starts_have_answers() {
        let mut empty = study(5, rules());
        empty.arrivals.clear();
        let answer = run(&empty, 1);
        assert_eq!((answer.prospects.len(), answer.prospects[0].late_share), (4, 0.0));
        let mut burst = study(5, rules());
        let query = burst.arrivals[0].1.clone();
        burst.arrivals = vec![(burst.at, query); 1_000];
        burst.width = Span::from_secs(1);
        burst.rules.start_takes = Span::from_secs(2);
        assert!(run(&burst, 1).prospects.iter().all(|prospect| prospect.cost.is_finite()));
        let mut never = study(5, rules());
        never.rules.start_takes = Span::from_secs(1 << 30);
        assert!(run(&never, 1).prospects.iter().all(|prospect| prospect.late_share == 0.0));
    }
}
