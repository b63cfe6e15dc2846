//! The days that are planned, and the history before them.

use punctual_core::class::DEFAULT;
use punctual_core::math;
use punctual_core::rng::Rng;
use punctual_core::time::{Span, Time};
use punctual_sim::workload::{Arrival, Asked, Day, Weeks, trace};
use punctual_sim::world::warehouse::{Table, Template};
use punctual_tuner::{Date, Limits, Reservoir, Zone, simulated};

use super::COMPRESS;

/// A day that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What it is called.
    pub name: &'static str,
    /// Its number, counted from the first day of the history, which is a Monday.
    pub number: u32,
}

/// The two of them: Mondays, six weeks apart.
pub const DAYS: [Planned; 2] = [Planned { name: "first", number: 35 }, Planned { name: "second", number: 77 }];

/// Where days come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Weeks that are generated.
    Generated,
    /// A real day comes on each day that is planned; before it, days like it: busier or quieter by weekday and by chance.
    Real(Day),
}

/// How busy a day of the week is, beside a Monday, in what comes before a real day.
const WEEK: [f64; 7] = [1.0, 0.95, 0.95, 0.9, 0.85, 0.3, 0.3];
/// How far days vary: the deviation of the logarithm.
const CHANCE: f64 = 0.1;
/// The first of the streams of a real day's history.
const BEFORE: u64 = 7 << 32;

impl Source {
    /// What comes on a day, from its beginning on.
    fn day(&self, seed: u64, number: u32, is_planned: bool) -> Vec<(Time, Asked)> {
        let asked = |template| Asked { template, class: DEFAULT, slo: None };
        match self {
            Source::Generated => Weeks::of(seed).day(number, asked),
            Source::Real(day) => {
                let mut rng = Rng::numbered(seed, BEFORE + u64::from(number));
                let busy = WEEK[number as usize % 7] * math::exp(CHANCE * rng.normal());
                let mut day = day.clone();
                if !is_planned {
                    for (_, _, count) in &mut day.counts {
                        *count = poisson(f64::from(*count) * busy, &mut rng);
                    }
                }
                let table = Table::shipped();
                let arrivals = day.generate(rng.bits(), table);
                arrivals.filter_map(|arrival| Some((arrival.at, asked(arrival.ask.template?)))).collect()
            }
        }
    }

    /// The history before a day: so many days, with its date.
    pub fn history(&self, seed: u64, planned: Planned, days: u32) -> (Reservoir, Date) {
        let first = Date::GENERATED;
        let mut reservoir = Reservoir::new(Zone::UTC, Limits::default(), seed);
        let mut adding = reservoir.adding("generated", Time::MAX);
        for number in planned.number.saturating_sub(days)..planned.number {
            let starts = Zone::UTC.day(first.plus(number as i32)).starts().unwrap_or_default();
            for arrival in trace(self.day(seed, number, false), Table::shipped()) {
                adding.take(simulated::seen(&arrival, starts, None));
            }
        }
        adding.done();
        (reservoir, first.plus(planned.number as i32))
    }

    /// The day itself, compressed, with SLOs.
    pub fn arrivals(&self, seed: u64, planned: Planned, slo: impl Fn(Template) -> Span) -> Vec<Arrival> {
        let sooner = |at: Time| Time::ZERO + Span::from_secs_f64(at.since(Time::ZERO).secs_f64() / COMPRESS);
        let day = self.day(seed, planned.number, true).into_iter();
        let day = day.map(|(at, asked)| (sooner(at), Asked { slo: Some(slo(asked.template)), ..asked }));
        trace(day.collect(), Table::shipped()).collect()
    }
}

/// A draw of a Poisson distribution with this mean, by Knuth's product of uniforms.
fn poisson(mean: f64, rng: &mut Rng) -> u32 {
    let least = math::exp(-mean.min(500.0));
    let (mut count, mut product) = (0, rng.unit());
    while product > least {
        count += 1;
        product *= rng.unit();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_ends_before_the_day_and_the_day_takes_four_hours() {
        let (reservoir, date) = Source::Generated.history(3, DAYS[0], 7);
        assert_eq!(reservoir.dates(), Some((date.plus(-7), date.plus(-1))));
        let day = Source::Generated.arrivals(3, DAYS[0], |_| Span::from_secs(9));
        assert!(day.len() > 500 && day.is_sorted_by_key(|arrival| arrival.at), "{}", day.len());
        let last = day.last().map_or(Time::ZERO, |last| last.at).since(Time::ZERO).secs_f64();
        assert!((3.0 * 3_600.0..4.0 * 3_600.0).contains(&last), "{last}");
        assert!(day.iter().all(|arrival| arrival.ask.slo == Some(Span::from_secs(9))));
        assert_ne!(day, Source::Generated.arrivals(3, DAYS[1], |_| Span::from_secs(9)));
    }

    #[test]
    fn a_real_day_comes_as_it_was_and_days_like_it_before() {
        let text = "date,hour,tpcds_template,count\n2026-05-25,9,7,400\n2026-05-25,10,8,200\n";
        let asked = |template| Asked { template, class: DEFAULT, slo: None };
        let (_, day) = Day::read(text, 3.5, asked).expect("a day");
        let real = Source::Real(day);
        assert_eq!(real.arrivals(1, DAYS[0], |_| Span::from_secs(9)).len(), 600);
        let (reservoir, _) = real.history(1, DAYS[0], 28);
        // Four weeks of 5.25 Mondays.
        let mean = reservoir.queries() as f64 / (4.0 * 5.25);
        assert!((mean / 600.0 - 1.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn counts_are_as_a_poisson_distribution_has_them() {
        let mut rng = Rng::numbered(1, BEFORE);
        let all: Vec<f64> = (0..4_000).map(|_| f64::from(poisson(6.0, &mut rng))).collect();
        let mean = all.iter().sum::<f64>() / 4_000.0;
        let variance = all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 4_000.0;
        assert!((mean - 6.0).abs() < 0.15 && (variance - 6.0).abs() < 0.5, "{mean} {variance}");
    }
}
