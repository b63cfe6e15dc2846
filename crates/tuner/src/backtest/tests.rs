//! Tests of backtests.

use punctual_core::time::Time;
use punctual_sim::workload::Weeks;

use super::*;
use crate::calendar::Zone;
use crate::forecast::{Levelled, Weekly};
use crate::reservoir::Limits;
use crate::simulated;

fn date(text: &str) -> Date {
    Date::parse(text).expect("a date")
}

fn generated(seed: u64, days: u32) -> Reservoir {
    simulated::weeks(&Weeks::of(seed), date("2026-09-07"), days, Limits::default())
}

#[test]
fn generated_months_are_forecast_better_than_by_last_week() {
    // Weekly pattern, drift, incidents, new fingerprints: eight weeks, of which the last four are forecast.
    let mut better = [[0.0; 4]; 2];
    for seed in [1, 2, 3] {
        let found = backtest(&generated(seed, 56), &[&Weekly::default(), &Levelled], &Asked::default());
        assert!(found.days.len() >= 24 && !found.short);
        for (worth, better) in found.forecasters[1..].iter().zip(&mut better) {
            let Against { hourly_error, peak_error, busiest_hour_error, mix_error } = worth.against_baseline;
            assert!(hourly_error < Some(-0.1), "{seed}: {} is off by {hourly_error:?}", worth.forecaster);
            let cv = worth.gap_cv.expect("enough queries");
            assert!((cv[0] / cv[1] - 1.0).abs() < 0.2, "{seed}: {cv:?}");
            let all = [hourly_error, peak_error, busiest_hour_error, mix_error];
            better
                .iter_mut()
                .zip(all)
                .for_each(|(sum, error)| *sum += error.expect("last week was not the same") / 3.0);
        }
    }
    let [weekly, levelled] = better;
    assert!(weekly[0] < -0.12 && weekly[1] < -0.1 && weekly[3] < -0.04, "{weekly:?}");
    assert!(levelled[0] < -0.18 && levelled[1] < -0.1 && levelled[2] < -0.1 && levelled[3] < -0.1, "{levelled:?}");
}

#[test]
fn a_backtest_is_a_function_of_the_reservoir_and_the_seed() {
    let reservoir = generated(4, 21);
    let asked = Asked { days: 3, ..Asked::default() };
    let found = backtest(&reservoir, &[&Weekly::default()], &asked);
    assert_eq!(found, backtest(&reservoir, &[&Weekly::default()], &asked));
    assert_eq!(found.days, ["2026-09-25", "2026-09-26", "2026-09-27"].map(date));
    let other = backtest(&reservoir, &[&Weekly::default()], &Asked { seed: 1, ..asked });
    assert_eq!(
        (&found.days, &found.forecasters[0]),
        (&other.days, &other.forecasters[0]),
        "the baseline has no chance"
    );
    assert_ne!(found.forecasters[1], other.forecasters[1]);
    let json = serde_json::to_value(&found).expect("JSON");
    assert_eq!(json["forecasters"][0]["forecaster"], "seasonal_naive");
    assert_eq!(json["forecasters"][1]["by_day"][2]["day"], "2026-09-27");
    assert!(json["forecasters"][1]["against_baseline"]["peak_error"].is_f64());
}

#[test]
fn nothing_of_the_day_itself_or_later_is_seen() {
    let asked = Asked { days: 30, ..Asked::default() };
    let short = backtest(&generated(5, 20), &[&Levelled], &asked);
    let long = backtest(&generated(5, 26), &[&Levelled], &asked);
    // What is taken for a gap may change with what came later; days that both forecast are forecast alike.
    let of = |found: &Backtest, day: Date| {
        found.forecasters[1].by_day.iter().find(|worth| worth.day == day).map(|worth| worth.queries[0])
    };
    let both: Vec<Date> = short.days.iter().copied().filter(|day| long.days.contains(day)).collect();
    assert!(both.len() >= 10 && both.iter().all(|day| of(&short, *day) == of(&long, *day)));
}

#[test]
fn short_histories_are_tested_as_far_as_they_go_and_it_is_said() {
    let days = |days| {
        let found = backtest(&generated(6, days), &[&Weekly::default()], &Asked::default());
        (found.days.len(), found.short, found.forecasters.len())
    };
    assert_eq!(days(0), (0, true, 2));
    assert_eq!(days(1), (0, true, 2));
    assert_eq!(days(4), (3, true, 2));
    // The ninth day ends with an hour in whose second half nothing came.
    assert_eq!(days(9), (1, false, 2));
    // Two busy hours, and nothing in the days between.
    let mut silent = Reservoir::new(Zone::UTC, Limits::default(), 1);
    let mut adding = silent.adding("h", Time::MAX);
    for (day, second) in [0, 4].into_iter().flat_map(|day| (0..3_600).map(move |second| (day, second))) {
        let at = Zone::UTC.day(date("2026-09-07").plus(day)).starts().expect("hours");
        let at = at + punctual_core::time::Span::from_secs(40_000 + second);
        let (fingerprint, features) = (punctual_core::fingerprint::Fingerprint(1), Vec::new());
        adding.take(crate::Seen { at, ended: at, fingerprint, class: None, slo: None, text: None, features });
    }
    adding.done();
    assert_eq!(backtest(&silent, &[&Weekly::default()], &Asked::default()).days, []);
    let none = backtest(&Reservoir::new(Zone::UTC, Limits::default(), 1), &[], &Asked::default());
    assert_eq!((none.days, none.forecasters[0].hourly_error, none.forecasters[0].bias), (Vec::new(), 0.0, 0.0));
}

#[test]
fn last_week_again_is_forecast_without_an_error_by_the_baseline() {
    let mut reservoir = Reservoir::new(Zone::UTC, Limits::default(), 1);
    let mut adding = reservoir.adding("h", Time::MAX);
    for number in 0..21 {
        let starts = Zone::UTC.day(date("2026-09-07").plus(number)).starts().expect("hours");
        let asked =
            |template| punctual_sim::workload::Asked { template, class: punctual_core::id::ClassId(0), slo: None };
        let day = Weeks::of(7).day(number as u32 % 7, asked);
        let table = punctual_sim::world::warehouse::Table::shipped();
        for arrival in punctual_sim::workload::trace(day, table) {
            adding.take(simulated::seen(&arrival, starts, None));
        }
    }
    adding.done();
    let found = backtest(&reservoir, &[], &Asked { days: 7, ..Asked::default() });
    let baseline = &found.forecasters[0];
    let errors = [baseline.hourly_error, baseline.peak_error, baseline.busiest_hour_error, baseline.mix_error];
    assert!(errors.iter().all(|error| error.abs() < 1e-9), "{errors:?}");
    assert_eq!((baseline.hourly_within, found.new_shapes, baseline.against_baseline.mix_error), (1.0, 0.0, None));
}
