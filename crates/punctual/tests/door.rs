//! The front door, as drivers see it: tokio-postgres through a gateway to a real Postgres.

mod common;

use std::pin::pin;

use bytes::Bytes;
use common::{Gateway, Wanted, code};
use futures::{SinkExt, TryStreamExt};
use punctual::settings::Door;
use punctual_core::class::DEFAULT;
use punctual_core::id::{ClassId, UserId};
use punctual_core::query::Status;
use tokio_postgres::{NoTls, SimpleQueryMessage};

fn texts(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or("null")).collect::<Vec<_>>().join(","))
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

#[tokio::test]
async fn a_simple_query_is_answered_and_counted_once() {
    let mut gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    let rows = client.simple_query("select g, null from generate_series(1, 3) g").await.unwrap();
    assert_eq!(texts(&rows), ["1,null", "2,null", "3,null"]);
    let ended = gateway.ended().await;
    assert_eq!((ended.status, ended.rows), (Status::Finished, 3));
    let rows = client.simple_query("select 1; select 2 where false; select 3").await.unwrap();
    assert_eq!(texts(&rows), ["1", "3"]);
    assert_eq!(texts(&client.simple_query("").await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_class_is_chosen_by_those_who_may_and_a_priority_is_asked_for() {
    let mut wanted = Wanted::default();
    wanted.policy.classes[2].terms.chosen_by = vec!["bob".to_owned()];
    let mut gateway = Gateway::start(wanted).await;
    let client = gateway.connect().await;
    let refused = client.simple_query("set punctual.class = 'etl'").await.unwrap_err();
    assert_eq!(code(&refused), "42501");
    let refused = client.simple_query("set punctual.class = 'control'").await.unwrap_err();
    assert_eq!(code(&refused), "42501");
    let mut config = gateway.config();
    config.options("-c punctual.class=etl");
    let refused = gateway.connect_with(&config).await.expect_err("ann may not choose it");
    assert_eq!(code(&refused), "42501");

    let select = "select g, null from generate_series(1, 2) g";
    // In a comment it is passed over.
    client.simple_query(&format!("{select} /* punctual: class=etl */")).await.unwrap();
    assert_eq!(gateway.ended().await.query.class, DEFAULT);
    client.simple_query("set punctual.priority = -3").await.unwrap();
    assert_eq!(texts(&client.simple_query("show punctual.priority").await.unwrap()), ["-3"]);
    client.simple_query(select).await.unwrap();
    let claim = gateway.ended().await.query.claim;
    assert_eq!((claim.user, claim.priority), (UserId::of("ann"), Some(-3)));
    client.simple_query(&format!("{select} /* punctual: priority=7 */")).await.unwrap();
    assert_eq!(gateway.ended().await.query.claim.priority, Some(7));

    config.user("bob").options("-c punctual.class=etl -c punctual.priority=2");
    let bob = gateway.connect_with(&config).await.unwrap();
    bob.simple_query("set punctual.priority = 9; ").await.unwrap();
    bob.simple_query("reset punctual.priority").await.unwrap();
    bob.simple_query(select).await.unwrap();
    let query = gateway.ended().await.query;
    assert_eq!((query.class, query.claim.priority), (ClassId(2), Some(2)));
    assert_ne!(query.claim.user, claim.user);
}

#[tokio::test]
async fn parameters_and_results_pass_in_binary() {
    let gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    let row = client
        .query_one(
            "select $1::int8 + 1, $2::text, $3::float8, null::int4, $4::bytea",
            &[&41i64, &"é", &1.5f64, &&b"\0\x01"[..]],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 42);
    assert_eq!(row.get::<_, &str>(1), "é");
    assert_eq!(row.get::<_, f64>(2), 1.5);
    assert_eq!(row.get::<_, Option<i32>>(3), None);
    assert_eq!(row.get::<_, &[u8]>(4), b"\0\x01");
}

#[tokio::test]
async fn prepared_statements_work_on_whichever_connection_is_free() {
    let door = Door { max_idle_connections: Some(2), ..Door::default() };
    let gateway = Gateway::start(Wanted { door, slots: 2, ..Wanted::default() }).await;
    let mut sessions = Vec::new();
    for _ in 0..6 {
        let client = gateway.connect().await;
        let add = client.prepare("select $1::int4 + $2::int4").await.unwrap();
        sessions.push((client, add));
    }
    for round in 0..10i32 {
        let sums = sessions.iter().enumerate().map(|(at, (client, add))| async move {
            let sum: i32 = client.query_one(add, &[&round, &(at as i32)]).await.unwrap().get(0);
            assert_eq!(sum, round + at as i32);
        });
        futures::future::join_all(sums).await;
    }
}

#[tokio::test]
async fn errors_keep_their_code_and_the_session_goes_on() {
    let mut gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    let error = client.simple_query("select 1/0 from generate_series(1, 2)").await.unwrap_err();
    assert_eq!(code(&error), "22012");
    let ended = gateway.ended().await;
    assert_eq!((ended.status, ended.sqlstate.map(|s| s.0)), (Status::Failed, Some(*b"22012")));
    let error = client.query("select nothing from nowhere", &[]).await.unwrap_err();
    assert_eq!(code(&error), "42P01");
    let error = client.query("select 1/$1::int4", &[&0i32]).await.unwrap_err();
    assert_eq!(code(&error), "22012");
    assert_eq!(client.query_one("select 5", &[]).await.unwrap().get::<_, i32>(0), 5);
}

#[tokio::test]
async fn a_transaction_stays_on_its_connection() {
    let gateway = Gateway::start(Wanted { clusters: 2, ..Wanted::default() }).await;
    let mut client = gateway.connect().await;
    let other = gateway.connect().await;
    let transaction = client.transaction().await.unwrap();
    let mut pids = Vec::new();
    for _ in 0..5 {
        pids.push(transaction.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0));
        other.simple_query("select count(*) from pg_class, generate_series(1, 2)").await.unwrap();
    }
    pids.dedup();
    assert_eq!(pids.len(), 1);
    gateway.wait_until(|view| view.clusters.iter().map(|cluster| cluster.pins).sum::<u32>() == 1).await;
    transaction.commit().await.unwrap();
    gateway.wait_until(|view| view.clusters.iter().all(|cluster| cluster.pins == 0 && cluster.running == 0)).await;
}

#[tokio::test]
async fn a_failed_transaction_stays_failed_until_it_is_rolled_back() {
    let gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    client.batch_execute("begin").await.unwrap();
    assert_eq!(code(&client.batch_execute("select 1/0").await.unwrap_err()), "22012");
    assert_eq!(code(&client.batch_execute("select 1").await.unwrap_err()), "25P02");
    client.batch_execute("rollback").await.unwrap();
    client.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn a_running_query_is_cancelled() {
    let mut gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    let cancel = client.cancel_token();
    let sleeping = client.simple_query("select pg_sleep(600)");
    let cancelling = async {
        gateway.wait_until(|view| view.queries.iter().any(|query| query.placed.is_some())).await;
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    };
    let (slept, ()) = tokio::join!(sleeping, cancelling);
    assert_eq!(code(&slept.unwrap_err()), "57014");
    assert_eq!(gateway.ended().await.status, Status::Cancelled);
    // The connection was closed, not given to anyone.
    assert_eq!(client.query_one("select 5", &[]).await.unwrap().get::<_, i32>(0), 5);
}

#[tokio::test]
async fn a_waiting_query_is_cancelled_where_it_waits() {
    let mut gateway = Gateway::start(Wanted { slots: 1, ..Wanted::default() }).await;
    let holder = gateway.connect().await;
    holder.batch_execute("begin; select count(*) from pg_class, generate_series(1, 2)").await.unwrap();
    let client = gateway.connect().await;
    let cancel = client.cancel_token();
    let waiting = client.simple_query("select count(*) from generate_series(1, 2)");
    let cancelling = async {
        gateway.wait_until(|view| view.waiting == 1).await;
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    };
    let (waited, ()) = tokio::join!(waiting, cancelling);
    assert_eq!(code(&waited.unwrap_err()), "57014");
    assert_eq!(gateway.ended().await.status, Status::Finished);
    assert_eq!(gateway.ended().await.status, Status::Cancelled);
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_slot() {
    let mut gateway = Gateway::start(Wanted { slots: 1, ..Wanted::default() }).await;
    let mut raw = common::raw::Raw::session(gateway.address).await;
    raw.send(&common::raw::query("select pg_sleep(600)")).await;
    gateway.wait_until(|view| view.queries.iter().any(|query| query.placed.is_some())).await;
    drop(raw);
    assert_eq!(gateway.ended().await.status, Status::Cancelled);
    let client = gateway.connect().await;
    client.simple_query("select count(*) from generate_series(1, 2)").await.unwrap();
}

#[tokio::test]
async fn copies_pass_both_ways() {
    let gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    client.batch_execute("create table copied (a int, b text)").await.unwrap();
    let mut sink = pin!(client.copy_in::<_, Bytes>("copy copied from stdin").await.unwrap());
    for at in 0..2_000 {
        sink.send(Bytes::from(format!("{at}\t{}\n", "x".repeat(200)))).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 2_000);
    let out: Vec<Bytes> = client.copy_out("copy copied to stdout").await.unwrap().try_collect().await.unwrap();
    assert_eq!(
        out.iter().map(Bytes::len).sum::<usize>(),
        (0..2_000).map(|at| format!("{at}").len() + 202).sum::<usize>()
    );
    let mut sink = pin!(client.copy_in::<_, Bytes>("copy copied from stdin").await.unwrap());
    sink.send(Bytes::from_static(b"nonsense\n")).await.unwrap();
    assert_eq!(code(&sink.finish().await.unwrap_err()), "22P02");
    assert_eq!(client.query_one("select count(*) from copied", &[]).await.unwrap().get::<_, i64>(0), 2_000);
}

#[tokio::test]
async fn a_copy_that_comes_faster_than_it_is_taken_passes() {
    let gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    client.batch_execute("create table fast (a text)").await.unwrap();
    let row = Bytes::from(format!("{}\n", "x".repeat(2_000_000)));
    let mut sink = pin!(client.copy_in::<_, Bytes>("copy fast from stdin").await.unwrap());
    for _ in 0..40 {
        sink.send(row.clone()).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 40);
}

#[tokio::test]
async fn rows_larger_than_any_buffer_pass() {
    let gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    let sql = "select repeat('x', 3000000), g from generate_series(1, 5) g";
    let rows = client.query(sql, &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, &str>(0).len()).sum::<usize>(), 15_000_000);
    let big = "y".repeat(40_000_000);
    assert_eq!(client.query_one("select $1::text", &[&big]).await.unwrap().get::<_, &str>(0), big);
}

#[tokio::test]
async fn a_set_goes_wherever_its_session_goes_and_nowhere_else() {
    let door = Door { max_idle_connections: Some(2), ..Door::default() };
    let gateway = Gateway::start(Wanted { door, ..Wanted::default() }).await;
    let (ann, bob) = (gateway.connect().await, gateway.connect().await);
    ann.batch_execute("set search_path = a, b; set statement_timeout = '90s'").await.unwrap();
    bob.batch_execute("set search_path to c").await.unwrap();
    let path = async |client: &tokio_postgres::Client| {
        client.query_one("select current_setting('search_path')", &[]).await.unwrap().get::<_, String>(0)
    };
    for _ in 0..3 {
        assert_eq!(path(&ann).await, "a, b");
        assert_eq!(path(&bob).await, "c");
    }
    ann.batch_execute("reset search_path").await.unwrap();
    assert_eq!(path(&ann).await, "\"$user\", public");
    assert_eq!(path(&gateway.connect().await).await, "\"$user\", public");
}

#[tokio::test]
async fn queries_of_a_class_have_its_memory_and_others_what_their_session_has() {
    let mut wanted = Wanted { door: Door { max_idle_connections: Some(1), ..Door::default() }, ..Wanted::default() };
    wanted.policy.classes[2].terms.max_memory = Some(64 << 10);
    wanted.policy.classes[3].terms.max_memory = Some(1 << 20);
    let gateway = Gateway::start(wanted).await;
    let (ann, bob) = (gateway.connect().await, gateway.connect().await);
    let memory = async |client: &tokio_postgres::Client, class: &str| {
        let sql = format!("select current_setting('work_mem') /* punctual: class={class} */");
        client.query_one(&sql, &[]).await.unwrap().get::<_, String>(0)
    };
    ann.batch_execute("set work_mem = '7MB'").await.unwrap();
    for _ in 0..2 {
        assert_eq!((memory(&ann, "etl").await, memory(&bob, "default").await), ("64kB".into(), "4MB".into()));
        assert_eq!((memory(&ann, "default").await, memory(&bob, "etl").await), ("7MB".into(), "64kB".into()));
        assert_eq!((memory(&ann, "dash").await, memory(&ann, "etl").await), ("1MB".into(), "64kB".into()));
    }
    ann.batch_execute("set work_mem = '9MB' /* punctual: class=etl */").await.unwrap();
    assert_eq!((memory(&ann, "etl").await, memory(&ann, "default").await), ("64kB".into(), "9MB".into()));
    ann.batch_execute("set jit = off /* punctual: class=etl */").await.unwrap();
    assert_eq!((memory(&bob, "default").await, memory(&ann, "default").await), ("4MB".into(), "9MB".into()));
    ann.batch_execute("begin /* punctual: class=etl */").await.unwrap();
    assert_eq!(memory(&ann, "dash").await, "64kB", "a transaction keeps what it began with");
    ann.batch_execute("set work_mem = '8MB'; rollback").await.unwrap();
    assert_eq!((memory(&ann, "etl").await, memory(&ann, "default").await), ("64kB".into(), "9MB".into()));
    ann.batch_execute("discard all").await.unwrap();
    assert_eq!((memory(&ann, "default").await, memory(&ann, "dash").await), ("4MB".into(), "1MB".into()));
}

#[tokio::test]
async fn settings_of_the_start_up_message_mean_what_they_mean_to_postgres() {
    let gateway = Gateway::usual().await;
    let settings = r#"-c statement_timeout=77s -c search_path="$user",\ a,\ "b\ c" -c DateStyle=German -c my.own=x,y"#;
    let mut config = gateway.config();
    config.application_name("it's \\ me").options(settings);
    let (through, direct) = (gateway.connect_with(&config).await.unwrap(), common::postgres::Postgres::shared());
    let punctual::settings::Address::Unix(socket) = direct.endpoint().address else { panic!("it has a socket") };
    let mut config = tokio_postgres::Config::new();
    config.host_path(socket.parent().unwrap()).user("ann").dbname("postgres");
    let (direct, connection) = config.application_name("it's \\ me").options(settings).connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    for name in ["statement_timeout", "search_path", "datestyle", "my.own", "application_name"] {
        let show =
            async |client: &tokio_postgres::Client| texts(&client.simple_query(&format!("show {name}")).await.unwrap());
        assert_eq!(show(&through).await, show(&direct).await, "{name}");
    }
    let wrong = gateway.connect_with(gateway.config().options("-c statement_timeout=soon")).await.unwrap();
    assert_eq!(code(&wrong.simple_query("select 1").await.unwrap_err()), "22023");
    let unknown = gateway.connect_with(gateway.config().options("-c of_another_engine=1")).await.unwrap();
    assert_eq!(texts(&unknown.simple_query("select 1").await.unwrap()), ["1"]);
}

#[tokio::test]
async fn what_a_cluster_says_at_the_start_is_what_it_says_to_that_user() {
    let gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    client.batch_execute("create user farther; alter user farther set timezone = 'Asia/Tokyo'").await.unwrap();
    for (user, zone) in [("farther", "Asia/Tokyo"), ("ann", "UTC")] {
        let (_client, connection) = gateway.config().user(user).connect(NoTls).await.unwrap();
        assert!(connection.parameter("TimeZone").is_some_and(|said| said.ends_with(zone)), "{user}");
    }
}

#[tokio::test]
async fn a_set_that_is_rolled_back_is_not_repeated() {
    let gateway = Gateway::usual().await;
    let mut client = gateway.connect().await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("set statement_timeout = '77s'").await.unwrap();
    transaction.rollback().await.unwrap();
    let row = client.query_one("show statement_timeout", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "0");
}

#[tokio::test]
async fn a_temporary_table_pins_its_session_and_says_so() {
    let gateway = Gateway::usual().await;
    let mut raw = common::raw::Raw::session(gateway.address).await;
    raw.send(&common::raw::query("create temp table mine (a int)")).await;
    assert_eq!(raw.until_ready().await, "C(CREATE TABLE) N(00000) ZI");
    let other = gateway.connect().await;
    assert_eq!(code(&other.simple_query("select * from mine").await.unwrap_err()), "42P01");
    raw.send(&common::raw::query("select count(*) from mine")).await;
    assert_eq!(raw.until_ready().await, "T D(0) C(SELECT 1) ZI");
    gateway.wait_until(|view| view.clusters[0].pins == 1).await;
    raw.send(&common::raw::query("show punctual.pinned")).await;
    assert_eq!(raw.until_ready().await, "T D(temporary tables live on one connection) C(SHOW) ZI");
    raw.send(&common::raw::query("discard all")).await;
    assert_eq!(raw.until_ready().await, "C(DISCARD ALL) ZI");
    gateway.wait_until(|view| view.clusters[0].pins == 0).await;
}

#[tokio::test]
async fn what_is_made_in_the_temporary_schema_is_nobody_elses() {
    let gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    client.batch_execute("create table pg_temp.mine (a int); create type pg_temp.mood as enum ('sad')").await.unwrap();
    client.batch_execute("insert into mine values (1)").await.unwrap();
    let other = gateway.connect().await;
    for _ in 0..2 {
        other.batch_execute("create table pg_temp.mine (a int)").await.unwrap();
        other.batch_execute("drop table pg_temp.mine").await.unwrap();
    }
    drop(client);
    let sql = "select count(*) from pg_class c join pg_namespace n on n.oid = relnamespace where relname = 'mine'";
    // It goes with its connection, which is closed.
    while other.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
}

#[tokio::test]
async fn notifications_reach_the_session_that_listens() {
    let gateway = Gateway::usual().await;
    let mut raw = common::raw::Raw::session(gateway.address).await;
    raw.send(&common::raw::query("listen news")).await;
    assert_eq!(raw.until_ready().await, "C(LISTEN) N(00000) ZI");
    gateway.connect().await.batch_execute("notify news, 'hello'").await.unwrap();
    assert_eq!(raw.until(b'A').await, "A");
}

#[tokio::test]
async fn wishes_choose_class_and_slo() {
    let mut gateway = Gateway::usual().await;
    let mut config = gateway.config();
    config.options("-c punctual.class=etl");
    let client = gateway.connect_with(&config).await.unwrap();
    let query = "select count(*) from generate_series(1, 2)";
    let slo = async |gateway: &mut Gateway, sql: &str| {
        client.simple_query(sql).await.unwrap();
        let ended = gateway.ended().await;
        (ended.query.class.0, ended.query.slo.map(|slo| slo.secs_f64()))
    };
    assert_eq!(slo(&mut gateway, query).await, (2, Some(600.0)));
    client.batch_execute("set punctual.class = 'dash'").await.unwrap();
    assert_eq!(slo(&mut gateway, query).await, (3, Some(2.0)));
    client.batch_execute("set punctual.slo = '5s'").await.unwrap();
    assert_eq!(slo(&mut gateway, query).await, (3, Some(5.0)));
    assert_eq!(slo(&mut gateway, &format!("{query} /* punctual: slo=1s */")).await, (3, Some(1.0)));
    let shown = client.query_one("show punctual.slo", &[]).await.unwrap();
    assert_eq!(shown.get::<_, &str>(0), "5s");
    client.batch_execute("reset punctual.slo").await.unwrap();
    client.batch_execute("reset punctual.class").await.unwrap();
    assert_eq!(slo(&mut gateway, query).await, (2, Some(600.0)));
    let error = client.batch_execute("set punctual.class = 'nope'").await.unwrap_err();
    assert_eq!(code(&error), "22023");
    let hint = error.as_db_error().and_then(|error| error.hint()).unwrap_or_default();
    assert_eq!(hint, "The classes are control, default, etl, dash.");
    let bad = gateway.connect_with(config.options("-c punctual.class=nope")).await.err().unwrap();
    assert_eq!(code(&bad), "22023");
}

#[tokio::test]
async fn the_schema_punctual_is_answered_in_text_and_in_binary() {
    let gateway = Gateway::start(Wanted { clusters: 0, ..Wanted::default() }).await;
    let client = gateway.connect().await;
    let rows = client.query("select * from punctual.queries", &[]).await.unwrap();
    let row = &rows[0];
    assert_eq!((row.get::<_, i64>(0), row.get::<_, f64>(1)), (7, 1.5));
    assert_eq!((row.get::<_, &str>(2), row.get::<_, bool>(3)), ("ann", true));
    assert_eq!(rows[1].get::<_, Option<i64>>(0), None);
    let rows = client.simple_query("select * from punctual.queries").await.unwrap();
    assert_eq!(texts(&rows), ["7,1.5,ann,t,2000-01-01 00:00:01+00", "null,null,null,f,null"]);
    let error = async |sql: &str| code(&client.simple_query(sql).await.unwrap_err()).to_owned();
    assert_eq!(error("select * from punctual.nothing").await, "42P01");
    assert_eq!(error("select * from punctual.queries, pg_class").await, "0A000");
    assert_eq!(error("select count(*) from t").await, "57P03");
}

#[tokio::test]
async fn one_session_too_many_is_told_so() {
    let door = Door { max_sessions: 2, ..Door::default() };
    let gateway = Gateway::start(Wanted { door, ..Wanted::default() }).await;
    let _first = gateway.connect().await;
    let second = gateway.connect().await;
    let third = gateway.connect_with(&gateway.config()).await.err().unwrap();
    assert_eq!(code(&third), "53300");
    drop(second);
    loop {
        // Its place is free once the gateway has seen it go.
        if gateway.connect_with(&gateway.config()).await.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn a_lost_cluster_costs_its_query_and_nothing_else() {
    let mut gateway = Gateway::start(Wanted { clusters: 2, ..Wanted::default() }).await;
    let client = gateway.connect().await;
    let sleeping = client.simple_query("select pg_sleep(600)");
    let driver = gateway.driver.clone();
    let losing = async {
        gateway.wait_until(|view| view.queries.iter().any(|query| query.placed.is_some())).await;
        let view = gateway.link.look().await.unwrap().view;
        let (cluster, _) = view.queries[0].placed.unwrap();
        driver.send(common::driver::Knob::Lose(cluster)).ok().unwrap();
    };
    let (slept, ()) = tokio::join!(sleeping, losing);
    assert_eq!(code(&slept.unwrap_err()), "57P01");
    assert_eq!(gateway.ended().await.status, Status::Lost);
    assert_eq!(client.query_one("select 5", &[]).await.unwrap().get::<_, i32>(0), 5);
}

#[tokio::test]
async fn a_connection_that_breaks_costs_its_query_and_nothing_else() {
    let mut gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    let error = client.simple_query("select pg_terminate_backend(pg_backend_pid()) from generate_series(1, 2)").await;
    assert_eq!(code(&error.unwrap_err()), "57P01");
    assert_eq!(gateway.ended().await.status, Status::Lost);
    assert_eq!(client.query_one("select 5", &[]).await.unwrap().get::<_, i32>(0), 5);
}

#[tokio::test]
async fn a_connection_that_died_idle_is_not_noticed() {
    let gateway = Gateway::usual().await;
    let (client, killer) = (gateway.connect().await, gateway.connect().await);
    killer.batch_execute("begin").await.unwrap();
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    killer.query_one("select pg_terminate_backend($1, 60000)", &[&pid]).await.unwrap();
    assert_ne!(client.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0), pid);
}

#[tokio::test]
async fn a_farewell_ends_idle_sessions_at_once_and_busy_ones_after_their_query() {
    let gateway = Gateway::usual().await;
    let mut idle = common::raw::Raw::session(gateway.address).await;
    let mut busy = common::raw::Raw::session(gateway.address).await;
    busy.send(&common::raw::query("begin")).await;
    busy.until_ready().await;
    gateway.driver.send(common::driver::Knob::Farewell).ok().unwrap();
    assert_eq!(idle.until_ready().await, "E(57P01) end");
    busy.send(&common::raw::query("commit")).await;
    assert_eq!(busy.until_ready().await, "C(COMMIT) ZI");
    assert_eq!(busy.until_ready().await, "E(57P01) end");
}

#[tokio::test]
async fn too_many_prepared_statements_are_refused_and_the_transaction_knows() {
    let door = Door { max_statements: 1, ..Door::default() };
    let gateway = Gateway::start(Wanted { door, ..Wanted::default() }).await;
    let mut client = gateway.connect().await;
    let transaction = client.transaction().await.unwrap();
    let _one = transaction.prepare("select 1").await.unwrap();
    assert_eq!(code(&transaction.prepare("select 2").await.err().unwrap()), "53400");
    assert_eq!(code(&transaction.batch_execute("select 1").await.unwrap_err()), "25P02");
}

#[tokio::test]
async fn a_session_that_panics_takes_no_other_with_it() {
    let gateway = Gateway::usual().await;
    let (client, other) = (gateway.connect().await, gateway.connect().await);
    assert!(client.simple_query("select * from punctual.panics").await.unwrap_err().is_closed());
    assert_eq!(other.query_one("select 5", &[]).await.unwrap().get::<_, i32>(0), 5);
    while gateway.shared.sessions() > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_holds_up_nobody_else_and_little_memory() {
    let mut gateway = Gateway::usual().await;
    let mut raw = common::raw::Raw::session(gateway.address).await;
    raw.send(&common::raw::query("select repeat('x', 10000) from generate_series(1, 100000)")).await;
    gateway.wait_until(|view| view.queries.iter().any(|query| query.placed.is_some())).await;
    let other = gateway.connect().await;
    for _ in 0..100 {
        other.simple_query("select count(*) from generate_series(1, 2)").await.unwrap();
        assert_eq!(gateway.ended().await.status, Status::Finished);
    }
    // A gigabyte waits in the cluster; it was not read.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 100 << 10, "{peak} kB");
    drop(raw);
    assert_eq!(gateway.ended().await.status, Status::Cancelled);
}
