//! A notation for what happens to a dispatcher, and what it does.
//!
//! A story is a few lines, each an instant and an event; [`check`] tells it to a dispatcher, lets timers fire in between,
//! and writes down the commands in time order beside it. Queries are `class#number`, in a session of their own unless
//! they say `in s1`; classes come into being when they are named; clusters are called by their names, a replacement
//! gets a prime.
//!
//! ```text
//!  max_waiting 1, wait_limit 10s                first line, optional: what differs from the default policy
//!  0s   a wanted, size 2, slots 1               2s  etl#1 arrives, slo 2s, in s1
//!  1s   a ready | a lost | a fails | a stopped  3s  etl#1 finishes | finishes, pinned | fails | is lost | bounces
//!  5s   a drains                                4s  etl#1 cancelled
//!  9s   shutdown, within 10s                    6s  s1 leaves
//!  20s  -                                       only time passes
//! ```
//!
//! After the first line come the lanes and the classes that are admitted on other terms than none:
//!
//! ```text
//!  lane etl: limit 1, guarantee 1, max_queued 1, queue_timeout 5s
//!  class etl: lane etl, max_running 1, max_queued 1, queue_timeout 5s, refuse_late, cap 10s, then cascade to slow
//! ```
//!
//! With `order fair` in the first line, queries are of the user that they say they are `of ann`.

use std::collections::BTreeMap;

use expect_test::Expect;
use punctual_core::admit::Order;
use punctual_core::admit::claim::Claim;
use punctual_core::admit::lanes::{Lane, Lanes, Limit};
use punctual_core::admit::terms::{Cap, Terms, Then};
use punctual_core::billing::Price;
use punctual_core::check::check as broken;
use punctual_core::class::{self, Class};
use punctual_core::cluster::Spec;
use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Abandoned, Command, Event, LossCause, Outcome, PinEnd};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, ClusterId, Generation, QueryId, SessionId, Units, UserId};
use punctual_core::policy::Policy;
use punctual_core::query::{Query, SqlState};
use punctual_core::route::Routing;
use punctual_core::statement::Kind;
use punctual_core::tag::parse_span;
use punctual_core::time::{Span, Time};

/// Tells the story and compares what is written down.
#[track_caller]
pub(crate) fn check(story: &str, expect: Expect) {
    let mut teller = Teller::new(story);
    let lines: Vec<&str> = story.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let events = lines.iter().skip_while(|line| !starts_with_time(line));
    for line in events {
        teller.tell(line);
    }
    expect.assert_eq(&teller.written);
}

struct Teller {
    dispatcher: Dispatcher,
    names: BTreeMap<ClusterId, (String, Generation)>,
    sessions: BTreeMap<String, SessionId>,
    users: BTreeMap<String, UserId>,
    queries: BTreeMap<QueryId, String>,
    written: String,
}

fn starts_with_time(line: &str) -> bool {
    line.split_whitespace().next().and_then(parse_span).is_some()
}

fn span(text: &str) -> Span {
    parse_span(text).unwrap_or_else(|| panic!("not a duration: {text}"))
}

/// The policy that a story's first line asks for, with a class for every one that is named in it.
fn policy(story: &str) -> Policy {
    let mut policy = Policy { routing: Routing::LeastOutstanding, decisions_kept: 10, ..Policy::default() };
    for (name, _) in story.split_whitespace().filter_map(|word| word.split_once('#')) {
        if class::find(&policy.classes, name).is_none() {
            policy.classes.push(Class { name: name.to_owned(), ..Class::default() });
        }
    }
    let lines = story.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut lanes = Vec::new();
    for line in lines.take_while(|line| !starts_with_time(line)) {
        match line.split_once(": ").map(|(what, terms)| (what.split_once(' '), terms)) {
            Some((Some(("lane", name)), terms)) => lanes.push(lane(name, terms)),
            Some((Some(("class", name)), terms)) => {
                let class = class::find(&policy.classes, name).unwrap_or_else(|| panic!("no query is of {name}"));
                policy.classes[class.0 as usize].terms = self::terms(terms);
            }
            _ => set(&mut policy, line),
        }
    }
    if !lanes.is_empty() {
        policy.lanes = Lanes::manual(lanes);
    }
    policy
}

/// A key and its value, for each of what is listed.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').map(|pair| pair.trim().split_once(' ').unwrap_or((pair.trim(), "")))
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))
}

fn lane(name: &str, text: &str) -> Lane {
    let mut lane = Lane { name: name.to_owned(), ..Lane::default() };
    for (key, value) in pairs(text) {
        match key {
            "limit" => lane.limit = Some(Limit::Count(number(value))),
            "guarantee" => lane.guarantee = Some(Limit::Count(number(value))),
            "max_queued" => lane.max_queued = Some(number(value)),
            "queue_timeout" => lane.queue_timeout = Some(span(value)),
            _ => panic!("lanes have no such key: {key}"),
        }
    }
    lane
}

fn terms(text: &str) -> Terms {
    let (mut terms, mut runtime) = (Terms::default(), Span::MAX);
    for (key, value) in pairs(text) {
        match key {
            "lane" => terms.lane = Some(value.to_owned()),
            "max_running" => terms.max_running = Some(number(value)),
            "max_queued" => terms.max_queued = Some(number(value)),
            "queue_timeout" => terms.queue_timeout = Some(span(value)),
            "refuse_late" => terms.refuse_late = true,
            "cap" => runtime = span(value),
            "then" => {
                let then = match value.split_once(" to ") {
                    None => Then::Cancel,
                    Some(("cascade", to)) => Then::Cascade(to.to_owned()),
                    Some((_, to)) => Then::Resubmit(to.to_owned()),
                };
                terms.cap = Some(Cap { runtime, then });
            }
            _ => panic!("classes have no such key: {key}"),
        }
    }
    terms
}

fn set(policy: &mut Policy, line: &str) {
    for (key, value) in pairs(line) {
        let number = || number(value);
        match key {
            "order" => policy.order = if value == "fair" { Order::Fair } else { Order::Fifo },
            "max_running" => policy.max_running = Some(number()),
            "routing" => policy.routing = Routing::named(value).unwrap_or_else(|| panic!("no such routing: {value}")),
            "max_waiting" => policy.max_waiting = number(),
            "control_slots" => policy.control_slots = number(),
            "max_clusters" => policy.max_clusters = number(),
            "wait_limit" => policy.wait_limit = span(value),
            "pin_idle" => policy.pin_idle = span(value),
            "cancel_grace" => policy.cancel_grace = span(value),
            "drain_limit" => policy.drain_limit = span(value),
            "start_limit" => policy.start_limit = span(value),
            "retry_first" => policy.retry_first = span(value),
            _ => panic!("no such key: {key}"),
        }
    }
}

impl Teller {
    fn new(story: &str) -> Teller {
        Teller {
            dispatcher: Dispatcher::new(1, policy(story)),
            names: BTreeMap::new(),
            sessions: BTreeMap::new(),
            users: BTreeMap::new(),
            queries: BTreeMap::new(),
            written: String::new(),
        }
    }

    fn tell(&mut self, line: &str) {
        let (at, text) = line.split_once(char::is_whitespace).unwrap_or_else(|| panic!("no event: {line}"));
        let (now, text) = (Time::ZERO + span(at), text.trim());
        while let Some(due) = self.dispatcher.next_wakeup().filter(|due| *due <= now) {
            self.handle(due, Event::Woke, "");
        }
        if text != "-" {
            let event = self.event(text);
            self.handle(now, event, text);
        }
    }

    fn handle(&mut self, now: Time, event: Event, text: &str) {
        let mut commands = Vec::new();
        self.dispatcher.handle(now, event, &mut commands);
        assert_eq!(broken(&self.dispatcher), []);
        let mut left = format!("{:<6} {text}", now.to_string());
        if commands.is_empty() && !text.is_empty() {
            self.written += left.trim_end();
            self.written.push('\n');
        }
        for command in commands {
            let right = self.describe(&command);
            self.written += &format!("{left:<36} -> {right}\n");
            left.clear();
        }
    }

    fn event(&mut self, text: &str) -> Event {
        let mut parts = text.split(',').map(str::trim);
        let head = parts.next().unwrap_or("");
        let options: Vec<(&str, &str)> = parts.map(|part| part.split_once(' ').unwrap_or((part, ""))).collect();
        let option = |key| options.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let (subject, verb) = head.split_once(' ').unwrap_or((head, ""));
        if subject == "shutdown" {
            return Event::ShutdownWanted { within: option("within").map_or(Span::ZERO, span) };
        }
        if let Some((class, number)) = subject.split_once('#') {
            let id = QueryId(number.parse().unwrap_or_else(|_| panic!("not a number: {number}")));
            let pinned = option("pinned").is_some();
            return match verb {
                "arrives" => self.arrives((subject, class, id), option("slo").map(span), option("in"), option("of")),
                verb => self.query_event(id, verb, pinned),
            };
        }
        match verb {
            "leaves" => Event::SessionEnded { session: self.sessions[subject] },
            "wanted" => {
                let number = |key, default| option(key).map_or(default, |n| n.parse().expect("a number"));
                Event::ClusterWanted(Spec {
                    name: subject.to_owned(),
                    units: Units(number("size", 1)),
                    slots: number("slots", 1),
                    price: Price::default(),
                    killable: option("unkillable").is_none(),
                    offer: None,
                    writer: false,
                })
            }
            verb => self.cluster_event(subject, verb),
        }
    }

    fn arrives(
        &mut self,
        (name, class, id): (&str, &str, QueryId),
        slo: Option<Span>,
        session: Option<&str>,
        user: Option<&str>,
    ) -> Event {
        let next = UserId(1 + self.users.len() as u64);
        let user = user.map_or(UserId::default(), |name| *self.users.entry(name.to_owned()).or_insert(next));
        let class = class::find(&self.dispatcher.policy().classes, class).unwrap_or(ClassId(u32::MAX));
        let session = match session {
            None => SessionId(1_000 + id.0),
            Some(name) => {
                let next = SessionId(self.sessions.len() as u64);
                *self.sessions.entry(name.to_owned()).or_insert(next)
            }
        };
        self.queries.insert(id, name.to_owned());
        Event::Arrived(Query {
            id,
            session,
            fingerprint: Fingerprint(0),
            kind: Kind::Select,
            class,
            slo,
            claim: Claim { user, ..Claim::default() },
            traits: None,
        })
    }

    fn query_event(&self, query: QueryId, verb: &str, pinned: bool) -> Event {
        let runs_on = || {
            let view = self.dispatcher.view(Time::ZERO);
            let seen = view.queries.iter().find(|seen| seen.id == query);
            seen.and_then(|seen| seen.placed).map_or(ClusterId(0), |(cluster, _)| cluster)
        };
        let sqlstate = SqlState(*b"22012");
        match verb {
            "finishes" => {
                Event::Finished { query, outcome: Outcome::Finished { rows: 1, bytes: 8 }, blocked: Span::ZERO, pinned }
            }
            "fails" => Event::Finished {
                query,
                outcome: Outcome::Failed { sqlstate, rows: 0, bytes: 0 },
                blocked: Span::ZERO,
                pinned,
            },
            "is lost" => Event::Finished { query, outcome: Outcome::Lost, blocked: Span::ZERO, pinned },
            "bounces" => Event::Bounced { query, cluster: runs_on(), lost: false },
            "cancelled" => Event::Cancel { query },
            _ => panic!("a query does not do that: {verb}"),
        }
    }

    fn cluster_event(&self, name: &str, verb: &str) -> Event {
        let found = self.names.iter().find(|(_, (known, _))| known == name);
        let (&cluster, &(_, generation)) = found.unwrap_or_else(|| panic!("no such cluster: {name}"));
        match verb {
            "ready" => Event::ClusterReady { cluster, generation },
            "fails" => Event::ClusterLost { cluster, generation, cause: LossCause::StartFailed },
            "lost" => Event::ClusterLost { cluster, generation, cause: LossCause::Exited },
            "stopped" => Event::ClusterStopped { cluster, generation },
            "burns" => Event::ClusterBurns { cluster, generation, burns: true },
            "calms" => Event::ClusterBurns { cluster, generation, burns: false },
            "drains" => Event::DrainWanted { cluster },
            _ => panic!("a cluster does not do that: {verb}"),
        }
    }

    fn describe(&mut self, command: &Command) -> String {
        match command {
            Command::Study { study } => format!("study {study}"),
            Command::Run { query, cluster } => format!("run {} on {}", self.query(*query), self.cluster(*cluster)),
            Command::Refuse { query, because } => format!("refuse {}: {because}", self.query(*query)),
            Command::Cancel { query, cluster, .. } => {
                format!("cancel {} on {}", self.query(*query), self.cluster(*cluster))
            }
            Command::Recall { query, cluster } => {
                format!("recall {} from {}", self.query(*query), self.cluster(*cluster))
            }
            Command::Abandon { query, because } => {
                let why = match because {
                    Abandoned::WillNotStop => "it will not stop".to_owned(),
                    Abandoned::ClusterLost { cause } => format!("its cluster is lost: {cause}"),
                    Abandoned::DrainEnded { .. } => "its cluster has to go".to_owned(),
                };
                format!("abandon {}: {why}", self.query(*query))
            }
            Command::EndPin { session, because } => {
                let why = match because {
                    PinEnd::Idle { limit } => format!("idle for {limit}"),
                    PinEnd::ClusterLost { cause } => format!("its cluster is lost: {cause}"),
                    PinEnd::DrainEnded => "its cluster has to go".to_owned(),
                };
                format!("end the pin of {}: {why}", self.session(*session))
            }
            Command::Start { cluster, generation, spec } => self.describe_start(*cluster, *generation, spec),
            Command::Stop { cluster, force, .. } => {
                format!("stop {}{}", self.cluster(*cluster), if *force { " by force" } else { "" })
            }
            Command::Record(ended) => {
                let late = match ended.violated {
                    Some(true) => ", late",
                    Some(false) => ", in time",
                    None => "",
                };
                format!("{} {} after {}{late}", self.query(ended.query.id), ended.status, ended.latency())
            }
        }
    }

    fn describe_start(&mut self, cluster: ClusterId, generation: Generation, spec: &Spec) -> String {
        if let Some((name, known)) = self.names.get_mut(&cluster) {
            *known = generation;
            return format!("start {name} again");
        }
        let mut name = spec.name.clone();
        while self.names.values().any(|(known, _)| *known == name) {
            name.push('\'');
        }
        let text = format!("start {name}, size {}", spec.units.0);
        self.names.insert(cluster, (name, generation));
        text
    }

    fn query(&self, id: QueryId) -> &str {
        &self.queries[&id]
    }

    fn cluster(&self, id: ClusterId) -> &str {
        &self.names[&id].0
    }

    fn session(&self, id: SessionId) -> String {
        let named = self.sessions.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone());
        named.unwrap_or_else(|| self.query(QueryId(id.0 - 1_000)).to_owned())
    }
}
