//! Every surface shows the dispatcher's view: the schema `punctual` and the metrics are compared with it, number by
//! number, on gateways in many states.

use punctual::catalog::{Question, answer};
use punctual::link::Snapshot;
use punctual::metrics::Metrics;
use punctual_core::admit::claim::Claim;
use punctual_core::billing::Price;
use punctual_core::class::Class;
use punctual_core::cluster::{Phase, Spec};
use punctual_core::event::{LossCause, Outcome};
use punctual_core::id::{ClassId, ClusterId, Generation, QueryId, SessionId, Units};
use punctual_core::query::{Query, SqlState, Status};
use punctual_core::rng::{Rng, Stream};
use punctual_core::statement::Statement;
use punctual_core::time::{Span, Time};
use punctual_core::view::View;
use punctual_core::{Command, Dispatcher, Event, Policy};

/// A gateway after some hundred events that `seed` chooses, senseless ones among them.
fn snapshot(seed: u64) -> Snapshot {
    let mut classes = Class::built_in();
    classes.push(Class { name: "etl".into(), rules: Vec::new(), slo: Some(Span::from_secs(5)), ..Class::default() });
    let mut dispatcher = Dispatcher::new(seed, Policy { classes, max_waiting: 20, ..Policy::default() });
    let mut rng = Rng::stream(seed, Stream::Routing);
    let (mut now, mut commands): (Time, Vec<Command>) = (Time::from_micros(1_767_323_045_000_000), Vec::new());
    for number in 0..3 {
        let price = Price::default();
        let spec = Spec {
            name: format!("c{number}"),
            units: Units(number + 1),
            slots: 2,
            price,
            killable: true,
            offer: None,
            writer: false,
        };
        dispatcher.handle(now, Event::ClusterWanted(spec), &mut commands);
    }
    for number in 0..300 {
        now = now + Span::from_millis(rng.index(900) as u64);
        dispatcher.handle(now, event(number, &mut rng), &mut commands);
    }
    let view = dispatcher.view(now);
    Snapshot { view, about: Vec::new(), broken: 2, degraded: true, sessions: 7, unstopped: vec!["old".into()] }
}

fn event(number: u64, rng: &mut Rng) -> Event {
    let cluster = ClusterId(rng.index(4) as u32);
    let earlier = QueryId(rng.index(number as usize + 1) as u64);
    let statement = Statement::read("select a from t");
    match rng.index(20) {
        0 => Event::ClusterLost { cluster, generation: Generation(0), cause: LossCause::Exited },
        1 if number > 250 => Event::DrainWanted { cluster },
        2 => Event::Cancel { query: earlier },
        3..=5 => Event::ClusterReady { cluster, generation: Generation(rng.index(2) as u32) },
        6..=9 => {
            let outcome = match rng.index(3) {
                0 => Outcome::Failed { sqlstate: SqlState(*b"XX000"), rows: 0, bytes: 0 },
                _ => Outcome::Finished { rows: 1, bytes: 8 },
            };
            Event::Finished { query: earlier, outcome, blocked: Span::ZERO, pinned: false }
        }
        _ => Event::Arrived(Query {
            id: QueryId(number),
            session: SessionId(number),
            fingerprint: statement.fingerprint,
            kind: statement.kind,
            class: ClassId(rng.index(3) as u32),
            slo: Some(Span::from_secs(2)),
            claim: Claim::default(),
            traits: None,
        }),
    }
}

/// Rows of a statement, values separated by bars.
fn select(snapshot: &Snapshot, sql: &str) -> Vec<String> {
    let answer = answer(Question { sql, parameters: &[], user: "ann", is_admin: false }, snapshot).expect("an answer");
    let show = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    answer.rows.into_iter().map(|row| row.into_iter().map(show).collect::<Vec<_>>().join("|")).collect()
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn queries(view: &View) -> Vec<String> {
    let row = |query: &punctual_core::view::QueryView| {
        let status = match query.placed {
            _ if query.cancelled => "cancelling",
            Some(_) => "running",
            None => "waiting",
        };
        let class = &view.classes[query.query.class.0 as usize].name;
        let cluster = or_dash(query.placed.map(|(cluster, _)| cluster));
        format!("{}|{}|{status}|{class}|{cluster}", query.id, query.session.0)
    };
    view.queries.iter().map(row).collect()
}

fn clusters(view: &View) -> Vec<String> {
    let row = |c: &punctual_core::view::ClusterView| {
        let failed_by = or_dash(c.failed_by);
        let awake = if c.awake { "t" } else { "f" };
        format!("{}|{}|{}|{}|{}|{awake}|{}|{failed_by}", c.id, c.name, c.phase.name(), c.running, c.placed, c.cost)
    };
    view.clusters.iter().map(row).collect()
}

fn classes(view: &View) -> Vec<String> {
    let row = |class: &punctual_core::view::ClassView| {
        let ended: Vec<String> = Status::ALL.iter().map(|status| class.tally.ended(*status).to_string()).collect();
        let rate = or_dash(class.tally.violation_rate());
        format!("{}|{}|{}|{}|{rate}", class.name, class.waiting, class.running, ended.join("|"))
    };
    view.classes.iter().map(row).collect()
}

fn decisions(view: &View) -> Vec<String> {
    let row = |d: &punctual_core::dispatcher::Decision| {
        format!("{}|{}|{}|{}|{}", d.query, d.cluster, d.why, d.waited.secs_f64(), d.candidates.len())
    };
    view.decisions.iter().map(row).collect()
}

#[test]
fn what_the_schema_shows_is_what_the_view_holds() {
    let mut seen = [false; 6];
    for seed in 0..40 {
        let snapshot = snapshot(seed);
        let view = &snapshot.view;
        let sql = "select query_id, session_id, status, class, cluster_id from punctual.queries";
        assert_eq!(select(&snapshot, sql), queries(view), "seed {seed}");
        let sql =
            "select cluster_id, cluster, phase, running, placed, awake, cost_usd, failed_by from punctual.clusters";
        assert_eq!(select(&snapshot, sql), clusters(view), "seed {seed}");
        let sql = "select class, waiting, running, finished, failed, cancelled, refused, lost, violation_rate
                   from punctual.classes";
        assert_eq!(select(&snapshot, sql), classes(view), "seed {seed}");
        let sql = "select query_id, cluster_id, why, waited_s, json_array_length(candidates) from punctual.decisions";
        assert_eq!(select(&snapshot, sql), decisions(view), "seed {seed}");
        view.clusters.iter().for_each(|cluster| seen[cluster.phase as usize] = true);
    }
    assert!(Phase::ALL.iter().filter(|phase| seen[**phase as usize]).count() >= 4, "too little happens: {seen:?}");
}

#[test]
fn what_the_metrics_show_is_what_the_snapshot_holds() {
    for seed in 0..40 {
        let snapshot = snapshot(seed);
        let view = &snapshot.view;
        let text = Metrics::new().text(Some(&snapshot));
        let mut expected = vec![
            "punctual_up 1".to_owned(),
            "punctual_sessions 7".to_owned(),
            "punctual_broken_invariants_total 2".to_owned(),
            "punctual_degraded 1".to_owned(),
            format!("punctual_queries_waiting {}", view.waiting),
            format!("punctual_senseless_events_total {}", view.senseless),
        ];
        for class in &view.classes {
            expected.push(format!("punctual_class_waiting{{class=\"{}\"}} {}", class.name, class.waiting));
            expected.push(format!("punctual_class_running{{class=\"{}\"}} {}", class.name, class.running));
        }
        for cluster in view.clusters.iter().filter(|cluster| cluster.phase != Phase::Gone) {
            let labels = format!("cluster=\"{}\",cluster_id=\"{}\"", cluster.name, cluster.id);
            expected.push(format!("punctual_cluster_running{{{labels}}} {}", cluster.running));
            expected.push(format!("punctual_cluster_phase{{{labels},phase=\"{}\"}} 1", cluster.phase.name()));
        }
        for line in expected {
            assert!(text.lines().any(|found| found == line), "seed {seed}: {line} is missing in\n{text}");
        }
    }
}
