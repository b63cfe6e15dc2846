//! What the surfaces show is what the driver's view holds, and odd requests are answered.

mod served;

use serde_json::Value;
use served::{SIMULATED, Served, punctual};

#[tokio::test(flavor = "multi_thread")]
async fn psql_and_http_show_the_same_clusters() {
    let served = Served::start(SIMULATED);
    served.wait_ready();
    let client = served.client("dashboards").await;
    for _ in 0..3 {
        client.simple_query("SELECT * FROM t /* punctual: work=0.01s */").await.expect("an answer");
    }
    let (status, body) = served.get("/v1/clusters");
    assert_eq!(status, 200);
    let clusters: Value = serde_json::from_str(&body).expect("JSON");
    let clusters = clusters["clusters"].as_array().expect("a list of clusters").clone();
    let rows =
        client.query("SELECT cluster_id, cluster, phase, placed FROM punctual.clusters ORDER BY cluster_id", &[]).await;
    let rows = rows.expect("an answer");
    assert_eq!(rows.len(), 2);
    for (row, cluster) in rows.iter().zip(&clusters) {
        assert_eq!(row.get::<_, &str>("cluster"), cluster["cluster"].as_str().expect("a name"));
        assert_eq!(row.get::<_, &str>("phase"), cluster["phase"].as_str().expect("a phase"));
        assert_eq!(Some(row.get::<_, i64>("placed")), cluster["placed"].as_i64());
    }
    let placed: i64 = rows.iter().map(|row| row.get::<_, i64>("placed")).sum();
    let decided = client.query_one("SELECT count(*) FROM punctual.decisions", &[]).await.expect("an answer");
    assert_eq!(decided.get::<_, i64>(0), placed);
    assert_eq!(served.get("/metrics").0, 200);
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_chooses_its_class_and_slo_and_sees_them() {
    let classes = "[[class]]\nname = \"etl\"\nslo = \"30m\"\n";
    let served = Served::start(&(classes.to_owned() + SIMULATED));
    served.wait_ready();
    let client = served.client("psql").await;
    client.simple_query("SET punctual.class = 'etl'").await.expect("there is such a class");
    client.simple_query("SET punctual.slo = '2s'").await.expect("a duration");
    let shown = client.query_one("SHOW punctual.slo", &[]).await.expect("an answer");
    assert_eq!(shown.get::<_, &str>(0), "2s");
    let unknown = client.simple_query("SET punctual.class = 'elt'").await.expect_err("there is no such class");
    let unknown = unknown.as_db_error().expect("an error of the gateway").clone();
    assert_eq!(unknown.code().code(), "22023");
    client.simple_query("SELECT * FROM t /* punctual: work=0.01s */").await.expect("an answer");
    let of_class = client.query_one("SELECT finished FROM punctual.classes WHERE class = 'etl'", &[]).await;
    assert_eq!(of_class.expect("an answer").get::<_, i64>(0), 1);
}

#[test]
fn what_cannot_work_is_said_before_anything_starts() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("punctual.toml");
    std::fs::write(&file, "[gateway]\nlisen = \"127.0.0.1:0\"\n").expect("a file");
    let output = punctual().args(["serve", "-c"]).arg(&file).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("punctual.toml:2:1") && said.contains("`listen`"), "{said}");
}

#[test]
fn an_occupied_port_is_named_with_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("punctual.toml");
    let text = format!("[gateway]\nlisten = \"{address}\"\nstate_dir = {:?}\n{SIMULATED}", dir.path().join("state"));
    std::fs::write(&file, text).expect("a file");
    let output = punctual().args(["serve", "-c"]).arg(&file).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("gateway.listen = \"{address}\": another program listens there")), "{said}");
}

#[test]
fn an_address_that_others_could_reach_is_refused_in_a_flag_too() {
    for flag in ["--listen", "--http"] {
        let output = punctual().args(["serve", flag, "0.0.0.0:0"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("{flag}: \"0.0.0.0:0\" can be reached from other machines")), "{said}");
    }
}
