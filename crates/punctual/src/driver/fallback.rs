//! Degraded mode: queries go on without the dispatcher.
//!
//! If the dispatcher panics, or one turn of it takes longer than [`STALL`], sessions stop asking it and place their
//! queries themselves: on the cluster with the most free slots, within the clusters' slot limits, waiting at most the
//! policy's wait limit. No classes, no scaling, no history of the queries placed this way, and no cancelling: a cancel
//! request is taken and does nothing, since it is the dispatcher that knows what runs where. An alarm is in the log and
//! in the metrics. There is no way back but a restart: what failed once will fail again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_core::time::Span;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::relay::Pool;

/// A turn of the dispatcher takes microseconds. One that takes this long will not end.
pub const STALL: Duration = Duration::from_secs(2);

/// Routing without the dispatcher. Shared by the driver, its watchdog and all sessions.
#[derive(Debug)]
pub struct Fallback {
    /// In microseconds.
    wait_limit: AtomicU64,
    on: watch::Sender<bool>,
    over: AtomicBool,
    clusters: Mutex<Vec<Place>>,
    freed: Notify,
    started: Instant,
    /// When the present turn of the dispatcher began, in microseconds after `started`, plus one; zero between turns.
    turn: AtomicU64,
}

#[derive(Clone, Debug)]
struct Place {
    pool: Arc<Pool>,
    slots: Arc<Semaphore>,
}

/// A slot on a cluster, free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    /// Connections to the cluster.
    pub pool: Arc<Pool>,
    fallback: Arc<Fallback>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Fallback {
    /// A fallback that is not in use, and in which queries wait that long at most.
    pub fn new(wait_limit: Span) -> Arc<Fallback> {
        Arc::new(Fallback {
            wait_limit: AtomicU64::new(wait_limit.micros()),
            on: watch::Sender::new(false),
            over: AtomicBool::new(false),
            clusters: Mutex::new(Vec::new()),
            freed: Notify::new(),
            started: Instant::now(),
            turn: AtomicU64::new(0),
        })
    }

    /// How long a query waits for a slot.
    pub fn wait_limit(&self) -> Span {
        Span::from_micros(self.wait_limit.load(Ordering::Relaxed))
    }

    /// Queries wait that long at most from now on.
    pub fn adopt(&self, wait_limit: Span) {
        self.wait_limit.store(wait_limit.micros(), Ordering::Relaxed);
    }

    /// True while sessions place their queries themselves.
    pub fn is_on(&self) -> bool {
        *self.on.borrow()
    }

    /// Tells sessions to place their queries themselves.
    pub fn turn_on(&self) {
        self.on.send_replace(true);
    }

    /// Resolves once sessions are to place their queries themselves.
    pub async fn turned_on(&self) {
        let mut on = self.on.subscribe();
        // The sender lives as long as `self`.
        let _ = on.wait_for(|on| *on).await;
    }

    /// The gateway is to end; without a dispatcher it ends at once.
    pub fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// True if the gateway is to end and there is no dispatcher that would do it in order.
    pub fn is_over(&self) -> bool {
        self.is_on() && self.over.load(Ordering::Acquire)
    }

    /// Sets the clusters that there are, with their slots. Those that were known keep their counts.
    pub fn set(&self, pools: Vec<(Arc<Pool>, u32)>) {
        let mut places = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let known = std::mem::take(&mut *places);
        *places = pools
            .into_iter()
            .map(|(pool, slots)| {
                let old = known.iter().find(|place| Arc::ptr_eq(&place.pool, &pool));
                old.cloned().unwrap_or_else(|| Place { pool, slots: Arc::new(Semaphore::new(slots as usize)) })
            })
            .collect();
        self.freed.notify_waiters();
    }

    /// Waits for a slot on the cluster that has most of them free; None if there was none within the limit.
    pub async fn slot(self: &Arc<Self>, within: Duration) -> Option<Slot> {
        let search = async {
            loop {
                let freed = self.freed.notified();
                if let Some(slot) = self.try_slot() {
                    return slot;
                }
                freed.await;
            }
        };
        tokio::time::timeout(within, search).await.ok()
    }

    fn try_slot(self: &Arc<Self>) -> Option<Slot> {
        let places = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.iter().max_by_key(|place| place.slots.available_permits())?;
        let permit = place.slots.clone().try_acquire_owned().ok()?;
        Some(Slot { pool: place.pool.clone(), fallback: self.clone(), permit: Some(permit) })
    }

    /// A turn of the dispatcher begins.
    pub fn watch_begins(&self) {
        self.turn.store(self.micros() + 1, Ordering::Release);
    }

    /// It ended; says how long it took.
    pub fn watch_ends(&self) -> Duration {
        let began = self.turn.swap(0, Ordering::AcqRel).saturating_sub(1);
        Duration::from_micros(self.micros().saturating_sub(began))
    }

    /// Watches the dispatcher from a thread of its own, since a stuck one holds up its runtime's thread. Ends when
    /// nobody else holds the fallback.
    pub fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        let watched = Arc::downgrade(self);
        let watch = move || {
            while let Some(fallback) = watched.upgrade() {
                if fallback.is_stuck() && !fallback.is_on() {
                    tracing::error!("the dispatcher is stuck: queries go on by least outstanding");
                    fallback.turn_on();
                }
                drop(fallback);
                std::thread::sleep(STALL / 4);
            }
        };
        std::thread::Builder::new().name("watchdog".into()).spawn(watch).map(drop)
    }

    fn is_stuck(&self) -> bool {
        let turn = self.turn.load(Ordering::Acquire);
        turn > 0 && self.micros().saturating_sub(turn - 1) > STALL.as_micros() as u64
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.fallback.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::id::{ClusterId, Generation};

    use super::*;
    use crate::settings::{Address, Door, Endpoint, Login};

    fn pool(id: u32) -> Arc<Pool> {
        let endpoint = Endpoint { address: Address::Unix("/nowhere".into()), login: Login::default() };
        Arc::new(Pool::new(ClusterId(id), Generation(1), format!("c{id}"), endpoint, (Door::default(), 4)))
    }

    #[tokio::test]
    async fn slots_are_never_exceeded_and_the_freest_cluster_is_taken() {
        let fallback = Fallback::new(Span::from_secs(1));
        fallback.set(vec![(pool(0), 1), (pool(1), 2)]);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.extend(fallback.slot(Duration::ZERO).await);
        }
        let mut clusters: Vec<u32> = held.iter().map(|slot| slot.pool.cluster().0).collect();
        assert_eq!(clusters[0], 1);
        clusters.sort_unstable();
        assert_eq!(clusters, [0, 1, 1]);
        assert!(fallback.slot(Duration::ZERO).await.is_none());
        held.pop();
        assert!(fallback.slot(Duration::ZERO).await.is_some());
    }

    #[tokio::test]
    async fn clusters_that_stay_keep_their_counts() {
        let fallback = Fallback::new(Span::from_secs(1));
        let staying = pool(0);
        fallback.set(vec![(staying.clone(), 1)]);
        let slot = fallback.slot(Duration::ZERO).await;
        fallback.set(vec![(staying, 1)]);
        assert!(fallback.slot(Duration::ZERO).await.is_none());
        drop(slot);
    }

    #[tokio::test]
    async fn sessions_that_wait_learn_that_it_is_on() {
        let fallback = Fallback::new(Span::from_secs(1));
        let waiting = tokio::spawn({
            let fallback = fallback.clone();
            async move { fallback.turned_on().await }
        });
        fallback.turn_on();
        assert!(waiting.await.is_ok());
    }
}
