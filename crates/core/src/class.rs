//! Queries that are treated alike, and how a query finds its class.
//!
//! A query that names its class (SET, start-up option, comment) gets it, if there is such a class. Otherwise a driver's
//! housekeeping is `control`, otherwise the first class with a matching rule, otherwise `default`. `control` and
//! `default` always exist.

use serde::{Deserialize, Serialize};

use crate::admit::terms::Terms;
use crate::id::ClassId;
use crate::statement::{Kind, Statement};
use crate::time::Span;

/// The class of a driver's housekeeping: it never waits behind real queries, never wakes a cluster, never keeps one
/// awake, never counts as a violation.
pub const CONTROL: ClassId = ClassId(0);
/// The class of whatever matches nothing else.
pub const DEFAULT: ClassId = ClassId(1);

/// Queries treated alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Its name, unique, lower case.
    pub name: String,
    /// A query matches if any of these does.
    pub rules: Vec<Rule>,
    /// The latency target of its queries, from arrival to the last row.
    pub slo: Option<Span>,
    /// On what terms its queries are admitted.
    pub terms: Terms,
}

/// A match rule: every condition that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The user that connected.
    pub user: Option<String>,
    /// The database that it connected to.
    pub database: Option<String>,
    /// The start of its application name.
    pub application: Option<String>,
    /// What its first statement does.
    pub kind: Option<Kind>,
    /// A table that it reads, with or without its schema.
    pub table: Option<String>,
}

/// Where a query comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The user that connected.
    pub user: &'a str,
    /// The database that it connected to.
    pub database: &'a str,
    /// Its application name, possibly empty.
    pub application: &'a str,
}

/// Why a query is in its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Because {
    /// The query's comment names the class.
    Comment,
    /// The session chose it.
    Chosen,
    /// It is a driver's housekeeping.
    Housekeeping,
    /// This rule of the class matched, counted from zero.
    Rule(u32),
    /// Nothing matched.
    Nothing,
}

impl Class {
    /// The two classes that always exist, at [`CONTROL`] and [`DEFAULT`].
    pub fn built_in() -> Vec<Class> {
        let class = |name: &str| Class { name: name.to_owned(), ..Class::default() };
        vec![class("control"), class("default")]
    }
}

/// Finds the class of a query: its comment first, then what its session chose, then the rules.
pub fn classify(
    classes: &[Class],
    chosen: Option<ClassId>,
    origin: Origin<'_>,
    statement: &Statement,
) -> (ClassId, Because) {
    if let Some(class) = statement.tag.class.as_deref().and_then(|name| find(classes, name)) {
        return (class, Because::Comment);
    }
    if statement.control {
        return (CONTROL, Because::Housekeeping);
    }
    if let Some(class) = chosen {
        return (class, Because::Chosen);
    }
    for (index, class) in classes.iter().enumerate() {
        if let Some(rule) = class.rules.iter().position(|rule| rule.matches(origin, statement)) {
            return (ClassId(index as u32), Because::Rule(rule as u32));
        }
    }
    (DEFAULT, Because::Nothing)
}

/// The class of that name, case ignored.
pub fn find(classes: &[Class], name: &str) -> Option<ClassId> {
    classes.iter().position(|class| class.name.eq_ignore_ascii_case(name)).map(|index| ClassId(index as u32))
}

impl Rule {
    fn matches(&self, origin: Origin<'_>, statement: &Statement) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
        is(&self.user, origin.user)
            && is(&self.database, origin.database)
            && self.application.as_deref().is_none_or(|start| origin.application.starts_with(start))
            && self.kind.is_none_or(|kind| kind == statement.kind)
            && self.table.as_deref().is_none_or(|table| statement.tables.iter().any(|t| names(t, table)))
    }
}

/// `sales.orders` is named by itself and by `orders`.
fn names(found: &str, wanted: &str) -> bool {
    found == wanted || found.rsplit_once('.').is_some_and(|(_, bare)| bare == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes() -> Vec<Class> {
        let mut classes = Class::built_in();
        let rule = |application: &str| Rule { application: Some(application.into()), ..Rule::default() };
        let tables = Rule { table: Some("orders".into()), kind: Some(Kind::Select), ..Rule::default() };
        classes.push(Class {
            name: "dashboards".into(),
            rules: vec![rule("looker")],
            slo: Some(Span::from_secs(3)),
            ..Class::default()
        });
        classes.push(Class { name: "etl".into(), rules: vec![rule("airflow"), tables], ..Class::default() });
        classes
    }

    fn class_of(application: &str, sql: &str) -> (String, Because) {
        let origin = Origin { application, ..Origin::default() };
        let (class, because) = classify(&classes(), None, origin, &Statement::read(sql));
        (classes()[class.0 as usize].name.clone(), because)
    }

    #[test]
    fn the_first_match_wins_and_default_takes_the_rest() {
        let q = "select count(*) from t";
        assert_eq!(class_of("looker-7", q), ("dashboards".into(), Because::Rule(0)));
        assert_eq!(class_of("psql", "select * from sales.orders"), ("etl".into(), Because::Rule(1)));
        assert_eq!(class_of("looker", "select * from orders"), ("dashboards".into(), Because::Rule(0)));
        assert_eq!(class_of("psql", q), ("default".into(), Because::Nothing));
    }

    #[test]
    fn a_comment_beats_housekeeping_beats_the_session_beats_rules() {
        let q = "select count(*) from t /* punctual: class=ETL */";
        assert_eq!(class_of("looker", q), ("etl".into(), Because::Comment));
        assert_eq!(class_of("looker", "select 1"), ("control".into(), Because::Housekeeping));
        let chosen = |sql| classify(&classes(), Some(ClassId(3)), Origin::default(), &Statement::read(sql)).1;
        assert_eq!(chosen("select count(*) from t"), Because::Chosen);
        assert_eq!(chosen("select 1"), Because::Housekeeping);
    }

    #[test]
    fn a_class_that_does_not_exist_is_not_chosen() {
        let q = "select count(*) from t /* punctual: class=elt */";
        assert_eq!(class_of("looker", q).1, Because::Rule(0));
    }
}
