//! Where a query goes: a closed set of policies, one file each, one match.
//!
//! A policy sees the clusters that are ready and have room, in the order of their ids, and picks one. It returns why,
//! as data, so that a decision can be shown and replayed.

mod jsq;
mod least_outstanding;
mod p2c;
mod random;
mod round_robin;
mod slo;
mod trial;

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fleet::{Roll, Tokens};
use crate::id::{ClusterId, Units};
use crate::named::named;
use crate::rng::Rng;

pub use p2c::two_of;
pub use slo::{Counting, HARMED_NAMED, Weighed};
pub(crate) use trial::Trial;
pub use trial::{Alternative, Regret, Verdicts};

/// The routing policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Routing {
    /// The next in turn.
    RoundRobin,
    /// The fewest queries per unit of size.
    LeastOutstanding,
    /// The less loaded of two drawn at random.
    P2c,
    /// A random one of those with the fewest queries per unit of size.
    Jsq,
    /// Any, at random.
    Random,
    /// An idle one at random, else a busy one; clusters start and stop by the same tokens.
    Tabs,
    /// An idle one at random, else any.
    Jiq,
    /// An idle one at random, else none: it waits. Clusters start and stop by the same tokens.
    DelayedOff,
    /// The fewest SLO violations, then the least cost, as a model predicts them among those that run.
    Slo,
    /// The same with what queries take alone: blind to what runs.
    SloStage,
}

named! {
    Routing {
        RoundRobin = "round_robin",
        LeastOutstanding = "least_outstanding",
        P2c = "p2c",
        Jsq = "jsq",
        Random = "random",
        Tabs = "tabs",
        Jiq = "jiq",
        DelayedOff = "delayed_off",
        Slo = "slo",
        SloStage = "slo_stage"
    }
}

impl Routing {
    /// True if it goes by what a model predicts; without one it is as [`Routing::LeastOutstanding`].
    pub const fn predicts(self) -> bool {
        matches!(self, Routing::Slo | Routing::SloStage)
    }

    /// The scheme that it is, if it goes by tokens: by which clusters are idle, and nothing else.
    pub const fn tokens(self) -> Option<Tokens> {
        match self {
            Routing::Tabs => Some(Tokens::Tabs),
            Routing::Jiq => Some(Tokens::Jiq),
            Routing::DelayedOff => Some(Tokens::DelayedOff),
            _ => None,
        }
    }
}

/// A cluster that could take the query, with what policies look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its size.
    pub units: Units,
    /// Queries and pins that it holds.
    pub outstanding: u32,
    /// How many it may hold.
    pub slots: u32,
    /// True if its billing timer runs already.
    pub awake: bool,
    /// What placing the query there would do, where the policy asks and a model can tell.
    pub weighed: Option<Box<Weighed>>,
}

/// Why a cluster was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Its session holds it.
    Pinned,
    /// It is the only one with room.
    OnlyOne,
    /// It was next in turn.
    Turn,
    /// It had the fewest queries per unit.
    LeastOutstanding,
    /// It was drawn from all that had room.
    Drawn,
    /// It was drawn from those that were idle.
    Idle,
    /// None was idle: it was drawn from the busy ones.
    NoneIdle,
    /// It was the less loaded of these two.
    BetterOf(ClusterId, ClusterId),
    /// The fewest queries would miss their SLO.
    FewestViolations,
    /// As few would miss their SLO as anywhere, at the least cost.
    Cheapest,
    /// As few would miss their SLO as anywhere, at no more cost, and it would be done soonest.
    Soonest,
    /// Housekeeping goes to a cluster that is awake anyway, else to the least loaded.
    Housekeeping,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Pinned => write!(f, "its session holds this cluster"),
            Why::OnlyOne => write!(f, "the only cluster with room"),
            Why::Turn => write!(f, "next in turn"),
            Why::LeastOutstanding => write!(f, "fewest queries per unit"),
            Why::Drawn => write!(f, "drawn at random"),
            Why::Idle => write!(f, "it was idle"),
            Why::NoneIdle => write!(f, "none was idle, drawn from those with room"),
            Why::BetterOf(a, b) => write!(f, "less loaded of clusters {a} and {b}"),
            Why::FewestViolations => write!(f, "fewest SLO violations"),
            Why::Cheapest => write!(f, "no more SLO violations than elsewhere, least cost"),
            Why::Soonest => write!(f, "no more SLO violations and cost than elsewhere, done soonest"),
            Why::Housekeeping => write!(f, "housekeeping goes where a cluster is awake"),
        }
    }
}

/// What policies remember between decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Router {
    rng: Rng,
    last: Option<ClusterId>,
}

impl Router {
    /// A router that has not decided anything yet.
    pub fn new(rng: Rng) -> Router {
        Router { rng, last: None }
    }

    /// Picks among the candidates, which are in the order of their ids. None if there are none, or if it waits for another.
    /// Token policies go by the roll.
    pub fn choose(&mut self, routing: Routing, open: &[Candidate], roll: &Roll) -> Option<(ClusterId, Why)> {
        let chosen = match (open, routing.tokens()) {
            ([], _) => None,
            (open, Some(tokens)) => by_tokens(tokens, open, roll, &mut self.rng),
            ([one], None) => Some((one.cluster, Why::OnlyOne)),
            (open, None) => match routing {
                Routing::RoundRobin => round_robin::choose(open, self.last),
                Routing::LeastOutstanding => least_outstanding::choose(open),
                Routing::P2c => p2c::choose(open, &mut self.rng),
                Routing::Jsq => jsq::choose(open, &mut self.rng),
                Routing::Random => random::choose(open, &mut self.rng),
                Routing::Slo | Routing::SloStage => slo::choose(open),
                Routing::Tabs | Routing::Jiq | Routing::DelayedOff => None,
            },
        };
        self.last = chosen.map(|(cluster, _)| cluster).or(self.last);
        chosen
    }

    /// The place on the roll for which a cluster starts because a query has found none idle, if one does.
    pub(crate) fn start(&mut self, tokens: Tokens, roll: &Roll, short: bool) -> Option<u32> {
        roll.start(tokens, short, &mut self.rng)
    }

    /// Picks for a control query: an awake cluster if there is one, the least loaded of those. Policies that remember
    /// do not notice.
    pub fn choose_control(open: &[Candidate]) -> Option<(ClusterId, Why)> {
        let awake: Vec<Candidate> = open.iter().filter(|candidate| candidate.awake).cloned().collect();
        let (cluster, _) = least_outstanding::choose(if awake.is_empty() { open } else { &awake })?;
        Some((cluster, Why::Housekeeping))
    }
}

fn by_tokens(tokens: Tokens, open: &[Candidate], roll: &Roll, rng: &mut Rng) -> Option<(ClusterId, Why)> {
    let may = |cluster| open.binary_search_by_key(&cluster, |candidate| candidate.cluster).is_ok();
    let (cluster, idle) = roll.find(tokens, may, rng)?;
    Some((cluster, if idle { Why::Idle } else { Why::NoneIdle }))
}

impl Candidate {
    /// Orders by load for its size, exactly: a/x < b/y where a·y < b·x.
    fn load(&self, other: &Candidate) -> Ordering {
        let load = |a: &Candidate, b: &Candidate| u64::from(a.outstanding) * u64::from(b.units.0.max(1));
        load(self, other).cmp(&load(other, self))
    }

    /// The same, where ties go to the lower id.
    fn less_loaded(&self, other: &Candidate) -> bool {
        self.load(other).then(self.cluster.cmp(&other.cluster)).is_lt()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fleet::State;
    use crate::rng::Stream;

    /// Candidates 0, 1, … with the given (units, outstanding).
    pub(crate) fn open(loads: &[(u32, u32)]) -> Vec<Candidate> {
        let candidate = |(id, &(units, outstanding)): (usize, &(u32, u32))| Candidate {
            cluster: ClusterId(id as u32),
            units: Units(units),
            outstanding,
            slots: 8,
            awake: id == 2,
            weighed: None,
        };
        loads.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn names_read_back() {
        for routing in Routing::ALL {
            assert_eq!(Routing::named(routing.name()), Some(routing));
        }
        assert_eq!(Routing::named("fastest"), None);
    }

    #[test]
    fn one_candidate_is_chosen_and_none_is_not() {
        let mut router = Router::new(Rng::stream(1, Stream::Routing));
        let mut roll = Roll::default();
        roll.call(1, [(ClusterId(0), State::Busy)].into_iter());
        for routing in Routing::ALL {
            assert_eq!(router.choose(routing, &[], &roll), None);
            let expected = match routing {
                Routing::DelayedOff => None,
                Routing::Tabs | Routing::Jiq => Some((ClusterId(0), Why::NoneIdle)),
                _ => Some((ClusterId(0), Why::OnlyOne)),
            };
            assert_eq!(router.choose(routing, &open(&[(1, 7)]), &roll), expected);
        }
    }

    #[test]
    fn housekeeping_prefers_a_cluster_that_is_awake() {
        let pick = |loads: &[(u32, u32)]| Router::choose_control(&open(loads)).map(|(cluster, _)| cluster.0);
        assert_eq!(pick(&[(1, 0), (1, 0), (1, 5)]), Some(2));
        assert_eq!(pick(&[(1, 3), (1, 1)]), Some(1));
    }
}
