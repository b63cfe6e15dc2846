//! What is known of a warehouse and its queries, as a small text that ships with the program.
//!
//! ```text
//!   # where the figures come from
//!   warehouse,bandwidth,2.5          one line for each of Parameters
//!   …
//!   template,cpu,io,memory,most_units,tables
//!   1,21.3,5.2,8.1,64,store_returns+customer
//!   …                                one line for each of the 99 templates
//! ```
//!
//! Refitting writes the same format, with no more digits than it takes to read the same numbers again.

use std::fmt;
use std::sync::LazyLock;

use super::cache::Tables;
use super::profile::{Parameters, Profile, Template};

/// A warehouse's parameters, and the profiles of the TPC-DS templates on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The warehouse.
    pub parameters: Parameters,
    /// The 99 templates, in order.
    profiles: Vec<Profile>,
}

/// Why a text is no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A line, counted from one, that is none of the table's.
    Line(usize),
    /// There is no such parameter.
    Parameter(&'static str),
    /// There is no such template.
    Template(u32),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Line(line) => write!(f, "line {line} is neither a parameter nor a template of a warehouse"),
            Unreadable::Parameter(name) => write!(f, "the warehouse has no {name}"),
            Unreadable::Template(number) => write!(f, "template {number} is missing"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// The table that ships.
static SHIPPED: LazyLock<Table> = LazyLock::new(|| {
    let read = Table::parse(include_str!("tpcds_sf1000.csv"));
    // A test reads it, so this cannot happen to anyone else.
    read.unwrap_or_else(|why| unreachable!("the shipped table: {why}"))
});

/// The names of the parameters, as they are written.
const NAMES: [&str; 9] = ["bandwidth", "memory", "cache", "cold", "spill", "slots", "noise", "start_up", "compile"];
/// The line above the templates.
const HEADING: &str = "template,cpu,io,memory,most_units,tables";

impl Table {
    /// The one that ships: TPC-DS at scale factor 1,000 on Redshift Serverless, a unit being an RPU.
    pub fn shipped() -> &'static Table {
        &SHIPPED
    }

    /// A table of these parts; the profiles are of templates 1 to 99. None if there are more or fewer.
    pub fn of(parameters: Parameters, profiles: Vec<Profile>) -> Option<Table> {
        (profiles.len() == Template::COUNT).then_some(Table { parameters, profiles })
    }

    /// What a template asks for.
    pub fn profile(&self, template: Template) -> Profile {
        self.profiles[template.index()]
    }

    /// Reads a table. Empty lines and lines that begin with `#` say nothing.
    pub fn parse(text: &str) -> Result<Table, Unreadable> {
        let mut parameters = [None; NAMES.len()];
        let mut profiles = [None; Template::COUNT];
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line == HEADING {
                continue;
            }
            let fields: Vec<&str> = line.split(',').collect();
            let known = match fields.as_slice() {
                ["warehouse", name, value] => parameter(name, value).map(|(at, value)| parameters[at] = Some(value)),
                [number, rest @ ..] => profile(number, rest).map(|(at, profile)| profiles[at] = Some(profile)),
                [] => None,
            };
            known.ok_or(Unreadable::Line(at + 1))?;
        }
        let [bandwidth, memory, cache, cold, spill, slots, noise, start_up, compile] = all(parameters, NAMES)?;
        let missing = |at: usize| Unreadable::Template(at as u32 + 1);
        let profiles = profiles.into_iter().enumerate().map(|(at, profile)| profile.ok_or(missing(at)));
        Ok(Table {
            parameters: Parameters { bandwidth, memory, cache, cold, spill, slots, noise, start_up, compile },
            profiles: profiles.collect::<Result<_, _>>()?,
        })
    }
}

/// All values, or the first that is missing.
fn all<const N: usize>(values: [Option<f64>; N], names: [&'static str; N]) -> Result<[f64; N], Unreadable> {
    if let Some(at) = values.iter().position(Option::is_none) {
        return Err(Unreadable::Parameter(names[at]));
    }
    Ok(values.map(Option::unwrap_or_default))
}

/// A number that can be calculated with: finite, and not negative.
fn amount(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

fn parameter(name: &str, value: &str) -> Option<(usize, f64)> {
    let value = amount(value)?;
    // Nothing can be read without bandwidth.
    let at = NAMES.iter().position(|known| *known == name)?;
    (name != "bandwidth" || value > 0.0).then_some((at, value))
}

fn profile(number: &str, rest: &[&str]) -> Option<(usize, Profile)> {
    let template = Template::new(number.trim().parse().ok()?)?;
    let [cpu, io, memory, most_units, tables] = rest else { return None };
    let most_units = amount(most_units).filter(|most| *most > 0.0)?;
    let profile = Profile {
        cpu: amount(cpu)?,
        io: amount(io)?,
        memory: amount(memory)?,
        most_units,
        tables: Tables::parse(tables.trim())?,
        template: Some(template),
    };
    Some((template.index(), profile))
}

/// As [`parse`](Table::parse) reads it.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameters { bandwidth, memory, cache, cold, spill, slots, noise, start_up, compile } = self.parameters;
        for (name, value) in NAMES.iter().zip([bandwidth, memory, cache, cold, spill, slots, noise, start_up, compile])
        {
            writeln!(f, "warehouse,{name},{value}")?;
        }
        writeln!(f, "{HEADING}")?;
        for (template, profile) in Template::all().zip(&self.profiles) {
            let Profile { cpu, io, memory, most_units, tables, .. } = profile;
            let number = template.number();
            writeln!(f, "{number},{cpu},{io},{memory},{most_units},{}", tables.names())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_is_read_and_written_as_it_is() {
        let read = Table::parse(&Table::shipped().to_string());
        assert_eq!(read.as_ref(), Ok(Table::shipped()));
    }

    #[test]
    fn what_is_no_table_is_refused_with_what_is_wrong() {
        let text = Table::shipped().to_string();
        let without = |line: &str| text.lines().filter(|other| !other.starts_with(line)).collect::<Vec<_>>().join("\n");
        assert_eq!(Table::parse(""), Err(Unreadable::Parameter("bandwidth")));
        assert_eq!(Table::parse(&without("warehouse,noise")), Err(Unreadable::Parameter("noise")));
        assert_eq!(Table::parse(&without("42,")), Err(Unreadable::Template(42)));
        for line in [
            "100,1,1,1,1,-",
            "1,1,1,1,0,-",
            "1,NaN,1,1,1,-",
            "1,1,1,1,1,there",
            "1,1,1",
            "x,y,z",
            "warehouse,bandwidth,0",
        ] {
            assert_eq!(Table::parse(line), Err(Unreadable::Line(1)), "{line}");
        }
    }
}
