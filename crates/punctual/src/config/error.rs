//! What is wrong with a configuration file: all of it at once, each with its place, its key and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

/// A configuration that cannot be used.
#[derive(Debug)]
pub enum ConfigError {
    /// The file could not be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file is larger than any configuration.
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// The file says something that cannot be meant.
    Wrong {
        /// The file.
        origin: PathBuf,
        /// What is wrong, in the order of the file; at least one.
        problems: Vec<Problem>,
    },
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its line, from 1; 0: it was typed on the command line.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
    /// The key that is to blame, such as `policy.wait_limit`, or the flag; empty if the text is no TOML.
    pub key: String,
    /// What was found.
    pub found: String,
    /// What to do; empty if that is obvious.
    pub fix: String,
}

/// Problems that are shown; a file can hold thousands.
const SHOWN: usize = 50;

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable { path, cause } => write!(f, "cannot read {}: {cause}", path.display()),
            ConfigError::TooLarge { path, limit } => {
                write!(f, "{} is no configuration: it is larger than {limit} bytes", path.display())
            }
            ConfigError::Wrong { origin, problems } => {
                for (index, problem) in problems.iter().take(SHOWN).enumerate() {
                    let separator = if index > 0 { "\n" } else { "" };
                    let Problem { line, column, .. } = problem;
                    match problem.was_typed() {
                        true => write!(f, "{separator}{problem}")?,
                        false => write!(f, "{separator}{}:{line}:{column}: {problem}", origin.display())?,
                    }
                }
                match problems.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "\nand {more} more"),
                }
            }
        }
    }
}

impl Problem {
    /// True if it is not in the file but on the command line.
    pub(super) fn was_typed(&self) -> bool {
        self.line == 0
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { key, found, fix, .. } = self;
        if !key.is_empty() {
            write!(f, "{key}: ")?;
        }
        write!(f, "{found}")?;
        if !fix.is_empty() {
            write!(f, "; {fix}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Unreadable { cause, .. } => Some(cause),
            ConfigError::TooLarge { .. } | ConfigError::Wrong { .. } => None,
        }
    }
}
