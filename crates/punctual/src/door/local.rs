//! What a session wishes of the gateway, and the statements that say and show it.
//!
//! `SET punctual.slo = '2s'`, `SET punctual.class = 'etl'`, `SET punctual.priority = 3`, `SET punctual.explain = on`,
//! `SHOW punctual.…`: answered here, without any cluster.

use std::sync::Arc;

use punctual_core::class::{CONTROL, Classes};
use punctual_core::id::ClassId;
use punctual_core::tag::{Tag, parse_span};
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
    /// A priority; None: that of the class.
    Priority(Option<i32>),
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
    /// The priority.
    Priority,
    /// The notices.
    Explain,
}

/// All that can be wished for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wished {
    /// A latency target.
    pub slo: Option<Span>,
    /// A class, by name, so that it outlasts another policy.
    pub class: Option<String>,
    /// A priority.
    pub priority: Option<i32>,
    /// Whether each query is told where it was placed, and why.
    pub explain: bool,
}

/// What a session wishes, and what can be shown of it.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// What it wishes now.
    pub wished: Wished,
    /// What it wished in its start-up message.
    pub begun: Wished,
    /// Where its last query ran.
    pub cluster: Option<Arc<str>>,
    /// Why it holds that cluster, if it does.
    pub pinned: Option<String>,
}

/// What can be shown.
const SHOWN: &str = "slo, class, priority, explain, cluster, pinned, version";

/// Classes that an error names.
const NAMED: usize = 40;

impl Wished {
    /// The class, if there is still such a class.
    pub fn chosen(&self, classes: &Classes) -> Option<ClassId> {
        classes.find(self.class.as_deref()?)
    }

    /// Takes a wish; `begun` is what the session began with.
    pub fn take(&mut self, wish: Wish, begun: &Wished) {
        match wish {
            Wish::Slo(slo) => self.slo = slo,
            Wish::Class(class) => self.class = class,
            Wish::Priority(priority) => self.priority = priority,
            Wish::Explain(explain) => self.explain = explain,
            Wish::AsBegun(Name::Explain) => self.explain = begun.explain,
            Wish::AsBegun(Name::Slo) => self.slo = begun.slo,
            Wish::AsBegun(Name::Priority) => self.priority = begun.priority,
            Wish::AsBegun(Name::Class) => self.class.clone_from(&begun.class),
        }
    }
}

impl Wishes {
    /// Takes a wish.
    pub fn take(&mut self, wish: Wish) {
        self.wished.take(wish, &self.begun);
    }

    /// Goes back to what the session began with.
    pub fn reset(&mut self) {
        self.wished.clone_from(&self.begun);
    }

    /// Answers SHOW punctual.`name`.
    ///
    /// # Errors
    /// If nothing has that name.
    pub fn show(&self, name: &str) -> Result<Answer, Problem> {
        let wished = &self.wished;
        let value = match name {
            "slo" => wished.slo.map(|slo| slo.to_string()),
            "class" => wished.class.clone(),
            "priority" => wished.priority.map(|priority| priority.to_string()),
            "explain" => Some(if wished.explain { "on" } else { "off" }.to_owned()),
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
pub fn wish(name: &str, value: Option<&str>, classes: &Classes) -> Result<Wish, Problem> {
    let invalid = |value: &str| format!("invalid value for parameter \"punctual.{name}\": \"{value}\"");
    match (name, value) {
        ("slo", None) => Ok(Wish::AsBegun(Name::Slo)),
        ("class", None) => Ok(Wish::AsBegun(Name::Class)),
        ("priority", None) => Ok(Wish::AsBegun(Name::Priority)),
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
            None => {
                Err(Problem::new(b"22023", invalid(value)).hint("A duration has a unit: '250ms', '2s', '30m', '1.5h'."))
            }
        },
        ("priority", Some("" | "none")) => Ok(Wish::Priority(None)),
        ("priority", Some(value)) => match value.trim().parse() {
            Ok(priority) => Ok(Wish::Priority(Some(priority))),
            Err(_) => Err(Problem::new(b"22023", invalid(value))
                .hint("It is a whole number; what a class does not allow is brought within its bounds.")),
        },
        ("class", Some("")) => Ok(Wish::Class(None)),
        ("class", Some(value)) => match classes.find(value).and_then(|id| classes.get(id)) {
            Some(class) => Ok(Wish::Class(Some(class.name.clone()))),
            None => Err(Problem::new(b"22023", format!("there is no class \"{value}\""))
                .hint(format!("The classes are {}.", names(classes)))),
        },
        (name, _) if SHOWN.split(", ").any(|shown| shown == name) => {
            Err(Problem::new(b"55P02", format!("parameter \"punctual.{name}\" cannot be changed")))
        }
        (name, _) => Err(unknown(name)),
    }
}

/// Whether that user may have that wish.
///
/// # Errors
/// 42501 for a class that it may not choose.
pub fn permit(wish: &Wish, classes: &Classes, user: &str) -> Result<(), Problem> {
    match wish {
        Wish::Class(class) => permit_class(class.as_deref(), classes, user),
        Wish::Slo(_) | Wish::Priority(_) | Wish::Explain(_) | Wish::AsBegun(_) => Ok(()),
    }
}

/// Whether that user may choose that class, if it is one.
///
/// # Errors
/// 42501 if not.
pub fn permit_class(class: Option<&str>, classes: &Classes, user: &str) -> Result<(), Problem> {
    match class.and_then(|name| classes.find(name)) {
        Some(id) if !classes.may_choose(id, user) => Err(forbidden(id, classes, user)),
        _ => Ok(()),
    }
}

/// That user may not choose that class.
pub fn forbidden(id: ClassId, classes: &Classes, user: &str) -> Problem {
    let name = classes.get(id).map_or("", |class| &class.name);
    let problem = Problem::new(b"42501", format!("permission denied for class \"{name}\""));
    if id == CONTROL {
        return problem.detail("Nobody can choose it: it is for what drivers and tools send on their own account.");
    }
    problem
        .detail(format!("User \"{user}\" is not among those who may choose it (`chosen_by`)."))
        .hint("Without a choice, the rules of the classes decide.")
}

/// What a query's comment asks for in vain, as warnings.
pub fn in_vain(tag: &Tag, classes: &Classes, user: &str) -> Vec<Problem> {
    let warning = |message: String| Problem::new(b"01000", message);
    let mut warnings = Vec::new();
    if let Some(unreadable) = &tag.unreadable {
        let how = match unreadable.split_once('=') {
            Some(("priority", _)) => "A priority is a whole number: priority=-1.",
            Some(("class", _)) => "A class has a name: class=etl.",
            _ => "A duration has a unit: 250ms, 2s, 30m, 1.5h.",
        };
        warnings.push(warning(format!("the comment's \"{unreadable}\" cannot be read")).hint(how));
    }
    let Some(name) = tag.class.as_deref() else { return warnings };
    match classes.find(name) {
        None => {
            let warning = warning(format!("there is no class \"{name}\", which the comment asks for"));
            warnings.push(warning.hint(format!("The classes are {}.", names(classes))));
        }
        Some(id) if !classes.may_choose(id, user) => {
            let forbidden = forbidden(id, classes, user);
            let Problem { message, sqlstate, .. } =
                warning(format!("{}, which the comment asks for", forbidden.message));
            warnings.push(Problem { message, sqlstate, ..forbidden });
        }
        Some(_) => {}
    }
    warnings
}

/// The names of all classes, or of the first of very many.
pub fn names(classes: &Classes) -> String {
    let list = classes.list();
    let mut names: Vec<&str> = list.iter().map(|class| class.name.as_str()).take(NAMED).collect();
    let more = format!("and {} more", list.len().saturating_sub(NAMED));
    if list.len() > NAMED {
        names.push(&more);
    }
    names.join(", ")
}

fn unknown(name: &str) -> Problem {
    Problem::new(b"42704", format!("unrecognized configuration parameter \"punctual.{name}\""))
        .hint(format!("Those of punctual are {SHOWN}."))
}

#[cfg(test)]
mod tests {
    use punctual_core::admit::terms::Terms;
    use punctual_core::class::Class;

    use super::*;

    fn classes() -> Classes {
        Classes::new(Class::built_in())
    }

    #[test]
    fn wishes_are_read_with_care() {
        let classes = classes();
        assert_eq!(wish("slo", Some("2s"), &classes), Ok(Wish::Slo(Some(Span::from_secs(2)))));
        assert_eq!(wish("class", Some("DEFAULT"), &classes), Ok(Wish::Class(Some("default".into()))));
        let problem = wish("class", Some("nope"), &classes).unwrap_err();
        assert_eq!(problem.sqlstate.code(), "22023");
        assert_eq!(problem.hint.as_deref(), Some("The classes are control, default."));
        assert_eq!(wish("slo", Some("0s"), &classes).unwrap_err().sqlstate.code(), "22023");
        assert_eq!(wish("slo", Some("2"), &classes).unwrap_err().sqlstate.code(), "22023");
        assert_eq!(wish("explain", Some("On"), &classes), Ok(Wish::Explain(true)));
        assert_eq!(wish("explain", Some("maybe"), &classes).unwrap_err().sqlstate.code(), "22023");
        assert_eq!(wish("priority", Some("-3"), &classes), Ok(Wish::Priority(Some(-3))));
        assert_eq!(wish("priority", Some("none"), &classes), Ok(Wish::Priority(None)));
        for bad in ["high", "1.5", "99999999999"] {
            assert_eq!(wish("priority", Some(bad), &classes).unwrap_err().sqlstate.code(), "22023");
        }
        assert_eq!(wish("sloo", None, &classes).unwrap_err().sqlstate.code(), "42704");
        assert_eq!(wish("cluster", Some("a"), &classes).unwrap_err().sqlstate.code(), "55P02");
    }

    #[test]
    fn a_class_is_chosen_by_those_who_may() {
        let mut list = Class::built_in();
        let terms = Terms { chosen_by: vec!["ann".into(), "eve".into()], ..Terms::default() };
        list.push(Class { name: "board".into(), terms, ..Class::default() });
        let classes = Classes::new(list);
        let may = |class: &str, user: &str| permit(&Wish::Class(Some(class.to_owned())), &classes, user);
        assert_eq!((may("board", "eve"), may("default", "bob")), (Ok(()), Ok(())));
        let problem = may("board", "bob").unwrap_err();
        assert_eq!(
            (problem.sqlstate.code(), problem.message.as_str()),
            ("42501", "permission denied for class \"board\"")
        );
        assert_eq!(may("control", "ann").unwrap_err().sqlstate.code(), "42501");
        // A comment is passed over, and its client told.
        let warned = |comment: &str| {
            let mut tag = Tag::default();
            tag.read_comment(comment);
            in_vain(&tag, &classes, "bob").iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()
        };
        assert_eq!(warned("punctual: class=default, priority=2"), [""; 0]);
        assert_eq!(
            warned("punctual: class=board, priority=high"),
            [
                "the comment's \"priority=high\" cannot be read",
                "permission denied for class \"board\", which the comment asks for"
            ]
        );
        assert_eq!(warned("punctual: class=bord"), ["there is no class \"bord\", which the comment asks for"]);
    }

    #[test]
    fn a_reset_goes_back_to_the_start_up_message() {
        let begun = Wished { slo: Some(Span::from_secs(9)), explain: true, priority: Some(4), class: None };
        let mut wishes = Wishes { begun, ..Wishes::default() };
        let shown = |wishes: &Wishes, name: &str| wishes.show(name).unwrap().rows[0][0].clone();
        wishes.reset();
        assert_eq!(shown(&wishes, "slo").as_deref(), Some("9s"));
        assert_eq!(shown(&wishes, "explain").as_deref(), Some("on"));
        wishes.take(Wish::Slo(None));
        wishes.take(Wish::Priority(Some(-1)));
        assert_eq!(shown(&wishes, "slo").as_deref(), Some(""));
        assert_eq!(shown(&wishes, "priority").as_deref(), Some("-1"));
        wishes.take(Wish::AsBegun(Name::Priority));
        assert_eq!(shown(&wishes, "priority").as_deref(), Some("4"));
    }
}
