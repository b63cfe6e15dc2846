//! Files that may be open at once, and how they are shared out.
//!
//! Every client is an open file, and so is every connection to a cluster, every log and every request by HTTP. If clients could
//! have all of them, their queries would find none left to reach a cluster with: so some are kept from them.
//!
//! ```text
//!   ├───────────── sessions ─────────────┼─ on their way in ─┼──── kept ────┤  limit
//! ```

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A quarter is kept for clusters, records and HTTP, but so many at least and at most. At least: what an idle gateway has open,
/// a few clusters and a few requests.
const KEPT: std::ops::RangeInclusive<u64> = 32..=4_096;

/// An eighth is for connections on their way to a session, and no more than this.
const KNOCKING: u64 = 256;

/// How many files may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    limit: u64,
}

impl Files {
    /// As many as this process may have open now.
    pub fn now() -> Files {
        Files { limit: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) }
    }

    /// Lets this process have as many open as it may let itself. The usual limit is there for programs of another time.
    pub fn raise() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current.is_some() && current != maximum {
            // If that is not allowed, it stays as it was.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        }
    }

    /// Sessions that there may be; one at least.
    pub fn sessions(self) -> u32 {
        let kept = (self.limit / 4).clamp(*KEPT.start(), *KEPT.end());
        let sessions = self.limit.saturating_sub(kept + self.knocking() as u64).max(1);
        u32::try_from(sessions).unwrap_or(u32::MAX)
    }

    /// Connections that may be on their way to a session; one at least.
    pub(crate) fn knocking(self) -> usize {
        (self.limit / 8).clamp(1, KNOCKING) as usize
    }
}

/// True if the system refused for want of files, ports or memory on this machine, whatever is at the other end.
pub(crate) fn is_shortage(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| short.iter().any(|errno| errno.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_never_get_all_files() {
        let shared = |limit| {
            let files = Files { limit };
            (files.sessions(), files.knocking())
        };
        assert_eq!(shared(100), (56, 12));
        assert_eq!(shared(1_024), (640, 128));
        assert_eq!(shared(20_000), (15_648, 256));
        assert_eq!(shared(4), (1, 1));
        assert_eq!(shared(u64::MAX), (u32::MAX, 256));
    }

    #[test]
    fn a_want_of_files_is_told_from_a_cluster_that_is_not_there() {
        let of = |errno: rustix::io::Errno| is_shortage(&errno.into());
        assert!(of(rustix::io::Errno::MFILE) && of(rustix::io::Errno::ADDRNOTAVAIL));
        assert!(!of(rustix::io::Errno::CONNREFUSED) && !is_shortage(&std::io::ErrorKind::TimedOut.into()));
    }
}
