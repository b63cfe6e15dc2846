//! What governs who may run next.

use super::Fallback::{Is, Required, Said};
use super::Kind::{Choice, Count, Duration, Limit, Name, Number};
use super::{NOTHING, Table, YEAR, key};

/// `[lanes]`.
pub(in crate::config) static LANES: Table = Table {
    name: "lanes",
    list: false,
    what: "Lanes: caps on how many queries of a kind run at once. See [lanes](lanes.md).",
    keys: &[
        key(
            "strategy",
            Choice(&["none", "hilo", "manual"]),
            Is("\"none\""),
            "`none`: one lane for all. `hilo`: what has a priority below zero is in the lane `low`. `manual`: the lanes of the tables \
             `[[lane]]`, which classes name.",
        ),
        key(
            "max_low_percent",
            Number { least: 0.0, most: 100.0 },
            Said("needed with `hilo`"),
            "`hilo`: the share of all that may run at once that the lane `low` may have, rounded up.",
        ),
    ],
};

/// `[[lane]]`.
pub(in crate::config) static LANE: Table = Table {
    name: "lane",
    list: true,
    what: "A lane of `strategy = \"manual\"`. A query is in the lane that its class names; one without is in `default`, which has no \
           limit of its own.",
    keys: &[
        key("name", Name, Required, "Its name, unique; `total` and `default` are taken."),
        key("limit", Limit, Said("none"), "How many of its queries may run at once."),
        key(
            "guarantee",
            Limit,
            Is("0"),
            "While fewer of its queries run than this, they go before those of other lanes. What it does not use others may, until \
             they end.",
        ),
        key(
            "max_queued",
            Count { least: 0, most: 1_000_000 },
            Said("`policy.max_waiting`"),
            "Queries of it that may wait.",
        ),
        key(
            "queue_timeout",
            Duration { least: NOTHING, most: YEAR },
            Said("`policy.wait_limit`"),
            "The longest that one of them waits before it is refused, where its class does not say.",
        ),
    ],
};
