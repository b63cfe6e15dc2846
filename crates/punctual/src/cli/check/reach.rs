//! Whether clusters that are there already can be reached: a connection is made, nothing is sent.

use std::io;
use std::time::Duration;

use punctual_core::time::Span;
use tokio::net::{TcpStream, UnixStream};

use super::meaning::Reached;
use crate::settings::{Address, ClusterKind, Settings};

/// Tries every cluster that has an address, one after the other, each for as long as the settings allow.
///
/// # Errors
/// If this machine has no threads or descriptors left to try with.
pub(super) fn all(settings: &Settings) -> io::Result<Vec<Reached>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut reached = Vec::new();
    for cluster in &settings.clusters {
        let ClusterKind::Address(endpoint) = &cluster.kind else { continue };
        let error = runtime.block_on(try_connect(&endpoint.address, settings.door.connect_within)).err();
        reached.push(Reached {
            cluster: cluster.spec.name.clone(),
            address: endpoint.address.to_string(),
            error: error.map(|error| error.to_string()),
        });
    }
    // A resolver that hangs must not hold up the exit.
    runtime.shutdown_background();
    Ok(reached)
}

async fn try_connect(address: &Address, within: Span) -> io::Result<()> {
    let connect = async {
        match address {
            Address::Unix(path) => UnixStream::connect(path).await.map(drop),
            Address::Tcp { host, port } => TcpStream::connect((host.as_str(), *port)).await.map(drop),
        }
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {within}"));
    tokio::time::timeout(Duration::from_micros(within.micros()), connect).await.unwrap_or_else(|_| Err(late()))
}
