//! Every key of the configuration file, once.
//!
//! The reader takes defaults and bounds from this table, unknown keys are compared with it, and the tables of
//! `docs/configuration.md` are printed from it: so what is documented is what is read.

use std::fmt::{self, Write};

use punctual_core::time::Span;

use super::value::bytes_text;

/// A table of the file, such as `[policy]`.
pub(super) struct Table {
    /// Its name.
    pub(super) name: &'static str,
    /// True if it is written once for each thing: `[[cluster]]`.
    pub(super) list: bool,
    /// What it is about.
    pub(super) what: &'static str,
    /// Its keys.
    pub(super) keys: &'static [Key],
}

/// A key.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) fallback: Fallback,
    /// What it governs, as a sentence.
    pub(super) what: &'static str,
}

/// What a key's value looks like, with its bounds, which are included.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number.
    Count { least: u64, most: u64 },
    /// A number.
    Number { least: f64, most: f64 },
    /// A duration.
    Duration { least: Span, most: Span },
    /// A number of bytes.
    Bytes { least: u64, most: u64 },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A name of ours: lower-case letters, digits, `_`, `-` and `.`.
    Name,
    /// Any text but an empty one.
    Text,
    /// A path; a relative one starts at the file's directory.
    Path,
    /// A list of directories that are there.
    Dirs,
    /// A program and its arguments, as a list.
    Words,
    /// An address of this machine to listen at.
    Listen,
    /// Where a cluster listens.
    Address,
    /// A list of match rules.
    Rules,
}

/// What holds where a key is not written.
#[derive(Clone, Copy)]
pub(super) enum Fallback {
    /// This value, written as in the file.
    Is(&'static str),
    /// There is none: the key must be written.
    Required,
    /// What these words say.
    Said(&'static str),
}

use Fallback::{Is, Required, Said};
use Kind::{Address, Bytes, Choice, Count, Dirs, Duration, Listen, Name, Number, Path, Rules, Text, Words};

const NOTHING: Span = Span::ZERO;
const SECOND: Span = Span::from_secs(1);
const HOUR: Span = Span::from_secs(3_600);
const DAY: Span = Span::from_secs(86_400);
const YEAR: Span = Span::from_secs(365 * 86_400);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn key(name: &'static str, kind: Kind, fallback: Fallback, what: &'static str) -> Key {
    Key { name, kind, fallback, what }
}

/// The tables of the file.
pub(super) static TABLES: [&Table; 8] =
    [&GATEWAY, &HISTORY, &JOURNAL, &PREDICTION, &POLICY, &SCALING, &CLASS, &CLUSTER];

/// `[gateway]`.
pub(super) static GATEWAY: Table = Table {
    name: "gateway",
    list: false,
    what: "The process: where it listens and what bounds its front door.",
    keys: &[
        // Above 32767 the ids of queries, which carry it in their upper 16 bits, would not fit SQL's bigint.
        key("id", Count { least: 0, most: 32_767 }, Is("0"), "This gateway's number, where several share clusters."),
        key("seed", Count { least: 0, most: i64::MAX as u64 }, Is("1"), "Where every random choice starts from."),
        key(
            "listen",
            Listen,
            Is("\"127.0.0.1:6432\""),
            "Where clients connect, with the Postgres wire. Loopback only: there is no authentication yet.",
        ),
        key("http", Listen, Is("\"127.0.0.1:8432\""), "Where HTTP is served, on loopback too; `\"off\"`: nowhere."),
        key(
            "state_dir",
            Path,
            Is("\"punctual-data\""),
            "Where everything that is written goes, unless said otherwise. Belongs to one gateway.",
        ),
        key(
            "shutdown_within",
            Duration { least: NOTHING, most: DAY },
            Is("\"60s\""),
            "How long a shutdown may take to finish what is here.",
        ),
        key(
            "max_sessions",
            Count { least: 1, most: 1_000_000 },
            Is("1000"),
            "Client connections at once; one more is refused.",
        ),
        key(
            "max_message",
            Bytes { least: 64 * KIB, most: GIB },
            Is("\"64MiB\""),
            "The largest protocol message of a client, and the most that is held of a pipeline.",
        ),
        key(
            "startup_within",
            Duration { least: SECOND, most: DAY },
            Is("\"60s\""),
            "How long a client may take from connecting to its start-up message.",
        ),
        key(
            "max_statements",
            Count { least: 1, most: 1_000_000 },
            Is("1000"),
            "Prepared statements that a session may have.",
        ),
        key(
            "max_idle_connections",
            Count { least: 0, most: 100_000 },
            Is("16"),
            "Connections to one cluster that may lie idle.",
        ),
        key(
            "connect_within",
            Duration { least: SECOND, most: HOUR },
            Is("\"10s\""),
            "How long connecting to a cluster may take.",
        ),
    ],
};

/// `[history]`.
pub(super) static HISTORY: Table = Table {
    name: "history",
    list: false,
    what: "Where ended queries are recorded.",
    keys: &[
        key("dir", Path, Said("`history` in `gateway.state_dir`"), "The directory."),
        key(
            "max_bytes",
            Bytes { least: 16 * MIB, most: 1_024 * TIB },
            Is("\"10GiB\""),
            "The most that it may hold; the oldest hours go first.",
        ),
        key(
            "sql",
            Choice(&["shape", "text", "nothing"]),
            Is("\"shape\""),
            "What is kept of a query's text: its shape without literals, the text as it came, or nothing.",
        ),
    ],
};

/// `[journal]`.
pub(super) static JOURNAL: Table = Table {
    name: "journal",
    list: false,
    what: "Where events and decisions are recorded, to be replayed.",
    keys: &[
        key("dir", Path, Said("`journal` in `gateway.state_dir`"), "The directory."),
        key(
            "max_bytes",
            Bytes { least: 2 * MIB, most: 1_024 * TIB },
            Is("\"1GiB\""),
            "The most that it may hold; the oldest segments go first.",
        ),
        key(
            "segment_bytes",
            Bytes { least: MIB, most: TIB },
            Is("\"64MiB\""),
            "How large a segment grows before the next begins, with a checkpoint. At most half of `max_bytes`.",
        ),
    ],
};

/// `[prediction]`.
pub(super) static PREDICTION: Table = Table {
    name: "prediction",
    list: false,
    what: "How latencies are predicted, from a model that was learnt from history.",
    keys: &[
        key(
            "model",
            Path,
            Said("`punctual.model` in `gateway.state_dir`"),
            "The model, as `punctual train` writes it. Without the file, nothing is predicted until there is one.",
        ),
        key(
            "retrain",
            Duration { least: Span::from_secs(60), most: YEAR },
            Said("never"),
            "How often a model is learnt from `history`, in the background. It takes the place of `model` if it is better \
             on the newest queries, which it has not learnt from.",
        ),
        key(
            "explain_every",
            Duration { least: NOTHING, most: DAY },
            Is("\"1s\""),
            "At most one EXPLAIN is sent to the clusters in so long, to predict from their plans: one for each new shape of \
             query, on a connection of its own. \"0s\": none at all. Nothing is asked for without a model.",
        ),
        key(
            "min_modelled",
            Duration { least: NOTHING, most: DAY },
            Is("\"50ms\""),
            "Queries that take less than this alone, nine times of ten, are predicted as if they ran alone, and count for \
             nothing in the predictions of others.",
        ),
    ],
};

/// `[scaling]`.
pub(super) static SCALING: Table = Table {
    name: "scaling",
    list: false,
    what: "How many clusters there are: of those tables `[[cluster]]` that say `keep = \"scaled\"`.",
    keys: &[
        key(
            "mode",
            Choice(&["off", "shadow", "suggest", "on"]),
            Is("\"off\""),
            "`off`: nothing is decided. `shadow`: it is decided and recorded what would be done, and nothing is done. `suggest`: \
             the same, shown as what someone should do. `on`: it is done.",
        ),
        key(
            "trigger",
            Choice(&["none", "queue_depth", "observed", "combined"]),
            Is("\"combined\""),
            "When a start is considered: never; when many queries run or wait; when too many that ended were late; or of those \
             that run, too, too many are expected to be.",
        ),
        key(
            "selector",
            Choice(&["none", "horizontal", "vertical", "add_cluster"]),
            Is("\"add_cluster\""),
            "What is started then: nothing; another like the largest; what a simulation finds best as the only one, in place of \
             the others; or what it finds best beside them. Without a model, the last two are as `horizontal`.",
        ),
        key("window", Duration { least: Span::from_secs(1), most: DAY }, Is("\"5m\""), "How far back triggers look."),
        key(
            "study_window",
            Duration { least: Span::from_secs(1), most: DAY },
            Is("\"30m\""),
            "How far back arrivals go that a simulation lets come again, 2,048 at most.",
        ),
        key(
            "observations",
            Count { least: 1, most: 4_096 },
            Is("32"),
            "Queries that must be seen before they say anything.",
        ),
        key("completions", Count { least: 1, most: 4_096 }, Is("32"), "Ends of queries that a simulation waits for."),
        key(
            "late_share",
            Number { least: 0.0, most: 1.0 },
            Said("`policy.violation_target`"),
            "The share of late queries above which a start is considered.",
        ),
        key(
            "queue_depth",
            Count { least: 1, most: 1_000_000 },
            Is("32"),
            "`trigger = \"queue_depth\"`: queries that run or wait from which a start is considered.",
        ),
        key(
            "idle",
            Duration { least: NOTHING, most: YEAR },
            Is("\"20m\""),
            "How long a cluster is idle before it is stopped.",
        ),
        key("lifetime", Duration { least: NOTHING, most: YEAR }, Is("\"20m\""), "How long a cluster lives at least."),
        key(
            "start_takes",
            Duration { least: NOTHING, most: DAY },
            Is("\"5m\""),
            "How long a start is expected to take.",
        ),
        key(
            "least",
            Count { least: 0, most: 10_000 },
            Is("1"),
            "Ready clusters that are always kept. With 0, a query that comes when there is none starts the smallest and waits.",
        ),
        key(
            "most",
            Count { least: 1, most: 10_000 },
            Is("10"),
            "Clusters that there may be, those that are there for good and those that start included.",
        ),
        key(
            "most_per_hour",
            Number { least: 0.0, most: 1e9 },
            Said("any"),
            "Dollars an hour that all clusters together may cost while all are awake.",
        ),
    ],
};

/// `[policy]`.
pub(super) static POLICY: Table = Table {
    name: "policy",
    list: false,
    what: "The rules of every decision.",
    keys: &[
        key(
            "routing",
            Choice(&["round_robin", "least_outstanding", "p2c", "slo", "slo_stage"]),
            Is("\"least_outstanding\""),
            "How a cluster is chosen: in turn; the fewest queries per unit of size; the less loaded of two drawn at random; the \
             fewest SLO violations, then the least cost, as a model predicts them (`slo`); or the same with what queries take \
             alone (`slo_stage`). The last two go by `least_outstanding` while there is no model.",
        ),
        key(
            "counting",
            Choice(&["median", "p75", "p90", "expected"]),
            Is("\"expected\""),
            "`slo` and `slo_stage`: which queries count as violations to come: those whose predicted median, 75 % or 90 % \
             quantile is above their SLO, or each by its probability to be.",
        ),
        key(
            "violation_target",
            Number { least: 0.0, most: 1.0 },
            Is("0.05"),
            "The share of queries that may miss their SLO.",
        ),
        key(
            "max_waiting",
            Count { least: 0, most: 1_000_000 },
            Is("1000"),
            "Queries that may wait; one more is refused.",
        ),
        key(
            "wait_limit",
            Duration { least: NOTHING, most: YEAR },
            Is("\"5m\""),
            "The longest that a query waits before it is refused.",
        ),
        key(
            "control_slots",
            Count { least: 1, most: 10_000 },
            Is("4"),
            "Queries of class `control` that may run at once on a cluster, besides its slots.",
        ),
        key(
            "pin_idle",
            Duration { least: SECOND, most: YEAR },
            Is("\"10m\""),
            "How long a session may keep a cluster to itself (in a transaction, say) without sending anything.",
        ),
        key(
            "cancel_grace",
            Duration { least: NOTHING, most: DAY },
            Is("\"5s\""),
            "How long a cancelled query may go on before its cluster is replaced.",
        ),
        key(
            "drain_limit",
            Duration { least: NOTHING, most: YEAR },
            Is("\"60s\""),
            "How long a draining cluster may finish what runs.",
        ),
        key(
            "start_limit",
            Duration { least: SECOND, most: DAY },
            Is("\"5m\""),
            "How long a cluster may take to start.",
        ),
        key(
            "retry_first",
            Duration { least: NOTHING, most: DAY },
            Is("\"1s\""),
            "The wait before a failed cluster is started again; doubles with each failure in a row.",
        ),
        key("retry_most", Duration { least: SECOND, most: DAY }, Is("\"60s\""), "The longest such wait."),
        key(
            "decisions_kept",
            Count { least: 0, most: 100_000 },
            Is("1000"),
            "Decisions kept in memory with their evidence.",
        ),
        key("max_clusters", Count { least: 1, most: 1_024 }, Is("64"), "Clusters known at once."),
    ],
};

/// `[[class]]`.
pub(super) static CLASS: Table = Table {
    name: "class",
    list: true,
    what: "Queries that are treated alike, in the order in which their rules are tried. Two classes exist unasked: \
           `control` takes what drivers and tools send on their own account and cannot be configured; `default` takes \
           what no rule matches, and may be written to give it an `slo`.",
    keys: &[
        key("name", Name, Required, "Its name, unique."),
        key(
            "slo",
            // No query answers in no time at all.
            Duration { least: Span::from_micros(1), most: YEAR },
            Said("never late"),
            "When its queries are late, counted from their arrival to the last row.",
        ),
        key(
            "match",
            Rules,
            Said("only queries that ask for it"),
            "A query is of this class if any of these rules matches and none of an earlier class does.",
        ),
    ],
};

/// The conditions of a match rule.
pub(super) static RULE: Table = Table {
    name: "match",
    list: true,
    what: "A rule of a class, such as `{ user = \"looker\", table = \"orders\" }`. Every condition that is written must \
           hold; at least one is.",
    keys: &[
        key("user", Text, Said("any"), "The user that connected."),
        key("database", Text, Said("any"), "The database that it connected to."),
        key("application", Text, Said("any"), "How its application name starts."),
        key("statement", Choice(&KINDS), Said("any"), "What the first statement does."),
        key("table", Text, Said("any"), "A table that it reads, with or without its schema."),
    ],
};

/// The names of core's kinds of statement, in their order.
const KINDS: [&str; 15] = {
    let mut names = [""; 15];
    let mut at = 0;
    while at < names.len() {
        names[at] = punctual_core::statement::Kind::ALL[at].name();
        at += 1;
    }
    names
};

/// `[[cluster]]`.
pub(super) static CLUSTER: Table = Table {
    name: "cluster",
    list: true,
    what: "The clusters to have from the start; at least one.",
    keys: &[
        key("name", Name, Required, "Its name, unique."),
        key(
            "kind",
            Choice(&["embedded", "simulated", "exec", "postgres"]),
            Required,
            "What it is: DataFusion in a child process; a child process that only sleeps as long as a cluster would work; anything that speaks the Postgres wire, started and stopped by commands ([providers](providers.md)); or the same that is there already.",
        ),
        key("size", Count { least: 1, most: 10_000 }, Is("1"), "Its size in units, by which it is billed."),
        key(
            "slots",
            Count { least: 1, most: 100_000 },
            Said("4 for each unit of `size`"),
            "Queries that may run there at once.",
        ),
        key(
            "price_per_unit_hour",
            Number { least: 0.0, most: 1e6 },
            Is("0.375"),
            "Dollars for one unit active for one hour. (The default is what Redshift Serverless charges.)",
        ),
        key(
            "minimum_billed",
            Duration { least: NOTHING, most: DAY },
            Is("\"60s\""),
            "The least that waking it up is billed.",
        ),
        key(
            "keep",
            Choice(&["always", "scaled"]),
            Is("\"always\""),
            "`always`: it is there from the start and stays. `scaled`: as many like it are started and stopped as `[scaling]` \
             finds good; each is called by this name and a number.",
        ),
        key(
            "initial",
            Count { least: 0, most: 1_000 },
            Is("0"),
            "`keep = \"scaled\"`: how many like it are started at the start.",
        ),
        key(
            "tables",
            Dirs,
            Said("none"),
            "`embedded`, this, `tpch` or `tpcds`: directories of Parquet files, each file or subdirectory a table.",
        ),
        key(
            "tpch",
            Number { least: 0.001, most: 1_000.0 },
            Said("none"),
            "`embedded`, this, `tables` or `tpcds`: TPC-H data of this scale factor, generated once. 1 is about a gigabyte of text.",
        ),
        key(
            "tpcds",
            Number { least: 0.01, most: 1_000.0 },
            Said("none"),
            "`embedded`, this, `tables` or `tpch`: TPC-DS data of this scale factor, generated once. 1 is about a gigabyte of text; above it there are whole numbers up to 10, and 100, 300 and 1000. Below it some dimensions keep their size, and the least is a twentieth of 1.",
        ),
        key(
            "threads_per_unit",
            Count { least: 1, most: 1_024 },
            Is("1"),
            "`embedded`: worker threads for each unit of its size.",
        ),
        key(
            "memory_per_unit",
            Bytes { least: 32 * MIB, most: 4 * TIB },
            Is("\"512MiB\""),
            "`embedded`: memory for each unit of its size.",
        ),
        key(
            "time_scale",
            Number { least: 0.001, most: 1e6 },
            Is("1.0"),
            "`simulated`: how many simulated seconds pass in a real one.",
        ),
        key(
            "warehouse",
            Choice(&["no", "yes"]),
            Is("\"no\""),
            "`simulated`: whether it works as the warehouse that was fitted to measurements does, with slots, memory and a cache \
             of its own; a comment such as `/* tpcds:42 */` says which query of TPC-DS a text is. Otherwise queries share it \
             evenly.",
        ),
        key(
            "start_takes",
            Duration { least: NOTHING, most: DAY },
            Is("\"0s\""),
            "`simulated`: how long a start takes, in simulated time.",
        ),
        key(
            "address",
            Address,
            Said("required for `postgres`"),
            "`postgres`: where it listens, `\"host:port\"` or `\"unix:/path/of/socket\"`.",
        ),
        key(
            "start",
            Words,
            Said("required for `exec`"),
            "`exec`: the program that starts a cluster, and its arguments. No shell reads them. Its last line on standard output \
             is where the cluster listens, `host:port` or `unix:/path/of/socket`.",
        ),
        key(
            "stop",
            Words,
            Said("required for `exec`"),
            "`exec`: the program that stops a cluster, and succeeds if it is not there.",
        ),
        key(
            "list",
            Words,
            Said("required for `exec`"),
            "`exec`: the program that says which clusters of this gateway run, each on a line: name and address.",
        ),
        key(
            "start_within",
            Duration { least: SECOND, most: DAY },
            Is("\"5m\""),
            "`exec`: how long it may take from the start to the first answer; `policy.start_limit` ends it too.",
        ),
        key("user", Text, Said("the client's"), "`postgres`, `exec`: the user to connect as."),
        key(
            "password_env",
            Text,
            Said("no password"),
            "`postgres`, `exec`: the environment variable that holds the password of `user`.",
        ),
        key(
            "password_file",
            Path,
            Said("no password"),
            "`postgres`, `exec`: the file that holds the password of `user`.",
        ),
        key("database", Text, Said("the client's"), "`postgres`, `exec`: the database to connect to."),
    ],
};

/// The keys of [`CLUSTER`] that only clusters of some kinds have.
pub(super) const ONLY_FOR: &[(&[&str], &[&str])] = &[
    (&["embedded"], &["tables", "tpch", "tpcds", "threads_per_unit", "memory_per_unit"]),
    (&["simulated"], &["time_scale", "warehouse", "start_takes"]),
    (&["exec"], &["start", "stop", "list", "start_within"]),
    (&["postgres"], &["address"]),
    (&["postgres", "exec"], &["user", "password_env", "password_file", "database"]),
];

impl Table {
    /// The table of that name.
    pub(super) fn named(name: &str) -> Option<&'static Table> {
        TABLES.into_iter().find(|table| table.name == name)
    }

    /// How its header is written.
    pub(super) fn header(&self) -> String {
        if self.list { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }

    /// The key of that name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// In people's words, with its bounds.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Count { least, most } => write!(f, "a whole number from {least} to {most}"),
            Number { least, most } => write!(f, "a number from {least} to {most}"),
            Duration { least, most } => write!(f, "a duration from {least} to {most}"),
            Bytes { least, most } => write!(f, "a size from {} to {}", bytes_text(least), bytes_text(most)),
            Choice(words) => write!(f, "{}", one_of(words)),
            Name => write!(f, "a name"),
            Text => write!(f, "text"),
            Path => write!(f, "a path"),
            Dirs => write!(f, "a list of directories"),
            Words => write!(f, "a list of words"),
            Listen => write!(f, "an address and a port"),
            Address => write!(f, "an address"),
            Rules => write!(f, "a list of rules"),
        }
    }
}

/// `"a"`, `"b"` or `"c"`.
fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Every table with its keys, as Markdown: the generated part of `docs/configuration.md`.
pub fn markdown() -> String {
    let mut text = String::new();
    for table in TABLES {
        write_table(&mut text, table);
        if table.name == "class" {
            write_table(&mut text, &RULE);
        }
    }
    text
}

fn write_table(text: &mut String, table: &Table) {
    let header =
        if table.name == RULE.name { "`match`, in `[[class]]`".to_owned() } else { format!("`{}`", table.header()) };
    let _ = write!(
        text,
        "### {header}\n\n{}\n\n| key | value | default | what it governs |\n|---|---|---|---|\n",
        table.what
    );
    for Key { name, kind, fallback, what } in table.keys {
        let fallback = match fallback {
            Is(written) => format!("`{written}`"),
            Required => "required".to_owned(),
            Said(words) => (*words).to_owned(),
        };
        let _ = writeln!(text, "| `{name}` | {kind} | {fallback} | {what} |");
    }
    text.push('\n');
}
