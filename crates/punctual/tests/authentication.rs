//! Who comes in: with the right password and no other, of those that are in the file.

mod served;

use std::io::Write;
use std::process::{Command, Stdio};

use served::{SIMULATED, Served, punctual, write_secret};
use tokio_postgres::{Config, NoTls};

/// What to write into the file of users for one.
fn line(name: &str, password: &str) -> String {
    let mut child = punctual();
    child.args(["user", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("the program starts");
    child.stdin.take().expect("its input").write_all(format!("{password}\n").as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

/// A gateway that knows ann and bob.
fn start(more: &str) -> Served {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("users"), line("ann", "opensesame") + &line("bob", "päss wörd")).expect("a file");
    Served::start_in(dir, &configuration(more))
}

fn configuration(more: &str) -> String {
    format!("auth = \"scram\"\nusers_file = \"users\"\n{more}\n{SIMULATED}")
}

fn config(served: &Served, user: &str, password: &str) -> Config {
    let mut config = served.config("test");
    config.user(user).password(password);
    config
}

/// The SQLSTATE of a refusal with its message.
async fn refused(config: &Config) -> (String, String) {
    let error = config.connect(NoTls).await.map(drop).expect_err("it is not let in");
    let error = error.as_db_error().expect("the gateway says so");
    (error.code().code().to_owned(), error.message().to_owned())
}

async fn comes_in(config: &Config) {
    let (client, connection) = config.connect(NoTls).await.expect("it is let in");
    tokio::spawn(connection);
    client.simple_query("SHOW punctual.class").await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_password_comes_in_and_a_wrong_one_is_told_as_much_as_nobody() {
    let served = start("");
    comes_in(&config(&served, "ann", "opensesame")).await;
    comes_in(&config(&served, "bob", "päss wörd")).await;
    let wrong = |user: &str| ("28P01".to_owned(), format!("password authentication failed for user \"{user}\""));
    assert_eq!(refused(&config(&served, "ann", "open")).await, wrong("ann"));
    assert_eq!(refused(&config(&served, "ann", "päss wörd")).await, wrong("ann"));
    assert_eq!(refused(&config(&served, "eve", "opensesame")).await, wrong("eve"));
    // What a class allows is told to those who have come in, and to nobody else.
    let mut options = config(&served, "ann", "open");
    options.options("-c punctual.class=nope");
    assert_eq!(refused(&options).await, wrong("ann"));
    options.password("opensesame");
    assert_eq!(refused(&options).await.0, "22023");
    let (_, metrics) = served.get("/metrics");
    assert!(metrics.contains("punctual_logins_total{outcome=\"accepted\"} 3"), "{metrics}");
    assert!(metrics.contains("punctual_logins_total{outcome=\"failed\"} 4"), "{metrics}");
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains("a log-in failed"), "{log}");
    no_secret_in(dir.path(), &log);
}

/// Neither passwords nor verifiers are anywhere but in the file of users.
fn no_secret_in(dir: &std::path::Path, log: &str) {
    let verifiers = std::fs::read_to_string(dir.join("users")).expect("it is there");
    let mut secrets: Vec<&str> =
        verifiers.lines().filter_map(|line| line.split_once('$')).map(|(_, rest)| rest).collect();
    secrets.extend(["opensesame", "päss wörd"]);
    let mut places = vec![dir.join("state")];
    let mut looked = 0;
    while let Some(place) = places.pop() {
        if place.is_dir() {
            places.extend(std::fs::read_dir(&place).expect("a directory").flatten().map(|entry| entry.path()));
            continue;
        }
        let bytes = std::fs::read(&place).expect("a file");
        looked += 1;
        for secret in &secrets {
            let is_in = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_in, "a secret is in {}", place.display());
        }
    }
    assert!(looked > 0);
    assert!(!secrets.iter().any(|secret| log.contains(secret)), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_comes_in_with_its_password_alone() {
    let served = start("");
    let ask = |user: &str, password: Option<&str>| {
        let mut psql = Command::new("psql");
        psql.args([
            "-X",
            "-w",
            "-At",
            "-h",
            "127.0.0.1",
            "-p",
            &served.address.port().to_string(),
            "-U",
            user,
            "-d",
            "demo",
        ]);
        psql.args(["-c", "SHOW punctual.class"]).env_remove("PGPASSWORD").env("PGPASSFILE", "/nowhere");
        if let Some(password) = password {
            psql.env("PGPASSWORD", password);
        }
        let output = psql.output().expect("these tests need psql: apt-get install -y postgresql-client");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(ask("ann", Some("opensesame")), (true, String::new()));
    let (_, said) = ask("ann", Some("open"));
    assert!(said.contains("FATAL:  password authentication failed for user \"ann\""), "{said}");
    let (_, said) = ask("eve", Some("opensesame"));
    assert!(said.contains("FATAL:  password authentication failed for user \"eve\""), "{said}");
    assert!(ask("ann", None).1.contains("no password supplied"));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_come_and_go_by_a_reload_and_sessions_stay() {
    let served = start("");
    let (client, connection) = config(&served, "ann", "opensesame").connect(NoTls).await.expect("it is let in");
    tokio::spawn(connection);
    std::fs::write(served.dir.path().join("users"), line("carl", "changed")).expect("a file");
    let (status, answer) = served.post("/v1/reload", "");
    assert_eq!((status, answer.as_str()), (200, "{\"changed\":[\"gateway.users_file\"],\"restart\":[]}"));
    assert_eq!(refused(&config(&served, "ann", "opensesame")).await.0, "28P01");
    comes_in(&config(&served, "carl", "changed")).await;
    client.simple_query("SHOW punctual.class").await.expect("the session is there");

    // A bad line changes nothing, and is named without its secret.
    std::fs::write(served.dir.path().join("users"), "ann:hunter2\n").expect("a file");
    let (status, answer) = served.post("/v1/reload", "");
    assert_eq!(status, 400);
    assert!(answer.contains("users:1: a password does not belong here") && !answer.contains("hunter2"), "{answer}");
    comes_in(&config(&served, "carl", "changed")).await;

    // Whether anybody is asked at all is settled at the start.
    served.configure(SIMULATED);
    let (_, answer) = served.post("/v1/reload", "");
    assert!(answer.contains("\"restart\":[\"gateway.auth\"]"), "{answer}");
    assert_eq!(refused(&config(&served, "ann", "opensesame")).await.0, "28P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_too_many_failures_not_even_the_right_password_is_looked_at() {
    let served = start("failed_logins = 3");
    for _ in 0..3 {
        comes_in(&config(&served, "ann", "opensesame")).await;
        assert_eq!(refused(&config(&served, "ann", "open")).await.0, "28P01");
    }
    let error = config(&served, "ann", "opensesame").connect(NoTls).await.map(drop).expect_err("it is barred");
    let error = error.as_db_error().expect("the gateway says so");
    assert_eq!((error.code().code(), error.message()), ("28000", "too many log-ins from this address have failed"));
    assert!(error.hint().is_some_and(|hint| hint.starts_with("Try again in about ")), "{error:?}");
    assert!(served.get("/metrics").1.contains("punctual_logins_total{outcome=\"barred\"} 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_see_what_others_run() {
    let served = start("admins = [\"bob\"]");
    served.wait_ready();
    let connect = async |user: &str, password: &str| {
        let (client, connection) = config(&served, user, password).connect(NoTls).await.expect("it is let in");
        tokio::spawn(connection);
        client
    };
    let running = connect("ann", "opensesame").await;
    let query =
        tokio::spawn(async move { running.simple_query("SELECT 'mine' FROM t /* punctual: work=3600s */").await });
    let (bob, other) = (connect("bob", "päss wörd").await, connect("ann", "opensesame").await);
    let seen = async |client: &tokio_postgres::Client| {
        let rows =
            client.query("SELECT sql FROM punctual.queries WHERE user = 'ann' AND class <> 'control'", &[]).await;
        rows.expect("an answer").iter().filter_map(|row| row.get::<_, Option<String>>(0)).collect::<Vec<_>>()
    };
    while seen(&bob).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(seen(&bob).await.len(), 1);
    assert_eq!(seen(&other).await.len(), 1, "its own");
    drop(query);
    std::fs::write(served.dir.path().join("users"), line("bob", "päss wörd") + &line("eve", "hello")).expect("a file");
    assert_eq!(served.post("/v1/reload", "").0, 200);
    assert!(seen(&connect("eve", "hello").await).await.is_empty());
}

/// The whole answer to a request.
fn ask(served: &Served, path: &str, more: &str) -> String {
    send(served, &format!("GET {path} HTTP/1.1\r\nHost: gateway.example.org\r\n{more}Connection: close\r\n\r\n"))
}

/// The whole answer to a query.
fn run(served: &Served, user: &str, more: &str) -> String {
    let body = format!("{{\"sql\": \"SELECT * FROM t /* punctual: work=1ms */\", \"user\": \"{user}\"}}");
    let (host, length) = (served.http, body.len());
    send(
        served,
        &format!(
            "POST /v1/query HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    )
}

fn send(served: &Served, request: &str) -> String {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", served.http.port())).expect("HTTP accepts");
    stream.write_all(request.as_bytes()).expect("a request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_query_by_http_is_of_a_user_that_a_token_names_and_of_no_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tokens = "only-for-metrics-and-lists\nonly-for-queries-of-looker looker\nfor-queries-of-whoever-it-is *\n";
    write_secret(&dir.path().join("tokens"), tokens);
    let served = Served::start_in(dir, &format!("http_tokens_file = \"tokens\"\n{SIMULATED}"));
    while !ask(&served, "/readyz", "").starts_with("HTTP/1.1 200") {
        std::thread::yield_now();
    }
    let with = |token: &str, user: &str| {
        let answer = run(&served, user, &format!("Authorization: Bearer {token}\r\n"));
        answer.split(' ').nth(1).map(str::to_owned)
    };
    for (token, user, status) in [
        ("only-for-queries-of-looker", "looker", "200"),
        ("only-for-queries-of-looker", "ann", "403"),
        ("only-for-metrics-and-lists", "looker", "403"),
        ("for-queries-of-whoever-it-is", "ann", "200"),
        ("for-queries-of-nobody-at-all", "ann", "401"),
    ] {
        assert_eq!(with(token, user).as_deref(), Some(status), "{token} {user}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_password_is_asked_for_http_is_no_way_around_it() {
    let served = start("");
    served.wait_ready();
    let answer = run(&served, "ann", "");
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("queries need a token"), "{answer}");
    assert_eq!(served.get("/v1/clusters").0, 200);
}

#[test]
fn off_loopback_each_request_shows_a_token() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    write_secret(&dir.path().join("tokens"), "0123456789abcdef01234567\n");
    let file = |more: &str| format!("http_tokens_file = \"tokens\"\n{more}{SIMULATED}");
    let served = Served::start_in_with_http(dir, "0.0.0.0:0", &file(""));
    let right = "Authorization: Bearer 0123456789abcdef01234567\r\n";
    assert!(ask(&served, "/v1/clusters", right).starts_with("HTTP/1.1 200"));
    assert!(ask(&served, "/metrics", &right.replace("Bearer", "bearer")).starts_with("HTTP/1.1 200"));
    for wrong in ["", &right.replace("67", "68"), &right.replace("Bearer", "Basic"), "Authorization: Bearer\r\n"] {
        for path in ["/metrics", "/v1/queries", "/v1/reload", "/nowhere"] {
            let answer = ask(&served, path, wrong);
            assert!(
                answer.starts_with("HTTP/1.1 401")
                    && answer.contains("www-authenticate: Bearer realm=\"punctual\"\r\n"),
                "{answer}"
            );
        }
        assert!(ask(&served, "/healthz", wrong).starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_that_connect_and_say_nothing_keep_nobody_out() {
    use tokio::io::AsyncReadExt;
    let served = start("");
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(served.address).await.expect("it listens"));
    }
    comes_in(&config(&served, "ann", "opensesame")).await;
    // The first made room.
    let _ = silent[0].read(&mut [0]).await;
    comes_in(&config(&served, "bob", "päss wörd")).await;
}
