//! Plans as engines print them, summed up.
//!
//! Three forms are read: Postgres's JSON, its lines of text (Redshift's too), and DataFusion's lines.
//!
//! ```text
//!   [{"Plan": {"Node Type": "Hash Join", "Total Cost": 9.1, "Plan Rows": 5, "Plan Width": 4, "Plans": […]}}]
//!   XN Hash Join DS_DIST_NONE  (cost=112.50..327.59 rows=170771 width=84)
//!     ->  XN Seq Scan on sales  (cost=0.00..87.98 rows=8798 width=31)
//!   HashJoinExec: mode=Partitioned, …, statistics=[Rows=Inexact(25), Bytes=Absent, …]
//! ```
//!
//! Steps without an estimate count, with no bytes. A text in which no step has one is no plan: what else looks like it?

use punctual_core::predict::features::{Operator, Plan};
use serde_json::Value;

/// Sums up what an engine printed; None if it is not a plan with estimates.
pub(super) fn read(printed: &str) -> Option<Plan> {
    let mut sum = Sum::default();
    if printed.trim_start().starts_with(['[', '{']) {
        let document: Value = serde_json::from_str(printed).ok()?;
        let root = document.get(0).unwrap_or(&document).get("Plan")?;
        sum.plan.cost = number(root, "Total Cost");
        sum.node(root);
    } else {
        printed.lines().for_each(|line| sum.line(line));
    }
    sum.estimated.then_some(sum.plan)
}

/// A plan that is being read.
#[derive(Default)]
struct Sum {
    plan: Plan,
    /// True once a step had an estimate of its rows.
    estimated: bool,
}

/// How many rows a step returns.
enum Rows {
    /// So many, of so many bytes each.
    Of(f64, f64),
    /// So many bytes in all.
    Bytes(f64),
    /// The engine does not say.
    Unknown,
}

impl Sum {
    fn step(&mut self, name: &str, rows: &Rows) {
        let bytes = match rows {
            Rows::Of(rows, width) => rows * width.max(1.0),
            Rows::Bytes(bytes) => *bytes,
            Rows::Unknown => 0.0,
        };
        self.estimated |= !matches!(rows, Rows::Unknown);
        let at = Operator::ALL.iter().position(|operator| *operator == operator_of(name)).unwrap_or(0);
        let (steps, sum) = &mut self.plan.steps[at];
        *steps += 1;
        *sum += bytes;
    }

    /// A node of Postgres's JSON, and those below it. The reader of JSON bounds how deep they lie.
    fn node(&mut self, node: &Value) {
        let rows = match node.get("Plan Rows") {
            Some(_) => Rows::Of(number(node, "Plan Rows"), number(node, "Plan Width")),
            None => Rows::Unknown,
        };
        self.step(node.get("Node Type").and_then(Value::as_str).unwrap_or(""), &rows);
        node.get("Plans").and_then(Value::as_array).into_iter().flatten().for_each(|node| self.node(node));
    }

    /// A line of text. Lines that are no step (filters, keys) say neither a cost nor an operator.
    fn line(&mut self, line: &str) {
        let line = line.trim_start().trim_start_matches("->").trim_start();
        if let Some((name, figures)) = line.split_once("(cost=") {
            let figures = figures.split_once(')').map_or(figures, |(figures, _)| figures);
            let cost = figures.split_once("..").map_or(0.0, |(_, total)| leading(total));
            self.plan.cost = self.plan.cost.max(cost);
            self.step(name, &Rows::Of(after(figures, "rows="), after(figures, "width=")));
            return;
        }
        let name = line.split([':', ' ', ',']).next().unwrap_or("");
        if !name.ends_with("Exec") {
            return;
        }
        let figures = line.split_once("statistics=[").map_or("", |(_, figures)| figures);
        let (rows, bytes) = (exact_or_not(figures, "Rows="), exact_or_not(figures, "Bytes="));
        self.step(
            name,
            &match (rows, bytes) {
                (_, Some(bytes)) => Rows::Bytes(bytes),
                (Some(rows), None) => Rows::Of(rows, 1.0),
                (None, None) => Rows::Unknown,
            },
        );
    }
}

/// What a step does, by the name that its engine gives it.
fn operator_of(name: &str) -> Operator {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["gather", "network", "broadcast", "repartition", "coalescepart", "sortpreservingmerge", "exchange"]) {
        Operator::Exchange
    } else if has(&["nested loop", "nestedloop", "crossjoin"]) {
        Operator::NestedLoop
    } else if has(&["join"]) {
        Operator::Join
    } else if has(&["agg", "group"]) {
        Operator::Aggregate
    } else if has(&["sort", "limit"]) {
        Operator::Sort
    } else if has(&["datasource"]) || has(&["scan"]) && !has(&["cte", "subquery", "worktable", "bitmap index"]) {
        Operator::Scan
    } else {
        Operator::Other
    }
}

/// A member of an object, if it is a number; else zero.
fn number(node: &Value, name: &str) -> f64 {
    node.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

/// The number at the front of a text; zero if there is none.
fn leading(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}

/// The number that follows a name; zero if there is none.
fn after(text: &str, name: &str) -> f64 {
    text.split_once(name).map_or(0.0, |(_, rest)| leading(rest))
}

/// What `Exact(7)` or `Inexact(7)` after a name says; None if it is absent.
fn exact_or_not(text: &str, name: &str) -> Option<f64> {
    let rest = text.split_once(name)?.1;
    let value = rest.strip_prefix("Exact(").or_else(|| rest.strip_prefix("Inexact("))?;
    Some(leading(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(printed: &str) -> (f64, Vec<(Operator, u32, f64)>) {
        let plan = read(printed).expect("a plan");
        let steps = Operator::ALL.iter().zip(plan.steps).filter(|(_, (steps, _))| *steps > 0);
        (plan.cost, steps.map(|(operator, (steps, bytes))| (*operator, steps, bytes)).collect())
    }

    #[test]
    fn json_of_postgres_is_summed_up() {
        let printed = r#"[{"Plan": {"Node Type": "Aggregate", "Total Cost": 41.5, "Plan Rows": 1, "Plan Width": 8, "Plans": [
            {"Node Type": "Hash Join", "Total Cost": 40, "Plan Rows": 10, "Plan Width": 0, "Plans": [
                {"Node Type": "Seq Scan", "Plan Rows": 100, "Plan Width": 4},
                {"Node Type": "Hash", "Plan Rows": 5, "Plan Width": 4, "Plans": [
                    {"Node Type": "Index Only Scan", "Plan Rows": 5, "Plan Width": 4}]}]}]}}]"#;
        let expected = [
            (Operator::Scan, 2, 420.0),
            (Operator::Join, 1, 10.0),
            (Operator::Aggregate, 1, 8.0),
            (Operator::Other, 1, 20.0),
        ];
        assert_eq!(steps(printed), (41.5, expected.to_vec()));
    }

    #[test]
    fn lines_of_postgres_and_redshift_are_summed_up() {
        let printed = "XN Limit  (cost=1000.00..1000.01 rows=2 width=32)\n  ->  XN Merge  (cost=900.00..901.00 rows=10 width=32)\n        \
             Merge Key: sum(x)\n        ->  XN Network  (cost=1.00..2.00 rows=10 width=32)\n              \
             ->  XN Nested Loop DS_BCAST_INNER  (cost=1.00..2.00 rows=3 width=2)\n                    \
             Join Filter: (cost > rows)\n                    ->  XN Seq Scan on sales  (cost=0.00..87.98 rows=8798 width=31)\n";
        let expected = [
            (Operator::Scan, 1, 8798.0 * 31.0),
            (Operator::NestedLoop, 1, 6.0),
            (Operator::Sort, 1, 64.0),
            (Operator::Exchange, 1, 320.0),
            (Operator::Other, 1, 320.0),
        ];
        assert_eq!(steps(printed), (1000.01, expected.to_vec()));
    }

    #[test]
    fn lines_of_datafusion_are_summed_up() {
        let printed = "AggregateExec: mode=Final, gby=[], aggr=[count(1)], statistics=[Rows=Exact(1), Bytes=Absent, []]\n  \
             CoalescePartitionsExec, statistics=[Rows=Inexact(4), Bytes=Inexact(32), []]\n    \
             DataSourceExec: file_groups={1 group: [[a]]}, statistics=[Rows=Exact(25), Bytes=Exact(400), [(Col[0]: Min=Exact(0))]]\n    \
             FilterExec: a = 1, statistics=[Rows=Absent, Bytes=Absent, []]\n";
        let expected = [
            (Operator::Scan, 1, 400.0),
            (Operator::Aggregate, 1, 1.0),
            (Operator::Exchange, 1, 32.0),
            (Operator::Other, 1, 0.0),
        ];
        assert_eq!(steps(printed), (0.0, expected.to_vec()));
    }

    #[test]
    fn what_is_no_plan_with_estimates_is_none() {
        let no_estimates = r#"[{"Plan": {"Node Type": "Projection", "Plans": [{"Node Type": "TableScan"}]}}]"#;
        let deep = format!("[{}", "{\"Plan\":".repeat(100_000));
        for printed in ["", "one\ntwo", "[", "[1]", "{}", "Exec", "ProjectionExec: expr=[1]", no_estimates, &deep] {
            assert_eq!(read(printed), None, "{:.40}", printed);
        }
    }
}
