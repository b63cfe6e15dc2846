//! Statements that are told to stop.

use std::time::Duration;

use tokio_postgres::NoTls;

use crate::support::{Raw, Start, kinds, text, told, until_activity, with_tpch};

/// Pairs of every line with every other, which are too many to wait for.
const NESTED_LOOP: &str = "select count(*) from lineitem a join lineitem b \
                           on a.l_extendedprice + b.l_extendedprice < a.l_tax";

/// A sort of sixty million rows.
const SORT: &str = "select max(n) from (select row_number() over (order by l_comment, value) as n \
                    from lineitem cross join generate_series(1, 1000) as g(value))";

async fn cancelled(sql: &'static str) -> (crate::support::Cluster, tokio_postgres::Client) {
    let cluster = with_tpch();
    let (client, watcher) = (cluster.connect().await, cluster.connect().await);
    let token = client.cancel_token();
    let asked = tokio::spawn(async move { (told(client.simple_query(sql).await), client) });
    until_activity(&watcher, |running, _| running == 1).await;
    token.cancel_query(NoTls).await.unwrap();
    let ((state, message), client) = asked.await.unwrap();
    assert_eq!((state.as_str(), message.as_str()), ("57014", "canceling statement due to user request"));
    // The session goes on.
    assert_eq!(text(&client, "select 1").await, "1");
    (cluster, watcher)
}

#[tokio::test]
async fn a_sort_stops_when_it_is_cancelled() {
    let (_cluster, watcher) = cancelled(SORT).await;
    until_activity(&watcher, |running, stuck| running == 0 && stuck == 0).await;
}

#[tokio::test]
async fn a_nested_loop_is_answered_at_once_and_counted_until_it_ends() {
    let (mut cluster, watcher) = cancelled(NESTED_LOOP).await;
    // Whether it ever stops is not ours to say; but it does not count as running, and the cluster answers.
    let (running, _) = until_activity(&watcher, |running, _| running == 0).await;
    assert_eq!(running, 0);
    assert_eq!(text(&cluster.connect().await, "select 2").await, "2");
    // Nor does it keep the process.
    drop(cluster.child.stdin.take());
    assert!(cluster.child.wait().unwrap().success());
}

#[tokio::test]
async fn a_client_that_vanishes_takes_its_statement_along() {
    let cluster = with_tpch();
    let watcher = cluster.connect().await;
    let (client, connection) = cluster.config().connect(NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let asked = tokio::spawn(async move { client.simple_query(SORT).await.map(|_| ()) });
    until_activity(&watcher, |running, _| running == 1).await;
    connection.abort();
    assert!(asked.await.unwrap().is_err());
    until_activity(&watcher, |running, stuck| running == 0 && stuck == 0).await;
}

#[tokio::test]
async fn a_statement_has_only_so_much_time() {
    let timeout = Some(Duration::from_millis(50));
    let start = Start { tables: vec![crate::support::tpch()], timeout, ..Start::default() };
    let cluster = start.start().unwrap();
    let client = cluster.connect().await;
    let (state, message) = told(client.simple_query(SORT).await);
    assert_eq!((state.as_str(), message.as_str()), ("57014", "canceling statement due to statement timeout"));
    client.simple_query("set statement_timeout = '20ms'").await.unwrap();
    assert_eq!(told(client.query(SORT, &[]).await).0, "57014");
    client.simple_query("set statement_timeout = 0").await.unwrap();
    assert_eq!(text(&client, "select count(*) from lineitem").await, "60175");
}

#[test]
fn a_cancel_of_nothing_does_nothing() {
    let cluster = Start::default().start().unwrap();
    let mut client = Raw::connect(&cluster);
    client.cancel(&cluster);
    client.send(b'Q', b"select 1\0");
    assert_eq!(kinds(&client.until_ready()), "TDCZ");
}

#[tokio::test]
async fn a_cancel_with_the_wrong_key_does_nothing() {
    let cluster = Start { simulated: true, ..Start::default() }.start().unwrap();
    let watcher = cluster.connect().await;
    let mut client = Raw::connect(&cluster);
    let key = client.key.clone();
    client.send(b'Q', b"/* punctual: work=1s */ select 1\0");
    *client.key.last_mut().unwrap() ^= 1;
    client.cancel(&cluster);
    assert_eq!(kinds(&client.until_ready()), "TDCZ");
    client.send(b'Q', b"/* punctual: work=30d */ select 1\0");
    client.key = key;
    // A cancel that comes before the statement has begun is for nothing.
    until_activity(&watcher, |running, _| running == 1).await;
    client.cancel(&cluster);
    // The columns may have been on their way.
    assert!(kinds(&client.until_ready()).ends_with("EZ"));
}
