//! What names mean: the columns of what stands in a FROM, and which columns of time they are, if any.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, TableAlias};

use super::recipe::Step;

/// Steps longer than this are not followed.
const MOST_STEPS: usize = 16;

/// The column of time of one place where a table is read, with what was done to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) read: usize,
    pub(crate) steps: Vec<Step>,
}

/// A column that a relation has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Column {
    /// Its name; None: not known.
    pub(crate) name: Option<String>,
    /// True if it is the configured one of a table, whose name is in whatever case.
    pub(crate) any_case: bool,
    /// What it is: each row of the relation that comes from such a read has its value here. Of none: anything.
    pub(crate) targets: Vec<Target>,
}

/// The columns of a relation, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Columns {
    pub(crate) list: Vec<Column>,
    /// True if these are all of them, in their order.
    pub(crate) whole: bool,
}

/// Something in a FROM.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    /// The parts of the name by which it is called.
    name: Vec<String>,
    /// True if it is an alias, which has one part.
    aliased: bool,
    pub(crate) columns: Columns,
}

impl Relation {
    /// Of that name, unless it has an alias.
    pub(crate) fn new(name: Vec<String>, alias: Option<&TableAlias>, columns: Columns) -> Relation {
        match alias {
            None => Relation { name, aliased: false, columns },
            Some(alias) => {
                let columns = if alias.at.is_some() { Columns::default() } else { columns.renamed(alias) };
                Relation { name: vec![fold(&alias.name)], aliased: true, columns }
            }
        }
    }

    fn is_called(&self, parts: &[String]) -> bool {
        if self.aliased || parts.is_empty() {
            return self.name == parts;
        }
        self.name.iter().rev().zip(parts.iter().rev()).all(|(ours, theirs)| ours == theirs)
    }
}

impl Columns {
    /// With the names that an alias gives them.
    pub(crate) fn renamed(mut self, alias: &TableAlias) -> Columns {
        if alias.columns.is_empty() {
            return self;
        }
        if !self.whole || alias.columns.len() > self.list.len() {
            return Columns::default();
        }
        for (column, new) in self.list.iter_mut().zip(&alias.columns) {
            column.name = Some(fold(&new.name));
            column.any_case = false;
        }
        self
    }

    /// The one column of that name.
    fn named(&self, name: &Ident) -> Option<&Column> {
        let folded = fold(name);
        let is = |column: &&Column| {
            column.name.as_ref().is_some_and(|own| {
                *own == folded || (column.any_case && name.quote_style.is_none() && own.eq_ignore_ascii_case(&folded))
            })
        };
        let mut found = self.list.iter().filter(is);
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }
}

/// What the columns of time are that a name means, of these relations. A name without its relation means the column in each
/// of them that has one: where it is not joined by this name, SQL lets nobody write that.
pub(crate) fn resolve(name: &[Ident], relations: &[Relation]) -> Vec<Target> {
    let Some((column, qualifier)) = name.split_last() else { return Vec::new() };
    let targets = |relation: &Relation| relation.columns.named(column).map(|column| column.targets.clone());
    if qualifier.is_empty() {
        return relations.iter().filter_map(targets).flatten().collect();
    }
    called(qualifier, relations).and_then(targets).unwrap_or_default()
}

/// The one relation that is called so.
pub(crate) fn called<'r>(name: &[Ident], relations: &'r [Relation]) -> Option<&'r Relation> {
    let parts: Vec<String> = name.iter().map(fold).collect();
    let mut found = relations.iter().filter(|relation| relation.is_called(&parts));
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

/// With one more step; of none that would have too many.
pub(crate) fn stepped(mut targets: Vec<Target>, step: &Step) -> Vec<Target> {
    targets.retain(|target| target.steps.len() < MOST_STEPS);
    targets.iter_mut().for_each(|target| target.steps.push(step.clone()));
    targets
}

/// A name as it is compared: lower case, unless it is quoted.
pub(crate) fn fold(name: &Ident) -> String {
    match name.quote_style {
        None => name.value.to_ascii_lowercase(),
        Some(_) => name.value.clone(),
    }
}

/// The parts of a name; None if it has others than identifiers.
pub(crate) fn identifiers(name: &ObjectName) -> Option<Vec<Ident>> {
    let ident = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Some(ident.clone()),
        ObjectNamePart::Function(_) => None,
    };
    name.0.iter().map(ident).collect()
}
