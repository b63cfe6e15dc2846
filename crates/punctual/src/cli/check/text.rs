//! The meaning on a terminal.

use std::io::{self, Write};

use punctual_core::billing::dollars;

use super::meaning::{ClassMeaning, ClusterMeaning, Meaning, Reached};
use super::query::{QueryMeaning, ReadMeaning, ScanMeaning};

/// Writes all of it.
pub(super) fn write(meaning: &Meaning, out: &mut dyn Write) -> io::Result<()> {
    match &meaning.file {
        Some(file) if meaning.right => writeln!(out, "{file} is right. It means:\n")?,
        Some(file) => writeln!(out, "{file} can be read, but not every cluster would start. It means:\n")?,
        None => writeln!(out, "Without a configuration file:\n")?,
    }
    writeln!(out, "Clients connect to {} with any Postgres driver: psql -h {}", meaning.listen, psql(&meaning.listen))?;
    writeln!(out, "{}", meaning.access)?;
    match &meaning.http {
        Some(http) => writeln!(out, "Metrics and health: http://{http}/metrics, /healthz, /readyz")?,
        None => writeln!(out, "HTTP is off: no metrics, no health.")?,
    }
    write_clusters(meaning, out)?;
    write_classes(&meaning.classes, out)?;
    write_list("Tables with a column of time", &meaning.time_tables, out)?;
    write_list("Limits", &meaning.limits, out)?;
    write_list("Records", &meaning.records, out)?;
    write_list("Problems", &meaning.problems, out)?;
    write_list("Warnings", &meaning.warnings, out)?;
    if let Some(reached) = &meaning.reached {
        let lines: Vec<String> = reached.iter().map(reached_text).collect();
        let nothing = vec!["no cluster is there already, so there was nothing to reach".to_owned()];
        write_list("Connections", if lines.is_empty() { &nothing } else { &lines }, out)?;
    }
    Ok(())
}

/// The address as psql wants it.
fn psql(listen: &str) -> String {
    let (host, port) = listen.rsplit_once(':').unwrap_or((listen, "5432"));
    format!("{} -p {port}", host.trim_matches(['[', ']']))
}

fn write_clusters(meaning: &Meaning, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nClusters\n")?;
    let name_width = meaning.clusters.iter().map(|cluster| cluster.name.len()).max().unwrap_or(0).max(4);
    writeln!(out, "  {:name_width$}  size  slots  $/hour awake  $ to wake  what", "name")?;
    for cluster in &meaning.clusters {
        let (per_hour, least) = (dollars(cluster.usd_per_hour), dollars(cluster.usd_least));
        writeln!(
            out,
            "  {:name_width$}  {:>4}  {:>5}  {per_hour:>12}  {least:>9}  {}",
            cluster.name,
            cluster.size,
            cluster.slots,
            what(cluster)
        )?;
    }
    let (at_the_start, most) = (dollars(meaning.usd_per_hour), dollars(meaning.usd_per_hour_most));
    if meaning.clusters.iter().all(|cluster| cluster.keep == "always") {
        return writeln!(out, "\n  An hour with all of them awake costs ${at_the_start}.");
    }
    writeln!(
        out,
        "\n  An hour with all awake that are there at the start costs ${at_the_start}, and at most ${most}."
    )?;
    writeln!(out, "  One that is stopped sooner than waking it up is billed for is billed until then.")?;
    write_list("Scaling", &meaning.scaling, out)
}

fn what(cluster: &ClusterMeaning) -> String {
    match (cluster.keep, cluster.initial) {
        ("scaled", initial) => format!("scaled, {initial} at the start; {}", cluster.what),
        _ => cluster.what.clone(),
    }
}

fn write_classes(classes: &[ClassMeaning], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nClasses, the first that matches\n")?;
    let name_width = classes.iter().map(|class| class.name.len()).max().unwrap_or(0).max(4);
    writeln!(out, "  {:name_width$}  late after  queries", "name")?;
    for class in classes {
        let slo = class.slo.map_or("never".to_owned(), |slo| slo.to_string());
        for (index, rule) in class.rules.iter().enumerate() {
            let (name, slo) = if index == 0 { (class.name.as_str(), slo.as_str()) } else { ("", "") };
            let or = if index == 0 { "" } else { "or " };
            writeln!(out, "  {name:name_width$}  {slo:>10}  {or}{rule}")?;
        }
        for term in &class.terms {
            writeln!(out, "  {:name_width$}  {:>10}    {term}", "", "")?;
        }
    }
    Ok(())
}

fn write_list(title: &str, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}\n")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

/// Writes what becomes of a query.
pub(super) fn write_query(query: &QueryMeaning, out: &mut dyn Write) -> io::Result<()> {
    let late = query.slo_s.map_or("never late".to_owned(), |slo| format!("late after {slo} s"));
    let tables = if query.tables.is_empty() { "none".to_owned() } else { query.tables.join(", ") };
    writeln!(out, "The query is of class {}: {}.\n", query.class, query.because)?;
    writeln!(out, "  It is {late}. Its kind is {}, its tables: {tables}.", query.statement)?;
    if let Some(scan) = &query.scan {
        write_scan(scan, out)?;
    }
    if query.class != "control" {
        writeln!(out, "  {}", admission_text(query))?;
    }
    writeln!(out, "  Its shape, {}: {}", query.fingerprint, query.shape)?;
    write_list("Warnings", &query.warnings, out)
}

/// How much of time it reads, of what, and why not less.
fn write_scan(scan: &ScanMeaning, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {}", scan.sentence)?;
    scan.reads.iter().try_for_each(|read| writeln!(out, "    {}", read_text(read)))?;
    scan.because.iter().try_for_each(|why| writeln!(out, "    Unbounded: {why}."))
}

/// Ranges of a table that are shown.
const RANGES_SHOWN: usize = 4;

fn read_text(ReadMeaning { table, column, ranges }: &ReadMeaning) -> String {
    let of = match (table, column) {
        (Some(table), Some(column)) => format!("Of {table}, by {column}"),
        _ => "Of one of several tables".to_owned(),
    };
    let range = |range: &(Option<String>, Option<String>)| match range {
        (Some(from), Some(to)) => format!("from {from} until {to}"),
        (Some(from), None) => format!("from {from} on"),
        (None, Some(to)) => format!("all until {to}"),
        (None, None) => "all".to_owned(),
    };
    let mut shown: Vec<String> = ranges.iter().take(RANGES_SHOWN).map(range).collect();
    if ranges.len() > RANGES_SHOWN {
        shown.push(format!("and {} more", ranges.len() - RANGES_SHOWN));
    }
    format!("{of}: {}.", if shown.is_empty() { "nothing".to_owned() } else { shown.join("; ") })
}

/// What it brings to its admission.
fn admission_text(query: &QueryMeaning) -> String {
    let QueryMeaning { priority, priority_before: before, priority_asked, adjustment, lane, .. } = query;
    let keys = |keys: &[&str], and: &str| {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        match keys.split_last() {
            Some((last, before @ [_, ..])) => format!("{} {and} {last}", before.join(", ")),
            _ => keys.concat(),
        }
    };
    let mut text = format!("Its priority is {priority}");
    match query.thresholds_tripped.as_slice() {
        [] => {}
        tripped => {
            let (trip, what) = (if tripped.len() == 1 { "trips" } else { "trip" }, adjustment.unsigned_abs());
            let way = if *adjustment < 0 { format!("adds {what} to") } else { format!("takes {what} off") };
            text += &format!(": {} {trip}, which {way} {before}", keys(tripped, "and"));
        }
    }
    text += &match priority_asked {
        Some(asked) if asked != before => format!(" (it asks for {asked}, which its class does not allow)"),
        _ => String::new(),
    };
    if !query.thresholds_predicted.is_empty() && query.thresholds_tripped.is_empty() {
        text += &format!(", unless {} trips when it comes", keys(&query.thresholds_predicted, "or"));
    }
    match lane {
        Some(lane) => format!("{text}. Its lane is {lane}."),
        None => format!("{text}. No lane limits it."),
    }
}

fn reached_text(reached: &Reached) -> String {
    let Reached { cluster, address, error, remark } = reached;
    match (error, remark) {
        (None, None) => format!("{cluster} at {address} can be reached"),
        (None, Some(remark)) => {
            format!(
                "{cluster} at {address} can be reached; a made-up name was tried (clients use their own), and {remark}"
            )
        }
        (Some(error), _) => format!("{cluster} at {address} cannot be reached: {error}"),
    }
}
