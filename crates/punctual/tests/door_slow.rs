//! Clients that do not take their rows: what they do to the latency of their query, and to what is cancelled.

mod common;

use std::time::Instant;

use common::raw::{Raw, query, start_up};
use common::{Gateway, Wanted};
use punctual::settings::Door;
use punctual_core::query::Status;
use punctual_core::time::Span;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_postgres::Client;

/// More than all buffers on the way hold.
const LARGE: &str = "select repeat('x', 100000) from generate_series(1, 1000) /* large */";

/// Waits until a cluster's process for [`LARGE`] is as the condition says.
async fn until_some(client: &Client, condition: &str, many: i64) {
    let sql = format!(
        "select count(*) from pg_stat_activity where query like '%/* large */' and pid <> pg_backend_pid() and {condition}"
    );
    while client.query_one(&sql, &[]).await.expect("an answer").get::<_, i64>(0) != many {
        tokio::task::yield_now().await;
    }
}

/// A session, and what it takes to cancel its query.
async fn with_key(gateway: &Gateway) -> (Raw, Vec<u8>) {
    let mut raw = Raw::connect(gateway.address).await;
    raw.send(&start_up(0, &[("user", "ann"), ("database", "postgres")])).await;
    let mut key = Vec::new();
    loop {
        match raw.frame().await.expect("a welcome") {
            (b'K', body) => key = body,
            (b'Z', _) => return (raw, key),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_time_for_which_a_client_takes_no_rows_is_no_latency() {
    let mut gateway = Gateway::usual().await;
    let observer = gateway.connect().await;
    let mut slow = Raw::session(gateway.address).await;
    slow.send(&query(LARGE)).await;
    until_some(&observer, "wait_event = 'ClientWrite'", 1).await;
    let stalled = Instant::now();
    for _ in 0..50 {
        until_some(&observer, "wait_event = 'ClientWrite'", 1).await;
    }
    let stalled = stalled.elapsed();
    assert_eq!(slow.until_ready().await.matches("D(").count(), 1_000);
    let ended = loop {
        let ended = gateway.ended().await;
        if ended.rows == 1_000 {
            break ended;
        }
    };
    assert!(u128::from(ended.blocked.micros()) >= stalled.as_micros(), "{} of {stalled:?}", ended.blocked);
    assert_eq!(ended.latency() + ended.blocked, ended.ended.since(ended.arrived));
}

#[tokio::test]
async fn one_who_cancels_and_takes_no_rows_does_not_hold_a_slot_for_that() {
    let mut gateway = Gateway::usual().await;
    let observer = gateway.connect().await;
    let (mut slow, key) = with_key(&gateway).await;
    slow.send(&query(LARGE)).await;
    until_some(&observer, "wait_event = 'ClientWrite'", 1).await;
    let mut cancel = TcpStream::connect(gateway.address).await.expect("the gateway listens");
    cancel.write_all(&[&[0, 0, 0, 16, 4, 210, 22, 46], &key[..]].concat()).await.expect("it takes the request");
    // Postgres cannot stop while what it writes is not read. The gateway hangs up, and the process ends.
    until_some(&observer, "state = 'active'", 0).await;
    let ended = loop {
        let ended = gateway.ended().await;
        if ended.status == Status::Cancelled {
            break ended;
        }
    };
    assert_eq!(ended.sqlstate.map(|code| code.0), Some(*b"57014"));
    let answer = slow.until_ready().await;
    assert!(answer.ends_with(" E(57014) ZI"), "{}", &answer[answer.len() - 100..]);
    assert!(answer.matches("D(").count() < 1_000);
    slow.send(&query("select 7")).await;
    assert_eq!(slow.until_ready().await, "T D(7) C(SELECT 1) ZI");
}

#[tokio::test]
async fn one_who_takes_no_rows_for_too_long_is_let_go_and_its_query_stopped() {
    let door = Door { client_stall_timeout: Span::from_millis(50), ..Door::default() };
    let mut gateway = Gateway::start(Wanted { door, ..Wanted::default() }).await;
    let observer = gateway.connect().await;
    let mut slow = Raw::session(gateway.address).await;
    slow.send(&query(LARGE)).await;
    // It may be over before anybody has seen it stall.
    let ended = loop {
        let ended = gateway.ended().await;
        if ended.status == Status::Cancelled {
            break ended;
        }
    };
    assert_eq!(ended.query.kind, punctual_core::statement::Kind::Select);
    until_some(&observer, "state = 'active'", 0).await;
    gateway.wait_until(|view| view.clusters[0].running == 0).await;
}
