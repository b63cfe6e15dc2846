//! Queries whose ends are what predictions say, where nothing else is known of them: in studies, and in a world that is as the predictor has it.

use punctual_core::predict::distribution::Prediction;
use punctual_core::{Span, Time};

/// The longest that a query runs, in seconds: a week. What a model says of queries that it was not trained on has no bound, and nobody
/// waits for longer.
const LONGEST: f64 = 7.0 * 86_400.0;

/// When a query ends: when its chance of still running has fallen to what it drew.
///
/// The chance falls as its prediction says, and goes on from where it is when the prediction is another: what has been
/// survived has been survived. (An end at the same quantile of each new prediction would move away with every arrival.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    placed: Time,
    pub(crate) prediction: Prediction,
    /// The chance that it runs for longer than it had when that was expected of it, by that.
    tail: f64,
    /// The chance of still running at its end, given that it ran then.
    share: f64,
    pub(crate) end: Time,
}

impl Life {
    pub(crate) fn new(placed: Time, prediction: Prediction, since: Time, share: f64) -> Life {
        let tail = prediction.tail(since.since(placed).secs_f64());
        let takes = prediction.exceeded_by(tail * share).min(LONGEST);
        let end = since.max(placed + Span::from_secs_f64(takes));
        Life { placed, prediction, tail, share, end }
    }

    /// Something else is expected of it from now on.
    pub(crate) fn go_on(&mut self, now: Time, prediction: Prediction) {
        let survived = self.prediction.tail(now.since(self.placed).secs_f64()) / self.tail;
        // Far beyond what was thought possible nothing can be told: it is as likely to end as before.
        let share = if survived > 0.0 { (self.share / survived).min(1.0) } else { self.share };
        *self = Life::new(self.placed, prediction, now, share);
    }
}
