//! The reservoir that a forecast stands on: read from its file if it has one, with what is new of the history.
//!
//! Every query that came counts, those that were refused too: they wanted to run. Only those do not that are about the
//! gateway itself.

use std::fs;
use std::io;
use std::path::Path;

use punctual_sim::workload::Weeks;
use punctual_tuner::{Date, Limits, Reservoir, Seen, Zone, simulated};

use crate::cli::Stop;
use crate::clock::Clock;
use crate::history::{self, Row};
use crate::{print, whole};

/// The largest file of a reservoir that is read: what one with the default limits comes to, many times over.
const LARGEST: u64 = 1 << 30;

/// The class of queries that are about the gateway itself.
const CONTROL: &str = "control";

/// What is gathered from.
pub(in crate::cli) struct Source<'a> {
    /// A history.
    pub(in crate::cli) history: Option<&'a Path>,
    /// The file in which what is gathered is kept.
    pub(in crate::cli) reservoir: Option<&'a Path>,
    /// By whose clocks.
    pub(in crate::cli) zone: Option<Zone>,
    /// What chance begins with.
    pub(in crate::cli) seed: u64,
    /// Instead of a history, so many weeks that are generated.
    pub(in crate::cli) generated: Option<u32>,
}

/// Gathers what there is.
pub(in crate::cli) fn reservoir(flags: &Source<'_>) -> Result<Reservoir, Stop> {
    if let Some(weeks) = flags.generated {
        return Ok(simulated::weeks(&Weeks::of(flags.seed), Date::GENERATED, 7 * weeks, Limits::default()));
    }
    let mut reservoir = match flags.reservoir {
        Some(path) => kept(path, flags)?,
        None => Reservoir::new(flags.zone.unwrap_or(Zone::UTC), Limits::default(), flags.seed),
    };
    if let Some(history) = flags.history {
        add(&mut reservoir, history)?;
        if let Some(path) = flags.reservoir {
            let failed = |cause| Stop::failed(format_args!("writing {}: {cause}", path.display()));
            whole::write(path, &reservoir.to_bytes()).map_err(failed)?;
        }
    }
    Ok(reservoir)
}

/// What the file has; nothing, if there is none yet and a history to fill it.
fn kept(path: &Path, flags: &Source<'_>) -> Result<Reservoir, Stop> {
    let failed = |cause: &dyn std::fmt::Display| Stop::failed(format_args!("reading {}: {cause}", path.display()));
    let length = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && flags.history.is_some() => {
            whole::check(path).map_err(|cause| Stop::failed(format_args!("writing {}: {cause}", path.display())))?;
            return Ok(Reservoir::new(flags.zone.unwrap_or(Zone::UTC), Limits::default(), flags.seed));
        }
        Err(cause) => return Err(failed(&cause)),
    };
    if length > LARGEST {
        return Err(failed(&"it is larger than any reservoir"));
    }
    let bytes = fs::read(path).map_err(|cause| failed(&cause))?;
    let reservoir = Reservoir::from_bytes(&bytes).map_err(|cause| failed(&cause))?;
    match flags.zone {
        Some(zone) if zone != reservoir.zone() => Err(Stop::usage(format_args!(
            "{} goes by the clocks of {}, not of {zone}; another zone needs another file",
            path.display(),
            reservoir.zone()
        ))),
        _ => Ok(reservoir),
    }
}

/// Adds what is new of a history, which goes by its path.
fn add(reservoir: &mut Reservoir, history: &Path) -> Result<(), Stop> {
    let rows = history::read(history).map_err(Stop::failed)?;
    let source = fs::canonicalize(history).unwrap_or_else(|_| history.to_owned());
    let mut adding = reservoir.adding(&source.display().to_string(), Clock::start().now());
    let mut unreadable = 0u64;
    for row in rows {
        match row {
            Ok(row) if row.class.as_deref() == Some(CONTROL) => {}
            Ok(row) => adding.take(seen(row)),
            Err(cause) => {
                unreadable += 1;
                if unreadable <= 3 {
                    print::aside(format_args!("punctual: {cause}"));
                }
            }
        }
    }
    let added = adding.done();
    if unreadable > 3 {
        print::aside(format_args!("punctual: {} more rows could not be read", unreadable - 3));
    }
    if added.refused.ahead > 0 {
        print::aside(format_args!(
            "punctual: {} from the future left out: a clock was wrong",
            print::counted(added.refused.ahead, "query", "queries")
        ));
    }
    Ok(())
}

fn seen(row: Row) -> Seen {
    let Row { arrival: at, ended, fingerprint, class, slo, text_hash: text, features, .. } = row;
    Seen { at, ended, fingerprint, class, slo, text, features: features.unwrap_or_default() }
}
