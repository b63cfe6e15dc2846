//! `punctual plan`: days that are planned ahead.

mod apply;
mod diff;
mod make;
mod proposal;

use clap::{Args, Subcommand};

use super::Stop;

/// Plans a day from history, or has a gateway follow a plan.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Wanted {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    make: make::Flags,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Have a running gateway follow a plan
    Apply(apply::Flags),
    /// Say in what two plans differ
    Diff(diff::Flags),
}

pub(super) fn run(wanted: &Wanted) -> Result<u8, Stop> {
    match &wanted.what {
        None => make::run(&wanted.make),
        Some(What::Apply(flags)) => apply::run(flags),
        Some(What::Diff(flags)) => diff::run(flags),
    }
}
