//! Clients that are encrypted, that are not, and that only think that they are.

mod certificates;
mod served;

use std::process::{Command, Stdio};

use certificates::{Authority, Tls};
use punctual::auth::users::line;
use served::{SIMULATED, Served};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::{Config, NoTls};

/// A gateway that calls itself localhost.
fn start(tls: &str) -> (Served, Authority) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new(dir.path());
    authority.issue("gateway", "DNS:localhost");
    std::fs::write(dir.path().join("users"), line("ann", "opensesame")).expect("a file");
    (Served::start_in(dir, &configuration(tls)), authority)
}

fn configuration(tls: &str) -> String {
    format!(
        "tls = {tls:?}\nauth = \"scram\"\nusers_file = \"users\"\n\
         [tls]\ncertificate = \"gateway.crt\"\nkey = \"gateway.key\"\n{SIMULATED}"
    )
}

fn config(served: &Served) -> Config {
    let mut config = Config::new();
    config.host("localhost").hostaddr([127, 0, 0, 1].into()).port(served.address.port());
    config.user("ann").password("opensesame").dbname("demo").ssl_mode(SslMode::Require);
    config
}

/// Standard error of psql, which is empty if all went well.
fn psql(served: &Served, more: &str) -> String {
    let mut psql = Command::new("psql");
    let at = format!("host=localhost hostaddr=127.0.0.1 port={} user=ann dbname=demo {more}", served.address.port());
    psql.args(["-X", "-w", "-At", "-c", "SHOW punctual.class", &at]).env("PGPASSWORD", "opensesame");
    let output = psql.output().expect("these tests need psql: apt-get install -y postgresql-client");
    assert_eq!(output.status.success(), output.stderr.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_verifies_the_gateway_and_binds_its_proof_to_the_certificate() {
    let (served, authority) = start("allowed");
    let trusted = format!("sslrootcert={}", authority.certificate().display());
    assert_eq!(psql(&served, "sslmode=disable"), "");
    assert_eq!(psql(&served, "sslmode=require channel_binding=require"), "");
    assert_eq!(psql(&served, &format!("sslmode=verify-full {trusted} channel_binding=require")), "");
    assert_eq!(psql(&served, &format!("sslmode=verify-full {trusted} ssl_max_protocol_version=TLSv1.2")), "");
    let other = tempfile::tempdir().expect("a directory");
    let stranger = Authority::new(other.path());
    let said = psql(&served, &format!("sslmode=verify-ca sslrootcert={}", stranger.certificate().display()));
    assert!(said.contains("certificate verify failed"), "{said}");
    let said = psql(&served, &format!("sslmode=verify-full {trusted} host=elsewhere"));
    assert!(said.contains("does not match host name"), "{said}");
    let said = psql(&served, "sslmode=disable channel_binding=require");
    assert!(said.contains("channel binding required"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_encryption_is_required_nobody_else_comes_in() {
    let (served, _) = start("required");
    let said = psql(&served, "sslmode=disable");
    assert!(said.contains("FATAL:  connections to this gateway have to be encrypted"), "{said}");
    assert!(said.contains("HINT:  Connect with sslmode=require"), "{said}");
    assert_eq!(psql(&served, "sslmode=prefer"), "");
    let error =
        config(&served).ssl_mode(SslMode::Disable).connect(NoTls).await.map(drop).expect_err("it is turned away");
    assert_eq!(error.code().map(|code| code.code()), Some("28000"));
}

const PSYCOPG: &str = r#"
import sys, psycopg
at = dict(host="localhost", hostaddr="127.0.0.1", port=int(sys.argv[1]), user="ann", password="opensesame",
          dbname="demo", sslmode="verify-full", sslrootcert=sys.argv[2], channel_binding="require")
with psycopg.connect(**at, autocommit=True) as conn:
    print(conn.execute("select count(*) from punctual.clusters").fetchone()[0], conn.pgconn.ssl_in_use)
try:
    psycopg.connect(**(at | dict(password="open")))
except psycopg.OperationalError as error:
    print("password authentication failed" in str(error))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn psycopg_verifies_the_gateway() {
    let (served, authority) = start("required");
    let python = std::env::var_os("PUNCTUAL_TEST_PYTHON").expect("PUNCTUAL_TEST_PYTHON is set by cargo xtask test");
    let output = Command::new(python)
        .args(["-c", PSYCOPG, &served.address.port().to_string()])
        .arg(authority.certificate())
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "2 True\nTrue\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_cancelled_by_a_request_that_is_encrypted_and_by_one_that_is_not() {
    let (served, authority) = start("required");
    served.wait_ready();
    let is_running = async || {
        while !served.get("/v1/queries").1.contains("\"running\"") {
            tokio::task::yield_now().await;
        }
    };
    let tls = Tls::trusting(&authority.certificate(), &[]);
    let mut config = config(&served);
    let (client, connection) =
        config.channel_binding(ChannelBinding::Require).connect(tls.clone()).await.expect("it is let in");
    tokio::spawn(connection);
    let token = client.cancel_token();
    let running = tokio::spawn(async move { client.simple_query("SELECT * FROM t /* punctual: work=3600s */").await });
    is_running().await;
    token.cancel_query(tls).await.expect("a cancel request");
    let error = running.await.expect("no panic").expect_err("it was cancelled");
    assert_eq!(error.code().map(|code| code.code()), Some("57014"));

    // As older clients do, psql sends it as it is, over a connection of its own.
    let at = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=ann dbname=demo sslmode=require",
        served.address.port()
    );
    let mut psql = Command::new("psql");
    psql.args(["-X", "-w", "-c", "SELECT * FROM t /* punctual: work=3600s */", &at]).env("PGPASSWORD", "opensesame");
    let psql =
        psql.stderr(Stdio::piped()).spawn().expect("these tests need psql: apt-get install -y postgresql-client");
    is_running().await;
    let pid = rustix::process::Pid::from_raw(psql.id().cast_signed()).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal is sent");
    let output = psql.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("canceling statement due to user request"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_cancel_request_is_seen_off_with_a_goodbye() {
    let (served, authority) = start("required");
    let stream = TcpStream::connect(served.address).await.expect("it listens");
    let tls = Tls::trusting(&authority.certificate(), &[b"postgresql"]);
    let mut stream = tls.direct(stream).await.expect("a handshake");
    // Of nobody's query; as libpq 17 sends it, which takes an end without a goodbye for a failure.
    let request = [16i32, 80_877_102, 1, 2].map(i32::to_be_bytes).concat();
    stream.write_all(&request).await.expect("it is sent");
    assert_eq!(stream.read(&mut [0]).await.expect("an end, not a break"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_before_the_handshake_is_not_taken_for_what_is_said_after_it() {
    let (served, _) = start("allowed");
    let mut stream = TcpStream::connect(served.address).await.expect("it listens");
    let request = [8i32, 80_877_103].map(i32::to_be_bytes).concat();
    let injected = [&request[..], b"\0\0\0\x13\0\x03\0\0user\0eve\0\0\0"].concat();
    stream.write_all(&injected).await.expect("it is sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let said = String::from_utf8_lossy(&answer);
    assert!(said.starts_with('E') && said.contains("received unencrypted data after SSL request"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_begin_with_the_handshake_if_it_says_what_it_speaks() {
    let (served, authority) = start("required");
    let hello = b"\0\0\0\x1d\0\x03\0\0user\0ann\0database\0d\0\0";
    let ask = async |protocols: &[&[u8]]| {
        let stream = TcpStream::connect(served.address).await.expect("it listens");
        let tls = Tls::trusting(&authority.certificate(), protocols);
        let mut answer = [0; 1];
        let mut stream = tls.direct(stream).await.ok()?;
        stream.write_all(hello).await.ok()?;
        stream.flush().await.ok()?;
        stream.read_exact(&mut answer).await.ok().map(|_| answer[0])
    };
    assert_eq!(ask(&[b"postgresql"]).await, Some(b'R'));
    assert_eq!(ask(&[]).await, None);
    assert_eq!(ask(&[b"http/1.1"]).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_shown_after_a_reload_and_a_bad_one_is_not() {
    let (served, authority) = start("required");
    let tls = Tls::trusting(&authority.certificate(), &[]);
    let comes_in = async || config(&served).connect(tls.clone()).await.map(drop).is_ok();
    assert!(comes_in().await);
    // One for another name is not believed any more.
    authority.issue("gateway", "DNS:elsewhere");
    let (status, answer) = served.post("/v1/reload", "");
    assert_eq!((status, answer.as_str()), (200, "{\"changed\":[\"tls\"],\"restart\":[]}"));
    assert!(!comes_in().await);
    authority.issue("gateway", "DNS:localhost");
    assert_eq!(served.post("/v1/reload", "").0, 200);
    assert!(comes_in().await);
    std::fs::copy(served.dir.path().join("ca.key"), served.dir.path().join("gateway.key")).expect("a copy");
    let (status, answer) = served.post("/v1/reload", "");
    assert_eq!(status, 400);
    assert!(answer.contains("tls.key: the key is not that of the certificate"), "{answer}");
    assert!(comes_in().await);
}
