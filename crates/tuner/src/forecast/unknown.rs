//! What history cannot say about a day, and how a forecast puts up with it.

use std::collections::BTreeSet;
use std::fmt;

use punctual_core::time::Span;
use serde::Serialize;

use super::levelled;
use crate::calendar::{Date, Day, Weekday};
use crate::past::Past;
use crate::reservoir::ShapeId;

/// Something that history cannot say.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "unknown", rename_all = "snake_case")]
pub enum Unknown {
    /// There is none before the day.
    Everything,
    /// Hours of the day that were never seen, on any day.
    Hours {
        /// Which.
        hours: Vec<u8>,
    },
    /// It is shorter than a week.
    Week {
        /// Days of which any hour is known.
        days: u32,
    },
    /// No such day of the week is known.
    Weekday {
        /// Which.
        weekday: &'static str,
    },
    /// A single such day of the week is known.
    Variation {
        /// Which.
        weekday: &'static str,
    },
    /// It ended before the day did that comes before the one that is forecast.
    Lately {
        /// Days without any history before it.
        days: u32,
    },
    /// A stretch in which nothing was recorded.
    Gap {
        /// On which day it begins.
        date: Date,
        /// How long it is, in hours.
        hours: f64,
    },
    /// A day that was far busier or far quieter than such days are.
    Unusual {
        /// Which.
        date: Date,
        /// How many times as busy as such days are in the median.
        times: f64,
    },
    /// Shapes come that have never come before: such as no forecast can name.
    NewShapes {
        /// The share of the last week's queries that were of shapes which came on none of the days before.
        share: f64,
    },
    /// Queries that are kept without a name.
    Unnamed {
        /// Their share.
        share: f64,
    },
    /// Hours of which a sample is kept: their bursts look smoother than they were.
    Sampled {
        /// How many.
        hours: u32,
    },
}

/// The share of queries from which new or unnamed shapes are worth a word.
const WORTH_A_WORD: f64 = 0.01;

/// What is not known about a day like that.
pub(super) fn of(past: &Past<'_>, day: &Day, like: Weekday) -> Vec<Unknown> {
    let Some(last) = past.hours().next_back() else { return vec![Unknown::Everything] };
    let mut unknown = Vec::new();
    let seen: BTreeSet<u8> = past.hours().map(|known| known.hour.hour).collect();
    let hours: Vec<u8> = day.hours.iter().map(|hour| hour.hour).filter(|hour| !seen.contains(hour)).collect();
    if !hours.is_empty() {
        unknown.push(Unknown::Hours { hours });
    }
    let dates: BTreeSet<Date> = past.hours().map(|known| known.date).collect();
    if dates.len() < 7 {
        unknown.push(Unknown::Week { days: dates.len() as u32 });
    }
    match dates.iter().filter(|date| date.weekday() == like).count() {
        0 => unknown.push(Unknown::Weekday { weekday: like.name() }),
        1 => unknown.push(Unknown::Variation { weekday: like.name() }),
        _ => {}
    }
    let days = past.until().since(last.date) - 1;
    if days > 0 {
        unknown.push(Unknown::Lately { days: days as u32 });
    }
    let zone = past.reservoir().zone();
    let gap = |gap: &crate::past::Gap| Unknown::Gap { date: zone.date_of(gap.from), hours: hours_of(gap.length) };
    unknown.extend(past.gaps().iter().map(gap));
    unknown.extend(levelled::unusual(past).into_iter().map(|(date, times)| Unknown::Unusual { date, times }));
    unknown.extend(of_shapes(past, &dates));
    unknown
}

fn hours_of(length: Span) -> f64 {
    length.secs_f64() / 3_600.0
}

fn of_shapes(past: &Past<'_>, dates: &BTreeSet<Date>) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    let kept = past.hours().flat_map(|known| known.kept.iter().map(|kept| (known.date, kept.shape)));
    let (mut all, mut unnamed, mut lately, mut new) = (0.0, 0.0, 0.0, 0.0);
    // As many days before as are looked at.
    let week = dates.iter().rev().nth(6).copied().filter(|_| dates.len() >= 14);
    for (date, shape) in kept {
        all += 1.0;
        if shape == ShapeId::UNNAMED {
            unnamed += 1.0;
        } else if week.is_some_and(|week| date >= week) {
            lately += 1.0;
            let first = past.shapes().get(&shape).map(|life| life.first);
            new += f64::from(u8::from(first.is_some_and(|first| Some(first) >= week)));
        }
    }
    if lately > 0.0 && new / lately >= WORTH_A_WORD {
        unknown.push(Unknown::NewShapes { share: new / lately });
    }
    if all > 0.0 && unnamed / all >= WORTH_A_WORD {
        unknown.push(Unknown::Unnamed { share: unnamed / all });
    }
    let sampled = past.hours().filter(|known| known.count > known.kept.len() as u64).count();
    if sampled > 0 {
        unknown.push(Unknown::Sampled { hours: sampled as u32 });
    }
    unknown
}

/// A sentence for people.
impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Everything => f.write_str("there is no history before that day: nothing is expected"),
            Unknown::Hours { hours } => {
                let hours: Vec<String> = hours.iter().map(u8::to_string).collect();
                write!(f, "hours that were never seen are taken for the ones beside them: {}", hours.join(", "))
            }
            Unknown::Week { days } => {
                let s = if *days == 1 { "" } else { "s" };
                write!(
                    f,
                    "{days} day{s} of history: what is different on other days of the week, and between weeks, is not known"
                )
            }
            Unknown::Weekday { weekday } => write!(f, "no {weekday} is known: it is taken for any day"),
            Unknown::Variation { weekday } => {
                write!(f, "one {weekday} is known: how much one differs from another is not")
            }
            Unknown::Lately { days } => {
                let s = if *days == 1 { "" } else { "s" };
                write!(f, "history ends {days} whole day{s} before it")
            }
            Unknown::Gap { date, hours } => {
                write!(
                    f,
                    "from {date} on nothing was recorded for {hours:.0} hours, though something must have come: not learnt from"
                )
            }
            Unknown::Unusual { date, times } => {
                write!(
                    f,
                    "{date} had {times:.2} times what such days have; --leave-out {date} if that will not come again"
                )
            }
            Unknown::NewShapes { share } => {
                write!(
                    f,
                    "{:.1} % of the last week's queries were of shapes that had never come before; such will come again, and are not in it",
                    100.0 * share
                )
            }
            Unknown::Unnamed { share } => {
                write!(
                    f,
                    "{:.1} % of the queries are of more shapes than are kept; they go by the names of others",
                    100.0 * share
                )
            }
            Unknown::Sampled { hours } => {
                write!(f, "of {hours} hours only a sample is kept: their bursts look smoother than they were")
            }
        }
    }
}
