//! How queries end, looked at from the outside: each once, in a way that something led to, and written down as it was seen.

use punctual_core::cluster::Seat;
use punctual_core::event::{Command, Event, Outcome, Refusal};
use punctual_core::query::{Ended, Status};
use punctual_core::time::Time;

use super::watch::{Pin, Runs, Seen, Watch, must, seat_of};

impl Watch {
    pub(super) fn obey_record(
        &mut self,
        now: Time,
        event: &Event,
        ended: &Ended,
        before: &[Command],
    ) -> Result<(), String> {
        let id = ended.query.id;
        let seen = self.queries.remove(&id).ok_or_else(|| {
            let again = if self.ended.contains(&id) { "again" } else { "without having arrived" };
            format!("query {id} ends {again}")
        })?;
        self.ended.insert(id);
        let abandoned = before.iter().any(|command| matches!(command, Command::Abandon { query, .. } if *query == id));
        let wanted = self.status_allowed(&seen, event, before, abandoned, ended.status);
        must(wanted, || format!("query {id} ends as {} for no reason in {event:?}, {before:?}", ended.status))?;
        check_fields(&seen, ended, now)?;
        let session = seen.query.session;
        let pinned = !abandoned
            && matches!(event, Event::Finished { query, pinned: true, outcome, .. } if *query == id && *outcome != Outcome::Lost);
        if let Some(Runs { cluster, seat }) = seen.runs {
            self.stopped_running(id, cluster, now);
            if pinned && !seen.orphan {
                self.pins.insert(session, Pin { cluster, seat, busy: false, ticket: seen.ticket });
            } else {
                self.pins.remove(&session);
            }
        }
        Ok(())
    }

    /// Whether a query may end that way, given what led to it.
    fn status_allowed(&self, seen: &Seen, event: &Event, before: &[Command], abandoned: bool, status: Status) -> bool {
        let id = seen.query.id;
        let refusal = before.iter().find_map(|command| match command {
            Command::Refuse { query, because } if *query == id => Some(*because),
            _ => None,
        });
        let just_now = match event {
            Event::Cancel { query } => *query == id,
            Event::SessionEnded { session } => *session == seen.query.session,
            _ => false,
        } || self.rules.capped.iter().any(|(capped, _)| *capped == id);
        let stopped = seen.taken_back || seen.cut_short;
        let or_cancelled = |other| match status {
            Status::Cancelled => stopped,
            // A timer that was due before it was taken back.
            other_status => other_status == other && (!stopped || (abandoned && just_now)),
        };
        match (refusal, event) {
            (Some(Refusal::Cancelled), _) => status == Status::Cancelled,
            (Some(_), _) => status == Status::Refused,
            (None, _) if abandoned => or_cancelled(Status::Lost),
            (None, Event::Finished { query, outcome, .. }) if *query == id && seen.runs.is_some() => match outcome {
                Outcome::Finished { .. } => status == Status::Finished,
                Outcome::Failed { .. } => or_cancelled(Status::Failed),
                Outcome::Lost => or_cancelled(Status::Lost),
            },
            (None, Event::Bounced { .. }) if self.freed.query.is_some_and(|(freed, _)| freed == id) => {
                or_cancelled(Status::Lost)
            }
            (None, Event::SessionEnded { .. }) if seen.orphan && seen.runs.is_none() => status == Status::Cancelled,
            _ => false,
        }
    }
}

/// Whether what is written down of a query is what was seen of it.
fn check_fields(seen: &Seen, ended: &Ended, now: Time) -> Result<(), String> {
    let id = seen.query.id;
    must((ended.arrived, ended.ended) == (seen.arrived, now), || {
        format!("query {id}: its times are wrong: {ended:?}")
    })?;
    if let Some(runs) = seen.runs {
        let cluster = ended.cluster.map(|(cluster, _)| cluster);
        must((cluster, ended.placed) == (Some(runs.cluster), seen.placed), || {
            format!("query {id} ran on cluster {} since {:?}: {ended:?}", runs.cluster, seen.placed)
        })?;
    }
    must(ended.query.class == seen.query.class, || format!("query {id} is of {:?}: {ended:?}", seen.query.class))?;
    let late = match (ended.status, seen.query.slo) {
        (_, None) => None,
        (Status::Cancelled, _) if !seen.cut_short => None,
        _ if seat_of(&seen.query) == Seat::Control => None,
        (Status::Finished, Some(slo)) => Some(now.since(seen.arrived) > slo),
        _ => Some(true),
    };
    must(ended.violated == late, || format!("query {id} is late: {late:?}, not {:?}", ended.violated))
}
