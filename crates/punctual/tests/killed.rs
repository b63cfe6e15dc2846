//! What each party sees when another is killed in the middle of something: the table in `docs/failures.md`.

mod common;
mod served;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::mortal::Mortal;
use common::raw::{bind, execute, flush, frame, parse, query, sync};
use common::wire::{Gone, Wire};
use punctual_core::query::Status;
use served::{Served, journal_of, punctual};

/// In the middle of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Idle,
    IdleInTransaction,
    Waiting,
    Running,
    RowsFlow,
    RunningInTransaction,
    Writing,
    CopyIn,
    OpenPipeline,
}

use Moment::*;

/// As many as of these moments hold one, so that one more waits.
const SLOTS: u32 = 7;

const MOMENTS: [Moment; 9] =
    [Idle, IdleInTransaction, Waiting, Running, RowsFlow, RunningInTransaction, Writing, CopyIn, OpenPipeline];

impl Moment {
    fn name(self) -> String {
        format!("{self:?}")
    }

    /// How many queries of it run or wait once it has come.
    fn live(self) -> usize {
        usize::from(!matches!(self, Idle | IdleInTransaction))
    }

    /// Brings a session there. The table `gate` is locked, so that whoever reads it stays.
    async fn come(self, served: &Served) -> Wire {
        let mut wire = Wire::open_as(served.address, "ann", &self.name()).await;
        match self {
            Idle => drop(wire.ask("select g from generate_series(1, 1) g").await),
            IdleInTransaction => drop(wire.ask("begin; insert into t values (1)").await),
            Waiting => wire.send(&query("select g from generate_series(1, 1) g")).await.expect("it is read"),
            Running => wire.send(&query("select 'gate' from gate")).await.expect("it is read"),
            RowsFlow => {
                let sql = "select repeat('x', 1000) from generate_series(1, 1000000)";
                wire.send(&query(sql)).await.expect("it is read");
                while wire.frame().await.expect("rows").0 != b'D' {}
            }
            RunningInTransaction => {
                let begun = wire.ask("begin; insert into t values (2)").await.expect("it is answered");
                assert_eq!(begun.status, b'T');
                wire.send(&query("select 'gate' from gate")).await.expect("it is read");
            }
            Writing => wire.send(&query("insert into t select n from gate")).await.expect("it is read"),
            CopyIn => {
                drop(wire.ask("copy t from stdin").await.expect("it may begin"));
                wire.send(&frame(b'd', b"3\n")).await.expect("it is read");
            }
            OpenPipeline => {
                let sql = "insert into t values (4) returning n";
                wire.send(&[parse("", sql), bind("", &[]), execute(0), flush()].concat()).await.expect("it is read");
                while wire.frame().await.expect("a row").0 != b'C' {}
            }
        }
        wire
    }

    /// What the client hears then, when it goes on with what it was at: rows are told by their number, if that is sure.
    async fn hears(self, mut wire: Wire) -> String {
        match self {
            Idle => return hears(wire.ask("select g from generate_series(1, 1) g").await),
            IdleInTransaction => return hears(wire.answer().await),
            // What it sends now, nobody may be there to hear.
            CopyIn => drop(wire.send(&[frame(b'd', b"3\n"), frame(b'c', b"")].concat()).await),
            OpenPipeline => drop(wire.send(&sync()).await),
            _ => {}
        }
        if self == RowsFlow {
            // Cut off wherever it was: with an error if that was between two rows.
            let heard = loop {
                match wire.frame().await {
                    Ok((b'D', _)) => {}
                    Ok((b'E', _)) => break "an error",
                    Err(Gone) => break "cut off",
                    Ok((tag, _)) => panic!("{} is no end of a result that was cut off", tag as char),
                }
            };
            return (if heard == "an error" { "cut off" } else { heard }).to_owned();
        }
        hears(wire.answer().await)
    }
}

fn hears(answer: Result<common::wire::Answer, Gone>) -> String {
    match answer {
        Err(Gone) => "hung up on".to_owned(),
        Ok(answer) => {
            let goes_on = match answer.status {
                0 => ", session over".to_owned(),
                b'I' => String::new(),
                status => format!(", {}", status as char),
            };
            match answer.error {
                Some(told) => format!("{}{goes_on}", told.code),
                None => format!("{} rows{goes_on}", answer.rows.len()),
            }
        }
    }
}

/// A Postgres with a table that is locked by a session of its own, and a gateway in front.
struct Stage {
    postgres: Mortal,
    served: Served,
    /// Holds the lock.
    _guard: Option<tokio_postgres::Client>,
}

impl Stage {
    async fn set() -> Stage {
        let postgres = Mortal::start("killed");
        let client = postgres.client().await;
        client.batch_execute("create table gate (n int4); create table t (n int4)").await.expect("tables");
        let configuration = "[policy]\nretry_first = \"20ms\"\nretry_most = \"1s\"\n[history]\nsql = \"text\"\n";
        let served = Served::start(&(configuration.to_owned() + &postgres.cluster("pg", SLOTS)));
        served.wait_ready();
        let guard = lock(&postgres).await;
        Stage { postgres, served, _guard: Some(guard) }
    }

    /// Brings sessions to all moments: the slots are full then, and whoever waits, waits.
    async fn bring(&self) -> Vec<(Moment, Wire)> {
        let mut all = Vec::new();
        let mut live = 0;
        for moment in MOMENTS.into_iter().filter(|moment| *moment != Waiting).chain([Waiting]) {
            all.push((moment, moment.come(&self.served).await));
            live += moment.live();
            while self.served.get("/v1/queries").1.matches("\"query_id\"").count() < live {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(self.served.get("/v1/queries").1.matches("\"waiting\"").count(), 1);
        all
    }

    /// Waits until nothing runs for anybody, at the gateway or at the cluster, but for those who are left out.
    async fn is_quiet(&self) {
        while self.served.get("/v1/queries").1.contains("\"query_id\"") {
            tokio::task::yield_now().await;
        }
        let sql = "select count(*) from pg_stat_activity where usename = 'ann' and state <> 'idle'";
        let client = self.postgres.client().await;
        while client.query_one(sql, &[]).await.expect("an answer").get::<_, i64>(0) > 0 {}
    }

    /// What of the table `t` was kept.
    async fn kept(&self) -> i64 {
        let client = self.postgres.client().await;
        client.query_one("select count(*) from t", &[]).await.expect("an answer").get(0)
    }

    /// How the queries of each moment ended, as history has it: the last one of each session.
    fn ended(self) -> BTreeMap<String, String> {
        let (status, log, dir) = self.served.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        let rows = punctual::history::read(&dir.path().join("state/history")).expect("history");
        let mut ended = BTreeMap::new();
        for row in rows {
            let row = row.expect("a row");
            let code = row.sqlstate.map(|code| String::from_utf8_lossy(&code.0).into_owned());
            let status = row.status.map_or("?", Status::name);
            ended.insert(
                row.application.unwrap_or_default().to_string(),
                format!("{status} {}", code.unwrap_or_default()),
            );
        }
        ended
    }
}

async fn lock(postgres: &Mortal) -> tokio_postgres::Client {
    let guard = postgres.client().await;
    guard.batch_execute("begin; lock table gate in access exclusive mode").await.expect("it is free");
    guard
}

fn told(list: &[(Moment, &str)]) -> BTreeMap<Moment, String> {
    list.iter().map(|(moment, said)| (*moment, (*said).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_cluster_is_killed() {
    let stage = Stage::set().await;
    let all = stage.bring().await;
    stage.postgres.kill(true);
    stage.postgres.revive();
    let mut heard = BTreeMap::new();
    for (moment, wire) in all {
        heard.insert(moment, moment.hears(wire).await);
    }
    // Whichever is first: the end of its connection, or the driver's word of the cluster's.
    heard.values_mut().for_each(|said| *said = said.replace("57P01", "08006"));
    // Its turn may have come in the moment in which the cluster died.
    let waited = heard.remove(&Waiting);
    assert!(matches!(waited.as_deref(), Some("1 rows" | "57P03")), "{waited:?}");
    let expected = told(&[
        (Idle, "1 rows"),
        (IdleInTransaction, "08006, session over"),
        (Running, "08006"),
        (RowsFlow, "cut off"),
        (RunningInTransaction, "08006, session over"),
        (Writing, "08006"),
        (CopyIn, "08006"),
        (OpenPipeline, "08006"),
    ]);
    assert_eq!(heard, expected);
    stage.is_quiet().await;
    assert_eq!(stage.kept().await, 0, "nothing that was lost was kept");
    let mut ended = stage.ended();
    ended.remove(&Waiting.name());
    assert_eq!(ended, history(&[Running, RowsFlow, RunningInTransaction, Writing, CopyIn, OpenPipeline], "lost "));
}

/// Of these moments the last query ended so, of the others it had finished before.
fn history(ended: &[Moment], so: &str) -> BTreeMap<String, String> {
    let of = |moment| if ended.contains(&moment) { so } else { "finished " };
    MOMENTS
        .into_iter()
        .filter(|moment| *moment != Waiting)
        .map(|moment| (moment.name(), of(moment).to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn when_backends_are_told_to_go() {
    let stage = Stage::set().await;
    let all = stage.bring().await;
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'ann'";
    stage.postgres.client().await.query(sql, &[]).await.expect("its superuser may");
    let mut heard = BTreeMap::new();
    for (moment, wire) in all {
        heard.insert(moment, moment.hears(wire).await);
    }
    let expected = told(&[
        (Idle, "1 rows"),
        (IdleInTransaction, "08006, session over"),
        (Waiting, "1 rows"),
        (Running, "57P01"),
        (RowsFlow, "cut off"),
        (RunningInTransaction, "57P01, session over"),
        (Writing, "57P01"),
        (CopyIn, "57P01"),
        (OpenPipeline, "57P01"),
    ]);
    assert_eq!(heard, expected);
    stage.is_quiet().await;
    assert_eq!(stage.kept().await, 0, "nothing that was lost was kept");
    let mut ended = stage.ended();
    assert_eq!(ended.remove(&Waiting.name()).as_deref(), Some("finished "));
    assert_eq!(ended, history(&[Running, RowsFlow, RunningInTransaction, Writing, CopyIn, OpenPipeline], "lost "));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_clients_are_killed() {
    let stage = Stage::set().await;
    let all = stage.bring().await;
    all.into_iter().for_each(|(_, wire)| wire.vanish());
    // Everything stops, at the cluster as well, though the table is still locked.
    stage.is_quiet().await;
    assert_eq!(stage.kept().await, 0, "nothing that was left in the middle was kept");
    let mut ended = stage.ended();
    ended.values_mut().for_each(|said| *said = said.replace("57014", ""));
    assert_eq!(ended.remove(&Waiting.name()).as_deref(), Some("cancelled "));
    assert_eq!(ended, history(&[Running, RowsFlow, RunningInTransaction, Writing, CopyIn, OpenPipeline], "cancelled "));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_gateway_is_killed() {
    let stage = Stage::set().await;
    let all = stage.bring().await;
    let Stage { postgres, served, _guard } = stage;
    let (_, _, dir) = served.kill();
    for (moment, wire) in all {
        let mut wire = wire;
        // A reset may come before what was sent is read.
        while let Ok((tag, _)) = wire.frame().await {
            assert!(matches!(tag, b'D' | b'Z' | b'C'), "{moment:?}: {}", tag as char);
        }
    }
    // What waits for the lock does not notice; it does nothing that is kept, and ends with it.
    let sql = "select count(*) from pg_stat_activity where usename = 'ann' and wait_event_type is distinct from 'Lock'";
    let client = postgres.client().await;
    while client.query_one(sql, &[]).await.expect("an answer").get::<_, i64>(0) > 0 {}
    drop(_guard);
    let sql = "select count(*) from pg_stat_activity where usename = 'ann'";
    while client.query_one(sql, &[]).await.expect("an answer").get::<_, i64>(0) > 0 {}
    let kept = client.query_one("select count(*) from t", &[]).await.expect("an answer").get::<_, i64>(0);
    assert_eq!(kept, 0);
    // The next one goes on where it left off.
    let configuration = "[history]\nsql = \"text\"\n".to_owned() + &postgres.cluster("pg", SLOTS);
    let served = Served::start_in(dir, &configuration);
    served.wait_ready();
    let mut wire = Wire::open(served.address, "ann").await;
    assert_eq!(hears(wire.ask("select g from generate_series(1, 1) g").await), "1 rows");
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let replayed = punctual().args(["replay"]).arg(journal_of(dir.path())).output().expect("it runs");
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stdout));
}

/// Eight clients, one query after the other, for this long.
const LOAD: Duration = Duration::from_millis(2_500);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_older_than_a_second_is_missing_after_a_kill() {
    let postgres = Mortal::start("second");
    let served = Served::start(&("[history]\nsql = \"text\"\n".to_owned() + &postgres.cluster("pg", 4)));
    served.wait_ready();
    let (began, address) = (Instant::now(), served.address);
    let clients = (0..8).map(|number| {
        tokio::spawn(async move {
            let (mut wire, mut done) = (Wire::open(address, "ann").await, Vec::new());
            loop {
                let sql = format!("select '{number}-{}' from generate_series(1, 1)", done.len());
                match wire.ask(&sql).await {
                    Ok(answer) if answer.error.is_none() && answer.status == b'I' => done.push((sql, Instant::now())),
                    _ => return done,
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    tokio::time::sleep(LOAD.saturating_sub(began.elapsed())).await;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    let (killed, killed_at) = (Instant::now(), since.as_micros() as u64);
    let (_, _, dir) = served.kill();
    let rows = punctual::history::read(&dir.path().join("state/history")).expect("history");
    let written: std::collections::BTreeSet<_> =
        rows.filter_map(|row| Some(row.expect("a row").sql?.to_string())).collect();
    let (mut old, mut all) = (0, 0);
    for client in clients {
        for (sql, at) in client.await.expect("no panic") {
            let is_old = killed.duration_since(at) > Duration::from_secs(1);
            assert!(!is_old || written.contains(&sql), "{sql} ended {:?} before", killed.duration_since(at));
            (old, all) = (old + usize::from(is_old), all + 1);
        }
    }
    assert!(old > 100, "{old} of {all}");
    let mut newest = None;
    punctual::journal::replay_watched(&journal_of(dir.path()), punctual_core::BUILD, &mut |turn| {
        newest = newest.max(Some(turn.now))
    })
    .expect("a journal");
    let newest = newest.expect("events").micros();
    assert!(newest + 1_000_000 >= killed_at, "its last event is {newest}, the kill was at {killed_at}");
    println!("{all} queries, {old} of them older than a second, {} written", written.len());
}
