//! What benchmarks share: a gateway that serves, and what pgbench has logged.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What to do if pgbench is missing.
pub(crate) const HOW_TO_GET_IT: &str = "starting pgbench (package postgresql-contrib)";

/// A running `punctual serve`.
pub(crate) struct Gateway {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub(crate) port: String,
    _out: BufReader<ChildStdout>,
}

impl Gateway {
    /// Starts that program with that configuration.
    pub(crate) fn start(punctual: &Path, file: &Path) -> Result<Gateway, String> {
        let mut command = Command::new(punctual);
        command.arg("serve").arg("-c").arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("starting {}: {error}", punctual.display()))?;
        let mut out = BufReader::new(child.stdout.take().ok_or("it has no standard output")?);
        let mut line = String::new();
        out.read_line(&mut line).map_err(|error| format!("reading what the gateway says: {error}"))?;
        let port =
            line.trim().strip_prefix("listening on 127.0.0.1:").map(|rest| rest.split(',').next().unwrap_or(rest));
        match port.map(str::to_owned) {
            Some(port) => Ok(Gateway { child, port, _out: out }),
            None => {
                let _ = child.kill();
                Err(format!("the gateway does not listen: {line:?}; `punctual check -c {}` says why", file.display()))
            }
        }
    }
}

impl Gateway {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Its clusters end with it.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Latencies in milliseconds, sorted: the third number of each line of the logs that begin so, in microseconds. The logs are
/// removed.
pub(crate) fn latencies(dir: &Path, prefix: &str) -> Result<Vec<f64>, String> {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(&format!("{prefix}."))
    };
    let entries = fs::read_dir(dir).map_err(|error| format!("reading {}: {error}", dir.display()))?;
    let mut latencies = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_log) {
        let text = fs::read_to_string(&path).map_err(|error| format!("reading {}: {error}", path.display()))?;
        let micros = text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok());
        latencies.extend(micros.map(|micros| micros / 1_000.0));
        let _ = fs::remove_file(&path);
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// By nearest rank, of sorted values; none: no number.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
