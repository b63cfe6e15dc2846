//! Clusters that are there already: nothing is started or stopped, only found and lost.
//!
//! A cluster of this kind is ready when it accepts a connection and a login. It is not asked again on a timer, since
//! a warehouse that bills by use would be kept awake by that; only when a connection fails is it looked at.

use std::time::Duration;

use punctual_core::event::LossCause;
use punctual_core::query::SqlState;

use super::{Notice, Start, Wish};
use crate::relay::{self, ConnectError};
use crate::settings::Endpoint;

/// The wait between two attempts to reach a cluster that is not there yet.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(500);

/// Looks for the cluster until it answers or the start is called off, then waits to be told otherwise.
pub(super) async fn run(mut start: Start, endpoint: Endpoint) {
    let mut said = String::new();
    loop {
        match relay::probe(&endpoint, start.door.connect_within).await {
            Ok(_) => break,
            Err(error) if is_there(&error) => break,
            Err(error) => {
                let says = error.to_string();
                if says != said {
                    tracing::warn!(cluster = %start.cluster, address = %endpoint.address, "not reachable yet: {says}");
                    said = says;
                }
            }
        }
        tokio::select! {
            wish = start.next_wish() => if matches!(wish, Wish::Stop | Wish::Kill) {
                return start.report(Notice::Stopped).await;
            },
            () = tokio::time::sleep(BETWEEN_ATTEMPTS) => {}
        }
    }
    start.tell(Notice::Ready(endpoint.clone())).await;
    loop {
        match start.next_wish().await {
            Wish::Run => {}
            Wish::Stop | Wish::Kill => return start.report(Notice::Stopped).await,
            Wish::Check(_) => {
                if let Err(error) = relay::probe(&endpoint, start.door.connect_within).await
                    && !is_there(&error)
                {
                    return start.report(Notice::Lost(LossCause::Unreachable, error.to_string())).await;
                }
            }
        }
    }
}

/// True if the cluster answered, though not to the probe's liking: an unknown role, a wrong password or too many
/// connections are between it and whoever connects, and cost no query that runs there. One that is still starting up
/// (57P03) is not there yet.
fn is_there(error: &ConnectError) -> bool {
    match error {
        ConnectError::Refused(said) => said.sqlstate != SqlState(*b"57P03"),
        ConnectError::Authentication(_) => true,
        _ => false,
    }
}
