//! AutoSLO's Table 5 and Figure 6: days that are planned from the weeks before them, in a warehouse that the planner never sees.
//!
//! ```text
//!   weeks ──▶ history ──▶ forecast ──▶ plan in the planner's world ──▶ promise ┐
//!     └─────▶ the day itself ─────────▶ the warehouse, under the plan ─────────┴─▶ kept?
//! ```
//!
//! The planner's world is what the predictor has learnt: queries end when its predictions say, with their spread. The warehouse is
//! the simulated one ([`super`]); its days are others than those of the forecast. Two days that are planned are Mondays six weeks apart,
//! so that their last thirty days do not overlap. As in the paper, a day's instants are compressed six times where queries run, and
//! real where they are forecast.

pub mod days;
pub mod lived;
pub mod planned;
pub mod report;

use std::sync::Arc;

use punctual_core::policy::Policy;
use punctual_core::route::{Counting, Routing};
use punctual_core::scale::{Scaling, Studies, Trigger};
use punctual_core::time::Span;
use punctual_sim::world::warehouse::{Table, Template};

use super::lessons::Lessons;
use super::run::scaling;

/// τ: the share of queries that may miss their SLO.
pub const TARGET: f64 = 0.1;

/// The sizes that may be started.
pub const SIZES: [u32; 2] = [16, 32];

/// Instants of a day are divided by it where queries run.
pub const COMPRESS: f64 = 6.0;

/// Clusters that there may be.
const MOST: u32 = 10;

/// SLO over ℓ_baseline, loose and tight.
pub const KAPPAS: [f64; 2] = [4.0, 2.0];

/// What all scenarios have in common.
pub struct Ground<'a> {
    /// What the predictor has learnt, and ℓ_baseline.
    pub lessons: &'a Lessons,
    /// The warehouse.
    pub table: &'a Arc<Table>,
    /// When routing counts a query as late, before anything is tuned.
    pub counting: Counting,
    /// What studies of what to start go by in the planner's simulations.
    pub studies: Studies,
    /// Only a token of everything.
    pub token: bool,
}

/// The most queries of a workload in a token of everything.
const TOKEN: usize = 60;

impl Ground<'_> {
    /// The most queries of a day.
    pub fn queries(&self) -> usize {
        if self.token { TOKEN } else { usize::MAX }
    }

    /// The SLO of a template.
    pub fn slo(&self, template: Template, kappa: f64) -> Span {
        let baseline = self.lessons.baseline.get(template.index()).copied().unwrap_or_default();
        Span::from_secs_f64(kappa * baseline.secs_f64())
    }

    /// The rules: the paper's defaults, with this routing and trigger.
    pub fn policy(&self, routing: Routing, trigger: Trigger) -> Policy {
        let scaling = Scaling { late_share: TARGET, ..scaling(&SIZES, MOST, trigger) };
        Policy {
            routing,
            counting: self.counting,
            scaling,
            violation_target: TARGET,
            wait_limit: Span::from_secs(1 << 30),
            max_waiting: 1_000_000,
            start_limit: Span::from_secs(3_600),
            drain_limit: Span::from_secs(1 << 30),
            decisions_kept: 0,
            ..Policy::default()
        }
    }
}
