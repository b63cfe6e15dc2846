//! On what terms queries are admitted: what a `[[class]]` says of that, `[lanes]` and `[[lane]]`.

use std::collections::BTreeSet;

use punctual_core::admit::gradient::Adaptive;
use punctual_core::admit::lanes::{Lane, Lanes};
use punctual_core::admit::terms::{Cap, Quota, Terms, Then, Thresholds, Weight};
use punctual_core::class::Class;

use super::section::Section;

/// Lanes that a file may define. Each is looked at in every decision.
const MAX_LANES: usize = 64;

/// On what terms the queries of a class are admitted.
pub(super) fn terms(class: &Section<'_>) -> Terms {
    let priority = class.whole("priority");
    let bound = |key| if class.has(key) { class.whole(key) } else { priority };
    let may_ask = (bound("priority_from"), bound("priority_to"));
    if may_ask.0 > may_ask.1 {
        class.complain(
            if class.has("priority_from") { "priority_from" } else { "priority_to" },
            format!("the lowest priority, {}, is above the highest, {}", may_ask.0, may_ask.1),
            "write `priority_from` no higher than `priority_to`",
        );
    }
    Terms {
        priority,
        may_ask,
        thresholds: thresholds(class),
        adjustment: class.whole("adjustment"),
        lane: class.text("lane"),
        share: class.number("share").unwrap_or(1.0),
        weight: weight(class),
        max_running: class.has("max_running").then(|| class.count32("max_running")),
        max_queued: class.has("max_queued").then(|| class.count32("max_queued")),
        queue_timeout: class.span("queue_timeout"),
        refuse_late: class.choice("refuse_late") == Some("yes"),
        cap: cap(class),
        max_memory: class.has("max_query_memory").then(|| class.bytes("max_query_memory")),
        violation_target: class.number("violation_target"),
        ..Terms::default()
    }
}

fn thresholds(class: &Section<'_>) -> Thresholds {
    let segments = "segment_count_threshold";
    Thresholds {
        period: class.span("period_threshold"),
        duration: class.span("duration_threshold"),
        segments: class.has(segments).then(|| class.count32(segments)),
        segment_range: class.span("segment_range_threshold"),
        work: class.span("work_threshold").map(|work| work.secs_f64()),
        latency: class.span("latency_threshold"),
    }
}

fn weight(class: &Section<'_>) -> Weight {
    let part = |key| class.number(key).unwrap_or_default();
    let quota = match (class.span("quota"), class.span("quota_per")) {
        (Some(work), Some(per)) => Some(Quota { work: work.secs_f64(), per }),
        (Some(_), None) => {
            class.complain("quota", "it does not say in what time", "write `quota_per`, too, as in \"1h\"");
            None
        }
        (None, Some(_)) => {
            class.complain("quota_per", "it does not say how much", "write `quota`, too, as in \"10m\"");
            None
        }
        (None, None) => None,
    };
    Weight {
        constant: class.number("weight").unwrap_or(1.0),
        priority_doubles: part("priority_doubles"),
        work: part("work_weight"),
        load: part("load_weight"),
        cached: part("cached_weight"),
        used: part("use_weight"),
        quota,
    }
}

fn cap(class: &Section<'_>) -> Option<Cap> {
    let (runtime, on_cap, to) = (class.span("runtime_cap"), class.choice("on_cap"), class.text("cascade_to"));
    let Some(runtime) = runtime else {
        for key in ["on_cap", "cascade_to"] {
            if class.has(key) {
                class.complain(
                    key,
                    "it says nothing without `runtime_cap`",
                    "write how long a query may run, or leave it out",
                );
            }
        }
        return None;
    };
    let then = match (on_cap, to) {
        (Some("cascade"), Some(to)) => Then::Cascade(to),
        (Some("resubmit"), Some(to)) => Then::Resubmit(to),
        (Some("cascade" | "resubmit"), None) => {
            class.complain("on_cap", "it does not say to which class", "write `cascade_to`, too");
            Then::Cancel
        }
        (_, Some(_)) => {
            class.complain(
                "cascade_to",
                "the class cancels what runs too long",
                "write `on_cap = \"cascade\"`, or leave it out",
            );
            Then::Cancel
        }
        (_, None) => Then::Cancel,
    };
    Some(Cap { runtime, then })
}

/// True if what comes to a class never comes to one that it does not leave.
fn goes_in_a_circle(from: &str, classes: &[Class]) -> bool {
    let next = |name: &str| {
        let cap = classes.iter().find(|class| class.name == name)?.terms.cap.as_ref()?;
        match &cap.then {
            Then::Cancel => None,
            Then::Cascade(to) | Then::Resubmit(to) => Some(to.as_str()),
        }
    };
    let mut at = Some(from);
    for _ in classes {
        at = at.and_then(next);
    }
    at.is_some()
}

/// Says what a class refers to that is not there.
pub(super) fn check(sections: &[Section<'_>], classes: &[Class], lanes: &Lanes, by_name: bool) {
    for section in sections {
        let Some(to) = section.text("cascade_to") else { continue };
        if !classes.iter().any(|class| class.name == to) || to == "control" {
            section.complain(
                "cascade_to",
                format!("there is no class \"{to}\" to go to"),
                "write the name of a [[class]]",
            );
        } else if section.text("name").as_deref() == Some(to.as_str()) {
            section.complain("cascade_to", "it is the class itself", "write the name of a slower one");
        } else if goes_in_a_circle(&to, classes) {
            section.complain(
                "cascade_to",
                format!("from \"{to}\" queries would go in a circle, and no cap would end them"),
                "let the slowest class go nowhere",
            );
        }
    }
    for section in sections {
        let Some(lane) = section.text("lane") else { continue };
        if !by_name {
            section.complain(
                "lane",
                "lanes have no names here",
                "write `strategy = \"manual\"` in [lanes], or leave it out",
            );
        } else if lanes.named(&lane).is_none() {
            section.complain("lane", format!("there is no lane \"{lane}\""), "write a [[lane]] of that name");
        }
    }
}

/// The lanes, and whether classes name theirs.
pub(super) fn lanes(section: &Section<'_>, written: &[Section<'_>]) -> (Lanes, bool) {
    let strategy = section.choice("strategy").unwrap_or("none");
    let percent = section.number("max_low_percent");
    if strategy == "hilo" && percent.is_none() {
        section.complain("strategy", "it does not say how much the low lane may have", "write `max_low_percent`, too");
    } else if strategy != "hilo" && section.has("max_low_percent") {
        section.complain("max_low_percent", "there is no low lane", "write `strategy = \"hilo\"`, or leave it out");
    }
    if strategy != "manual" {
        for lane in written {
            lane.complain_of_all(
                "lanes have no names here",
                "write `strategy = \"manual\"` in [lanes], or leave it out",
            );
        }
    }
    match strategy {
        "hilo" => (Lanes::hilo(percent.unwrap_or(100.0)), false),
        "manual" => (Lanes::manual(named(written)), true),
        _ => (Lanes::none(), false),
    }
}

fn named(sections: &[Section<'_>]) -> Vec<Lane> {
    let (mut lanes, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, section) in sections.iter().enumerate() {
        if index == MAX_LANES {
            section.complain_of_all(format!("there are more than {MAX_LANES} lanes"), "join some of them");
        }
        let Some(name) = section.text("name") else { continue };
        if name == "total" || name == "default" {
            section.complain(
                "name",
                format!("\"{name}\" is taken: it means all queries, or those without a lane"),
                "give it another name",
            );
        } else if !seen.insert(name.clone()) {
            section.complain(
                "name",
                format!("there is a lane \"{name}\" already"),
                "give one of them another name, or join them",
            );
        }
        lanes.push(Lane {
            name,
            limit: section.limit("limit"),
            guarantee: section.limit("guarantee"),
            max_queued: section.has("max_queued").then(|| section.count32("max_queued")),
            queue_timeout: section.span("queue_timeout"),
        });
    }
    lanes
}

/// How a limit follows latency, if it does.
pub(super) fn adaptive(policy: &Section<'_>) -> Option<Adaptive> {
    let (least, tolerance) = (policy.count32("adaptive_least"), policy.number("adaptive_tolerance"));
    let usual = Adaptive::default();
    (policy.choice("adaptive") == Some("on"))
        .then_some(Adaptive { least, tolerance: tolerance.unwrap_or(usual.tolerance) })
}

#[cfg(test)]
mod tests;
