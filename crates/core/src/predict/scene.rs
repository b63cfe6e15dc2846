//! What a query meets on a cluster, as the rows of numbers that the network reads.
//!
//! A scene is one cluster with what runs on it. When a query arrives, each that runs there meets it (a row for the
//! *after* side of each), and it meets each of them (rows for its *before* side, oldest first, itself last: the pinch).
//! The same code makes these rows when a query is tried on a cluster, when it is placed there, when history is replayed
//! for training, and inside simulations.
//!
//! ```text
//!   before of c:  (c,a) (c,b) (c,c)          a ├──────────────────┤
//!   after of a:   (a,a) (a,b) (a,c)             b ├─────────┤
//!   after of b:   (b,b) (b,c)                      c ├────────▶ now
//! ```
//!
//! A row for target a and neighbour b is [`PAIR`] numbers (AutoSLO, section 4.2, without the features of the queries,
//! which the network adds). Beside the rows, each query has a head row of [`HEAD`] numbers: what it met when it
//! arrived, how this cluster went lately, and how the fluid estimate has moved since. The estimate itself, α in the
//! middle, is the base to which the network's answer is added. Logarithms are of seconds, small times count as a
//! millisecond.

use serde::{Deserialize, Serialize};

use super::fluid::{Course, Fluid};
use super::past::{Echo, Past};
use super::stage::Alone;
use crate::fingerprint::Fingerprint;
use crate::id::{QueryId, Units};
use crate::math;
use crate::time::Time;

/// Numbers in a row about a target and a neighbour.
pub const PAIR: usize = 12;

/// Numbers in a head row.
pub const HEAD: usize = MET + MOVED;

/// Of the head row, what was known when the query arrived.
const MET: usize = 27;
/// Of the head row, what has moved since.
const MOVED: usize = 8;

/// What a number of a row is about, so that it can be left out to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The query, its neighbours, and when they came.
    Queries,
    /// The size of the cluster.
    Size,
    /// The fluid estimate, and what stands beside it.
    Sharing,
    /// How this cluster went lately.
    Past,
}

use Topic::{Past as Lately, Queries, Sharing, Size};

/// What the numbers of a pair row are about, in their order.
pub const PAIR_TOPICS: [Topic; PAIR] =
    [Queries, Queries, Queries, Queries, Size, Sharing, Sharing, Sharing, Queries, Sharing, Queries, Sharing];

/// What the numbers of a head row are about, in their order: what the query met, and what has moved since.
#[rustfmt::skip]
pub const HEAD_TOPICS: [Topic; HEAD] = [
    Queries, Sharing, Sharing, Sharing, Size, Queries, Sharing, Queries, Sharing, Sharing, Lately, Lately, Lately,
    Queries, Queries, Queries, Lately, Lately, Lately, Lately, Lately, Lately, Lately, Lately, Lately, Queries, Queries,

    Sharing, Sharing, Sharing, Queries, Queries, Sharing, Sharing, Sharing,
];

/// The number of a head row that says how far the fluid estimate at the arrival lies above the isolated latency.
pub const FIRST_OVER_ALONE: usize = 2;
/// The number of a head row that says how far the estimate has risen since.
pub const MOVED_OVER_FIRST: usize = MET;

/// The most neighbours that an arriving query reads: those that arrived last. More of them say little more, and
/// training seldom sees as many.
pub const READ: usize = 128;

/// The most later arrivals that are steps of a query's after side; more move its head alone. Training seldom sees as
/// many, and a network that has read its thousandth says nothing about them.
pub const STEPS: usize = 256;

/// A query, as a scene needs it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Newcomer {
    /// Which.
    pub id: QueryId,
    /// Its shape.
    pub shape: Fingerprint,
    /// What stands for its text.
    pub text: u64,
    /// What it is expected to take alone on this cluster.
    pub alone: Alone,
}

/// One cluster and what runs on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scene {
    size: Units,
    now: Time,
    fluid: Fluid,
    past: Past,
    running: Vec<Running>,
}

/// A query that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// It.
    pub query: Newcomer,
    /// When it arrived on the cluster.
    pub arrived: Time,
    /// What it met: the first part of its head row.
    met: [f32; MET],
    /// ln of the fluid estimates of its latency, for each α, when it arrived.
    first: [f64; 3],
    /// What has come since.
    later: Later,
}

/// What a running query has seen arrive after it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Later {
    /// How many.
    count: u32,
    /// ln of the time from its own arrival to the last of them.
    elapsed: f64,
    /// ln of the fluid estimates of its latency as of that.
    fluid: [f64; 3],
}

/// What the network answers about: a head row, and the base of the answer, ln seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// The row.
    pub row: [f32; HEAD],
    /// The fluid estimate.
    pub base: f64,
    /// The estimate of processor sharing, α = 1, to compare with.
    pub shared: f64,
    /// When the last of those that came later came, ln seconds after the query's own start; it ran then. None: none came.
    pub since: Option<f64>,
}

/// What an arrival means to all concerned. Reused from one to the next.
#[derive(Clone, Debug, Default)]
pub struct Meeting {
    /// The newcomer's before side: a row for each that runs from index [`Meeting::read_from`] on, then the pinch.
    pub before: Vec<[f32; PAIR]>,
    /// The index of the running query that the first row is about.
    pub read_from: usize,
    /// A row for the after side of each that runs.
    pub after: Vec<[f32; PAIR]>,
    /// The heads of all that run, and last the newcomer's, with the newcomer there.
    pub heads: Vec<Head>,
    later: Vec<Later>,
    met: Option<([f32; MET], [f64; 3])>,
    course: Course,
    logs: Vec<Logs>,
    over: Vec<f64>,
}

/// Logarithms that several numbers of a running query are made of: taken once, they are a good part of what a meeting takes.
#[derive(Clone, Copy, Debug)]
struct Logs {
    /// ln of the seconds since its arrival.
    elapsed: f64,
    /// ln of one more than those.
    elapsed_1p: f64,
    /// ln of the seconds alone that are left of it.
    left: f64,
}

impl Scene {
    /// An empty cluster.
    pub fn new(size: Units) -> Scene {
        Scene { size, now: Time::default(), fluid: Fluid::default(), past: Past::default(), running: Vec::new() }
    }

    /// Its size.
    pub fn size(&self) -> Units {
        self.size
    }

    /// What runs, oldest first.
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// How it went lately.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// What it would mean if `query` arrived now. Changes nothing; O(n log n) for n that run.
    pub fn meet(&self, now: Time, query: &Newcomer, meeting: &mut Meeting) {
        let work = math::exp(query.alone.ln);
        self.fluid.course(secs(now, self.now), Some(work), &mut meeting.course);
        meeting.logs.clear();
        meeting.logs.extend(self.running.iter().zip(&meeting.course.left).map(|(running, left)| {
            let elapsed = secs(now, running.arrived);
            Logs { elapsed: ln(elapsed), elapsed_1p: ln_1p(elapsed), left: ln(*left) }
        }));
        meeting.over.clear();
        let over = self.running.iter().zip(&meeting.logs).map(|(running, logs)| logs.elapsed - running.first[1]);
        meeting.over.extend(over);
        self.newcomer(now, query, meeting);
        self.those_there(now, query, meeting);
    }

    /// The query arrives; `meeting` is that of [`Scene::meet`] for it at the same time.
    pub fn arrive(&mut self, now: Time, query: Newcomer, meeting: &Meeting) {
        self.advance(now);
        self.past.begun.get_or_insert(now);
        for (running, later) in self.running.iter_mut().zip(&meeting.later) {
            running.later = *later;
        }
        let Some((met, first)) = meeting.met else { return };
        self.fluid.enter(math::exp(query.alone.ln));
        let later = Later { count: 0, elapsed: 0.0, fluid: first };
        self.running.push(Running { query, arrived: now, met, first, later });
    }

    /// The query at `index` has ended. What it tells is remembered: that it finished, or that it had already taken
    /// longer than expected when something else ended it.
    pub fn leave(&mut self, now: Time, index: usize, finished: bool) {
        self.advance(now);
        self.fluid.leave(index);
        let gone = self.running.remove(index);
        let latency = ln(secs(now, gone.arrived));
        let echo = Echo { at: now, over_alone: latency - gone.query.alone.ln, over_fluid: latency - gone.first[1] };
        if finished || echo.over_fluid > 0.0 {
            self.past.learn(gone.query.text, gone.query.shape, echo);
        }
    }

    /// The head of the query at `index`, as of the last arrival.
    pub fn head(&self, index: usize) -> Head {
        let running = &self.running[index];
        head(&running.met, &running.first, &running.later)
    }

    fn advance(&mut self, now: Time) {
        self.fluid.advance(secs(now, self.now));
        self.now = self.now.max(now);
    }

    /// The newcomer's before side and its head.
    fn newcomer(&self, now: Time, query: &Newcomer, meeting: &mut Meeting) {
        let Meeting { before, course, logs, over, .. } = meeting;
        let n = self.running.len();
        let (size, crowd) = (self.log_size(), ln(n as f64 + 1.0));
        let first: [f64; 3] = std::array::from_fn(|a| ln(course.ends[a][n]));
        let alone = query.alone.ln;
        meeting.read_from = n.saturating_sub(READ);
        before.clear();
        for (index, running) in self.running.iter().enumerate().skip(meeting.read_from) {
            let Logs { elapsed_1p, left, .. } = logs[index];
            before.push(pair([
                alone,
                running.query.alone.ln,
                elapsed_1p - 2.0,
                0.0,
                size,
                left - 2.0,
                over[index],
                ln(course.ends[1][index]) - first[1],
                crowd - 2.0,
                first[1] - alone,
                0.0,
                left - alone,
            ]));
        }
        let pinch = [alone, alone, -2.0, 0.0, size, alone - 2.0, 0.0, 0.0, crowd - 2.0, first[1] - alone, 1.0, 0.0];
        before.push(pair(pinch));
        meeting.met = Some((self.met(now, query, course, over, &first), first));
    }

    /// What the newcomer finds.
    fn met(&self, now: Time, query: &Newcomer, course: &Course, over: &[f64], first: &[f64; 3]) -> [f32; MET] {
        let n = self.running.len() as f64;
        let alone = query.alone.ln;
        let longest = self.running.iter().map(|running| secs(now, running.arrived)).fold(0.0, f64::max);
        let late = over.iter().map(|over| over.max(0.0));
        let same = self.running.iter().filter(|running| running.query.shape == query.shape).count();
        let lighter = self.running.iter().filter(|running| running.query.alone.ln < alone).count();
        let [shape_runs, sized_runs, text_runs] = query.alone.runs;
        let known = |runs: u32| f64::from(u8::from(runs > 0));
        let age = self.past.begun.map_or(0.0, |begun| secs(now, begun));
        let [text, shape] = [self.past.text(query.text), self.past.shape(query.shape)].map(|echo| echoed(echo, now));
        let row = [
            alone,
            first[0] - alone,
            first[1] - alone,
            first[2] - alone,
            self.log_size(),
            ln(n + 1.0) - 1.0,
            ln(course.left.iter().sum()) - 3.0,
            ln_1p(longest) - 3.0,
            over.iter().copied().reduce(f64::max).unwrap_or(0.0),
            late.sum::<f64>() / n.max(1.0),
            self.past.off[0],
            self.past.off[1],
            ln_1p(f64::from(self.past.ended)) - 3.0,
            known(text_runs),
            known(sized_runs),
            ln_1p(f64::from(shape_runs)) - 1.0,
            ln_1p(age) / 4.0 - 1.5,
            text[0],
            text[1],
            text[2],
            text[3],
            shape[0],
            shape[1],
            shape[2],
            shape[3],
            same as f64,
            ln(lighter as f64 + 1.0),
        ];
        row.map(|value| value as f32)
    }

    /// The after sides of those that run, and the heads of all.
    fn those_there(&self, now: Time, query: &Newcomer, meeting: &mut Meeting) {
        let Meeting { after, heads, later, met, course, logs, .. } = meeting;
        let (size, crowd) = (self.log_size(), ln(self.running.len() as f64 + 1.0));
        after.clear();
        later.clear();
        heads.clear();
        for (index, running) in self.running.iter().enumerate() {
            let (seconds, Logs { elapsed, elapsed_1p, left }) = (secs(now, running.arrived), logs[index]);
            let fluid: [f64; 3] = std::array::from_fn(|a| ln(seconds + course.ends[a][index]));
            let alone = running.query.alone.ln;
            after.push(pair([
                alone,
                query.alone.ln,
                elapsed_1p - 2.0,
                1.0,
                size,
                left - 2.0,
                elapsed - running.first[1],
                fluid[1] - running.first[1],
                crowd - 2.0,
                fluid[1] - elapsed,
                0.0,
                fluid[0] - alone,
            ]));
            later.push(Later { count: running.later.count + 1, elapsed, fluid });
            heads.push(head(&running.met, &running.first, &later[index]));
        }
        if let Some((met, first)) = met {
            heads.push(head(met, first, &Later { count: 0, elapsed: 0.0, fluid: *first }));
        }
    }

    fn log_size(&self) -> f64 {
        math::ln(f64::from(self.size.0.max(1))) / std::f64::consts::LN_2 - 3.5
    }
}

impl Running {
    /// How many arrivals it has seen after its own.
    pub fn later(&self) -> u32 {
        self.later.count
    }
}

fn head(met: &[f32; MET], first: &[f64; 3], later: &Later) -> Head {
    let fluid = later.fluid;
    let moved = [fluid[1] - first[1], fluid[0] - fluid[1], fluid[2] - fluid[1]];
    let since = match later.count {
        0 => [0.0; 5],
        count => [
            1.0,
            ln(f64::from(count)) / 2.0,
            later.elapsed.max(-3.0) - fluid[1],
            later.elapsed - first[1],
            ln_1p(math::exp(later.elapsed) / f64::from(count)) - 2.0,
        ],
    };
    let mut row = [0.0; HEAD];
    row[..MET].copy_from_slice(met);
    for (to, from) in row[MET..].iter_mut().zip(moved.into_iter().chain(since)) {
        *to = from as f32;
    }
    Head { row, base: fluid[1], shared: fluid[0], since: (later.count > 0).then_some(later.elapsed) }
}

/// Whether there is an echo, what it says, and how old it is.
fn echoed(echo: Option<&Echo>, now: Time) -> [f64; 4] {
    echo.map_or([0.0; 4], |echo| [1.0, echo.over_alone, echo.over_fluid, ln_1p(secs(now, echo.at)) / 4.0 - 1.0])
}

fn pair(row: [f64; PAIR]) -> [f32; PAIR] {
    row.map(|value| value as f32)
}

fn secs(now: Time, earlier: Time) -> f64 {
    now.since(earlier).secs_f64()
}

/// ln of a time in seconds, or of a count; a time below a millisecond counts as one.
fn ln(x: f64) -> f64 {
    math::ln(x.max(1e-3))
}

fn ln_1p(x: f64) -> f64 {
    math::ln(1.0 + x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newcomer(id: u64, seconds: f64) -> Newcomer {
        let alone = Alone { ln: math::ln(seconds), spread: 0.3, runs: [1, 1, 0] };
        Newcomer { id: QueryId(id), shape: Fingerprint(id % 2), text: id % 3, alone }
    }

    fn at(secs: u64) -> Time {
        Time::from_micros(secs * 1_000_000)
    }

    /// A cluster of size 8 on which queries of 10 and 20 s arrived at 0 and 4 s.
    fn busy() -> (Scene, Meeting) {
        let (mut scene, mut meeting) = (Scene::new(Units(8)), Meeting::default());
        for (time, id, work) in [(0, 0, 10.0), (4, 1, 20.0)] {
            let query = newcomer(id, work);
            scene.meet(at(time), &query, &mut meeting);
            scene.arrive(at(time), query, &meeting);
        }
        (scene, meeting)
    }

    #[test]
    fn the_fluid_estimate_is_the_base_and_moves_with_arrivals() {
        let (scene, _) = busy();
        // α = 0.7: 6 s of the first are left at 4 s, and each of two makes 2^-0.7 of progress a second.
        let slow = math::pow(2.0, 0.7);
        let ends = [4.0 + 6.0 * slow, 6.0 * slow + 14.0];
        for (index, seconds) in ends.into_iter().enumerate() {
            assert!((scene.head(index).base - math::ln(seconds)).abs() < 1e-9, "{index}");
        }
        assert_eq!((scene.running()[0].later(), scene.running()[1].later()), (1, 0));
    }

    #[test]
    fn a_trial_shows_what_placing_makes_true_and_changes_nothing() {
        let (mut scene, mut meeting) = busy();
        let before: Vec<Head> = (0..2).map(|index| scene.head(index)).collect();
        scene.meet(at(9), &newcomer(2, 5.0), &mut meeting);
        assert_eq!((0..2).map(|index| scene.head(index)).collect::<Vec<_>>(), before);
        assert_eq!((meeting.before.len(), meeting.after.len(), meeting.heads.len()), (3, 2, 3));
        scene.arrive(at(9), newcomer(2, 5.0), &meeting);
        assert_eq!((0..3).map(|index| scene.head(index)).collect::<Vec<_>>(), meeting.heads);
        assert!(scene.head(0).base > before[0].base);
    }

    #[test]
    fn only_numbers_about_the_size_change_with_the_size() {
        let meeting = |size: u32| {
            let (mut scene, mut meeting) = (Scene::new(Units(size)), Meeting::default());
            for (time, id) in [(0, 0), (4, 1)] {
                let query = newcomer(id, 10.0);
                scene.meet(at(time), &query, &mut meeting);
                scene.arrive(at(time), query, &meeting);
            }
            meeting
        };
        let (small, large) = (meeting(2), meeting(8));
        for (column, topic) in HEAD_TOPICS.into_iter().enumerate() {
            assert_eq!(small.heads[1].row[column] != large.heads[1].row[column], topic == Topic::Size, "{column}");
        }
        for (column, topic) in PAIR_TOPICS.into_iter().enumerate() {
            assert_eq!(small.before[0][column] != large.before[0][column], topic == Topic::Size, "{column}");
            assert_eq!(small.after[0][column] != large.after[0][column], topic == Topic::Size, "{column}");
        }
    }

    #[test]
    fn an_arrival_reads_the_youngest_neighbours_oldest_first_and_itself_last() {
        let (mut scene, mut meeting) = (Scene::new(Units(4)), Meeting::default());
        for id in 0..READ as u64 + 9 {
            let query = newcomer(id, 50.0);
            scene.meet(at(id), &query, &mut meeting);
            scene.arrive(at(id), query, &meeting);
        }
        assert_eq!((meeting.before.len(), meeting.read_from), (READ + 1, 8));
        let ages: Vec<f32> = meeting.before.iter().map(|row| row[2]).collect();
        assert!(ages.is_sorted_by(|older, younger| older > younger), "{ages:?}");
        assert_eq!(meeting.before.last().unwrap()[10], 1.0);
    }

    #[test]
    fn what_ends_is_remembered_if_it_tells_something() {
        let (mut scene, mut meeting) = busy();
        scene.leave(at(5), 1, false);
        assert_eq!(scene.past().ended, 0);
        scene.leave(at(40), 0, false);
        assert_eq!(scene.past().ended, 1);
        let echo = *scene.past().text(0).unwrap();
        assert!((echo.over_alone - math::ln(4.0)).abs() < 1e-9 && (echo.over_fluid - math::ln(4.0)).abs() < 1e-9);
        scene.meet(at(50), &newcomer(0, 10.0), &mut meeting);
        assert_eq!(
            (meeting.heads[0].row[17], f64::from(meeting.heads[0].row[18])),
            (1.0, echo.over_alone as f32 as f64)
        );
    }

    #[test]
    fn odd_times_and_sizes_make_no_odd_numbers() {
        let (mut scene, mut meeting) = (Scene::new(Units(0)), Meeting::default());
        for (time, id, work) in [(9, 0, 1e-12), (3, 1, 1e12), (3, 2, 0.5), (u64::MAX / 2_000_000, 3, 1.0)] {
            let query = newcomer(id, work);
            scene.meet(at(time), &query, &mut meeting);
            scene.arrive(at(time), query, &meeting);
            let heads = meeting.heads.iter().flat_map(|head| head.row.into_iter().chain([head.base as f32]));
            let pairs = meeting.before.iter().chain(&meeting.after).flatten().copied();
            assert!(heads.chain(pairs).all(f32::is_finite), "{time}");
        }
    }
}
