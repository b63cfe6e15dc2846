//! Gets demo data ready before clusters start: generated once, into the cache, with progress.

use std::fmt;
use std::path::PathBuf;

use crate::settings::{Cluster, ClusterKind, Tables};

/// Why the data could not be made.
#[derive(Debug)]
pub struct PrepareError(String);

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where generated data is kept: `$XDG_CACHE_HOME/punctual`, else `~/.cache/punctual`, else below the temporary
/// directory.
pub fn cache_dir() -> PathBuf {
    user_dir("XDG_CACHE_HOME", ".cache")
}

/// Where records of demonstrations are kept: `$XDG_STATE_HOME/punctual`, else `~/.local/state/punctual`, else below the
/// temporary directory.
pub fn state_dir() -> PathBuf {
    user_dir("XDG_STATE_HOME", ".local/state")
}

fn user_dir(variable: &str, below_home: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let base = set(variable).or_else(|| set("HOME").map(|home| home.join(below_home)));
    base.unwrap_or_else(std::env::temp_dir).join("punctual")
}

/// Generates what embedded clusters with `tpch` need and replaces it by the directory.
///
/// # Errors
/// If the data cannot be written, or the program was built without the engine.
pub fn tables(clusters: &mut [Cluster]) -> Result<(), PrepareError> {
    for cluster in clusters {
        if let ClusterKind::Embedded(embedded) = &mut cluster.kind
            && let Tables::Tpch { scale_factor } = embedded.tables
        {
            embedded.tables = Tables::Dirs(vec![tpch(scale_factor)?]);
        }
    }
    Ok(())
}

#[cfg(feature = "embedded")]
fn tpch(scale_factor: f64) -> Result<PathBuf, PrepareError> {
    use indicatif::{ProgressBar, ProgressStyle};

    let bar = ProgressBar::no_length();
    let style = ProgressStyle::with_template("  TPC-H {msg:<10} {bar:30} {percent:>3}%  {per_sec}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let dir = cache_dir();
    let made = punctual_engine::tpch::ensure(&dir, scale_factor, &mut |step| {
        if bar.message() != step.table {
            bar.set_message(step.table);
            if bar.is_hidden() {
                eprintln!("generating TPC-H at scale factor {scale_factor}: {}", step.table);
            }
        }
        bar.set_length(step.expected);
        bar.set_position(step.rows);
    });
    bar.finish_and_clear();
    made.map_err(|error| PrepareError(format!("generating TPC-H in {}: {error}", dir.display())))
}

#[cfg(not(feature = "embedded"))]
fn tpch(_: f64) -> Result<PathBuf, PrepareError> {
    let why = "this program was built without embedded clusters; build it with the feature `embedded`";
    Err(PrepareError(why.to_owned()))
}
