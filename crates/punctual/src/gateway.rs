//! A gateway, put together: settings in, a running front door out, a drained end.
//!
//! Read `start` from the top: where things are written, who starts clusters, the driver, the doors. `stop` goes the
//! other way. The binary, the demonstration and the tests all start it here.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::cluster::Phase;
use punctual_core::time::Span;
use punctual_core::{BUILD, Event};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::catalog::Catalog;
use crate::clock::{self, Clock};
use crate::config::Source;
use crate::door::{self, Foresight, Guard, InForce, Rules};
use crate::driver::fallback::Fallback;
use crate::driver::{self, Finale, Parts, Records};
use crate::history::{self, HistoryError};
use crate::http;
use crate::journal::{self, JournalError};
use crate::link::{Link, Snapshot};
use crate::metrics::Metrics;
use crate::model::absent;
use crate::model::file::{self, Opened};
use crate::model::renewal::Renewal;
use crate::plan::nightly::Nightly;
use crate::plans::{self, Asker, Plans};
use crate::provider::Providers;
use crate::reload::Reload;
use crate::settings::{Prediction, Settings};

/// What of the time to shut down in is kept for stopping clusters by force and for the last words to clients, at most.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why a gateway did not start.
#[derive(Debug)]
pub enum GatewayError {
    /// An address could not be listened on.
    Listen {
        /// What for: the key of the configuration.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why not.
        cause: io::Error,
    },
    /// History could not be opened.
    History(HistoryError),
    /// The journal could not be opened.
    Journal(JournalError),
    /// A thread could not be started.
    Thread(io::Error),
    /// The system gives no random numbers.
    Random(io::Error),
    /// The driver ended before its time.
    Driver,
    /// A cluster did not stop, not even by force, in the time to shut down in.
    Late,
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayError::Listen { key, address, cause } if cause.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "{key} = \"{address}\": another program listens there; stop it or choose another port")
            }
            GatewayError::Listen { key, address, cause } => write!(f, "{key} = \"{address}\": {cause}"),
            GatewayError::History(error) => write!(f, "history: {error}"),
            GatewayError::Journal(error) => write!(f, "journal: {error}"),
            GatewayError::Thread(error) => write!(f, "starting a thread: {error}"),
            GatewayError::Random(error) => write!(f, "secrets for the front door: {error}"),
            GatewayError::Driver => write!(f, "the driver ended before its time"),
            GatewayError::Late => write!(f, "a cluster did not stop in time"),
        }
    }
}

/// A running gateway.
pub struct Gateway {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where HTTP is served.
    pub http: Option<SocketAddr>,
    /// The way to its driver.
    pub link: Link,
    /// What it began with.
    pub settings: Arc<Settings>,
    /// The way to other settings.
    pub reload: Arc<Reload>,
    stop: mpsc::Sender<Event>,
    driver: JoinHandle<Finale>,
    history: history::Writer,
    front: Arc<door::Shared>,
    listening: JoinHandle<()>,
    serving: Option<JoinHandle<()>>,
    /// What is done aside while it runs: learning, asking for plans.
    aside: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Starts everything. Clusters start in the background; [`Gateway::ready`] waits for them. The settings are read again
    /// from `source` when they are to change.
    ///
    /// # Errors
    /// If an address is taken, or history or journal cannot be written.
    pub async fn start(settings: Settings, source: Source) -> Result<Gateway, GatewayError> {
        let listener = listen("gateway.listen", settings.listen).await?;
        let http_listener = match settings.http {
            Some(address) => Some(listen("gateway.http", address).await?),
            None => None,
        };
        if let Some(exposed) = settings.access.exposed() {
            tracing::warn!("{exposed}");
        }
        let settings = Arc::new(settings);
        let clock = Clock::start();
        let history =
            history::Writer::start(&settings.history, history::Options::default()).map_err(GatewayError::History)?;
        let opening = journal::Opening { build: BUILD.to_owned(), seed: settings.seed, started: clock.now() };
        let journal = journal::Writer::start(&settings.journal, opening).map_err(GatewayError::Journal)?;
        let metrics = Arc::new(Metrics::new());
        let guard = Guard::new(settings.access.clone(), clock, metrics.clone()).map_err(GatewayError::Random)?;
        let guard = Arc::new(guard);
        let fallback = Fallback::new(settings.policy.wait_limit);
        fallback.watch().map_err(GatewayError::Thread)?;

        let (link, reports) = Link::new();
        let (stop, stop_events) = mpsc::channel(1);
        let kinds: BTreeMap<_, _> =
            settings.clusters.iter().map(|cluster| (cluster.spec.name.clone(), cluster.kind.clone())).collect();
        let (door, patience) = (settings.door.clone(), settings.policy.cancel_grace);
        let (providers, notices) = Providers::new(settings.gateway, kinds, door, patience, &settings.journal.dir);
        let records = Records { history: Some(history.recorder()), journal: Some(journal), metrics: metrics.clone() };
        let model = model(&settings.prediction);
        let absent = absent::meanwhile(&settings.policy, &settings.prediction.model).filter(|_| model.is_none());
        if let Some(meanwhile) = absent {
            tracing::warn!("{meanwhile}");
        }
        let predicts = model.is_some() || settings.prediction.retrain.is_some();
        let in_force = InForce::new(Rules::new(settings.door.clone(), settings.policy.classes.clone()));
        let parts = Parts {
            reports,
            stop: stop_events,
            providers,
            notices,
            records,
            fallback: fallback.clone(),
            in_force: in_force.clone(),
            clock,
            model,
        };
        let driver = tokio::spawn(driver::run(settings.clone(), parts));

        let address = listener.local_addr().unwrap_or(settings.listen);
        let answers = Arc::new(Catalog::new(link.clone()));
        let first = clock.now().micros() >> 4;
        let shared = door::Shared::new(settings.gateway, in_force, first, answers, fallback, guard.clone())
            .ranging(door::TimeRanges::new(&settings.time_tables, clock));
        let (plans, wished) = Plans::new();
        let asks = settings.prediction.explain_every.filter(|_| predicts);
        let foresight = Foresight { texts: history.key(), plans: asks.map(|_| Arc::clone(&plans)) };
        let front = Arc::new(if predicts { shared.predicting(foresight) } else { shared });
        let asker = asks.map(|every| Asker { plans, wished, every, within: plans::WITHIN });
        let asking = asker.map(|asker| tokio::spawn(asker.run(link.clone(), metrics.clone())));
        let listening = tokio::spawn(door::serve(listener, link.clone(), front.clone()));
        let http = http_listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let renewal = settings.prediction.retrain.map(|every| Renewal {
            program: this_program(),
            history: settings.history.dir.clone(),
            model: settings.prediction.model.clone(),
            every,
        });
        let learning = renewal.map(|renewal| tokio::spawn(renewal.run(link.clone(), metrics.clone())));
        let nightly = nightly(&settings, &source, clock);
        let planning = nightly.map(|nightly| tokio::spawn(nightly.run(link.clone(), metrics.clone())));
        let watching = tokio::spawn(clock::watch(clock, metrics.clone()));
        let aside = asking.into_iter().chain(learning).chain(planning).chain([watching]).collect();
        let reload = Arc::new(Reload::new(source, Arc::clone(&settings), link.clone(), guard));
        let serving = http_listener.map(|listener| {
            let shared = http::Shared::new(link.clone(), metrics, front.clone(), reload.clone());
            let served = http::serve(listener, shared, std::future::pending());
            tokio::spawn(async move {
                if let Err(error) = served.await {
                    tracing::error!("HTTP ended: {error}");
                }
            })
        });
        Ok(Gateway { address, http, link, settings, reload, stop, driver, history, front, listening, serving, aside })
    }

    /// Waits until every cluster of the configuration is ready. `look` sees each snapshot on the way and may give up
    /// by returning false.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn ready(&self, mut look: impl FnMut(&Snapshot) -> bool) -> Result<bool, GatewayError> {
        let wanted = self.settings.clusters.iter().map(|cluster| cluster.initial as usize).sum::<usize>();
        loop {
            let snapshot = self.link.look().await.map_err(|_| GatewayError::Driver)?;
            let ready = snapshot.view.clusters.iter().filter(|cluster| cluster.phase == Phase::Ready).count();
            if ready >= wanted {
                return Ok(true);
            }
            if !look(&snapshot) {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Drains: takes no new queries, finishes those that are here, stops the clusters, closes the records. All but the
    /// last takes no longer than `within`; for its last tenth nothing is waited for that would have to finish by itself.
    ///
    /// # Errors
    /// If the driver did not survive, or a cluster could not be stopped.
    pub async fn stop(self, within: Span) -> Result<Snapshot, GatewayError> {
        self.listening.abort();
        self.aside.iter().for_each(JoinHandle::abort);
        let within = Duration::from(within);
        let (ends, last) = (tokio::time::Instant::now() + within, LAST_WORDS.min(within / 10));
        let to_finish = u64::try_from((within - last).as_micros()).unwrap_or(u64::MAX);
        let _ = self.stop.send(Event::ShutdownWanted { within: Span::from_micros(to_finish) }).await;
        let finale = tokio::time::timeout_at(ends, self.driver).await.map_err(|_| GatewayError::Late)?;
        let finale = finale.map_err(|_| GatewayError::Driver)?;
        // Sessions have been told to go; their last words may still be on their way.
        let gone = async {
            while self.front.sessions() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout_at(ends, gone).await;
        if let Some(serving) = self.serving {
            serving.abort();
        }
        let (records, history) = (finale.records, self.history);
        // Both wait for their threads to write what is left.
        let _ = tokio::task::spawn_blocking(move || {
            drop(records);
            history.close();
        })
        .await;
        Ok(finale.snapshot)
    }

    /// Where history and journal are.
    pub fn records(&self) -> (PathBuf, PathBuf) {
        (self.settings.history.dir.clone(), self.settings.journal.dir.clone())
    }
}

/// The program that runs.
fn this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "punctual".into())
}

/// Who has days planned while plans are followed, which is up to a file that may be read again.
fn nightly(settings: &Settings, source: &Source, clock: Clock) -> Option<Nightly> {
    let config = source.file.clone()?;
    let (history, planning) = (settings.history.dir.clone(), settings.planning.clone());
    Some(Nightly { program: this_program(), history, config, planning, clock })
}

/// The model to begin with. A gateway without one is better than none: what is wrong with it is said.
fn model(prediction: &Prediction) -> Option<Opened> {
    let path = &prediction.model;
    if !path.exists() {
        return None;
    }
    match file::open(path) {
        Ok(opened) => {
            tracing::info!(model = %opened.id, file = %path.display(), "latencies are predicted");
            Some(opened)
        }
        Err(cause) => {
            tracing::error!("nothing is predicted: {cause}");
            None
        }
    }
}

async fn listen(key: &'static str, address: SocketAddr) -> Result<TcpListener, GatewayError> {
    TcpListener::bind(address).await.map_err(|cause| GatewayError::Listen { key, address, cause })
}
