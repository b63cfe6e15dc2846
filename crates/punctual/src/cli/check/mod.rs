//! `punctual check`: what a configuration means, in people's words, before anything is started with it.
//!
//! ```text
//!  file ──▶ Settings ──▶ Meaning ──▶ text or JSON
//! ```
//!
//! [`Meaning`] is the one value that both outputs show, so that they say the same.

mod meaning;
mod reach;
#[cfg(test)]
mod tests;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use punctual_core::class::Origin;
use serde_json::json;

pub use super::Format;
use super::{FAILED, USAGE};
use crate::config::{self, ConfigError};
pub use meaning::Meaning;

/// Everything went well.
pub const DONE: u8 = 0;

/// Say what a configuration means, and whether it is right.
#[derive(Args, Clone, Debug, Default)]
pub struct Check {
    /// The configuration; without one, what runs without one is shown
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say which class this query gets, and why
    #[arg(long, value_name = "QUERY")]
    pub sql: Option<String>,
    /// The user that the query comes from
    #[arg(long, default_value = "", requires = "sql", hide_default_value = true)]
    pub user: String,
    /// The database that its user is connected to
    #[arg(long, default_value = "", requires = "sql", hide_default_value = true)]
    pub database: String,
    /// The application that it comes from
    #[arg(long, default_value = "", requires = "sql", hide_default_value = true)]
    pub application: String,
    /// Find out whether clusters that are there already can be reached
    #[arg(long)]
    pub connect: bool,
    /// How to say it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Carries it out and returns the exit code: [`DONE`], [`FAILED`] if a cluster cannot be reached, [`USAGE`] if the
/// configuration is wrong, with everything that is wrong in it on `err` (as JSON: on `out`).
///
/// # Errors
/// If the output cannot be written, or nothing can be tried for want of threads or descriptors.
pub fn run(check: &Check, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let settings = match &check.config {
        None => config::default_settings(),
        Some(path) => match config::load(path) {
            Ok(settings) => settings,
            Err(error) => return refuse(check.format, &error, out, err),
        },
    };
    let mut meaning = Meaning::of(&settings, check.config.as_deref());
    if let Some(sql) = &check.sql {
        let origin = Origin { user: &check.user, database: &check.database, application: &check.application };
        meaning.explain(&settings.policy.classes, origin, sql);
    }
    let mut code = DONE;
    if check.connect {
        meaning.reached = Some(reach::all(&settings)?);
        if meaning.reached.iter().flatten().any(|reached| reached.error.is_some()) {
            code = FAILED;
        }
    }
    match check.format {
        Format::Text => text::write(&meaning, out)?,
        Format::Json => writeln!(out, "{:#}", json!(meaning))?,
    }
    out.flush()?;
    Ok(code)
}

fn refuse(format: Format, error: &ConfigError, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let problems: Vec<_> = match error {
        ConfigError::Wrong { problems, .. } => problems
            .iter()
            .map(|p| json!({ "line": p.line, "column": p.column, "key": p.key, "found": p.found, "fix": p.fix }))
            .collect(),
        ConfigError::Unreadable { .. } | ConfigError::TooLarge { .. } => Vec::new(),
    };
    match format {
        Format::Text => writeln!(err, "{error}")?,
        Format::Json => {
            writeln!(out, "{:#}", json!({ "right": false, "error": error.to_string(), "problems": problems }))?
        }
    }
    Ok(USAGE)
}
