//! What is typed for a simulation, and what it means: policies, workloads, targets, clusters.

use std::fmt;
use std::str::FromStr;

use punctual_core::id::Units;
use punctual_core::route::{Counting, Routing};
use punctual_core::scale::{Selector, Trigger};
use punctual_core::tag::parse_span;
use punctual_core::time::Span;

use crate::config::near::nearest;

/// A policy: `ROUTING[:COUNTING][+TRIGGER[:SELECTOR]]`, or `+off` for no scaling.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    /// How a cluster is chosen.
    pub(super) routing: Routing,
    /// From when on a query counts as late, if that is said.
    pub(super) counting: Option<Counting>,
    /// How the fleet is scaled, if that is said.
    pub(super) scaling: Option<Growth>,
}

/// When and what to start: `TRIGGER[:SELECTOR]`, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// The fleet stays as it is.
    Off,
    /// It is scaled.
    By(Trigger, Selector),
}

impl FromStr for Rules {
    type Err = String;

    fn from_str(text: &str) -> Result<Rules, String> {
        let (route, scaling) = text.split_once('+').map_or((text, None), |(route, scaling)| (route, Some(scaling)));
        let (routing, counting) = route.split_once(':').map_or((route, None), |(route, count)| (route, Some(count)));
        let routing = named("policy", routing, Routing::named, Routing::ALL.iter().map(|one| one.name()))?;
        let counting = counting.map(|name| {
            named("way of counting late queries", name, Counting::named, Counting::ALL.iter().map(|one| one.name()))
        });
        let scaling = scaling.map(str::parse).transpose()?;
        Ok(Rules { routing, counting: counting.transpose()?, scaling })
    }
}

impl FromStr for Growth {
    type Err = String;

    fn from_str(text: &str) -> Result<Growth, String> {
        if text == "off" {
            return Ok(Growth::Off);
        }
        let (trigger, selector) = text.split_once(':').unwrap_or((text, Selector::AddCluster.name()));
        let triggers = Trigger::ALL.iter().map(|one| one.name()).chain(["off"]);
        let trigger = named("trigger", trigger, Trigger::named, triggers)?;
        let selector = named("selector", selector, Selector::named, Selector::ALL.iter().map(|one| one.name()))?;
        Ok(Growth::By(trigger, selector))
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.routing)?;
        if let Some(counting) = self.counting {
            write!(f, ":{}", counting.name())?;
        }
        match self.scaling {
            None => Ok(()),
            Some(Growth::Off) => f.write_str("+off"),
            Some(Growth::By(trigger, selector)) => write!(f, "+{trigger}:{selector}"),
        }
    }
}

/// The one of that name, or what was probably meant.
fn named<T>(
    what: &str,
    name: &str,
    find: impl Fn(&str) -> Option<T>,
    all: impl Iterator<Item = &'static str> + Clone,
) -> Result<T, String> {
    find(name).ok_or_else(|| match nearest(name, all.clone()) {
        Some(meant) => format!("there is no {what} \"{name}\"; did you mean \"{meant}\"?"),
        None => format!("there is no {what} \"{name}\"; there are {}", all.collect::<Vec<_>>().join(", ")),
    })
}

/// A generated workload of TPC-DS queries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// `poisson:RATE`
    Poisson(f64),
    /// `batched:RATE:CV`
    Batched(f64, f64),
    /// `phased:RATE@SPAN,RATE@SPAN,…`
    Phased(Vec<(f64, Span)>),
    /// `day[:QUERIES[:CV]]`
    Day(u32, f64),
}

/// The most queries in a day.
const MOST_A_DAY: u32 = 1_000_000;

const KINDS: [&str; 4] = ["poisson", "batched", "phased", "day"];

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let text = text.strip_prefix("tpcds:").unwrap_or(text);
        let (kind, options) = text.split_once(':').map_or((text, None), |(kind, options)| (kind, Some(options)));
        match kind {
            "poisson" => Ok(Kind::Poisson(rate(options.unwrap_or("0.1"))?)),
            "batched" => {
                let (each, cv) = options.unwrap_or("0.1:3.5").split_once(':').unwrap_or((options.unwrap_or(""), "3.5"));
                Ok(Kind::Batched(rate(each)?, cv_of(cv)?))
            }
            "phased" => {
                let phases = options.ok_or("phased needs phases: phased:0.05@20m,0.3@10m")?;
                phases.split(',').map(phase).collect::<Result<_, _>>().map(Kind::Phased)
            }
            "day" => {
                let (queries, cv) = options.map_or(("4000", "3.5"), |one| one.split_once(':').unwrap_or((one, "3.5")));
                let queries = queries.parse().ok().filter(|queries| (1..=MOST_A_DAY).contains(queries));
                let queries = queries.ok_or_else(|| format!("a day has 1 to {MOST_A_DAY} queries: day:4000"))?;
                Ok(Kind::Day(queries, cv_of(cv)?))
            }
            other => named("workload", other, |_| None, KINDS.into_iter()),
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-6..=1e4).contains(rate));
    rate.ok_or_else(|| format!("\"{text}\" is no rate: write queries a second, from 0.000001 to 10000"))
}

fn cv_of(text: &str) -> Result<f64, String> {
    let cv = text.parse().ok().filter(|cv| (0.0..=100.0).contains(cv));
    cv.ok_or_else(|| format!("\"{text}\" is no variation: write deviation over mean of the gaps, from 0 to 100"))
}

fn phase(text: &str) -> Result<(f64, Span), String> {
    let (each, length) = text.split_once('@').ok_or_else(|| format!("\"{text}\" is no phase: write 0.3@10m"))?;
    Ok((if each == "0" { 0.0 } else { rate(each)? }, some_time(length)?))
}

/// When queries are late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// All within so long.
    Within(Span),
    /// Within so many times what their shape takes alone.
    Factor(f64),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        const FACTOR: &str = "fingerprint-factor:";
        if let Some(factor) = text.strip_prefix(FACTOR) {
            let factor = factor.parse().ok().filter(|factor| (0.01..=1e6).contains(factor));
            return factor.map(Target::Factor).ok_or_else(|| format!("write {FACTOR}2, from 0.01 to 1000000"));
        }
        match parse_span(text) {
            Some(Span::ZERO) => Err("an SLO of nothing cannot be met: write a duration such as 3s".to_owned()),
            Some(span) => Ok(Target::Within(span)),
            None => Err(format!("\"{text}\" is no SLO: write a duration such as 3s, or {FACTOR}2")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Within(span) => write!(f, "{span}"),
            Target::Factor(factor) => write!(f, "{factor} times what each shape takes alone"),
        }
    }
}

/// A span longer than nothing.
pub(super) fn some_time(text: &str) -> Result<Span, String> {
    let span = parse_span(text).filter(|span| *span > Span::ZERO);
    span.ok_or_else(|| format!("\"{text}\" is no duration: write a number and its unit (s, m, h, d), as in 30m"))
}

/// How long a cluster takes to start: from the one to the other, each time equally likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartTakes {
    /// At least.
    pub(super) least: Span,
    /// At most.
    pub(super) most: Span,
}

impl StartTakes {
    /// What to expect.
    pub(super) fn middle(self) -> Span {
        self.least + Span::from_micros((self.most - self.least).micros() / 2)
    }
}

impl FromStr for StartTakes {
    type Err = String;

    fn from_str(text: &str) -> Result<StartTakes, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let span = |text: &str| {
            parse_span(text).ok_or_else(|| {
                format!("\"{text}\" is no duration: write a number and its unit, as in 300s or 45s..90s")
            })
        };
        let takes = StartTakes { least: span(least)?, most: span(most)? };
        if takes.least > takes.most {
            return Err(format!("{text} ends before it begins: write the shorter duration first"));
        }
        Ok(takes)
    }
}

/// A share of all.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("\"{text}\" is no share: write a number from 0 to 1, as in 0.1"))
}

/// A number above zero.
pub(super) fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1e-3..=1e6).contains(factor));
    factor.ok_or_else(|| "write a number from 0.001 to 1000000".to_owned())
}

/// A cluster's size.
pub(super) fn size(text: &str) -> Result<Units, String> {
    let size = text.trim().parse().ok().filter(|size| (1..=4_096).contains(size));
    size.map(Units).ok_or_else(|| format!("\"{text}\" is no size of a cluster: write a whole number from 1 to 4096"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<Rules, String> {
        text.parse()
    }

    #[test]
    fn policies_are_read_and_said_again() {
        for text in ["slo", "slo:expected", "p2c+off", "slo+combined:add_cluster", "slo:p90+queue_depth:horizontal"] {
            assert_eq!(rules(text).map(|rules| rules.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(rules("slo+observed").unwrap().scaling, Some(Growth::By(Trigger::Observed, Selector::AddCluster)));
    }

    #[test]
    fn what_is_unknown_is_told_with_what_was_meant() {
        let said = |text: &str| rules(text).unwrap_err();
        assert_eq!(said("round_robbin"), "there is no policy \"round_robbin\"; did you mean \"round_robin\"?");
        assert!(said("fastest").contains("there are round_robin, least_outstanding"), "{}", said("fastest"));
        assert!(said("slo+combind").contains("did you mean \"combined\""));
        assert!(said("slo+combined:horizontl").contains("did you mean \"horizontal\""));
        assert!(said("slo:mean").contains("there is no way of counting"));
        assert!(said("").contains("there is no policy"));
        assert!("poison:1".parse::<Kind>().unwrap_err().contains("did you mean \"poisson\""));
    }

    #[test]
    fn workloads_and_targets_are_read() {
        let kind = |text: &str| text.parse::<Kind>();
        assert_eq!(kind("tpcds:poisson:0.2"), Ok(Kind::Poisson(0.2)));
        assert_eq!(kind("batched:0.2"), Ok(Kind::Batched(0.2, 3.5)));
        assert_eq!(kind("batched:0.2:4"), Ok(Kind::Batched(0.2, 4.0)));
        assert_eq!(kind("day:100:1"), Ok(Kind::Day(100, 1.0)));
        let phases = vec![(0.05, Span::from_secs(1_200)), (0.0, Span::from_secs(60))];
        assert_eq!(kind("phased:0.05@20m,0@1m"), Ok(Kind::Phased(phases)));
        for wrong in
            ["poisson:0", "poisson:-1", "poisson:nan", "poisson:inf", "batched:1:x", "phased", "phased:1", "day:0"]
        {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
        assert_eq!("3s".parse(), Ok(Target::Within(Span::from_secs(3))));
        assert_eq!("fingerprint-factor:2".parse(), Ok(Target::Factor(2.0)));
        for wrong in ["0s", "inf", "fingerprint-factor:0", "fingerprint-factor:nan", "", "3"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
        let takes = |text: &str| text.parse::<StartTakes>().map(|takes| (takes.least, takes.middle(), takes.most));
        let [short, middle, long] = [45, 60, 75].map(Span::from_secs);
        assert_eq!((takes("45s..75s"), takes("60s")), (Ok((short, middle, long)), Ok((middle, middle, middle))));
        for wrong in ["", "45", "45s..", "..45s", "90s..45s", "-1s"] {
            assert!(wrong.parse::<StartTakes>().is_err(), "{wrong}");
        }
        assert!(share("1.1").is_err() && share("-0.1").is_err() && share("nan").is_err() && share("0.1") == Ok(0.1));
        assert!(size("0").is_err() && size("-1").is_err() && size("").is_err() && size("16") == Ok(Units(16)));
    }
}
