//! What a client is told when its statement fails: one table from causes to SQLSTATE.
//!
//! Drivers branch on the five characters, people read the message, so both are chosen here and nowhere else.
//! DataFusion has far fewer kinds of error than Postgres has codes; where it puts several causes into one
//! kind, its text decides, and [`for_plan_text`] is the only place that reads text.

use std::borrow::Cow;

use pgwire::error::{ErrorInfo, PgWireError};

/// The codes this server uses, by the names Postgres gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlState {
    FeatureNotSupported,
    InsufficientPrivilege,
    SyntaxError,
    SyntaxOrAccessRule,
    UndefinedTable,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedObject,
    AmbiguousColumn,
    DuplicateColumn,
    DatatypeMismatch,
    InvalidStatementName,
    InvalidCursorName,
    DuplicatePreparedStatement,
    InvalidParameterValue,
    DivisionByZero,
    NumericOutOfRange,
    InvalidText,
    CardinalityViolation,
    FailedTransaction,
    ProtocolViolation,
    InvalidPassword,
    TooManyConnections,
    OutOfMemory,
    LimitExceeded,
    StatementTooComplex,
    QueryCanceled,
    IoError,
    InternalError,
}

impl SqlState {
    /// The five characters.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::ProtocolViolation => "08P01",
            Self::FeatureNotSupported => "0A000",
            Self::CardinalityViolation => "21000",
            Self::NumericOutOfRange => "22003",
            Self::DivisionByZero => "22012",
            Self::InvalidParameterValue => "22023",
            Self::InvalidText => "22P02",
            Self::FailedTransaction => "25P02",
            Self::InvalidStatementName => "26000",
            Self::InvalidPassword => "28P01",
            Self::InvalidCursorName => "34000",
            Self::SyntaxOrAccessRule => "42000",
            Self::InsufficientPrivilege => "42501",
            Self::SyntaxError => "42601",
            Self::DuplicateColumn => "42701",
            Self::AmbiguousColumn => "42702",
            Self::UndefinedColumn => "42703",
            Self::UndefinedObject => "42704",
            Self::DatatypeMismatch => "42804",
            Self::UndefinedFunction => "42883",
            Self::UndefinedTable => "42P01",
            Self::DuplicatePreparedStatement => "42P05",
            Self::TooManyConnections => "53300",
            Self::OutOfMemory => "53200",
            Self::LimitExceeded => "54000",
            Self::StatementTooComplex => "54001",
            Self::QueryCanceled => "57014",
            Self::IoError => "58030",
            Self::InternalError => "XX000",
        }
    }
}

/// A failed statement, or with `fatal` a failed connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) state: SqlState,
    pub(crate) message: String,
    /// Where in the statement, counted in characters from 1.
    pub(crate) position: Option<usize>,
    pub(crate) hint: Option<Cow<'static, str>>,
    pub(crate) fatal: bool,
}

impl Failure {
    pub(crate) fn new(state: SqlState, message: impl Into<String>) -> Failure {
        Failure { state, message: message.into(), position: None, hint: None, fatal: false }
    }

    pub(crate) fn fatal(state: SqlState, message: impl Into<String>) -> Failure {
        Failure { fatal: true, ..Failure::new(state, message) }
    }

    pub(crate) fn at(self, position: usize) -> Failure {
        Failure { position: Some(position), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<Cow<'static, str>>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn cancelled() -> Failure {
        Failure::new(SqlState::QueryCanceled, "canceling statement due to user request")
    }

    pub(crate) fn timed_out() -> Failure {
        Failure::new(SqlState::QueryCanceled, "canceling statement due to statement timeout")
    }

    pub(crate) fn panicked(what: &str) -> Failure {
        Failure::new(SqlState::InternalError, format!("the engine failed while {what}"))
            .hint("Only this statement is affected. The engine's standard error says more.")
    }

    /// As the fields of an ErrorResponse.
    pub(crate) fn into_error_info(self) -> ErrorInfo {
        let severity = if self.fatal { "FATAL" } else { "ERROR" };
        let mut info = ErrorInfo::new(severity.into(), self.state.code().into(), self.message);
        info.severity_nonlocalized = Some(severity.into());
        info.position = self.position.map(|at| at.to_string());
        info.hint = self.hint.map(Cow::into_owned);
        info
    }
}

/// Errors of the encoder: it brings its own code, or it met a type that has no Postgres counterpart.
impl From<PgWireError> for Failure {
    fn from(error: PgWireError) -> Failure {
        let state = match &error {
            PgWireError::UserError(info) if info.code == "22003" => SqlState::NumericOutOfRange,
            PgWireError::UserError(info) if info.code == "22P02" => SqlState::InvalidText,
            PgWireError::UserError(info) if info.code.starts_with("22") => SqlState::InvalidParameterValue,
            PgWireError::UserError(info) if info.message.starts_with("Unsupported") => SqlState::FeatureNotSupported,
            PgWireError::FailedToParseParameter(_) => SqlState::InvalidText,
            PgWireError::InvalidRustTypeForParameter(_) => SqlState::DatatypeMismatch,
            PgWireError::ParameterIndexOutOfBound(_) => SqlState::ProtocolViolation,
            _ => SqlState::InternalError,
        };
        let message = match error {
            PgWireError::UserError(info) => info.message,
            other => other.to_string(),
        };
        Failure::new(state, message)
    }
}

#[cfg(feature = "datafusion")]
mod datafusion_errors {
    use datafusion::arrow::error::ArrowError;
    use datafusion::common::SchemaError;
    use datafusion::error::DataFusionError;

    use super::{Failure, SqlState};

    impl From<DataFusionError> for Failure {
        fn from(error: DataFusionError) -> Failure {
            let state = state_of(&error);
            Failure::new(state, message_of(&error))
        }
    }

    fn state_of(error: &DataFusionError) -> SqlState {
        match error {
            DataFusionError::Context(_, cause) | DataFusionError::Diagnostic(_, cause) => state_of(cause),
            DataFusionError::Shared(cause) => state_of(cause),
            DataFusionError::Collection(causes) => causes.first().map_or(SqlState::InternalError, state_of),
            DataFusionError::ArrowError(cause, _) => for_arrow(cause),
            DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
                SqlState::IoError
            }
            DataFusionError::SQL(..) => SqlState::SyntaxError,
            DataFusionError::NotImplemented(_) => SqlState::FeatureNotSupported,
            DataFusionError::Plan(text) => for_plan_text(text),
            DataFusionError::SchemaError(cause, _) => for_schema(cause),
            DataFusionError::ResourcesExhausted(_) => SqlState::OutOfMemory,
            DataFusionError::Execution(text) => for_execution_text(text),
            DataFusionError::External(cause) => {
                if let Some(inner) = cause.downcast_ref::<DataFusionError>() {
                    state_of(inner)
                } else if let Some(inner) = cause.downcast_ref::<ArrowError>() {
                    for_arrow(inner)
                } else {
                    SqlState::InternalError
                }
            }
            _ => SqlState::InternalError,
        }
    }

    fn for_arrow(error: &ArrowError) -> SqlState {
        match error {
            ArrowError::DivideByZero => SqlState::DivisionByZero,
            ArrowError::ArithmeticOverflow(_) => SqlState::NumericOutOfRange,
            ArrowError::CastError(text) if text.contains("Can't cast value") || text.contains("too large to store") => {
                SqlState::NumericOutOfRange
            }
            ArrowError::InvalidArgumentError(text) if text.contains("too large to store") => {
                SqlState::NumericOutOfRange
            }
            ArrowError::CastError(_) | ArrowError::ParseError(_) => SqlState::InvalidText,
            ArrowError::ComputeError(text) if text.contains("verflow") => SqlState::NumericOutOfRange,
            ArrowError::NotYetImplemented(_) => SqlState::FeatureNotSupported,
            ArrowError::MemoryError(_) => SqlState::OutOfMemory,
            ArrowError::IoError(..) | ArrowError::ParquetError(_) => SqlState::IoError,
            ArrowError::ExternalError(cause) => {
                cause.downcast_ref::<DataFusionError>().map_or(SqlState::InternalError, state_of)
            }
            _ => SqlState::InternalError,
        }
    }

    fn for_schema(error: &SchemaError) -> SqlState {
        match error {
            SchemaError::FieldNotFound { .. } => SqlState::UndefinedColumn,
            SchemaError::AmbiguousReference { .. } => SqlState::AmbiguousColumn,
            SchemaError::DuplicateQualifiedField { .. } | SchemaError::DuplicateUnqualifiedField { .. } => {
                SqlState::DuplicateColumn
            }
        }
    }

    /// Planning errors carry only text.
    fn for_plan_text(text: &str) -> SqlState {
        let lower = text.to_ascii_lowercase();
        let has = |part: &str| lower.contains(part);
        if has("table '") && has("not found")
            || has("table_name") && has("not found")
            || has("failed to resolve schema")
            || has("failed to resolve catalog")
        {
            SqlState::UndefinedTable
        } else if has("invalid function")
            || has("table function") && has("not found")
            || has("no function matches")
            || has("does not support")
            || has("failed to coerce")
        {
            SqlState::UndefinedFunction
        } else if has("cannot coerce") || has("type mismatch") || has("cannot infer common") {
            SqlState::DatatypeMismatch
        } else if has("not supported") {
            SqlState::FeatureNotSupported
        } else if has("no field named") {
            SqlState::UndefinedColumn
        } else {
            SqlState::SyntaxOrAccessRule
        }
    }

    fn for_execution_text(text: &str) -> SqlState {
        let lower = text.to_ascii_lowercase();
        if lower.contains("overflow") || lower.contains("out of range") {
            SqlState::NumericOutOfRange
        } else if lower.contains("division by zero") || lower.contains("divide by zero") {
            SqlState::DivisionByZero
        } else if lower.contains("error parsing") || lower.contains("failed to parse") {
            SqlState::InvalidText
        } else if lower.contains("returned more than one row") {
            SqlState::CardinalityViolation
        } else {
            SqlState::InternalError
        }
    }

    /// The innermost cause, without DataFusion's chain of prefixes.
    fn message_of(error: &DataFusionError) -> String {
        match error {
            DataFusionError::Context(_, cause) | DataFusionError::Diagnostic(_, cause) => message_of(cause),
            DataFusionError::Shared(cause) => message_of(cause),
            DataFusionError::Collection(causes) => causes.first().map_or_else(|| error.to_string(), message_of),
            DataFusionError::ArrowError(cause, _) => match cause.as_ref() {
                ArrowError::DivideByZero => "division by zero".to_owned(),
                ArrowError::ExternalError(inner) => {
                    inner.downcast_ref::<DataFusionError>().map_or_else(|| inner.to_string(), message_of)
                }
                other => other.to_string(),
            },
            DataFusionError::Plan(text)
            | DataFusionError::Execution(text)
            | DataFusionError::NotImplemented(text)
            | DataFusionError::ResourcesExhausted(text) => text.clone(),
            DataFusionError::SchemaError(cause, _) => cause.to_string(),
            other => other.strip_backtrace(),
        }
    }
}
