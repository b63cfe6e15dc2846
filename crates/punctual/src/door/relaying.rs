//! One attempt at running work on one connection: frames go out, replies come back, until the cluster is ready again
//! or will not be any more.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use punctual_core::event::Abandoned;
use punctual_core::id::QueryId;
use punctual_core::time::Span;
use tokio::time::{Instant, timeout_at};

use super::bearing::Impact;
use super::cancelling::Cancelling;
use super::frames as say;
use super::plan::poison;
use super::problem::{Loss, Problem};
use super::pump::{ClusterSide, Happening, Outgoing, Pump};
use super::query::Work;
use super::replies::{Expect, Replies, Step};
use super::session::{Over, Session};
use super::unit::{self, End, Next};
use crate::link::Order;
use crate::relay::carried::{Memory, Variables};
use crate::relay::{Connection, Garbled, Lease, ServerError, frames};

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The cluster is ready, with this transaction status; whether the client is to hear of it.
    Ready {
        /// `I`, `T` or `E`.
        status: u8,
        /// Whether the client is to hear of it.
        pass: bool,
    },
    /// The connection broke.
    Lost(Loss),
    /// The driver does not want it waited for.
    Abandoned(Abandoned),
    /// The driver would have it placed again, and it can be.
    Recalled,
    /// The connection could not be made what the session needs.
    Refused(Problem),
    /// The client is gone, or the session is over, and nothing that runs is to be waited for.
    Deserted,
}

/// An attempt that has ended.
#[derive(Debug)]
pub(super) struct Attempt {
    /// How.
    pub ended: Ended,
    /// What came.
    pub replies: Replies,
    /// How much of the connection's input may go to the client.
    pub approved: usize,
    /// True if the client has sent all of the unit, and waits for ReadyForQuery.
    pub whole: bool,
    /// True if more of the client's went out than the work itself.
    pub extended: bool,
}

/// A unit on its way.
struct Way {
    replies: Replies,
    outgoing: Outgoing,
    approved: usize,
    /// True if more of the unit may come from the client.
    open: bool,
    extended: bool,
    /// What is left behind by running it.
    impact: Impact,
    /// What is left of a CopyData that passed in part.
    copy_rest: usize,
    /// Until when a client that does not take its rows may keep the cluster from stopping what was cancelled.
    patience: Option<Instant>,
    /// It has run for as long as its class allows, which is this.
    cut_short: Option<Span>,
}

impl Way {
    /// True if the client's work can go elsewhere: nothing came back, and nothing was sent after it.
    fn is_untouched(&self) -> bool {
        self.impact <= Impact::Opens && !self.extended && !self.replies.began
    }

    fn ends(self, ended: Ended) -> Attempt {
        let Way { replies, approved, open, extended, .. } = self;
        Attempt { ended, replies, approved, whole: !open, extended }
    }
}

impl Session {
    /// Runs work on a connection that may have to be made ready for the session first. Whatever happens comes back as
    /// an attempt, the end of the session too: the driver must hear of the query's end in any case.
    pub(super) async fn attempt(&mut self, id: Option<QueryId>, work: &Work, lease: &mut Lease) -> Attempt {
        if let Some(mut failed) = self.dress(id, lease).await {
            failed.whole = work.is_whole();
            return failed;
        }
        let mut way = Way {
            replies: std::mem::take(&mut self.unasked),
            outgoing: Outgoing::default(),
            approved: 0,
            open: false,
            extended: false,
            impact: work.impact(),
            copy_rest: 0,
            patience: None,
            cut_short: None,
        };
        match work {
            Work::Simple { frame, .. } => {
                way.replies.begin_simple();
                way.outgoing = Outgoing::of(frame.clone());
            }
            Work::Refusal { problem } => {
                poison(problem, &mut lease.carried, &mut way.replies, &mut way.outgoing.bytes);
                way.outgoing.bytes.extend_from_slice(&frames::SYNC);
                way.replies.expect(Expect::Ready { pass: true });
            }
            Work::Pipeline { segment, end, counts, .. } => {
                self.pipeline.change_connection();
                let (carried, out) = (&mut lease.carried, &mut way.outgoing.bytes);
                self.plan(segment, Some(carried), &mut way.replies, out);
                if *counts {
                    way.open = *end != End::Sync;
                    // More may be there already.
                    if let Err(over) = self.forward(lease, &mut way) {
                        return self.leave(over, lease, way).await;
                    }
                } else if *end != End::Sync {
                    // It leaves nothing behind: the connection is given back, and the client goes on without it.
                    out.extend_from_slice(&frames::SYNC);
                    way.replies.expect(Expect::Ready { pass: false });
                }
            }
        }
        let mut attempt = self.relay(id, lease, way).await;
        if let Work::Pipeline { end, counts: false, .. } = work {
            attempt.whole = *end == End::Sync;
        }
        attempt
    }

    /// Gives a connection the variables that the session has; Some if that failed.
    async fn dress(&mut self, id: Option<QueryId>, lease: &mut Lease) -> Option<Attempt> {
        let (wanted, memory) = (Arc::clone(&self.standing.variables), self.memory);
        if self.standing.status != b'I' {
            return None;
        }
        let carried = &mut lease.carried;
        if Arc::ptr_eq(&carried.variables, &wanted) || carried.variables == wanted {
            carried.variables = Arc::clone(&wanted);
            if carried.memory == memory {
                return None;
            }
        }
        let (bytes, may_fail) = dressing((&carried.variables, carried.memory), (&wanted, memory));
        lease.carried.unnamed = None;
        let way = Way {
            replies: Replies::muted(may_fail.len()),
            outgoing: Outgoing::of(bytes),
            approved: 0,
            open: false,
            extended: false,
            impact: Impact::Changes,
            copy_rest: 0,
            patience: None,
            cut_short: None,
        };
        let mut attempt = self.relay(id, lease, way).await;
        if !matches!(attempt.ended, Ended::Ready { .. }) {
            return Some(attempt);
        }
        let harm = |at: usize, error: &ServerError| match may_fail.get(at) {
            // Not to know a setting is one thing; to be given a value that it cannot have, the client's fault.
            Some(true) => error.sqlstate.0.starts_with(b"22"),
            _ => true,
        };
        if let Some((_, error)) = attempt.replies.muted.iter().find(|(at, error)| harm(*at, error)) {
            let message = format!("cluster {} does not take a setting of this session: {error}", lease.pool().name());
            attempt.ended = Ended::Refused(Problem::new(&error.sqlstate.0, message));
            return Some(attempt);
        }
        (lease.carried.variables, lease.carried.memory) = (wanted, memory);
        None
    }

    /// Relays until the cluster is ready or will not be.
    async fn relay(&mut self, id: Option<QueryId>, lease: &mut Lease, mut way: Way) -> Attempt {
        loop {
            let Some(happening) = self.happens(lease, &mut way).await else {
                return self.give_up(id, lease, way).await;
            };
            let forwarded = match happening {
                Happening::Cluster => match self.take_in(lease, &mut way) {
                    Ok(Step::Ready { status, pass }) => return way.ends(Ended::Ready { status, pass }),
                    Ok(Step::More) if way.replies.copying_in => self.forward(lease, &mut way),
                    Ok(Step::More) => Ok(()),
                    Err(garbled) => return way.ends(Ended::Lost(Loss::Garbled(garbled))),
                },
                Happening::Client => self.forward(lease, &mut way),
                Happening::Stalled => Ok(()),
                Happening::ClusterGone(loss) => return way.ends(Ended::Lost(loss)),
                // What does not count as a query is nobody's to wait for.
                Happening::ClientGone if way.open || way.replies.copying_in || id.is_none() => Err(Over),
                Happening::ClientGone => {
                    if !self.ended {
                        self.report_end().await;
                    }
                    self.cancel(lease);
                    Ok(())
                }
                Happening::Order(Order::Cancel { query, patience, ran_for }) if Some(query) == id => {
                    self.cancel(lease);
                    if let Some(limit) = ran_for {
                        way.cut_short = Some(limit);
                        let stopped = way.replies.stopped.get_or_insert_default();
                        say::problem(stopped, say::Severity::Error, &Problem::cut_short(limit));
                    }
                    way.patience.get_or_insert_with(|| Instant::now() + patience);
                    Ok(())
                }
                Happening::Order(Order::Abandon { query, because }) if Some(query) == id => {
                    return way.ends(Ended::Abandoned(because));
                }
                Happening::Order(Order::Recall { query }) if Some(query) == id && way.is_untouched() => {
                    // On a cluster that is lost it may have run.
                    let may_have_run = lease.pool().is_closed() && way.impact != Impact::Reads;
                    if !self.standing.is_pinned() && !may_have_run {
                        if !lease.pool().is_closed() {
                            self.cancel(lease);
                        }
                        return way.ends(Ended::Recalled);
                    }
                    Ok(())
                }
                Happening::Order(order) => {
                    self.take_order(order);
                    Ok(())
                }
                Happening::Orphaned => Err(self.fatal(&Problem::farewell())),
            };
            if let Err(over) = forwarded {
                return self.leave(over, lease, way).await;
            }
        }
    }

    /// What happens next; None: the client takes nothing of its result, and that is not waited for any longer.
    async fn happens(&mut self, lease: &mut Lease, way: &mut Way) -> Option<Happening> {
        let client_limit = self.rules.door.max_message;
        let stalls_for = Duration::from(self.rules.door.client_stall_timeout);
        way.outgoing.is_copy = way.replies.copying_in;
        loop {
            let stalled_until = self.client.blocked.since().map(|since| Instant::from_std(since + stalls_for));
            let until = stalled_until.into_iter().chain(way.patience).min();
            let Way { outgoing, approved, .. } = &mut *way;
            let cluster = Some(ClusterSide { connection: lease, approved, outgoing });
            let (client, mailbox) = (&mut self.client, &mut self.mailbox);
            let mut pump = Pump { client, mailbox, cluster, client_limit };
            let Some(until) = until else { return Some(pump.next().await) };
            match timeout_at(until, pump.next()).await {
                Ok(happening) => return Some(happening),
                Err(_) if self.client.blocked.since().is_none() => way.patience = None,
                Err(_) => return None,
            }
        }
    }

    /// The client takes nothing of its result. What was cancelled loses its connection, before the cluster is judged by it;
    /// after long, the session ends.
    async fn give_up(&mut self, id: Option<QueryId>, lease: &mut Lease, mut way: Way) -> Attempt {
        if way.patience.is_some() {
            finish_frame(lease, &mut way, self.rules.door.connect_within).await;
            let unread = || Problem::unread(lease.pool().name());
            let problem = way.cut_short.map_or_else(unread, Problem::cut_short);
            return way.ends(Ended::Refused(problem));
        }
        let (session, query) = (self.id.0, id.map(|id| id.0));
        tracing::info!(session, query, "a client takes nothing of its result: its session ends");
        self.leave(Over, lease, way).await
    }

    /// Looks at what came from the cluster.
    fn take_in(&mut self, lease: &mut Lease, way: &mut Way) -> Result<Step, Garbled> {
        let step = way.replies.scan(&mut lease.input, &mut way.approved);
        if !way.replies.notes.is_empty() || way.replies.is_skipping() {
            self.take_notes(&mut way.replies, Some(lease));
        }
        step
    }

    /// Keeps an order in mind that is not about the query at hand.
    fn take_order(&mut self, order: Order) {
        match order {
            Order::Farewell => self.farewell = true,
            Order::EndPin { because } => self.pin_ended = Some(because),
            Order::Run { .. }
            | Order::Refuse { .. }
            | Order::Cancel { .. }
            | Order::Abandon { .. }
            | Order::Recall { .. } => {}
        }
    }

    /// The session is over in the middle of a unit. Its connection will be closed, which takes back what a pipeline
    /// without its Sync has done; what still runs there is told to stop. No Sync of ours: it would commit.
    async fn leave(&mut self, _: Over, lease: &mut Lease, way: Way) -> Attempt {
        if !self.ended {
            self.report_end().await;
        }
        if !way.replies.is_settled() {
            self.cancel(lease);
        }
        way.ends(Ended::Deserted)
    }

    /// Sends on what the client sends while its unit is under way: CopyData, or more of an open pipeline. The next unit
    /// stays where it is.
    fn forward(&mut self, lease: &mut Lease, way: &mut Way) -> Result<(), Over> {
        way.open |= std::mem::take(&mut way.replies.reopened);
        loop {
            if way.replies.copying_in {
                let (n, over) = match unit::copy_data(self.client.input.filled(), &mut way.copy_rest) {
                    Ok(moved) => moved,
                    Err(garbled) => return Err(self.garbled(&garbled)),
                };
                way.extended |= n > 0;
                way.outgoing.bytes.extend_from_slice(&self.client.input.filled()[..n]);
                self.client.input.consume(n);
                if !over {
                    return Ok(());
                }
                way.replies.copying_in = false;
                self.seen = 0;
            }
            if !way.open {
                return Ok(());
            }
            let max = self.rules.door.max_message;
            match unit::next(self.client.input.filled(), &mut self.seen, max) {
                Err(garbled) => return Err(self.garbled(&garbled)),
                Ok(Next::Partial) => return Ok(()),
                Ok(Next::Stray(n)) => self.client.input.consume(n),
                Ok(Next::Segment(n, end)) => {
                    let segment = self.client.input.take(n);
                    let out = &mut way.outgoing.bytes;
                    self.plan(&segment, Some(&mut lease.carried), &mut way.replies, out);
                    way.extended = true;
                    way.open = end != End::Sync;
                }
                Ok(Next::Terminate) => return Err(Over),
                Ok(Next::Simple(_) | Next::Call(_)) => {
                    let problem = Problem::new(b"08P01", "a simple query was sent in the middle of a pipeline");
                    return Err(self.fatal(&problem.hint("A pipeline ends with a Sync.")));
                }
            }
        }
    }

    /// Has the cluster asked to stop what runs on a connection.
    fn cancel(&mut self, lease: &mut Lease) {
        if lease.tainted && self.cancelling.is_some() {
            return;
        }
        lease.tainted = true;
        let Some(key) = lease.key.clone() else { return };
        self.cancelling = Some(Cancelling::begin(key, self.rules.door.connect_within));
    }

    /// Writes what may go to the client, as far as it takes it; the rest is kept for it, so that the connection can go.
    pub(super) async fn write_on(&mut self, lease: &mut Lease, approved: &mut usize) {
        let mut outgoing = Outgoing::default();
        let cluster = Some(ClusterSide { connection: lease, approved, outgoing: &mut outgoing });
        let (client, mailbox) = (&mut self.client, &mut self.mailbox);
        let mut pump = Pump { client, mailbox, cluster, client_limit: 0 };
        std::future::poll_fn(|cx| {
            let _ = pump.poll_to_client(cx);
            Poll::Ready(())
        })
        .await;
        if *approved > 0 {
            self.client.out.extend(lease.input.take(*approved));
            *approved = 0;
        }
    }
}

/// The most that is read of a frame for a client that takes nothing, so that something can be said to it after that frame.
const LAST_FRAME: usize = 1 << 20;

/// Reads the rest of the frame that has passed in part, unless that is too much or does not come.
async fn finish_frame(lease: &mut Lease, way: &mut Way, within: Span) {
    let whole = way.approved + way.replies.rest();
    let Connection { socket, input, .. } = &mut **lease;
    let reading = async {
        while input.len() < whole {
            if socket.fill(input).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok::<(), std::io::Error>(())
    };
    let within = Duration::from(within);
    if whole - way.approved <= LAST_FRAME && matches!(tokio::time::timeout(within, reading).await, Ok(Ok(()))) {
        way.approved = whole;
        way.replies.end_with_rest();
    }
}

/// The statements that turn one set of variables into another: their frames, and for each whether it may fail without
/// harm.
///
/// A cluster may not know what a driver sets at start-up, or `work_mem` (an engine that is not Postgres); what a SET has done
/// once must be done again.
fn dressing((from, had): (&Variables, Memory), (to, memory): (&Variables, Memory)) -> (Vec<u8>, Vec<bool>) {
    let (mut out, mut may_fail) = (Vec::new(), Vec::new());
    let mut send = |sql: &str, harmless: bool| {
        frames::query(&mut out, sql);
        may_fail.push(harmless);
    };
    if from != to || memory == Memory::Own {
        if *from != Variables::default() || had != Memory::Own {
            send("RESET ALL", from.set.is_empty());
        }
        say_again(to, &mut send);
    }
    if let Memory::Class(bytes) = memory {
        send(&format!("SET work_mem = '{}kB'", bytes / 1_024), true);
    }
    (out, may_fail)
}

fn say_again(to: &Variables, send: &mut impl FnMut(&str, bool)) {
    for (name, value) in &to.start_up {
        let name = name.split('.').map(|part| format!("\"{part}\"")).collect::<Vec<_>>().join(".");
        let values = match name.trim_matches('"') {
            name if LISTS.contains(&name) => list(value),
            _ => vec![value.clone()],
        };
        let values = values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ");
        send(&format!("SET {name} = {values}"), true);
    }
    to.set.iter().for_each(|(_, sql)| send(sql, false));
}

/// Settings that are lists of names: SET takes a string for one name, where the start-up message has all in one.
const LISTS: [&str; 4] = ["search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries"];

/// The names in a list as the start-up message has it: between commas, folded unless they are quoted.
fn list(text: &str) -> Vec<String> {
    let (mut names, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => name.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => names.push(std::mem::take(&mut name)),
            c if is_quoted => name.push(c),
            c if c.is_whitespace() => {}
            c => name.extend(c.to_lowercase()),
        }
    }
    names.push(name);
    names
}

/// A string literal that means `value` whatever standard_conforming_strings says.
fn quoted(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    if doubled.contains('\\') { format!("E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_said_again_behind_a_reset() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let start_up =
            vec![pair("timezone", "it's\\"), pair("search_path", "\"$user\", A , \"b\"\",B\""), pair("a.b", "1, 2")];
        let to = Variables { start_up, set: vec![pair("a", "set a = 1")] };
        let bare = Variables::default();
        let (out, may_fail) = dressing((&bare, Memory::Own), (&to, Memory::Own));
        let sent = |out: &[u8]| -> Vec<String> {
            unit::frames_of(out)
                .map(|(_, frame)| String::from_utf8_lossy(unit::body(frame)).replace('\0', ""))
                .collect()
        };
        assert_eq!(
            sent(&out),
            [
                r#"SET "timezone" = E'it''s\\'"#,
                r#"SET "search_path" = '$user', 'a', 'b",B'"#,
                r#"SET "a"."b" = '1, 2'"#,
                "set a = 1"
            ]
        );
        assert_eq!(may_fail, [true, true, true, false]);
        let (out, may_fail) = dressing((&to, Memory::Own), (&bare, Memory::Own));
        assert_eq!((sent(&out), may_fail), (vec!["RESET ALL".to_owned()], vec![false]));
        assert_eq!(list(""), [""]);
        let (set, reset) = (["SET work_mem = '64kB'"], ["RESET ALL"]);
        let class = Memory::Class(65_536);
        for had in [Memory::Own, Memory::Class(1), Memory::Unknown] {
            assert_eq!(sent(&dressing((&to, had), (&to, class)).0), set);
        }
        assert_eq!(sent(&dressing((&bare, class), (&bare, Memory::Own)).0), reset);
        assert_eq!(sent(&dressing((&bare, Memory::Unknown), (&bare, Memory::Own)).0), reset);
        let again = sent(&dressing((&bare, class), (&to, class)).0);
        assert_eq!((again.len(), &again[0], &again[5]), (6, &reset[0].to_owned(), &set[0].to_owned()));
    }
}
