//! Starting, refusing to start, letting in, ending.

use crate::support::{Start, connect, text, told, tpch};

#[tokio::test]
async fn the_process_ends_when_its_standard_input_closes() {
    let mut cluster = Start::default().start().unwrap();
    let client = cluster.connect().await;
    assert_eq!(text(&client, "select 1").await, "1");
    drop(cluster.child.stdin.take());
    assert!(cluster.child.wait().unwrap().success());
    // Nothing is left: no socket, no directory for spilling.
    assert_eq!(std::fs::read_dir(cluster.directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn sigterm_ends_the_process_in_good_order() {
    let mut cluster = Start::default().start().unwrap();
    let pid = rustix::process::Pid::from_child(&cluster.child);
    // Ctrl-C is for the parent, which this process has.
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(text(&cluster.connect().await, "select 1").await, "1");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(cluster.child.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(cluster.directory.path()).unwrap().count(), 0);
}

#[test]
fn tables_that_cannot_be_served_are_named() {
    let given = tempfile::tempdir().unwrap();
    let refused =
        |tables: &std::path::Path| Start { tables: vec![tables.to_owned()], ..Start::default() }.start().err().unwrap();
    let missing = given.path().join("missing");
    let told = refused(&missing);
    assert!(told.contains(&format!("{}: No such file", missing.display())), "{told}");
    assert!(refused(given.path()).contains("there are no Parquet files in it"));
    let whole = std::fs::read(tpch().join("region.parquet")).unwrap();
    for (name, content) in [("empty", &b""[..]), ("text", b"not parquet at all"), ("cut", &whole[..whole.len() / 2])] {
        let file = given.path().join(format!("{name}.parquet"));
        std::fs::write(&file, content).unwrap();
        let told = refused(given.path());
        assert!(told.contains(&format!("{}: it is not a readable Parquet file", file.display())), "{told}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn a_directory_of_parquet_files_is_one_table() {
    let given = tempfile::tempdir().unwrap();
    let parts = given.path().join("Regions");
    std::fs::create_dir(&parts).unwrap();
    for part in ["a.parquet", "b.parquet"] {
        std::fs::copy(tpch().join("region.parquet"), parts.join(part)).unwrap();
    }
    let cluster = Start { tables: vec![given.path().to_owned()], ..Start::default() }.start().unwrap();
    let client = cluster.connect().await;
    assert_eq!(text(&client, "select count(*) from \"Regions\"").await, "10");
}

#[tokio::test]
async fn a_password_is_asked_for_and_checked() {
    let cluster = Start { password: Some("correct"), ..Start::default() }.start().unwrap();
    let mut config = cluster.config();
    config.password("wrong");
    assert_eq!(told(connect(&config).await).0, "28P01");
    config.password("correct");
    assert_eq!(text(&connect(&config).await.unwrap(), "select 1").await, "1");
}

#[tokio::test]
async fn tcp_needs_a_password_or_loopback() {
    let told = Start { tcp: Some("0.0.0.0:0"), ..Start::default() }.start().err().unwrap();
    assert!(told.contains("can be reached from elsewhere"), "{told}");
    let cluster = Start { tcp: Some("127.0.0.1:0"), ..Start::default() }.start().unwrap();
    let address: std::net::SocketAddr = cluster.address.parse().unwrap();
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(address.port()).user("tester");
    assert_eq!(text(&connect(&config).await.unwrap(), "select 1").await, "1");
    let taken = Box::leak(address.to_string().into_boxed_str());
    let told = Start { tcp: Some(taken), ..Start::default() }.start().err().unwrap();
    assert!(told.contains(&format!("cannot listen on {address}: ")), "{told}");
}

#[test]
fn a_directory_that_others_can_reach_into_is_refused() {
    let told = Start { mode: 0o755, ..Start::default() }.start().err().unwrap();
    assert!(told.contains("others can reach into it (mode 0755)"), "{told}");
}
