//! What forecasters are worth on generated months: one line for each, on average over seeds.
//!
//! `cargo run -p punctual-tuner --example months [SEEDS] [WEEKS]`

use punctual_sim::workload::Weeks;
use punctual_tuner::backtest::{Asked, Worth, backtest};
use punctual_tuner::forecast::{self, Forecaster};
use punctual_tuner::{Date, Limits, simulated};

fn main() {
    let mut args = std::env::args().skip(1).map_while(|arg| arg.parse::<u32>().ok());
    let (seeds, weeks) = (args.next().unwrap_or(10), args.next().unwrap_or(8));
    let forecasters: Vec<Box<dyn Forecaster>> = forecast::NAMES.into_iter().filter_map(forecast::named).collect();
    let forecasters: Vec<&dyn Forecaster> = forecasters.iter().map(|forecaster| &**forecaster).collect();
    let first = Date::parse("2026-09-07").unwrap_or(Date::of(2026, 9, 7).expect("a Monday"));
    let mut found: Vec<Vec<Worth>> = Vec::new();
    for seed in 0..u64::from(seeds) {
        let reservoir = simulated::weeks(&Weeks::of(seed), first, 7 * weeks, Limits::default());
        found.push(backtest(&reservoir, &forecasters, &Asked::default()).forecasters);
    }
    println!(
        "forecaster        hourly within   bias  daily   peak  pbias  bhour    cv (came)    mix   better: hourly peak bhour"
    );
    for place in 0..forecasters.len() + 1 {
        let mean =
            |of: &dyn Fn(&Worth) -> f64| found.iter().map(|seed| of(&seed[place])).sum::<f64>() / found.len() as f64;
        let better = |of: &dyn Fn(&Worth) -> f64| found.iter().filter(|seed| of(&seed[place]) < of(&seed[0])).count();
        println!(
            "{:<16} {:>7.3} {:>6.3} {:>6.3} {:>6.3} {:>6.3} {:>6.3} {:>6.3} {:>5.2} {:>5.2} {:>6.3}   {} {} {} of {}",
            found[0][place].forecaster,
            mean(&|worth| worth.hourly_error),
            mean(&|worth| worth.hourly_within),
            mean(&|worth| worth.bias),
            mean(&|worth| worth.daily_error),
            mean(&|worth| worth.peak_error),
            mean(&|worth| worth.peak_bias),
            mean(&|worth| worth.busiest_hour_error),
            mean(&|worth| worth.gap_cv.map_or(f64::NAN, |cv| cv[0])),
            mean(&|worth| worth.gap_cv.map_or(f64::NAN, |cv| cv[1])),
            mean(&|worth| worth.mix_error),
            better(&|worth| worth.hourly_error),
            better(&|worth| worth.peak_error),
            better(&|worth| worth.busiest_hour_error),
            found.len(),
        );
    }
}
