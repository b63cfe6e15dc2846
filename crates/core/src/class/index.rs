//! Which rules can match at all: an index over the rules of all classes, so that a query looks at few of them.
//!
//! Each rule stands in one place of the index, under one of its conditions: the one that the fewest rules have. A query
//! goes to the places that its user, its tables and so on lead to, and tries what it finds there, in the order of the rules
//! and no further than the first that matched so far. What it passes over cannot match, so the answer is that of trying
//! all of them one by one.
//!
//! ```text
//!  user "etl"      ──▶ rules 3, 40          fingerprint f3… ──▶ rule 12
//!  table "orders"  ──▶ rules 7, 8           application "air" ◀─ "airflow" ──▶ rules 5, 9
//! ```

mod needles;
mod prefixes;

use std::collections::BTreeMap;

use self::needles::Needles;
use self::prefixes::Prefixes;
use super::network::Network;
use super::rule::{Origin, Rule, bare};
use crate::fingerprint::Fingerprint;
use crate::statement::{Kind, Statement};

/// Numbers of rules, ascending. A rule's number is its place in the order in which rules are tried.
type Numbers = Vec<u32>;

/// The index. Rules are known by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    fingerprints: BTreeMap<Fingerprint, Numbers>,
    tags: BTreeMap<String, Values>,
    users: BTreeMap<String, Numbers>,
    databases: BTreeMap<String, Numbers>,
    tables: BTreeMap<String, Numbers>,
    applications: Prefixes,
    clients: Prefixes,
    comments: Needles,
    /// By [`Kind`], in the order of [`Kind::ALL`].
    kinds: [Numbers; Kind::ALL.len()],
    /// Those under no condition.
    rest: Numbers,
}

/// The rules that go by one key of comments.
#[derive(Clone, Debug, Default)]
struct Values {
    any: Numbers,
    of: BTreeMap<String, Numbers>,
}

/// A condition that a rule can stand under. Where two are as rare, the first here is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'r> {
    Fingerprint(Fingerprint),
    Tag(&'r str, Option<&'r str>),
    User(&'r str),
    Table(&'r str),
    Client(Network),
    Application(&'r str),
    Database(&'r str),
    Comment(needles::Gram),
    Kind(usize),
}

impl Index {
    /// Over these rules, numbered in their order.
    pub(super) fn of<'r>(rules: impl Iterator<Item = &'r Rule> + Clone) -> Index {
        let mut shared = BTreeMap::<Key<'_>, u32>::new();
        for key in rules.clone().flat_map(keys) {
            *shared.entry(key).or_default() += 1;
        }
        let (mut index, mut applications, mut clients) = (Index::default(), BTreeMap::new(), BTreeMap::new());
        let mut comments = BTreeMap::new();
        for (number, rule) in (0..).zip(rules) {
            let rarest = keys(rule).min_by_key(|key| (shared.get(key).copied(), *key));
            let place = match rarest {
                Some(Key::Fingerprint(fingerprint)) => index.fingerprints.entry(fingerprint).or_default(),
                Some(Key::Tag(key, None)) => &mut index.tags.entry(key.to_owned()).or_default().any,
                Some(Key::Tag(key, Some(value))) => {
                    index.tags.entry(key.to_owned()).or_default().of.entry(value.to_owned()).or_default()
                }
                Some(Key::User(user)) => index.users.entry(user.to_owned()).or_default(),
                Some(Key::Table(table)) => index.tables.entry(table.to_owned()).or_default(),
                Some(Key::Client(network)) => clients.entry(network.path()).or_default(),
                Some(Key::Application(start)) => applications.entry(start.as_bytes().to_vec()).or_default(),
                Some(Key::Database(database)) => index.databases.entry(database.to_owned()).or_default(),
                Some(Key::Comment(gram)) => comments.entry(gram).or_default(),
                Some(Key::Kind(kind)) => &mut index.kinds[kind],
                None => &mut index.rest,
            };
            place.push(number);
        }
        index.applications = Prefixes::of(applications);
        index.clients = Prefixes::of(clients);
        index.comments = Needles::of(comments);
        index
    }

    /// Calls `look` with the numbers of all rules that can match, and of some that cannot.
    pub(super) fn candidates(&self, origin: Origin<'_>, statement: &Statement, mut look: impl FnMut(&[u32])) {
        let mut told = |numbers: Option<&Numbers>| look(numbers.map_or(&[], Vec::as_slice));
        told(Some(&self.rest));
        told(self.fingerprints.get(&statement.fingerprint));
        told(self.users.get(origin.user));
        told(self.databases.get(origin.database));
        told(self.kinds.get(kind_number(statement.kind)));
        if !self.tables.is_empty() {
            for table in &statement.tables {
                told(self.tables.get(table));
                told(bare(table).and_then(|bare| self.tables.get(bare)));
            }
        }
        if !self.tags.is_empty() {
            for (key, value) in &statement.tag.pairs {
                let Some(values) = self.tags.get(key) else { continue };
                told(Some(&values.any));
                told(values.of.get(value));
            }
        }
        self.applications.each(origin.application.as_bytes(), |numbers| told(Some(numbers)));
        if !self.clients.is_empty()
            && let Some(path) = origin.client.path()
        {
            self.clients.each(&path, |numbers| told(Some(numbers)));
        }
        self.comments.each(&statement.tag.comments, |numbers| told(Some(numbers)));
    }
}

/// The conditions that a rule can stand under.
fn keys(rule: &Rule) -> impl Iterator<Item = Key<'_>> {
    let Rule { user, database, application, client, tag, comment, kind, table, fingerprint } = rule;
    let single = [
        fingerprint.map(Key::Fingerprint),
        tag.as_ref().map(|said| Key::Tag(&said.key, said.value.as_deref())),
        user.as_deref().map(Key::User),
        table.as_deref().map(Key::Table),
        client.map(Key::Client),
        application.as_deref().map(Key::Application),
        database.as_deref().map(Key::Database),
        kind.map(|kind| Key::Kind(kind_number(kind))),
    ];
    let grams = comment.as_deref().into_iter().flat_map(needles::grams);
    single.into_iter().flatten().chain(grams.map(Key::Comment))
}

fn kind_number(kind: Kind) -> usize {
    kind as usize
}
