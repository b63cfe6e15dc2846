//! Listening, letting clients in, and ending in good order.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::PgWireBackendMessage;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, oneshot};

use crate::activity::Activity;
use crate::cancel::Sessions;
use crate::engine::Engine;
use crate::simulated::Warehouse;
use crate::startup::{self, NotOpened, Opened};
use crate::wire::{self, Incoming, Outgoing};
use crate::{Kind, Listen, Options, Secret, session};

/// Sessions at once. The gateway uses as many as it has slots, and some for itself.
const MOST_SESSIONS: usize = 1000;

/// Connections that have not said yet who they are.
const MOST_GREETINGS: usize = 100;

/// The name that libpq gives the socket in the directory it is pointed at.
const SOCKET: &str = ".s.PGSQL.5432";

/// Why a cluster could not serve.
#[derive(Debug)]
pub enum EngineError {
    /// An option makes no sense.
    Option {
        /// Which.
        name: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The directory of the socket cannot be made or used.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        cause: io::Error,
    },
    /// Nothing can listen there.
    Listen {
        /// The socket or address.
        address: String,
        /// Why not.
        cause: io::Error,
    },
    /// An address that others can reach needs a password.
    Unprotected(SocketAddr),
    /// A table cannot be served.
    Table {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The threads, the space for spilling or a signal could not be had.
    System {
        /// What was attempted.
        attempt: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
    /// This program was built without DataFusion.
    NotBuiltIn,
    /// DataFusion refused its configuration.
    Engine(String),
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Option { name, reason } => write!(f, "{name}: {reason}"),
            Self::Directory { path, cause } => {
                write!(f, "cannot use {} for the socket: {cause}", path.display())
            }
            Self::Listen { address, cause } => write!(f, "cannot listen on {address}: {cause}"),
            Self::Unprotected(address) => write!(
                f,
                "{address} can be reached from elsewhere and there is no password; set one, or listen on \
                 127.0.0.1 or a Unix socket"
            ),
            Self::Table { path, reason } => {
                write!(f, "cannot serve tables from {}: {reason}", path.display())
            }
            Self::System { attempt, cause } => write!(f, "cannot {attempt}: {cause}"),
            Self::NotBuiltIn => {
                f.write_str("this program was built without the embedded engine; only simulated clusters can run")
            }
            Self::Engine(text) => write!(f, "the engine cannot start: {text}"),
        }
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Directory { cause, .. } | Self::Listen { cause, .. } | Self::System { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Serves until SIGTERM or SIGINT or, if asked, until SIGTERM or the end of standard input. Prints one line
/// `ready {"address": ...}` on standard output when clients can connect.
///
/// # Errors
/// If it cannot start: a table that cannot be read, an address that is taken, a directory that is not ours.
pub fn run(options: Options) -> Result<(), EngineError> {
    check(&options)?;
    // Two threads: one client that needs a long encoding or parse must not keep a cancel waiting.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("connections")
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()
        .map_err(|cause| EngineError::System { attempt: "start threads", cause })?;
    let space = Space::new(&options.kind)?;
    let served = runtime.block_on(serve(options, &space));
    // A statement that does not stop would keep us for ever. It may go on for an instant, without the space that
    // is given back now.
    runtime.shutdown_background();
    served
}

fn check(options: &Options) -> Result<(), EngineError> {
    let wrong = |name, reason| Err(EngineError::Option { name, reason });
    if options.size == 0 {
        return wrong("size", "a cluster has at least one unit");
    }
    match &options.kind {
        Kind::Embedded { threads_per_unit: 0, .. } => {
            return wrong("threads_per_unit", "a unit has at least one thread");
        }
        Kind::Simulated(model) if model.slots == 0 => {
            return wrong("slots", "a warehouse has at least one slot");
        }
        Kind::Simulated(model) if !(model.time_scale > 0.0 && model.time_scale.is_finite()) => {
            return wrong("time_scale", "it is a number above zero");
        }
        _ => {}
    }
    match (&options.listen, &options.secret) {
        (Listen::Tcp(address), Secret::None) if !address.ip().is_loopback() => Err(EngineError::Unprotected(*address)),
        _ => Ok(()),
    }
}

/// Where statements spill. It is kept here and not by the engine, which statements and sessions share: whatever
/// they still hold when we end, the space is given back.
#[cfg(feature = "datafusion")]
struct Space(Option<crate::scratch::Scratch>);

#[cfg(not(feature = "datafusion"))]
struct Space;

impl Space {
    #[cfg(feature = "datafusion")]
    fn new(kind: &Kind) -> Result<Space, EngineError> {
        let Kind::Embedded { .. } = kind else { return Ok(Space(None)) };
        crate::scratch::Scratch::new(&std::env::temp_dir(), "punctual-spill")
            .map(|space| Space(Some(space)))
            .map_err(|cause| EngineError::System { attempt: "make a directory for spilling", cause })
    }

    #[cfg(feature = "datafusion")]
    fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), crate::scratch::Scratch::path)
    }

    #[cfg(not(feature = "datafusion"))]
    fn new(_: &Kind) -> Result<Space, EngineError> {
        Ok(Space)
    }
}

/// What every connection shares.
struct Server {
    engine: Engine,
    secret: Secret,
    sessions: Arc<Sessions>,
    greetings: Arc<Semaphore>,
    timeout: Option<Duration>,
}

async fn serve(options: Options, space: &Space) -> Result<(), EngineError> {
    let system = |attempt| move |cause| EngineError::System { attempt, cause };
    let mut terminate = signal(SignalKind::terminate()).map_err(system("wait for SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("wait for SIGINT"))?;
    let parent = options.until_stdin_closes.then(stdin_closes).transpose()?;
    let engine = engine(&options, space).await?;
    tokio::spawn(watch(engine.activity(), options.runaway_after));
    let listener = Listener::bind(&options.listen).await?;
    let server = Arc::new(Server {
        engine,
        secret: options.secret,
        sessions: Sessions::new(MOST_SESSIONS),
        greetings: Arc::new(Semaphore::new(MOST_GREETINGS)),
        timeout: options.statement_timeout,
    });
    announce(&listener.address()).map_err(system("announce the address"))?;
    // Ctrl-C reaches the whole group of a terminal. With a parent it is the parent who decides what it means.
    let has_parent = parent.is_some();
    let interrupted = async {
        interrupt.recv().await;
        if has_parent {
            std::future::pending().await
        }
    };
    let parent_died = async {
        match parent {
            Some(closed) => drop(closed.await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = accept(&listener, &server) => {}
        _ = terminate.recv() => tracing::info!("ending on SIGTERM"),
        () = interrupted => tracing::info!("ending on SIGINT"),
        () = parent_died => tracing::info!("ending with the parent"),
    }
    Ok(())
}

async fn engine(options: &Options, space: &Space) -> Result<Engine, EngineError> {
    #[cfg(not(feature = "datafusion"))]
    let _ = space;
    match &options.kind {
        Kind::Simulated(model) => Ok(Engine::Simulated(Warehouse::new(*model, options.size))),
        #[cfg(feature = "datafusion")]
        Kind::Embedded { tables, threads_per_unit, memory_per_unit } => {
            let budget = crate::embedded::Budget {
                threads: (options.size * threads_per_unit) as usize,
                memory: u64::from(options.size).saturating_mul(*memory_per_unit) as usize,
            };
            Ok(Engine::Embedded(Arc::new(crate::embedded::Embedded::start(tables, budget, space.path()).await?)))
        }
        #[cfg(not(feature = "datafusion"))]
        Kind::Embedded { .. } => Err(EngineError::NotBuiltIn),
    }
}

fn announce(address: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "ready {}", serde_json::json!({ "address": address }))?;
    stdout.flush()
}

/// How long a statement that was ended may go on before that is worth a word.
const NOTICEABLE: Duration = Duration::from_millis(10);

/// Tells of statements that work on although nobody waits for them: at once, that work should rather go elsewhere, and
/// again when it is over (`burning`, `calm`); and when `patience` is over (`runaway`). Whoever supervises this process
/// decides what that means.
async fn watch(activity: Arc<Activity>, patience: Duration) {
    let (mut burning, mut runaway) = (false, false);
    loop {
        let changed = activity.changed();
        let counts = activity.counts();
        let now_burning = counts.stuck > 0 && (burning || counts.stuck_for >= NOTICEABLE);
        if now_burning != burning {
            say(if now_burning { "burning" } else { "calm" }, counts.stuck);
        }
        let now_runaway = counts.stuck > 0 && counts.stuck_for >= patience;
        if now_runaway && !runaway {
            say("runaway", counts.stuck);
        }
        (burning, runaway) = (now_burning, now_runaway);
        let due = [NOTICEABLE, patience].into_iter().filter_map(|due| due.checked_sub(counts.stuck_for)).min();
        let pause = async {
            match due.filter(|_| counts.stuck > 0) {
                // Not before the moment itself.
                Some(due) => tokio::time::sleep(due + Duration::from_millis(1)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = pause => {}
        }
    }
}

/// One line for whoever supervises this process.
fn say(word: &str, statements: u64) {
    let mut stdout = io::stdout().lock();
    // Without a reader there is nobody to tell.
    let _ = writeln!(stdout, "{word} {}", serde_json::json!({ "statements": statements }));
    let _ = stdout.flush();
}

/// Standard input is read by a thread of its own: a read that never returns must not hold up a runtime.
fn stdin_closes() -> Result<oneshot::Receiver<()>, EngineError> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            // What else the parent may say is of no interest; an error is as good as the end.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = sender.send(());
        })
        .map_err(|cause| EngineError::System { attempt: "watch standard input", cause })?;
    Ok(receiver)
}

enum Listener {
    Unix { listener: UnixListener, path: PathBuf },
    Tcp(TcpListener),
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    async fn bind(listen: &Listen) -> Result<Listener, EngineError> {
        match listen {
            Listen::Unix(directory) => Listener::bind_unix(directory),
            Listen::Tcp(address) => match TcpListener::bind(address).await {
                Ok(listener) => Ok(Listener::Tcp(listener)),
                Err(cause) => Err(EngineError::Listen { address: address.to_string(), cause }),
            },
        }
    }

    fn bind_unix(directory: &Path) -> Result<Listener, EngineError> {
        private_directory(directory).map_err(|cause| EngineError::Directory { path: directory.to_owned(), cause })?;
        let path = directory.join(SOCKET);
        let failed = |cause| EngineError::Listen { address: path.display().to_string(), cause };
        // A socket nobody answers on was left by a process that was killed.
        if path.exists() && std::os::unix::net::UnixStream::connect(&path).is_err() {
            std::fs::remove_file(&path).map_err(failed)?;
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        Ok(Listener::Unix { listener, path })
    }

    fn address(&self) -> String {
        match self {
            Listener::Unix { path, .. } => path.display().to_string(),
            Listener::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| String::new(), |address| address.to_string())
            }
        }
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix { listener, .. } => Ok(Stream::Unix(listener.accept().await?.0)),
            Listener::Tcp(listener) => Ok(Stream::Tcp(listener.accept().await?.0)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes the directory, or checks that nobody else can reach into it.
fn private_directory(directory: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = std::fs::metadata(directory)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a directory"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(io::Error::other(format!("others can reach into it (mode {mode:04o}); `chmod 0700` it")));
    }
    Ok(())
}

async fn accept(listener: &Listener, server: &Arc<Server>) {
    loop {
        // Beyond this many, clients wait in the kernel's queue.
        let Ok(greeting) = server.greetings.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok(stream) => {
                let server = server.clone();
                tokio::spawn(async move {
                    let Some((incoming, outgoing)) = admit(stream) else { return };
                    if let Some((opened, incoming, outgoing)) = greet(&server, incoming, outgoing).await {
                        drop(greeting);
                        converse(&server, opened, incoming, outgoing).await;
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: some will be free soon.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Over a Unix socket only our own user may speak.
fn admit(stream: Stream) -> Option<(Incoming, Outgoing)> {
    match stream {
        Stream::Unix(stream) => {
            let ours = rustix::process::geteuid().as_raw();
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == ours => Some(wire::over_unix(stream)),
                Ok(peer) => {
                    tracing::warn!(uid = peer.uid(), "a client of another user was turned away");
                    None
                }
                Err(error) => {
                    tracing::warn!(%error, "a client's user could not be learnt");
                    None
                }
            }
        }
        Stream::Tcp(stream) => {
            // Whole answers are written at once; waiting to fill a packet only adds latency.
            let _ = stream.set_nodelay(true);
            Some(wire::over_tcp(stream))
        }
    }
}

async fn greet(
    server: &Server,
    mut incoming: Incoming,
    mut outgoing: Outgoing,
) -> Option<(Opened, Incoming, Outgoing)> {
    let opening = startup::open(&mut incoming, &mut outgoing, &server.secret, &server.sessions, server.timeout);
    match tokio::time::timeout(startup::PATIENCE, opening).await {
        Ok(Ok(opened)) => Some((opened, incoming, outgoing)),
        Ok(Err(NotOpened::Refused(failure))) => {
            outgoing.put(PgWireBackendMessage::ErrorResponse(failure.into_error_info().into()));
            outgoing.close().await;
            None
        }
        Ok(Err(NotOpened::Left)) | Err(_) => None,
    }
}

async fn converse(server: &Server, opened: Opened, incoming: Incoming, mut outgoing: Outgoing) {
    match server.engine.session(&opened.user, &opened.settings) {
        Ok(engine) => session::serve(engine, opened, incoming, outgoing).await,
        Err(failure) => {
            outgoing.put(PgWireBackendMessage::ErrorResponse(failure.into_error_info().into()));
            outgoing.close().await;
        }
    }
}
