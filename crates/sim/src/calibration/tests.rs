//! What a fit promises, on measurements that a warehouse of ours has made up.

use punctual_core::id::Units;

use super::compare::latencies;
use super::*;
use crate::world::warehouse::Table;

/// What a warehouse with this table would have measured: a run at each of three sizes, and queries alone.
fn measured_on(table: &Table) -> Measured {
    let arrivals: Vec<(Time, Template)> = Template::all()
        .enumerate()
        .map(|(at, template)| (Time::ZERO + Span::from_secs(20 * at as u64), template))
        .collect();
    let run = |size: u32| {
        let taken = latencies(table, Units(size), &arrivals, 77);
        let query = |((arrival, template), latency): (&(Time, Template), f64)| MeasuredQuery {
            arrival: *arrival,
            template: *template,
            latency,
        };
        let queries = arrivals.iter().zip(taken).map(query).collect();
        MeasuredRun { run: size.to_string(), workload: "all".into(), size, queries }
    };
    let alone = |size: u32| {
        let medians = alone::medians(table, Units(size), 77);
        Template::all().zip(medians).map(move |(template, latency)| Cell { size, template, latencies: vec![latency] })
    };
    Measured { runs: [8, 16, 32].map(run).into(), isolated: [8, 16, 32].into_iter().flat_map(alone).collect() }
}

#[test]
fn medians_and_quantiles_are_those_of_the_values() {
    assert_eq!((median(&mut []), median(&mut [3.0]), median(&mut [4.0, 1.0, 2.0, 9.0])), (None, Some(3.0), Some(3.0)));
    assert_eq!(quantile(&mut [5.0, 1.0, 3.0], 0.75), Some(4.0));
    assert_eq!((quantile(&mut [5.0, 1.0], 1.0), quantile(&mut [], 0.5)), (Some(5.0), None));
}

#[test]
fn a_query_that_does_not_finish_within_the_hour_is_given_up() {
    let heavy = Template::new(23).expect("a template");
    let at = |secs| Time::ZERO + Span::from_secs(secs);
    // A thousand-odd seconds for each two, once all that they want is cold and does not fit into memory.
    let arrivals: Vec<_> = (0..200).map(|second| (at(second), heavy)).collect();
    let taken = latencies(Table::shipped(), Units(4), &arrivals, 1);
    let given_up = taken.iter().filter(|taken| **taken == 3_600.0).count();
    assert!(given_up > 100 && given_up < 200, "{given_up}");
    // What comes when they are gone finds the cluster idle.
    let later: Vec<_> = arrivals.iter().copied().chain([(at(20_000), heavy)]).collect();
    assert!(latencies(Table::shipped(), Units(4), &later, 1).last().is_some_and(|taken| *taken < 2_000.0));
}

#[test]
fn a_run_beside_its_own_simulation_is_the_same_on_both_sides() {
    let table = Table::shipped();
    let arrivals: Vec<(Time, Template)> =
        Template::all().map(|template| (Time::from_micros(u64::from(template.number()) << 22), template)).collect();
    let taken = latencies(table, Units(16), &arrivals, 0);
    let query = |(&(arrival, template), latency)| MeasuredQuery { arrival, template, latency };
    let queries = arrivals.iter().zip(taken).map(query).collect();
    let run = MeasuredRun { run: "1".into(), workload: "w".into(), size: 16, queries };
    let Comparison { measured, simulated } = compare(&run, table, 1);
    assert_eq!(measured, simulated);
    assert!(measured.p90 > measured.mean && measured.concurrency > 0.1, "{measured:?}");
}

#[test]
fn fitting_finds_a_warehouse_again_and_always_the_same() {
    let measured = measured_on(Table::shipped());
    let fit = || calibrate(&measured, Table::shipped(), Options { tries: 6, seed: 1 }, |_, _| true);
    let (table, knobs) = fit();
    assert_eq!((&table, knobs), (&fit().0, fit().1));
    for run in &measured.runs {
        let Comparison { measured, simulated } = compare(run, &table, 3);
        let ratio = simulated.mean / measured.mean;
        assert!((0.5..2.0).contains(&ratio), "size {}: {ratio}", run.size);
    }
    assert!(within(&measured.isolated, 1.5, |size| alone::medians(&table, Units(size), 0)) > 0.8);
}

#[test]
fn fitting_to_nothing_ends_with_a_table_all_the_same() {
    let (table, _) = calibrate(&Measured::default(), Table::shipped(), Options { tries: 1, seed: 0 }, |_, _| true);
    assert_eq!(Table::parse(&table.to_string()), Ok(table));
}
