//! Sessions: simple and extended protocol, parameters, portals, transactions, settings.

use futures::TryStreamExt;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::support::{Raw, Start, connect, kinds, rows, text, told, with_tpch};

#[tokio::test]
async fn parameters_are_inferred_from_where_they_stand() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    let sql = "select n_name from nation where n_regionkey = $1 and n_name like $2 order by 1";
    let statement = client.prepare(sql).await.unwrap();
    assert_eq!(statement.params(), [Type::INT8, Type::TEXT]);
    let names = |rows: Vec<tokio_postgres::Row>| rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>();
    let europe = client.query(&statement, &[&3_i64, &"%R%"]).await.unwrap();
    assert_eq!(names(europe), ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA"]);
    let africa = client.query(&statement, &[&0_i64, &"M%"]).await.unwrap();
    assert_eq!(names(africa), ["MOROCCO", "MOZAMBIQUE"]);
    let none = client.query(&statement, &[&None::<i64>, &"%"]).await.unwrap();
    assert!(none.is_empty());
}

#[tokio::test]
async fn parameters_take_the_types_that_the_client_gives() {
    let cluster = Start::default().start().unwrap();
    let client = cluster.connect().await;
    let statement = client.prepare_typed("select $1 + 1, $2", &[Type::INT4, Type::FLOAT8]).await.unwrap();
    assert_eq!(statement.params(), [Type::INT4, Type::FLOAT8]);
    let row = client.query_one(&statement, &[&41_i32, &1.5_f64]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, f64>(1)), (42, 1.5));
    let row = client.query_one("select $1, $2::bigint", &[&"text", &7_i64]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("text", 7));
}

#[tokio::test]
async fn one_message_may_hold_several_statements() {
    let cluster = Start::default().start().unwrap();
    let client = cluster.connect().await;
    let messages = client.simple_query("select 1; ; select 2 where false; set a.b = 'c'").await.unwrap();
    let complete: Vec<u64> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        })
        .collect();
    assert_eq!(complete, [1, 0, 0]);
    // The second fails: the first has answered, the third does not run.
    let failed = client.simple_query("select 1; select * from missing; set a.b = 'd'").await;
    assert_eq!(told(failed).0, "42P01");
    assert_eq!(text(&client, "show a.b").await, "c");
    assert!(rows(&client, "").await.is_empty());
    assert!(rows(&client, "; -- nothing").await.is_empty());
    assert!(client.query("", &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_portal_gives_as_many_rows_as_asked() {
    let cluster = with_tpch();
    let mut client = cluster.connect().await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("select n_nationkey from nation order by 1", &[]).await.unwrap();
    let mut sizes = Vec::new();
    let mut keys = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 10).await.unwrap();
        keys.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        sizes.push(rows.len());
        if rows.len() < 10 {
            break;
        }
    }
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(keys, (0..25).collect::<Vec<_>>());
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_failed_takes_nothing_but_its_end() {
    let cluster = Start::default().start().unwrap();
    let client = cluster.connect().await;
    client.simple_query("begin").await.unwrap();
    assert_eq!(text(&client, "select 1").await, "1");
    assert_eq!(told(client.simple_query("select nothing").await).0, "42703");
    assert_eq!(told(client.simple_query("select 1").await).0, "25P02");
    assert_eq!(told(client.query("select 1", &[]).await).0, "25P02");
    client.simple_query("savepoint a; rollback to a").await.unwrap_err();
    client.simple_query("rollback").await.unwrap();
    assert_eq!(text(&client, "select 1").await, "1");
    client.simple_query("begin; set local work_mem = '1MB'").await.unwrap();
    assert_eq!(text(&client, "show work_mem").await, "1MB");
    client.simple_query("commit").await.unwrap();
    assert_eq!(text(&client, "show work_mem").await, "4MB");
}

#[tokio::test]
async fn what_drivers_ask_and_set_at_their_start_is_answered() {
    let cluster = Start::default().start().unwrap();
    let mut config = cluster.config();
    config.application_name("tests").options("-c statement_timeout=7s -c extra_float_digits=2");
    let client = connect(&config).await.unwrap();
    for (sql, expected) in [
        ("show application_name", "tests"),
        ("show statement_timeout", "7s"),
        ("show extra_float_digits", "2"),
        ("show server_version", "16.6"),
        ("show transaction isolation level", "read committed"),
        ("show standard_conforming_strings", "on"),
        ("select current_schema()", "public"),
        ("select current_database()", "punctual"),
        ("select current_user", "tester"),
        ("select session_user", "tester"),
    ] {
        assert_eq!(text(&client, sql).await, expected, "{sql}");
    }
    assert!(text(&client, "select version()").await.starts_with("PostgreSQL 16.6 (Punctual "));
    assert!(text(&client, "select pg_catalog.version()").await.starts_with("PostgreSQL "));
    for sql in [
        "set datestyle to 'ISO'",
        "SET extra_float_digits = 3",
        "set session characteristics as transaction read only",
        "set time zone 'UTC'",
        "set client_encoding to 'utf-8'",
        "set names 'UTF8'",
        "discard all",
        "deallocate all",
        "reset all",
        "unlisten *",
        "close all",
    ] {
        client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    let row = client.query_one("show server_version", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "16.6");
}

#[tokio::test]
async fn sessions_do_not_see_each_others_settings() {
    let cluster = Start::default().start().unwrap();
    let (one, two) = (cluster.connect().await, cluster.connect().await);
    one.simple_query("set search_path = mine; set my.own = 'x'").await.unwrap();
    assert_eq!(text(&one, "show search_path").await, "mine");
    assert_eq!(text(&two, "show search_path").await, "\"$user\", public");
    assert_eq!(told(two.simple_query("show my.own").await).0, "42704");
}

#[tokio::test]
async fn explain_shows_the_plan_and_analyze_runs_it() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    let plan = rows(&client, "explain select count(*) from nation where n_regionkey = 1").await;
    assert!(plan.iter().any(|row| row[1].as_ref().unwrap().contains("DataSourceExec")), "{plan:?}");
    let run = rows(&client, "explain analyze select count(*) from nation").await;
    assert!(run[0][1].as_ref().unwrap().contains("output_rows"), "{run:?}");
    let json = rows(&client, "explain (format json) select 1 from nation").await;
    let json: serde_json::Value = serde_json::from_str(json[0][1].as_ref().unwrap()).unwrap();
    assert!(json[0]["Plan"].is_object(), "{json}");
    let estimated = rows(&client, "explain (costs) select n_name from nation").await;
    assert!(estimated.iter().any(|row| row[1].as_ref().unwrap().contains("Rows=Exact(25)")), "{estimated:?}");
    client.query("explain select 1", &[]).await.unwrap();
}

#[tokio::test]
async fn a_large_result_streams_and_may_be_left() {
    let cluster = with_tpch();
    let (client, connection) = cluster.config().connect(NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    // Far more than would fit the cluster's memory, or this process's patience.
    let sql = "select a.*, g.value from lineitem a cross join generate_series(1, 1000000) as g(value)";
    let parameters: [&str; 0] = [];
    let mut stream = Box::pin(client.query_raw(sql, parameters).await.unwrap());
    for _ in 0..20_000 {
        assert!(stream.try_next().await.unwrap().is_some());
    }
    let watcher = cluster.connect().await;
    crate::support::until_activity(&watcher, |running, _| running == 1).await;
    connection.abort();
    // The client is gone, and so is its statement.
    crate::support::until_activity(&watcher, |running, stuck| running == 0 && stuck == 0).await;
}

#[test]
fn messages_that_no_driver_sends_harm_nobody_else() {
    let cluster = Start::default().start().unwrap();
    let mut steady = Raw::connect(&cluster);
    for (kind, body) in [
        // A Bind that says it has more formats than bytes.
        (b'B', &b"\0\0\x7f\xff"[..]),
        (b'P', b"no end"),
        (b'!', b"what is this?"),
        (b'p', b"a password now\0"),
    ] {
        let mut client = Raw::connect(&cluster);
        client.provoke(kind, body);
        let told = client.rest();
        assert!(told.is_empty() || told.windows(6).any(|part| part == b"C08P01"), "{kind} {told:?}");
    }
    let mut client = Raw::connect(&cluster);
    client.send(b'Q', b"select '\xff\xfe'\0");
    assert!(kinds(&client.until_ready()).ends_with('Z'));
    steady.send(b'Q', b"select 1\0");
    assert_eq!(kinds(&steady.until_ready()), "TDCZ");
}

#[test]
fn after_an_error_everything_up_to_sync_is_ignored() {
    let cluster = Start::default().start().unwrap();
    let mut client = Raw::connect(&cluster);
    client.send(b'P', b"\0select nothing\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\0");
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(kinds(&client.until_ready()), "EZ");
    // Formats for two columns where there is one, then a portal that is not there.
    client.send(b'P', b"\0select 1\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\x02\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(kinds(&client.until_ready()), "1EZ");
    client.send(b'E', b"missing\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(kinds(&client.until_ready()), "EZ");
    client.send(b'P', b"\0select 1\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\0");
    client.send(b'D', b"P\0");
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(kinds(&client.until_ready()), "12TDCZ");
}

#[test]
fn a_copy_from_the_client_is_refused_and_its_data_ignored() {
    let cluster = Start::default().start().unwrap();
    let mut client = Raw::connect(&cluster);
    client.send(b'Q', b"copy t from stdin\0");
    client.send(b'd', b"1\n");
    client.send(b'c', b"");
    assert_eq!(kinds(&client.until_ready()), "EZ");
    client.send(b'Q', b"select 1\0");
    assert_eq!(kinds(&client.until_ready()), "TDCZ");
}

#[tokio::test]
async fn columns_have_the_names_that_postgres_gives_them() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    for (sql, expected) in [
        ("select 1, 1, 'x' as a, 'y' as a", &["?column?", "?column?", "a", "a"][..]),
        ("select n_regionkey, count(*) from nation group by 1 order by count(*)", &["n_regionkey", "count"]),
        ("select distinct n_regionkey + 1 from nation order by 1", &["?column?"]),
        ("select max(n_name) from nation having count(*) > 1", &["max"]),
        ("select a.n_name, b.n_name from nation a, nation b limit 1", &["n_name", "n_name"]),
        ("select upper(n_name) from nation group by upper(n_name)", &["upper"]),
        ("select sum(n_nationkey) over (order by n_nationkey), n_name from nation", &["sum", "n_name"]),
        ("select n_nationkey, n_nationkey from nation", &["n_nationkey", "n_nationkey"]),
        ("select current_schema()", &["current_schema"]),
        ("select 1 union select 2", &["?column?"]),
    ] {
        let statement = client.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let names: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, expected, "{sql}");
        assert!(!client.query(&statement, &[]).await.unwrap().is_empty(), "{sql}");
        assert!(!rows(&client, sql).await.is_empty(), "{sql}");
    }
}

#[tokio::test]
async fn values_of_other_types_than_the_columns_are_compared_as_literals_are() {
    let cluster = with_tpch();
    let client = cluster.connect().await;
    let counted = |types: &'static [Type], sql: &'static str| {
        let client = &client;
        async move { client.prepare_typed(sql, types).await.unwrap() }
    };
    // A float between decimals, then an array, then a text that is a date.
    let sql = "select count(*) from lineitem where l_discount > $1";
    let statement = counted(&[Type::FLOAT8], sql).await;
    let given: i64 = client.query_one(&statement, &[&0.09_f64]).await.unwrap().get(0);
    assert_eq!(given.to_string(), text(&client, "select count(*) from lineitem where l_discount = 0.10").await);
    let sql = "select count(*) from nation where n_nationkey = any($1)";
    let statement = counted(&[Type::INT2_ARRAY], sql).await;
    assert_eq!(client.query_one(&statement, &[&vec![1_i16, 2, 99]]).await.unwrap().get::<_, i64>(0), 2);
    let sql = "select count(*) from orders where o_orderdate < $1";
    let statement = counted(&[Type::VARCHAR], sql).await;
    let given: i64 = client.query_one(&statement, &[&"1992-02-01"]).await.unwrap().get(0);
    let expected = text(&client, "select count(*) from orders where o_orderdate < date '1992-02-01'").await;
    assert_eq!(given.to_string(), expected);
}
