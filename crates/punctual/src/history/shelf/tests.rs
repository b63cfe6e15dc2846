//! The files of a history: hours that end, logs that are torn, bounds that are reached, disks that say no.

use std::fs;

use punctual_core::fingerprint::Fingerprint;
use punctual_core::query::Status;

use super::*;
use crate::record::logged::logged;

fn clock_at(micros: u64) -> Clock {
    Arc::new(move || Time::from_micros(micros))
}

fn row(ended: u64) -> Row {
    Row::new(Time::from_micros(ended), Time::from_micros(ended), Fingerprint(ended))
}

fn shelf(dir: &Path) -> (Shelf, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let (shelf, repairs) = Shelf::take_over(dir, 1 << 20, false, clock_at(0), tally.clone()).unwrap();
    assert_eq!(repairs, []);
    (shelf, tally)
}

#[test]
fn rows_that_a_full_disk_does_not_take_are_held_and_written_to_another_part() {
    let dir = tempfile::tempdir().unwrap();
    let (mut shelf, tally) = shelf(dir.path());
    shelf.put(&row(1));
    let part = Part { hour: Hour::of(Time::ZERO), number: 0 };
    shelf.open[0].log = Some((part, Appender::resume(Path::new("/dev/full"), 0).unwrap()));
    shelf.write(true);
    assert_eq!(tally.counts().written, 0);
    shelf.put(&row(2));
    shelf.write(true);
    assert_eq!((tally.counts().written, tally.counts().lost_on_disk), (2, 0));
    shelf.close();
    let rows: Vec<Row> = super::super::read(dir.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows, [row(1), row(2)]);
}

#[test]
fn what_is_held_while_the_disk_fails_is_bounded_and_the_rest_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut shelf, tally) = shelf(dir.path());
    fs::remove_dir_all(dir.path()).unwrap();
    let large = Row { sql: Some("x".repeat(1 << 20).into()), ..row(1) };
    for _ in 0..10 {
        shelf.put(&large);
    }
    shelf.write(true);
    assert_eq!((tally.counts().written, tally.counts().lost_on_disk), (0, 7));
    assert!(shelf.open[0].gathered.len() <= HELD);
    fs::create_dir(dir.path()).unwrap();
    shelf.write(true);
    assert_eq!((tally.counts().written, tally.counts().lost_on_disk), (3, 7));
}

#[test]
fn a_disk_that_has_room_again_is_said_once_with_what_was_lost_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (mut shelf, _) = shelf(dir.path());
    shelf.put(&row(1));
    shelf.write(true);
    let full = |shelf: &mut Shelf, full| shelf.open[0].log.as_mut().unwrap().1.full = full;
    full(&mut shelf, true);
    let large = Row { sql: Some("x".repeat(1 << 20).into()), ..row(2) };
    let said = logged(|| (0..10).for_each(|_| shelf.put(&large)));
    assert!(said.contains("ERROR") && said.matches("history cannot be written").count() == 1, "{said}");
    full(&mut shelf, false);
    let said = logged(|| {
        shelf.write(true);
        shelf.put(&row(3));
        shelf.write(true);
    });
    assert!(said.contains("INFO") && said.contains("history is written again"), "{said}");
    assert!(said.contains("lost=7") && said.lines().count() == 1, "{said}");
}

/// A row as version 1 wrote it.
fn row_of_version_1() -> Vec<u8> {
    let hex = "01078092f40101a09ffa01c096b1020104626c75650108010764656661756c74000103616461010473686f7001026269cdd70200010a73656c\
               65637420312f30000180897a00000001010132323031320105013c";
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The log of an hour as version 1 wrote it, with one row.
fn log_of_version_1() -> Vec<u8> {
    let mut log = frame::Format { version: 1, ..log::FORMAT }.header().to_vec();
    assert!(frame::append(&mut log, &row_of_version_1()));
    log
}

#[test]
fn what_a_version_did_not_have_is_not_known() {
    let one = log::row_of(1, &row_of_version_1()).unwrap();
    assert_eq!((one.priority, one.priority_asked, one.blocked), (None, None, None));
    let two = log::row_of(2, &[row_of_version_1(), vec![1, 3, 1, 6, 0]].concat()).unwrap();
    assert_eq!(two, Row { priority: Some(-2), priority_asked: Some(3), ..one });
}

#[test]
fn a_log_of_version_1_is_read_and_rolled_up_and_nothing_is_appended_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let whole = log_of_version_1();
    let path = dir.path().join("history-1970-01-01T00.log");
    fs::write(&path, &whole).unwrap();
    let read = |path: &Path| super::super::read(path).unwrap().map(Result::unwrap).collect::<Vec<Row>>();
    let old = read(dir.path()).remove(0);
    assert_eq!((old.user.as_deref(), old.status, old.bytes), (Some("ada"), Some(Status::Failed), Some(60)));
    assert_eq!((old.priority, old.priority_asked, old.scan), (None, None, None));
    let (mut shelf, _) = shelf(dir.path());
    shelf.put(&row(1));
    shelf.write(true);
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(read(dir.path()), [old.clone(), row(1)]);
    shelf.roll_all();
    assert_eq!(hours::parts(dir.path()).unwrap().values().filter(|files| files.parquet.is_some()).count(), 2);
    assert_eq!(read(dir.path()), [old.clone(), row(1)]);

    // What is good of a damaged one is kept in its version.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history-1970-01-01T00.log");
    fs::write(&path, [&whole[..], &[7; 40], &whole[frame::HEADER..]].concat()).unwrap();
    let (mended, _) = log::mend(dir.path(), Part { hour: Hour::of(Time::ZERO), number: 0 }).unwrap();
    assert_eq!(mended, log::Mended::Usable { good: fs::metadata(&path).unwrap().len(), old: true });
    assert_eq!(read(&path), [old.clone(), old]);
}

#[test]
fn few_hours_are_open_at_once_and_rows_of_all_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut shelf, tally) = shelf(dir.path());
    for round in 0..2 {
        for hour in 0..10 {
            shelf.put(&row(hour * 3_600_000_000 + round));
        }
    }
    assert_eq!(shelf.open.len(), OPEN_HOURS);
    shelf.close();
    assert_eq!(tally.counts().written, 20);
    // The clock says 1970-01-01T00: no hour is over, each log was taken up again.
    assert_eq!(hours::parts(dir.path()).unwrap().len(), 10);
}

#[test]
fn a_roll_up_that_is_stopped_leaves_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut shelf, _) = shelf(dir.path());
    shelf.put(&row(1));
    shelf.close();
    let part = Part { hour: Hour::of(Time::ZERO), number: 0 };
    roll_up(dir.path(), part, &AtomicBool::new(true)).unwrap();
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["history-1970-01-01T00.log"]);
}

#[test]
fn a_log_damaged_while_it_was_open_is_rolled_up_and_kept_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (mut shelf, _) = shelf(dir.path());
    (1..=3).for_each(|ended| shelf.put(&row(ended)));
    shelf.close();
    let path = dir.path().join("history-1970-01-01T00.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[frame::HEADER + 10] ^= 1;
    fs::write(&path, bytes).unwrap();
    roll_up(dir.path(), Part { hour: Hour::of(Time::ZERO), number: 0 }, &AtomicBool::new(false)).unwrap();
    assert!(dir.path().join("history-1970-01-01T00.log.damaged").exists() && !path.exists());
    let rows: Vec<Row> = super::super::read(dir.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3 - 1, "the first row is damaged");
}

#[test]
fn a_part_that_cannot_be_rolled_up_does_not_keep_the_others_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut shelf, _) = shelf(dir.path());
    (0..3).for_each(|hour| shelf.put(&row(hour * 3_600_000_000)));
    shelf.write(true);
    // Its Parquet file cannot be made: the name is a directory's.
    fs::create_dir_all(dir.path().join("history-1970-01-01T00.parquet.tmp/x")).unwrap();
    shelf.roll_all();
    assert!(shelf.roll_at.is_some(), "not at once again");
    shelf.settle_all();
    let log = |hour| dir.path().join(format!("history-1970-01-01T0{hour}.log")).exists();
    assert_eq!([log(0), log(1), log(2)], [true, false, false]);
    assert_eq!(super::super::read(dir.path()).unwrap().count(), 3);
}

#[test]
fn rows_can_be_put_on_the_disk_itself() {
    let dir = tempfile::tempdir().unwrap();
    let tally = Arc::new(Tally::default());
    let (mut shelf, _) = Shelf::take_over(dir.path(), 1 << 20, true, clock_at(0), tally.clone()).unwrap();
    shelf.put(&row(1));
    shelf.write(true);
    assert_eq!(tally.counts().written, 1);
}
