//! What the gateway is, and what it keeps.

use super::Fallback::{Is, Required, Said};
use super::Kind::{Bytes, Choice, Count, Duration, Listen, Path, Words};
use super::{DAY, GIB, HOUR, KIB, MIB, MILLISECOND, NOTHING, SECOND, TIB, Table, key};

/// `[gateway]`.
pub(in crate::config) static GATEWAY: Table = Table {
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
            "Where clients connect, with the Postgres wire. Anywhere but on loopback they must prove who they are: see `auth`.",
        ),
        key(
            "http",
            Listen,
            Is("\"127.0.0.1:8432\""),
            "Where HTTP is served; `\"off\"`: nowhere. Anywhere but on loopback, `http_tokens_file` must be there.",
        ),
        key(
            "http_tokens_file",
            Path,
            Said("nobody needs one"),
            "The tokens that requests have to show as `Authorization: Bearer TOKEN`, a line for each: `TOKEN`, or `TOKEN USER` for queries \
             as that user, or `TOKEN *` for queries as anyone. `/healthz` and `/readyz` need none. Without it and with `auth = \"scram\"`, \
             no query is run by HTTP.",
        ),
        key(
            "auth",
            Choice(&["trust", "scram"]),
            Is("\"trust\""),
            "How clients prove who they are. `trust`: not at all, which is for loopback only. `scram`: with a password, by \
             SCRAM-SHA-256. See [security](security.md).",
        ),
        key(
            "users_file",
            Path,
            Said("required for `scram`"),
            "The users that may come in, a line for each, as `punctual user NAME` prints it.",
        ),
        key(
            "admins",
            Words,
            Said("all with `trust`, nobody with `scram`"),
            "`scram`: the users that see the SQL of others in the schema `punctual`.",
        ),
        key(
            "failed_logins",
            Count { least: 0, most: 1_000_000 },
            Is("20"),
            "`scram`: log-ins that may fail in a minute from one address (of IPv6, one /64) before those that follow are refused. 0: \
             any number.",
        ),
        key(
            "tls",
            Choice(&["off", "allowed", "required"]),
            Said("`\"allowed\"` with `[tls]`, `\"off\"` without"),
            "Whether clients are encrypted: none, those that ask for it, or all; then others are turned away.",
        ),
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
            "How long a client may take from connecting until it is let in.",
        ),
        key(
            "client_stall_timeout",
            Duration { least: SECOND, most: DAY },
            Is("\"1h\""),
            "How long a client may take nothing of a result that waits for it: then its query is stopped and its session ends, since it \
             holds a slot.",
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
            Said("as many as make up its slots with those in use"),
            "Connections to one cluster that may lie idle.",
        ),
        key(
            "min_idle_connections",
            Count { least: 0, most: 100_000 },
            Is("0"),
            "Connections to each ready cluster that are opened before they are needed, for each user and database that came within \
             `connection_idle_timeout`, to whatever cluster.",
        ),
        key(
            "connection_idle_timeout",
            Duration { least: SECOND, most: DAY },
            Is("\"10m\""),
            "How long a connection to a cluster may lie idle before it is closed.",
        ),
        key(
            "connection_lifetime",
            Duration { least: SECOND, most: DAY },
            Is("\"1h\""),
            "How old a connection to a cluster may be when it is given back; up to a tenth less, so that not all end at once.",
        ),
        key(
            "connect_within",
            Duration { least: SECOND, most: HOUR },
            Is("\"10s\""),
            "How long connecting to a cluster may take.",
        ),
        key(
            "check_every",
            Duration { least: MILLISECOND, most: DAY },
            Is("\"5s\""),
            "How often a cluster that something runs on is asked whether it is still there, by a log-in of its own. One that \
             does not answer within `connect_within`, twice in a row, is given up with all that runs there, and is there again \
             once it answers. One that nothing runs on is not asked: it may sleep.",
        ),
    ],
};

/// `[tls]`.
pub(in crate::config) static TLS: Table = Table {
    name: "tls",
    list: false,
    what: "What the gateway shows clients that are encrypted. Renewed files are read by a reload.",
    keys: &[
        key(
            "certificate",
            Path,
            Required,
            "Its certificate in PEM, then those that lead to an authority. Names stand in its `subjectAltName`.",
        ),
        key("key", Path, Required, "The key to it in PEM, without a passphrase."),
    ],
};

/// `[history]`.
pub(in crate::config) static HISTORY: Table = Table {
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
pub(in crate::config) static JOURNAL: Table = Table {
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
