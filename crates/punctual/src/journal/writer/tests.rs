//! Segments as they are written: checkpoints, gaps, bounds.

use std::thread;

use punctual_core::Policy;
use tempfile::TempDir;

use super::*;
use crate::journal::replay::Fault;
use crate::journal::replay::tests::{Play, play};
use crate::journal::{Replay, Replayed, Segment, Verdict, replay};
use crate::record::logged::logged;

pub(in crate::journal) const BUILD: &str = "1.0 abc";

pub(in crate::journal) fn opening() -> Opening {
    Opening { build: BUILD.into(), seed: 7, started: Time::from_micros(1) }
}

pub(in crate::journal) fn settings(dir: &TempDir) -> settings::Journal {
    settings::Journal { dir: dir.path().join("journal"), max_bytes: 64 << 20, segment_bytes: 16 << 20 }
}

/// The segments of a replay, all of which were replayed.
pub(in crate::journal) fn replayed(replay: &Replay) -> Vec<Replayed> {
    let replayed = |segment: &Segment| match &segment.verdict {
        Verdict::Replayed(replayed) => (**replayed).clone(),
        Verdict::Refused(cause) => panic!("{cause}"),
    };
    replay.segments.iter().map(replayed).collect()
}

#[test]
fn what_was_decided_is_decided_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(&settings(&dir), opening()).unwrap();
    let Play { events, commands, .. } = play(&mut writer, 500, Policy::default());
    writer.flush();
    assert_eq!(writer.counts(), Counts { recorded: events, dropped: 0, segments: 1, removed: 0 });
    drop(writer);
    let replay = replay(&settings(&dir).dir, BUILD).unwrap();
    assert!(replay.agrees());
    let all = replayed(&replay);
    assert_eq!((all[0].events, all[0].commands, all[0].agreed), (events, commands, events));
    assert_eq!((all[0].ending, all[0].continues, all[0].seed), (Ending::Closed, None, 7));
}

#[test]
fn a_segment_begins_where_the_one_before_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings::Journal { segment_bytes: 2_000, ..settings(&dir) };
    let mut writer = Writer::start(&settings, opening()).unwrap();
    let Play { events, .. } = play(&mut writer, 500, Policy::default());
    drop(writer);
    let replay = replay(&settings.dir, BUILD).unwrap();
    assert!(replay.agrees(), "{replay}");
    let all = replayed(&replay);
    assert!(all.len() > 3, "{replay}");
    assert_eq!(all.iter().map(|one| one.agreed).sum::<u64>(), events);
    assert!(all.iter().skip(1).all(|one| one.continues == Some(true)));
    assert!(all.iter().rev().skip(1).all(|one| one.ending == Ending::Continued));
}

#[test]
fn the_bound_is_kept_and_the_oldest_segments_go() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings::Journal { segment_bytes: 10_000, max_bytes: 100_000, ..settings(&dir) };
    let mut writer = Writer::start(&settings, opening()).unwrap();
    play(&mut writer, 5_000, Policy { decisions_kept: 5, ..Policy::default() });
    writer.flush();
    let counts = writer.counts();
    drop(writer);
    let segments = segment::segments(&settings.dir).unwrap();
    let bytes: u64 = segments.values().map(|(_, bytes)| bytes).sum();
    assert!(bytes <= settings.max_bytes, "{bytes} bytes");
    assert!(counts.removed > 0);
    assert_eq!(segments.len() as u64, counts.segments - counts.removed);
    assert_eq!(*segments.keys().next_back().unwrap(), counts.segments - 1);
    assert!(replay(&settings.dir, BUILD).unwrap().agrees());
}

#[test]
fn a_full_queue_makes_a_gap_that_is_told_and_then_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, work) = Writer::prepare(&settings(&dir), opening(), 40).unwrap();
    let mut all = play(&mut writer, 100, Policy::default());
    assert!(!writer.checkpoint_due(), "there is no room for it");
    let dropped = writer.counts().dropped;
    assert_eq!(dropped, all.events - 39, "the checkpoint and 39 triples fit");
    let thread = thread::spawn(work);
    writer.flush();
    assert!(writer.checkpoint_due());
    all.go_on(&mut writer, 5);
    assert_eq!(writer.counts().dropped, dropped);
    drop(writer);
    thread.join().unwrap();
    let replay = replay(&settings(&dir).dir, BUILD).unwrap();
    assert_eq!(replay.segments.iter().map(|one| one.fault).collect::<Vec<_>>(), [Some(Fault::Gap), None]);
    let said = replay.to_string();
    assert!(!replay.agrees() && said.contains(&format!("then {dropped} events are missing")), "{said}");
    assert!(said.contains("the journal is not whole") && said.contains("events are missing between it and"), "{said}");
    let all = replayed(&replay);
    assert_eq!(all.iter().map(|one| one.ending).collect::<Vec<_>>(), [Ending::Gap { dropped }, Ending::Closed]);
    assert_eq!(all[1].continues, None);
}

#[test]
fn triples_without_a_checkpoint_before_them_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(&settings(&dir), opening()).unwrap();
    writer.record(Time::ZERO, &Event::Woke, &[]);
    assert_eq!(writer.counts(), Counts { recorded: 1, dropped: 1, segments: 0, removed: 0 });
    assert!(writer.checkpoint_due());
}

#[test]
fn a_directory_that_goes_away_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(&dir);
    let mut writer = Writer::start(&settings, opening()).unwrap();
    fs::remove_dir_all(&settings.dir).unwrap();
    let mut all = play(&mut writer, 10, Policy::default());
    writer.flush();
    writer.record(Time::ZERO, &Event::Woke, &[]);
    assert_eq!(writer.counts().dropped, all.events + 1);
    assert!(!writer.checkpoint_due(), "not at once");
    fs::create_dir(&settings.dir).unwrap();
    writer.not_before = None;
    assert!(writer.checkpoint_due());
    all.go_on(&mut writer, 10);
    drop(writer);
    assert!(replay(&settings.dir, BUILD).unwrap().agrees());
}

#[test]
fn a_full_disk_ends_the_segment_and_asks_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(Shared::default());
    let settings = settings::Journal { dir: dir.path().to_owned(), ..settings(&dir) };
    let mut shelf = Shelf::new(&settings, 3, opening(), shared.clone());
    shelf.file = Some(Appender::resume(std::path::Path::new("/dev/full"), 0).unwrap());
    shelf.takes = true;
    shelf.put(b"one");
    shelf.put(b"two");
    shelf.write();
    shelf.put(b"three");
    assert_eq!(shared.lost.load(Ordering::Relaxed), 3);
    assert!(shared.failed.load(Ordering::Relaxed));
    shelf.begin(b"checkpoint", None, 0);
    assert!(dir.path().join(segment::name(3)).exists());
    assert_eq!(shelf.lost, 0);
}

#[test]
fn a_gap_after_a_full_disk_counts_all_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(&dir);
    let (mut writer, work) = Writer::prepare(&settings, opening(), 40).unwrap();
    drop(work);
    let shared = writer.shared.clone();
    let mut shelf = Shelf::new(&settings, 0, opening(), shared.clone());
    let checkpoint = segment::checkpoint_of(&Dispatcher::new(7, Policy::default())).unwrap();
    let woke = segment::triple(Time::ZERO, &Event::Woke, &[]).unwrap();
    let fill = |shelf: &mut Shelf, full| shelf.file.as_mut().unwrap().full = full;
    shelf.begin(&checkpoint, None, 0);
    shelf.put(&woke);
    shelf.write();
    fill(&mut shelf, true);
    shelf.put(&woke);
    shelf.write();
    shelf.put(&woke);
    // The next segment cannot be begun either: something is in its way.
    fs::write(settings.dir.join(segment::name(1)), "").unwrap();
    fill(&mut shelf, false);
    shelf.begin(&checkpoint, None, 5);
    shelf.put(&woke);
    let said = logged(|| shelf.begin(&checkpoint, None, 2));
    assert!(said.contains("INFO") && said.contains("the journal is written again"), "{said}");
    assert!(said.contains("lost=10"), "{said}");
    shelf.put(&woke);
    shelf.finish(Ending::Closed);
    assert_eq!(shared.lost.load(Ordering::Relaxed), 3, "the driver counts its own");
    fs::remove_file(settings.dir.join(segment::name(1))).unwrap();
    let all = replayed(&replay(&settings.dir, BUILD).unwrap());
    let shown: Vec<_> = all.iter().map(|one| (one.sequence, one.events, one.ending)).collect();
    assert_eq!(shown, [(0, 1, Ending::Gap { dropped: 10 }), (2, 1, Ending::Closed)]);
    assert!(!writer.checkpoint_due(), "not at once");
}

#[test]
fn a_segment_that_could_not_be_begun_is_not_said_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(&dir);
    let (writer, work) = Writer::prepare(&settings, opening(), 40).unwrap();
    drop(work);
    let mut shelf = Shelf::new(&settings, 0, opening(), writer.shared.clone());
    let checkpoint = segment::checkpoint_of(&Dispatcher::new(7, Policy::default())).unwrap();
    shelf.begin(&checkpoint, None, 0);
    fs::write(settings.dir.join(segment::name(1)), "").unwrap();
    shelf.begin(&checkpoint, None, 0);
    let replay = replay(&settings.dir.join(segment::name(0)), BUILD).unwrap();
    assert_eq!(replayed(&replay)[0].ending, Ending::Unsaid);
}

#[test]
fn a_journal_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let first = Writer::start(&settings(&dir), opening()).unwrap();
    let second = Writer::start(&settings(&dir), opening());
    assert!(matches!(second, Err(JournalError::InUse { .. })));
    drop(first);
    assert!(Writer::start(&settings(&dir), opening()).is_ok());
}

#[test]
fn a_place_that_cannot_be_written_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("journal"), "a file").unwrap();
    let text = Writer::start(&settings(&dir), opening()).unwrap_err().to_string();
    assert!(text.contains("cannot write a journal to") && text.contains("journal"), "{text}");
}

#[test]
fn a_new_start_begins_a_segment_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut writer = Writer::start(&settings(&dir), opening()).unwrap();
        play(&mut writer, 10, Policy::default());
    }
    let replay = replay(&settings(&dir).dir, BUILD).unwrap();
    let sequences: Vec<_> = replayed(&replay).iter().map(|one| (one.sequence, one.continues)).collect();
    assert_eq!(sequences, [(0, None), (1, None)]);
}

#[test]
fn a_driver_that_gives_no_checkpoints_does_not_make_a_segment_grow() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings::Journal { segment_bytes: 2_000, ..settings(&dir) };
    let mut writer = Writer::start(&settings, opening()).unwrap();
    writer.checkpoint(&Dispatcher::new(7, Policy::default()));
    (0..10_000).for_each(|at| writer.record(Time::from_micros(at), &Event::Woke, &[]));
    let counts = writer.counts();
    assert!(counts.dropped > 5_000 && counts.dropped < counts.recorded, "{counts:?}");
    drop(writer);
    let all = replayed(&replay(&settings.dir, BUILD).unwrap());
    assert_eq!(all[0].ending, Ending::Gap { dropped: counts.dropped });
    assert_eq!(all[0].agreed, counts.recorded - counts.dropped);
    assert!(replay(&settings.dir, BUILD).unwrap().agrees(), "nothing but the newest tail is missing");
}

#[test]
fn a_file_in_the_way_of_a_segment_is_passed_by() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(&settings(&dir), opening()).unwrap();
    fs::write(settings(&dir).dir.join(segment::name(0)), "in the way").unwrap();
    let mut all = play(&mut writer, 3, Policy::default());
    writer.flush();
    writer.look_for_failure();
    writer.not_before = None;
    all.go_on(&mut writer, 3);
    drop(writer);
    let replay = replay(&settings(&dir).dir, BUILD).unwrap();
    assert!(matches!(replay.segments[0].verdict, Verdict::Refused(JournalError::NotJournal { .. })));
    assert!(matches!(replay.segments[1].verdict, Verdict::Replayed(_)));
}
