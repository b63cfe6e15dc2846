//! A command that someone has configured: what it is told, how long it may take, what comes of it.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// The most that a command may say on standard output, in bytes.
const MOST_SAID: usize = 1 << 20;
/// Lines of its last words that are told, and bytes of them that are kept.
const LAST_WORDS: usize = 3;
const LONGEST_WORDS: usize = 4_096;
/// How long its pipes are read after its end, if others hold them open.
const LINGERS: Duration = Duration::from_millis(200);

/// What a command is about; it gets it in its environment.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    /// `PUNCTUAL_GATEWAY`.
    pub(super) gateway: u16,
    /// `PUNCTUAL_CLUSTER`.
    pub(super) cluster: String,
    /// `PUNCTUAL_GENERATION`.
    pub(super) generation: u32,
    /// `PUNCTUAL_SIZE`.
    pub(super) size: u32,
    /// `PUNCTUAL_RUN`; empty: not known, or none.
    pub(super) run: String,
}

/// Why a command came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// It could not be run.
    Spawn(io::Error),
    /// It ended badly; with its last words.
    Failed(ExitStatus, String),
    /// It took too long and was killed.
    Hung(Duration),
    /// It said more than anybody wants to read, or what is no text.
    Babbles,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Spawn(error) => write!(f, "it could not be run: {error}"),
            Failure::Failed(status, words) if words.is_empty() => write!(f, "it failed ({status})"),
            Failure::Failed(status, words) => write!(f, "it failed ({status}): {words}"),
            Failure::Hung(within) => write!(f, "it took longer than {within:?} and was killed"),
            Failure::Babbles => write!(f, "it said more than {MOST_SAID} bytes, or no text"),
        }
    }
}

/// Runs a command and returns what it said on standard output. Dropped half-way, it is killed with all that it has
/// started.
pub(super) async fn run_command(words: &[String], tags: &Tags, within: Duration) -> Result<String, Failure> {
    run_with_input(words, tags, within, Stdio::null()).await
}

/// The same, with something on standard input.
pub(super) async fn run_with_input(
    words: &[String],
    tags: &Tags,
    within: Duration,
    input: Stdio,
) -> Result<String, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::Spawn(io::ErrorKind::InvalidInput.into()));
    };
    let child = Command::new(program)
        .args(arguments)
        .env("PUNCTUAL_GATEWAY", tags.gateway.to_string())
        .env("PUNCTUAL_CLUSTER", &tags.cluster)
        .env("PUNCTUAL_GENERATION", tags.generation.to_string())
        .env("PUNCTUAL_SIZE", tags.size.to_string())
        .env("PUNCTUAL_RUN", &tags.run)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its own group, so that what it starts can be killed with it, and Ctrl-C is for the gateway alone.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(Failure::Spawn)?;
    let mut group = Group(child);
    match tokio::time::timeout(within, outcome(&mut group.0)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::Hung(within)),
    }
}

/// A command with all that it has started, for as long as it has not ended.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Once it has been waited for it has no id any more, and its number may be another's.
        let pid = self.0.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Waits for its end. What it has started may live on and keep its pipes open: they are not waited for.
async fn outcome(child: &mut Child) -> Result<String, Failure> {
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Failure::Spawn(io::Error::other("its pipes are missing")));
    };
    let (mut said, mut words) = (Vec::new(), Vec::new());
    let (mut says, mut complains, mut ended) = (true, true, None);
    let status = loop {
        if let Some((status, _)) = ended
            && !says
            && !complains
        {
            break status;
        }
        tokio::select! {
            biased;
            read = stdout.read_buf(&mut said), if says => says = read.is_ok_and(|read| read > 0),
            read = stderr.read_buf(&mut words), if complains => complains = read.is_ok_and(|read| read > 0),
            status = child.wait(), if ended.is_none() => {
                ended = Some((status.map_err(Failure::Spawn)?, Instant::now() + LINGERS));
            }
            () = lingering(ended) => if let Some((status, _)) = ended {
                break status;
            },
        }
        if said.len() > MOST_SAID {
            return Err(Failure::Babbles);
        }
        let surplus = words.len().saturating_sub(LONGEST_WORDS);
        words.drain(..surplus);
    };
    if !status.success() {
        return Err(Failure::Failed(status, last_words(&words)));
    }
    String::from_utf8(said).map_err(|_| Failure::Babbles)
}

async fn lingering(ended: Option<(ExitStatus, Instant)>) {
    match ended {
        Some((_, until)) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// The last lines, as one.
fn last_words(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(script: &str, within: Duration) -> Result<String, String> {
        let tags = Tags { gateway: 3, cluster: "fleet-1".into(), generation: 2, size: 8, run: "7-2".into() };
        let words = ["sh", "-c", script].map(str::to_owned);
        run_command(&words, &tags, within).await.map_err(|failure| failure.to_string())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_command_is_told_what_it_is_about_and_its_answer_is_read() {
        let script = "echo $PUNCTUAL_GATEWAY $PUNCTUAL_CLUSTER $PUNCTUAL_GENERATION $PUNCTUAL_SIZE $PUNCTUAL_RUN";
        assert_eq!(run(script, LONG).await.as_deref(), Ok("3 fleet-1 2 8 7-2\n"));
    }

    #[tokio::test]
    async fn one_that_fails_hangs_babbles_or_is_not_there_says_so() {
        let failed = run("echo a >&2; echo no quota >&2; exit 3", LONG).await;
        assert_eq!(failed, Err("it failed (exit status: 3): a / no quota".to_owned()));
        let hung = run("sleep 1000", Duration::from_millis(20)).await;
        assert_eq!(hung, Err("it took longer than 20ms and was killed".to_owned()));
        let babbles = run("while true; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", LONG).await;
        assert_eq!(babbles, Err("it said more than 1048576 bytes, or no text".to_owned()));
        let tags = Tags { gateway: 0, cluster: String::new(), generation: 0, size: 1, run: String::new() };
        let missing = run_command(&["/no/such/program".to_owned()], &tags, LONG).await;
        assert!(matches!(missing, Err(Failure::Spawn(_))), "{missing:?}");
    }

    #[tokio::test]
    async fn what_it_has_started_is_not_waited_for() {
        let pid = run("sleep 1000 & echo $!", LONG).await.expect("a number");
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives on");
    }
}
