//! The simulator's stand-in for clients, engines and providers: a plain world.
//!
//! It carries out the dispatcher's commands and tells it what came of them. Clusters work queries off as
//! [`compute`] says; everything else is a delay and a probability of [`Conditions`]. It decides nothing that the dispatcher decides, and it believes nothing: a query that is sent to a
//! cluster that is not there bounces.
//!
//! ```text
//!   workload ─▶ clients ──Arrived, Cancel──▶ ┌────────────┐ ──Run, Cancel, Start, Stop──▶ ┌───────┐
//!   script ─────────ClusterWanted, Drain…──▶ │ dispatcher │                               │ sites │
//!                                            └────────────┘ ◀──Finished, Ready, Lost───── └───────┘
//! ```
//!
//! Reports may be under way for a while ([`Conditions::transit`]) and overtake each other, so the dispatcher also
//! hears of what is no longer so.

mod clients;
pub mod compute;
mod conditions;
pub mod predicted;
pub mod progress;
pub mod sharing;
mod sites;
pub mod warehouse;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::id::{ClusterId, Generation, QueryId, SessionId};
use punctual_core::time::{Span, Time};

use crate::agenda::Agenda;
use crate::workload::Arrival;

use clients::{Client, Sent};
use compute::Make;
use conditions::Chance;
use sites::Site;

pub use conditions::Conditions;

/// Clients, engines and providers.
#[derive(Clone, Debug)]
pub struct World {
    conditions: Conditions,
    make: Make,
    chance: Chance,
    agenda: Agenda<Due>,
    /// Reports that have reached the dispatcher's door.
    inbox: VecDeque<Event>,
    sites: BTreeMap<ClusterId, Site>,
    /// Queries that have not ended for their client.
    sent: BTreeMap<QueryId, Sent>,
    /// Sessions that have a query, or are in the middle of a transaction.
    clients: BTreeMap<SessionId, Client>,
    /// Sessions that are over and may not come back.
    gone: BTreeSet<SessionId>,
    queries: u64,
}

/// What is yet to happen in the world.
#[derive(Clone, Debug)]
enum Due {
    /// A report reaches the dispatcher.
    Told(Event),
    /// A client sends its next query.
    Arrives(Box<Arrival>),
    /// A session goes on with its transaction.
    GoesOn(SessionId),
    /// A query reaches its cluster.
    Reaches { query: QueryId, cluster: ClusterId },
    /// A cluster's next query ends, if nothing has changed there since.
    Ends { cluster: ClusterId, change: u64 },
    /// A cluster has heard that a query should stop.
    Stops { query: QueryId, cluster: ClusterId },
    /// A session has heard that its query may go elsewhere.
    Recalled { query: QueryId, cluster: ClusterId },
    /// A cluster is up.
    Starts { cluster: ClusterId, generation: Generation },
    /// A start has come to nothing.
    StartFails { cluster: ClusterId, generation: Generation },
    /// A cluster goes away on its own.
    Dies { cluster: ClusterId, generation: Generation },
    /// A client vanishes.
    Vanishes(SessionId),
}

impl World {
    /// A world in which nothing has happened, with its own chance from `seed`. `script` is what the configuration and
    /// operators want, and when.
    pub fn new(seed: u64, conditions: Conditions, script: Vec<(Time, Event)>) -> World {
        let mut agenda = Agenda::new();
        for (at, event) in script {
            agenda.add(at, Due::Told(event));
        }
        World {
            conditions,
            make: Make::Sharing,
            chance: Chance::new(seed),
            agenda,
            inbox: VecDeque::new(),
            sites: BTreeMap::new(),
            sent: BTreeMap::new(),
            clients: BTreeMap::new(),
            gone: BTreeSet::new(),
            queries: 0,
        }
    }

    /// The same world with clusters of another kind.
    #[must_use]
    pub fn of(self, make: Make) -> World {
        World { make, ..self }
    }

    /// What the world is like.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// When the next thing happens, reports that have already arrived not counted.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.agenda.next_at()
    }

    /// The next report that has reached the dispatcher's door.
    pub(crate) fn heard(&mut self, now: Time) -> Option<Event> {
        let event = self.inbox.pop_front()?;
        self.hand_over(&event, now);
        Some(event)
    }

    /// Puts down a report that reaches the dispatcher then.
    pub(crate) fn report_at(&mut self, at: Time, event: Event) {
        self.agenda.add(at, Due::Told(event));
    }

    /// Puts down the workload's next arrival.
    pub(crate) fn expect(&mut self, arrival: Arrival) {
        self.agenda.add(arrival.at, Due::Arrives(Box::new(arrival)));
    }

    /// Lets the next thing happen. True if it was an arrival, so that the workload is asked for the one after it.
    pub(crate) fn turn(&mut self) -> bool {
        let Some((now, due)) = self.agenda.take() else { return false };
        match due {
            Due::Told(event) => self.inbox.push_back(event),
            Due::Arrives(arrival) => {
                self.arrives(*arrival, now);
                return true;
            }
            Due::GoesOn(session) => self.goes_on(session, now),
            Due::Reaches { query, cluster } => self.reaches(query, cluster, now),
            Due::Ends { cluster, change } => self.ends(cluster, change, now),
            Due::Stops { query, cluster } => self.stops(query, cluster, now),
            Due::Recalled { query, cluster } => self.recalled(query, cluster, now),
            Due::Starts { cluster, generation } => self.starts(cluster, generation, now),
            Due::StartFails { cluster, generation } => self.start_fails(cluster, generation, now),
            Due::Dies { cluster, generation } => self.dies(cluster, generation, now),
            Due::Vanishes(session) => self.vanishes(session, now),
        }
        false
    }

    /// Does what the dispatcher wants done.
    pub(crate) fn carry_out(&mut self, command: &Command, now: Time) {
        match command {
            Command::Run { query, cluster } => {
                let delay = self.chance.up_to(self.conditions.connect);
                self.soon(delay, now, Due::Reaches { query: *query, cluster: *cluster });
            }
            Command::Cancel { query, cluster, .. } => {
                self.soon(self.conditions.cancel, now, Due::Stops { query: *query, cluster: *cluster });
            }
            Command::Recall { query, cluster } => {
                self.soon(self.conditions.cancel, now, Due::Recalled { query: *query, cluster: *cluster });
            }
            Command::Start { cluster, generation, spec } => self.start(*cluster, *generation, spec, now),
            Command::Stop { cluster, generation, .. } => self.stop(*cluster, *generation, now),
            Command::Refuse { query, .. } | Command::Abandon { query, .. } => self.let_go(*query),
            Command::EndPin { session, .. } => self.pin_ended(*session, now),
            // Whoever lets the world turn makes studies: they start from the dispatcher.
            Command::Study { .. } => {}
            // Whatever ended it, nothing more comes of a query that was written down.
            Command::Record(ended) => self.let_go(ended.query.id),
        }
    }

    /// A query was placed on a cluster: what is expected of those that run there may be another by now.
    pub(crate) fn foresee(&mut self, dispatcher: &Dispatcher, query: QueryId, cluster: ClusterId, now: Time) {
        let Some(site) = self.sites.get_mut(&cluster) else { return };
        let Some(predicted) = site.predicted() else { return };
        // One that is not followed is in no outlook of the cluster.
        let alone = dispatcher.outlook(query).map(|(_, placed, prediction)| (query, placed, prediction));
        for (query, placed, prediction) in dispatcher.outlooks(cluster).chain(alone) {
            predicted.expect(now, query, placed, prediction);
        }
        self.changed(cluster);
    }

    /// Reports something to the dispatcher, which hears of it after a while.
    fn tell(&mut self, event: Event, now: Time) {
        let delay = self.chance.up_to(self.conditions.transit);
        if delay == Span::ZERO {
            self.inbox.push_back(event);
        } else {
            self.agenda.add(now + delay, Due::Told(event));
        }
    }

    /// Puts something down for after a delay; without one, for when this instant's other things have happened.
    fn soon(&mut self, delay: Span, now: Time, due: Due) {
        self.agenda.add(now + delay, due);
    }
}
