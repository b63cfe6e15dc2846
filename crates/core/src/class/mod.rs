//! Queries that are treated alike, and how a query finds its class.
//!
//! A query that names its class (SET, start-up option, comment) gets it, if there is such a class and its user may choose
//! it. Otherwise a driver's housekeeping is `control`, otherwise the first class with a matching rule, otherwise
//! `default`. `control` and `default` always exist.
//!
//! What a policy lists is a [`Class`]; what classifies is [`Classes`], made of the list once, with an index over all rules.

mod index;
mod network;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::network::{Client, Network, NotANetwork};
pub use self::rule::{Origin, Rule, Said};
use crate::admit::terms::Terms;
use crate::id::ClassId;
use crate::statement::Statement;
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

/// Classes, ready to find those of queries. It never changes: another policy has another.
#[derive(Clone, Debug)]
pub struct Classes {
    list: Vec<Class>,
    names: BTreeMap<String, ClassId>,
    /// The rules by their number in the order in which they are tried: whose they are, and which of its.
    rules: Vec<(ClassId, u32)>,
    index: index::Index,
}

impl Classes {
    /// Makes the index. Takes time in proportion to the rules, a few microseconds each.
    pub fn new(list: Vec<Class>) -> Classes {
        // Of two with one name, which settings do not allow, the first has it.
        let numbered = || (0..).map(ClassId).zip(&list);
        let mut names = BTreeMap::new();
        for (id, class) in numbered() {
            names.entry(class.name.to_ascii_lowercase()).or_insert(id);
        }
        let rules = numbered().flat_map(|(id, class)| (0..class.rules.len() as u32).map(move |rule| (id, rule)));
        let rules = rules.collect();
        let index = index::Index::of(list.iter().flat_map(|class| &class.rules));
        Classes { list, names, rules, index }
    }

    /// The classes, by their ids.
    pub fn list(&self) -> &[Class] {
        &self.list
    }

    /// A class.
    pub fn get(&self, id: ClassId) -> Option<&Class> {
        self.list.get(id.0 as usize)
    }

    /// The class of that name, case ignored.
    pub fn find(&self, name: &str) -> Option<ClassId> {
        match self.names.get(name) {
            Some(id) => Some(*id),
            None => self.names.get(&name.to_ascii_lowercase()).copied(),
        }
    }

    /// The class that has here the name which `id` had in `other`: what a query that was classified by those is now. A class
    /// that is no more becomes `default`, as it does for queries that are live when a policy is adopted.
    pub fn translate(&self, id: ClassId, other: &Classes) -> ClassId {
        other.get(id).and_then(|class| self.find(&class.name)).unwrap_or(DEFAULT)
    }

    /// True if queries of that user may choose that class. Nobody chooses `control`, which goes past every queue.
    pub fn may_choose(&self, id: ClassId, user: &str) -> bool {
        let by = |class: &Class| class.terms.chosen_by.is_empty() || class.terms.chosen_by.iter().any(|by| by == user);
        id != CONTROL && self.get(id).is_some_and(by)
    }

    /// Finds the class of a query: its comment first, then what its session chose, then the rules. Who may not choose a
    /// class has not.
    pub fn classify(&self, chosen: Option<ClassId>, origin: Origin<'_>, statement: &Statement) -> (ClassId, Because) {
        let may = |id: &ClassId| self.may_choose(*id, origin.user);
        if let Some(class) = statement.tag.class.as_deref().and_then(|name| self.find(name)).filter(may) {
            return (class, Because::Comment);
        }
        if statement.control {
            return (CONTROL, Because::Housekeeping);
        }
        if let Some(class) = chosen.filter(may) {
            return (class, Because::Chosen);
        }
        match self.first_match(origin, statement) {
            Some((class, rule)) => (class, Because::Rule(rule)),
            None => (DEFAULT, Because::Nothing),
        }
    }

    /// The first rule that matches: whose it is, and which of its.
    pub fn first_match(&self, origin: Origin<'_>, statement: &Statement) -> Option<(ClassId, u32)> {
        let mut first = None;
        let mut before = u32::MAX;
        self.index.candidates(origin, statement, |numbers| {
            for &number in numbers {
                if number >= before {
                    break;
                }
                let (class, rule) = self.rules[number as usize];
                if self.list[class.0 as usize].rules[rule as usize].matches(origin, statement) {
                    (first, before) = (Some((class, rule)), number);
                    break;
                }
            }
        });
        first
    }
}

/// The first rule that matches, by trying one after the other: what [`Classes::first_match`] finds sooner.
pub fn first_match_one_by_one(classes: &[Class], origin: Origin<'_>, statement: &Statement) -> Option<(ClassId, u32)> {
    (0..).map(ClassId).zip(classes).find_map(|(id, class)| {
        let rule = class.rules.iter().position(|rule| rule.matches(origin, statement))?;
        Some((id, rule as u32))
    })
}

/// The class of that name, case ignored.
pub fn find(classes: &[Class], name: &str) -> Option<ClassId> {
    classes.iter().position(|class| class.name.eq_ignore_ascii_case(name)).map(|index| ClassId(index as u32))
}
