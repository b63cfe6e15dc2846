//! What settings mean to whoever pays for the clusters and waits for the queries.

use std::fmt::Write;
use std::num::NonZero;
use std::path::Path;
use std::{fs, thread};

use punctual_core::admit::Order;
use punctual_core::class::{CONTROL, Class, DEFAULT};
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::scan::{ColumnUnit, End, TimeTable, instant_text};
use punctual_core::time::Span;
use serde::Serialize;

use super::admission::{self, so_many};
use super::{scaling, startable};
use crate::config::bytes_text;
use crate::door::rule_text;
use crate::model::{absent, file};
use crate::settings::{
    Access, Address, Auth, Cluster, ClusterKind, Embedded, Planning, Prediction, RecordSql, Settings, Simulated, Tables,
};
use crate::tls::serving::DoorTls;
use crate::tls::trust::ClusterTls;

/// All that `punctual check` says.
#[derive(Debug, Serialize)]
pub struct Meaning {
    /// True if nothing is in the way of any cluster. Settings that are wrong have no meaning.
    pub right: bool,
    /// The file, if there is one.
    pub file: Option<String>,
    /// Where clients connect.
    pub listen: String,
    /// Who may come in there, in a sentence.
    pub access: String,
    /// Where HTTP is served.
    pub http: Option<String>,
    /// The clusters.
    pub clusters: Vec<ClusterMeaning>,
    /// Dollars if all that are there at the start were active for an hour.
    pub usd_per_hour: f64,
    /// The same with as many as `[scaling]` may start.
    pub usd_per_hour_most: f64,
    /// How many clusters there are, a sentence each; none if that never changes.
    pub scaling: Vec<String>,
    /// The classes, in the order in which their rules are tried, then `default` and `control`.
    pub classes: Vec<ClassMeaning>,
    /// The tables with a column of time, a sentence each.
    pub time_tables: Vec<String>,
    /// Everything that bounds something, a sentence each.
    pub limits: Vec<String>,
    /// Where history goes, and the journal, a sentence each.
    pub records: Vec<String>,
    /// What would keep clusters from starting.
    pub problems: Vec<String>,
    /// What is allowed and may be a mistake all the same.
    pub warnings: Vec<String>,
    /// Whether clusters that are there already answer; None: not asked.
    pub reached: Option<Vec<Reached>>,
}

/// A cluster.
#[derive(Debug, Serialize)]
pub struct ClusterMeaning {
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: String,
    /// Its size in units.
    pub size: u32,
    /// Queries that may run there at once.
    pub slots: u32,
    /// Dollars for an active hour.
    pub usd_per_hour: f64,
    /// What waking it up costs at least, in dollars, unless it is stopped before that long.
    pub usd_least: f64,
    /// Whether it is there for good (`always`), or as many like it are started and stopped as are good (`scaled`).
    pub keep: &'static str,
    /// How many like it are there at the start.
    pub initial: u32,
}

/// A class.
#[derive(Debug, Serialize)]
pub struct ClassMeaning {
    /// Its name.
    pub name: String,
    /// When its queries are late, in seconds; None: never.
    pub slo_s: Option<f64>,
    /// The same, in words.
    #[serde(skip)]
    pub slo: Option<Span>,
    /// Its rules, in words.
    pub rules: Vec<String>,
    /// On what terms its queries are admitted, in words; none: as usual.
    pub terms: Vec<String>,
}

/// Whether a cluster that is there already answers.
#[derive(Debug, Serialize)]
pub struct Reached {
    /// Its name.
    pub cluster: String,
    /// Where it should listen.
    pub address: String,
    /// Why it could not be reached, if it could not.
    pub error: Option<String>,
    /// What it said against a name that no client has.
    pub remark: Option<String>,
}

impl Meaning {
    /// What these settings mean, nothing reached.
    pub fn of(settings: &Settings, file: Option<&Path>) -> Meaning {
        let clusters: Vec<ClusterMeaning> = settings.clusters.iter().map(cluster).collect();
        let classes = &settings.policy.classes;
        // In the order in which they are tried: the built-in ones take what is left.
        let order = (0..classes.len()).skip(2).chain([DEFAULT.0 as usize, CONTROL.0 as usize]);
        let mut problems = startable::problems(&settings.clusters);
        problems.extend(scaling::never(settings));
        Meaning {
            right: problems.is_empty(),
            file: file.map(|file| file.display().to_string()),
            listen: settings.listen.to_string(),
            access: access(&settings.access),
            http: settings.http.map(|http| http.to_string()),
            usd_per_hour: scaling::usd_per_hour(settings).0,
            usd_per_hour_most: scaling::usd_per_hour(settings).1,
            scaling: scaling::sentences(settings),
            clusters,
            classes: order
                .filter_map(|index| classes.get(index))
                .map(|class| class_meaning(class, &settings.policy))
                .collect(),
            time_tables: settings.time_tables.iter().map(time_table).collect(),
            limits: limits(settings),
            records: records(settings),
            problems,
            warnings: warnings(settings),
            reached: None,
        }
    }
}

fn cluster(cluster: &Cluster) -> ClusterMeaning {
    let spec = &cluster.spec;
    ClusterMeaning {
        name: spec.name.clone(),
        what: match &cluster.kind {
            ClusterKind::Embedded(embedded) => embedded_text(embedded, spec.units.0),
            ClusterKind::Simulated(simulated) => simulated_as(simulated),
            ClusterKind::Exec(exec) => format!("started by `{}` within {}", exec.start.join(" "), exec.start_within),
            ClusterKind::Address(endpoint) => format!("Postgres at {}", endpoint.address),
        } + if spec.writer { ", for what writes" } else { "" },
        size: spec.units.0,
        slots: spec.slots,
        usd_per_hour: spec.price.cost(spec.units, Span::from_secs(3_600)),
        usd_least: spec.price.cost(spec.units, spec.price.minimum),
        keep: if spec.offer.is_some() { "scaled" } else { "always" },
        initial: cluster.initial,
    }
}

fn simulated_as(simulated: &Simulated) -> String {
    let Simulated { time_scale, warehouse, start_takes } = simulated;
    let mut text = if *warehouse { "simulated warehouse" } else { "simulated" }.to_owned();
    if *time_scale != 1.0 {
        let _ = write!(text, ", {time_scale} seconds in one");
    }
    if *start_takes > Span::ZERO {
        let _ = write!(text, ", starts in {start_takes}");
    }
    text
}

fn embedded_text(embedded: &Embedded, units: u32) -> String {
    let tables = match &embedded.tables {
        Tables::Tpch { scale_factor } => format!("TPC-H of scale factor {scale_factor}"),
        Tables::Tpcds { scale_factor } => format!("TPC-DS of scale factor {scale_factor}"),
        Tables::Dirs(dirs) => dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    let (threads, memory) = resources(embedded, units);
    let plural = if threads == 1 { "" } else { "s" };
    format!("embedded, {threads} thread{plural}, {}, {tables}", bytes_text(memory))
}

/// Threads and bytes of an embedded cluster.
fn resources(embedded: &Embedded, units: u32) -> (u64, u64) {
    let units = u64::from(units);
    (units * u64::from(embedded.threads_per_unit), units.saturating_mul(embedded.memory_per_unit))
}

fn class_meaning(class: &Class, policy: &Policy) -> ClassMeaning {
    let rules = match class.name.as_str() {
        "control" => vec!["what drivers and tools send on their own account".to_owned()],
        "default" => vec!["whatever no rule matches".to_owned()],
        _ if class.rules.is_empty() => vec!["only queries that ask for it".to_owned()],
        _ => class.rules.iter().map(rule_text).collect(),
    };
    let terms = admission::of_class(&class.terms, &policy.lanes, policy.order);
    ClassMeaning { name: class.name.clone(), slo_s: class.slo.map(Span::secs_f64), slo: class.slo, rules, terms }
}

fn time_table(table: &TimeTable) -> String {
    let holds = match table.unit {
        ColumnUnit::Timestamp => "timestamps",
        ColumnUnit::Date => "dates",
        ColumnUnit::Seconds => "seconds since 1970",
        ColumnUnit::Millis => "milliseconds since 1970",
        ColumnUnit::Micros => "microseconds since 1970",
        ColumnUnit::DayNumber => "numbers such as 20240131",
    };
    let mut text = format!("{} by {}, which holds {holds}", table.name, table.column);
    let shown = |at: i64| instant_text(at).map_or_else(String::new, |text| text[..19].to_owned());
    if let Some(from) = table.from {
        let _ = write!(text, ", from {}", shown(from));
    }
    let _ = match table.to {
        Some(End::Now) => write!(text, ", until now"),
        Some(End::Before(to)) => write!(text, ", before {}", shown(to)),
        None => write!(text, ", without an end: a query that names none covers time without bound"),
    };
    if let Some(segment) = table.segment {
        let _ = write!(text, ", in partitions of {segment}");
    }
    text
}

fn limits(settings: &Settings) -> Vec<String> {
    let (policy, door) = (&settings.policy, &settings.door);
    let mut limits = vec![
        match policy.routing_mode {
            Mode::On => format!("Queries go to clusters by {}.", policy.routing),
            Mode::Off => format!("Queries go to clusters by {}: `routing_mode` is off.", policy.baseline),
            Mode::Shadow | Mode::Suggest => format!(
                "Queries go to clusters by {}; what {} would have done is recorded.",
                policy.baseline, policy.routing
            ),
        },
        format!("{} of the queries may miss their SLO.", percent(policy.violation_target)),
        match policy.max_waiting {
            0 => "No query waits: one that finds no room is refused.".to_owned(),
            most => format!(
                "At most {} at most {}; one more, or one that waited longer, is refused.",
                so_many(most, "query waits,", "queries wait, each"),
                policy.wait_limit
            ),
        },
        format!(
            "At most {} clients are connected, each with at most {} prepared statements.",
            door.max_sessions, door.max_statements
        ),
        format!("A protocol message is at most {}.", bytes_text(door.max_message as u64)),
        match policy.order {
            Order::Fifo => "Of those that wait the oldest goes first.".to_owned(),
            Order::Fair => format!(
                "Of those that wait whoever has used least lately for its share goes first; half of it counts no more after {}.",
                policy.half_life
            ),
        },
        format!("A session that sends nothing for {} in a transaction loses it.", policy.pin_idle),
        format!("A cancelled query that goes on for {} costs its cluster its life.", policy.cancel_grace),
        format!(
            "A cluster has {} to start, and {} to finish its queries before it goes.",
            policy.start_limit, policy.drain_limit
        ),
        format!("A shutdown takes at most {}.", settings.shutdown_within),
    ];
    limits.extend(
        policy
            .max_running
            .map(|most| format!("At most {} at once in all.", so_many(most, "query runs", "queries run"))),
    );
    limits.extend(policy.adaptive.map(|rules| {
        format!("How many run on a cluster follows how long they take: {} at least, its slots at most.", rules.least)
    }));
    limits.extend(admission::of_lanes(policy));
    limits
}

fn records(settings: &Settings) -> Vec<String> {
    let (history, journal) = (&settings.history, &settings.journal);
    let texts = match history.sql {
        RecordSql::Shape => "with their shapes, without literals",
        RecordSql::Text => "with their texts, literals included",
        RecordSql::Nothing => "without their texts",
    };
    vec![
        format!("Ended queries go to {}, {texts}, at most {}.", history.dir.display(), bytes_text(history.max_bytes)),
        format!("Decisions go to {}, at most {}.", journal.dir.display(), bytes_text(journal.max_bytes)),
        predictions(&settings.prediction),
    ]
    .into_iter()
    .chain(plans(settings))
    .collect()
}

fn plans(settings: &Settings) -> Option<String> {
    let Planning { at: (hour, minute), zone_name, forecaster, dir, .. } = &settings.planning;
    let acts = match settings.policy.planning {
        Mode::Off => return None,
        Mode::On => "is followed",
        Mode::Shadow | Mode::Suggest => "is watched and not followed",
    };
    let at = format!("{hour:02}:{minute:02} ({zone_name})");
    Some(format!("At {at} a day is planned by `{forecaster}`; the plan goes to {} and {acts}.", dir.display()))
}

fn predictions(prediction: &Prediction) -> String {
    let model = prediction.model.display();
    match prediction.retrain {
        None => format!("Latencies are predicted from {model}, if it is there."),
        Some(every) => format!("Latencies are predicted from {model}, which is learnt from history every {every}."),
    }
}

/// What may keep clusters from being there.
fn in_vain(settings: &Settings) -> Vec<String> {
    let (policy, scaling) = (&settings.policy, &settings.policy.scaling);
    let mut warnings = Vec::new();
    if scaling.mode == Mode::On && scaling.start_takes > policy.start_limit {
        warnings.push(format!(
            "a start is expected to take {} (`scaling.start_takes`) and is given up after {} (`policy.start_limit`)",
            scaling.start_takes, policy.start_limit
        ));
    }
    warnings
}

fn access(access: &Access) -> String {
    let encrypted = match access.tls {
        DoorTls::Off => "are not encrypted",
        DoorTls::Allowed(_) => "are encrypted if they ask for it",
        DoorTls::Required(_) => "have to be encrypted",
    };
    match &access.auth {
        Auth::Trust => format!("They are on this machine, are not asked for a password, and {encrypted}."),
        Auth::Scram(users) => {
            let users = users.len();
            format!("They prove who they are with a password (SCRAM-SHA-256; users: {users}), and {encrypted}.")
        }
    }
}

fn warnings(settings: &Settings) -> Vec<String> {
    let classes = &settings.policy.classes;
    let mut warnings = crowding(&settings.clusters);
    if let Some(http) = settings.http.filter(|http| !http.ip().is_loopback()) {
        warnings.push(format!("what goes over HTTP at {http} is not encrypted, tokens included"));
    }
    if !settings.listen.ip().is_loopback() {
        match settings.access.tls {
            DoorTls::Off => {
                warnings.push(format!("what goes to and from clients at {} is not encrypted", settings.listen));
            }
            DoorTls::Allowed(_) => warnings.push(format!(
                "what goes to and from clients at {} is encrypted only if they ask for it: see `gateway.tls`",
                settings.listen
            )),
            DoorTls::Required(_) => {}
        }
    }
    warnings.extend(settings.access.exposed().map(str::to_owned));
    warnings.extend(in_vain(settings));
    warnings.extend(admission::in_vain(settings));
    warnings.extend(scaling::warnings(settings));
    if absent::is_absent(&settings.prediction.model) {
        warnings.extend(absent::meanwhile(&settings.policy, &settings.prediction.model));
    }
    for cluster in &settings.clusters {
        let ClusterKind::Address(endpoint) = &cluster.kind else { continue };
        let name = &cluster.spec.name;
        if let Address::Tcp { host, .. } = &endpoint.address
            && !is_this_machine(host)
        {
            let how = match &endpoint.login.tls {
                ClusterTls::Off => Some("is not encrypted"),
                ClusterTls::Preferred(_) => Some("is not encrypted if the cluster, or whoever passes for it, cannot"),
                ClusterTls::Required(connector) if connector.trusts_anyone() => {
                    Some("is encrypted, but whoever passes for the cluster is believed")
                }
                ClusterTls::Required(_) => None,
            };
            let at = &endpoint.address;
            warnings.extend(
                how.map(|how| format!("what goes to and from cluster \"{name}\" at {at} {how}: see its `tls`")),
            );
        }
        if endpoint.login.is_theirs() {
            warnings.push(format!(
                "clients come to cluster \"{name}\" under their own names and without a password, which it has to allow"
            ));
        }
    }
    if classes.iter().all(|class| class.slo.is_none()) {
        warnings.push("no class has an `slo`, so no query is ever late".to_owned());
    }
    for (index, class) in classes.iter().enumerate() {
        for rule in &class.rules {
            if let Some(earlier) = classes[..index].iter().find(|earlier| earlier.rules.contains(rule)) {
                warnings.push(format!(
                    "a rule of class \"{}\" never decides, since class \"{}\" has it too and comes first: {}",
                    class.name,
                    earlier.name,
                    rule_text(rule)
                ));
            }
        }
    }
    if settings.prediction.model.exists()
        && let Err(cause) = file::read(&settings.prediction.model)
    {
        warnings.push(format!("nothing will be predicted: {cause}"));
    }
    if settings.history.sql == RecordSql::Text {
        warnings.push("history keeps the literals of queries, which may be personal".to_owned());
    }
    warnings
}

/// Embedded clusters share this machine, which may have less than they are promised.
fn crowding(clusters: &[Cluster]) -> Vec<String> {
    let embedded = clusters.iter().filter_map(|cluster| match &cluster.kind {
        ClusterKind::Embedded(embedded) => Some(resources(embedded, cluster.spec.units.0)),
        ClusterKind::Simulated(_) | ClusterKind::Exec(_) | ClusterKind::Address(_) => None,
    });
    let (threads, memory) = embedded.fold((0, 0u64), |sum, more| (sum.0 + more.0, sum.1.saturating_add(more.1)));
    let mut warnings = Vec::new();
    if let Some(cores) = thread::available_parallelism().ok().map(|cores| NonZero::get(cores) as u64)
        && threads > cores
    {
        warnings.push(format!(
            "embedded clusters have {threads} threads and this machine {cores} cores, so they slow each other down"
        ));
    }
    if let Some(there) = machine_memory()
        && memory > there
    {
        warnings.push(format!(
            "embedded clusters may use {} and this machine has {} MiB",
            bytes_text(memory),
            there >> 20
        ));
    }
    warnings
}

/// Bytes of memory of this machine, where the system says so.
fn machine_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// `5%`, `0.1%`.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}
