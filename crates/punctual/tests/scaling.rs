//! Clusters come when queries are late and go when nothing is left to do: the gateway as its users have it.

mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use served::{Served, journal_of, punctual, with_model};
use tempfile::TempDir;

/// One cluster of four slots, and another like it if need be. A query takes a fifth of a second alone, so that the tenth of
/// those that come at once is late.
const FLEET: &str = r#"
[[class]]
name = "default"
slo = "600ms"

[[cluster]]
name = "fleet"
kind = "simulated"
slots = 4
time_scale = 60
start_takes = "30s"
keep = "scaled"
initial = 1

[scaling]
mode = "on"
window = "10s"
observations = 8
completions = 8
idle = "1s"
lifetime = "1s"
start_takes = "1s"
most = 2
"#;

/// Many sessions at once.
const SESSIONS: usize = 16;

fn ready(served: &Served) -> usize {
    served.get("/v1/clusters").1.matches("\"phase\":\"ready\"").count()
}

/// Eight clusters at most that take one query at a time each; one is there.
const LIKE: &str = r#"
[policy]
routing = "tabs"

[[cluster]]
name = "small"
kind = "simulated"
slots = 1
time_scale = 60
start_takes = "12s"
keep = "scaled"
initial = 1

[scaling]
mode = "on"
standby = "1s"
most = 8
"#;

/// Sessions ask one query after the other until so many clusters are ready.
async fn burst_until_it_has_grown(served: &Served, to: usize) {
    let grown = Arc::new(AtomicBool::new(false));
    let mut asking = Vec::new();
    for _ in 0..SESSIONS {
        let (client, grown) = (served.client("burst").await, Arc::clone(&grown));
        asking.push(tokio::spawn(async move {
            while !grown.load(Ordering::Relaxed) {
                client.simple_query("SELECT count(*) FROM t /* punctual: work=12s */").await.expect("an answer");
            }
        }));
    }
    while ready(served) < to {
        tokio::task::yield_now().await;
    }
    grown.store(true, Ordering::Relaxed);
    for asked in asking {
        asked.await.expect("no panic");
    }
}

/// What was decided about the fleet, and why.
async fn decided(served: &Served) -> Vec<String> {
    let client = served.client("psql").await;
    let rows = client.query("SELECT decision, reason FROM punctual.scaling", &[]).await.expect("rows");
    rows.iter().map(|row| format!("{}: {}", row.get::<_, &str>(0), row.get::<_, &str>(1))).collect()
}

fn replays(dir: &TempDir) {
    let replay = punctual().args(["replay", "--format", "json"]).arg(journal_of(dir.path())).output().expect("it runs");
    let replay: serde_json::Value = serde_json::from_slice(&replay.stdout).expect("JSON");
    assert_eq!(replay["agrees"], true, "{replay}");
}

/// A burst, and the calm after it: what was decided meanwhile.
async fn grows_and_shrinks(dir: TempDir) -> Vec<String> {
    let served = Served::start_in(dir, FLEET);
    served.wait_ready();
    assert_eq!(decided(&served).await, [""; 0]);
    burst_until_it_has_grown(&served, 2).await;
    while ready(&served) > 1 {
        tokio::task::yield_now().await;
    }
    let decided = decided(&served).await;
    assert_eq!(served.get("/readyz").0, 200);
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    replays(&dir);
    decided
}

/// One start, and at the end a stop for want of work.
fn grew_once_and_shrank(texts: &[String]) {
    assert_eq!(texts.iter().filter(|text| text.starts_with("start cluster")).count(), 1, "{texts:?}");
    let last = texts.last().expect("something was decided");
    assert!(last.starts_with("stop cluster") && last.contains("nothing has run there for"), "{texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_starts_a_cluster_at_the_first_trigger_and_the_calm_stops_one() {
    let texts = grows_and_shrinks(tempfile::tempdir().expect("a directory")).await;
    assert!(
        texts[0].starts_with("start cluster") && texts[0].ends_with("queries are late or expected to be"),
        "{texts:?}"
    );
    grew_once_and_shrank(&texts);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_model_it_is_studied_first_what_a_start_would_bring() {
    let texts = grows_and_shrinks(with_model(0.2)).await;
    assert!(texts[0].starts_with("study"), "{texts:?}");
    // A study may find that what has come so far will be over before a start is.
    assert!(texts.iter().any(|text| text.ends_with("of what could be done it keeps SLOs best")), "{texts:?}");
    grew_once_and_shrank(&texts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_like_clusters_follows_its_load_by_tokens() {
    let served = Served::start_in(tempfile::tempdir().expect("a directory"), LIKE);
    served.wait_ready();
    burst_until_it_has_grown(&served, 5).await;
    while ready(&served) > 1 {
        tokio::task::yield_now().await;
    }
    let texts = decided(&served).await;
    let count =
        |begin: &str, end: &str| texts.iter().filter(|text| text.starts_with(begin) && text.contains(end)).count();
    let started = count("start cluster", "a query came and no cluster was idle");
    assert!(started >= 4, "{texts:?}");
    assert_eq!(started, count("stop cluster", "nothing has run there for"), "{texts:?}");
    assert_eq!(started * 2, texts.len(), "{texts:?}");
    let client = served.client("psql").await;
    let row = client.query_one("SELECT policy, acts FROM punctual.controllers WHERE controller = 'scaling'", &[]).await;
    let row = row.expect("one row");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("tabs", "tabs"));
    drop(client);
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    replays(&dir);
}
