//! A live journal is decided again, and a kill costs no more than what was not written yet.

mod served;

use std::path::Path;

use serde_json::Value;
use served::{SIMULATED, Served, journal_of, punctual};
use tempfile::TempDir;

/// Sixteen sessions with queries that finish, wait, fail, run in transactions and are cancelled.
async fn busy(served: &Served) {
    let sessions = (0..16u32).map(|number| async move {
        let client = served.client(if number % 2 == 0 { "dashboards" } else { "etl" }).await;
        for round in 0..4 {
            let sql = format!("SELECT * FROM t{round} /* punctual: work=0.02s */");
            client.simple_query(&sql).await.expect("an answer");
        }
        client.simple_query("BEGIN").await.expect("a transaction");
        client.simple_query("SELECT * FROM t /* punctual: work=0.01s */").await.expect("an answer");
        client.simple_query("COMMIT").await.expect("its end");
        let cancel = client.cancel_token();
        let slow = client.simple_query("SELECT * FROM t /* punctual: work=1000s */");
        futures::pin_mut!(slow);
        // A cancel that comes before its query cancels nothing, so it is sent until it has worked.
        let cancelled = loop {
            tokio::select! {
                cancelled = &mut slow => break cancelled,
                sent = cancel.cancel_query(tokio_postgres::NoTls) => sent.expect("a cancel is sent"),
            }
        };
        let code = cancelled.expect_err("it was cancelled").code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("57014"));
    });
    futures::future::join_all(sessions).await;
}

fn replay(dir: &Path) -> Value {
    let output = punctual().args(["replay", "--format", "json"]).arg(journal_of(dir)).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).expect("JSON")
}

fn history_rows(dir: &TempDir) -> usize {
    let rows = punctual::history::read(&dir.path().join("state/history")).expect("history");
    rows.collect::<Result<Vec<_>, _>>().expect("rows").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_journal_replays_to_the_same_commands() {
    let served = Served::start(SIMULATED);
    served.wait_ready();
    busy(&served).await;
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let replay = replay(dir.path());
    let replayed = &replay["segments"][0]["verdict"]["replayed"];
    assert!(replayed["events"].as_u64() > Some(16 * 8 * 2), "{replay}");
    assert_eq!(replayed["events"], replayed["agreed"]);
    assert_eq!(replayed["torn_bytes"], 0);
    assert_eq!(history_rows(&dir), 16 * 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_the_journal_replays_and_the_next_start_goes_on() {
    let served = Served::start(SIMULATED);
    served.wait_ready();
    busy(&served).await;
    let (_, _, dir) = served.kill();
    replay(dir.path());
    let before = history_rows(&dir);
    let served = Served::start_in(dir, SIMULATED);
    served.wait_ready();
    busy(&served).await;
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    assert_eq!(replay(dir.path())["segments"].as_array().map(Vec::len), Some(2));
    assert_eq!(history_rows(&dir), before + 16 * 8);
}
