//! From a plan to rows: on the workers, counted, bounded, and told to stop.
//!
//! A statement is one task that plans, executes, encodes and hands pieces to its session over a bounded
//! channel; a slow client therefore slows its own statement and nothing else. Dropping the receiving end
//! aborts the task. Operators spawn tasks of their own, and those outlive an abort for as long as they do not
//! yield; so each carries its statement's ticket along (see [`FollowStatement`]), and the count of what still
//! works is right.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use arrow_pg::row_encoder::RowEncoder;
use datafusion::common::runtime::JoinSetTracer;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use pgwire::api::Type;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Shared;
use super::memory;
use super::names::Names;
use super::parameters;
use super::plan::{self, Planned};
use crate::activity::Ticket;
use crate::engine::{BACKLOG, Bound, Output, Piece, Plan, Prepared, Running};
use crate::rows::{Chunk, Columns};
use crate::sqlstate::{Failure, SqlState};
use crate::statement::Query;

/// What is to be executed.
pub(crate) enum Work {
    Text(Query),
    Prepared { plan: Arc<Planned>, columns: Columns, types: Vec<Type>, bound: Bound },
}

type Sender = mpsc::Sender<Result<Piece, Failure>>;

tokio::task_local! {
    /// The statement that the current task works for.
    static STATEMENT: Arc<Ticket>;
}

/// Hands the ticket of a statement to every task that DataFusion spawns for it.
pub(crate) struct FollowStatement;

impl JoinSetTracer for FollowStatement {
    fn trace_future(&self, future: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match STATEMENT.try_with(Arc::clone) {
            Ok(ticket) => STATEMENT.scope(ticket, future).boxed(),
            Err(_) => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match STATEMENT.try_with(Arc::clone) {
            Ok(ticket) => Box::new(move || STATEMENT.sync_scope(ticket, block)),
            Err(_) => block,
        }
    }
}

/// Plans a query on the workers, to be executed later.
pub(crate) async fn prepare(
    state: SessionState,
    shared: Arc<Shared>,
    query: Query,
    hints: Vec<Option<Type>>,
) -> Result<Prepared, Failure> {
    let light = plan::is_light(&query);
    let planning = {
        let shared = shared.clone();
        async move {
            let logical = plan::plan(&state, &shared.compatibility, &query).await?;
            let (planned, parameters, columns) = plan::describe(&state, logical, &hints, light)?;
            let plan = Plan::Embedded(Arc::new(planned));
            Ok(Prepared { parameters, columns: Arc::new(columns), plan })
        }
    };
    let task = if light { tokio::spawn(planning) } else { shared.workers.spawn(planning) };
    // Whoever no longer waits for it ends it.
    let mut task = AbortOnDrop(task);
    match (&mut task.0).await {
        Ok(prepared) => prepared,
        Err(_) => Err(Failure::panicked("planning the statement")),
    }
}

/// Executes on the workers; what is light, on the runtime of the connections.
pub(crate) fn start(state: SessionState, shared: Arc<Shared>, work: Work, output: Output) -> Running {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let light = match &work {
        Work::Text(query) => plan::is_light(query),
        Work::Prepared { plan, .. } => plan.light,
    };
    let to_workers = shared.workers.clone();
    let activity = shared.activity.clone();
    let statement = async move {
        let running = run(&state, &shared, work, output, &sender);
        let outcome = AssertUnwindSafe(running)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Failure::panicked("executing the statement")));
        // If nobody listens any more, nobody needs to know.
        let _ = sender.send(outcome.map(|()| Piece::Done)).await;
    };
    if light {
        let task = tokio::spawn(statement);
        return Running::new(receiver, &task, Weak::new());
    }
    let ticket = activity.admit();
    let seen = Arc::downgrade(&ticket);
    let task = to_workers.spawn(STATEMENT.scope(ticket, statement));
    Running::new(receiver, &task, seen)
}

async fn run(
    state: &SessionState,
    shared: &Shared,
    work: Work,
    output: Output,
    sender: &Sender,
) -> Result<(), Failure> {
    match work {
        Work::Text(query) => {
            let (logical, names) = plan::plan(state, &shared.compatibility, &query).await?;
            if !logical.get_parameter_fields()?.is_empty() {
                let message = "there is no parameter $1 in a simple query";
                return Err(Failure::new(SqlState::SyntaxError, message));
            }
            stream(state, (&logical, &names), output, None, sender).await
        }
        Work::Prepared { plan, columns, types, bound } => {
            let logical = parameters::bind(&plan, &types, bound)?;
            stream(state, (&logical, &plan.names), output, Some(columns), sender).await
        }
    }
}

/// Executes a plan and sends its rows. `expected` are the columns that the client was told of.
async fn stream(
    state: &SessionState,
    (logical, names): (&LogicalPlan, &Names),
    output: Output,
    expected: Option<Columns>,
    sender: &Sender,
) -> Result<(), Failure> {
    let physical = state.create_physical_plan(logical).await?;
    let columns: Columns = Arc::new(plan::columns(&physical.schema(), names, &output)?);
    if let Some(expected) = expected {
        let same = expected.len() == columns.len()
            && expected.iter().zip(columns.iter()).all(|(a, b)| a.datatype() == b.datatype());
        if !same {
            let message = "cached plan must not change result type";
            return Err(Failure::new(SqlState::FeatureNotSupported, message)
                .hint("With these parameter values the columns have other types than those described; cast them."));
        }
    }
    if sender.send(Ok(Piece::Columns(columns.clone()))).await.is_err() {
        return Ok(());
    }
    let context = match output.memory {
        Some(most) => memory::capped(state, most),
        None => state.task_ctx(),
    };
    let mut batches = execute_stream(physical, context)?;
    while let Some(batch) = batches.next().await {
        let mut rows = RowEncoder::new(batch?, columns.clone());
        let mut chunk = Chunk::default();
        while let Some(row) = rows.next_row() {
            chunk.push(&row?)?;
            if chunk.is_full() && !hand_over(&mut chunk, sender).await {
                return Ok(());
            }
        }
        if !chunk.is_empty() && !hand_over(&mut chunk, sender).await {
            return Ok(());
        }
    }
    Ok(())
}

/// False if nobody takes it.
async fn hand_over(chunk: &mut Chunk, sender: &Sender) -> bool {
    sender.send(Ok(Piece::Rows(std::mem::take(chunk)))).await.is_ok()
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
