//! What is not there when it is needed: files, room on the disk, a cluster that answers, a client that reads.

mod common;
mod served;

use std::fs;
use std::path::{Path, PathBuf};

use common::mortal::Mortal;
use common::raw::query;
use common::wire::Wire;
use served::Served;
use tokio::net::TcpStream;

/// One query, and the code of the error that it brought; empty if none.
async fn told(wire: &mut Wire, sql: &str) -> String {
    let answer = wire.ask(sql).await.expect("the session goes on");
    answer.error.map(|told| told.code).unwrap_or_default()
}

/// A query that is no housekeeping.
const QUICK: &str = "select g from generate_series(1, 1) g";

/// Of a hundred files, clients get 56 and 12 more may be on their way; the rest is for clusters and records.
#[tokio::test(flavor = "multi_thread")]
async fn clients_do_not_take_the_files_that_their_queries_need() {
    let postgres = Mortal::start("files");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let served = Served::start_by(&["prlimit", "--nofile=100:100"], dir, &postgres.cluster("pg", 4));
    served.wait_ready();
    let mut sessions = Vec::new();
    for _ in 0..56 {
        sessions.push(Wire::open(served.address, "ann").await);
    }
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(served.address.port()).user("ann").dbname("demo");
    let refused = config.connect(tokio_postgres::NoTls).await.map(drop).expect_err("one too many");
    let error = refused.as_db_error().expect("the gateway says so");
    assert_eq!(error.code().code(), "53300");
    assert_eq!(error.message(), "too many clients: 56 sessions are connected already");
    assert_eq!(error.hint(), Some("More open files would allow for more (ulimit -n, LimitNOFILE)."));
    // And many more that say nothing.
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(served.address).await.expect("the kernel accepts"));
    }
    let asked = sessions.into_iter().map(|mut wire| async move { told(&mut wire, QUICK).await });
    let heard = futures::future::join_all(asked).await;
    assert!(heard.iter().all(String::is_empty), "{heard:?}");
    assert!(served.get("/v1/clusters").1.contains("\"ready\""));
    drop(silent);
    while served.metric("punctual_sessions") > 0.0 {}
    assert_eq!(told(&mut Wire::open(served.address, "ann").await, QUICK).await, "");
    let (status, log, _) = served.stop();
    assert!(status.success() && !log.contains("cluster lost"), "{log}");
}

/// Neither its connections nor the kernel say anything when a cluster hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_hangs_is_given_up_and_is_there_again_when_it_answers() {
    let (a, b) = (Mortal::start("hangs"), Mortal::start("well"));
    let gateway =
        "check_every = \"50ms\"\nconnect_within = \"1s\"\n[policy]\nretry_first = \"20ms\"\nretry_most = \"1s\"\n";
    let served = Served::start(&format!("{gateway}{}{}", a.cluster("a", 4), b.cluster("b", 4)));
    served.wait_ready_all(2);
    // Connections lie idle at both.
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let mut wire = Wire::open(served.address, "ann").await;
        wire.send(&query("select pg_sleep(0.05)")).await.expect("it is read");
        sessions.push(wire);
    }
    for wire in &mut sessions {
        assert!(wire.answer().await.expect("an answer").error.is_none());
    }
    a.freeze(true);
    for wire in &mut sessions {
        wire.send(&query("select 'x' from generate_series(1, 1)")).await.expect("it is read");
    }
    // What is lost there and only reads is sent elsewhere, once.
    for wire in &mut sessions {
        let answer = wire.answer().await.expect("the session goes on");
        assert!(answer.error.is_none() && answer.rows.len() == 1, "{:?}", answer.error);
    }
    // Meanwhile everything goes elsewhere.
    for wire in &mut sessions {
        assert_eq!(told(wire, QUICK).await, "");
    }
    a.freeze(false);
    served.wait_ready_all(2);
    let (status, log, _) = served.stop();
    assert!(status.success() && log.matches("cluster lost").count() == 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_does_not_keep_its_slot() {
    let postgres = Mortal::start("unread");
    let served = Served::start(&("client_stall_timeout = \"1s\"\n".to_owned() + &postgres.cluster("pg", 1)));
    served.wait_ready();
    let mut deaf = Wire::open(served.address, "ann").await;
    deaf.send(&query("select repeat('x', 1000) from generate_series(1, 1000000)")).await.expect("it is read");
    while !served.get("/v1/queries").1.contains("\"running\"") {
        tokio::task::yield_now().await;
    }
    assert_eq!(told(&mut Wire::open(served.address, "ann").await, QUICK).await, "");
    while served.metric("punctual_sessions") > 0.0 {}
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let rows = punctual::history::read(&dir.path().join("state/history")).expect("history");
    let mut ended: Vec<_> = rows.map(|row| row.expect("a row").status.expect("it is known").name()).collect();
    ended.sort_unstable();
    assert_eq!(ended, ["cancelled", "finished"]);
}

/// Nobody says so when a machine loses its power.
#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_asks_whether_the_other_end_is_there() {
    let postgres = Mortal::start("alive");
    let served = Served::start(&postgres.cluster("pg", 1));
    served.wait_ready();
    let mut wire = Wire::open(served.address, "ann").await;
    assert_eq!(told(&mut wire, QUICK).await, "");
    // The timer of a connection: 02 is that of keeping alive.
    let of = |from_gateway: bool, port: u16| -> Vec<String> {
        let table = fs::read_to_string("/proc/net/tcp").expect("Linux");
        let port = format!(":{port:04X}");
        let column = if from_gateway { 2 } else { 1 };
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let open = rows.filter(|row| row.len() > 5 && row[3] == "01" && row[column].ends_with(&port));
        open.map(|row| row[5][..2].to_owned()).collect()
    };
    // Another timer runs until what was sent is acknowledged.
    while of(false, served.address.port()) != ["02"] {
        tokio::task::yield_now().await;
    }
    while of(true, postgres.port) != ["02"] {
        tokio::task::yield_now().await;
    }
}

/// A gateway whose records lie on a disk of a megabyte, and the way there.
fn on_a_small_disk(clusters: &str) -> (Served, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let state = dir.path().join("state");
    fs::create_dir(&state).expect("a directory");
    let mount = format!("mount -t tmpfs -o size=1m tmpfs {} && exec \"$@\"", state.display());
    let wrapper = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"];
    let served = Served::start_by(&wrapper, dir, clusters);
    let there = Path::new("/proc").join(served.pid().to_string()).join("root");
    let state = there.join(state.strip_prefix("/").expect("it is absolute"));
    (served, state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_stops_no_query_and_is_written_again_when_there_is_room() {
    let postgres = Mortal::start("disk");
    let (served, state) = on_a_small_disk(&postgres.cluster("pg", 4));
    served.wait_ready();
    let full = state.join("full");
    let _ = fs::write(&full, vec![1; 1 << 20]);
    let mut wire = Wire::open(served.address, "ann").await;
    let mut asked = 0;
    while served.metric("punctual_journal_dropped_total") == 0.0 {
        assert_eq!(told(&mut wire, QUICK).await, "");
        asked += 1;
    }
    fs::remove_file(&full).expect("it is there");
    let segments = || fs::read_dir(state.join("journal")).expect("a journal").count();
    let before = segments();
    while segments() == before {
        assert_eq!(told(&mut wire, QUICK).await, "");
        asked += 1;
    }
    // History is held until there is room.
    let written =
        || punctual::history::read(&state.join("history")).map_or(0, |rows| rows.filter(Result::is_ok).count());
    while written() < asked {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!((written(), served.metric("punctual_history_dropped_total")), (asked, 0.0));
    drop(wire);
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
    for said in ["the journal cannot be written", "the journal is written again"] {
        assert_eq!(log.matches(said).count(), 1, "{said}: {log}");
    }
}
