//! Clusters that are child processes of the gateway: `punctual engine`, embedded or simulated.
//!
//! A child listens on a Unix socket in a directory that only we may enter, gets its password on standard input, says
//! on standard output that it listens, and ends when its standard input closes: so none outlives a gateway that was
//! killed. What it writes to standard error goes to the log, with the last lines kept for the reason of its end.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use punctual_core::cluster::Spec;
use punctual_core::event::LossCause;
use punctual_core::id::ClusterId;
use punctual_core::time::Span;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::socket_dir::SocketDir;
use super::{Notice, Start, Wish};
use crate::chance;
use crate::relay;
use crate::settings::{Address, Embedded, Endpoint, Login, Secret, Simulated, Tables};

/// Lines of a child's last words that are kept.
const LAST_WORDS: usize = 5;

/// Why a child did not become a cluster.
#[derive(Debug)]
pub enum ChildError {
    /// Its directory could not be made.
    Directory(PathBuf, io::Error),
    /// It could not be run.
    Spawn(io::Error),
    /// Its secret could not be handed over.
    Secret(io::Error),
    /// It ended before it was ready.
    Ended(String),
    /// It listens but does not answer.
    Silent(relay::ConnectError),
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildError::Directory(path, error) => write!(f, "making {}: {error}", path.display()),
            ChildError::Spawn(error) => write!(f, "running the engine: {error}"),
            ChildError::Secret(error) => write!(f, "handing the engine its secret: {error}"),
            ChildError::Ended(why) => f.write_str(why),
            ChildError::Silent(error) => write!(f, "the engine does not answer: {error}"),
        }
    }
}

/// What to run, less what differs from start to start.
#[derive(Debug)]
pub(super) struct Program {
    arguments: Vec<String>,
    /// How long a start takes at least.
    start_takes: Duration,
}

impl Program {
    /// An embedded cluster of that size.
    pub(super) fn embedded(embedded: &Embedded, spec: &Spec, patience: Span) -> Program {
        let mut arguments = vec![
            "--runaway-after".to_owned(),
            patience.to_string(),
            "--size".to_owned(),
            spec.units.0.to_string(),
            "--threads-per-unit".to_owned(),
            embedded.threads_per_unit.to_string(),
            "--memory-per-unit".to_owned(),
            embedded.memory_per_unit.to_string(),
        ];
        if let Tables::Dirs(dirs) = &embedded.tables {
            for dir in dirs {
                arguments.extend(["--tables".to_owned(), dir.display().to_string()]);
            }
        }
        Program { arguments, start_takes: Duration::ZERO }
    }

    /// A simulated cluster of that size; `chance` is what a warehouse's chance begins with.
    pub(super) fn simulated(simulated: &Simulated, chance: u64, spec: &Spec, patience: Span) -> Program {
        let Simulated { time_scale, warehouse, start_takes } = simulated;
        let mut arguments = vec![
            "--runaway-after".to_owned(),
            patience.to_string(),
            "--simulated".to_owned(),
            "--size".to_owned(),
            spec.units.0.to_string(),
            "--slots".to_owned(),
            // The gateway's slots govern; the engine adds room for control queries.
            (spec.slots + 16).to_string(),
            "--time-scale".to_owned(),
            time_scale.to_string(),
        ];
        if *warehouse {
            arguments.extend(["--warehouse".to_owned(), "--seed".to_owned(), chance.to_string()]);
        }
        let start_takes = start_takes.secs_f64() / time_scale;
        Program { arguments, start_takes: Duration::try_from_secs_f64(start_takes).unwrap_or(Duration::MAX) }
    }
}

/// Runs a child until it is told to stop or ends by itself.
pub(super) async fn run(mut start: Start, program: Program) {
    let begins = tokio::time::Instant::now();
    let mut engine = match Engine::launch(&program).await {
        Ok(engine) => engine,
        Err(error) => return start.report(Notice::Lost(LossCause::StartFailed, error.to_string())).await,
    };
    let (cluster, within) = (start.cluster, start.door.connect_within);
    let ready = tokio::select! {
        ready = async {
            let ready = engine.ready(cluster, within).await;
            if ready.is_ok() {
                tokio::time::sleep(program.start_takes.saturating_sub(begins.elapsed())).await;
            }
            ready
        } => ready,
        () = stop_wanted(&mut start) => {
            engine.kill().await;
            return start.report(Notice::Stopped).await;
        }
    };
    match ready {
        Ok(endpoint) => start.tell(Notice::Ready(endpoint)).await,
        Err(error) => {
            engine.kill().await;
            return start.report(Notice::Lost(LossCause::StartFailed, error.to_string())).await;
        }
    }
    loop {
        tokio::select! {
            line = engine.stdout.next_line(), if !engine.silent => match line {
                Ok(Some(line)) if line.starts_with("runaway") => start.tell(Notice::RanAway).await,
                Ok(Some(line)) if line.starts_with("burning") => start.tell(Notice::Burns(true)).await,
                Ok(Some(line)) if line.starts_with("calm") => start.tell(Notice::Burns(false)).await,
                Ok(Some(line)) => tracing::info!(%cluster, "engine: {line}"),
                Ok(None) | Err(_) => engine.silent = true,
            },
            status = engine.child.wait() => {
                let why = engine.last_words(status).await;
                return start.report(Notice::Lost(LossCause::Exited, why)).await;
            }
            wish = start.next_wish() => match wish {
                Wish::Run | Wish::Check(_) => {}
                Wish::Stop => {
                    engine.end().await;
                    return start.report(Notice::Stopped).await;
                }
                Wish::Kill => {
                    engine.kill().await;
                    return start.report(Notice::Stopped).await;
                }
            },
        }
    }
}

async fn stop_wanted(start: &mut Start) {
    while !matches!(start.wish(), Wish::Stop | Wish::Kill) {
        if matches!(start.next_wish().await, Wish::Stop | Wish::Kill) {
            return;
        }
    }
}

/// A running child with its ends of the pipes.
struct Engine {
    child: Child,
    /// Closing it ends the child.
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    /// True once its standard output has ended.
    silent: bool,
    last_words: Option<JoinHandle<VecDeque<String>>>,
    endpoint: Endpoint,
    /// Removed when this is dropped.
    dir: SocketDir,
}

impl Engine {
    async fn launch(program: &Program) -> Result<Engine, ChildError> {
        let dir = SocketDir::new().map_err(|(path, error)| ChildError::Directory(path, error))?;
        let secret = Secret::new(random_secret().map_err(ChildError::Secret)?);
        let me = std::env::current_exe().map_err(ChildError::Spawn)?;
        let mut child = Command::new(me)
            .arg("engine")
            .arg("--socket-dir")
            .arg(dir.path())
            .arg("--secret-on-stdin")
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is for the gateway, which stops its children in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(ChildError::Spawn)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(ChildError::Spawn(io::Error::other("its pipes are missing")));
        };
        stdin.write_all(format!("{}\n", secret.reveal()).as_bytes()).await.map_err(ChildError::Secret)?;
        let login = Login { password: Some(secret), ..Login::default() };
        let endpoint = Endpoint { address: Address::Unix(dir.socket()), login };
        Ok(Engine {
            child,
            stdin: Some(stdin),
            stdout: BufReader::new(stdout).lines(),
            silent: false,
            last_words: Some(tokio::spawn(listen(stderr))),
            endpoint,
            dir,
        })
    }

    /// Waits until the child says that it listens, and sees for itself.
    async fn ready(&mut self, cluster: ClusterId, within: Span) -> Result<Endpoint, ChildError> {
        loop {
            match self.stdout.next_line().await {
                Ok(Some(line)) if line.starts_with("ready") => break,
                Ok(Some(line)) => tracing::info!(%cluster, "engine: {line}"),
                Ok(None) | Err(_) => {
                    let status = self.child.wait().await;
                    return Err(ChildError::Ended(self.last_words(status).await));
                }
            }
        }
        match relay::probe(&self.endpoint, within).await {
            Ok(_) => Ok(self.endpoint.clone()),
            Err(error) => Err(ChildError::Silent(error)),
        }
    }

    /// Lets the child end: nothing runs there any more.
    async fn end(&mut self) {
        self.stdin = None;
        if tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }

    async fn kill(&mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::warn!(dir = %self.dir.path().display(), "killing the engine: {error}");
        }
    }

    /// Why the child ended: its status and what it said last.
    async fn last_words(&mut self, status: io::Result<ExitStatus>) -> String {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let words = match self.last_words.take() {
            Some(listener) => listener.await.unwrap_or_default(),
            None => VecDeque::new(),
        };
        if words.is_empty() {
            return format!("the engine ended ({status})");
        }
        format!("the engine ended ({status}): {}", Vec::from(words).join(" / "))
    }
}

/// Passes the child's standard error to the log and keeps its end.
async fn listen(stderr: ChildStderr) -> VecDeque<String> {
    let mut lines = BufReader::new(stderr).lines();
    let mut kept = VecDeque::new();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::debug!("engine: {line}");
        kept.push_back(line);
        if kept.len() > LAST_WORDS {
            kept.pop_front();
        }
    }
    kept
}

/// 32 bytes of the system's entropy, in hexadecimal.
fn random_secret() -> io::Result<String> {
    let bytes = chance::secret::<32>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use punctual_core::billing::Price;
    use punctual_core::id::Units;

    use super::*;

    #[test]
    fn a_simulated_warehouse_has_its_own_chance_and_starts_in_its_own_time() {
        let price = Price::default();
        let spec =
            Spec { name: "a".into(), units: Units(8), slots: 4, price, killable: true, offer: None, writer: false };
        let patience = Span::from_secs(5);
        let simulated = Simulated { time_scale: 60.0, warehouse: true, start_takes: Span::from_secs(90) };
        let program = Program::simulated(&simulated, 7 << 32 | 2, &spec, patience);
        assert_eq!(
            program.arguments.join(" "),
            "--runaway-after 5s --simulated --size 8 --slots 20 --time-scale 60 --warehouse --seed 30064771074"
        );
        assert_eq!(program.start_takes, Duration::from_millis(1_500));
        let plain = Program::simulated(&Simulated::default(), 7, &spec, patience);
        assert!(!plain.arguments.contains(&"--warehouse".to_owned()) && plain.start_takes.is_zero());
    }
}
