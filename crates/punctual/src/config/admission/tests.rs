//! What a file may say of who may run next.

use punctual_core::admit::Order;
use punctual_core::admit::lanes::Limit;
use punctual_core::time::Span;

use super::*;
use crate::config::tests::{accepted, refused};

#[test]
fn terms_and_lanes_are_read() {
    let settings = accepted(
        r#"
        [policy]
        order = "fair"
        half_life = "1m"
        max_running = 20
        adaptive = "on"
        adaptive_least = 3
        [lanes]
        strategy = "manual"
        [[lane]]
        name = "batch"
        limit = "25%"
        guarantee = 2
        max_queued = 10
        queue_timeout = "1m"
        [[class]]
        name = "etl"
        match = [{ user = "airflow" }]
        priority = -2
        priority_from = -9
        priority_to = 1
        period_threshold = "30d"
        segment_count_threshold = 100
        adjustment = -1
        lane = "batch"
        share = 0.5
        max_running = 4
        queue_timeout = "0s"
        refuse_late = "yes"
        max_query_memory = "256MiB"
        runtime_cap = "10m"
        on_cap = "resubmit"
        cascade_to = "default"
        quota = "1h"
        quota_per = "1d"
        [[cluster]]
        name = "a"
        kind = "simulated"
        "#,
    );
    let policy = settings.policy;
    let lane = Lane {
        name: "batch".into(),
        limit: Some(Limit::Percent(25.0)),
        guarantee: Some(Limit::Count(2)),
        max_queued: Some(10),
        queue_timeout: Some(Span::from_secs(60)),
    };
    assert_eq!(policy.lanes, Lanes::manual(vec![lane]));
    assert_eq!((policy.order, policy.half_life, policy.max_running), (Order::Fair, Span::from_secs(60), Some(20)));
    assert_eq!(policy.adaptive, Some(Adaptive { least: 3, ..Adaptive::default() }));
    let wanted = Terms {
        priority: -2,
        may_ask: (-9, 1),
        thresholds: Thresholds {
            period: Some(Span::from_secs(30 * 86_400)),
            segments: Some(100),
            ..Thresholds::default()
        },
        adjustment: -1,
        lane: Some("batch".into()),
        share: 0.5,
        max_running: Some(4),
        queue_timeout: Some(Span::ZERO),
        refuse_late: true,
        max_memory: Some(256 << 20),
        cap: Some(Cap { runtime: Span::from_secs(600), then: Then::Resubmit("default".into()) }),
        weight: Weight { quota: Some(Quota { work: 3_600.0, per: Span::from_secs(86_400) }), ..Weight::default() },
        ..Terms::default()
    };
    assert_eq!(policy.classes[2].terms, wanted);
    // A class that says nothing has the terms that core has, too.
    assert_eq!(policy.classes[1].terms, Terms::default());
}

#[test]
fn terms_that_make_no_sense_are_refused() {
    refused(
        r#"
        [lanes]
        strategy = "hilo"
        [[lane]]
        name = "x"
        [[class]]
        name = "a"
        priority_from = 3
        on_cap = "cascade"
        lane = "x"
        [[class]]
        name = "b"
        runtime_cap = "1m"
        on_cap = "cascade"
        quota = "1m"
        [[class]]
        name = "c"
        runtime_cap = "1m"
        on_cap = "cascade"
        cascade_to = "c"
        adjustment = 1.5
        [[class]]
        name = "d"
        runtime_cap = "1m"
        cascade_to = "nowhere"
        [[class]]
        name = "e"
        runtime_cap = "1s"
        on_cap = "cascade"
        cascade_to = "f"
        [[class]]
        name = "f"
        runtime_cap = "1s"
        on_cap = "resubmit"
        cascade_to = "e"
        [[class]]
        name = "g"
        runtime_cap = "1s"
        on_cap = "cascade"
        cascade_to = "e"
        [[cluster]]
        name = "a"
        kind = "simulated"
        "#,
        expect_test::expect![[r#"
            punctual.toml:3:20: lanes.strategy: it does not say how much the low lane may have; write `max_low_percent`, too
            punctual.toml:4:9: lane "x": lanes have no names here; write `strategy = "manual"` in [lanes], or leave it out
            punctual.toml:8:25: class "a".priority_from: the lowest priority, 3, is above the highest, 0; write `priority_from` no higher than `priority_to`
            punctual.toml:9:18: class "a".on_cap: it says nothing without `runtime_cap`; write how long a query may run, or leave it out
            punctual.toml:10:16: class "a".lane: lanes have no names here; write `strategy = "manual"` in [lanes], or leave it out
            punctual.toml:14:18: class "b".on_cap: it does not say to which class; write `cascade_to`, too
            punctual.toml:15:17: class "b".quota: it does not say in what time; write `quota_per`, too, as in "1h"
            punctual.toml:20:22: class "c".cascade_to: it is the class itself; write the name of a slower one
            punctual.toml:21:22: class "c".adjustment: it is a number with a fraction; write a whole number from -1000000 to 1000000
            punctual.toml:25:22: class "d".cascade_to: the class cancels what runs too long; write `on_cap = "cascade"`, or leave it out
            punctual.toml:25:22: class "d".cascade_to: there is no class "nowhere" to go to; write the name of a [[class]]
            punctual.toml:30:22: class "e".cascade_to: from "f" queries would go in a circle, and no cap would end them; let the slowest class go nowhere
            punctual.toml:35:22: class "f".cascade_to: from "e" queries would go in a circle, and no cap would end them; let the slowest class go nowhere
            punctual.toml:40:22: class "g".cascade_to: from "e" queries would go in a circle, and no cap would end them; let the slowest class go nowhere
        "#]],
    );
    refused(
        r#"
        [lanes]
        strategy = "manual"
        max_low_percent = 20
        [[lane]]
        name = "total"
        limit = "120%"
        [[lane]]
        name = "x"
        limit = 1.5
        [[lane]]
        name = "x"
        [[class]]
        name = "a"
        lane = "y"
        [[cluster]]
        name = "a"
        kind = "simulated"
        "#,
        expect_test::expect![[r#"
            punctual.toml:4:27: lanes.max_low_percent: there is no low lane; write `strategy = "hilo"`, or leave it out
            punctual.toml:6:16: lane "total".name: "total" is taken: it means all queries, or those without a lane; give it another name
            punctual.toml:7:17: lane "total".limit: "120%" is no share from 0% to 100%; write a number of queries, or a share such as "20%"
            punctual.toml:10:17: lane "x".limit: it is a number with a fraction; write a number of queries, or a share such as "20%"
            punctual.toml:12:16: lane "x".name: there is a lane "x" already; give one of them another name, or join them
            punctual.toml:15:16: class "a".lane: there is no lane "y"; write a [[lane]] of that name
        "#]],
    );
}
