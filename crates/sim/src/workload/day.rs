//! A day by hour and template: how often each came in each hour, and when exactly is left to chance.
//!
//! Every count is met. Within an hour the queries come in a random order, at instants that are as a Poisson process
//! would have them, or in batches: gaps are drawn with the variation that is asked for and stretched so that they fill
//! the hour.

use std::fmt;

use punctual_core::rng::{Rng, Stream};
use punctual_core::time::{Span, Time};

use super::templates::{Asked, trace};
use super::{Arrival, Batched, Pattern};
use crate::world::warehouse::{Table, Template};

/// How often what came in which hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Day {
    /// Hour, from the start; what; how many.
    pub counts: Vec<(u32, Asked, u32)>,
    /// Deviation of the gaps over their mean. At one and below they are those of a Poisson process.
    pub cv: f64,
}

/// The length of an hour of it.
const HOUR: Span = Span::from_secs(3_600);
/// The mean gap inside a batch, as a share of the mean gap.
const WITHIN: f64 = 0.05;

/// Why a text is no day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The first line does not name the columns.
    Heading,
    /// A line, counted from one, has not a date, an hour below 24, a template from 1 to 99 and a count below a million.
    Line(usize),
    /// It has more than one date.
    Dates(String, String),
    /// It has none.
    Empty,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Heading => write!(f, "the first line must be {HEADING}"),
            Unread::Line(line) => {
                write!(
                    f,
                    "line {line} has not a date, an hour below 24, a template from 1 to 99 and a count below a million"
                )
            }
            Unread::Dates(first, other) => write!(f, "it is of one day, and has {first} and {other}"),
            Unread::Empty => f.write_str("it has no query"),
        }
    }
}

impl std::error::Error for Unread {}

/// The columns of a day as a text.
const HEADING: &str = "date,hour,tpcds_template,count";

impl Day {
    /// Reads a day as it is published: a line for each hour and template, `date,hour,tpcds_template,count` above them. With its date.
    ///
    /// # Errors
    /// If it is none, or more than one.
    pub fn read(text: &str, cv: f64, asked: impl Fn(Template) -> Asked) -> Result<(String, Day), Unread> {
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(heading, _)| heading.trim() != HEADING) {
            return Err(Unread::Heading);
        }
        let (mut date, mut counts) = (None::<String>, Vec::new());
        for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
            let (on, hour, template, count) = read_line(line).ok_or(Unread::Line(number))?;
            match &date {
                Some(date) if date != on => return Err(Unread::Dates(date.clone(), on.to_owned())),
                _ => date = Some(on.to_owned()),
            }
            counts.push((hour, asked(template), count));
        }
        let date = date.ok_or(Unread::Empty)?;
        Ok((date, Day { counts, cv }))
    }

    /// Its queries, in the order of time.
    pub fn generate(&self, seed: u64, table: &Table) -> impl Iterator<Item = Arrival> + use<> {
        let mut order = Rng::stream(seed, Stream::Mix);
        let mut list = Vec::new();
        let mut hours: Vec<u32> = self.counts.iter().map(|(hour, ..)| *hour).collect();
        hours.sort_unstable();
        hours.dedup();
        for hour in hours {
            let of_hour = self.counts.iter().filter(|count| count.0 == hour);
            let mut asked: Vec<Asked> =
                of_hour.flat_map(|(_, asked, count)| std::iter::repeat_n(*asked, *count as usize)).collect();
            for last in (1..asked.len()).rev() {
                asked.swap(last, order.index(last + 1));
            }
            let began = Time::ZERO + HOUR.times(hour.into());
            // Each hour has its own chance, so that a query more in one does not move those of the others.
            let offsets = self.offsets(seed ^ u64::from(hour) << 32, asked.len());
            list.extend(offsets.into_iter().map(|offset| began + offset).zip(asked));
        }
        trace(list, table)
    }

    /// So many instants in an hour, in order.
    fn offsets(&self, seed: u64, count: usize) -> Vec<Span> {
        let pattern = Pattern::Batched(Batched { rate: 1.0, cv: self.cv, within: Span::from_secs_f64(WITHIN) });
        let instants: Vec<Time> = pattern.instants(seed).take(count + 1).collect();
        let whole = instants.last().map_or(1.0, |last| last.since(Time::ZERO).secs_f64());
        let part = |at: &Time| Span::from_secs_f64(at.since(Time::ZERO).secs_f64() / whole * HOUR.secs_f64());
        instants.iter().take(count).map(part).collect()
    }
}

fn read_line(line: &str) -> Option<(&str, u32, Template, u32)> {
    let mut cells = line.split(',').map(str::trim);
    let [date, hour, template, count] = [cells.next()?, cells.next()?, cells.next()?, cells.next()?];
    let hour = hour.parse().ok().filter(|hour| *hour < 24)?;
    let count = count.parse().ok().filter(|count| *count < 1_000_000)?;
    let read = (date, hour, Template::new(template.parse().ok()?)?, count);
    (cells.next().is_none() && !date.is_empty()).then_some(read)
}

#[cfg(test)]
mod tests {
    use punctual_core::id::ClassId;

    use super::*;
    use crate::workload::Spread;

    fn asked(number: u32) -> Asked {
        Asked { template: Template::new(number).expect("a template"), class: ClassId(0), slo: None }
    }

    #[test]
    fn each_hour_has_what_was_counted_in_it() {
        let day = Day { counts: vec![(3, asked(1), 40), (0, asked(2), 5), (3, asked(9), 2)], cv: 3.5 };
        let arrivals: Vec<Arrival> = day.generate(5, Table::shipped()).collect();
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        let hour = |arrival: &Arrival| arrival.at.micros() / HOUR.micros();
        let count = |in_hour, number| {
            let same =
                |arrival: &&Arrival| hour(arrival) == in_hour && arrival.ask.template == Some(asked(number).template);
            arrivals.iter().filter(same).count()
        };
        assert_eq!((count(3, 1), count(0, 2), count(3, 9), arrivals.len()), (40, 5, 2, 47));
    }

    #[test]
    fn batches_have_the_variation_that_was_asked_for() {
        let spread = |cv| {
            let day = Day { counts: vec![(0, asked(1), 50_000)], cv };
            let instants: Vec<Time> = day.generate(5, Table::shipped()).map(|arrival| arrival.at).collect();
            Spread::of(&instants).expect("enough instants")
        };
        let (poisson, batched) = (spread(1.0), spread(3.5));
        assert!((poisson.mean_s / 0.072 - 1.0).abs() < 0.001 && (poisson.cv - 1.0).abs() < 0.03, "{poisson:?}");
        assert!((batched.cv / 3.5 - 1.0).abs() < 0.06 && batched.median_s < batched.mean_s / 15.0, "{batched:?}");
    }

    #[test]
    fn a_published_day_is_read_and_what_is_none_is_refused_with_its_line() {
        let as_asked = |template: Template| asked(template.number());
        let read = |text: &str| Day::read(&format!("date,hour,tpcds_template,count\n{text}"), 3.5, as_asked);
        let day = read("2024-05-27,0,009,4\n\n2024-05-27,13,99,2\n").expect("a day");
        assert_eq!(day, ("2024-05-27".into(), Day { counts: vec![(0, asked(9), 4), (13, asked(99), 2)], cv: 3.5 }));
        for line in ["d,24,1,1", "d,1,100,1", "d,1,1,-1", "d,1,1", "d,1,1,1,1", "d,1,1,1000000", ",1,1,1"] {
            assert_eq!(read(&format!("d,1,1,1\n{line}")), Err(Unread::Line(3)), "{line}");
        }
        assert_eq!(read("a,1,1,1\nb,1,1,1"), Err(Unread::Dates("a".into(), "b".into())));
        assert_eq!((read(""), Day::read("x", 1.0, as_asked)), (Err(Unread::Empty), Err(Unread::Heading)));
    }

    #[test]
    fn a_day_of_nothing_is_empty() {
        assert_eq!(Day::default().generate(1, Table::shipped()).count(), 0);
    }
}
