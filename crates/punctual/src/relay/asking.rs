//! The gateway's own questions to a cluster: one statement, the last column of whose rows is the answer.
//!
//! The text goes through Parse, which takes one statement and no more.

use std::fmt;
use std::io;

use punctual_core::query::SqlState;

use super::connection::Connection;
use super::frames;
use super::startup::sqlstate;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The cluster hung up.
    Lost(io::Error),
    /// The cluster answers with an error.
    Said(SqlState, String),
    /// What it answers breaks the protocol, or is too much.
    Unreadable,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Lost(cause) => write!(f, "the connection was lost: {cause}"),
            AskError::Said(sqlstate, message) => write!(f, "the cluster said: {message} ({})", sqlstate.code()),
            AskError::Unreadable => write!(f, "its answer cannot be read"),
        }
    }
}

/// The last column of all rows that the statement returns, a line each.
///
/// # Errors
/// If the cluster does not answer, answers with an error, or with more than `most` bytes.
pub(crate) async fn ask(connection: &mut Connection, statement: &str, most: usize) -> Result<String, AskError> {
    let mut out = Vec::with_capacity(statement.len() + 64);
    frames::parse(&mut out, "", statement, &[0, 0]);
    // No parameters, all results as text; of all rows.
    frames::frame(&mut out, b'B', |out| out.extend_from_slice(&[0; 8]));
    frames::frame(&mut out, b'E', |out| out.extend_from_slice(&[0; 5]));
    out.extend_from_slice(&frames::SYNC);
    connection.socket.write_all(&out).await.map_err(AskError::Lost)?;
    let (mut answer, mut said) = (String::new(), None);
    loop {
        let (tag, body) = next(connection, most).await?;
        match tag {
            b'Z' => break,
            b'E' => {
                let fields = frames::error_fields(&body);
                said = Some((sqlstate(fields.code), String::from_utf8_lossy(fields.message).into_owned()));
            }
            b'D' => {
                answer.push_str(&last_column(&body));
                answer.push('\n');
            }
            _ => {}
        }
        if answer.len() > most {
            return Err(AskError::Unreadable);
        }
    }
    match said {
        Some((sqlstate, message)) => Err(AskError::Said(sqlstate, message)),
        None => Ok(answer),
    }
}

/// The next frame.
async fn next(connection: &mut Connection, most: usize) -> Result<(u8, Vec<u8>), AskError> {
    loop {
        let header = frames::header(connection.input.filled()).map_err(|_| AskError::Unreadable)?;
        if let Some(frames::Header { tag, len }) = header {
            if len > most {
                return Err(AskError::Unreadable);
            }
            if connection.input.len() >= len {
                let frame = connection.input.take(len);
                return Ok((tag, frame[frames::HEADER..].to_vec()));
            }
        }
        match connection.socket.fill(&mut connection.input).await {
            Ok(0) => return Err(AskError::Lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(cause) => return Err(AskError::Lost(cause)),
        }
    }
}

/// The text of a row's last column; empty if there is none.
fn last_column(body: &[u8]) -> String {
    let mut rest = body.get(2..).unwrap_or(&[]);
    let mut last: &[u8] = &[];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let Some((value, after)) = after.split_at_checked(length) else { break };
        (last, rest) = (value, after);
    }
    String::from_utf8_lossy(last).into_owned()
}
