//! A gateway with a model says what it expects, writes it down, and replays to the same; without a sound one it serves
//! all the same.

mod common;
mod served;

#[cfg(feature = "embedded")]
use std::path::Path;
use std::sync::Arc;

use common::postgres::Postgres;
use punctual::link::{Link, Report};
use punctual::metrics::Metrics;
use punctual::plans::{Asker, Plans, Wish};
use punctual::relay::Pool;
use punctual::settings::{Address, Door, Endpoint, Login};
use punctual_core::id::{ClusterId, Generation};
use punctual_core::predict::features::{FEATURES, PLAN};
use punctual_core::statement::Statement;
use punctual_core::time::Span;
use served::{SIMULATED, Served, journal_of, punctual, with_model};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

async fn ten_queries(served: &Served) {
    let client = served.client("dashboards").await;
    for number in 0..10 {
        client.simple_query(&format!("SELECT {number} FROM t /* punctual: work=0.02s */")).await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_expected_is_shown_recorded_and_replayed() {
    let dir = with_model(2.0);
    let served = Served::start_in(dir, SIMULATED);
    served.wait_ready();
    ten_queries(&served).await;

    let client = served.client("psql").await;
    let shown = client
        .query_one("SELECT queries, bias, predicted_p50_s FROM punctual.model, punctual.decisions LIMIT 1", &[])
        .await;
    let row = shown.expect("the model is shown");
    assert_eq!(row.get::<_, i64>(0), 10);
    assert!(row.get::<_, f64>(1) < 0.5 && row.get::<_, f64>(2) > 0.1);
    let metrics = served.get("/metrics").1;
    assert!(metrics.contains("punctual_model 1") && metrics.contains("punctual_prediction_bias 0.0"), "{metrics}");

    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let rows = punctual::history::read(&dir.path().join("state/history")).expect("history");
    let rows: Vec<_> = rows.collect::<Result<_, _>>().expect("rows");
    assert_eq!(rows.len(), 10);
    for row in &rows {
        let predicted = [row.isolated, row.predicted_p50, row.predicted_p90].map(|span| span.expect("a span").micros());
        assert!(predicted[0] == 2_000_000 && predicted[1] < predicted[2], "{predicted:?}");
        assert!(row.features.as_ref().is_some_and(|features| features.iter().any(|value| *value > 0.0)));
    }
    // What ends much sooner than expected brings the next predictions down.
    assert!(rows[9].predicted_p50 < rows[0].predicted_p50);

    let replay = punctual().args(["replay", "--format", "json"]).arg(journal_of(dir.path())).output().expect("it runs");
    let replay: serde_json::Value = serde_json::from_slice(&replay.stdout).expect("JSON");
    assert_eq!(replay["agrees"], true, "{replay}");
    let id = rows[0].query_id.expect("an id").0.to_string();
    let explain =
        punctual().args(["explain", &id]).arg("--journal").arg(journal_of(dir.path())).output().expect("it runs");
    let explain = String::from_utf8_lossy(&explain.stdout).into_owned();
    assert!(explain.contains("expected to take") && explain.contains("2s alone"), "{explain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_model_is_said_and_queries_run() {
    let dir = with_model(2.0);
    let path = dir.path().join("state/punctual.model");
    let mut bytes = std::fs::read(&path).expect("a model");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("a damaged model");
    let served = Served::start_in(dir, SIMULATED);
    served.wait_ready();
    ten_queries(&served).await;
    assert!(served.get("/metrics").1.contains("punctual_model 0"));
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("checksum is wrong"), "{log}");
}

/// Runs a query, waits until its plan is had, and runs another of its shape; which of them came with a plan.
async fn with_a_plan(configuration: &str, from: &str) -> Vec<bool> {
    let dir = with_model(2.0);
    let served = Served::start_in(dir, configuration);
    served.wait_ready();
    let client = served.client("dashboards").await;
    let run = async |number: u32| {
        client.simple_query(&format!("SELECT count(*) FROM {from} > {number}")).await.expect("an answer");
    };
    run(1).await;
    while !served.get("/metrics").1.contains("punctual_plans_total{outcome=\"had\"} 1") {
        assert!(!served.get("/metrics").1.contains("punctual_plans_total{outcome=\"failed\"}"));
        tokio::task::yield_now().await;
    }
    run(2).await;
    run(3).await;
    let metrics = served.get("/metrics").1;
    assert!(metrics.contains("punctual_plans_total{outcome=\"had\"} 1"), "one EXPLAIN for a shape: {metrics}");
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let rows = punctual::history::read(&dir.path().join("state/history")).expect("history");
    rows.map(|row| row.expect("a row").features.expect("features")[FEATURES - PLAN] == 1.0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_shape_is_asked_for_once_and_predicted_from() {
    let Address::Unix(socket) = Postgres::shared().endpoint().address else { panic!("it listens on a socket") };
    let cluster = format!(
        "[[cluster]]\nname = \"pg\"\nkind = \"postgres\"\naddress = \"unix:{}\"\ndatabase = \"postgres\"\n",
        socket.display()
    );
    assert_eq!(with_a_plan(&cluster, "pg_class WHERE relpages").await, [false, true, true]);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(feature = "embedded")]
async fn an_embedded_cluster_tells_its_plans_too() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tables = punctual_engine::tpch::ensure(made, 0.01, &mut |_| {}).expect("TPC-H is generated");
    let cluster = format!("[[cluster]]\nname = \"a\"\nkind = \"embedded\"\ntables = [{tables:?}]\n");
    assert_eq!(with_a_plan(&cluster, "nation WHERE n_regionkey").await, [false, true, true]);
}

/// A cluster that lets anyone in and then says nothing; `cancels` hears of requests to cancel.
async fn mute(listener: TcpListener, cancels: tokio::sync::mpsc::Sender<Vec<u8>>) {
    let mut open = Vec::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        let length = stream.read_u32().await.expect("a length") as usize;
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).await.expect("a start-up message");
        if length == 16 {
            let _ = cancels.send(body[8..].to_vec()).await;
            continue;
        }
        let welcome = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I";
        stream.write_all(welcome).await.expect("it listens");
        open.push(stream);
    }
}

#[tokio::test]
async fn an_explain_that_takes_too_long_is_cancelled_and_not_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let (heard, mut cancels) = tokio::sync::mpsc::channel(1);
    tokio::spawn(mute(listener, heard));
    let address = Address::Tcp { host: "127.0.0.1".into(), port };
    let endpoint = Endpoint { address, login: Login::default() };
    let pool = Arc::new(Pool::new(ClusterId(0), Generation(1), "mute".into(), endpoint, (Door::default(), 4)));
    let (link, mut reports) = Link::new();
    tokio::spawn(async move {
        while let Some(report) = reports.recv().await {
            let Report::AnyCluster { wait: false, answer } = report else { panic!("{report:?}") };
            let _ = answer.send(Ok(Arc::clone(&pool)));
        }
    });
    let (plans, wished) = Plans::new();
    let (every, within) = (Span::from_millis(1), Span::from_millis(20));
    let asker = Asker { plans: Arc::clone(&plans), wished, every, within };
    tokio::spawn(asker.run(link, Arc::new(Metrics::new())));
    let ask = |text: &str| {
        let statement = Statement::read(text);
        let fingerprint = statement.fingerprint;
        plans.of(&statement, || Wish { fingerprint, text: text.into(), user: "ann".into(), database: "d".into() })
    };
    assert_eq!(ask("select a from t where b = 1"), None);
    assert_eq!(cancels.recv().await.as_deref(), Some(&b"keys"[..]));
    assert_eq!(ask("select a from t where b = 2"), None);
    assert_eq!(ask("select a from u"), None);
    // The next to be cancelled is the other shape's: nothing else was asked in between.
    assert_eq!(cancels.recv().await.as_deref(), Some(&b"keys"[..]));
    assert!(cancels.try_recv().is_err());
}
