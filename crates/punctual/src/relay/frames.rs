//! Frames of the Postgres protocol: a tag byte, a length that counts itself, a body.
//!
//! ```text
//!   ┌─────┬────────────┬───────── length - 4 ─────────┐
//!   │ tag │ length u32 │ body                         │
//!   └─────┴────────────┴──────────────────────────────┘
//! ```
//!
//! The relay looks at headers and at the bodies of a handful of short frames; everything else passes as it is.

use std::fmt;

/// Bytes of a tag and a length.
pub const HEADER: usize = 5;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub tag: u8,
    /// Its bytes in all, tag and length included.
    pub len: usize,
}

/// A length that no frame can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength {
    /// The tag of the frame.
    pub tag: u8,
    /// What its length says.
    pub length: i32,
}

impl fmt::Display for BadLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message '{}' says that it is {} bytes long", self.tag.escape_ascii(), self.length)
    }
}

/// Reads the header at the start of `bytes`; None if it is not there yet.
///
/// # Errors
/// If the length is less than its own four bytes.
#[inline]
pub fn header(bytes: &[u8]) -> Result<Option<Header>, BadLength> {
    let [tag, a, b, c, d, ..] = *bytes else { return Ok(None) };
    let length = i32::from_be_bytes([a, b, c, d]);
    if length < 4 {
        return Err(BadLength { tag, length });
    }
    Ok(Some(Header { tag, len: length as usize + 1 }))
}

/// Appends a frame whose body `write` appends.
pub fn frame(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends text and its terminating zero; a zero inside ends the text there.
pub fn text(out: &mut Vec<u8>, text: &str) {
    let end = text.bytes().position(|byte| byte == 0).unwrap_or(text.len());
    out.extend_from_slice(&text.as_bytes()[..end]);
    out.push(0);
}

/// Splits zero-terminated text off the front of `bytes`; None if no zero is there or it is not UTF-8.
pub fn split_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    *bytes = &bytes[end + 1..];
    Some(text)
}

/// Appends a simple query.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    frame(out, b'Q', |out| text(out, sql));
}

/// Appends a Parse; `types` is the tail of a Parse frame: the count and the type ids, as they came.
pub fn parse(out: &mut Vec<u8>, name: &str, sql: &str, types: &[u8]) {
    frame(out, b'P', |out| {
        text(out, name);
        text(out, sql);
        out.extend_from_slice(types);
    });
}

/// Appends a Close of a statement (`b'S'`) or a portal (`b'P'`).
pub fn close(out: &mut Vec<u8>, what: u8, name: &str) {
    named(out, b'C', what, name);
}

/// Appends a Describe of a statement (`b'S'`) or a portal (`b'P'`).
pub fn describe(out: &mut Vec<u8>, what: u8, name: &str) {
    named(out, b'D', what, name);
}

fn named(out: &mut Vec<u8>, tag: u8, what: u8, name: &str) {
    frame(out, tag, |out| {
        out.push(what);
        text(out, name);
    });
}

/// A Sync.
pub const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];
/// A Terminate.
pub const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// The fields of an ErrorResponse or a NoticeResponse that are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorFields<'a> {
    /// `ERROR`, `FATAL`, ..., not translated.
    pub severity: &'a [u8],
    /// Five characters.
    pub code: &'a [u8],
    /// What went wrong.
    pub message: &'a [u8],
}

/// Reads what is there of an error's body: fields may be missing at its end, since only its start is waited for.
pub fn error_fields(mut body: &[u8]) -> ErrorFields<'_> {
    let mut fields = ErrorFields::default();
    while let [kind, rest @ ..] = body {
        let Some(end) = rest.iter().position(|byte| *byte == 0) else { break };
        let value = &rest[..end];
        match kind {
            b'V' => fields.severity = value,
            b'S' if fields.severity.is_empty() => fields.severity = value,
            b'C' => fields.code = value,
            b'M' => fields.message = value,
            _ => {}
        }
        body = &rest[end + 1..];
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_once_it_is_whole() {
        let mut bytes = Vec::new();
        query(&mut bytes, "select 1");
        assert_eq!(header(&bytes[..4]), Ok(None));
        assert_eq!(header(&bytes), Ok(Some(Header { tag: b'Q', len: 14 })));
        assert_eq!(bytes.len(), 14);
        assert_eq!(header(&[b'Q', 0, 0, 0, 3]), Err(BadLength { tag: b'Q', length: 3 }));
        assert_eq!(header(&[b'Q', 255, 0, 0, 3]).unwrap_err().tag, b'Q');
    }

    #[test]
    fn errors_are_read_as_far_as_they_are_there() {
        let body = b"SFEHLER\0VERROR\0C22012\0Mdivision by zero\0Fint.c\0\0";
        let fields = error_fields(body);
        assert_eq!((fields.severity, fields.code), (&b"ERROR"[..], &b"22012"[..]));
        assert_eq!(error_fields(&body[..22]).code, b"22012");
        assert_eq!(error_fields(&body[..25]).message, b"");
        assert_eq!(error_fields(b""), ErrorFields::default());
    }

    #[test]
    fn text_ends_at_its_zero() {
        let mut bytes = &b"ab\0cd"[..];
        assert_eq!(split_text(&mut bytes), Some("ab"));
        assert_eq!(split_text(&mut bytes), None);
        let mut out = Vec::new();
        text(&mut out, "a\0b");
        assert_eq!(out, b"a\0");
    }
}
