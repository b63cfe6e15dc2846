//! The settings of the paper's Tables 2, 3 and 4: eight scenarios each, and the policies that are compared in them.

use std::sync::Arc;

use punctual_core::route::{Counting, Routing};
use punctual_core::scale::{Scaling, Selector, Trigger};
use punctual_core::time::Span;
use punctual_sim::world::warehouse::{Table, Template};

use super::lessons::Lessons;
use super::run::{Setting, list, scaling};

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study {
    /// Table 2: how queries are routed.
    Router,
    /// Table 3: what is started, once.
    SpinupSize,
    /// Table 4: what triggers a start.
    Trigger,
}

/// One scenario: what comes, how tight its SLOs are, and the clusters to begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Arrivals a second.
    pub lambda: f64,
    /// SLO over ℓ_baseline.
    pub kappa: f64,
    /// Sizes.
    pub clusters: &'static [u32],
}

impl Study {
    /// The name in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Study::Router => "router",
            Study::SpinupSize => "spinup-size",
            Study::Trigger => "trigger",
        }
    }

    /// What is compared; the first is what the others are held against.
    pub const fn policies(self) -> &'static [&'static str] {
        match self {
            Study::Router => &["round_robin", "slo_stage", "slo"],
            Study::SpinupSize => &["none", "horizontal", "vertical", "add_cluster"],
            Study::Trigger => &["none", "queue_depth", "observed", "combined"],
        }
    }

    /// What the paper says of them: violation rate and cost against the first, as fractions, in the mean over scenarios.
    pub fn published(self, policy: &str) -> Option<(f64, Option<f64>)> {
        Some(match (self, policy) {
            (Study::Router, "slo_stage") => (-0.243, Some(-0.193)),
            (Study::Router, "slo") => (-0.478, Some(-0.129)),
            (Study::SpinupSize, "horizontal") => (-0.427, None),
            (Study::SpinupSize, "vertical") => (-0.836, None),
            (Study::SpinupSize, "add_cluster") => (-0.937, Some(0.118)),
            (Study::Trigger, "queue_depth") => (-0.410, Some(0.351)),
            (Study::Trigger, "observed") => (-0.376, Some(0.433)),
            (Study::Trigger, "combined") => (-0.546, Some(0.641)),
            _ => return None,
        })
    }

    /// Its eight scenarios.
    pub fn scenarios(self) -> Vec<Scenario> {
        let clusters: [&'static [u32]; 2] = match self {
            Study::Router => [&[16, 16], &[32, 16]],
            Study::SpinupSize | Study::Trigger => [&[8], &[16]],
        };
        let mut all = Vec::new();
        for lambda in [0.1, 0.2] {
            for kappa in [4.0, 2.0] {
                all.extend(clusters.map(|clusters| Scenario { lambda, kappa, clusters }));
            }
        }
        all
    }

    /// What is run for a policy in a scenario.
    pub fn setting(
        self,
        policy: &str,
        scenario: Scenario,
        counting: Counting,
        (lessons, table, seed): (&Lessons, &Arc<Table>, u64),
    ) -> Setting {
        let slo = |template: Template| {
            let baseline = lessons.baseline.get(template.index()).copied().unwrap_or_default();
            Some(Span::from_secs_f64(scenario.kappa * baseline.secs_f64()))
        };
        let mut arrivals = list(seed, scenario.lambda, lessons.extent.times(), slo);
        arrivals.truncate(lessons.extent.queries());
        let (fifth, whole) = (arrivals.len() / 5, arrivals.len());
        let usual = Setting {
            arrivals,
            clusters: scenario.clusters.to_vec(),
            routing: Routing::Slo,
            counting,
            model: Some(Arc::clone(&lessons.model)),
            table: Arc::clone(table),
            seed,
            ..Setting::default()
        };
        match self {
            Study::Router => Setting { routing: Routing::named(policy).unwrap_or(Routing::RoundRobin), ..usual },
            Study::SpinupSize => Setting {
                scaling: Scaling {
                    selector: Selector::named(policy).unwrap_or(Selector::None),
                    // Once, when it is asked for; and nothing that is idle goes.
                    idle: Span::from_secs(1 << 30),
                    ..scaling(&[4, 8, 16, 32], 10, Trigger::None)
                },
                asked_at: Some(fifth),
                counted_from: whole - fifth,
                ..usual
            },
            Study::Trigger => {
                let trigger = Trigger::named(policy).unwrap_or(Trigger::None);
                Setting { scaling: scaling(&[4, 8, 16, 32], 5, trigger), ..usual }
            }
        }
    }
}
