//! Fleets against values that are known from elsewhere: closed forms, a Markov chain that is solved by itself, the values
//! that the scheme's own simulations gave, and the fluid limit.

use punctual_core::fleet::Placement;
use punctual_core::math;
use punctual_sim::fleet::{
    Arrivals, Delay, Fluid, Load, Outcome, PhaseType, Scheme, ServiceTime, Setting, Start, Watch, run, seed_of,
};

fn outcome(setting: &Setting, seed: u64) -> Outcome {
    run(setting, seed, &mut ()).expect("it can be run")
}

/// So many independent ones.
fn outcomes(setting: &Setting, count: u64) -> Vec<Outcome> {
    (0..count).map(|number| outcome(setting, seed_of(1, number))).collect()
}

/// A mean over runs, and half the width of its 95 % interval; there are enough runs for the normal one to do.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    half: f64,
}

impl Estimate {
    fn of(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> Estimate {
        let values: Vec<f64> = outcomes.iter().map(value).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Estimate { mean, half: 1.96 * (squares / (count - 1.0) / count).sqrt() }
    }
}

/// Whether an estimate is within its interval and that of the expected value, and a tenth, of it.
fn agrees(estimate: Estimate, expected: f64, half: f64) -> bool {
    (estimate.mean - expected).abs() <= estimate.half + half && (estimate.mean / expected - 1.0).abs() <= 0.1
}

#[test]
fn waits_and_setups_are_those_of_the_schemes_own_simulations() {
    // Servers, mean setup time, runs; mean wait, share in setup, each with half its 95 % interval.
    let known = [
        (10, 10.0, 400, (0.247, 0.006), (0.241, 0.003)),
        (100, 10.0, 60, (0.037, 0.001), (0.093, 0.002)),
        (1_000, 10.0, 20, (0.0098, 0.0005), (0.027, 0.001)),
        (10, 100.0, 600, (3.60, 0.09), (0.587, 0.003)),
        (100, 100.0, 60, (0.138, 0.002), (0.533, 0.003)),
        (1_000, 100.0, 20, (0.0136, 0.0007), (0.254, 0.008)),
    ];
    for (servers, setup, count, wait, share) in known {
        let setting = Setting { setup: Delay::Exponential(setup), ..Setting::new(servers, 0.3) };
        let outcomes = outcomes(&setting, count);
        let waits = Estimate::of(&outcomes, |outcome| outcome.mean_wait);
        let shares = Estimate::of(&outcomes, |outcome| outcome.setup);
        assert!(agrees(waits, wait.0, wait.1), "{servers} servers, setup {setup}: {waits:?}, not {wait:?}");
        assert!(agrees(shares, share.0, share.1), "{servers} servers, setup {setup}: {shares:?}, not {share:?}");
    }
}

/// Writes every placement down.
#[derive(Default)]
struct Written(Vec<(f64, Placement)>);

impl Watch for Written {
    fn placed(&mut self, at: f64, placement: Placement) {
        self.0.push((at, placement));
    }
}

#[test]
fn tabs_without_turning_off_chooses_as_join_the_idle_queue_does() {
    for service in [ServiceTime::Exponential, ServiceTime::LogNormal { variation: 2.0 }] {
        let written = |scheme| {
            let standby = Delay::Never;
            let setting = Setting { scheme, standby, service: service.clone(), ..Setting::new(30, 0.95) };
            let mut written = Written::default();
            let outcome = run(&setting, 4, &mut written).expect("it can be run");
            (written.0, outcome)
        };
        let (tabs, jiq) = (written(Scheme::Tabs), written(Scheme::Jiq));
        assert!(tabs.1.waited > 1_000, "some must find no idle server: {:?}", tabs.1);
        assert_eq!(tabs.0, jiq.0);
        assert_eq!(tabs.1, jiq.1);
    }
}

#[test]
fn a_task_costs_at_most_two_messages_and_under_join_the_idle_queue_one() {
    for (servers, load, setup) in [(10, 0.3, 100.0), (50, 0.9, 10.0), (1_000, 0.3, 10.0), (100, 0.05, 1.0)] {
        for standby in [Delay::Exponential(0.1), Delay::Exponential(10.0), Delay::Fixed(0.0), Delay::Fixed(2.0)] {
            let setting = Setting { standby, setup: Delay::Exponential(setup), ..Setting::new(servers, load) };
            let tabs = outcome(&setting, 1);
            // Besides those of the servers that were idle at first.
            assert!(tabs.messages <= 2 * tabs.arrived + u64::from(servers), "{tabs:?}");
            let jiq = outcome(&Setting { scheme: Scheme::Jiq, ..setting }, 1);
            assert!(jiq.messages <= jiq.arrived, "{jiq:?}");
        }
    }
}

#[test]
fn every_task_is_somewhere() {
    let schemes = [Scheme::Tabs, Scheme::Jiq, Scheme::Jsq, Scheme::P2c, Scheme::Random, Scheme::DelayedOff];
    let services = [
        ServiceTime::Exponential,
        ServiceTime::Deterministic,
        ServiceTime::PhaseType(PhaseType::erlang(3).expect("it exists")),
        ServiceTime::LogNormal { variation: 4.0 },
        ServiceTime::Trace([0.5, 2.0, 0.5].into()),
    ];
    for scheme in schemes {
        for service in &services {
            for (delay, buffer) in [(Delay::Exponential(3.0), None), (Delay::Fixed(3.0), Some(2))] {
                let (standby, setup, service) = (delay, delay, service.clone());
                let setting = Setting { scheme, service, standby, setup, buffer, samples: 1, ..Setting::new(40, 0.7) };
                let outcome = outcome(&setting, 7);
                let end = outcome.path.last().expect("the horizon is sampled");
                let running = (end.queues[0] * 40.0).round() as u64;
                assert_eq!(outcome.started, outcome.finished + running, "{setting:?}");
                let waiting: f64 = end.queues[1..].iter().sum();
                let waiting = (waiting * 40.0).round() as u64;
                let held = outcome.arrived - outcome.lost - outcome.started - waiting;
                assert!(held == 0 || scheme == Scheme::DelayedOff, "{held} held: {setting:?}");
                let offered = 0.7 * (1.0 - outcome.lost as f64 / outcome.arrived as f64);
                assert!((outcome.busy - offered).abs() < 0.05, "{setting:?}: {}", outcome.busy);
                assert!(buffer.is_none() || end.queues.len() <= 2 || scheme == Scheme::DelayedOff);
            }
        }
    }
}

/// Mean wait and share in setup of M/M/N with setup and delayed off, from its Markov chain: busy, idle, in setup and
/// waiting, the last cut at `MOST`. Found by iteration of the uniformised chain.
struct Chain {
    servers: usize,
    load: f64,
    standby: f64,
    setup: f64,
    abort: bool,
}

const MOST: usize = 80;

type Place = (usize, usize, usize, usize);

impl Chain {
    fn moves(&self, (busy, idle, setup, waiting): Place) -> Vec<(f64, Place)> {
        let off = self.servers - busy - idle - setup;
        let mut moves = Vec::new();
        let arrivals = self.load * self.servers as f64;
        if idle > 0 {
            moves.push((arrivals, (busy + 1, idle - 1, setup, 0)));
        } else if waiting < MOST {
            let starts = usize::from(off > 0 && setup < waiting + 1);
            moves.push((arrivals, (busy, 0, setup + starts, waiting + 1)));
        }
        let kept = |setup: usize, waiting: usize| if self.abort { setup.min(waiting) } else { setup };
        if busy > 0 {
            let to = match waiting {
                0 => (busy - 1, idle + 1, kept(setup, 0), 0),
                _ => (busy, idle, kept(setup, waiting - 1), waiting - 1),
            };
            moves.push((busy as f64, to));
        }
        if setup > 0 {
            let to = match waiting {
                0 => (busy, idle + 1, setup - 1, 0),
                _ => (busy + 1, idle, kept(setup - 1, waiting - 1), waiting - 1),
            };
            moves.push((self.setup * setup as f64, to));
        }
        if idle > 0 {
            moves.push((self.standby * idle as f64, (busy, idle - 1, setup, waiting)));
        }
        moves
    }

    fn solved(&self) -> (f64, f64) {
        let side = self.servers + 1;
        let number = |(b, i, s, w): Place| ((b * side + i) * side + s) * (MOST + 1) + w;
        let fastest = self.servers as f64 * (self.load + 1.0 + self.standby.max(self.setup));
        let mut chances = vec![0.0; side * side * side * (MOST + 1)];
        let first = (0, self.servers, 0, 0);
        let (mut known, mut at) = (vec![first], 0);
        let mut edges = Vec::new();
        let mut seen = vec![false; chances.len()];
        seen[number(first)] = true;
        while at < known.len() {
            let place = known[at];
            for (rate, to) in self.moves(place) {
                edges.push((number(place), number(to), rate / fastest));
                if !std::mem::replace(&mut seen[number(to)], true) {
                    known.push(to);
                }
            }
            at += 1;
        }
        chances[number(first)] = 1.0;
        for _ in 0..20_000 {
            let mut next = chances.clone();
            for (from, to, chance) in &edges {
                next[*from] -= chances[*from] * chance;
                next[*to] += chances[*from] * chance;
            }
            let change: f64 = next.iter().zip(&chances).map(|(a, b)| (a - b).abs()).sum();
            chances = next;
            if change < 1e-12 {
                break;
            }
        }
        let mean = |value: fn(Place) -> usize| -> f64 {
            known.iter().map(|place| chances[number(*place)] * value(*place) as f64).sum()
        };
        let servers = self.servers as f64;
        (mean(|place| place.3) / (self.load * servers), mean(|place| place.2) / servers)
    }
}

#[test]
fn a_central_queue_with_setup_and_delayed_off_is_its_markov_chain() {
    for abort in [false, true] {
        let chain = Chain { servers: 3, load: 0.5, standby: 0.5, setup: 0.2, abort };
        let (wait, share) = chain.solved();
        let setting = Setting {
            scheme: Scheme::DelayedOff,
            standby: Delay::Exponential(2.0),
            setup: Delay::Exponential(5.0),
            abort,
            horizon: 20_000.0,
            warmup: 100.0,
            ..Setting::new(3, 0.5)
        };
        let outcomes = outcomes(&setting, 20);
        let waits = Estimate::of(&outcomes, |outcome| outcome.mean_wait);
        let shares = Estimate::of(&outcomes, |outcome| outcome.setup);
        assert!((waits.mean - wait).abs() < 1.7 * waits.half && waits.half < 0.02 * wait, "{waits:?}, not {wait}");
        assert!(
            (shares.mean - share).abs() < 1.7 * shares.half && shares.half < 0.02 * share,
            "{shares:?}, not {share}"
        );
    }
}

#[test]
fn one_server_that_turns_off_at_once_waits_by_its_closed_form() {
    // M/M/1 with exponential setup: Wq = λ / (1 − λ) + 1 / ν (Welch 1964).
    for abort in [false, true] {
        let setting = Setting {
            scheme: Scheme::DelayedOff,
            standby: Delay::Fixed(0.0),
            setup: Delay::Exponential(4.0),
            abort,
            horizon: 100_000.0,
            warmup: 1_000.0,
            ..Setting::new(1, 0.6)
        };
        let waits = Estimate::of(&outcomes(&setting, 20), |outcome| outcome.mean_wait);
        assert!((waits.mean - 5.5).abs() < 1.7 * waits.half && waits.half < 0.1, "{waits:?}");
    }
}

#[test]
fn a_central_queue_of_servers_that_are_always_on_is_erlangs() {
    // M/M/4 at load 0.8: C = 0.5964, Wq = C / (4 − 3.2).
    let offered: f64 = 3.2;
    let terms: Vec<f64> =
        (0..4).scan(1.0, |term, n| Some(std::mem::replace(term, *term * offered / f64::from(n + 1)))).collect();
    let last = terms[3] * offered / 4.0 * 4.0 / (4.0 - offered);
    let wait = last / (terms.iter().sum::<f64>() + last) / (4.0 - offered);
    let setting = Setting {
        scheme: Scheme::DelayedOff,
        standby: Delay::Never,
        horizon: 50_000.0,
        warmup: 500.0,
        ..Setting::new(4, 0.8)
    };
    let waits = Estimate::of(&outcomes(&setting, 20), |outcome| outcome.mean_wait);
    assert!((waits.mean - wait).abs() < 1.7 * waits.half && waits.half < 0.02, "{waits:?}, not {wait}");
}

#[test]
fn a_random_queue_is_one_of_many_single_servers() {
    // M/G/1: Wq = λ (1 + c²) / (2 (1 − λ)).
    for (service, squared) in [
        (ServiceTime::Exponential, 1.0),
        (ServiceTime::Deterministic, 0.0),
        (ServiceTime::LogNormal { variation: 2.0 }, 2.0),
        (ServiceTime::PhaseType(PhaseType::erlang(4).expect("it exists")), 0.25),
        (ServiceTime::PhaseType(PhaseType::hyperexponential(3.0).expect("it exists")), 3.0),
    ] {
        let setting = Setting {
            scheme: Scheme::Random,
            service: service.clone(),
            horizon: 400.0,
            warmup: 100.0,
            ..Setting::new(500, 0.6)
        };
        let waits = Estimate::of(&outcomes(&setting, 10), |outcome| outcome.mean_wait);
        let wait = 0.6 * (1.0 + squared) / 0.8;
        assert!((waits.mean - wait).abs() < 1.7 * waits.half && waits.half < 0.1, "{service:?}: {waits:?}, not {wait}");
    }
}

#[test]
fn who_knows_more_waits_less() {
    let wait = |scheme| {
        let setting = Setting { scheme, warmup: 50.0, ..Setting::new(500, 0.8) };
        outcome(&setting, 3).mean_wait
    };
    let waits = [Scheme::Jsq, Scheme::Jiq, Scheme::P2c, Scheme::Random].map(wait);
    assert!(waits.is_sorted(), "{waits:?}");
    // The random queue's is M/M/1's, 4; two choices' is that of Mitzenmacher's fixed point, Σ λ^(2^i − 2) … − 1 = 0.947.
    assert!((waits[3] - 4.0).abs() < 0.4 && (waits[2] - 0.947).abs() < 0.1, "{waits:?}");
}

#[test]
fn instants_of_a_trace_are_those_at_which_tasks_arrive() {
    let instants: Vec<f64> = vec![0.5, 0.5, 1.0, 7.0, 9.5];
    let setting = Setting {
        arrivals: Arrivals::Trace(instants.clone().into()),
        service: ServiceTime::Trace([3.0].into()),
        standby: Delay::Fixed(100.0),
        horizon: 9.9,
        ..Setting::new(2, 0.0)
    };
    let mut written = Written::default();
    let outcome = run(&setting, 1, &mut written).expect("it can be run");
    assert_eq!(written.0.iter().map(|(at, _)| *at).collect::<Vec<f64>>(), instants);
    // The third waits from 1 to 3.5, when either server is free.
    assert_eq!((outcome.started, outcome.finished, outcome.waited), (5, 3, 1));
    assert!((outcome.mean_wait - 0.5).abs() < 1e-12 && (outcome.longest_wait - 2.5).abs() < 1e-12, "{outcome:?}");
}

#[test]
fn a_wave_is_thinned_to_its_load() {
    let load = Load::Wave { mean: 0.5, amplitude: 0.3, period: 100.0 };
    let setting =
        Setting { arrivals: Arrivals::Poisson(load), horizon: 50.0, scheme: Scheme::Jiq, ..Setting::new(10_000, 0.0) };
    // Half a wave: 0.5 · 50 + 0.3 · 100 / π a server.
    let expected = 10_000.0 * (25.0 + 30.0 / std::f64::consts::PI);
    let arrived = outcome(&setting, 1).arrived as f64;
    assert!((arrived - expected).abs() < 5.0 * expected.sqrt(), "{arrived}, not {expected}");
}

#[test]
fn a_long_enough_fleet_wastes_no_energy_and_no_time() {
    let setting = Setting { warmup: 150.0, horizon: 250.0, ..Setting::new(20_000, 0.3) };
    let outcome = outcome(&setting, 1);
    assert!((outcome.power_per_server_w / 60.0 - 1.0).abs() < 0.06, "{outcome:?}");
    assert!(outcome.mean_wait < 0.005, "{outcome:?}");
    assert!(outcome.bytes <= 64 * 20_000, "{outcome:?}");
}

#[test]
fn a_server_costs_at_most_64_bytes_whatever_is_simulated() {
    for scheme in [Scheme::Tabs, Scheme::Jsq, Scheme::DelayedOff] {
        for service in [ServiceTime::Exponential, ServiceTime::LogNormal { variation: 2.0 }] {
            let (standby, horizon) = (Delay::Fixed(1.0), 3.0);
            let setting = Setting { scheme, service, standby, horizon, ..Setting::new(20_000, 0.5) };
            let outcome = outcome(&setting, 1);
            let waiting = 16 * 2 * (outcome.arrived - outcome.started).next_power_of_two();
            assert!(outcome.bytes <= 64 * 20_000 + waiting.max(outcome.waited * 32), "{scheme:?}: {}", outcome.bytes);
        }
    }
}

/// How far sample paths of so many servers are from the fluid curve at most, on average over runs.
fn distance(fluid: &Fluid, service: &ServiceTime, start: &Start, servers: u32, count: u64) -> f64 {
    let setting = Setting {
        arrivals: Arrivals::Poisson(fluid.load.clone()),
        service: service.clone(),
        start: start.clone(),
        horizon: 60.0,
        samples: 120,
        ..Setting::new(servers, 0.0)
    };
    let curve = fluid.curve(start, 60.0, 120);
    let farthest = |outcome: &Outcome| {
        outcome.path.iter().zip(&curve).map(|(ours, theirs)| ours.distance(theirs)).fold(0.0, f64::max)
    };
    Estimate::of(&outcomes(&setting, count), farthest).mean
}

#[test]
fn paths_come_to_the_fluid_curve_as_the_root_of_the_servers_grows() {
    let hyper = PhaseType::hyperexponential(3.0).expect("it exists");
    let cases = [(ServiceTime::Exponential, PhaseType::exponential()), (ServiceTime::PhaseType(hyper.clone()), hyper)];
    let start = Start { queues: vec![0.4, 0.2], idle_off: 0.3, setup: 0.1 };
    for (service, phases) in cases {
        let load = Load::Wave { mean: 0.5, amplitude: 0.3, period: 30.0 };
        let fluid = Fluid { load, service: phases, standby: 0.1, setup: 0.1, levels: 24 };
        let at = [400, 1_600, 6_400].map(|servers| distance(&fluid, &service, &start, servers, 12));
        let slope = math::ln(at[2] / at[0]) / math::ln(16.0);
        assert!((slope + 0.5).abs() < 0.15, "{slope}: {at:?}");
        assert!(at[2] * 80.0 < 6.0, "{at:?}");
    }
}
