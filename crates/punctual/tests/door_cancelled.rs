//! A connection that is lost after its query was told to stop: the client hears that, and the query is sent nowhere
//! again. The cluster here is a script, so that the loss comes exactly when the cancel has.

mod common;

use std::sync::Arc;

use common::driver::Knob;
use common::raw::{Raw, frame};
use common::{Gateway, Wanted, code};
use punctual::settings::{Address, Endpoint, Login};
use punctual_core::query::Status;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_postgres::{Client, NoTls};

/// The code of a CancelRequest, where a start-up message has its version.
const CANCEL: u32 = 80_877_102;

/// What the cluster hears, in order.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// A connection began.
    Hello,
    /// A query came on one.
    Query(&'static str),
    /// A CancelRequest came, with the key that was given.
    Cancel,
}

/// A cluster that answers [`QUICK`], and hangs up without a word on [`SLOW`] once it is told to stop, on [`DEAF`] once it has been
/// told three times, on [`LOST`] at once.
async fn cluster() -> (Endpoint, mpsc::UnboundedReceiver<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let stop = Arc::new(Notify::new());
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(Raw { stream }, tell.clone(), Arc::clone(&stop)));
        }
    });
    let address = Address::Tcp { host: "127.0.0.1".into(), port };
    (Endpoint { address, login: Login::default() }, heard)
}

async fn converse(mut raw: Raw, tell: mpsc::UnboundedSender<Heard>, stop: Arc<Notify>) {
    let mut length = [0; 4];
    raw.stream.read_exact(&mut length).await.expect("a start-up message");
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    raw.stream.read_exact(&mut body).await.expect("it is whole");
    if body[..4] == CANCEL.to_be_bytes() {
        assert_eq!(body[4..], KEY);
        let _ = tell.send(Heard::Cancel);
        return stop.notify_one();
    }
    let _ = tell.send(Heard::Hello);
    let ready = frame(b'Z', b"I");
    let welcome = [frame(b'R', &[0; 4]), frame(b'S', b"server_version\x0015.0\0"), frame(b'K', &KEY), ready.clone()];
    raw.send(&welcome.concat()).await;
    while let Some((tag, body)) = raw.frame().await {
        if tag != b'Q' {
            continue;
        }
        let known = [QUICK, SLOW, DEAF, LOST].into_iter().find(|known| body.starts_with(known.as_bytes()));
        let text = known.expect("one of the four");
        let _ = tell.send(Heard::Query(text));
        match text {
            SLOW => return stop.notified().await,
            DEAF => {
                for _ in 0..3 {
                    stop.notified().await;
                }
                return;
            }
            LOST => return,
            _ => {}
        }
        raw.send(&[frame(b'C', b"SELECT 1\0"), ready.clone()].concat()).await;
    }
}

const KEY: [u8; 8] = *b"pid.key.";
const QUICK: &str = "select 1 from quick";
const SLOW: &str = "select 1 from slow";
const DEAF: &str = "select 1 from deaf";
const LOST: &str = "select 1 from lost";

/// A gateway in front of that cluster, a client whose connection to it has been used, and what the cluster hears from
/// then on.
async fn used() -> (Gateway, Client, mpsc::UnboundedReceiver<Heard>) {
    let gateway = Gateway::start(Wanted { clusters: 0, ..Wanted::default() }).await;
    let (endpoint, mut heard) = cluster().await;
    let _ = gateway.driver.send(Knob::Add { name: "script".to_owned(), slots: 2, endpoint: Some(endpoint) });
    let client = gateway.connect().await;
    client.simple_query(QUICK).await.expect("the script answers");
    assert_eq!(hears(&mut heard, 2).await, [Heard::Hello, Heard::Query(QUICK)]);
    (gateway, client, heard)
}

/// The next things that it hears; a cancel that is repeated counts once.
async fn hears(heard: &mut mpsc::UnboundedReceiver<Heard>, times: usize) -> Vec<Heard> {
    let mut all = Vec::new();
    while all.len() < times {
        let next = heard.recv().await.expect("the cluster is there");
        if next != Heard::Cancel || all.last() != Some(&Heard::Cancel) {
            all.push(next);
        }
    }
    all
}

#[tokio::test]
async fn a_connection_lost_after_a_cancel_is_told_as_that_and_nothing_is_sent_again() {
    let (mut gateway, client, mut heard) = used().await;
    let cancel = client.cancel_token();
    let cancelling = async {
        // The connection has been used before, and the query does no harm: but for the cancel it would be sent again.
        assert_eq!(hears(&mut heard, 1).await, [Heard::Query(SLOW)]);
        cancel.cancel_query(NoTls).await.expect("the gateway takes it");
    };
    let (told, ()) = tokio::join!(client.simple_query(SLOW), cancelling);
    assert_eq!(code(&told.expect_err("it was cancelled")), "57014");
    let ended = [gateway.ended().await, gateway.ended().await].map(|ended| ended.status);
    assert_eq!(ended, [Status::Finished, Status::Cancelled]);
    // The session goes on, and between the two the cluster has heard nothing else.
    client.simple_query(QUICK).await.expect("on a fresh connection");
    assert_eq!(hears(&mut heard, 3).await, [Heard::Cancel, Heard::Hello, Heard::Query(QUICK)]);
}

#[tokio::test]
async fn a_cluster_that_does_not_heed_a_cancel_is_asked_again() {
    let (_gateway, client, mut heard) = used().await;
    let cancel = client.cancel_token();
    let cancelling = async {
        assert_eq!(hears(&mut heard, 1).await, [Heard::Query(DEAF)]);
        cancel.cancel_query(NoTls).await.expect("the gateway takes it");
        for _ in 0..3 {
            assert_eq!(heard.recv().await, Some(Heard::Cancel));
        }
    };
    let (told, ()) = tokio::join!(client.simple_query(DEAF), cancelling);
    assert_eq!(code(&told.expect_err("it was cancelled")), "57014");
}

#[tokio::test]
async fn a_connection_that_had_died_is_tried_once_more_where_nothing_was_cancelled() {
    let (mut gateway, client, mut heard) = used().await;
    let told = client.simple_query(LOST).await.expect_err("it hangs up each time");
    assert_eq!(code(&told), "08006");
    assert_eq!(hears(&mut heard, 3).await, [Heard::Query(LOST), Heard::Hello, Heard::Query(LOST)]);
    let ended = [gateway.ended().await, gateway.ended().await].map(|ended| ended.status);
    assert_eq!(ended, [Status::Finished, Status::Lost]);
}
