//! Weeks as a warehouse sees them: what comes is much the same every Monday at nine, and never quite.
//!
//! Three kinds of queries, which share the 99 templates of TPC-DS: dashboards in office hours, loads at night, and people with questions
//! whenever they work. Each kind has its hours, its days, and templates that come more often than others. On top of that
//!
//! - days and hours are busier or quieter than they should be, by chance;
//! - queries come in batches, so that an hour's count varies as much again;
//! - load grows by [`Weeks::growth`] a week, and templates become more or less frequent;
//! - some templates come for the first time some day, others for the last time;
//! - there are **incidents**: for two hours everybody tries again and again, or for some hours nothing comes at all.
//!
//! ```text
//!        Mon        Tue        Wed        Thu        Fri     Sat   Sun
//!      ▁▃▂▁▆█▇▆▂  ▁▃▂▁▆▇▇▅▂  ▁▃▂▁▅▇▆▆▁  ▁▃▂▁▆▇██▂  ▁▃▂▁▅▆▅▂   ▁▂▁   ▁▂▁
//! ```
//!
//! A day is a function of the seed and its number, so days can be made in any order.

use punctual_core::math;
use punctual_core::rng::{Rng, Stream};
use punctual_core::time::{Span, Time};

use super::{Asked, Batched, Pattern};
use crate::world::warehouse::Template;

/// Weeks of a warehouse. Day 0 is a Monday.
#[derive(Clone, Debug, PartialEq)]
pub struct Weeks {
    /// What chance begins with.
    pub seed: u64,
    /// Queries of an ordinary working day.
    pub queries: f64,
    /// Deviation over mean of the gaps.
    pub cv: f64,
    /// By how much load grows in a week: 0.02 is 2 %.
    pub growth: f64,
    /// Incidents in a week, on average.
    pub incidents: f64,
    /// Days within which templates come up and vanish.
    pub horizon: u32,
}

impl Weeks {
    /// Much like cluster 157 of Redset (1,392 queries on a Monday, CV 3.75), with growth and an incident in most weeks.
    pub fn of(seed: u64) -> Weeks {
        Weeks { seed, queries: 1_400.0, cv: 3.5, growth: 0.02, incidents: 0.7, horizon: 56 }
    }
}

/// Dashboards, loads, questions: how much of an ordinary working day they are.
const KINDS: [f64; 3] = [0.55, 0.2, 0.25];
/// How busy each kind is from Monday to Sunday.
const DAYS: [[f64; 7]; 3] =
    [[1.1, 1.0, 1.0, 1.0, 0.9, 0.12, 0.1], [1.0, 1.0, 1.0, 1.0, 1.0, 0.8, 0.8], [1.2, 1.1, 1.0, 0.9, 0.7, 0.15, 0.2]];
/// How busy each is from midnight on; any scale.
const HOURS: [[f64; 24]; 3] = [
    [1., 1., 1., 1., 1., 1., 3., 8., 18., 22., 20., 16., 10., 14., 18., 17., 13., 8., 4., 2., 1., 1., 1., 1.],
    [6., 20., 30., 26., 12., 4., 1., 1., 1., 1., 1., 1., 3., 1., 1., 1., 1., 1., 1., 1., 2., 3., 4., 5.],
    [0., 0., 0., 0., 0., 0., 1., 3., 8., 12., 14., 12., 6., 12., 14., 14., 12., 9., 5., 3., 2., 2., 1., 0.],
];
/// Deviations of the logarithm of how busy a day and an hour are.
const CHANCE: [f64; 2] = [0.06, 0.12];
/// The share of templates that come for the first time within the horizon, and that come for the last time.
const COME_AND_GO: [f64; 2] = [0.12, 0.08];
/// The mean gap inside a batch, as a share of the mean gap.
const WITHIN: f64 = 0.05;
/// How much busier an incident is.
const INCIDENT: f64 = 4.0;
/// One stream for each purpose, besides that of the seed.
const TEMPLATES: u64 = 1 << 32;
const A_DAY: u64 = 2 << 32;

/// A template's part.
struct Part {
    template: Template,
    kind: usize,
    weight: f64,
    /// By how much its weight grows in a week, as a logarithm.
    drift: f64,
    /// Its first day, and the one after its last.
    days: (u32, u32),
}

/// What goes wrong on a day.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Incident {
    /// Everybody tries again, from that hour on, for two hours.
    Storm(usize),
    /// Nothing comes, from that hour on, for so many.
    Outage(usize, usize),
}

impl Weeks {
    /// The queries of a day, as times since it began, in order.
    pub fn day(&self, number: u32, asked: impl Fn(Template) -> Asked) -> Vec<(Time, Asked)> {
        let parts = self.parts();
        let mut rng = Rng::numbered(self.seed, A_DAY + u64::from(number));
        let week = f64::from(number) / 7.0;
        let busy = math::exp(CHANCE[0] * rng.normal()) * math::pow(1.0 + self.growth.max(-0.99), week);
        let incident = self.incident(&mut rng);
        let mut list = Vec::new();
        for hour in 0..24 {
            // As many draws in each hour, so that nothing in one shifts another.
            let by_chance = math::exp(CHANCE[1] * rng.normal());
            let times = busy * by_chance * incident.map_or(1.0, |incident| incident.times(hour));
            let weights: Vec<f64> = parts.iter().map(|part| self.weight(part, number, hour)).collect();
            let rate = self.rate(number, hour) * times / 3_600.0;
            let pattern =
                Pattern::Batched(Batched { rate, cv: self.cv, within: Span::from_secs_f64(WITHIN / rate.max(1e-9)) });
            let began = Time::ZERO + Span::from_secs(3_600 * hour as u64);
            let mut choice = Rng::stream(rng.bits(), Stream::Mix);
            let instants = pattern.instants(rng.bits()).take_while(|at| *at < Time::ZERO + Span::from_secs(3_600));
            for at in instants {
                if let Some(place) = draw(&weights, &mut choice) {
                    list.push((began + at.since(Time::ZERO), asked(parts[place].template)));
                }
            }
        }
        list
    }

    /// Queries that an hour should have on day `number`, were it not for growth and chance.
    fn rate(&self, number: u32, hour: usize) -> f64 {
        let of_kind = |kind: usize| {
            let all: f64 = HOURS[kind].iter().sum();
            KINDS[kind] * DAYS[kind][number as usize % 7] * HOURS[kind][hour] / all
        };
        self.queries.max(0.0) * (0..KINDS.len()).map(of_kind).sum::<f64>()
    }

    /// How often a template comes in an hour, relative to the others.
    fn weight(&self, part: &Part, number: u32, hour: usize) -> f64 {
        if !(part.days.0..part.days.1).contains(&number) {
            return 0.0;
        }
        let all: f64 = HOURS[part.kind].iter().sum();
        let of_kind = KINDS[part.kind] * DAYS[part.kind][number as usize % 7] * HOURS[part.kind][hour] / all;
        of_kind * part.weight * math::exp(part.drift * f64::from(number) / 7.0)
    }

    fn parts(&self) -> Vec<Part> {
        let mut rng = Rng::numbered(self.seed, TEMPLATES);
        let part = |template: Template| {
            let kind = if rng.chance(0.3) { 0 } else { 1 + rng.index(2) };
            // A few come very often: log-normal, as counts of shapes are.
            let (weight, drift) = (math::exp(rng.normal()), 0.02 * rng.normal());
            let (fate, day) = (rng.unit(), 1 + rng.below(self.horizon.max(1).into()) as u32);
            let days = match fate {
                fate if fate < COME_AND_GO[0] => (day, u32::MAX),
                fate if fate < COME_AND_GO[0] + COME_AND_GO[1] => (0, day),
                _ => (0, u32::MAX),
            };
            Part { template, kind, weight, drift, days }
        };
        Template::all().map(part).collect()
    }

    fn incident(&self, rng: &mut Rng) -> Option<Incident> {
        let (happens, storm, hour, length) = (rng.unit(), rng.chance(0.7), 6 + rng.index(12), 3 + rng.index(4));
        (happens < self.incidents / 7.0).then_some(if storm {
            Incident::Storm(hour)
        } else {
            Incident::Outage(hour, length)
        })
    }
}

impl Incident {
    fn times(self, hour: usize) -> f64 {
        match self {
            Incident::Storm(from) if (from..from + 2).contains(&hour) => INCIDENT,
            Incident::Outage(from, length) if (from..from + length).contains(&hour) => 0.0,
            _ => 1.0,
        }
    }
}

fn draw(weights: &[f64], rng: &mut Rng) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    let mut left = rng.unit() * total;
    let chosen = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    chosen.or_else(|| weights.iter().rposition(|weight| *weight > 0.0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use punctual_core::id::ClassId;

    use super::*;
    use crate::workload::Spread;

    fn asked(template: Template) -> Asked {
        Asked { template, class: ClassId(0), slo: None }
    }

    fn mean(weeks: &Weeks, days: impl Iterator<Item = u32>) -> f64 {
        let counts: Vec<f64> = days.map(|day| weeks.day(day, asked).len() as f64).collect();
        counts.iter().sum::<f64>() / counts.len() as f64
    }

    #[test]
    fn working_days_are_busy_weekends_are_not_and_load_grows() {
        let weeks = Weeks { growth: 0.05, incidents: 0.0, ..Weeks::of(3) };
        let (first, second) =
            (mean(&weeks, (0..40).filter(|day| day % 7 < 5)), mean(&weeks, (0..40).filter(|day| day % 7 > 4)));
        assert!((1_250.0..2_000.0).contains(&first) && second < first / 2.5, "{first} and {second}");
        let later = mean(&weeks, (70..110).filter(|day| day % 7 < 5));
        // Ten weeks at 5 % are 63 %; a day's count deviates by some 10 %.
        assert!((later / first / 1.63 - 1.0).abs() < 0.1, "{later} of {first}");
    }

    #[test]
    fn queries_come_in_batches_in_order_and_the_same_for_the_same_seed() {
        let weeks = Weeks { queries: 40_000.0, incidents: 0.0, ..Weeks::of(5) };
        let day = weeks.day(1, asked);
        assert!(day.is_sorted_by_key(|(at, _)| *at) && day == weeks.day(1, asked));
        let hour = |at: &&Time| (10..11).contains(&(at.micros() / 3_600_000_000));
        let instants: Vec<Time> = day.iter().map(|(at, _)| at).filter(hour).copied().collect();
        let spread = Spread::of(&instants).expect("enough");
        assert!((spread.cv / 3.5 - 1.0).abs() < 0.15, "{spread:?} of {}", instants.len());
    }

    #[test]
    fn templates_come_up_and_vanish_and_each_hour_has_its_own() {
        let weeks = Weeks { queries: 5_000.0, incidents: 0.0, ..Weeks::of(7) };
        let of = |days: std::ops::Range<u32>, hours: std::ops::Range<u64>| -> BTreeSet<Template> {
            let all = days.flat_map(|day| weeks.day(day, asked));
            let within = all.filter(|(at, _)| hours.contains(&(at.micros() / 3_600_000_000)));
            within.map(|(_, asked)| asked.template).collect()
        };
        let (early, late) = (of(0..7, 0..24), of(60..67, 0..24));
        assert!((4..=20).contains(&late.difference(&early).count()) && early.difference(&late).count() >= 3);
        assert!(of(0..3, 2..3).len() < of(0..3, 10..11).len());
    }

    #[test]
    fn incidents_are_storms_and_silences() {
        let weeks = Weeks { incidents: 7.0, ..Weeks::of(9) };
        let hours = |day: u32| -> Vec<usize> {
            let day = weeks.day(day, asked);
            (0..24).map(|hour| day.iter().filter(|(at, _)| at.micros() / 3_600_000_000 == hour).count()).collect()
        };
        let silent = (0..20).filter(|day| hours(*day)[6..18].windows(3).any(|three| three == [0, 0, 0])).count();
        let storms = (0..20).filter(|day| hours(*day).iter().any(|count| *count > 300)).count();
        assert!((2..=12).contains(&silent) && storms >= 6, "{silent} silences, {storms} storms");
        assert_eq!(Weeks { queries: 0.0, ..Weeks::of(1) }.day(0, asked), []);
    }
}
