//! What governs decisions.

use punctual_core::time::Span;
use punctual_tuner::forecast::NAMES;

use super::Fallback::{Is, Said};
use super::Kind::{Choice, Count, Duration, Number, Path, Text};
use super::{DAY, NOTHING, SECOND, Table, YEAR, key};

/// `[prediction]`.
pub(in crate::config) static PREDICTION: Table = Table {
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
pub(in crate::config) static SCALING: Table = Table {
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
        key(
            "standby",
            Duration { least: NOTHING, most: YEAR },
            Said("ten times `start_takes`"),
            "The same under `policy.routing = \"tabs\"` or `\"delayed_off\"`, where neither `idle` nor `lifetime` counts.",
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
            "Ready clusters that are kept: while there are no more than so many, none is stopped for being idle. It starts none (`initial` says how many there are at the start), but for this: a query that comes when there is none starts the smallest and waits.",
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

/// `[plan]`.
pub(in crate::config) static PLAN: Table = Table {
    name: "plan",
    list: false,
    what: "Days go by a plan: which clusters start when, and knobs of `[scaling]` for that day ([plan.md](plan.md)).",
    keys: &[
        key(
            "mode",
            Choice(&["off", "shadow", "suggest", "on"]),
            Is("\"off\""),
            "`off`: no plan is made or followed. `shadow`: one is made every day, and it is recorded what it would start. `suggest`: \
             the same, shown as what someone should do. `on`: it is followed; what it starts is stopped by `[scaling]`, \
             whose mode must be `on`, too.",
        ),
        key(
            "at",
            Text,
            Is("\"03:00\""),
            "When a plan is made, by the clocks of `zone`: before noon it is of the day that has begun, from noon on of the next. \
             A gateway that starts without the plan that was due last makes it then.",
        ),
        key("zone", Text, Is("\"UTC\""), "By whose clocks days begin and end: `Europe/Berlin`, `+05:30`."),
        key(
            "forecaster",
            Choice(&NAMES),
            Is("\"weekly\""),
            "Who says what the day may bring, as in `punctual forecast`.",
        ),
        key(
            "dir",
            Path,
            Said("`plans` in `gateway.state_dir`"),
            "Where plans are kept, a file for each day, the last 60.",
        ),
    ],
};

/// `[policy]`.
pub(in crate::config) static POLICY: Table = Table {
    name: "policy",
    list: false,
    what: "The rules of every decision.",
    keys: &[
        key(
            "routing",
            Choice(&[
                "round_robin",
                "least_outstanding",
                "p2c",
                "jsq",
                "random",
                "tabs",
                "jiq",
                "delayed_off",
                "slo",
                "slo_stage",
            ]),
            Is("\"least_outstanding\""),
            "How a cluster is chosen: in turn; the fewest queries per unit of size; the less loaded of two drawn at random; a \
             random one of those with the fewest queries (`jsq`); any at random; for fleets of like clusters an idle one at random, \
             else a busy one (`jiq`, `tabs`), else none until one is idle (`delayed_off`), where `tabs` and `delayed_off` also \
             start and stop clusters, in the place of what `[scaling]` says of that (docs/fleet.md); the \
             fewest SLO violations, then the least cost, as a model predicts them (`slo`); or the same with what queries take \
             alone (`slo_stage`). The last two go by `least_outstanding` while there is no model.",
        ),
        key(
            "routing_mode",
            Choice(&["off", "shadow", "suggest", "on"]),
            Is("\"on\""),
            "`on`: `routing` routes. Else `baseline` does, and `routing` is not asked (`off`), or what it would have done is \
             recorded beside what was done (`shadow`), or that and what it comes to is shown as advice (`suggest`): see \
             `punctual.decisions` and `punctual.controllers`.",
        ),
        key(
            "baseline",
            Choice(&["round_robin", "least_outstanding", "p2c"]),
            Is("\"least_outstanding\""),
            "How a cluster is chosen while `routing_mode` is not `on`.",
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
            "order",
            Choice(&["fifo", "fair"]),
            Is("\"fifo\""),
            "Whose turn it is of those that wait: the oldest, or whose class, and within it whose user, has used least lately for \
             its share.",
        ),
        key(
            "half_life",
            Duration { least: SECOND, most: DAY },
            Is("\"5m\""),
            "`order = \"fair\"`: after how long half of what someone has used counts no more.",
        ),
        key(
            "max_running",
            Count { least: 1, most: 1_000_000 },
            Said("the slots of all ready clusters"),
            "Queries that may run at once in all.",
        ),
        key(
            "adaptive",
            Choice(&["off", "on"]),
            Is("\"off\""),
            "`on`: how many queries may run at once on a cluster follows how long they take, up to its slots.",
        ),
        key(
            "adaptive_least",
            Count { least: 1, most: 10_000 },
            Is("2"),
            "`adaptive = \"on\"`: that limit never falls below this.",
        ),
        key(
            "adaptive_tolerance",
            Number { least: 1.0, most: 100.0 },
            Is("1.5"),
            "`adaptive = \"on\"`: how many times what they usually take queries may take before the limit shrinks.",
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
