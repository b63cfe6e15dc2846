//! What is in a file: gzip is unpacked, marks at the start are taken off, and the first bytes tell the format.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read, copy};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::import::error::ImportError;

/// Bytes that are read at once.
const WINDOW: usize = 256 << 10;

/// Bytes that are looked at to tell the format.
const START: usize = 512;

/// What was found.
pub(super) enum Found {
    /// Not a byte.
    Empty,
    /// CSV, or anything else that is text.
    Text(Stream),
    /// JSON lines.
    Json(Stream),
    /// Parquet, unpacked.
    Parquet(File),
}

/// The bytes of a file, unpacked.
pub(super) struct Stream {
    pub(super) bytes: BufReader<Box<dyn Read>>,
    count: Arc<AtomicU64>,
}

impl Stream {
    /// Bytes of the file that have been read, packed as they are.
    pub(super) fn count(&self) -> Arc<AtomicU64> {
        self.count.clone()
    }
}

/// Opens a file. Parquet that is packed is unpacked into the directory of temporary files.
pub(super) fn open(path: &Path, scratch: &Path) -> Result<Found, ImportError> {
    let failed = |cause| ImportError::Read { file: path.to_owned(), cause };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let count: Arc<AtomicU64> = Arc::default();
    let mut raw = BufReader::with_capacity(WINDOW, Counted { file, count: count.clone() });
    let packed = raw.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
    let mut bytes: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(raw)) } else { Box::new(raw) };
    let mut start = Vec::new();
    bytes.by_ref().take(START as u64).read_to_end(&mut start).map_err(failed)?;
    if start.is_empty() {
        return Ok(Found::Empty);
    }
    if start.starts_with(b"PAR1") {
        return if packed { unpack(&start, bytes, scratch) } else { File::open(path) }
            .map(Found::Parquet)
            .map_err(failed);
    }
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Err(ImportError::Utf16 { file: path.to_owned() });
    }
    if start.starts_with(b"\xef\xbb\xbf") {
        start.drain(..3);
    }
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
    let bytes: Box<dyn Read> = Box::new(Cursor::new(start).chain(bytes));
    let stream = Stream { bytes: BufReader::with_capacity(WINDOW, bytes), count };
    match first {
        None => Ok(Found::Empty),
        Some(b'{') => Ok(Found::Json(stream)),
        Some(b'[') => Err(ImportError::JsonArray { file: path.to_owned() }),
        Some(_) => Ok(Found::Text(stream)),
    }
}

/// Unpacks a file that must be read from its end.
fn unpack(start: &[u8], mut bytes: Box<dyn Read>, scratch: &Path) -> io::Result<File> {
    let path = scratch.join("unpacked.parquet.tmp");
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    // It needs no name any more; its space is free once it is closed.
    fs::remove_file(&path)?;
    copy(&mut Cursor::new(start).chain(&mut bytes), &mut file)?;
    Ok(file)
}

/// Counts what is read.
struct Counted {
    file: File,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
