//! `punctual plan HISTORY`: a day is planned, and what is proposed is written down with what it stands on.
//!
//! ```text
//!   history ──▶ reservoir ──▶ forecast ──▶ workloads ┐
//!   configuration, model ──────────────────▶ rules ──┴─▶ planning ──▶ proposal: the plan, and its evidence
//! ```
//!
//! Simulations go by the model: queries end when its predictions say, with their spread ([`Make::Predicted`]).

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use punctual_core::admit::claim::Claim;
use punctual_core::class::{Class, DEFAULT};
use punctual_core::cluster::Spec;
use punctual_core::id::{ClassId, Units};
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::predict::features::FEATURES;
use punctual_core::predict::model::Model;
use punctual_core::query::Traits;
use punctual_core::scale::Studies;
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Troubles};
use punctual_sim::workload::{Arrival, Recorded, Remembered, again};
use punctual_sim::world::compute::Make;
use punctual_tuner::batch::{Batch, Common};
use punctual_tuner::configuration::{Configuration, Knobs};
use punctual_tuner::forecast::{self, Forecast, Wanted, Workload};
use punctual_tuner::planning::{Asked, plan};
use punctual_tuner::reservoir::Shape;
use punctual_tuner::search::{Strategy, Tuning};
use punctual_tuner::spinups::Search;
use punctual_tuner::{Date, Reservoir, Zone};

use super::proposal::Proposal;
use crate::cli::forecast::gathered::{self, Source};
use crate::cli::forecast::{date, zone};
use crate::cli::reproduce::with_progress;
use crate::cli::{Format, Stop};
use crate::config::{self, Typed};
use crate::model::file;
use crate::settings::{Cluster, Settings};
use crate::{print, whole};

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// A history directory, or one file of it
    #[arg(required = true)]
    history: Option<PathBuf>,
    /// The configuration to plan for
    #[arg(short, long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Where to write the plan, with its evidence
    #[arg(short, long, value_name = "FILE", required = true)]
    out: Option<PathBuf>,
    /// The model that says what queries take [default: that of the configuration]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The day to plan [default: the one after the last of the history]
    #[arg(long, value_name = "DATE", value_parser = date)]
    day: Option<Date>,
    /// The zone by whose clocks days go [default: that of the reservoir, else of the configuration]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    zone: Option<Zone>,
    /// Who forecasts [default: that of the configuration]
    #[arg(long, value_name = "NAME", value_parser = forecast::NAMES)]
    forecaster: Option<String>,
    /// Keep what is gathered of the history in this file: the next time only what is new is read
    #[arg(long, value_name = "FILE")]
    reservoir: Option<PathBuf>,
    /// How knobs are looked for
    #[arg(long, value_name = "NAME", default_value = "adaptive_batch", value_parser = Strategy::NAMES)]
    strategy: String,
    /// The share of queries that may miss their SLO [default: that of the configuration]
    #[arg(long, value_name = "SHARE")]
    target: Option<f64>,
    /// Workloads to plan with; two thirds of that to choose by, and as many to promise by
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(2..=200))]
    workloads: u16,
    /// Threads that simulate [default: as many as there are cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// What chance begins with
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How to write the result to standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// 0 if a plan was written, whether or not it meets its target: that is said.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    crate::cli::log_to_stderr("warn");
    let (Some(history), Some(config), Some(out)) = (&flags.history, &flags.config, &flags.out) else {
        return Err(Stop::usage("a history, a configuration (-c) and a file for the plan (-o) are needed"));
    };
    let settings = config::read(Some(config), Typed::default())
        .map_err(|why| Stop::usage(format_args!("the configuration cannot be used:\n{why}")))?;
    whole::check(out).map_err(|cause| Stop::failed(format_args!("writing {}: {cause}", out.display())))?;
    let rules = Rules::of(flags, &settings)?;
    let reservoir = gathered::reservoir(&Source {
        history: Some(history),
        reservoir: flags.reservoir.as_deref(),
        zone: flags.zone.or(flags.reservoir.is_none().then_some(settings.planning.zone)),
        seed: flags.seed,
        generated: None,
    })?;
    let Some((_, last)) = reservoir.dates() else {
        return Err(Stop::failed(format_args!("{} holds no query to plan from", history.display())));
    };
    let name = flags.forecaster.as_deref().unwrap_or(settings.planning.forecaster);
    let forecaster = forecast::named(name).ok_or_else(|| Stop::usage("there is no such forecaster"))?;
    let (train, others) = (usize::from(flags.workloads), (usize::from(flags.workloads) * 2).div_ceil(3));
    let day = flags.day.unwrap_or(last.plus(1));
    let wanted = Wanted { seed: flags.seed, train, validation: others, promise: others, ..Wanted::of(day) };
    let forecast = forecast::forecast(&reservoir, &*forecaster, &wanted);
    let common = rules.common(&reservoir, &forecast, flags.seed)?;
    let threads = flags.threads.map_or_else(cores, usize::from);
    let planned = with_progress("planning", |stop, tell| {
        plan(&rules.asked(flags), &mut Batch { common: &common, threads, stop, tell })
    })?;
    let proposal = Proposal::of(&rules, &reservoir, &forecast, &*forecaster, &planned);
    let written = proposal.to_bytes().map_err(Stop::failed)?;
    whole::write(out, &written).map_err(|cause| Stop::failed(format_args!("writing {}: {cause}", out.display())))?;
    match flags.format {
        Format::Text => print::line(&proposal)?,
        Format::Json => print::json(&proposal)?,
    }
    Ok(0)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What is planned for.
pub(super) struct Rules {
    /// The rules, as the gateway would have them, all controllers acting.
    pub(super) policy: Policy,
    /// The policy of the configuration.
    pub(super) written: Policy,
    /// Clusters that are there whatever is planned.
    pub(super) fixed: Vec<Spec>,
    /// As it is today.
    pub(super) today: Configuration,
    /// τ.
    pub(super) target: f64,
    model: Arc<Model>,
}

impl Rules {
    fn of(flags: &Flags, settings: &Settings) -> Result<Rules, Stop> {
        let path = flags.model.as_ref().unwrap_or(&settings.prediction.model);
        let (model, _) = file::read(path).map_err(|why| {
            Stop::failed(format_args!(
                "{why}\na day is planned by what queries are predicted to take: make a model with punctual train"
            ))
        })?;
        if settings.policy.scaling.offers.is_empty() {
            return Err(Stop::usage(
                "there is no cluster that could be started, so there is nothing to plan: write `keep = \"scaled\"` in a [[cluster]]",
            ));
        }
        let target = flags.target.unwrap_or(settings.policy.violation_target);
        if !(0.0..1.0).contains(&target) {
            return Err(Stop::usage(format_args!(
                "--target is a share of queries, from 0 to below 1, and not {target}"
            )));
        }
        let mut policy = Policy { violation_target: target, decisions_kept: 0, ..settings.policy.clone() };
        (policy.routing_mode, policy.scaling.mode) = (Mode::On, Mode::On);
        policy.scaling.studies = Studies::Sharing;
        let each = |cluster: &Cluster| std::iter::repeat_n(cluster.spec.clone(), cluster.initial as usize);
        let (elastic, fixed): (Vec<Spec>, Vec<Spec>) =
            settings.clusters.iter().flat_map(each).partition(|spec| spec.offer.is_some());
        let mut fleet: Vec<Units> = elastic.iter().map(|spec| spec.units).collect();
        fleet.sort_unstable();
        let today = Configuration { fleet, spinups: Vec::new(), knobs: Knobs::of(&settings.policy) };
        Ok(Rules { policy, written: settings.policy.clone(), fixed, today, target, model: Arc::new(model) })
    }

    /// The sizes that budgets allow beside what is there anyway.
    fn sizes(&self) -> Vec<Units> {
        let hourly = |spec: &Spec| spec.price.cost(spec.units, Span::from_secs(3_600));
        let there: f64 = self.fixed.iter().map(hourly).sum();
        let most = self.policy.scaling.most_per_hour;
        let fits = |spec: &&Spec| most.is_none_or(|most| there + hourly(spec) <= most);
        let mut sizes: Vec<Units> = self.policy.scaling.offers.iter().filter(fits).map(|spec| spec.units).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn asked(&self, flags: &Flags) -> Asked {
        let most = (self.policy.scaling.most.min(self.policy.max_clusters) as usize).saturating_sub(self.fixed.len());
        let search = Search { most, ..Search::of(self.target, self.sizes(), self.policy.scaling.start_takes) };
        let strategy = Strategy::named(&flags.strategy).unwrap_or(Strategy::Grid);
        let tuning = Some(Tuning { strategy, seed: flags.seed, ..Tuning::of(self.target) });
        Asked { today: self.today.clone(), fixed: self.fixed.len(), search, tuning }
    }

    /// The day's workloads in the world that the model knows.
    fn common(&self, reservoir: &Reservoir, forecast: &Forecast, seed: u64) -> Result<Common, Stop> {
        let mut unknown = 0u64;
        let mut split = |workloads: &[Workload]| -> Vec<Vec<Arrival>> {
            workloads.iter().map(|workload| self.arrivals(workload, reservoir, &mut unknown)).collect()
        };
        let (train, validation, promise) =
            (split(&forecast.train), split(&forecast.validation), split(&forecast.promise));
        let all = || train.iter().chain(&validation).chain(&promise).flatten();
        if all().next().is_none() {
            return Err(Stop::failed("nothing is forecast for that day, so there is nothing to plan"));
        }
        if all().all(|arrival| arrival.ask.slo.is_none()) {
            return Err(Stop::failed(
                "no query that is forecast has an SLO, so none can be late: write `slo` in a [[class]], or record queries that have one",
            ));
        }
        if unknown > 0 {
            print::aside(format_args!(
                "punctual: of {} of the workloads no features are known: what they take is guessed from other queries",
                print::counted(unknown, "query", "queries")
            ));
        }
        let (fleet, model, troubles) = (self.fixed.clone(), Some(Arc::clone(&self.model)), Troubles::default());
        let (policy, make, clients) = (self.policy.clone(), Make::Predicted { seed }, None);
        let rehearsal = Rehearsal { seed, policy, fleet, model, make, clients, troubles };
        Ok(Common { rehearsal, sizes: self.policy.scaling.offers.clone(), train, validation, promise })
    }

    fn arrivals(&self, workload: &Workload, reservoir: &Reservoir, unknown: &mut u64) -> Vec<Arrival> {
        let remembered: Vec<Remembered> = workload
            .queries
            .iter()
            .filter_map(|query| {
                let shape = reservoir.shape(query.shape)?;
                *unknown += u64::from(shape.features.len() != FEATURES);
                Some(self.remembered(Time::ZERO + query.at, shape))
            })
            .collect();
        again(&remembered, workload.seed).collect()
    }

    /// A query of a shape: its SLO is the recorded one, else that of its class.
    fn remembered(&self, at: Time, shape: &Shape) -> Remembered {
        let named = |class: &Class| Some(class.name.as_str()) == shape.class.as_deref();
        let place = self.policy.classes.iter().position(named);
        let class = place.map_or(DEFAULT, |place| ClassId(place as u32));
        let slo = shape.slo.or_else(|| self.policy.classes.get(class.0 as usize).and_then(|class| class.slo));
        let mut features = [0.0; FEATURES];
        if shape.features.len() == FEATURES {
            features.copy_from_slice(&shape.features);
        }
        let traits = Traits { text: shape.text.unwrap_or(shape.fingerprint.0), features };
        let recorded = Recorded { traits, alone: Vec::new() };
        let (claim, noise) = (Claim::default(), 0.0);
        Remembered { at, class, slo, claim, fingerprint: shape.fingerprint, recorded, noise }
    }
}
