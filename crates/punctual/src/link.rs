//! What passes between sessions and the driver.
//!
//! ```text
//!   session ── Event, About ──▶ driver ── handle ──▶ dispatcher
//!      ▲                          │
//!      └──────── Order ◀──────────┘   (one mailbox per session)
//! ```
//!
//! A session reports what happened as core's own events and is told what to do through its mailbox. The rows never
//! come this way: they go from the cluster's connection to the client inside the session.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use punctual_core::class::Classes;
use punctual_core::dispatcher::{Considered, Decision, Queued};
use punctual_core::event::{Abandoned, PinEnd, Refusal};
use punctual_core::id::{ClusterId, QueryId, SessionId};
use punctual_core::plan::{Plan, PlanRefusal};
use punctual_core::query::Query;
use punctual_core::time::Span;
use punctual_core::{Event, view::View};
use tokio::sync::{mpsc, oneshot};

use crate::mailbox::Slot;
use crate::model::file::Opened;
use crate::relay::Pool;
use crate::settings::Settings;

/// Reports on their way to the driver. Sessions wait when it is full.
pub const REPORTS: usize = 16_384;

/// What the driver tells a session.
#[derive(Clone, Debug)]
pub enum Order {
    /// Run the query there.
    Run {
        /// The query.
        query: QueryId,
        /// Connections to the cluster that it was given.
        on: Arc<Pool>,
    },
    /// Do not run the query; tell the client why.
    Refuse {
        /// The query.
        query: QueryId,
        /// Why.
        because: Refusal,
        /// What keeps clusters from being there, if none is.
        trouble: Option<Arc<str>>,
    },
    /// Ask the cluster to stop the query.
    Cancel {
        /// The query.
        query: QueryId,
        /// How long a client that does not take its rows may keep the cluster from stopping.
        patience: Duration,
        /// It has run for as long as its class allows, which is this; None: somebody wants it stopped.
        ran_for: Option<Span>,
    },
    /// Do not wait for the query's cluster any longer: answer the client, close the connection to the cluster.
    Abandon {
        /// The query.
        query: QueryId,
        /// Why.
        because: Abandoned,
    },
    /// The query may not have begun where it is: if nothing has come of it and it can be sent again, report that it
    /// bounced, and wait for another verdict.
    Recall {
        /// The query.
        query: QueryId,
    },
    /// Give up the pinned connection; tell the client and end the session.
    EndPin {
        /// Why.
        because: PinEnd,
    },
    /// End the session once it is idle: the gateway is shutting down.
    Farewell,
}

/// What the driver needs to know of a query besides what decisions do: for history and views.
#[derive(Clone, Debug)]
pub struct About {
    /// The user that connected.
    pub user: Arc<str>,
    /// The database that it connected to.
    pub database: Arc<str>,
    /// Its application name, possibly empty.
    pub application: Arc<str>,
    /// The text as it came.
    pub text: Arc<str>,
    /// Its literal-free shape.
    pub shape: Arc<str>,
}

/// What sessions and surfaces send to the driver.
#[derive(Debug)]
pub enum Report {
    /// A session begins; orders for it go here.
    Joined {
        /// The session.
        session: SessionId,
        /// Its mailbox.
        mailbox: Slot,
    },
    /// A query arrived.
    Arrived {
        /// The query.
        query: Query,
        /// The rest of it.
        about: About,
        /// The classes by which it was classified, which may no longer be in force.
        under: Arc<Classes>,
    },
    /// Anything else that happened.
    Happened(Event),
    /// A ready cluster for statements that are not queries (Parse and Describe alone), which are not counted.
    AnyCluster {
        /// True: answer once there is one or none is coming. False: answer at once.
        wait: bool,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<Arc<Pool>, NoneReady>>,
    },
    /// A connection to this cluster could not be had: find out whether it is still there.
    Doubtful {
        /// Its connections.
        pool: Arc<Pool>,
    },
    /// A model is there, to be put in force.
    Model(Opened),
    /// A day's plan is there, to be followed.
    Plan {
        /// The plan.
        plan: Box<Plan>,
        /// Where it is told whether it is; None: the dispatcher does not decide.
        answer: oneshot::Sender<Option<Result<(), PlanRefusal>>>,
    },
    /// It is asked what would become of a query that nobody has sent.
    Explain {
        /// The query.
        query: Query,
        /// The classes by which it was classified, as of one that arrives.
        under: Arc<Classes>,
        /// Where the answer goes; None: the dispatcher does not decide.
        answer: oneshot::Sender<Option<Explained>>,
    },
    /// It is asked what was decided about a query.
    Decided {
        /// The query.
        query: QueryId,
        /// Where the answer goes; None: that is not kept.
        answer: oneshot::Sender<Option<Box<Decision>>>,
    },
    /// Other settings are to be in force.
    Adopt {
        /// All of them; what cannot change while a gateway runs is as it was.
        settings: Arc<Settings>,
        /// Their classes.
        classes: Arc<Classes>,
        /// Where it is told that they are; dropped if they are not, since the dispatcher does not decide.
        answer: oneshot::Sender<()>,
    },
    /// It is asked where a query stands that waits.
    Queued {
        /// The query.
        query: QueryId,
        /// Where the answer goes; None: it does not wait.
        answer: oneshot::Sender<Option<Queued>>,
    },
    /// A snapshot is wanted.
    Look {
        /// Where it goes.
        answer: oneshot::Sender<Snapshot>,
    },
}

/// What the driver knows, for views.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The dispatcher's view.
    pub view: View,
    /// What is known besides of the queries that are live.
    pub about: Vec<(QueryId, About)>,
    /// Invariants found broken so far.
    pub broken: u64,
    /// True if decisions are made by the fallback.
    pub degraded: bool,
    /// Sessions that are connected.
    pub sessions: u32,
    /// Names of clusters that may be paid for though nobody wants them: their stop has failed.
    pub unstopped: Vec<String>,
}

/// What would become of a query.
#[derive(Clone, Debug)]
pub struct Explained {
    /// That.
    pub considered: Considered,
    /// The names of clusters.
    pub names: Vec<(ClusterId, Arc<str>)>,
}

impl Explained {
    /// The name of a cluster; empty if there is none.
    pub fn name(&self, cluster: ClusterId) -> &str {
        self.names.iter().find(|(id, _)| *id == cluster).map_or("", |(_, name)| name)
    }
}

/// The driver, as sessions and surfaces see it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Link {
    reports: mpsc::Sender<Report>,
    /// After `reports`: when the last link goes, those of all have gone before.
    taker: Arc<Told>,
}

/// The end of links that the driver reads.
#[derive(Debug)]
pub struct Reports {
    receiver: mpsc::Receiver<Report>,
    taker: Arc<OnceLock<Arc<dyn Taker>>>,
}

/// Who takes reports in on the spot, where they are brought, rather than when its own task comes round to it.
pub trait Taker: fmt::Debug + Send + Sync {
    /// Takes in what has been brought so far, or has that done.
    fn take(&self);

    /// There is no link any more.
    fn links_gone(&self);
}

/// Whom links tell that they have brought something.
#[derive(Debug)]
struct Told(Arc<OnceLock<Arc<dyn Taker>>>);

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(taker) = self.0.get() {
            taker.links_gone();
        }
    }
}

impl Reports {
    /// The next one; None if there is no link any more.
    pub async fn recv(&mut self) -> Option<Report> {
        self.receiver.recv().await
    }

    /// The next one, if it is there.
    ///
    /// # Errors
    /// If none is, or none will be.
    pub fn try_recv(&mut self) -> Result<Report, mpsc::error::TryRecvError> {
        self.receiver.try_recv()
    }

    /// Where it is said who is told of every report from then on.
    pub fn taker(&self) -> Arc<OnceLock<Arc<dyn Taker>>> {
        Arc::clone(&self.taker)
    }
}

/// No cluster is ready; with what keeps them from it, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoneReady(pub Option<Arc<str>>);

/// The driver has ended, and with it the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverGone;

impl Link {
    /// A link and the end that the driver reads.
    pub fn new() -> (Link, Reports) {
        let (reports, receiver) = mpsc::channel(REPORTS);
        let taker = Arc::<OnceLock<_>>::default();
        (Link { reports, taker: Arc::new(Told(Arc::clone(&taker))) }, Reports { receiver, taker })
    }

    /// Sends a report, waiting while the driver is behind.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn report(&self, report: Report) -> Result<(), DriverGone> {
        self.reports.send(report).await.map_err(|_| DriverGone)?;
        if let Some(taker) = self.taker.0.get() {
            taker.take();
        }
        Ok(())
    }

    /// Sends an event.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn happened(&self, event: Event) -> Result<(), DriverGone> {
        self.report(Report::Happened(event)).await
    }

    /// What would become of a query that nobody has sent; None if the dispatcher does not decide.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn explain(&self, query: Query, under: Arc<Classes>) -> Result<Option<Explained>, DriverGone> {
        let (answer, explained) = oneshot::channel();
        self.report(Report::Explain { query, under, answer }).await?;
        explained.await.map_err(|_| DriverGone)
    }

    /// Has a plan followed, and says why not if it is refused; None if the dispatcher does not decide.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn follow(&self, plan: Plan) -> Result<Option<Result<(), PlanRefusal>>, DriverGone> {
        let (answer, followed) = oneshot::channel();
        self.report(Report::Plan { plan: Box::new(plan), answer }).await?;
        followed.await.map_err(|_| DriverGone)
    }

    /// What was decided about a query that has been placed; None if that is not kept.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn decided(&self, query: QueryId) -> Result<Option<Box<Decision>>, DriverGone> {
        let (answer, decision) = oneshot::channel();
        self.report(Report::Decided { query, answer }).await?;
        decision.await.map_err(|_| DriverGone)
    }

    /// Puts other settings in force; false if the dispatcher does not decide.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn adopt(&self, settings: Arc<Settings>) -> Result<bool, DriverGone> {
        let (answer, adopted) = oneshot::channel();
        // Made here, since it takes longer than a decision may.
        let classes = Arc::new(Classes::new(settings.policy.classes.clone()));
        self.report(Report::Adopt { settings, classes, answer }).await?;
        Ok(adopted.await.is_ok())
    }

    /// Where a query stands; None if it does not wait.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn queued(&self, query: QueryId) -> Result<Option<Queued>, DriverGone> {
        let (answer, queued) = oneshot::channel();
        self.report(Report::Queued { query, answer }).await?;
        queued.await.map_err(|_| DriverGone)
    }

    /// A snapshot of what the driver knows.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn look(&self) -> Result<Snapshot, DriverGone> {
        let (answer, snapshot) = oneshot::channel();
        self.report(Report::Look { answer }).await?;
        snapshot.await.map_err(|_| DriverGone)
    }

    /// Connections to any ready cluster, for statements that are not queries. With `wait`, while one is starting the
    /// answer takes its time.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn any_cluster(&self, wait: bool) -> Result<Result<Arc<Pool>, NoneReady>, DriverGone> {
        let (answer, pool) = oneshot::channel();
        self.report(Report::AnyCluster { wait, answer }).await?;
        pool.await.map_err(|_| DriverGone)
    }
}
