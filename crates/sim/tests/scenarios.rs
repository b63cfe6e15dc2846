//! Thousands of random scenarios. More of them: `cargo run --release -p punctual-sim --example scenarios`.

use punctual_sim::scenario::{many, random, run};

#[test]
fn everything_that_must_hold_holds_in_thousands_of_random_scenarios() {
    let summary = many(1, 3_000, 2);
    for failure in &summary.failures {
        eprintln!("{failure}");
    }
    let seeds: Vec<u64> = summary.failures.iter().map(|failure| failure.seed).collect();
    assert_eq!(seeds, [], "seeds that fail");
    assert_eq!(summary.scenarios, 3_000);
    // They are not empty.
    assert!(summary.queries > 50_000 && summary.events > 200_000, "{summary:?}");
}

#[test]
fn a_scenario_is_a_function_of_its_seed() {
    assert_eq!(random(5), random(5));
    assert_ne!(random(5), random(6));
    let digest = |seed| run(&random(seed)).map(|report| report.outcome.digest);
    assert_eq!(digest(5), digest(5));
}
