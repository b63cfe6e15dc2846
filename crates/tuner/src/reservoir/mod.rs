//! What has come so far, by date and hour: the tuner's own memory of history.
//!
//! ```text
//!   2026-11-30  9 h   1,240 queries   kept: (00.41 s, a) (00.43 s, a) (03.10 s, c) …      a ▶ dashboard, SLO 2 s, features
//!   2026-11-30 10 h   1,310 queries   kept: …                                             c ▶ etl, …
//! ```
//!
//! For each hour it has how many queries came, and of each query when in the hour and which shape. (AutoSLO, section 7.1,
//! keeps counts by template and offsets apart; kept together both can be had, and which query came in which burst besides.)
//! A shape is a fingerprint in a class, with its SLO and the features of its last query as an exemplar.
//!
//! **Bounds.** An hour keeps at most [`Limits::queries`] of its queries: a uniform sample of them once there are more
//! (Vitter's algorithm R; each draw belongs to the seed, the hour and the number of the query in it). Counts stay exact; of a
//! sample, bursts shorter than a kept query's share of time look smoother than they were. The newest [`Limits::days`] days are kept, and
//! [`Limits::shapes`] shapes: a query of one more is kept as unnamed, and a forecast gives it the name of another. All of that
//! is at most [`Limits::most_bytes`], 58 MB by default, in memory as on disk.
//!
//! **Only what is new.** History is read in the order of the hours in which queries ended, and hours only grow at their end. So for
//! each source it is remembered how many rows of each such hour have been taken, and that many are passed over when it
//! is read again. A source that loses rows in the middle of an hour (damage) may have that many counted twice or not
//! at all; another history needs another name.
//!
//! **Clocks that jump.** A row counts where its arrival says. What is more than a day ahead of the present is refused, so that
//! one wrong year cannot push out all that there is; what is older than the days that are kept, too. Both are counted.

mod file;

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::fingerprint::Fingerprint;
use punctual_core::rng::Rng;
use punctual_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::calendar::{Date, Day, Zone};

pub use file::{Unreadable, VERSION};

/// A query of history, as far as the reservoir is interested.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// When it arrived.
    pub at: Time,
    /// When it ended: what history is ordered by, to the hour.
    pub ended: Time,
    /// Its shape.
    pub fingerprint: Fingerprint,
    /// The name of its class.
    pub class: Option<Arc<str>>,
    /// Its latency target.
    pub slo: Option<Span>,
    /// The hash of its text.
    pub text: Option<u64>,
    /// What predictions are made from; empty if that is not known.
    pub features: Vec<f32>,
}

/// A fingerprint in a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// The name of the class; None: not known.
    #[serde(with = "shared")]
    pub class: Option<Arc<str>>,
    /// The SLO of the last such query that had one; None: none had. What a new shape has is for the policy to say.
    pub slo: Option<Span>,
    /// The hash of the text of the last one of which it is known.
    pub text: Option<u64>,
    /// The features of the last one of which they are known; else empty.
    pub features: Vec<f32>,
    /// When the last one arrived.
    pub last: Time,
}

/// A shape's place in its reservoir.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShapeId(pub u32);

impl ShapeId {
    /// What a query is kept as whose shape found no room.
    pub const UNNAMED: ShapeId = ShapeId(u32::MAX);
}

/// What is kept at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Days, the newest.
    pub days: u16,
    /// Queries of an hour.
    pub queries: u32,
    /// Shapes.
    pub shapes: u32,
}

impl Default for Limits {
    /// Nine weeks (the ninth weighs 1/256 of the first where weights halve), 4,096 queries an hour (98,000 a day), 16,384 shapes.
    fn default() -> Limits {
        Limits { days: 63, queries: 4_096, shapes: 16_384 }
    }
}

impl Limits {
    /// What a reservoir of this size takes at most, in bytes, shapes having as many features as core's.
    pub fn most_bytes(self) -> u64 {
        let kept = u64::from(self.days) * 24 * u64::from(self.queries) * std::mem::size_of::<Kept>() as u64;
        let shape = std::mem::size_of::<Shape>() + 4 * punctual_core::predict::features::FEATURES + 64;
        kept + u64::from(self.shapes) * shape as u64
    }
}

/// A kept query of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// When in the hour, in ticks of [`TICK`].
    ticks: u32,
    /// What.
    pub(crate) shape: ShapeId,
}

/// How finely instants within an hour are kept: 10 µs, so that two hours fit 32 bits.
const TICK: u64 = 10;

impl Kept {
    fn at(offset: Span, shape: ShapeId) -> Kept {
        Kept { ticks: u32::try_from(offset.micros() / TICK).unwrap_or(u32::MAX), shape }
    }

    /// How long after the beginning of its hour.
    pub(crate) fn offset(self) -> Span {
        Span::from_micros(u64::from(self.ticks) * TICK)
    }
}

/// An hour of a date.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bin {
    /// Queries that came in it.
    pub(crate) count: u64,
    /// Those that are kept, in order of time.
    pub(crate) kept: Vec<Kept>,
}

/// What has come so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservoir {
    pub(crate) zone: Zone,
    limits: Limits,
    seed: u64,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) bins: BTreeMap<(Date, u8), Bin>,
    /// For each source and hour (UTC, since the epoch) of ends, rows that have been looked at.
    taken: BTreeMap<String, BTreeMap<u32, u64>>,
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    refused: Refused,
}

/// Rows that were looked at and count for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// More than a day ahead of the present.
    pub ahead: u64,
    /// Older than the days that are kept.
    pub old: u64,
}

/// What came of reading a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Added {
    /// Queries that are counted now.
    pub new: u64,
    /// Rows that had been taken before.
    pub known: u64,
    /// Rows that count for nothing.
    pub refused: Refused,
    /// Of the new, those whose shape found no room.
    pub unnamed: u64,
}

impl Reservoir {
    /// One in which nothing has come. Limits of zero are one.
    pub fn new(zone: Zone, limits: Limits, seed: u64) -> Reservoir {
        let limits = Limits { days: limits.days.max(1), queries: limits.queries.max(1), shapes: limits.shapes.max(1) };
        let (shapes, bins, taken) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Reservoir { zone, limits, seed, shapes, bins, taken, first: None, last: None, refused: Refused::default() }
    }

    /// Whose clocks the hours go by.
    pub fn zone(&self) -> Zone {
        self.zone
    }

    /// A shape; None for [`ShapeId::UNNAMED`] and ids of another reservoir.
    pub fn shape(&self, id: ShapeId) -> Option<&Shape> {
        self.shapes.get(id.0 as usize)
    }

    /// How many shapes there are; their ids count from zero.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// Queries of the days that are kept.
    pub fn queries(&self) -> u64 {
        self.bins.values().map(|bin| bin.count).sum()
    }

    /// The first and the last date that anything came on.
    pub fn dates(&self) -> Option<(Date, Date)> {
        let (first, last) = (self.bins.first_key_value()?, self.bins.last_key_value()?);
        Some((first.0.0, last.0.0))
    }

    /// Rows of all sources that count for nothing.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Opens a source to add what is new of it. Its rows come by the hour of their ends, as history is read. `present` is the
    /// time now, or any time after all that can be right.
    pub fn adding(&mut self, source: &str, present: Time) -> Adding<'_> {
        let lookup = self.shapes.iter().zip(0..).map(|(shape, id)| (shape.key(), ShapeId(id))).collect();
        let before = self.taken.get(source).cloned().unwrap_or_default();
        let ahead = present + Span::from_secs(86_400);
        let (added, position, day) = (Added::default(), BTreeMap::new(), None);
        Adding { reservoir: self, source: source.to_owned(), before, position, ahead, lookup, day, added }
    }

    /// Drops days that are too old, and shapes that no kept query has any more.
    fn trim(&mut self) {
        let Some((_, newest)) = self.dates() else { return };
        let oldest = newest.plus(1 - i32::from(self.limits.days));
        self.bins = self.bins.split_off(&(oldest, 0));
        let start = self.zone.day(oldest).starts().unwrap_or(Time::ZERO);
        self.first = self.first.map(|first| first.max(start));
        for taken in self.taken.values_mut() {
            *taken = taken.split_off(&hour_of(start).saturating_sub(1));
        }
        self.taken.retain(|_, taken| !taken.is_empty());
    }

    fn drop_unused_shapes(&mut self) {
        let mut used = vec![false; self.shapes.len()];
        for kept in self.bins.values().flat_map(|bin| &bin.kept) {
            if let Some(used) = used.get_mut(kept.shape.0 as usize) {
                *used = true;
            }
        }
        if used.iter().all(|used| *used) {
            return;
        }
        let mut next = 0;
        let renamed: Vec<ShapeId> = used
            .iter()
            .map(|used| {
                let id = ShapeId(next);
                next += u32::from(*used);
                id
            })
            .collect();
        let mut uses = used.iter();
        self.shapes.retain(|_| uses.next().copied().unwrap_or(false));
        for kept in self.bins.values_mut().flat_map(|bin| &mut bin.kept) {
            kept.shape = renamed.get(kept.shape.0 as usize).copied().unwrap_or(ShapeId::UNNAMED);
        }
    }
}

impl Shape {
    fn key(&self) -> (Fingerprint, Option<Arc<str>>) {
        (self.fingerprint, self.class.clone())
    }
}

/// The hour since the epoch that `at` is in, UTC.
fn hour_of(at: Time) -> u32 {
    u32::try_from(at.micros() / 3_600_000_000).unwrap_or(u32::MAX)
}

/// A source that is being read.
#[derive(Debug)]
pub struct Adding<'r> {
    reservoir: &'r mut Reservoir,
    source: String,
    /// Rows of each hour that had been taken before.
    before: BTreeMap<u32, u64>,
    /// Rows of each hour that have come by now.
    position: BTreeMap<u32, u64>,
    /// What arrives later than this is refused.
    ahead: Time,
    lookup: BTreeMap<(Fingerprint, Option<Arc<str>>), ShapeId>,
    /// The day of the last row, and when the day after it begins.
    day: Option<Day>,
    added: Added,
}

impl Adding<'_> {
    /// The next row.
    pub fn take(&mut self, seen: Seen) {
        let hour = hour_of(seen.ended);
        let position = self.position.entry(hour).or_default();
        *position += 1;
        if self.before.get(&hour).is_some_and(|before| *position <= *before) {
            self.added.known += 1;
        } else if seen.at > self.ahead {
            self.added.refused.ahead += 1;
        } else {
            self.count(seen);
        }
    }

    /// All rows have come.
    pub fn done(self) -> Added {
        let Adding { reservoir, source, before, mut position, added, .. } = self;
        // What the source no longer has, and might show again, stays taken.
        for (hour, taken) in before {
            let position = position.entry(hour).or_default();
            *position = taken.max(*position);
        }
        reservoir.taken.insert(source, position);
        for bin in reservoir.bins.values_mut().filter(|bin| !bin.kept.is_sorted()) {
            bin.kept.sort_unstable();
        }
        reservoir.trim();
        reservoir.drop_unused_shapes();
        reservoir.refused.ahead += added.refused.ahead;
        reservoir.refused.old += added.refused.old;
        added
    }

    fn count(&mut self, seen: Seen) {
        let at = seen.at;
        let zone = self.reservoir.zone;
        if self.day.as_ref().is_none_or(|day| day.hour_at(at).is_none()) {
            self.day = Some(zone.day(zone.date_of(at)));
        }
        let Some(day) = &self.day else { return };
        let (Some(hour), date) = (day.hour_at(at).copied(), day.date) else { return };
        let days = i32::from(self.reservoir.limits.days);
        if self.reservoir.dates().is_some_and(|(_, newest)| newest.since(date) >= days) {
            self.added.refused.old += 1;
            return;
        }
        let shape = self.shape(seen);
        let reservoir = &mut *self.reservoir;
        let bin = reservoir.bins.entry((date, hour.hour)).or_default();
        let kept = Kept::at(at.since(hour.starts), shape);
        bin.count += 1;
        if bin.kept.len() < reservoir.limits.queries as usize {
            bin.kept.push(kept);
        } else {
            let stream = u64::from(hour_of(hour.starts)) << 32 ^ bin.count;
            let place = Rng::numbered(reservoir.seed, stream).below(bin.count) as usize;
            if let Some(place) = bin.kept.get_mut(place) {
                *place = kept;
            }
        }
        reservoir.first = Some(reservoir.first.map_or(at, |first| first.min(at)));
        reservoir.last = Some(reservoir.last.map_or(at, |last| last.max(at)));
        self.added.new += 1;
        // A long archive, of which only the end will be kept.
        if reservoir.bins.len() > 2 * 24 * reservoir.limits.days as usize + 24 {
            reservoir.trim();
        }
    }

    /// The shape of a query, made known if there is room.
    fn shape(&mut self, seen: Seen) -> ShapeId {
        let shapes = &mut self.reservoir.shapes;
        let key = (seen.fingerprint, seen.class.clone());
        let Some(id) = self.lookup.get(&key).copied() else {
            if shapes.len() >= self.reservoir.limits.shapes as usize {
                self.added.unnamed += 1;
                return ShapeId::UNNAMED;
            }
            let id = ShapeId(shapes.len() as u32);
            self.lookup.insert(key, id);
            let Seen { at: last, fingerprint, class, slo, text, features, .. } = seen;
            shapes.push(Shape { fingerprint, class, slo, text, features, last });
            return id;
        };
        if let Some(shape) = shapes.get_mut(id.0 as usize).filter(|shape| shape.last <= seen.at) {
            shape.last = seen.at;
            shape.slo = seen.slo.or(shape.slo);
            shape.text = seen.text.or(shape.text);
            if !seen.features.is_empty() {
                shape.features = seen.features;
            }
        }
        id
    }
}

/// Shared strings as plain ones.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(text: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
        text.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Arc::from))
    }
}

#[cfg(test)]
mod tests;
