//! The bodies of the few messages of a client that have to be understood, read with as much care as Postgres reads them.
//!
//! What is malformed never reaches a cluster: some would hang up on it, and the blame would fall on them. It costs the
//! client an error, in Postgres' own words, and the session goes on from its next Sync.

use std::fmt;

use super::unit::body;
#[cfg(test)]
use crate::relay::frames;

/// Why a message cannot be what it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends before its content does.
    Short,
    /// It goes on after its content has ended.
    Long,
    /// A text in it has no end.
    Endless,
    /// It is about neither a statement nor a portal.
    Subtype {
        /// The message.
        tag: u8,
        /// What it says that it is about.
        what: u8,
    },
    /// A text in it is not UTF-8; from here on.
    NotUtf8(Vec<u8>),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short => f.write_str("insufficient data left in message"),
            Malformed::Long => f.write_str("invalid message format"),
            Malformed::Endless => f.write_str("invalid string in message"),
            Malformed::Subtype { tag, what } => {
                let name = if *tag == b'C' { "CLOSE" } else { "DESCRIBE" };
                write!(f, "invalid {name} message subtype {what}")
            }
            Malformed::NotUtf8(bytes) => {
                f.write_str("invalid byte sequence for encoding \"UTF8\":")?;
                bytes.iter().try_for_each(|byte| write!(f, " 0x{byte:02x}"))
            }
        }
    }
}

/// A Parse.
pub struct Parse<'a> {
    /// The statement's name.
    pub name: &'a str,
    /// Its text.
    pub sql: &'a str,
    /// The count and ids of its parameters' types, as they came.
    pub types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// Reads a whole frame.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn read(frame: &'a [u8]) -> Result<Parse<'a>, Malformed> {
        let mut rest = body(frame);
        let (name, sql, types) = (text(&mut rest)?, text(&mut rest)?, rest);
        let count = usize::from(short(&mut rest)?);
        take(&mut rest, 4 * count)?;
        end(rest)?;
        Ok(Parse { name, sql, types })
    }
}

/// A Bind.
pub struct Bind<'a> {
    /// The portal's name.
    pub portal: &'a str,
    /// The statement's name.
    pub statement: &'a str,
    /// Parameters and formats, as they came.
    pub rest: &'a [u8],
}

impl<'a> Bind<'a> {
    /// Reads a whole frame.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn read(frame: &'a [u8]) -> Result<Bind<'a>, Malformed> {
        let mut rest = body(frame);
        let (portal, statement) = (text(&mut rest)?, text(&mut rest)?);
        let bind = Bind { portal, statement, rest };
        formats(&mut rest)?.for_each(drop);
        for _ in 0..short(&mut rest)? {
            value(&mut rest)?;
        }
        formats(&mut rest)?.for_each(drop);
        end(rest)?;
        Ok(bind)
    }

    /// The formats of its values, and the values; None is null.
    pub fn values(&self) -> (Vec<u16>, Vec<Option<&'a [u8]>>) {
        let mut rest = self.rest;
        let formats: Vec<u16> = formats(&mut rest).map(Iterator::collect).unwrap_or_default();
        // It was read whole before.
        let count = short(&mut rest).unwrap_or(0);
        (formats, (0..count).map_while(|_| value(&mut rest).ok()).collect())
    }

    /// The formats that it wants results in.
    pub fn result_formats(&self) -> Vec<u16> {
        let mut rest = self.rest;
        let _ = formats(&mut rest);
        for _ in 0..short(&mut rest).unwrap_or(0) {
            let _ = value(&mut rest);
        }
        formats(&mut rest).map(Iterator::collect).unwrap_or_default()
    }
}

/// The portal and the limit of an Execute; 0: none.
///
/// # Errors
/// If it is malformed.
pub fn execute(frame: &[u8]) -> Result<(&str, u32), Malformed> {
    let mut rest = body(frame);
    let portal = text(&mut rest)?;
    let limit = take(&mut rest, 4)?.try_into().map_or(0, u32::from_be_bytes);
    end(rest)?;
    Ok((portal, limit))
}

/// What a Describe or a Close is about: `S` or `P`, and a name.
///
/// # Errors
/// If it is malformed.
pub fn target(tag: u8, frame: &[u8]) -> Result<(u8, &str), Malformed> {
    let mut rest = body(frame);
    let what = take(&mut rest, 1)?[0];
    let name = text(&mut rest)?;
    end(rest)?;
    if !matches!(what, b'S' | b'P') {
        return Err(Malformed::Subtype { tag, what });
    }
    Ok((what, name))
}

/// Checks a Sync or a Flush, which say nothing else.
///
/// # Errors
/// If it does.
pub fn bare(frame: &[u8]) -> Result<(), Malformed> {
    end(body(frame))
}

/// The text of a simple query, as it came.
///
/// # Errors
/// If it has no end, or ends too early.
pub fn query(frame: &[u8]) -> Result<&[u8], Malformed> {
    let mut rest = body(frame);
    let text = bytes(&mut rest)?;
    end(rest)?;
    Ok(text)
}

/// Bytes as text.
///
/// # Errors
/// If they are not UTF-8: with the first that are not, as many as would have made a character.
pub fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|error| {
        let wrong = &bytes[error.valid_up_to()..];
        let length = match wrong.first() {
            Some(0xf0..=0xf7) => 4,
            Some(0xe0..=0xef) => 3,
            Some(0xc0..=0xdf) => 2,
            _ => 1,
        };
        Malformed::NotUtf8(wrong[..length.min(wrong.len())].to_vec())
    })
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Malformed> {
    utf8(bytes(rest)?)
}

/// Splits what is before a zero off the front.
fn bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let end = rest.iter().position(|byte| *byte == 0).ok_or(Malformed::Endless)?;
    let text = &rest[..end];
    *rest = &rest[end + 1..];
    Ok(text)
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8], Malformed> {
    let (taken, after) = rest.split_at_checked(n).ok_or(Malformed::Short)?;
    *rest = after;
    Ok(taken)
}

fn short(rest: &mut &[u8]) -> Result<u16, Malformed> {
    Ok(take(rest, 2)?.try_into().map_or(0, u16::from_be_bytes))
}

/// A length and as many bytes; None is null.
fn value<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    let length = take(rest, 4)?.try_into().map_or(0, i32::from_be_bytes);
    match usize::try_from(length) {
        Ok(length) => take(rest, length).map(Some),
        Err(_) if length == -1 => Ok(None),
        Err(_) => Err(Malformed::Short),
    }
}

fn formats<'a>(rest: &mut &'a [u8]) -> Result<impl Iterator<Item = u16> + use<'a>, Malformed> {
    let count = usize::from(short(rest)?);
    Ok(take(rest, 2 * count)?.chunks_exact(2).map(|code| u16::from_be_bytes([code[0], code[1]])))
}

fn end(rest: &[u8]) -> Result<(), Malformed> {
    if rest.is_empty() { Ok(()) } else { Err(Malformed::Long) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frames::frame(&mut out, tag, |out| out.extend_from_slice(content));
        out
    }

    #[test]
    fn a_bind_is_read_as_far_as_it_matters() {
        let bytes = frame(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x02\0\0\0\x01");
        let bind = Bind::read(&bytes).unwrap();
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.values(), (vec![1], vec![Some(&b"hi"[..]), None]));
        assert_eq!(bind.result_formats(), vec![0, 1]);
    }

    #[test]
    fn a_bind_whose_counts_or_lengths_are_wrong_is_malformed() {
        let read = |content: &[u8]| Bind::read(&frame(b'B', content)).err();
        assert_eq!(read(b"\0\0\0\0\0\0\0\0"), None);
        assert_eq!(read(b"s\0"), Some(Malformed::Endless));
        assert_eq!(read(b"\0\0\0\0\0\0"), Some(Malformed::Short));
        assert_eq!(read(b"\0\0\0\x05\0\0\0\0\0\0"), Some(Malformed::Short));
        assert_eq!(read(b"\0\0\0\0\xff\xff\0\0"), Some(Malformed::Short));
        assert_eq!(read(b"\0\0\0\0\0\x01\0\0\0\x09abc\0\0"), Some(Malformed::Short));
        assert_eq!(read(b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), Some(Malformed::Short));
        assert_eq!(read(b"\0\0\0\0\0\0\0\0more"), Some(Malformed::Long));
        assert_eq!(read(b"\xff\0\0\0\0\0\0\0\0"), Some(Malformed::NotUtf8(vec![0xff])));
    }

    #[test]
    fn messages_that_end_at_the_wrong_place_are_found() {
        let parse = |content: &[u8]| Parse::read(&frame(b'P', content)).err();
        assert_eq!(parse(b"s\0select\0\0\0"), None);
        assert_eq!(parse(b"s\0select"), Some(Malformed::Endless));
        assert_eq!(parse(b"s\0select\0\0"), Some(Malformed::Short));
        assert_eq!(parse(b"s\0select\0\0\x02\0\0\0\x17"), Some(Malformed::Short));
        assert_eq!(parse(b"s\0select 1\0 2\0\0\0"), Some(Malformed::Short));
        assert_eq!(parse(b"s\0select '\xe9t\xe9'\0\0\0"), Some(Malformed::NotUtf8(vec![0xe9, b't', 0xe9])));
        assert_eq!(target(b'D', &frame(b'D', b"Xa\0")), Err(Malformed::Subtype { tag: b'D', what: b'X' }));
        assert_eq!(target(b'D', &frame(b'D', b"")), Err(Malformed::Short));
        assert_eq!(target(b'C', &frame(b'C', b"Sa\0b")), Err(Malformed::Long));
        assert_eq!(execute(&frame(b'E', b"a")), Err(Malformed::Endless));
        assert_eq!(execute(&frame(b'E', b"a\0\0\0")), Err(Malformed::Short));
        assert_eq!(execute(&frame(b'E', b"a\0\0\0\0\x07")), Ok(("a", 7)));
        assert_eq!(query(&frame(b'Q', b"select 1")), Err(Malformed::Endless));
        assert_eq!(query(&frame(b'Q', b"")), Err(Malformed::Endless));
        assert_eq!(query(&frame(b'Q', b"select\0 1\0")), Err(Malformed::Long));
        assert_eq!(bare(&frame(b'H', b"?")), Err(Malformed::Long));
    }

    #[test]
    fn what_is_wrong_is_said_as_postgres_says_it() {
        assert_eq!(
            Malformed::NotUtf8(vec![0xe9, 0x74]).to_string(),
            "invalid byte sequence for encoding \"UTF8\": 0xe9 0x74"
        );
        assert_eq!(Malformed::Subtype { tag: b'C', what: 88 }.to_string(), "invalid CLOSE message subtype 88");
    }
}
