//! Queueing theory as a reference: where a closed form is known, the simulator with the real dispatcher must agree with
//! it within a confidence interval, and the interval must be narrow enough to mean something.
//!
//! Means of correlated observations are estimated by batch means: a run is cut into batches that are long compared with
//! the memory of the queue, their means are nearly independent and normal, and Student's t gives the interval.

use punctual_core::billing::Price;
use punctual_core::class::DEFAULT;
use punctual_core::cluster::Spec;
use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::id::Units;
use punctual_core::policy::Policy;
use punctual_core::query::{Ended, Status};
use punctual_core::route::Routing;
use punctual_core::time::{Span, Time};
use punctual_sim::workload::{Mix, Pattern, Size, generate};
use punctual_sim::{Conditions, Run, World};

/// A queue: clusters of that many units and slots each, Poisson arrivals of that many a second.
struct Queue {
    clusters: u32,
    units: u32,
    slots: u32,
    rate: f64,
    size: Size,
}

/// An estimated mean and half the width of its interval, both in seconds.
#[derive(Debug)]
struct Estimate {
    mean: f64,
    half: f64,
}

const BATCHES: usize = 30;
/// Student's t with 29 degrees of freedom, 99 % two-sided: one estimate in a hundred would lie outside by chance, were
/// the seeds not fixed.
const T: f64 = 2.756;

impl Queue {
    /// What `value` is on average over `count` queries, the first tenth left out.
    fn estimate(&self, seed: u64, count: usize, value: fn(&Ended) -> Span) -> Estimate {
        let values: Vec<f64> = self.ended(seed, count).iter().map(|ended| value(ended).secs_f64()).collect();
        let values = &values[count / 10..];
        let means: Vec<f64> = values.chunks_exact(values.len() / BATCHES).map(mean).collect();
        let overall = mean(&means);
        let squares: Vec<f64> = means.iter().map(|m| (m - overall) * (m - overall)).collect();
        let error = (squares.iter().sum::<f64>() / (BATCHES - 1) as f64 / BATCHES as f64).sqrt();
        Estimate { mean: overall, half: T * error }
    }

    /// The first `count` queries to end.
    fn ended(&self, seed: u64, count: usize) -> Vec<Ended> {
        let policy = Policy {
            routing: Routing::RoundRobin,
            max_waiting: u32::MAX,
            wait_limit: Span::MAX,
            decisions_kept: 0,
            ..Policy::default()
        };
        let spec = |number| Spec {
            name: format!("cluster{number}"),
            units: Units(self.units),
            slots: self.slots,
            price: Price::default(),
            killable: true,
            offer: None,
            writer: false,
        };
        let script = (0..self.clusters).map(|number| (Time::ZERO, Event::ClusterWanted(spec(number)))).collect();
        let mix = Mix::of_one(DEFAULT, None, self.size, 1);
        let workload = generate(seed, &Pattern::Poisson { rate: self.rate }, &mix, Span::MAX);
        let mut run =
            Run::new(Dispatcher::new(seed, policy), workload, World::new(seed, Conditions::default(), script));
        let mut ended = Vec::with_capacity(count);
        while ended.len() < count {
            let step = run.step().expect("arrivals have no end");
            ended.extend(step.commands.iter().filter_map(|command| match command {
                Command::Record(record) => Some((**record).clone()),
                _ => None,
            }));
        }
        assert!(ended.iter().all(|ended| ended.status == Status::Finished));
        ended
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl Estimate {
    /// The expected value lies in the interval, and half the interval is at most that share of it.
    fn agrees(&self, expected: f64, within: f64) {
        assert!((self.mean - expected).abs() <= self.half, "{self:?}, expected {expected}");
        assert!(self.half <= within * expected, "the interval says too little: {self:?}, expected {expected}");
    }
}

fn wait(ended: &Ended) -> Span {
    ended.placed.map_or(Span::MAX, |placed| placed.since(ended.arrived))
}

/// The mean wait in an M/M/c queue: Erlang's C formula. `rate` and `service` are arrivals a second and mean seconds.
fn erlang_wait(c: u32, rate: f64, service: f64) -> f64 {
    let load = rate * service;
    // Erlang's B by its recursion, then C from B.
    let blocking = (1..=c).fold(1.0, |b, k| load * b / (f64::from(k) + load * b));
    let free = 1.0 - load / f64::from(c);
    let waits = blocking / (free + (1.0 - free) * blocking);
    waits * service / (f64::from(c) * free)
}

#[test]
fn erlangs_formula_gives_the_values_of_his_tables() {
    // M/M/1: ρ/(1−ρ) service times. M/M/2 at ρ = 0.8: ρ²/(1−ρ²).
    assert!((erlang_wait(1, 0.8, 1.0) - 4.0).abs() < 1e-12);
    assert!((erlang_wait(2, 1.6, 1.0) - 0.64 / 0.36).abs() < 1e-12);
}

#[test]
fn one_slot_clusters_with_a_common_queue_wait_as_erlang_says() {
    let service = Span::from_millis(500);
    for (c, load, seed) in [(1, 0.6, 1), (3, 0.7, 2), (8, 0.8, 3)] {
        let rate = load * f64::from(c) / service.secs_f64();
        let queue = Queue { clusters: c, units: 1, slots: 1, rate, size: Size::Exponential(service) };
        queue.estimate(seed, 300_000, wait).agrees(erlang_wait(c, rate, service.secs_f64()), 0.1);
    }
}

#[test]
fn one_cluster_of_many_units_and_slots_waits_as_erlang_says() {
    let service = Span::from_millis(500);
    let queue = Queue { clusters: 1, units: 4, slots: 4, rate: 6.4, size: Size::Exponential(service) };
    queue.estimate(4, 300_000, wait).agrees(erlang_wait(4, 6.4, 0.5), 0.1);
}

#[test]
fn a_shared_cluster_answers_after_the_same_time_on_average_whatever_the_sizes_are() {
    // M/G/1 processor sharing: E[S]/(1−ρ), with E[S] = 0.5 s and ρ = 0.6.
    let mean = Span::from_millis(500);
    let sizes = [(Size::Fixed(mean), 5), (Size::Exponential(mean), 6), (Size::Hyperexponential { mean, cv: 2.5 }, 7)];
    for (size, seed) in sizes {
        let queue = Queue { clusters: 1, units: 1, slots: u32::MAX, rate: 1.2, size };
        queue.estimate(seed, 300_000, Ended::latency).agrees(0.5 / 0.4, 0.06);
    }
}
