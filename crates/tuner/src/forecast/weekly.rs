//! The default: the same hour of the same day of the week, the last weeks more than those before (AutoSLO, section 7.2).
//!
//! What came k weeks ago weighs λᵏ⁻¹. How many come is what came in one of those weeks, drawn by weight: so the mean is the
//! weighted mean, and a busy week stays a busy week in some of the workloads. Which come is drawn query by query, and the gaps
//! from weighted deciles.

use punctual_core::math;

use super::plan::{HourPlan, alike, spacing};
use super::{BTreeSet, Day, Forecaster, Past, Weekday};

/// The same weekday and hour, decayed by weeks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weekly {
    /// What a week weighs of the one after it: λ, from 0 to 1.
    pub decay: f64,
}

impl Default for Weekly {
    /// Half. (The paper's runs have a quarter.)
    fn default() -> Weekly {
        Weekly { decay: 0.5 }
    }
}

impl Forecaster for Weekly {
    fn name(&self) -> &'static str {
        "weekly"
    }

    fn plan<'p>(&self, past: &'p Past<'p>, day: &Day, like: Weekday) -> Vec<HourPlan<'p>> {
        let decay = self.decay.clamp(0.0, 1.0);
        let plan = |hour: u8| {
            let weigh = |(known, weeks)| (known, math::pow(decay, weeks));
            let sources: Vec<_> = alike(past, like, hour).into_iter().map(weigh).collect();
            let levels = sources.iter().map(|(known, weight)| (known.rate(), *weight)).collect();
            HourPlan { levels, spacing: spacing(past, &sources, hour), sources, gone: BTreeSet::new() }
        };
        day.hours.iter().map(|hour| plan(hour.hour)).collect()
    }
}
