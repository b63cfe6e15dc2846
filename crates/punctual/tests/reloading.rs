//! Another configuration, while sessions and queries go on.

mod served;

use std::sync::Arc;

use punctual::config::{self, Source};
use punctual::gateway::Gateway;
use punctual::link::{About, Report};
use punctual::mailbox::mailbox;
use punctual_core::admit::claim::Claim;
use punctual_core::class::Classes;
use punctual_core::id::{ClassId, QueryId, SessionId};
use punctual_core::query::Query;
use punctual_core::statement::Statement;
use serde_json::Value;
use served::{SIMULATED, Served};

/// Classes of that order, each for the application of its name.
fn classes(names: &[&str]) -> String {
    let class = |name: &&str| format!("[[class]]\nname = {name:?}\nmatch = [{{ application = {name:?} }}]\n");
    names.iter().map(class).collect()
}

fn reload(served: &Served) -> (u16, Value) {
    let (status, body) = served.post("/v1/reload", "");
    (status, serde_json::from_str(&body).expect("JSON"))
}

fn rows(served: &Served, table: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(&served.get(&format!("/v1/{table}")).1).expect("JSON");
    body[table].as_array().expect("a list").clone()
}

/// The queries of each class that have finished, those of classes without any left out.
fn finished(served: &Served) -> Vec<(String, i64)> {
    let of = |row: &Value| (row["class"].as_str().unwrap_or("?").to_owned(), row["finished"].as_i64().unwrap_or(-1));
    rows(served, "classes").iter().map(of).filter(|(_, finished)| *finished != 0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_and_limits_change_and_no_session_and_no_query_is_dropped() {
    let served = Served::start(&(classes(&["etl"]) + SIMULATED));
    served.wait_ready();
    let client = Arc::new(served.client("etl").await);
    client.simple_query("SET punctual.slo = '1h'").await.expect("a duration");
    let running = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.simple_query("SELECT * FROM t /* punctual: work=3600s */").await }
    });
    let of_class = |class: &str| rows(&served, "queries").iter().filter(|row| row["class"] == class).count();
    while of_class("etl") == 0 {
        tokio::task::yield_now().await;
    }

    // The class has another number now, and its queries another limit.
    served.configure(
        &("max_sessions = 2\n[policy]\nmax_waiting = 5\n".to_owned() + &classes(&["dash", "etl"]) + SIMULATED),
    );
    let (status, answer) = reload(&served);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["changed"], serde_json::json!(["class", "policy.max_waiting", "gateway.max_sessions"]));
    assert_eq!(answer["restart"], serde_json::json!([]));
    assert_eq!((of_class("etl"), of_class("dash")), (1, 0));

    let other = served.client("dash").await;
    let refused =
        served.config("late").connect(tokio_postgres::NoTls).await.map(drop).expect_err("there are two already");
    assert_eq!(refused.code().map(|code| code.code()), Some("53300"));
    other.simple_query("SELECT * FROM t /* punctual: work=1ms */").await.expect("an answer");
    assert_eq!(finished(&served), [("dash".to_owned(), 1)]);

    client.cancel_token().cancel_query(tokio_postgres::NoTls).await.expect("a cancel request");
    let ended = running.await.expect("no panic").expect_err("it was cancelled");
    assert_eq!(ended.code().map(|code| code.code()), Some("57014"));
    let shown = client.query_one("SHOW punctual.slo", &[]).await.expect("the session is there");
    assert_eq!(shown.get::<_, &str>(0), "1h");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_leaves_the_old_one_in_force_and_says_why() {
    let served = Served::start(&(classes(&["etl"]) + SIMULATED));
    served.wait_ready();
    let client = served.client("etl").await;
    served.configure(&("[policy]\nmax_wating = 5\nwait_limit = 3\n".to_owned() + &classes(&["dash"]) + SIMULATED));
    let (status, answer) = reload(&served);
    assert_eq!(status, 400);
    let keys: Vec<&Value> =
        answer["problems"].as_array().expect("a list").iter().map(|problem| &problem["key"]).collect();
    assert_eq!(keys, ["policy.max_wating", "policy.wait_limit"]);
    assert!(answer["error"].as_str().is_some_and(|error| error.contains("did you mean `max_waiting`?")), "{answer}");
    client.simple_query("SELECT * FROM t /* punctual: work=1ms */").await.expect("an answer");
    assert_eq!(finished(&served), [("etl".to_owned(), 1)]);
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains("the configuration stays as it was") && log.contains("did you mean `max_waiting`?"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_reads_the_file_again_and_a_missing_one_changes_nothing() {
    let served = Served::start(&(classes(&["etl"]) + SIMULATED));
    served.wait_ready();
    std::fs::remove_file(served.dir.path().join("punctual.toml")).expect("it is there");
    assert_eq!(reload(&served).0, 400);
    served.configure(&(classes(&["etl", "dash"]) + SIMULATED));
    served.hang_up();
    while !served.get("/v1/classes").1.contains("\"dash\"") {
        tokio::task::yield_now().await;
    }
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains("changed: class; needs a restart: nothing"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_come_and_go_and_what_needs_a_restart_is_named() {
    let served = Served::start(SIMULATED);
    served.wait_ready_all(2);
    let other = SIMULATED.replace("\"b\"", "\"c\"").replacen("slots = 4", "slots = 5", 1);
    served.configure(&("id = 9\n[history]\nsql = \"text\"\n".to_owned() + &other));
    let (status, answer) = reload(&served);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["changed"], serde_json::json!(["cluster \"c\"", "cluster \"b\""]));
    assert_eq!(answer["restart"], serde_json::json!(["gateway.id", "history.sql", "cluster \"a\""]));
    let there = |served: &Served| {
        let ready = |row: &Value| (row["phase"] == "ready").then(|| row["cluster"].as_str().unwrap_or("?").to_owned());
        rows(served, "clusters").iter().filter_map(ready).collect::<Vec<_>>()
    };
    while there(&served) != ["a", "c"] {
        tokio::task::yield_now().await;
    }
    let client = served.client("psql").await;
    client.simple_query("SELECT * FROM t /* punctual: work=1ms */").await.expect("an answer");
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_stream_of_reloads_every_query_is_counted_in_its_class() {
    const EACH: i64 = 150;
    let orders = [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]];
    let served = Served::start(&(classes(&orders[0]) + SIMULATED));
    served.wait_ready_all(2);
    let mut clients = Vec::new();
    for name in orders[0] {
        let client = served.client(name).await;
        clients.push(tokio::spawn(async move {
            for _ in 0..EACH {
                client.simple_query("SELECT * FROM t /* punctual: work=1ms */").await.expect("an answer");
            }
        }));
    }
    let mut reloads = 0;
    while clients.iter().any(|client| !client.is_finished()) || reloads < 3 {
        reloads += 1;
        served.configure(&(classes(&orders[reloads % 3]) + SIMULATED));
        let (status, answer) = reload(&served);
        assert_eq!((status, &answer["changed"]), (200, &serde_json::json!(["class"])));
        tokio::task::yield_now().await;
    }
    for client in clients {
        client.await.expect("no panic");
    }
    let mut counts = finished(&served);
    counts.sort();
    assert_eq!(counts, ["a", "b", "c"].map(|name| (name.to_owned(), EACH)));
}

/// A query that was classified by the rules of before and comes after others are in force.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_comes_late_is_of_the_class_that_it_was_given() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = |names: &[&str]| {
        let head = "[gateway]\nlisten = \"127.0.0.1:0\"\nhttp = \"off\"\nstate_dir = \"state\"\n";
        // Nobody answers there, so that queries wait.
        let cluster = "[[cluster]]\nname = \"x\"\nkind = \"postgres\"\naddress = \"127.0.0.1:1\"\n";
        let settings = config::parse(&format!("{head}{}{cluster}", classes(names)), &dir.path().join("punctual.toml"));
        settings.expect("a right file")
    };
    let (old, new) = (file(&["etl", "gone"]), file(&["dash", "etl"]));
    let under = Arc::new(Classes::new(old.policy.classes.clone()));
    let gateway = Gateway::start(old, Source::default()).await.expect("it starts");
    assert_eq!(gateway.link.adopt(Arc::new(new)).await, Ok(true));

    let mut mailboxes = Vec::new();
    for (number, name) in (1..).zip(["etl", "gone", "default"]) {
        let session = SessionId(number);
        let (slot, mailbox) = mailbox();
        mailboxes.push(mailbox);
        gateway.link.report(Report::Joined { session, mailbox: slot }).await.expect("the driver is there");
        let statement = Statement::read("select * from t");
        let text: Arc<str> = Arc::from("");
        let query = Query {
            id: QueryId(number),
            session,
            fingerprint: statement.fingerprint,
            kind: statement.kind,
            class: under.find(name).expect("a class"),
            slo: None,
            claim: Claim::default(),
            traits: None,
        };
        let about = About {
            user: text.clone(),
            database: text.clone(),
            application: text.clone(),
            text: text.clone(),
            shape: text,
        };
        let arrived = Report::Arrived { query, about, under: Arc::clone(&under) };
        gateway.link.report(arrived).await.expect("the driver is there");
    }
    let view = gateway.link.look().await.expect("the driver is there").view;
    let of: Vec<(u64, ClassId, &str)> = view
        .queries
        .iter()
        .map(|live| (live.query.id.0, live.query.class, view.classes[live.query.class.0 as usize].name.as_str()))
        .collect();
    assert_eq!(of, [(1, ClassId(3), "etl"), (2, ClassId(1), "default"), (3, ClassId(1), "default")]);
    assert!(mailboxes.iter_mut().all(|mailbox| mailbox.try_recv().is_none()), "they wait");
}
