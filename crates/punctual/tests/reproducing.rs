//! `punctual reproduce router | spinup-size | trigger`: the form of what it says, and that its changes follow from its figures.
//!
//! `laning` and `fairness` likewise.
//!
//! Only a token of the experiments is run, so the figures themselves mean nothing here.

mod served;

use serde_json::{Value, json};
use served::punctual;

const SEEDS: usize = 2;

fn reproduce(table: &str) -> Value {
    let mut command = punctual();
    command.args(["reproduce", table, "--token", "--seeds", &SEEDS.to_string(), "--format", "json"]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A little of what lanes and turns are worth: whether the bounds hold is for longer runs to say.
#[test]
fn lanes_and_turns_are_held_against_each_other_with_intervals() {
    let run = |what: &str| -> Value {
        let mut command = punctual();
        command.args(["reproduce", what, "--seeds", "2", "--minutes", "10", "--format", "json"]);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let laning = run("laning");
    let policies: Vec<&str> =
        laning["rows"].as_array().expect("rows").iter().filter_map(|row| row["policy"].as_str()).collect();
    assert_eq!(policies, ["light_only", "none", "priority", "thresholds", "fair", "hilo", "manual"]);
    for row in laning["rows"].as_array().expect("rows") {
        assert!(number(&row["light_p95_s"]) > 0.0 && number(&row["light_p95_s_ci95"]) >= 0.0, "{row}");
        assert!((0.0..=1.0).contains(&number(&row["light_violation_rate"])), "{row}");
        let with_heavy = row["policy"] != "light_only";
        assert_eq!(number(&row["heavy_throughput"]) > 0.0, with_heavy, "{row}");
        assert_eq!(row["heavy_share_of_lane"].is_number(), with_heavy, "{row}");
    }
    assert!(laning["bounds"].as_array().is_some_and(|bounds| bounds.iter().all(|bound| bound["holds"].is_boolean())));
    let fairness = run("fairness");
    let of = |key: &str| -> Vec<&str> {
        fairness["rows"].as_array().expect("rows").iter().filter_map(|row| row[key].as_str()).collect()
    };
    assert_eq!(of("policy"), ["fifo", "fair", "fifo", "fair"]);
    assert_eq!(of("load"), ["backlog", "backlog", "steady", "steady"]);
    for row in fairness["rows"].as_array().expect("rows") {
        assert!(number(&row["share_least"]) <= number(&row["share"]), "{row}");
        assert!(number(&row["flood_refused"]) > 0.5, "{row}");
    }
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is no number"))
}

/// Rows of one policy, in the order of scenarios.
fn rows<'a>(table: &'a Value, policy: &'a str) -> impl Iterator<Item = &'a Value> {
    let rows = table["rows"].as_array().expect("rows");
    rows.iter().filter(move |row| row["policy"] == policy)
}

/// Every policy in eight scenarios with absolute figures, and changes against the first that follow from them.
fn is_sound(table: &Value, policies: &[&str], clusters: [Value; 2]) {
    let sound = |row: &Value| {
        let (rate, half) = (number(&row["violation_rate"]), number(&row["violation_rate_ci95"]));
        let cost = number(&row["cost"]) > 0.0 && number(&row["cost_ci95"]) >= 0.0;
        let started = row["started"].as_array().is_some_and(|started| started.len() == SEEDS);
        (0.0..=1.0).contains(&rate) && half >= 0.0 && cost && started
    };
    for policy in policies {
        let of: Vec<&Value> = rows(table, policy).collect();
        assert!(of.len() == 8 && of.iter().all(|row| sound(row)), "{policy}: {of:?}");
        let settings: Vec<_> = of.iter().map(|row| (number(&row["lambda"]), number(&row["kappa"]))).collect();
        let of_each = |two: [(f64, f64); 4]| two.into_iter().flat_map(|one| [one, one]).collect::<Vec<_>>();
        assert_eq!(settings, of_each([(0.1, 4.0), (0.1, 2.0), (0.2, 4.0), (0.2, 2.0)]));
        assert!(of.iter().zip(clusters.iter().cycle()).all(|(row, clusters)| row["clusters"] == *clusters));
    }
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(8 * policies.len()));
    let mean = table["mean"].as_object().expect("changes");
    let mut others = policies[1..].to_vec();
    others.sort_unstable();
    assert!(mean.keys().map(String::as_str).eq(others), "{mean:?}");
    for (policy, change) in mean {
        // Where the first violates nothing, it counts as one query of all.
        let follows = |key: &str, least: f64| {
            let pairs = rows(table, policy).zip(rows(table, policies[0]));
            let changes = pairs.map(|(row, first)| number(&row[key]) / number(&first[key]).max(least) - 1.0);
            (changes.sum::<f64>() / 8.0 - number(&change[key])).abs() < 1e-9
        };
        // All of 33 queries count, or the last fifth.
        let least = if table["study"] == "spinup-size" { 1.0 / 6.0 } else { 1.0 / 33.0 };
        assert!(follows("violation_rate", least), "{policy}: {change}");
        assert!(follows("cost", 0.0), "{policy}: {change}");
        assert!(number(&change["violation_rate_ci95"]) >= 0.0 && number(&change["cost_ci95"]) >= 0.0);
        assert!(change["published_violation_rate"].as_f64() < Some(0.0));
    }
}

#[test]
fn tables_of_policies_have_absolute_figures_and_changes_that_follow_from_them() {
    let all = reproduce("all");
    is_sound(&all["router"], &["round_robin", "slo_stage", "slo"], [json!([16, 16]), json!([32, 16])]);
    // Where they ran: all on the clusters that there are, in turn as near as 33 queries can be.
    for row in all["router"]["rows"].as_array().expect("rows") {
        let shares: Vec<f64> = row["shares"].as_array().expect("shares").iter().map(number).collect();
        assert!(shares.len() == 2 && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{row}");
        assert!(row["policy"] != "round_robin" || (shares[0] - 17.0 / 33.0).abs() < 1e-9, "{row}");
    }
    let one = [json!([8]), json!([16])];
    is_sound(&all["spinup-size"], &["none", "horizontal", "vertical", "add_cluster"], one.clone());
    is_sound(&all["trigger"], &["none", "queue_depth", "observed", "combined"], one);
}

/// Ours first, then the rivals, then ours without parts.
const END_TO_END: [&str; 8] = [
    "punctual",
    "single-64",
    "round-robin-32-32",
    "queueing-balanced",
    "queueing-fast",
    "without-autoscaler",
    "without-concurrency",
    "without-tuner",
];

#[test]
fn planned_days_are_held_against_rivals_and_promises_against_what_came() {
    let found = reproduce("end-to-end");
    let scenarios = found["scenarios"].as_array().expect("scenarios");
    let settings: Vec<_> = scenarios.iter().map(|one| (one["day"].as_str(), number(&one["kappa"]))).collect();
    let (first, second) = (Some("first"), Some("second"));
    assert_eq!(settings, [(first, 4.0), (first, 2.0), (second, 4.0), (second, 2.0)]);
    let mut relative = Vec::new();
    for scenario in scenarios {
        let policies = scenario["policies"].as_array().expect("policies");
        assert!(policies.iter().map(|one| one["policy"].as_str()).eq(END_TO_END.map(Some)), "{scenario}");
        let rivals = &policies[1..5];
        // Of those that meet the target the cheapest, else the one that comes nearest.
        let key = |one: &&Value| ((number(&one["violation_rate"]) - 0.1).max(0.0), number(&one["cost"]));
        let next = rivals.iter().min_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers")).expect("rivals");
        assert_eq!(scenario["next_best"], next["policy"]);
        let against = number(&policies[0]["cost"]) / number(&next["cost"]) - 1.0;
        assert!((number(&scenario["cost_against_next_best"]) - against).abs() < 1e-9, "{scenario}");
        relative.push(against);
        for plan in scenario["plans"].as_array().expect("plans") {
            for (place, what) in ["violation_rate", "cost"].into_iter().enumerate() {
                let (promised, came) = (&plan["promise"][what], number(&plan["lived"][what]));
                let within = (number(&promised["low"])..=number(&promised["high"])).contains(&came);
                assert_eq!(plan["within"][place], within, "{plan}");
            }
        }
        assert_eq!(scenario["plans"].as_array().map(Vec::len), Some(SEEDS));
    }
    let mean = relative.iter().sum::<f64>() / 4.0;
    assert!((number(&found["mean_cost_against_next_best"]) - mean).abs() < 1e-9);
}

#[test]
fn days_of_history_are_held_against_none() {
    let found = reproduce("tuner");
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 16);
    for (history, change) in found["mean"].as_object().expect("changes") {
        let days: u64 = history.parse().expect("days");
        let of = |days: u64| rows.iter().filter(move |row| row["history_days"] == days);
        let costs =
            of(days).zip(of(0)).map(|(row, none)| number(&row["cost"]["mean"]) / number(&none["cost"]["mean"]) - 1.0);
        assert!((number(&change["cost"]) - costs.sum::<f64>() / 4.0).abs() < 1e-9, "{history}: {change}");
        assert!(of(days).all(|row| row["plans"].as_array().map(Vec::len) == Some(if days == 0 { 0 } else { SEEDS })));
    }
    assert_eq!(found["mean"].as_object().map(|mean| mean.len()), Some(3));
}
