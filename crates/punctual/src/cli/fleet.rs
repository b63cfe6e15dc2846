//! `punctual fleet`: many like servers under a token scheme, or one of its rivals, beside the fluid limit.

mod typed;

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use punctual_sim::fleet::{Delay, Outcome, PhaseType, Sample, Scheme, ServiceTime, Setting};
use serde::Serialize;

use super::{Format, Stop};
use crate::experiment::fleet::{Effort, Row, drawn, farthest, fluid, many};
use crate::figure::Figure;
use crate::model::report::page::Page;
use crate::print;
use typed::{Kind, Rate, Wait};

/// Simulate many like servers that turn on and off by tokens
#[derive(Debug, Args)]
#[command(after_long_help = LONG_HELP)]
pub(super) struct Flags {
    /// How many servers
    #[arg(long, default_value_t = 1_000)]
    servers: u32,
    /// Tasks per server and mean service time: a number, wave:MEAN:AMPLITUDE:PERIOD, steps:AT=LOAD,… or trace:FILE
    #[arg(long, default_value = "0.3", value_name = "LOAD")]
    load: Rate,
    /// How long an idle server stays on: a mean, fixed:TIME or never
    #[arg(long, default_value = "10", value_name = "TIME")]
    standby: Wait,
    /// How long a server takes to turn on: a mean, or fixed:TIME
    #[arg(long, default_value = "10", value_name = "TIME")]
    setup: Wait,
    /// How tasks find servers
    #[arg(long, value_enum, default_value_t)]
    policy: Policy,
    /// Call setups off that are not needed any more
    #[arg(long)]
    abort: bool,
    /// Tasks that a server holds at most; what comes beyond is lost
    #[arg(long, value_name = "TASKS")]
    buffer: Option<u32>,
    /// exponential, deterministic, erlang:K, hyperexponential:SCV, lognormal:SCV, coxian:RATE,P,RATE,…, phases:FILE or trace:FILE
    #[arg(long, default_value = "exponential", value_name = "KIND")]
    service: Kind,
    /// When it ends
    #[arg(long, default_value_t = 250.0, value_name = "TIME")]
    horizon: f64,
    /// What happens before is not counted
    #[arg(long, default_value_t = 0.0, value_name = "TIME")]
    warmup: f64,
    /// Samples of the state over time
    #[arg(long, default_value_t = 100)]
    samples: u32,
    /// Independent runs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// What chance begins with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw it, as one page of HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const LONG_HELP: &str = "\
All times are in mean service times. At first all servers are idle and on. SCV is the squared coefficient of variation.
trace:FILE has one number a line: instants of arrival, or service times. phases:FILE is JSON: {\"first\": [r…],
\"next\": [[R…]…], \"rates\": [γ…]}; what is missing to one in a row of R ends the task.

  punctual fleet --servers 100000 --load 0.3 --runs 20
  punctual fleet --load wave:0.5:0.3:50 --service erlang:3 --html fleet.html
  punctual fleet --policy delayed-off --abort --setup 100";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// Tokens; the idle turn off, blocked tasks start servers
    #[default]
    Tabs,
    /// Tokens; all are always on
    Jiq,
    /// The shortest queue; all are always on
    Jsq,
    /// The shorter of two random queues; all are always on
    P2c,
    /// A random queue; all are always on
    Random,
    /// One central queue; the idle turn off, waiting tasks start servers (with --standby never: M/M/N)
    #[value(alias = "delayed_off")]
    DelayedOff,
}

/// What came of it.
#[derive(Serialize)]
struct Found {
    #[serde(flatten)]
    row: Row,
    busy_fraction: f64,
    idle_off_fraction: f64,
    longest_wait: f64,
    held: u64,
    lost: u64,
    events: u64,
    bytes_per_server: u64,
    /// The greatest difference of a share between a path and the fluid curve, if there is one.
    fluid_distance: Option<Figure>,
    /// The first run's.
    path: Vec<Sample>,
    fluid: Vec<Sample>,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let setting = flags.setting()?;
    let effort = Effort { runs: flags.runs.into(), most: flags.servers, seed: flags.seed };
    setting.check().map_err(Stop::usage)?;
    let done = super::reproduce::with_progress("fleet", |stop, tell| {
        many(std::slice::from_ref(&setting), effort, stop, tell).transpose()
    })?;
    let outcomes: Vec<Outcome> = done.map_err(Stop::usage)?.into_iter().flatten().collect();
    let found = Found::of(&setting, &outcomes);
    if let Some(path) = &flags.html {
        super::evaluate::draw(path, &found.page())?;
    }
    match flags.format {
        Format::Text => print::line(&found)?,
        Format::Json => print::json(&found)?,
    }
    Ok(0)
}

impl Flags {
    fn setting(&self) -> Result<Setting, Stop> {
        let scheme = match self.policy {
            Policy::Tabs => Scheme::Tabs,
            Policy::Jiq => Scheme::Jiq,
            Policy::Jsq => Scheme::Jsq,
            Policy::P2c => Scheme::P2c,
            Policy::Random => Scheme::Random,
            Policy::DelayedOff => Scheme::DelayedOff,
        };
        Ok(Setting {
            scheme,
            arrivals: self.load.read().map_err(Stop::usage)?,
            service: self.service.read().map_err(Stop::usage)?,
            standby: if scheme.turns_off() { self.standby.0 } else { Delay::Never },
            setup: self.setup.0,
            abort: self.abort,
            buffer: self.buffer,
            horizon: self.horizon,
            warmup: self.warmup,
            samples: self.samples,
            ..Setting::new(self.servers, 0.0)
        })
    }
}

impl Found {
    fn of(setting: &Setting, outcomes: &[Outcome]) -> Found {
        let phases = match &setting.service {
            ServiceTime::Exponential => Some(PhaseType::exponential()),
            ServiceTime::PhaseType(phases) => Some(phases.clone()),
            ServiceTime::Deterministic | ServiceTime::LogNormal { .. } | ServiceTime::Trace(_) => None,
        };
        let limit = phases.and_then(|phases| fluid(setting, phases)).filter(|_| setting.samples > 0);
        let curve = limit.map_or_else(Vec::new, |limit| limit.curve(&setting.start, setting.horizon, setting.samples));
        let far: Vec<f64> = outcomes.iter().map(|outcome| farthest(&outcome.path, &curve)).collect();
        let mean = |value: fn(&Outcome) -> f64| Figure::sure(&outcomes.iter().map(value).collect::<Vec<_>>()).mean;
        let sum = |value: fn(&Outcome) -> u64| outcomes.iter().map(value).sum::<u64>();
        Found {
            row: Row::of(setting, outcomes),
            busy_fraction: mean(|outcome| outcome.busy),
            idle_off_fraction: mean(|outcome| outcome.idle_off),
            longest_wait: outcomes.iter().map(|outcome| outcome.longest_wait).fold(0.0, f64::max),
            held: sum(|outcome| outcome.held),
            lost: sum(|outcome| outcome.lost),
            events: sum(|outcome| outcome.events),
            bytes_per_server: outcomes.iter().map(|o| o.bytes).max().unwrap_or(0) / u64::from(setting.servers.max(1)),
            fluid_distance: if curve.is_empty() { None } else { Figure::of(&far) },
            path: outcomes.first().map(|outcome| outcome.path.clone()).unwrap_or_default(),
            fluid: curve,
        }
    }

    fn page(&self) -> String {
        let below = format!("{} servers under {}, load {}", self.row.servers, self.row.policy, self.row.lambda);
        let mut page = Page::new("A fleet", &below);
        let caption = "The first run; dashed, the fluid limit.";
        page.plot("The state over time", caption, &drawn::samples(&self.path, &self.fluid), &drawn::shares());
        page.html(&self.to_string())
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = &self.row;
        let half =
            |half: Option<f64>, times: f64| half.map_or_else(String::new, |half| format!(" ± {:.5}", times * half));
        writeln!(
            f,
            "{} servers under {}, {} runs from {} to {}",
            row.servers, row.policy, row.runs, row.warmup, row.horizon
        )?;
        writeln!(f, "mean wait        {:.5}{}", row.mean_wait, half(row.ci.mean_wait, 1.0))?;
        writeln!(f, "longest wait     {:.3}", self.longest_wait)?;
        writeln!(f, "tasks that wait  {:.3} %", 100.0 * row.fraction_waiting)?;
        writeln!(
            f,
            "servers          {:.2} % busy, {:.2} % idle-on, {:.2}{} % in setup, {:.2} % idle-off",
            100.0 * self.busy_fraction,
            100.0 * row.idle_fraction,
            100.0 * row.setup_fraction,
            half(row.ci.setup_fraction, 100.0),
            100.0 * self.idle_off_fraction
        )?;
        writeln!(
            f,
            "energy           {:.3}{} W a server, {:.2} % of it wasted",
            row.power_per_server_w,
            half(row.ci.power_per_server_w, 1.0),
            100.0 * row.wasted
        )?;
        writeln!(f, "messages         {:.4} a task", row.messages_per_task)?;
        if let Some(distance) = self.fluid_distance {
            writeln!(f, "fluid limit      {:.4} away at most", distance.mean)?;
        }
        if self.held + self.lost > 0 {
            writeln!(f, "tasks            {} found no server on, {} were lost", self.held, self.lost)?;
        }
        write!(f, "events           {}, {} bytes a server", self.events, self.bytes_per_server)
    }
}
