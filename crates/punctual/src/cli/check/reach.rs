//! Whether clusters that are there already can be reached, found out as the gateway itself does: by a login.

use std::io;

use super::meaning::Reached;
use crate::relay::{self, ConnectError};
use crate::settings::{ClusterKind, Endpoint, Settings};

/// Tries every cluster that has an address, one after the other, each for as long as the settings allow.
///
/// # Errors
/// If this machine has no threads or descriptors left to try with.
pub(super) fn all(settings: &Settings) -> io::Result<Vec<Reached>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut reached = Vec::new();
    for cluster in &settings.clusters {
        let ClusterKind::Address(endpoint) = &cluster.kind else { continue };
        let failed = runtime.block_on(relay::probe(endpoint, settings.door.connect_within)).err();
        let (remark, error) = match failed {
            Some(error) if is_about_the_name(&error, endpoint) => (Some(text(error)), None),
            failed => (None, failed.map(text)),
        };
        let (cluster, address) = (cluster.spec.name.clone(), endpoint.address.to_string());
        reached.push(Reached { cluster, address, error, remark });
    }
    // A resolver that hangs must not hold up the exit.
    runtime.shutdown_background();
    Ok(reached)
}

/// True if the cluster has something against the name that was tried, and clients come under their own.
fn is_about_the_name(error: &ConnectError, endpoint: &Endpoint) -> bool {
    match error {
        ConnectError::Refused(said) if said.sqlstate.0.starts_with(b"28") => endpoint.login.is_theirs(),
        ConnectError::Refused(said) if said.sqlstate.0.starts_with(b"3D") => endpoint.login.database.is_none(),
        ConnectError::Authentication(_) => endpoint.login.is_theirs(),
        _ => false,
    }
}

/// The address is said already.
fn text(error: ConnectError) -> String {
    match error {
        ConnectError::Unreachable { cause, .. } => cause.to_string(),
        error => error.to_string(),
    }
}
