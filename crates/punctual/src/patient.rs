//! This program again, as a child that has time: it does for hours what may not hold up anything else on the machine.
//!
//! A process of its own takes neither memory nor threads from the gateway, runs at the lowest priority, and may be killed
//! at any time.

use std::fmt;
use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, setpriority_process};
use tokio::process::Command;
use tokio::time::timeout;

/// The lowest priority.
const LAST: i32 = 19;

/// Why nothing came of it.
#[derive(Debug)]
pub enum Unfinished {
    /// It could not be run.
    Spawn(io::Error),
    /// It took longer than this, and was killed.
    TooLong(Duration),
    /// It failed; its last words.
    Failed(String),
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfinished::Spawn(cause) => write!(f, "could not be run: {cause}"),
            Unfinished::TooLong(longest) => write!(f, "took longer than {} hours", longest.as_secs() / 3_600),
            Unfinished::Failed(words) => write!(f, "failed: {words}"),
        }
    }
}

/// Runs it to its end, behind everything else on this machine: what it writes.
///
/// # Errors
/// If it does not end well within that time.
pub(crate) async fn run(command: &mut Command, within: Duration) -> Result<Output, Unfinished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().map_err(Unfinished::Spawn)?;
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id as i32)) {
        // Without it, the child is as important as the gateway; that is no reason not to run it.
        let _ = setpriority_process(Some(pid), LAST);
    }
    let output = timeout(within, child.wait_with_output()).await.map_err(|_| Unfinished::TooLong(within))?;
    let output = output.map_err(Unfinished::Spawn)?;
    if output.status.success() { Ok(output) } else { Err(Unfinished::Failed(last_line(&output.stderr))) }
}

/// The last line that says something.
fn last_line(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_last_line_that_says_something() {
        assert_eq!(last_line(b"one\n two \n\n"), "two");
        assert_eq!(last_line(b"\n"), "it does not say why");
    }

    #[tokio::test]
    async fn what_fails_says_so_in_its_own_words() {
        let mut command = Command::new("sh");
        let failed = run(command.args(["-c", "echo why >&2; exit 3"]), Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(failed.to_string(), "failed: why");
        let mut command = Command::new("sh");
        let output = run(command.args(["-c", "echo what"]), Duration::from_secs(60)).await.unwrap();
        assert_eq!(output.stdout, b"what\n");
    }
}
