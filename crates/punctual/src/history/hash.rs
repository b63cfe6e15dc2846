//! A keyed hash of query texts, so that equal texts can be found without being able to test a guess.
//!
//! History may be handed to others without the texts. A plain hash would still tell anyone who guesses a text whether
//! it was run; so the hash takes a key that never leaves the history directory. It is SipHash-2-4 (Aumasson and
//! Bernstein, 2012), made for short keyed hashes, and it is written out here because the standard library's is not
//! promised to stay the same from build to build.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::chance;

/// The name of the file with the key.
pub(crate) const KEY_FILE: &str = "key";

/// 128 secret bits.
#[derive(Clone, Copy)]
pub(crate) struct Key([u64; 2]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

impl Key {
    /// No secret, for hashes that everyone must be able to repeat.
    pub(crate) const PUBLIC: Key = Key([0; 2]);

    /// The key of a history directory, made and kept there (readable by its owner only) when there is none.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub(crate) fn of_dir(dir: &Path) -> io::Result<Key> {
        let path = dir.join(KEY_FILE);
        match fs::read(&path) {
            Ok(bytes) => {
                if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
                    return Ok(Key::from_bytes(bytes));
                }
                tracing::warn!(file = %path.display(), "the key of text hashes is damaged; a new one is made");
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
        }
        let bytes = chance::secret()?;
        let new = dir.join("key.tmp");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        Ok(Key::from_bytes(bytes))
    }

    fn from_bytes(bytes: [u8; 16]) -> Key {
        Key([word(&bytes[..8]), word(&bytes[8..])])
    }

    /// SipHash-2-4 of the bytes.
    pub(crate) fn hash(self, bytes: &[u8]) -> u64 {
        let [k0, k1] = self.0;
        // "somepseudorandomlygeneratedbytes", section 2.1 of the paper.
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let words = bytes.chunks_exact(8);
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        last[7] = bytes.len() as u8;
        for m in words.map(word).chain([word(&last)]) {
            v[3] ^= m;
            rounds(&mut v, 2);
            v[0] ^= m;
        }
        v[2] ^= 0xff;
        rounds(&mut v, 4);
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn rounds(v: &mut [u64; 4], count: usize) {
    for _ in 0..count {
        v[0] = v[0].wrapping_add(v[1]);
        v[2] = v[2].wrapping_add(v[3]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[1]);
        v[0] = v[0].wrapping_add(v[3]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_siphash_2_4_as_the_paper_computes_it() {
        // Appendix A of the paper: the key 00..0f and the message 00..0e.
        let key = Key::from_bytes(std::array::from_fn(|i| i as u8));
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(key.hash(&message), 0xa129_ca61_49be_45e5);
        // The standard library's, which is the same today, for every remainder.
        for length in 0..40 {
            let message: Vec<u8> = (0..length).map(|i: u8| i.wrapping_mul(7)).collect();
            #[allow(deprecated)]
            let mut standard = std::hash::SipHasher::new_with_keys(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
            std::hash::Hasher::write(&mut standard, &message);
            assert_eq!(key.hash(&message), std::hash::Hasher::finish(&standard), "{length} bytes");
        }
    }

    #[test]
    fn a_directory_keeps_its_key_and_shows_it_to_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let first = Key::of_dir(dir.path()).unwrap();
        let mode = fs::metadata(dir.path().join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Key::of_dir(dir.path()).unwrap().0, first.0);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Key::of_dir(other.path()).unwrap().0, first.0);
    }

    #[test]
    fn a_damaged_key_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(KEY_FILE), b"short").unwrap();
        let key = Key::of_dir(dir.path()).unwrap();
        assert_eq!(Key::of_dir(dir.path()).unwrap().0, key.0);
    }
}
