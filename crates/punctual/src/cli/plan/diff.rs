//! `punctual plan diff`: in what two plans differ.

use std::path::{Path, PathBuf};

use clap::Args;
use punctual_core::plan::Plan;
use punctual_tuner::configuration::Configuration;
use serde::Serialize;

use super::proposal::changes;
use crate::cli::{Format, Stop};
use crate::plan::file;
use crate::print;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// A plan
    from: PathBuf,
    /// Another one
    to: PathBuf,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Found {
    changes: Vec<String>,
}

/// 0 if they are the same in what is done, 1 if they differ.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let (from, to) = (read(&flags.from)?, read(&flags.to)?);
    let mut found = Found { changes: changes(&configuration(&from), &configuration(&to)) };
    if (from.from, from.until) != (to.from, to.until) {
        found.changes.push("they are for different days".to_owned());
    }
    if from.made_for != to.made_for {
        found.changes.push("they were made for different configurations of the gateway".to_owned());
    }
    match flags.format {
        Format::Json => print::json(&found)?,
        Format::Text if found.changes.is_empty() => print::line("both do the same")?,
        Format::Text => found.changes.iter().try_for_each(print::line)?,
    }
    Ok(u8::from(!found.changes.is_empty()))
}

fn read(path: &Path) -> Result<Plan, Stop> {
    file::read(path).map_err(|why| Stop::failed(format_args!("{}: {why}", path.display())))
}

fn configuration(plan: &Plan) -> Configuration {
    Configuration { fleet: plan.fleet.clone(), spinups: plan.spinups.clone(), knobs: plan.knobs }
}
