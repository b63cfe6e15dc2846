//! The notice that a session gets with each query if it wants to: where the query was placed, and why.
//!
//! It goes out before the query runs: who waits long for an answer knows where from.

use std::fmt::Write;
use std::sync::Arc;

use punctual_core::dispatcher::{Decision, Queued};
use punctual_core::id::QueryId;
use punctual_core::query::Predicted;
use punctual_core::time::Span;

use super::frames as say;
use super::problem::{Problem, rounded};
use super::session::Session;

impl Session {
    /// Tells the client that its query waits, if it does, and for what.
    pub(super) async fn tell_wait(&mut self, id: QueryId) {
        let fallback = Arc::clone(self.shared.fallback());
        let queued = tokio::select! {
            queued = self.link.queued(id) => queued.ok().flatten(),
            () = fallback.turned_on() => None,
        };
        if let Some(queued) = queued {
            self.say(say::Severity::Notice, &waits(id, queued));
        }
    }

    /// Tells the client where its query was placed.
    pub(super) async fn explain(&mut self, id: QueryId, cluster: &str) {
        let fallback = Arc::clone(self.shared.fallback());
        let decision = tokio::select! {
            decision = self.link.decided(id) => decision.ok().flatten(),
            () = fallback.turned_on() => None,
        };
        self.say(say::Severity::Notice, &placed(id, cluster, decision.as_deref()));
    }
}

fn waits(id: QueryId, Queued { because, ahead, expected }: Queued) -> Problem {
    let mut detail = match ahead {
        0 => "It is the next of its lane.".to_owned(),
        1 => "One of its lane comes before it.".to_owned(),
        several => format!("{several} of its lane come before it."),
    };
    if let Some(wait) = expected {
        let _ = write!(detail, " That takes about {}.", rounded(wait));
    }
    Problem::new(b"00000", format!("query {} waits: {because}", id.0))
        .detail(detail)
        .hint("SELECT * FROM punctual.queries shows where it stands.")
}

fn placed(id: QueryId, cluster: &str, decision: Option<&Decision>) -> Problem {
    let Some(decision) = decision else {
        // Bounced in the meantime, or `policy.decisions_kept` is small.
        return Problem::new(b"00000", format!("query {} runs on cluster {cluster}", id.0));
    };
    let mut detail = match decision.waited {
        Span::ZERO => "Placed at once".to_owned(),
        waited => format!("Placed after waiting {waited}"),
    };
    let _ = match decision.candidates.len() {
        0 => write!(detail, "."),
        1 => write!(detail, "; one cluster had room."),
        several => write!(detail, "; {several} clusters had room."),
    };
    if let Some(Predicted { p50, p90, isolated }) = decision.predicted {
        let _ = write!(detail, " Expected to take {p50}, {p90} at most nine times of ten; {isolated} alone.");
    }
    let chosen = decision.candidates.iter().find(|candidate| candidate.cluster == decision.cluster);
    if let Some(weighed) = chosen.and_then(|candidate| candidate.weighed.as_deref()) {
        let _ = write!(detail, " {:+.2} SLO violations, ${:.4} more.", weighed.violations, weighed.cost);
    }
    Problem::new(b"00000", format!("query {} runs on cluster {cluster}: {}", id.0, decision.why))
        .detail(detail)
        .hint(format!("punctual explain {} shows the evidence.", id.0))
}

#[cfg(test)]
mod tests {
    use punctual_core::class::DEFAULT;
    use punctual_core::dispatcher::WaitsFor;
    use punctual_core::id::{ClusterId, Units};
    use punctual_core::route::{Candidate, Weighed, Why};
    use punctual_core::time::Time;

    use super::*;

    #[test]
    fn a_wait_says_for_what_and_how_long() {
        let queued = Queued { because: WaitsFor::Lane, ahead: 3, expected: Some(Span::from_millis(11_200)) };
        let told = waits(QueryId(7), queued);
        assert_eq!(told.message, "query 7 waits: as many of its lane run as may");
        assert_eq!(told.detail.as_deref(), Some("3 of its lane come before it. That takes about 12s."));
        let next = waits(QueryId(7), Queued { because: WaitsFor::Cluster, ahead: 0, expected: None });
        assert_eq!(next.detail.as_deref(), Some("It is the next of its lane."));
    }

    #[test]
    fn a_notice_says_where_and_why_and_what_is_expected() {
        let predicted =
            Predicted { p50: Span::from_secs(2), p90: Span::from_secs(5), isolated: Span::from_millis(1_500) };
        let weighed = Weighed { predicted, violations: 0.0, own: 0.0, cost: 0.0125, harmed: Vec::new() };
        let candidate = |cluster| Candidate {
            cluster: ClusterId(cluster),
            units: Units(8),
            outstanding: 0,
            slots: 4,
            awake: true,
            weighed: Some(Box::new(weighed.clone())),
        };
        let decision = Decision {
            at: Time::ZERO,
            query: QueryId(7),
            class: DEFAULT,
            cluster: ClusterId(1),
            why: Why::Cheapest,
            waited: Span::from_secs(3),
            predicted: Some(predicted),
            candidates: vec![candidate(0), candidate(1)],
            instead: None,
        };
        let problem = placed(QueryId(7), "b", Some(&decision));
        assert_eq!(problem.message, "query 7 runs on cluster b: no more SLO violations than elsewhere, least cost");
        assert_eq!(
            problem.detail.as_deref(),
            Some(
                "Placed after waiting 3s; 2 clusters had room. Expected to take 2s, 5s at most nine times of ten; 1.5s alone. \
                 +0.00 SLO violations, $0.0125 more."
            )
        );
        assert_eq!(placed(QueryId(7), "b", None).message, "query 7 runs on cluster b");
    }
}
