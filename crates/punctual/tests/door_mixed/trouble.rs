//! What happens to clusters while clients are busy.

use std::sync::Arc;

use rustix::process::Pid;

use crate::common::mortal::{Mortal, kill};
use crate::dice::Dice;
use crate::served::Served;

/// The clusters, to be troubled.
pub(crate) enum Clusters {
    /// Postgres servers of their own.
    Postgres(Vec<Arc<Mortal>>),
    /// Children of the gateway, which starts them again.
    Children,
}

/// What to do to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its backends are told to go.
    Terminate,
    /// One backend is killed, whereupon Postgres begins again with all of them.
    KillBackend,
    /// All processes are killed; it is started again.
    KillAll,
    /// The first process is killed, and the others notice; it is started again.
    KillPostmaster,
}

const TROUBLES: [Trouble; 4] = [Trouble::KillAll, Trouble::Terminate, Trouble::KillBackend, Trouble::KillPostmaster];

impl Clusters {
    /// Makes trouble for one of them: the turn says what, chance says for which.
    pub(crate) async fn trouble(&self, turn: usize, dice: &mut Dice, served: &Served) {
        let trouble = TROUBLES[turn % TROUBLES.len()];
        match self {
            Clusters::Postgres(all) => {
                let cluster = Arc::clone(&all[dice.roll(all.len() as u64) as usize]);
                postgres(cluster, trouble).await;
            }
            Clusters::Children => {
                let children = served.children();
                if !children.is_empty() {
                    kill_number(children[dice.roll(children.len() as u64) as usize]);
                }
            }
        }
    }
}

fn kill_number(pid: i32) {
    Pid::from_raw(pid).into_iter().for_each(kill);
}

async fn postgres(cluster: Arc<Mortal>, trouble: Trouble) {
    let all = "SELECT pid FROM pg_stat_activity WHERE usename = 'ann'";
    match trouble {
        Trouble::Terminate => {
            let sql = format!("SELECT pg_terminate_backend(pid) FROM ({all}) AS anns");
            let _ = cluster.client().await.query(&sql, &[]).await.expect("its superuser may");
        }
        Trouble::KillBackend => {
            let found = cluster.client().await.query(all, &[]).await.expect("its superuser may look");
            if let Some(row) = found.first() {
                kill_number(row.get(0));
            }
        }
        Trouble::KillAll | Trouble::KillPostmaster => {
            let begun = tokio::task::spawn_blocking(move || {
                cluster.kill(trouble == Trouble::KillAll);
                cluster.revive();
            });
            begun.await.expect("it is there again");
        }
    }
}
