//! What sharing alone would do: those that run get equal parts of the cluster, and nothing else happens.
//!
//! A query that would take w seconds alone needs w seconds of progress. Among n it progresses at the rate n^−α: α = 1
//! is processor sharing, smaller α stands for clusters whose queries leave room for each other. Nobody knows α
//! beforehand, so all of [`SHARING`] are followed at once and the network weighs them. What a plain fluid gets wrong by
//! itself is large (it knows neither caches nor memory), but it gets right what a network cannot learn from light
//! loads: how latencies grow with those that run.
//!
//! A query that has made all of its expected progress and still runs was underestimated: at least [`FLOOR`] of its
//! work is taken to be left at any time.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::math;

/// The exponents α that are followed.
pub const SHARING: [f64; 3] = [1.0, 0.7, 0.4];

/// The part of a query's work that is left at least, as long as it runs.
pub const FLOOR: f64 = 0.2;

/// Those that run on one cluster, in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fluid {
    flows: Vec<Flow>,
}

/// One running query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Flow {
    /// Seconds that it would take alone.
    work: f64,
    /// Seconds of progress made, for each α.
    done: [f64; SHARING.len()],
}

/// When each would end if no other arrived, in seconds from the moment asked for, and the work that is left.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// For each α, by index of the query.
    pub ends: [Vec<f64>; SHARING.len()],
    /// At α = 1, seconds alone, by index of the query.
    pub left: Vec<f64>,
    rest: Vec<f64>,
    order: Vec<u32>,
}

impl Fluid {
    /// How many run.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// True if nothing runs.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Lets `seconds` pass.
    pub fn advance(&mut self, seconds: f64) {
        let rates = self.rates();
        for flow in &mut self.flows {
            for (done, rate) in flow.done.iter_mut().zip(rates) {
                *done += seconds * rate;
            }
        }
    }

    /// Takes in one more, the youngest, which would take `work` seconds alone.
    pub fn enter(&mut self, work: f64) {
        self.flows.push(Flow { work, done: [0.0; SHARING.len()] });
    }

    /// Lets the one at `index` go.
    pub fn leave(&mut self, index: usize) {
        self.flows.remove(index);
    }

    /// The course of all that run, `after` seconds from now, and of one more of `newcomer` seconds alone if there is
    /// one: it has the last index. O(n log n).
    pub fn course(&self, after: f64, newcomer: Option<f64>, course: &mut Course) {
        let rates = self.rates();
        course.left.clear();
        for (a, rate) in rates.into_iter().enumerate() {
            course.rest.clear();
            for flow in &self.flows {
                course.rest.push((flow.work - (flow.done[a] + after * rate)).max(FLOOR * flow.work));
            }
            course.rest.extend(newcomer);
            if a == 0 {
                course.left.extend_from_slice(&course.rest);
            }
            settle(a, &course.rest, &mut course.order, &mut course.ends[a]);
        }
    }

    fn rates(&self) -> [f64; SHARING.len()] {
        std::array::from_fn(|a| 1.0 / power(self.flows.len(), a))
    }
}

/// Powers up to this are kept: more seldom run on one cluster.
const KEPT: usize = 256;

/// n^α for the α of this index, one for no query.
fn power(n: usize, a: usize) -> f64 {
    static POWERS: LazyLock<Vec<[f64; SHARING.len()]>> =
        LazyLock::new(|| (0..KEPT).map(|n| SHARING.map(|sharing| raised(n, sharing))).collect());
    POWERS.get(n).map_or_else(|| raised(n, SHARING[a]), |powers| powers[a])
}

fn raised(n: usize, sharing: f64) -> f64 {
    match n {
        0 | 1 => 1.0,
        _ if sharing == 1.0 => n as f64,
        _ => math::exp(sharing * math::ln(n as f64)),
    }
}

/// When each ends, at the α of this index: they leave in the order of the work that is left, and each that leaves makes the others faster.
fn settle(a: usize, rest: &[f64], order: &mut Vec<u32>, ends: &mut Vec<f64>) {
    order.clear();
    order.extend(0..rest.len() as u32);
    order.sort_by(|&a, &b| rest[a as usize].total_cmp(&rest[b as usize]));
    ends.clear();
    ends.resize(rest.len(), 0.0);
    let (mut time, mut level) = (0.0, 0.0);
    for (gone, &index) in order.iter().enumerate() {
        let left = rest[index as usize];
        // Equal ones leave together; the power is the costly part.
        if left > level {
            time += (left - level) * power(rest.len() - gone, a);
            level = left;
        }
        ends[index as usize] = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(fluid: &Fluid, after: f64, newcomer: Option<f64>) -> Course {
        let mut course = Course::default();
        fluid.course(after, newcomer, &mut course);
        course
    }

    #[test]
    fn one_alone_takes_its_own_time() {
        let mut fluid = Fluid::default();
        fluid.enter(10.0);
        fluid.advance(4.0);
        assert_eq!(course(&fluid, 0.0, None).ends, [vec![6.0], vec![6.0], vec![6.0]]);
        assert_eq!(course(&fluid, 1.0, None).ends[0], [5.0]);
    }

    #[test]
    fn equal_shares_end_as_processor_sharing_does() {
        let mut fluid = Fluid::default();
        fluid.enter(10.0);
        fluid.advance(4.0);
        // 6 and 2 are left: at half speed the newcomer ends at 4, the other after 4 more.
        let both = course(&fluid, 0.0, Some(2.0));
        assert_eq!(both.ends[0], [8.0, 4.0]);
        assert_eq!(both.left, [6.0, 2.0]);
        // Less sharing loss: sooner, and in the same order.
        assert!(both.ends[1][0] < 8.0 && both.ends[2][0] < both.ends[1][0]);
        assert!((both.ends[1][1] - 2.0 * math::pow(2.0, 0.7)).abs() < 1e-9);
    }

    #[test]
    fn what_runs_longer_than_expected_is_never_thought_to_be_done() {
        let mut fluid = Fluid::default();
        fluid.enter(10.0);
        fluid.advance(1_000.0);
        assert_eq!(course(&fluid, 5.0, None).ends[0], [2.0]);
    }

    #[test]
    fn those_that_leave_make_room_and_those_that_stay_keep_their_progress() {
        let mut fluid = Fluid::default();
        fluid.enter(4.0);
        fluid.enter(8.0);
        fluid.advance(2.0);
        fluid.leave(0);
        fluid.advance(3.0);
        assert_eq!((fluid.len(), course(&fluid, 0.0, None).ends[0].as_slice()), (1, [4.0].as_slice()));
        fluid.leave(0);
        assert!(fluid.is_empty() && course(&fluid, 9.0, None).ends[0].is_empty());
    }
}
