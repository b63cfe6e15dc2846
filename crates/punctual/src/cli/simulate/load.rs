//! What comes, and the world that it comes to: TPC-DS in the simulated warehouse, or a trace in plain sharing.

use std::sync::Arc;

use punctual_core::billing::Price;
use punctual_core::class::DEFAULT;
use punctual_core::cluster::Spec;
use punctual_core::id::Units;
use punctual_core::policy::Policy;
use punctual_core::rng::Rng;
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Troubles};
use punctual_sim::workload::{self, Arrival, Asked, Batched, Day, Pattern, Phase, Remembered, Templates};
use punctual_sim::world::compute::Make;
use punctual_sim::world::warehouse::{Table, Template};

use super::typed::{Kind, Target};

/// The size on which what a template takes alone is measured.
const BASELINE: Units = Units(16);

/// How often each template is run for that. The first time it is cold.
const ROUNDS: usize = 5;

/// Of what lies between two queries of a batch, the share of the mean gap.
const WITHIN: f64 = 0.05;

/// How many of a day's queries come in each hour, in hundredths of the busiest.
const HOURS: [u32; 24] = [8, 6, 6, 6, 10, 14, 20, 35, 70, 95, 100, 90, 65, 85, 100, 95, 80, 55, 35, 25, 20, 15, 12, 10];

/// What a simulation is about.
pub(super) enum Load {
    /// Queries of TPC-DS.
    Tpcds {
        /// Which, and when.
        kind: Kind,
        /// When each template is late; one for each.
        slos: Vec<Span>,
        /// How long they come.
        length: Span,
    },
    /// Queries that were recorded.
    Trace(Vec<Remembered>),
}

/// What is done to any load before it is used.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Gaps are divided by it.
    pub(super) compress: f64,
    /// No more queries than that.
    pub(super) most: usize,
}

impl Load {
    /// TPC-DS with its SLOs.
    pub(super) fn tpcds(kind: Kind, target: Target, length: Option<Span>) -> Load {
        let day = matches!(kind, Kind::Day(..));
        let length = length.unwrap_or(Span::from_secs(if day { 86_400 } else { 3_600 }));
        let slos = match target {
            Target::Within(span) => vec![span; Template::COUNT],
            Target::Factor(factor) => {
                baselines().into_iter().map(|alone| Span::from_secs_f64(alone.secs_f64() * factor)).collect()
            }
        };
        Load::Tpcds { kind, slos, length }
    }

    /// What comes, with the luck of this seed.
    pub(super) fn arrivals(&self, seed: u64, cut: Cut) -> Vec<Arrival> {
        let sooner = |mut arrival: Arrival| {
            let at = arrival.at.since(Time::ZERO).secs_f64() / cut.compress;
            arrival.at = Time::ZERO + Span::from_secs_f64(at);
            arrival
        };
        match self {
            Load::Tpcds { kind, slos, length } => {
                let come = tpcds(kind, slos, *length, seed);
                come.take(cut.most).map(sooner).collect()
            }
            Load::Trace(trace) => workload::again(trace, seed).take(cut.most).map(sooner).collect(),
        }
    }

    /// When the last query comes that does, if more of the workload would come after it.
    pub(super) fn is_cut(&self, seed: u64, cut: Cut) -> Option<Span> {
        let Load::Tpcds { .. } = self else { return None };
        let more = self.arrivals(seed, Cut { most: cut.most.saturating_add(1), ..cut });
        (more.len() > cut.most).then(|| more[cut.most - 1].at.since(Time::ZERO))
    }

    /// What clusters are, with the luck of this seed.
    pub(super) fn make(&self, seed: u64) -> Make {
        match self {
            Load::Tpcds { .. } => Make::Warehouse { table: Arc::new(Table::shipped().clone()), seed },
            Load::Trace(_) => Make::Sharing,
        }
    }
}

fn tpcds(kind: &Kind, slos: &[Span], length: Span, seed: u64) -> Box<dyn Iterator<Item = Arrival>> {
    let slo = |template: Template| slos.get(template.index()).copied();
    let asked = |template| Asked { template, class: DEFAULT, slo: slo(template) };
    let table = Table::shipped();
    let spread = |pattern: Pattern| Templates::uniform(DEFAULT, slo).generate(seed, &pattern, length, table);
    let batched = |rate: f64, cv| Batched { rate, cv, within: Span::from_secs_f64(WITHIN / rate) };
    match kind {
        Kind::Poisson(rate) => Box::new(spread(Pattern::Poisson { rate: *rate })),
        Kind::Batched(rate, cv) => Box::new(spread(Pattern::Batched(batched(*rate, *cv)))),
        Kind::Phased(phases) => {
            let phase =
                |(rate, length): &(f64, Span)| Phase { length: *length, pattern: Pattern::Poisson { rate: *rate } };
            Box::new(spread(Pattern::Phased(phases.iter().map(phase).collect())))
        }
        Kind::Day(queries, cv) => {
            let counts = counts(*queries, seed).into_iter().map(|(hour, template, n)| (hour, asked(template), n));
            let day = Day { counts: counts.collect(), cv: *cv };
            let end = Time::ZERO + length;
            Box::new(day.generate(seed, table).take_while(move |arrival| arrival.at < end))
        }
    }
}

/// How often which template comes in which hour of a day of so many queries.
fn counts(queries: u32, seed: u64) -> Vec<(u32, Template, u32)> {
    let whole: u64 = HOURS.iter().map(|share| u64::from(*share)).sum();
    let mut chance = Rng::numbered(seed, MIX);
    let (mut counted, mut come, mut sum) = (Vec::new(), 0, 0);
    for (hour, share) in (0u32..).zip(HOURS) {
        sum += u64::from(share);
        let until = u64::from(queries) * sum / whole;
        let mut of_hour = [0u32; Template::COUNT];
        for _ in come..until {
            of_hour[chance.index(Template::COUNT)] += 1;
        }
        come = until;
        let seen = Template::all().zip(of_hour).filter(|(_, count)| *count > 0);
        counted.extend(seen.map(|(template, count)| (hour, template, count)));
    }
    counted
}

/// What tells the templates of a day from other chance of the same seed.
const MIX: u64 = 1 << 45;

/// What each template takes in the median when the workload runs closed loop, one at a time, on one cluster.
pub(super) fn baselines() -> Vec<Span> {
    let ask = |template| (Time::ZERO, Asked { template, class: DEFAULT, slo: None });
    let list: Vec<(Time, Asked)> = (0..ROUNDS).flat_map(|_| Template::all().map(ask)).collect();
    let arrivals: Vec<Arrival> = workload::trace(list, Table::shipped()).collect();
    let fleet = vec![cluster("baseline", BASELINE, Price::default())];
    let make = Make::Warehouse { table: Arc::new(Table::shipped().clone()), seed: 0 };
    let policy = Policy { decisions_kept: 0, ..Policy::default() };
    let alone =
        Rehearsal { seed: 0, policy, fleet, model: None, make, clients: Some(1), troubles: Troubles::default() };
    let mut took = vec![Vec::new(); Template::COUNT];
    for ended in alone.run(&arrivals, &mut |_| true).iter().flat_map(|rehearsed| &rehearsed.ended) {
        if let Some(of) = took.get_mut((ended.query.fingerprint.0 as usize).wrapping_sub(1)) {
            of.push(ended.latency());
        }
    }
    let median = |mut of: Vec<Span>| {
        of.sort_unstable();
        of.get(of.len() / 2).copied().unwrap_or(Span::from_secs(1))
    };
    took.into_iter().map(median).collect()
}

/// Queries that a cluster runs at once for each unit of its size, as in a configuration that does not say it.
const SLOTS_PER_UNIT: u32 = 4;

/// A cluster that is not in any configuration.
pub(super) fn cluster(name: &str, units: Units, price: Price) -> Spec {
    let slots = units.0.saturating_mul(SLOTS_PER_UNIT);
    Spec { name: name.to_owned(), units, slots, price, killable: true, offer: None, writer: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Cut = Cut { compress: 1.0, most: usize::MAX };

    #[test]
    fn a_day_has_its_queries_and_most_of_them_in_office_hours() {
        let counts = counts(4_000, 1);
        let of = |from, to| -> u32 {
            counts.iter().filter(|(hour, ..)| (from..to).contains(hour)).map(|(_, _, count)| count).sum()
        };
        assert_eq!(of(0, 24), 4_000);
        assert!(of(8, 18) > 3_000 && of(0, 6) > 100);
    }

    #[test]
    fn gaps_are_divided_and_queries_are_cut_off() {
        let load = Load::tpcds(Kind::Poisson(0.5), Target::Within(Span::from_secs(9)), Some(Span::from_secs(600)));
        let plain = load.arrivals(3, ALL);
        let sooner = load.arrivals(3, Cut { compress: 6.0, most: 20 });
        assert!(plain.len() > 200 && sooner.len() == 20);
        let (late, soon) = (plain[19].at.since(Time::ZERO).secs_f64(), sooner[19].at.since(Time::ZERO).secs_f64());
        assert!((late / soon - 6.0).abs() < 1e-3);
        assert!(plain.iter().all(|arrival| arrival.ask.slo == Some(Span::from_secs(9))));
        assert_eq!(load.arrivals(3, ALL), plain);
        assert_ne!(load.arrivals(4, ALL), plain);
        assert_eq!(load.is_cut(3, Cut { compress: 1.0, most: 20 }), Some(plain[19].at.since(Time::ZERO)));
        assert_eq!(load.is_cut(3, Cut { compress: 1.0, most: plain.len() }), None);
    }

    #[test]
    fn every_template_has_a_baseline() {
        let baselines = baselines();
        assert_eq!(baselines.len(), 99);
        assert!(baselines.iter().all(|alone| *alone > Span::from_millis(100)), "{baselines:?}");
    }
}
