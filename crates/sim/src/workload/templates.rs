//! Queries of TPC-DS as a workload: a weighted choice over a pattern, or a list.
//!
//! An arrival names its template and carries the template's CPU work besides, so that it means something where there is
//! no simulated warehouse, too. Its shape is its template's number.

use std::sync::LazyLock;

use punctual_core::admit::claim::Claim;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, SessionId};
use punctual_core::predict::features::{FEATURES, Features, features};
use punctual_core::rng::{Rng, Stream};
use punctual_core::statement::Kind;
use punctual_core::time::{Span, Time};

use super::{Arrival, Ask, Pattern};
use crate::world::sharing::Work;
use crate::world::warehouse::{Table, Template};

/// A template as somebody asks for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// Which.
    pub template: Template,
    /// As what class of query.
    pub class: ClassId,
    /// When it is late.
    pub slo: Option<Span>,
}

impl Asked {
    /// Arrives at `at`, from a client of its own with this number.
    pub(super) fn arrival(self, at: Time, number: u64, table: &Table) -> Arrival {
        let profile = table.profile(self.template);
        let most_units = profile.most_units.clamp(1.0, f64::from(u32::MAX)) as u32;
        let ask = Ask {
            class: self.class,
            slo: self.slo,
            claim: Claim::default(),
            fingerprint: Fingerprint(self.template.number().into()),
            kind: Kind::Select,
            work: Work { cpu: Span::from_secs_f64(profile.cpu), most_units },
            template: Some(self.template),
            recorded: None,
        };
        Arrival { at, session: SessionId::of(0, number), ask, then: Vec::new() }
    }
}

/// Templates by weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Templates {
    /// What is asked for, and how often, relative to the others. Weights that are not positive are zero.
    pub shares: Vec<(Asked, f64)>,
}

impl Templates {
    /// All 99, each as often as the others, as one class; `slo` is asked for each.
    pub fn uniform(class: ClassId, slo: impl Fn(Template) -> Option<Span>) -> Templates {
        let share = |template| (Asked { template, class, slo: slo(template) }, 1.0);
        Templates { shares: Template::all().map(share).collect() }
    }

    /// Those that arrive at the instants of `pattern` before `horizon`. None if there is nothing to choose from.
    pub fn generate(
        &self,
        seed: u64,
        pattern: &Pattern,
        horizon: Span,
        table: &Table,
    ) -> impl Iterator<Item = Arrival> + use<> {
        let mut choice = Rng::stream(seed, Stream::Mix);
        let mut number = 0;
        let (templates, table) = (self.clone(), table.clone());
        let instants = pattern.instants(seed).take_while(move |at| *at < Time::ZERO + horizon);
        instants.map_while(move |at| {
            number += 1;
            templates.draw(&mut choice).map(|asked| asked.arrival(at, number, &table))
        })
    }

    fn draw(&self, rng: &mut Rng) -> Option<Asked> {
        let weight = |weight: f64| if weight > 0.0 { weight } else { 0.0 };
        let total: f64 = self.shares.iter().map(|share| weight(share.1)).sum();
        let mut left = rng.unit() * total;
        let chosen = self.shares.iter().find(|share| {
            left -= weight(share.1);
            left < 0.0
        });
        // Rounding may leave a little after the last.
        chosen.or_else(|| self.shares.iter().rfind(|share| share.1 > 0.0)).map(|share| share.0)
    }
}

/// The arrivals of a list, in the order of time, whatever that of the list; each from a client of its own.
pub fn trace(mut list: Vec<(Time, Asked)>, table: &Table) -> impl Iterator<Item = Arrival> + use<> {
    list.sort_by_key(|(at, _)| *at);
    let table = table.clone();
    list.into_iter().zip(1..).map(move |((at, asked), number)| asked.arrival(at, number, &table))
}

/// What the text of a template would say: which tables it reads.
pub(super) fn features_of(template: Template) -> Features {
    static ALL: LazyLock<Vec<Features>> = LazyLock::new(|| {
        let text = |template| {
            format!("select * from {}", Table::shipped().profile(template).tables.names().replace('+', ", "))
        };
        Template::all().map(|template| features(&text(template), None)).collect()
    });
    ALL.get(template.index()).copied().unwrap_or([0.0; FEATURES])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(number: u32) -> Template {
        Template::new(number).expect("a template")
    }

    fn asked(number: u32) -> Asked {
        Asked { template: template(number), class: ClassId(1), slo: None }
    }

    #[test]
    fn templates_come_by_weight_with_their_work() {
        let templates =
            Templates { shares: vec![(asked(7), 3.0), (asked(8), -1.0), (asked(9), 1.0), (asked(10), f64::NAN)] };
        let pattern = Pattern::Poisson { rate: 100.0 };
        let table = Table::shipped();
        let arrivals: Vec<Arrival> = templates.generate(4, &pattern, Span::from_secs(400), table).collect();
        let count = |number| arrivals.iter().filter(|arrival| arrival.ask.template == Some(template(number))).count();
        // 40,000 arrivals: five deviations of the share are 1.1 %.
        assert!((count(7) as f64 / arrivals.len() as f64 - 0.75).abs() < 0.011, "{} of {}", count(7), arrivals.len());
        assert_eq!((count(8), count(10), count(7) + count(9)), (0, 0, arrivals.len()));
        let work = table.profile(template(7)).cpu;
        assert!(arrivals.iter().any(|arrival| arrival.ask.work.cpu == Span::from_secs_f64(work)));
    }

    #[test]
    fn all_templates_come_when_none_is_preferred() {
        let templates = Templates::uniform(ClassId(0), |template| Some(Span::from_secs(template.number().into())));
        let pattern = Pattern::Poisson { rate: 100.0 };
        let arrivals = templates.generate(1, &pattern, Span::from_secs(100), Table::shipped());
        let seen: std::collections::BTreeSet<_> = arrivals.map(|arrival| arrival.ask.slo).collect();
        assert_eq!(seen.len(), 99);
    }

    #[test]
    fn a_list_comes_in_the_order_of_time() {
        let at = |secs| Time::ZERO + Span::from_secs(secs);
        let arrivals = trace(vec![(at(5), asked(1)), (at(2), asked(2)), (at(2), asked(3))], Table::shipped());
        let seen: Vec<_> = arrivals.map(|arrival| (arrival.at, arrival.ask.fingerprint.0)).collect();
        assert_eq!(seen, [(at(2), 2), (at(2), 3), (at(5), 1)]);
    }
}
