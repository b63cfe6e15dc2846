//! What is said in the log, for tests.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// What this thread logs at level info and above while it does this.
pub(crate) fn logged(doing: impl FnOnce()) -> String {
    let said = Said::default();
    let writer = said.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(log, doing);
    let bytes = said.0.lock().map(|said| said.clone()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::Error::other("a test panicked"))?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
