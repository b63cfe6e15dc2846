//! From the configuration file to [`Settings`].
//!
//! ```text
//!  punctual.toml ──(TOML with places)──▶ sections ──(bounds, defaults, names)──▶ Settings
//!                                           │
//!                                           └──▶ every problem: file, line, column, key, what, what to do
//! ```
//!
//! [`keys`] is the one table of what can be written; the other files give it a meaning. Nothing downstream knows
//! that there is a file.

mod access;
mod admission;
mod classes;
mod clusters;
#[cfg(test)]
pub(crate) mod doc;
#[cfg(test)]
mod druid;
mod error;
mod keys;
pub(crate) mod near;
mod plan;
pub(crate) mod scaling;
mod section;
mod tables;
#[cfg(test)]
mod tests;
mod value;

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use punctual_core::Policy;
use punctual_core::admit::Order;
use punctual_core::admit::lanes::Lanes;
use punctual_core::billing::Price;
use punctual_core::class::Class;
use punctual_core::cluster::Spec;
use punctual_core::id::Units;
use punctual_core::mode::Mode;
use punctual_core::route::{Counting, Routing};
use punctual_core::scale::{Scaling, Selector, Studies, Trigger};
use punctual_core::time::Span;
use toml::de::DeTable;

pub use error::{ConfigError, Problem};
pub use keys::markdown;
pub(crate) use value::address_of;
pub(crate) use value::bytes_text;

use crate::settings::{
    Cluster, ClusterKind, Door, Embedded, History, Journal, Prediction, RecordSql, Settings, Tables,
};
use section::{File, Section};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What was typed on the command line: it stands for what the file says, and is held to the same rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Typed<'a> {
    /// For `gateway.listen`.
    pub listen: Option<&'a str>,
    /// For `gateway.http`.
    pub http: Option<&'a str>,
}

/// Where a configuration came from: to read it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file; None: there is none.
    pub file: Option<PathBuf>,
    /// What was typed for `gateway.listen`.
    pub listen: Option<String>,
    /// What was typed for `gateway.http`.
    pub http: Option<String>,
}

impl Source {
    /// Reads it.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read(&self) -> Result<Settings, ConfigError> {
        read(self.file.as_deref(), Typed { listen: self.listen.as_deref(), http: self.http.as_deref() })
    }
}

/// Reads the file, or what runs without one, with what was typed in its place. Relative paths in the file start at its
/// directory.
///
/// # Errors
/// If it cannot be read, or with everything that is wrong in it and in what was typed.
pub fn read(file: Option<&Path>, typed: Typed<'_>) -> Result<Settings, ConfigError> {
    match file {
        Some(path) => parse_within(&text_of(path)?, path, &from_environment, typed),
        None => without_file(typed),
    }
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |cause| ConfigError::Unreadable { path: path.to_owned(), cause };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        return Err(ConfigError::TooLarge { path: path.to_owned(), limit: MAX_FILE });
    }
    Ok(text)
}

/// Reads `text` as if it stood in the file `origin`, which need not exist.
///
/// # Errors
/// With everything that is wrong in it.
pub fn parse(text: &str, origin: &Path) -> Result<Settings, ConfigError> {
    parse_within(text, origin, &from_environment, Typed::default())
}

fn from_environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// The same, with this environment and what was typed.
fn parse_within(
    text: &str,
    origin: &Path,
    env: &dyn Fn(&str) -> Option<String>,
    typed: Typed<'_>,
) -> Result<Settings, ConfigError> {
    let base = origin.parent().unwrap_or(Path::new(""));
    let file = File { text, base, env, problems: RefCell::default() };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        file.note(error.span().map_or(0, |span| span.start), "", sentence(error.message()), "");
    }
    // After a mistake in the TOML itself, what follows is guesswork.
    let settings = errors.is_empty().then(|| settings(&file, document.get_ref(), typed));
    let problems = file.noted();
    match settings {
        Some(settings) if problems.is_empty() => Ok(settings),
        _ => Err(ConfigError::Wrong { origin: origin.to_owned(), problems }),
    }
}

/// What a gateway runs with if there is no file: two embedded clusters of different size over TPC-H data, with as
/// many threads as the machine has cores (but at most 8, and at least one each).
pub fn default_settings() -> Settings {
    defaults(Typed::default()).0
}

fn without_file(typed: Typed<'_>) -> Result<Settings, ConfigError> {
    let (settings, problems) = defaults(typed);
    // What is not written is as it should be; what is typed may not be.
    let problems: Vec<Problem> = problems.into_iter().filter(Problem::was_typed).collect();
    let origin = PathBuf::new();
    if problems.is_empty() { Ok(settings) } else { Err(ConfigError::Wrong { origin, problems }) }
}

fn defaults(typed: Typed<'_>) -> (Settings, Vec<Problem>) {
    let cores = thread::available_parallelism().map_or(2, NonZero::get).clamp(2, 8) as u32;
    let small = (cores / 3).max(1);
    let empty = DeTable::new();
    let file = File { text: "", base: Path::new(""), env: &|_| None, problems: RefCell::default() };
    let mut settings = settings(&file, &empty, typed);
    settings.clusters = vec![demo_cluster("small", small), demo_cluster("large", cores - small)];
    (settings, file.noted())
}

fn demo_cluster(name: &str, units: u32) -> Cluster {
    let spec = Spec {
        name: name.to_owned(),
        units: Units(units),
        slots: 4 * units,
        price: Price::default(),
        killable: true,
        offer: None,
        writer: false,
    };
    let tables = Tables::Tpch { scale_factor: 0.1 };
    Cluster {
        spec,
        initial: 1,
        kind: ClusterKind::Embedded(Embedded { tables, threads_per_unit: 1, memory_per_unit: 512 << 20 }),
    }
}

/// What the document means. What cannot be meant is noted in the file, and a default stands in for it.
fn settings<'f>(file: &'f File<'f>, document: &'f DeTable<'f>, typed: Typed<'_>) -> Settings {
    file.check_names(document);
    let gateway = file.section(document, &keys::GATEWAY);
    let state_dir = gateway.path("state_dir").unwrap_or_default();
    let of_classes = file.sections(document, &keys::CLASS);
    let classes = classes::read(&of_classes);
    let lanes = file.section(document, &keys::LANES);
    let (lanes, by_name) = admission::lanes(&lanes, &file.sections(document, &keys::LANE));
    admission::check(&of_classes, &classes, &lanes, by_name);
    let prediction = file.section(document, &keys::PREDICTION);
    let mut policy = policy(&file.section(document, &keys::POLICY), &prediction, classes);
    let of_clusters = file.sections(document, &keys::CLUSTER);
    let clusters = clusters::read(&of_clusters, policy.max_clusters);
    policy.lanes = lanes;
    let of_scaling = file.section(document, &keys::SCALING);
    policy.scaling = scaling(&of_scaling, &policy, &clusters);
    let of_plan = file.section(document, &keys::PLAN);
    policy.planning = of_plan.choice("mode").and_then(Mode::named).unwrap_or(Mode::Off);
    scaling::check(&of_scaling, &of_clusters, &policy, &clusters);
    if !document.contains_key("cluster") {
        file.note(0, "cluster", "there is none, so no query could run", "write at least one [[cluster]]");
    }
    let (listen, http) = listens(&gateway, typed);
    let of_tls = document.contains_key("tls").then(|| file.section(document, &keys::TLS));
    let access = access::read(&gateway, of_tls.as_ref());
    access::check_reach(&gateway, typed, (listen, http), &access);
    Settings {
        gateway: gateway.count("id") as u16,
        seed: gateway.count("seed"),
        listen: listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into()),
        http,
        door: door(&gateway),
        access,
        history: history(&file.section(document, &keys::HISTORY), &state_dir),
        journal: journal(&file.section(document, &keys::JOURNAL), &state_dir),
        prediction: self::prediction(&prediction, &state_dir),
        planning: plan::read(&of_plan, &policy, &state_dir),
        policy,
        clusters,
        time_tables: tables::read(&file.sections(document, &keys::TABLE)),
        shutdown_within: gateway.span_or_default("shutdown_within"),
    }
}

/// Where to listen, for clients and for HTTP.
fn listens(gateway: &Section<'_>, typed: Typed<'_>) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let listen = gateway.listen("listen", typed.listen);
    let http = gateway.listen("http", typed.http);
    if listen == Some(None) {
        gateway.complain_of("listen", typed.listen, "without it no query can come in", "write an address and a port");
    }
    let (listen, http) = (listen.flatten(), http.flatten());
    if http.is_some_and(|http| http.port() != 0 && Some(http) == listen) {
        gateway.complain_of("http", typed.http, "`listen` has the same address", "write another port");
    }
    (listen, http)
}

fn door(gateway: &Section<'_>) -> Door {
    Door {
        max_sessions: gateway.count32("max_sessions"),
        max_message: gateway.bytes("max_message") as usize,
        startup_within: gateway.span_or_default("startup_within"),
        client_stall_timeout: gateway.span_or_default("client_stall_timeout"),
        failed_logins: gateway.count32("failed_logins"),
        max_statements: gateway.count32("max_statements"),
        max_idle_connections: gateway.has("max_idle_connections").then(|| gateway.count32("max_idle_connections")),
        min_idle_connections: gateway.count32("min_idle_connections"),
        connection_idle_timeout: gateway.span_or_default("connection_idle_timeout"),
        connection_lifetime: gateway.span_or_default("connection_lifetime"),
        connect_within: gateway.span_or_default("connect_within"),
        check_every: gateway.span_or_default("check_every"),
    }
}

fn history(section: &Section<'_>, state_dir: &Path) -> History {
    let sql = match section.choice("sql") {
        Some("text") => RecordSql::Text,
        Some("nothing") => RecordSql::Nothing,
        _ => RecordSql::Shape,
    };
    let dir = section.path("dir").unwrap_or_else(|| state_dir.join("history"));
    History { dir, max_bytes: section.bytes("max_bytes"), sql }
}

fn journal(section: &Section<'_>, state_dir: &Path) -> Journal {
    let (max_bytes, segment_bytes) = (section.bytes("max_bytes"), section.bytes("segment_bytes"));
    if segment_bytes > max_bytes / 2 {
        section.complain(
            "segment_bytes",
            format!("two segments of {} do not fit `max_bytes`", bytes_text(segment_bytes)),
            format!("write at most half of {}", bytes_text(max_bytes)),
        );
    }
    Journal { dir: section.path("dir").unwrap_or_else(|| state_dir.join("journal")), max_bytes, segment_bytes }
}

fn prediction(section: &Section<'_>, state_dir: &Path) -> Prediction {
    let model = section.path("model").unwrap_or_else(|| state_dir.join("punctual.model"));
    let explain_every = Some(section.span_or_default("explain_every")).filter(|every| *every > Span::ZERO);
    Prediction { model, retrain: section.span("retrain"), explain_every }
}

fn policy(section: &Section<'_>, prediction: &Section<'_>, classes: Vec<Class>) -> Policy {
    let (retry_first, retry_most) = (section.span_or_default("retry_first"), section.span_or_default("retry_most"));
    if retry_first > retry_most {
        section.complain(
            if section.has("retry_first") { "retry_first" } else { "retry_most" },
            format!("the first wait, {retry_first}, is longer than the longest, {retry_most}"),
            "write `retry_first` no longer than `retry_most`",
        );
    }
    Policy {
        routing: section.choice("routing").and_then(Routing::named).unwrap_or(Routing::LeastOutstanding),
        routing_mode: section.choice("routing_mode").and_then(Mode::named).unwrap_or(Mode::On),
        baseline: section.choice("baseline").and_then(Routing::named).unwrap_or(Routing::LeastOutstanding),
        counting: section.choice("counting").and_then(Counting::named).unwrap_or(Counting::Expected),
        classes,
        violation_target: section.number("violation_target").unwrap_or_default(),
        order: if section.choice("order") == Some("fair") { Order::Fair } else { Order::Fifo },
        half_life: section.span_or_default("half_life"),
        lanes: Lanes::none(),
        max_running: section.has("max_running").then(|| section.count32("max_running")),
        adaptive: admission::adaptive(section),
        max_waiting: section.count32("max_waiting"),
        wait_limit: section.span_or_default("wait_limit"),
        control_slots: section.count32("control_slots"),
        pin_idle: section.span_or_default("pin_idle"),
        cancel_grace: section.span_or_default("cancel_grace"),
        drain_limit: section.span_or_default("drain_limit"),
        start_limit: section.span_or_default("start_limit"),
        retry_first,
        retry_most,
        decisions_kept: section.count32("decisions_kept"),
        min_modelled: prediction.span_or_default("min_modelled"),
        max_clusters: section.count32("max_clusters"),
        scaling: Scaling::default(),
        planning: Mode::Off,
    }
}

fn scaling(section: &Section<'_>, policy: &Policy, clusters: &[Cluster]) -> Scaling {
    let mode = section.choice("mode").and_then(Mode::named).unwrap_or(Mode::Off);
    let mut offers: Vec<Spec> = clusters.iter().map(|cluster| cluster.spec.clone()).collect();
    offers.retain(|spec| spec.offer.is_some());
    offers.sort_by_key(|spec| spec.units);
    if mode != Mode::Off && offers.is_empty() {
        section.complain(
            "mode",
            "there is no cluster to start",
            "write `keep = \"scaled\"` in a [[cluster]], or `mode = \"off\"`",
        );
    }
    Scaling {
        studies: Studies::Network,
        mode,
        trigger: section.choice("trigger").and_then(Trigger::named).unwrap_or(Trigger::Combined),
        selector: section.choice("selector").and_then(Selector::named).unwrap_or(Selector::AddCluster),
        offers,
        window: section.span_or_default("window"),
        study_window: section.span_or_default("study_window"),
        observations: section.count32("observations"),
        completions: section.count32("completions"),
        late_share: section.number("late_share").unwrap_or(policy.violation_target),
        queue_depth: section.count32("queue_depth"),
        idle: section.span_or_default("idle"),
        standby: section.span("standby").unwrap_or(section.span_or_default("start_takes").times(10)),
        lifetime: section.span_or_default("lifetime"),
        start_takes: section.span_or_default("start_takes"),
        least: section.count32("least"),
        most: section.count32("most"),
        most_per_hour: section.number("most_per_hour"),
    }
}

/// What the TOML reader says, as one line of ours.
fn sentence(message: &str) -> String {
    message.split('\n').collect::<Vec<_>>().join(", ")
}
