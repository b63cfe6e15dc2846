//! Our own: a profile of the week that is learnt from all of it, at today's level, with whole bursts.
//!
//! The default knows a Monday at nine by the last few Mondays at nine: a handful of noisy counts, each a week older than the one
//! after it. This one says more with the same history:
//!
//! - **Unusual days are left out** (more than four times, or less than a quarter of, what such days have in the median), and an hour counts
//!   for at most three times its median: an incident, or a holiday, is not expected again next week.
//! - **A profile.** The mean of such hours, weeks weighing 0.7 of the one after; and the mean of such days times the hour's share
//!   of days of its kind (working days, weekends), which several times as many hours tell of. The first counts n/(n+1) for n weeks.
//! - **A trend.** A line through the logarithm of the weeks' levels against that profile, drawn towards none as a handful of weeks
//!   would be by chance, says where the level is on the day that is forecast.
//! - **Levels** are that times the ratios by which such hours differed from the profile.
//! - **Bursts** are those of past hours, not gaps one by one ([`Spacing::Bursts`]).
//! - **Which** comes as in such hours, and as at this hour of the last seven days: what is new on Tuesday is expected on Wednesday. What has
//!   not come for a week, but came on most days before, is gone.

use std::collections::BTreeMap;

use punctual_core::math;

use super::plan::{HourPlan, Spacing, alike, deciles};
use super::{BTreeSet, Date, Day, Forecaster, Past, Weekday};
use crate::past::Known;
use crate::reservoir::ShapeId;

/// A profile of the week at today's level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levelled;

/// What a week weighs of the one after it.
const DECAY: f64 = 0.7;
/// How many times the median of such days a day is unusual from, and how small a part of it.
pub(super) const UNUSUAL: f64 = 4.0;
/// How many times its median an hour counts for at most, and how many queries more.
const MOST_OF_MEDIAN: (f64, f64) = (3.0, 10.0);
/// How sure it is beforehand that there is no trend: (deviation of a week's level / deviation of trends)², both a few percent.
const NO_TREND: f64 = 2.0;
/// By how much a level differs from the profile at most.
const TREND: (f64, f64) = (0.6, 1.6);

impl Forecaster for Levelled {
    fn name(&self) -> &'static str {
        "levelled"
    }

    fn plan<'p>(&self, past: &'p Past<'p>, day: &Day, like: Weekday) -> Vec<HourPlan<'p>> {
        let unusual: BTreeSet<Date> = unusual(past).into_iter().map(|(date, _)| date).collect();
        let hours: Vec<Aged<'p>> = past
            .hours()
            .filter(|known| !unusual.contains(&known.date))
            .map(|known| Aged { known, weeks: (past.until().since(known.date) - 1).max(0) / 7, rate: known.rate() })
            .collect();
        if hours.is_empty() {
            return super::Weekly::default().plan(past, day, like);
        }
        let profile = Profile::of(hours);
        let trend = profile.trend();
        let gone = gone(past);
        let plan = |hour: u8| HourPlan {
            levels: profile.levels(like, hour, trend),
            sources: sources(past, like, hour),
            spacing: profile.spacing(like, hour),
            gone: gone.clone(),
        };
        day.hours.iter().map(|hour| plan(hour.hour)).collect()
    }
}

/// An hour, how many weeks ago, and what it counts for.
#[derive(Clone, Copy, Debug)]
struct Aged<'p> {
    known: &'p Known<'p>,
    weeks: i32,
    rate: f64,
}

impl Aged<'_> {
    fn weight(&self) -> f64 {
        math::pow(DECAY, f64::from(self.weeks))
    }

    fn place(&self) -> (usize, usize) {
        (self.known.date.weekday().index(), usize::from(self.known.hour.hour))
    }
}

/// What a week is like.
struct Profile<'p> {
    hours: Vec<Aged<'p>>,
    /// Queries in sixty minutes, by weekday and hour.
    rates: [[f64; 24]; 7],
}

impl<'p> Profile<'p> {
    fn of(mut hours: Vec<Aged<'p>>) -> Profile<'p> {
        limit(&mut hours);
        let mut own = [[(0.0, 0.0, 0.0); 24]; 7];
        for hour in &hours {
            let (weekday, at) = hour.place();
            let (sum, weights, squares) = &mut own[weekday][at];
            let weight = hour.weight();
            *sum += weight * hour.rate;
            *weights += weight;
            *squares += weight * weight;
        }
        let shares = [shares(&own, false), shares(&own, true)];
        let totals: Vec<Option<f64>> =
            Weekday::ALL.iter().map(|day| total(&own[day.index()], &shares[usize::from(day.is_weekend())])).collect();
        let mut rates = [[0.0; 24]; 7];
        for day in Weekday::ALL {
            let alike = Weekday::ALL.iter().filter(|other| other.is_weekend() == day.is_weekend());
            let known = |days: &mut dyn Iterator<Item = &Weekday>| mean(days.filter_map(|day| totals[day.index()]));
            let total = totals[day.index()].or_else(|| known(&mut alike.into_iter()));
            let total = total.or_else(|| known(&mut Weekday::ALL.iter())).unwrap_or(0.0);
            for hour in 0..24 {
                let (sum, weights, squares) = own[day.index()][hour];
                let shared = total * shares[usize::from(day.is_weekend())][hour];
                let weeks = if squares > 0.0 { weights * weights / squares } else { 0.0 };
                let alone = if weights > 0.0 { sum / weights } else { 0.0 };
                rates[day.index()][hour] = (weeks * alone + shared) / (weeks + 1.0);
            }
        }
        Profile { hours, rates }
    }

    fn rate(&self, weekday: Weekday, hour: u8) -> f64 {
        self.rates[weekday.index()][usize::from(hour) % 24]
    }

    /// The level of the day after the last one, against the profile.
    fn trend(&self) -> f64 {
        let mut weeks: BTreeMap<i32, (f64, f64)> = BTreeMap::new();
        for hour in &self.hours {
            let (weekday, at) = hour.place();
            let (came, expected) = weeks.entry(hour.weeks).or_default();
            *came += hour.rate;
            *expected += self.rates[weekday][at];
        }
        let points: Vec<(f64, f64, f64)> = weeks
            .iter()
            .filter(|(_, (came, expected))| *came > 0.0 && *expected > 0.0)
            .map(|(week, (came, expected))| {
                (f64::from(*week), math::ln(came / expected), math::pow(DECAY, f64::from(*week)))
            })
            .collect();
        let weight: f64 = points.iter().map(|point| point.2).sum();
        if points.len() < 2 || weight <= 0.0 {
            return 1.0;
        }
        let centre = points.iter().map(|(week, _, weight)| week * weight).sum::<f64>() / weight;
        let level = points.iter().map(|(_, level, weight)| level * weight).sum::<f64>() / weight;
        let across = points.iter().map(|(week, log, weight)| weight * (week - centre) * (log - level)).sum::<f64>();
        let along = points.iter().map(|(week, _, weight)| weight * (week - centre) * (week - centre)).sum::<f64>();
        // The middle of the last week is four days before the day that is forecast.
        let to = -4.0 / 7.0 - centre;
        math::exp(level + to * across / (along + NO_TREND)).clamp(TREND.0, TREND.1)
    }

    fn levels(&self, like: Weekday, hour: u8, trend: f64) -> Vec<(f64, f64)> {
        let expected = self.rate(like, hour) * trend;
        let ratio = |aged: &Aged<'_>| {
            let (weekday, at) = aged.place();
            let own = self.rates[weekday][at];
            (own > 0.0).then(|| (aged.rate / own, aged.weight()))
        };
        let alike = |aged: &&Aged<'_>| {
            aged.known.hour.hour == hour && aged.known.date.weekday().is_weekend() == like.is_weekend()
        };
        let ratios: Vec<(f64, f64)> = self.hours.iter().filter(alike).filter_map(ratio).collect();
        let weight: f64 = ratios.iter().map(|(_, weight)| weight).sum();
        let mean = ratios.iter().map(|(ratio, weight)| ratio * weight).sum::<f64>() / weight;
        if mean > 0.0 {
            ratios.into_iter().map(|(ratio, weight)| (expected * ratio / mean, weight)).collect()
        } else {
            vec![(expected, 1.0)]
        }
    }

    /// Bursts of this hour on days of the kind, twice as likely of the same day of the week; else gaps of all hours.
    fn spacing(&self, like: Weekday, hour: u8) -> Spacing<'p> {
        let of_the_kind = |aged: &&Aged<'_>| aged.known.date.weekday().is_weekend() == like.is_weekend();
        let weigh =
            |aged: &Aged<'p>| (aged.known, aged.weight() * if aged.known.date.weekday() == like { 2.0 } else { 1.0 });
        let came = self.hours.iter().filter(|aged| !aged.known.kept.is_empty());
        let bursts: Vec<_> = came.filter(|aged| aged.known.hour.hour == hour).filter(of_the_kind).map(weigh).collect();
        if bursts.is_empty() {
            let all: Vec<_> = self.hours.iter().map(|aged| (aged.known, aged.weight())).collect();
            return deciles(&all).map_or(Spacing::Uniform, Spacing::Gaps);
        }
        Spacing::Bursts(bursts)
    }
}

/// Cuts each hour to a few times the median of such hours.
fn limit(hours: &mut [Aged<'_>]) {
    let mut rates: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for hour in hours.iter() {
        rates.entry(hour.place()).or_default().push(hour.rate);
    }
    for rates in rates.values_mut() {
        rates.sort_by(f64::total_cmp);
    }
    for hour in hours.iter_mut() {
        if let Some(rates) = rates.get(&hour.place()).filter(|rates| rates.len() > 1) {
            let median = rates[(rates.len() - 1) / 2];
            hour.rate = hour.rate.min(MOST_OF_MEDIAN.0 * median + MOST_OF_MEDIAN.1);
        }
    }
}

/// What part of a day's queries each hour has, on working days or weekends; of all days if there are none of the kind, or
/// nothing came on them. Hours that were never seen have the mean.
fn shares(own: &[[(f64, f64, f64); 24]; 7], weekend: bool) -> [f64; 24] {
    let of = |kind: Option<bool>| -> Option<[f64; 24]> {
        let days: Vec<_> =
            Weekday::ALL.into_iter().filter(|day| kind.is_none_or(|kind| kind == day.is_weekend())).collect();
        let rate = |hour: usize| {
            let rates = days.iter().map(|day| own[day.index()][hour]).filter(|(_, weights, _)| *weights > 0.0);
            mean(rates.map(|(sum, weights, _)| sum / weights))
        };
        let rates: Vec<Option<f64>> = (0..24).map(rate).collect();
        let unknown = mean(rates.iter().copied().flatten())?;
        let sum: f64 = rates.iter().map(|rate| rate.unwrap_or(unknown)).sum();
        (sum > 0.0).then(|| std::array::from_fn(|hour| rates[hour].unwrap_or(unknown) / sum))
    };
    of(Some(weekend)).or_else(|| of(None)).unwrap_or([1.0 / 24.0; 24])
}

/// Queries of a day, from those of its hours that are known; None if none is.
fn total(hours: &[(f64, f64, f64); 24], shares: &[f64; 24]) -> Option<f64> {
    let known = hours.iter().zip(shares).filter(|((_, weights, _), _)| *weights > 0.0);
    let (came, share) =
        known.fold((0.0, 0.0), |(came, of), ((sum, weights, _), share)| (came + sum / weights, of + share));
    (share > 0.0).then(|| came / share)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Such hours, by weeks; and this hour of the last seven days, half as much in all.
fn sources<'p>(past: &'p Past<'p>, like: Weekday, hour: u8) -> Vec<(&'p Known<'p>, f64)> {
    let weigh = |(known, weeks): (&'p Known<'p>, f64)| (known, math::pow(DECAY, weeks));
    let mut sources: Vec<_> = alike(past, like, hour).into_iter().map(weigh).collect();
    let lately = |known: &&Known<'_>| known.hour.hour == hour && past.until().since(known.date) <= 7;
    sources.extend(past.hours().filter(lately).map(|known| (known, 0.25)));
    sources
}

/// Shapes that have not come in the last seven known days, but on most of the fourteen before.
fn gone(past: &Past<'_>) -> BTreeSet<ShapeId> {
    let mut dates: Vec<Date> = past.hours().map(|known| known.date).collect();
    dates.dedup();
    let Some(recent) = dates.len().checked_sub(7).map(|at| dates[at]).filter(|_| dates.len() >= 14) else {
        return BTreeSet::new();
    };
    let before = |days: u32, first: Date| {
        let there = dates.iter().filter(|date| **date >= first && **date < recent).count();
        there >= 4 && days as usize * 2 > there
    };
    let shapes = past.shapes().iter().filter(|(_, life)| life.last < recent && before(life.days, life.first));
    shapes.map(|(shape, _)| *shape).collect()
}

/// Days that had far more or far less than such days have, and how many times as much.
pub(super) fn unusual(past: &Past<'_>) -> Vec<(Date, f64)> {
    let mut totals: BTreeMap<Date, (f64, f64)> = BTreeMap::new();
    for known in past.hours() {
        let (came, hours) = totals.entry(known.date).or_default();
        *came += known.count as f64;
        *hours += known.hour.hours();
    }
    // Days of which half is known.
    let rates: Vec<(Date, f64)> = totals
        .into_iter()
        .filter(|(_, (_, hours))| *hours >= 12.0)
        .map(|(date, (came, hours))| (date, came / hours))
        .collect();
    let median = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of.get(of.len().saturating_sub(1) / 2).copied()
    };
    let usual = |date: Date| {
        let others = |like: &dyn Fn(Date) -> bool| -> Vec<f64> {
            rates.iter().filter(|(other, _)| *other != date && like(*other)).map(|(_, rate)| *rate).collect()
        };
        let such = others(&|other| other.weekday() == date.weekday());
        if such.len() >= 2 {
            return median(such);
        }
        let of_the_kind = others(&|other| other.weekday().is_weekend() == date.weekday().is_weekend());
        median(of_the_kind).filter(|_| rates.len() >= 4)
    };
    let times = |(date, rate): &(Date, f64)| {
        let usual = usual(*date).filter(|usual| *usual > 0.0)?;
        // By chance a day of a handful of queries has four times as many.
        let enough = rate.max(usual) >= 4.0;
        let times = rate / usual;
        (enough && !(1.0 / UNUSUAL..=UNUSUAL).contains(&times)).then_some((*date, times))
    };
    rates.iter().filter_map(times).collect()
}
