//! What there is any number of: classes and clusters.

use punctual_core::time::Span;

use super::Fallback::{Is, Required, Said};
use super::Kind::{Address, Bytes, Choice, Count, Dirs, Duration, Name, Number, Path, Rules, Text, Whole, Words};
use super::{DAY, Kind, MIB, NOTHING, SECOND, TIB, Table, YEAR, key};

/// Priorities: as Druid's, whole numbers around zero.
const PRIORITY: Kind = Whole { least: -1_000_000, most: 1_000_000 };

/// The longest time that data goes back.
const AGES: Span = Span::from_secs(1_000 * 365 * 86_400);

/// `[[class]]`.
pub(in crate::config) static CLASS: Table = Table {
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
        key(
            "chosen_by",
            Words,
            Said("everyone"),
            "The users that may choose it by `SET punctual.class`, a start-up option or a comment. Its rules take the queries of others \
             all the same.",
        ),
        key(
            "violation_target",
            Number { least: 0.0, most: 1.0 },
            Said("`policy.violation_target`"),
            "The share of its queries that may miss their SLO.",
        ),
        key("priority", PRIORITY, Is("0"), "Their priority, unless they ask for another or a threshold lowers it."),
        key(
            "priority_from",
            PRIORITY,
            Said("`priority`"),
            "The lowest priority that one may ask for. What is beyond is brought within.",
        ),
        key("priority_to", PRIORITY, Said("`priority`"), "The highest."),
        key(
            "period_threshold",
            Duration { least: NOTHING, most: AGES },
            Said("none"),
            "A query that reaches further back than this counts as heavy: see [time ranges](time-ranges.md).",
        ),
        key(
            "duration_threshold",
            Duration { least: NOTHING, most: AGES },
            Said("none"),
            "The same of one that covers more time.",
        ),
        key(
            "segment_count_threshold",
            Count { least: 0, most: 4_000_000_000 },
            Said("none"),
            "The same of one that reads more partitions.",
        ),
        key(
            "segment_range_threshold",
            Duration { least: NOTHING, most: AGES },
            Said("none"),
            "The same of one whose partitions cover more time.",
        ),
        key(
            "work_threshold",
            Duration { least: NOTHING, most: YEAR },
            Said("none"),
            "The same of one that is expected to be more work than this, for a cluster of one unit. Needs a model.",
        ),
        key(
            "latency_threshold",
            Duration { least: NOTHING, most: YEAR },
            Said("none"),
            "The same of one that is expected to take longer than this alone, where it is fastest. Needs a model.",
        ),
        key(
            "adjustment",
            PRIORITY,
            Is("5"),
            "What a heavy query's priority is lowered by, once, whatever trips; below zero: raised by.",
        ),
        key("lane", Name, Said("`default`"), "The lane of its queries, where `lanes.strategy` is `manual`."),
        key(
            "max_running",
            Count { least: 0, most: 1_000_000 },
            Said("any"),
            "How many of its queries may run at once.",
        ),
        key(
            "max_queued",
            Count { least: 0, most: 1_000_000 },
            Said("`policy.max_waiting`"),
            "How many may wait; one more is refused.",
        ),
        key(
            "queue_timeout",
            Duration { least: NOTHING, most: YEAR },
            Said("that of its lane, or `policy.wait_limit`"),
            "The longest that one waits before it is refused.",
        ),
        key(
            "refuse_late",
            Choice(&["no", "yes"]),
            Is("\"no\""),
            "`yes`: one that would be late anyway, by how fast its lane gets on, is refused when it comes.",
        ),
        key(
            "max_query_memory",
            Bytes { least: 64 * 1_024, most: 2 * TIB - 1_024 },
            Said("as the cluster has it"),
            "The `work_mem` of its queries, whatever their session has set: in Postgres for each sort and hash, in embedded clusters \
             for the query. A transaction keeps that of the class in which it began.",
        ),
        key(
            "runtime_cap",
            Duration { least: SECOND, most: YEAR },
            Said("none"),
            "How long one may run before `on_cap` happens.",
        ),
        key(
            "on_cap",
            Choice(&["cancel", "cascade", "resubmit"]),
            Is("\"cancel\""),
            "It is cancelled; or it runs on and counts as one of `cascade_to` and its lane; or, if it is a SELECT of which nothing \
             has been sent and there is another cluster, it is sent there anew, in that class.",
        ),
        key(
            "cascade_to",
            Name,
            Said("none"),
            "The class that it counts in then, with that one's own `runtime_cap`, counted from the same start.",
        ),
        key(
            "share",
            Number { least: 1e-6, most: 1e6 },
            Is("1"),
            "`policy.order = \"fair\"`: how much of what is there its queries get, beside other classes that wait.",
        ),
        key(
            "weight",
            Number { least: 1e-6, most: 1e6 },
            Is("1"),
            "The same of a query beside others of its class: this, times the parts below.",
        ),
        key(
            "priority_doubles",
            Number { least: 0.0, most: 1_000.0 },
            Is("5"),
            "It weighs twice as much for each so many points of priority. 0: priority says nothing.",
        ),
        key(
            "work_weight",
            Number { least: 0.0, most: 100.0 },
            Is("0"),
            "Of twice the expected work it weighs 2 to this less. Needs a model.",
        ),
        key(
            "load_weight",
            Number { least: 0.0, most: 100.0 },
            Is("0"),
            "It weighs 2 to this less when twice as many run and wait as may run.",
        ),
        key(
            "cached_weight",
            Number { least: 0.0, most: 100.0 },
            Is("0"),
            "It weighs 2 to this more if the same text has just run on a cluster that is still there. Needs a model.",
        ),
        key(
            "use_weight",
            Number { least: 0.0, most: 100.0 },
            Is("1"),
            "After twice the use of its user it weighs 2 to this less. 0: use says nothing; then those that wait longer weigh more.",
        ),
        key(
            "quota",
            Duration { least: NOTHING, most: YEAR },
            Said("none"),
            "Work of a user within `quota_per`, for a cluster of one unit, beyond which its queries weigh a thousandth.",
        ),
        key("quota_per", Duration { least: SECOND, most: YEAR }, Said("none"), "In what time."),
    ],
};

/// The conditions of a match rule.
pub(in crate::config) static RULE: Table = Table {
    name: "match",
    list: true,
    what: "A rule of a class, such as `{ user = \"looker\", table = \"orders\" }`. Every condition that is written must \
           hold; at least one is.",
    keys: &[
        key("user", Text, Said("any"), "The user that connected."),
        key("database", Text, Said("any"), "The database that it connected to."),
        key("application", Text, Said("any"), "How its application name starts."),
        key(
            "client",
            Text,
            Said("any"),
            "Where its client is: an address, a network (`\"10.0.0.0/8\"`, `\"2001:db8::/32\"`), or `\"local\"`: at a Unix socket.",
        ),
        key(
            "tag",
            Text,
            Said("any"),
            "What a comment in the query says: `\"key=value\"`, or `\"key\"` with any value. See [tags](#tags).",
        ),
        key("comment", Text, Said("any"), "What stands somewhere in the query's comments, letter by letter."),
        key("statement", Choice(&KINDS), Said("any"), "What the first statement does."),
        key("table", Text, Said("any"), "A table that it reads, with or without its schema."),
        key(
            "fingerprint",
            Text,
            Said("any"),
            "The number of its shape, as `punctual check --query` and `punctual.queries` show it.",
        ),
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

/// `[[table]]`.
pub(in crate::config) static TABLE: Table = Table {
    name: "table",
    list: true,
    what: "A table with a column of time, if how much of time queries read is to matter: what predicates on that column let \
           through ([time ranges](time-ranges.md)). All instants are in UTC.",
    keys: &[
        key(
            "name",
            Text,
            Required,
            "Its name, with or without its schema. Without, it stands for that table of any schema.",
        ),
        key("time_column", Text, Required, "The column of time."),
        key(
            "unit",
            Choice(&UNITS),
            Is("\"timestamp\""),
            "What the column holds: timestamps, dates, numbers of seconds, milliseconds or microseconds since 1970, or numbers \
             such as 20240131.",
        ),
        key(
            "segment",
            Duration { least: SECOND, most: YEAR },
            Said("not known"),
            "How much time one of its partitions holds. They begin at whole multiples of it since 1970.",
        ),
        key("from", Text, Said("not known"), "It holds nothing from before this date or timestamp."),
        key(
            "to",
            Text,
            Said("not known"),
            "It holds nothing from then on, a date or a timestamp; `\"now\"`: nothing later than the query that reads it. \
             Without it, a query that names no end counts as one that covers time without bound.",
        ),
    ],
};

/// The names of core's units of a column of time.
const UNITS: [&str; 6] = {
    let mut names = [""; 6];
    let mut at = 0;
    while at < names.len() {
        names[at] = punctual_core::scan::ColumnUnit::ALL[at].name();
        at += 1;
    }
    names
};

/// `[[cluster]]`.
pub(in crate::config) static CLUSTER: Table = Table {
    name: "cluster",
    list: true,
    what: "The clusters to have from the start; at least one.",
    keys: &[
        key("name", Name, Required, "Its name, unique."),
        key(
            "kind",
            Choice(&["embedded", "simulated", "exec", "postgres"]),
            Required,
            "What it is: DataFusion in a child process; a child process that only sleeps as long as a cluster would work (a tenth of a second, or as a comment says: `/* punctual: work=5s */`, alone on one unit); anything that speaks the Postgres wire, started and stopped by commands ([providers](providers.md)); or the same that is there already.",
        ),
        key("size", Count { least: 1, most: 10_000 }, Is("1"), "Its size in units, by which it is billed."),
        key(
            "slots",
            Count { least: 1, most: 100_000 },
            Said("4 for each unit of `size`"),
            "Queries that may run there at once.",
        ),
        key(
            "role",
            Choice(&["any", "writer"]),
            Is("\"any\""),
            "`writer`: what may change something (INSERT, DDL, COPY FROM, transactions that are not begun `READ ONLY`, `SELECT … FOR UPDATE`) runs on clusters \
             that are marked so, and so does what pins a session; SELECTs run anywhere, also those that call functions of which it is not known what they do. Where none is, everything runs anywhere.",
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
            "The least that waking it up is billed; less if it is stopped or lost sooner.",
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
        key(
            "credentials_file",
            Path,
            Said("nobody is named"),
            "`postgres`, `exec`: as whom users of the gateway come, a line for each: `gateway_user cluster_user password`. Those that \
             it does not name come as `user`, or not at all. Read again by a reload.",
        ),
        key(
            "user",
            Text,
            Said("the client's, without `credentials_file`"),
            "`postgres`, `exec`: the user to connect as.",
        ),
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
        key(
            "tls",
            Choice(&["off", "preferred", "required", "verify-ca", "verify-full"]),
            Is("\"preferred\""),
            "`postgres`, `exec`: whether connections are encrypted: never; if the cluster can; always; always, and its certificate \
             leads to an authority of `tls_ca`; and is for the host that is connected to. Not over Unix sockets.",
        ),
        key(
            "tls_ca",
            Path,
            Said("required for `verify-ca` and `verify-full`"),
            "`postgres`, `exec`: the authorities that are trusted, in PEM.",
        ),
    ],
};

/// The keys of [`CLUSTER`] that only clusters of some kinds have.
pub(in crate::config) const ONLY_FOR: &[(&[&str], &[&str])] = &[
    (&["embedded"], &["tables", "tpch", "tpcds", "threads_per_unit", "memory_per_unit"]),
    (&["simulated"], &["time_scale", "warehouse", "start_takes"]),
    (&["exec"], &["start", "stop", "list", "start_within"]),
    (&["postgres"], &["address"]),
    (
        &["postgres", "exec"],
        &["credentials_file", "user", "password_env", "password_file", "database", "tls", "tls_ca"],
    ),
];
