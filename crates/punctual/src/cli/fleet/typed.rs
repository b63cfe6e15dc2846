//! What is typed for a fleet, and what it means: loads, times, kinds of service.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use punctual_sim::fleet::phases::NoPhases;
use punctual_sim::fleet::{Arrivals, Delay, Load, PhaseType, ServiceTime};
use serde::Deserialize;

/// The most that is read of a file.
const MOST_BYTES: u64 = 1 << 30;

/// What arrives; a file is read later.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Rate {
    Load(Load),
    Trace(PathBuf),
}

/// A time after which something happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait(pub(super) Delay);

/// How long tasks take; a file is read later.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Known(ServiceTime),
    Phases(PathBuf),
    Trace(PathBuf),
}

/// A file of phases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phases {
    first: Vec<f64>,
    next: Vec<Vec<f64>>,
    rates: Vec<f64>,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        match text.split_once(':') {
            None => Ok(Rate::Load(Load::Constant(number(text)?))),
            Some(("wave", rest)) => match numbers(rest, ':')?[..] {
                [mean, amplitude, period] => Ok(Rate::Load(Load::Wave { mean, amplitude, period })),
                _ => Err("a wave is wave:MEAN:AMPLITUDE:PERIOD".to_owned()),
            },
            Some(("steps", rest)) => {
                let step = |step: &str| -> Result<(f64, f64), String> {
                    let (at, load) = step.split_once('=').ok_or("a step is AT=LOAD")?;
                    Ok((number(at)?, number(load)?))
                };
                Ok(Rate::Load(Load::Steps(rest.split(',').map(step).collect::<Result<_, _>>()?)))
            }
            Some(("trace", path)) => Ok(Rate::Trace(path.into())),
            Some(_) => Err("a load is a number, wave:…, steps:… or trace:FILE".to_owned()),
        }
    }
}

impl Rate {
    pub(super) fn read(&self) -> Result<Arrivals, String> {
        match self {
            Rate::Load(load) => Ok(Arrivals::Poisson(load.clone())),
            Rate::Trace(path) => Ok(Arrivals::Trace(listed(path)?)),
        }
    }
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Wait, String> {
        Ok(Wait(match text.split_once(':') {
            None if text == "never" => Delay::Never,
            None => Delay::Exponential(number(text)?),
            Some(("fixed", time)) => Delay::Fixed(number(time)?),
            Some(_) => return Err("a time is a mean, fixed:TIME or never".to_owned()),
        }))
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let phases = |phases: Result<PhaseType, NoPhases>| match phases {
            Ok(phases) => Ok(Kind::Known(ServiceTime::PhaseType(phases))),
            Err(why) => Err(format!("{why}")),
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "exponential" => Ok(Kind::Known(ServiceTime::Exponential)),
            "deterministic" => Ok(Kind::Known(ServiceTime::Deterministic)),
            "lognormal" => Ok(Kind::Known(ServiceTime::LogNormal { variation: number(rest)? })),
            "erlang" => phases(PhaseType::erlang(rest.parse().map_err(|_| "erlang:K takes a number of phases")?)),
            "hyperexponential" => phases(PhaseType::hyperexponential(number(rest)?)),
            "coxian" => {
                let listed = numbers(rest, ',')?;
                let every_other = |from| listed.iter().copied().skip(from).step_by(2).collect();
                phases(PhaseType::coxian(every_other(0), every_other(1)))
            }
            "phases" => Ok(Kind::Phases(rest.into())),
            "trace" => Ok(Kind::Trace(rest.into())),
            _ => {
                Err("service is exponential, deterministic, erlang:K, hyperexponential:SCV, lognormal:SCV, coxian:…, \
                      phases:FILE or trace:FILE"
                    .to_owned())
            }
        }
    }
}

impl Kind {
    pub(super) fn read(&self) -> Result<ServiceTime, String> {
        match self {
            Kind::Known(service) => Ok(service.clone()),
            Kind::Trace(path) => Ok(ServiceTime::Trace(listed(path)?)),
            Kind::Phases(path) => {
                let said = |why: &dyn std::fmt::Display| format!("reading phases from {}: {why}", path.display());
                let Phases { first, next, rates } = serde_json::from_str(&text(path)?).map_err(|why| said(&why))?;
                Ok(ServiceTime::PhaseType(PhaseType::new(first, next, rates).map_err(|why| said(&why))?))
            }
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim().parse().map_err(|_| format!("{text:?} is no number"))?;
    if number.is_finite() { Ok(number) } else { Err(format!("{text:?} is not finite")) }
}

fn numbers(text: &str, between: char) -> Result<Vec<f64>, String> {
    text.split(between).map(number).collect()
}

/// The numbers of a file, one a line.
fn listed(path: &Path) -> Result<Arc<[f64]>, String> {
    let text = text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| number(line).map_err(|why| format!("{}:{}: {why}", path.display(), at + 1));
    lines.map(read).collect()
}

fn text(path: &Path) -> Result<String, String> {
    let said = |why: &dyn std::fmt::Display| format!("reading {}: {why}", path.display());
    let size = std::fs::metadata(path).map_err(|why| said(&why))?.len();
    if size > MOST_BYTES {
        return Err(said(&"it is larger than a gibibyte"));
    }
    std::fs::read_to_string(path).map_err(|why| said(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_times_and_services_are_read_as_they_are_typed() {
        let load = |text: &str| text.parse::<Rate>();
        assert_eq!(load("0.3"), Ok(Rate::Load(Load::Constant(0.3))));
        assert_eq!(load("wave:0.5:0.3:50"), Ok(Rate::Load(Load::Wave { mean: 0.5, amplitude: 0.3, period: 50.0 })));
        assert_eq!(load("steps:0=0.3,30=0.8"), Ok(Rate::Load(Load::Steps(vec![(0.0, 0.3), (30.0, 0.8)]))));
        assert_eq!(load("wave:1"), Err("a wave is wave:MEAN:AMPLITUDE:PERIOD".to_owned()));
        assert_eq!(load("inf"), Err("\"inf\" is not finite".to_owned()));
        let wait = |text: &str| text.parse::<Wait>().map(|wait| wait.0);
        assert_eq!(
            ["10", "fixed:2", "never"].map(|text| wait(text).expect("it is a time")),
            [Delay::Exponential(10.0), Delay::Fixed(2.0), Delay::Never]
        );
        let coxian = PhaseType::coxian(vec![2.0, 1.0], vec![0.5]).expect("it exists");
        assert_eq!("coxian:2,0.5,1".parse(), Ok(Kind::Known(ServiceTime::PhaseType(coxian))));
        assert_eq!(
            "hyperexponential:0.5".parse::<Kind>(),
            Err("a hyperexponential time has a squared coefficient of variation of one or more".to_owned())
        );
    }
}
