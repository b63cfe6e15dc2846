//! The bodies of the few messages of a pipeline that have to be understood.

use super::unit::body;
use crate::relay::Garbled;
use crate::relay::frames;

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
    /// If it ends before its content does.
    pub fn read(frame: &'a [u8]) -> Result<Parse<'a>, Garbled> {
        let mut rest = body(frame);
        let name = frames::split_text(&mut rest).ok_or(Garbled::Short(b'P'))?;
        let sql = frames::split_text(&mut rest).ok_or(Garbled::Short(b'P'))?;
        if rest.len() < 2 {
            return Err(Garbled::Short(b'P'));
        }
        Ok(Parse { name, sql, types: rest })
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
    /// If it ends before its content does.
    pub fn read(frame: &'a [u8]) -> Result<Bind<'a>, Garbled> {
        let mut rest = body(frame);
        let portal = frames::split_text(&mut rest).ok_or(Garbled::Short(b'B'))?;
        let statement = frames::split_text(&mut rest).ok_or(Garbled::Short(b'B'))?;
        Ok(Bind { portal, statement, rest })
    }

    /// How many values it brings.
    ///
    /// # Errors
    /// If it ends before its content does.
    pub fn parameters(&self) -> Result<u16, Garbled> {
        let mut rest = self.rest;
        formats(&mut rest)?;
        short(&mut rest)
    }

    /// The formats that it wants results in; its parameters must be none.
    ///
    /// # Errors
    /// If it ends before its content does.
    pub fn result_formats(&self) -> Result<Vec<u16>, Garbled> {
        let mut rest = self.rest;
        formats(&mut rest)?;
        short(&mut rest)?;
        formats(&mut rest)
    }
}

fn short(rest: &mut &[u8]) -> Result<u16, Garbled> {
    let (number, after) = rest.split_first_chunk::<2>().ok_or(Garbled::Short(b'B'))?;
    *rest = after;
    Ok(u16::from_be_bytes(*number))
}

fn formats(rest: &mut &[u8]) -> Result<Vec<u16>, Garbled> {
    (0..short(rest)?).map(|_| short(rest)).collect()
}

/// The portal of an Execute.
///
/// # Errors
/// If it ends before its content does.
pub fn portal_of(frame: &[u8]) -> Result<&str, Garbled> {
    frames::split_text(&mut body(frame)).ok_or(Garbled::Short(b'E'))
}

/// What a Describe or a Close is about: `S` or `P`, and a name.
///
/// # Errors
/// If it ends before its content does.
pub fn target(tag: u8, frame: &[u8]) -> Result<(u8, &str), Garbled> {
    let (what, mut rest) = body(frame).split_first().ok_or(Garbled::Short(tag))?;
    if !matches!(what, b'S' | b'P') {
        return Err(Garbled::Unexpected(*what));
    }
    Ok((*what, frames::split_text(&mut rest).ok_or(Garbled::Short(tag))?))
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
        let bytes = frame(b'B', b"p\0s\0\0\x01\0\x01\0\0\0\x02\0\0\0\x01");
        let bind = Bind::read(&bytes).unwrap();
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.parameters(), Ok(0));
        assert_eq!(bind.result_formats(), Ok(vec![0, 1]));
    }

    #[test]
    fn messages_that_end_too_early_are_found() {
        assert_eq!(Parse::read(&frame(b'P', b"s\0select")).err(), Some(Garbled::Short(b'P')));
        assert_eq!(Parse::read(&frame(b'P', b"s\0select\0\0")).err(), Some(Garbled::Short(b'P')));
        assert_eq!(Bind::read(&frame(b'B', b"s\0")).err(), Some(Garbled::Short(b'B')));
        assert_eq!(target(b'D', &frame(b'D', b"Xa\0")), Err(Garbled::Unexpected(b'X')));
        assert_eq!(target(b'D', &frame(b'D', b"")), Err(Garbled::Short(b'D')));
        assert_eq!(portal_of(&frame(b'E', b"a")), Err(Garbled::Short(b'E')));
    }
}
