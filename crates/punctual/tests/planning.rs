//! A gateway follows a plan through a day of seconds: clusters start at their times, knobs turn and turn back, and the journal
//! replays.

mod served;

use std::process::Output;
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_core::id::{PlanId, Units};
use punctual_core::plan::{Knobs, Plan, Spinup};
use punctual_core::time::{Span, Time};
use serde_json::{Value, json};
use served::{Served, journal_of, punctual, write_secret};

/// Clusters of two sizes that start in half a second, and one that is there.
const FLEET: &str = r#"
[policy]
routing = "slo"

[plan]
mode = "on"

[[cluster]]
name = "kept"
kind = "simulated"
size = 4
time_scale = 60

[[cluster]]
name = "small"
kind = "simulated"
size = 4
time_scale = 60
start_takes = "30s"
keep = "scaled"

[[cluster]]
name = "large"
kind = "simulated"
size = 8
time_scale = 60
start_takes = "30s"
keep = "scaled"

[scaling]
mode = "on"
trigger = "none"
idle = "1h"
lifetime = "1h"
start_takes = "1s"
most = 4
"#;

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Time::from_micros(since.as_micros() as u64)
}

/// The rules that are in force, as they are in the configuration.
fn rules(served: &Served) -> punctual_core::Policy {
    let file = served.dir.path().join("punctual.toml");
    let text = std::fs::read_to_string(&file).expect("the configuration");
    punctual::config::parse(&text, &file).expect("a right one").policy
}

/// A day that begins in so many seconds.
fn plan(served: &Served, begins: u64, lasts: u64, starts: &[(u64, u32)]) -> Plan {
    let rules = rules(served);
    let from = now() + Span::from_secs(begins);
    Plan {
        id: PlanId(0),
        from,
        until: from + Span::from_secs(lasts),
        fleet: vec![Units(4)],
        spinups: starts.iter().map(|(at, size)| Spinup { at: Span::from_secs(*at), size: Units(*size) }).collect(),
        knobs: Knobs { idle: Span::ZERO, lifetime: Span::ZERO, ..Knobs::of(&rules) },
        made_for: rules.ground(),
    }
}

fn file(plan: &Plan) -> String {
    json!({ "format": 1, "plan": plan, "evidence": "none" }).to_string()
}

fn apply(served: &Served, text: &str) -> Output {
    let path = served.dir.path().join("plan.json");
    std::fs::write(&path, text).expect("a file");
    let url = format!("http://{}", served.http);
    punctual().args(["plan", "apply"]).arg(path).args(["--url", &url]).output().expect("it runs")
}

fn rows(served: &Served, table: &str) -> Vec<Value> {
    let (status, body) = served.get(&format!("/v1/{table}"));
    assert_eq!(status, 200, "{body}");
    let mut value: Value = serde_json::from_str(&body).expect("JSON");
    serde_json::from_value(value[table].take()).expect("rows")
}

/// Waits until it is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !so() {
        assert!(began.elapsed().as_secs() < 60, "it never was so: {what}");
        std::thread::yield_now();
    }
}

fn planning(served: &Served) -> Value {
    rows(served, "controllers").into_iter().find(|row| row["controller"] == "planning").expect("a row")
}

#[test]
fn a_gateway_follows_a_plan_through_its_day() {
    let served = Served::start(FLEET);
    served.wait_ready();
    let text = file(&plan(&served, 5, 8, &[(2, 8)]));
    let done = apply(&served, &text);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stdout).ends_with("is followed.\n"));
    // Once more: it is followed already.
    let again = apply(&served, &text);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("(409): it is followed already"));
    assert_eq!(planning(&served)["mode"], "on");
    until("the knobs turn", || planning(&served)["acts"].as_str().is_some_and(|plan| plan.starts_with("plan ")));
    let mut seen = Vec::new();
    until("both have started", || {
        // What was refused is shown beside what is followed.
        seen = rows(&served, "plan").into_iter().filter(|row| row["in_force"] == true).collect();
        seen.len() == 2 && seen.iter().all(|row| row["state"] == "started")
    });
    assert_eq!(
        (&seen[0]["size"], &seen[0]["fleet"], &seen[0]["cluster"]),
        (&json!(4), &json!(true), &json!("small-1"))
    );
    assert_eq!(
        (&seen[1]["size"], &seen[1]["fleet"], &seen[1]["cluster"]),
        (&json!(8), &json!(false), &json!("large-2"))
    );
    // The day's knobs have what is idle stopped at once; those of before would in an hour.
    until("the day is over", || planning(&served)["acts"].is_null());
    until("it is said", || rows(&served, "plan").iter().any(|row| row["reason"] == "its day is over"));
    let decided = rows(&served, "scaling");
    let starts: Vec<&Value> =
        decided.iter().filter(|row| row["decision"].as_str().unwrap().starts_with("start")).collect();
    assert_eq!(starts.len(), 2, "{decided:?}");
    assert!(starts.iter().all(|row| row["reason"].as_str().unwrap().contains("has it now")), "{starts:?}");
    assert!(decided.iter().any(|row| row["decision"] == "stop cluster 1"), "{decided:?}");
    let (status, log, dir) = served.stop();
    assert!(status.success(), "{log}");
    let replay = punctual().args(["replay", "--format", "json"]).arg(journal_of(dir.path())).output().expect("it runs");
    let replay: Value = serde_json::from_slice(&replay.stdout).expect("JSON");
    assert_eq!(replay["agrees"], true, "{replay}");
}

#[test]
fn what_is_refused_says_why_and_a_plan_can_be_taken_back() {
    let served = Served::start(FLEET);
    let good = plan(&served, 3_600, 7_200, &[]);
    let says = |plan: &Plan| {
        let (status, body) = served.post("/v1/plan", &file(plan));
        (status, serde_json::from_str::<Value>(&body).expect("JSON")["error"].as_str().unwrap_or_default().to_owned())
    };
    let (status, why) = says(&Plan { made_for: 1, ..good.clone() });
    assert_eq!((status, why.contains("made for another policy")), (409, true), "{why}");
    let (status, why) = says(&Plan { fleet: vec![Units(5)], ..good.clone() });
    assert_eq!((status, why.as_str()), (409, "no elastic cluster has its size 5"));
    assert_eq!(served.post("/v1/plan", "{}").0, 400);
    assert_eq!(says(&good), (200, String::new()));
    assert_eq!(rows(&served, "plan")[0]["state"], "waiting");
    let drop = || served.delete("/v1/plan").0;
    assert_eq!((drop(), drop()), (200, 404));
    assert_eq!(rows(&served, "plan")[0]["reason"], "it was taken back");
}

#[test]
fn plans_are_for_administrators() {
    let dir = tempfile::tempdir().expect("a directory");
    write_secret(&dir.path().join("tokens"), "0123456789abcdef01234567\nfedcba9876543210fedcba98 *\n");
    for (name, token) in [("none", "0123456789abcdef01234567"), ("all", "fedcba9876543210fedcba98")] {
        write_secret(&dir.path().join(name), token);
    }
    let served = Served::start_in(dir, &format!("http_tokens_file = \"tokens\"\n{FLEET}"));
    let path = served.dir.path().join("plan.json");
    std::fs::write(&path, file(&plan(&served, 3_600, 7_200, &[]))).expect("a file");
    let apply = |token: &str| {
        let mut command = punctual();
        command.args(["plan", "apply"]).arg(&path).args(["--url", &format!("http://{}", served.http)]);
        let output = command.arg("--token-file").arg(served.dir.path().join(token)).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = apply("none");
    assert_eq!((code, said.contains("(403): only an administrator")), (Some(1), true), "{said}");
    assert_eq!(apply("all").0, Some(0));
}
