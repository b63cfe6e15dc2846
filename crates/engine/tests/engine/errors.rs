//! What clients are told when things go wrong.

use crate::support::{Start, rows, text, told, with_tpch};

#[tokio::test]
async fn each_error_has_its_sqlstate() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    for (sql, expected) in [
        ("selekt 1", "42601"),
        ("select 1 +", "42601"),
        ("select * from missing", "42P01"),
        ("select * from other.nation", "42P01"),
        ("select * from 'nation.parquet'", "42P01"),
        ("select missing from nation", "42703"),
        ("select nation.missing from nation", "42703"),
        ("select n_name from nation a, nation b", "42702"),
        ("select missing(1)", "42883"),
        ("select * from missing(1)", "42883"),
        ("select 1 / 0", "22012"),
        ("select 1 / (n_nationkey - n_nationkey) from nation", "22012"),
        ("select 1 % (n_nationkey - n_nationkey) from nation", "22012"),
        ("select cast(n_nationkey + 9.9e36 as decimal(38, 0)) * 100 from nation", "22003"),
        ("select cast(n_nationkey + 100000 as smallint) from nation", "22003"),
        ("select cast(n_name as int) from nation", "22P02"),
        ("select cast('x' as date)", "22P02"),
        ("select $1", "42601"),
    ] {
        let (state, message) = told(client.simple_query(sql).await);
        assert_eq!(state, expected, "{sql}: {message}");
        let (state, message) = match client.query(sql, &[]).await {
            // Without a value for $1 the driver itself refuses.
            _ if sql == "select $1" => continue,
            result => told(result),
        };
        assert_eq!(state, expected, "{sql}, prepared: {message}");
    }
    assert_eq!(text(&client, "select 1").await, "1");
}

#[tokio::test]
async fn a_syntax_error_points_at_its_place() {
    let cluster = Start::default().start().unwrap();
    let client = cluster.connect().await;
    let error = client.simple_query("select 1 frm x y").await.unwrap_err();
    let position = error.as_db_error().unwrap().position().cloned();
    assert_eq!(position, Some(tokio_postgres::error::ErrorPosition::Original(14)));
}

#[tokio::test]
async fn what_is_not_a_query_is_refused() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    for (sql, expected) in [
        ("create table t as select 1", "0A000"),
        ("create view v as select 1", "0A000"),
        ("create external table t stored as csv location '/etc/passwd'", "0A000"),
        ("copy nation to '/tmp/nation.csv'", "0A000"),
        ("copy nation to stdout", "0A000"),
        ("copy (select 1) to '/tmp/one.parquet' stored as parquet", "0A000"),
        ("insert into nation values (1)", "0A000"),
        ("delete from nation", "0A000"),
        ("drop table nation", "0A000"),
        ("select * into t from nation", "0A000"),
        ("prepare p as select 1", "0A000"),
        ("set datafusion.execution.batch_size = 1", "42501"),
        ("show datafusion.execution.batch_size", "42501"),
        ("set role postgres", "42501"),
        ("explain create table t as select 1", "0A000"),
        ("select * from '/etc/passwd'", "42P01"),
        ("select * from \"/etc/passwd\"", "42P01"),
        ("select * from read_csv('/etc/passwd')", "42883"),
        ("select * from read_parquet('/etc/passwd')", "42883"),
        ("select * from parquet_metadata('/etc/passwd')", "42883"),
    ] {
        let (state, message) = told(client.simple_query(sql).await);
        assert_eq!(state, expected, "{sql}: {message}");
        let (state, message) = told(client.query(sql, &[]).await);
        assert_eq!(state, expected, "{sql}, prepared: {message}");
    }
    assert_eq!(text(&client, "select count(*) from nation").await, "25");
}

#[tokio::test]
async fn what_does_not_fit_is_an_error_and_the_cluster_lives() {
    let start = Start { tables: vec![crate::support::tpch()], memory: 1 << 20, ..Start::default() };
    let cluster = start.start().unwrap();
    let client = cluster.connect().await;
    let (other, watcher) = (cluster.connect().await, cluster.connect().await);
    let too_large = "select count(*) from lineitem a join lineitem b \
                     on a.l_comment = b.l_comment and a.l_shipinstruct < b.l_shipinstruct";
    let (state, message) = told(client.simple_query(too_large).await);
    assert_eq!(state, "53200", "{message}");
    assert_eq!(text(&other, "select count(*) from nation").await, "25");
    assert_eq!(text(&client, "select count(*) from nation").await, "25");
    crate::support::until_activity(&watcher, |running, stuck| running + stuck == 0).await;
    let held = rows(&watcher, "select memory_reserved, memory_limit, threads from punctual_engine.activity").await;
    let held: Vec<&str> = held[0].iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!(held, ["0", "2097152", "2"]);
}

#[tokio::test]
async fn work_mem_bounds_each_statement_of_its_session_and_no_other() {
    let start = Start { tables: vec![crate::support::tpch()], ..Start::default() };
    let cluster = start.start().unwrap();
    let (small, other) = (cluster.connect().await, cluster.connect().await);
    let hungry = "select count(*) from (select l_comment, l_orderkey from lineitem group by 1, 2) x \
                  join lineitem b on x.l_comment = b.l_comment and x.l_orderkey < b.l_orderkey - 1000000";
    small.simple_query("set work_mem = '128kB'").await.unwrap();
    let (state, message) = told(small.simple_query(hungry).await);
    assert_eq!(state, "53200", "{message}");
    let (state, message) = told(small.query(hungry, &[]).await);
    assert_eq!(state, "53200", "prepared: {message}");
    assert_eq!(text(&small, "select count(*) from nation").await, "25");
    assert_eq!(text(&other, hungry).await, "0");
    small.simple_query("reset work_mem").await.unwrap();
    assert_eq!(text(&small, hungry).await, "0");
    let (state, message) = told(small.simple_query("set work_mem = 'much'").await);
    assert_eq!(state, "22023", "{message}");
}

#[tokio::test]
async fn a_sort_larger_than_the_memory_spills_and_cleans_up() {
    let start = Start { tables: vec![crate::support::tpch()], memory: 24 << 20, ..Start::default() };
    let cluster = start.start().unwrap();
    let client = cluster.connect().await;
    let sql = "select max(n) from (select row_number() over \
               (order by l_comment, l_shipinstruct, l_orderkey, value) as n \
               from lineitem cross join generate_series(1, 10) as g(value))";
    assert_eq!(text(&client, sql).await, "601750");
    let spills = || {
        std::fs::read_dir(cluster.directory.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("punctual-spill"))
            .count()
    };
    assert_eq!(spills(), 1);
}
