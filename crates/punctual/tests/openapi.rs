//! `/openapi.json` is true: what a live gateway answers is what it says there, and all that it says there is answered.

#[path = "common/postgres.rs"]
mod postgres;
mod schema;
mod served;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use postgres::Postgres;
use punctual::settings::Address;
use serde_json::{Value, json};
use served::{Served, joined, write_secret};

/// The methods that HTTP knows, but for HEAD, which is answered wherever GET is.
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// An answer.
struct Answer {
    status: u16,
    media: String,
    retry_after: Option<String>,
    body: Vec<u8>,
}

/// A gateway, and what its document says.
struct Held {
    served: Served,
    document: Value,
    /// What has been answered: path, method and status.
    seen: RefCell<BTreeSet<(String, String, String)>>,
}

impl Held {
    fn of(served: Served, headers: &str) -> Held {
        let answer = send(&served, "GET /openapi.json", headers, "");
        assert_eq!((answer.status, answer.media.as_str()), (200, "application/json"));
        Held { served, document: serde_json::from_slice(&answer.body).expect("JSON"), seen: RefCell::default() }
    }

    /// The operations: path and method, in capitals.
    fn operations(&self) -> Vec<(String, String)> {
        let paths = self.document["paths"].as_object().expect("paths");
        let each = |(path, methods): (&String, &Value)| {
            let methods: Vec<String> = methods.as_object().expect("methods").keys().cloned().collect();
            methods.into_iter().map(|method| (path.clone(), method.to_uppercase())).collect::<Vec<_>>()
        };
        paths.iter().flat_map(each).collect()
    }

    /// Asks, and holds the answer to what is said of it.
    fn ask(&self, method: &str, path: &str, at: &str, headers: &str, body: &str) -> Answer {
        let answer = send(&self.served, &format!("{method} {at}"), headers, body);
        let said = &self.document["paths"][path][method.to_lowercase()];
        assert!(said.is_object(), "nothing is said of {method} {path}");
        let status = answer.status.to_string();
        let said = &said["responses"][&status];
        let shown = String::from_utf8_lossy(&answer.body);
        assert!(said.is_object(), "{method} {at}: nothing is said of {status}: {shown}");
        let schema = &said["content"][&answer.media]["schema"];
        assert!(schema.is_object(), "{method} {at}: {status} is not said to be {}: {shown}", answer.media);
        let wants_more = said["headers"]["Retry-After"].is_object();
        assert_eq!(answer.retry_after.is_some(), wants_more, "{method} {at}: {status}");
        let wrong = match answer.media.as_str() {
            "application/json" => {
                let value: Value = serde_json::from_slice(&answer.body).expect("JSON");
                schema::wrong(&self.document, schema, &value)
            }
            "application/x-ndjson" => {
                let line = |line: &str| {
                    let value: Value = serde_json::from_str(line).expect("JSON");
                    schema::wrong(&self.document, &schema["x-lines"], &value)
                };
                shown.lines().find_map(line)
            }
            _ => None,
        };
        assert_eq!(wrong, None, "{method} {at} {body}");
        self.seen.borrow_mut().insert((path.to_owned(), method.to_owned(), status));
        answer
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, path, "", "")
    }

    /// Posts a body, which has to be of the schema that is said unless the answer is 400.
    fn post(&self, path: &str, headers: &str, body: &Value) -> Answer {
        let answer = self.ask("POST", path, path, headers, &body.to_string());
        let schema = &self.document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let wrong = schema::wrong(&self.document, schema, body);
        assert!(wrong.is_none() || answer.status == 400, "{path} takes what it says it does not: {wrong:?}");
        answer
    }

    fn query(&self, sql: &str, more: Value) -> Answer {
        let mut body = json!({ "sql": sql, "user": "ann" });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self.post("/v1/query", "", &body)
    }
}

/// The id of the query that sleeps, and is not the one before it. (A query is listed until its session has reported its end, which its
/// client may have seen before that.)
fn running(served: &Served, before: &str) -> String {
    loop {
        let listed: Value = serde_json::from_slice(&send(served, "GET /v1/queries", "", "").body).expect("JSON");
        let queries = listed["queries"].as_array().expect("a list");
        let sleeping = queries.iter().filter(|query| query["shape"] == "select pg_sleep ( ? )");
        let mut ids = sleeping.filter_map(|query| query["query_id"].as_str());
        if let Some(id) = ids.find(|id| *id != before) {
            return id.to_owned();
        }
        std::thread::yield_now();
    }
}

/// What is answered to a request.
fn send(served: &Served, what: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(served.http).expect("HTTP accepts");
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", served.http) };
    let length = body.len();
    let head = format!("{what} HTTP/1.1\r\n{host}Connection: close\r\n{headers}Content-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).expect("a request is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..at].to_vec()).expect("UTF-8");
    let header = |name: &str| {
        let mut pairs = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        pairs.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = &answer[at + 4..];
    let body = if header("transfer-encoding").is_some() { joined(body) } else { body.to_vec() };
    Answer { status, media: header("content-type").unwrap_or_default(), retry_after: header("retry-after"), body }
}

/// A gateway before Postgres, with a class of which none may run or wait, a table with a column of time, and a cluster that is not
/// there.
fn before_postgres() -> Held {
    let Address::Unix(socket) = Postgres::shared().endpoint().address else { panic!("it has a socket") };
    let configuration = format!(
        "[plan]\nmode = \"shadow\"\n[[class]]\nname = \"none\"\nmax_running = 0\nmax_queued = 0\n\
         [[table]]\nname = \"t\"\ntime_column = \"at\"\n\
         [[cluster]]\nname = \"p\"\nkind = \"postgres\"\naddress = \"unix:{}\"\ndatabase = \"postgres\"\nslots = 1\n",
        socket.display()
    );
    let served = Served::start(&configuration);
    served.wait_ready();
    Held::of(served, "")
}

#[test]
fn every_answer_is_of_the_schema_that_is_said_of_it() {
    let held = before_postgres();
    held.get("/openapi.json");
    held.get("/metrics");
    held.get("/healthz");
    held.get("/readyz");
    queries(&held);
    lists(&held);
    explanations(&held);
    changes(&held);
    plans(&held);
    for (path, method) in held.operations() {
        let at = path.replace("{id}", "1");
        held.ask(&method, &path, &at, "Host: example.org\r\n", "");
        if method != "GET" {
            held.ask(&method, &path, &at, "", &" ".repeat((1 << 20) + 1));
        }
    }
    // What is left needs a gateway that ends, fails, has no file or asks for tokens.
    let seen = held.seen.borrow();
    for (path, method) in held.operations() {
        let said = held.document["paths"][&path][method.to_lowercase()]["responses"].as_object().expect("answers");
        for status in said.keys() {
            let (at, status) = ((path.clone(), method.clone(), status.clone()), status.as_str());
            let is_left = matches!(status, "401" | "500" | "503")
                || (status, path.as_str()) == ("409", "/v1/reload")
                || (status == "413" && method == "GET");
            assert!(is_left || seen.contains(&at), "{at:?} is said and was never answered");
        }
    }
}

fn queries(held: &Held) {
    let whole = "select 1 as n, 'x' as s, null as x, true, 1.5::numeric, '{}'::jsonb, array[1, 2]";
    assert_eq!(held.query(whole, json!({ "database": "postgres", "application": "test" })).status, 200);
    assert_eq!(held.query("select 1 / (2 - g) from generate_series(1, 3) g", json!({})).status, 200);
    assert_eq!(held.query("", json!({ "class": "default", "slo": "2s", "priority": 1 })).status, 200);
    assert_eq!(held.query("selec", json!({})).status, 400);
    assert_eq!(held.query("select 1", json!({ "usr": "ann" })).status, 400);
    assert_eq!(held.query("select 1", json!({ "user": "" })).status, 403);
    assert_eq!(held.query("select g from generate_series(1, 3) g", json!({ "class": "none" })).status, 429);
    let arrow = "Accept: application/vnd.apache.arrow.stream\r\n";
    let rows = |sql: &str| held.post("/v1/query", arrow, &json!({ "sql": sql, "user": "ann" }));
    assert_eq!(rows("select 1").media, "application/vnd.apache.arrow.stream");
    assert_eq!(rows("select date 'infinity'").status, 406);
}

fn lists(held: &Held) {
    let lists: Vec<String> = held.operations().into_iter().map(|(path, _)| path).collect();
    let lists = lists.iter().filter(|path| path.starts_with("/v1/") && held.document["paths"][path]["get"].is_object());
    let cancelled = std::thread::scope(|scope| {
        let served = &held.served;
        let ended = scope.spawn(move || send(served, "POST /v1/query", "", SLEEP).status);
        let running = running(served, "");
        for path in lists {
            held.get(path);
            held.ask("GET", path, &format!("{path}?limit=1"), "", "");
            held.ask("GET", path, &format!("{path}?limit=many"), "", "");
        }
        // While the only slot is taken, another would wait.
        let waits = held.post("/v1/explain", "", &json!({ "sql": "select * from t" }));
        assert!(String::from_utf8_lossy(&waits.body).contains("\"wait\""));
        let path = "/v1/queries/{id}";
        assert_eq!(held.ask("DELETE", path, &format!("/v1/queries/{running}"), "", "").status, 202);
        assert_eq!(ended.join().expect("an answer"), 409);
        running
    });
    std::thread::scope(|scope| {
        let served = &held.served;
        scope.spawn(move || send(served, &format!("DELETE /v1/queries/{}", running(served, &cancelled)), "", ""));
        assert_eq!(held.query("select pg_sleep(1000)", json!({})).status, 409);
    });
}

const SLEEP: &str = r#"{"sql": "select pg_sleep(1000)", "user": "ann"}"#;

fn explanations(held: &Held) {
    let explain = |body: Value| held.post("/v1/explain", "", &body).status;
    let from = json!({ "sql": "select * from t where at > now() - interval '1 day'", "user": "ann", "database": "d",
        "application": "a", "client": "local", "class": "default", "slo": "2s", "priority": 3 });
    assert_eq!(explain(from), 200);
    assert_eq!(explain(json!({ "sql": "select * from t", "class": "none" })), 200);
    assert_eq!(explain(json!({ "sql": "show punctual.slo" })), 200);
    assert_eq!(explain(json!({ "sql": "select 1", "class": "nope" })), 400);
    assert_eq!(explain(json!({ "user": "ann" })), 400);
}

fn plans(held: &Held) {
    let knobs = json!({ "lifetime": 1, "idle": 1, "observations": 1, "window": 1, "completions": 1, "late_share": 0.1,
        "counting": "Expected" });
    let adopt = |made_for: u64| {
        let plan =
            json!({ "from": 0, "until": 1u64 << 60, "fleet": [], "spinups": [], "knobs": knobs, "made_for": made_for });
        held.post("/v1/plan", "", &json!({ "format": 1, "plan": plan, "evidence": {} }))
    };
    let refused = adopt(1);
    assert_eq!(refused.status, 409);
    // It says what it should have been made for.
    let said = String::from_utf8(refused.body).expect("UTF-8");
    let ground = said.split("not ").nth(1).and_then(|rest| rest.get(..16)).expect("a number");
    assert_eq!(adopt(u64::from_str_radix(ground, 16).expect("a number")).status, 200);
    assert_eq!(held.post("/v1/plan", "", &json!({ "format": 2 })).status, 400);
    let take_back = || held.ask("DELETE", "/v1/plan", "/v1/plan", "", "").status;
    assert_eq!((take_back(), take_back()), (200, 404));
}

fn changes(held: &Held) {
    let cancel = |id: &str| held.ask("DELETE", "/v1/queries/{id}", &format!("/v1/queries/{id}"), "", "").status;
    assert_eq!((cancel("1"), cancel("x")), (404, 400));
    let reload = || held.ask("POST", "/v1/reload", "/v1/reload", "", "").status;
    assert_eq!(reload(), 200);
    let file = held.served.dir.path().join("punctual.toml");
    let right = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, right + "slotts = 3\n").expect("it can be written");
    assert_eq!(reload(), 400);
}

#[test]
fn nothing_is_served_that_is_not_said_nor_said_that_is_not_served() {
    let held = before_postgres();
    let operations = held.operations();
    let paths: BTreeSet<&String> = operations.iter().map(|(path, _)| path).collect();
    assert_eq!(paths.len(), 17, "{paths:?}");
    for path in paths {
        let at = path.replace("{id}", "1");
        for method in METHODS {
            let is_said = operations.contains(&(path.clone(), method.to_owned()));
            let status = send(&held.served, &format!("{method} {at}"), "", "").status;
            assert_eq!(status != 405, is_said, "{method} {at}: {status}");
        }
    }
    assert_eq!(send(&held.served, "GET /v1", "", "").status, 404);
}

#[test]
fn where_there_are_tokens_all_need_one_but_those_that_are_said_to_need_none() {
    let dir = tempfile::tempdir().expect("a directory");
    write_secret(&dir.path().join("tokens"), "0123456789abcdef01234567 looker\n");
    let nowhere = "[[cluster]]\nname = \"p\"\nkind = \"postgres\"\naddress = \"unix:/nowhere\"\n";
    let served = Served::start_in(dir, &format!("http_tokens_file = \"tokens\"\n{nowhere}"));
    let shown = "Authorization: Bearer 0123456789abcdef01234567\r\n";
    let held = Held::of(served, shown);
    for (path, method) in held.operations() {
        let at = path.replace("{id}", "1");
        let is_open = held.document["paths"][&path][method.to_lowercase()]["security"] == json!([]);
        let status = held.ask(&method, &path, &at, "", "").status;
        assert_eq!(status != 401, is_open, "{method} {path}: {status}");
    }
    let query = json!({ "sql": "select 1", "user": "ann" });
    assert_eq!(held.post("/v1/query", shown, &query).status, 403);
    assert_eq!(held.ask("GET", "/readyz", "/readyz", "", "").status, 503);
}
