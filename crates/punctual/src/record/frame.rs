//! Files of checksummed frames: what history's logs and the journal's segments are made of.
//!
//! ```text
//!   magic (8) version (4) │ length (4) crc32 (4) payload │ length crc32 payload │ …
//! ```
//!
//! Numbers are little-endian; the checksum covers the length and the payload. A process may be killed within any
//! write, so the end of a file may be torn: whatever is not a whole frame there is no error. Damage before the end (a
//! flipped bit) costs the frames that it touches: reading goes on at the next place where a frame's checksum is right.
//! [`MAX_FRAME`] is below 2^24, so that a length always has a zero byte on top: text that clients send cannot hold
//! one, and so cannot pass for a frame.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The largest payload.
pub(crate) const MAX_FRAME: usize = (1 << 24) - 1;

/// Bytes before the first frame.
pub(crate) const HEADER: usize = 12;

/// Bytes before each payload.
const PREFIX: usize = 8;

/// What is read at once, unless a frame is larger.
const WINDOW: usize = 256 << 10;

/// How far after a damaged frame the next one is looked for.
const SEARCH: u64 = 2 << 20;

/// Bytes that may be checksummed in one such search: it is quadratic for a file made to be so.
const SEARCH_WORK: usize = 256 << 20;

/// What a file says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) magic: [u8; 8],
    /// The version that is written.
    pub(crate) version: u32,
    /// The oldest that is read.
    pub(crate) oldest: u32,
}

impl Format {
    /// The first bytes of such a file.
    pub(crate) fn header(self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&self.magic);
        header[8..].copy_from_slice(&self.version.to_le_bytes());
        header
    }
}

/// Appends a frame. False, and nothing appended, if the payload is empty or larger than [`MAX_FRAME`].
pub(crate) fn append(out: &mut Vec<u8>, payload: &[u8]) -> bool {
    if payload.is_empty() || payload.len() > MAX_FRAME {
        return false;
    }
    let length = (payload.len() as u32).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(length, payload).to_le_bytes());
    out.extend_from_slice(payload);
    true
}

fn checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&length);
    crc.update(payload);
    crc.finalize()
}

/// What a file turned out to be.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Frames of the right format.
    Frames(Frames),
    /// Fewer bytes than a header, and those could begin one.
    Torn,
    /// Something else.
    Foreign,
    /// The right kind in another version.
    Version(u32),
}

/// Looks at the start of a file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn open(file: File, format: Format) -> io::Result<Opened> {
    let len = file.metadata()?.len();
    let mut start = [0; HEADER];
    let have = HEADER.min(len as usize);
    file.read_exact_at(&mut start[..have], 0)?;
    let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
    let known = || (format.oldest..=format.version).contains(&version);
    let begins = |version| start[..have] == Format { version, ..format }.header()[..have];
    Ok(match have {
        HEADER if start[..8] == format.magic && known() => {
            Opened::Frames(Frames { file, version, len, at: HEADER as u64, window: Vec::new(), window_at: 0 })
        }
        HEADER if start[..8] == format.magic => Opened::Version(version),
        0..HEADER if (format.oldest..=format.version).any(begins) => Opened::Torn,
        _ => Opened::Foreign,
    })
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A frame's payload.
    Frame(&'a [u8]),
    /// That many bytes are not what was written; a frame follows.
    Damaged {
        /// How many.
        bytes: u64,
    },
    /// That many bytes at the end are no frame.
    Torn {
        /// How many.
        bytes: u64,
        /// True if a write that did not complete explains it.
        plain: bool,
    },
    /// Nothing any more.
    End,
}

/// Reads frames, as far as the file went when it was opened: so a file can be read while it is written.
#[derive(Debug)]
pub(crate) struct Frames {
    file: File,
    version: u32,
    len: u64,
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Frames {
    /// The version of what is in them.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Where the next frame begins; before anything torn, that is how much of the file is good.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that were not read yet.
    pub(crate) fn left(&self) -> u64 {
        self.len.saturating_sub(self.at)
    }

    /// Reads nothing any more.
    pub(crate) fn give_up(&mut self) {
        self.at = self.len;
    }

    /// The next frame, or why there is none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        let (at, left) = (self.at, self.len.saturating_sub(self.at));
        if left == 0 {
            return Ok(Next::End);
        }
        let mut unlimited = usize::MAX;
        if let Some(length) = self.valid(at, &mut unlimited)? {
            self.at = at + (PREFIX + length) as u64;
            let payload = self.view(at + PREFIX as u64, length)?;
            return Ok(payload.map_or(Next::End, Next::Frame));
        }
        if let Some(next) = self.search(at)? {
            self.at = next;
            return Ok(Next::Damaged { bytes: next - at });
        }
        let plain = self.is_plain_tear(at)?;
        let bytes = self.len.saturating_sub(at);
        self.at = self.len;
        Ok(if bytes == 0 { Next::End } else { Next::Torn { bytes, plain } })
    }

    /// The length of the payload of the frame at `at`, if there is one whose checksum is right. Takes what it
    /// checksums from `work`.
    fn valid(&mut self, at: u64, work: &mut usize) -> io::Result<Option<usize>> {
        let Some((length, crc)) = self.prefix(at)? else { return Ok(None) };
        if length == 0 || length > MAX_FRAME || at + (PREFIX + length) as u64 > self.len {
            return Ok(None);
        }
        *work = work.saturating_sub(length);
        let Some(payload) = self.view(at + PREFIX as u64, length)? else { return Ok(None) };
        Ok((checksum((length as u32).to_le_bytes(), payload) == crc).then_some(length))
    }

    fn prefix(&mut self, at: u64) -> io::Result<Option<(usize, u32)>> {
        Ok(self.view(at, PREFIX)?.map(|prefix| {
            let word =
                |from: usize| u32::from_le_bytes([prefix[from], prefix[from + 1], prefix[from + 2], prefix[from + 3]]);
            (word(0) as usize, word(4))
        }))
    }

    /// Where the next frame after the damaged one at `at` begins: where its length says, or else nearby.
    fn search(&mut self, at: u64) -> io::Result<Option<u64>> {
        let mut work = SEARCH_WORK;
        if let Some((length, _)) = self.prefix(at)?.filter(|(length, _)| *length <= MAX_FRAME) {
            let next = at + (PREFIX + length) as u64;
            if self.valid(next, &mut work)?.is_some() {
                return Ok(Some(next));
            }
        }
        for next in at + 1..(at + SEARCH).min(self.len) {
            if self.valid(next, &mut work)?.is_some() {
                return Ok(Some(next));
            }
            if work == 0 {
                break;
            }
        }
        Ok(None)
    }

    /// True if what is at `at` is the beginning of a frame that goes to the end of the file or beyond, or nothing but
    /// zeros, as file systems leave them after a power failure.
    fn is_plain_tear(&mut self, at: u64) -> io::Result<bool> {
        let Some((length, _)) = self.prefix(at)? else { return Ok(true) };
        if length <= MAX_FRAME && length > 0 && at + (PREFIX + length) as u64 >= self.len {
            return Ok(true);
        }
        let mut from = at;
        while from < self.len {
            let n = WINDOW.min((self.len - from) as usize);
            if self.view(from, n)?.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                return Ok(false);
            }
            from += n as u64;
        }
        Ok(true)
    }

    /// `n` bytes from `at`; None if the file does not go that far (any more).
    fn view(&mut self, at: u64, n: usize) -> io::Result<Option<&[u8]>> {
        if at + n as u64 > self.len {
            return Ok(None);
        }
        let inside = at >= self.window_at && at + n as u64 <= self.window_at + self.window.len() as u64;
        if !inside {
            let want = n.max(WINDOW).min((self.len - at) as usize);
            self.window.resize(want, 0);
            let got = read_up_to(&self.file, &mut self.window, at)?;
            self.window.truncate(got);
            self.window_at = at;
            if got < want {
                // The file was cut while it was read: by its writer, to undo a write that failed.
                self.len = at + got as u64;
            }
            if got < n {
                return Ok(None);
            }
        }
        let start = (at - self.window_at) as usize;
        Ok(Some(&self.window[start..start + n]))
    }
}

fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], at + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const FORMAT: Format = Format { magic: *b"PNCTTEST", version: 3, oldest: 2 };

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn bytes_of(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = FORMAT.header().to_vec();
        assert!(payloads.iter().all(|payload| append(&mut bytes, payload)));
        bytes
    }

    /// The payloads that can be read, and the bytes that are damaged and torn.
    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, u64, u64) {
        let Opened::Frames(mut frames) = open(file_of(bytes), FORMAT).unwrap() else { panic!("not frames") };
        let (mut payloads, mut damaged, mut torn) = (Vec::new(), 0, 0);
        loop {
            match frames.next().unwrap() {
                Next::Frame(payload) => payloads.push(payload.to_vec()),
                Next::Damaged { bytes } => damaged += bytes,
                Next::Torn { bytes, .. } => torn += bytes,
                Next::End => return (payloads, damaged, torn),
            }
        }
    }

    #[test]
    fn what_was_written_is_read_whatever_its_size() {
        let large = vec![7; WINDOW * 3];
        let payloads: [&[u8]; 4] = [b"a", &large, b"bc", &large[..WINDOW]];
        let (read, damaged, torn) = read(&bytes_of(&payloads));
        assert_eq!((read, damaged, torn), (payloads.map(<[u8]>::to_vec).to_vec(), 0, 0));
    }

    #[test]
    fn a_tail_torn_at_any_byte_costs_the_last_frame_only() {
        let whole = bytes_of(&[b"first", b"second", b"third"]);
        let last = whole.len() - (PREFIX + 5);
        for end in last..whole.len() {
            let (read, damaged, torn) = read(&whole[..end]);
            assert_eq!(read, [b"first".to_vec(), b"second".to_vec()], "cut at {end}");
            assert_eq!((damaged, torn), (0, (end - last) as u64), "cut at {end}");
        }
    }

    #[test]
    fn any_flipped_bit_costs_one_frame_only() {
        let whole = bytes_of(&[b"first", b"second", b"third"]);
        for at in HEADER..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let (read, damaged, torn) = read(&bytes);
                assert_eq!(read.len(), 2, "bit {bit} of byte {at}");
                assert!(damaged + torn > 0, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn zeros_at_the_end_are_a_plain_tear_and_other_rubbish_is_not() {
        for (rubbish, expected) in [(vec![0; 100], true), (vec![1, 0, 0, 0, 9, 9, 9, 9, 9, 9], false)] {
            let mut bytes = bytes_of(&[b"first"]);
            bytes.extend_from_slice(&rubbish);
            let Opened::Frames(mut frames) = open(file_of(&bytes), FORMAT).unwrap() else { panic!("not frames") };
            assert_eq!(frames.next().unwrap(), Next::Frame(b"first"));
            let next = frames.next().unwrap();
            assert_eq!(next, Next::Torn { bytes: rubbish.len() as u64, plain: expected });
        }
    }

    #[test]
    fn other_files_are_told_apart_by_their_first_bytes() {
        assert!(matches!(open(file_of(b""), FORMAT).unwrap(), Opened::Torn));
        assert!(matches!(open(file_of(b"PNCTTEST\x03"), FORMAT).unwrap(), Opened::Torn));
        assert!(matches!(open(file_of(b"PNCTTEST\x09\0\0\0"), FORMAT).unwrap(), Opened::Version(9)));
        assert!(matches!(open(file_of(b"PAR1"), FORMAT).unwrap(), Opened::Foreign));
        assert!(matches!(open(file_of(&[0; 64]), FORMAT).unwrap(), Opened::Foreign));
    }

    #[test]
    fn what_cannot_be_a_frame_is_not_appended() {
        let mut bytes = Vec::new();
        assert!(!append(&mut bytes, b""));
        assert!(!append(&mut bytes, &vec![1; MAX_FRAME + 1]));
        assert!(bytes.is_empty());
    }
}
