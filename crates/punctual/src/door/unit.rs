//! What a client has sent, cut into units of placement.
//!
//! ```text
//!   Q                      one unit
//!   P B D E S              one unit: a pipeline up to its Sync
//!   P D H │ B E S          one unit in two segments: the client wants replies before it goes on
//! ```
//!
//! No I/O here, and no frame is decoded: only tags and lengths are looked at.

use crate::relay::Garbled;
use crate::relay::frames::{self, HEADER, Header};

/// What comes next from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not known yet: more bytes have to come.
    Partial,
    /// A simple query of that many bytes.
    Simple(usize),
    /// Messages of a pipeline, that many bytes.
    Segment(usize, End),
    /// A function call of that many bytes.
    Call(usize),
    /// What belongs to a COPY that is over: that many bytes.
    Stray(usize),
    /// The client says goodbye.
    Terminate,
}

/// How a segment of a pipeline ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a Sync: so does the unit.
    Sync,
    /// With a Flush.
    Flush,
    /// As much as may be held back is there.
    Full,
}

/// Looks at what a client has sent. `seen` is how far that has been done before, for bytes that come one by one; it is
/// zero again when something is whole.
///
/// # Errors
/// If it is not what a client may send, or a message is longer than `max`.
pub fn next(input: &[u8], seen: &mut usize, max: usize) -> Result<Next, Garbled> {
    let mut flushed = 0;
    loop {
        let partial = || match flushed {
            0 => Next::Partial,
            at => Next::Segment(at, End::Flush),
        };
        let header = frames::header(&input[*seen..]).map_err(Garbled::Length)?;
        let Some(Header { tag, len }) = header else { return Ok(settled(partial(), seen)) };
        if len > max {
            return Err(Garbled::TooLong { tag, len });
        }
        let in_pipeline = matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'S');
        // A simple query or a goodbye may come in the middle of a pipeline: it is cut there.
        if *seen > 0 && (!in_pipeline || *seen + len > max) {
            return Ok(Next::Segment(std::mem::take(seen), End::Full));
        }
        if !in_pipeline && !matches!(tag, b'Q' | b'X' | b'F' | b'd' | b'c' | b'f') {
            return Err(Garbled::Unexpected(tag));
        }
        if input.len() < *seen + len {
            return Ok(settled(partial(), seen));
        }
        *seen += len;
        match tag {
            b'S' => return Ok(Next::Segment(std::mem::take(seen), End::Sync)),
            // What is there already behind a Flush goes along: some drivers flush after every message.
            b'H' => flushed = *seen,
            _ if in_pipeline => {}
            _ => *seen = 0,
        }
        match tag {
            b'Q' => return Ok(Next::Simple(len)),
            b'F' => return Ok(Next::Call(len)),
            b'X' => return Ok(Next::Terminate),
            b'd' | b'c' | b'f' => return Ok(Next::Stray(len)),
            _ => {}
        }
    }
}

/// Starts afresh if a segment was found.
fn settled(next: Next, seen: &mut usize) -> Next {
    if next != Next::Partial {
        *seen = 0;
    }
    next
}

/// The whole frames at the start of `bytes`: tag and frame.
pub fn frames_of(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = frames::header(rest).ok().flatten()?;
        let frame = rest.get(..header.len)?;
        rest = &rest[header.len..];
        Some((header.tag, frame))
    })
}

/// A frame's body.
pub fn body(frame: &[u8]) -> &[u8] {
    frame.get(HEADER..).unwrap_or(&[])
}

/// Moves CopyData and what ends it from `input` to `out`: how many bytes to move, and whether the copy is over.
/// `rest` is what is left of a frame that passed in part.
///
/// # Errors
/// If something else comes.
pub fn copy_data(input: &[u8], rest: &mut usize) -> Result<(usize, bool), Garbled> {
    let mut at = 0;
    loop {
        let n = (*rest).min(input.len() - at);
        at += n;
        *rest -= n;
        let Some(Header { tag, len }) = frames::header(&input[at..]).map_err(Garbled::Length)? else {
            return Ok((at, false));
        };
        match tag {
            b'd' => *rest = len,
            // A short frame passes whole, so that the end is seen once.
            b'c' | b'f' if input.len() >= at + len => return Ok((at + len, true)),
            b'c' | b'f' => return Ok((at, false)),
            // The cluster ignores them while it copies.
            b'H' | b'S' => *rest = len,
            tag => return Err(Garbled::Unexpected(tag)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: &[u8] = b"S\0\0\0\x04";
    const FLUSH: &[u8] = b"H\0\0\0\x04";
    const EXECUTE: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";
    const QUERY: &[u8] = b"Q\0\0\0\x06;\0";

    fn whole(bytes: &[u8]) -> Result<Next, Garbled> {
        next(bytes, &mut 0, 1_000)
    }

    #[test]
    fn units_are_found_however_their_bytes_come() {
        let bytes = [EXECUTE, SYNC, QUERY].concat();
        let mut seen = 0;
        for end in 0..15 {
            assert_eq!(next(&bytes[..end], &mut seen, 1_000), Ok(Next::Partial), "{end}");
        }
        assert_eq!(next(&bytes, &mut seen, 1_000), Ok(Next::Segment(15, End::Sync)));
        assert_eq!(whole(&bytes[15..]), Ok(Next::Simple(7)));
    }

    #[test]
    fn a_segment_ends_where_replies_are_due() {
        assert_eq!(whole(&[EXECUTE, FLUSH].concat()), Ok(Next::Segment(15, End::Flush)));
        assert_eq!(whole(&[EXECUTE, FLUSH, EXECUTE, &SYNC[..3]].concat()), Ok(Next::Segment(15, End::Flush)));
        assert_eq!(whole(&[EXECUTE, FLUSH, SYNC].concat()), Ok(Next::Segment(20, End::Sync)));
        assert_eq!(whole(&[EXECUTE, QUERY].concat()), Ok(Next::Segment(10, End::Full)));
        assert_eq!(next(&[EXECUTE, EXECUTE, EXECUTE].concat(), &mut 0, 25), Ok(Next::Segment(20, End::Full)));
    }

    #[test]
    fn what_a_client_may_not_send_is_found() {
        assert_eq!(whole(b"\x16\x03\x01\0\x05hello"), Err(Garbled::TooLong { tag: 0x16, len: 0x0301_0006 }));
        assert_eq!(whole(b"p\0\0\0\x04"), Err(Garbled::Unexpected(b'p')));
        assert!(matches!(whole(b"Q\0\0\0\0"), Err(Garbled::Length(_))));
        assert_eq!(whole(b"Q\x7f\xff\xff\xff"), Err(Garbled::TooLong { tag: b'Q', len: 0x8000_0000 }));
    }

    #[test]
    fn copy_data_streams_and_its_end_is_seen_once() {
        let bytes = [&b"d\0\0\0\x08abcd"[..], b"c\0\0\0\x04", QUERY].concat();
        let mut rest = 0;
        assert_eq!(copy_data(&bytes[..7], &mut rest), Ok((7, false)));
        assert_eq!(copy_data(&bytes[7..12], &mut rest), Ok((2, false)));
        assert_eq!(copy_data(&bytes[9..], &mut rest), Ok((5, true)));
        assert_eq!(copy_data(QUERY, &mut rest), Err(Garbled::Unexpected(b'Q')));
    }
}
