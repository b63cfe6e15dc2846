//! `punctual plan`: days that are planned ahead.

mod apply;

use clap::Subcommand;

use super::Stop;

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// Have a running gateway follow a plan
    Apply(apply::Flags),
}

pub(super) fn run(what: &What) -> Result<u8, Stop> {
    match what {
        What::Apply(flags) => apply::run(flags),
    }
}
