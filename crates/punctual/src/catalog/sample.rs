//! A small gateway at work, for tests: two clusters, a query that runs, one that waits, one that has ended.

use std::sync::Arc;

use punctual_core::admit::claim::Claim;
use punctual_core::billing::Price;
use punctual_core::class::Class;
use punctual_core::cluster::Spec;
use punctual_core::event::Outcome;
use punctual_core::id::{ClassId, ClusterId, Generation, QueryId, SessionId, Units};
use punctual_core::query::Query;
use punctual_core::statement::Statement;
use punctual_core::time::{Span, Time};
use punctual_core::{Dispatcher, Event, Policy};

use crate::link::{About, Snapshot};

/// 2026-01-02 03:04:05 UTC.
const START: u64 = 1_767_323_045_000_000;

/// What the driver of that gateway knows three seconds after its start.
pub(crate) fn snapshot() -> Snapshot {
    let mut classes = Class::built_in();
    classes.push(Class {
        name: "dashboards".into(),
        rules: Vec::new(),
        slo: Some(Span::from_millis(1_500)),
        ..Class::default()
    });
    let mut dispatcher = Dispatcher::new(1, Policy { classes, ..Policy::default() });
    let mut at = |seconds: u64, event: Event| {
        dispatcher.handle(Time::from_micros(START + seconds * 1_000_000), event, &mut Vec::new());
    };
    at(0, Event::ClusterWanted(spec("small", 1)));
    at(0, Event::ClusterWanted(spec("large", 2)));
    at(0, Event::ClusterReady { cluster: ClusterId(0), generation: Generation(0) });
    let (done, runs, waits) = (query(1, "select 1 from t"), query(2, "select 'ann''s'"), query(3, "select 'bob''s'"));
    let about = vec![(runs.0.id, about("ann", &runs.1)), (waits.0.id, about("bob", &waits.1))];
    at(0, Event::Arrived(done.0));
    let outcome = Outcome::Finished { rows: 3, bytes: 17 };
    at(1, Event::Finished { query: QueryId::of(1, 1), outcome, blocked: Span::ZERO, pinned: false });
    at(1, Event::Arrived(runs.0));
    at(2, Event::Arrived(waits.0));
    let view = dispatcher.view(Time::from_micros(START + 3_000_000));
    Snapshot { view, about, broken: 0, degraded: false, sessions: 2, unstopped: Vec::new() }
}

fn spec(name: &str, size: u32) -> Spec {
    Spec {
        name: name.into(),
        units: Units(size),
        slots: 1,
        price: Price::default(),
        killable: true,
        offer: None,
        writer: false,
    }
}

fn query(number: u64, sql: &str) -> (Query, String) {
    let statement = Statement::read(sql);
    let query = Query {
        id: QueryId::of(1, number),
        session: SessionId::of(1, number),
        fingerprint: statement.fingerprint,
        kind: statement.kind,
        class: ClassId(2),
        slo: Some(Span::from_millis(1_500)),
        claim: Claim::default(),
        traits: None,
    };
    (query, sql.to_owned())
}

fn about(user: &str, sql: &str) -> About {
    About {
        user: user.into(),
        database: "dev".into(),
        application: "psql".into(),
        text: sql.into(),
        shape: Arc::from(Statement::read(sql).shape),
    }
}
