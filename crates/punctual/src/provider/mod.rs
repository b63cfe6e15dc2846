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
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::cluster::Spec;
use punctual_core::event::LossCause;
use punctual_core::id::{ClusterId, Generation};
use punctual_core::time::Span;
use tokio::sync::{mpsc, watch};

use crate::settings::{ClusterKind, Door, Endpoint};

pub use child::ChildError;

/// Reports of providers on their way to the driver. Each start makes a few.
pub const NOTICES: usize = 1_024;

/// The wait between two looks at what does not stop.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

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
    /// The names of clusters that commands start.
    roll: Arc<exec::Roll>,
    /// The tables of such clusters.
    tables: BTreeMap<String, Arc<exec::Table>>,
    /// Where starts in flight are marked.
    dir: PathBuf,
    /// True once the clusters to begin with have been started.
    settled: bool,
    /// Becomes true when a shutdown begins.
    leaving: watch::Sender<bool>,
    /// Each start that commands make has the first until its stop has succeeded.
    busy: (mpsc::Sender<()>, mpsc::Receiver<()>),
}

impl Providers {
    /// Providers of the gateway of that number for clusters of these names, and the end where their notices come out. What
    /// works on for nobody is reported after `patience`. Starts in flight are marked in `dir`, for the next gateway.
    pub fn new(
        gateway: u16,
        kinds: BTreeMap<String, ClusterKind>,
        door: Door,
        patience: Span,
        dir: &Path,
    ) -> (Providers, mpsc::Receiver<About>) {
        let (notices, receiver) = mpsc::channel(NOTICES);
        let (leaving, roll) = (watch::Sender::new(false), Arc::new(exec::Roll::new(gateway)));
        let tables = kinds.iter().filter_map(|(name, kind)| {
            let ClusterKind::Exec(exec) = kind else { return None };
            let table = exec::Table::new(name, exec, &roll, dir, leaving.subscribe());
            Some((name.clone(), Arc::new(table)))
        });
        let (tables, starts, busy) = (tables.collect(), BTreeMap::new(), mpsc::channel(1));
        let (settled, dir) = (false, dir.to_owned());
        (
            Providers { kinds, door, patience, notices, starts, doubts: 0, roll, tables, dir, settled, leaving, busy },
            receiver,
        )
    }

    /// Other clusters may be started from now on, and all that are by other bounds. A name that is there already means what
    /// is new for the starts to come.
    pub fn adopt(&mut self, kinds: BTreeMap<String, ClusterKind>, door: Door, patience: Span) {
        (self.door, self.patience) = (door, patience);
        for (name, kind) in kinds {
            if let ClusterKind::Exec(exec) = &kind {
                match self.tables.get(&name) {
                    Some(table) => table.becomes(exec),
                    None => {
                        let leaving = self.leaving.subscribe();
                        let table = Arc::new(exec::Table::new(&name, exec, &self.roll, &self.dir, leaving));
                        if self.settled {
                            tokio::spawn(exec::survey(Arc::clone(&table)));
                        }
                        self.tables.insert(name.clone(), table);
                    }
                }
            }
            self.kinds.insert(name, kind);
        }
    }

    /// The clusters to begin with have been started: whatever else is there from before is stopped, now and whenever more of
    /// it comes up. Those that wait to know what is there go on.
    pub fn settle(&mut self) {
        self.settled = true;
        for table in self.tables.values() {
            tokio::spawn(exec::survey(Arc::clone(table)));
        }
    }

    /// A shutdown begins: what does not stop is told so once more, and soon again.
    pub fn hurry(&self) {
        self.leaving.send_replace(true);
    }

    /// Waits until everything that commands have started is stopped.
    pub async fn stopped(self) {
        let Providers { starts, busy: (mine, mut theirs), roll, .. } = self;
        // Whoever still waits for a wish stops.
        drop((starts, mine));
        let _ = theirs.recv().await;
        while !roll.has_stopped_all() {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// The names of clusters that may be paid for though nobody wants them: some of them, if there are many.
    pub fn unstopped(&self) -> Vec<String> {
        self.roll.unstopped()
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
                let Some(table) = self.tables.get(table).cloned() else { return };
                let wanted = exec::Wanted {
                    table,
                    exec,
                    hand: self.roll.take(&spec.name),
                    name: spec.name.clone(),
                    generation: generation.0,
                    size: spec.units.0,
                    adopts: !self.settled,
                    busy: self.busy.0.clone(),
                };
                drop(tokio::spawn(exec::run(start, wanted)));
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
