//! Clusters that are there already: nothing is started or stopped, only found and lost.
//!
//! A cluster of this kind is ready when it accepts a connection and a login. It is not asked again on a timer, since
//! a warehouse that bills by use would be kept awake by that; only while something runs there, or when a connection fails,
//! is it looked at.

use std::time::Duration;

use punctual_core::event::LossCause;
use punctual_core::time::Span;

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
            Err(error) if error.is_there() => break,
            Err(error) => {
                let says = error.to_string();
                if says != said {
                    tracing::warn!(cluster = %start.cluster, address = %endpoint.address, "not reachable yet: {says}");
                    start.tell(Notice::NotYet(says.clone())).await;
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
                if let Err(error) = look(&endpoint, start.door.connect_within).await {
                    return start.report(Notice::Lost(LossCause::Unreachable, error.to_string())).await;
                }
            }
        }
    }
}

/// Looks whether a cluster is still there that was. One that does not answer in time is asked once more, since whatever runs
/// there is lost with it; that this machine has no room for a connection says nothing of it.
///
/// # Errors
/// Why it is taken for gone.
pub(super) async fn look(endpoint: &Endpoint, within: Span) -> Result<(), ConnectError> {
    let mut seen = relay::probe(endpoint, within).await;
    if matches!(seen, Err(ConnectError::TimedOut { .. })) {
        seen = relay::probe(endpoint, within).await;
    }
    match seen {
        Err(error) if !error.is_there() && !error.is_ours() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::id::{ClusterId, Generation};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::door::Problem;
    use crate::door::frames::{Severity, problem};
    use crate::settings::{Address, Door, Login};

    /// Tells each caller the next of these codes; hangs up on those who come after.
    async fn refuse(listener: TcpListener, codes: &[&[u8; 5]]) {
        let mut codes = codes.iter();
        loop {
            let Ok((mut caller, _)) = listener.accept().await else { return };
            let _ = caller.read(&mut [0; 256]).await;
            let mut said = Vec::new();
            if let Some(code) = codes.next() {
                problem(&mut said, Severity::Fatal, &Problem::new(code, "sorry"));
            }
            let _ = caller.write_all(&said).await;
        }
    }

    #[tokio::test]
    async fn a_cluster_that_refuses_is_there_and_one_that_starts_up_is_not_yet() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        tokio::spawn(refuse(listener, &[b"57P03", b"28000", b"53300", b"3D000"]));
        let address = Address::Tcp { host: "127.0.0.1".into(), port };
        let endpoint = Endpoint { address, login: Login::default() };
        let ((wish, wishes), (notices, mut told)) = (watch::channel(Wish::Run), mpsc::channel(8));
        let (cluster, generation) = (ClusterId(0), Generation(0));
        let start = Start { cluster, generation, wishes, notices, door: Door::default() };
        let running = tokio::spawn(run(start, endpoint));
        let mut next = async || told.recv().await.map(|(_, _, notice)| notice);
        let notice = next().await;
        assert!(matches!(&notice, Some(Notice::NotYet(why)) if why.contains("57P03")), "{notice:?}");
        let notice = next().await;
        assert!(matches!(notice, Some(Notice::Ready(_))), "{notice:?}");
        // Too many clients, and another database: neither is a loss. Being hung up on is, at the third look.
        let mut doubt = 0;
        let notice = loop {
            doubt += 1;
            wish.send_replace(Wish::Check(doubt));
            tokio::select! {
                notice = next() => break notice,
                () = tokio::task::yield_now() => {}
            }
        };
        assert!(matches!(notice, Some(Notice::Lost(LossCause::Unreachable, _))), "{notice:?}");
        assert!(doubt >= 3, "{doubt}");
        running.await.expect("it ends");
    }
}
