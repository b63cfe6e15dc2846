//! What would become of a query that came now: the decision as it would be made, and nothing done.
//!
//! A copy of the dispatcher takes the query in, by the same way that every query takes, and is thrown away. So what is told is
//! what would happen, with whatever chance there is in it; and neither the router's memory, nor the model, nor any count
//! has noticed.

use super::{Decision, Dispatcher, Queued, WaitsFor};
use crate::event::{Command, Event, Refusal};
use crate::id::QueryId;
use crate::query::Query;
use crate::time::Time;

/// What would become of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// What would be said to it.
    pub verdict: Verdict,
    /// The names of the clusters that would be started because of it.
    pub starts: Vec<String>,
    /// Its priority.
    pub priority: i32,
    /// The name of its lane.
    pub lane: String,
}

/// What would be said to a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It would run at once, by this decision.
    Run(Box<Decision>),
    /// It would wait.
    Wait(Queued),
    /// It would not be run.
    Refuse(Refusal),
}

impl Dispatcher {
    /// What would become of a query that came at `now`. Its id and its session must be nobody else's. Nothing changes: it is
    /// for want of a cheaper copy that this takes the dispatcher for itself.
    pub fn consider(&mut self, now: Time, query: Query) -> Considered {
        let id = query.id;
        // The evidence of others is of no use to the copy, nor what came for studies; and both are much to copy.
        let kept = (std::mem::take(&mut self.decisions), std::mem::take(&mut self.scaler.window.arrivals));
        let mut copy = self.clone();
        (self.decisions, self.scaler.window.arrivals) = kept;
        copy.policy.decisions_kept = 1_000;
        let mut commands = Vec::new();
        let admission = copy.admission(&query);
        let (priority, lane) = (admission.priority, copy.policy.lanes.name(admission.lane).to_owned());
        copy.handle(now, Event::Arrived(query), &mut commands);
        let starts = commands.iter().filter_map(|command| match command {
            Command::Start { spec, .. } => Some(spec.name.clone()),
            _ => None,
        });
        let starts = starts.collect();
        let refused = commands.iter().find_map(|command| match command {
            Command::Refuse { query, because } if *query == id => Some(*because),
            _ => None,
        });
        let decision = copy.decisions.iter().rfind(|decision| decision.query == id);
        let verdict = match (decision, refused) {
            (Some(decision), _) => Verdict::Run(Box::new(decision.clone())),
            (None, Some(because)) => Verdict::Refuse(because),
            (None, None) => {
                let unknown = Queued { because: WaitsFor::Cluster, ahead: 0, expected: None };
                Verdict::Wait(copy.queued(id).unwrap_or(unknown))
            }
        };
        Considered { verdict, starts, priority, lane }
    }

    /// The decision about a query, if it is still kept.
    pub fn decision(&self, query: QueryId) -> Option<&Decision> {
        self.decisions.iter().rfind(|decision| decision.query == query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::claim::Claim;
    use crate::admit::lanes::OPEN;
    use crate::class::DEFAULT;
    use crate::dispatcher::predicting::tests::{Bench, plain};
    use crate::event::Full;
    use crate::fingerprint::Fingerprint;
    use crate::id::SessionId;
    use crate::policy::Policy;
    use crate::predict::features::FEATURES;
    use crate::query::Traits;
    use crate::route::Routing;
    use crate::statement::Kind;
    use crate::time::Span;

    fn query(number: u64) -> Query {
        let traits = Some(Box::new(Traits { text: number % 3, features: [0.0; FEATURES] }));
        let slo = Some(Span::from_secs(7));
        let (id, session, fingerprint) = (QueryId(number), SessionId(number), Fingerprint(number % 3));
        Query { id, session, fingerprint, kind: Kind::Select, class: DEFAULT, slo, claim: Claim::default(), traits }
    }

    fn considers(bench: &mut Bench, number: u64) -> Considered {
        let now = Time::from_micros((bench.now + 1) * 1_000_000);
        let before = bench.dispatcher.clone();
        let considered = bench.dispatcher.consider(now, query(number));
        assert_eq!(bench.dispatcher, before, "nothing has changed");
        considered
    }

    #[test]
    fn what_is_told_is_what_happens_then_under_every_policy() {
        // Under delayed off queries wait for idle clusters.
        for routing in Routing::ALL.into_iter().filter(|routing| *routing != Routing::DelayedOff) {
            let mut bench = Bench::with(Policy { routing, ..Policy::default() });
            bench.adopts(plain(40.0));
            for number in 1..=8 {
                // Twice: asking does not change the answer.
                let told = considers(&mut bench, number);
                assert_eq!(considers(&mut bench, number), told);
                bench.does(Event::Arrived(query(number)));
                let Verdict::Run(told) = told.verdict else { panic!("{told:?}") };
                assert_eq!(Some(&*told), bench.dispatcher.decisions.back(), "{routing}");
            }
            let told = considers(&mut bench, 9);
            let queued = Queued { because: WaitsFor::Cluster, ahead: 0, expected: None };
            let lane = "default".to_owned();
            assert_eq!(told, Considered { verdict: Verdict::Wait(queued), starts: Vec::new(), priority: 0, lane });
            bench.does(Event::Arrived(query(9)));
            assert_eq!(considers(&mut bench, 10).verdict, Verdict::Wait(Queued { ahead: 1, ..queued }));
        }
    }

    #[test]
    fn a_refusal_is_told_too_and_no_evidence_needs_to_be_kept() {
        let mut bench = Bench::with(Policy { max_waiting: 0, decisions_kept: 0, ..Policy::default() });
        for number in 1..=8 {
            let told = considers(&mut bench, number);
            assert!(matches!(told.verdict, Verdict::Run(_)), "{told:?}");
            bench.does(Event::Arrived(query(number)));
        }
        assert_eq!(
            considers(&mut bench, 9).verdict,
            Verdict::Refuse(Refusal::Full { of: Full::Gateway, lane: OPEN, limit: 0, wait: None })
        );
        let mut empty = Dispatcher::new(1, Policy::default());
        assert_eq!(empty.consider(Time::ZERO, query(1)).verdict, Verdict::Refuse(Refusal::NoCluster));
        bench.does(Event::ShutdownWanted { within: Span::from_secs(9) });
        assert_eq!(considers(&mut bench, 9).verdict, Verdict::Refuse(Refusal::ShuttingDown));
    }
}
