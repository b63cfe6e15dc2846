//! The simulated twin: the same wire, and answers after the time that a model says.
//!
//! The world is the one that simulations use, driven by the real clock: processor sharing over the cluster's units with a
//! limit on slots ([`Sharing`]), or the simulated warehouse, which knows what the queries of TPC-DS ask for. So
//! a fleet larger than the machine can stand behind a live gateway, and what it does is what a simulation of it would do.
//!
//! A statement says in a comment what it is: `/* tpcds:42 */` is the 42nd query of TPC-DS, `/* punctual: work=1.5s */` so much
//! work of one unit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::api::results::{DataRowEncoder, FieldInfo};
use punctual_core::id::{QueryId, Units};
use punctual_core::tag::parse_span;
use punctual_core::time::{Span, Time};
use punctual_sim::world::compute::{Compute, Make};
use punctual_sim::world::sharing::{Sharing, Work};
use punctual_sim::world::warehouse::{Table, Template};
use sqlparser::ast::{SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::Simulated;
use crate::activity::Activity;
use crate::engine::{BACKLOG, Output, Piece, Plan, Prepared, Running};
use crate::rows::{Chunk, Columns};
use crate::sqlstate::{Failure, SqlState};
use crate::statement::Query;

/// The work of a statement that does not say.
const DEFAULT_WORK: Span = Span::from_millis(100);

/// One simulated cluster.
pub(crate) struct Warehouse {
    size: u32,
    time_scale: f64,
    born: Instant,
    world: Mutex<World>,
    /// Something came or went, so the next end is another.
    changed: Notify,
    pub(crate) activity: Arc<Activity>,
}

struct World {
    compute: Compute,
    next: u64,
    waiting: HashMap<QueryId, oneshot::Sender<()>>,
}

/// What a session needs.
pub(crate) struct Session {
    warehouse: Arc<Warehouse>,
}

/// What a statement will be answered with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Planned {
    /// Nothing was asked of any table: whether we live.
    Ping,
    /// The counts, as an embedded cluster shows them.
    Activity,
    /// A query with this much work.
    Work(Span),
    /// A query of TPC-DS.
    Template(Template),
}

impl Warehouse {
    /// An idle warehouse. To be called on a runtime, where its clock will tick.
    pub(crate) fn new(model: Simulated, size: u32) -> Arc<Warehouse> {
        let compute = match model.warehouse {
            true => {
                Make::Warehouse { table: Arc::new(Table::shipped().clone()), seed: model.seed }.cluster(Units(size))
            }
            false => Compute::Sharing(Sharing::new(Units(size), model.slots)),
        };
        let warehouse = Arc::new(Warehouse {
            size,
            time_scale: model.time_scale,
            born: Instant::now(),
            world: Mutex::new(World { compute, next: 0, waiting: HashMap::new() }),
            changed: Notify::new(),
            activity: Arc::new(Activity::default()),
        });
        tokio::spawn(tick(Arc::downgrade(&warehouse)));
        warehouse
    }

    /// A statement comes, and is gone when the second value is dropped.
    fn arrive(self: &Arc<Self>, work: Work, template: Option<Template>) -> (oneshot::Receiver<()>, Stay) {
        let (sender, receiver) = oneshot::channel();
        let mut world = self.world();
        let query = QueryId(world.next);
        world.next += 1;
        world.compute.arrive(self.now(), query, work, template);
        world.waiting.insert(query, sender);
        drop(world);
        self.changed.notify_one();
        (receiver, Stay { warehouse: self.clone(), query })
    }

    fn now(&self) -> Time {
        Time::from_micros((self.born.elapsed().as_secs_f64() / self.time_scale * 1e6) as u64)
    }

    /// When a simulated instant is.
    fn real(&self, at: Time) -> Instant {
        let seconds = at.micros() as f64 * 1e-6 * self.time_scale;
        // What lies beyond any clock is never reached; a day from now is late enough to look again.
        let limit = Duration::from_secs(86_400) + self.born.elapsed();
        self.born + Duration::try_from_secs_f64(seconds).unwrap_or(limit).min(limit)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // Nothing panics while it is held.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement's presence in the warehouse.
struct Stay {
    warehouse: Arc<Warehouse>,
    query: QueryId,
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut world = self.warehouse.world();
        if world.waiting.remove(&self.query).is_some() {
            world.compute.leave(self.warehouse.now(), self.query);
            drop(world);
            self.warehouse.changed.notify_one();
        }
    }
}

/// Answers statements when the world says that they have finished.
async fn tick(warehouse: Weak<Warehouse>) {
    while let Some(warehouse) = warehouse.upgrade() {
        let next = {
            let mut world = warehouse.world();
            let finished = world.compute.finished(warehouse.now());
            for query in finished {
                if let Some(sender) = world.waiting.remove(&query) {
                    let _ = sender.send(());
                }
            }
            world.compute.next()
        };
        let end = async {
            match next {
                Some(at) => tokio::time::sleep_until(warehouse.real(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = end => {}
            () = warehouse.changed.notified() => {}
        }
    }
}

impl Session {
    pub(crate) fn activity(&self) -> &Activity {
        &self.warehouse.activity
    }

    pub(crate) fn new(warehouse: Arc<Warehouse>) -> Session {
        Session { warehouse }
    }

    pub(crate) fn prepare(&self, query: &Query, hints: Vec<Option<Type>>) -> Result<Prepared, Failure> {
        let planned = plan(query)?;
        // Nothing is done with the values, so any type will do.
        let used = parameters(&query.text);
        let parameters =
            (0..used.max(hints.len())).map(|at| hints.get(at).cloned().flatten().unwrap_or(Type::TEXT)).collect();
        let columns = columns(planned, &Format::UnifiedText);
        Ok(Prepared { parameters, columns, plan: Plan::Simulated(planned) })
    }

    pub(crate) fn execute(&self, query: &Query, output: Output) -> Running {
        let planned = plan(query);
        self.start(planned, output)
    }

    pub(crate) fn execute_planned(&self, planned: Planned, output: Output) -> Running {
        self.start(Ok(planned), output)
    }

    fn start(&self, planned: Result<Planned, Failure>, output: Output) -> Running {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let warehouse = self.warehouse.clone();
        let ticket = match planned {
            Ok(Planned::Work(_) | Planned::Template(_)) => Some(warehouse.activity.admit()),
            _ => None,
        };
        let seen = ticket.as_ref().map_or_else(Weak::new, Arc::downgrade);
        let task = tokio::spawn(async move {
            let outcome = match planned {
                Ok(planned) => answer(&warehouse, planned, output, &sender).await,
                Err(failure) => Err(failure),
            };
            drop(ticket);
            let _ = sender.send(outcome.map(|()| Piece::Done)).await;
        });
        Running::new(receiver, &task, seen)
    }
}

async fn answer(
    warehouse: &Arc<Warehouse>,
    planned: Planned,
    output: Output,
    sender: &mpsc::Sender<Result<Piece, Failure>>,
) -> Result<(), Failure> {
    let columns = columns(planned, &output.format);
    let _ = sender.send(Ok(Piece::Columns(columns.clone()))).await;
    let mut row = DataRowEncoder::new(columns);
    match planned {
        Planned::Ping => row.encode_field(&1_i32)?,
        Planned::Activity => {
            let counts = warehouse.activity.counts();
            row.encode_field(&(counts.running as i64))?;
            row.encode_field(&(counts.stuck as i64))?;
            row.encode_field(&counts.stuck_for.as_secs_f64())?;
            row.encode_field(&0_i64)?;
            row.encode_field(&0_i64)?;
            row.encode_field(&i64::from(warehouse.size))?;
        }
        Planned::Work(_) | Planned::Template(_) => {
            let began = warehouse.now();
            let (work, template) = work(planned, warehouse.size);
            let (finished, stay) = warehouse.arrive(work, template);
            finished.await.map_err(|_| Failure::panicked("waiting for the simulated end"))?;
            drop(stay);
            row.encode_field(&"simulated")?;
            row.encode_field(&warehouse.now().since(began).secs_f64())?;
        }
    }
    let mut chunk = Chunk::default();
    chunk.push(&row.take_row())?;
    let _ = sender.send(Ok(Piece::Rows(chunk))).await;
    Ok(())
}

/// What a statement asks for: as work alone, where the cluster knows nothing else.
fn work(planned: Planned, size: u32) -> (Work, Option<Template>) {
    match planned {
        Planned::Template(template) => {
            let profile = Table::shipped().profile(template);
            let most_units = profile.most_units.clamp(1.0, f64::from(u32::MAX)) as u32;
            (Work { cpu: Span::from_secs_f64(profile.cpu), most_units }, Some(template))
        }
        // A statement can use every unit: the model's own shape of speed-up is its work.
        Planned::Work(work) => (Work { cpu: work, most_units: size }, None),
        Planned::Ping | Planned::Activity => (Work { cpu: Span::ZERO, most_units: size }, None),
    }
}

fn columns(planned: Planned, format: &Format) -> Columns {
    let names: &[(&str, Type)] = match planned {
        Planned::Ping => &[("?column?", Type::INT4)],
        Planned::Activity => &[
            ("running", Type::INT8),
            ("stuck", Type::INT8),
            ("stuck_s", Type::FLOAT8),
            ("memory_reserved", Type::INT8),
            ("memory_limit", Type::INT8),
            ("threads", Type::INT8),
        ],
        Planned::Work(_) | Planned::Template(_) => &[("cluster", Type::TEXT), ("seconds", Type::FLOAT8)],
    };
    let column = |(at, (name, datatype)): (usize, &(&str, Type))| {
        // A client that describes one shape and asks for the formats of another gets text.
        let format = match format {
            Format::Individual(codes) if at >= codes.len() => Format::UnifiedText,
            other => other.clone(),
        };
        FieldInfo::new((*name).to_owned(), None, None, datatype.clone(), format.format_for(at))
    };
    Arc::new(names.iter().enumerate().map(column).collect())
}

fn plan(query: &Query) -> Result<Planned, Failure> {
    if query.explain.is_some() {
        return Err(Failure::new(SqlState::FeatureNotSupported, "a simulated cluster has no plans to explain"));
    }
    if let Some(planned) = hinted(&query.text)? {
        return Ok(planned);
    }
    if query.text.to_ascii_lowercase().contains("punctual_engine.activity") {
        return Ok(Planned::Activity);
    }
    // Two columns of whatever else would be taken for an answer, by psql for one.
    let read = punctual_core::statement::Statement::read(&query.text);
    if read.control && !read.tables.is_empty() {
        let message = "a simulated cluster has no catalogue: it only sleeps as long as a cluster would work";
        return Err(Failure::new(SqlState::FeatureNotSupported, message));
    }
    let asks_nothing = match query.statement.as_ref() {
        Statement::Query(body) => match body.body.as_ref() {
            SetExpr::Select(select) => body.with.is_none() && select.from.is_empty(),
            _ => false,
        },
        _ => false,
    };
    Ok(if asks_nothing { Planned::Ping } else { Planned::Work(DEFAULT_WORK) })
}

/// What a comment says that a statement is.
fn hinted(text: &str) -> Result<Option<Planned>, Failure> {
    for token in tokens(text) {
        let Token::Whitespace(Whitespace::MultiLineComment(comment)) = token else { continue };
        if let Some(number) = comment.trim().strip_prefix("tpcds:") {
            let template = number.trim().parse().ok().and_then(Template::new);
            return template.map(|template| Some(Planned::Template(template))).ok_or_else(|| {
                let message = format!("TPC-DS has no such query: {}", number.trim());
                Failure::new(SqlState::InvalidParameterValue, message).hint("Write a number from 1 to 99.")
            });
        }
        let Some(pairs) = comment.trim().strip_prefix("punctual:") else { continue };
        if let Some(work) = hinted_work(pairs)? {
            return Ok(Some(Planned::Work(work)));
        }
    }
    Ok(None)
}

/// The work among what a comment sets: `class=etl, work=1.5s`.
fn hinted_work(pairs: &str) -> Result<Option<Span>, Failure> {
    let mut pairs = pairs.split(',').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.find(|(key, _)| key.trim() == "work") else { return Ok(None) };
    parse_span(value.trim().trim_matches('\'')).map(Some).ok_or_else(|| {
        let message = format!("the comment's work is not a duration: {}", value.trim());
        Failure::new(SqlState::InvalidParameterValue, message).hint("Write it like 250ms, 1.5s or 2m.")
    })
}

/// The highest `$n` in a text.
fn parameters(text: &str) -> usize {
    tokens(text)
        .into_iter()
        .filter_map(|token| match token {
            Token::Placeholder(name) => name.strip_prefix('$')?.parse::<u16>().ok(),
            _ => None,
        })
        .max()
        .map_or(0, usize::from)
}

fn tokens(text: &str) -> Vec<Token> {
    // The text has been parsed, so it has tokens.
    Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse};

    fn planned(sql: &str) -> Result<Planned, &'static str> {
        match parse(sql).unwrap().remove(0) {
            Command::Query(query) => plan(&query).map_err(|failure| failure.state.code()),
            other => panic!("{other:?}"),
        }
    }

    /// A hundred simulated seconds in a real one.
    fn session(slots: u32, size: u32) -> Session {
        let model = Simulated { slots, time_scale: 0.01, seed: 0, warehouse: false };
        Session::new(Warehouse::new(model, size))
    }

    /// How many simulated seconds a statement took.
    async fn took(session: &Session, work: Span) -> f64 {
        took_planned(session, Planned::Work(work)).await
    }

    async fn took_planned(session: &Session, planned: Planned) -> f64 {
        let began = session.warehouse.now();
        let mut running = session.execute_planned(planned, Output::default());
        let mut rows = 0;
        loop {
            match running.next().await.unwrap() {
                Piece::Columns(_) => {}
                Piece::Rows(chunk) => rows += chunk.rows(),
                Piece::Done => break,
            }
        }
        assert_eq!(rows, 1);
        session.warehouse.now().since(began).secs_f64()
    }

    #[test]
    fn work_comes_from_the_comment() {
        let hinted = "/* punctual: class=etl, work=1.5s */ select * from t";
        assert_eq!(planned(hinted), Ok(Planned::Work(Span::from_millis(1500))));
        assert_eq!(planned("select * from t"), Ok(Planned::Work(DEFAULT_WORK)));
        assert_eq!(planned("select 1"), Ok(Planned::Ping));
        assert_eq!(planned("/* punctual: work=1s */ select 1"), Ok(Planned::Work(Span::from_secs(1))));
        assert_eq!(planned("select * from punctual_engine.activity"), Ok(Planned::Activity));
        assert_eq!(planned("/* punctual: work=long */ select 1"), Err("22023"));
    }

    #[test]
    fn there_is_no_catalogue_to_ask() {
        for sql in ["select relname from pg_catalog.pg_class", "select * from information_schema.tables"] {
            assert_eq!(planned(sql), Err("0A000"), "{sql}");
        }
        assert_eq!(planned("select * from pg_class c join orders o on true"), Ok(Planned::Work(DEFAULT_WORK)));
    }

    #[test]
    fn a_query_of_tpcds_is_named_by_its_number() {
        let named = Template::new(42).map(Planned::Template);
        assert_eq!(planned("/* tpcds:42 */ select 1").ok(), named);
        assert_eq!(planned("select /* punctual: class=etl */ * from t /* tpcds: 42 */").ok(), named);
        assert_eq!(planned("/* tpcds:100 */ select 1"), Err("22023"));
        assert_eq!(planned("/* tpcds:x */ select 1"), Err("22023"));
    }

    #[tokio::test]
    async fn two_statements_share_the_units() {
        let session = session(10, 2);
        let work = Span::from_secs(2);
        let (one, two) = tokio::join!(took(&session, work), took(&session, work));
        // Four seconds of one unit, on two units. Alone each would have taken one.
        assert!(one >= 2.0 && two >= 2.0, "{one} {two}");
    }

    #[tokio::test]
    async fn a_warehouse_works_off_what_queries_of_tpcds_ask_for() {
        let model = Simulated { slots: 1, time_scale: 0.001, seed: 0, warehouse: true };
        let session = Session::new(Warehouse::new(model, 32));
        let light = Template::new(52).map(Planned::Template).unwrap();
        let heavy = Template::new(78).map(Planned::Template).unwrap();
        // On a cluster of this size one takes less than a second, the other about twenty; real time only adds.
        assert!(took_planned(&session, light).await > 0.1);
        assert!(took_planned(&session, heavy).await > 5.0);
    }

    #[tokio::test]
    async fn one_that_leaves_makes_room() {
        let session = session(1, 1);
        let for_ever = Planned::Work(Span::from_secs(1_000_000));
        let leaving = session.execute_planned(for_ever, Output::default());
        while session.warehouse.world().compute.running() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(session.warehouse.activity.counts().running, 1);
        drop(leaving);
        assert!(took(&session, Span::from_secs(1)).await >= 1.0);
        while session.warehouse.activity.counts() != Default::default() {
            tokio::task::yield_now().await;
        }
    }
}
