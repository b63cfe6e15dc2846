//! `punctual serve --check-only`: whether it would serve, and what, without serving.
//!
//! ```text
//!   file ──▶ Settings, and every file that they name ──▶ addresses, directories, model, programs ──▶ 0, or 2 with the place
//! ```
//!
//! Nothing is started, written, listened on or connected to, so it can be asked beside a gateway that runs, before it is
//! restarted or told to reload. What that one has (its addresses, its directories) is told and is no mistake. Clusters that cannot be
//! reached are none either, since a gateway starts without them: `punctual check --connect` tries them.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;
use serde_json::json;
use tokio::net::TcpSocket;

use crate::cli::check::{DONE, Meaning, refuse};
use crate::cli::{Format, USAGE};
use crate::config::Source;
use crate::history;
use crate::journal;
use crate::model::file;
use crate::settings::Settings;

/// What would come of it.
#[derive(Debug, Serialize)]
struct Rehearsal {
    /// True if nothing is in the way.
    right: bool,
    /// What is.
    problems: Vec<Problem>,
    /// What is worth knowing beside.
    remarks: Vec<String>,
    /// What would be served.
    serves: Meaning,
}

/// What is in the way.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Problem {
    /// The key of the configuration that it is about.
    key: String,
    /// What is wrong.
    found: String,
}

/// Finds out, says so and returns the exit code: [`DONE`], or [`USAGE`] if it would not serve, with everything that is in
/// the way on `err` (as JSON: on `out`).
///
/// # Errors
/// If the output cannot be written, or this machine has no descriptors left to find out with.
pub(super) fn run(source: &Source, format: Format, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let settings = match source.read() {
        Ok(settings) => settings,
        Err(error) => return refuse(format, &error, out, err),
    };
    let rehearsal = Rehearsal::of(&settings, source.file.as_deref())?;
    match format {
        Format::Json => writeln!(out, "{:#}", json!(rehearsal))?,
        Format::Text if rehearsal.right => rehearsal.write(out)?,
        Format::Text => rehearsal.complain(err)?,
    }
    out.flush()?;
    Ok(if rehearsal.right { DONE } else { USAGE })
}

impl Rehearsal {
    fn of(settings: &Settings, file: Option<&Path>) -> io::Result<Rehearsal> {
        let mut found = Found::default();
        found.address("gateway.listen", settings.listen)?;
        if let Some(http) = settings.http {
            found.address("gateway.http", http)?;
        }
        let (history, journal) = (&settings.history.dir, &settings.journal.dir);
        found.directory(history, history::Writer::could_start(history));
        found.directory(journal, journal::Writer::could_start(journal));
        let model = &settings.prediction.model;
        if model.exists()
            && let Err(error) = file::read(model)
        {
            found.wrong("prediction.model", &error);
        }
        let serves = Meaning::of(settings, file);
        serves.problems.iter().for_each(|problem| found.wrong("cluster", problem));
        let Found { problems, mut remarks } = found;
        remarks.extend(serves.warnings.iter().cloned());
        Ok(Rehearsal { right: problems.is_empty(), problems, remarks, serves })
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Meaning { file, listen, access, http, clusters, classes, records, .. } = &self.serves;
        match file {
            Some(file) => writeln!(out, "With {file} it would serve\n")?,
            None => writeln!(out, "Without a configuration file it would serve\n")?,
        }
        writeln!(out, "  clients at {listen}. {access}")?;
        match http {
            Some(http) => writeln!(out, "  HTTP at {http}")?,
            None => writeln!(out, "  no HTTP")?,
        }
        for cluster in clusters {
            writeln!(out, "  cluster {}: {}, {} slots", cluster.name, cluster.what, cluster.slots)?;
        }
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        writeln!(out, "  classes {}", names.join(", "))?;
        records.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        if !self.remarks.is_empty() {
            writeln!(out, "\nRemarks\n")?;
        }
        self.remarks.iter().try_for_each(|remark| writeln!(out, "  {remark}"))?;
        writeln!(out, "\nNothing was started, written or connected to.")
    }

    fn complain(&self, err: &mut dyn Write) -> io::Result<()> {
        writeln!(err, "punctual: it would not serve:")?;
        let place = self.serves.file.as_deref().map_or(String::new(), |file| format!("{file}: "));
        self.problems.iter().try_for_each(|Problem { key, found }| writeln!(err, "{place}{key}: {found}"))
    }
}

/// What was found so far.
#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
    remarks: Vec<String>,
}

impl Found {
    fn wrong(&mut self, key: &str, what: &dyn Display) {
        self.problems.push(Problem { key: key.to_owned(), found: what.to_string() });
    }

    /// Whether an address can be had: it is, for a moment, and nobody is heard there.
    fn address(&mut self, key: &str, address: SocketAddr) -> io::Result<()> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        match socket.bind(address) {
            Ok(()) => {}
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => {
                self.remarks.push(format!("{key}: another program listens at {address}: this gateway already?"));
            }
            Err(cause) => self.wrong(key, &format!("{address} cannot be listened on: {cause}")),
        }
        Ok(())
    }

    /// Whether a directory below `state_dir` can be written to, and is not somebody's.
    fn directory<E: Display>(&mut self, dir: &Path, could: Result<bool, E>) {
        match could {
            Ok(true) => {}
            Ok(false) => self.remarks.push(format!("another gateway writes to {}: this one already?", dir.display())),
            Err(error) => self.wrong("gateway.state_dir", &error),
        }
    }
}
