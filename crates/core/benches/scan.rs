//! What it costs to find how much of time a query reads: of a text as long and as deep as those of TPC-DS, when its grammar
//! is met for the first time and when it is known; and of a text that reads no table with a column of time.
//!
//! The budget is 100 µs for a text whose grammar is known.
//!
//! `cargo bench -p punctual-core --bench scan`

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use punctual_core::Time;
use punctual_core::scan::{ColumnUnit, Scans, TimeTable, TimeTables};
use punctual_core::statement::Statement;

const NOW: Time = Time::from_micros(1_715_769_000_000_000);

fn table(name: &str, column: &str, unit: ColumnUnit) -> TimeTable {
    TimeTable { name: name.into(), column: column.into(), unit, segment: None, from: None, to: None }
}

fn scans(tables: Vec<TimeTable>) -> Scans {
    Scans::new(Arc::new(TimeTables::new(tables)), 4_096)
}

fn ours() -> Vec<TimeTable> {
    vec![
        table("sales", "sold_at", ColumnUnit::Timestamp),
        table("returns", "returned_on", ColumnUnit::Date),
        table("calendar", "d", ColumnUnit::Date),
    ]
}

/// One part of a report over years, for one kind of sale.
fn part(kind: &str, year: u32, day: u32) -> String {
    format!(
        "select '{kind}' as kind, c.customer_id, c.first_name, c.last_name, c.country, \
         extract(year from s.sold_at) as sold_year, \
         sum(case when s.list_price - s.discount > 0 then ((s.list_price - s.cost - s.discount) + s.price) / 2 \
         else 0 end) as total, count(distinct s.ticket) as tickets, \
         avg(coalesce(r.amount, 0)) as returned \
         from customer c join sales s on c.customer_key = s.customer_key \
         join calendar k on k.d = s.sold_at::date and k.d between date '{year}-01-{day:02}' and date '{year}-12-31' \
         left join returns r on r.ticket = s.ticket and r.returned_on >= '{year}-01-{day:02}' \
         where s.kind = '{kind}' and s.sold_at >= '{year}-01-{day:02}' \
         and s.sold_at < timestamp '{year}-01-{day:02} 00:00:00' + interval '1 year' \
         and c.state in ('TN', 'GA', 'CA', 'NY', 'WA', 'TX') and k.moy in (1, 2, 3, {day}) \
         group by c.customer_id, c.first_name, c.last_name, c.country, extract(year from s.sold_at)"
    )
}

/// A text of some 4 kB: three parts in a CTE, compared with one another year by year.
fn text(day: u32) -> String {
    let parts: Vec<String> =
        ["store", "web", "catalog"].iter().enumerate().map(|(at, kind)| part(kind, 2_022 + at as u32, day)).collect();
    format!(
        "with year_total as ({}) \
         select a.customer_id, a.first_name, a.last_name, a.country, b.total / nullif(a.total, 0) as ratio \
         from year_total a, year_total b, year_total c \
         where a.customer_id = b.customer_id and b.customer_id = c.customer_id \
         and a.kind = 'store' and b.kind = 'web' and c.kind = 'catalog' \
         and a.sold_year = 2022 and b.sold_year = 2023 and c.sold_year = 2024 and a.total > 0 \
         and case when a.total > 0 then b.total / a.total else null end > \
         case when b.total > 0 then c.total / b.total else null end \
         order by a.customer_id, a.first_name, a.last_name, a.country limit 100",
        parts.join(" union all ")
    )
}

fn scan(c: &mut Criterion) {
    let texts: Vec<(String, Statement)> =
        (1..29).map(text).map(|text| (text.clone(), Statement::read(&text))).collect();
    let small = "select count(*), sum(price) from sales where sold_at >= now() - interval '7 days' and state = 'TN'";
    let read = Statement::read(small);
    let mut group = c.benchmark_group(format!("scan of {} bytes", texts[0].0.len()));
    group.bench_function("cold", |bench| {
        let tables = Arc::new(TimeTables::new(ours()));
        bench.iter(|| {
            let mut scans = Scans::new(Arc::clone(&tables), 16);
            black_box(scans.read(&texts[0].0, &texts[0].1, &[], NOW))
        });
    });
    group.bench_function("known, other literals", |bench| {
        let (mut scans, mut at) = (scans(ours()), 0);
        bench.iter(|| {
            at = (at + 1) % texts.len();
            black_box(scans.read(&texts[at].0, &texts[at].1, &[], NOW))
        });
    });
    group.bench_function("no such table", |bench| {
        let mut scans = scans(vec![table("events", "ts", ColumnUnit::Timestamp)]);
        bench.iter(|| black_box(scans.read(&texts[0].0, &texts[0].1, &[], NOW)));
    });
    group.bench_function("short: cold", |bench| {
        let tables = Arc::new(TimeTables::new(ours()));
        bench.iter(|| black_box(Scans::new(Arc::clone(&tables), 16).read(small, &read, &[], NOW)));
    });
    group.bench_function("short: known", |bench| {
        let mut scans = scans(ours());
        bench.iter(|| black_box(scans.read(small, &read, &[], NOW)));
    });
    group.bench_function("short: no such table", |bench| {
        let mut scans = scans(vec![table("events", "ts", ColumnUnit::Timestamp)]);
        bench.iter(|| black_box(scans.read(small, &read, &[], NOW)));
    });
    group.finish();
}

criterion_group!(benches, scan);
criterion_main!(benches);
