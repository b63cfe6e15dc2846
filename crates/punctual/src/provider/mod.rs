//! Starts and stops clusters, and says when they come and go.
//!
//! Every start of a cluster is a task of its own, which ends by reporting either that it stopped as asked or that it
//! was lost. Commands and reports carry the generation of the start, so that a late word about an earlier one cannot
//! be taken for news about the present.

mod address;
mod child;
mod exec;
mod socket_dir;

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::cluster::Spec;
use punctual_core::event::LossCause;
use punctual_core::id::{ClusterId, Generation};
use punctual_core::time::Span;
use tokio::sync::{Mutex, mpsc, watch};

use crate::settings::{ClusterKind, Door, Endpoint};

pub use child::ChildError;

/// Reports of providers on their way to the driver. Each start makes a few.
pub const NOTICES: usize = 1_024;

/// What a provider has to say about one start of a cluster.
#[derive(Debug)]
pub enum Notice {
    /// It answers, here.
    Ready(Endpoint),
    /// It does not answer yet, for this reason.
    NotYet(String),
    /// It could not start, or is gone; with what there is to say about it.
    Lost(LossCause, String),
    /// Something works on there that nobody waits for, or no longer does.
    Burns(bool),
    /// It has done so for too long.
    RanAway,
    /// It stopped as asked.
    Stopped,
}

/// A notice with the start that it is about.
pub type About = (ClusterId, Generation, Notice);

/// What a start is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Go on.
    Run,
    /// Go on, but find out whether the cluster still answers. The number makes each doubt a new one.
    Check(u32),
    /// Stop when idle; the dispatcher says so only once nothing runs there.
    Stop,
    /// Stop at once.
    Kill,
}

/// The clusters of this gateway, as tasks.
#[derive(Debug)]
pub struct Providers {
    kinds: BTreeMap<String, ClusterKind>,
    door: Door,
    patience: Span,
    notices: mpsc::Sender<About>,
    starts: BTreeMap<(ClusterId, Generation), watch::Sender<Wish>>,
    doubts: u32,
    gateway: u16,
    /// For each name of a cluster that commands start: held while commands for it may run.
    turns: BTreeMap<String, Arc<Mutex<()>>>,
    /// For each table of such clusters: what was there before, as it becomes known.
    surveys: BTreeMap<String, watch::Sender<Option<exec::Survey>>>,
    /// True once the clusters to begin with have been started.
    settled: bool,
}

impl Providers {
    /// Providers of the gateway of that number for clusters of these names, and the end where their notices come out. What
    /// works on for nobody is reported after `patience`.
    pub fn new(
        gateway: u16,
        kinds: BTreeMap<String, ClusterKind>,
        door: Door,
        patience: Span,
    ) -> (Providers, mpsc::Receiver<About>) {
        let (notices, receiver) = mpsc::channel(NOTICES);
        let by_commands = kinds.iter().filter(|(_, kind)| matches!(kind, ClusterKind::Exec(_)));
        let surveys = by_commands.map(|(name, _)| (name.clone(), watch::channel(None).0)).collect();
        let (starts, turns) = (BTreeMap::new(), BTreeMap::new());
        (
            Providers { kinds, door, patience, notices, starts, doubts: 0, gateway, turns, surveys, settled: false },
            receiver,
        )
    }

    /// Other clusters may be started from now on, and all that are by other bounds. A name that is there already means what
    /// is new for the starts to come.
    pub fn adopt(&mut self, kinds: BTreeMap<String, ClusterKind>, door: Door, patience: Span) {
        (self.door, self.patience) = (door, patience);
        for (name, kind) in kinds {
            if let ClusterKind::Exec(exec) = &kind
                && !self.surveys.contains_key(&name)
            {
                // Nothing of that name can be ours: what is there is from before the gateway.
                let (tell, _) = watch::channel(None);
                let tags = exec::Tags { gateway: self.gateway, cluster: name.clone(), generation: 0, size: 0 };
                tokio::spawn(exec::survey(Arc::clone(exec), tags, Vec::new(), tell.clone()));
                self.surveys.insert(name.clone(), tell);
            }
            self.kinds.insert(name, kind);
        }
    }

    /// The clusters to begin with have been started: whatever else is there from before is stopped. Those that wait to know
    /// what is there go on.
    pub fn settle(&mut self) {
        self.settled = true;
        for (name, kind) in &self.kinds {
            let (ClusterKind::Exec(exec), Some(tell)) = (kind, self.surveys.get(name)) else { continue };
            let wanted = self.turns.keys().cloned().collect();
            let tags = exec::Tags { gateway: self.gateway, cluster: name.clone(), generation: 0, size: 0 };
            tokio::spawn(exec::survey(Arc::clone(exec), tags, wanted, tell.clone()));
        }
    }

    /// Starts a cluster. What comes of it is a notice.
    pub fn start(&mut self, cluster: ClusterId, generation: Generation, spec: &Spec) {
        let (wish, wishes) = watch::channel(Wish::Run);
        self.starts.retain(|_, wish| !wish.is_closed());
        self.starts.insert((cluster, generation), wish);
        let start = Start { cluster, generation, wishes, notices: self.notices.clone(), door: self.door.clone() };
        let table = spec.offer.as_ref().unwrap_or(&spec.name);
        match self.kinds.get(table).cloned() {
            Some(ClusterKind::Exec(exec)) => {
                let surveyed = self.surveys.get(table).map(watch::Sender::subscribe);
                let adopts = !self.settled;
                self.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
                let turn = Arc::clone(self.turns.entry(spec.name.clone()).or_default());
                let tags = exec::Tags {
                    gateway: self.gateway,
                    cluster: spec.name.clone(),
                    generation: generation.0,
                    size: spec.units.0,
                };
                drop(tokio::spawn(exec::run(start, exec::Wanted { exec, tags, turn, surveyed, adopts })));
            }
            Some(ClusterKind::Address(endpoint)) => drop(tokio::spawn(address::run(start, endpoint))),
            Some(ClusterKind::Embedded(embedded)) => {
                drop(tokio::spawn(child::run(start, child::Program::embedded(&embedded, spec, self.patience))));
            }
            Some(ClusterKind::Simulated(simulated)) => {
                let chance = u64::from(cluster.0) << 32 | u64::from(generation.0);
                let program = child::Program::simulated(&simulated, chance, spec, self.patience);
                drop(tokio::spawn(child::run(start, program)));
            }
            None => {
                let detail = format!("no cluster is called {}", spec.name);
                drop(tokio::spawn(start.report(Notice::Lost(LossCause::StartFailed, detail))));
            }
        }
    }

    /// Stops a start of a cluster; what comes of it is a notice. One that has ended already needs none.
    pub fn stop(&mut self, cluster: ClusterId, generation: Generation, force: bool) {
        self.wish(cluster, generation, if force { Wish::Kill } else { Wish::Stop });
    }

    /// Finds out whether a cluster that failed to accept a connection is still there.
    pub fn check(&mut self, cluster: ClusterId, generation: Generation) {
        self.doubts = self.doubts.wrapping_add(1);
        self.wish(cluster, generation, Wish::Check(self.doubts));
    }

    fn wish(&mut self, cluster: ClusterId, generation: Generation, wish: Wish) {
        if let Some(start) = self.starts.get(&(cluster, generation)) {
            start.send_if_modified(|present| {
                // A stop is never taken back by a doubt.
                let changes = !(matches!(wish, Wish::Check(_)) && matches!(present, Wish::Stop | Wish::Kill));
                if changes {
                    *present = wish;
                }
                changes
            });
        }
    }
}

/// One start of a cluster, from its task's point of view.
#[derive(Debug)]
struct Start {
    cluster: ClusterId,
    generation: Generation,
    wishes: watch::Receiver<Wish>,
    notices: mpsc::Sender<About>,
    door: Door,
}

impl Start {
    /// Sends a notice; without a driver there is nobody to tell.
    async fn report(self, notice: Notice) {
        self.tell(notice).await;
    }

    async fn tell(&self, notice: Notice) {
        let _ = self.notices.send((self.cluster, self.generation, notice)).await;
    }

    /// The next wish. When the gateway is gone, that is to stop.
    async fn next_wish(&mut self) -> Wish {
        match self.wishes.changed().await {
            Ok(()) => *self.wishes.borrow_and_update(),
            Err(_) => Wish::Kill,
        }
    }

    /// The present wish.
    fn wish(&self) -> Wish {
        *self.wishes.borrow()
    }
}
