//! A single day: the last one of which the hour is known, whatever day of the week it was.

use super::plan::{HourPlan, alike, spacing};
use super::{BTreeSet, Day, Forecaster, Past, Weekday};

/// The day before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneDay;

impl Forecaster for OneDay {
    fn name(&self) -> &'static str {
        "one_day"
    }

    fn plan<'p>(&self, past: &'p Past<'p>, day: &Day, like: Weekday) -> Vec<HourPlan<'p>> {
        let plan = |hour: u8| {
            let last = past.hours().rfind(|known| known.hour.hour == hour);
            let sources = match last {
                Some(known) => vec![(known, 1.0)],
                None => alike(past, like, hour).into_iter().map(|(known, _)| (known, 1.0)).collect(),
            };
            let levels = sources.iter().map(|(known, weight)| (known.rate(), *weight)).collect();
            HourPlan { levels, spacing: spacing(past, &sources, hour), sources, gone: BTreeSet::new() }
        };
        day.hours.iter().map(|hour| plan(hour.hour)).collect()
    }
}
