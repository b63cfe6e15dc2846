//! However sessions cancel, hang up and fail: a client sees its own rows and nobody else's, and no slot is leaked.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::raw::*;
use common::{Gateway, Wanted, code};
use punctual::settings::Door;
use tokio_postgres::NoTls;

/// Sessions at once, far more than slots.
const SESSIONS: u32 = 32;
/// Queries of each.
const ROUNDS: u32 = 40;

/// A small generator, so that a run can be repeated: splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_its_own_clients() {
    let door = Door { max_idle_connections: Some(3), ..Door::default() };
    let gateway = Arc::new(Gateway::start(Wanted { door, clusters: 2, slots: 2, ..Wanted::default() }).await);
    let answered = Arc::new(AtomicU32::new(0));
    let sessions = (0..SESSIONS).map(|at| {
        let (gateway, answered) = (Arc::clone(&gateway), Arc::clone(&answered));
        tokio::spawn(async move {
            let mut dice = Dice(u64::from(at));
            while !session(&gateway, at, &mut dice, &answered).await {}
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.expect("no assertion failed");
    }
    assert!(answered.load(Ordering::Relaxed) >= SESSIONS);
    gateway.wait_until(|view| view.queries.is_empty() && view.clusters.iter().all(|c| c.running + c.pins == 0)).await;
}

/// One connection's life; true if it went through all its rounds, false if it hung up before.
async fn session(gateway: &Gateway, at: u32, dice: &mut Dice, answered: &AtomicU32) -> bool {
    let client = gateway.connect().await;
    let echo = client.prepare("select $1::text, g from generate_series(1, $2::int4) g").await.unwrap();
    for round in 0..ROUNDS {
        let marker = format!("{at}-{round}-{}", dice.roll(1 << 30));
        match dice.roll(8) {
            0 => {
                let cancel = client.cancel_token();
                let sql = format!("select '{marker}', pg_sleep(0.02)");
                let (result, _) = tokio::join!(client.simple_query(&sql), cancel.cancel_query(NoTls));
                if let Err(error) = result {
                    assert_eq!(code(&error), "57014", "{error:?}");
                }
            }
            1 => {
                let mut raw = Raw::session(gateway.address).await;
                let sql = format!("select '{marker}' from generate_series(1, 100000)");
                raw.send(&query(&sql)).await;
                if dice.roll(2) == 0 {
                    assert_eq!(raw.until(b'D').await, format!("T D({marker})"));
                }
            }
            2 => {
                let error = client.query(&format!("select '{marker}'::int4"), &[]).await.unwrap_err();
                assert!(error.as_db_error().is_some_and(|error| error.message().contains(&marker)), "{error:?}");
            }
            3 => {
                let sql = format!("begin; set local statement_timeout = 5; select '{marker}', pg_sleep(1)");
                assert_eq!(code(&client.simple_query(&sql).await.unwrap_err()), "57014");
                client.batch_execute("rollback").await.unwrap();
            }
            4 if round > ROUNDS / 2 => return dice.roll(2) == 0,
            _ => {
                let n = 1 + dice.roll(200) as i32;
                let rows = client.query(&echo, &[&marker, &n]).await.unwrap();
                assert_eq!(rows.len(), n as usize);
                assert!(rows.iter().all(|row| row.get::<_, &str>(0) == marker));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    true
}
