//! The last seven days, each as much as the others, whatever days of the week they were.

use super::plan::{HourPlan, alike, spacing};
use super::{BTreeSet, Day, Forecaster, Past, Weekday};

/// Seven days, equally weighted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SevenDays;

impl Forecaster for SevenDays {
    fn name(&self) -> &'static str {
        "seven_days"
    }

    fn plan<'p>(&self, past: &'p Past<'p>, day: &Day, like: Weekday) -> Vec<HourPlan<'p>> {
        let plan = |hour: u8| {
            let mut sources: Vec<_> =
                past.hours().rev().filter(|known| known.hour.hour == hour).take(7).map(|known| (known, 1.0)).collect();
            if sources.is_empty() {
                sources = alike(past, like, hour).into_iter().map(|(known, _)| (known, 1.0)).collect();
            }
            let levels = sources.iter().map(|(known, weight)| (known.rate(), *weight)).collect();
            HourPlan { levels, spacing: spacing(past, &sources, hour), sources, gone: BTreeSet::new() }
        };
        day.hours.iter().map(|hour| plan(hour.hour)).collect()
    }
}
