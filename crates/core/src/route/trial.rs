//! A policy that is tried beside the one that routes: what it would have done, and how much better it thinks that is.
//!
//! ```text
//!   candidates ──▶ baseline ──────▶ the query runs there
//!        └───────▶ policy on trial ─▶ recorded: where it would have gone, and the regret of what was done
//! ```
//!
//! The *regret* of a decision is what it is expected to cost more, in violations and dollars, than the other one, both weighed
//! in the same instant by the same model. It is what the policy itself believes, one decision at a time: had it routed all
//! along, it would have met other queues. `punctual simulate` says what that comes to.

use serde::{Deserialize, Serialize};

use super::{Candidate, Router, Routing, Why};
use crate::fleet::Roll;
use crate::id::ClusterId;
use crate::rng::Rng;

/// What the policy on trial would have done with a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Where it would have sent it.
    pub cluster: ClusterId,
    /// Why there.
    pub why: Why,
    /// What was done against this; None where either was not weighed.
    pub regret: Option<Regret>,
}

/// What one decision is expected to cost more than another; negative: less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// Queries that miss their SLO.
    pub violations: f64,
    /// Dollars.
    pub cost: f64,
}

/// What became of a trial so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Decisions that it would have made.
    pub decisions: u64,
    /// Those that would have been others.
    pub elsewhere: u64,
    /// The sum of their regrets, as far as they were weighed.
    pub regret: Regret,
}

/// A policy on trial, with a memory and chance of its own, so that the one that routes never notices it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trial {
    router: Router,
    pub(crate) verdicts: Verdicts,
}

impl Trial {
    pub(crate) fn new(rng: Rng) -> Trial {
        Trial { router: Router::new(rng), verdicts: Verdicts::default() }
    }

    /// What the policy would have done where `chosen` was.
    pub(crate) fn consider(
        &mut self,
        routing: Routing,
        (open, roll): (&[Candidate], &Roll),
        chosen: ClusterId,
    ) -> Option<Alternative> {
        let (cluster, why) = self.router.choose(routing, open, roll)?;
        let regret = (cluster != chosen).then(|| regret(open, chosen, cluster)).flatten();
        let verdicts = &mut self.verdicts;
        verdicts.decisions += 1;
        verdicts.elsewhere += u64::from(cluster != chosen);
        if let Some(regret) = regret {
            verdicts.regret.violations += regret.violations;
            verdicts.regret.cost += regret.cost;
        }
        Some(Alternative { cluster, why, regret })
    }
}

fn regret(open: &[Candidate], chosen: ClusterId, other: ClusterId) -> Option<Regret> {
    let weighed = |id| open.iter().find(|candidate| candidate.cluster == id)?.weighed.as_deref();
    let (chosen, other) = (weighed(chosen)?, weighed(other)?);
    Some(Regret { violations: chosen.violations - other.violations, cost: chosen.cost - other.cost })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Predicted;
    use crate::rng::Stream;
    use crate::route::Weighed;
    use crate::route::tests::open;
    use crate::time::Span;

    fn weighed(violations: f64, cost: f64) -> Option<Box<Weighed>> {
        let predicted = Predicted { p50: Span::ZERO, p90: Span::ZERO, isolated: Span::ZERO };
        Some(Box::new(Weighed { predicted, violations, own: 0.0, cost, harmed: Vec::new() }))
    }

    #[test]
    fn regret_is_what_was_done_against_what_would_have_been() {
        let mut trial = Trial::new(Rng::stream(1, Stream::Trial));
        let roll = Roll::default();
        let mut open = open(&[(1, 0), (1, 0)]);
        (open[0].weighed, open[1].weighed) = (weighed(2.0, 0.25), weighed(0.5, 0.75));
        let other = trial.consider(Routing::Slo, (&open, &roll), ClusterId(0)).expect("a choice");
        assert_eq!((other.cluster, other.why), (ClusterId(1), Why::FewestViolations));
        assert_eq!(other.regret, Some(Regret { violations: 1.5, cost: -0.5 }));
        let same = trial.consider(Routing::Slo, (&open, &roll), ClusterId(1)).expect("a choice");
        assert_eq!((same.cluster, same.regret), (ClusterId(1), None));
        // Where nothing was weighed there is a difference, and nothing to regret.
        open.iter_mut().for_each(|candidate| candidate.weighed = None);
        let other = trial.consider(Routing::LeastOutstanding, (&open, &roll), ClusterId(1)).expect("a choice");
        assert_eq!((other.cluster, other.regret), (ClusterId(0), None));
        let sum = Regret { violations: 1.5, cost: -0.5 };
        assert_eq!(trial.verdicts, Verdicts { decisions: 3, elsewhere: 2, regret: sum });
    }
}
