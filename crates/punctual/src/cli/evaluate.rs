//! `punctual evaluate`: what a model is worth on a history.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::aside::Aside;
use super::{Format, Stop};
use crate::model::file;
use crate::model::report::{Judgement, Worth, picture};
use crate::{print, whole};

/// Measure a model on history that it has not learnt from.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The model
    model: PathBuf,
    /// A history directory, or one file of it
    history: PathBuf,
    #[command(flatten)]
    aside: Aside,
    /// Draw it, as one page of HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    learnt_from: u64,
    test: Worth,
}

/// 0 if there was something to measure on, 1 if not.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let (model, facts) = file::read(&flags.model).map_err(Stop::failed)?;
    let (split, fold) = flags.aside.or_recorded(&facts.split, facts.seed);
    let (observations, split) = super::train::observations(&flags.history, split, fold)?;
    let judgement = Judgement::of(&model, &observations);
    let Some(worth) = judgement.worth() else {
        return Err(Stop::failed(format_args!(
            "no query that finished is set aside ({})",
            split.in_words(fold.number)
        )));
    };
    if let Some(path) = &flags.html {
        let html = picture::page(&judgement, &worth, (&flags.model, &flags.history));
        draw(path, &html)?;
    }
    match flags.format {
        Format::Text => {
            print::line(format_args!("set aside: {}", split.in_words(fold.number)))?;
            print::line(format_args!("{worth}"))?;
        }
        Format::Json => print::json(&Report { learnt_from: facts.queries, test: worth })?,
    }
    Ok(0)
}

/// Writes a page, whole or not at all.
pub(super) fn draw(path: &Path, html: &str) -> Result<(), Stop> {
    whole::write(path, html.as_bytes())
        .map_err(|cause| Stop::failed(format_args!("writing {}: {cause}", path.display())))
}
