//! A cluster that takes nobody in the clear, and who users of the gateway are there.

mod certificates;
mod common;
mod served;

use std::path::Path;
use std::sync::OnceLock;

use certificates::{Authority, Tls};
use common::postgres::Postgres;
use punctual::auth::users::line;
use served::{Served, punctual, write_secret};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};

/// A Postgres that calls itself localhost, and the port that it listens at.
struct Cluster {
    certificates: TempDir,
    port: u16,
}

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static ROLES: OnceCell<()> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(|| {
        let certificates = tempfile::tempdir().expect("a directory");
        let authority = Authority::new(certificates.path());
        authority.issue("server", "DNS:localhost");
        // Free now; the system gives it to nobody else soon.
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        Postgres::secured(port, certificates.path());
        Cluster { certificates, port }
    });
    ROLES
        .get_or_init(async || {
            let mut config = Config::new();
            config.host_path(Postgres::secured(cluster.port, cluster.certificates.path()).dir()).port(cluster.port);
            let (client, connection) =
                config.user("postgres").dbname("postgres").connect(NoTls).await.expect("it is up");
            tokio::spawn(connection);
            let roles = "SET password_encryption = 'scram-sha-256'; \
                CREATE ROLE analyst LOGIN PASSWORD 'a secret'; CREATE ROLE loader LOGIN PASSWORD 'opensesame'; \
                CREATE ROLE everyone LOGIN PASSWORD 'opensesame';";
            client.batch_execute(roles).await.expect("roles are made");
        })
        .await;
    cluster
}

/// A gateway in front of it, which takes nobody in the clear either.
async fn start(credentials: &str, login: &str) -> Served {
    let cluster = cluster().await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new(dir.path());
    authority.issue("gateway", "DNS:localhost");
    let users: String = ["ann", "bob", "eve"].iter().map(|name| line(name, "gateway") + "\n").collect();
    std::fs::write(dir.path().join("users"), users).expect("a file");
    write_secret(&dir.path().join("credentials"), credentials);
    let ca = cluster.certificates.path().join("ca.crt");
    Served::start_in(dir, &configuration(cluster.port, &ca, login))
}

fn configuration(port: u16, ca: &Path, login: &str) -> String {
    format!(
        "auth = \"scram\"\nusers_file = \"users\"\ntls = \"required\"\n\
         [tls]\ncertificate = \"gateway.crt\"\nkey = \"gateway.key\"\n\
         [[cluster]]\nname = \"pg\"\nkind = \"postgres\"\naddress = \"localhost:{port}\"\ndatabase = \"postgres\"\n\
         tls = \"verify-full\"\ntls_ca = {ca:?}\n{login}\n"
    )
}

fn config(served: &Served, user: &str) -> Config {
    let mut config = Config::new();
    config.host("localhost").hostaddr([127, 0, 0, 1].into()).port(served.address.port());
    config.user(user).password("gateway").dbname("demo").ssl_mode(SslMode::Require);
    config
}

async fn connect(served: &Served, user: &str) -> Client {
    let tls = Tls::trusting(&served.dir.path().join("ca.crt"), &[]);
    let (client, connection) = config(served, user).connect(tls).await.expect("it is let in");
    tokio::spawn(connection);
    client
}

/// Who that user is on the cluster and whether that is encrypted, or what is said.
async fn is(client: &Client) -> String {
    let sql = "SELECT current_user || ' ' || ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    match client.query_one(sql, &[]).await {
        Ok(row) => row.get(0),
        Err(error) => {
            let error = error.as_db_error().expect("the gateway says so");
            format!("{} {}", error.code().code(), error.message())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_a_user_is_on_the_cluster_is_said_line_by_line() {
    let served = start("ann analyst \"a secret\"\nbob loader opensesame\n", "credentials_file = \"credentials\"").await;
    served.wait_ready();
    let (ann, bob, eve) = (connect(&served, "ann").await, connect(&served, "bob").await, connect(&served, "eve").await);
    for _ in 0..3 {
        assert_eq!(is(&ann).await, "analyst true");
        assert_eq!(is(&bob).await, "loader true");
        assert_eq!(is(&eve).await, "28000 user \"eve\" may not come to cluster pg");
    }
    // Read again, without a word to the sessions.
    write_secret(&served.dir.path().join("credentials"), "eve analyst \"a secret\"\nbob loader opensesame\n");
    let (status, answer) = served.post("/v1/reload", "");
    let changed = "{\"changed\":[\"cluster \\\"pg\\\".credentials_file\"],\"restart\":[]}";
    assert_eq!((status, answer.as_str()), (200, changed));
    assert_eq!(is(&eve).await, "analyst true");
    assert_eq!(is(&bob).await, "loader true");
    // Connections of his cluster's user lie idle there, and are not for him any more.
    assert_eq!(is(&ann).await, "28000 user \"ann\" may not come to cluster pg");
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    assert!(!log.contains("opensesame") && !log.contains("a secret"), "{log}");
    drop(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_are_not_named_come_as_the_clusters_own_user() {
    let login = "credentials_file = \"credentials\"\nuser = \"everyone\"\npassword_file = \"password\"";
    let dir = tempfile::tempdir().expect("a directory");
    let password = dir.path().join("password");
    write_secret(&password, "opensesame\n");
    let served = start("ann analyst \"a secret\"\n", &login.replace("\"password\"", &format!("{password:?}"))).await;
    served.wait_ready();
    assert_eq!(is(&connect(&served, "ann").await).await, "analyst true");
    assert_eq!(is(&connect(&served, "bob").await).await, "everyone true");
}

#[tokio::test(flavor = "multi_thread")]
async fn much_passes_both_ways_encrypted_and_a_cancel_reaches_the_cluster() {
    let served = start("ann analyst \"a secret\"\n", "credentials_file = \"credentials\"").await;
    served.wait_ready();
    let client = connect(&served, "ann").await;
    let rows =
        client.query("SELECT n, repeat(n::text, 100) FROM generate_series(1, 50000) n", &[]).await.expect("rows");
    let all_right = rows
        .iter()
        .zip(1..)
        .all(|(row, n)| row.get::<_, i32>(0) == n && row.get::<_, String>(1) == n.to_string().repeat(100));
    assert!(rows.len() == 50_000 && all_right);
    let text = "x".repeat(8 << 20);
    let row = client.query_one("SELECT length($1::text), md5($1::text) = md5(repeat('x', 8388608))", &[&text]).await;
    let row = row.expect("a row");
    assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1)), (8 << 20, true));

    let token = client.cancel_token();
    let asking = tokio::spawn(async move { client.simple_query("SELECT pg_sleep(3600)").await });
    while !served.get("/v1/queries").1.contains("\"running\"") {
        tokio::task::yield_now().await;
    }
    let tls = Tls::trusting(&served.dir.path().join("ca.crt"), &[]);
    token.cancel_query(tls).await.expect("a cancel request");
    let error = asking.await.expect("no panic").expect_err("it was cancelled");
    assert_eq!(error.code().map(|code| code.code()), Some("57014"));
}

/// What `punctual check --connect` says of the cluster with that `tls`.
fn check(cluster: &Cluster, host: &str, tls: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    write_secret(&dir.path().join("credentials"), "ann loader opensesame\n");
    let file = dir.path().join("punctual.toml");
    let port = cluster.port;
    let text = format!(
        "[[cluster]]\nname = \"pg\"\nkind = \"postgres\"\naddress = \"{host}:{port}\"\ndatabase = \"postgres\"\n\
         credentials_file = \"credentials\"\n{tls}\n"
    );
    std::fs::write(&file, text).expect("a file");
    let output = punctual().args(["check", "--connect", "-c"]).arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.contains(" be reached") || line.contains("answers"));
    line.unwrap_or(&said).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_encrypted_and_looked_at_as_far_as_is_wanted() {
    let cluster = cluster().await;
    let known = format!("tls_ca = {:?}", cluster.certificates.path().join("ca.crt"));
    for tls in ["", "tls = \"preferred\"", "tls = \"required\"", &format!("tls = \"verify-full\"\n{known}")] {
        assert!(!check(cluster, "localhost", tls).contains("cannot"), "{tls}");
    }
    assert!(!check(cluster, "127.0.0.1", &format!("tls = \"verify-ca\"\n{known}")).contains("cannot"));
    let said = check(cluster, "localhost", "tls = \"off\"");
    assert!(said.contains("no encryption (28000)"), "{said}");
    let said = check(cluster, "127.0.0.1", &format!("tls = \"verify-full\"\n{known}"));
    assert!(said.contains("not valid for name"), "{said}");
}
