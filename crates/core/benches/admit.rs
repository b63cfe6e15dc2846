//! What admission costs: here, finding the class of a query among very many.
//!
//! The budget of the whole admission decision is 5 µs in the median at 1,000 classes with several rules each, of which finding
//! the class has about 1 µs. `one_by_one` is what it would be without the index.
//!
//! `cargo bench -p punctual-core --bench admit`

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use punctual_core::class::{Class, Classes, Client, Network, Origin, Rule, Said, first_match_one_by_one};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::rng::Rng;
use punctual_core::statement::{Kind, Statement};

/// Rules of each class.
const RULES: u32 = 4;

/// Classes as a large company would have them: teams by their users, tools by their applications, jobs by their tags, tables,
/// shapes of queries, offices by their networks.
fn classes(count: u32) -> Vec<Class> {
    let mut rng = Rng::numbered(1, 1 << 34);
    let mut below = |most: u32| (rng.unit() * f64::from(most)) as u32;
    let mut rule = |class: u32, rule: u32| {
        let table = format!("sales.t{}", below(2 * count));
        let of = |of: Rule| of;
        match (class + rule) % 8 {
            0 => of(Rule { user: Some(format!("team{class}")), kind: Some(Kind::Select), ..Rule::default() }),
            1 => of(Rule { application: Some(format!("tool{class}/")), table: Some(table), ..Rule::default() }),
            2 => of(Rule { tag: Said::read(&format!("node_id=model.m{class}.{rule}")), ..Rule::default() }),
            3 => of(Rule { table: Some(table), user: Some(format!("team{}", class % 30)), ..Rule::default() }),
            4 => of(Rule { fingerprint: Some(Fingerprint(u64::from(class))), ..Rule::default() }),
            5 => {
                let network = format!("10.{}.{}.0/24", class / 250, class % 250);
                of(Rule { client: Network::read(&network).ok(), kind: Some(Kind::Select), ..Rule::default() })
            }
            6 => of(Rule { comment: Some(format!("job number {class}")), ..Rule::default() }),
            _ => of(Rule { database: Some(format!("db{}", class % 20)), table: Some(table), ..Rule::default() }),
        }
    };
    let mut list = Class::built_in();
    for class in 0..count {
        let rules = (0..RULES).map(|number| rule(class, number)).collect();
        list.push(Class { name: format!("c{class}"), rules, ..Class::default() });
    }
    list
}

/// Queries that find their class early, late and nowhere.
fn queries() -> Vec<(&'static str, Origin<'static>, Statement)> {
    let origin = Origin {
        user: "team7",
        database: "db3",
        application: "tool900/7.1",
        client: Client::read("10.3.4.5").unwrap_or_default(),
    };
    let stranger = Origin { user: "ann", database: "shop", application: "psql", client: Client::Local };
    let dbt = "/* {\"app\": \"dbt\", \"dbt_version\": \"1.7\", \"node_id\": \"model.m901.9\", \"target\": \"prod\"} */
        select a, sum(b) from sales.t1, sales.t77, x.t3, u join sales.orders using (id) group by a";
    vec![
        ("known_user", origin, Statement::read("select * from sales.orders")),
        ("stranger", stranger, Statement::read("select * from orders, lines, parts where a = 1")),
        ("stranger_with_comment", stranger, Statement::read(dbt)),
    ]
}

fn finding(c: &mut Criterion) {
    let mut group = c.benchmark_group("class");
    for count in [10, 100, 1_000, 4_000] {
        let list = classes(count);
        let classes = Classes::new(list.clone());
        for (name, origin, statement) in queries() {
            group.bench_function(BenchmarkId::new(name, count), |b| {
                b.iter(|| classes.classify(None, std::hint::black_box(origin), std::hint::black_box(&statement)));
            });
            group.bench_function(BenchmarkId::new(format!("{name}/one_by_one"), count), |b| {
                b.iter(|| {
                    first_match_one_by_one(&list, std::hint::black_box(origin), std::hint::black_box(&statement))
                });
            });
        }
    }
    group.finish();
}

fn indexing(c: &mut Criterion) {
    let list = classes(1_000);
    c.bench_function("class/index/1000", |b| b.iter(|| Classes::new(list.clone())));
}

criterion_group!(benches, finding, indexing);
criterion_main!(benches);
