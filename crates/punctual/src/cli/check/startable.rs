//! What would keep clusters from starting that are started here, as far as that shows before anything is started.
//!
//! A gateway starts all the same and tries again for ever, since files may come: so these are no mistakes of the
//! configuration. But whoever asks beforehand wants to know.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::settings::{Cluster, ClusterKind, Embedded, Exec};

/// What is missing, a sentence for each cluster that would not start.
pub(super) fn problems(clusters: &[Cluster]) -> Vec<String> {
    let problem = |cluster: &Cluster| {
        let why = match &cluster.kind {
            ClusterKind::Embedded(embedded) => problem(embedded)?,
            ClusterKind::Exec(exec) => commands(exec)?,
            ClusterKind::Simulated(_) | ClusterKind::Address(_) => return None,
        };
        Some(format!("cluster \"{}\" would not start: {why}", cluster.spec.name))
    };
    clusters.iter().filter_map(problem).collect()
}

/// Which of the commands names a program that is not there.
fn commands(exec: &Exec) -> Option<String> {
    let all = [("start", &exec.start), ("stop", &exec.stop), ("list", &exec.list)];
    let (key, program) = all.into_iter().find_map(|(key, words)| {
        let program = words.first()?;
        (!is_there(program)).then_some((key, program))
    })?;
    Some(format!("there is no program {program}, which `{key}` runs"))
}

/// A program with a path is there or not; one without is looked for where the system looks.
fn is_there(program: &str) -> bool {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    match program.contains('/') {
        true => is_program(Path::new(program)),
        false => {
            env::var_os("PATH").is_some_and(|dirs| env::split_paths(&dirs).any(|dir| is_program(&dir.join(program))))
        }
    }
}

#[cfg(feature = "embedded")]
fn problem(embedded: &Embedded) -> Option<String> {
    use crate::settings::Tables;

    match &embedded.tables {
        Tables::Dirs(dirs) => punctual_engine::check_tables(dirs).err().map(|error| error.to_string()),
        Tables::Tpch { .. } | Tables::Tpcds { .. } => None,
    }
}

#[cfg(not(feature = "embedded"))]
fn problem(_: &Embedded) -> Option<String> {
    Some("this program was built without embedded clusters".to_owned())
}

#[cfg(test)]
mod tests {
    use punctual_core::time::Span;

    use super::*;
    use crate::settings::Login;

    #[test]
    fn a_program_is_there_by_its_path_or_by_name_and_not_if_it_cannot_be_run() {
        assert!(is_there("/bin/sh") && is_there("sh"));
        assert!(
            !is_there("/bin")
                && !is_there(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
                && !is_there("no-such-program")
                && !is_there("/no/such")
        );
        let words = |program: &str| vec![program.to_owned()];
        let (start, stop, list) = (words("sh"), words("/no/such"), words("sh"));
        let exec = Exec { start, stop, list, start_within: Span::from_secs(1), login: Login::default() };
        assert_eq!(commands(&exec).as_deref(), Some("there is no program /no/such, which `stop` runs"));
        assert_eq!(commands(&Exec { stop: words("sh"), ..exec }), None);
    }
}
