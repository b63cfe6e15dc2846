//! What engines plan for queries, as far as it is known: one EXPLAIN for each shape, asked in the background.
//!
//! ```text
//!   session ── of(wish) ──▶ Plans ── wishes (bounded) ──▶ Asker ── EXPLAIN, one at a time ──▶ a ready cluster
//!      ▲                      ▲                             │
//!      └──── plan, if known ──┴────────── learnt ───────────┘
//! ```
//!
//! A query never waits for a plan: the first of its shape runs without one. EXPLAIN is work for a cluster too, and users
//! of other gateways have seen theirs flooded with it; so it is asked for once for a shape, at most every so often, for
//! queries that only read and whose text is whole. A shape that cannot be planned is left alone for an hour.

mod ask;
mod read;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_core::fingerprint::Fingerprint;
use punctual_core::predict::features::Plan;
use punctual_core::statement::{Kind, Statement};
use tokio::sync::mpsc;

pub use ask::{Asker, WITHIN};

use crate::door::words::{Word, Words};

/// Shapes that are known; the one known longest goes first.
const KNOWN: usize = 8_192;

/// Shapes whose plan is asked for and not there yet. What does not fit is asked for when it comes again.
const WISHES: usize = 64;

/// The longest text that is explained.
const LONGEST: usize = 32 << 10;

/// How long a shape that could not be planned is left alone.
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// A query whose plan would be good to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its shape.
    pub fingerprint: Fingerprint,
    /// Its text.
    pub text: Arc<str>,
    /// Who runs it.
    pub user: Arc<str>,
    /// The database that its names are in.
    pub database: Arc<str>,
}

/// The plans that are known.
#[derive(Debug)]
pub struct Plans {
    book: Mutex<Book>,
    wishes: mpsc::Sender<Wish>,
}

/// A shape, and the database that its names are in.
type Key = (Fingerprint, Arc<str>);

impl Wish {
    fn key(&self) -> Key {
        (self.fingerprint, Arc::clone(&self.database))
    }
}

#[derive(Debug, Default)]
struct Book {
    known: HashMap<Key, Known>,
    /// Their keys, as they came.
    order: VecDeque<Key>,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    /// Asked for.
    Asked,
    /// What the engine plans.
    Plan(Plan),
    /// It could not be planned, then.
    Failed(Instant),
}

impl Plans {
    /// Nothing is known yet; wishes come out of the other end.
    pub fn new() -> (Arc<Plans>, mpsc::Receiver<Wish>) {
        let (wishes, wished) = mpsc::channel(WISHES);
        (Arc::new(Plans { book: Mutex::default(), wishes }), wished)
    }

    /// The plan of that query's shape. If it is not known it is wished for, provided that it can be asked for.
    pub fn of(&self, statement: &Statement, wish: impl FnOnce() -> Wish) -> Option<Plan> {
        if !has_plan(statement) {
            return None;
        }
        let wish = wish();
        let key = wish.key();
        let mut book = self.book();
        match book.known.get(&key) {
            Some(Known::Plan(plan)) => return Some(*plan),
            Some(Known::Asked) => return None,
            Some(Known::Failed(at)) if at.elapsed() < AGAIN_AFTER => return None,
            Some(Known::Failed(_)) | None => {}
        }
        if !may_be_explained(&wish.text) {
            book.learn(key, Known::Failed(Instant::now()));
        } else if self.wishes.try_send(wish).is_ok() {
            book.learn(key, Known::Asked);
        }
        None
    }

    /// The plan of that query's shape, if it is known. Nothing is wished for.
    pub fn known(&self, statement: &Statement, database: &str) -> Option<Plan> {
        match self.book().known.get(&(statement.fingerprint, database.into())) {
            Some(Known::Plan(plan)) if has_plan(statement) => Some(*plan),
            _ => None,
        }
    }

    /// What came of a wish; None: it could not be planned.
    fn learnt(&self, wish: &Wish, plan: Option<Plan>) {
        let known = plan.map_or_else(|| Known::Failed(Instant::now()), Known::Plan);
        self.book().learn(wish.key(), known);
    }

    /// A wish could not be asked about for want of a cluster: it may be wished for again at once.
    fn forget(&self, wish: &Wish) {
        self.book().known.remove(&wish.key());
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn learn(&mut self, key: Key, known: Known) {
        if self.known.insert(key.clone(), known).is_none() {
            self.order.push_back(key);
        }
        // What was forgotten may be here twice: then its newer place goes with its older one.
        while self.order.len() > KNOWN {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

/// True for what an engine plans: one statement that reads tables.
fn has_plan(statement: &Statement) -> bool {
    statement.kind == Kind::Select && statement.count == 1 && !statement.tables.is_empty()
}

/// True if EXPLAIN may be put before the text: it begins as a query does, none of its CTEs changes anything, and all its values
/// are in it.
fn may_be_explained(text: &str) -> bool {
    let changes = |word: Word<'_>| ["insert", "update", "delete", "merge"].iter().any(|change| word.is(change));
    let mut words = Words::of(text);
    let begins = words.next().is_some_and(|word| word.is("select") || word.is("with") && !words.any(changes));
    let is_parameter = |pair: &[u8]| pair[0] == b'$' && pair[1].is_ascii_digit();
    begins && text.len() <= LONGEST && !text.as_bytes().windows(2).any(is_parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(plans: &Plans, text: &str) -> Option<Plan> {
        let statement = Statement::read(text);
        plans.of(&statement, || Wish {
            fingerprint: statement.fingerprint,
            text: text.into(),
            user: "ann".into(),
            database: "sales".into(),
        })
    }

    #[tokio::test]
    async fn a_plan_is_wished_for_once_and_had_when_it_is_learnt() {
        let (plans, mut wished) = Plans::new();
        assert_eq!(ask(&plans, "select a from t where b = 1"), None);
        assert_eq!(ask(&plans, "SELECT a FROM t WHERE b = 2"), None);
        let wish = wished.try_recv().expect("a wish");
        assert_eq!(&*wish.text, "select a from t where b = 1");
        assert!(wished.try_recv().is_err());
        let plan = Plan { cost: 7.0, ..Plan::default() };
        plans.learnt(&wish, Some(plan));
        assert_eq!(ask(&plans, "select a from t where b = 3"), Some(plan));
        // Another database has tables of its own.
        plans.learnt(&Wish { database: "other".into(), ..wish.clone() }, None);
        assert_eq!(ask(&plans, "select a from t where b = 3"), Some(plan));
        plans.learnt(&wish, None);
        assert_eq!(ask(&plans, "select a from t where b = 4"), None);
        assert!(wished.try_recv().is_err(), "what cannot be planned is left alone");
        plans.forget(&wish);
        assert_eq!(ask(&plans, "select a from t where b = 5"), None);
        assert_eq!(wished.try_recv().map(|wish| wish.text), Ok("select a from t where b = 5".into()));
    }

    #[test]
    fn only_whole_queries_that_read_tables_are_explained() {
        let (plans, mut wished) = Plans::new();
        let long = format!("select a from t where b in ({})", "1, ".repeat(12_000));
        for text in [
            "select 1",
            "insert into t values (1)",
            "select a from t; select b from t",
            "select a from t where b = $1",
            "(select a from t)",
            "values (1)",
            "with x as (delete from t returning a) select a from x",
            "with x as (insert into t values (1) returning a) select x.a from x, u",
            "explain select a from t",
            &long,
        ] {
            assert_eq!(ask(&plans, text), None);
            assert!(wished.try_recv().is_err(), "{text}");
        }
        for text in [
            "/* a dashboard */ select a from t",
            "with x as (select a from t) select a from x",
            "-- c\nSELECT '$' FROM t",
        ] {
            assert_eq!(ask(&plans, text), None);
            assert!(wished.try_recv().is_ok(), "{text}");
        }
    }

    #[test]
    fn as_many_are_known_as_may_be_and_wishes_that_do_not_fit_are_not_lost() {
        let (plans, mut wished) = Plans::new();
        let text = |at: usize| format!("select a from t{at}");
        for at in 0..KNOWN + WISHES {
            ask(&plans, &text(at));
            if at < KNOWN {
                let wish = wished.try_recv().expect("a wish");
                plans.learnt(&wish, Some(Plan::default()));
            }
        }
        let book = plans.book();
        assert_eq!((book.known.len(), book.order.len()), (KNOWN, KNOWN));
        drop(book);
        assert_eq!(ask(&plans, "select a from u"), None);
        (0..WISHES).for_each(|_| drop(wished.try_recv().expect("a wish")));
        assert!(wished.try_recv().is_err());
        ask(&plans, "select a from u");
        assert!(wished.try_recv().is_ok());
    }
}
