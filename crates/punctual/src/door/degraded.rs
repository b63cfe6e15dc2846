//! Queries go on without the dispatcher: when the [fallback](crate::driver::fallback) is on, a session takes a slot for
//! its query itself. Nothing is reported, nothing is recorded, and a cancel request finds nobody.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::admit::lanes::OPEN;
use punctual_core::dispatcher::WaitsFor;
use punctual_core::event::Refusal;

use super::problem::Problem;
use super::pump::Happening;
use super::query::Work;
use super::session::{Over, Session};
use crate::driver::fallback::Slot;

impl Session {
    /// Runs work on the connection that the session holds, or on the cluster with the most free slots.
    pub(super) async fn degraded(&mut self, work: &Work) -> Result<(), Over> {
        let ran = match self.held.take() {
            Some(lease) => self.run(None, work, lease).await.map(drop),
            None => match self.take_slot().await? {
                None => {
                    let limit = self.shared.wait_limit();
                    self.fail(
                        &Problem::refused(&Refusal::WaitedTooLong { limit, lacked: WaitsFor::Cluster, lane: OPEN }),
                        work.is_whole(),
                    );
                    return Ok(());
                }
                Some(slot) => {
                    let (who, variables) = (self.who.clone(), Arc::clone(&self.standing.variables));
                    let pool = Arc::clone(&slot.pool);
                    self.slot = Some(slot);
                    match pool.lease_with(&who.user, &who.database, &variables).await {
                        Ok(lease) => self.run(None, work, lease).await.map(drop),
                        Err(error) => {
                            self.fail(&Problem::no_connection(&error, pool.name()), work.is_whole());
                            Ok(())
                        }
                    }
                }
            },
        };
        if self.held.is_none() {
            self.slot = None;
        }
        ran
    }

    /// Waits for a slot, or for the client to leave.
    async fn take_slot(&mut self) -> Result<Option<Slot>, Over> {
        let fallback = Arc::clone(self.shared.fallback());
        let within = Duration::from(self.shared.wait_limit());
        let mut slot = std::pin::pin!(fallback.slot(within));
        loop {
            tokio::select! {
                slot = &mut slot => return Ok(slot),
                happening = self.happening() => match happening {
                    Happening::ClientGone => return Err(Over),
                    Happening::Orphaned => return Err(self.fatal(&Problem::farewell())),
                    _ => {}
                },
            }
        }
    }
}
