//! The baseline: the same day of last week again, query by query.
//!
//! All its workloads are the same. If that day is not known, the one before it is, and so on.

use super::plan::{HourPlan, Spacing, alike};
use super::{BTreeSet, Day, Forecaster, Past, Weekday};

/// Last week again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeasonalNaive;

impl Forecaster for SeasonalNaive {
    fn name(&self) -> &'static str {
        "seasonal_naive"
    }

    fn plan<'p>(&self, past: &'p Past<'p>, day: &Day, like: Weekday) -> Vec<HourPlan<'p>> {
        let plan = |hour: u8| {
            let newest = alike(past, like, hour).into_iter().max_by_key(|(known, _)| known.date);
            let sources: Vec<_> = newest.into_iter().map(|(known, _)| (known, 1.0)).collect();
            let levels = sources.iter().map(|(known, weight)| (known.rate(), *weight)).collect();
            HourPlan { levels, sources, spacing: Spacing::Again, gone: BTreeSet::new() }
        };
        day.hours.iter().map(|hour| plan(hour.hour)).collect()
    }
}
