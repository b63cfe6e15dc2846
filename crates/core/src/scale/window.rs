//! What came and what ended lately: what triggers look at, and what a study lets come again.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::query::Query;
use crate::time::{Span, Time};

/// The most arrivals kept: of a faster stream, the window reaches less far back.
pub const ARRIVALS: usize = 2_048;

/// The most ends kept.
const ENDS: usize = 4_096;

/// What came and what ended within the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    pub(crate) arrivals: VecDeque<(Time, Query)>,
    /// How far back arrivals are complete: none that came since this was left out.
    complete_since: Time,
    ends: VecDeque<End>,
}

/// A query with an SLO that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    at: Time,
    arrived: Time,
    late: bool,
}

impl Window {
    /// A query came.
    pub fn arrived(&mut self, now: Time, query: &Query) {
        if self.arrivals.len() >= ARRIVALS
            && let Some((at, _)) = self.arrivals.pop_front()
        {
            self.complete_since = at;
        }
        self.arrivals.push_back((now, query.clone()));
    }

    /// A query with an SLO ended that had arrived then.
    pub fn ended(&mut self, now: Time, arrived: Time, late: bool) {
        if self.ends.len() >= ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back(End { at: now, arrived, late });
    }

    /// Forgets arrivals that are older than `arrivals`, and ends that are older than `ends`.
    pub fn prune(&mut self, now: Time, arrivals: Span, ends: Span) {
        while self.arrivals.front().is_some_and(|(at, _)| *at + arrivals < now) {
            self.arrivals.pop_front();
        }
        while self.ends.front().is_some_and(|end| end.at + ends < now) {
            self.ends.pop_front();
        }
    }

    /// Late ones and all of those that ended, of those that arrived since then.
    pub fn observed(&self, since: Time) -> (u32, u32) {
        let counted = self.ends.iter().filter(|end| end.arrived >= since);
        counted.fold((0, 0), |(late, all), end| (late + u32::from(end.late), all + 1))
    }

    /// What came within the window, oldest first, and how long the window is that it fills: `width`, unless the gateway
    /// is younger or more came than is kept.
    pub fn arrivals(&self, now: Time, width: Span, began: Time) -> (Vec<(Time, Query)>, Span) {
        let since = began.max(self.complete_since);
        let filled = width.min(now.since(since)).max(Span::from_secs(1));
        (self.arrivals.iter().cloned().collect(), filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::claim::Claim;
    use crate::class::DEFAULT;
    use crate::fingerprint::Fingerprint;
    use crate::id::{QueryId, SessionId};
    use crate::statement::Kind;

    fn at(secs: u64) -> Time {
        Time::from_micros(secs * 1_000_000)
    }

    fn query(number: u64) -> Query {
        let (id, session, fingerprint) = (QueryId(number), SessionId(number), Fingerprint(1));
        Query {
            id,
            session,
            fingerprint,
            kind: Kind::Select,
            class: DEFAULT,
            slo: None,
            claim: Claim::default(),
            traits: None,
        }
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut window = Window::default();
        (0..10).for_each(|number| window.arrived(at(number), &query(number)));
        (0..10).for_each(|number| window.ended(at(number), at(number), number % 2 == 0));
        window.prune(at(12), Span::from_secs(6), Span::from_secs(5));
        let (arrivals, filled) = window.arrivals(at(12), Span::from_secs(6), at(0));
        assert_eq!((arrivals.len(), arrivals[0].0, filled), (4, at(6), Span::from_secs(6)));
        assert_eq!((window.observed(at(0)), window.observed(at(9))), ((1, 3), (0, 1)));
    }

    #[test]
    fn a_fast_stream_fills_a_shorter_window() {
        let mut window = Window::default();
        let more = ARRIVALS as u64 + 100;
        (0..more).for_each(|number| window.arrived(at(number), &query(number)));
        let (arrivals, filled) = window.arrivals(at(more), Span::from_secs(1 << 20), at(0));
        assert_eq!((arrivals.len(), filled), (ARRIVALS, Span::from_secs(more - 99)));
        (0..2 * ENDS as u64).for_each(|number| window.ended(at(number), at(number), true));
        assert_eq!(window.observed(at(0)), (ENDS as u32, ENDS as u32));
    }
}
