//! Tests of the reservoir.

use super::*;

fn berlin() -> Zone {
    Zone::named("Europe/Berlin").expect("a zone")
}

fn start(date: &str) -> Time {
    Zone::UTC.day(Date::parse(date).expect("a date")).starts().expect("hours")
}

fn seen(at: Time, shape: u64) -> Seen {
    let features = vec![shape as f32];
    Seen {
        at,
        ended: at + Span::from_secs(5),
        fingerprint: Fingerprint(shape),
        class: None,
        slo: None,
        text: None,
        features,
    }
}

/// A query a minute from that time on, of shapes in turn.
fn minutes(from: Time, count: u64, shapes: u64) -> Vec<Seen> {
    (0..count).map(|number| seen(from + Span::from_secs(60 * number), number % shapes)).collect()
}

fn add(reservoir: &mut Reservoir, source: &str, rows: &[Seen]) -> Added {
    let mut adding = reservoir.adding(source, Time::from_micros(u64::MAX / 2));
    rows.iter().cloned().for_each(|row| adding.take(row));
    adding.done()
}

fn counts(reservoir: &Reservoir) -> Vec<(String, u8, u64)> {
    reservoir.bins.iter().map(|((date, hour), bin)| (date.to_string(), *hour, bin.count)).collect()
}

#[test]
fn queries_are_counted_where_the_clock_on_the_wall_stood() {
    let mut reservoir = Reservoir::new(berlin(), Limits::default(), 1);
    // From 22:30 UTC on the evening before clocks go back: half past midnight in Berlin.
    add(&mut reservoir, "h", &minutes(start("2026-10-24") + Span::from_secs(81_000), 300, 3));
    let hours: Vec<(u8, u64)> = counts(&reservoir).into_iter().map(|(_, hour, count)| (hour, count)).collect();
    assert_eq!(hours, [(0, 30), (1, 60), (2, 120), (3, 60), (4, 30)]);
    assert!(counts(&reservoir).iter().all(|(date, ..)| date == "2026-10-25"));
    let long = &reservoir.bins[&(Date::parse("2026-10-25").expect("a date"), 2)];
    assert_eq!(long.kept.last().map(|kept| kept.offset()), Some(Span::from_secs(119 * 60)));
}

#[test]
fn what_is_read_again_is_not_counted_again_and_what_is_new_is() {
    let rows = minutes(start("2026-11-02"), 500, 7);
    let mut at_once = Reservoir::new(Zone::UTC, Limits::default(), 1);
    add(&mut at_once, "h", &rows);
    let mut bit_by_bit = Reservoir::new(Zone::UTC, Limits::default(), 1);
    assert_eq!(add(&mut bit_by_bit, "h", &rows[..203]).new, 203);
    let added = add(&mut bit_by_bit, "h", &rows);
    assert_eq!((added.known, added.new), (203, 297));
    assert_eq!(add(&mut bit_by_bit, "h", &rows[100..]).new, 0, "hours of which less is left");
    assert_eq!(bit_by_bit, at_once);
    assert_eq!(add(&mut bit_by_bit, "another", &rows[..10]).new, 10);
}

#[test]
fn an_hour_keeps_a_uniform_sample_however_it_was_read() {
    let limits = Limits { queries: 200, ..Limits::default() };
    let from = start("2026-11-02");
    let rows: Vec<Seen> =
        (0..4_000).map(|number| seen(from + Span::from_millis(900 * number), number / 1_000)).collect();
    let read = |seed, parts: &[usize]| {
        let mut reservoir = Reservoir::new(Zone::UTC, limits, seed);
        for part in parts {
            add(&mut reservoir, "h", &rows[..*part]);
        }
        reservoir
    };
    for parts in [&[4_000][..], &[1_500, 4_000], &[150, 210, 1_100, 4_000]] {
        let reservoir = read(1, parts);
        let bin = reservoir.bins.values().next().expect("an hour");
        assert_eq!((bin.count, bin.kept.len()), (4_000, 200));
        for quarter in 0..4 {
            let kept = bin.kept.iter().filter(|kept| kept.shape.0 == quarter).count();
            // 50 are expected; the deviation of the hypergeometric is 6.
            assert!((25..=75).contains(&kept), "quarter {quarter}: {kept}");
        }
        assert!(reservoir == read(1, parts) && reservoir.bins != read(2, parts).bins, "the sample belongs to the seed");
    }
}

#[test]
fn the_newest_days_and_the_shapes_that_have_room_are_kept() {
    let limits = Limits { days: 2, queries: 1_000, shapes: 3 };
    let mut reservoir = Reservoir::new(Zone::UTC, limits, 1);
    let rows = minutes(start("2026-11-02"), 4 * 1_440, 5);
    let added = add(&mut reservoir, "h", &rows);
    assert_eq!((added.new, added.unnamed, reservoir.shapes()), (4 * 1_440, 4 * 1_440 * 2 / 5, 3));
    let dates = reservoir.dates().map(|(first, last)| (first.to_string(), last.to_string()));
    assert_eq!(dates, Some(("2026-11-04".into(), "2026-11-05".into())));
    // What is no longer kept counts as old if it comes again, and nothing of it comes back.
    let again = add(&mut reservoir, "h", &rows);
    assert_eq!((again.new, again.refused.old + again.known), (0, 4 * 1_440));
    assert!(reservoir.to_bytes().len() as u64 <= limits.most_bytes() + 10_000);
    assert!(Limits::default().most_bytes() < 60_000_000, "{}", Limits::default().most_bytes());
    // A shape whose queries have all gone makes room for another.
    add(&mut reservoir, "h", &minutes(start("2026-11-07"), 1_440, 1));
    assert_eq!(reservoir.shapes(), 1);
}

#[test]
fn a_clock_that_jumped_does_not_push_out_what_there_is() {
    let mut reservoir = Reservoir::new(Zone::UTC, Limits::default(), 1);
    let present = start("2026-11-03");
    let mut rows = minutes(start("2026-11-02"), 100, 2);
    rows.insert(50, seen(start("2126-11-02"), 0));
    rows.push(seen(Time::ZERO, 0));
    rows.push(Seen { ended: Time::ZERO, ..seen(start("2026-11-02"), 0) });
    let mut adding = reservoir.adding("h", present);
    rows.into_iter().for_each(|row| adding.take(row));
    let added = adding.done();
    assert_eq!((added.new, added.refused), (101, Refused { ahead: 1, old: 1 }));
    assert_eq!((reservoir.refused(), reservoir.queries()), (Refused { ahead: 1, old: 1 }, 101));
    assert_eq!(reservoir.last, Some(start("2026-11-02") + Span::from_secs(99 * 60)));
}

#[test]
fn a_shape_has_what_its_last_query_had() {
    let mut reservoir = Reservoir::new(Zone::UTC, Limits::default(), 1);
    let at = start("2026-11-02");
    let with = |after: u64, slo: Option<u64>, text, features: Vec<f32>| {
        let slo = slo.map(Span::from_secs);
        Seen { slo, text, features, class: Some("bi".into()), ..seen(at + Span::from_secs(after), 9) }
    };
    let rows =
        [with(0, Some(3), Some(1), vec![1.0]), with(9, None, None, vec![]), with(4, Some(7), Some(2), vec![2.0])];
    add(&mut reservoir, "h", &rows);
    let shape = reservoir.shape(ShapeId(0)).expect("a shape");
    assert_eq!((shape.slo, shape.text, &shape.features), (Some(Span::from_secs(3)), Some(1), &vec![1.0]));
    assert_eq!((shape.last, shape.class.as_deref()), (at + Span::from_secs(9), Some("bi")));
    assert_eq!(reservoir.shape(ShapeId::UNNAMED), None);
}

#[test]
fn a_file_is_read_as_it_was_written_and_refused_if_it_is_anything_else() {
    let mut reservoir = Reservoir::new(berlin(), Limits::default(), 1);
    add(&mut reservoir, "h", &minutes(start("2026-11-02"), 300, 7));
    let bytes = reservoir.to_bytes();
    assert_eq!(Reservoir::from_bytes(&bytes), Ok(reservoir));
    assert_eq!(Reservoir::from_bytes(b"PAR1"), Err(Unreadable::Foreign));
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(Reservoir::from_bytes(&newer), Err(Unreadable::Version(9)));
    for cut in [10, 30, bytes.len() - 1] {
        assert!(matches!(Reservoir::from_bytes(&bytes[..cut]), Err(Unreadable::Damaged(_))));
    }
    for place in (24..bytes.len()).step_by(97) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 4;
        assert!(matches!(Reservoir::from_bytes(&flipped), Err(Unreadable::Damaged(_))));
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused_though_their_checksum_is_right() {
    let mut reservoir = Reservoir::new(Zone::UTC, Limits::default(), 1);
    add(&mut reservoir, "h", &minutes(start("2026-11-02"), 3, 1));
    let refused = |change: fn(&mut Bin)| {
        let mut reservoir = reservoir.clone();
        change(reservoir.bins.values_mut().next().expect("an hour"));
        matches!(Reservoir::from_bytes(&reservoir.to_bytes()), Err(Unreadable::Damaged(_)))
    };
    assert!(refused(|bin| bin.count = 2) && refused(|bin| bin.kept[0].ticks = u32::MAX));
    assert!(refused(|bin| bin.kept[1].shape = ShapeId(7)) && refused(|bin| bin.kept.reverse()));
    assert!(!refused(|_| {}));
}
