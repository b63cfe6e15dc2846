//! What the demonstration sends: three classes over TPC-H, in batches, as real traces have them.
//!
//! Dashboards are short and come in bursts (a page opens, its tiles ask at once); ad hoc queries are medium; ETL is
//! long and rare. Literals vary from query to query, so that fingerprints repeat and texts do not.

use punctual_core::class::{Class, Rule};
use punctual_core::rng::{Rng, Stream};
use punctual_core::time::{Span, Time};
use punctual_sim::workload::{Batched, Pattern};

/// The median gap is far below the mean at this coefficient of variation (real traces: 3 to 4).
const CV: f64 = 3.5;

/// What the clusters of a demonstration are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// Real ones: DataFusion over TPC-H.
    Embedded,
    /// Ones that only take the time.
    Simulated,
}

/// A class of the demonstration.
#[derive(Clone, Copy, Debug)]
pub struct DemoClass {
    /// Its name, which is also its clients' application name.
    pub name: &'static str,
    /// Its latency target.
    pub slo: Span,
    /// Queries a second over the long run.
    rate: f64,
    /// Mean gap inside a batch.
    within: Span,
    /// One unit's time for a query, where clusters are simulated.
    work: Span,
    draw: fn(&mut Rng) -> String,
}

/// The classes, most urgent first.
pub const CLASSES: [DemoClass; 3] = [
    DemoClass {
        name: "dashboards",
        slo: Span::from_millis(500),
        rate: 8.0,
        within: Span::from_millis(15),
        work: Span::from_millis(25),
        draw: dashboard,
    },
    DemoClass {
        name: "adhoc",
        slo: Span::from_secs(2),
        rate: 1.0,
        within: Span::from_millis(100),
        work: Span::from_millis(150),
        draw: adhoc,
    },
    DemoClass {
        name: "etl",
        slo: Span::from_secs(30),
        rate: 0.2,
        within: Span::from_millis(500),
        work: Span::from_millis(1_000),
        draw: etl,
    },
];

/// One query to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    /// When, after the start.
    pub at: Time,
    /// Index in [`CLASSES`].
    pub class: usize,
    /// Its text.
    pub sql: String,
}

/// All queries of a run of that length, in the order of their instants. The same seed gives the same ones.
pub fn shots(seed: u64, length: Span, clusters: Clusters) -> Vec<Shot> {
    let mut shots = Vec::new();
    for (index, class) in CLASSES.iter().enumerate() {
        let pattern = Pattern::Batched(Batched { rate: class.rate, cv: CV, within: class.within });
        let seed = seed.wrapping_add(index as u64);
        let mut mix = Rng::stream(seed, Stream::Mix);
        let instants = pattern.instants(seed).take_while(|at| at.since(Time::ZERO) < length);
        shots.extend(instants.map(|at| {
            let sql = match clusters {
                Clusters::Embedded => (class.draw)(&mut mix),
                // The text says how much work it is; it varies by a factor of about two either way.
                Clusters::Simulated => {
                    let work = class.work.secs_f64() * punctual_core::math::exp(0.5 * mix.normal());
                    format!("SELECT * FROM {} /* punctual: work={work:.4}s */", class.name)
                }
            };
            Shot { at, class: index, sql }
        }));
    }
    shots.sort_by_key(|shot| (shot.at, shot.class));
    shots
}

/// The classes as the gateway's policy has them: recognised by application name.
pub fn policy_classes() -> Vec<Class> {
    let mut classes = Class::built_in();
    classes.extend(CLASSES.iter().map(|class| Class {
        name: class.name.to_owned(),
        rules: vec![Rule { application: Some(class.name.to_owned()), ..Rule::default() }],
        slo: Some(class.slo),
        ..Class::default()
    }));
    classes
}

/// A tile of a dashboard: one month of orders, from one of four angles.
fn dashboard(rng: &mut Rng) -> String {
    let (year, month) = (1993 + rng.below(5), 1 + rng.below(12));
    let month = format!("date '{year}-{month:02}-01'");
    let during = |column: &str| format!("{column} >= {month} and {column} < {month} + interval '1' month");
    match rng.below(4) {
        0 => format!(
            "select o_orderpriority, count(*) as orders, sum(o_totalprice) as value from orders \
             where {} group by o_orderpriority order by o_orderpriority",
            during("o_orderdate")
        ),
        1 => format!(
            "select sum(l_extendedprice * l_discount) as revenue from lineitem \
             where {} and l_discount between 0.05 and 0.07 and l_quantity < {}",
            during("l_shipdate"),
            24 + rng.below(2)
        ),
        2 => format!(
            "select l_shipmode, count(*) as late from lineitem where {} and l_commitdate < l_receiptdate \
             group by l_shipmode order by l_shipmode",
            during("l_receiptdate")
        ),
        _ => format!(
            "select c_mktsegment, count(*) as orders from customer join orders on c_custkey = o_custkey \
             where {} group by c_mktsegment order by c_mktsegment",
            during("o_orderdate")
        ),
    }
}

/// Someone explores: the specification's medium queries.
fn adhoc(rng: &mut Rng) -> String {
    pick(rng, &[3, 5, 7, 10, 12, 14, 19])
}

/// A pipeline runs: each order line is ranked among those of its customer's nation, for the years since one; or one of
/// the specification's heavy queries.
fn etl(rng: &mut Rng) -> String {
    if rng.below(3) == 0 {
        return pick(rng, &[9, 18, 21]);
    }
    format!(
        "select c_nationkey, l_shipmode, count(*) as lines, sum(revenue) as revenue, max(place) as places \
         from (select c_nationkey, l_shipmode, l_extendedprice * (1 - l_discount) as revenue, \
         rank() over (partition by c_nationkey, l_shipmode order by l_extendedprice desc, l_orderkey) as place \
         from lineitem join orders on l_orderkey = o_orderkey join customer on o_custkey = c_custkey \
         where o_orderdate >= date '{}-01-01') ranked \
         group by c_nationkey, l_shipmode order by c_nationkey, l_shipmode",
        1992 + rng.below(3)
    )
}

#[cfg(feature = "embedded")]
fn pick(rng: &mut Rng, numbers: &[usize]) -> String {
    let number = numbers[rng.index(numbers.len())];
    punctual_engine::tpch::QUERIES[number - 1].trim_end().trim_end_matches(';').to_owned()
}

#[cfg(not(feature = "embedded"))]
fn pick(rng: &mut Rng, numbers: &[usize]) -> String {
    format!("SELECT * FROM tpch.q{:02}", numbers[rng.index(numbers.len())])
}

#[cfg(test)]
mod tests {
    use punctual_core::statement::Statement;

    use super::*;

    #[test]
    fn a_minute_has_several_hundred_queries_of_every_class() {
        let shots = shots(1, Span::from_secs(60), Clusters::Embedded);
        let count = |class| shots.iter().filter(|shot| shot.class == class).count();
        assert!((200..1_000).contains(&shots.len()), "{}", shots.len());
        assert!(count(0) > count(1) && count(1) > count(2) && count(2) > 0);
        assert!(shots.is_sorted_by_key(|shot| shot.at));
    }

    #[test]
    fn texts_vary_and_shapes_repeat() {
        let shots = shots(1, Span::from_secs(60), Clusters::Embedded);
        let dashboards: Vec<_> = shots.iter().filter(|shot| shot.class == 0).collect();
        let texts: std::collections::BTreeSet<_> = dashboards.iter().map(|shot| &shot.sql).collect();
        let shapes: std::collections::BTreeSet<_> =
            dashboards.iter().map(|shot| Statement::read(&shot.sql).fingerprint).collect();
        assert!(texts.len() > 50, "{}", texts.len());
        assert_eq!(shapes.len(), 4);
    }

    #[test]
    fn the_same_seed_sends_the_same_queries() {
        let length = Span::from_secs(20);
        assert_eq!(shots(5, length, Clusters::Simulated), shots(5, length, Clusters::Simulated));
        assert_ne!(shots(5, length, Clusters::Simulated), shots(6, length, Clusters::Simulated));
    }
}
