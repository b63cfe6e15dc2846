//! The writing thread: what is recorded is there afterwards, and nobody waits for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::thread;

use punctual_core::fingerprint::Fingerprint;
use tempfile::TempDir;

use super::super::row::tests::an_end;
use super::*;
use crate::history::read;
use crate::record::frame::HEADER;

const HOUR: u64 = 3_600_000_000;
/// 2026-11-29T14:00.
const T14: u64 = 1_795_960_800 * 1_000_000;

/// A history whose clock stands where it is put.
struct Fixture {
    dir: TempDir,
    now: Arc<AtomicU64>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { dir: tempfile::tempdir().unwrap(), now: Arc::new(AtomicU64::new(T14)) }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn settings(&self) -> settings::History {
        settings::History { dir: self.path().to_owned(), max_bytes: 64 << 20, sql: RecordSql::Text }
    }

    fn options(&self) -> Options {
        let now = self.now.clone();
        Options { clock: Arc::new(move || Time::from_micros(now.load(Ordering::Relaxed))), ..Options::default() }
    }

    fn start(&self) -> Writer {
        Writer::start(&self.settings(), self.options()).unwrap()
    }

    fn at(&self, micros: u64) {
        self.now.store(micros, Ordering::Relaxed);
    }

    /// The history files that are there.
    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("history-")).collect();
        names.sort();
        names
    }

    fn rows(&self) -> Vec<Row> {
        read(self.path()).unwrap().map(Result::unwrap).collect()
    }

    fn ids(&self) -> Vec<u64> {
        self.rows().iter().map(|row| row.fingerprint.0).collect()
    }
}

fn row(id: u64, ended: u64) -> Row {
    Row::new(Time::from_micros(ended), Time::from_micros(ended), Fingerprint(id))
}

#[test]
fn an_ended_query_becomes_a_row_with_the_hash_of_its_text() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    let (ended, about) = an_end(7, Time::from_micros(T14 + 5));
    let (cluster, class) = (Arc::from("blue"), Arc::from("default"));
    let names = Names { cluster: Some(&cluster), class: &class, lane: None };
    assert!(writer.recorder().ended(&ended, &about, names));
    drop(writer);
    let rows = fixture.rows();
    let hash = Key::of_dir(fixture.path()).unwrap().hash(b"select 1/0");
    let expected = Row { text_hash: Some(hash), ..Row::of(&ended, &about, names, RecordSql::Text) };
    assert_eq!(rows, [expected]);
}

#[test]
fn an_hour_becomes_one_parquet_file_once_it_is_over() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    let recorder = writer.recorder();
    (0..100).for_each(|id| assert!(recorder.record(row(id, T14 + id))));
    writer.flush().unwrap();
    assert_eq!(fixture.files(), ["history-2026-11-29T14.log"]);
    fixture.at(T14 + HOUR + 1);
    assert!(recorder.record(row(100, T14 + HOUR)));
    writer.flush().unwrap();
    assert_eq!(fixture.files(), ["history-2026-11-29T14.log", "history-2026-11-29T15.log"], "rows may still come");
    fixture.at(T14 + HOUR + 10_000_000);
    writer.flush().unwrap();
    assert_eq!(fixture.files(), ["history-2026-11-29T14.parquet", "history-2026-11-29T15.log"]);
    assert_eq!(fixture.ids(), (0..=100).collect::<Vec<_>>());
    drop(writer);
    assert_eq!(fixture.files().len(), 2);
}

#[test]
fn rows_that_come_late_begin_another_part_of_their_hour() {
    let fixture = Fixture::new();
    fixture.at(T14 + 2 * HOUR);
    let writer = fixture.start();
    for id in 0..2 {
        assert!(writer.recorder().record(row(id, T14 + 5)));
        writer.flush().unwrap();
        fixture.at(T14 + 2 * HOUR + (id + 1) * 20_000_000);
        writer.flush().unwrap();
    }
    assert_eq!(fixture.files(), ["history-2026-11-29T14.1.parquet", "history-2026-11-29T14.parquet"]);
    assert_eq!(fixture.ids(), [0, 1]);
}

#[test]
fn rows_from_the_future_wait_for_the_clock() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    assert!(writer.recorder().record(row(1, T14 + 5 * HOUR)));
    assert!(writer.recorder().record(row(0, T14)));
    writer.flush().unwrap();
    fixture.at(T14 + HOUR + 60_000_000);
    writer.flush().unwrap();
    assert_eq!(fixture.files(), ["history-2026-11-29T14.parquet", "history-2026-11-29T19.log"]);
    assert_eq!(fixture.ids(), [0, 1]);
}

#[test]
fn a_start_goes_on_with_the_hours_log_and_rolls_up_older_ones() {
    let fixture = Fixture::new();
    for id in 0..3 {
        let writer = fixture.start();
        assert!(writer.recorder().record(row(id, T14 + id)));
    }
    assert_eq!(fixture.files(), ["history-2026-11-29T14.log"]);
    fixture.at(T14 + 3 * HOUR);
    fixture.start().flush().unwrap();
    assert_eq!(fixture.files(), ["history-2026-11-29T14.parquet"]);
    assert_eq!(fixture.ids(), [0, 1, 2]);
}

#[test]
fn a_killed_writer_leaves_what_it_flushed_and_a_torn_tail_is_cut_at_any_byte() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    (0..3).for_each(|id| assert!(writer.recorder().record(row(id, T14 + id))));
    writer.flush().unwrap();
    // What a kill now would leave.
    let bytes = fs::read(fixture.path().join("history-2026-11-29T14.log")).unwrap();
    let frame = (bytes.len() - HEADER) / 3;
    for end in bytes.len() - frame..bytes.len() {
        let killed = Fixture::new();
        fs::write(killed.path().join("history-2026-11-29T14.log"), &bytes[..end]).unwrap();
        let writer = killed.start();
        let torn = (end + frame - bytes.len()) as u64;
        let repairs: Vec<_> = writer.repairs().iter().map(|repair| (repair.kept_rows, repair.lost_bytes)).collect();
        assert_eq!(repairs, if torn > 0 { vec![(2, torn)] } else { vec![] }, "cut at {end}");
        assert!(writer.recorder().record(row(9, T14 + 9)));
        drop(writer);
        assert_eq!(killed.ids(), [0, 1, 9], "cut at {end}");
    }
}

#[test]
fn a_log_that_is_damaged_anywhere_never_stops_a_start() {
    let whole = Fixture::new();
    let writer = whole.start();
    (0..3).for_each(|id| assert!(writer.recorder().record(row(id, T14 + id))));
    drop(writer);
    let bytes = fs::read(whole.path().join("history-2026-11-29T14.log")).unwrap();
    let frame = (bytes.len() - HEADER) / 3;
    for at in 0..bytes.len() {
        let fixture = Fixture::new();
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs::write(fixture.path().join("history-2026-11-29T14.log"), &damaged).unwrap();
        let writer = fixture.start();
        assert!(writer.recorder().record(row(9, T14 + 9)));
        let repaired = writer.repairs().len();
        drop(writer);
        if at < 8 {
            assert_eq!((fixture.ids(), repaired), (vec![9], 1), "byte {at}: not a log any more");
        } else if at < HEADER {
            assert_eq!(repaired, 0, "byte {at}: another version is left alone");
            assert_eq!(fixture.files(), ["history-2026-11-29T14.1.log", "history-2026-11-29T14.log"]);
        } else {
            let lost = ((at - HEADER) / frame) as u64;
            let expected: Vec<u64> = [0, 1, 2, 9].into_iter().filter(|id| *id != lost).collect();
            assert_eq!((fixture.ids(), repaired), (expected, 1), "byte {at}");
        }
    }
}

#[test]
fn what_a_damaged_log_looked_like_is_kept() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    (0..3).for_each(|id| assert!(writer.recorder().record(row(id, T14 + id))));
    drop(writer);
    let path = fixture.path().join("history-2026-11-29T14.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[HEADER + 10] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let aside = fixture.path().join("history-2026-11-29T14.log.damaged");
    let frame = (bytes.len() - HEADER) / 3;
    let expected = Repair { file: path, kept_rows: 2, lost_bytes: frame as u64, moved_to: Some(aside.clone()) };
    assert_eq!(fixture.start().repairs(), [expected]);
    assert_eq!(fs::read(aside).unwrap(), bytes);
}

#[test]
fn a_crash_between_the_parquet_file_and_the_removal_of_its_log_shows_no_row_twice() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    (0..3).for_each(|id| assert!(writer.recorder().record(row(id, T14 + id))));
    writer.flush().unwrap();
    let log = fixture.path().join("history-2026-11-29T14.log");
    let bytes = fs::read(&log).unwrap();
    writer.roll_up().unwrap();
    drop(writer);
    assert_eq!(fixture.files(), ["history-2026-11-29T14.parquet"]);
    fs::write(&log, bytes).unwrap();
    fs::write(fixture.path().join("history-2026-11-29T15.parquet.tmp"), "half").unwrap();
    assert_eq!(fixture.ids(), [0, 1, 2]);
    drop(fixture.start());
    assert_eq!(fixture.files(), ["history-2026-11-29T14.parquet"]);
    assert_eq!(fixture.ids(), [0, 1, 2]);
}

#[test]
fn the_bound_is_kept_and_the_oldest_hours_go() {
    let fixture = Fixture::new();
    let settings = settings::History { max_bytes: 200_000, ..fixture.settings() };
    let writer = Writer::start(&settings, fixture.options()).unwrap();
    let recorder = writer.recorder();
    for hour in 0..20 {
        fixture.at(T14 + hour * HOUR);
        for id in 0..100 {
            // Text that does not compress, so that an hour takes what it takes.
            let sql: String =
                (0..40).map(|word| format!("{:x}", Key::PUBLIC.hash(&[hour as u8, id as u8, word]))).collect();
            let row = Row { sql: Some(sql.into()), ..row(hour, T14 + hour * HOUR) };
            assert!(recorder.record(row));
        }
        writer.flush().unwrap();
        let bytes: u64 =
            fixture.files().iter().map(|name| fs::metadata(fixture.path().join(name)).unwrap().len()).sum();
        assert!(bytes <= settings.max_bytes, "hour {hour}: {bytes} bytes");
    }
    let hours: BTreeSet<u64> = fixture.ids().into_iter().collect();
    assert_eq!(hours.last(), Some(&19));
    assert_eq!(hours.len() as u64, 20 - hours.first().unwrap(), "those that are kept are the newest");
    assert!(writer.counts().parts_removed > 0 && *hours.first().unwrap() > 0);
}

#[test]
fn a_full_queue_drops_rows_and_counts_them() {
    let fixture = Fixture::new();
    let options = Options { queue_rows: 10, ..fixture.options() };
    let (writer, work) = Writer::prepare(&fixture.settings(), options).unwrap();
    let took: Vec<bool> = (0..15).map(|id| writer.recorder().record(row(id, T14))).collect();
    assert_eq!(took.iter().filter(|took| **took).count(), 10);
    assert_eq!(writer.counts(), Counts { recorded: 10, dropped_full: 5, ..Counts::default() });
    let thread = thread::spawn(work);
    writer.flush().unwrap();
    assert_eq!(writer.counts().written, 10);
    let large = Row { sql: Some("x".repeat(65 << 20).into()), ..row(1, T14) };
    assert!(!writer.recorder().record(large), "more bytes than may be queued");
    let recorder = writer.recorder();
    drop(writer);
    thread.join().unwrap();
    assert!(!recorder.record(row(1, T14)), "nobody writes any more");
}

#[test]
fn a_directory_that_goes_away_is_survived() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    fs::remove_dir_all(fixture.path()).unwrap();
    assert!(writer.recorder().record(row(1, T14)));
    writer.flush().unwrap();
    assert_eq!((writer.counts().written, writer.counts().lost_on_disk), (0, 0), "it is tried again");
    fs::create_dir(fixture.path()).unwrap();
    writer.flush().unwrap();
    assert_eq!(fixture.ids(), [1]);
    fs::remove_dir_all(fixture.path()).unwrap();
    fixture.at(T14 + HOUR);
    assert!(writer.recorder().record(row(2, T14 + HOUR)));
    let recorder = writer.recorder();
    drop(writer);
    assert_eq!(recorder.counts().lost_on_disk, 1);
}

#[test]
fn a_history_has_one_writer() {
    let fixture = Fixture::new();
    let first = fixture.start();
    let text = Writer::start(&fixture.settings(), fixture.options()).unwrap_err().to_string();
    assert!(text.starts_with("another gateway or import writes to "), "{text}");
    drop(first);
    drop(fixture.start());
}

#[test]
fn a_place_that_cannot_be_written_is_refused_with_its_name() {
    let fixture = Fixture::new();
    let dir = fixture.path().join("history");
    fs::write(&dir, "a file").unwrap();
    let text =
        Writer::start(&settings::History { dir, ..fixture.settings() }, fixture.options()).unwrap_err().to_string();
    assert!(text.contains("cannot write history to") && text.contains("/history"), "{text}");
}

#[test]
fn an_importer_waits_for_room_and_rolls_everything_up() {
    let fixture = Fixture::new();
    let options = Options { queue_rows: 4, ..fixture.options() };
    let writer = Writer::start(&fixture.settings(), options).unwrap();
    for id in 0..1_000 {
        assert!(writer.recorder().record_waiting(row(id, T14 + id * HOUR / 100)));
    }
    writer.roll_up().unwrap();
    assert!(fixture.files().iter().all(|name| name.ends_with(".parquet")), "{:?}", fixture.files());
    assert_eq!(fixture.ids(), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_reader_sees_whole_rows_in_order_while_they_are_written_and_rolled_up() {
    let fixture = Fixture::new();
    let writer = fixture.start();
    let recorder = writer.recorder();
    let reading = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut most = 0;
            while most < 2_000 {
                let ids = fixture.ids();
                assert!(ids.iter().copied().eq(0..ids.len() as u64), "rows {ids:?}");
                assert!(ids.len() >= most, "rows went away");
                most = ids.len();
            }
            most
        });
        for id in 0..2_000 {
            fixture.at(T14 + id * HOUR / 100 + 20_000_000);
            assert!(recorder.record_waiting(row(id, T14 + id * HOUR / 100)));
            if id % 50 == 0 {
                writer.flush().unwrap();
            }
        }
        writer.flush().unwrap();
        reader.join().unwrap()
    });
    assert_eq!(reading, 2_000);
}
