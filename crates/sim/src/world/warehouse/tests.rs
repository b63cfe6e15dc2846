//! The warehouse by hand: small numbers, whose ends can be worked out on paper.

use proptest::prelude::*;

use super::*;

/// A warehouse in which each unit reads a GB in a second, has 10 GB of memory and caches 100 GB, without any luck.
const PLAIN: Parameters = Parameters {
    bandwidth: 1.0,
    memory: 10.0,
    cache: 100.0,
    cold: 3.0,
    spill: 2.0,
    slots: 2.0,
    noise: 0.0,
    start_up: 0.0,
    compile: 0.0,
};

fn at(ms: u64) -> Time {
    Time::from_micros(ms * 1_000)
}

fn cpu(seconds: f64) -> Profile {
    Profile { cpu: seconds, io: 0.0, memory: 0.0, most_units: 64.0, tables: Tables::NONE, template: None }
}

fn store_sales(cpu: f64, io: f64) -> Profile {
    Profile { io, tables: Tables::parse("store_sales").expect("a known table"), ..self::cpu(cpu) }
}

/// Lets queries 0, 1, … of (arrival ms, profile) run to their ends: (query, end in ms, rounded), in order.
fn ends(warehouse: &mut Warehouse, queries: &[(u64, Profile)]) -> Vec<(u64, u64)> {
    let mut ends = Vec::new();
    let mut run_until = |warehouse: &mut Warehouse, limit: Time| {
        while let Some(next) = warehouse.next().filter(|next| *next <= limit) {
            let ended = (next.micros() + 500) / 1_000;
            ends.extend(warehouse.finished(next).into_iter().map(|query| (query.0, ended)));
        }
    };
    for (id, &(arrival, profile)) in queries.iter().enumerate() {
        run_until(warehouse, at(arrival));
        warehouse.arrive(at(arrival), QueryId(id as u64), profile);
    }
    run_until(warehouse, Time::from_micros(u64::MAX));
    assert_eq!((warehouse.running(), warehouse.waiting(), warehouse.next()), (0, 0, None));
    ends
}

fn on(units: u32, parameters: Parameters, queries: &[(u64, Profile)]) -> Vec<(u64, u64)> {
    ends(&mut Warehouse::new(parameters, Units(units), 1), queries)
}

#[test]
fn alone_a_query_uses_what_it_can_of_the_units() {
    assert_eq!(on(4, PLAIN, &[(0, cpu(8.0))]), [(0, 2_000)]);
    assert_eq!(on(4, PLAIN, &[(0, Profile { most_units: 2.0, ..cpu(8.0) })]), [(0, 4_000)]);
    assert_eq!(on(4, Parameters { start_up: 0.25, ..PLAIN }, &[(0, cpu(8.0))]), [(0, 2_250)]);
}

#[test]
fn a_new_cluster_is_cold_and_a_second_query_finds_what_the_first_has_read() {
    // Three times 8 GB at 4 GB/s; then 8 GB.
    let queries = [(0, store_sales(1.0, 8.0)), (10_000, store_sales(1.0, 8.0))];
    assert_eq!(on(4, PLAIN, &queries), [(0, 6_000), (1, 12_000)]);
}

#[test]
fn a_query_is_compiled_once() {
    let parameters = Parameters { compile: 1.5, start_up: 0.5, ..PLAIN };
    let [one, other] = [1, 2].map(|number| Profile { template: Template::new(number), ..cpu(4.0) });
    let queries = [(0, one), (10_000, one), (20_000, other), (30_000, cpu(4.0))];
    assert_eq!(on(4, parameters, &queries), [(0, 3_000), (1, 11_500), (2, 23_000), (3, 31_500)]);
}

#[test]
fn a_small_cluster_stays_partly_cold() {
    // 100 of the table's 140 GB stay: 8 · (5/7 + 3 · 2/7) = 12.571 GB at 1 GB/s.
    let queries = [(0, store_sales(1.0, 8.0)), (30_000, store_sales(1.0, 8.0))];
    assert_eq!(on(1, PLAIN, &queries), [(0, 24_000), (1, 42_571)]);
}

#[test]
fn memory_that_is_not_there_makes_everyone_spill() {
    let big = Profile { memory: 30.0, ..cpu(4.0) };
    // 2 units hold 20 of 30 GB: a third of 30 GB, twice, at 2 GB/s.
    assert_eq!(on(2, PLAIN, &[(0, big)]), [(0, 10_000)]);
    // 4 units hold it. Two of them hold two thirds: 20 GB are spilled of each, twice, at 2 GB/s each.
    assert_eq!(on(4, PLAIN, &[(0, big)]), [(0, 1_000)]);
    assert_eq!(on(4, PLAIN, &[(0, big), (0, big)]), [(0, 10_000), (1, 10_000)]);
    // A small one that uses 2 GB spills 0.75 of them; the large one goes on alone.
    let small = Profile { memory: 2.0, ..cpu(0.1) };
    let ends = on(2, PLAIN, &[(0, big), (0, small)]);
    assert_eq!(ends.first(), Some(&(1, 1_500)), "{ends:?}");
}

#[test]
fn queries_beyond_the_slots_wait_in_order() {
    // Two slots at least, whatever the size.
    let queries = [(0, cpu(1.0)), (0, cpu(2.0)), (0, cpu(1.0)), (0, cpu(1.0))];
    assert_eq!(on(1, Parameters { slots: 0.5, ..PLAIN }, &queries), [(0, 2_000), (1, 4_000), (2, 4_000), (3, 5_000)]);
}

#[test]
fn a_query_that_leaves_frees_its_slot_and_its_share() {
    let mut warehouse = Warehouse::new(PLAIN, Units(1), 1);
    for id in 0..4 {
        warehouse.arrive(at(0), QueryId(id), cpu(1.0));
    }
    assert!(warehouse.leave(at(1_000), QueryId(0)) && warehouse.leave(at(1_000), QueryId(2)));
    assert!(!warehouse.leave(at(1_000), QueryId(0)));
    assert_eq!((warehouse.running(), warehouse.waiting()), (2, 0));
    // Query 1 has half its work left, at half speed; then query 3 has half of its own left, at full speed.
    // Rates are rounded down, so an end is a microsecond late at most.
    let next = warehouse.next().unwrap_or_default();
    assert!(next.since(at(2_000)) <= Span::from_micros(1), "{next}");
    assert_eq!(warehouse.finished(next), [QueryId(1)]);
    assert_eq!(warehouse.finished(at(2_501)), [QueryId(3)]);
    assert!(!warehouse.leave(at(2_501), QueryId(3)));
}

#[test]
fn luck_belongs_to_the_seed_and_the_query() {
    let lucky = Parameters { noise: 0.5, ..PLAIN };
    let took = |units, seed, query| {
        let mut warehouse = Warehouse::new(lucky, Units(units), seed);
        warehouse.arrive(at(0), QueryId(query), cpu(8.0));
        warehouse.next().map_or(0, Time::micros)
    };
    assert_eq!(took(4, 7, 1), took(4, 7, 1));
    assert_ne!(took(4, 7, 1), took(4, 8, 1));
    assert_ne!(took(4, 7, 1), took(4, 7, 2));
    assert!(took(4, 7, 1).abs_diff(2 * took(8, 7, 1)) <= 2);
    let mut took: Vec<u64> = (0..999).map(|query| took(4, 7, query)).collect();
    took.sort_unstable();
    // The median of a log-normal factor is one; of 999, within five of its standard errors.
    assert!((took[499] as f64 / 2e6 - 1.0).abs() < 5.0 * 0.5 * 1.2533 / 999f64.sqrt(), "{}", took[499]);
}

#[test]
fn the_ends_of_a_busy_hour_are_the_same_on_every_machine() {
    let parameters = Parameters { noise: 0.5, start_up: 0.2, ..PLAIN };
    let mut warehouse = Warehouse::new(parameters, Units(8), 3);
    let names =
        ["store_sales+item", "catalog_sales", "web_sales+inventory", "store_sales+catalog_sales+web_sales", "-"];
    let queries = (0..99u32).map(|number| {
        let tables = Tables::parse(names[number as usize % names.len()]).expect("known tables");
        let size = f64::from(number * 37 % 50);
        let profile =
            Profile { cpu: size, io: 0.3 * size, memory: 2.0 * size, most_units: 3.0 + size, tables, template: None };
        (u64::from(number) * 2_000, profile)
    });
    let ends = ends(&mut warehouse, &queries.collect::<Vec<_>>());
    let sum = ends
        .iter()
        .enumerate()
        .map(|(place, (query, end))| (place as u64 + 1) * (query + 1) * end)
        .fold(0, u64::wrapping_add);
    assert_eq!((ends.len(), sum), (99, 316_265_487_197));
}

#[test]
fn work_without_end_is_no_endless_loop() {
    let mut warehouse = Warehouse::new(PLAIN, Units(1), 1);
    warehouse.arrive(at(5), QueryId(0), cpu(f64::MAX));
    assert_eq!(warehouse.finished(Time::from_micros(u64::MAX)), []);
    warehouse.arrive(at(5), QueryId(1), cpu(f64::INFINITY));
    assert_eq!(warehouse.finished(Time::from_micros(u64::MAX)), []);
}

proptest! {
    #[test]
    fn ends_asked_for_late_are_those_asked_for_in_time(
        queries in prop::collection::vec((0u64..3_000, 1usize..=99), 1..30),
        units in 1u32..12,
    ) {
        let table = Table::shipped();
        let templates: Vec<Template> = Template::all().collect();
        let mut arrival = 0;
        let queries: Vec<_> = queries
            .iter()
            .map(|&(gap, number)| { arrival += gap; (arrival, table.profile(templates[number - 1])) })
            .collect();
        let mut warehouse = Warehouse::new(table.parameters, Units(units), 1);
        for (id, &(arrival, profile)) in queries.iter().enumerate() {
            warehouse.arrive(at(arrival), QueryId(id as u64), profile);
        }
        let late: Vec<u64> = warehouse.finished(at(1 << 40)).iter().map(|query| query.0).collect();
        let in_time: Vec<u64> = on(units, table.parameters, &queries).iter().map(|&(query, _)| query).collect();
        prop_assert_eq!(late, in_time);
    }
}
