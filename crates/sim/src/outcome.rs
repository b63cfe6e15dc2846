//! What came of a run.

use std::collections::BTreeMap;

use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::math;
use punctual_core::policy::Policy;
use punctual_core::query::Ended;
use punctual_core::tally::Tally;
use punctual_core::time::{Span, Time};

use crate::run::Step;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By the name of the class.
    pub classes: BTreeMap<String, ClassOutcome>,
    /// Dollars.
    pub cost: f64,
    /// Events that the dispatcher handled.
    pub events: u64,
    /// Commands that it gave.
    pub commands: u64,
    /// A digest of all commands with their times: two runs that decided alike have the same.
    pub digest: Digest,
    /// When the last event happened.
    pub end: Time,
}

/// What came of the queries of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassOutcome {
    /// How they ended, and how many were late.
    pub tally: Tally,
    /// From arrival to the end, of those that finished; in ascending order.
    pub latencies: Vec<Span>,
}

impl Outcome {
    /// Of all classes together.
    pub fn total(&self) -> ClassOutcome {
        let mut total = ClassOutcome::default();
        for class in self.classes.values() {
            total.tally.add(&class.tally);
            total.latencies.extend(&class.latencies);
        }
        total.latencies.sort_unstable();
        total
    }
}

impl ClassOutcome {
    /// The latency that the share `q` of the finished queries does not exceed: exact, by nearest rank. None if none
    /// finished.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        math::nearest_ranks(&self.latencies, [q]).map(|[latency]| latency)
    }

    /// The mean latency of the finished queries; None if none finished.
    pub fn mean(&self) -> Option<Span> {
        let sum: u128 = self.latencies.iter().map(|latency| u128::from(latency.micros())).sum();
        let mean = sum.checked_div(self.latencies.len() as u128)?;
        Some(Span::from_micros(mean as u64))
    }
}

/// FNV-1a over the postcard form of what is put in, 64 bits: not a defence against anyone, but no two runs that differ
/// share one by accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes a command in, with its time.
    pub fn add(&mut self, now: Time, command: &Command) {
        // It cannot fail: a command is plain data, and a digest takes any number of bytes.
        if let Ok(digest) = postcard::to_extend(&(now, command), *self) {
            *self = digest;
        }
    }
}

impl Extend<u8> for Digest {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Gathers an [`Outcome`] step by step.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    outcome: Outcome,
    /// The policy that was in force before the last step adopted another: what it recorded has the old classes.
    before: Option<Policy>,
}

impl Tracker {
    /// Takes a step in.
    pub fn take(&mut self, step: &Step<'_>) {
        self.outcome.events += 1;
        self.outcome.commands += step.commands.len() as u64;
        self.outcome.end = step.now;
        let adopts = matches!(step.event, Event::PolicyAdopted(_));
        for command in step.commands {
            self.outcome.digest.add(step.now, command);
            if let Command::Record(ended) = command {
                let policy = self.before.as_ref().filter(|_| adopts).unwrap_or(step.dispatcher.policy());
                let name = policy.classes.get(ended.query.class.0 as usize).map_or("?", |class| &class.name);
                record(&mut self.outcome.classes, name, ended);
            }
        }
        if adopts || self.before.is_none() {
            self.before = Some(step.dispatcher.policy().clone());
        }
    }

    /// The outcome, the run having ended at `now`.
    pub fn outcome(mut self, dispatcher: &Dispatcher, now: Time) -> Outcome {
        self.outcome.cost = dispatcher.cost(now);
        self.outcome.classes.values_mut().for_each(|class| class.latencies.sort_unstable());
        self.outcome
    }
}

fn record(classes: &mut BTreeMap<String, ClassOutcome>, name: &str, ended: &Ended) {
    if !classes.contains_key(name) {
        classes.insert(name.to_owned(), ClassOutcome::default());
    }
    let Some(class) = classes.get_mut(name) else { return };
    class.tally.count(ended.status, ended.violated);
    if ended.status == punctual_core::query::Status::Finished {
        class.latencies.push(ended.latency());
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::id::{ClusterId, QueryId};

    use super::*;

    #[test]
    fn quantiles_are_latencies_that_occurred() {
        let latencies = (1..=10).map(Span::from_secs).collect();
        let class = ClassOutcome { tally: Tally::default(), latencies };
        let at = |q| class.quantile(q).map(Span::secs_f64);
        assert_eq!([at(0.0), at(0.5), at(0.9), at(0.91), at(1.0)], [1.0, 5.0, 9.0, 10.0, 10.0].map(Some));
        assert_eq!(class.mean(), Some(Span::from_millis(5_500)));
        assert_eq!((ClassOutcome::default().quantile(0.5), ClassOutcome::default().mean()), (None, None));
    }

    #[test]
    fn another_command_or_another_time_is_another_digest() {
        let digest = |at, cluster| {
            let mut digest = Digest::default();
            let command = Command::Run { query: QueryId(1), cluster: ClusterId(cluster) };
            digest.add(Time::from_micros(at), &command);
            digest
        };
        assert_eq!(digest(1, 1), digest(1, 1));
        assert_ne!(digest(1, 1), digest(2, 1));
        assert_ne!(digest(1, 1), digest(1, 2));
    }
}
