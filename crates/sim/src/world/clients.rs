//! The clients' side of the world: sessions that send a query at a time, go through transactions, lose patience.

use std::collections::VecDeque;

use punctual_core::event::{Event, Outcome};
use punctual_core::id::{QueryId, SessionId};
use punctual_core::query::Query;
use punctual_core::time::{Span, Time};

use super::{Due, World};
use crate::workload::{Arrival, Ask, Later};

/// A query on its way, as its session sees it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) session: SessionId,
    pub(super) ask: Ask,
    /// It will not stop when it is told to.
    pub(super) stubborn: bool,
}

/// A session with something to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    query: Option<QueryId>,
    /// What is left of its transaction.
    rest: VecDeque<Later>,
}

impl World {
    /// A client sends a query. In the middle of a transaction it comes after the others; a client that has a query
    /// already sends another all the same, which the dispatcher must refuse.
    pub(super) fn arrives(&mut self, arrival: Arrival, now: Time) {
        let session = arrival.session;
        if self.gone.contains(&session) {
            return;
        }
        let client = self.clients.entry(session).or_default();
        if !client.rest.is_empty() {
            client.rest.push_back(Later { after: Span::ZERO, ask: arrival.ask });
            return;
        }
        if client.query.is_none() {
            client.rest = arrival.then.into();
        }
        self.send(session, arrival.ask, now);
    }

    /// A session sends the next query of its transaction.
    pub(super) fn goes_on(&mut self, session: SessionId, now: Time) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        if client.query.is_none()
            && let Some(next) = client.rest.pop_front()
        {
            self.send(session, next.ask, now);
        }
    }

    fn send(&mut self, session: SessionId, ask: Ask, now: Time) {
        self.queries += 1;
        let id = QueryId::of(0, self.queries);
        let client = self.clients.entry(session).or_default();
        client.query.get_or_insert(id);
        let stubborn = self.chance.strikes(self.conditions.stubborn);
        let Ask { class, slo, claim, fingerprint, kind, .. } = ask;
        let traits = Some(Box::new(ask.traits()));
        self.sent.insert(id, Sent { session, ask, stubborn });
        if self.chance.strikes(self.conditions.client_cancels) {
            let after = self.chance.fault_after(self.conditions.patience);
            self.agenda.add(now + after, Due::Told(Event::Cancel { query: id }));
        }
        if self.chance.strikes(self.conditions.disconnects) {
            let after = self.chance.fault_after(self.conditions.patience);
            self.agenda.add(now + after, Due::Vanishes(session));
        }
        self.inbox.push_back(Event::Arrived(Query { id, session, fingerprint, kind, class, slo, claim, traits }));
    }

    /// A client is gone. What it had running goes on until it is told to stop.
    pub(super) fn vanishes(&mut self, session: SessionId, now: Time) {
        self.gone.insert(session);
        self.clients.remove(&session);
        self.tell(Event::SessionEnded { session }, now);
    }

    /// True if the session will hold its cluster when this query has ended.
    pub(super) fn stays(&self, session: SessionId) -> bool {
        self.clients.get(&session).is_some_and(|client| !client.rest.is_empty())
    }

    /// Something is about to reach the dispatcher: with the end of a query its session is free to go on.
    pub(super) fn hand_over(&mut self, event: &Event, now: Time) {
        let Event::Finished { query, outcome, pinned, .. } = event else { return };
        let Some(sent) = self.sent.remove(query) else { return };
        let Some(client) = self.clients.get_mut(&sent.session) else { return };
        if client.query != Some(*query) {
            return;
        }
        client.query = None;
        match client.rest.front() {
            Some(next) if *pinned && *outcome != Outcome::Lost => {
                let at = now + next.after;
                self.agenda.add(at, Due::GoesOn(sent.session));
            }
            _ => {
                self.clients.remove(&sent.session);
            }
        }
    }

    /// The dispatcher answered a query's client itself: the session is free, and its transaction is over.
    pub(super) fn let_go(&mut self, query: QueryId) {
        let Some(sent) = self.sent.remove(&query) else { return };
        // A query that came out of turn does not end the one before it.
        if self.clients.get(&sent.session).is_some_and(|client| client.query == Some(query)) {
            self.clients.remove(&sent.session);
        }
    }

    /// A session lost its cluster between two queries. Some clients hang up then, others take it.
    pub(super) fn pin_ended(&mut self, session: SessionId, now: Time) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        client.rest.clear();
        if client.query.is_none() {
            self.clients.remove(&session);
        }
        if self.chance.strikes(self.conditions.disconnects) {
            self.vanishes(session, now);
        }
    }
}
