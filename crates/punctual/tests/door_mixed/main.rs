//! The worst day: many clients on few slots, who cancel, hang up, run into time limits, leave transactions and COPYs in the
//! middle, while clusters are killed and come again. Whoever gets rows gets its own, and nothing is left behind.
//!
//! A run takes some hundreds of rounds; `PUNCTUAL_MIXED_SECONDS=300` makes it go on for so long, `PUNCTUAL_MIXED_SEED` draws
//! other rounds than the usual.

#[path = "../common/mod.rs"]
mod common;
#[path = "../served/mod.rs"]
mod served;

mod acts;
mod dice;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use acts::Actor;
use common::mortal::Mortal;
use common::wire::Wire;
use dice::Dice;
use served::{Served, journal_of, punctual};
use trouble::Clusters;

const CLIENTS: u64 = 64;
/// Slots of each of the two clusters, and connections that may lie idle there.
const SLOTS: u32 = 4;
/// Rounds of all clients together in a usual run, and from one trouble to the next.
const ROUNDS: u64 = 900;
const BETWEEN: u64 = 200;

/// What came of it all.
#[derive(Default)]
pub(crate) struct Tally {
    rounds: AtomicU64,
    rows: AtomicU64,
    sessions: AtomicU64,
    troubles: AtomicU64,
    codes: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    pub(crate) fn rows(&self, more: usize) {
        self.rows.fetch_add(more as u64, Ordering::Relaxed);
    }

    pub(crate) fn told(&self, code: &str) {
        *self.codes.lock().expect("no panic").entry(code.to_owned()).or_default() += 1;
    }

    pub(crate) fn reconnected(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long it goes on.
#[derive(Clone, Copy)]
enum Lasts {
    Rounds(u64),
    Until(Instant),
}

fn wanted(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a whole number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_its_own_clients_and_nothing_is_left_behind() {
    let clusters = [Arc::new(Mortal::start("a")), Arc::new(Mortal::start("b"))];
    for cluster in &clusters {
        cluster.client().await.batch_execute("create table gate (n int4)").await.expect("a table");
    }
    let tables: String = clusters.iter().zip(["a", "b"]).map(|(cluster, name)| cluster.cluster(name, SLOTS)).collect();
    let served = Arc::new(serve(&tables));
    served.wait_ready_all(2);
    let tally = days_work(&served, Clusters::Postgres(clusters.to_vec()), BETWEEN).await;
    rest(&served).await;
    every_slot_is_free(&served, &clusters).await;
    rest(&served).await;
    for cluster in &clusters {
        let sql = "select state, query from pg_stat_activity where usename = 'ann'";
        let left = cluster.client().await.query(sql, &[]).await.expect("its superuser may look");
        assert!(left.len() <= SLOTS as usize, "{left:?}");
        assert!(left.iter().all(|row| row.get::<_, &str>(0) == "idle"), "{left:?}");
    }
    written_down(served, &tally);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(feature = "embedded"), ignore = "needs embedded clusters")]
async fn the_same_of_embedded_clusters() {
    let embedded = |name| format!("[[cluster]]\nname = {name:?}\nkind = \"embedded\"\nslots = {SLOTS}\ntpch = 0.01\n");
    let served = Arc::new(serve(&(embedded("a") + &embedded("b"))));
    served.wait_ready_all(2);
    let tally = days_work(&served, Clusters::Children, BETWEEN).await;
    served.wait_ready_all(2);
    rest(&served).await;
    written_down(served, &tally);
}

fn serve(clusters: &str) -> Served {
    let gateway = format!("max_idle_connections = {SLOTS}\n[policy]\nretry_first = \"50ms\"\nretry_most = \"1s\"\n");
    Served::start(&(gateway + clusters))
}

/// All clients at once, until it is time to go. Whoever begins a round whose turn it is makes trouble first.
async fn days_work(served: &Arc<Served>, clusters: Clusters, between: u64) -> Arc<Tally> {
    let seed = wanted("PUNCTUAL_MIXED_SEED").unwrap_or(1);
    let lasts = match wanted("PUNCTUAL_MIXED_SECONDS") {
        Some(seconds) => Lasts::Until(Instant::now() + Duration::from_secs(seconds)),
        None => Lasts::Rounds(ROUNDS),
    };
    let full = matches!(clusters, Clusters::Postgres(_));
    let tally = Arc::new(Tally::default());
    let clusters = Arc::new(tokio::sync::Mutex::new((clusters, Dice(seed))));
    let clients = (0..CLIENTS).map(|number| {
        let (served, tally, clusters) = (Arc::clone(served), Arc::clone(&tally), Arc::clone(&clusters));
        tokio::spawn(async move {
            let name = format!("{seed}-{number}");
            let mut actor = Actor::new(served.address, name, seed << 32 | number, full, &tally).await;
            loop {
                let round = tally.rounds.fetch_add(1, Ordering::Relaxed) + 1;
                let is_over = match lasts {
                    Lasts::Rounds(rounds) => round > rounds,
                    Lasts::Until(end) => Instant::now() >= end,
                };
                if is_over {
                    return;
                }
                if round.is_multiple_of(between) {
                    let (clusters, dice) = &mut *clusters.lock().await;
                    let turn = tally.troubles.fetch_add(1, Ordering::Relaxed) as usize;
                    clusters.trouble(turn, dice, &served).await;
                }
                actor.round().await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("no assertion failed");
    }
    tally
}

/// Waits until nobody is there and nothing runs.
async fn rest(served: &Served) {
    loop {
        let clusters: serde_json::Value = serde_json::from_str(&served.get("/v1/clusters").1).expect("JSON");
        let queries: serde_json::Value = serde_json::from_str(&served.get("/v1/queries").1).expect("JSON");
        let of = |cluster: &serde_json::Value, what: &str| cluster[what].as_u64().expect("a number");
        let clusters = clusters["clusters"].as_array().expect("a list");
        let held: u64 = clusters.iter().map(|c| of(c, "running") + of(c, "pins") + of(c, "stuck")).sum();
        let live = queries["queries"].as_array().expect("a list").len();
        let ready = clusters.iter().filter(|cluster| cluster["phase"] == "ready").count();
        if (held, live, ready) == (0, 0, 2) && served.metric("punctual_sessions") == 0.0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// As many queries run at once as there are slots.
async fn every_slot_is_free(served: &Served, clusters: &[Arc<Mortal>]) {
    let (mut guards, mut asked) = (Vec::new(), Vec::new());
    for cluster in clusters {
        let guard = cluster.client().await;
        guard.batch_execute("begin; lock table gate in access exclusive mode").await.expect("it is free");
        guards.push(guard);
    }
    for _ in 0..2 * SLOTS {
        let mut wire = Wire::open(served.address, "ann").await;
        asked.push(tokio::spawn(async move { wire.ask("select 'through' from gate").await }));
    }
    while served.get("/v1/queries").1.matches("\"running\"").count() < 2 * SLOTS as usize {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(guards);
    for one in asked {
        let answer = one.await.expect("no panic").expect("an answer");
        assert!(answer.error.is_none(), "{:?}", answer.error);
    }
}

/// Every query that ended has one row of history, and nothing broke.
fn written_down(served: Arc<Served>, tally: &Tally) {
    for sound in ["punctual_broken_invariants_total", "punctual_degraded", "punctual_history_dropped_total"] {
        assert_eq!(served.metric(sound), 0.0, "{sound}");
    }
    let ended = served.metric("punctual_queries_total");
    let served = Arc::into_inner(served).expect("nobody else has it");
    let (status, log, dir) = served.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    let rows = punctual::history::read(&dir.path().join("state/history")).expect("history");
    let ids: Vec<_> = rows.map(|row| row.expect("a row").query_id).collect();
    assert_eq!(ids.len() as f64, ended);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    let replayed = punctual().args(["replay"]).arg(journal_of(dir.path())).output().expect("it runs");
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stdout));
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (rounds, rows) = (of(&tally.rounds), of(&tally.rows));
    assert!(rows > 100 * rounds, "{rows} rows in {rounds} rounds");
    println!(
        "{rounds} rounds, {ended} queries, {rows} rows, {} sessions left in the middle, {} troubles, errors {:?}",
        of(&tally.sessions),
        of(&tally.troubles),
        tally.codes.lock().expect("no panic")
    );
}
