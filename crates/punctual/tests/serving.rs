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

/// What `serve --check-only` says of a configuration, with which exit code.
fn rehearse(dir: &std::path::Path, text: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let file = dir.join("punctual.toml");
    std::fs::write(&file, text).expect("a file");
    let output = punctual().args(["serve", "--check-only", "-c"]).arg(&file).args(more).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&dir.display().to_string(), "DIR");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_would_be_served_is_said_without_serving_or_writing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let gateway = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nstate_dir = {:?}\n",
        dir.path().join("state")
    );
    let text = gateway.clone() + SIMULATED;
    let (code, said, wrong) = rehearse(dir.path(), &text, &[]);
    assert_eq!((code, wrong.as_str()), (Some(0), ""), "{said}");
    for part in [
        "With DIR/punctual.toml it would serve",
        "clients at 127.0.0.1:0",
        "cluster b: simulated, 4 slots",
        "DIR/state/journal",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!dir.path().join("state").exists());
    let (code, said, _) = rehearse(dir.path(), &text, &["--format", "json"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, &said["right"], &said["serves"]["clusters"][0]["name"]), (Some(0), &true.into(), &"a".into()));

    // What a gateway that runs has is no mistake.
    let served = Served::start_in(dir, &SIMULATED.replace("[[cluster]]\nname = \"a\"", "[[cluster]]\nname = \"c\""));
    let text = format!(
        "[gateway]\nlisten = \"{}\"\nstate_dir = {:?}\n{SIMULATED}",
        served.address,
        served.dir.path().join("state")
    );
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let (code, said, wrong) = rehearse(elsewhere.path(), &text, &["--http", "off"]);
    assert_eq!((code, wrong.as_str()), (Some(0), ""), "{said}");
    assert!(said.contains("another program listens") && said.contains("another gateway writes"), "{said}");
}

#[test]
fn what_would_keep_it_from_serving_is_said_with_its_place() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("file"), "no directory").expect("a file");
    std::fs::write(dir.path().join("model"), "no model").expect("a file");
    let text = format!(
        "[gateway]\nlisten = \"192.0.2.1:6432\"\nhttp = \"off\"\nstate_dir = {:?}\nauth = \"scram\"\nusers_file = \"users\"\n\
         [prediction]\nmodel = \"model\"\n\
         [[cluster]]\nname = \"x\"\nkind = \"exec\"\nstart = [\"/no/such\"]\nstop = [\"true\"]\nlist = [\"true\"]\n",
        dir.path().join("file/state")
    );
    let (code, said, wrong) = rehearse(dir.path(), &text, &[]);
    assert_eq!((code, said.as_str()), (Some(2), ""));
    let missing = "punctual.toml:6:14: gateway.users_file: cannot read DIR/users: No such file or directory";
    assert!(wrong.contains(missing), "{wrong}");

    std::fs::write(dir.path().join("users"), punctual::auth::users::line("ann", "opensesame")).expect("a file");
    let (code, said, wrong) = rehearse(dir.path(), &text, &[]);
    assert_eq!((code, said.as_str()), (Some(2), ""));
    for part in [
        "gateway.listen: 192.0.2.1:6432 cannot be listened on",
        "gateway.state_dir: ",
        "prediction.model: ",
        "cluster: cluster \"x\" would not start: there is no program /no/such, which `start` runs",
    ] {
        assert!(wrong.contains(&format!("DIR/punctual.toml: {part}")), "{part}: {wrong}");
    }
    let (code, said, wrong) = rehearse(dir.path(), &text, &["--format", "json"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, wrong.as_str(), &said["right"]), (Some(2), "", &false.into()));
    assert_eq!(said["problems"][0]["key"], "gateway.listen");
}
