//! Where a query would go, asked without sending it; and where it went, told along with its answer.

mod served;

use std::future::poll_fn;

use serde_json::{Value, json};
use served::{SIMULATED, Served, with_model};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

const IN_TURN: &str = r#"
[policy]
routing = "round_robin"

[[class]]
name = "dash"
slo = "2s"
match = [{ application = "looker" }]
"#;

fn explained(served: &Served, question: &Value) -> Value {
    let (status, body) = served.post("/v1/explain", &question.to_string());
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// All that would show that a query has been there.
fn traces(served: &Served) -> [String; 3] {
    ["/v1/queries", "/v1/classes", "/v1/decisions"].map(|path| served.get(path).1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_would_happen_and_nothing_does() {
    let served = Served::start(&format!("{IN_TURN}{SIMULATED}"));
    served.wait_ready_all(2);
    let before = traces(&served);
    let question = json!({ "sql": "SELECT count(*) FROM t", "application": "looker 9" });
    let told = explained(&served, &question);
    assert_eq!(told, explained(&served, &question));
    assert_eq!(
        (&told["verdict"], &told["cluster"], &told["why"]),
        (&"run".into(), &"a".into(), &"next in turn".into())
    );
    assert_eq!((&told["class"], &told["slo_s"]), (&"dash".into(), &2.0.into()));
    assert_eq!(told["class_why"], "rule 1 of the class matches: the application starts with \"looker\"");
    let names: Vec<&Value> =
        told["candidates"].as_array().expect("a list").iter().map(|candidate| &candidate["cluster"]).collect();
    assert_eq!(names, ["a", "b"]);
    let wished = json!({ "sql": "SELECT 1", "class": "dash", "slo": "250ms" });
    assert_eq!(explained(&served, &wished)["slo_s"], 0.25);
    let asks = json!({ "sql": "SELECT a FROM t /* punctual: priority=-4 */", "client": "10.0.0.1", "priority": 2 });
    assert_eq!(explained(&served, &asks)["priority_asked"], -4);
    assert_eq!(traces(&served), before);

    // The next in turn is still the same one.
    let client = served.client("looker 9").await;
    for cluster in ["a", "b"] {
        assert_eq!(explained(&served, &question)["cluster"], cluster);
        client.simple_query("SELECT count(*) FROM t /* punctual: work=1ms */").await.expect("an answer");
        let row = client.query_one("SELECT cluster FROM punctual.decisions ORDER BY at DESC LIMIT 1", &[]).await;
        assert_eq!(row.expect("a decision").get::<_, &str>(0), cluster);
    }
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
}

/// A connection, and the notices that come over it.
async fn listening(config: &tokio_postgres::Config) -> (Client, mpsc::UnboundedReceiver<(String, String)>) {
    let (client, mut connection) = config.connect(NoTls).await.expect("a connection");
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notice(notice) = message {
                let _ = tell.send((notice.message().to_owned(), notice.detail().unwrap_or_default().to_owned()));
            }
        }
    });
    (client, heard)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_wants_to_is_told_with_each_query_where_it_went() {
    let served = Served::start(&format!("{IN_TURN}{SIMULATED}"));
    served.wait_ready_all(2);
    let (client, mut heard) = listening(&served.config("psql")).await;
    let query = "SELECT count(*) FROM t /* punctual: work=1ms */";
    client.simple_query(query).await.expect("an answer");
    client.simple_query("SET punctual.explain = on").await.expect("it is set");
    client.simple_query(query).await.expect("an answer");
    let (message, detail) = heard.recv().await.expect("a notice");
    assert!(message.starts_with("query ") && message.ends_with(" runs on cluster b: next in turn"), "{message}");
    assert_eq!(detail, "Placed at once; 2 clusters had room.");
    // The extended protocol too.
    client.query_one("SELECT 1 FROM t /* punctual: work=1ms */", &[]).await.expect("an answer");
    assert!(heard.recv().await.expect("a notice").0.ends_with(" runs on cluster a: next in turn"));
    client.batch_execute("RESET punctual.explain").await.expect("it is reset");
    client.simple_query(query).await.expect("an answer");
    drop(client);
    assert_eq!(heard.recv().await, None, "there were no other notices");

    let (client, mut heard) = listening(served.config("psql").options("-c punctual.explain=on")).await;
    client.simple_query("BEGIN").await.expect("a transaction");
    client.simple_query(query).await.expect("an answer");
    let first = heard.recv().await.expect("a notice").0;
    assert!(first.ends_with(" runs on cluster a: next in turn"), "{first}");
    let second = heard.recv().await.expect("a notice").0;
    assert!(second.ends_with(" runs on cluster a: its session holds this cluster"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_model_it_is_told_what_is_expected_and_what_it_would_do_to_slos_and_cost() {
    // Two seconds on one unit are too long, a quarter of a second on eight is not.
    let fleet = "[policy]\nrouting = \"slo\"\ncounting = \"median\"\n[[cluster]]\nname = \"small\"\nkind = \"simulated\"\n\
                 [[cluster]]\nname = \"large\"\nkind = \"simulated\"\nsize = 8\n";
    let served = Served::start_in(with_model(2.0), fleet);
    served.wait_ready_all(2);
    let question = |slo: &str| json!({ "sql": "SELECT count(*) FROM t", "slo": slo });
    let told = explained(&served, &question("1s"));
    assert_eq!((&told["cluster"], &told["why"]), (&"large".into(), &"fewest SLO violations".into()));
    let violations = told["candidates"][0]["violations"].as_f64();
    assert_eq!((told["isolated_s"].as_f64(), violations), (Some(0.25), Some(1.0)));
    assert!(told["predicted_p90_s"].as_f64() > told["predicted_p50_s"].as_f64(), "{told}");
    let told = explained(&served, &question("10s"));
    assert_eq!((&told["cluster"], told["isolated_s"].as_f64()), (&"small".into(), Some(2.0)));
    assert!(told["candidates"][1]["cost"].as_f64() > told["candidates"][0]["cost"].as_f64(), "{told}");

    let (client, mut heard) =
        listening(served.config("psql").options("-c punctual.explain=on -c punctual.slo=1s")).await;
    client.simple_query("SELECT count(*) FROM t /* punctual: work=8ms */").await.expect("an answer");
    let (message, detail) = heard.recv().await.expect("a notice");
    assert!(message.ends_with(" runs on cluster large: fewest SLO violations"), "{message}");
    assert!(detail.contains("250ms alone. +0.00 SLO violations, $0.0500 more."), "{detail}");
}

#[test]
fn a_dry_run_says_what_of_time_is_read_and_in_which_lane_that_is() {
    let rules = "[lanes]\nstrategy = \"hilo\"\nmax_low_percent = 25\n\
                 [[table]]\nname = \"events\"\ntime_column = \"ts\"\nsegment = \"1d\"\nto = \"now\"\n\
                 [[class]]\nname = \"default\"\nperiod_threshold = \"7d\"\n";
    let served = Served::start(&format!("{rules}{SIMULATED}"));
    served.wait_ready();
    let told = |sql: &str| {
        let told = explained(&served, &json!({ "sql": sql }));
        (told["lane"].clone(), told["priority"].clone(), told["scan"].clone())
    };
    let (lane, priority, scan) = told("SELECT count(*) FROM events WHERE ts >= now() - interval '30 days'");
    assert_eq!((lane, priority, &scan["reach_s"]), ("low".into(), (-5).into(), &2_592_000.0.into()));
    assert_eq!((&scan["segments"], &scan["unbounded"]), (&31.into(), &json!([])));
    let (lane, priority, scan) = told("SELECT count(*) FROM events");
    assert_eq!((lane, priority, &scan["reach_s"]), ("low".into(), (-5).into(), &Value::Null));
    assert_eq!(scan["unbounded"], json!(["reach", "duration", "segments", "segment_range"]));
    let (lane, priority, scan) = told("SELECT count(*) FROM events WHERE ts >= now() - interval '1 day'");
    assert_eq!((lane, priority, &scan["reach_s"]), ("default".into(), 0.into(), &86_400.0.into()));
    assert_eq!(told("SELECT count(*) FROM t"), ("default".into(), 0.into(), Value::Null));
}
