//! What an hour could be like, and a draw from it.
//!
//! First how many: one of the [`HourPlan::levels`], an hour's share of it, rounded up or down by chance. Then when, by its
//! [`Spacing`], and last which: a source by its weight, and any of its queries.
//!
//! **Gaps, in a circle.** Gaps are drawn from weighted deciles of those of past hours, uniformly within a decile (AutoSLO, section
//! 7.2): as many as there are queries, since an hour is taken as a circle whose last gap leads back to its first query. They are
//! stretched to fill the hour, and the circle is turned by chance. So neither end of an hour is emptier than its middle, a
//! single query comes at any time, and short gaps stay short beside long ones: bursts survive.
//!
//! ```text
//!   |||·|         ||        ||||||            ▶ turned ▶       ||        ||||||            |||·|
//! ```
//!
//! **Bursts.** The instants of one past hour, preferably one with about as many queries. If it had more, as many as are wanted stay;
//! if it had fewer, some have another between them and the next. What happens on the hour, every hour, stays where it is.

use punctual_core::math;
use punctual_core::rng::Rng;
use punctual_core::time::Span;
use std::collections::BTreeSet;

use crate::calendar::{Hour, Weekday};
use crate::past::{Known, Past};
use crate::reservoir::ShapeId;

/// What an hour could be like.
#[derive(Clone, Debug, PartialEq)]
pub struct HourPlan<'p> {
    /// Queries in sixty minutes, each with how likely it is, relative to the others. None: nothing comes.
    pub levels: Vec<(f64, f64)>,
    /// Hours whose queries come, with the weight of each of their queries.
    pub sources: Vec<(&'p Known<'p>, f64)>,
    /// When in the hour.
    pub spacing: Spacing<'p>,
    /// Shapes that do not come any more.
    pub gone: BTreeSet<ShapeId>,
}

/// When in the hour queries come.
#[derive(Clone, Debug, PartialEq)]
pub enum Spacing<'p> {
    /// Any time is as likely as any other.
    Uniform,
    /// By gaps between these deciles, from the least to the greatest, in seconds.
    Gaps([f64; 11]),
    /// As in one of these hours, with its weight.
    Bursts(Vec<(&'p Known<'p>, f64)>),
    /// As it was in the first source, query by query. An hour of another length, or of which only a sample is kept, is a burst.
    Again,
}

/// Gaps that deciles need at least (AutoSLO's fallbacks, section 7.2, are for fewer).
const ENOUGH_GAPS: usize = 20;
/// How often a query without a name, or one that is gone, is drawn again.
const REDRAWS: usize = 16;

impl HourPlan<'_> {
    /// An hour in which nothing comes.
    pub fn silent() -> Self {
        HourPlan { levels: Vec::new(), sources: Vec::new(), spacing: Spacing::Uniform, gone: BTreeSet::new() }
    }

    /// Instants after the beginning of the hour, in order, with what comes. `level`, in (0, 1), is how busy it is to be among
    /// what it could be.
    pub fn draw(&self, hour: &Hour, level: f64, rng: &mut Rng) -> Vec<(Span, ShapeId)> {
        let length = hour.length.secs_f64();
        if let (Spacing::Again, Some((source, _))) = (&self.spacing, self.sources.first())
            && source.hour.length == hour.length
            && source.count == source.kept.len() as u64
        {
            let named = source.kept.iter().filter_map(|kept| Some((kept.offset(), self.named(kept.shape, rng)?)));
            return named.collect();
        }
        let wanted = self.level(level) * hour.hours();
        let count = wanted as usize + usize::from(rng.chance(wanted.fract()));
        let mut offsets = match &self.spacing {
            Spacing::Uniform => (0..count).map(|_| rng.unit() * length).collect(),
            Spacing::Gaps(deciles) => circle(deciles, count, length, rng),
            Spacing::Bursts(hours) => bursts(hours, count, length, rng),
            Spacing::Again => bursts(&self.sources, count, length, rng),
        };
        offsets.sort_by(f64::total_cmp);
        let last = hour.length - Span::from_micros(1);
        let within = |seconds: f64| Span::from_secs_f64(seconds).min(last);
        offsets.into_iter().filter_map(|at| Some((within(at), self.shape(rng)?))).collect()
    }

    /// Queries in sixty minutes on so busy a day: a quantile of the levels.
    fn level(&self, quantile: f64) -> f64 {
        let mut levels: Vec<(f64, f64)> =
            self.levels.iter().copied().filter(|(rate, weight)| rate.is_finite() && *weight > 0.0).collect();
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = levels.iter().map(|(_, weight)| weight).sum();
        let mut left = quantile * total;
        let chosen = levels.iter().find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        chosen.or(levels.last()).map_or(0.0, |(rate, _)| rate.clamp(0.0, MOST))
    }

    /// What a query is; None if there is nothing that it could be.
    fn shape(&self, rng: &mut Rng) -> Option<ShapeId> {
        let mut last = None;
        for _ in 0..REDRAWS {
            let source = weighted(&self.sources, |known| known.count as f64, rng)?;
            let shape = source.kept.get(rng.index(source.kept.len())).map(|kept| kept.shape);
            let named = shape.filter(|shape| *shape != ShapeId::UNNAMED);
            last = named.or(last);
            if let Some(shape) = named.filter(|shape| !self.gone.contains(shape)) {
                return Some(shape);
            }
        }
        last.or_else(|| self.sources.iter().flat_map(|(known, _)| known.kept).map(|kept| kept.shape).min())
    }

    fn named(&self, shape: ShapeId, rng: &mut Rng) -> Option<ShapeId> {
        if shape == ShapeId::UNNAMED { self.shape(rng) } else { Some(shape) }
    }
}

/// The most queries that an hour is forecast to have: what no reservoir has seen is no reason to run out of memory.
const MOST: f64 = 10_000_000.0;

/// One of them, by its weight times what it counts for.
fn weighted<'a, T>(of: &'a [(T, f64)], counts: impl Fn(&T) -> f64, rng: &mut Rng) -> Option<&'a T> {
    let weight = |(one, weight): &(T, f64)| (weight * counts(one)).max(0.0);
    let total: f64 = of.iter().map(weight).sum();
    let mut left = rng.unit() * total;
    let chosen = of.iter().find(|one| {
        left -= weight(one);
        left < 0.0
    });
    chosen.or_else(|| of.iter().rfind(|one| weight(one) > 0.0)).map(|(one, _)| one)
}

/// So many instants on a circle of that length, by gaps between the deciles.
fn circle(deciles: &[f64; 11], count: usize, length: f64, rng: &mut Rng) -> Vec<f64> {
    let gap = |rng: &mut Rng| {
        let decile = rng.index(10);
        deciles[decile] + rng.unit() * (deciles[decile + 1] - deciles[decile])
    };
    let gaps: Vec<f64> = (0..count).map(|_| gap(rng)).collect();
    let whole: f64 = gaps.iter().sum();
    if whole <= 0.0 {
        return (0..count).map(|_| rng.unit() * length).collect();
    }
    let mut at = rng.unit() * length;
    gaps.into_iter()
        .map(|gap| {
            at = (at + gap / whole * length) % length;
            at
        })
        .collect()
}

/// So many instants, as in one of those hours.
fn bursts(hours: &[(&Known<'_>, f64)], count: usize, length: f64, rng: &mut Rng) -> Vec<f64> {
    // An hour with twice as many queries, or half, is a tenth as good.
    let near = |known: &&Known<'_>| match (known.kept.len(), count) {
        (0, _) | (_, 0) => 0.0,
        (had, wanted) => {
            let ratio = had as f64 / wanted as f64;
            math::pow(ratio.min(1.0 / ratio), 3.3)
        }
    };
    let Some(source) = weighted(hours, near, rng) else {
        return (0..count).map(|_| rng.unit() * length).collect();
    };
    let stretch = length / source.hour.length.secs_f64().max(1.0);
    let mut offsets: Vec<f64> = source.kept.iter().map(|kept| kept.offset().secs_f64() * stretch).collect();
    let had = offsets.len();
    for place in 0..count.min(had) {
        let other = place + rng.index(had - place);
        offsets.swap(place, other);
    }
    offsets.truncate(count);
    let original = |place: usize| source.kept.get(place).map_or(length, |kept| kept.offset().secs_f64() * stretch);
    for _ in had..count {
        let place = rng.index(had);
        let (from, to) = (original(place), original(place + 1));
        offsets.push(from + rng.unit() * (to - from));
    }
    offsets
}

/// Deciles of the gaps of those hours, each with its weight; None of too few. Each hour is a circle.
pub fn deciles(hours: &[(&Known<'_>, f64)]) -> Option<[f64; 11]> {
    let mut gaps: Vec<(f64, f64)> = Vec::new();
    for (known, weight) in hours {
        let length = known.hour.length.secs_f64();
        let at = |place: usize| known.kept.get(place).map(|kept| kept.offset().secs_f64());
        for place in 0..known.kept.len() {
            let (Some(this), Some(first)) = (at(place), at(0)) else { continue };
            gaps.push((at(place + 1).unwrap_or(first + length) - this, *weight));
        }
    }
    if gaps.len() < ENOUGH_GAPS {
        return None;
    }
    gaps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = gaps.iter().map(|(_, weight)| weight).sum();
    let mut deciles = [gaps[0].0; 11];
    let (mut sum, mut next) = (0.0, 1);
    for (gap, weight) in &gaps {
        sum += weight;
        while next < 10 && sum >= total * next as f64 / 10.0 {
            deciles[next] = *gap;
            next += 1;
        }
    }
    let greatest = gaps[gaps.len() - 1].0;
    deciles[next..].fill(greatest);
    Some(deciles)
}

/// How an hour's queries are spread, by these hours if they have enough gaps; else by all days at this hour, then by the hours
/// beside it as well, then uniformly (AutoSLO, section 7.2).
pub fn spacing<'p>(past: &'p Past<'p>, hours: &[(&'p Known<'p>, f64)], hour: u8) -> Spacing<'p> {
    let all = |from: u8, to: u8| -> Vec<(&Known<'_>, f64)> {
        past.hours().filter(|known| (from..=to).contains(&known.hour.hour)).map(|known| (known, 1.0)).collect()
    };
    let found = deciles(hours)
        .or_else(|| deciles(&all(hour, hour)))
        .or_else(|| deciles(&all(hour.saturating_sub(1), hour.saturating_add(1))));
    found.map_or(Spacing::Uniform, Spacing::Gaps)
}

/// Hours that one is like, with how many weeks ago they were: the same hour of such days; if none is known, of all days; else
/// the hours beside it; else all hours.
pub fn alike<'p>(past: &'p Past<'p>, like: Weekday, hour: u8) -> Vec<(&'p Known<'p>, f64)> {
    let weeks = |known: &'p Known<'p>| (known, f64::from((past.until().since(known.date) - 1).max(0) / 7));
    let such: Vec<_> = past.like(like, hour).map(weeks).collect();
    if !such.is_empty() {
        return such;
    }
    let distance = |known: &Known<'_>| known.hour.hour.abs_diff(hour);
    for within in [0, 1, 24] {
        let found: Vec<_> = past.hours().filter(|known| distance(known) <= within).map(weeks).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}
