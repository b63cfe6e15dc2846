//! What changes something runs where that is possible; what only reads runs anywhere.

mod served;

use served::{SIMULATED, Served};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Where a statement ran; a simulated cluster refuses what it cannot do, but only once it is there.
async fn ran_on(client: &Client, sql: &str) -> String {
    if let Err(error) = client.simple_query(sql).await {
        assert_eq!(error.code().map(SqlState::code), Some("0A000"), "{error}");
    }
    client.query_one("SHOW punctual.cluster", &[]).await.expect("where it ran").get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_and_transactions_run_on_the_writer_and_reads_beside_them_elsewhere() {
    // The reader is the larger one: whatever may run there does.
    let reader = SIMULATED.replacen("slots = 4", "slots = 4\nsize = 8", 1);
    let served = Served::start(&(reader + "role = \"writer\"\n"));
    served.wait_ready_all(2);
    let client = served.client("test").await;
    assert_eq!(ran_on(&client, "SELECT * FROM t").await, "a");
    for sql in
        ["INSERT INTO t VALUES (1)", "WITH x AS (DELETE FROM t RETURNING 1) SELECT * FROM x", "CREATE TABLE u (a int)"]
    {
        assert_eq!(ran_on(&client, sql).await, "b", "{sql}");
    }
    assert_eq!(ran_on(&client, "BEGIN").await, "b");
    assert_eq!(ran_on(&client, "SELECT * FROM t").await, "b", "in its transaction");
    client.simple_query("ROLLBACK").await.expect("it ends");
    assert_eq!(ran_on(&client, "BEGIN READ ONLY").await, "a");
    client.simple_query("COMMIT").await.expect("it ends");
    client.query("SELECT * FROM t FOR UPDATE", &[]).await.expect("it runs");
    let cluster: String = client.query_one("SHOW punctual.cluster", &[]).await.expect("where it ran").get(0);
    assert_eq!(cluster, "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_held_by_a_reader_writes_nothing_there() {
    let reader = SIMULATED.replacen("slots = 4", "slots = 4\nsize = 8", 1);
    let served = Served::start(&(reader + "role = \"writer\"\n"));
    served.wait_ready_all(2);
    let client = served.client("test").await;
    for sql in ["INSERT INTO t VALUES (1)", "SET TRANSACTION READ WRITE", "SELECT 1; SET transaction_read_only = off"] {
        assert_eq!(ran_on(&client, "BEGIN READ ONLY").await, "a");
        let refused = client.simple_query(sql).await.expect_err("it would write");
        assert_eq!(refused.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION), "{sql}: {refused}");
        let failed = client.simple_query("SELECT 1").await.expect_err("its transaction has failed");
        assert_eq!(failed.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION), "{sql}: {failed}");
        client.simple_query("ROLLBACK").await.expect("it ends");
    }
    assert_eq!(ran_on(&client, "INSERT INTO t VALUES (1)").await, "b", "it is held no more");
    client.simple_query("BEGIN READ ONLY").await.expect("it begins");
    let refused = client.query("SELECT * FROM t FOR UPDATE", &[]).await.expect_err("it would write");
    assert_eq!(refused.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION), "{refused}");
    client.simple_query("ROLLBACK").await.expect("it ends");
    // What is to keep its cluster has one that takes whatever comes.
    assert_eq!(ran_on(&client, "SELECT set_config('a.b', lower('C'), false)").await, "b");
}
