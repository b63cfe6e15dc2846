//! What classes' terms and lanes mean, in sentences, and where they come to nothing.

use punctual_core::admit::Order;
use punctual_core::admit::lanes::{Lane, Lanes, Limit};
use punctual_core::admit::terms::{Cap, Terms, Then, Thresholds};
use punctual_core::policy::Policy;

use crate::print::counted;
use crate::settings::Settings;

/// On what terms a class's queries are admitted; nothing where all is as usual.
pub(super) fn of_class(terms: &Terms, lanes: &Lanes, order: Order) -> Vec<String> {
    let mut said = Vec::new();
    let (least, most) = terms.may_ask;
    match (terms.priority, least == most && most == terms.priority) {
        (0, true) => {}
        (priority, true) => said.push(format!("priority {priority}")),
        (priority, false) => said.push(format!("priority {priority}; clients may ask for {least} to {most}")),
    }
    let heavy = heavy(terms);
    if !heavy.is_empty() {
        let way = if terms.adjustment < 0 { "more" } else { "less" };
        said.push(format!("priority {} {way} if {}", terms.adjustment.unsigned_abs(), heavy.join(", or ")));
    }
    if let Some(lane) = terms.lane.as_deref().and_then(|name| lanes.named(name)).and_then(|id| lanes.get(id)) {
        said.push(format!("lane {}", lane.name));
    }
    said.extend(terms.max_running.map(|most| format!("at most {} at once", so_many(most, "runs", "run"))));
    said.extend(terms.max_queued.map(waiting));
    said.extend(terms.queue_timeout.map(|most| format!("each waits at most {most}")));
    if terms.refuse_late {
        said.push("one that would be late anyway is refused at once".to_owned());
    }
    said.extend(terms.cap.as_ref().map(capped));
    said.extend(terms.max_memory.map(|most| format!("work_mem {} kB", most / 1_024)));
    if !terms.chosen_by.is_empty() {
        said.push(format!("chosen only by {}", terms.chosen_by.join(", ")));
    }
    if order == Order::Fair && terms.share != 1.0 {
        said.push(format!("its share beside other classes is {}", terms.share));
    }
    said
}

fn heavy(terms: &Terms) -> Vec<String> {
    let limits = &terms.thresholds;
    let work = limits.work.map(punctual_core::time::Span::from_secs_f64);
    let said = [
        limits.period.map(|limit| format!("it reaches further back than {limit}")),
        limits.duration.map(|limit| format!("it covers more than {limit}")),
        limits.segments.map(|limit| format!("it reads more than {}", so_many(limit, "partition", "partitions"))),
        limits.segment_range.map(|limit| format!("its partitions cover more than {limit}")),
        work.map(|limit| format!("it is expected to be more than {limit} of work for one unit")),
        limits.latency.map(|limit| format!("it is expected to take longer than {limit} alone")),
    ];
    said.into_iter().flatten().collect()
}

fn capped(Cap { runtime, then }: &Cap) -> String {
    match then {
        Then::Cancel => format!("one that runs for {runtime} is cancelled"),
        Then::Cascade(to) => format!("one that runs for {runtime} counts as class \"{to}\" from then on"),
        Then::Resubmit(to) => format!("one that runs for {runtime} is sent to another cluster, as class \"{to}\""),
    }
}

/// The lanes, each as a sentence.
pub(super) fn of_lanes(policy: &Policy) -> Vec<String> {
    let lanes = policy.lanes.ids().filter_map(|id| policy.lanes.get(id));
    lanes.map(|lane| format!("Lane {}: {}.", lane.name, of_lane(lane))).collect()
}

fn of_lane(lane: &Lane) -> String {
    let mut said = Vec::new();
    said.extend(lane.limit.map(|limit| format!("at most {} at once", running(limit))));
    let guarantee = lane.guarantee.filter(|limit| !matches!(limit, Limit::Count(0)));
    said.extend(guarantee.map(|limit| match limit {
        Limit::Count(1) => "its queries go first while none runs".to_owned(),
        limit => format!("its queries go first while fewer than {}", running(limit)),
    }));
    said.extend(lane.max_queued.map(waiting));
    said.extend(lane.queue_timeout.map(|most| format!("each waits at most {most}")));
    if said.is_empty() { "no limit".to_owned() } else { said.join(", ") }
}

fn running(limit: Limit) -> String {
    match limit {
        Limit::Count(count) => so_many(count, "runs", "run"),
        Limit::Percent(share) => format!("{share}% of all run"),
    }
}

fn waiting(most: u32) -> String {
    if most == 0 { "none waits".to_owned() } else { format!("at most {}", so_many(most, "waits", "wait")) }
}

/// `1 runs`, `2 run`
pub(super) fn so_many(count: u32, one: &str, many: &str) -> String {
    counted(count.into(), one, many)
}

/// Limits that are never reached, since something else is reached before.
pub(super) fn in_vain(settings: &Settings) -> Vec<String> {
    let policy = &settings.policy;
    let scaled: u32 = policy.scaling.offers.iter().map(|offer| offer.slots).max().unwrap_or(0);
    let slots = settings
        .clusters
        .iter()
        .filter(|cluster| cluster.spec.offer.is_none())
        .fold(scaled.saturating_mul(policy.scaling.most), |sum, cluster| sum.saturating_add(cluster.spec.slots));
    let all = policy.max_running.unwrap_or(slots).min(slots);
    let mut warnings = Vec::new();
    if let Some(most) = policy.max_running.filter(|most| *most > slots && slots > 0) {
        warnings.push(format!(
            "`max_running` is {most} and all clusters together have {}, so it is never reached",
            so_many(slots, "slot", "slots")
        ));
    }
    for lane in policy.lanes.ids().filter_map(|id| policy.lanes.get(id)) {
        if let Some(limit) = lane.limit.filter(|limit| limit.of(all) >= all) {
            warnings.push(format!(
                "lane \"{}\" may have {} of the {} at once: it leaves no room to others",
                lane.name,
                limit.of(all),
                so_many(all, "query that may run", "queries that may run")
            ));
        }
    }
    for class in &policy.classes {
        if let Some(most) = class.terms.max_running.filter(|most| *most >= all && all > 0) {
            let name = &class.name;
            warnings.push(format!(
                "class \"{name}\" may run {} and {all} may run in all: it leaves no room to others",
                so_many(most, "query", "queries")
            ));
        }
        if class.terms.max_running == Some(0) {
            warnings.push(format!("class \"{}\" may run no query at all", class.name));
        }
    }
    warnings.extend(thresholds_in_vain(settings));
    warnings
}

/// Thresholds that nothing can trip.
fn thresholds_in_vain(settings: &Settings) -> Vec<String> {
    let limits = || settings.policy.classes.iter().map(|class| &class.terms.thresholds);
    let mut warnings = Vec::new();
    if limits().any(|limits| limits.predict()) && !settings.prediction.model.exists() {
        warnings.push("`work_threshold` and `latency_threshold` say nothing while there is no model".to_owned());
    }
    let tables = &settings.time_tables;
    if tables.is_empty() && limits().any(Thresholds::read_time) {
        warnings.push("thresholds of what a query reads say nothing without a [[table]]".to_owned());
    } else if tables.iter().all(|table| table.segment.is_none()) && limits().any(Thresholds::read_segments) {
        warnings.push(
            "`segment_count_threshold` and `segment_range_threshold` say nothing while no [[table]] has a `segment`"
                .to_owned(),
        );
    }
    warnings
}
