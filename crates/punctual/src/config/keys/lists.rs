//! What there is any number of: classes and clusters.

use punctual_core::time::Span;

use super::Fallback::{Is, Required, Said};
use super::Kind::{Address, Bytes, Choice, Count, Dirs, Duration, Name, Number, Path, Rules, Text, Words};
use super::{DAY, MIB, NOTHING, SECOND, TIB, Table, YEAR, key};

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
pub(in crate::config) const ONLY_FOR: &[(&[&str], &[&str])] = &[
    (&["embedded"], &["tables", "tpch", "tpcds", "threads_per_unit", "memory_per_unit"]),
    (&["simulated"], &["time_scale", "warehouse", "start_takes"]),
    (&["exec"], &["start", "stop", "list", "start_within"]),
    (&["postgres"], &["address"]),
    (&["postgres", "exec"], &["user", "password_env", "password_file", "database"]),
];
