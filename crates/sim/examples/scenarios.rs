//! Runs random scenarios with every check: `--from SEED --count N --threads T`. Exits with 1 if one fails.

use std::process::ExitCode;
#[expect(clippy::disallowed_types, reason = "it says how long the scenarios took; nothing in them knows")]
use std::time::Instant;

use punctual_sim::scenario::{many, random, shrink};

fn main() -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let from = number("--from").unwrap_or(1);
    let count = number("--count").unwrap_or(10_000);
    let threads = number("--threads").map_or(cores, |threads| threads as usize);
    #[expect(clippy::disallowed_types, reason = "as above")]
    let started = Instant::now();
    let summary = many(from, count, threads);
    let seconds = started.elapsed().as_secs_f64();
    for failure in &summary.failures {
        println!("{failure}");
    }
    if let Some((smallest, failure)) = summary.failures.first().and_then(|first| shrink(&random(first.seed))) {
        println!("the first of these made smaller: {failure}\n{smallest:#?}");
    }
    println!(
        "{} scenarios from seed {from} on {threads} threads in {seconds:.1} s: {:.0} scenarios/s, {:.0} events/s, {} queries, {} failed",
        summary.scenarios,
        summary.scenarios as f64 / seconds,
        summary.events as f64 / seconds,
        summary.queries,
        summary.failures.len(),
    );
    if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The number after a flag on the command line.
fn number(flag: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != flag);
    arguments.nth(1)?.parse().ok()
}
