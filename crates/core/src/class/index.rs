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
mod table;

use std::collections::BTreeMap;

use self::needles::Needles;
use self::prefixes::Prefixes;
use self::table::{Table, hash};
use super::network::Network;
use super::rule::{Origin, Rule, bare};
use crate::fingerprint::Fingerprint;
use crate::statement::{Kind, Statement};

/// Numbers of rules, ascending. A rule's number is its place in the order in which rules are tried.
type Numbers = Vec<u32>;

/// The index. Rules are known by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// By what has to be equal.
    equal: Table,
    /// True if any goes by tables, or by tags: few do, and a query may have many of both.
    by_table: bool,
    by_tag: bool,
    applications: Prefixes,
    clients: Prefixes,
    comments: Needles,
    /// By [`Kind`], in the order of [`Kind::ALL`].
    kinds: [Numbers; Kind::ALL.len()],
    /// Those under no condition.
    rest: Numbers,
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
        let mut index = Index::default();
        let (mut equal, mut applications, mut clients) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut comments = BTreeMap::new();
        for (number, rule) in (0..).zip(rules) {
            let rarest = keys(rule).min_by_key(|key| (shared.get(key).copied(), *key));
            let place = match rarest {
                Some(Key::Client(network)) => clients.entry(network.path().as_slice().to_vec()).or_default(),
                Some(Key::Application(start)) => applications.entry(start.as_bytes().to_vec()).or_default(),
                Some(Key::Comment(gram)) => comments.entry(gram).or_default(),
                Some(Key::Kind(kind)) => &mut index.kinds[kind],
                Some(key) => {
                    index.by_table |= matches!(key, Key::Table(_));
                    index.by_tag |= matches!(key, Key::Tag(..));
                    equal.entry(key.hash()).or_default()
                }
                None => &mut index.rest,
            };
            place.push(number);
        }
        index.equal = Table::of(equal);
        index.applications = Prefixes::of(applications);
        index.clients = Prefixes::of(clients);
        index.comments = Needles::of(comments);
        index
    }

    /// Calls `look` with the numbers of all rules that can match, and of some that cannot.
    pub(super) fn candidates(&self, origin: Origin<'_>, statement: &Statement, mut look: impl FnMut(&[u32])) {
        look(&self.rest);
        let mut equal = |key: Key<'_>| look(self.equal.get(key.hash()));
        equal(Key::Fingerprint(statement.fingerprint));
        equal(Key::User(origin.user));
        equal(Key::Database(origin.database));
        if self.by_table {
            for table in &statement.tables {
                equal(Key::Table(table));
                if let Some(bare) = bare(table) {
                    equal(Key::Table(bare));
                }
            }
        }
        if self.by_tag {
            for (key, value) in &statement.tag.pairs {
                equal(Key::Tag(key, None));
                equal(Key::Tag(key, Some(value)));
            }
        }
        look(&self.kinds[kind_number(statement.kind)]);
        self.applications.each(origin.application.as_bytes(), &mut look);
        if !self.clients.is_empty() {
            self.clients.each(origin.client.path().as_slice(), &mut look);
        }
        self.comments.each(&statement.tag.comments, look);
    }
}

impl Key<'_> {
    /// A hash of what has to be equal. Where two have the same, a query tries rules that do not match, and nothing else.
    fn hash(self) -> u64 {
        match self {
            Key::Fingerprint(Fingerprint(number)) => number,
            Key::User(user) => hash(1, &[user]),
            Key::Database(database) => hash(2, &[database]),
            Key::Table(table) => hash(3, &[table]),
            Key::Tag(key, None) => hash(4, &[key]),
            Key::Tag(key, Some(value)) => hash(5, &[key, value]),
            // These are found otherwise.
            Key::Client(_) | Key::Application(_) | Key::Comment(_) | Key::Kind(_) => 0,
        }
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
