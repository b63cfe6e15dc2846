//! Directories of Parquet files as tables.
//!
//! What is wrong with a directory or a file is found before anyone connects, and said with its name: a
//! cluster that starts can answer.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::prelude::SessionContext;
use parquet::file::metadata::ParquetMetaDataReader;

use crate::EngineError;

const EXTENSION: &str = "parquet";

/// Finds what would keep a cluster over these directories from starting, as far as that shows without starting one.
///
/// # Errors
/// With what its start would fail for.
pub fn check_tables(directories: &[PathBuf]) -> Result<(), EngineError> {
    let mut names = BTreeSet::new();
    for directory in directories {
        for (name, path, _) in sound(directory)? {
            if !names.insert(name.clone()) {
                return Err(wrong(&path, format!("there is a table \"{name}\" already")));
            }
        }
    }
    Ok(())
}

/// Makes every `NAME.parquet` and every directory `NAME` of Parquet files in `directory` the table `NAME`.
pub(crate) async fn register(context: &SessionContext, directory: &Path) -> Result<(), EngineError> {
    for (name, path, _) in sound(directory)? {
        let known = context
            .table_exist(TableReference::bare(name.as_str()))
            .map_err(|error| wrong(&path, error.strip_backtrace()))?;
        if known {
            return Err(wrong(&path, format!("there is a table \"{name}\" already")));
        }
        let table = listing(context, &path).await?;
        context
            .register_table(TableReference::bare(name.as_str()), Arc::new(table))
            .map_err(|error| wrong(&path, error.strip_backtrace()))?;
    }
    Ok(())
}

/// The tables of a directory, all of whose files can be read; there is at least one.
fn sound(directory: &Path) -> Result<Vec<(String, PathBuf, Vec<PathBuf>)>, EngineError> {
    let tables = find(directory)?;
    if tables.is_empty() {
        return Err(wrong(directory, "there are no Parquet files in it"));
    }
    tables.iter().flat_map(|(_, _, files)| files).try_for_each(|file| check(file))?;
    Ok(tables)
}

/// The tables of a directory: name, path, files. Sorted by name.
fn find(directory: &Path) -> Result<Vec<(String, PathBuf, Vec<PathBuf>)>, EngineError> {
    let mut tables = Vec::new();
    for path in entries(directory)? {
        let name = |part: Option<&std::ffi::OsStr>| part.and_then(|name| name.to_str()).map(str::to_owned);
        if path.is_dir() {
            let files: Vec<PathBuf> = entries(&path)?.into_iter().filter(|file| is_parquet(file)).collect();
            if let Some(name) = name(path.file_name()).filter(|_| !files.is_empty()) {
                tables.push((name, path, files));
            }
        } else if is_parquet(&path)
            && let Some(name) = name(path.file_stem())
        {
            tables.push((name, path.clone(), vec![path]));
        }
    }
    Ok(tables)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
        paths.sort();
        Ok(paths)
    };
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['.', '_']));
    let paths = read().map_err(|error| wrong(directory, error.to_string()))?;
    Ok(paths.into_iter().filter(|path| !hidden(path)).collect())
}

fn is_parquet(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// Reads the footer, which a file that is cut short or something else does not have.
fn check(file: &Path) -> Result<(), EngineError> {
    let opened = File::open(file).map_err(|error| wrong(file, error.to_string()))?;
    ParquetMetaDataReader::new()
        .parse_and_finish(&opened)
        .map(|_| ())
        .map_err(|error| wrong(file, format!("it is not a readable Parquet file: {error}")))
}

async fn listing(context: &SessionContext, path: &Path) -> Result<ListingTable, EngineError> {
    let text = path.canonicalize().map_err(|error| wrong(path, error.to_string()))?;
    let Some(mut text) = text.to_str().map(str::to_owned) else {
        return Err(wrong(path, "its name is not UTF-8"));
    };
    if text.contains(['*', '?', '[']) {
        return Err(wrong(path, "its path contains one of * ? [, which would be read as a pattern"));
    }
    if path.is_dir() {
        text.push('/');
    }
    let failed = |error: datafusion::error::DataFusionError| wrong(path, error.strip_backtrace());
    let url = ListingTableUrl::parse(&text).map_err(failed)?;
    let state = context.state();
    let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(format!(".{EXTENSION}"));
    let schema = options.infer_schema(&state, &url).await.map_err(failed)?;
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
    ListingTable::try_new(config).map_err(failed)
}

fn wrong(path: &Path, reason: impl Into<String>) -> EngineError {
    EngineError::Table { path: path.to_owned(), reason: reason.into() }
}
