//! From a query's text to a plan, and from a plan to what its parameters and columns are.

use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

use arrow_pg::datatypes::{arrow_schema_to_pg_fields, field_into_pg_type};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{ExplainStatement, Statement as PlannerStatement};
use datafusion::sql::sqlparser::ast::{SetExpr, Statement, TableFactor, visit_relations};
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use datafusion_pg_catalog::sql::rules::{
    AliasDuplicatedProjectionRewrite, RewriteArrayAnyAllOperation, SqlStatementRewriteRule,
};
use pgwire::api::Type;
use pgwire::api::results::FieldInfo;
use pgwire::types::format::FormatOptions;

use super::catalog::{ACTIVITY, ENGINE_SCHEMA};
use super::names::{self, Names};
use super::parameters;
use crate::engine::Output;
use crate::sqlstate::{Failure, SqlState};
use crate::statement::Query;

/// A plan that may be executed many times.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) logical: LogicalPlan,
    pub(crate) names: Names,
    /// The types that the values of `$1`, `$2`, ... are turned into, where the plan could tell and it loses nothing.
    pub(crate) wanted: Vec<Option<DataType>>,
    pub(crate) light: bool,
}

/// Plans a query. The plan still has its parameters in it, and internal names for columns that have none.
pub(crate) async fn plan(
    state: &SessionState,
    compatibility: &PostgresCompatibilityParser,
    query: &Query,
) -> Result<(LogicalPlan, Names), Failure> {
    let mut statement = translate(compatibility, query)?;
    let names = match query.explain {
        None => names::give(&mut statement),
        // The plan is what is shown; it is read more easily without.
        Some(_) => Names::default(),
    };
    let statement = PlannerStatement::Statement(Box::new(statement));
    let statement = match &query.explain {
        None => statement,
        Some(explain) => PlannerStatement::Explain(ExplainStatement {
            options: ExplainStatementOptions {
                analyze: explain.analyze,
                verbose: explain.verbose,
                format: explain.format.as_deref().map(ExplainFormat::from_str).transpose()?,
                // The other forms have no place for them.
                show_statistics: (explain.costs && !explain.analyze && explain.format.is_none()).then_some(true),
                ..Default::default()
            },
            statement: Box::new(statement),
        }),
    };
    let plan = state.statement_to_plan(statement).await?;
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false).verify_plan(&plan)?;
    Ok((plan, names))
}

/// Whether a query reads nothing but the engine's own state, or nothing at all. Such a query (`SELECT 1`, the
/// activity) is how others ask whether we live, so it must not wait behind the statements that keep every
/// worker busy.
pub(crate) fn is_light(query: &Query) -> bool {
    let Statement::Query(body) = query.statement.as_ref() else { return false };
    let SetExpr::Select(select) = body.body.as_ref() else { return false };
    let plain_tables = select
        .from
        .iter()
        .all(|from| from.joins.is_empty() && matches!(from.relation, TableFactor::Table { args: None, .. }));
    let only_activity = visit_relations(query.statement.as_ref(), |name| {
        let parts: Vec<&str> =
            name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.as_str()).collect();
        if parts == [ENGINE_SCHEMA, ACTIVITY] { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    query.explain.is_none()
        && body.with.is_none()
        && select.from.len() <= 1
        && plain_tables
        && only_activity.is_continue()
}

/// Postgres's SQL as DataFusion's. Questions about the catalog need a deep translation, which loses
/// what it does not know; every other query gets only what cannot change its meaning.
fn translate(compatibility: &PostgresCompatibilityParser, query: &Query) -> Result<Statement, Failure> {
    let text = match &query.explain {
        None => query.text.clone(),
        Some(_) => query.statement.to_string(),
    };
    if asks_about_catalog(&text) {
        let parsed = compatibility
            .parse(&text)
            .map_err(|error| Failure::new(SqlState::SyntaxError, format!("syntax error: {error}")))?;
        return parsed
            .into_iter()
            .next()
            .ok_or_else(|| Failure::new(SqlState::SyntaxError, "syntax error: there is no statement"));
    }
    let statement = AliasDuplicatedProjectionRewrite.rewrite((*query.statement).clone());
    Ok(RewriteArrayAnyAllOperation.rewrite(statement))
}

/// Words that occur in queries about the catalog and rarely elsewhere.
const CATALOG_WORDS: [&str; 11] = [
    "pg_",
    "information_schema",
    "regclass",
    "regtype",
    "regproc",
    "regnamespace",
    "current_schema",
    "current_user",
    "session_user",
    "version",
    "array_upper",
];

fn asks_about_catalog(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    CATALOG_WORDS.iter().any(|word| text.contains(word))
}

/// Finds out what a plan wants and returns. `hints` are the types that the client gave.
pub(crate) fn describe(
    state: &SessionState,
    (logical, names): (LogicalPlan, Names),
    hints: &[Option<Type>],
    light: bool,
) -> Result<(Planned, Vec<Type>, Vec<FieldInfo>), Failure> {
    let fields = parameters::find(&logical)?;
    let count = fields.len().max(hints.len());
    let mut types = Vec::with_capacity(count);
    let mut wanted = Vec::with_capacity(count);
    for at in 0..count {
        let field = fields.get(at).cloned().flatten();
        let hint = hints.get(at).cloned().flatten().filter(|hint| *hint != Type::UNKNOWN);
        let given = match (hint, &field) {
            (Some(hint), _) => hint,
            (None, Some(field)) if *field.data_type() != DataType::Null => field_into_pg_type(field)?,
            // What nothing is known about is text, as in Postgres.
            (None, _) => Type::TEXT,
        };
        let wished = field.map(|field| field.data_type().clone());
        wanted.push(wished.filter(|wished| parameters::can_become(&given, wished)));
        types.push(given);
    }
    let columns = columns_of(state, &logical, &names, &types, &wanted)?;
    Ok((Planned { logical, names, wanted, light }, types, columns))
}

/// The columns that the plan will return. The types of some depend on the parameters, so typed nulls stand in.
fn columns_of(
    state: &SessionState,
    logical: &LogicalPlan,
    names: &Names,
    types: &[Type],
    wanted: &[Option<DataType>],
) -> Result<Vec<FieldInfo>, Failure> {
    let mut plan = logical.clone();
    if !types.is_empty() {
        let nulls = types
            .iter()
            .zip(wanted)
            .map(|(given, wanted)| {
                let datatype = wanted.clone().unwrap_or_else(|| parameters::datatype_of(given));
                ScalarValue::try_from(&datatype)
            })
            .collect::<Result<Vec<_>, _>>()?;
        plan = plan.replace_params_with_values(&ParamValues::from(nulls))?;
    }
    let analysed = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    columns(analysed.schema().as_arrow(), names, &Output::default())
}

/// The columns of a result, as the client is told of them.
pub(crate) fn columns(schema: &Schema, names: &Names, output: &Output) -> Result<Vec<FieldInfo>, Failure> {
    let styles = Arc::new(FormatOptions::from_client_metadata(&output.styles));
    let fields = arrow_schema_to_pg_fields(schema, &output.format, Some(styles.clone()))?;
    let renamed = fields.into_iter().map(|field| {
        FieldInfo::new(names.shown(field.name()).to_owned(), None, None, field.datatype().clone(), field.format())
            .with_format_options(styles.clone())
    });
    Ok(renamed.collect())
}
