//! `punctual replay`: decides again what a journal recorded.

use std::path::PathBuf;

use clap::Args;

use super::{FAILED, Format, failed};
use crate::journal;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// A journal directory, or one segment of it
    journal: PathBuf,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// 0 if every decision agrees, 1 otherwise.
pub(super) fn run(flags: &Flags) -> u8 {
    super::log_to_stderr("warn");
    let replay = match journal::replay(&flags.journal, punctual_core::BUILD) {
        Ok(replay) => replay,
        Err(error) => return failed(&error, FAILED),
    };
    match flags.format {
        Format::Text => println!("{replay}"),
        Format::Json => match serde_json::to_string(&replay) {
            Ok(json) => println!("{json}"),
            Err(error) => return failed(&error, FAILED),
        },
    }
    if replay.agrees() { 0 } else { FAILED }
}
