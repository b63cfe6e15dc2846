//! What a text of SQL says about the work it will be, as a row of numbers: f(q) of the papers.
//!
//! The tokenizer is enough. Its counts (tables, joins, aggregates, predicates, nesting) are there for any dialect and
//! for texts that no parser takes; a grammar would add little that the estimate of an isolated run, which is kept per
//! fingerprint, does not know better. Where an engine's EXPLAIN was to be had, the last [`PLAN`] numbers say what it
//! plans; without it they are zero and the first of them says so. Table names go into a few buckets by their hash, so
//! that there is no vocabulary and no unknown table.
//!
//! This is the only function that makes features: live, in simulation and in training (AutoSLO's section 4 uses 50
//! numbers of the plan alone, and fails on a query that it has not seen).

use crate::lexemes::Lexeme;
use crate::math;
use crate::statement::{self, Kind, Statement};

/// How many numbers describe a query.
pub const FEATURES: usize = COUNTS + KINDS + TABLES + PLAN;

/// Counts over the text.
const COUNTS: usize = 29;
/// One for each group of kinds of statements.
const KINDS: usize = 3;
/// Buckets of tables.
const TABLES: usize = 16;
/// What a plan says: that there is one, its cost, and for each of [`Operator::ALL`] how many and how much.
pub const PLAN: usize = 2 + 2 * Operator::ALL.len();

/// A query as the predictor sees it, before anything is known of where it runs.
pub type Features = [f32; FEATURES];

/// What the steps of a plan do, as far as every engine has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Reads a table.
    Scan,
    /// Joins by hash or by merging.
    Join,
    /// Joins by looking at every pair.
    NestedLoop,
    /// Aggregates.
    Aggregate,
    /// Sorts, or keeps the first.
    Sort,
    /// Moves rows between threads or nodes.
    Exchange,
    /// Anything else.
    Other,
}

impl Operator {
    /// Every operator, in the order of the features.
    pub const ALL: [Operator; 7] = [
        Operator::Scan,
        Operator::Join,
        Operator::NestedLoop,
        Operator::Aggregate,
        Operator::Sort,
        Operator::Exchange,
        Operator::Other,
    ];
}

/// An engine's plan, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    /// The engine's own cost of the whole, in its own unit; zero if it has none.
    pub cost: f64,
    /// For each of [`Operator::ALL`]: how many steps of the plan, and rows × width in bytes over them.
    pub steps: [(u32, f64); Operator::ALL.len()],
}

/// The features of a query.
pub fn features(text: &str, plan: Option<&Plan>) -> Features {
    let (_, mut row) = read(text);
    if let Some(plan) = plan {
        add_plan(&mut row, plan);
    }
    row
}

/// What a text is, as [`Statement::read`] says, and its features but for a plan: the text is cut once for both.
pub fn read(text: &str) -> (Statement, Features) {
    statement::read_with(text, |statement, lexemes| of_text(text, statement, lexemes))
}

/// Adds to the features of a text what an engine plans for it.
pub fn add_plan(row: &mut Features, plan: &Plan) {
    let planned = &mut row[FEATURES - PLAN..];
    planned[0] = 1.0;
    planned[1] = ln_1p(plan.cost);
    for (pair, (steps, bytes)) in planned[2..].chunks_exact_mut(2).zip(plan.steps) {
        pair.copy_from_slice(&[ln_1p(f64::from(steps)), ln_1p(bytes)]);
    }
}

fn of_text(text: &str, statement: &Statement, lexemes: Option<&[Lexeme<'_>]>) -> Features {
    let mut row = [0.0; FEATURES];
    let (counts, rest) = row.split_at_mut(COUNTS);
    let (kinds, rest) = rest.split_at_mut(KINDS);
    let tables = &mut rest[..TABLES];
    match lexemes {
        Some(lexemes) => count(lexemes, counts),
        None => counts[0] = text.split_whitespace().count() as f32,
    }
    // The second says how many different ones; a statement names each once.
    counts[2] = statement.tables.len() as f32;
    counts[3] = counts[2];
    kinds[group(statement.kind)] = 1.0;
    for table in &statement.tables {
        let name = table.rsplit('.').next().unwrap_or(table);
        tables[bucket(name)] += 1.0;
    }
    for value in counts.iter_mut().chain(tables) {
        *value = ln_1p(f64::from(*value));
    }
    row
}

/// ln(1 + x), zero for what is negative or no number. An infinite x counts as the largest finite one.
fn ln_1p(x: f64) -> f32 {
    if x > 0.0 { math::ln(1.0 + x.min(f64::MAX)) as f32 } else { 0.0 }
}

fn group(kind: Kind) -> usize {
    match kind {
        Kind::Select | Kind::Explain | Kind::Cursor | Kind::Prepared => 0,
        Kind::Write | Kind::Ddl | Kind::Copy => 1,
        _ => 2,
    }
}

/// 32-bit FNV-1a of the name, folded.
fn bucket(name: &str) -> usize {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ((hash ^ (hash >> 16)) as usize) % TABLES
}

/// Counts words and signs.
fn count(lexemes: &[Lexeme<'_>], counts: &mut [f32]) {
    let (mut depth, mut limit) = (0i32, false);
    let mut rest = lexemes.iter().peekable();
    while let Some(lexeme) = rest.next() {
        counts[0] += 1.0;
        counts[1] += f32::from(u8::from(lexeme.is_literal()));
        let after_limit = std::mem::take(&mut limit);
        match lexeme {
            Lexeme::Word(word) => {
                let called = rest.peek().is_some_and(|next| next.is("("));
                limit = word == "limit";
                match place(word, called) {
                    Some(at) => counts[at] += 1.0,
                    None if called => counts[27] += 1.0,
                    None => {}
                }
            }
            Lexeme::Number(number) if after_limit => counts[13] = number.parse().unwrap_or(0.0),
            Lexeme::Sign(sign) => match &**sign {
                "(" => {
                    depth += 1;
                    counts[26] = counts[26].max(depth as f32);
                }
                ")" => depth -= 1,
                "=" => counts[17] += 1.0,
                "<" | ">" | "<=" | ">=" | "<>" => counts[18] += 1.0,
                "+" | "-" | "*" | "/" => counts[28] += 1.0,
                _ => {}
            },
            _ => {}
        }
    }
}

/// Which count a word belongs to.
fn place(word: &str, called: bool) -> Option<usize> {
    Some(match word {
        "join" => 4,
        "left" | "right" | "full" if !called => 5,
        "sum" | "avg" | "min" | "max" | "stddev_samp" | "stddev" | "variance" if called => 6,
        "count" if called => 7,
        "group" => 8,
        "rollup" | "cube" | "grouping" => 9,
        "over" => 10,
        "order" => 11,
        "limit" | "fetch" | "top" => 12,
        "select" => 14,
        "union" | "intersect" | "except" => 15,
        "with" => 16,
        "between" => 19,
        "like" | "ilike" | "similar" => 20,
        "in" => 21,
        "exists" => 22,
        "or" => 23,
        "case" => 24,
        "distinct" => 25,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> [f64; COUNTS] {
        let row = features(text, None);
        std::array::from_fn(|at| (math::exp(f64::from(row[at])) - 1.0).round())
    }

    #[test]
    fn a_text_is_counted_by_what_makes_it_heavy() {
        let row = counted(
            "select c, sum(x), count(distinct y) from a join b on a.i = b.i left join c on true \
             where z between 1 and 2 and lower(w) like 'k%' or v in (select 1 from d) group by c order by 2 limit 50",
        );
        let shown = [2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 17, 19, 20, 21, 23, 25, 26, 27].map(|at| row[at] as u32);
        assert_eq!(shown, [4, 4, 2, 1, 1, 1, 1, 1, 1, 50, 2, 1, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn every_text_has_features_and_they_are_finite() {
        for text in ["", ";", "select", "'", "\u{0}", "limit 1e400", "sélect * frøm tåble", "(((((((", "$$"] {
            assert!(features(text, None).iter().all(|value| value.is_finite()), "{text:?}");
        }
        let mad = Plan { cost: f64::NAN, steps: [(u32::MAX, f64::INFINITY); 7] };
        assert!(features("select 1", Some(&mad)).iter().all(|value| value.is_finite()));
    }

    #[test]
    fn literals_and_layout_change_no_count_and_a_schema_no_table() {
        let one = features("SELECT a FROM t WHERE b = 1", None);
        assert_eq!(one, features("select  a from t -- where\nwhere b = 22", None));
        assert_eq!(one[COUNTS..], features("select a from s.t where b = 1", None)[COUNTS..]);
    }

    #[test]
    fn a_plan_is_told_from_none() {
        let mut plan = Plan { cost: 9.0, ..Plan::default() };
        plan.steps[0] = (2, 999.0);
        let row = features("select 1", Some(&plan));
        let from = FEATURES - PLAN;
        assert_eq!(row[from], 1.0);
        assert!((f64::from(row[from + 2]) - math::ln(3.0)).abs() < 1e-6);
        assert!((f64::from(row[from + 3]) - math::ln(1_000.0)).abs() < 1e-5);
        assert_eq!(features("select 1", None)[from..], [0.0; PLAN]);
    }
    #[test]
    fn the_features_of_a_text_never_change() {
        // Models that were trained by an older build are fed these numbers.
        let texts = [
            include_str!("../../../engine/queries/tpch/q02.sql"),
            include_str!("../../../engine/queries/tpch/q13.sql"),
            include_str!("../../../engine/queries/tpch/q19.sql"),
            include_str!("../../../engine/queries/tpch/q21.sql"),
            "with r as (select $1::int, E'a\\n' from \"T\" t where x ->> 'y' ~ 'z' limit 1e2) select * from r ü, s.u; show x",
        ];
        let sums = texts.map(|text| {
            let (statement, row) = read(text);
            assert_eq!(statement, Statement::read(text));
            let bits = row.iter().flat_map(|value| value.to_bits().to_le_bytes());
            bits.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        });
        assert_eq!(
            sums,
            [
                0xc64b_1b28_717a_79ad,
                0x1380_f51d_0f67_3632,
                0xfaed_c216_3157_4604,
                0x43d6_c73c_1b7f_5b84,
                0x4696_20a1_f3cb_c21b
            ]
        );
    }
}
