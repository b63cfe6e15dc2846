//! Thousands of random scenarios. More of them: `cargo run --release -p punctual-sim --example scenarios`.

use punctual_sim::scenario::{many, random, run};

#[test]
fn everything_that_must_hold_holds_in_thousands_of_random_scenarios() {
    let summary = many(1, 8_000, 2);
    for failure in &summary.failures {
        eprintln!("{failure}");
    }
    let seeds: Vec<u64> = summary.failures.iter().map(|failure| failure.seed).collect();
    assert_eq!(seeds, [], "seeds that fail");
    assert_eq!(summary.scenarios, 8_000);
    // Nothing that can occur is missing, nor rare.
    let rare: Vec<_> = KINDS.iter().filter(|name| summary.seen.get(*name).is_none_or(|count| *count < 30)).collect();
    assert!(rare.is_empty() && summary.seen.len() == KINDS.len(), "{rare:?} of {:?}", summary.seen);
}

/// Every kind of event, command, reason and end.
const KINDS: [&str; 77] = [
    "Abandon: ClusterLost",
    "Abandon: DrainEnded",
    "Abandon: WillNotStop",
    "Arrived",
    "Bounced",
    "Cancel",
    "Cancel it",
    "ClusterLost",
    "ClusterLost: StartFailed",
    "ClusterReady",
    "ClusterStopped",
    "ClusterWanted",
    "ClusterRanAway",
    "ClusterBurns",
    "DrainWanted",
    "EndPin: ClusterLost",
    "EndPin: DrainEnded",
    "EndPin: Idle",
    "Finished",
    "Finished, pinned",
    "Finished: Failed",
    "Finished: Lost",
    "PlanAdopted",
    "PlanDropped",
    "PolicyAdopted",
    "ModelAdopted",
    "predicted",
    "Recall",
    "Record",
    "Refuse: Cancelled",
    "Refuse: NoCluster",
    "Refuse: NoClusterCouldRun",
    "Refuse: NotItsTurn",
    "Refuse: ShuttingDown",
    "Refuse: WaitedTooLong",
    "Refuse: Full",
    "Refuse: Full, class",
    "Refuse: Full, lane",
    "Refuse: TooLate",
    "Run",
    "ScalingWanted",
    "SessionEnded",
    "ShutdownWanted",
    "Start",
    "Stop",
    "Stop by force",
    "Study",
    "StudyDone",
    "Woke",
    "cancelled",
    "cap: cancelled",
    "cap: cannot be had back",
    "cap: counts as another",
    "cap: had back",
    "failed",
    "finished",
    "lost",
    "plan: came late",
    "plan: start",
    "plan: would start",
    "refused",
    "scaling: MostClusters",
    "scaling: MostPerHour",
    "scaling: NothingBetter",
    "scaling: ReservedClusters",
    "scaling: ReservedPerHour",
    "scaling: Stale",
    "scaling: start another",
    "scaling: start from nothing",
    "scaling: start the best",
    "scaling: start, none idle",
    "scaling: stop, idle",
    "scaling: stop, could not start",
    "scaling: stop, replaced",
    "scaling: study",
    "scaling: would start",
    "scaling: would stop",
];

#[test]
fn a_scenario_is_a_function_of_its_seed() {
    assert_eq!(random(5), random(5));
    assert_ne!(random(5), random(6));
    let digest = |seed| run(&random(seed)).map(|report| report.outcome.digest);
    assert_eq!(digest(5), digest(5));
}
