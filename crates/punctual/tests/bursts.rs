//! A burst, live and simulated: the same arrivals, the same policy, the same scaling actions.
//!
//! ```text
//!   batches of eight every half a minute            one query at a time
//!   ├────────────────────────────────────────┤·····├─────────────────────▶
//!      ▲ start a cluster of eight units                  ▲ stop one for want of work
//! ```
//!
//! Clusters are simulated with sixty seconds in one, so all times here are simulated ones unless they say otherwise. What
//! arrived when is read from the history that the gateway wrote, and simulated again under the same configuration. Real
//! time adds to a live run: processes that start, sockets, a busy machine. [`START_WITHIN`] and [`STOP_WITHIN`] say how far
//! that may move what is done; that it is the same that is done, they do not touch.

mod served;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual::history::{self, Row};
use punctual_core::time::{Span, Time};
use serde_json::Value;
use served::{Served, punctual, with_model_of};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_postgres::Client;

/// Simulated seconds in a real one.
const SCALE: f64 = 60.0;

/// A small cluster that is there, and a large one that may come. The gateway lives in real time: its second is a minute.
const FLEET: &str = r#"
[policy]
routing = "slo"

[[class]]
name = "default"
slo = "2500ms"

[[cluster]]
name = "small"
kind = "simulated"
size = 2
time_scale = 60
start_takes = "30s"
minimum_billed = "1s"
keep = "scaled"
initial = 1

[[cluster]]
name = "large"
kind = "simulated"
size = 8
time_scale = 60
start_takes = "30s"
minimum_billed = "1s"
keep = "scaled"

[scaling]
mode = "on"
window = "5s"
observations = 16
completions = 32
idle = "2s"
lifetime = "2s"
start_takes = "500ms"
most = 2
"#;

/// What a query does: twelve seconds alone on two units.
const WORK: f64 = 24.0;
const TEXT: &str = "SELECT count(*) FROM t /* punctual: work=24s */";

/// Of the burst: batches, queries in each, and seconds from one to the next.
const BATCHES: u32 = 20;
const BATCH: usize = 8;
const GAP: f64 = 30.0;

/// After it: seconds from one query to the next.
const CALM: f64 = 60.0;

/// The window of the trigger, in seconds.
const WINDOW: f64 = 300.0;

/// The target of the configuration, which does not say it.
const TARGET: f64 = 0.05;

/// Live and simulated starts lie no further apart than two batches: triggers are looked at when queries come.
const START_WITHIN: f64 = 2.0 * GAP;

/// Stops lie no further apart than three of the queries that come in the calm: which cluster each of those keeps awake hangs
/// on what was learnt from the ones before, and that varies with real time.
const STOP_WITHIN: f64 = 3.0 * CALM;

/// So long in real time.
fn real(simulated: f64) -> Duration {
    Duration::from_secs_f64(simulated / SCALE)
}

/// Connections that nobody uses at the moment.
#[derive(Clone, Default)]
struct Idle(Arc<Mutex<Vec<Client>>>);

/// Sends a query on a connection of its own.
async fn ask(idle: &Idle, served: &Served, asked: &mut JoinSet<()>) {
    let unused = idle.0.lock().await.pop();
    let client = match unused {
        Some(client) => client,
        None => served.client("burst").await,
    };
    let idle = idle.clone();
    asked.spawn(async move {
        client.simple_query(TEXT).await.expect("an answer");
        idle.0.lock().await.push(client);
    });
}

fn ready(served: &Served) -> usize {
    served.get("/v1/clusters").1.matches("\"phase\":\"ready\"").count()
}

/// The burst, then one query after the other until one cluster is left, and a few more: a simulation of these arrivals is
/// over with the last of them, and may come to the stop later.
async fn burst_and_calm(served: &Served) {
    let (idle, mut asked) = (Idle::default(), JoinSet::new());
    let mut batches = tokio::time::interval(real(GAP));
    for _ in 0..BATCHES {
        batches.tick().await;
        for _ in 0..BATCH {
            ask(&idle, served, &mut asked).await;
        }
    }
    let mut calm = tokio::time::interval(real(CALM));
    while ready(served) > 1 {
        calm.tick().await;
        ask(&idle, served, &mut asked).await;
    }
    for _ in 0..=(STOP_WITHIN / CALM) as u32 {
        calm.tick().await;
        ask(&idle, served, &mut asked).await;
    }
    while let Some(answered) = asked.join_next().await {
        answered.expect("no panic");
    }
}

/// A start or a stop.
#[derive(Clone, Debug, PartialEq)]
struct Action {
    /// What was started. Which of two clusters is stopped is left open.
    what: String,
    /// When, in seconds.
    at: f64,
}

impl Action {
    /// None if it is a study or nothing.
    fn of(what: &str, at: f64) -> Option<Action> {
        let what = if what.starts_with("stop cluster") { "stop one" } else { what };
        (what.starts_with("start") || what.starts_with("stop")).then(|| Action { what: what.to_owned(), at })
    }
}

/// What the gateway has done, by the clock of the world.
async fn done(served: &Served) -> Vec<Action> {
    let client = served.client("psql").await;
    let rows = client.query("SELECT at, decision FROM punctual.scaling", &[]).await.expect("rows");
    let since = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    rows.iter().filter_map(|row| Action::of(row.get(1), since(row.get(0)))).collect()
}

/// What a simulation of these arrivals with the same configuration does, and the share of late queries.
fn simulated(dir: &Path) -> (Vec<Action>, f64) {
    let mut command = punctual();
    command.current_dir(dir).args(["simulate", "--trace", "state/history", "--config", "punctual.toml"]);
    command.args(["--model", "state/punctual.model", "--seeds", "1", "--format", "json"]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let policy = &found["policies"][0];
    let number = |value: &Value| value.as_f64().expect("a number");
    let action = |one: &Value| Action::of(one["act"].as_str().expect("text"), number(&one["at_s"]) * SCALE);
    let actions = policy["scaling"].as_array().expect("decisions").iter().filter_map(action).collect();
    (actions, number(&policy["violation_rate"]["mean"]))
}

fn rows(dir: &Path) -> Vec<Row> {
    let mut rows: Vec<Row> =
        history::read(&dir.join("state/history")).expect("a history").map(|row| row.expect("a row")).collect();
    rows.sort_by_key(|row| row.arrival);
    rows
}

/// The share of late ones.
fn late<'a>(rows: impl IntoIterator<Item = &'a Row>) -> f64 {
    let slo = Span::from_millis(2_500);
    let late: Vec<bool> = rows.into_iter().map(|row| row.ended.since(row.arrival) > slo).collect();
    assert!(late.len() >= 4 * BATCH, "{} queries say little", late.len());
    late.iter().filter(|late| **late).count() as f64 / late.len() as f64
}

/// Those that came when what had come before the larger cluster was there had been worked off.
fn afterwards(rows: &[Row]) -> impl Iterator<Item = &Row> {
    let on_large = rows.iter().filter(|row| row.cluster.as_deref() == Some("large-1"));
    let there = on_large.filter_map(|row| row.started).min().expect("the larger one is used");
    let before = rows.iter().filter(|row| row.arrival < there);
    let worked_off = before.map(|row| row.ended).max().expect("the burst came before");
    rows.iter().filter(move |row| row.arrival >= worked_off)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_met_live_as_in_a_simulation_of_it() {
    let served = Served::start_in(with_model_of(WORK / SCALE, 0.05), FLEET);
    served.wait_ready();
    burst_and_calm(&served).await;
    let live = done(&served).await;
    assert_eq!(ready(&served), 1, "the least is left");
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");

    let rows = rows(dir.path());
    let first = rows[0].arrival.since(Time::ZERO).secs_f64();
    let live: Vec<Action> = live.into_iter().map(|of| Action { at: (of.at - first) * SCALE, ..of }).collect();
    let what = |actions: &[Action]| actions.iter().map(|of| of.what.clone()).collect::<Vec<_>>();
    assert_eq!(what(&live), ["start cluster 1 of size 8", "stop one"]);
    assert!(live[0].at <= WINDOW, "within one window of the trigger: {live:?}");
    let (all, after) = (late(&rows), late(afterwards(&rows)));
    assert!(all > TARGET && after <= TARGET, "{all} of all, {after} afterwards");

    let (simulated, late) = simulated(dir.path());
    assert_eq!(what(&simulated), what(&live), "{simulated:?} {live:?}");
    let apart = |at: usize| (live[at].at - simulated[at].at).abs();
    assert!(apart(0) <= START_WITHIN && apart(1) <= STOP_WITHIN, "{live:?} {simulated:?}");
    // A process takes its time to start, on a busy machine the more of it: some batches more are late.
    assert!((late - all).abs() <= 5.0 * BATCH as f64 / rows.len() as f64, "live {all}, simulated {late}");
}
