//! What the gateway itself says to clients, as frames.

use super::problem::Problem;
use crate::relay::frames::{frame, text};

/// ParseComplete.
pub const PARSE_COMPLETE: [u8; 5] = [b'1', 0, 0, 0, 4];
/// BindComplete.
pub const BIND_COMPLETE: [u8; 5] = [b'2', 0, 0, 0, 4];
/// CloseComplete.
pub const CLOSE_COMPLETE: [u8; 5] = [b'3', 0, 0, 0, 4];
/// NoData.
pub const NO_DATA: [u8; 5] = [b'n', 0, 0, 0, 4];
/// PortalSuspended.
pub const PORTAL_SUSPENDED: [u8; 5] = [b's', 0, 0, 0, 4];
/// EmptyQueryResponse.
pub const EMPTY_QUERY: [u8; 5] = [b'I', 0, 0, 0, 4];

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The session ends.
    Fatal,
    /// The query ends.
    Error,
    /// It goes on, but look.
    Warning,
    /// It goes on.
    Notice,
}

/// Appends an ErrorResponse or a NoticeResponse.
pub fn problem(out: &mut Vec<u8>, severity: Severity, problem: &Problem) {
    let (tag, name) = match severity {
        Severity::Fatal => (b'E', "FATAL"),
        Severity::Error => (b'E', "ERROR"),
        Severity::Warning => (b'N', "WARNING"),
        Severity::Notice => (b'N', "NOTICE"),
    };
    frame(out, tag, |out| {
        let mut field = |kind: u8, value: &str| {
            out.push(kind);
            text(out, value);
        };
        field(b'S', name);
        field(b'V', name);
        field(b'C', problem.sqlstate.code());
        field(b'M', &problem.message);
        if let Some(detail) = &problem.detail {
            field(b'D', detail);
        }
        if let Some(hint) = &problem.hint {
            field(b'H', hint);
        }
        out.push(0);
    });
}

/// Appends a ReadyForQuery with the status of the transaction: `I`, `T` or `E`.
pub fn ready(out: &mut Vec<u8>, status: u8) {
    frame(out, b'Z', |out| out.push(status));
}

/// Appends a CommandComplete.
pub fn complete(out: &mut Vec<u8>, tag: &str) {
    frame(out, b'C', |out| text(out, tag));
}

/// Appends a ParameterStatus.
pub fn parameter(out: &mut Vec<u8>, name: &str, value: &str) {
    frame(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

/// Appends an AuthenticationOk.
pub fn welcome(out: &mut Vec<u8>) {
    frame(out, b'R', |out| out.extend_from_slice(&0u32.to_be_bytes()));
}

/// Appends an AuthenticationSASL with the mechanisms to choose from, the best first.
pub fn sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    frame(out, b'R', |out| {
        out.extend_from_slice(&10u32.to_be_bytes());
        mechanisms.iter().for_each(|mechanism| text(out, mechanism));
        out.push(0);
    });
}

/// Appends an AuthenticationSASLContinue.
pub fn sasl_continue(out: &mut Vec<u8>, message: &str) {
    frame(out, b'R', |out| {
        out.extend_from_slice(&11u32.to_be_bytes());
        out.extend_from_slice(message.as_bytes());
    });
}

/// Appends an AuthenticationSASLFinal.
pub fn sasl_final(out: &mut Vec<u8>, message: &str) {
    frame(out, b'R', |out| {
        out.extend_from_slice(&12u32.to_be_bytes());
        out.extend_from_slice(message.as_bytes());
    });
}

/// Appends a BackendKeyData.
pub fn key(out: &mut Vec<u8>, process: u32, secret: u32) {
    frame(out, b'K', |out| {
        out.extend_from_slice(&process.to_be_bytes());
        out.extend_from_slice(&secret.to_be_bytes());
    });
}

/// Appends a NegotiateProtocolVersion: 3.0 and none of those options.
pub fn negotiate(out: &mut Vec<u8>, unknown: &[String]) {
    frame(out, b'v', |out| {
        out.extend_from_slice(&0u32.to_be_bytes());
        out.extend_from_slice(&(unknown.len() as u32).to_be_bytes());
        unknown.iter().for_each(|option| text(out, option));
    });
}
