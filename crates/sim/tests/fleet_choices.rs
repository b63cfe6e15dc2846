//! The lean loop and the dispatcher choose alike: the same tasks, the same seed, the same servers.
//!
//! The dispatcher's clusters stand here for servers of the lean loop: they take whatever is sent to them and work on one query
//! after the other, they start in a fixed time and stop at once. Times are whole numbers of ticks, of which 2²⁰ make a mean
//! service time, so that both sides count without rounding. What is due at one instant comes in the lean loop's order: ends of
//! services, then of setups, then of standby times, then arrivals.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use punctual_core::admit::claim::Claim;
use punctual_core::billing::Price;
use punctual_core::check::check;
use punctual_core::class::DEFAULT;
use punctual_core::cluster::Spec;
use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event, Outcome};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::fleet::{Found, Placement};
use punctual_core::id::{ClusterId, Generation, QueryId, SessionId, Units};
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::query::Query;
use punctual_core::rng::Rng;
use punctual_core::route::Routing;
use punctual_core::scale::Scaling;
use punctual_core::statement::Kind;
use punctual_core::time::{Span, Time};
use punctual_sim::fleet::{Arrivals, Delay, Scheme, ServiceTime, Setting, Watch, run};
use punctual_sim::journal::{Entry, replay};

/// Ticks in a mean service time.
const TICK: f64 = (1u64 << 20) as f64;

/// What comes, in ticks, and how long the rest takes.
struct Story {
    servers: u32,
    arrivals: Vec<u64>,
    services: Vec<u64>,
    standby: u64,
    setup: u64,
}

impl Story {
    /// Random arrivals and services, with lulls in which servers turn off.
    fn new(seed: u64, servers: u32, load: f64) -> Story {
        let mut rng = Rng::numbered(seed, 9 << 32);
        let mut at = 0;
        let mut next = |number: u64| {
            let mean = if number % 400 < 300 { 1.0 } else { 6.0 } / (load * f64::from(servers));
            at += (rng.exponential(mean) * TICK) as u64;
            at
        };
        let arrivals: Vec<u64> = (0..2_000).map(&mut next).collect();
        let services = arrivals.iter().map(|_| (rng.exponential(1.0) * TICK) as u64 + 1).collect();
        Story { servers, arrivals, services, standby: 3 << 20, setup: 2 << 20 }
    }
}

#[derive(Default)]
struct Written(Vec<Placement>);

impl Watch for Written {
    fn placed(&mut self, _at: f64, placement: Placement) {
        self.0.push(placement);
    }
}

/// What the lean loop chooses.
fn lean(story: &Story, scheme: Scheme, seed: u64) -> Vec<Placement> {
    let ticks = |ticks: u64| ticks as f64 / TICK;
    let times = |times: &[u64]| times.iter().map(|time| ticks(*time)).collect::<Vec<f64>>();
    let setting = Setting {
        scheme,
        arrivals: Arrivals::Trace(times(&story.arrivals).into()),
        service: ServiceTime::Trace(times(&story.services).into()),
        standby: Delay::Fixed(ticks(story.standby)),
        setup: Delay::Fixed(ticks(story.setup)),
        horizon: ticks(story.arrivals[story.arrivals.len() - 1]) + 1.0,
        ..Setting::new(story.servers, 0.0)
    };
    let mut written = Written::default();
    run(&setting, seed, &mut written).expect("it can be run");
    written.0
}

/// What is due, in the lean loop's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Ends(ClusterId),
    Starts(ClusterId),
    Wakes,
    Arrives(usize),
}

/// The dispatcher with clusters that work on one query after the other.
struct Servers<'a> {
    story: &'a Story,
    dispatcher: Dispatcher,
    agenda: BTreeSet<(u64, Due)>,
    at: BTreeMap<ClusterId, VecDeque<QueryId>>,
    /// What each command told, for the arrival that is looked at.
    ran: Option<ClusterId>,
    started: Option<ClusterId>,
    journal: Vec<Entry>,
}

fn spec() -> Spec {
    let (name, price) = ("server".to_owned(), Price::default());
    Spec { offer: Some(name.clone()), name, units: Units(1), slots: 1_000_000, price, killable: true, writer: false }
}

impl<'a> Servers<'a> {
    fn new(story: &'a Story, routing: Routing, seed: u64) -> Servers<'a> {
        let policy = policy(story, routing);
        let agenda = story.arrivals.iter().enumerate().map(|(at, time)| (*time, Due::Arrives(at))).collect();
        let (dispatcher, at, journal) = (Dispatcher::new(seed, policy), BTreeMap::new(), Vec::new());
        let mut servers = Servers { story, dispatcher, agenda, at, ran: None, started: None, journal };
        (0..story.servers).for_each(|_| servers.tell(0, Event::ClusterWanted(spec())));
        // These are there from the start.
        servers.agenda.retain(|(_, due)| !matches!(due, Due::Starts(_)));
        for id in 0..story.servers {
            servers.tell(0, Event::ClusterReady { cluster: ClusterId(id), generation: Generation(0) });
        }
        servers
    }

    /// Tells the dispatcher and does what it says.
    fn tell(&mut self, now: u64, event: Event) {
        let mut commands = Vec::new();
        self.dispatcher.handle(Time::from_micros(now), event.clone(), &mut commands);
        for command in &commands {
            match command {
                Command::Run { query, cluster } => {
                    self.ran = Some(*cluster);
                    let queue = self.at.get_mut(cluster).expect("it is on");
                    queue.push_back(*query);
                    if queue.len() == 1 {
                        self.serve(now, *cluster);
                    }
                }
                Command::Start { cluster, .. } => {
                    self.started = Some(*cluster);
                    self.at.insert(*cluster, VecDeque::new());
                    self.agenda.insert((now + self.story.setup, Due::Starts(*cluster)));
                }
                Command::Record(_) => {}
                Command::Stop { cluster, .. } => assert!(self.at.remove(cluster).is_some_and(|queue| queue.is_empty())),
                other => panic!("{other:?}"),
            }
        }
        let stopped: Vec<Event> = commands
            .iter()
            .filter_map(|command| match command {
                Command::Stop { cluster, generation, .. } => {
                    Some(Event::ClusterStopped { cluster: *cluster, generation: *generation })
                }
                _ => None,
            })
            .collect();
        self.journal.push(Entry { now: Time::from_micros(now), event, commands });
        stopped.into_iter().for_each(|event| self.tell(now, event));
    }

    /// The first query of a cluster begins.
    fn serve(&mut self, now: u64, cluster: ClusterId) {
        if let Some(QueryId(number)) = self.at[&cluster].front() {
            self.agenda.insert((now + self.story.services[*number as usize], Due::Ends(cluster)));
        }
    }

    /// Goes on to the next arrival, and says where it went and what started. None when all have come.
    fn next(&mut self) -> Option<(Option<ClusterId>, Option<ClusterId>)> {
        loop {
            let wakes = self.dispatcher.next_wakeup().map(|at| (at.micros(), Due::Wakes));
            let first = self.agenda.first().copied()?;
            let (now, due) = wakes.map_or(first, |wakes| wakes.min(first));
            if due != Due::Wakes {
                self.agenda.pop_first();
            }
            (self.ran, self.started) = (None, None);
            match due {
                Due::Ends(cluster) => {
                    let query = self.at.get_mut(&cluster).and_then(VecDeque::pop_front).expect("one ran there");
                    self.serve(now, cluster);
                    let outcome = Outcome::Finished { rows: 0, bytes: 0 };
                    self.tell(now, Event::Finished { query, outcome, blocked: Span::ZERO, pinned: false });
                }
                Due::Starts(cluster) => self.tell(now, Event::ClusterReady { cluster, generation: Generation(0) }),
                Due::Wakes => self.tell(now, Event::Woke),
                Due::Arrives(number) => {
                    self.tell(now, Event::Arrived(query(number as u64)));
                    assert_eq!(check(&self.dispatcher), []);
                    return Some((self.ran, self.started));
                }
            }
        }
    }
}

fn policy(story: &Story, routing: Routing) -> Policy {
    let scaling = Scaling {
        mode: if routing.tokens().is_some() { Mode::On } else { Mode::Off },
        offers: vec![spec()],
        standby: Span::from_micros(story.standby),
        least: 0,
        most: story.servers,
        ..Scaling::default()
    };
    Policy {
        routing,
        scaling,
        max_waiting: 1_000_000,
        wait_limit: Span::from_secs(1_000_000),
        start_limit: Span::from_secs(1_000_000),
        decisions_kept: 0,
        ..Policy::default()
    }
}

fn query(number: u64) -> Query {
    let (id, session, fingerprint, claim) = (QueryId(number), SessionId(number), Fingerprint(1), Claim::default());
    Query { id, session, fingerprint, kind: Kind::Select, class: DEFAULT, slo: None, claim, traits: None }
}

/// Holds every choice of the one against the other's; how many tasks found one idle, one busy, none, and how many starts
/// there were.
fn compared(story: &Story, scheme: Scheme, routing: Routing, seed: u64) -> [usize; 4] {
    let lean = lean(story, scheme, seed);
    assert_eq!(lean.len(), story.arrivals.len());
    let mut servers = Servers::new(story, routing, seed);
    // Which server a cluster is: for the first ones their number, for the others the one that the lean loop starts.
    let mut server: BTreeMap<ClusterId, u32> = (0..story.servers).map(|number| (ClusterId(number), number)).collect();
    let mut counts = [0; 4];
    for (number, placement) in lean.iter().enumerate() {
        let (ran, started) = servers.next().expect("as many come");
        let went = ran.map(|cluster| server[&cluster]);
        let at = match placement.on {
            Found::Idle(server) => (0, Some(server)),
            Found::Busy(server) => (1, Some(server)),
            Found::Nothing => (2, None),
        };
        assert_eq!((went, started.is_some()), (at.1, placement.start.is_some()), "task {number} of {scheme:?}");
        counts[at.0] += 1;
        if let (Some(cluster), Some(place)) = (started, placement.start) {
            server.insert(cluster, place);
            counts[3] += 1;
        }
    }
    let again = replay(Dispatcher::new(seed, policy(story, routing)), &servers.journal);
    assert_eq!(again.as_ref(), Ok(&servers.dispatcher));
    counts
}

#[test]
fn under_tabs_the_lean_loop_and_the_dispatcher_choose_alike() {
    for (seed, servers, load) in [(1, 10, 0.3), (2, 10, 0.8), (3, 2, 0.5), (4, 40, 0.6), (5, 1, 0.7)] {
        let [idle, busy, nothing, starts] =
            compared(&Story::new(seed, servers, load), Scheme::Tabs, Routing::Tabs, seed);
        assert!(idle > 100 && busy > 100, "{idle} found one idle, {busy} a busy one");
        assert!(starts > 20, "{starts} starts");
        assert!(servers > 2 || nothing > 10, "{nothing} found none on");
    }
}

#[test]
fn under_the_other_policies_too() {
    for (scheme, routing) in
        [(Scheme::Jiq, Routing::Jiq), (Scheme::P2c, Routing::P2c), (Scheme::Random, Routing::Random)]
    {
        let [idle, busy, nothing, starts] = compared(&Story::new(6, 12, 0.8), scheme, routing, 6);
        assert!(idle > 100 && busy > 100, "{scheme:?}: {idle} found one idle, {busy} a busy one");
        assert_eq!((nothing, starts), (0, 0));
    }
    let [idle, busy, nothing, starts] = compared(&Story::new(7, 12, 0.6), Scheme::DelayedOff, Routing::DelayedOff, 7);
    assert!(idle > 100 && busy == 0 && nothing > 100 && starts > 20, "{idle} {busy} {nothing} {starts}");
}
