//! DataFusion as a cluster: threads, memory, tables, and the statements that run on them.
//!
//! - [`tables`]: what is served
//! - [`catalog`]: what clients see besides their tables
//! - [`plan`]: from a query's text to a plan
//! - [`names`]: what its columns are called
//! - [`parameters`]: what `$1` is
//! - [`execute`]: from a plan to rows, counted and stoppable

mod catalog;
mod execute;
mod memory;
mod names;
mod parameters;
mod plan;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::runtime::set_join_set_tracer;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use pgwire::api::Type;
use tokio::runtime::{Handle, Runtime};

use crate::EngineError;
use crate::activity::Activity;
use crate::engine::{Bound, Output, Prepared, Running};
use crate::settings::Settings;
use crate::sqlstate::Failure;
use crate::statement::Query;

pub(crate) use plan::Planned;
pub use tables::check_tables;

/// The one catalog, and the schema of the tables.
const CATALOG: &str = "punctual";
const SCHEMA: &str = "public";

/// What the cluster may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) threads: usize,
    /// Bytes for the operators that keep rows.
    pub(crate) memory: usize,
}

/// The engine of a cluster.
pub(crate) struct Embedded {
    /// What sessions start from. The catalog in it is shared.
    template: SessionState,
    shared: Arc<Shared>,
    _workers: Workers,
}

/// What every statement needs.
pub(crate) struct Shared {
    workers: Handle,
    activity: Arc<Activity>,
    /// Knows the queries that psql and drivers send about the catalog. Slow to build.
    compatibility: PostgresCompatibilityParser,
}

/// One session's view of the engine.
pub(crate) struct Session {
    context: SessionContext,
    shared: Arc<Shared>,
}

impl Embedded {
    /// What is executing.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.shared.activity.clone()
    }

    /// Reads the tables and starts the workers. `spill` is a directory for what does not fit the memory.
    pub(crate) async fn start(tables: &[PathBuf], budget: Budget, spill: &Path) -> Result<Embedded, EngineError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(budget.threads)
            .thread_name("worker")
            // Plans are walked recursively, and unoptimised builds have large frames.
            .thread_stack_size(16 << 20)
            .enable_all()
            .build()
            .map_err(|cause| EngineError::System { attempt: "start the workers", cause })?;
        let to_workers = runtime.handle().clone();
        let workers = Workers(Some(runtime));
        // Once for the process; a second engine in it finds it done.
        let _ = set_join_set_tracer(&execute::FollowStatement);
        let engine_failed = |error: datafusion::error::DataFusionError| EngineError::Engine(error.strip_backtrace());
        let context = new_context(budget, spill).map_err(engine_failed)?;
        let activity = Arc::new(Activity::default());
        catalog::register(&context, &activity, budget).map_err(engine_failed)?;
        for directory in tables {
            tables::register(&context, directory).await?;
        }
        let shared =
            Arc::new(Shared { workers: to_workers, activity, compatibility: PostgresCompatibilityParser::new() });
        Ok(Embedded { template: context.state(), shared, _workers: workers })
    }

    pub(crate) fn session(&self, user: &str, _settings: &Settings) -> Result<Session, Failure> {
        let context = SessionContext::new_with_state(self.template.clone());
        catalog::register_user(&context, user);
        Ok(Session { context, shared: self.shared.clone() })
    }
}

/// The threads of the cluster. There until dropped.
struct Workers(Option<Runtime>);

impl Drop for Workers {
    fn drop(&mut self) {
        // Not waited for: a statement that does not stop would keep us.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Session {
    pub(crate) fn activity(&self) -> &Activity {
        &self.shared.activity
    }

    pub(crate) async fn prepare(&self, query: &Query, hints: Vec<Option<Type>>) -> Result<Prepared, Failure> {
        execute::prepare(self.context.state(), self.shared.clone(), query.clone(), hints).await
    }

    pub(crate) fn execute(&self, query: Query, output: Output) -> Running {
        let work = execute::Work::Text(query);
        execute::start(self.context.state(), self.shared.clone(), work, output)
    }

    pub(crate) fn execute_prepared(
        &self,
        plan: Arc<Planned>,
        prepared: Prepared,
        bound: Bound,
        output: Output,
    ) -> Running {
        let work = execute::Work::Prepared { plan, columns: prepared.columns, types: prepared.parameters, bound };
        execute::start(self.context.state(), self.shared.clone(), work, output)
    }
}

fn new_context(budget: Budget, spill: &Path) -> datafusion::error::Result<SessionContext> {
    let config = SessionConfig::new()
        .with_target_partitions(budget.threads)
        .with_information_schema(true)
        .with_default_catalog_and_schema(CATALOG, SCHEMA);
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![spill.to_owned()]));
    let runtime = RuntimeEnvBuilder::new()
        // Fair: a sort that could spill does not take what the neighbour's join cannot do without.
        .with_memory_pool(Arc::new(FairSpillPool::new(budget.memory)))
        .with_disk_manager_builder(disk)
        .build_arc()?;
    Ok(SessionContext::new_with_config_rt(config, runtime))
}
