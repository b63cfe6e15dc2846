//! What a session wishes of the gateway, and the statements that say and show it.
//!
//! `SET punctual.slo = '2s'`, `SET punctual.class = 'etl'`, `SET punctual.explain = on`, `SHOW punctual.…`: answered here, without any cluster.

use std::sync::Arc;

use punctual_core::class::{self, Class};
use punctual_core::id::ClassId;
use punctual_core::tag::parse_span;
use punctual_core::time::Span;

use super::problem::Problem;
use super::table;
use crate::catalog::Answer;

/// A wish that is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A latency target; None: that of the class.
    Slo(Option<Span>),
    /// A class, by its name; None: by the rules.
    Class(Option<String>),
    /// Whether each query is told where it was placed, and why.
    Explain(bool),
    /// Whatever the session began with.
    AsBegun(Name),
}

/// A wish's name, after `punctual.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The latency target.
    Slo,
    /// The class.
    Class,
    /// The notices.
    Explain,
}

/// What a session wishes, and what can be shown of it.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Its latency target.
    pub slo: Option<Span>,
    /// Its class, by name, so that it outlasts another policy.
    pub class: Option<String>,
    /// Whether each query is told where it was placed, and why.
    pub explain: bool,
    /// All three, as the start-up message had them.
    pub begun: (Option<Span>, Option<String>, bool),
    /// Where its last query ran.
    pub cluster: Option<Arc<str>>,
    /// Why it holds that cluster, if it does.
    pub pinned: Option<String>,
}

/// What can be shown.
const SHOWN: &str = "slo, class, explain, cluster, pinned, version";

impl Wishes {
    /// The class that the session chose, if there is still such a class.
    pub fn chosen(&self, classes: &[Class]) -> Option<ClassId> {
        class::find(classes, self.class.as_deref()?)
    }

    /// Takes a wish.
    pub fn take(&mut self, wish: Wish) {
        match wish {
            Wish::Slo(slo) => self.slo = slo,
            Wish::Class(class) => self.class = class,
            Wish::Explain(explain) => self.explain = explain,
            Wish::AsBegun(Name::Explain) => self.explain = self.begun.2,
            Wish::AsBegun(Name::Slo) => self.slo = self.begun.0,
            Wish::AsBegun(Name::Class) => self.class.clone_from(&self.begun.1),
        }
    }

    /// Goes back to what the session began with.
    pub fn reset(&mut self) {
        self.take(Wish::AsBegun(Name::Slo));
        self.take(Wish::AsBegun(Name::Class));
        self.take(Wish::AsBegun(Name::Explain));
    }

    /// Answers SHOW punctual.`name`.
    ///
    /// # Errors
    /// If nothing has that name.
    pub fn show(&self, name: &str) -> Result<Answer, Problem> {
        let value = match name {
            "slo" => self.slo.map(|slo| slo.to_string()),
            "class" => self.class.clone(),
            "explain" => Some(if self.explain { "on" } else { "off" }.to_owned()),
            "cluster" => self.cluster.as_deref().map(str::to_owned),
            "pinned" => Some(self.pinned.clone().unwrap_or_else(|| "no".to_owned())),
            "version" => Some(env!("CARGO_PKG_VERSION").to_owned()),
            _ => return Err(unknown(name)),
        };
        Ok(table::one(&format!("punctual.{name}"), Some(value.unwrap_or_default())))
    }
}

/// Reads SET punctual.`name` = `value`; no value means what the session began with.
///
/// # Errors
/// If nothing that can be set has that name, or the value cannot be: 22023, with what it can be.
pub fn wish(name: &str, value: Option<&str>, classes: &[Class]) -> Result<Wish, Problem> {
    match (name, value) {
        ("slo", None) => Ok(Wish::AsBegun(Name::Slo)),
        ("class", None) => Ok(Wish::AsBegun(Name::Class)),
        ("explain", None) => Ok(Wish::AsBegun(Name::Explain)),
        ("explain", Some(value)) => match value.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => Ok(Wish::Explain(true)),
            "off" | "false" | "no" | "0" => Ok(Wish::Explain(false)),
            _ => Err(Problem::new(b"22023", "parameter \"punctual.explain\" requires a Boolean value")
                .hint("It is on or off.")),
        },
        ("slo", Some("" | "none")) => Ok(Wish::Slo(None)),
        ("slo", Some(value)) => match parse_span(value) {
            Some(Span::ZERO) => Err(Problem::new(b"22023", "an SLO of nothing cannot be met")
                .hint("It is a duration such as '2s', or 'none' for queries that are never late.")),
            Some(slo) => Ok(Wish::Slo(Some(slo))),
            None => Err(Problem::new(b"22023", format!("invalid value for parameter \"punctual.slo\": \"{value}\""))
                .hint("A duration has a unit: '250ms', '2s', '30m', '1.5h'.")),
        },
        ("class", Some("")) => Ok(Wish::Class(None)),
        ("class", Some(value)) => match class::find(classes, value) {
            Some(id) => Ok(Wish::Class(classes.get(id.0 as usize).map(|class| class.name.clone()))),
            None => Err(Problem::new(b"22023", format!("there is no class \"{value}\""))
                .hint(format!("The classes are {}.", names(classes)))),
        },
        (name, _) if SHOWN.split(", ").any(|shown| shown == name) => {
            Err(Problem::new(b"55P02", format!("parameter \"punctual.{name}\" cannot be changed")))
        }
        (name, _) => Err(unknown(name)),
    }
}

/// The names of all classes.
pub fn names(classes: &[Class]) -> String {
    classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn unknown(name: &str) -> Problem {
    Problem::new(b"42704", format!("unrecognized configuration parameter \"punctual.{name}\""))
        .hint(format!("Those of punctual are {SHOWN}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_with_care() {
        let classes = Class::built_in();
        assert_eq!(wish("slo", Some("2s"), &classes), Ok(Wish::Slo(Some(Span::from_secs(2)))));
        assert_eq!(wish("class", Some("DEFAULT"), &classes), Ok(Wish::Class(Some("default".into()))));
        let problem = wish("class", Some("nope"), &classes).unwrap_err();
        assert_eq!(problem.sqlstate.code(), "22023");
        assert_eq!(problem.hint.as_deref(), Some("The classes are control, default."));
        assert_eq!(wish("slo", Some("0s"), &classes).unwrap_err().sqlstate.code(), "22023");
        assert_eq!(wish("slo", Some("2"), &classes).unwrap_err().sqlstate.code(), "22023");
        assert_eq!(wish("explain", Some("On"), &classes), Ok(Wish::Explain(true)));
        assert_eq!(wish("explain", Some("maybe"), &classes).unwrap_err().sqlstate.code(), "22023");
        assert_eq!(wish("sloo", None, &classes).unwrap_err().sqlstate.code(), "42704");
        assert_eq!(wish("cluster", Some("a"), &classes).unwrap_err().sqlstate.code(), "55P02");
    }

    #[test]
    fn a_reset_goes_back_to_the_start_up_message() {
        let mut wishes = Wishes { begun: (Some(Span::from_secs(9)), None, true), ..Wishes::default() };
        wishes.reset();
        assert_eq!(wishes.show("slo").map(|table| table.rows), Ok(vec![vec![Some("9s".to_owned())]]));
        assert_eq!(wishes.show("explain").map(|table| table.rows), Ok(vec![vec![Some("on".to_owned())]]));
        wishes.take(Wish::Slo(None));
        assert_eq!(wishes.show("slo").map(|table| table.rows), Ok(vec![vec![Some(String::new())]]));
    }
}
