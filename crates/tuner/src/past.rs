//! History as a forecast sees it: hours that are known, before the day that is forecast.
//!
//! Not every hour without a query is an hour without load. Three are not known: those before the first query of all and after the
//! last, those of days that were left out on purpose (holidays), and those of a **gap**, in which nothing was recorded though
//! something must have come. A gap is a silent stretch of at least three hours in which the same hours of the other weeks would have
//! brought at least thirty queries, taking the median week. So nights and weekends on which nobody works are known to be
//! silent; a broken gateway, or a holiday on which nobody came, is not learnt from. With no other week to look at, silence is
//! taken for silence.
//!
//! ```text
//!   Mon │▁▁▃▇▇▆▂▁│     Mon │▁▁▃▇▇▆▂▁│     Mon │▁▁▃     ▁│ ← a gap: some 25 would have come
//!   Sun │        │     Sun │        │     Sun │         │ ← silence
//! ```

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::time::{Span, Time};

use crate::calendar::{Date, Day, Hour, Weekday};
use crate::reservoir::{Kept, Reservoir, ShapeId};

/// The shortest silence that may be a gap, in hours.
const GAP_HOURS: usize = 3;
/// Queries that would have come in it.
const GAP_QUERIES: f64 = 30.0;

/// What was known when a day began.
#[derive(Clone, Debug)]
pub struct Past<'r> {
    reservoir: &'r Reservoir,
    until: Date,
    known: BTreeMap<(Date, u8), Known<'r>>,
    gaps: Vec<Gap>,
    shapes: BTreeMap<ShapeId, Life>,
}

/// An hour of which it is known what came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known<'r> {
    /// On which day.
    pub date: Date,
    /// Which.
    pub hour: Hour,
    /// Queries that came.
    pub count: u64,
    pub(crate) kept: &'r [Kept],
}

/// A stretch of which it is not known what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it begins.
    pub from: Time,
    /// How long it is.
    pub length: Span,
}

/// When queries of a shape came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) first: Date,
    pub(crate) last: Date,
    /// Days on which any came.
    pub(crate) days: u32,
    /// Queries that are kept.
    pub(crate) queries: u64,
}

impl Known<'_> {
    /// Queries in an hour of sixty minutes.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.hour.hours().max(0.25)
    }
}

impl<'r> Past<'r> {
    /// What the reservoir has of the days before `until`, without those that are left out.
    pub fn of(reservoir: &'r Reservoir, until: Date, left_out: &BTreeSet<Date>) -> Past<'r> {
        let mut past = Past { reservoir, until, known: BTreeMap::new(), gaps: Vec::new(), shapes: BTreeMap::new() };
        let Some((first, last)) = reservoir.dates() else { return past };
        let days = (0..=last.since(first)).map(|number| first.plus(number)).take_while(|date| *date < until);
        for date in days {
            let day = reservoir.zone().day(date);
            for hour in day.hours {
                let bin = reservoir.bins.get(&(date, hour.hour));
                let (count, kept) = bin.map_or((0, &[][..]), |bin| (bin.count, &bin.kept[..]));
                past.known.insert((date, hour.hour), Known { date, hour, count, kept });
            }
        }
        past.forget_what_was_not_covered();
        past.known.retain(|(date, _), _| !left_out.contains(date));
        past.forget_gaps();
        past.follow_shapes();
        past
    }

    /// The day that it is the past of: nothing of it or of later days is known.
    pub fn until(&self) -> Date {
        self.until
    }

    /// What its shapes are.
    pub fn reservoir(&self) -> &'r Reservoir {
        self.reservoir
    }

    /// Every hour that is known, in order.
    pub fn hours(&self) -> impl DoubleEndedIterator<Item = &Known<'r>> {
        self.known.values()
    }

    /// That hour of such days, if it is known, the newest first.
    pub fn like(&self, weekday: Weekday, hour: u8) -> impl Iterator<Item = &Known<'r>> {
        let oldest = self.known.first_key_value().map_or(self.until, |(key, _)| key.0);
        // The last such day before the one that is forecast.
        let back = (self.until.weekday().index() + 6 - weekday.index()) as i32 % 7 + 1;
        let weeks = (self.until.since(oldest) - back).div_euclid(7);
        let dates = (0..=weeks).map(move |weeks| self.until.plus(-back - 7 * weeks));
        dates.filter_map(move |date| self.known.get(&(date, hour)))
    }

    /// An hour of a date, if it is known.
    pub fn at(&self, date: Date, hour: u8) -> Option<&Known<'r>> {
        self.known.get(&(date, hour))
    }

    /// Stretches of which it is not known what came, in order.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Days of which every hour is known, and days of which any is.
    pub fn days(&self) -> (u32, u32) {
        let mut hours: BTreeMap<Date, usize> = BTreeMap::new();
        for known in self.known.values() {
            *hours.entry(known.date).or_default() += 1;
        }
        let whole = hours.iter().filter(|(date, hours)| **hours == self.reservoir.zone().day(**date).hours.len());
        (whole.count() as u32, hours.len() as u32)
    }

    /// Shapes that came, and when.
    pub(crate) fn shapes(&self) -> &BTreeMap<ShapeId, Life> {
        &self.shapes
    }

    /// Half of an hour that is known is enough; if no hour is, every hour in which anything came.
    fn forget_what_was_not_covered(&mut self) {
        let (Some(first), Some(last)) = (self.reservoir.first, self.reservoir.last) else { return };
        let covered = |known: &Known<'_>| {
            let from = known.hour.starts.max(first);
            let to = known.hour.ends().min(last);
            to.since(from).times(2) >= known.hour.length
        };
        if self.known.values().any(covered) {
            self.known.retain(|_, known| covered(known));
        } else {
            self.known.retain(|_, known| known.count > 0);
        }
    }

    fn forget_gaps(&mut self) {
        let mut silent: Vec<Vec<(Date, u8)>> = Vec::new();
        let mut before: Option<&Known<'_>> = None;
        for (key, known) in &self.known {
            if known.count == 0 {
                let goes_on = before.is_some_and(|before| before.count == 0 && before.hour.ends() == known.hour.starts);
                match silent.last_mut().filter(|_| goes_on) {
                    Some(stretch) => stretch.push(*key),
                    None => silent.push(vec![*key]),
                }
            }
            before = Some(known);
        }
        silent.retain(|stretch| stretch.len() >= GAP_HOURS);
        let gaps: Vec<_> = silent.into_iter().filter(|stretch| self.usual(stretch) >= GAP_QUERIES).collect();
        for stretch in gaps {
            let hours: Vec<Known<'_>> = stretch.iter().filter_map(|key| self.known.remove(key)).collect();
            if let (Some(first), Some(last)) = (hours.first(), hours.last()) {
                self.gaps.push(Gap { from: first.hour.starts, length: last.hour.ends().since(first.hour.starts) });
            }
        }
    }

    /// Queries that such hours bring in the median of the other weeks.
    fn usual(&self, stretch: &[(Date, u8)]) -> f64 {
        let in_it: BTreeSet<_> = stretch.iter().collect();
        let median = |(date, hour): &(Date, u8)| {
            let others =
                self.like(date.weekday(), *hour).filter(|known| !in_it.contains(&(known.date, known.hour.hour)));
            let mut counts: Vec<u64> = others.map(|known| known.count).collect();
            counts.sort_unstable();
            // The lower one of two: silence in half of the weeks is usual.
            counts.get(counts.len().saturating_sub(1) / 2).map_or(0.0, |count| *count as f64)
        };
        stretch.iter().map(median).sum()
    }

    fn follow_shapes(&mut self) {
        for known in self.known.values() {
            for kept in known.kept.iter().filter(|kept| kept.shape != ShapeId::UNNAMED) {
                let date = known.date;
                let life =
                    self.shapes.entry(kept.shape).or_insert(Life { first: date, last: date, days: 1, queries: 0 });
                life.days += u32::from(life.last != date);
                life.last = date;
                life.queries += 1;
            }
        }
    }
}

/// The day, of that reservoir's zone.
pub(crate) fn day(reservoir: &Reservoir, date: Date) -> Day {
    reservoir.zone().day(date)
}

#[cfg(test)]
mod tests {
    use punctual_core::fingerprint::Fingerprint;

    use super::*;
    use crate::calendar::Zone;
    use crate::reservoir::{Limits, Seen};

    fn date(text: &str) -> Date {
        Date::parse(text).expect("a date")
    }

    /// Twenty queries in each hour from 8 to 17 on working days, for so many weeks from Monday, 2 November; those for which
    /// `skip` is true are not recorded.
    fn weeks(number: i32, skip: impl Fn(&str, u8) -> bool) -> Reservoir {
        let mut reservoir = Reservoir::new(Zone::UTC, Limits::default(), 1);
        let mut adding = reservoir.adding("h", Time::from_micros(u64::MAX / 2));
        for date in (0..7 * number).map(|day| date("2026-11-02").plus(day)) {
            for hour in Zone::UTC.day(date).hours {
                let night = Span::from_secs(if hour.hour == 0 { 0 } else { 3_599 });
                let works = (8..18).contains(&hour.hour) && !date.weekday().is_weekend();
                let queries = if works { 20 } else { u64::from(hour.hour == 0 || hour.hour == 23) };
                for query in (0..queries).filter(|_| !skip(&date.to_string(), hour.hour)) {
                    let at = hour.starts + if works { Span::from_secs(query * 180) } else { night };
                    let fingerprint = Fingerprint(u64::from(hour.hour));
                    let (class, slo, text, features) = (None, None, None, Vec::new());
                    adding.take(Seen { at, ended: at, fingerprint, class, slo, text, features });
                }
            }
        }
        adding.done();
        reservoir
    }

    #[test]
    fn hours_of_the_same_weekday_come_the_newest_first() {
        let reservoir = weeks(3, |_, _| false);
        let past = Past::of(&reservoir, date("2026-11-20"), &BTreeSet::new());
        let dates = |weekday: &str| -> Vec<String> {
            let weekday = Weekday::named(weekday).expect("a day");
            past.like(weekday, 9).map(|known| known.date.to_string()).collect()
        };
        assert_eq!(dates("Friday"), ["2026-11-13", "2026-11-06"]);
        assert_eq!(dates("Thursday"), ["2026-11-19", "2026-11-12", "2026-11-05"]);
        assert_eq!(past.days(), (18, 18));
        assert!(past.hours().all(|known| known.date < date("2026-11-20")));
    }

    #[test]
    fn a_history_from_the_first_day_that_there_is_has_a_beginning() {
        let mut reservoir = Reservoir::new(Zone::UTC, Limits::default(), 1);
        let mut adding = reservoir.adding("h", Time::MAX);
        for second in 0..200 {
            let at = Time::ZERO + Span::from_secs(second * 600);
            let (class, slo, text, features) = (None, None, None, Vec::new());
            adding.take(Seen { at, ended: at, fingerprint: Fingerprint(1), class, slo, text, features });
        }
        adding.done();
        let past = Past::of(&reservoir, date("1970-01-10"), &BTreeSet::new());
        let days = |name: &str| past.like(Weekday::named(name).expect("a day"), 3).count();
        assert_eq!((days("Thursday"), days("Friday"), days("Saturday")), (1, 1, 0));
        let before = Past::of(&reservoir, date("1970-01-01"), &BTreeSet::new());
        assert_eq!(before.like(date("1970-01-01").weekday(), 3).count(), 0);
    }

    #[test]
    fn a_silent_weekend_is_known_and_a_silent_working_day_is_a_gap() {
        let reservoir = weeks(3, |date, hour| date == "2026-11-11" && hour > 9);
        let past = Past::of(&reservoir, date("2026-11-23"), &BTreeSet::new());
        let [gap] = past.gaps() else { panic!("{:?}", past.gaps()) };
        assert_eq!(
            (past.at(date("2026-11-11"), 9).map(|known| known.count), past.at(date("2026-11-11"), 12)),
            (Some(20), None)
        );
        assert_eq!(gap.length, Span::from_secs(14 * 3_600));
        assert_eq!(past.at(date("2026-11-14"), 12).map(|known| known.count), Some(0));
        assert_eq!(past.days(), (20, 21));
    }

    #[test]
    fn a_holiday_that_is_left_out_is_not_known() {
        let reservoir = weeks(2, |_, _| false);
        let past = Past::of(&reservoir, date("2026-11-16"), &BTreeSet::from([date("2026-11-04")]));
        let wednesdays: Vec<_> = past.like(date("2026-11-04").weekday(), 9).map(|known| known.date).collect();
        assert_eq!(wednesdays, [date("2026-11-11")]);
    }

    #[test]
    fn hours_before_the_first_query_and_after_the_last_are_not_known() {
        let reservoir =
            weeks(1, |date, hour| (date == "2026-11-02" && hour < 10) || (date == "2026-11-08" && hour == 23));
        let past = Past::of(&reservoir, date("2026-11-30"), &BTreeSet::new());
        let known: Vec<_> = past.hours().map(|known| (known.date, known.hour.hour)).collect();
        assert_eq!((known.first(), known.last()), (Some(&(date("2026-11-02"), 10)), Some(&(date("2026-11-07"), 23))));
    }

    #[test]
    fn of_a_history_within_one_hour_that_hour_is_known() {
        let reservoir = weeks(1, |date, hour| date != "2026-11-02" || hour != 9);
        let mut short = Reservoir::new(Zone::UTC, Limits::default(), 1);
        let mut adding = short.adding("h", Time::from_micros(u64::MAX / 2));
        let at = Zone::UTC.day(date("2026-11-02")).hours[9].starts + Span::from_secs(1_700);
        let (fingerprint, class, slo, text) = (Fingerprint(1), None, None, None);
        adding.take(Seen { at, ended: at, fingerprint, class, slo, text, features: Vec::new() });
        adding.done();
        for (reservoir, count) in [(reservoir, 20), (short, 1)] {
            let past = Past::of(&reservoir, date("2026-11-03"), &BTreeSet::new());
            let known: Vec<_> = past.hours().map(|known| (known.hour.hour, known.count)).collect();
            assert_eq!((known, past.days()), (vec![(9, count)], (0, 1)));
        }
        let empty = Reservoir::new(Zone::UTC, Limits::default(), 1);
        assert_eq!(Past::of(&empty, date("2026-11-03"), &BTreeSet::new()).hours().count(), 0);
    }
}
