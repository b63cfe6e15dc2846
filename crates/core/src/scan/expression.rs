//! Expressions: which are predicates on a column of time, and what they say of it.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    UnaryOperator, Value, ValueWithSpan,
};

use super::calendar::Unit;
use super::constant::{Constant, Type};
use super::recipe::{Bound, Order, Step, Test};
use super::scope::{Relation, Target, fold, identifiers, resolve, stepped};

/// A predicate over the columns of time of several reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Formula {
    /// Nothing is known of it.
    Unknown,
    All(Vec<Formula>),
    Either(Vec<Formula>),
    Test(Vec<Target>, Test),
}

/// An expression, as far as it is understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Side {
    /// A column of time, with what was done to it.
    Column(Vec<Target>),
    Constant(Constant),
    Other,
}

impl Formula {
    /// What it says of one read, whatever holds of others.
    pub(crate) fn bound(&self, read: usize) -> Bound {
        match self {
            Formula::Unknown => Bound::Any,
            Formula::All(parts) => {
                let bounds: Vec<Bound> =
                    parts.iter().map(|part| part.bound(read)).filter(|bound| *bound != Bound::Any).collect();
                if bounds.is_empty() { Bound::Any } else { Bound::All(bounds) }
            }
            Formula::Either(parts) => {
                let bounds: Vec<Bound> = parts.iter().map(|part| part.bound(read)).collect();
                if bounds.contains(&Bound::Any) { Bound::Any } else { Bound::Either(bounds) }
            }
            Formula::Test(targets, test) => {
                let of_read = targets.iter().filter(|target| target.read == read);
                let mut bounds: Vec<Bound> =
                    of_read.map(|target| Bound::Test(target.steps.clone(), test.clone())).collect();
                match bounds.len() {
                    0 => Bound::Any,
                    1 => bounds.remove(0),
                    _ => Bound::All(bounds),
                }
            }
        }
    }

    /// The reads of which it says something.
    pub(crate) fn reads(&self, reads: &mut BTreeSet<usize>) {
        match self {
            Formula::Unknown => {}
            Formula::All(parts) | Formula::Either(parts) => parts.iter().for_each(|part| part.reads(reads)),
            Formula::Test(targets, _) => reads.extend(targets.iter().map(|target| target.read)),
        }
    }
}

/// What it takes for a predicate to be `wanted`: true, or false. (Unknown, it is neither.)
pub(crate) fn formula(expr: &Expr, wanted: bool, relations: &[Relation]) -> Formula {
    let go = |expr: &Expr, wanted| formula(expr, wanted, relations);
    match expr {
        Expr::Nested(of) => go(of, wanted),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => go(expr, !wanted),
        Expr::IsTrue(of) if wanted => go(of, true),
        Expr::IsFalse(of) if wanted => go(of, false),
        Expr::Value(ValueWithSpan { value: Value::Boolean(is), .. }) => {
            if *is == wanted {
                Formula::Unknown
            } else {
                Formula::Either(Vec::new())
            }
        }
        Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
            let parts = vec![go(left, wanted), go(right, wanted)];
            if (*op == BinaryOperator::And) == wanted { Formula::All(parts) } else { Formula::Either(parts) }
        }
        Expr::BinaryOp { left, op, right } => {
            order_of(op).map_or(Formula::Unknown, |order| compare(left, order, right, wanted, relations))
        }
        Expr::IsNotDistinctFrom(left, right) if wanted => compare(left, Order::Equal, right, true, relations),
        Expr::IsDistinctFrom(left, right) if !wanted => compare(left, Order::Equal, right, true, relations),
        Expr::Between { expr, negated, low, high } => {
            let within = wanted != *negated;
            let parts = vec![
                compare(expr, Order::AtLeast, low, within, relations),
                compare(expr, Order::AtMost, high, within, relations),
            ];
            if within { Formula::All(parts) } else { Formula::Either(parts) }
        }
        Expr::InList { expr, list, negated } => in_list(expr, list, wanted != *negated, relations),
        _ => Formula::Unknown,
    }
}

fn order_of(op: &BinaryOperator) -> Option<Order> {
    Some(match op {
        BinaryOperator::Eq => Order::Equal,
        BinaryOperator::NotEq => Order::Other,
        BinaryOperator::Lt => Order::Less,
        BinaryOperator::LtEq => Order::AtMost,
        BinaryOperator::Gt => Order::More,
        BinaryOperator::GtEq => Order::AtLeast,
        _ => return None,
    })
}

fn compare(left: &Expr, order: Order, right: &Expr, wanted: bool, relations: &[Relation]) -> Formula {
    let order = if wanted { order } else { order.denied() };
    if let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) {
        return compare_rows(left, order, right, relations);
    }
    match (side(left, relations), side(right, relations)) {
        (Side::Column(targets), Side::Constant(constant)) => Formula::Test(targets, Test::Compare(order, constant)),
        (Side::Constant(constant), Side::Column(targets)) => {
            Formula::Test(targets, Test::Compare(order.flipped(), constant))
        }
        _ => Formula::Unknown,
    }
}

/// Rows go by what comes first in them, and where that is equal by what follows.
fn compare_rows(left: &[Expr], order: Order, right: &[Expr], relations: &[Relation]) -> Formula {
    let (Some(first), Some(other), true) = (left.first(), right.first(), left.len() == right.len()) else {
        return Formula::Unknown;
    };
    let at_least = |order| compare(first, order, other, true, relations);
    match order {
        Order::Equal => {
            let pairs = left.iter().zip(right);
            Formula::All(pairs.map(|(left, right)| compare(left, Order::Equal, right, true, relations)).collect())
        }
        Order::Less | Order::AtMost => at_least(Order::AtMost),
        Order::More | Order::AtLeast => at_least(Order::AtLeast),
        Order::Other => Formula::Unknown,
    }
}

fn in_list(expr: &Expr, list: &[Expr], within: bool, relations: &[Relation]) -> Formula {
    let Side::Column(targets) = side(expr, relations) else { return Formula::Unknown };
    let constant = |each: &Expr| match side(each, relations) {
        Side::Constant(constant) => Some(constant),
        _ => None,
    };
    match list.iter().map(constant).collect() {
        Some(constants) if within => Formula::Test(targets, Test::In(constants)),
        Some(constants) => Formula::Test(targets, Test::NotIn(constants)),
        None => Formula::Unknown,
    }
}

/// What an expression is.
pub(crate) fn side(expr: &Expr, relations: &[Relation]) -> Side {
    let go = |expr: &Expr| side(expr, relations);
    match expr {
        Expr::Nested(of) => go(of),
        Expr::Identifier(name) => named(std::slice::from_ref(name), relations),
        Expr::CompoundIdentifier(name) => named(name, relations),
        Expr::Value(value) => slot(value),
        Expr::TypedString(typed) => cast(slot(&typed.value), &typed.data_type),
        Expr::Cast { expr, data_type, array: false, format: None, .. } => cast(go(expr), data_type),
        Expr::Interval(interval) => interval_side(interval, go(&interval.value)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => go(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match go(expr) {
            Side::Constant(of) => Side::Constant(Constant::Negative(Box::new(of))),
            _ => Side::Other,
        },
        Expr::BinaryOp { left, op, right } => arithmetic(go(left), op, go(right)),
        Expr::Extract { field, expr, .. } => part(Constant::Word(field.to_string()), go(expr)),
        Expr::AtTimeZone { timestamp, time_zone } => match (go(timestamp), go(time_zone)) {
            (Side::Constant(of), Side::Constant(zone)) => Side::Constant(Constant::Zone(Box::new(of), Box::new(zone))),
            (Side::Column(targets), Side::Constant(zone)) => column(targets, &Step::Zone(zone)),
            _ => Side::Other,
        },
        Expr::Function(call) => function(call, relations),
        _ => Side::Other,
    }
}

fn column(targets: Vec<Target>, step: &Step) -> Side {
    let targets = stepped(targets, step);
    if targets.is_empty() { Side::Other } else { Side::Column(targets) }
}

fn named(name: &[Ident], relations: &[Relation]) -> Side {
    let targets = resolve(name, relations);
    if !targets.is_empty() {
        return Side::Column(targets);
    }
    // What is a function without parentheses is one here unless a relation may have a column of that name.
    match name {
        [name] if name.quote_style.is_none() => match fold(name).as_str() {
            "current_timestamp" | "localtimestamp" => Side::Constant(Constant::Now),
            "current_date" => Side::Constant(Constant::Today),
            _ => Side::Other,
        },
        _ => Side::Other,
    }
}

/// The number that stands in place of a literal.
fn slot(value: &ValueWithSpan) -> Side {
    let number = match &value.value {
        Value::Number(number, _) | Value::SingleQuotedString(number) => number.parse(),
        Value::Placeholder(name) => name.trim_start_matches('$').parse(),
        _ => return Side::Other,
    };
    number.map_or(Side::Other, |number| Side::Constant(Constant::Slot(number)))
}

fn cast(side: Side, to: &DataType) -> Side {
    let Some(to) = type_of(to) else { return Side::Other };
    match side {
        Side::Constant(of) => Side::Constant(Constant::Cast(Box::new(of), to)),
        Side::Column(targets) => column(targets, &Step::Cast(to)),
        Side::Other => Side::Other,
    }
}

fn type_of(data_type: &DataType) -> Option<Type> {
    use DataType::*;
    Some(match data_type {
        Date | Date32 => Type::Date,
        Timestamp(digits, _) | Datetime(digits) | TimestampNtz(digits) => Type::Timestamp { rounded: digits.is_some() },
        DataType::Interval { fields: None, precision: None } => Type::Interval,
        SmallInt(_) | Int2(_) | Int(_) | Int4(_) | Int8(_) | Integer(_) | BigInt(_) | Int32 | Int64 => Type::Integer,
        Numeric(_) | Decimal(_) | Double(_) | DoublePrecision | Float8 | Float64 => Type::Number,
        Text | Varchar(_) | CharacterVarying(_) | String(_) => Type::Text,
        _ => return None,
    })
}

fn interval_side(interval: &sqlparser::ast::Interval, of: Side) -> Side {
    let plain = interval.last_field.is_none()
        && interval.leading_precision.is_none()
        && interval.fractional_seconds_precision.is_none();
    let unit = match &interval.leading_field {
        None => Some(None),
        Some(field) => unit_of(field).map(Some),
    };
    match (of, unit) {
        (Side::Constant(of), Some(unit)) if plain => Side::Constant(Constant::Interval(Box::new(of), unit)),
        _ => Side::Other,
    }
}

fn unit_of(field: &DateTimeField) -> Option<Unit> {
    Unit::named(&field.to_string())
}

fn arithmetic(left: Side, op: &BinaryOperator, right: Side) -> Side {
    type Pair = fn(Box<Constant>, Box<Constant>) -> Constant;
    let both: Pair = match op {
        BinaryOperator::Plus => Constant::Plus,
        BinaryOperator::Minus => Constant::Minus,
        BinaryOperator::Multiply => Constant::Times,
        BinaryOperator::Divide => Constant::Over,
        _ => return Side::Other,
    };
    match (left, op, right) {
        (Side::Constant(left), _, Side::Constant(right)) => Side::Constant(both(Box::new(left), Box::new(right))),
        (Side::Column(targets), BinaryOperator::Plus, Side::Constant(by))
        | (Side::Constant(by), BinaryOperator::Plus, Side::Column(targets)) => column(targets, &Step::Plus(by)),
        (Side::Column(targets), BinaryOperator::Minus, Side::Constant(by)) => column(targets, &Step::Minus(by)),
        (Side::Constant(from), BinaryOperator::Minus, Side::Column(targets)) => column(targets, &Step::MinusFrom(from)),
        (Side::Column(targets), BinaryOperator::Divide, Side::Constant(by)) => column(targets, &Step::Over(by)),
        _ => Side::Other,
    }
}

fn part(part: Constant, of: Side) -> Side {
    match of {
        Side::Constant(of) => Side::Constant(Constant::Part(Box::new(part), Box::new(of))),
        Side::Column(targets) => column(targets, &Step::Part(part)),
        Side::Other => Side::Other,
    }
}

/// A call of a function that is known.
fn function(call: &Function, relations: &[Relation]) -> Side {
    let (Some(name), Some(arguments)) = (function_name(call), arguments(call)) else { return Side::Other };
    // A word where a unit is wanted is no column.
    let word = |expr: &Expr| match expr {
        Expr::Identifier(name) if name.quote_style.is_none() => Some(Constant::Word(fold(name))),
        Expr::Value(value) => match slot(value) {
            Side::Constant(constant) => Some(constant),
            _ => None,
        },
        _ => None,
    };
    let constant = |expr: &Expr| match side(expr, relations) {
        Side::Constant(constant) => Some(constant),
        _ => None,
    };
    let known = |side: Option<Side>| side.unwrap_or(Side::Other);
    match (name.as_str(), arguments.as_slice()) {
        (
            "now"
            | "current_timestamp"
            | "localtimestamp"
            | "transaction_timestamp"
            | "statement_timestamp"
            | "clock_timestamp"
            | "getdate"
            | "sysdate",
            [],
        ) => Side::Constant(Constant::Now),
        ("current_date" | "curdate" | "today", []) => Side::Constant(Constant::Today),
        ("date_trunc" | "datetrunc", [unit, of]) => known(word(unit).map(|unit| match side(of, relations) {
            Side::Constant(of) => Side::Constant(Constant::Trunc(Box::new(unit), Box::new(of))),
            Side::Column(targets) => column(targets, &Step::Trunc(unit)),
            Side::Other => Side::Other,
        })),
        ("date_part" | "datepart", [field, of]) => known(word(field).map(|field| part(field, side(of, relations)))),
        ("year", [of]) => part(Constant::Word("year".to_owned()), side(of, relations)),
        ("date", [of]) => cast(side(of, relations), &DataType::Date),
        ("to_timestamp", [of]) => match side(of, relations) {
            Side::Constant(of) => Side::Constant(Constant::FromEpoch(Box::new(of))),
            Side::Column(targets) => column(targets, &Step::FromEpoch),
            Side::Other => Side::Other,
        },
        ("to_date" | "to_timestamp", [of, format]) => {
            let to = if name == "to_date" { Type::Date } else { Type::Timestamp { rounded: false } };
            let text = constant(of).zip(constant(format));
            let formatted = text.map(|(of, format)| Constant::Formatted(Box::new(of), Box::new(format)));
            known(formatted.map(|text| Side::Constant(Constant::Cast(Box::new(text), to))))
        }
        ("make_date", [year, month, day]) => {
            let parts = [year, month, day].map(|expr| constant(expr));
            let [Some(year), Some(month), Some(day)] = parts else { return Side::Other };
            Side::Constant(Constant::Date(Box::new([year, month, day])))
        }
        ("dateadd" | "date_add" | "timestampadd", [unit, count, to]) => {
            let (Some(unit), Some(count)) = (word(unit), constant(count)) else { return Side::Other };
            match side(to, relations) {
                Side::Constant(to) => Side::Constant(Constant::Add(Box::new([unit, count, to]))),
                Side::Column(targets) => column(targets, &Step::Add(unit, count)),
                Side::Other => Side::Other,
            }
        }
        _ => Side::Other,
    }
}

/// The name of a plain function, lower case.
fn function_name(call: &Function) -> Option<String> {
    let plain = call.over.is_none()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty()
        && matches!(call.parameters, FunctionArguments::None);
    let parts = identifiers(&call.name).filter(|_| plain)?;
    match parts.as_slice() {
        [name] => Some(fold(name)),
        [schema, name] if fold(schema) == "pg_catalog" => Some(fold(name)),
        _ => None,
    }
}

fn arguments(call: &Function) -> Option<Vec<&Expr>> {
    match &call.args {
        FunctionArguments::None => Some(Vec::new()),
        FunctionArguments::Subquery(_) => None,
        FunctionArguments::List(list) => {
            let plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
            let expr = |argument| match argument {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
                _ => None,
            };
            list.args.iter().filter(|_| plain).map(expr).collect::<Option<Vec<_>>>().filter(|_| plain)
        }
    }
}
