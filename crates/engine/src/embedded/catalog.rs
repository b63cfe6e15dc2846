//! What clients see besides their tables: Postgres's catalog, a few functions, and the engine's activity.

use std::sync::Arc;

use datafusion::arrow::array::{Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    ColumnarValue, ScalarUDF, Signature, SimpleScalarUDF, TypeSignature, Volatility, create_udf,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::setup_pg_catalog;

use super::{Budget, CATALOG};
use crate::activity::Activity;
use crate::settings::SERVER_VERSION;

/// The schema of what the engine tells about itself.
pub(crate) const ENGINE_SCHEMA: &str = "punctual_engine";

/// The table in it.
pub(crate) const ACTIVITY: &str = "activity";

/// Adds everything that all sessions share.
pub(crate) fn register(context: &SessionContext, activity: &Arc<Activity>, budget: Budget) -> Result<()> {
    setup_pg_catalog(context, CATALOG, EmptyContextProvider).map_err(|error| *error)?;
    context.register_udf(constant(
        "version",
        format!(
            "PostgreSQL {SERVER_VERSION} (Punctual {}, DataFusion {})",
            env!("CARGO_PKG_VERSION"),
            datafusion::DATAFUSION_VERSION
        ),
    ));
    for (name, arguments) in DESCRIPTIONS {
        context.register_udf(no_description(name, arguments));
    }
    let table = ActivityTable {
        schema: activity_schema(),
        activity: activity.clone(),
        pool: context.runtime_env().memory_pool.clone(),
        budget,
    };
    let schema = MemorySchemaProvider::new();
    let provider = StreamingTable::try_new(table.schema.clone(), vec![Arc::new(table)])?;
    schema.register_table(ACTIVITY.to_owned(), Arc::new(provider))?;
    let catalog =
        context.catalog(CATALOG).ok_or_else(|| DataFusionError::Configuration("there is no catalog".to_owned()))?;
    catalog.register_schema(ENGINE_SCHEMA, Arc::new(schema))?;
    Ok(())
}

/// Adds what differs from session to session.
pub(crate) fn register_user(context: &SessionContext, user: &str) {
    for name in ["session_user", "current_user", "current_role"] {
        context.register_udf(constant(name, user.to_owned()));
    }
}

/// Functions about objects that have no comments here, with how many arguments they may have.
const DESCRIPTIONS: [(&str, &[usize]); 3] =
    [("obj_description", &[1, 2]), ("col_description", &[2]), ("shobj_description", &[2])];

/// There are no comments on anything: always null.
fn no_description(name: &str, arguments: &[usize]) -> ScalarUDF {
    let counts = arguments.iter().map(|count| TypeSignature::Any(*count)).collect();
    let signature = Signature::one_of(counts, Volatility::Stable);
    let null = ColumnarValue::Scalar(ScalarValue::Utf8(None));
    let always = Arc::new(move |_: &[ColumnarValue]| Ok(null.clone()));
    ScalarUDF::from(SimpleScalarUDF::new_with_signature(name, signature, DataType::Utf8, always))
}

/// A function without arguments that always says the same.
fn constant(name: &str, text: String) -> ScalarUDF {
    let value = ColumnarValue::Scalar(ScalarValue::Utf8(Some(text)));
    create_udf(name, vec![], DataType::Utf8, Volatility::Stable, Arc::new(move |_| Ok(value.clone())))
}

fn activity_schema() -> SchemaRef {
    let column = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![
        column("running"),
        column("stuck"),
        Field::new("stuck_s", DataType::Float64, false),
        column("memory_reserved"),
        column("memory_limit"),
        column("threads"),
    ]))
}

/// One row: what executes now, and what it holds.
#[derive(Debug)]
struct ActivityTable {
    schema: SchemaRef,
    activity: Arc<Activity>,
    pool: Arc<dyn MemoryPool>,
    budget: Budget,
}

impl PartitionStream for ActivityTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let counts = self.activity.counts();
        let column = |value: u64| Arc::new(Int64Array::from(vec![i64::try_from(value).unwrap_or(i64::MAX)]));
        let batch = RecordBatch::try_new(
            self.schema.clone(),
            vec![
                column(counts.running),
                column(counts.stuck),
                Arc::new(Float64Array::from(vec![counts.stuck_for.as_secs_f64()])),
                column(self.pool.reserved() as u64),
                column(self.budget.memory as u64),
                column(self.budget.threads as u64),
            ],
        );
        let rows = futures::stream::iter([batch.map_err(DataFusionError::from)]);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }
}
