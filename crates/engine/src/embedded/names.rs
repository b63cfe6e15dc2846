//! Column names as Postgres gives them.
//!
//! DataFusion names a column without an alias after its expression (`Int64(1)`, `count(*)`) and refuses two of
//! one name; Postgres says `?column?` and `count`, as often as it likes, and clients look columns up by these.
//! So expressions without a name get an internal one, unique in the statement, and the client is told another.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, SelectItem, SetExpr, Statement, Value};

/// No client writes this.
const INTERNAL: &str = "__punctual_column_";

/// What the client is told for the internal names: the n-th for `__punctual_column_n`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// What a client is told a column is called.
    pub(crate) fn shown<'a>(&'a self, name: &'a str) -> &'a str {
        name.strip_prefix(INTERNAL)
            .and_then(|number| number.parse::<usize>().ok())
            .and_then(|number| self.0.get(number))
            .map_or(name, String::as_str)
    }
}

/// Names the columns of the outermost SELECT, or of every SELECT that a UNION puts together. Inner ones are never
/// seen.
pub(crate) fn give(statement: &mut Statement) -> Names {
    let mut names = Names::default();
    if let Statement::Query(query) = statement {
        let ordered = query.order_by.is_some();
        give_in(&mut query.body, ordered, &mut names);
    }
    names
}

fn give_in(body: &mut SetExpr, ordered: bool, names: &mut Names) {
    match body {
        // The planner looks for the expressions of ORDER BY among those of a DISTINCT, and by their own names.
        SetExpr::Select(select) => give_items(&mut select.projection, ordered && select.distinct.is_some(), names),
        SetExpr::Query(query) => give_in(&mut query.body, ordered || query.order_by.is_some(), names),
        SetExpr::SetOperation { left, right, .. } => {
            give_in(left, ordered, names);
            give_in(right, ordered, names);
        }
        _ => {}
    }
}

fn give_items(items: &mut [SelectItem], keep: bool, names: &mut Names) {
    let mut seen = HashSet::new();
    for item in items {
        let (expression, shown, is_name) = match item {
            SelectItem::UnnamedExpr(expression) => {
                let is_name = matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                (expression.clone(), name_of(expression), is_name)
            }
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), folded(alias), true),
            _ => continue,
        };
        // `a.x, b.x` are told apart by their tables, `x, x` and `1 AS x, 2 AS x` are not.
        let key = match item {
            SelectItem::UnnamedExpr(expression) => expression.to_string(),
            _ => shown.clone(),
        };
        if (is_name || keep) && seen.insert(key) {
            continue;
        }
        let alias = Ident::with_quote('"', format!("{INTERNAL}{}", names.0.len()));
        names.0.push(shown);
        *item = SelectItem::ExprWithAlias { expr: expression, alias };
    }
}

/// The name that Postgres derives from an expression (its `FigureColname`).
fn name_of(expression: &Expr) -> String {
    let name = match expression {
        Expr::Identifier(ident) => return folded(ident),
        Expr::CompoundIdentifier(idents) => return idents.last().map_or_else(unnamed, folded),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return name_of(inner),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            return last.map_or_else(unnamed, folded);
        }
        Expr::Cast { expr, data_type, .. } => {
            let inner = name_of(expr);
            return if inner == unnamed() { type_name(data_type) } else { inner };
        }
        Expr::TypedString(typed) => return type_name(&typed.data_type),
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(inner)) => return name_of(inner),
                Some(SelectItem::ExprWithAlias { alias, .. }) => return folded(alias),
                _ => "?column?",
            },
            _ => "?column?",
        },
        Expr::Case { .. } => "case",
        Expr::Exists { .. } => "exists",
        Expr::Array(_) => "array",
        Expr::Extract { .. } => "extract",
        Expr::Substring { .. } => "substring",
        Expr::Position { .. } => "position",
        Expr::Trim { .. } => "btrim",
        Expr::Ceil { .. } => "ceil",
        Expr::Floor { .. } => "floor",
        Expr::Interval(_) => "interval",
        Expr::AtTimeZone { .. } => "timezone",
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => "bool",
        _ => "?column?",
    };
    name.to_owned()
}

fn unnamed() -> String {
    "?column?".to_owned()
}

fn type_name(datatype: &DataType) -> String {
    let text = datatype.to_string().to_ascii_lowercase();
    let bare = text.split('(').next().unwrap_or_default().trim();
    match bare {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "real" => "float4",
        "float" | "double" | "double precision" => "float8",
        "decimal" => "numeric",
        other => other,
    }
    .to_owned()
}

/// As the planner folds it: quoted names stay as they are.
fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn shown(sql: &str) -> Vec<String> {
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        give(&mut statement).0
    }

    #[test]
    fn expressions_are_called_what_postgres_calls_them() {
        let sql = "select 1, COUNT(*), sum(x)::int, 1::bigint, true, date '2020-01-01', case when a then b end, \
                   a + b, (select max(y) from t), extract(year from d)";
        assert_eq!(
            shown(sql),
            ["?column?", "count", "sum", "int8", "bool", "date", "case", "?column?", "max", "extract"]
        );
    }

    #[test]
    fn names_that_are_given_and_differ_stay() {
        assert!(shown("select a, B, t.a, u.a, 1 as c, * from t").is_empty());
        assert_eq!(shown("select a, a, 1 as C, 2 as c from t"), ["a", "c"]);
        assert!(shown("values (1)").is_empty());
    }

    #[test]
    fn only_internal_names_are_replaced() {
        let names = Names(vec!["count".to_owned()]);
        for (name, expected) in
            [("__punctual_column_0", "count"), ("__punctual_column_1", "__punctual_column_1"), ("x", "x")]
        {
            assert_eq!(names.shown(name), expected);
        }
    }
}
