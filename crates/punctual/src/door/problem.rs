//! What is said to a client when something goes wrong: one table from reasons to SQLSTATE and words.
//!
//! The codes are those that Postgres itself uses for the like, so that drivers and pools do the right thing: retry on
//! 53300 and 57P03, drop the connection on 57P01 and class 08.

use std::fmt;

use punctual_core::dispatcher::WaitsFor;
use punctual_core::event::{Abandoned, Full, PinEnd, Refusal};
use punctual_core::query::SqlState;
use punctual_core::time::Span;

use super::messages::Malformed;
use crate::relay::{ConnectError, Garbled};

/// An error or a notice, as a client gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its code.
    pub sqlstate: SqlState,
    /// What went wrong, in one sentence.
    pub message: String,
    /// What there is to know besides.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem with a code of five characters.
    pub fn new(code: &[u8; 5], message: impl Into<String>) -> Problem {
        Problem { sqlstate: SqlState(*code), message: message.into(), detail: None, hint: None }
    }

    /// With something that is worth knowing.
    pub fn detail(mut self, detail: impl Into<String>) -> Problem {
        self.detail = Some(detail.into());
        self
    }

    /// With what keeps clusters from being there, if that is known and nothing else is worth knowing more.
    pub fn trouble(self, trouble: Option<&str>) -> Problem {
        match trouble {
            Some(trouble) if self.detail.is_none() => self.detail(trouble),
            _ => self,
        }
    }

    /// With advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// A query was not run.
    pub fn refused(because: &Refusal) -> Problem {
        let (code, hint): (&[u8; 5], String) = match because {
            Refusal::Full { of, wait, .. } => {
                let key = match of {
                    Full::Class(_) => "max_queued of its class",
                    Full::Lane(_) => "max_queued of its lane",
                    Full::Gateway => "max_waiting",
                };
                let when = wait.map_or_else(|| "later".to_owned(), |wait| format!("in about {}", rounded(wait)));
                (b"53300", format!("Try again {when}, or raise {key}."))
            }
            Refusal::TooLate { wait, .. } => {
                (b"53300", format!("Try again in about {}, add a cluster, or give it more time.", rounded(*wait)))
            }
            Refusal::WaitedTooLong { lacked, .. } => {
                let what = match lacked {
                    WaitsFor::Cluster | WaitsFor::Turn => "add a cluster",
                    WaitsFor::Class => "raise max_running of its class",
                    WaitsFor::Lane => "raise the limit of its lane",
                    WaitsFor::Gateway => "raise max_running",
                };
                (b"53300", format!("Try again later, {what}, or let it wait for longer."))
            }
            Refusal::NoCluster => (b"57P03", "SELECT * FROM punctual.clusters shows the state of each.".to_owned()),
            Refusal::NoClusterCouldRun { .. } => {
                (b"57P03", "SELECT * FROM punctual.clusters shows the state of each.".to_owned())
            }
            Refusal::ShuttingDown => (b"57P01", "Connect again when it is back.".to_owned()),
            Refusal::Cancelled => {
                return Problem::new(b"57014", "canceling statement due to user request").detail(sentence(because));
            }
            Refusal::NotItsTurn => (b"55000", "Wait for the end of a query before the next is sent.".to_owned()),
        };
        Problem::new(code, format!("the query was not run: {because}")).hint(hint)
    }

    /// The end of a running query is not waited for.
    pub fn abandoned(because: &Abandoned, cluster: &str) -> Problem {
        match because {
            Abandoned::WillNotStop => Problem::new(b"57014", "canceling statement due to user request")
                .detail(format!("Cluster {cluster} did not stop working on it; the connection to it was closed.")),
            Abandoned::ClusterLost { cause } => {
                Problem::new(b"57P01", format!("the query was lost: cluster {cluster} is gone: {cause}"))
                    .hint("Whether it had an effect is not known. A query that only reads can be sent again.")
            }
            Abandoned::DrainEnded { .. } => {
                Problem::new(b"57P01", format!("the query was ended: cluster {cluster} has to stop"))
                    .detail("It did not finish within the time that a draining cluster has.")
                    .hint("A query that only reads can be sent again.")
            }
        }
    }

    /// A query was stopped since it ran for as long as its class allows.
    pub fn cut_short(limit: Span) -> Problem {
        Problem::new(b"57014", "canceling statement: it has run for as long as its class allows")
            .detail(format!("The class has `runtime_cap = \"{limit}\"`."))
    }

    /// A query was cancelled, and its client takes no rows, so that its cluster cannot say that it has stopped.
    pub fn unread(cluster: &str) -> Problem {
        Problem::new(b"57014", "canceling statement due to user request").detail(format!(
            "The rows that cluster {cluster} had sent were not taken; the connection to it was closed."
        ))
    }

    /// What may write was sent in a session that is held on a cluster that only reads.
    pub fn held_by_reader(cluster: &str, why: Option<&str>) -> Problem {
        let message = format!("cannot write on cluster {cluster}, which only reads");
        let why = why.unwrap_or("it holds it");
        Problem::new(b"25006", message)
            .detail(format!("The session keeps its connection to {cluster}: {why}."))
            .hint("Begin transactions that write without READ ONLY, or let go of the connection with DISCARD ALL.")
    }

    /// A session loses the cluster that it held.
    pub fn pin_ended(because: &PinEnd, cluster: &str) -> Problem {
        match because {
            PinEnd::Idle { limit } => Problem::new(
                b"25P03",
                format!("terminating connection: the session held cluster {cluster} for {limit} without using it"),
            )
            .hint("End transactions when their work is done."),
            PinEnd::ClusterLost { cause } => Problem::new(
                b"57P01",
                format!("terminating connection: the session held cluster {cluster}, which is gone: {cause}"),
            ),
            PinEnd::DrainEnded => Problem::new(
                b"57P01",
                format!("terminating connection: the session held cluster {cluster}, which has to stop"),
            ),
        }
    }

    /// A cluster could not be connected to, and the query goes nowhere else.
    pub fn no_connection(error: &ConnectError, cluster: &str) -> Problem {
        match error {
            ConnectError::Refused(refused) => {
                Problem { sqlstate: refused.sqlstate, ..Problem::new(b"08006", refused.message.clone()) }
                    .detail(format!("Cluster {cluster} said so."))
            }
            ConnectError::Nobody { user } => {
                Problem::new(b"28000", format!("user \"{user}\" may not come to cluster {cluster}"))
                    .hint("Add a line for it to the `credentials_file` of the cluster.")
            }
            error if error.is_ours() => {
                Problem::new(b"53000", format!("no room for a connection to cluster {cluster}: {error}"))
                    .hint("Let the gateway have more open files (ulimit -n, LimitNOFILE), or lower max_sessions.")
            }
            error => Problem::new(b"08006", format!("no connection to cluster {cluster}: {error}")),
        }
    }

    /// The connection to a cluster broke under a query.
    pub fn connection_lost(why: &Loss, cluster: &str) -> Problem {
        Problem::new(b"08006", format!("the connection to cluster {cluster} was lost: {why}"))
            .hint("Whether the query had an effect is not known. One that only reads can be sent again.")
    }

    /// A statement that no cluster is there for.
    pub fn no_cluster() -> Problem {
        Problem::refused(&Refusal::NoCluster)
    }

    /// The session ends because the gateway does.
    pub fn farewell() -> Problem {
        Problem::new(b"57P01", "terminating connection: the gateway is shutting down")
    }

    /// A message of the client's is malformed. `utf8`: its texts are to be UTF-8.
    pub fn malformed(malformed: &Malformed, utf8: bool) -> Problem {
        match malformed {
            Malformed::NotUtf8(_) if !utf8 => {
                let message = "texts of prepared statements pass through the gateway in UTF-8 only";
                Problem::new(b"0A000", message).hint("SET client_encoding = 'UTF8', or send a simple query.")
            }
            Malformed::NotUtf8(_) => Problem::new(b"22021", malformed.to_string()),
            _ => Problem::new(b"08P01", malformed.to_string()),
        }
    }

    /// A client broke the protocol.
    pub fn garbled(garbled: &Garbled) -> Problem {
        Problem::new(b"08P01", format!("this is not the Postgres protocol: {garbled}"))
    }
}

/// How a connection to a cluster broke.
#[derive(Debug)]
pub enum Loss {
    /// The cluster hung up.
    HungUp,
    /// The system reports an error.
    Broken(std::io::Error),
    /// The cluster said goodbye with this.
    Goodbye(String),
    /// The cluster does not keep to the protocol.
    Garbled(Garbled),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::HungUp => f.write_str("it hung up"),
            Loss::Broken(cause) => cause.fmt(f),
            Loss::Goodbye(message) => write!(f, "it said \"{message}\""),
            Loss::Garbled(garbled) => garbled.fmt(f),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.sqlstate.code())
    }
}

/// A reason as a sentence of its own.
fn sentence(reason: &impl fmt::Display) -> String {
    let text = reason.to_string();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str()),
        None => text,
    }
}

/// A wait that is only about so long: in whole seconds, one at least.
pub fn rounded(wait: Span) -> Span {
    Span::from_secs(wait.micros().div_ceil(1_000_000).max(1))
}

#[cfg(test)]
mod tests {
    use punctual_core::admit::lanes::OPEN;
    use punctual_core::event::LossCause;

    use super::*;

    #[test]
    fn each_refusal_has_its_code() {
        let code = |because| Problem::refused(&because).sqlstate.code().to_owned();
        assert_eq!(code(Refusal::Full { of: Full::Gateway, lane: OPEN, limit: 7, wait: None }), "53300");
        assert_eq!(
            code(Refusal::WaitedTooLong { limit: Span::from_secs(1), lacked: WaitsFor::Lane, lane: OPEN }),
            "53300"
        );
        assert_eq!(code(Refusal::NoCluster), "57P03");
        assert_eq!(code(Refusal::NoClusterCouldRun { tried: 2 }), "57P03");
        assert_eq!(code(Refusal::ShuttingDown), "57P01");
        assert_eq!(code(Refusal::Cancelled), "57014");
    }

    #[test]
    fn reasons_read_as_sentences() {
        let problem = Problem::refused(&Refusal::WaitedTooLong {
            limit: Span::from_secs(90),
            lacked: WaitsFor::Cluster,
            lane: OPEN,
        });
        assert_eq!(problem.message, "the query was not run: no cluster had room for it within 90s");
        let problem = Problem::abandoned(&Abandoned::ClusterLost { cause: LossCause::Exited }, "a");
        assert_eq!(problem.message, "the query was lost: cluster a is gone: its process ended");
        let problem = Problem::refused(&Refusal::Cancelled);
        assert_eq!(problem.detail.as_deref(), Some("It was cancelled while it waited."));
    }
}
