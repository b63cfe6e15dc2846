//! Match rules: what a query has to be, and where it has to come from, to be of a class.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::network::{Client, Network};
use crate::fingerprint::Fingerprint;
use crate::statement::{Kind, Statement};

/// A match rule: every condition that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The user that connected.
    pub user: Option<String>,
    /// The database that it connected to.
    pub database: Option<String>,
    /// The start of its application name.
    pub application: Option<String>,
    /// Where its client is.
    pub client: Option<Network>,
    /// What a comment of its text says of it.
    pub tag: Option<Said>,
    /// What stands somewhere in the comments of its text, letter by letter.
    pub comment: Option<String>,
    /// What its first statement does.
    pub kind: Option<Kind>,
    /// A table that it reads, with or without its schema.
    pub table: Option<String>,
    /// Its literal-free shape.
    pub fingerprint: Option<Fingerprint>,
}

/// A key with a value, as comments say them of queries: `app=dbt`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Said {
    /// The key.
    pub key: String,
    /// Its value; None: any.
    pub value: Option<String>,
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
    /// Where its client is.
    pub client: Client,
}

impl Rule {
    /// True if every condition holds. Those that cost least are looked at first.
    pub fn matches(&self, origin: Origin<'_>, statement: &Statement) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
        self.fingerprint.is_none_or(|fingerprint| fingerprint == statement.fingerprint)
            && self.kind.is_none_or(|kind| kind == statement.kind)
            && is(&self.user, origin.user)
            && is(&self.database, origin.database)
            && self.application.as_deref().is_none_or(|start| origin.application.starts_with(start))
            && self.client.is_none_or(|network| network.holds(origin.client))
            && self.tag.as_ref().is_none_or(|said| said.is_in(&statement.tag.pairs))
            && self.table.as_deref().is_none_or(|table| statement.tables.iter().any(|t| names(t, table)))
            && self.comment.as_deref().is_none_or(|part| statement.tag.comments.contains(part))
    }
}

impl Said {
    /// Reads `key` or `key=value`; None if there is no key.
    pub fn read(text: &str) -> Option<Said> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
            None => (text.trim(), None),
        };
        (!key.is_empty()).then(|| Said { key: key.to_owned(), value })
    }

    fn is_in(&self, pairs: &[(String, String)]) -> bool {
        let fits = |found: &str| self.value.as_deref().is_none_or(|wanted| wanted == found);
        pairs.iter().any(|(key, value)| *key == self.key && fits(value))
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

impl<'a> Origin<'a> {
    /// The same, from that address.
    pub fn at(self, address: IpAddr) -> Origin<'a> {
        Origin { client: Client::at(address), ..self }
    }
}

/// `sales.orders` is named by itself and by `orders`.
pub(super) fn names(found: &str, wanted: &str) -> bool {
    found == wanted || bare(found) == Some(wanted)
}

/// The name of a table without its schema, if it has one.
pub(super) fn bare(table: &str) -> Option<&str> {
    table.rsplit_once('.').map(|(_, bare)| bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(rule: Rule, sql: &str) -> bool {
        let origin = Origin { user: "ann", database: "sales", application: "looker-7", client: Client::Local };
        rule.matches(origin, &Statement::read(sql))
    }

    #[test]
    fn every_condition_has_to_hold() {
        let statement = Statement::read("select * from shop.orders -- nightly");
        let rule = Rule {
            user: Some("ann".into()),
            database: Some("sales".into()),
            application: Some("looker".into()),
            client: Some(Network::Local),
            tag: None,
            comment: Some("night".into()),
            kind: Some(Kind::Select),
            table: Some("orders".into()),
            fingerprint: Some(statement.fingerprint),
        };
        let q = "SELECT * FROM shop.orders -- nightly";
        assert!(matches(rule.clone(), q));
        for wrong in [
            Rule { user: Some("bob".into()), ..rule.clone() },
            Rule { database: Some("sale".into()), ..rule.clone() },
            Rule { application: Some("ooker".into()), ..rule.clone() },
            Rule { client: Network::read("10.0.0.0/8").ok(), ..rule.clone() },
            Rule { tag: Said::read("app"), ..rule.clone() },
            Rule { comment: Some("Night".into()), ..rule.clone() },
            Rule { kind: Some(Kind::Write), ..rule.clone() },
            Rule { table: Some("shop".into()), ..rule.clone() },
            Rule { fingerprint: Some(Fingerprint(1)), ..rule.clone() },
        ] {
            assert!(!matches(wrong.clone(), q), "{wrong:?}");
        }
        assert!(matches(Rule::default(), q));
    }

    #[test]
    fn a_tag_is_a_key_with_or_without_its_value() {
        let rule = |text: &str| Rule { tag: Said::read(text), ..Rule::default() };
        let dbt = "/* {\"app\": \"dbt\", \"node_id\": \"model.shop.orders\"} */ select 1";
        assert!(matches(rule("app=dbt"), dbt) && matches(rule("node_id"), dbt));
        assert!(!matches(rule("app=db"), dbt) && !matches(rule("dbt"), dbt));
        assert!(matches(rule("route=/a b"), "select 1 /*route='%2Fa%20b',db_driver='pg'*/"));
        assert_eq!(Said::read(" =x"), None);
    }
}
