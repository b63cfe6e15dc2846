//! Tests of forecasts.

use std::collections::BTreeMap;

use punctual_core::fingerprint::Fingerprint;
use punctual_core::time::Time;
use punctual_sim::workload::Weeks;

use super::*;
use crate::backtest::measure::{Measured, measured};
use crate::calendar::Zone;
use crate::reservoir::{Limits, Seen};
use crate::simulated;

fn date(text: &str) -> Date {
    Date::parse(text).expect("a date")
}

fn all() -> Vec<Box<dyn Forecaster>> {
    NAMES.into_iter().filter_map(named).collect()
}

/// So many queries in each hour of each of these days, evenly spread, of a shape that says the hour.
fn history(zone: Zone, from: &str, days: i32, queries: impl Fn(Date, u8) -> u64) -> Reservoir {
    shaped(zone, from, days, queries, |_, hour| u64::from(hour))
}

fn shaped(
    zone: Zone,
    from: &str,
    days: i32,
    queries: impl Fn(Date, u8) -> u64,
    shape: impl Fn(Date, u8) -> u64,
) -> Reservoir {
    let mut reservoir = Reservoir::new(zone, Limits::default(), 1);
    let mut adding = reservoir.adding("h", Time::MAX);
    for date in (0..days).map(|day| date(from).plus(day)) {
        for hour in zone.day(date).hours {
            let count = queries(date, hour.hour);
            for query in 0..count {
                let at = hour.starts + Span::from_micros(hour.length.micros() / count * query + 1);
                let fingerprint = Fingerprint(shape(date, hour.hour));
                let (class, slo, text, features) = (None, None, None, Vec::new());
                adding.take(Seen { at, ended: at, fingerprint, class, slo, text, features });
            }
        }
    }
    adding.done();
    reservoir
}

/// The mean count of each hour that comes.
fn counts(forecast: &Forecast) -> Vec<f64> {
    let days: Vec<Measured> = forecast.workloads().map(|one| measured(&forecast.day, &one.queries)).collect();
    let mean = |hour: usize| days.iter().map(|day| f64::from(day.hours[hour])).sum::<f64>() / days.len() as f64;
    (0..forecast.day.hours.len()).map(mean).collect()
}

fn by(name: &str, reservoir: &Reservoir, day: &str) -> Forecast {
    forecast(reservoir, &*named(name).expect("a forecaster"), &Wanted::of(date(day)))
}

fn names(reservoir: &Reservoir, forecast: &Forecast) -> BTreeMap<u64, usize> {
    let mut names = BTreeMap::new();
    for query in forecast.workloads().flat_map(|workload| &workload.queries) {
        *names.entry(reservoir.shape(query.shape).expect("a shape").fingerprint.0).or_default() += 1;
    }
    names
}

#[test]
fn what_is_the_same_every_week_comes_again_whoever_forecasts() {
    let queries = |date: Date, hour: u8| if date.weekday().is_weekend() { 2 } else { u64::from(hour % 12) * 3 };
    let reservoir = history(Zone::UTC, "2026-10-05", 28, queries);
    for forecaster in all() {
        let forecast = forecast(&reservoir, &*forecaster, &Wanted::of(date("2026-11-02")));
        let name = forecast.forecaster;
        assert_eq!((forecast.train.len(), forecast.validation.len()), (12, 8), "{name}");
        if !["one_day", "seven_days"].contains(&name) {
            for (hour, count) in counts(&forecast).into_iter().enumerate() {
                let expected = queries(date("2026-11-02"), hour as u8) as f64;
                assert!((count - expected).abs() < 0.3, "{name}, hour {hour}: {count} for {expected}");
            }
            let whole = Basis { whole_days: 27, days: 28, such_days: 4, queries: 4 * (5 * 396 + 2 * 48) };
            assert_eq!(forecast.basis, whole, "{name}");
        }
        for workload in forecast.workloads() {
            assert!(workload.queries.is_sorted(), "{name}");
            assert!(workload.queries.iter().all(|query| query.at < forecast.day.length()), "{name}");
        }
    }
    // They go by the days before, whatever days those were: a Sunday, and five working days of seven.
    assert_eq!(counts(&by("one_day", &reservoir, "2026-11-02")).iter().sum::<f64>(), 48.0);
    let seven = counts(&by("seven_days", &reservoir, "2026-11-02")).iter().sum::<f64>();
    assert!((seven / ((396.0 * 5.0 + 48.0 * 2.0) / 7.0) - 1.0).abs() < 0.05, "{seven}");
}

#[test]
fn weeks_decay_by_half_and_a_level_that_grows_is_followed() {
    // 64 in the last week, 32 before.
    let queries = |day: Date, _: u8| if day >= date("2026-10-26") { 64 } else { 32 };
    let reservoir = history(Zone::UTC, "2026-10-05", 28, queries);
    let mean = |name| counts(&by(name, &reservoir, "2026-11-02")).iter().sum::<f64>() / 24.0;
    let weights = [1.0, 0.5, 0.25, 0.125];
    let expected = (64.0 + 32.0 * 0.875) / weights.iter().sum::<f64>();
    assert!((mean("weekly") - expected).abs() < 1.5, "{} for {expected}", mean("weekly"));
    assert!(mean("levelled") > mean("weekly"), "{}", mean("levelled"));
    assert_eq!(mean("seasonal_naive"), 64.0);
}

#[test]
fn splits_have_seeds_of_their_own_and_the_same_seed_gives_the_same() {
    let reservoir = simulated::weeks(&Weeks::of(1), date("2026-10-05"), 21, Limits::default());
    for forecaster in all() {
        let with = |seed, train, validation| {
            let wanted = Wanted { seed, train, validation, ..Wanted::of(date("2026-10-26")) };
            forecast(&reservoir, &*forecaster, &wanted)
        };
        let found = with(7, 12, 8);
        assert_eq!(found, with(7, 12, 8));
        // More of one split change nothing in what there was, nor in the other.
        let promised = Wanted { seed: 7, promise: 4, ..Wanted::of(date("2026-10-26")) };
        let promised = forecast(&reservoir, &*forecaster, &promised);
        assert!(promised.train == found.train && promised.validation == found.validation);
        let of = |workloads: &[Workload]| -> Vec<u64> { workloads.iter().map(|workload| workload.seed).collect() };
        let (mine, others) = (of(&promised.promise), [of(&found.train), of(&found.validation)].concat());
        assert!(mine.len() == 4 && mine.iter().all(|seed| !others.contains(seed)));
        let more = with(7, 15, 3);
        assert!(more.train[..12] == found.train[..] && more.validation[..] == found.validation[..3]);
        if forecaster.name() != "seasonal_naive" {
            let mut all: Vec<&Workload> = found.workloads().collect();
            all.dedup_by_key(|workload| &workload.queries);
            assert_eq!(all.len(), 20, "{}", forecaster.name());
            assert_ne!(found.train, with(8, 12, 8).train);
        }
    }
}

#[test]
fn bursts_survive() {
    let weeks = Weeks { incidents: 0.0, growth: 0.0, queries: 6_000.0, ..Weeks::of(2) };
    let reservoir = simulated::weeks(&weeks, date("2026-10-05"), 28, Limits::default());
    let all = Past::of(&reservoir, date("2026-11-02"), &BTreeSet::new());
    let came: Vec<f64> = (0..4)
        .filter_map(|week| {
            let day = date("2026-10-05").plus(7 * week);
            let hours: Vec<_> = (0..24).filter_map(|hour| all.at(day, hour)).collect();
            let starts = hours[0].hour.starts;
            let queries = hours.iter().flat_map(|known| {
                let since = known.hour.starts.since(starts);
                known.kept.iter().map(move |kept| Query { at: since + kept.offset(), shape: kept.shape })
            });
            measured(&reservoir.zone().day(day), &queries.collect::<Vec<_>>()).gap_cv
        })
        .collect();
    let came = came.iter().sum::<f64>() / came.len() as f64;
    assert!((3.0..4.0).contains(&came), "{came}");
    for name in ["weekly", "levelled", "seasonal_naive"] {
        let forecast = by(name, &reservoir, "2026-11-02");
        let cvs: Vec<f64> =
            forecast.workloads().filter_map(|one| measured(&forecast.day, &one.queries).gap_cv).collect();
        let cv = cvs.iter().sum::<f64>() / cvs.len() as f64;
        assert!((cv / came - 1.0).abs() < 0.25, "{name}: {cv} for {came}");
    }
}

#[test]
fn days_of_23_and_25_hours_have_the_hours_of_their_clocks() {
    let berlin = Zone::named("Europe/Berlin").expect("a zone");
    let reservoir = history(berlin, "2026-09-27", 28, |_, hour| 60 + u64::from(hour));
    for name in NAMES {
        // Clocks go back: hour 2 lasts two hours.
        let forecast = by(name, &reservoir, "2026-10-25");
        let counts = counts(&forecast);
        assert_eq!(forecast.day.length(), Span::from_secs(25 * 3_600));
        assert!((counts[2] - 124.0).abs() < 3.0 && (counts[3] - 63.0).abs() < 2.0, "{name}: {counts:?}");
    }
    // Clocks have gone forward within the history: there was no hour 2 that Sunday, and hour 3 is hour 3.
    let reservoir = history(berlin, "2026-03-29", 1, |_, hour| 60 + u64::from(hour));
    let counts = counts(&by("weekly", &reservoir, "2026-04-05"));
    assert!((counts[3] - 63.0).abs() < 1.0 && (counts[2] - 62.0).abs() < 1.1, "{counts:?}");
}

#[test]
fn with_no_history_nothing_comes_and_it_is_said() {
    let empty = Reservoir::new(Zone::UTC, Limits::default(), 1);
    let later = history(Zone::UTC, "2026-11-02", 7, |_, _| 5);
    for name in NAMES {
        for reservoir in [&empty, &later] {
            let forecast = by(name, reservoir, "2026-11-02");
            assert!(forecast.workloads().all(|workload| workload.queries.is_empty()), "{name}");
            assert_eq!(forecast.unknown, [Unknown::Everything], "{name}");
        }
    }
    let samoa = history(Zone::named("Pacific/Apia").expect("a zone"), "2011-12-05", 20, |_, _| 5);
    assert!(by("levelled", &samoa, "2011-12-30").workloads().all(|workload| workload.queries.is_empty()));
}

#[test]
fn one_hour_of_history_is_taken_for_all_hours_and_what_it_cannot_know_is_said() {
    let reservoir = history(Zone::UTC, "2026-11-02", 1, |_, hour| if hour == 9 { 60 } else { 0 });
    for name in NAMES {
        let forecast = by(name, &reservoir, "2026-11-03");
        assert!(counts(&forecast).iter().all(|count| (count - 60.0).abs() < 2.0), "{name}");
        let hours = (0..24).filter(|hour| *hour != 9).collect();
        let week = Unknown::Week { days: 1 };
        assert_eq!(forecast.unknown, [Unknown::Hours { hours }, week, Unknown::Weekday { weekday: "Tuesday" }]);
    }
}

#[test]
fn less_than_a_week_says_so_and_a_single_such_day_as_well() {
    let said = |days, day| by("weekly", &history(Zone::UTC, "2026-11-02", days, |_, _| 9), day).unknown;
    assert_eq!(said(3, "2026-11-05"), [Unknown::Week { days: 3 }, Unknown::Weekday { weekday: "Thursday" }]);
    assert_eq!(said(7, "2026-11-09"), [Unknown::Variation { weekday: "Monday" }]);
    assert_eq!(said(14, "2026-11-16"), []);
    assert_eq!(said(14, "2026-11-19"), [Unknown::Lately { days: 3 }]);
    assert!(Unknown::Week { days: 3 }.to_string().starts_with("3 days of history: what is different on other days"));
}

#[test]
fn a_day_of_a_hundred_times_the_load_is_said_and_not_expected_again_by_levelled() {
    let wild = date("2026-10-26");
    let queries = |day: Date, _: u8| if day == wild { 2_000 } else { 20 };
    let reservoir = history(Zone::UTC, "2026-10-05", 28, queries);
    let mean = |forecast: &Forecast| counts(forecast).iter().sum::<f64>() / 24.0;
    let forecast = by("levelled", &reservoir, "2026-11-02");
    assert!((mean(&forecast) - 20.0).abs() < 1.0, "{}", mean(&forecast));
    assert_eq!(forecast.unknown, [Unknown::Unusual { date: wild, times: 100.0 }]);
    // The default has it as it weighs, unless the day is left out.
    let weekly = by("weekly", &reservoir, "2026-11-02");
    assert!(mean(&weekly) > 800.0);
    let wanted = Wanted { left_out: BTreeSet::from([wild]), ..Wanted::of(date("2026-11-02")) };
    let without = super::forecast(&reservoir, &Weekly::default(), &wanted);
    assert!((mean(&without) - 20.0).abs() < 0.5 && without.unknown.is_empty(), "{:?}", without.unknown);
}

#[test]
fn a_holiday_is_forecast_as_another_day_of_the_week_if_that_is_asked_for() {
    let queries = |date: Date, _: u8| if date.weekday().is_weekend() { 2 } else { 40 };
    let reservoir = history(Zone::UTC, "2026-10-05", 28, queries);
    for name in ["weekly", "levelled", "seasonal_naive"] {
        let wanted = Wanted { like: Weekday::named("sunday"), ..Wanted::of(date("2026-11-02")) };
        let forecast = super::forecast(&reservoir, &*named(name).expect("a forecaster"), &wanted);
        assert!((counts(&forecast).iter().sum::<f64>() / 24.0 - 2.0).abs() < 0.6, "{name}: {:?}", counts(&forecast));
    }
}

#[test]
fn a_gap_is_not_taken_for_silence() {
    let queries = |day: Date, hour: u8| if day == date("2026-10-26") && hour > 5 { 0 } else { 20 };
    let reservoir = history(Zone::UTC, "2026-10-05", 28, queries);
    for name in NAMES {
        let forecast = by(name, &reservoir, "2026-11-02");
        assert!(counts(&forecast).iter().all(|count| (count - 20.0).abs() < 1.0), "{name}: {:?}", counts(&forecast));
        assert!(forecast.unknown.contains(&Unknown::Gap { date: date("2026-10-26"), hours: 18.0 }), "{name}");
    }
}

#[test]
fn new_shapes_come_the_day_after_and_vanished_ones_fade_or_are_gone() {
    let all = |_: Date, _: u8| 30;
    // A new shape since Thursday; the old one has not come since.
    let shape = |day: Date, _: u8| if day >= date("2026-10-22") { 2 } else { 1 };
    let reservoir = shaped(Zone::UTC, "2026-10-05", 18, all, shape);
    let next = |name| names(&reservoir, &by(name, &reservoir, "2026-10-23"));
    assert_eq!(next("weekly"), BTreeMap::from([(1, 20 * 720)]), "no Friday has had it");
    assert!(next("levelled")[&2] > 500);
    let reservoir = shaped(Zone::UTC, "2026-10-05", 25, all, shape);
    let later = |name| names(&reservoir, &by(name, &reservoir, "2026-10-30"));
    let faded = later("weekly")[&1] as f64 / (20.0 * 720.0);
    assert!((faded - 0.75 / 1.75).abs() < 0.02, "{faded}");
    assert_eq!(later("levelled").get(&1), None);
}

#[test]
fn queries_without_a_name_go_by_another() {
    let limits = Limits { shapes: 1, ..Limits::default() };
    let mut reservoir = Reservoir::new(Zone::UTC, limits, 1);
    let mut adding = reservoir.adding("h", Time::MAX);
    for number in 0..3_000 {
        let at = date("2026-11-02");
        let at = Zone::UTC.day(at).starts().expect("hours") + Span::from_secs(60 * number);
        let (class, slo, text, features) = (None, None, None, Vec::new());
        adding.take(Seen { at, ended: at, fingerprint: Fingerprint(number % 10), class, slo, text, features });
    }
    adding.done();
    for name in NAMES {
        let forecast = by(name, &reservoir, "2026-11-04");
        assert!(forecast.workloads().all(|one| one.queries.len() > 1_300), "{name}");
        let named = |query: &Query| reservoir.shape(query.shape).is_some();
        assert!(forecast.workloads().flat_map(|one| &one.queries).all(named), "{name}");
        assert!(forecast.unknown.contains(&Unknown::Unnamed { share: 0.9 }), "{:?}", forecast.unknown);
    }
}

#[test]
fn a_summary_has_the_hours_and_the_shapes_that_come_most() {
    let reservoir = history(Zone::UTC, "2026-10-05", 28, |_, hour| if hour == 9 { 50 } else { 5 });
    let summary = by("weekly", &reservoir, "2026-11-02").summary(&reservoir);
    assert_eq!((summary.weekday, summary.zone.as_str(), summary.workloads), ("Monday", "UTC", 20));
    assert_eq!((summary.hours[9].queries, summary.hours[3].queries), ([50.0; 3], [5.0; 3]));
    assert_eq!(summary.queries, [165.0; 3]);
    assert_eq!((summary.shapes.len(), summary.shapes[0].fingerprint.as_str()), (24, "0000000000000009"));
    let json = serde_json::to_value(&summary).expect("JSON");
    assert_eq!((&json["day"], &json["hours"][9]["queries"][0]), (&"2026-11-02".into(), &50.0.into()));
}
