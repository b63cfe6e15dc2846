//! `punctual check`: what a configuration means, in people's words, before anything is started with it.
//!
//! ```text
//!  file ──▶ Settings ──▶ Meaning ──▶ text or JSON
//! ```
//!
//! [`Meaning`] is the one value that both outputs show, so that they say the same; [`QueryMeaning`] that of the question
//! what becomes of a query.

mod admission;
mod meaning;
mod reach;
mod startable;
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
use crate::config::{self, ConfigError, Typed};
pub use meaning::{Meaning, QueryMeaning};

/// Everything went well.
pub const DONE: u8 = 0;

/// Say what a configuration means, and whether it is right.
#[derive(Args, Clone, Debug, Default)]
pub struct Check {
    /// The configuration; without one, what runs without one is shown
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say only which class this query gets, and why
    #[arg(long, value_name = "QUERY", conflicts_with = "connect")]
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

/// Carries it out and returns the exit code: [`DONE`], [`FAILED`] if a cluster would not start or cannot be reached,
/// [`USAGE`] if the configuration is wrong, with everything that is wrong in it on `err` (as JSON: on `out`).
///
/// # Errors
/// If the output cannot be written, or nothing can be tried for want of threads or descriptors.
pub fn run(check: &Check, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let settings = match config::read(check.config.as_deref(), Typed::default()) {
        Ok(settings) => settings,
        Err(error) => return refuse(check.format, &error, out, err),
    };
    if let Some(sql) = &check.sql {
        let origin = Origin { user: &check.user, database: &check.database, application: &check.application };
        let query = QueryMeaning::of(sql, origin, &settings.policy.classes);
        match check.format {
            Format::Text => text::write_query(&query, out)?,
            Format::Json => writeln!(out, "{:#}", json!(query))?,
        }
        out.flush()?;
        return Ok(DONE);
    }
    let mut meaning = Meaning::of(&settings, check.config.as_deref());
    let mut code = if meaning.problems.is_empty() { DONE } else { FAILED };
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
