//! The parameters of a prepared statement: which there are, what types they have, and their values.
//!
//! The planner says what type it would like for most parameters, from the column they are compared with; the client
//! may say what it sends. Where both speak, the client is believed about its bytes, and its value is turned into the
//! planner's type only if nothing can get lost: a decimal compared with an integer column must not become an integer.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_pg::datatypes::df;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};
use pgwire::api::Type;
use pgwire::api::portal::Portal;
use pgwire::api::stmt::StoredStatement;
use pgwire::messages::extendedquery::Bind;

use super::plan::Planned;
use crate::engine::Bound;
use crate::sqlstate::{Failure, SqlState};

/// The fields of `$1`, `$2`, ... as far as the planner could tell; where it could not, a cast of the
/// parameter says it.
pub(crate) fn find(plan: &LogicalPlan) -> Result<Vec<Option<FieldRef>>, Failure> {
    let mut known = plan.get_parameter_fields()?;
    let mut casts: HashMap<String, FieldRef> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        for expression in node.expressions() {
            expression.apply(|part| {
                if let Expr::Cast(cast) = part
                    && let Expr::Placeholder(placeholder) = cast.expr.as_ref()
                {
                    casts.entry(placeholder.id.clone()).or_insert_with(|| cast.field.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut fields = Vec::new();
    for (id, field) in known.drain() {
        let number = id.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        // The protocol counts parameters in 16 bits.
        let Some(at) = number.filter(|n| (1..=usize::from(u16::MAX)).contains(n)) else {
            let message = format!("there is no parameter {id}; they are $1, $2 and so on");
            return Err(Failure::new(SqlState::SyntaxError, message));
        };
        if fields.len() < at {
            fields.resize(at, None);
        }
        fields[at - 1] = field.or_else(|| casts.get(&id).cloned());
    }
    Ok(fields)
}

/// Whether every value of a Postgres type can become the planner's type. Where not, the value keeps its own type,
/// and the planner coerces both sides as it does with literals.
pub(crate) fn can_become(given: &Type, wished: &DataType) -> bool {
    match *given {
        Type::INT2 | Type::INT4 | Type::INT8 => wished.is_integer(),
        Type::FLOAT4 | Type::FLOAT8 => matches!(wished, DataType::Float32 | DataType::Float64),
        Type::TEXT | Type::VARCHAR => wished.is_string(),
        Type::TIMESTAMP | Type::TIMESTAMPTZ => matches!(wished, DataType::Timestamp(..)),
        Type::TIME => matches!(wished, DataType::Time32(_) | DataType::Time64(_)),
        Type::INTERVAL => matches!(wished, DataType::Interval(_)),
        _ => false,
    }
}

/// What a value of a Postgres type is decoded to by itself.
pub(crate) fn datatype_of(given: &Type) -> DataType {
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    match *given {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 | Type::OID => DataType::Int32,
        Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Nanosecond),
        Type::TIMESTAMP | Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::BYTEA => DataType::Binary,
        Type::BOOL_ARRAY => list(DataType::Boolean),
        Type::INT2_ARRAY => list(DataType::Int16),
        Type::INT4_ARRAY => list(DataType::Int32),
        Type::INT8_ARRAY => list(DataType::Int64),
        Type::FLOAT4_ARRAY => list(DataType::Float32),
        Type::FLOAT8_ARRAY => list(DataType::Float64),
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY => list(DataType::Utf8),
        _ => DataType::Utf8,
    }
}

/// The plan with the values of its parameters.
pub(crate) fn bind(planned: &Planned, types: &[Type], bound: Bound) -> Result<LogicalPlan, Failure> {
    let logical = planned.logical.clone();
    if types.is_empty() {
        return Ok(logical);
    }
    let message = Bind::new(None, None, bound.formats, bound.values, vec![]);
    let statement = StoredStatement::new(String::new(), (), types.iter().cloned().map(Some).collect());
    let portal = Portal::try_new(&message, Arc::new(statement))?;
    let wanted: Vec<Option<&DataType>> = planned.wanted.iter().map(Option::as_ref).collect();
    let mut values = df::deserialize_parameters(&portal, &wanted)?;
    if let ParamValues::List(values) = &mut values {
        values.iter_mut().for_each(|value| make_valid(&mut value.value));
    }
    Ok(logical.replace_params_with_values(&values)?)
}

/// The decoder makes decimals with more places than digits (0.05) and, of null, decimals without digits.
fn make_valid(value: &mut ScalarValue) {
    if let ScalarValue::Decimal128(value, precision, scale) = value {
        match value {
            None => (*precision, *scale) = (38, 10),
            Some(_) => *precision = (*precision).max(scale.unsigned_abs()).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_turned_only_into_what_loses_nothing() {
        assert!(can_become(&Type::INT2, &DataType::Int64));
        assert!(can_become(&Type::TEXT, &DataType::Utf8View));
        assert!(!can_become(&Type::NUMERIC, &DataType::Int64));
        assert!(!can_become(&Type::FLOAT8, &DataType::Decimal128(15, 2)));
        assert!(!can_become(&Type::TIMESTAMP, &DataType::Date32));
    }

    #[test]
    fn decoded_decimals_are_made_valid() {
        for (given, expected) in
            [((Some(5), 1, 2), (Some(5), 2, 2)), ((None, 0, 0), (None, 38, 10)), ((Some(123), 3, 1), (Some(123), 3, 1))]
        {
            let mut value = ScalarValue::Decimal128(given.0, given.1, given.2);
            make_valid(&mut value);
            assert_eq!(value, ScalarValue::Decimal128(expected.0, expected.1, expected.2));
        }
    }
}
