//! What a recorded query brings to its admission when it is sent again: its class, whose it is, the priority that it asked
//! for, and how much of time it read.
//!
//! All of it is as recorded, so that under the configuration of that time it has the priority and the lane that it had. Where
//! the history does not say, the configuration is asked as the gateway would be: its rules for the class of a query that had
//! none or none but `default`, and its `[[table]]` for how much of time a text reads. A shape, which has no literals, cannot
//! say that; how many of those there are is counted.

use std::sync::Arc;

use punctual_core::admit::claim::{Claim, Scan};
use punctual_core::class::{CONTROL, Class, Classes, Client, DEFAULT, Origin};
use punctual_core::id::{ClassId, UserId};
use punctual_core::scan::{Scans, TimeTable, TimeTables};
use punctual_core::statement::{Kind, Statement};

use crate::history::Row;

/// Grammars of texts that are kept.
const KEPT: usize = 4_096;

/// Finds it.
pub(super) struct Claims {
    /// The configuration's; None: there is none.
    classes: Option<Classes>,
    scans: Scans,
    /// True if any class goes by how much of time a query reads.
    matters: bool,
    /// Rows of which it is not known how much of time they read, and which read a table with a column of time.
    unknown: u64,
    /// Rows that do not even say what they read.
    silent: u64,
    /// Rows of which it is known.
    known: u64,
}

impl Claims {
    /// By these classes, if they are those of a configuration, and its tables.
    pub(super) fn new(configured: Option<&[Class]>, tables: &[TimeTable]) -> Claims {
        let classes = configured.map(|classes| Classes::new(classes.to_vec()));
        let by_scan = |class: &Class| class.terms.thresholds.read_time();
        Claims {
            matters: classes.as_ref().is_some_and(|classes| classes.list().iter().any(by_scan)),
            classes,
            scans: Scans::new(Arc::new(TimeTables::new(tables.to_vec())), KEPT),
            unknown: 0,
            silent: 0,
            known: 0,
        }
    }

    /// The class by the configuration, if there is one, and the claim of a recorded query.
    pub(super) fn of(&mut self, row: &Row) -> (Option<ClassId>, Claim) {
        let mut statement = Statement::read(row.sql.as_deref().unwrap_or_default());
        // A text that was cut has the shape of the whole.
        statement.fingerprint = row.fingerprint;
        if row.sql.is_none() {
            statement.kind = Kind::Other;
        }
        let user = row.user.as_deref().unwrap_or_default();
        let priority = row.priority_asked.or(statement.tag.priority);
        let (scan, writes) = (self.scan(row, &statement), statement.writes);
        let claim = Claim { user: UserId::of(user), priority, scan, writes };
        (self.class(row, &statement), claim)
    }

    /// How many queries read who knows how much of time, where that matters.
    pub(super) fn unknown(&self) -> u64 {
        match (self.matters, self.known) {
            (false, _) => 0,
            (true, 0) => self.unknown + self.silent,
            (true, _) => self.unknown,
        }
    }

    fn class(&self, row: &Row, statement: &Statement) -> Option<ClassId> {
        let classes = self.classes.as_ref()?;
        let recorded = row.class.as_deref().and_then(|name| classes.find(name));
        if let Some(id) = recorded.filter(|id| ![CONTROL, DEFAULT].contains(id)) {
            return Some(id);
        }
        let said = |text: &Option<Arc<str>>| text.clone().unwrap_or_else(|| "".into());
        let (user, database, application) = (said(&row.user), said(&row.database), said(&row.application));
        let origin = Origin { user: &user, database: &database, application: &application, client: Client::Unknown };
        let found = classes.classify(None, origin, statement).0;
        // What looks like housekeeping in a log was worth being logged.
        let matched = || classes.first_match(origin, statement).map_or(DEFAULT, |(id, _)| id);
        Some(if found == CONTROL { matched() } else { found })
    }

    fn scan(&mut self, row: &Row, statement: &Statement) -> Option<Scan> {
        if row.scan.is_some() {
            self.known += 1;
            return row.scan;
        }
        let Some(sql) = row.sql.as_deref() else {
            self.silent += 1;
            return None;
        };
        if *sql == *statement.shape && sql.contains('?') {
            self.unknown += u64::from(self.scans.concern(sql, statement));
            return None;
        }
        let scan = self.scans.read(sql, statement, &[], row.arrival);
        self.known += u64::from(scan.is_some());
        scan
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::admit::terms::{Terms, Thresholds};
    use punctual_core::class::Rule;
    use punctual_core::scan::{ColumnUnit, instant_of};
    use punctual_core::time::{Span, Time};

    use super::*;

    fn claims() -> Claims {
        let thresholds = Thresholds { period: Some(Span::from_secs(86_400)), ..Thresholds::default() };
        let terms = Terms { thresholds, ..Terms::default() };
        let rule = |user: &str| Rule { user: Some(user.to_owned()), ..Rule::default() };
        let class = |name: &str, rules| Class { name: name.to_owned(), rules, terms: terms.clone(), slo: None };
        let classes = [Class::built_in(), vec![class("bi", vec![rule("ann")]), class("etl", Vec::new())]].concat();
        let (name, column) = ("events".to_owned(), "ts".to_owned());
        let table = TimeTable { name, column, unit: ColumnUnit::Timestamp, segment: None, from: None, to: None };
        Claims::new(Some(&classes), &[table])
    }

    /// A query that came on 15 May 2024.
    fn row(user: &str, class: Option<&str>, sql: Option<&str>) -> Row {
        let came = instant_of("2024-05-15").and_then(|at| u64::try_from(at).ok()).map(Time::from_micros).unwrap();
        let shape = Statement::read(sql.unwrap_or("select a from t")).fingerprint;
        let (user, class, sql) = (Some(user.into()), class.map(Arc::from), sql.map(Arc::from));
        Row { user, class, sql, ..Row::new(came, came + Span::from_secs(1), shape) }
    }

    #[test]
    fn a_class_is_the_recorded_one_or_what_the_rules_say() {
        let of = |user, class, sql| claims().of(&row(user, class, sql)).0.map(|id| id.0);
        let sql = Some("select a from t");
        assert_eq!([of("bob", Some("etl"), sql), of("ann", Some("etl"), sql)], [Some(3), Some(3)]);
        // It may be in a class that is new, or in one that is no more.
        assert_eq!([of("ann", Some("default"), sql), of("ann", Some("gone"), None)], [Some(2), Some(2)]);
        assert_eq!([of("bob", Some("gone"), sql), of("bob", None, None)], [Some(1), Some(1)]);
        assert_eq!(of("bob", None, Some("select a from t /* punctual: class=etl */")), Some(3));
        assert_eq!([of("bob", None, Some("select 1")), of("ann", None, Some("select 1"))], [Some(1), Some(2)]);
        assert_eq!(Claims::new(None, &[]).of(&row("ann", Some("etl"), sql)).0, None);
    }

    #[test]
    fn what_was_asked_for_and_read_is_as_recorded_or_as_the_text_says() {
        let mut claims = claims();
        let week = "select 1 from events where ts >= '2024-05-08' and ts < '2024-05-15' /* punctual: priority=4 */";
        let recorded = Scan { reach: None, duration: None, segments: Some(7), segment_range: None };
        let as_recorded = Row { scan: Some(recorded), priority_asked: Some(-3), ..row("ann", None, Some(week)) };
        let claim = claims.of(&as_recorded).1;
        assert_eq!((claim.user, claim.priority, claim.scan), (UserId::of("ann"), Some(-3), Some(recorded)));
        let claim = claims.of(&row("ann", None, Some(week))).1;
        let days = |days: u64| Some(Span::from_secs(days * 86_400));
        assert_eq!(claim.priority, Some(4));
        assert_eq!(claim.scan, Some(Scan { reach: days(7), duration: days(7), segments: None, segment_range: None }));
        assert_eq!(claims.unknown(), 0);
    }

    #[test]
    fn a_shape_does_not_say_how_much_of_time_it_reads() {
        let mut claims = claims();
        let shape = "select ? from events where ts > ?";
        assert_eq!(claims.of(&row("ann", None, Some(shape))).1.scan, None);
        assert_eq!(claims.of(&row("ann", None, Some("select ? from other"))).1.scan, None);
        assert_eq!(claims.unknown(), 1);
        claims.of(&row("ann", None, None));
        assert_eq!(claims.unknown(), 2);
        // What is known of others says that this one read nothing of the kind.
        claims.of(&Row { scan: Some(Scan::default()), ..row("ann", None, None) });
        assert_eq!(claims.unknown(), 1);
        // A text without literals is its own shape.
        assert_eq!(claims.of(&row("ann", None, Some("select a from events"))).1.scan, Some(Scan::default()));
    }
}
