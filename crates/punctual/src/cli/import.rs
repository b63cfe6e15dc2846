//! `punctual import`: logs of other systems into history.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};

use super::progress::Teller;
use super::{Format, Stop};
use crate::import::{self, ImportError, Meaning, Plan, Profile, Progress, Template, flags, grouped};
use crate::print;
use crate::settings::RecordSql;

/// Bring logs of other systems into history.
#[derive(Debug, Args)]
#[command(after_long_help = LONG_HELP)]
pub(super) struct Flags {
    /// What the files are
    #[arg(value_parser = profiles())]
    profile: String,
    /// The files: CSV, JSON lines or Parquet, each also in gzip
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The history to make
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Which column becomes what: history_column=file_column[+file_column…][:unit]
    #[arg(long, value_name = "MAPPING", value_delimiter = ',')]
    map: Vec<String>,
    /// The file with each query's text, named by columns: 'queries/{template:02}.sql'
    #[arg(long, value_name = "TEMPLATE", value_parser = template)]
    sql: Option<Template>,
    /// What a status means in these files: WORD=finished, failed, cancelled, timeout, refused, lost or running
    #[arg(long, value_name = "WORD=STATUS", value_delimiter = ',', value_parser = flags::word)]
    status: Vec<(String, Meaning)>,
    /// What history keeps of the texts
    #[arg(long, value_enum, default_value_t)]
    record_sql: Keep,
    /// The zone of timestamps that have none: an offset such as +02:00
    #[arg(long, value_name = "OFFSET", default_value = "UTC", value_parser = zone, allow_hyphen_values = true)]
    zone: i64,
    /// What stands between the values of CSV: a character, or tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// Add to a history that is there
    #[arg(long)]
    append: bool,
    /// Stop at the first record that is bad; without it, bad ones are dropped and counted
    #[arg(long)]
    strict: bool,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const LONG_HELP: &str = "\
Columns of history: query_id, arrival, started, ended or latency, cluster, cluster_size, class, lane, user, database, \
application, fingerprint, text_hash, sql, slo, predicted_p50, predicted_p90, isolated, status, sqlstate, rows, bytes, \
split, published. `waited` or `ran` may stand for started. Units are s, ms, us, ns; durations need one, timestamps none. \
Columns joined by + make one key or name; durations are added up. @file is the file's own name. A mapping overrides the \
profile's for that column.

  punctual import snowflake query_history.csv.gz -o history
  punctual import csv runs.csv -o history --map cluster=run,arrival=t:s,latency=took:ms,fingerprint=template";

/// What history keeps of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Keep {
    /// The whole text, up to 1 MiB
    #[default]
    Text,
    /// The shape, without literals
    Shape,
    /// Nothing but the fingerprint
    None,
}

/// The profiles by name, with what each reads.
fn profiles() -> PossibleValuesParser {
    let value = |profile: &Profile| PossibleValue::new(profile.name).help(profile.about);
    PossibleValuesParser::new(flags::PROFILES.map(value))
}

fn template(text: &str) -> Result<Template, String> {
    Template::read(text).map_err(|error| error.to_string())
}

fn zone(text: &str) -> Result<i64, String> {
    flags::zone(text).ok_or_else(|| "write an offset such as +02:00, or UTC".to_owned())
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ => Err("it must be one ASCII character, or tab".to_owned()),
    }
}

/// 0 if rows were kept, 1 if none was or it failed, 2 if what was asked for makes no sense.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let plan = plan(flags).map_err(Stop::usage)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let mut teller = Teller::new();
    let done = import::run(&plan, &stop, &mut |progress| tell(&mut teller, progress));
    drop(teller);
    let report = done.map_err(|error| match error {
        ImportError::Stopped => Stop::failed(error),
        error => Stop::failed(format_args!("{error}\nnothing was written")),
    })?;
    match flags.format {
        Format::Text => print::line(&report)?,
        Format::Json => print::json(&report)?,
    }
    if report.kept == 0 { Err(Stop::failed("no row was kept; nothing was written")) } else { Ok(0) }
}

fn plan(flags: &Flags) -> Result<Plan, String> {
    let profile = flags::profile(&flags.profile).ok_or("there is no such profile")?;
    let plan = Plan {
        profile,
        files: flags.files.clone(),
        out: flags.out.clone(),
        mapping: flags::mapping(flags.map.iter().map(String::as_str)).map_err(|error| format!("--map: {error}"))?,
        words: flags.status.clone(),
        texts: flags.sql.clone(),
        sql: match flags.record_sql {
            Keep::Text => RecordSql::Text,
            Keep::Shape => RecordSql::Shape,
            Keep::None => RecordSql::Nothing,
        },
        offset: flags.zone,
        delimiter: flags.delimiter,
        append: flags.append,
        strict: flags.strict,
    };
    if plan.texts.is_some() && plan.mapping.iter().any(|source| source.target == import::Target::Sql) {
        return Err("the text comes from --sql and from --map; one of them must go".to_owned());
    }
    match plan.lacks().as_slice() {
        [] => Ok(plan),
        lacking => Err(format!("--map must say where these come from: {}", lacking.join(", "))),
    }
}

fn tell(teller: &mut Teller, progress: &Progress<'_>) {
    match progress.file {
        Some(file) => teller.tell("reading", (progress.bytes, progress.of_bytes), || {
            format!("{} records, {}", grouped(progress.records), file.display())
        }),
        None => {
            teller.tell("writing", (progress.written, progress.kept), || format!("{} rows", grouped(progress.written)))
        }
    }
}
