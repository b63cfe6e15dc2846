//! One run: a fleet in the simulated warehouse, a list of TPC-DS queries, the dispatcher with a policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::billing::Price;
use punctual_core::class::DEFAULT;
use punctual_core::cluster::Spec;
use punctual_core::dispatcher::Dispatcher;
use punctual_core::event::{Command, Event};
use punctual_core::id::{ClusterId, ModelId, Units};
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::predict::model::Model;
use punctual_core::query::Ended;
use punctual_core::rng::{Rng, Stream};
use punctual_core::route::{Counting, Routing};
use punctual_core::scale::{Act, Because, Scaling, Trigger};
use punctual_core::time::{Span, Time};
use punctual_sim::run::Run;
use punctual_sim::workload::{Asked, Pattern, trace};
use punctual_sim::world::compute::Make;
use punctual_sim::world::warehouse::{Table, Template};
use punctual_sim::world::{Conditions, World};

/// How long a cluster takes to start: δ of the paper.
pub const START: Span = Span::from_secs(300);

/// How long a cluster takes to stop: ζ.
const STOP: Span = Span::from_secs(60);

/// When the first query may come: the clusters that are there from the start are ready by then.
const BEGIN: Span = Span::from_secs(600);

/// How long a study takes, as measured.
const STUDY: Span = Span::from_millis(100);

/// The only model.
const MODEL: ModelId = ModelId(1);

/// What is run.
#[derive(Clone)]
pub struct Setting {
    /// What comes: when (from the beginning of the workload), which template, and when it is late.
    pub arrivals: Vec<(Time, Template, Option<Span>)>,
    /// The sizes that are there from the start.
    pub clusters: Vec<u32>,
    /// How queries are routed.
    pub routing: Routing,
    /// What counts as a violation to come.
    pub counting: Counting,
    /// How the fleet grows.
    pub scaling: Scaling,
    /// When someone asks for the fleet to be looked at: before that arrival. None: never.
    pub asked_at: Option<usize>,
    /// From which arrival on queries and costs count.
    pub counted_from: usize,
    /// The predictor; None: none.
    pub model: Option<Arc<Model>>,
    /// The warehouse.
    pub table: Arc<Table>,
    /// That of the world's luck, and of the dispatcher's.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Every query, as they ended.
    pub ended: Vec<Ended>,
    /// Queries that count, and those of them that missed their SLO.
    pub counted: (u32, u32),
    /// Queries that were placed on each cluster, in the order in which clusters came.
    pub placed: BTreeMap<ClusterId, u32>,
    /// Dollars, from where it counts.
    pub cost: f64,
    /// The sizes that were started.
    pub started: Vec<u32>,
    /// How many clusters were stopped for being idle, or replaced.
    pub stopped: usize,
}

impl Outcome {
    /// The share of all queries that ran on a cluster, for the first ones that there were.
    pub fn shares(&self, first: usize) -> Vec<f64> {
        let all: u32 = self.placed.values().sum();
        let of = |id: u32| self.placed.get(&ClusterId(id)).copied().unwrap_or(0);
        (0..first as u32).map(|id| f64::from(of(id)) / f64::from(all.max(1))).collect()
    }

    /// The share that missed their SLO.
    pub fn violation_rate(&self) -> f64 {
        f64::from(self.counted.1) / f64::from(self.counted.0.max(1))
    }
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            arrivals: Vec::new(),
            clusters: Vec::new(),
            routing: Routing::LeastOutstanding,
            counting: Counting::Expected,
            scaling: Scaling::default(),
            asked_at: None,
            counted_from: 0,
            model: None,
            table: Arc::new(Table::shipped().clone()),
            seed: 0,
        }
    }
}

/// The paper's BaseWorkload(λ): every template `times` times in random order, Poisson. `slo` is asked for each.
pub fn list(
    seed: u64,
    rate: f64,
    times: usize,
    slo: impl Fn(Template) -> Option<Span>,
) -> Vec<(Time, Template, Option<Span>)> {
    let mut rng = Rng::stream(seed, Stream::Mix);
    let mut templates: Vec<Template> = (0..times).flat_map(|_| Template::all()).collect();
    for at in (1..templates.len()).rev() {
        templates.swap(at, rng.index(at + 1));
    }
    let instants = Pattern::Poisson { rate }.instants(seed);
    instants.zip(templates).map(|(at, template)| (at, template, slo(template))).collect()
}

/// A cluster of that size, as it is started and stopped.
pub fn offer(size: u32) -> Spec {
    let name = format!("rpu{size}");
    // The warehouse has its own queue; the gateway holds nothing back.
    Spec {
        offer: Some(name.clone()),
        writer: false,
        name,
        units: Units(size),
        slots: 100_000,
        price: Price::default(),
        killable: true,
    }
}

/// Runs it to its end.
pub fn run(setting: &Setting) -> Outcome {
    let policy = Policy {
        routing: setting.routing,
        counting: setting.counting,
        scaling: setting.scaling.clone(),
        wait_limit: Span::from_secs(1 << 30),
        max_waiting: 1_000_000,
        start_limit: Span::from_secs(3_600),
        drain_limit: Span::from_secs(1 << 30),
        decisions_kept: 0,
        ..Policy::default()
    };
    let mut dispatcher = Dispatcher::new(setting.seed, policy);
    if let Some(model) = &setting.model {
        dispatcher.provide(MODEL, Arc::clone(model));
    }
    let conditions = Conditions { start_least: START, stop: STOP, study: STUDY, ..Conditions::default() };
    let make = Make::Warehouse { table: Arc::clone(&setting.table), seed: setting.seed };
    let world = World::new(setting.seed, conditions, script(setting)).of(make);
    let asked = setting
        .arrivals
        .iter()
        .map(|(at, template, slo)| (*at + BEGIN, Asked { template: *template, class: DEFAULT, slo: *slo }));
    let mut run = Run::new(dispatcher, trace(asked.collect(), &setting.table), world);
    let counted_from = setting.arrivals.get(setting.counted_from).map_or(Time::ZERO, |(at, ..)| *at + BEGIN);
    let (mut outcome, mut before) = (Outcome::default(), None);
    while let Some(step) = run.step() {
        if before.is_none() && step.now >= counted_from {
            before = Some(step.dispatcher.cost(step.now));
        }
        for command in step.commands {
            if let Command::Record(ended) = command {
                if let Some((cluster, _)) = ended.cluster {
                    *outcome.placed.entry(cluster).or_default() += 1;
                }
                if let Some(late) = ended.violated.filter(|_| ended.arrived >= counted_from) {
                    outcome.counted = (outcome.counted.0 + 1, outcome.counted.1 + u32::from(late));
                }
                outcome.ended.push((**ended).clone());
            }
        }
    }
    let end = run.now();
    // What is committed is spent.
    outcome.cost = run.dispatcher().cost(end + Price::default().minimum) - before.unwrap_or(0.0);
    for scaled in run.dispatcher().view(end).scaling {
        match scaled.act {
            Act::Start(units, Some(_)) => outcome.started.push(units.0),
            Act::Stop(_) if scaled.because != Because::CouldNotStart => outcome.stopped += 1,
            _ => {}
        }
    }
    outcome
}

/// What the configuration and an operator want, and when.
fn script(setting: &Setting) -> Vec<(Time, Event)> {
    let mut script: Vec<(Time, Event)> = Vec::new();
    script.extend(setting.model.as_ref().map(|_| (Time::ZERO, Event::ModelAdopted(MODEL))));
    script.extend(setting.clusters.iter().map(|size| (Time::ZERO, Event::ClusterWanted(offer(*size)))));
    let asked = setting.asked_at.and_then(|at| setting.arrivals.get(at));
    script.extend(asked.map(|(at, ..)| (*at + BEGIN, Event::ScalingWanted)));
    script
}

/// Scaling as the paper has it over these sizes, with at most so many clusters.
pub fn scaling(sizes: &[u32], most: u32, trigger: Trigger) -> Scaling {
    let offers = sizes.iter().map(|size| offer(*size)).collect();
    Scaling { mode: Mode::On, trigger, offers, most, start_takes: START, ..Scaling::default() }
}
