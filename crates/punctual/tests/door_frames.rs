//! The front door, frame by frame: pipelines, errors in them, and what no driver sends.

mod common;

use common::raw::*;
use common::{Gateway, Wanted};
use punctual::settings::Door;
use punctual_core::query::Status;
use punctual_core::time::Span;

#[tokio::test]
async fn a_pipeline_is_answered_in_order() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    let pipeline = [
        parse("", "select $1::text"),
        bind("", &["a"]),
        describe(b'P', ""),
        execute(0),
        bind("", &["b"]),
        execute(0),
        close(b'S', ""),
        sync(),
    ];
    raw.send(&pipeline.concat()).await;
    assert_eq!(raw.until_ready().await, "1 2 T D(a) C(SELECT 1) 2 D(b) C(SELECT 1) 3 ZI");
}

#[tokio::test]
async fn an_error_in_a_pipeline_skips_the_rest_up_to_its_sync() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    let pipeline = [
        parse("good", "select 1"),
        parse("bad", "selec"),
        parse("never", "select 2"),
        bind("never", &[]),
        execute(0),
        sync(),
    ];
    raw.send(&pipeline.concat()).await;
    assert_eq!(raw.until_ready().await, "1 E(42601) ZI");
    raw.send(&[bind("good", &[]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "2 D(1) C(SELECT 1) ZI");
    raw.send(&[bind("never", &[]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "E(26000) ZI");
    raw.send(&[parse("good", "select 3"), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "E(42P05) ZI");
}

#[tokio::test]
async fn a_flush_brings_replies_before_the_sync() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    raw.send(&[parse("s", "select $1::int4"), describe(b'S', "s"), flush()].concat()).await;
    assert_eq!(raw.until(b'T').await, "1 t T");
    raw.send(&[bind("s", &["7"]), execute(0), flush()].concat()).await;
    assert_eq!(raw.until(b'C').await, "2 D(7) C(SELECT 1)");
    raw.send(&[bind("s", &["8"]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "2 D(8) C(SELECT 1) ZI");
    raw.send(&[parse("", "selec"), flush()].concat()).await;
    assert_eq!(raw.until(b'E').await, "E(42601)");
    raw.send(&[bind("s", &["9"]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "ZI");
}

#[tokio::test]
async fn a_flush_after_every_message_makes_no_difference() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    raw.send(&[parse("", "select $1::int4"), flush(), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "1 ZI");
    raw.send(&[bind("", &["5"]), flush(), execute(0), flush(), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "2 D(5) C(SELECT 1) ZI");
    let pieces = [bind("", &["6"]), flush(), execute(0), flush(), execute(0)[..4].to_vec()];
    raw.send(&pieces.concat()).await;
    assert_eq!(raw.until(b'C').await, "2 D(6) C(SELECT 1)");
    raw.send(&[execute(0)[4..].to_vec(), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "C(SELECT 0) ZI");
}

#[tokio::test]
async fn the_unnamed_statement_is_the_sessions_whoever_used_the_connection_since() {
    let door = Door { max_idle_connections: Some(1), ..Door::default() };
    let gateway = Gateway::start(Wanted { door, ..Wanted::default() }).await;
    let (mut ann, mut bob) = (Raw::session(gateway.address).await, Raw::session(gateway.address).await);
    for (raw, sql) in [(&mut ann, "select 'ann', $1::int4"), (&mut bob, "select 'bob', $1::int4")] {
        raw.send(&[parse("", sql), describe(b'S', ""), sync()].concat()).await;
        assert_eq!(raw.until_ready().await, "1 t T ZI");
    }
    for _ in 0..2 {
        for (raw, name) in [(&mut ann, "ann"), (&mut bob, "bob")] {
            raw.send(&[bind("", &["5"]), execute(0), sync()].concat()).await;
            assert_eq!(raw.until_ready().await, format!("2 D({name},5) C(SELECT 1) ZI"));
        }
    }
    // A simple query ends it, as in Postgres.
    ann.send(&query("select 1")).await;
    ann.until_ready().await;
    ann.send(&[bind("", &["5"]), execute(0), sync()].concat()).await;
    assert_eq!(ann.until_ready().await, "E(26000) ZI");
}

#[tokio::test]
async fn constants_that_another_session_had_worked_out_under_its_settings_are_not_taken() {
    let door = Door { max_idle_connections: Some(1), ..Door::default() };
    let gateway = Gateway::start(Wanted { door, ..Wanted::default() }).await;
    let (mut ann, mut bob) = (Raw::session(gateway.address).await, Raw::session(gateway.address).await);
    let prepared = [parse("s", "select (0.1::float8 + 0.2::float8)::text"), sync()].concat();
    let again = [bind("s", &[]), execute(0), sync()].concat();
    bob.send(&query("set extra_float_digits = 0")).await;
    bob.until_ready().await;
    for (raw, sum) in [(&mut ann, "0.30000000000000004"), (&mut bob, "0.3")] {
        raw.send(&prepared).await;
        assert_eq!(raw.until_ready().await, "1 ZI");
        raw.send(&again).await;
        assert_eq!(raw.until_ready().await, format!("2 D({sum}) C(SELECT 1) ZI"));
    }
    ann.send(&again).await;
    assert_eq!(ann.until_ready().await, "2 D(0.30000000000000004) C(SELECT 1) ZI");
}

#[tokio::test]
async fn statements_are_deallocated_by_either_way() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    raw.send(&[parse("a", "select 1"), parse("b", "select 2"), close(b'S', "a"), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "1 1 3 ZI");
    raw.send(&[parse("a", "select 3"), bind("a", &[]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "1 2 D(3) C(SELECT 1) ZI");
    raw.send(&query("deallocate b")).await;
    assert_eq!(raw.until_ready().await, "C(DEALLOCATE) ZI");
    raw.send(&[bind("b", &[]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "E(26000) ZI");
    raw.send(&query("deallocate all")).await;
    assert_eq!(raw.until_ready().await, "C(DEALLOCATE ALL) ZI");
    raw.send(&[bind("a", &[]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "E(26000) ZI");
}

#[tokio::test]
async fn portals_give_their_rows_in_portions() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    raw.send(&query("begin")).await;
    raw.until_ready().await;
    raw.send(&[parse("", "select generate_series(1, 3)"), bind("", &[]), execute(2), flush()].concat()).await;
    assert_eq!(raw.until(b's').await, "1 2 D(1) D(2) s");
    raw.send(&[execute(2), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "D(3) C(SELECT 1) ZT");
    let local = [parse("", "select * from punctual.queries"), bind("", &[]), execute(1), execute(1), execute(1)];
    raw.send(&[local.concat(), sync()].concat()).await;
    let told = raw.until_ready().await;
    assert_eq!(told, "1 2 D(7,1.5,ann,t,2000-01-01 00:00:01+00) s D(null,null,null,f,null) C(SELECT 1) C(SELECT 0) ZT");
}

#[tokio::test]
async fn statements_about_the_gateway_take_their_turn_in_a_pipeline() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    let step = |sql: &str| [parse("", sql), bind("", &[]), execute(0)].concat();
    let pipeline = [step("begin"), step("set punctual.slo = '3s'"), step("select 'x'"), sync()];
    raw.send(&pipeline.concat()).await;
    assert_eq!(raw.until_ready().await, "1 2 C(BEGIN) 1 2 C(SET) 1 2 D(x) C(SELECT 1) ZT");
    raw.send(&[step("show punctual.slo"), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "1 2 D(3s) C(SHOW) ZT");
    raw.send(&[step("select 1/count(*) from pg_class where false"), step("set punctual.slo = '9s'"), sync()].concat())
        .await;
    assert_eq!(raw.until_ready().await, "1 2 E(22012) ZE");
    raw.send(&query("rollback")).await;
    raw.until_ready().await;
    raw.send(&[step("show punctual.slo"), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "1 2 D(3s) C(SHOW) ZI");
}

#[tokio::test]
async fn frames_may_come_byte_by_byte() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::connect(gateway.address).await;
    let hello = start_up(0, &[("user", "ann"), ("database", "postgres")]);
    let pipeline = [parse("s", "select $1::text"), bind("s", &["a"]), execute(0), sync(), query("select 'b'")];
    for byte in [hello, pipeline.concat()].concat() {
        raw.send(&[byte]).await;
    }
    raw.until_ready().await;
    assert_eq!(raw.until_ready().await, "1 2 D(a) C(SELECT 1) ZI");
    assert_eq!(raw.until_ready().await, "T D(b) C(SELECT 1) ZI");
}

#[tokio::test]
async fn units_sent_at_once_are_answered_one_after_the_other() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    let units: Vec<u8> = (0..50).flat_map(|at| query(&format!("select {at} from generate_series(1, 1)"))).collect();
    raw.send(&units).await;
    for at in 0..50 {
        assert_eq!(raw.until_ready().await, format!("T D({at}) C(SELECT 1) ZI"));
    }
}

#[tokio::test]
async fn a_copy_in_a_pipeline_takes_its_data() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    raw.send(&query("create table piped (a int)")).await;
    raw.until_ready().await;
    raw.send(&[parse("", "copy piped from stdin"), bind("", &[]), execute(0), sync()].concat()).await;
    assert_eq!(raw.until(b'G').await, "1 2 G");
    raw.send(&[frame(b'd', b"1\n2\n"), frame(b'c', b""), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "C(COPY 2) ZI");
    raw.send(&query("copy piped from stdin")).await;
    assert_eq!(raw.until(b'G').await, "G");
    raw.send(&[frame(b'd', b"3\n"), frame(b'f', b"no\0")].concat()).await;
    assert_eq!(raw.until_ready().await, "E(57014) ZI");
}

#[tokio::test]
async fn encryption_is_declined_and_later_versions_are_negotiated() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::connect(gateway.address).await;
    raw.send(&[0, 0, 0, 8, 4, 210, 22, 47]).await;
    let mut answer = [0];
    tokio::io::AsyncReadExt::read_exact(&mut raw.stream, &mut answer).await.unwrap();
    assert_eq!(answer, *b"N");
    raw.send(&start_up(2, &[("user", "ann"), ("database", "postgres"), ("_pq_.x", "1")])).await;
    let told = raw.until_ready().await;
    assert!(told.starts_with("v R S ") && told.ends_with("K ZI"), "{told}");
}

#[tokio::test]
async fn garbage_is_answered_with_an_error_and_the_door() {
    let gateway = Gateway::usual().await;
    let said = async |bytes: &[u8]| {
        let mut raw = Raw::connect(gateway.address).await;
        raw.send(bytes).await;
        raw.until_ready().await
    };
    assert_eq!(said(b"GET / HTTP/1.1\r\n\r\n").await, "E(08P01) end");
    assert_eq!(said(&[0, 0, 0, 3]).await, "E(08P01) end");
    assert_eq!(said(&[0, 0, 0, 8, 0, 2, 0, 0]).await, "E(0A000) end");
    assert_eq!(said(&start_up(0, &[("database", "x")])).await, "E(28000) end");
    assert_eq!(said(&start_up(0, &[("user", "x"), ("replication", "true")])).await, "E(0A000) end");
    let then = async |bytes: &[u8]| {
        let mut raw = Raw::session(gateway.address).await;
        raw.send(bytes).await;
        raw.until_ready().await
    };
    assert_eq!(then(&[b'Q', 0x7f, 0xff, 0xff, 0xff]).await, "E(08P01) end");
    assert_eq!(then(&[b'Q', 0, 0, 0, 1]).await, "E(08P01) end");
    assert_eq!(then(&frame(b'?', b"")).await, "E(08P01) end");
    assert_eq!(then(&frame(b'F', b"\0\0\0\x01")).await, "E(0A000) ZI");
    assert_eq!(then(&[frame(b'd', b"left over"), query("select 1")].concat()).await, "T D(1) C(SELECT 1) ZI");
    gateway.wait_until(|view| view.queries.is_empty()).await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_hung_up_on() {
    let door = Door { startup_within: Span::from_millis(20), ..Door::default() };
    let gateway = Gateway::start(Wanted { door, ..Wanted::default() }).await;
    let mut raw = Raw::connect(gateway.address).await;
    assert_eq!(raw.until_ready().await, "end");
}

#[tokio::test]
async fn a_comment_that_cannot_be_read_is_a_warning() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    raw.send(&query("select 'x' /* punctual: class=nope, slo=soon */")).await;
    assert_eq!(raw.until_ready().await, "N(01000) N(01000) T D(x) C(SELECT 1) ZI");
}

/// However a client leaves in the middle of a pipeline, its query ends with it, long before any grace is over.
#[tokio::test]
async fn a_session_that_ends_in_a_pipeline_frees_its_slot_at_once() {
    let mut wanted = Wanted { slots: 1, ..Wanted::default() };
    wanted.policy.cancel_grace = Span::from_secs(3_600);
    let mut gateway = Gateway::start(wanted).await;
    let open = [parse("", "select 1 from pg_sleep(0.001)"), bind("", &[]), execute(0)].concat();
    let slow = [parse("", "select pg_sleep(3600)"), bind("", &[]), execute(0), flush()].concat();
    let copying = [parse("", "copy pg_class to stdin"), bind("", &[]), execute(0)].concat();
    let terminate = frame(b'X', b"");
    for (before, last) in [
        (&open, &terminate),
        (&slow, &terminate),
        (&open, &frame(b'?', b"")),
        (&slow, &vec![b'Q', 0x7f, 0xff, 0xff, 0xff]),
        (&slow, &query("select 1")),
        (&copying, &terminate),
    ] {
        let mut raw = Raw::session(gateway.address).await;
        raw.send(before).await;
        raw.send(last).await;
        assert_eq!(gateway.ended().await.status, Status::Cancelled, "{before:?} {last:?}");
    }
    for last in [vec![], terminate] {
        let mut raw = Raw::session(gateway.address).await;
        raw.send(&slow).await;
        gateway.wait_until(|view| view.queries.iter().any(|query| query.placed.is_some())).await;
        raw.send(&last).await;
        drop(raw);
        assert_eq!(gateway.ended().await.status, Status::Cancelled);
    }
    gateway.wait_until(|view| view.clusters.iter().all(|cluster| cluster.running + cluster.pins == 0)).await;
    // And what ran is not running any more.
    let client = gateway.connect().await;
    let sleeping = "select count(*) from pg_stat_activity where query like '%pg_sleep(3600)' and state = 'active'";
    while client.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
}

#[tokio::test]
async fn what_a_pipeline_without_its_sync_has_done_is_taken_back() {
    let mut gateway = Gateway::usual().await;
    let client = gateway.connect().await;
    client.batch_execute("create table unfinished (a int)").await.unwrap();
    gateway.ended().await;
    let mut raw = Raw::session(gateway.address).await;
    let insert = [parse("", "insert into unfinished values (1)"), bind("", &[]), execute(0), flush()].concat();
    raw.send(&insert).await;
    assert_eq!(raw.until(b'C').await, "1 2 C(INSERT 0 1)");
    raw.send(&frame(b'X', b"")).await;
    gateway.ended().await;
    assert_eq!(client.query_one("select count(*) from unfinished", &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn malformed_messages_cost_an_error_and_the_cluster_never_sees_them() {
    let mut gateway = Gateway::start(Wanted { slots: 1, ..Wanted::default() }).await;
    let mut raw = Raw::session(gateway.address).await;
    let pid = async |raw: &mut Raw| {
        raw.send(&query("select pg_backend_pid()")).await;
        raw.until_ready().await
    };
    let before = pid(&mut raw).await;
    let good = [parse("", "select 'x'"), bind("", &[]), execute(0)].concat();
    for (malformed, code) in [
        (frame(b'P', b"s\0select 1"), "08P01"),
        (frame(b'P', b"s\0select 1\0\0\x07"), "08P01"),
        (frame(b'P', b"s\0select\0 1\0\0\0"), "08P01"),
        (frame(b'P', b"s\0select '\xff'\0\0\0"), "22021"),
        (frame(b'B', b"\0"), "08P01"),
        (frame(b'B', b"\0\0\0\x05\0\0\0\0"), "08P01"),
        (frame(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0"), "08P01"),
        (frame(b'B', b"\0\0\0\0\0\0\0\0\0"), "08P01"),
        (frame(b'D', b"X\0"), "08P01"),
        (frame(b'C', b"Sx"), "08P01"),
        (frame(b'E', b"\0\0"), "08P01"),
        (frame(b'H', b"\0"), "08P01"),
    ] {
        raw.send(&[malformed.clone(), good.clone(), sync()].concat()).await;
        assert_eq!(raw.until_ready().await, format!("E({code}) ZI"), "{malformed:?}");
        raw.send(&[good.clone(), malformed.clone(), good.clone(), sync()].concat()).await;
        assert_eq!(raw.until_ready().await, format!("1 2 D(x) C(SELECT 1) E({code}) ZI"), "{malformed:?}");
        raw.send(&[good.clone(), flush()].concat()).await;
        assert_eq!(raw.until(b'C').await, "1 2 D(x) C(SELECT 1)");
        raw.send(&[malformed.clone(), good.clone(), sync()].concat()).await;
        assert_eq!(raw.until_ready().await, format!("E({code}) ZI"), "{malformed:?}");
    }
    raw.send(&frame(b'S', b"\0")).await;
    assert_eq!(raw.until_ready().await, "E(08P01) ZI");
    for (malformed, code) in [
        (frame(b'Q', b""), "08P01"),
        (frame(b'Q', b"select 1"), "08P01"),
        (frame(b'Q', b"select 1\0; select 2\0"), "08P01"),
        (frame(b'Q', b"select '\xc3\x28'\0"), "22021"),
    ] {
        raw.send(&malformed).await;
        assert_eq!(raw.until_ready().await, format!("E({code}) ZI"), "{malformed:?}");
    }
    // The same connection serves on: nothing was wrong with it.
    assert_eq!(pid(&mut raw).await, before);
    while let Ok(ended) = gateway.records.try_recv() {
        assert!(matches!(ended.status, Status::Finished | Status::Failed), "{ended:?}");
    }
}

#[tokio::test]
async fn a_malformed_message_fails_the_transaction_that_it_is_in() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    for malformed in [
        frame(b'Q', b"select 1"),
        frame(b'F', b"\0\0\0\x01"),
        [frame(b'B', b"\0"), sync()].concat(),
        [frame(b'C', b"S"), sync()].concat(),
        frame(b'S', b"?"),
    ] {
        raw.send(&query("begin")).await;
        raw.until_ready().await;
        raw.send(&malformed).await;
        let told = raw.until_ready().await;
        assert!(told.starts_with("E(") && told.ends_with(") ZE"), "{told}");
        raw.send(&query("select 1")).await;
        assert_eq!(raw.until_ready().await, "E(25P02) ZE");
        raw.send(&query("rollback")).await;
        assert_eq!(raw.until_ready().await, "C(ROLLBACK) ZI");
    }
}

#[tokio::test]
async fn other_encodings_than_utf8_pass_where_they_can() {
    let gateway = Gateway::usual().await;
    let mut raw = Raw::session(gateway.address).await;
    raw.send(&query("set client_encoding = 'LATIN1'")).await;
    raw.until_ready().await;
    raw.send(&frame(b'Q', b"select length('\xe9t\xe9')\0")).await;
    assert_eq!(raw.until_ready().await, "T D(3) C(SELECT 1) ZI");
    raw.send(&[frame(b'P', b"\0select '\xe9'\0\0\0"), sync()].concat()).await;
    assert_eq!(raw.until_ready().await, "E(0A000) ZI");
}
