//! What is run: the fleet, what arrives, and by which scheme.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::load::Load;
use super::service::ServiceTime;

/// How tasks find servers, and whether servers turn off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Tokens say who is idle; the idle turn off, blocked tasks start servers.
    Tabs,
    /// Tokens say who is idle; all are always on.
    Jiq,
    /// The shortest queue; all are always on.
    Jsq,
    /// The shorter of two random queues; all are always on.
    P2c,
    /// A random queue; all are always on.
    Random,
    /// One central queue; the idle turn off after a while, each waiting task has a server start (M/M/N with setup and
    /// delayed off; Gandhi, Harchol-Balter, Adan, "Server farms with setup costs", 2010).
    DelayedOff,
}

/// After which time something happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// It does not.
    Never,
    /// After an exponential time of that mean.
    Exponential(f64),
    /// After exactly that time.
    Fixed(f64),
}

/// What arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent of each other, at a rate of the load times the number of servers.
    Poisson(Load),
    /// At these instants, in the order of time.
    Trace(Arc<[f64]>),
}

/// How a run begins. What is not named is idle-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The share of servers with at least one task, with at least two, and so on.
    pub queues: Vec<f64>,
    /// The share that is idle-off.
    pub idle_off: f64,
    /// The share in setup.
    pub setup: f64,
}

/// What a server draws, in watts; nothing when it is off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Busy or in setup.
    pub full: f64,
    /// Idle-on.
    pub idle: f64,
}

/// All that governs a run. Times are in mean service times.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// How many servers there are.
    pub servers: u32,
    /// How tasks find them.
    pub scheme: Scheme,
    /// What arrives.
    pub arrivals: Arrivals,
    /// How long a task takes.
    pub service: ServiceTime,
    /// How long a server stays idle before it turns off. Schemes whose servers are always on do not read it.
    pub standby: Delay,
    /// How long a server takes to turn on.
    pub setup: Delay,
    /// Whether a setup is called off when it is not needed any more: under [`Scheme::Tabs`] one for each server that
    /// becomes idle, under [`Scheme::DelayedOff`] when there are more of them than tasks that wait.
    pub abort: bool,
    /// Tasks that a server holds at most, the one in service counted; what comes beyond is lost.
    pub buffer: Option<u32>,
    /// How it begins.
    pub start: Start,
    /// When it ends.
    pub horizon: f64,
    /// What happens before is not counted.
    pub warmup: f64,
    /// Into how many parts the horizon is cut by samples of the state; zero takes none.
    pub samples: u32,
    /// What servers draw.
    pub power: Power,
}

/// Servers that a fleet may have.
pub const MOST_SERVERS: u32 = 100_000_000;

/// Samples that may be taken.
pub const MOST_SAMPLES: u32 = 1_000_000;

/// Why a setting cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No server, or more than [`MOST_SERVERS`].
    Servers,
    /// A load that is negative or no number, or steps out of order.
    Load,
    /// Instants that are negative, no numbers or out of order.
    Instants,
    /// ServiceTime times that are negative or no numbers, or none.
    ServiceTime,
    /// A standby time that is negative or no number.
    Standby,
    /// A setup time that is negative or no number, or that never ends although servers turn off.
    Setup,
    /// A buffer for no task.
    Buffer,
    /// Shares of the beginning that are negative, not in order, or more than one together.
    Start,
    /// A horizon that is not positive and finite, or a warm-up that is not before it.
    Horizon,
    /// More than [`MOST_SAMPLES`].
    Samples,
    /// Watts that are negative or no numbers.
    Power,
}

impl Setting {
    /// The paper's setting: exponential times, all idle-on at first, horizon 250, mean standby 10, mean setup 10.
    pub fn new(servers: u32, load: f64) -> Setting {
        Setting {
            servers,
            scheme: Scheme::Tabs,
            arrivals: Arrivals::Poisson(Load::Constant(load)),
            service: ServiceTime::Exponential,
            standby: Delay::Exponential(10.0),
            setup: Delay::Exponential(10.0),
            abort: false,
            buffer: None,
            start: Start::default(),
            horizon: 250.0,
            warmup: 0.0,
            samples: 0,
            power: Power::default(),
        }
    }

    /// Whether it can be run.
    pub fn check(&self) -> Result<(), Wrong> {
        let rules = [
            ((1..=MOST_SERVERS).contains(&self.servers), Wrong::Servers),
            (self.service.is_sound(), Wrong::ServiceTime),
            (self.standby.is_sound(), Wrong::Standby),
            (self.setup.is_sound() && (self.setup != Delay::Never || !self.turns_off()), Wrong::Setup),
            (self.buffer != Some(0), Wrong::Buffer),
            (self.start.is_sound(), Wrong::Start),
            (self.horizon.is_finite() && self.horizon > 0.0, Wrong::Horizon),
            (self.warmup >= 0.0 && self.warmup < self.horizon, Wrong::Horizon),
            (self.samples <= MOST_SAMPLES, Wrong::Samples),
            (self.power.is_sound(), Wrong::Power),
        ];
        match &self.arrivals {
            Arrivals::Poisson(load) if !load.is_sound() => return Err(Wrong::Load),
            Arrivals::Trace(instants) if !(instants.is_sorted() && instants.iter().all(|at| not_negative(*at))) => {
                return Err(Wrong::Instants);
            }
            _ => {}
        }
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }

    /// Whether servers are ever off.
    fn turns_off(&self) -> bool {
        let may = matches!(self.scheme, Scheme::Tabs | Scheme::DelayedOff) && self.standby != Delay::Never;
        may || self.start.idle_off > 0.0 || self.start.setup > 0.0
    }
}

impl Scheme {
    /// Whether idle servers turn off.
    pub fn turns_off(self) -> bool {
        matches!(self, Scheme::Tabs | Scheme::DelayedOff)
    }
}

impl Delay {
    /// At which rate it ends if it does not remember how long it has lasted; zero otherwise.
    pub fn rate(self) -> f64 {
        match self {
            Delay::Exponential(mean) => 1.0 / mean,
            Delay::Never | Delay::Fixed(_) => 0.0,
        }
    }

    /// How long it lasts if that is always the same.
    pub fn fixed(self) -> Option<f64> {
        match self {
            Delay::Fixed(time) => Some(time),
            Delay::Never | Delay::Exponential(_) => None,
        }
    }

    fn is_sound(self) -> bool {
        match self {
            Delay::Never => true,
            Delay::Exponential(mean) => mean.is_finite() && mean > 0.0,
            Delay::Fixed(time) => not_negative(time),
        }
    }
}

impl Start {
    fn is_sound(&self) -> bool {
        let shares = || self.queues.iter().chain([&self.idle_off, &self.setup]);
        let busy = self.queues.first().copied().unwrap_or(0.0);
        shares().all(|share| not_negative(*share))
            && self.queues.windows(2).all(|pair| pair[0] >= pair[1])
            && busy + self.idle_off + self.setup <= 1.0 + 1e-9
    }
}

impl Power {
    fn is_sound(self) -> bool {
        not_negative(self.full) && not_negative(self.idle)
    }
}

/// The paper's server.
impl Default for Power {
    fn default() -> Power {
        Power { full: 200.0, idle: 140.0 }
    }
}

fn not_negative(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::Servers => "there must be at least one server, and at most 100 million",
            Wrong::Load => "the load must not be negative, and its steps must be in the order of time",
            Wrong::Instants => "the instants of arrival must not be negative, and be in the order of time",
            Wrong::ServiceTime => "service times must not be negative, and there must be one",
            Wrong::Standby => "the standby time must not be negative",
            Wrong::Setup => "the setup time must not be negative, and end where servers turn off",
            Wrong::Buffer => "a server must hold at least one task",
            Wrong::Start => "the shares at the beginning must not be negative, grow with the queue or exceed one",
            Wrong::Horizon => "the horizon must be positive, and the warm-up before it",
            Wrong::Samples => "there are at most a million samples",
            Wrong::Power => "watts must not be negative",
        })
    }
}

impl std::error::Error for Wrong {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let wrong = |change: fn(&mut Setting)| {
            let mut setting = Setting::new(10, 0.3);
            change(&mut setting);
            setting.check()
        };
        assert_eq!(wrong(|_| ()), Ok(()));
        assert_eq!(wrong(|s| s.servers = 0), Err(Wrong::Servers));
        assert_eq!(wrong(|s| s.arrivals = Arrivals::Poisson(Load::Constant(-1.0))), Err(Wrong::Load));
        assert_eq!(wrong(|s| s.arrivals = Arrivals::Trace([2.0, 1.0].into())), Err(Wrong::Instants));
        assert_eq!(wrong(|s| s.service = ServiceTime::Trace([].into())), Err(Wrong::ServiceTime));
        assert_eq!(wrong(|s| s.standby = Delay::Exponential(0.0)), Err(Wrong::Standby));
        assert_eq!(wrong(|s| s.setup = Delay::Never), Err(Wrong::Setup));
        assert_eq!(wrong(|s| s.start.queues = vec![0.2, 0.5]), Err(Wrong::Start));
        assert_eq!(wrong(|s| s.warmup = 250.0), Err(Wrong::Horizon));
        assert_eq!(wrong(|s| s.horizon = f64::NAN), Err(Wrong::Horizon));
    }
}
