//! The predictor with parts taken away, beside estimates that learn nothing: one table.

use std::fmt;

use punctual_core::predict::model::Model;
use punctual_learn::accuracy::Accuracy;
use punctual_learn::contexts::Sight;
use punctual_learn::evaluation::{Expected, Rival, evaluate};
use punctual_learn::observation::Observation;
use punctual_learn::variant::Variant;
use serde::Serialize;

use super::{InSight, Quantiles};

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// What it is called.
    pub name: &'static str,
    /// Parameters of its network, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<usize>,
    /// All neighbours known.
    pub hindsight: Figures,
    /// Those that ran when the query arrived.
    pub at_arrival: Figures,
}

/// How far off it was in one sight.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// A distribution.
    Spread(InSight),
    /// A number for each query.
    Point {
        /// How many queries that finished.
        n: usize,
        /// How far off.
        q_error: Quantiles,
    },
}

/// What a variant said of the queries that were set aside, in one fold or several.
#[derive(Default)]
pub struct Said {
    expected: Vec<Expected>,
    parameters: usize,
}

impl Said {
    /// Adds what a model of the variant says of one fold.
    pub fn add(&mut self, model: &Model, observations: &[Observation], variant: &Variant) {
        self.expected.extend(evaluate(model, observations, variant));
        self.parameters = self.parameters.max(model.net().weights().len());
    }

    /// The variant's row.
    pub fn step(&self, variant: &Variant) -> Step {
        let of = |sight| Figures::Spread(Accuracy::of(self.finished(sight).map(|one| one.model)).into());
        let [hindsight, at_arrival] = SIGHTS.map(of);
        Step { name: variant.name, parameters: Some(self.parameters), hindsight, at_arrival }
    }

    /// The row of the whole product as it runs: corrected, at arrival, by what ended before.
    pub fn corrected(&self) -> Step {
        let of = |sight| Figures::Spread(Accuracy::of(self.finished(sight).map(|one| one.corrected)).into());
        let [hindsight, at_arrival] = SIGHTS.map(of);
        Step { name: "+ corrected as queries end", parameters: Some(self.parameters), hindsight, at_arrival }
    }

    /// The rows of those that it is compared with, over the same queries.
    pub fn rivals(&self) -> Vec<Step> {
        let row = |rival: Rival| {
            let [hindsight, at_arrival] = SIGHTS.map(|sight| {
                let accuracy = Accuracy::of(self.finished(sight).filter_map(|one| rival.of(one)));
                Figures::Point { n: accuracy.n, q_error: accuracy.into() }
            });
            Step { name: name(rival), parameters: None, hindsight, at_arrival }
        };
        Rival::ALL.map(row).into_iter().filter(|step| step.at_arrival.n() > 0).collect()
    }

    fn finished(&self, sight: Sight) -> impl Iterator<Item = &Expected> {
        self.expected.iter().filter(move |one| one.sight == sight && one.finished)
    }
}

const SIGHTS: [Sight; 2] = [Sight::Hindsight, Sight::AtArrival];

/// What a rival is called.
pub fn name(rival: Rival) -> &'static str {
    match rival {
        Rival::Sharing => "processor sharing",
        Rival::Stage => "Stage alone",
        Rival::ShapeMedian => "fingerprint median",
        Rival::SizedMedian => "fingerprint, size median",
        Rival::Published => "published",
    }
}

impl Figures {
    /// How many queries that finished.
    pub fn n(&self) -> usize {
        match self {
            Figures::Spread(one) => one.n,
            Figures::Point { n, .. } => *n,
        }
    }
}

/// What stands above the rows.
pub const HEADING: &str =
    "                                   in hindsight: Q-error     below       at arrival: Q-error     below
                                p50      p90      p95       p90       p50      p90      p95       p90";

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:<26}{}{}", self.name, self.hindsight, self.at_arrival)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Quantiles { p50, p90, p95 }, coverage) = match self {
            Figures::Spread(one) => (one.q_error, format!("{:.1} %", 100.0 * one.coverage_p90)),
            Figures::Point { q_error, .. } => (*q_error, String::new()),
        };
        write!(f, "{p50:>8.3} {p90:>8.3} {p95:>8.3} {coverage:>9} ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::expected;
    use super::*;

    #[test]
    fn rivals_are_judged_on_the_queries_that_finished_and_only_if_they_said_something() {
        let rows = [(2.0, 1.0, true), (1.0, 1.0, false)];
        let of = |sight| rows.map(|(median, truth, finished)| expected(sight, median, truth, finished));
        let said = Said { expected: SIGHTS.map(of).concat(), parameters: 7 };
        let rivals = said.rivals();
        let names: Vec<&str> = rivals.iter().map(|step| step.name).collect();
        assert_eq!(names, ["processor sharing", "Stage alone", "fingerprint median", "fingerprint, size median"]);
        let Figures::Point { n, q_error } = rivals[0].at_arrival else { panic!("a point") };
        assert!(n == 1 && (q_error.p90 - 4.0).abs() < 1e-9);
        assert_eq!(rivals[0].to_string().split_whitespace().nth(2), Some("4.000"));
    }
}
