//! What a text is to decisions: its class, its latency target, what predictions are made from. Of a query that a session
//! sends, and of one that nobody has sent: for a dry run.

use std::sync::Arc;

use punctual_core::admit::claim::Claim;
use punctual_core::class::{Because, Class, Classes, Network, Origin, Rule};
use punctual_core::id::{ClassId, QueryId, SessionId, UserId};
use punctual_core::predict::features::add_plan;
use punctual_core::query::Query;
use punctual_core::statement::Statement;
use punctual_core::time::Span;

use super::local::{self, Wished};
use super::reading::Reading;
use super::shared::Shared;

/// The number of a query, and of its session, that are nobody's: the topmost bit of a gateway's number is never set.
const NOBODY: u64 = u64::MAX;

/// A query that might be sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    /// Its text.
    pub(crate) sql: &'a str,
    /// From where.
    pub(crate) origin: Origin<'a>,
    /// The class that its session would have chosen.
    pub(crate) class: Option<&'a str>,
    /// The latency target that its session would have chosen.
    pub(crate) slo: Option<Span>,
    /// The priority that its session would ask for.
    pub(crate) priority: Option<i32>,
}

/// What it would be.
#[derive(Clone, Debug)]
pub(crate) struct Imagined {
    /// To decisions; None if the gateway would answer it by itself.
    pub(crate) query: Option<Query>,
    /// The classes by which it was classified.
    pub(crate) under: Arc<Classes>,
    /// The name of its class.
    pub(crate) class: String,
    /// Why it is in that class.
    pub(crate) because: String,
    /// The text, as it was read.
    pub(crate) reading: Arc<Reading>,
}

impl Shared {
    /// What a query would be that nobody has sent.
    ///
    /// # Errors
    /// If there is no class of that name, which says which there are, or the user may not choose it.
    pub(crate) fn imagine(&self, asked: &Asked<'_>) -> Result<Imagined, String> {
        let classes = Arc::clone(&self.rules().classes);
        let user = asked.origin.user;
        if let Some(name) = asked.class {
            if classes.find(name).is_none() {
                return Err(format!("there is no class \"{name}\"; the classes are {}", local::names(&classes)));
            }
            local::permit_class(Some(name), &classes, user)
                .map_err(|problem| format!("{}: {}", problem.message, problem.detail.unwrap_or_default()))?;
        }
        let reading = Arc::new(Reading::of(asked.sql));
        let statement = &reading.statement;
        let (class, slo, priority) = (asked.class.map(str::to_owned), asked.slo, asked.priority);
        let wished = Wished { class, slo, priority, explain: false };
        let (class, because, slo) = treated(&classes, &wished, asked.origin, statement);
        // Nobody has said what its parameters are.
        let scan = self.ranges().and_then(|all| all.of(&reading, &[]));
        let (user, priority, writes) =
            (UserId::of(user), statement.tag.priority.or(wished.priority), reading.bearing().is_for_the_writer);
        let claim = Claim { user, priority, scan, writes };
        let traits = self.foresight().map(|foresight| {
            let mut traits = reading.traits(foresight.texts);
            let plans = foresight.plans.as_ref();
            if let Some(plan) = plans.and_then(|plans| plans.known(statement, asked.origin.database)) {
                add_plan(&mut traits.features, &plan);
            }
            traits
        });
        let (id, session) = (QueryId(NOBODY), SessionId(NOBODY));
        let query =
            Query { id, session, fingerprint: statement.fingerprint, kind: statement.kind, class, slo, claim, traits };
        let of = classes.get(class);
        Ok(Imagined {
            query: (reading.local.is_none() && statement.count > 0).then_some(query),
            class: of.map_or_else(String::new, |class| class.name.clone()),
            because: of.map_or_else(String::new, |class| reason(because, class)),
            reading,
            under: Arc::clone(&classes),
        })
    }
}

/// The class of a query and why, and when it is late: what it says of itself comes first, then what its session wishes.
pub(crate) fn treated(
    classes: &Classes,
    wished: &Wished,
    origin: Origin<'_>,
    statement: &Statement,
) -> (ClassId, Because, Option<Span>) {
    let (class, because) = classes.classify(wished.chosen(classes), origin, statement);
    let of_class = classes.get(class).and_then(|class| class.slo);
    (class, because, statement.tag.slo.or(wished.slo).or(of_class))
}

/// Why a query is in its class, in words.
pub(crate) fn reason(because: Because, class: &Class) -> String {
    match because {
        Because::Comment => "its comment names the class".to_owned(),
        Because::Chosen => "its session chose the class".to_owned(),
        Because::Housekeeping => "it is what drivers and tools send on their own account".to_owned(),
        Because::Nothing => "no rule of any class matches".to_owned(),
        Because::Rule(index) => {
            let text = class.rules.get(index as usize).map(rule_text).unwrap_or_default();
            format!("rule {} of the class matches: {text}", index + 1)
        }
    }
}

/// `user is "etl" and it reads table "orders"`.
pub(crate) fn rule_text(rule: &Rule) -> String {
    let Rule { user, database, application, client, tag, comment, kind, table, fingerprint } = rule;
    let conditions = [
        user.as_ref().map(|user| format!("the user is {user:?}")),
        database.as_ref().map(|database| format!("the database is {database:?}")),
        application.as_ref().map(|application| format!("the application starts with {application:?}")),
        client.map(|network| match network {
            Network::Local => "the client is at a Unix socket".to_owned(),
            Network::Ip { .. } => format!("the client is in {network}"),
        }),
        tag.as_ref().map(|said| format!("a comment says `{said}`")),
        comment.as_ref().map(|part| format!("a comment has {part:?} in it")),
        kind.map(|kind| format!("the statement is of kind \"{}\"", kind.name())),
        table.as_ref().map(|table| format!("it reads the table {table:?}")),
        fingerprint.map(|fingerprint| format!("its fingerprint is {fingerprint}")),
    ];
    conditions.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
