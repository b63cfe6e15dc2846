//! `POST /v1/query`: rows of a real Postgres as JSON lines and as Arrow; refusals, cancels, errors.

#[path = "common/postgres.rs"]
mod postgres;
mod served;

use std::io::{Read, Write};
use std::net::TcpStream;

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use arrow::ipc::reader::StreamReader;
use postgres::Postgres;
use punctual::settings::Address;
use serde_json::{Value, json};
use served::{SIMULATED, Served, joined};

/// A gateway before Postgres, with a class of which none may run or wait.
fn before_postgres() -> Served {
    let Address::Unix(socket) = Postgres::shared().endpoint().address else { panic!("it has a socket") };
    let configuration = format!(
        "[[class]]\nname = \"none\"\nmax_running = 0\nmax_queued = 0\n\
         [[cluster]]\nname = \"p\"\nkind = \"postgres\"\naddress = \"unix:{}\"\ndatabase = \"postgres\"\nslots = 4\n",
        socket.display()
    );
    let served = Served::start(&configuration);
    served.wait_ready();
    served
}

/// Status and lines of the answer to a query.
fn ask(served: &Served, sql: &str, more: &Value) -> (u16, Vec<String>) {
    let mut body = json!({ "sql": sql, "user": "ann" });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let (status, _, body) = send(served, "POST /v1/query", "", &body.to_string());
    (status, String::from_utf8(body).expect("UTF-8").lines().map(str::to_owned).collect())
}

/// Status, head and body.
fn send(served: &Served, what: &str, headers: &str, body: &str) -> (u16, String, Vec<u8>) {
    let mut stream = begin(served, what, headers, body);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..at].to_vec()).expect("UTF-8").to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = &answer[at + 4..];
    (status, head.clone(), if head.contains("chunked") { joined(body) } else { body.to_vec() })
}

fn begin(served: &Served, what: &str, headers: &str, body: &str) -> TcpStream {
    let (host, length) = (served.http, body.len());
    let mut stream = TcpStream::connect(host).expect("HTTP accepts");
    let head =
        format!("{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).expect("a request is sent");
    stream
}

/// The ids of what waits or runs, with the class of each.
fn queries(served: &Served) -> Vec<(u64, String)> {
    let listed: Value = serde_json::from_str(&served.get("/v1/queries").1).expect("JSON");
    let one = |query: &Value| {
        (
            query["query_id"].as_str().expect("an id").parse().expect("a number"),
            query["class"].as_str().expect("a class").into(),
        )
    };
    listed["queries"].as_array().expect("a list").iter().map(one).collect()
}

#[test]
fn rows_come_as_lines_and_what_goes_wrong_as_an_error() {
    let served = before_postgres();
    let sql =
        "select 1 as n, 'it''s' as s, true as b, null as x, 1.50::numeric(4,2), '{\"a\":1}'::jsonb as j, 'NaN'::float8";
    let (status, lines) = ask(&served, sql, &json!({}));
    assert_eq!(status, 200, "{lines:?}");
    let columns: Value = serde_json::from_str(&lines[0]).expect("JSON");
    let types: Vec<&str> =
        columns["columns"].as_array().expect("columns").iter().map(|column| column["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["int4", "text", "bool", "text", "numeric", "jsonb", "float8"]);
    assert_eq!(lines[1..], [r#"[1,"it's",true,null,1.50,{"a": 1},"NaN"]"#, r#"{"command":"SELECT 1"}"#]);

    let several = "create temp table t (a int); insert into t values (1), (2); select a from t order by a";
    let (status, lines) = ask(&served, several, &json!({ "database": "postgres", "application": "curl" }));
    let commands: Vec<&String> = lines.iter().filter(|line| line.starts_with("{\"command\"")).collect();
    assert_eq!(
        (status, commands.len(), &lines[3..5]),
        (200, 3, &["[1]".to_owned(), "[2]".to_owned()][..]),
        "{lines:?}"
    );
    assert_eq!(ask(&served, "", &json!({})), (200, vec![r#"{"command":""}"#.to_owned()]));
    let (status, lines) = ask(&served, "show punctual.class", &json!({ "class": "none" }));
    assert_eq!((status, lines[1].as_str()), (200, "[\"none\"]"), "the gateway answers for itself");

    for (sql, more, status, says) in [
        ("selec", json!({}), 400, r#""sqlstate":"42601""#),
        ("select 1/0", json!({}), 400, r#""sqlstate":"22012""#),
        ("copy (select 1) to stdout", json!({}), 400, "use a SELECT"),
        ("select 1", json!({ "class": "nun" }), 400, "there is no class"),
        ("select 1", json!({ "user": "" }), 403, "no PostgreSQL user name"),
        ("select 1", json!({ "slo": "soon" }), 400, "soon"),
        ("select 1\0", json!({}), 400, "code zero"),
        ("select 1", json!({ "usr": "ann" }), 400, "unknown field `usr`"),
    ] {
        let (found, lines) = ask(&served, sql, &more);
        assert!(found == status && lines[0].contains(says), "{sql} {more}: {found} {lines:?}");
    }
    let (status, lines) = ask(&served, "create temp table c (a int); copy c from stdin", &json!({}));
    assert!(status == 200 && lines[1].contains("nothing can be copied in"), "{lines:?}");
    let (status, lines) = ask(&served, "select 1 / (2 - g) from generate_series(1, 3) g", &json!({}));
    let failed: Value = serde_json::from_str(&lines[2]).expect("JSON");
    assert_eq!((status, lines[1].as_str(), &failed["sqlstate"]), (200, "[1]", &json!("22012")));
}

#[test]
fn what_is_refused_says_when_to_come_again() {
    let served = before_postgres();
    let body = json!({ "sql": "select g from generate_series(1, 3) g", "user": "ann", "class": "none" }).to_string();
    let (status, head, body) = send(&served, "POST /v1/query", "", &body);
    let said: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((status, &said["sqlstate"]), (429, &json!("53300")), "{said}");
    assert!(head.contains("retry-after: 1"), "{head}");
    assert!(said["hint"].as_str().is_some_and(|hint| hint.contains("max_queued of its class")), "{said}");
}

#[test]
fn a_query_ends_when_its_client_closes_and_when_it_is_cancelled() {
    let served = before_postgres();
    let body = |sql: &str| json!({ "sql": sql, "user": "ann" }).to_string();
    let stream = begin(&served, "POST /v1/query", "", &body("select pg_sleep(1000), 'closed by its client'"));
    while queries(&served).is_empty() {
        std::thread::yield_now();
    }
    drop(stream);
    while !queries(&served).is_empty() {
        std::thread::yield_now();
    }
    let other = std::thread::scope(|scope| {
        let other = scope.spawn(|| ask(&served, "select pg_sleep(1000)", &json!({})));
        let id = loop {
            if let Some((id, _)) = queries(&served).first() {
                break *id;
            }
            std::thread::yield_now();
        };
        let (status, _, body) = send(&served, &format!("DELETE /v1/queries/{id}"), "", "");
        assert_eq!((status, body), (202, json!({ "cancelled": id.to_string() }).to_string().into_bytes()));
        other.join().expect("an answer")
    });
    assert!(other.0 == 409 && other.1[0].contains("57014"), "{other:?}");
    assert_eq!(send(&served, "DELETE /v1/queries/1", "", "").0, 404);
    assert_eq!(send(&served, "DELETE /v1/queries/x", "", "").0, 400);
    assert_eq!((served.get("/v1/query").0, served.get("/v1/queries/1").0), (405, 405));
    let left = "select count(*) from pg_stat_activity where query like '%closed by%' and state = 'active' and pid <> pg_backend_pid()";
    while ask(&served, left, &json!({})).1[1] != "[0]" {
        std::thread::yield_now();
    }
}

#[test]
fn arrow_is_sent_to_who_accepts_it_and_breaks_off_where_it_cannot_go_on() {
    let served = before_postgres();
    let ask = |sql: &str| {
        let body = json!({ "sql": sql, "user": "ann" }).to_string();
        send(&served, "POST /v1/query", "Accept: application/vnd.apache.arrow.stream\r\n", &body)
    };
    let (status, head, body) =
        ask("select g::int4 as n, g::text as s, date '2026-01-01' + g::int4 as d from generate_series(1, 20000) g");
    assert!(status == 200 && head.contains("application/vnd.apache.arrow.stream"), "{head}");
    let batches: Vec<_> = StreamReader::try_new(&*body, None).unwrap().collect::<Result<_, _>>().unwrap();
    let sum: i64 = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values())
        .map(|n| i64::from(*n))
        .sum();
    assert_eq!((batches.len(), sum), (3, 200_010_000));
    let (status, _, body) = ask("select date 'infinity'");
    assert!(
        status == 406 && String::from_utf8_lossy(&body).contains("as Date32"),
        "{}",
        String::from_utf8_lossy(&body)
    );
    assert_eq!(ask("select 1/0").0, 400);
    let (status, _, body) = ask("select 1; select 2");
    assert!(status == 406 && String::from_utf8_lossy(&body).contains("send one statement"), "{status}");
    assert_eq!(ask("select 1; select 1/0").0, 400);
    let body = json!({ "sql": "select 1 / (20000 - g) from generate_series(1, 20000) g", "user": "ann" }).to_string();
    let mut broken = Vec::new();
    let mut stream = begin(&served, "POST /v1/query", "Accept: application/vnd.apache.arrow.stream\r\n", &body);
    let _ = stream.read_to_end(&mut broken);
    assert!(broken.starts_with(b"HTTP/1.1 200") && !broken.ends_with(b"0\r\n\r\n"), "it is not whole");
}

#[test]
fn queries_that_wait_leave_places_for_health_checks() {
    // Each takes as long as it is told: nothing ends.
    let served = Served::start(SIMULATED);
    served.wait_ready();
    let body = json!({ "sql": "SELECT * FROM t /* punctual: work=1000s */", "user": "ann" }).to_string();
    let streams: Vec<TcpStream> = (0..48).map(|_| begin(&served, "POST /v1/query", "", &body)).collect();
    while queries(&served).len() < 48 {
        std::thread::yield_now();
    }
    let (status, head, _) = send(&served, "POST /v1/query", "", &body);
    assert!(status == 429 && head.contains("retry-after"), "{head}");
    assert_eq!(served.get("/healthz").0, 200);
    drop(streams);
    while !queries(&served).is_empty() {
        std::thread::yield_now();
    }
}
