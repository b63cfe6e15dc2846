//! HTTP over real sockets, with a driver that only answers what it knows.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::catalog::sample;
use crate::link::Report;

struct Gateway {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<io::Result<()>>,
}

/// A server whose driver answers with this snapshot; with None it has ended.
async fn gateway(snapshot: Option<Snapshot>) -> Gateway {
    gateway_within(Bounds::default(), snapshot).await
}

async fn gateway_within(bounds: Bounds, snapshot: Option<Snapshot>) -> Gateway {
    let (link, mut reports) = Link::new();
    if let Some(snapshot) = snapshot {
        tokio::spawn(async move {
            while let Some(report) = reports.recv().await {
                if let Report::Look { answer } = report {
                    let _ = answer.send(snapshot.clone());
                }
            }
        });
    }
    served(bounds, link).await
}

async fn served(bounds: Bounds, link: Link) -> Gateway {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let until = async move { drop(stopped.await) };
    let answers = Arc::new(crate::catalog::Catalog::new(link.clone()));
    let fallback = crate::driver::fallback::Fallback::new(punctual_core::time::Span::from_secs(1));
    let (door, classes) = (crate::settings::Door::default(), punctual_core::class::Class::built_in());
    let in_force = door::InForce::new(door::Rules::new(door, classes));
    let guard = Arc::new(door::Guard::trusting().expect("random numbers"));
    let front = Arc::new(door::Shared::new(0, in_force, 1, answers, fallback, guard.clone()));
    let settings = Arc::new(crate::config::default_settings());
    let reload = Arc::new(Reload::new(crate::config::Source::default(), settings, link.clone(), guard));
    let shared = Shared::new(link, Arc::new(Metrics::new()), front, reload);
    let server = tokio::spawn(serve_within(bounds, listener, shared, until));
    Gateway { address, stop, server }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// A connection with a request that goes on for ever.
async fn half_sent(gateway: &Gateway) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address).await.expect("a connection");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.expect("to send");
    stream
}

/// Waits until the other end closes it without an answer.
async fn closed(mut stream: TcpStream) {
    let mut answer = Vec::new();
    // What was not read is a reset, what was is an end.
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(String::from_utf8_lossy(&answer), "");
}

#[tokio::test]
async fn a_flood_of_half_sent_requests_does_not_keep_a_health_check_waiting() {
    let bounds = Bounds { connections: 4, request_within: HOUR, next_within: HOUR };
    let gateway = gateway_within(bounds, Some(sample::snapshot())).await;
    let mut flood = Vec::new();
    for _ in 0..20 {
        flood.push(half_sent(&gateway).await);
        assert_eq!(fetch(&gateway, "/healthz").await.0, "HTTP/1.1 200 OK");
    }
    // The oldest are gone, the newest may still send the rest.
    closed(flood.remove(0)).await;
    let mut newest = flood.pop().expect("there are some");
    newest.write_all(b"alhost\r\nConnection: close\r\n\r\n").await.expect("to send");
    let mut answer = String::new();
    newest.read_to_string(&mut answer).await.expect("to receive");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test]
async fn a_reload_is_ordered_from_this_machine_alone() {
    let gateway = gateway(Some(sample::snapshot())).await;
    let asked = |method: &str, origin: &str| {
        format!(
            "{method} /v1/reload HTTP/1.1\r\nHost: localhost\r\n{origin}Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
    for elsewhere in ["https://example.org", "null", "http://127.0.0.1.example.org", "http://localhost@example.org"] {
        let (status, _) = send(&gateway, &asked("POST", &format!("Origin: {elsewhere}\r\n"))).await;
        assert_eq!(status, "HTTP/1.1 403 Forbidden", "{elsewhere}");
    }
    // It was started without a file, which is as far as this gets.
    for here in ["", "Origin: http://localhost:8432\r\n", "Origin: http://[::1]:1\r\n"] {
        let (status, body) = send(&gateway, &asked("POST", here)).await;
        assert_eq!(status, "HTTP/1.1 409 Conflict", "{body}");
    }
    assert_eq!(send(&gateway, &asked("GET", "")).await.0, "HTTP/1.1 405 Method Not Allowed");
}

#[tokio::test]
async fn a_request_that_is_not_sent_in_time_is_given_up_as_is_a_connection_that_idles() {
    let bounds = Bounds { connections: 64, request_within: Duration::from_millis(1), next_within: HOUR };
    let gateway = gateway_within(bounds, Some(sample::snapshot())).await;
    closed(half_sent(&gateway).await).await;
    closed(TcpStream::connect(gateway.address).await.expect("a connection")).await;

    let bounds = Bounds { connections: 64, request_within: HOUR, next_within: Duration::from_millis(1) };
    let gateway = gateway_within(bounds, Some(sample::snapshot())).await;
    let kept = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(send(&gateway, kept).await.0, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_connection_whose_request_is_being_answered_is_not_closed_for_another() {
    let (link, mut reports) = Link::new();
    let bounds = Bounds { connections: 1, request_within: HOUR, next_within: HOUR };
    let gateway = Arc::new(served(bounds, link).await);
    let ask = |gateway: &Arc<Gateway>| {
        let gateway = gateway.clone();
        tokio::spawn(async move { fetch(&gateway, "/healthz").await.0 })
    };
    let first = ask(&gateway);
    let Some(Report::Look { answer }) = reports.recv().await else { panic!("it asks for a snapshot") };
    let waiting = TcpStream::connect(gateway.address).await.expect("a connection");
    let second = ask(&gateway);
    answer.send(sample::snapshot()).expect("somebody waits");
    assert_eq!(first.await.expect("no panic"), "HTTP/1.1 200 OK");
    // The one that waited had its place for as long as nobody else wanted it.
    closed(waiting).await;
    let Some(Report::Look { answer }) = reports.recv().await else { panic!("it asks for a snapshot") };
    answer.send(sample::snapshot()).expect("somebody waits");
    assert_eq!(second.await.expect("no panic"), "HTTP/1.1 200 OK");
}

/// Sends a request as it is and returns the status line and the body.
async fn send(gateway: &Gateway, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(gateway.address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("to send");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("to receive");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

async fn fetch(gateway: &Gateway, path: &str) -> (String, String) {
    send(gateway, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await
}

/// Status line and body, one after the other.
async fn shown(gateway: &Gateway, path: &str) -> String {
    let (status, body) = fetch(gateway, path).await;
    format!("{status}\n{body}\n")
}

#[tokio::test]
async fn lists_hold_the_rows_of_the_schema_without_texts() {
    let gateway = gateway(Some(sample::snapshot())).await;
    expect_test::expect![[r#"
        HTTP/1.1 200 OK
        {"clusters":[{"active_s":3.0,"awake":true,"cluster":"small","cluster_id":0,"cost_usd":0.0003125,"failed_by":null,"generation":0,"phase":"ready","pins":0,"placed":2,"role":"any","running":1,"since":"2026-01-02T03:04:05.000000Z","size":1,"slots":1,"stuck":0}]}
    "#]].assert_eq(&shown(&gateway, "/v1/clusters?limit=1").await);
    let queries = shown(&gateway, "/v1/queries").await;
    expect_test::expect![[r#"
        HTTP/1.1 200 OK
        {"queries":[{"ahead":null,"application":"psql","arrival":"2026-01-02T03:04:06.000000Z","class":"dashboards","cluster":"small","cluster_id":0,"database":"dev","expected_wait_s":null,"fingerprint":"cd9a7f6170df316c","kind":"select","lane":"default","late":true,"predicted_p50_s":null,"predicted_p90_s":null,"priority":0,"query_id":"281474976710658","running_s":2.0,"session_id":"281474976710658","shape":"select ?","slo_s":1.5,"sql":null,"started":"2026-01-02T03:04:06.000000Z","status":"running","user":"ann","waited_s":0.0,"waits_for":null},{"ahead":0,"application":"psql","arrival":"2026-01-02T03:04:07.000000Z","class":"dashboards","cluster":null,"cluster_id":null,"database":"dev","expected_wait_s":null,"fingerprint":"cd9a7f6170df316c","kind":"select","lane":"default","late":false,"predicted_p50_s":null,"predicted_p90_s":null,"priority":0,"query_id":"281474976710659","running_s":null,"session_id":"281474976710659","shape":"select ?","slo_s":1.5,"sql":null,"started":null,"status":"waiting","user":"bob","waited_s":1.0,"waits_for":"cluster"}]}
    "#]].assert_eq(&queries);
    assert!(!queries.contains("ann''s") && !queries.contains("bob''s"));
    expect_test::expect![[r#"
        HTTP/1.1 200 OK
        {"decisions":[{"at":"2026-01-02T03:04:06.000000Z","candidates":[{"awake":true,"cluster_id":0,"outstanding":0,"size":1,"slots":1}],"class":"dashboards","cluster":"small","cluster_id":0,"instead":null,"instead_id":null,"instead_why":null,"isolated_s":null,"predicted_p50_s":null,"predicted_p90_s":null,"query_id":"281474976710658","regret_usd":null,"regret_violations":null,"waited_s":0.0,"why":"the only cluster with room"}]}
    "#]].assert_eq(&shown(&gateway, "/v1/decisions?limit=1").await);
    let (_, classes) = fetch(&gateway, "/v1/classes").await;
    let classes: serde_json::Value = serde_json::from_str(&classes).expect("JSON");
    assert_eq!(classes["classes"][2]["class"], "dashboards");
    assert_eq!(classes["classes"][2]["finished"], 1);
}

#[tokio::test]
async fn health_and_readiness_follow_the_driver_and_the_clusters() {
    let ready = gateway(Some(sample::snapshot())).await;
    assert_eq!(shown(&ready, "/healthz").await, "HTTP/1.1 200 OK\n{\"degraded\":false,\"status\":\"ok\"}\n");
    assert_eq!(shown(&ready, "/readyz").await, "HTTP/1.1 200 OK\n{\"status\":\"ready\"}\n");

    let mut snapshot = sample::snapshot();
    snapshot.view.clusters.retain(|cluster| cluster.phase != Phase::Ready);
    let starting = gateway(Some(snapshot)).await;
    assert_eq!(fetch(&starting, "/healthz").await.0, "HTTP/1.1 200 OK");
    assert_eq!(
        shown(&starting, "/readyz").await,
        "HTTP/1.1 503 Service Unavailable\n{\"error\":\"no cluster is ready\"}\n"
    );

    let mut snapshot = sample::snapshot();
    snapshot.view.shutting_down = true;
    let leaving = gateway(Some(snapshot)).await;
    assert_eq!(
        shown(&leaving, "/readyz").await,
        "HTTP/1.1 503 Service Unavailable\n{\"error\":\"the gateway is shutting down\"}\n"
    );

    let dead = gateway(None).await;
    for path in ["/healthz", "/readyz", "/v1/clusters"] {
        assert_eq!(
            shown(&dead, path).await,
            "HTTP/1.1 503 Service Unavailable\n{\"error\":\"the driver does not answer\"}\n"
        );
    }
}

#[tokio::test]
async fn a_driver_that_is_stuck_counts_as_stalled() {
    let (link, _reports) = Link::new();
    assert_eq!(look_within(&link, Duration::ZERO).await.map(|snapshot| snapshot.sessions), None);
}

#[tokio::test]
async fn metrics_are_there_even_if_the_driver_is_not() {
    let (status, body) = fetch(&gateway(Some(sample::snapshot())).await, "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains("\npunctual_up 1\n") && body.contains("\npunctual_sessions 2\n"), "{body}");
    let (status, body) = fetch(&gateway(None).await, "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains("\npunctual_up 0\n") && body.contains("\npunctual_history_dropped_total 0\n"), "{body}");
}

#[tokio::test]
async fn what_is_not_there_or_not_allowed_is_an_error_in_json() {
    let gateway = gateway(Some(sample::snapshot())).await;
    assert_eq!(shown(&gateway, "/v2").await, "HTTP/1.1 404 Not Found\n{\"error\":\"there is nothing at this path\"}\n");
    for limit in ["limit=ten", "limit=-1", "limit=10001", "limit=99999999999999999999", "depth=1", "limit"] {
        assert_eq!(fetch(&gateway, &format!("/v1/decisions?{limit}")).await.0, "HTTP/1.1 400 Bad Request", "{limit}");
    }
    let post = "POST /v1/queries HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let (status, body) = send(&gateway, post).await;
    assert_eq!(status, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(body, "{\"error\":\"this can only be read: use GET\"}");
    assert_eq!(send(&gateway, "nonsense\r\n\r\n").await.0, "HTTP/1.1 400 Bad Request");
}

#[tokio::test]
async fn a_host_that_is_not_this_machine_is_refused() {
    let gateway = gateway(Some(sample::snapshot())).await;
    let status =
        async |host: &str| send(&gateway, &format!("GET /healthz HTTP/1.1\r\n{host}Connection: close\r\n\r\n")).await.0;
    for host in ["localhost", "LOCALHOST:8432", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8432", "127.1.2.3"] {
        assert_eq!(status(&format!("Host: {host}\r\n")).await, "HTTP/1.1 200 OK", "{host}");
    }
    for host in ["evil.example", "evil.example:8432", "localhost.evil.example", "10.0.0.1", "[::2]:1", "::1:x", ""] {
        assert_eq!(status(&format!("Host: {host}\r\n")).await, "HTTP/1.1 403 Forbidden", "{host}");
    }
    assert_eq!(status("").await, "HTTP/1.1 403 Forbidden");
    assert_eq!(status("Host: localhost\r\nHost: evil.example\r\n").await, "HTTP/1.1 403 Forbidden");
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_ends_with_an_idle_client_connected() {
    let gateway = gateway(Some(sample::snapshot())).await;
    let mut idle = TcpStream::connect(gateway.address).await.expect("a connection");
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("to send");
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    gateway.stop.send(()).expect("the server runs");
    gateway.server.await.expect("no panic").expect("no error");
}

async fn post(gateway: &Gateway, body: &str) -> (String, String) {
    let head = "POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: ";
    send(gateway, &format!("{head}{}\r\n\r\n{body}", body.len())).await
}

#[tokio::test]
async fn what_cannot_be_explained_says_why() {
    let gateway = gateway(Some(sample::snapshot())).await;
    for (body, says) in [
        ("", "the body is not what it should be"),
        ("[]", "the body is not what it should be"),
        (r#"{"user": "ann"}"#, "missing field `sql`"),
        (r#"{"sql": "select 1", "usr": "ann"}"#, "unknown field `usr`"),
        (r#"{"sql": "select 1", "class": "nope"}"#, "there is no class \\\"nope\\\"; the classes are control, default"),
        (r#"{"sql": "select 1", "slo": "2"}"#, "slo is no duration"),
    ] {
        let (status, answer) = post(&gateway, body).await;
        assert!(status == "HTTP/1.1 400 Bad Request" && answer.contains(says), "{body}: {status} {answer}");
    }
    let (status, answer) = post(&gateway, &" ".repeat((1 << 20) + 1)).await;
    assert_eq!(status, "HTTP/1.1 413 Payload Too Large", "{answer}");
    let (status, answer) = fetch(&gateway, "/v1/explain").await;
    assert!(status == "HTTP/1.1 405 Method Not Allowed" && answer.contains("with POST"), "{status} {answer}");
    // Answered without asking anybody.
    let (status, answer) = post(&gateway, r#"{"sql": "show punctual.slo"}"#).await;
    assert!(status == "HTTP/1.1 200 OK" && answer.contains("\"verdict\":\"answer\""), "{status} {answer}");
    let dead = self::gateway(None).await;
    assert_eq!(post(&dead, r#"{"sql": "select 1"}"#).await.0, "HTTP/1.1 503 Service Unavailable");
}

#[tokio::test]
async fn bodies_that_are_never_sent_whole_do_not_keep_a_health_check_waiting() {
    let bounds = Bounds { connections: 4, request_within: HOUR, next_within: HOUR };
    let gateway = gateway_within(bounds, Some(sample::snapshot())).await;
    let mut flood = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(gateway.address).await.expect("a connection");
        let half = b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"sql\":";
        stream.write_all(half).await.expect("to send");
        flood.push(stream);
        assert_eq!(fetch(&gateway, "/healthz").await.0, "HTTP/1.1 200 OK");
    }
}
