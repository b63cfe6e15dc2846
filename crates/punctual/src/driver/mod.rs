//! The loop around the dispatcher: what happened goes in, what is to be done goes out.
//!
//! ```text
//!  sessions ─┐                                        ┌─▶ mailboxes of sessions
//!  providers ─┼─▶ one at a time: now, handle, journal ─┼─▶ providers
//!  timer ────┘                                        └─▶ history, metrics
//! ```
//!
//! Nothing here decides and nothing here waits for I/O: commands are handed to whoever carries them out. If the
//! dispatcher panics, or a watchdog finds it stuck, sessions go on by the [`fallback`] and an alarm is raised.

mod adopting;
mod failures;
pub mod fallback;
mod turns;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::check;
use punctual_core::event::{Abandoned, LossCause};
use punctual_core::id::{ClusterId, Generation, LaneId, QueryId, SessionId, StudyId};
use punctual_core::query::{Ended, Query};
use punctual_core::time::{Span, Time};
use punctual_core::view::LaneView;
use punctual_core::{Command, Dispatcher, Event};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use self::failures::Failures;
use self::fallback::Fallback;
use self::turns::Turns;
use crate::clock::Clock;
use crate::door::InForce;
use crate::door::problem::rounded;
use crate::history;
use crate::journal;
use crate::link::{About, Explained, NoneReady, Order, Report, Reports, Snapshot};
use crate::mailbox::{Slot, Unsent};
use crate::metrics::Metrics;
use crate::model::file::Opened;
use crate::provider::{self, Notice, Providers};
use crate::relay::{KnownTypes, Pool, tend};
use crate::settings::Settings;

/// Reports taken in at once before commands are looked at again.
const BATCH: usize = 256;
/// For how long the loss of a cluster is kept back, so that what has sent nothing yet can go elsewhere.
const RECALL_WITHIN: Duration = Duration::from_millis(100);
/// Events that may be on their way from what is done aside.
const ASIDE: usize = 16;
/// Clusters whose troubles a client is told of.
const TOLD: usize = 4;
/// The invariants are checked at most this often, since that costs time in proportion to what is live.
const CHECK_EVERY: Span = Span::from_secs(1);

/// What the loop goes by and keeps.
struct Driver {
    dispatcher: Dispatcher,
    settings: Arc<Settings>,
    /// What sessions go by.
    in_force: Arc<InForce>,
    clock: Clock,
    reports: Reports,
    providers: Providers,
    records: Records,
    fallback: Arc<Fallback>,
    mailboxes: BTreeMap<SessionId, Slot>,
    queries: HashMap<QueryId, (SessionId, About)>,
    pools: BTreeMap<ClusterId, Arc<Pool>>,
    types: Arc<KnownTypes>,
    /// Those who want any cluster while none is ready.
    asking: Vec<oneshot::Sender<Result<Arc<Pool>, NoneReady>>>,
    /// What keeps clusters from being ready, as their providers said last.
    troubles: BTreeMap<ClusterId, String>,
    names: BTreeMap<ClusterId, Arc<str>>,
    failures: Failures,
    classes: Vec<Arc<str>>,
    /// The names of lanes, by their ids.
    lanes: Vec<Arc<str>>,
    commands: Vec<Command>,
    /// Where events go that come of what is done aside: answers of studies, losses that were kept back.
    aside: mpsc::Sender<Event>,
    /// When the loop wakes by itself at the latest.
    alarm: Option<Time>,
    /// True once no session and no surface is left, nor can one come.
    orphaned: bool,
    broken: u64,
    /// Rows and events that could not be written, as the metrics know them.
    dropped: (u64, u64),
    next_check: Time,
    /// When a shutdown is over; None: none is wanted.
    ends: Option<tokio::time::Instant>,
}

/// Where the driver writes down what happens.
pub struct Records {
    /// Ended queries; None: nowhere.
    pub history: Option<history::Recorder>,
    /// Events and commands; None: nowhere.
    pub journal: Option<journal::Writer>,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

/// What a driver is made of besides its settings.
pub struct Parts {
    /// Where sessions report.
    pub reports: Reports,
    /// Events from the gateway itself: a shutdown.
    pub stop: mpsc::Receiver<Event>,
    /// Who starts clusters.
    pub providers: Providers,
    /// Where they report.
    pub notices: mpsc::Receiver<provider::About>,
    /// Where things are written down.
    pub records: Records,
    /// How sessions go on without the dispatcher.
    pub fallback: Arc<Fallback>,
    /// What sessions go by: what follows from the settings, kept so by the driver.
    pub in_force: Arc<InForce>,
    /// The clock of all decisions.
    pub clock: Clock,
    /// The model to begin with, if there is one.
    pub model: Option<Opened>,
}

/// What a driver leaves behind.
pub struct Finale {
    /// The last snapshot.
    pub snapshot: Snapshot,
    /// To be closed by the caller, which waits for what is still to be written.
    pub records: Records,
}

/// Drives until a shutdown is complete.
pub async fn run(settings: Arc<Settings>, parts: Parts) -> Finale {
    let (aside, mut asides) = mpsc::channel(ASIDE);
    let Parts { reports, mut stop, providers, mut notices, records, fallback, in_force, clock, model } = parts;
    let mut driver = Driver {
        dispatcher: Dispatcher::new(settings.seed, settings.policy.clone()),
        classes: adopting::names(&settings.policy),
        lanes: adopting::lanes(&settings.policy),
        settings,
        in_force,
        clock,
        reports,
        providers,
        records,
        fallback,
        mailboxes: BTreeMap::new(),
        queries: HashMap::new(),
        pools: BTreeMap::new(),
        types: Arc::default(),
        asking: Vec::new(),
        troubles: BTreeMap::new(),
        names: BTreeMap::new(),
        failures: Failures::default(),
        commands: Vec::new(),
        aside,
        alarm: None,
        orphaned: false,
        broken: 0,
        dropped: (0, 0),
        next_check: Time::ZERO,
        ends: None,
    };
    driver.begin(model);
    let mut alarm = Alarm::new();
    let mut look = every(driver.settings.door.check_every);
    let turns = Turns::of(driver);
    while let Some(rest) = turns.next(Driver::rest).await {
        alarm.set(rest.until);
        if rest.is_short {
            turns.want();
        }
        if look.period() != Duration::from(rest.look_every) {
            look = every(rest.look_every);
        }
        tokio::select! {
            biased;
            Some(event) = stop.recv() => turns.next(|driver| driver.stop_wanted(event)).await,
            Some(event) = asides.recv() => turns.next(|driver| driver.take_aside(event)).await,
            Some(about) = notices.recv() => turns.next(|driver| driver.notice(about)).await,
            () = turns.wanted() => {}
            _ = look.tick() => turns.next(|driver| driver.look_at_busy()).await,
            () = alarm.rings() => turns.next(Driver::wake).await,
        }
    }
    let driver = turns.end().await;
    let snapshot = driver.snapshot();
    if let Some(ends) = driver.ends {
        // What is left may be paid for; what the dispatcher waits for has had its time already.
        let _ = tokio::time::timeout_at(ends, driver.providers.stopped()).await;
    }
    Finale { snapshot, records: driver.records }
}

/// What the loop does while nothing is to be done.
struct Rest {
    until: Option<Instant>,
    look_every: Span,
    /// More reports may be there.
    is_short: bool,
}

impl Driver {
    /// Starts what is to be there from the beginning.
    fn begin(&mut self, model: Option<Opened>) {
        let each = |cluster: &crate::settings::Cluster| vec![cluster.spec.clone(); cluster.initial as usize];
        let wanted: Vec<_> = self.settings.clusters.iter().flat_map(each).collect();
        for spec in wanted {
            self.take(Event::ClusterWanted(spec));
        }
        self.providers.settle();
        if let Some(opened) = model {
            self.adopt(&opened);
        }
    }

    /// Takes in what has been brought; true if something is left for the loop.
    fn drain(&mut self) -> bool {
        let more = self.take_reports();
        let earlier = |at| self.alarm.is_none_or(|alarm| at < alarm);
        more || self.is_over() || self.dispatcher.next_wakeup().is_some_and(earlier)
    }

    /// Takes in what has been brought, and says what the loop is to wait for then; None: it is over.
    fn rest(&mut self) -> Option<Rest> {
        let is_short = self.take_reports();
        if self.is_over() {
            return None;
        }
        self.alarm = self.alarm.into_iter().chain(self.dispatcher.next_wakeup()).min();
        let until = self.alarm.map(|at| self.clock.instant(at));
        Some(Rest { until, look_every: self.settings.door.check_every, is_short })
    }

    /// True if there may be more.
    fn take_reports(&mut self) -> bool {
        for _ in 0..BATCH {
            match self.reports.try_recv() {
                Ok(report) => self.report(report),
                Err(error) => {
                    self.orphaned = error == TryRecvError::Disconnected;
                    self.check_now_and_then();
                    return false;
                }
            }
        }
        self.check_now_and_then();
        true
    }

    fn is_over(&self) -> bool {
        self.orphaned || self.dispatcher.is_shut_down() || self.fallback.is_over()
    }

    /// The alarm has rung.
    fn wake(&mut self) {
        self.alarm = None;
        // It may have been set for something that no longer is to come.
        if self.dispatcher.next_wakeup().is_some_and(|at| at <= self.clock.now()) {
            self.take(Event::Woke);
        }
    }

    fn take_aside(&mut self, event: Event) {
        self.take(event);
        self.answer_asking();
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Joined { session, mailbox } => drop(self.mailboxes.insert(session, mailbox)),
            Report::Arrived { mut query, about, under } => {
                self.translate(&mut query, &under);
                self.queries.insert(query.id, (query.session, about));
                self.take(Event::Arrived(query));
            }
            Report::Happened(event) => {
                if let Event::Bounced { lost: true, .. } = event {
                    self.records.metrics.retried();
                }
                self.take(event);
            }
            Report::AnyCluster { wait: false, answer } => drop(answer.send(self.any_pool())),
            Report::AnyCluster { wait: true, answer } => {
                self.asking.push(answer);
                self.answer_asking();
            }
            Report::Doubtful { pool } => self.providers.check(pool.cluster(), pool.generation()),
            Report::Model(opened) => self.adopt(&opened),
            Report::Plan { plan, answer } => drop(answer.send(self.follow(plan))),
            Report::Explain { mut query, under, answer } => {
                self.translate(&mut query, &under);
                drop(answer.send(self.explain(query)));
            }
            Report::Adopt { settings, classes, answer } => {
                if self.adopt_settings(settings, classes) {
                    let _ = answer.send(());
                }
            }
            Report::Decided { query, answer } => {
                drop(answer.send(self.dispatcher.decision(query).cloned().map(Box::new)));
            }
            Report::Queued { query, answer } => drop(answer.send(self.dispatcher.queued(query))),
            Report::Look { answer } => drop(answer.send(self.snapshot())),
        }
    }

    /// Puts a model in force, and into the journal before that.
    fn adopt(&mut self, opened: &Opened) {
        let journal = self.records.journal.as_mut();
        if !journal.is_none_or(|journal| journal.provide(opened.id, &opened.bytes)) {
            tracing::error!(model = %opened.id, "the model is too large for the journal and is not put in force");
            return;
        }
        self.dispatcher.provide(opened.id, Arc::clone(&opened.model));
        self.take(Event::ModelAdopted(opened.id));
    }

    /// What would become of a query. The journal has nothing of it, since nothing changes.
    fn explain(&mut self, query: Query) -> Option<Explained> {
        if self.fallback.is_on() {
            return None;
        }
        let now = self.clock.now();
        let considered = catch_unwind(AssertUnwindSafe(|| self.dispatcher.consider(now, query))).ok()?;
        let names = self.names.iter().map(|(id, name)| (*id, Arc::clone(name))).collect();
        Some(Explained { considered, names })
    }

    fn notice(&mut self, (cluster, generation, notice): provider::About) {
        match notice {
            Notice::Ready(endpoint) => {
                let name = self.name(cluster);
                self.failures.over(cluster);
                tracing::info!(cluster = %cluster, name, address = %endpoint.address, "cluster is ready");
                let bounds = (self.settings.door.clone(), self.settings.slots_of(&name));
                let pool = Arc::new(Pool::new(cluster, generation, name, endpoint, bounds));
                pool.set_only_reads(self.settings.only_reads(pool.name()));
                pool.expect_visitors_of(self.pools.values());
                tokio::spawn(tend(Arc::downgrade(&pool), Arc::clone(&self.types)));
                if let Some(old) = self.pools.insert(cluster, pool) {
                    old.close();
                }
                self.troubles.remove(&cluster);
                self.records.metrics.cluster("ready");
                self.take(Event::ClusterReady { cluster, generation });
            }
            Notice::NotYet(detail) => self.trouble(cluster, detail),
            Notice::Lost(cause, detail) => {
                self.say_lost(cluster, cause, &detail);
                self.records.metrics.cluster("lost");
                self.drop_pool(cluster, generation);
                self.trouble(cluster, format!("{cause}: {detail}"));
                let lost = Event::ClusterLost { cluster, generation, cause };
                if self.recall_from(cluster, generation) {
                    self.take(Event::ClusterDown { cluster, generation });
                    let aside = self.aside.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(RECALL_WITHIN).await;
                        let _ = aside.send(lost).await;
                    });
                } else {
                    self.take(lost);
                }
            }
            Notice::Burns(burns) => self.take(Event::ClusterBurns { cluster, generation, burns }),
            Notice::RanAway => {
                tracing::warn!(%cluster, "something works on there that nobody waits for");
                self.take(Event::ClusterRanAway { cluster, generation });
            }
            Notice::Stopped => {
                self.failures.over(cluster);
                self.drop_pool(cluster, generation);
                self.troubles.remove(&cluster);
                self.records.metrics.cluster("stopped");
                self.take(Event::ClusterStopped { cluster, generation });
            }
        }
        self.share_ready_pools();
        self.answer_asking();
    }

    /// Asks the sessions of all that runs on a cluster that is lost whether it can run elsewhere; false if nothing does. Those
    /// for which it cannot end when the dispatcher hears of the loss.
    fn recall_from(&mut self, cluster: ClusterId, generation: Generation) -> bool {
        let running = self.dispatcher.running_on_start(cluster, generation);
        for query in &running {
            self.order(*query, Order::Recall { query: *query });
        }
        !running.is_empty()
    }

    /// Keeps in mind what keeps a cluster from being ready; of as many clusters as there may be.
    fn trouble(&mut self, cluster: ClusterId, detail: String) {
        self.troubles.insert(cluster, detail);
        while self.troubles.len() > self.settings.policy.max_clusters as usize {
            self.troubles.pop_first();
        }
    }

    /// What is to be said of that while no cluster is ready.
    fn told_trouble(&self) -> Option<Arc<str>> {
        if self.dispatcher.any_ready().is_some() || self.troubles.is_empty() {
            return None;
        }
        let one = |(cluster, detail): (&ClusterId, &String)| {
            format!("Cluster {}: {detail}.", self.names.get(cluster).map_or("?", |name| name))
        };
        Some(self.troubles.iter().map(one).take(TOLD).collect::<Vec<_>>().join(" ").into())
    }

    /// How full a lane is.
    fn lane_told(&self, lane: LaneId) -> Arc<str> {
        let LaneView { name, limit, running, waiting, expected_wait, .. } = self.dispatcher.lane(lane);
        let limit = limit.map_or_else(String::new, |limit| format!(" of at most {limit}"));
        let wait = expected_wait.map_or_else(String::new, |wait| format!(", which takes about {}", rounded(wait)));
        format!("In lane {name} {running}{limit} run and {waiting} wait{wait}.").into()
    }

    fn name(&self, cluster: ClusterId) -> String {
        self.names.get(&cluster).map_or(String::new(), |name| name.to_string())
    }

    fn say_lost(&mut self, cluster: ClusterId, cause: LossCause, detail: &str) {
        let name = self.name(cluster);
        if cause != LossCause::StartFailed {
            tracing::warn!(%cluster, name, "cluster lost: {cause}: {detail}");
        } else if let Some(times) = self.failures.failed(cluster, detail) {
            tracing::error!(%cluster, name, times, "a cluster does not start and is tried again: {detail}");
        }
    }

    fn drop_pool(&mut self, cluster: ClusterId, generation: Generation) {
        if self.pools.get(&cluster).is_some_and(|pool| pool.generation() == generation)
            && let Some(pool) = self.pools.remove(&cluster)
        {
            pool.close();
            self.types.keep(|name| self.pools.values().any(|pool| pool.name() == name));
        }
    }

    /// Keeps the fallback's list of clusters as the dispatcher sees it.
    fn share_ready_pools(&self) {
        let with_slots = |pool: &Arc<Pool>| (Arc::clone(pool), self.settings.slots_of(pool.name()));
        self.fallback.set(self.pools.values().map(with_slots).collect());
    }

    /// Ends the gateway: no new queries, and idle sessions are told to go.
    fn stop_wanted(&mut self, event: Event) {
        for mailbox in self.mailboxes.values() {
            let _ = mailbox.send(Order::Farewell);
        }
        self.fallback.end();
        self.providers.hurry();
        if let Event::ShutdownWanted { within } = event {
            self.ends = Some(tokio::time::Instant::now() + Duration::from(within));
        }
        self.take(event);
    }

    /// One turn of the brain: the event in, the commands out, both into the journal.
    fn take(&mut self, event: Event) {
        self.take_at(self.clock.now(), event);
    }

    fn take_at(&mut self, now: Time, event: Event) {
        if self.fallback.is_on() {
            return;
        }
        if let Some(journal) = &mut self.records.journal
            && journal.checkpoint_due()
        {
            journal.checkpoint(&self.dispatcher);
        }
        let mut commands = std::mem::take(&mut self.commands);
        let begun = self.records.journal.as_mut().map(|journal| journal.begin(now, &event));
        self.fallback.watch_begins();
        let went = catch_unwind(AssertUnwindSafe(|| self.dispatcher.handle(now, event, &mut commands)));
        self.records.metrics.decision_took(self.fallback.watch_ends());
        if let (Some(journal), Some(begun)) = (&mut self.records.journal, begun) {
            journal.complete(begun, &commands);
        }
        if went.is_err() {
            tracing::error!("the dispatcher failed: queries go on by least outstanding; see the end of the journal");
            self.fallback.turn_on();
            return;
        }
        for command in commands.drain(..) {
            self.carry_out(command);
        }
        self.commands = commands;
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Run { query, cluster } => match self.pools.get(&cluster).cloned() {
                Some(on) => self.order(query, Order::Run { query, on }),
                // Lost between two events: its loss is on its way and will end the query.
                None => tracing::warn!(%query, %cluster, "placed on a cluster without connections"),
            },
            Command::Refuse { query, because } => {
                let trouble = self.told_trouble().or_else(|| because.lane().map(|lane| self.lane_told(lane)));
                self.order(query, Order::Refuse { query, because, trouble });
            }
            Command::Cancel { query, ran_for, .. } => {
                // Before the cluster is judged, so that it does not pay for what its client does.
                let patience = Duration::from(self.settings.policy.cancel_grace) / 2;
                self.order(query, Order::Cancel { query, patience, ran_for });
            }
            Command::Abandon { query, because } => {
                if because == Abandoned::WillNotStop {
                    tracing::warn!(query = query.0, "a query goes on though it was told to stop, and is given up");
                }
                self.order(query, Order::Abandon { query, because });
            }
            Command::Recall { query, .. } => self.order(query, Order::Recall { query }),
            Command::EndPin { session, because } => self.order_session(session, Order::EndPin { because }),
            Command::Start { cluster, generation, spec } => {
                if self.failures.times(cluster) == 0 {
                    tracing::info!(%cluster, name = spec.name, "starting a cluster");
                }
                self.names.insert(cluster, spec.name.as_str().into());
                self.records.metrics.cluster("started");
                self.providers.start(cluster, generation, &spec);
            }
            Command::Stop { cluster, generation, force } => self.providers.stop(cluster, generation, force),
            Command::Study { study } => self.study(study),
            Command::Record(ended) => self.record(&ended),
        }
    }

    /// Has a study made beside the loop; its answer comes as an event.
    fn study(&self, id: StudyId) {
        let (study, aside) = (self.dispatcher.study(), self.aside.clone());
        tokio::task::spawn_blocking(move || {
            let began = std::time::Instant::now();
            let answer = catch_unwind(AssertUnwindSafe(|| punctual_sim::study::run(&study, id.0)));
            let took = began.elapsed();
            tracing::info!(study = id.0, ?took, arrivals = study.arrivals.len(), "a study of what to start is done");
            // One that failed says nothing is better than nothing.
            let _ = aside.blocking_send(Event::StudyDone { study: id, answer: answer.unwrap_or_default() });
        });
    }

    fn order(&mut self, query: QueryId, order: Order) {
        if let Some((session, _)) = self.queries.get(&query) {
            self.order_session(*session, order);
        }
    }

    fn order_session(&mut self, session: SessionId, order: Order) {
        if let Some(mailbox) = self.mailboxes.get(&session)
            && let Err(Unsent::Full(order)) = mailbox.send(order)
        {
            tracing::error!(session = session.0, ?order, "a session does not read its orders");
        }
    }

    fn record(&mut self, ended: &Ended) {
        let unknown = Arc::from("");
        let class = self.classes.get(ended.query.class.0 as usize).unwrap_or(&unknown);
        self.records.metrics.ended(ended, class);
        let Some((_, about)) = self.queries.remove(&ended.query.id) else { return };
        if let Some(history) = &self.records.history {
            let cluster = ended.cluster.and_then(|(id, _)| self.names.get(&id));
            // A full queue is counted there and shown by the metrics.
            let lane = self.lanes.get(ended.lane.0 as usize);
            let _ = history.ended(ended, &about, history::Names { cluster, class, lane });
        }
    }

    /// Answers those who ask for any cluster, once there is one or none is coming. Those who do not wait any longer are
    /// forgotten, and there are at most as many as queries may wait.
    fn answer_asking(&mut self) {
        let pool = self.any_pool();
        let most = self.settings.policy.max_waiting as usize;
        if pool.is_ok() || !self.dispatcher.is_any_coming() || self.asking.len() > most {
            for answer in self.asking.drain(..) {
                let _ = answer.send(pool.clone());
            }
        }
        self.asking.retain(|answer| !answer.is_closed());
    }

    /// Connections to a ready cluster for statements that are not counted.
    fn any_pool(&self) -> Result<Arc<Pool>, NoneReady> {
        let pool = self.dispatcher.any_ready().and_then(|cluster| self.pools.get(&cluster).cloned());
        pool.ok_or_else(|| NoneReady(self.told_trouble()))
    }

    fn snapshot(&self) -> Snapshot {
        let now = self.clock.now();
        // What failed may fail again when it is looked at.
        let view = catch_unwind(AssertUnwindSafe(|| self.dispatcher.view(now)));
        Snapshot {
            view: view.unwrap_or_else(|_| Dispatcher::new(0, self.settings.policy.clone()).view(now)),
            about: self.queries.iter().map(|(id, (_, about))| (*id, about.clone())).collect(),
            broken: self.broken,
            degraded: self.fallback.is_on(),
            sessions: self.mailboxes.values().filter(|mailbox| !mailbox.is_closed()).count() as u32,
            unstopped: self.providers.unstopped(),
        }
    }

    /// Tells the metrics what could not be written since they were told last.
    fn count_drops(&mut self) {
        let history = self.records.history.as_ref().map(history::Recorder::counts);
        let history = history.map_or(0, |counts| counts.dropped_full + counts.lost_on_disk);
        let journal = self.records.journal.as_ref().map_or(0, |journal| journal.counts().dropped);
        self.records.metrics.dropped_history(history.saturating_sub(self.dropped.0));
        self.records.metrics.dropped_journal(journal.saturating_sub(self.dropped.1));
        self.dropped = (history, journal);
    }

    /// Has those looked at that something runs on: one that hangs says nothing, and neither do its connections.
    fn look_at_busy(&mut self) {
        if !self.fallback.is_on() {
            self.dispatcher.busy().for_each(|(cluster, generation)| self.providers.check(cluster, generation));
        }
    }

    fn check_now_and_then(&mut self) {
        let now = self.clock.now();
        if now < self.next_check {
            return;
        }
        self.next_check = now + CHECK_EVERY;
        // A session reads its orders until it is gone, which may be after its client.
        self.mailboxes.retain(|_, mailbox| !mailbox.is_closed());
        self.count_drops();
        self.answer_asking();
        for breach in check::check(&self.dispatcher) {
            self.broken += 1;
            tracing::error!("an invariant is broken: {breach}");
        }
        // Clusters that are neither there nor remembered have no name to keep.
        if self.names.len() > 4 * self.settings.policy.max_clusters as usize {
            let known: Vec<ClusterId> = self.dispatcher.view(now).clusters.iter().map(|c| c.id).collect();
            self.names.retain(|id, _| known.contains(id));
            self.failures.keep(&known);
        }
    }
}

/// Ticks that come no faster after a pause.
fn every(period: Span) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(Duration::from_micros(period.micros().max(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

/// One timer for all that is due. Setting it anew for every event costs more than the decision, so it is moved only when
/// something is due earlier than it is set to, and may ring for nothing.
struct Alarm {
    sleep: Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl Alarm {
    fn new() -> Alarm {
        Alarm { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    /// Rings then.
    fn set(&mut self, at: Option<Instant>) {
        if let Some(at) = at.filter(|_| at != self.at) {
            self.sleep.as_mut().reset(at.into());
        }
        self.at = at;
    }

    async fn rings(&mut self) {
        match self.at {
            Some(_) => self.sleep.as_mut().await,
            None => std::future::pending().await,
        }
        self.at = None;
    }
}
