//! Lanes by how much of time a query reads: what is in which lane, live and sent again.

mod common;
mod served;

use std::future::poll_fn;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::postgres::Postgres;
use punctual::history::{self, Row};
use punctual::settings::Address;
use punctual_core::time::Span;
use served::{Served, punctual};
use tokio::sync::mpsc;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

const DAY: Duration = Duration::from_secs(86_400);

/// Of four slots one is for what reaches back for more than a week.
const RULES: &str = r#"
[lanes]
strategy = "hilo"
max_low_percent = 25

[[table]]
name = "laned"
time_column = "ts"
segment = "1d"
to = "now"

[[class]]
name = "default"
period_threshold = "7d"
"#;

/// A connection, and the notices that come over it.
async fn listening(config: &tokio_postgres::Config) -> (Client, mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = config.connect(NoTls).await.expect("a connection");
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notice(notice) = message {
                let _ = tell.send(notice.message().to_owned());
            }
        }
    });
    (client, heard)
}

/// State, lane, priority and what it waits for of that application's query, once it is there in that state.
async fn seen(watcher: &Client, application: &str, state: &str) -> (String, i64, Option<String>) {
    let sql = format!(
        "SELECT lane, priority, waits_for FROM punctual.queries WHERE application = '{application}' AND status = '{state}'"
    );
    loop {
        if let Some(row) = watcher.query(&sql, &[]).await.expect("the gateway answers").first() {
            return (row.get(0), row.get(1), row.get(2));
        }
        tokio::task::yield_now().await;
    }
}

/// Prepares a count of what is between two parameters, whose types the client names or is told of.
async fn prepared(client: &Client, types: &[Type]) -> Statement {
    let sql = "SELECT count(*) FROM laned WHERE ts >= $1 AND ts < $2";
    client.prepare_typed(sql, types).await.expect("it is prepared")
}

fn row<'a>(rows: &'a [Row], application: &str) -> &'a Row {
    rows.iter().rfind(|row| row.application.as_deref() == Some(application)).expect("it is written down")
}

/// How often each lane has been of a query that is sent again.
fn sent_again(dir: &Path) -> serde_json::Value {
    let mut command = punctual();
    command.args(["simulate", "--trace", "state/history", "-c", "punctual.toml", "--seeds", "1", "--format", "json"]);
    let output = command.current_dir(dir).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let queries = |lane: &str| found["policies"][0]["lanes"][lane]["queries"].clone();
    serde_json::json!({ "low": queries("low"), "default": queries("default") })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reaches_far_back_is_in_the_low_lane_by_parameters_too() {
    let Address::Unix(socket) = Postgres::shared().endpoint().address else { panic!("it listens on a socket") };
    let mut direct = tokio_postgres::Config::new();
    direct.host_path(socket.parent().expect("a directory")).user("ann").dbname("postgres");
    let (direct, connection) = direct.connect(NoTls).await.expect("Postgres is there");
    tokio::spawn(connection);
    direct.batch_execute("CREATE TABLE laned (ts timestamptz, n int)").await.expect("a table");
    let cluster = format!(
        "[[cluster]]\nname = \"pg\"\nkind = \"postgres\"\naddress = \"unix:{}\"\ndatabase = \"postgres\"\nslots = 4\n",
        socket.display()
    );
    let served = Served::start(&format!("{RULES}{cluster}"));
    served.wait_ready_all(1);
    let watcher = served.client("watcher").await;
    let (far, near) = (served.client("far").await, served.client("near").await);
    let (far_bound, mut told) = listening(served.config("far bound").options("-c punctual.explain=on")).await;
    let near_bound = served.client("near bound").await;
    let far_statement = prepared(&far_bound, &[Type::TIMESTAMPTZ, Type::TIMESTAMPTZ]).await;
    let near_statement = prepared(&near_bound, &[]).await;

    // Nothing ends until this lock is given back.
    direct.batch_execute("BEGIN; LOCK TABLE laned IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let sql = |since: &str| format!("SELECT count(*) FROM laned WHERE ts >= {since} /* one */");
    let (far_sql, near_sql) = (sql("'2020-01-01'"), sql("now() - interval '1 day'"));
    let first = tokio::spawn(async move { far.simple_query(&far_sql).await.map(drop) });
    assert_eq!(seen(&watcher, "far", "running").await, ("low".into(), -5, None));
    let now = SystemTime::now();
    let second = tokio::spawn(async move {
        let between: [&(dyn ToSql + Sync); 2] = [&(now - 30 * DAY), &(now - 29 * DAY)];
        far_bound.query(&far_statement, &between).await.map(drop)
    });
    assert_eq!(seen(&watcher, "far bound", "waiting").await, ("low".into(), -5, Some("lane".into())));
    let waits = told.recv().await.expect("a notice");
    assert!(waits.ends_with(" waits: as many of its lane run as may"), "{waits}");
    // Those that read a day go past it.
    let third = tokio::spawn(async move { near.simple_query(&near_sql).await.map(drop) });
    let fourth = tokio::spawn(async move {
        let between: [&(dyn ToSql + Sync); 2] = [&(now - 2 * DAY), &(now - DAY)];
        near_bound.query(&near_statement, &between).await.map(drop)
    });
    for application in ["near", "near bound"] {
        assert_eq!(seen(&watcher, application, "running").await, ("default".into(), 0, None));
    }
    direct.batch_execute("COMMIT").await.expect("the lock is given back");
    for query in [first, second, third, fourth] {
        query.await.expect("no panic").expect("an answer");
    }
    let runs = told.recv().await.expect("a notice");
    assert!(runs.contains(" runs on cluster pg"), "{runs}");
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");

    let rows: Vec<Row> =
        history::read(&dir.path().join("state/history")).expect("a history").map(|row| row.expect("a row")).collect();
    let admitted = |application: &str| {
        let Row { lane, priority, scan, .. } = row(&rows, application);
        let scan = scan.expect("it reads a table with a column of time");
        ((lane.as_deref().expect("a lane"), priority.expect("a priority")), scan.duration, scan.segments)
    };
    let day = Some(Span::from_secs(86_400));
    assert_eq!(admitted("far").0, ("low", -5));
    let (found, duration, segments) = admitted("far bound");
    assert_eq!((found, duration, segments), (("low", -5), day, Some(2)));
    let (found, duration, segments) = admitted("near bound");
    assert_eq!((found, duration, segments), (("default", 0), day, Some(2)));
    let near = row(&rows, "near").scan.expect("a scan");
    assert_eq!((near.reach, row(&rows, "near").lane.as_deref()), (day, Some("default")));
    // The same, in a rehearsal.
    assert_eq!(sent_again(dir.path()), serde_json::json!({ "low": 2.0, "default": 2.0 }));
}
