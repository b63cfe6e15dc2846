//! The way of one query through its session: verdict, connection, relay, end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_core::Event;
use punctual_core::admit::claim::Claim;
use punctual_core::event::{Abandoned, Outcome, Refusal};
use punctual_core::id::{QueryId, UserId};
use punctual_core::predict::features::add_plan;
use punctual_core::query::{Query, SqlState, Traits};

use super::bearing::{Bearing, Impact};
use super::frames as say;
use super::imagined::treated;
use super::local;
use super::plan::Pipeline;
use super::problem::{Loss, Problem};
use super::pump::{Happening, Pump};
use super::ranges;
use super::reading::Reading;
use super::relaying::{Attempt, Ended};
use super::replies::Replies;
use super::session::{Over, Session};
use super::shared::Foresight;
use super::unit::End;
use crate::link::{About, NoneReady, Order, Report};
use crate::plans::Wish;
use crate::relay::carried::Memory;
use crate::relay::{ConnectError, Lease, Pool};

/// How often a connection to any cluster is tried for.
const TRIES: u32 = 3;

/// What a client sent, to be run.
#[derive(Debug)]
pub(super) enum Work {
    /// A simple query.
    Simple {
        /// Its frame.
        frame: Vec<u8>,
        /// Its text.
        reading: Arc<Reading>,
    },
    /// Part of a pipeline.
    Pipeline {
        /// Its frames.
        segment: Vec<u8>,
        /// How it ends.
        end: End,
        /// What it counts as.
        reading: Arc<Reading>,
        /// False if it is Parse and Describe alone.
        counts: bool,
        /// What running it does besides giving an answer.
        bearing: Bearing,
    },
    /// Nothing, but the transaction that is open on the cluster is to fail.
    Refusal {
        /// What the client is told.
        problem: Problem,
    },
}

/// What the dispatcher decided.
enum Verdict {
    Run(Arc<Pool>),
    /// With what keeps clusters from being there, if none is.
    Refused(Refusal, Option<Arc<str>>),
    /// Its cluster went while it was on its way there, before the dispatcher heard that it had bounced.
    Abandoned(Abandoned),
    /// There is no dispatcher any more.
    Degraded,
}

/// What came of running something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// It has ended.
    Ended,
    /// Nothing came of it, and it can be tried elsewhere: a query waits for another verdict.
    Bounced,
}

/// What came of the wish for a connection.
enum Had {
    Lease(Box<Lease>),
    /// Wait for another verdict.
    Bounced,
    /// The query has ended.
    Ended,
}

impl Work {
    /// True if the client waits for ReadyForQuery after it.
    pub(super) fn is_whole(&self) -> bool {
        !matches!(self, Work::Pipeline { end: End::Flush | End::Full, .. })
    }

    /// True if running it a second time does no harm.
    pub(super) fn is_harmless(&self) -> bool {
        self.impact() <= Impact::Opens
    }

    /// What is left behind by running it.
    pub(super) fn impact(&self) -> Impact {
        self.bearing().impact
    }

    /// What running it does besides giving an answer.
    fn bearing(&self) -> Bearing {
        match self {
            Work::Simple { reading, .. } => reading.bearing(),
            Work::Pipeline { bearing, .. } => *bearing,
            Work::Refusal { .. } => Bearing { impact: Impact::Settles, ..Bearing::default() },
        }
    }
}

impl Session {
    /// Runs what counts as a query: as `reading`.
    pub(super) async fn query(&mut self, work: Work, reading: Arc<Reading>) -> Result<(), Over> {
        if self.shared.fallback().is_on() {
            return self.degraded(&work).await;
        }
        if let Some(problem) = self.wrong_cluster(&work) {
            if work.is_whole() {
                return self.uncounted(Work::Refusal { problem }).await;
            }
            self.fail(&problem, false);
            return Ok(());
        }
        let id = self.shared.next_query();
        self.client.blocked.take();
        let (query, about) = self.describe(id, &work, &reading);
        self.last = reading;
        self.running.store(id.0, Ordering::Relaxed);
        self.lost = None;
        let under = Arc::clone(&self.rules.classes);
        self.report(Report::Arrived { query, about, under }).await?;
        if self.wishes.wished.explain {
            self.tell_wait(id).await;
        }
        let placed = self.place(id, &work).await;
        self.running.store(0, Ordering::Relaxed);
        if let Some(because) = self.pin_ended.take() {
            return Err(self.end_pin(&because));
        }
        placed
    }

    /// Why work cannot run where its session is held: it would change something on a cluster that only reads.
    fn wrong_cluster(&self, work: &Work) -> Option<Problem> {
        let cluster = self.held.as_ref()?.pool();
        let in_transaction = self.standing.status != b'I';
        let is_wrong = cluster.only_reads() && work.bearing().on_reader.is_refused(in_transaction);
        is_wrong.then(|| Problem::held_by_reader(cluster.name(), self.wishes.pinned.as_deref()))
    }

    /// What the dispatcher and history are told of a query. What its comment asks for in vain is told to the client.
    fn describe(&mut self, id: QueryId, work: &Work, reading: &Reading) -> (Query, About) {
        let (statement, tag) = (&reading.statement, &reading.statement.tag);
        for problem in local::in_vain(tag, &self.rules.classes, &self.who.user) {
            say::problem(&mut self.client.out, say::Severity::Warning, &problem);
        }
        let (who, wished) = (&self.who, &self.wishes.wished);
        let (class, _, slo) = treated(&self.rules.classes, wished, who.origin(), statement);
        let most = self.rules.classes.get(class).and_then(|class| class.terms.max_memory);
        self.memory = most.map_or(Memory::Own, Memory::Class);
        let scan = self.shared.ranges().and_then(|all| all.of(reading, &ranges::parameters(work, &self.statements)));
        let (user, priority) = (UserId::of(&who.user), tag.priority.or(wished.priority));
        let claim = Claim { user, priority, scan, writes: work.bearing().is_for_the_writer };
        let (session, fingerprint, kind) = (self.id, statement.fingerprint, statement.kind);
        let about = About {
            user: Arc::clone(&who.user),
            database: Arc::clone(&who.database),
            application: Arc::clone(&who.application),
            text: Arc::clone(&reading.text),
            shape: Arc::clone(&reading.shape),
        };
        let traits = self.shared.foresight().map(|foresight| self.traits(foresight, reading));
        (Query { id, session, fingerprint, kind, class, slo, claim, traits }, about)
    }

    /// What the latency of a query is predicted from.
    fn traits(&self, foresight: &Foresight, reading: &Reading) -> Box<Traits> {
        let mut traits = reading.traits(foresight.texts);
        let wish = || Wish {
            fingerprint: reading.statement.fingerprint,
            text: Arc::clone(&reading.text),
            user: Arc::clone(&self.who.user),
            database: Arc::clone(&self.who.database),
        };
        let plan = foresight.plans.as_ref().and_then(|plans| plans.of(&reading.statement, wish));
        if let Some(plan) = plan {
            add_plan(&mut traits.features, &plan);
        }
        traits
    }

    /// Waits for verdicts until one leads somewhere.
    async fn place(&mut self, id: QueryId, work: &Work) -> Result<(), Over> {
        let mut bounced = String::new();
        loop {
            let pool = match self.verdict(id).await? {
                Verdict::Run(pool) => pool,
                Verdict::Refused(because, trouble) => {
                    if let Some(wait) = because.wait() {
                        let _ = self.retry_after.set(wait);
                    }
                    let problem = match (&because, self.lost.take()) {
                        // That there is no other one is not what went wrong.
                        (Refusal::NoClusterCouldRun { .. } | Refusal::NoCluster, Some(lost)) => lost,
                        _ => Problem::refused(&because),
                    };
                    self.fail(&problem.trouble(trouble.as_deref()), work.is_whole());
                    return Ok(());
                }
                Verdict::Abandoned(because) => {
                    self.fail(&Problem::abandoned(&because, &bounced), work.is_whole());
                    return Ok(());
                }
                Verdict::Degraded => return self.degraded(work).await,
            };
            if self.pin_ended.is_some() {
                let code = SqlState(*b"57P01");
                self.finished(id, Outcome::Failed { sqlstate: code, rows: 0, bytes: 0 }, false).await?;
                return Ok(());
            }
            if self.wishes.wished.explain {
                self.explain(id, pool.name()).await;
            }
            if let Some(lease) = self.held.take() {
                return self.run(Some(id), work, lease).await.map(drop);
            }
            let ran = match self.connect(id, &pool, work).await? {
                Had::Lease(lease) => self.run(Some(id), work, *lease).await?,
                Had::Bounced => Ran::Bounced,
                Had::Ended => Ran::Ended,
            };
            match ran {
                Ran::Ended => return Ok(()),
                Ran::Bounced => pool.name().clone_into(&mut bounced),
            }
        }
    }

    /// What happens next while nothing is relayed.
    pub(super) async fn happening(&mut self) -> Happening {
        let client_limit = self.rules.door.max_message;
        let (client, mailbox) = (&mut self.client, &mut self.mailbox);
        Pump { client, mailbox, cluster: None, client_limit }.next().await
    }

    async fn verdict(&mut self, id: QueryId) -> Result<Verdict, Over> {
        let fallback = Arc::clone(self.shared.fallback());
        loop {
            let happening = tokio::select! {
                biased;
                happening = self.happening() => happening,
                () = fallback.turned_on() => return Ok(Verdict::Degraded),
            };
            match happening {
                Happening::Order(Order::Run { query, on }) if query == id => return Ok(Verdict::Run(on)),
                Happening::Order(Order::Refuse { query, because, trouble }) if query == id => {
                    return Ok(Verdict::Refused(because, trouble));
                }
                Happening::Order(Order::Abandon { query, because }) if query == id => {
                    return Ok(Verdict::Abandoned(because));
                }
                Happening::Order(Order::EndPin { because }) => self.pin_ended = Some(because),
                Happening::Order(Order::Farewell) => self.farewell = true,
                Happening::ClientGone => return self.desert(id).await,
                Happening::Orphaned => return Err(self.fatal(&Problem::farewell())),
                Happening::Order(_)
                | Happening::Client
                | Happening::Stalled
                | Happening::Cluster
                | Happening::ClusterGone(_) => {}
            }
        }
    }

    /// The client has hung up while its query waited. It may have been placed in the meantime; then it ends here.
    async fn desert(&mut self, id: QueryId) -> Result<Verdict, Over> {
        self.report_end().await;
        // Once the driver answers this, all its orders from before are in the mailbox.
        let _ = self.link.look().await;
        while let Some(order) = self.mailbox.try_recv() {
            if matches!(order, Order::Run { query, .. } if query == id) {
                let outcome = Outcome::Failed { sqlstate: SqlState(*b"57014"), rows: 0, bytes: 0 };
                self.finished(id, outcome, false).await?;
                break;
            }
        }
        Err(Over)
    }

    /// Has a connection from the pool that the verdict named.
    async fn connect(&mut self, id: QueryId, pool: &Arc<Pool>, work: &Work) -> Result<Had, Over> {
        let (who, variables) = (self.who.clone(), Arc::clone(&self.standing.variables));
        let mut lease = std::pin::pin!(pool.lease_with(&who.user, &who.database, &variables));
        let cancelled = SqlState(*b"57014");
        loop {
            let happening = tokio::select! {
                biased;
                had = &mut lease => match had {
                    Ok(lease) => return Ok(Had::Lease(Box::new(lease))),
                    Err(error) => return self.no_connection(id, pool, error, work).await,
                },
                happening = self.happening() => happening,
            };
            match happening {
                Happening::Order(Order::Cancel { query, .. }) if query == id => {
                    self.finished(id, Outcome::Failed { sqlstate: cancelled, rows: 0, bytes: 0 }, false).await?;
                    self.fail(&Problem::refused(&Refusal::Cancelled), work.is_whole());
                    return Ok(Had::Ended);
                }
                Happening::Order(Order::Abandon { query, because }) if query == id => {
                    self.fail(&Problem::abandoned(&because, pool.name()), work.is_whole());
                    return Ok(Had::Ended);
                }
                Happening::Order(Order::Recall { query }) if query == id && !self.standing.is_pinned() => {
                    self.report(Report::Happened(Event::Bounced { query, cluster: pool.cluster(), lost: false }))
                        .await?;
                    return Ok(Had::Bounced);
                }
                Happening::Order(Order::Farewell) => self.farewell = true,
                Happening::ClientGone => {
                    self.report_end().await;
                    self.finished(id, Outcome::Failed { sqlstate: cancelled, rows: 0, bytes: 0 }, false).await?;
                    return Err(Over);
                }
                Happening::Orphaned => return Err(self.fatal(&Problem::farewell())),
                _ => {}
            }
        }
    }

    /// No connection could be had. If that is the client's fault it is told; otherwise the query goes elsewhere.
    async fn no_connection(
        &mut self,
        id: QueryId,
        pool: &Arc<Pool>,
        error: ConnectError,
        work: &Work,
    ) -> Result<Had, Over> {
        tracing::info!(query = id.0, cluster = pool.name(), %error, "no connection for a query");
        // For want of files no other cluster could be reached either.
        if error.is_the_clients() || error.is_ours() {
            let problem = Problem::no_connection(&error, pool.name());
            self.finished(id, Outcome::Failed { sqlstate: problem.sqlstate, rows: 0, bytes: 0 }, false).await?;
            self.fail(&problem, work.is_whole());
            return Ok(Had::Ended);
        }
        self.report(Report::Happened(Event::Bounced { query: id, cluster: pool.cluster(), lost: false })).await?;
        if !matches!(error, ConnectError::Closed) {
            self.report(Report::Doubtful { pool: Arc::clone(pool) }).await?;
        }
        Ok(Had::Bounced)
    }

    /// Runs what does not count as a query, on the connection that the session holds or on any.
    pub(super) async fn uncounted(&mut self, work: Work) -> Result<(), Over> {
        if self.shared.fallback().is_on() {
            return self.degraded(&work).await;
        }
        if let Some(lease) = self.held.take() {
            return self.run(None, &work, lease).await.map(drop);
        }
        let mut failure = Problem::no_cluster();
        for _ in 0..TRIES {
            let fallback = Arc::clone(self.shared.fallback());
            let limit = Duration::from(self.shared.wait_limit());
            let pool = tokio::select! {
                pool = tokio::time::timeout(limit, self.link.any_cluster(true)) => pool,
                () = fallback.turned_on() => return self.degraded(&work).await,
            };
            let pool = match pool {
                Ok(Ok(Ok(pool))) => pool,
                Ok(Err(_)) => return Err(self.fatal(&Problem::farewell())),
                Ok(Ok(Err(NoneReady(trouble)))) => {
                    failure = failure.trouble(trouble.as_deref());
                    break;
                }
                Err(_) => {
                    if let Ok(Err(NoneReady(trouble))) = self.link.any_cluster(false).await {
                        failure = failure.trouble(trouble.as_deref());
                    }
                    break;
                }
            };
            let (who, variables) = (self.who.clone(), Arc::clone(&self.standing.variables));
            match pool.lease_with(&who.user, &who.database, &variables).await {
                Ok(lease) => match self.run(None, &work, lease).await? {
                    Ran::Ended => return Ok(()),
                    Ran::Bounced => failure = Problem::connection_lost(&Loss::HungUp, pool.name()),
                },
                Err(error) => {
                    failure = Problem::no_connection(&error, pool.name());
                    if error.is_the_clients() || error.is_ours() {
                        break;
                    }
                    self.report(Report::Doubtful { pool }).await?;
                }
            }
        }
        self.fail(&failure, work.is_whole());
        Ok(())
    }

    /// Runs work on a connection, and once more on a fresh one if the first turns out to have died while it lay idle.
    pub(super) async fn run(&mut self, id: Option<QueryId>, work: &Work, mut lease: Lease) -> Result<Ran, Over> {
        self.wishes.cluster = Some(Arc::from(lease.pool().name()));
        let mut attempt = self.attempt(id, work, &mut lease).await;
        let died_idle = matches!(attempt.ended, Ended::Lost(Loss::HungUp | Loss::Broken(_)))
            && !attempt.replies.began
            && !attempt.extended;
        // What was told to stop is not sent once more.
        if died_idle && lease.reused && !lease.tainted && !self.standing.is_pinned() && work.is_harmless() {
            self.pipeline.start_over();
            let pool = Arc::clone(lease.pool());
            match pool.lease_new(&self.who.user, &self.who.database).await {
                Ok(fresh) => {
                    lease = fresh;
                    attempt = self.attempt(id, work, &mut lease).await;
                }
                Err(error) => tracing::info!(cluster = pool.name(), %error, "no second connection for a query"),
            }
        }
        match (&attempt.ended, id) {
            (Ended::Ready { status, pass }, _) => {
                let (status, pass) = (*status, *pass);
                self.conclude(id, work, lease, attempt, status, pass).await?;
            }
            (Ended::Recalled, Some(query)) => {
                tracing::info!(query = query.0, cluster = lease.pool().name(), "a query goes elsewhere");
                self.pipeline.start_over();
                let (cluster, lost) = (lease.pool().cluster(), lease.pool().is_closed());
                if lost {
                    // It is taken from a cluster that is gone.
                    self.lost = Some(Problem::connection_lost(&Loss::HungUp, lease.pool().name()));
                }
                drop(lease);
                self.cancelling = None;
                self.report(Report::Happened(Event::Bounced { query, cluster, lost })).await?;
                return Ok(Ran::Bounced);
            }
            (Ended::Lost(loss), Some(query))
                if self.lost.is_none() && self.can_go_elsewhere(work, &attempt, &lease) =>
            {
                let (cluster, pool) = (lease.pool().cluster(), Arc::clone(lease.pool()));
                tracing::info!(query = query.0, cluster = pool.name(), "a query that was lost goes elsewhere");
                self.lost = Some(Problem::connection_lost(loss, pool.name()));
                self.pipeline.start_over();
                drop(lease);
                self.report(Report::Happened(Event::Bounced { query, cluster, lost: true })).await?;
                self.report(Report::Doubtful { pool }).await?;
                return Ok(Ran::Bounced);
            }
            (Ended::Lost(_), None) if self.can_try_again(work, &attempt) => {
                self.pipeline.start_over();
                self.report(Report::Doubtful { pool: Arc::clone(lease.pool()) }).await?;
                return Ok(Ran::Bounced);
            }
            _ => self.break_off(id, lease, attempt).await?,
        }
        Ok(Ran::Ended)
    }

    /// True if what does not count as a query can be tried on another cluster after a loss.
    fn can_try_again(&self, work: &Work, attempt: &Attempt) -> bool {
        let untouched = work.is_harmless() && !attempt.replies.began && !attempt.extended;
        untouched && !self.standing.is_pinned() && !self.client.gone && !self.shared.fallback().is_on()
    }

    /// True if a query can run on another cluster after a loss, once: it only reads, nothing of its result has come, and it is
    /// not part of a transaction.
    fn can_go_elsewhere(&self, work: &Work, attempt: &Attempt, lease: &Lease) -> bool {
        work.impact() == Impact::Reads && self.can_try_again(work, attempt) && !lease.tainted
    }

    /// The cluster is ready again: takes note of what the work did, tells client and driver, lets the connection go.
    async fn conclude(
        &mut self,
        id: Option<QueryId>,
        work: &Work,
        mut lease: Lease,
        attempt: Attempt,
        status: u8,
        pass: bool,
    ) -> Result<(), Over> {
        let Attempt { replies, mut approved, .. } = attempt;
        self.settle(work, &mut lease, &replies, status, &mut approved);
        if pass {
            approved += 6;
            self.pipeline = Pipeline::default();
        } else {
            self.pipeline.settle();
            self.skipping |= replies.error.is_some();
        }
        self.write_on(&mut lease, &mut approved).await;
        let pinned = self.standing.is_pinned() && !self.client.gone;
        if let Some(id) = id {
            let (rows, bytes) = (replies.rows, replies.bytes);
            let outcome = match replies.error {
                None => Outcome::Finished { rows, bytes },
                Some(sqlstate) => Outcome::Failed { sqlstate, rows, bytes },
            };
            self.running.store(0, Ordering::Relaxed);
            self.finished(id, outcome, pinned).await?;
        }
        if pinned {
            // A cancel that comes late must not hit the next query here.
            if let Some(cancelling) = self.cancelling.take() {
                cancelling.end().await;
            }
            self.held = Some(lease);
        } else if self.standing.is_pinned() {
            // Its client is gone in the middle of a transaction.
            drop(lease);
        } else {
            self.cancelling = None;
            lease.give_back();
        }
        if self.client.gone { Err(Over) } else { Ok(()) }
    }

    /// Takes note of what the work did to the session and its connection.
    fn settle(&mut self, work: &Work, lease: &mut Lease, replies: &Replies, status: u8, approved: &mut usize) {
        let one;
        let ran: &[Arc<Reading>] = match work {
            Work::Simple { reading, .. } => {
                lease.carried.unnamed = None;
                one = [Arc::clone(reading)];
                &one
            }
            Work::Pipeline { .. } => &self.pipeline.executed,
            Work::Refusal { .. } => &[],
        };
        let aftermath = self.standing.after(status, replies.error.is_some(), replies.last, ran);
        let carried = &mut lease.carried;
        if carried.memory != Memory::Own && !Arc::ptr_eq(&carried.variables, &self.standing.variables) {
            // It may have set or reset that.
            carried.memory = Memory::Unknown;
        }
        carried.variables = Arc::clone(&self.standing.variables);
        if aftermath.forgot_statements {
            self.statements.forget_all();
            lease.carried.forget_all();
        }
        if aftermath.redress {
            lease.carried.variables = Arc::default();
        }
        if aftermath.reset {
            self.wishes.reset();
        }
        if let Some(why) = aftermath.newly_stuck {
            let message = format!("the session keeps its connection to cluster {} from now on", lease.pool().name());
            let mut notice = Vec::new();
            let problem = Problem::new(b"00000", message).detail(format!("Because {why}."));
            say::problem(&mut notice, say::Severity::Notice, &problem);
            lease.input.insert(*approved, &notice);
            *approved += notice.len();
        }
        self.wishes.pinned = match self.standing.stuck {
            Some(why) => Some(why.to_string()),
            None => (status != b'I').then(|| "a transaction is open".to_owned()),
        };
    }

    /// The cluster will not be ready any more: tells client and driver, and closes the connection.
    async fn break_off(&mut self, id: Option<QueryId>, mut lease: Lease, attempt: Attempt) -> Result<(), Over> {
        let Attempt { ended, replies, approved, whole, .. } = attempt;
        let pool = Arc::clone(lease.pool());
        let (was_stuck, was_in_transaction) = (self.standing.stuck.is_some(), self.standing.status != b'I');
        self.client.out.extend(lease.input.take(approved));
        // Not that it is tainted: what an error leaves behind taints it, too.
        let told_to_stop = self.cancelling.take().is_some();
        drop(lease);
        self.standing.lost();
        self.wishes.pinned = None;
        let problem = match (&ended, &replies.goodbye) {
            (Ended::Abandoned(because), _) => Problem::abandoned(because, pool.name()),
            (Ended::Refused(problem), _) => problem.clone(),
            // A cluster that cannot stop a query may end with it, before anybody has given it up.
            (Ended::Lost(_), _) if told_to_stop => Problem::abandoned(&Abandoned::WillNotStop, pool.name()),
            (Ended::Lost(_), Some(goodbye)) => Problem {
                sqlstate: goodbye.sqlstate,
                ..Problem::connection_lost(&Loss::Goodbye(goodbye.message.clone()), pool.name())
            },
            (Ended::Lost(loss), None) => Problem::connection_lost(loss, pool.name()),
            (Ended::Ready { .. } | Ended::Deserted | Ended::Recalled, _) => {
                Problem::connection_lost(&Loss::HungUp, pool.name())
            }
        };
        let reported = matches!(ended, Ended::Abandoned(_));
        if let Some(id) = id.filter(|_| !reported) {
            let going = problem.sqlstate.0.starts_with(b"57P0") || problem.sqlstate.0.starts_with(b"08");
            let outcome = match &ended {
                Ended::Lost(_) | Ended::Deserted if going => Outcome::Lost,
                _ => Outcome::Failed { sqlstate: problem.sqlstate, rows: replies.rows, bytes: replies.bytes },
            };
            self.running.store(0, Ordering::Relaxed);
            self.finished(id, outcome, false).await?;
        }
        if matches!(ended, Ended::Lost(_)) {
            self.report(Report::Doubtful { pool }).await?;
        }
        if self.client.gone || matches!(ended, Ended::Deserted) {
            return Err(Over);
        }
        if replies.is_cut() {
            // In the middle of a message nothing can be said.
            return Err(Over);
        }
        // A client that goes on after the error would have the rest of its transaction done, and kept, without the beginning.
        if was_stuck || was_in_transaction {
            return Err(self.fatal(&problem));
        }
        self.fail(&problem, whole);
        Ok(())
    }

    /// Tells the client that its query failed; `whole`: and that the session is ready, since the client waits for it.
    pub(super) fn fail(&mut self, problem: &Problem, whole: bool) {
        self.say(say::Severity::Error, problem);
        self.pipeline = Pipeline::default();
        if whole {
            self.say_ready();
        } else {
            self.skipping = true;
        }
    }

    async fn finished(&mut self, query: QueryId, outcome: Outcome, pinned: bool) -> Result<(), Over> {
        let blocked = self.client.blocked.take();
        self.report(Report::Happened(Event::Finished { query, outcome, blocked, pinned })).await
    }
}

impl From<Abandoned> for Ended {
    fn from(because: Abandoned) -> Ended {
        Ended::Abandoned(because)
    }
}
