//! Clusters that commands start, stop and list: whatever there is a program for.
//!
//! ```text
//!   list ──▶ name address …   what is there, again and again: taken over if it is wanted, stopped if it is nobody's
//!   start ──▶ address         the last line on standard output; then it is looked at until it answers
//!   stop                      tried again until it succeeds
//! ```
//!
//! A cluster costs money from the moment at which `start` is run, whatever comes of it: so every start that comes to
//! nothing (it failed, hung, said no address, or one where nothing answers) is followed by a `stop`, a stop that fails is
//! tried for as long as the gateway lives, and what is listed and is not in hand is stopped. Commands of one cluster never run
//! at the same time, and a command that takes too long is killed with all that it has started.

mod command;
mod in_flight;
mod roll;
mod survey;
mod tries;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::event::LossCause;
use punctual_core::id::{ClusterId, Generation};
use punctual_core::time::Span;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use self::command::{Failure, Tags, run_command, run_with_input};
use self::roll::Origin;
pub(super) use self::roll::{Hand, Roll};
use self::survey::{Listed, Stage};
pub(super) use self::survey::{Table, survey};
use self::tries::Tries;
use super::address::look;
use super::{About, Notice, Start, Wish};
use crate::config;
use crate::relay;
use crate::settings::{Address, Endpoint, Exec};

/// How long `stop` and `list` may take.
const WITHIN: Duration = Duration::from_secs(60);
/// How often a stop is tried before it is said that it fails.
const QUIET_TRIES: u32 = 5;
/// The wait between two looks at a cluster that does not answer yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// A cluster to have, besides its start.
pub(super) struct Wanted {
    pub(super) table: Arc<Table>,
    /// Its commands: those of the table when it was started.
    pub(super) exec: Arc<Exec>,
    /// Its name, in hand.
    pub(super) hand: Arc<Hand>,
    pub(super) name: String,
    pub(super) generation: u32,
    pub(super) size: u32,
    /// True for those to begin with: they take over what is there.
    pub(super) adopts: bool,
    /// Dropped when its stop has succeeded, or nobody tries any longer.
    pub(super) busy: mpsc::Sender<()>,
}

impl Wanted {
    /// What its commands are told.
    fn tags(&self, run: String) -> Tags {
        let (gateway, cluster) = (self.table.roll.gateway, self.name.clone());
        Tags { gateway, cluster, generation: self.generation, size: self.size, run }
    }

    fn own_run(&self) -> String {
        self.table.roll.run(self.generation)
    }
}

/// Runs a cluster until it is told to stop or is lost, and until its stop has succeeded.
pub(super) async fn run(mut start: Start, wanted: Wanted) {
    let _turn = match wanted.hand.turn.try_lock() {
        Ok(turn) => turn,
        Err(_) => {
            start.tell(Notice::NotYet("what was there before it has not been stopped yet".to_owned())).await;
            tokio::select! {
                turn = wanted.hand.turn.lock() => turn,
                () = stop_wanted(&mut start.wishes) => return start.report(Notice::Stopped).await,
            }
        }
    };
    wanted.hand.begins();
    let there = MayBeThere(&wanted.name);
    live(start, &wanted).await;
    there.settled();
    drop(wanted.busy);
}

/// From its start to the end of its stop.
async fn live(mut start: Start, wanted: &Wanted) {
    let voice = Voice { about: (start.cluster, start.generation), notices: &start.notices };
    let began = tokio::select! {
        began = begin(wanted, &voice, start.door.connect_within) => began,
        () = stop_wanted(&mut start.wishes) => {
            end(wanted).await;
            return start.report(Notice::Stopped).await;
        }
    };
    let endpoint = match began {
        Ok(endpoint) => endpoint,
        Err(why) => return fail(start, wanted, why).await,
    };
    start.tell(Notice::Ready(endpoint.clone())).await;
    loop {
        match start.next_wish().await {
            Wish::Run => {}
            Wish::Stop | Wish::Kill => {
                end(wanted).await;
                return start.report(Notice::Stopped).await;
            }
            Wish::Check(_) => {
                if let Err(error) = look(&endpoint, start.door.connect_within).await {
                    // Said before it is stopped, which may take long: meanwhile nothing is to be sent there.
                    start.report(Notice::Lost(LossCause::Unreachable, error.to_string())).await;
                    return end(wanted).await;
                }
            }
        }
    }
}

/// Cleans up after a start that came to nothing, and says so: soon, even if it cannot be cleaned up.
async fn fail(start: Start, wanted: &Wanted, why: String) {
    let lost = |why| Notice::Lost(LossCause::StartFailed, why);
    let (mut stop, mut tried) = (Stop::new(wanted), 1);
    while stop.attempt().await.is_err() {
        if tried == QUIET_TRIES {
            let why = format!("{why}; and its stop fails, so that it may run on and cost money");
            start.report(lost(why)).await;
            stop.tries.wait().await;
            return stop.insist().await;
        }
        tried += 1;
        stop.tries.wait().await;
    }
    start.report(lost(why)).await;
}

/// How a start that has not come to anything is heard.
struct Voice<'a> {
    about: (ClusterId, Generation),
    notices: &'a mpsc::Sender<About>,
}

impl Voice<'_> {
    async fn say(&self, why: &str) {
        let (cluster, generation) = self.about;
        let _ = self.notices.send((cluster, generation, Notice::NotYet(why.to_owned()))).await;
    }
}

async fn stop_wanted(wishes: &mut watch::Receiver<Wish>) {
    // When the gateway is gone, that is to stop.
    let _ = wishes.wait_for(|wish| matches!(wish, Wish::Stop | Wish::Kill)).await;
}

/// Takes over what is there already, or starts it, and waits until it answers; else says why it does not.
async fn begin(wanted: &Wanted, voice: &Voice<'_>, connect_within: Span) -> Result<Endpoint, String> {
    let exec = &wanted.exec;
    let within = Duration::from(exec.start_within);
    if let Some((listed, stage)) = is_there(wanted, voice).await {
        wanted.hand.comes_from(listed.run);
        if wanted.adopts {
            let endpoint = at(exec, listed.address);
            match take_over(&endpoint, stage, within, voice, connect_within).await {
                Ok(()) => {
                    tracing::info!(cluster = wanted.name, address = %endpoint.address, "it is there from before and is taken over");
                    return Ok(endpoint);
                }
                Err(error) => {
                    tracing::warn!(
                        cluster = wanted.name,
                        "what is there from before does not answer and is started anew: {error}"
                    );
                }
            }
        }
        end(wanted).await;
    }
    let (run, ends) = (wanted.own_run(), Instant::now() + within);
    wanted.hand.comes_from(Some(run.clone()));
    let (tags, mark) = (wanted.tags(run), wanted.table.in_flight.input());
    let said = run_with_input(&exec.start, &tags, within, mark).await;
    let said = said.map_err(|failure| format!("start: {failure}"))?;
    let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let line = line.ok_or_else(|| "start: it succeeded, and said no address".to_owned())?;
    let address = config::address_of(line)
        .ok_or_else(|| format!("start: its last line is no address, host:port or unix:/path: {line:?}"))?;
    let endpoint = at(exec, address);
    answers(&endpoint, ends, voice, connect_within).await.map_err(|says| {
        format!("start: nothing answers at {} within {}: {says}", endpoint.address, exec.start_within)
    })?;
    Ok(endpoint)
}

/// What is listed answers, or why it does not. What is still being started has as long as a start.
async fn take_over(
    endpoint: &Endpoint,
    stage: Stage,
    within: Duration,
    voice: &Voice<'_>,
    connect_within: Span,
) -> Result<(), String> {
    let within = if stage == Stage::InFlight { within } else { Duration::ZERO };
    answers(endpoint, Instant::now() + within, voice, connect_within).await
}

/// Waits until something answers there; else says why nothing does.
async fn answers(endpoint: &Endpoint, ends: Instant, voice: &Voice<'_>, connect_within: Span) -> Result<(), String> {
    let mut said = String::new();
    loop {
        match relay::probe(endpoint, connect_within).await {
            Err(error) if !error.is_there() => {
                let says = error.to_string();
                if Instant::now() + BETWEEN_LOOKS >= ends {
                    return Err(says);
                }
                if says != said {
                    voice.say(&says).await;
                    said = says;
                }
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            _ => return Ok(()),
        }
    }
}

/// What is there from before under that name, once that is known as far as it will be.
async fn is_there(wanted: &Wanted, voice: &Voice<'_>) -> Option<(Listed, Stage)> {
    let mut known = wanted.table.known.subscribe();
    let mut told = false;
    loop {
        let now = known.borrow_and_update().clone();
        let listed = now.of(&wanted.name).filter(|_| wanted.adopts || now.stage == Stage::Settled);
        if let Some(listed) = listed {
            return Some((listed.clone(), now.stage));
        }
        match now.stage {
            Stage::Settled => return None,
            Stage::InFlight if !told => {
                voice.say("a start of an earlier gateway still runs, and is waited for").await;
                told = true;
            }
            Stage::InFlight | Stage::Asking => {}
        }
        known.changed().await.ok()?;
    }
}

fn at(exec: &Exec, address: Address) -> Endpoint {
    Endpoint { address, login: exec.login.clone() }
}

/// Stops a cluster, whether it is there or not, however long that takes.
async fn end(wanted: &Wanted) {
    Stop::new(wanted).insist().await;
}

/// The stop of a cluster, which has to succeed.
struct Stop<'a> {
    table: &'a Table,
    exec: &'a Exec,
    tags: Tags,
    tries: Tries,
}

impl Stop<'_> {
    fn new(wanted: &Wanted) -> Stop<'_> {
        let run = match wanted.hand.origin() {
            Origin::Undecided => wanted.own_run(),
            Origin::Run(run) => run.unwrap_or_default(),
        };
        Stop {
            table: &wanted.table,
            exec: &wanted.exec,
            tags: wanted.tags(run),
            tries: Tries::new(&wanted.table.leaving),
        }
    }

    async fn insist(mut self) {
        while self.attempt().await.is_err() {
            self.tries.wait().await;
        }
    }

    async fn attempt(&self) -> Result<(), Failure> {
        let (roll, name, run) = (&self.table.roll, &self.tags.cluster, &self.tags.run);
        let stopped = run_command(&self.exec.stop, &self.tags, WITHIN).await;
        let (Err(failure), pause) = (&stopped, self.tries.pause()) else {
            self.table.forget(name, run);
            return Ok(());
        };
        let tries = roll.failed(name, run);
        if tries < QUIET_TRIES {
            tracing::warn!(cluster = name, run, tries, "stop: tried again in {pause:?}: {failure}");
        } else {
            tracing::error!(
                cluster = name,
                run,
                tries,
                "it may run on and cost money: stop: {failure}; tried again in {pause:?}"
            );
        }
        stopped.map(drop)
    }
}

/// A cluster that may be there. If the gateway ends before it has been stopped, that is said.
struct MayBeThere<'a>(&'a str);

impl MayBeThere<'_> {
    /// Its stop has come to an end.
    fn settled(self) {
        std::mem::forget(self);
    }
}

impl Drop for MayBeThere<'_> {
    fn drop(&mut self) {
        let cluster = self.0;
        tracing::error!(
            cluster,
            "it may run on and cost money: the gateway has ended before its stop has; the next start of the gateway takes it \
             over or stops it"
        );
    }
}
