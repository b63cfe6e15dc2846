//! As whom users of the gateway come to a cluster: a file with a line for each.
//!
//! ```text
//!   # user of the gateway, user of the cluster, password of that
//!   ann   analyst   opensesame
//!   etl   loader    "with a space"
//!   bob   reader
//! ```
//!
//! A password cannot be passed on: what a client proves itself by (SCRAM) tells nobody what the password is. So each
//! cluster says for itself who comes as whom. `current_user` is the second word then.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use super::lines::{self, Fault, FileError, word};
use super::private::Keep;
use crate::settings::Secret;

/// How a line is written.
const FORM: &str = "gateway_user cluster_user password";

/// Who comes as whom.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    by_user: HashMap<String, Credential>,
    /// The first of the file, by which the gateway looks whether the cluster is there.
    first: Option<Credential>,
}

/// A user of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Its name.
    pub user: String,
    /// Its password, if it needs one.
    pub password: Option<Secret>,
}

/// How many there are, and nothing of them.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.by_user.len())
    }
}

impl Credentials {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or with all that is wrong in it.
    pub fn read(path: &Path) -> Result<Credentials, FileError> {
        let all = lines::named(path, Keep::Secrets, credential)?.all;
        let first = all.first().map(|(_, credential)| credential.clone());
        Ok(Credentials { by_user: all.into_iter().collect(), first })
    }

    /// As whom a user of the gateway comes; None if that is not said.
    pub fn of(&self, user: &str) -> Option<&Credential> {
        self.by_user.get(user)
    }

    /// Anyone of the cluster's users; None if there is none.
    pub fn any(&self) -> Option<&Credential> {
        self.first.as_ref()
    }
}

fn credential(line: &str) -> Result<(String, Credential), Fault> {
    let mut rest = line;
    let mut next = || word(&mut rest).map(|word| word.filter(|word| !word.is_empty() && !word.contains('\0')));
    let (Some(name), Some(user), password) = (next()?, next()?, next()?) else { return Err(Fault::Short(FORM)) };
    if rest.is_empty() {
        Ok((name, Credential { user, password: password.map(Secret::new) }))
    } else {
        Err(Fault::Long(FORM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Credentials, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        crate::auth::private::write(&path, text);
        Credentials::read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "file"))
    }

    #[test]
    fn each_line_says_who_comes_as_whom_with_what() {
        let all = read("# who\n\nann analyst open#sesame\n\"b b\"  \"r r\" \"with \"\"it\"\"\"\nbob reader\n").unwrap();
        let of = |user: &str| {
            let found = all.of(user)?;
            Some((found.user.clone(), found.password.as_ref().map(|password| password.reveal().to_owned())))
        };
        assert_eq!(of("ann"), Some(("analyst".into(), Some("open#sesame".into()))));
        assert_eq!(of("b b"), Some(("r r".into(), Some("with \"it\"".into()))));
        assert_eq!(of("bob"), Some(("reader".into(), None)));
        assert_eq!(of("eve"), None);
        assert_eq!(all.any().map(|first| first.user.as_str()), Some("analyst"));
        assert!(!format!("{all:?} {:?}", all.of("ann")).contains("sesame"));
    }

    #[test]
    fn bad_lines_are_named_and_not_repeated() {
        let said = read("ann\nbob reader hunter2 more\nann a b\nann a c\n\"eve\" \"x\n").unwrap_err();
        let lines: Vec<&str> = said.split("file:").skip(1).filter_map(|part| part.split(':').next()).collect();
        assert_eq!(lines, ["1", "2", "4", "5"]);
        assert!(!said.contains("hunter2"), "{said}");
    }
}
