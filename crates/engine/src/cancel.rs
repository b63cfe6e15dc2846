//! Who is connected, and how a cancel request finds its session.
//!
//! A client cancels from a second connection with the number and the key that it was given at its start.
//! The request touches only a counter that the session watches: a session that waits for rows wakes at once,
//! and one that is idle ignores what was meant for a statement that had already ended.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pgwire::messages::ProtocolVersion;
use pgwire::messages::startup::SecretKey;
use tokio::sync::watch;

/// Every session of this server.
#[derive(Debug)]
pub(crate) struct Sessions {
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    next: i32,
    sessions: HashMap<i32, (Bytes, watch::Sender<u64>)>,
}

/// A place among the sessions, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    sessions: Arc<Sessions>,
    pub(crate) number: i32,
    pub(crate) key: SecretKey,
    /// Changes when the statement that runs now is to end.
    pub(crate) cancel: watch::Receiver<u64>,
}

/// Why there is no place.
#[derive(Debug)]
pub(crate) enum NoPlace {
    /// As many sessions as allowed are open.
    Full(usize),
    /// No random key could be had.
    NoKey(io::Error),
}

impl Sessions {
    pub(crate) fn new(limit: usize) -> Arc<Sessions> {
        let open = Open { next: 1, sessions: HashMap::new() };
        Arc::new(Sessions { limit, open: Mutex::new(open) })
    }

    /// Takes a place for a new session.
    pub(crate) fn enter(self: &Arc<Self>, version: ProtocolVersion) -> Result<Place, NoPlace> {
        let key = random_key(version).map_err(NoPlace::NoKey)?;
        let mut open = self.lock();
        if open.sessions.len() >= self.limit {
            return Err(NoPlace::Full(self.limit));
        }
        // After two thousand million sessions the numbers start again; one that is taken is skipped.
        let mut number = open.next;
        while open.sessions.contains_key(&number) {
            number = number.checked_add(1).unwrap_or(1);
        }
        open.next = number.checked_add(1).unwrap_or(1);
        let (sender, cancel) = watch::channel(0);
        open.sessions.insert(number, (key.to_bytes(), sender));
        Ok(Place { sessions: self.clone(), number, key, cancel })
    }

    /// Ends the statement that session `number` runs, if the key is its key.
    pub(crate) fn cancel(&self, number: i32, key: &SecretKey) {
        let open = self.lock();
        if let Some((expected, cancel)) = open.sessions.get(&number)
            && crate::startup::is_same(expected, &key.to_bytes())
        {
            cancel.send_modify(|count| *count += 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sessions.lock().sessions.remove(&self.number);
    }
}

/// Protocol 3.0 has room for four bytes, 3.2 for more.
fn random_key(version: ProtocolVersion) -> io::Result<SecretKey> {
    let mut key = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(match version {
        ProtocolVersion::PROTOCOL3_0 => SecretKey::I32(i32::from_be_bytes([key[0], key[1], key[2], key[3]])),
        _ => SecretKey::Bytes(Bytes::copy_from_slice(&key)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_needs_the_right_key() {
        let sessions = Sessions::new(10);
        let place = sessions.enter(ProtocolVersion::PROTOCOL3_2).unwrap();
        sessions.cancel(place.number, &SecretKey::Bytes(Bytes::from_static(&[0; 32])));
        sessions.cancel(place.number, &SecretKey::I32(0));
        assert!(!place.cancel.has_changed().unwrap());
        sessions.cancel(place.number, &place.key);
        assert!(place.cancel.has_changed().unwrap());
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let sessions = Sessions::new(1);
        let first = sessions.enter(ProtocolVersion::PROTOCOL3_0).unwrap();
        assert!(matches!(sessions.enter(ProtocolVersion::PROTOCOL3_0), Err(NoPlace::Full(1))));
        drop(first);
        assert!(sessions.enter(ProtocolVersion::PROTOCOL3_0).is_ok());
    }
}
