//! What simulating many configurations costs, and how it grows with configurations, queries and threads.
//!
//! The budget is five minutes on two cores, and 1 GB, for 64 configurations on 12 workloads of 1,400 queries with the full predictor,
//! studies of what to start included. Each case is run once: it takes long enough.
//!
//! `cargo bench -p punctual-tuner --bench batch`; words after `--` pick cases by their beginning.

// It measures.
#![allow(clippy::disallowed_types)]

#[path = "../../core/benches/fixture/mod.rs"]
mod fixture;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fixture::{model, query};
use punctual_core::billing::Price;
use punctual_core::cluster::Spec;
use punctual_core::id::Units;
use punctual_core::math;
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::predict::model::Model;
use punctual_core::route::Routing;
use punctual_core::scale::{Scaling, Selector, Trigger};
use punctual_core::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Troubles};
use punctual_sim::workload::{Arrival, Batched, Pattern, Recorded, Remembered, again};
use punctual_sim::world::compute::Make;
use punctual_tuner::batch::{Batch, Common, Heat, Racing};
use punctual_tuner::configuration::{Configuration, Knobs};
use punctual_tuner::spinups::{Simulate, Split};

/// Seconds of work of a query on one unit.
const WORK: f64 = 200.0;
/// The part of what 16 units can do that is asked for.
const LOAD: f64 = 0.6;

fn spec(units: u32) -> Spec {
    let name = format!("size{units}");
    let (price, offer) = (Price::default(), Some(name.clone()));
    Spec { name, units: Units(units), slots: 60, price, killable: true, offer, writer: false }
}

/// Workloads in batches at CV 3.5, compressed into as long as they take.
fn common(queries: usize, workloads: u64) -> Common {
    let model = model(WORK);
    let rate = LOAD * 16.0 / WORK;
    let workload = |seed: u64| -> Vec<Arrival> {
        let pattern = Pattern::Batched(Batched { rate, cv: 3.5, within: Span::from_secs(1) });
        let trace: Vec<Remembered> =
            pattern.instants(seed).take(queries).zip(0..).map(|(at, number)| remembered(&model, at, number)).collect();
        again(&trace, seed).collect()
    };
    let sizes: Vec<Spec> = [16, 32].map(spec).into();
    let scaling = Scaling {
        mode: Mode::On,
        trigger: Trigger::Combined,
        selector: Selector::AddCluster,
        offers: sizes.clone(),
        late_share: 0.1,
        ..Scaling::default()
    };
    let policy = Policy {
        routing: Routing::Slo,
        scaling,
        decisions_kept: 0,
        max_waiting: 100_000,
        wait_limit: Span::from_secs(86_400),
        ..Policy::default()
    };
    let (fleet, model, troubles) = (Vec::new(), Some(model.clone()), Troubles::default());
    let rehearsal = Rehearsal { seed: 1, policy, fleet, model, make: Make::Sharing, clients: None, troubles };
    Common {
        rehearsal,
        sizes,
        train: (0..workloads).map(workload).collect(),
        validation: Vec::new(),
        promise: Vec::new(),
    }
}

fn remembered(model: &Arc<Model>, at: Time, number: u64) -> Remembered {
    let query = query(number);
    let traits = *query.traits.expect("it has traits");
    let alone = model.stage().alone(&traits.features, query.fingerprint, traits.text, Units(16));
    let takes = Span::from_secs_f64(math::exp(alone.ln));
    let recorded = Recorded { traits, alone: vec![(Units(16), takes)] };
    Remembered {
        at,
        class: query.class,
        slo: Some(takes.times(4)),
        claim: query.claim,
        fingerprint: query.fingerprint,
        recorded,
        noise: 0.3,
    }
}

/// Fleets, and what the tuner turns.
fn configurations(count: usize) -> Vec<Configuration> {
    let fleets: [&[u32]; 4] = [&[16], &[32], &[16, 16], &[16, 32]];
    let one = |number: usize| {
        let mut knobs = Knobs::of(&Policy::default());
        knobs.idle = Span::from_secs(if number & 4 == 0 { 600 } else { 1_200 });
        knobs.observations = if number & 8 == 0 { 16 } else { 32 };
        knobs.completions = if number & 16 == 0 { 16 } else { 32 };
        knobs.window = Span::from_secs(if number & 32 == 0 { 300 } else { 600 });
        knobs.late_share = 0.1;
        let fleet = fleets[number % 4].iter().copied().map(Units).collect();
        Configuration { fleet, spinups: Vec::new(), knobs }
    };
    (0..count).map(one).collect()
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("configurations  workloads  queries  threads   seconds  violations      cost  memory, MB");
    for (configurations, workloads, queries, threads, race) in [
        (8, 4, 1_400, 1, false),
        (8, 4, 1_400, 2, false),
        (8, 4, 2_800, 2, false),
        (16, 4, 1_400, 2, false),
        (64, 12, 1_400, 2, true),
        (64, 12, 1_400, 2, false),
    ] {
        let name = format!("{configurations}x{workloads}x{queries}x{threads}{}", if race { " race" } else { "" });
        if wanted.is_empty() || wanted.iter().any(|wanted| name.starts_with(wanted.as_str())) {
            run(&name, (configurations, workloads, queries), threads, race);
        }
    }
}

fn run(name: &str, (count, workloads, queries): (usize, u64, usize), threads: usize, race: bool) {
    let (common, all) = (common(queries, workloads), configurations(count));
    let stop = AtomicBool::new(false);
    let mut batch = Batch { common: &common, threads, stop: &stop, tell: &|_, _| {} };
    let began = Instant::now();
    let outcomes = match race {
        true => {
            let heat = Heat { configurations: &all, rival: None };
            batch.race(&[heat], Racing::of(0.1)).expect("not stopped").remove(0).outcomes
        }
        false => batch.simulate(&all, Split::Train).expect("not stopped"),
    };
    let took = began.elapsed().as_secs_f64();
    let runs: Vec<_> = outcomes.iter().flatten().map(|outcome| outcome.performance).collect();
    let mean = |of: &dyn Fn(usize) -> f64| (0..runs.len()).map(of).sum::<f64>() / runs.len() as f64;
    println!(
        "{name:>30} {} runs {took:>9.1} {:>11.4} {:>9.2}  {:>8.0}",
        runs.len(),
        mean(&|run| runs[run].violation_rate),
        mean(&|run| runs[run].cost),
        most_memory(),
    );
}

/// The most memory that the process has had, in MB.
fn most_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN)
        / 1_024.0
}
