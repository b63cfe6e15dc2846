//! A gateway with a model says what it expects, writes it down, and replays to the same; without a sound one it serves
//! all the same.

mod served;

use std::path::Path;

use punctual::model::file::{self, Facts};
use punctual_core::predict::model::{Model, Parts};
use punctual_core::predict::net::{Layout, Shape};
use punctual_core::predict::stage::Stage;
use served::{SIMULATED, Served, journal_of, punctual};

/// A model that expects every query to take two seconds alone on one unit, and writes that to a file.
fn write_model(path: &Path) {
    let shape = Shape { known: 0, hidden: 16 };
    let mut stage = Stage { spreads: [0.5; 4], ..Stage::default() };
    stage.trees.start = 2f64.ln();
    let weights = vec![0.0; Layout::of(shape).total()];
    let parts = Parts { stage, known: Vec::new(), hidden: 16, weights, spread_scales: [1.0; 2] };
    let facts = Facts {
        build: "test".into(),
        queries: 9,
        isolated: 3,
        newest: 1,
        kind: "stage".into(),
        epochs: 1,
        seed: 0,
        split: "none".into(),
    };
    file::write(path, &Model::new(parts).expect("sound parts"), &facts).expect("a model is written");
}

async fn ten_queries(served: &Served) {
    let client = served.client("dashboards").await;
    for number in 0..10 {
        client.simple_query(&format!("SELECT {number} FROM t /* punctual: work=0.02s */")).await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_expected_is_shown_recorded_and_replayed() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join("state")).expect("a directory");
    write_model(&dir.path().join("state/punctual.model"));
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
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join("state")).expect("a directory");
    let path = dir.path().join("state/punctual.model");
    write_model(&path);
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
