//! Real clients through the gateway, in front of a real engine: they get what the engine gives directly.

#![cfg(feature = "embedded")]

mod served;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures::{StreamExt, pin_mut};
use punctual_engine::tpch;
use served::{Engine, Served};
use tokio_postgres::{Client, NoTls};

/// Small: unoptimised DataFusion answers all twenty-two in seconds.
const SCALE_FACTOR: f64 = 0.01;

/// The tables, made once for all tests of this checkout.
fn tables() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tpch::ensure(dir, SCALE_FACTOR, &mut |_| {}).expect("TPC-H is generated")
}

fn embedded(name: &str, slots: u32) -> String {
    let tables = tables();
    format!("[[cluster]]\nname = {name:?}\nkind = \"embedded\"\nslots = {slots}\ntables = [{tables:?}]\n")
}

fn psql(port: u16) -> String {
    let mut child = Command::new("psql")
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "ann", "-d", "demo", "-p"])
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql is installed: cargo xtask needs");
    let mut script = String::from("\\dt\n\\d lineitem\n");
    for query in tpch::QUERIES {
        script += query.trim_end().trim_end_matches(';');
        script += ";\n";
    }
    child.stdin.take().expect("its input").write_all(script.as_bytes()).expect("a script is sent");
    let output = child.wait_with_output().expect("psql ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn psql_sees_tpch_through_the_gateway_as_it_is() {
    let (engine, served) = (Engine::start(&tables()), Served::start(&embedded("a", 4)));
    served.wait_ready();
    let (direct, through) = (psql(engine.port), psql(served.address.port()));
    assert!(direct.contains("l_orderkey") && direct.matches(" row").count() >= 22, "{direct}");
    assert_eq!(direct, through);
}

/// Runs every query with psycopg, with server-side binding and prepared statements, and prints the rows.
const PSYCOPG: &str = r#"
import sys, psycopg
with psycopg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="ann", dbname="demo", autocommit=True) as conn:
    for name in sys.argv[2:]:
        for row in conn.execute(open(name).read().rstrip().rstrip(";"), prepare=True):
            print(row)
    for _ in range(7):
        print(conn.execute("select count(*) from orders where o_orderkey < %s", (100,)).fetchall())
    try:
        conn.execute("select nothing from orders")
    except psycopg.errors.UndefinedColumn as error:
        print(error.sqlstate)
    with conn.transaction():
        print(conn.execute("select %s::int + 1", (41,)).fetchone())
"#;

fn psycopg(port: u16, files: &[PathBuf]) -> String {
    python(PSYCOPG, port, files)
}

fn python(script: &str, port: u16, files: &[PathBuf]) -> String {
    let python = std::env::var_os("PUNCTUAL_TEST_PYTHON").expect("PUNCTUAL_TEST_PYTHON is set by cargo xtask test");
    let output =
        Command::new(python).args(["-c", script]).arg(port.to_string()).args(files).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn psycopg_sees_tpch_through_the_gateway_as_it_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files: Vec<PathBuf> = (1..=22).map(|number| dir.path().join(format!("{number}.sql"))).collect();
    for (file, query) in files.iter().zip(tpch::QUERIES) {
        std::fs::write(file, query).expect("a query is written");
    }
    let (engine, served) = (Engine::start(&tables()), Served::start(&embedded("a", 4)));
    served.wait_ready();
    let (direct, through) = (psycopg(engine.port, &files), psycopg(served.address.port(), &files));
    assert!(direct.contains("42703") && direct.contains("(42,)"), "{direct}");
    assert_eq!(direct, through);
}

/// Asks the gateway about itself as applications do, with values in text and in binary, described before and not.
const ASKING: &str = r#"
import sys, datetime, psycopg
with psycopg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="ann", dbname="demo", autocommit=True) as conn:
    long_ago = datetime.datetime(2001, 2, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    for binary in (False, True):
        for prepare in (False, True):
            cur = conn.cursor(binary=binary)
            ask = lambda sql, *values: cur.execute(sql, values, prepare=prepare).fetchall()
            print(ask("select cluster, slots, awake from punctual.clusters where cluster = %s", "a"))
            print(ask("select count(*) from punctual.clusters where slots > %b and size < %t", 3, 2))
            print(ask("select count(*) from punctual.clusters where since > %s and active_s >= %b", long_ago, 0.0))
            print(ask("select cluster from punctual.clusters where awake = %b limit %s", False, 1))
            print(ask("select count(*) from punctual.clusters where cluster = %s", None))
            print(ask("select max(active_s) from punctual.clusters where cluster in (%s, %s)", "x", "y"))
    try:
        conn.execute("select * from punctual.clusters where slots = %s", ("many",), prepare=False)
    except psycopg.errors.InvalidTextRepresentation as error:
        print(error.sqlstate)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_punctual_takes_parameters() {
    let served = Served::start(&embedded("a", 4));
    served.wait_ready();
    let client = served.client("test").await;
    let sql = "select cluster, slots, max(active_s) as most from punctual.clusters \
               where cluster = $1 and slots = $2 and since > $3 and awake = $4 and cost_usd >= $5";
    let asked = client.prepare(sql).await.expect("it prepares");
    let types: Vec<&str> = asked.params().iter().map(|kind| kind.name()).collect();
    assert_eq!(types, ["text", "int8", "timestamptz", "bool", "float8"]);
    for (name, expected) in [("a", Some("a".to_owned())), ("b", None)] {
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&name, &4i64, &std::time::UNIX_EPOCH, &false, &0.0f64];
        let row = client.query_one(&asked, &values).await.expect("an answer");
        assert_eq!(row.get::<_, Option<String>>("cluster"), expected);
        // When it was described nothing was known of it but that it was null; what it is now is told as that.
        assert_eq!(row.get::<_, Option<String>>("most"), expected.map(|_| "0".to_owned()));
    }
    let gap = client.query("select * from punctual.queries where status = $2", &[&"x", &"y"]).await;
    assert_eq!(gap.expect("both are given").len(), 0);
    let error =
        client.simple_query("select * from punctual.queries where status = $1").await.expect_err("none is given");
    assert_eq!(error.code().map(|code| code.code()), Some("42P02"));
    let told = python(ASKING, served.address.port(), &[]);
    let four = "[('a', 4, False)]\n[(1,)]\n[(1,)]\n[('a',)]\n[(0,)]\n[(None,)]\n".repeat(4);
    assert_eq!(told, four + "22P02\n");
}

const ENDLESS: &str = "select count(*) from lineitem a join lineitem b on a.l_comment < b.l_comment \
                       join lineitem c on b.l_comment < c.l_comment";

/// libpq sends PGOPTIONS and the application's name in the start-up message.
#[test]
fn settings_of_the_start_up_message_reach_embedded_and_simulated_clusters() {
    let simulated = "[[cluster]]\nname = \"s\"\nkind = \"simulated\"\n";
    for (configuration, slow) in
        [(embedded("a", 4), ENDLESS), (simulated.to_owned(), "select * from t /* punctual: work=1000s */")]
    {
        let served = Served::start(&configuration);
        served.wait_ready();
        let output = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "VERBOSITY=sqlstate", "-h", "127.0.0.1", "-U", "ann", "-d", "demo"])
            .args(["-p", &served.address.port().to_string()])
            .args(["-c", "show application_name", "-c", "show search_path", "-c", "set datestyle = 'SQL, DMY'"])
            .args(["-c", "show datestyle", "-c", "show statement_timeout", "-c", slow])
            .env("PGAPPNAME", "it's me")
            .env("PGOPTIONS", "-c statement_timeout=200ms -c search_path=a,public")
            .output()
            .expect("psql is installed: cargo xtask needs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("57014"), "{said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "it's me\na, public\nSQL, DMY\n200ms\n");
    }
}

/// Every row of every query, as the bytes that came over the wire.
async fn bytes_of_tpch(client: &Client) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for query in tpch::QUERIES {
        let statement = client.prepare(query).await.expect("it prepares");
        let rows = client.query_raw(&statement, Vec::<i32>::new()).await.expect("it runs");
        pin_mut!(rows);
        while let Some(row) = rows.next().await {
            let row = row.expect("a row");
            all.extend((0..row.len()).map(|column| raw(&row, column)));
        }
    }
    all
}

/// A value's own bytes, whatever its type.
fn raw(row: &tokio_postgres::Row, column: usize) -> Vec<u8> {
    struct Raw(Vec<u8>);
    impl<'a> tokio_postgres::types::FromSql<'a> for Raw {
        fn from_sql(
            _: &tokio_postgres::types::Type,
            bytes: &'a [u8],
        ) -> Result<Raw, Box<dyn std::error::Error + Sync + Send>> {
            Ok(Raw(bytes.to_vec()))
        }
        fn accepts(_: &tokio_postgres::types::Type) -> bool {
            true
        }
    }
    row.get::<_, Option<Raw>>(column).map_or_else(Vec::new, |raw| raw.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn tokio_postgres_sees_tpch_through_the_gateway_byte_for_byte() {
    let (engine, served) = (Engine::start(&tables()), Served::start(&embedded("a", 4)));
    served.wait_ready();
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(engine.port).user("ann").dbname("demo");
    let (direct, connection) = config.connect(NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let through = served.client("test").await;
    let (direct, through) = (bytes_of_tpch(&direct).await, bytes_of_tpch(&through).await);
    assert!(direct.len() > 1_000, "{}", direct.len());
    assert_eq!(direct, through);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_will_not_stop_is_cancelled_and_its_cluster_replaced() {
    let settings = "[policy]\ncancel_grace = \"200ms\"\n";
    let served = Served::start(&(settings.to_owned() + &embedded("a", 4)));
    served.wait_ready();
    let (client, watcher) = (served.client("test").await, served.client("watcher").await);
    let cancel = client.cancel_token();
    // Once, and when it runs: a cancel that is late would hit the next query.
    let cancelled = async {
        let running = "select 1 from punctual.queries where status = 'running' and application = 'test'";
        while watcher.query(running, &[]).await.expect("the gateway answers").is_empty() {}
        cancel.cancel_query(NoTls).await
    };
    let (ended, sent) = tokio::join!(client.simple_query(ENDLESS), cancelled);
    sent.expect("a cancel is sent");
    let code = ended.expect_err("it was cancelled").code().map(|code| code.code().to_owned());
    assert_eq!(code.as_deref(), Some("57014"));
    // The session lives on, on whichever cluster is there.
    let rows = client.query_one("select count(*) from region", &[]).await.expect("an answer");
    assert_eq!(rows.get::<_, i64>(0), 5);
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
}

/// Pairs of every line with every other, none of which comes out.
const NESTED_LOOP: &str = "select count(*) from lineitem a join lineitem b \
                           on a.l_extendedprice + b.l_extendedprice < a.l_tax";

/// Leaves a join behind that may burn on, and says where. It may have stopped as well, if the machine was slow to start
/// it: whoever counts on it tries again.
async fn leave_behind(client: &Client) -> String {
    client.simple_query("set statement_timeout = '500ms'").await.expect("it is set");
    let error = client.simple_query(NESTED_LOOP).await.expect_err("it takes longer");
    assert_eq!(error.code().map(|code| code.code()), Some("57014"));
    client.simple_query("set statement_timeout = 0").await.expect("it is set");
    let last = "select cluster from punctual.decisions where class <> 'control' order by at desc limit 1";
    client.query_one(last, &[]).await.expect("the last decision").get(0)
}

async fn cluster_of(client: &Client) -> String {
    let rows = client.query_one("select count(*) from region", &[]).await.expect("an answer");
    assert_eq!(rows.get::<_, i64>(0), 5);
    client.query_one("show punctual.cluster", &[]).await.expect("its cluster").get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_keep_off_a_cluster_where_a_join_burns_that_timed_out() {
    let settings = "[policy]\ncancel_grace = \"1h\"\n";
    let served = Served::start(&(settings.to_owned() + &embedded("a", 4) + &embedded("b", 4)));
    served.wait_ready_all(2);
    let client = served.client("test").await;
    // Otherwise the cluster of the lower id would have them all, and the join itself.
    loop {
        let burning = leave_behind(&client).await;
        let mut elsewhere = 0;
        while elsewhere < 5 && cluster_of(&client).await != burning {
            elsewhere += 1;
        }
        if elsewhere == 5 {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_begin_behind_a_runaway_is_placed_again() {
    let settings = "[policy]\ncancel_grace = \"1s\"\ndrain_limit = \"1h\"\n";
    let served = Served::start(&(settings.to_owned() + &embedded("a", 4) + "threads_per_unit = 1\n"));
    served.wait_ready();
    let client = served.client("test").await;
    // Its only thread is busy for ever, and a drain would wait for an hour.
    loop {
        leave_behind(&client).await;
        client.simple_query("select count(*) from region").await.expect("an answer");
        let twice = "select count(*) from (select 1 from punctual.decisions group by query_id having count(*) = 2)";
        if client.query_one(twice, &[]).await.expect("an answer").get::<_, i64>(0) == 1 {
            break;
        }
    }
    // What does not count as a query, a Parse, does not count on a cluster that goes either.
    leave_behind(&client).await;
    assert_eq!(cluster_of(&client).await, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_though_a_query_does_not_stop_and_a_client_does_not_listen() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let served = Served::start_to_stop_within("2s", &embedded("a", 4));
    served.wait_ready();
    let client = served.client("test").await;
    leave_behind(&client).await;
    // One that asks for much and does not listen.
    let mut deaf = tokio::net::TcpStream::connect(served.address).await.expect("a connection");
    let start_up = b"\0\0\0\x20\0\x03\0\0user\0ann\0database\0demo\0\0";
    deaf.write_all(&start_up[..]).await.expect("it is read");
    deaf.read_exact(&mut [0; 9]).await.expect("a welcome");
    let sql = "select * from lineitem a cross join lineitem b\0";
    deaf.write_all(&[&b"Q"[..], &(sql.len() as u32 + 4).to_be_bytes(), sql.as_bytes()].concat())
        .await
        .expect("it is read");
    let running = "select count(*) from punctual.queries where status = 'running'";
    while client.query_one(running, &[]).await.expect("an answer").get::<_, i64>(0) == 0 {}
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_wrong_is_the_clusters_error_and_costs_only_itself() {
    let served = Served::start(&embedded("a", 4));
    served.wait_ready();
    let client = served.client("test").await;
    let codes = BTreeMap::from([
        ("selec 1", "42601"),
        ("select * from nowhere", "42P01"),
        ("select nothing from region", "42703"),
        ("select 1/0 from region", "22012"),
    ]);
    for (sql, expected) in codes {
        let error = client.simple_query(sql).await.expect_err("it is wrong");
        assert_eq!(error.code().map(|code| code.code()), Some(expected), "{sql}");
    }
    assert_eq!(client.query("select r_name from region", &[]).await.expect("an answer").len(), 5);
}

/// Sessions beyond the slots, cancels and disconnects: whoever gets rows gets its own.
#[tokio::test(flavor = "multi_thread")]
async fn every_row_carries_its_own_querys_marker() {
    let served = Served::start(&(embedded("a", 2) + &embedded("b", 2)));
    served.wait_ready();
    let sessions = (0..12u32).map(|number| {
        let served = &served;
        async move {
            let mut client = served.client("test").await;
            let mut rows = 0;
            for round in 0..10u32 {
                let marker = i64::from(number * 1_000 + round);
                let sql = format!("select {marker} as marker, l_orderkey from lineitem limit 200");
                let mut asked = Box::pin(client.query(&sql, &[]));
                let answer = match (number + round) % 5 {
                    // Taken back while it may wait or run.
                    0 => {
                        let cancel = client.cancel_token();
                        let (answer, _) = tokio::join!(asked, cancel.cancel_query(NoTls));
                        answer
                    }
                    // Left behind in the middle.
                    1 => {
                        let _ = futures::poll!(asked.as_mut());
                        drop(asked);
                        client = served.client("test").await;
                        continue;
                    }
                    _ => asked.await,
                };
                match answer {
                    Ok(answer) => {
                        assert_eq!(answer.len(), 200);
                        assert!(answer.iter().all(|row| row.get::<_, i64>("marker") == marker));
                        rows += answer.len();
                    }
                    Err(error) => assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{error}"),
                }
            }
            rows
        }
    });
    let rows: usize = futures::future::join_all(sessions).await.into_iter().sum();
    assert!(rows >= 12 * 6 * 200, "{rows}");
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
}
