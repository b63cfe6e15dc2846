//! `punctual simulate`: what would it have cost, and which SLOs would have been kept?
//!
//! ```text
//!   --trace, --workload ──▶ load ──┐
//!   --policy, --compare ──▶ rules ─┼─▶ every policy × seed ──▶ found ──▶ text, JSON, HTML, history
//!   --clusters, --config ─▶ fleet ─┘   (the live dispatcher)
//! ```

mod claims;
mod every;
mod found;
mod load;
mod picture;
mod record;
mod shadow;
mod text;
mod trace;
mod typed;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{ArgGroup, Args};
use punctual_core::billing::Price;
use punctual_core::class::Class;
use punctual_core::cluster::Spec;
use punctual_core::fleet::Tokens;
use punctual_core::id::Units;
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::predict::model::Model;
use punctual_core::route::Routing;
use punctual_core::scale::{Scaling, Selector};
use punctual_core::scan::TimeTable;
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Rehearsed, Troubles};
use punctual_sim::world::compute::Make;

use super::{Format, Stop};
use crate::config::{self, Typed};
use crate::model::file;
use crate::model::pattern::Pattern;
use crate::print;
use every::{Every, Kept};
use found::Found;
use load::{Cut, Load};
use shadow::Record;
use trace::{AsRecorded, Wanted};
use typed::{Growth, Kind, Rules, StartTakes, Target};

/// Find out what policies would have cost and which SLOs they would have kept.
#[derive(Debug, Args)]
#[command(after_long_help = LONG_HELP, group(ArgGroup::new("what").required(true).args(["trace", "workload"])))]
pub(super) struct Flags {
    /// Send the queries of this history again: a directory, or one file of it
    #[arg(long, value_name = "HISTORY")]
    trace: Option<PathBuf>,
    /// Send queries of TPC-DS: poisson:RATE, batched:RATE:CV, phased:RATE@SPAN,RATE@SPAN,… or day:QUERIES:CV; rates in queries a second
    #[arg(long, value_name = "KIND[:OPTIONS]")]
    workload: Option<Kind>,
    /// The policy: ROUTING[:COUNTING][+TRIGGER[:SELECTOR]], as in slo or slo:expected+combined:add_cluster. Without it that of the configuration, or slo with a model, or least_outstanding
    #[arg(long, value_name = "POLICY")]
    policy: Option<Rules>,
    /// Compare it with these, on the same arrivals
    #[arg(long, value_name = "POLICIES", value_delimiter = ',')]
    compare: Vec<Rules>,
    /// What predicts latencies; policies that go by predictions need it
    #[arg(long)]
    model: Option<PathBuf>,
    /// Sizes of the clusters that are there from the start
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = typed::size, conflicts_with = "config")]
    clusters: Vec<Units>,
    /// Take clusters, classes, SLOs, policy and scaling from this configuration
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How policies scale that do not say it: TRIGGER[:SELECTOR], or off
    #[arg(long, value_name = "TRIGGER[:SELECTOR]")]
    scaling: Option<Growth>,
    /// Say what would have changed: which queries would have run elsewhere, what would have been started and stopped, and what it would have brought. Without --clusters or --config the clusters are those of the history
    #[arg(long, conflicts_with_all = ["workload", "compress", "closed_loop"])]
    shadow: bool,
    /// Sizes of the clusters that scaling may start; without it 4, 8, 16 and 32, or the configuration's
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = typed::size)]
    sizes: Vec<Units>,
    /// How long a cluster takes to start: a duration, or from one to another, as in 45s..90s, of which scaling expects the middle. Without it 5 minutes, or what the configuration's scaling expects
    #[arg(long, value_name = "SPAN[..SPAN]")]
    start_takes: Option<StartTakes>,
    /// How long a cluster that has nothing to do stays, under tabs and delayed_off; without it ten times as long as a start takes, or the configuration's
    #[arg(long, value_name = "SPAN", value_parser = typed::some_time)]
    standby: Option<Span>,
    /// How many clusters there may be; without it 10, or the configuration's
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=64))]
    most: Option<u32>,
    /// The share of starts that fail, from 0 to 1; those before the first query do not
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = typed::share)]
    start_fails: f64,
    /// Clusters are lost, with all that runs there: after so long in the mean, at random
    #[arg(long, value_name = "SPAN", value_parser = typed::some_time)]
    lost_after: Option<Span>,
    /// Dollars for a unit and hour; without it 0.375, or the configuration's
    #[arg(long, value_name = "DOLLARS", value_parser = typed::factor, conflicts_with = "config")]
    price: Option<f64>,
    /// When queries are late: a duration for all, or fingerprint-factor:κ, so many times what their shape takes alone. Without it, that of the history or of its classes; for TPC-DS, fingerprint-factor:2
    #[arg(long, value_name = "SLO")]
    slo: Option<Target>,
    /// So many clients, each of which sends its next query when its last has ended
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    closed_loop: Option<u32>,
    /// Divide the gaps between queries by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = typed::factor)]
    compress: f64,
    /// Only what comes within so long from the first; without it an hour or a day of a workload, and all of a history
    #[arg(long = "for", value_name = "SPAN", value_parser = typed::some_time)]
    length: Option<Span>,
    /// No more queries than this
    #[arg(long, value_name = "NUMBER", default_value_t = trace::MOST as u32, value_parser = clap::value_parser!(u32).range(1..=trace::MOST as i64))]
    queries: u32,
    /// Only queries of the history that ran on clusters of this name; * and ? stand for any text and any character
    #[arg(long, value_name = "PATTERN", conflicts_with = "workload")]
    only: Vec<Pattern>,
    /// How often everything is simulated, each time with other luck
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Simulations at once; without it, as many as there are cores. It changes nothing but the time
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Draw it, as one page of HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the runs of the first policy as a history, to learn from
    #[arg(long, value_name = "HISTORY")]
    record: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const LONG_HELP: &str = "\
The dispatcher is the one that runs live. TPC-DS queries meet the simulated warehouse (docs/world.md), which knows \
nothing of predictions; queries of a history take what they took alone and share clusters evenly. docs/simulate.md says more.

  punctual simulate --trace history --clusters 16,16 --policy round_robin --compare least_outstanding --slo 10s
  punctual simulate --workload batched:0.2:3.5 --model m.model --policy round_robin --compare slo,slo+combined --html r.html

Exit codes: 0 simulated, 1 failed or interrupted, 2 what was asked for makes no sense.";

/// The fleet that there is if nobody says anything.
const FLEET: [Units; 2] = [Units(16), Units(16)];

/// What scaling may start then.
const OFFERS: [Units; 4] = [Units(4), Units(8), Units(16), Units(32)];

/// 0 if it was simulated, 1 if it could not be or was interrupted, 2 if it makes no sense.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let ground = Ground::of(flags)?;
    let rules = ground.rules(flags);
    ground.warn(flags, &rules);
    let Loaded { load, classes, as_recorded, record } = ground.load(flags)?;
    let policies: Vec<Rehearsal> = rules.iter().map(|rules| ground.rehearsal(flags, rules, &classes)).collect();
    let cut = Cut { compress: flags.compress, most: flags.queries as usize };
    too_slow(&policies, &load, cut, flags.seed);
    too_many(&load, cut, flags.seed);
    let (load, seeds) = (&load, (flags.seed, flags.seeds));
    let kept = Kept { first_seeds: flags.html.is_some(), first_policy: flags.record.is_some() };
    let every = Every { load, cut, policies: &policies, seeds, kept, record: record.as_ref() };
    let stop = Arc::new(AtomicBool::new(false));
    let _listening = super::stop_on_interrupt(&stop)?;
    let threads = flags.threads.map_or_else(every::cores, usize::from);
    let done = every.run(threads, &stop).ok_or_else(|| Stop::failed("interrupted"))?;
    let (runs, whole): (Vec<Vec<found::Run>>, Vec<Vec<Option<Rehearsed>>>) =
        done.into_iter().map(|of| of.into_iter().unzip()).unzip();
    let names: Vec<String> = rules.iter().map(Rules::to_string).collect();
    let found = Found {
        workload: ground.workload(flags),
        world: match load {
            Load::Tpcds { .. } => "the simulated warehouse (TPC-DS at scale factor 1,000)",
            Load::Trace(_) => "queries take what they took alone, and share clusters evenly",
        },
        slo: ground.slo(flags),
        clusters: ground.fleet.iter().map(|spec| spec.units.0).collect(),
        clients: flags.closed_loop.map(|clients| clients as usize),
        seeds: flags.seeds,
        queries: found::queries(&runs),
        as_recorded,
        policies: found::over_seeds(&names, &runs),
    };
    if let Some(path) = &flags.html {
        let first: Vec<&Rehearsed> = whole.iter().filter_map(|of| of.first().and_then(Option::as_ref)).collect();
        super::evaluate::draw(path, &picture::page(&found, &first))?;
    }
    if let Some(path) = &flags.record {
        let of_first = whole.first().into_iter().flatten().zip(flags.seed..);
        let runs: Vec<_> =
            of_first.filter_map(|(run, seed)| run.as_ref().map(|run| (seed, run, load.arrivals(seed, cut)))).collect();
        record::write(path, &runs, &policies[0].policy)?;
    }
    match flags.format {
        Format::Text => print::line(&found)?,
        Format::Json => print::json(&found)?,
    }
    Ok(0)
}

/// What comes, the classes, and of a history what became of it and what was done with it.
struct Loaded {
    load: Load,
    classes: Vec<Class>,
    as_recorded: Option<AsRecorded>,
    record: Option<Record>,
}

/// What all policies have in common.
struct Ground {
    /// The configuration's rules, or the usual ones.
    policy: Policy,
    /// True if they are the configuration's.
    configured: bool,
    fleet: Vec<Spec>,
    model: Option<Arc<Model>>,
    /// The configuration's tables with a column of time.
    tables: Vec<TimeTable>,
}

impl Ground {
    fn of(flags: &Flags) -> Result<Ground, Stop> {
        let model = flags.model.as_ref().map(|path| file::read(path)).transpose().map_err(Stop::failed)?;
        let model = model.map(|(model, _)| Arc::new(model));
        let mut tables = Vec::new();
        let (mut policy, fleet) = match &flags.config {
            Some(path) => {
                let settings = config::read(Some(path), Typed::default())
                    .map_err(|why| Stop::usage(format_args!("the configuration cannot be used:\n{why}")))?;
                tables = settings.time_tables;
                let initial = |cluster: &crate::settings::Cluster| {
                    std::iter::repeat_n(cluster.spec.clone(), cluster.initial as usize)
                };
                (settings.policy, settings.clusters.iter().flat_map(initial).collect())
            }
            None if flags.shadow && flags.clusters.is_empty() => (Policy::default(), recorded_fleet(flags)?),
            None => {
                let sizes = if flags.clusters.is_empty() { &FLEET[..] } else { &flags.clusters };
                let named = |(at, units): (usize, &Units)| {
                    // Like an offer of its size, so that what is there from the start can be stopped, too.
                    let offer = Some(offer_name(*units));
                    Spec { offer, ..load::cluster(&format!("c{}", at + 1), *units, price(flags)) }
                };
                (Policy::default(), sizes.iter().enumerate().map(named).collect::<Vec<_>>())
            }
        };
        policy.decisions_kept = 0;
        if !flags.sizes.is_empty() || flags.config.is_none() {
            let mut sizes = match flags.sizes.is_empty() {
                true if flags.shadow && flags.clusters.is_empty() => around(&fleet),
                true => OFFERS.to_vec(),
                false => flags.sizes.clone(),
            };
            sizes.sort_unstable();
            sizes.dedup();
            let offer = |units: &Units| {
                let name = offer_name(*units);
                Spec { offer: Some(name.clone()), ..load::cluster(&name, *units, price(flags)) }
            };
            policy.scaling.offers = sizes.iter().map(offer).collect();
        }
        if let Some(start_takes) = flags.start_takes {
            policy.scaling.start_takes = start_takes.middle();
            policy.scaling.standby = start_takes.middle().times(10);
        }
        policy.scaling.standby = flags.standby.unwrap_or(policy.scaling.standby);
        policy.scaling.most = flags.most.unwrap_or(policy.scaling.most);
        if fleet.is_empty() && policy.scaling.offers.is_empty() {
            return Err(Stop::usage("there is no cluster at the start, and none that may be started"));
        }
        Ok(Ground { policy, configured: flags.config.is_some(), fleet, model, tables })
    }

    /// The policies, the first one first, each once.
    fn rules(&self, flags: &Flags) -> Vec<Rules> {
        let routing = match (self.configured, &self.model) {
            (true, _) if flags.shadow && self.policy.routing_mode != Mode::Off => self.policy.routing,
            (true, _) => self.policy.routes_by(),
            (false, Some(_)) => Routing::Slo,
            (false, None) => Routing::LeastOutstanding,
        };
        let first = flags.policy.clone().unwrap_or(Rules { routing, counting: None, scaling: None });
        let mut rules = vec![first];
        for more in &flags.compare {
            if !rules.contains(more) {
                rules.push(more.clone());
            }
        }
        rules
    }

    /// Says what will not be as one might think.
    fn warn(&self, flags: &Flags, rules: &[Rules]) {
        let predicts = |rules: &Rules| matches!(rules.routing, Routing::Slo | Routing::SloStage);
        let studies = |rules: &Rules| {
            let growth = rules.scaling.or(flags.scaling);
            matches!(growth, Some(Growth::By(_, Selector::Vertical | Selector::AddCluster)))
        };
        if self.model.is_none() && rules.iter().any(predicts) {
            print::aside("punctual: without --model, slo and slo_stage go by least outstanding");
        }
        if self.model.is_none() && rules.iter().any(studies) {
            print::aside("punctual: without --model, vertical and add_cluster start what horizontal would");
        }
        if self.fleet.is_empty() {
            print::aside(
                "punctual: no cluster is there at the start; where scaling does not act, every query is refused",
            );
        }
        let scales = |rules: &Rules| match rules.scaling.or(flags.scaling) {
            None => self.configured && self.policy.scaling.mode != Mode::Off,
            Some(growth) => growth != Growth::Off,
        };
        if flags.shadow && !rules.iter().any(scales) {
            print::aside("punctual: nothing is started or stopped; --scaling combined says what would be");
        }
    }

    /// What comes, the classes, and what became of it when it was recorded.
    fn load(&self, flags: &Flags) -> Result<Loaded, Stop> {
        let Some(history) = &flags.trace else {
            let kind = flags.workload.clone().unwrap_or(Kind::Poisson(0.1));
            let target = flags.slo.unwrap_or(Target::Factor(DEFAULT_FACTOR));
            let (load, classes) = (Load::tpcds(kind, target, flags.length), self.policy.classes.clone());
            return Ok(Loaded { load, classes, as_recorded: None, record: None });
        };
        let specs = self.fleet.iter().chain(&self.policy.scaling.offers);
        let mut sizes: Vec<Units> = specs.map(|spec| spec.units).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let wanted = Wanted {
            history,
            only: &flags.only,
            length: flags.length,
            most: flags.queries as usize,
            target: flags.slo,
            model: self.model.as_deref(),
            sizes: &sizes,
            configured: self.configured,
            tables: &self.tables,
        };
        let trace = trace::read(&wanted, self.policy.classes.clone())?;
        if trace.left_out > 0 {
            let most = trace::MOST;
            print::aside(format_args!("punctual: {} queries beyond the first {most} are left out", trace.left_out));
        }
        if trace.queries.iter().all(|query| query.slo.is_none()) {
            print::aside("punctual: no query has an SLO, so none can be late; --slo says when they are");
        }
        let record = flags.shadow.then(|| Record {
            first: trace.first,
            was: trace.was,
            price: self.fleet.iter().chain(&self.policy.scaling.offers).next().map_or(price(flags), |spec| spec.price),
            fleet: self.fleet.iter().map(|spec| spec.name.clone()).collect(),
        });
        let (load, as_recorded) = (Load::Trace(trace.queries), Some(trace.as_recorded));
        Ok(Loaded { load, classes: trace.classes, as_recorded, record })
    }

    fn rehearsal(&self, flags: &Flags, rules: &Rules, classes: &[Class]) -> Rehearsal {
        let mut policy = Policy { routing: rules.routing, classes: classes.to_vec(), ..self.policy.clone() };
        policy.counting = rules.counting.unwrap_or(policy.counting);
        match rules.scaling.or(flags.scaling) {
            None if self.configured => {}
            // To start and stop clusters is part of these.
            None if rules.routing.tokens().is_some_and(Tokens::turns_off) => policy.scaling.mode = Mode::On,
            None | Some(Growth::Off) => policy.scaling.mode = Mode::Off,
            Some(Growth::By(trigger, selector)) => {
                policy.scaling = Scaling { mode: Mode::On, trigger, selector, ..policy.scaling };
            }
        }
        // Whatever routes here is the policy's name; and what would have changed is what comes of doing it.
        policy.routing_mode = Mode::On;
        if flags.shadow && policy.scaling.mode != Mode::Off {
            policy.scaling.mode = Mode::On;
        }
        let (fleet, model) = (self.fleet.clone(), self.model.clone());
        let clients = flags.closed_loop.map(|clients| clients as usize);
        let troubles = Troubles {
            starts_take: flags.start_takes.map(|takes| (takes.least, takes.most)),
            starts_fail: flags.start_fails,
            lost_after: flags.lost_after,
        };
        Rehearsal { seed: 0, policy, fleet, model, make: Make::Sharing, clients, troubles }
    }

    fn workload(&self, flags: &Flags) -> String {
        let what = match (&flags.trace, &flags.workload) {
            (Some(history), _) => history.display().to_string(),
            (None, Some(Kind::Poisson(rate))) => format!("TPC-DS, {rate} queries a second at random"),
            (None, Some(Kind::Batched(rate, cv))) => format!("TPC-DS, {rate} queries a second in batches (CV {cv})"),
            (None, Some(Kind::Phased(phases))) => format!("TPC-DS in {} phases", phases.len()),
            (None, Some(Kind::Day(queries, _))) => format!("TPC-DS, a day of {queries} queries"),
            (None, None) => String::new(),
        };
        if flags.compress == 1.0 { what } else { format!("{what}, gaps divided by {}", flags.compress) }
    }

    fn slo(&self, flags: &Flags) -> String {
        match (flags.slo, &flags.trace) {
            (Some(target), _) => target.to_string(),
            (None, Some(_)) => "as recorded, or that of the class".to_owned(),
            (None, None) => Target::Factor(DEFAULT_FACTOR).to_string(),
        }
    }
}

/// Says so if nothing that is started can help.
fn too_slow(policies: &[Rehearsal], load: &Load, cut: Cut, seed: u64) {
    let mut scaled = policies.iter().map(|of| &of.policy.scaling).filter(|scaling| scaling.mode == Mode::On);
    let Some(takes) = scaled.next().map(|scaling| scaling.start_takes) else { return };
    let last = load.arrivals(seed, cut).last().map_or(Span::ZERO, |last| last.at.since(Time::ZERO));
    if takes >= last {
        print::aside(format_args!(
            "punctual: a cluster takes {takes} to start, and the last query comes after {last}: nothing that is started \
             comes in time"
        ));
    }
}

/// Says so if not all of a workload comes. (What is left out of a history has been said when it was read.)
fn too_many(load: &Load, cut: Cut, seed: u64) {
    if let Some(until) = load.is_cut(seed, cut) {
        let most = cut.most;
        print::aside(format_args!(
            "punctual: only the first {most} queries come, which is until {until}: --queries allows no more"
        ));
    }
}

/// How many times what it takes alone a query of TPC-DS may take, if nobody says it.
const DEFAULT_FACTOR: f64 = 2.0;

/// The clusters that a history speaks of.
fn recorded_fleet(flags: &Flags) -> Result<Vec<Spec>, Stop> {
    let Some(history) = &flags.trace else { return Ok(Vec::new()) };
    let fleet = shadow::fleet(&trace::placements(history, &flags.only)?, price(flags));
    let most = Policy::default().max_clusters as usize;
    if fleet.len() > most {
        let (count, history) = (fleet.len(), history.display());
        return Err(Stop::usage(format_args!(
            "{history} speaks of {count} clusters, and there may be {most} at once: take some with --only, or say with \
             --clusters what there is"
        )));
    }
    Ok(fleet)
}

/// The sizes of a fleet, and half and twice of each.
fn around(fleet: &[Spec]) -> Vec<Units> {
    let of = |spec: &Spec| [spec.units.0.div_ceil(2), spec.units.0, spec.units.0.saturating_mul(2)].map(Units);
    let sizes: Vec<Units> = fleet.iter().flat_map(of).collect();
    if sizes.is_empty() { OFFERS.to_vec() } else { sizes }
}

fn price(flags: &Flags) -> Price {
    let usual = Price::default();
    Price { per_unit_hour: flags.price.unwrap_or(usual.per_unit_hour), ..usual }
}

fn offer_name(units: Units) -> String {
    format!("size{}", units.0)
}
