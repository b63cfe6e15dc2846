//! What Prometheus reads: counts that the driver adds to as things end, and gauges taken from a snapshot at each scrape.
//!
//! Gauges are not kept: a scrape asks the driver what it knows and shows that, so that a cluster that is gone leaves
//! no series behind and nothing has to be kept in step. The names are documented in `docs/metrics.md`; a test holds
//! the two together.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::prometheus_text::{CONTENT_TYPE, encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use punctual_core::cluster::Phase;
use punctual_core::query::Ended;
use punctual_core::scale::burn::Rates;
use punctual_core::view::{ClusterView, RoutingView};

use crate::link::Snapshot;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = CONTENT_TYPE;

type Labels<const N: usize> = [(&'static str, String); N];
type ByClass = Family<Labels<1>, Counter>;
type Seconds = Family<Labels<1>, Histogram>;

/// Counts of one gateway since it started. Adding to them never waits for the driver or a client; a scrape holds it up for
/// no longer than numbers take to be copied.
pub struct Metrics {
    registry: Registry,
    queries: Family<Labels<2>, Counter>,
    latency: Seconds,
    counted: ByClass,
    violated: ByClass,
    rows: Counter,
    bytes: Counter,
    blocked: Counter<f64, AtomicU64>,
    retried: Counter,
    clusters: ByClass,
    decisions: Histogram,
    trainings: ByClass,
    day_plans: ByClass,
    plans: ByClass,
    logins: ByClass,
    history_dropped: Counter,
    journal_dropped: Counter,
    clock_behind: Gauge<f64, AtomicU64>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All counts at zero.
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("punctual");
        let add = &mut registry;
        Metrics {
            queries: kept(add, "queries", "Queries that ended, by class and by how", Family::default()),
            latency: kept(
                add,
                "query_latency_seconds",
                "Time from a query's arrival to its end, its wait for a cluster included and for its client not, by class",
                // 1 ms, doubling, to 9 hours: an SLO lies within a factor of two of a bound.
                Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 26))),
            ),
            counted: kept(
                add,
                "slo_queries",
                "Ended queries that had an SLO and were not cancelled, by class",
                Family::default(),
            ),
            violated: kept(add, "slo_violations", "Those of them that missed it, by class", Family::default()),
            rows: kept(add, "result_rows", "Rows sent to clients", Counter::default()),
            bytes: kept(add, "result_bytes", "Bytes of results sent to clients", Counter::default()),
            blocked: kept(
                add,
                "blocked_seconds",
                "Time for which results waited for clients to take them, which is no part of latencies",
                Counter::default(),
            ),
            retried: kept(
                add,
                "queries_retried",
                "Queries that were lost with their cluster and tried on another",
                Counter::default(),
            ),
            clusters: kept(
                add,
                "cluster_events",
                "What happened to clusters: started, ready, stopped, lost (starts that failed included)",
                Family::default(),
            ),
            decisions: kept(
                add,
                "decision_seconds",
                "Time that the dispatcher took for one event",
                // 1 µs, doubling, to 0.5 s.
                Histogram::new(exponential_buckets(1e-6, 2.0, 20)),
            ),
            plans: kept(add, "plans", "EXPLAINs asked for to predict from, by outcome: had, failed", Family::default()),
            logins: kept(
                add,
                "logins",
                "Log-ins, by outcome: accepted, failed (no proof), barred (too many from there had failed), late",
                Family::default(),
            ),
            trainings: kept(
                add,
                "model_trainings",
                "Models learnt while the gateway ran, by outcome: adopted, kept (the one in force), failed",
                Family::default(),
            ),
            day_plans: kept(
                add,
                "day_plans",
                "Days that were to be planned while the gateway ran, by outcome: adopted, refused, failed (there is no plan)",
                Family::default(),
            ),
            history_dropped: kept(
                add,
                "history_dropped",
                "Ended queries that could not be recorded",
                Counter::default(),
            ),
            journal_dropped: kept(add, "journal_dropped", "Events that could not be recorded", Counter::default()),
            clock_behind: kept(
                add,
                "clock_behind_seconds",
                "How far the machine's clock is ahead of the one that decisions and records go by: it was set since the start",
                Gauge::default(),
            ),
            registry,
        }
    }

    /// A query of this class ended.
    pub fn ended(&self, ended: &Ended, class: &str) {
        let class = ("class", class.to_owned());
        self.queries.get_or_create(&[class.clone(), ("status", ended.status.name().to_owned())]).inc();
        let class = [class];
        self.latency.get_or_create(&class).observe(ended.latency().secs_f64());
        if let Some(violated) = ended.violated {
            self.counted.get_or_create(&class).inc();
            self.violated.get_or_create(&class).inc_by(u64::from(violated));
        }
        self.rows.inc_by(ended.rows);
        self.bytes.inc_by(ended.bytes);
        self.blocked.inc_by(ended.blocked.secs_f64());
    }

    /// A query was lost and is tried on another cluster.
    pub fn retried(&self) {
        self.retried.inc();
    }

    /// Something happened to a cluster: `started`, `ready`, `stopped`, `lost`.
    pub fn cluster(&self, event: &str) {
        self.clusters.get_or_create(&[("event", event.to_owned())]).inc();
    }

    /// A query's plan was asked for: `had`, `failed`.
    pub fn explained(&self, outcome: &str) {
        self.plans.get_or_create(&[("outcome", outcome.to_owned())]).inc();
    }

    /// A client logged in, or tried to: `accepted`, `failed`, `barred`, `late`.
    pub fn logged_in(&self, outcome: &str) {
        self.logins.get_or_create(&[("outcome", outcome.to_owned())]).inc();
    }

    /// A model was learnt, or was to be: `adopted`, `kept` (the one in force), `failed`.
    pub fn trained(&self, outcome: &str) {
        self.trainings.get_or_create(&[("outcome", outcome.to_owned())]).inc();
    }

    /// A day was planned, or was to be: `adopted`, `refused`, `failed`.
    pub fn planned(&self, outcome: &str) {
        self.day_plans.get_or_create(&[("outcome", outcome.to_owned())]).inc();
    }

    /// The dispatcher handled an event in this time.
    pub fn decision_took(&self, time: Duration) {
        self.decisions.observe(time.as_secs_f64());
    }

    /// So many more ended queries could not be recorded.
    pub fn dropped_history(&self, more: u64) {
        self.history_dropped.inc_by(more);
    }

    /// So many more events could not be recorded.
    pub fn dropped_journal(&self, more: u64) {
        self.journal_dropped.inc_by(more);
    }

    /// The machine's clock is so many seconds ahead of the gateway's.
    pub fn clock_behind(&self, seconds: f64) {
        self.clock_behind.set(seconds);
    }

    /// Everything in Prometheus's text format. Without a snapshot (the driver does not answer) only the counts, and
    /// `punctual_up 0`.
    pub fn text(&self, snapshot: Option<&Snapshot>) -> String {
        let mut text = String::new();
        let mut now = Registry::with_prefix("punctual");
        kept(&mut now, "up", "1 if the driver answers", gauge(u64::from(snapshot.is_some())));
        if let Some(snapshot) = snapshot {
            of_gateway(&mut now, snapshot);
            of_model(&mut now, snapshot);
            of_trial(&mut now, snapshot);
            of_budget(&mut now, snapshot);
            of_classes(&mut now, snapshot);
            of_lanes(&mut now, snapshot);
            of_clusters(&mut now, snapshot);
        }
        for registry in [&self.registry, &now] {
            // Writing to a String does not fail.
            let _ = encode(&mut text, registry);
        }
        text
    }
}

fn of_gateway(registry: &mut Registry, snapshot: &Snapshot) {
    let view = &snapshot.view;
    kept(registry, "sessions", "Clients that are connected", gauge(snapshot.sessions.into()));
    kept(
        registry,
        "queries_waiting",
        "Queries that wait, those of class control not counted",
        gauge(view.waiting.into()),
    );
    kept(registry, "cost_dollars", "Dollars spent by all clusters, gone ones included", dollars(view.cost));
    kept(
        registry,
        "senseless_events",
        "Events that made no sense when they came: late or unknown",
        count(view.senseless),
    );
    kept(registry, "broken_invariants", "Invariants that were found broken", count(snapshot.broken));
    kept(registry, "degraded", "1 while the fallback decides", gauge(snapshot.degraded.into()));
    kept(registry, "shutting_down", "1 while no new queries are taken", gauge(view.shutting_down.into()));
}

/// How fast the violation budget burns; no series for a window in which nothing was counted.
fn of_budget(registry: &mut Registry, snapshot: &Snapshot) {
    let burn = kept(
        registry,
        "violation_burn",
        "The violation rate lately over the one that is allowed, by window; above 1 the budget does not last",
        Family::<Labels<1>, Gauge<f64, AtomicU64>>::default(),
    );
    let Rates { short, long } = snapshot.view.burn;
    for (window, rate) in [("5m", short), ("1h", long)] {
        if let Some(rate) = rate {
            burn.get_or_create(&[("window", window.to_owned())]).set(rate);
        }
    }
}

/// How predictions did on the last queries that finished; no series while that is not known.
fn of_model(registry: &mut Registry, snapshot: &Snapshot) {
    let view = &snapshot.view;
    kept(registry, "model", "1 while a model predicts latencies", gauge(u64::from(view.model.is_some())));
    kept(registry, "models_failed", "Models given up because following them failed", count(view.models_failed));
    let q_error = kept(
        registry,
        "prediction_q_error",
        "How far off predicted medians were lately, as a factor, by quantile",
        Family::<Labels<1>, Gauge<f64, AtomicU64>>::default(),
    );
    let mut plain = |name, help| kept(registry, name, help, Family::<Labels<0>, Gauge<f64, AtomicU64>>::default());
    let coverage = plain("prediction_coverage_p90", "The share that ended below the predicted 90 % quantile lately");
    let bias = plain("prediction_bias", "Latency by predicted median lately, in the median");
    let drift = plain("prediction_drift", "1 if the world has drifted away from the model");
    if let Some(lately) = view.model.and_then(|model| model.lately) {
        q_error.get_or_create(&[("quantile", "0.5".to_owned())]).set(lately.q_error_p50);
        q_error.get_or_create(&[("quantile", "0.9".to_owned())]).set(lately.q_error_p90);
        coverage.get_or_create(&[]).set(lately.coverage_p90);
        bias.get_or_create(&[]).set(lately.bias);
        drift.get_or_create(&[]).set(f64::from(u8::from(lately.drifted)));
    }
}

/// What the routing policy that watches would have done; no series if none does.
fn of_trial(registry: &mut Registry, snapshot: &Snapshot) {
    let mut plain = |name, help| kept(registry, name, help, Family::<Labels<0>, Gauge<f64, AtomicU64>>::default());
    let decisions = plain("trial_decisions", "Decisions of the routing policy that watches, since its trial began");
    let elsewhere = plain("trial_elsewhere", "Those of them that would have sent a query elsewhere");
    let violations = plain(
        "trial_regret_violations",
        "SLO violations more that were expected of what was done than of what it would have done",
    );
    let cost = plain("trial_regret_dollars", "Dollars more that were expected of what was done; negative: less");
    let RoutingView { mode, verdicts, .. } = snapshot.view.routing;
    if mode.watches() {
        decisions.get_or_create(&[]).set(verdicts.decisions as f64);
        elsewhere.get_or_create(&[]).set(verdicts.elsewhere as f64);
        violations.get_or_create(&[]).set(verdicts.regret.violations);
        cost.get_or_create(&[]).set(verdicts.regret.cost);
    }
}

fn of_classes(registry: &mut Registry, snapshot: &Snapshot) {
    let waiting = kept(registry, "class_waiting", "Queries that wait, by class", Family::<Labels<1>, Gauge>::default());
    let running = kept(registry, "class_running", "Queries that run, by class", Family::<Labels<1>, Gauge>::default());
    let slo = kept(
        registry,
        "class_slo_seconds",
        "When queries of a class are late; no series where they never are",
        Family::<Labels<1>, Gauge<f64, AtomicU64>>::default(),
    );
    for class in &snapshot.view.classes {
        let labels = [("class", class.name.clone())];
        waiting.get_or_create(&labels).set(class.waiting.into());
        running.get_or_create(&labels).set(class.running.into());
        if let Some(target) = class.slo {
            slo.get_or_create(&labels).set(target.secs_f64());
        }
    }
}

fn of_lanes(registry: &mut Registry, snapshot: &Snapshot) {
    let mut family = |name, help| kept(registry, name, help, Family::<Labels<1>, Gauge>::default());
    let running = family("lane_running", "Queries that run, by lane");
    let waiting = family("lane_waiting", "Queries that wait, by lane");
    let limit = family("lane_limit", "Queries of a lane that may run at once; no series where it has no limit");
    for lane in &snapshot.view.lanes {
        let labels = [("lane", lane.name.clone())];
        running.get_or_create(&labels).set(lane.running.into());
        waiting.get_or_create(&labels).set(lane.waiting.into());
        if let Some(most) = lane.limit {
            limit.get_or_create(&labels).set(most.into());
        }
    }
}

/// Clusters that are gone are left out; what they cost is in the gateway's sum.
fn of_clusters(registry: &mut Registry, snapshot: &Snapshot) {
    let mut family = |name, help| kept(registry, name, help, Family::<Labels<2>, Gauge>::default());
    let size = family("cluster_size", "Size of a cluster in units");
    let slots = family("cluster_slots", "Queries that may run on a cluster at once");
    let running = family("cluster_running", "Queries that run on a cluster");
    let pins = family("cluster_pins", "Sessions that hold a cluster without running anything");
    let stuck = family("cluster_stuck", "Cancelled queries of a cluster that did not stop");
    let awake = family("cluster_awake", "1 while a cluster's billing timer runs");
    let phase = kept(
        registry,
        "cluster_phase",
        "1 for the phase that a cluster is in, 0 for the others",
        Family::<Labels<3>, Gauge>::default(),
    );
    let cost = kept(
        registry,
        "cluster_cost_dollars",
        "Dollars spent by a cluster",
        Family::<Labels<2>, Counter<f64, AtomicU64>>::default(),
    );
    let placed =
        kept(registry, "cluster_queries", "Queries ever given to a cluster", Family::<Labels<2>, Counter>::default());
    let unstopped = kept(
        registry,
        "cluster_unstopped",
        "1 for a cluster that may be paid for though nobody wants it, as its stop fails; no series for the others",
        Family::<Labels<1>, Gauge>::default(),
    );
    for name in &snapshot.unstopped {
        unstopped.get_or_create(&[("cluster", name.clone())]).set(1);
    }
    for cluster in snapshot.view.clusters.iter().filter(|cluster| cluster.phase != Phase::Gone) {
        let labels = labels_of(cluster);
        size.get_or_create(&labels).set(cluster.units.0.into());
        slots.get_or_create(&labels).set(cluster.slots.into());
        running.get_or_create(&labels).set(cluster.running.into());
        pins.get_or_create(&labels).set(cluster.pins.into());
        stuck.get_or_create(&labels).set(cluster.stuck.into());
        awake.get_or_create(&labels).set(cluster.awake.into());
        cost.get_or_create(&labels).inc_by(cluster.cost);
        placed.get_or_create(&labels).inc_by(cluster.placed);
        for other in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Gone) {
            let [cluster_name, id] = labels.clone();
            let labels = [cluster_name, id, ("phase", other.name().to_owned())];
            phase.get_or_create(&labels).set((other == cluster.phase).into());
        }
    }
}

/// The name alone is not enough: a cluster and its replacement have the same.
fn labels_of(cluster: &ClusterView) -> Labels<2> {
    [("cluster", cluster.name.clone()), ("cluster_id", cluster.id.to_string())]
}

fn gauge(value: u64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    gauge
}

fn count(value: u64) -> Counter {
    let counter = Counter::default();
    counter.inc_by(value);
    counter
}

fn dollars(value: f64) -> Counter<f64, AtomicU64> {
    let counter = Counter::default();
    counter.inc_by(value);
    counter
}

/// Registers a metric and keeps a handle to it.
fn kept<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use punctual_core::admit::claim::Claim;
    use punctual_core::id::{ClassId, LaneId, ModelId, QueryId, SessionId};
    use punctual_core::mode::Mode;
    use punctual_core::predict::record::Lately;
    use punctual_core::query::{Query, Status};
    use punctual_core::statement::Statement;
    use punctual_core::time::{Span, Time};
    use punctual_core::view::ModelView;

    use super::*;
    use crate::catalog::sample::snapshot;

    fn ended(status: Status, seconds: u64, violated: Option<bool>) -> Ended {
        let statement = Statement::read("select a from t");
        Ended {
            query: Query {
                id: QueryId(1),
                session: SessionId(1),
                fingerprint: statement.fingerprint,
                kind: statement.kind,
                class: ClassId(2),
                slo: None,
                claim: Claim::default(),
                traits: None,
            },
            priority: 0,
            lane: LaneId::default(),
            cluster: None,
            arrived: Time::ZERO,
            placed: None,
            ended: Time::ZERO + Span::from_secs(seconds),
            blocked: Span::ZERO,
            status,
            sqlstate: None,
            rows: 3,
            bytes: 100,
            violated,
            predicted: None,
        }
    }

    fn lines(text: &str, starts: &[&str]) -> String {
        let wanted = |line: &&str| starts.iter().any(|start| line.starts_with(start));
        let lines: BTreeSet<&str> = text.lines().filter(wanted).collect();
        lines.into_iter().fold(String::new(), |text, line| text + line + "\n")
    }

    #[test]
    fn ended_queries_are_counted_by_class_and_status() {
        let metrics = Metrics::new();
        metrics.ended(&ended(Status::Finished, 3, Some(false)), "etl");
        metrics.ended(&ended(Status::Finished, 5, Some(true)), "etl");
        metrics.ended(&ended(Status::Cancelled, 9, None), "etl");
        let slow = Ended { blocked: Span::from_secs(2), ..ended(Status::Finished, 7, None) };
        metrics.ended(&slow, "etl");
        metrics.ended(&ended(Status::Refused, 0, Some(true)), "default");
        metrics.retried();
        metrics.cluster("lost");
        metrics.dropped_history(1);
        metrics.decision_took(Duration::from_micros(3));
        let text = metrics.text(None);
        let shown = [
            "punctual_queries_total",
            "punctual_slo",
            "punctual_result",
            "punctual_query_latency_seconds_bucket{le=\"4.096\"",
            "punctual_query_latency_seconds_count",
            "punctual_query_latency_seconds_sum",
            "punctual_history",
            "punctual_blocked",
            "punctual_cluster_events",
            "punctual_decision_seconds_count",
            "punctual_up",
        ];
        expect_test::expect![[r#"
            punctual_blocked_seconds_total 2.0
            punctual_cluster_events_total{event="lost"} 1
            punctual_decision_seconds_count 1
            punctual_history_dropped_total 1
            punctual_queries_total{class="default",status="refused"} 1
            punctual_queries_total{class="etl",status="cancelled"} 1
            punctual_queries_total{class="etl",status="finished"} 3
            punctual_query_latency_seconds_count{class="default"} 1
            punctual_query_latency_seconds_count{class="etl"} 4
            punctual_query_latency_seconds_sum{class="default"} 0.0
            punctual_query_latency_seconds_sum{class="etl"} 22.0
            punctual_result_bytes_total 500
            punctual_result_rows_total 15
            punctual_slo_queries_total{class="default"} 1
            punctual_slo_queries_total{class="etl"} 2
            punctual_slo_violations_total{class="default"} 1
            punctual_slo_violations_total{class="etl"} 1
            punctual_up 0
        "#]]
        .assert_eq(&lines(&text, &shown));
    }

    #[test]
    fn gauges_show_what_the_snapshot_knows() {
        let text = Metrics::new().text(Some(&snapshot()));
        let shown = [
            "punctual_up",
            "punctual_sessions",
            "punctual_queries_waiting",
            "punctual_cost",
            "punctual_degraded",
            "punctual_cluster",
            "punctual_class",
            "punctual_broken",
            "punctual_senseless",
        ];
        expect_test::expect![[r#"
            punctual_broken_invariants_total 0
            punctual_class_running{class="control"} 0
            punctual_class_running{class="dashboards"} 1
            punctual_class_running{class="default"} 0
            punctual_class_slo_seconds{class="dashboards"} 1.5
            punctual_class_waiting{class="control"} 0
            punctual_class_waiting{class="dashboards"} 1
            punctual_class_waiting{class="default"} 0
            punctual_cluster_awake{cluster="large",cluster_id="1"} 0
            punctual_cluster_awake{cluster="small",cluster_id="0"} 1
            punctual_cluster_cost_dollars_total{cluster="large",cluster_id="1"} 0.0
            punctual_cluster_cost_dollars_total{cluster="small",cluster_id="0"} 0.0003125
            punctual_cluster_phase{cluster="large",cluster_id="1",phase="draining"} 0
            punctual_cluster_phase{cluster="large",cluster_id="1",phase="failed"} 0
            punctual_cluster_phase{cluster="large",cluster_id="1",phase="ready"} 0
            punctual_cluster_phase{cluster="large",cluster_id="1",phase="starting"} 1
            punctual_cluster_phase{cluster="large",cluster_id="1",phase="stopping"} 0
            punctual_cluster_phase{cluster="small",cluster_id="0",phase="draining"} 0
            punctual_cluster_phase{cluster="small",cluster_id="0",phase="failed"} 0
            punctual_cluster_phase{cluster="small",cluster_id="0",phase="ready"} 1
            punctual_cluster_phase{cluster="small",cluster_id="0",phase="starting"} 0
            punctual_cluster_phase{cluster="small",cluster_id="0",phase="stopping"} 0
            punctual_cluster_pins{cluster="large",cluster_id="1"} 0
            punctual_cluster_pins{cluster="small",cluster_id="0"} 0
            punctual_cluster_queries_total{cluster="large",cluster_id="1"} 0
            punctual_cluster_queries_total{cluster="small",cluster_id="0"} 2
            punctual_cluster_running{cluster="large",cluster_id="1"} 0
            punctual_cluster_running{cluster="small",cluster_id="0"} 1
            punctual_cluster_size{cluster="large",cluster_id="1"} 2
            punctual_cluster_size{cluster="small",cluster_id="0"} 1
            punctual_cluster_slots{cluster="large",cluster_id="1"} 1
            punctual_cluster_slots{cluster="small",cluster_id="0"} 1
            punctual_cluster_stuck{cluster="large",cluster_id="1"} 0
            punctual_cluster_stuck{cluster="small",cluster_id="0"} 0
            punctual_cost_dollars_total 0.0003125
            punctual_degraded 0
            punctual_queries_waiting 1
            punctual_senseless_events_total 0
            punctual_sessions 2
            punctual_up 1
        "#]]
        .assert_eq(&lines(&text, &shown));
    }

    #[test]
    fn the_documentation_lists_every_metric() {
        let metrics = Metrics::new();
        metrics.ended(&ended(Status::Finished, 3, Some(false)), "etl");
        metrics.trained("adopted");
        metrics.planned("adopted");
        metrics.logged_in("accepted");
        metrics.cluster("started");
        metrics.explained("had");
        let mut snapshot = snapshot();
        let record =
            Lately { queries: 9, q_error_p50: 1.2, q_error_p90: 2.0, coverage_p90: 0.9, bias: 1.0, drifted: false };
        snapshot.view.model = Some(ModelView { id: ModelId(1), corrected: 3, lately: Some(record) });
        snapshot.view.routing.mode = Mode::Shadow;
        snapshot.view.lanes[0].limit = Some(3);
        snapshot.view.burn = Rates { short: Some(0.5), long: Some(0.5) };
        snapshot.unstopped = vec!["fleet-0".to_owned()];
        let text = metrics.text(Some(&snapshot));
        let mut table = String::from("| metric | type | labels | what it is |\n|---|---|---|---|\n");
        for help in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
            let (name, what) = help.split_once(' ').expect("a help text");
            let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect("a type");
            let labels: BTreeSet<&str> = text
                .lines()
                .filter(|line| {
                    line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with("_bucket{"))
                })
                .filter_map(|line| line.split_once('{')?.1.rsplit_once('}'))
                .flat_map(|(labels, _)| labels.split(','))
                .filter_map(|label| label.split_once('=').map(|(name, _)| name))
                .filter(|label| *label != "le")
                .collect();
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(table, "| `{name}` | {kind} | {} | {what} |", labels.join(", "));
        }
        crate::config::doc::assert_generated("metrics.md", "metrics", &table);
    }
}
