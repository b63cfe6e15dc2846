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
mod query;
mod reach;
mod scaling;
mod startable;
#[cfg(test)]
mod tests;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use punctual_core::class::{Client, Origin};
use serde_json::json;

pub use super::Format;
use super::{FAILED, USAGE};
use crate::clock::Clock;
use crate::config::{self, ConfigError, Typed};
use crate::door::local::Wished;
pub use meaning::Meaning;
use query::Question;
pub use query::{QueryMeaning, ReadMeaning, ScanMeaning};

/// Everything went well.
pub const DONE: u8 = 0;

/// Say what a configuration means, and whether it is right.
#[derive(Args, Clone, Debug, Default)]
pub struct Check {
    /// The configuration; without one, what runs without one is shown
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say only what becomes of this query: its class, how much of time it reads, its priority and lane, and why
    #[arg(long, value_name = "SQL", alias = "sql", conflicts_with = "connect")]
    pub query: Option<String>,
    /// The user that the query comes from
    #[arg(long, default_value = "", requires = "query", hide_default_value = true)]
    pub user: String,
    /// The database that its user is connected to
    #[arg(long, default_value = "", requires = "query", hide_default_value = true)]
    pub database: String,
    /// The application that it comes from
    #[arg(long, default_value = "", requires = "query", hide_default_value = true)]
    pub application: String,
    /// Where its client is: an address, or "local" for a Unix socket
    #[arg(long, value_name = "ADDRESS", requires = "query", value_parser = client)]
    pub client: Option<Client>,
    /// The class that its session has chosen
    #[arg(long, requires = "query")]
    pub class: Option<String>,
    /// The priority that its session asks for
    #[arg(long, requires = "query", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// The value of its first parameter, $1; again for the second, and so on
    #[arg(long = "parameter", value_name = "VALUE", requires = "query", allow_hyphen_values = true)]
    pub parameters: Vec<String>,
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
    if let Some(sql) = &check.query {
        let client = check.client.unwrap_or_default();
        let origin = Origin { user: &check.user, database: &check.database, application: &check.application, client };
        let wished = Wished { class: check.class.clone(), priority: check.priority, ..Wished::default() };
        let (parameters, now) = (check.parameters.as_slice(), Clock::start().now());
        let query = QueryMeaning::of(&Question { sql, parameters, origin, wished, now }, &settings);
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

/// Reads where a client is.
fn client(text: &str) -> Result<Client, &'static str> {
    Client::read(text).ok_or("write an address, or local")
}

/// Says what is wrong with a configuration, and returns the exit code.
///
/// # Errors
/// If the output cannot be written.
pub(super) fn refuse(format: Format, error: &ConfigError, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let problems = match error {
        ConfigError::Wrong { problems, .. } => problems.as_slice(),
        ConfigError::Unreadable { .. } | ConfigError::TooLarge { .. } => &[],
    };
    match format {
        Format::Text => writeln!(err, "{error}")?,
        Format::Json => {
            writeln!(out, "{:#}", json!({ "right": false, "error": error.to_string(), "problems": problems }))?
        }
    }
    Ok(USAGE)
}
