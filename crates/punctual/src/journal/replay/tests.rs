//! Journals that are decided again: those that agree, those that were forged, and those that are damaged.

use punctual_core::Policy;
use punctual_core::admit::claim::Claim;
use punctual_core::billing::Price;
use punctual_core::class::DEFAULT;
use punctual_core::cluster::Spec;
use punctual_core::event::Outcome;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{QueryId, SessionId, Units};
use punctual_core::query::Query;
use punctual_core::route::Routing;
use punctual_core::statement::Kind;
use punctual_core::time::Span;

use super::*;
use crate::journal::writer::tests::{BUILD, opening, replayed, settings};
use crate::journal::writer::{Opening, Writer};
use crate::record::frame::{HEADER, append};

/// A small gateway's life: two clusters, queries that come, run and end.
pub(in crate::journal) struct Play {
    dispatcher: Dispatcher,
    now: u64,
    next: u64,
    pub(in crate::journal) events: u64,
    pub(in crate::journal) commands: u64,
}

/// Plays `queries` queries into a journal, as the driver does.
pub(in crate::journal) fn play(writer: &mut Writer, queries: u64, policy: Policy) -> Play {
    let policy = Policy { routing: Routing::P2c, ..policy };
    let mut play = Play { dispatcher: Dispatcher::new(7, policy), now: 1_000, next: 0, events: 0, commands: 0 };
    for name in ["blue", "green"] {
        let spec = Spec {
            name: name.into(),
            units: Units(2),
            slots: 4,
            price: Price::default(),
            killable: true,
            offer: None,
            writer: false,
        };
        for command in play.happens(writer, Event::ClusterWanted(spec)) {
            if let Command::Start { cluster, generation, .. } = command {
                play.happens(writer, Event::ClusterReady { cluster, generation });
            }
        }
    }
    play.go_on(writer, queries);
    play
}

impl Play {
    pub(in crate::journal) fn go_on(&mut self, writer: &mut Writer, queries: u64) {
        for _ in 0..queries {
            let number = self.next;
            self.next += 1;
            let query = Query {
                id: QueryId(number),
                session: SessionId(number % 16),
                fingerprint: Fingerprint(number % 5),
                kind: Kind::Select,
                class: DEFAULT,
                slo: Some(Span::from_secs(1)),
                claim: Claim::default(),
                traits: None,
            };
            self.happens(writer, Event::Arrived(query));
            if number >= 3 {
                let outcome = Outcome::Finished { rows: number, bytes: 8 * number };
                self.happens(
                    writer,
                    Event::Finished { query: QueryId(number - 3), outcome, blocked: Span::ZERO, pinned: false },
                );
            }
        }
    }

    fn happens(&mut self, writer: &mut Writer, event: Event) -> Vec<Command> {
        self.now += 777;
        let now = Time::from_micros(self.now);
        if writer.checkpoint_due() {
            writer.checkpoint(&self.dispatcher);
        }
        let mut commands = Vec::new();
        self.dispatcher.handle(now, event.clone(), &mut commands);
        writer.record(now, &event, &commands);
        self.events += 1;
        self.commands += commands.len() as u64;
        commands
    }
}

/// The one segment of a journal of some queries, and its bytes.
fn a_segment(dir: &tempfile::TempDir, queries: u64) -> (PathBuf, Vec<u8>) {
    let mut writer = Writer::start(&settings(dir), opening()).unwrap();
    play(&mut writer, queries, Policy::default());
    drop(writer);
    let file = settings(dir).dir.join(segment::name(0));
    let bytes = fs::read(&file).unwrap();
    (file, bytes)
}

/// Where each frame of a segment begins.
fn frames_of(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut starts) = (HEADER, Vec::new());
    while at < bytes.len() {
        starts.push(at);
        at += 8 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    }
    starts
}

fn one(file: &Path) -> Replayed {
    replayed(&replay(file, BUILD).unwrap()).remove(0)
}

#[test]
fn a_tail_torn_at_any_byte_costs_what_was_not_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (file, bytes) = a_segment(&dir, 10);
    let starts = frames_of(&bytes);
    let events = starts.len() as u64 - 3;
    let last_triple = starts[starts.len() - 2];
    for end in last_triple..bytes.len() {
        fs::write(&file, &bytes[..end]).unwrap();
        let replayed = one(&file);
        let (start, expected) = starts.iter().zip(-2i64..).take_while(|(start, _)| **start <= end).last().unwrap();
        let expected = (expected as u64).min(events);
        let shown = (replayed.events, replayed.agreed, replayed.torn_bytes, replayed.ending);
        assert_eq!(shown, (expected, expected, (end - start) as u64, Ending::Unsaid), "cut at {end}");
    }
}

#[test]
fn a_flipped_bit_ends_the_replay_there_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (file, bytes) = a_segment(&dir, 50);
    let starts = frames_of(&bytes);
    let mut flipped = bytes.clone();
    flipped[starts[2 + 20] + 12] ^= 4;
    fs::write(&file, &flipped).unwrap();
    let replayed = one(&file);
    assert_eq!((replayed.events, replayed.agreed), (20, 20));
    assert_eq!(replayed.damaged_bytes, (bytes.len() - starts[22]) as u64);
    for (frame, missing) in [(0, "header"), (1, "checkpoint")] {
        let mut flipped = bytes.clone();
        flipped[starts[frame] + 12] ^= 4;
        fs::write(&file, &flipped).unwrap();
        let text = replay(&file, BUILD).unwrap_err().to_string();
        assert!(text.contains(missing) && text.contains("journal-0000000000.seg"), "{text}");
    }
}

#[test]
fn a_forged_command_is_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (file, bytes) = a_segment(&dir, 50);
    let starts = frames_of(&bytes);
    let at = starts[2 + 10];
    let end = starts[2 + 11];
    let (mut forged, mut given) = (bytes[..at].to_vec(), Vec::new());
    if let Some(Piece::Triple { now, event, commands }) = segment::read(&bytes[at + 8..end]) {
        given = postcard::from_bytes::<Vec<Command>>(commands).unwrap();
        append(&mut forged, &segment::triple(now, &event, &[]).unwrap());
    }
    assert!(!given.is_empty());
    forged.extend_from_slice(&bytes[end..]);
    fs::write(&file, &forged).unwrap();
    let replay = replay(&file, BUILD).unwrap();
    assert!(!replay.agrees());
    let replayed = replayed(&replay).remove(0);
    assert_eq!(replayed.agreed, replayed.events - 1, "the events after it still agree");
    let found = replayed.disagreement.unwrap();
    assert_eq!((found.index, found.expected.as_str()), (10, "[]"));
    assert_eq!(found.got, format!("{given:?}"));
    assert!(replay.to_string().contains("first disagreement at event 10"), "{replay}");
    assert!(serde_json::to_string(&replay).unwrap().contains("\"index\":10"));
}

#[test]
fn a_segment_that_does_not_begin_where_the_last_ended_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let settings = crate::settings::Journal { segment_bytes: 2_000, ..settings(&dir) };
    let mut writer = Writer::start(&settings, opening()).unwrap();
    play(&mut writer, 100, Policy::default());
    drop(writer);
    let file = settings.dir.join(segment::name(1));
    let bytes = fs::read(&file).unwrap();
    let starts = frames_of(&bytes);
    let mut forged = bytes[..starts[0]].to_vec();
    forged.extend_from_slice(&bytes[starts[0]..starts[1]]);
    let other = segment::checkpoint_of(&Dispatcher::new(8, Policy::default())).unwrap();
    append(&mut forged, &[&[3], other.as_slice()].concat());
    forged.extend_from_slice(&bytes[starts[2]..]);
    fs::write(&file, forged).unwrap();
    let replay = replay(&settings.dir, BUILD).unwrap();
    assert_eq!(faults(&replay)[0], (1, Fault::Discontinuous));
    assert_eq!(replayed(&replay)[1].continues, Some(false));
}

#[test]
fn another_build_is_refused_with_both_names() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = a_segment(&dir, 3);
    let text = replay(&file, "2.0 def").unwrap_err().to_string();
    assert!(text.contains("written by build 1.0 abc; this is 2.0 def"), "{text}");
    // Beside a segment of this build, it is refused alone.
    let mut writer =
        Writer::start(&settings(&dir), super::super::Opening { build: "2.0 def".into(), ..opening() }).unwrap();
    play(&mut writer, 3, Policy::default());
    drop(writer);
    let replay = replay(&settings(&dir).dir, "2.0 def").unwrap();
    assert!(matches!(replay.segments[0].verdict, Verdict::Refused(JournalError::Build { .. })));
    assert!(matches!(replay.segments[1].verdict, Verdict::Replayed(_)));
    assert_eq!(faults(&replay), [(0, Fault::Refused)]);
    assert!(replay.to_string().contains("journal-0000000000.seg: it could not be replayed"), "{replay}");
}

/// What is wrong, with the index of the segment.
fn faults(replay: &Replay) -> Vec<(usize, Fault)> {
    let faulty = replay.segments.iter().enumerate();
    faulty.filter_map(|(at, segment)| Some((at, segment.fault?))).collect()
}

/// The faults of a journal of three segments or more once its files are changed, as the command says them too.
fn faults_after(change: impl FnOnce(&[PathBuf])) -> Vec<(usize, Fault)> {
    let dir = tempfile::tempdir().unwrap();
    let settings = crate::settings::Journal { segment_bytes: 4_000, ..settings(&dir) };
    let mut writer = Writer::start(&settings, opening()).unwrap();
    play(&mut writer, 200, Policy { decisions_kept: 5, ..Policy::default() });
    drop(writer);
    let segments = segment::segments(&settings.dir).unwrap();
    let files: Vec<PathBuf> = segments.into_values().map(|(file, _)| file).collect();
    assert!(files.len() >= 3, "{files:?}");
    change(&files);
    let replay = replay(&settings.dir, BUILD).unwrap();
    let found = faults(&replay);
    assert_eq!(replay.agrees(), found.is_empty());
    let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&replay).unwrap()).unwrap();
    assert_eq!(json["agrees"], found.is_empty());
    assert_eq!(replay.to_string().contains("the journal agrees"), found.is_empty(), "{replay}");
    found
}

fn cut(file: &Path, by: usize) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() - by]).unwrap();
}

#[test]
fn a_journal_agrees_only_if_nothing_but_its_newest_tail_is_missing() {
    assert_eq!(faults_after(|_| {}), []);
    let last_frame = |file: &Path| {
        let bytes = fs::read(file).unwrap();
        bytes.len() - frames_of(&bytes).pop().unwrap()
    };
    assert_eq!(faults_after(|files| cut(files.last().unwrap(), 1)), []);
    assert_eq!(faults_after(|files| cut(files.last().unwrap(), last_frame(files.last().unwrap()))), []);
    assert_eq!(faults_after(|files| cut(&files[1], 1)), [(1, Fault::Torn)]);
    assert_eq!(faults_after(|files| cut(&files[1], last_frame(&files[1]))), [(1, Fault::EndMissing)]);
    assert_eq!(faults_after(|files| fs::remove_file(&files[1]).unwrap()), [(0, Fault::NextMissing)]);
    assert_eq!(faults_after(|files| fs::remove_file(&files[0]).unwrap()), []);
    assert_eq!(faults_after(|files| fs::write(&files[0], "other").unwrap()), [(0, Fault::Refused)]);
    assert_eq!(faults_after(|files| fs::write(files.last().unwrap(), "other").unwrap()).len(), 1);
}

#[test]
fn the_tail_that_a_kill_tore_is_no_fault_once_the_gateway_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = a_segment(&dir, 10);
    cut(&file, 1);
    let later = Opening { started: Time::from_micros(99), ..opening() };
    let mut writer = Writer::start(&settings(&dir), later).unwrap();
    play(&mut writer, 10, Policy::default());
    drop(writer);
    let replay = replay(&settings(&dir).dir, BUILD).unwrap();
    assert_eq!((replay.segments.len(), faults(&replay)), (2, vec![]), "{replay}");
}

#[test]
fn a_damaged_byte_anywhere_in_the_middle_is_a_fault() {
    for (frame, expected) in [(0, Fault::Refused), (1, Fault::Refused), (5, Fault::Damaged)] {
        let found = faults_after(|files| {
            let mut bytes = fs::read(&files[1]).unwrap();
            let at = frames_of(&bytes)[frame] + 12;
            bytes[at] ^= 4;
            fs::write(&files[1], bytes).unwrap();
        });
        assert_eq!(found, [(1, expected)], "frame {frame}");
    }
    let found = faults_after(|files| {
        let bytes = fs::read(&files[1]).unwrap();
        fs::write(&files[1], [bytes.as_slice(), b"more"].concat()).unwrap();
    });
    assert_eq!(found, [(1, Fault::Damaged)], "behind the end");
}

#[test]
fn a_segment_that_a_kill_kept_from_beginning_is_a_torn_tail() {
    for kept in [0, 5, HEADER, HEADER + 20] {
        let begun = |files: &[PathBuf]| {
            let (last, number) = (files.last().unwrap(), files.len() as u64);
            let bytes = fs::read(last).unwrap();
            fs::write(last.with_file_name(segment::name(number)), &bytes[..kept]).unwrap();
        };
        assert_eq!(faults_after(begun), [], "{kept} bytes");
    }
}

#[test]
fn what_is_no_journal_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let text = replay(dir.path(), BUILD).unwrap_err().to_string();
    assert!(text.starts_with("there is no journal in "), "{text}");
    let text = replay(&dir.path().join("absent"), BUILD).unwrap_err().to_string();
    assert!(text.contains("cannot read") && text.contains("absent"), "{text}");
    for (name, bytes, why) in [
        ("a.txt", b"hello".as_slice(), "a.txt is no segment of a journal"),
        ("empty", b"", "empty: it ends before its header and checkpoint do"),
        ("new", b"PNCTJRNL\x09\0\0\0", "new has format version 9; this build reads version 3"),
        ("bare", b"PNCTJRNL\x03\0\0\0", "bare: it ends before its header and checkpoint do"),
    ] {
        let file = dir.path().join(name);
        fs::write(&file, bytes).unwrap();
        let text = replay(&file, BUILD).unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn a_journal_can_be_replayed_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(&settings(&dir), opening()).unwrap();
    let mut all = play(&mut writer, 20, Policy::default());
    writer.flush();
    assert_eq!(one(&settings(&dir).dir).events, all.events);
    all.go_on(&mut writer, 20);
    writer.flush();
    assert_eq!(one(&settings(&dir).dir).agreed, all.events);
}

#[test]
fn no_text_user_or_name_of_a_client_is_in_a_journal() {
    // An event has nothing to hold them: this is the whole of what a query is there.
    let query = Query {
        id: QueryId(1),
        session: SessionId(2),
        fingerprint: Fingerprint(3),
        kind: Kind::Select,
        class: DEFAULT,
        slo: None,
        claim: Claim::default(),
        traits: None,
    };
    let payload = segment::triple(Time::ZERO, &Event::Arrived(query), &[]).unwrap();
    assert!(payload.len() < 16, "{payload:?}");
}
