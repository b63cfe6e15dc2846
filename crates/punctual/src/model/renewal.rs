//! Learning again, while the gateway runs: a child process trains on history, and what it makes is put in force if it is
//! better than what is.
//!
//! ```text
//!   every so often ─▶ punctual train HISTORY -o MODEL.next --against MODEL ─▶ better? ─▶ MODEL, ModelAdopted
//! ```
//!
//! It is a [patient](crate::patient) child. Whatever goes wrong is said and tried again later; the model in force stays.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual_core::time::Span;
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::sleep;

use super::file::{self, FileError, Opened};
use crate::link::{Link, Report};
use crate::metrics::Metrics;
use crate::patient::{self, Unfinished};
use crate::whole;

/// While there is no model, history is looked at this often; and the first time is this long after the start at the earliest.
const FIRST: Duration = Duration::from_secs(600);

/// The longest that training may take.
const LONGEST: Duration = Duration::from_secs(4 * 3_600);

/// How often a model is learnt, from what, and where it goes.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The program that trains: this one.
    pub program: PathBuf,
    /// The history to learn from.
    pub history: PathBuf,
    /// The model's file.
    pub model: PathBuf,
    /// How often.
    pub every: Span,
}

/// What came of a training.
#[derive(Debug)]
pub enum Renewed {
    /// A model that is to be put in force: better than the last one, or the first.
    Better(Opened),
    /// The model in force stays, for this reason.
    Kept(String),
}

/// Why no model came of it.
#[derive(Debug)]
pub enum RenewalError {
    /// The training did not come to its end.
    Child(Unfinished),
    /// It says something that makes no sense.
    Unreadable(String),
    /// Its model cannot be read.
    Model(FileError),
    /// Its model could not be put in its place.
    Place(io::Error),
}

impl fmt::Display for RenewalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RenewalError::Child(cause) => write!(f, "training {cause}"),
            RenewalError::Unreadable(cause) => write!(f, "what training says cannot be read: {cause}"),
            RenewalError::Model(cause) => write!(f, "{cause}"),
            RenewalError::Place(cause) => write!(f, "the new model could not be put in its place: {cause}"),
        }
    }
}

/// What training says, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Said {
    /// Whether the new model is better than the one in force; None: it cannot be told.
    better: Option<bool>,
    /// Why it cannot be told.
    because: Option<String>,
}

impl Renewal {
    /// Learns again and again, until the gateway ends.
    pub async fn run(self, link: Link, metrics: Arc<Metrics>) {
        let mut wait = self.first_wait(SystemTime::now());
        loop {
            sleep(wait).await;
            match self.once().await {
                Ok(Renewed::Better(opened)) => {
                    tracing::info!(model = %opened.id, queries = opened.facts.queries, "a better model was learnt");
                    metrics.trained("adopted");
                    if link.report(Report::Model(opened)).await.is_err() {
                        return;
                    }
                }
                Ok(Renewed::Kept(why)) => {
                    tracing::info!("a model was learnt and is not put in force: {why}");
                    metrics.trained("kept");
                }
                Err(cause) => {
                    tracing::warn!("no model was learnt: {cause}");
                    metrics.trained("failed");
                }
            }
            wait = if self.model.exists() { self.every() } else { self.every().min(FIRST) };
        }
    }

    /// How long to wait at the start: a gateway that is restarted every day must learn all the same, so the age of the
    /// model counts.
    fn first_wait(&self, now: SystemTime) -> Duration {
        let modified = std::fs::metadata(&self.model).and_then(|metadata| metadata.modified());
        let Ok(modified) = modified else { return self.every().min(FIRST) };
        let age = now.duration_since(modified).unwrap_or_default();
        self.every().saturating_sub(age).max(self.every().min(FIRST))
    }

    fn every(&self) -> Duration {
        Duration::from(self.every)
    }

    /// Learns once.
    ///
    /// # Errors
    /// If no model came of it.
    pub async fn once(&self) -> Result<Renewed, RenewalError> {
        let next = whole::beside(&self.model, ".next");
        // One that cannot be read is not in force, and is replaced.
        let current = file::open(&self.model).is_ok();
        let output = self.train(&next, current).await?;
        let said: Said =
            serde_json::from_slice(&output.stdout).map_err(|cause| RenewalError::Unreadable(cause.to_string()))?;
        if current && said.better != Some(true) {
            let _ = std::fs::remove_file(&next);
            let not_better = "it is not better on the newest queries".to_owned();
            return Ok(Renewed::Kept(said.because.unwrap_or(not_better)));
        }
        let opened = file::open(&next).map_err(RenewalError::Model)?;
        std::fs::rename(&next, &self.model).map_err(RenewalError::Place)?;
        Ok(Renewed::Better(opened))
    }

    /// Runs the training to its end, behind everything else on this machine.
    async fn train(&self, next: &Path, current: bool) -> Result<Output, RenewalError> {
        let mut command = Command::new(&self.program);
        command.arg("train").arg(&self.history).arg("--out").arg(next).args(["--format", "json"]);
        if current {
            command.arg("--against").arg(&self.model);
        }
        patient::run(&mut command, LONGEST).await.map_err(RenewalError::Child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_training_counts_from_the_age_of_the_model() {
        let dir = tempfile::tempdir().unwrap();
        let renewal = Renewal {
            program: PathBuf::new(),
            history: PathBuf::new(),
            model: dir.path().join("m"),
            every: Span::from_secs(86_400),
        };
        assert_eq!(renewal.first_wait(SystemTime::now()), FIRST);
        std::fs::write(&renewal.model, "m").unwrap();
        let made = std::fs::metadata(&renewal.model).unwrap().modified().unwrap();
        let wait = |hours: u64| renewal.first_wait(made + Duration::from_secs(3_600 * hours)).as_secs() / 60;
        assert_eq!((wait(0), wait(20), wait(30)), (24 * 60, 4 * 60, 10));
        let often = Renewal { every: Span::from_secs(60), ..renewal };
        assert_eq!(often.first_wait(made), Duration::from_secs(60));
    }
}
