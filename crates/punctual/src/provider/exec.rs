//! Clusters that commands start, stop and list: whatever there is a program for.
//!
//! ```text
//!   list ──▶ name address …   what is there from before: taken over if it is wanted, stopped if not
//!   start ──▶ address         the last line on standard output; then it is looked at until it answers
//!   stop                      tried again until it succeeds, a few times
//! ```
//!
//! A cluster costs money from the moment at which `start` is run, whatever comes of it: so every start that comes to
//! nothing (it failed, hung, said no address, or one where nothing answers) is followed by a `stop`, and after a crash what
//! is listed is taken over or stopped. Commands of one cluster never run at the same time, and a command that takes too long
//! is killed with all that it has started.

mod command;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::event::LossCause;
use punctual_core::id::{ClusterId, Generation};
use punctual_core::time::Span;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::Instant;

pub(super) use self::command::Tags;
use self::command::{Failure, run_command};
use super::{About, Notice, Start, Wish};
use crate::config;
use crate::relay;
use crate::settings::{Address, Endpoint, Exec};

/// How long `stop` and `list` may take.
const WITHIN: Duration = Duration::from_secs(60);
/// How often a command is tried that must succeed, and the wait after its first failure, which doubles.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The wait between two looks at a cluster that does not answer yet.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// Lines of a list that are read.
const MOST_LISTED: usize = 10_000;

/// What was there before the gateway was, of one table of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    found: Arc<[Listed]>,
    /// The names of those to begin with.
    wanted: Arc<[String]>,
    /// True once the others have been stopped.
    swept: bool,
}

/// None until it is known.
pub(super) type Surveyed = watch::Receiver<Option<Survey>>;

/// A cluster that `list` has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    name: String,
    address: Address,
}

/// A cluster to have, besides its start.
pub(super) struct Wanted {
    pub(super) exec: Arc<Exec>,
    pub(super) tags: Tags,
    /// Held while commands of a cluster of this name may run.
    pub(super) turn: Arc<Mutex<()>>,
    pub(super) surveyed: Option<Surveyed>,
    /// True for those to begin with: they take over what is there.
    pub(super) adopts: bool,
}

/// Runs a cluster until it is told to stop or is lost.
pub(super) async fn run(mut start: Start, wanted: Wanted) {
    let turn = Arc::clone(&wanted.turn);
    let _turn = tokio::select! {
        turn = turn.lock() => turn,
        () = stop_wanted(&mut start.wishes) => return start.report(Notice::Stopped).await,
    };
    let there = MayBeThere(&wanted.tags.cluster);
    live(start, &wanted).await;
    there.settled();
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
        Err(why) => {
            end(wanted).await;
            return start.report(Notice::Lost(LossCause::StartFailed, why)).await;
        }
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
                if let Err(error) = relay::probe(&endpoint, start.door.connect_within).await
                    && !error.is_there()
                {
                    end(wanted).await;
                    return start.report(Notice::Lost(LossCause::Unreachable, error.to_string())).await;
                }
            }
        }
    }
}

/// How a start that has not come to anything is heard.
struct Voice<'a> {
    about: (ClusterId, Generation),
    notices: &'a mpsc::Sender<About>,
}

async fn stop_wanted(wishes: &mut watch::Receiver<Wish>) {
    // When the gateway is gone, that is to stop.
    let _ = wishes.wait_for(|wish| matches!(wish, Wish::Stop | Wish::Kill)).await;
}

/// Takes over what is there already, or starts it, and waits until it answers; else says why it does not.
async fn begin(wanted: &Wanted, voice: &Voice<'_>, connect_within: Span) -> Result<Endpoint, String> {
    let (exec, tags) = (&wanted.exec, &wanted.tags);
    let within = Duration::from_micros(exec.start_within.micros());
    let ends = Instant::now() + within;
    if let Some(address) = is_there(wanted).await {
        tracing::info!(cluster = tags.cluster, %address, "it is there from before and is taken over");
        let endpoint = at(exec, address);
        match relay::probe(&endpoint, connect_within).await {
            Err(error) if !error.is_there() => {
                tracing::warn!(cluster = tags.cluster, "it does not answer and is started anew: {error}");
                end(wanted).await;
            }
            _ => return Ok(endpoint),
        }
    }
    let said = run_command(&exec.start, tags, within).await.map_err(|failure| format!("start: {failure}"))?;
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

/// Waits until something answers there; else says why nothing does.
async fn answers(endpoint: &Endpoint, ends: Instant, voice: &Voice<'_>, connect_within: Span) -> Result<(), String> {
    let (mut said, (cluster, generation)) = (String::new(), voice.about);
    loop {
        match relay::probe(endpoint, connect_within).await {
            Err(error) if !error.is_there() => {
                let says = error.to_string();
                if Instant::now() + BETWEEN_LOOKS >= ends {
                    return Err(says);
                }
                if says != said {
                    let _ = voice.notices.send((cluster, generation, Notice::NotYet(says.clone()))).await;
                    said = says;
                }
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
            _ => return Ok(()),
        }
    }
}

/// Where a cluster of that name is that is to be taken over. One that is not waits until it has been stopped.
async fn is_there(wanted: &Wanted) -> Option<Address> {
    let mut surveyed = wanted.surveyed.clone()?;
    let survey = surveyed.wait_for(Option::is_some).await.ok()?.clone()?;
    let name = &wanted.tags.cluster;
    let listed = survey.found.iter().find(|listed| listed.name == *name)?;
    if wanted.adopts {
        return Some(listed.address.clone());
    }
    if !survey.wanted.contains(name) {
        let _ = surveyed.wait_for(|survey| survey.as_ref().is_some_and(|survey| survey.swept)).await;
    }
    None
}

fn at(exec: &Exec, address: Address) -> Endpoint {
    Endpoint { address, user: exec.user.clone(), password: exec.password.clone(), database: exec.database.clone() }
}

/// Stops a cluster, whether it is there or not.
async fn end(wanted: &Wanted) {
    if let Err(failure) = insist(&wanted.exec.stop, &wanted.tags).await {
        let cluster = &wanted.tags.cluster;
        tracing::error!(
            cluster,
            "it may run on and cost money: stop: {failure}; the next start of the gateway tries again"
        );
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

/// Runs a command that must succeed, again and again for a while.
async fn insist(words: &[String], tags: &Tags) -> Result<String, Failure> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match run_command(words, tags, WITHIN).await {
            Ok(said) => return Ok(said),
            Err(failure) => tracing::warn!(cluster = tags.cluster, command = words.join(" "), "tried again: {failure}"),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    run_command(words, tags, WITHIN).await
}

/// Finds out what is there from before, tells those who start, and stops what is not `wanted` by any of these names.
pub(super) async fn survey(exec: Arc<Exec>, tags: Tags, wanted: Vec<String>, tell: watch::Sender<Option<Survey>>) {
    let said = insist(&exec.list, &tags).await;
    let found = said.map(|said| listed(&said)).unwrap_or_else(|failure| {
        tracing::error!(cluster = tags.cluster, "what is there from before is not known: list: {failure}");
        Vec::new()
    });
    let survey = Survey { found: found.clone().into(), wanted: wanted.clone().into(), swept: false };
    tell.send_replace(Some(survey.clone()));
    for unwanted in found.into_iter().filter(|listed| !wanted.contains(&listed.name)) {
        tracing::warn!(cluster = unwanted.name, address = %unwanted.address, "it is there and not wanted: it is stopped");
        let tags = Tags { cluster: unwanted.name, ..tags.clone() };
        if let Err(failure) = insist(&exec.stop, &tags).await {
            tracing::error!(cluster = tags.cluster, "it may run on and cost money: stop: {failure}");
        }
    }
    tell.send_replace(Some(Survey { swept: true, ..survey }));
}

/// The lines `name address`; what is not of that form is said and passed over.
fn listed(said: &str) -> Vec<Listed> {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(MOST_LISTED);
    let read = |line: &str| {
        let (name, address) = line.split_once(char::is_whitespace)?;
        Some(Listed { name: name.to_owned(), address: config::address_of(address.trim())? })
    };
    lines
        .filter_map(|line| {
            let listed = read(line);
            if listed.is_none() {
                tracing::warn!(line, "list: no name and address");
            }
            listed
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_clusters_and_their_addresses() {
        let read = listed("fleet-0 db.example.com:5439\n\n  a   unix:/run/a.sock \nnonsense\nb http://x\n");
        let names: Vec<(&str, String)> =
            read.iter().map(|listed| (listed.name.as_str(), listed.address.to_string())).collect();
        assert_eq!(names, [("fleet-0", "db.example.com:5439".to_owned()), ("a", "/run/a.sock".to_owned())]);
    }
}
