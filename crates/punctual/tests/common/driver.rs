//! A driver small enough for tests: the real dispatcher, and clusters that are there at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::link::{NoneReady, Order, Report, Reports, Snapshot};
use punctual::mailbox::Slot;
use punctual::relay::Pool;
use punctual::settings::{Door, Endpoint};
use punctual_core::billing::Price;
use punctual_core::check::check;
use punctual_core::cluster::Spec;
use punctual_core::event::LossCause;
use punctual_core::id::{ClusterId, QueryId, SessionId, Units};
use punctual_core::query::Ended;
use punctual_core::{Command, Dispatcher, Event, Policy, Time};
use tokio::sync::mpsc;

/// What a test can do to the driver.
pub enum Knob {
    /// One more cluster; None: the usual Postgres.
    Add { name: String, slots: u32, endpoint: Option<Endpoint> },
    /// A cluster goes away.
    Lose(ClusterId),
    /// Every session hears it.
    Farewell,
}

pub struct Driver {
    dispatcher: Dispatcher,
    door: Door,
    usual: Endpoint,
    endpoints: BTreeMap<String, Endpoint>,
    pools: BTreeMap<ClusterId, Arc<Pool>>,
    mailboxes: BTreeMap<SessionId, Slot>,
    sessions: BTreeMap<QueryId, SessionId>,
    records: mpsc::UnboundedSender<Ended>,
    broken: u64,
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(since.as_micros() as u64)
}

impl Driver {
    pub fn new(policy: Policy, door: Door, usual: Endpoint, records: mpsc::UnboundedSender<Ended>) -> Driver {
        Driver {
            dispatcher: Dispatcher::new(7, policy),
            door,
            usual,
            endpoints: BTreeMap::new(),
            pools: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            records,
            broken: 0,
        }
    }

    pub async fn run(mut self, mut reports: Reports, mut knobs: mpsc::UnboundedReceiver<Knob>) {
        loop {
            let wakeup = self
                .dispatcher
                .next_wakeup()
                .map_or(Duration::from_secs(3600), |at| Duration::from_micros(at.since(now()).micros()));
            tokio::select! {
                biased;
                Some(knob) = knobs.recv() => self.turn(knob),
                report = reports.recv() => match report {
                    Some(report) => self.report(report),
                    None => return,
                },
                () = tokio::time::sleep(wakeup) => self.handle(Event::Woke),
            }
        }
    }

    fn turn(&mut self, knob: Knob) {
        match knob {
            Knob::Add { name, slots, endpoint } => {
                self.endpoints.insert(name.clone(), endpoint.unwrap_or_else(|| self.usual.clone()));
                let price = Price::default();
                self.handle(Event::ClusterWanted(Spec {
                    name,
                    units: Units(1),
                    slots,
                    price,
                    killable: false,
                    offer: None,
                    writer: false,
                }));
            }
            Knob::Lose(cluster) => {
                let Some(pool) = self.pools.remove(&cluster) else { return };
                pool.close();
                let generation = pool.generation();
                self.handle(Event::ClusterLost { cluster, generation, cause: LossCause::Exited });
            }
            Knob::Farewell => {
                for mailbox in self.mailboxes.values() {
                    let _ = mailbox.send(Order::Farewell);
                }
            }
        }
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Joined { session, mailbox } => drop(self.mailboxes.insert(session, mailbox)),
            Report::Arrived { query, .. } => {
                self.sessions.insert(query.id, query.session);
                self.handle(Event::Arrived(query));
            }
            Report::Happened(event) => self.handle(event),
            Report::AnyCluster { answer, .. } => {
                drop(answer.send(self.pools.values().next().cloned().ok_or(NoneReady::default())))
            }
            Report::Doubtful { .. } | Report::Model(_) | Report::Adopt { .. } => {}
            Report::Explain { answer, .. } => drop(answer.send(None)),
            Report::Plan { answer, .. } => drop(answer.send(None)),
            Report::Queued { query, answer } => drop(answer.send(self.dispatcher.queued(query))),
            Report::Decided { query, answer } => {
                drop(answer.send(self.dispatcher.decision(query).cloned().map(Box::new)));
            }
            Report::Look { answer } => {
                let view = self.dispatcher.view(now());
                let sessions = self.mailboxes.values().filter(|mailbox| !mailbox.is_closed()).count() as u32;
                let _ = answer.send(Snapshot {
                    view,
                    about: Vec::new(),
                    broken: self.broken,
                    degraded: false,
                    sessions,
                    unstopped: Vec::new(),
                });
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let mut commands = Vec::new();
        self.dispatcher.handle(now(), event, &mut commands);
        self.broken += check(&self.dispatcher).len() as u64;
        for command in commands {
            match command {
                Command::Study { .. } => {}
                Command::Run { query, cluster } => {
                    if let Some(on) = self.pools.get(&cluster).cloned() {
                        self.order(query, Order::Run { query, on });
                    }
                }
                Command::Refuse { query, because } => {
                    let trouble = Some("Cluster x: as the test wants.".into());
                    self.order(query, Order::Refuse { query, because, trouble });
                }
                Command::Cancel { query, ran_for, .. } => {
                    self.order(query, Order::Cancel { query, patience: Duration::from_millis(50), ran_for });
                }
                Command::Abandon { query, because } => self.order(query, Order::Abandon { query, because }),
                Command::Recall { query, .. } => self.order(query, Order::Recall { query }),
                Command::EndPin { session, because } => {
                    if let Some(mailbox) = self.mailboxes.get(&session) {
                        let _ = mailbox.send(Order::EndPin { because });
                    }
                }
                Command::Start { cluster, generation, spec } => {
                    let endpoint = self.endpoints.get(&spec.name).cloned().unwrap_or_else(|| self.usual.clone());
                    let pool = Pool::new(cluster, generation, spec.name, endpoint, (self.door.clone(), spec.slots));
                    self.pools.insert(cluster, Arc::new(pool));
                    self.handle(Event::ClusterReady { cluster, generation });
                }
                Command::Stop { cluster, generation, .. } => {
                    self.handle(Event::ClusterStopped { cluster, generation });
                }
                Command::Record(ended) => drop(self.records.send(*ended)),
            }
        }
    }

    fn order(&mut self, query: QueryId, order: Order) {
        if let Some(mailbox) = self.sessions.get(&query).and_then(|session| self.mailboxes.get(session)) {
            let _ = mailbox.send(order);
        }
    }
}
