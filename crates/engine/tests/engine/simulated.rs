//! The simulated twin, live.

use tokio_postgres::NoTls;

use crate::support::{Cluster, Start, text, told, until_activity};

fn simulated() -> Cluster {
    Start { simulated: true, ..Start::default() }.start().unwrap()
}

#[tokio::test]
async fn an_answer_takes_as_long_as_the_model_says() {
    let cluster = simulated();
    let client = cluster.connect().await;
    // One second of work on two units, at a hundredth of real time.
    let sql = "/* punctual: work=1s */ select * from sales where day = $1";
    let row = client.query_one(sql, &[&"monday"]).await.unwrap();
    assert_eq!(row.get::<_, &str>("cluster"), "simulated");
    assert!(row.get::<_, f64>("seconds") >= 0.5);
    assert_eq!(text(&client, "select 1").await, "1");
    assert_eq!(told(client.simple_query("drop table sales").await).0, "0A000");
}

#[tokio::test]
async fn a_cancelled_statement_leaves_at_once() {
    let cluster = simulated();
    let (client, watcher) = (cluster.connect().await, cluster.connect().await);
    let token = client.cancel_token();
    let asked =
        tokio::spawn(async move { told(client.simple_query("/* punctual: work=30d */ select * from sales").await) });
    until_activity(&watcher, |running, _| running == 1).await;
    token.cancel_query(NoTls).await.unwrap();
    assert_eq!(asked.await.unwrap().0, "57014");
    until_activity(&watcher, |running, stuck| running == 0 && stuck == 0).await;
}
