//! `punctual replay`: decides again what a journal recorded.

use std::path::PathBuf;

use clap::Args;

use super::{FAILED, Format, Stop};
use crate::{journal, print};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// A journal directory, or one segment of it
    journal: PathBuf,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// 0 if every decision agrees and the journal is whole, 1 otherwise.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let replay = journal::replay(&flags.journal, punctual_core::BUILD).map_err(Stop::failed)?;
    match flags.format {
        Format::Text => print::line(&replay)?,
        Format::Json => print::json(&replay)?,
    }
    Ok(if replay.agrees() { 0 } else { FAILED })
}
