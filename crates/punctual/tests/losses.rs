//! What goes away in the middle of everything: clusters, clients, the gateway itself.

mod served;

use served::{SIMULATED, Served};
use tokio_postgres::{Client, NoTls};

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
}

fn is_alive(pid: i32) -> bool {
    // A process that has ended and is not waited for yet is a zombie.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn runs(served: &Served, count: usize) {
    while served.get("/v1/queries").1.matches("\"running\"").count() < count {
        tokio::task::yield_now().await;
    }
}

fn code(error: &tokio_postgres::Error) -> Option<&str> {
    error.code().map(tokio_postgres::error::SqlState::code)
}

const SLOW: &str = "SELECT * FROM t /* punctual: work=1000s */";
const QUICK: &str = "SELECT * FROM t /* punctual: work=0.01s */";

async fn slow(client: Client) -> (Client, tokio_postgres::Error) {
    let error = client.simple_query(SLOW).await.expect_err("it does not end by itself");
    (client, error)
}

#[test]
#[cfg(feature = "embedded")]
fn a_cluster_that_cannot_start_is_told_of_at_growing_intervals() {
    let tables = tempfile::tempdir().expect("a temporary directory");
    let cluster = format!("[[cluster]]\nname = \"bare\"\nkind = \"embedded\"\ntables = [{:?}]\n", tables.path());
    let served = Served::start(&format!("[policy]\nretry_first = \"0s\"\nretry_most = \"1s\"\n{cluster}"));
    let generation = |served: &Served| {
        let clusters: serde_json::Value = serde_json::from_str(&served.get("/v1/clusters").1).expect("JSON");
        clusters["clusters"][0]["generation"].as_u64()
    };
    while generation(&served) < Some(3) {
        std::thread::yield_now();
    }
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
    let said: Vec<&str> = log.lines().filter(|line| line.contains("does not start")).collect();
    assert!(
        said.iter().all(|line| line.contains("ERROR") && line.contains("there are no Parquet files in it")),
        "{log}"
    );
    let times: Vec<&str> =
        said.iter().filter_map(|line| line.split("times=").nth(1)?.split_whitespace().next()).collect();
    let expected: Vec<String> = (0..times.len()).map(|power| (1u64 << power).to_string()).collect();
    assert_eq!(times, expected, "{log}");
    assert!(times.len() >= 2 && log.matches("starting a cluster").count() == 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_dies_costs_its_own_queries_and_comes_back() {
    let served = Served::start(&("[policy]\nretry_first = \"10ms\"\n".to_owned() + SIMULATED));
    served.wait_ready_all(2);
    // A transaction on each, so that neither query can go elsewhere: least outstanding spreads them.
    let (a, b) = (served.client("test").await, served.client("test").await);
    for client in [&a, &b] {
        client.simple_query("BEGIN").await.expect("a transaction");
    }
    let (a, b) = (tokio::spawn(slow(a)), tokio::spawn(slow(b)));
    runs(&served, 2).await;
    let killed = served.children()[0];
    kill(killed);
    let (first, _, rest) = futures::future::select_all([a, b]).await;
    let (client, error) = first.expect("no panic");
    // Whichever comes first: the end of its connection, or the driver's word of the cluster's.
    assert!(matches!(code(&error), Some("08006" | "57P01")), "{error}");
    // What comes now would be done without the beginning of its transaction.
    assert!(client.simple_query(QUICK).await.expect_err("the session is over").is_closed());
    let client = served.client("test").await;
    // Until its end is known a query may still be sent there; then it is told so, and the next one goes elsewhere.
    while let Err(error) = client.simple_query(QUICK).await {
        assert!(matches!(code(&error), Some("08006" | "57P01")), "{error}");
    }
    served.wait_ready_all(2);
    assert!(!served.children().contains(&killed));
    assert!(!rest[0].is_finished(), "its neighbour is untouched");
    drop(rest);
}

/// The name of the cluster that the only query runs on; None if there is none, or it waits.
fn cluster_of_the_only_one(served: &Served) -> Option<String> {
    let queries: serde_json::Value = serde_json::from_str(&served.get("/v1/queries").1).expect("JSON");
    queries["queries"].as_array()?.iter().find_map(|query| query["cluster"].as_str().map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_has_sent_nothing_goes_to_another_cluster_when_its_own_dies() {
    let served = Served::start(&SIMULATED.replacen("slots = 4", "slots = 4\nsize = 2", 1));
    served.wait_ready_all(2);
    let client = served.client("test").await;
    let cancel = client.cancel_token();
    let query = tokio::spawn(slow(client));
    runs(&served, 1).await;
    let first = cluster_of_the_only_one(&served).expect("it runs");
    let size = if first == "a" { "--size\x002\0" } else { "--size\x001\0" };
    let is_it =
        |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(size));
    kill(served.children().into_iter().find(is_it).expect("its process"));
    let second = loop {
        match cluster_of_the_only_one(&served) {
            Some(now) if now != first => break now,
            _ => tokio::task::yield_now().await,
        }
    };
    assert_ne!(second, first);
    assert!(!query.is_finished());
    cancel.cancel_query(NoTls).await.expect("it is delivered");
    let (client, error) = query.await.expect("the session goes on");
    assert_eq!(code(&error), Some("57014"), "{error}");
    client.simple_query(QUICK).await.expect("it goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_finishes_what_runs_and_refuses_what_comes() {
    let served = Served::start(SIMULATED);
    served.wait_ready();
    let (busy, idle) = (served.client("test").await, served.client("test").await);
    let running = tokio::spawn(async move { busy.simple_query("SELECT * FROM t /* punctual: work=1s */").await });
    runs(&served, 1).await;
    served.terminate();
    while served.get("/readyz").0 == 200 {
        tokio::task::yield_now().await;
    }
    let refused = idle.simple_query(QUICK).await.expect_err("it is shutting down");
    assert!(refused.is_closed() || code(&refused) == Some("57P01"), "{refused}");
    running.await.expect("the task ends").expect("what ran is finished");
    let (status, log, _) = served.stopped();
    assert!(status.success(), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_do_not_outlive_a_gateway_that_was_killed() {
    let served = Served::start(SIMULATED);
    served.wait_ready_all(2);
    let clusters = served.children();
    assert_eq!(clusters.len(), 2);
    served.kill();
    while clusters.iter().any(|pid| is_alive(*pid)) {
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_leave_no_slot_taken() {
    let served = Served::start(SIMULATED);
    served.wait_ready_all(2);
    let mut gone = Vec::new();
    for _ in 0..12 {
        let (client, connection) = served.config("test").connect(NoTls).await.expect("a connection");
        let connection = tokio::spawn(connection);
        gone.push((tokio::spawn(async move { client.simple_query(SLOW).await.map(drop) }), connection));
    }
    // Eight run, as many as there are slots, and four wait.
    runs(&served, 8).await;
    for (query, connection) in gone {
        query.abort();
        connection.abort();
    }
    let client = served.client("test").await;
    loop {
        let held = "SELECT sum(running + pins) AS held, (SELECT count(*) FROM punctual.queries) AS live \
                    FROM punctual.clusters";
        let row = client.query_one(held, &[]).await.expect("an answer");
        if (row.get::<_, i64>("held"), row.get::<_, i64>("live")) == (0, 0) {
            break;
        }
    }
    let all: Vec<_> = (0..8).map(|_| client.simple_query(QUICK)).collect();
    for answer in futures::future::join_all(all).await {
        answer.expect("every slot is free");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_cluster_in_vain_is_told_what_is_wrong_with_it() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let cluster = format!("[[cluster]]\nname = \"pg\"\nkind = \"postgres\"\naddress = \"{closed}\"\n");
    let served = Served::start(&("[policy]\nwait_limit = \"300ms\"\n".to_owned() + &cluster));
    let client = served.client("test").await;
    let (query, parse) = (client.simple_query(QUICK).await, client.prepare("select 1").await);
    for (error, expected) in [(query.expect_err("no cluster"), "53300"), (parse.expect_err("no cluster"), "57P03")] {
        assert_eq!(code(&error), Some(expected), "{error}");
        let detail = error.as_db_error().and_then(|error| error.detail()).unwrap_or_default();
        assert!(
            detail.starts_with(&format!("Cluster pg: connecting to {closed} failed: Connection refused")),
            "{detail}"
        );
    }
}
