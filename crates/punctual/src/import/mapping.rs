//! Which column becomes what: `arrival=start_time`, `latency=total_ms:ms`, `text_hash=template+instance`.

use std::fmt;

use super::target::{Takes, Target};
use super::units::Unit;
use crate::config::near::nearest;

/// The name that stands for the file's own name, without directory and extensions.
pub(crate) const FILE: &str = "@file";

/// Where the values of a target come from: one or more columns, and the unit of what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) target: Target,
    pub(crate) columns: Vec<String>,
    pub(crate) unit: Option<Unit>,
}

/// Why a mapping makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MappingError {
    /// It is not of the form `history_column=file_column`.
    Form(String),
    /// There is no such column of history.
    Target { name: String, nearest: Option<&'static str> },
    /// There is no such unit.
    Unit { name: String },
    /// A duration has no unit.
    Unitless { target: Target, column: String },
    /// A unit where none makes sense.
    NoUnit { target: Target },
    /// Instants cannot be joined.
    Joined { target: Target },
    /// A column of history comes from two places.
    Twice(Target),
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MappingError::Form(text) => {
                write!(f, "{text:?} is no mapping; write history_column=file_column, or with a unit latency=column:ms")
            }
            MappingError::Target { name, nearest: Some(nearest) } => {
                write!(f, "history has no column {name}; did you mean {nearest}?")
            }
            MappingError::Target { name, nearest: None } => {
                let names: Vec<&str> = Target::ALL.iter().map(|(_, name, _)| *name).collect();
                write!(f, "history has no column {name}; there are {}", names.join(", "))
            }
            MappingError::Unit { name } => write!(f, "{name:?} is no unit; there are s, ms, us and ns"),
            MappingError::Unitless { target, column } => {
                write!(f, "{target} needs a unit: {target}={column}:s, or ms, us, ns")
            }
            MappingError::NoUnit { target } => write!(f, "{target} has no unit"),
            MappingError::Joined { target } => write!(f, "{target} is one instant; columns cannot be joined to it"),
            MappingError::Twice(target) => write!(f, "{target} is mapped twice"),
        }
    }
}

impl std::error::Error for MappingError {}

/// Reads mappings.
///
/// # Errors
/// If one makes no sense, or two are for the same column of history.
pub(crate) fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Source>, MappingError> {
    let mut sources: Vec<Source> = Vec::new();
    for text in texts.into_iter().filter(|text| !text.trim().is_empty()) {
        let source = read_one(text)?;
        if sources.iter().any(|known| known.target == source.target) {
            return Err(MappingError::Twice(source.target));
        }
        sources.push(source);
    }
    Ok(sources)
}

fn read_one(text: &str) -> Result<Source, MappingError> {
    let form = || MappingError::Form(text.to_owned());
    let (name, from) = text.split_once('=').ok_or_else(form)?;
    let target = Target::named(name.trim()).ok_or_else(|| MappingError::Target {
        name: name.trim().to_owned(),
        nearest: nearest(name.trim(), Target::ALL.iter().map(|(_, name, _)| *name)),
    })?;
    let (from, unit) = match from.rsplit_once(':') {
        None => (from, None),
        Some((from, unit)) => {
            let named = Unit::named(unit.trim()).ok_or_else(|| MappingError::Unit { name: unit.trim().to_owned() })?;
            (from, Some(named))
        }
    };
    let columns: Vec<String> = from.split('+').map(|column| column.trim().to_owned()).collect();
    if columns.iter().any(String::is_empty) {
        return Err(form());
    }
    match (target.takes(), unit) {
        (Takes::Duration, None) => Err(MappingError::Unitless { target, column: from.trim().to_owned() }),
        (Takes::Instant, _) if columns.len() > 1 => Err(MappingError::Joined { target }),
        (Takes::Duration | Takes::Instant, _) | (_, None) => Ok(Source { target, columns, unit }),
        (_, Some(_)) => Err(MappingError::NoUnit { target }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(target: Target, columns: &[&str], unit: Option<Unit>) -> Source {
        Source { target, columns: columns.iter().map(|column| (*column).to_owned()).collect(), unit }
    }

    #[test]
    fn a_mapping_names_columns_and_their_unit() {
        let texts = ["cluster=run", "arrival = arrival_s : s", "text_hash=template+instance", "published=p_s:us", ""];
        let expected = [
            source(Target::Cluster, &["run"], None),
            source(Target::Arrival, &["arrival_s"], Some(Unit::Seconds)),
            source(Target::TextHash, &["template", "instance"], None),
            source(Target::Published, &["p_s"], Some(Unit::Micros)),
        ];
        assert_eq!(read(texts).unwrap(), expected);
        let waited = source(Target::Waited, &["a", "b"], Some(Unit::Millis));
        assert_eq!(read(["waited=a+b:ms"]).unwrap(), [waited]);
    }

    #[test]
    fn what_makes_no_sense_says_what_would() {
        let said = |texts: &[&str]| read(texts.iter().copied()).unwrap_err().to_string();
        assert_eq!(said(&["clutser=run"]), "history has no column clutser; did you mean cluster?");
        assert!(said(&["warehouse=run"]).starts_with("history has no column warehouse; there are query_id, arrival,"));
        assert_eq!(said(&["latency=ms:min"]), "\"min\" is no unit; there are s, ms, us and ns");
        assert_eq!(said(&["latency=total"]), "latency needs a unit: latency=total:s, or ms, us, ns");
        assert_eq!(said(&["cluster=run:s"]), "cluster has no unit");
        assert_eq!(said(&["arrival=date+time"]), "arrival is one instant; columns cannot be joined to it");
        assert_eq!(said(&["user=a", "user=b"]), "user is mapped twice");
        assert_eq!(said(&["latency=a:s", "latency_s=b:s"]), "latency is mapped twice");
        for text in ["user", "user=", "user=a+", "=a"] {
            assert!(read([text]).is_err(), "{text}");
        }
    }
}
