//! Many queries at one instant: each is answered or refused, and each is written down once.

mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::history;
use served::{SIMULATED, Served};
use tokio::sync::Barrier;

const CROWD: usize = 1_000;

/// Half of them may wait.
const FEW: &str = "max_sessions = 1100\n[policy]\nmax_waiting = 500\n";

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_queries_at_one_instant_none_is_lost() {
    let served = Served::start(&format!("{FEW}{SIMULATED}"));
    served.wait_ready_all(2);
    let mut clients = Vec::new();
    for _ in 0..CROWD {
        clients.push(served.client("crowd").await);
    }
    let (together, refused) = (Arc::new(Barrier::new(CROWD)), Arc::new(AtomicUsize::new(0)));
    let asked: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (together, refused) = (Arc::clone(&together), Arc::clone(&refused));
            tokio::spawn(async move {
                together.wait().await;
                if let Err(error) = client.simple_query("SELECT count(*) FROM t /* punctual: work=5ms */").await {
                    assert_eq!(error.code().map(|code| code.code()), Some("53300"), "{error}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for one in asked {
        one.await.expect("no panic");
    }
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let rows: Vec<_> =
        history::read(&dir.path().join("state/history")).expect("a history").map(|row| row.expect("a row")).collect();
    let of = |status| rows.iter().filter(|row| row.status == Some(status)).count();
    let refused = refused.load(Ordering::Relaxed);
    assert_eq!(of(punctual_core::query::Status::Refused), refused);
    assert_eq!(of(punctual_core::query::Status::Finished), CROWD - refused);
    assert_eq!(rows.len(), CROWD);
}
