//! Gets demo data ready before clusters start: generated once, into the cache, with progress.

use std::fmt;
#[cfg(feature = "embedded")]
use std::path::Path;
use std::path::PathBuf;

#[cfg(feature = "embedded")]
use punctual_engine::generated::{DataError, Step};

#[cfg(feature = "embedded")]
use crate::print;
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

/// Generates what embedded clusters with `tpch` or `tpcds` need and replaces it by the directory.
///
/// # Errors
/// If the data cannot be written, or the program was built without the engine.
pub fn tables(clusters: &mut [Cluster]) -> Result<(), PrepareError> {
    for cluster in clusters {
        if let ClusterKind::Embedded(embedded) = &mut cluster.kind
            && let Some(made) = generated(&embedded.tables)?
        {
            embedded.tables = Tables::Dirs(vec![made]);
        }
    }
    Ok(())
}

/// The directory of generated tables; None: there is nothing to generate.
#[cfg(feature = "embedded")]
fn generated(tables: &Tables) -> Result<Option<PathBuf>, PrepareError> {
    use punctual_engine::{tpcds, tpch};

    match *tables {
        Tables::Dirs(_) => Ok(None),
        Tables::Tpch { scale_factor } => generate("TPC-H", scale_factor, tpch::ensure).map(Some),
        Tables::Tpcds { scale_factor } => generate("TPC-DS", scale_factor, tpcds::ensure).map(Some),
    }
}

/// How a benchmark's tables are generated: where, how large, and whom to tell.
#[cfg(feature = "embedded")]
type Ensure = fn(&Path, f64, &mut dyn FnMut(Step)) -> Result<PathBuf, DataError>;

#[cfg(feature = "embedded")]
fn generate(name: &'static str, scale_factor: f64, ensure: Ensure) -> Result<PathBuf, PrepareError> {
    use indicatif::{ProgressBar, ProgressStyle};

    let bar = ProgressBar::no_length().with_prefix(name);
    let style = ProgressStyle::with_template("  {prefix} {msg:<22} {bar:30} {percent:>3}%  {per_sec}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let dir = cache_dir();
    let made = ensure(&dir, scale_factor, &mut |step| {
        if bar.message() != step.table {
            bar.set_message(step.table);
            if bar.is_hidden() {
                print::aside(format_args!("generating {name} at scale factor {scale_factor}: {}", step.table));
            }
        }
        bar.set_length(step.expected);
        bar.set_position(step.rows);
    });
    bar.finish_and_clear();
    made.map_err(|error| PrepareError(format!("generating {name} in {}: {error}", dir.display())))
}

#[cfg(not(feature = "embedded"))]
fn generated(tables: &Tables) -> Result<Option<PathBuf>, PrepareError> {
    match tables {
        Tables::Dirs(_) => Ok(None),
        Tables::Tpch { .. } | Tables::Tpcds { .. } => {
            let why = "this program was built without embedded clusters; build it with the feature `embedded`";
            Err(PrepareError(why.to_owned()))
        }
    }
}
