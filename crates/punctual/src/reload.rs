//! Reads the configuration again and puts it in force, while sessions and queries go on.
//!
//! ```text
//!  SIGHUP ─┐                                                    ┌─▶ what changed, what needs a restart
//!          ├─▶ file ──▶ Settings ──▶ merge with those in force ─┤
//!  POST ───┘     └──▶ what is wrong; the old ones stay          └─▶ driver
//! ```
//!
//! What a gateway is built upon (where it listens, where it writes, what its clusters are) stays as it began, and is
//! named where the file says otherwise. The rest are limits and rules, and changes at once: classes, `[policy]`, `[scaling]`,
//! the bounds of the front door. A file with a mistake changes nothing at all.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use punctual_core::cluster::Spec;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::config::{ConfigError, Source};
use crate::door::Guard;
use crate::link::Link;
use crate::prepare::{self, PrepareError};
use crate::settings::{Access, Cluster, Settings};

/// The way from a changed file to a changed gateway. One reload at a time.
#[derive(Debug)]
pub struct Reload {
    source: Source,
    /// Those in force.
    settings: RwLock<Arc<Settings>>,
    /// Held while they are changed.
    turn: Mutex<()>,
    link: Link,
    guard: Arc<Guard>,
}

/// What came of reading the configuration again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What is another than before, by its key: `policy.wait_limit`, `class`, `cluster "c"`.
    pub changed: Vec<String>,
    /// What the file says and only a restart puts in force.
    pub restart: Vec<String>,
}

/// Why the settings are as they were.
#[derive(Debug)]
pub enum ReloadError {
    /// The gateway was started without a file.
    NoFile,
    /// The file cannot be used.
    Config(ConfigError),
    /// The data of clusters that are new could not be made.
    Tables(PrepareError),
    /// The dispatcher does not decide: nothing that it goes by can change.
    Degraded,
    /// The gateway ends.
    Ending,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::NoFile => write!(f, "there is no configuration file: the gateway was started without one"),
            ReloadError::Config(error) => write!(f, "the configuration cannot be used:\n{error}"),
            ReloadError::Tables(error) => write!(f, "tables for new clusters: {error}"),
            ReloadError::Degraded => {
                write!(f, "nothing is decided, queries go by the fallback; only users and what they may are as written")
            }
            ReloadError::Ending => write!(f, "the gateway is ending"),
        }
    }
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |keys: &[String]| if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
        write!(f, "changed: {}; needs a restart: {}", list(&self.changed), list(&self.restart))
    }
}

impl Reload {
    /// From there; `settings` are in force, with `guard` at the front door.
    pub fn new(source: Source, settings: Arc<Settings>, link: Link, guard: Arc<Guard>) -> Reload {
        Reload { source, settings: RwLock::new(settings), turn: Mutex::default(), link, guard }
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the configuration again and puts in force what can be. It is said in the log as well.
    ///
    /// # Errors
    /// If nothing has changed, since the file cannot be used or nobody could go by it.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.lock().await;
        let outcome = self.read_again().await;
        match &outcome {
            Ok(reloaded) => tracing::info!("the configuration was read again: {reloaded}"),
            Err(error) => tracing::error!("the configuration stays as it was: {error}"),
        }
        outcome
    }

    async fn read_again(&self) -> Result<Reloaded, ReloadError> {
        if self.source.file.is_none() {
            return Err(ReloadError::NoFile);
        }
        let source = self.source.clone();
        let read = move || {
            let mut read = source.read().map_err(ReloadError::Config)?;
            prepare::tables(&mut read.clusters).map_err(ReloadError::Tables)?;
            Ok(read)
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(|_| ReloadError::Ending)??;
        let (merged, reloaded) = merge(&self.settings(), read);
        let merged = Arc::new(merged);
        // Whoever is no user any more stays out, even if nothing else can change.
        self.guard.adopt(merged.access.clone());
        match self.link.adopt(Arc::clone(&merged)).await {
            Ok(true) => *self.settings.write().unwrap_or_else(PoisonError::into_inner) = merged,
            Ok(false) => return Err(ReloadError::Degraded),
            Err(_) => return Err(ReloadError::Ending),
        }
        Ok(reloaded)
    }
}

/// What is to be in force: of what the file says, that which can change; the rest as it is.
fn merge(old: &Settings, read: Settings) -> (Settings, Reloaded) {
    let mut reloaded = Reloaded { changed: Vec::new(), restart: fixed(old, &read) };
    let clusters = clusters(&old.clusters, &read.clusters, &mut reloaded);
    let mut policy = read.policy;
    policy.scaling.offers = offers(&clusters);
    reloaded.changed.extend(differences(&old.policy, &policy));
    let access = access(&old.access, read.access, &mut reloaded);
    let door = read.door;
    let bounds = [
        ("max_sessions", door.max_sessions != old.door.max_sessions),
        ("max_message", door.max_message != old.door.max_message),
        ("startup_within", door.startup_within != old.door.startup_within),
        ("client_stall_timeout", door.client_stall_timeout != old.door.client_stall_timeout),
        ("failed_logins", door.failed_logins != old.door.failed_logins),
        ("max_statements", door.max_statements != old.door.max_statements),
        ("max_idle_connections", door.max_idle_connections != old.door.max_idle_connections),
        ("min_idle_connections", door.min_idle_connections != old.door.min_idle_connections),
        ("connection_idle_timeout", door.connection_idle_timeout != old.door.connection_idle_timeout),
        ("connection_lifetime", door.connection_lifetime != old.door.connection_lifetime),
        ("connect_within", door.connect_within != old.door.connect_within),
        ("check_every", door.check_every != old.door.check_every),
        ("shutdown_within", read.shutdown_within != old.shutdown_within),
    ];
    reloaded.changed.extend(bounds.iter().filter(|(_, differs)| *differs).map(|(key, _)| format!("gateway.{key}")));
    let merged = Settings { door, access, policy, clusters, shutdown_within: read.shutdown_within, ..old.clone() };
    (merged, reloaded)
}

/// Users come and go and certificates are renewed; whether anybody is asked who they are stays, as does where the gateway
/// listens, whether they are encrypted, and whether programs need a token.
fn access(old: &Access, mut new: Access, reloaded: &mut Reloaded) -> Access {
    let mut note = |differs: bool, key: &str, list: fn(&mut Reloaded) -> &mut Vec<String>| {
        if differs {
            list(reloaded).push(key.to_owned());
        }
    };
    if old.auth.name() == new.auth.name() {
        note(old.auth != new.auth, "gateway.users_file", |reloaded| &mut reloaded.changed);
        note(old.admins != new.admins, "gateway.admins", |reloaded| &mut reloaded.changed);
    } else {
        note(true, "gateway.auth", |reloaded| &mut reloaded.restart);
        (new.auth, new.admins) = (old.auth.clone(), old.admins.clone());
    }
    if old.tokens.is_some() == new.tokens.is_some() {
        note(old.tokens != new.tokens, "gateway.http_tokens_file", |reloaded| &mut reloaded.changed);
    } else {
        note(true, "gateway.http_tokens_file", |reloaded| &mut reloaded.restart);
        new.tokens.clone_from(&old.tokens);
    }
    if old.tls.name() == new.tls.name() {
        note(old.tls != new.tls, "tls", |reloaded| &mut reloaded.changed);
    } else {
        note(true, "gateway.tls", |reloaded| &mut reloaded.restart);
        new.tls = old.tls.clone();
    }
    new
}

/// The keys that are another and cannot change.
fn fixed(old: &Settings, new: &Settings) -> Vec<String> {
    let keys = [
        ("gateway.id", old.gateway != new.gateway),
        ("gateway.seed", old.seed != new.seed),
        ("gateway.listen", old.listen != new.listen),
        ("gateway.http", old.http != new.http),
        // What is moved by `gateway.state_dir` is moved by these, too.
        ("history.dir", old.history.dir != new.history.dir),
        ("history.max_bytes", old.history.max_bytes != new.history.max_bytes),
        ("history.sql", old.history.sql != new.history.sql),
        ("journal.dir", old.journal.dir != new.journal.dir),
        ("journal.max_bytes", old.journal.max_bytes != new.journal.max_bytes),
        ("journal.segment_bytes", old.journal.segment_bytes != new.journal.segment_bytes),
        ("prediction.model", old.prediction.model != new.prediction.model),
        ("prediction.retrain", old.prediction.retrain != new.prediction.retrain),
        ("prediction.explain_every", old.prediction.explain_every != new.prediction.explain_every),
        ("plan.at", old.planning.at != new.planning.at),
        ("plan.zone", old.planning.zone_name != new.planning.zone_name),
        ("plan.forecaster", old.planning.forecaster != new.planning.forecaster),
        ("plan.dir", old.planning.dir != new.planning.dir),
        ("table", old.time_tables != new.time_tables),
    ];
    keys.iter().filter(|(_, differs)| *differs).map(|(key, _)| (*key).to_owned()).collect()
}

/// Clusters that are new come, those that are no more go; one that is another than it was stays as it was.
fn clusters(old: &[Cluster], new: &[Cluster], reloaded: &mut Reloaded) -> Vec<Cluster> {
    let named = |list: &[Cluster], name: &str| list.iter().find(|known| known.spec.name == name).cloned();
    let mut kept = Vec::with_capacity(new.len());
    for cluster in new {
        let name = &cluster.spec.name;
        match named(old, name) {
            None => reloaded.changed.push(format!("cluster \"{name}\"")),
            Some(known) if known != *cluster && known.clone().with_credentials_of(cluster) == *cluster => {
                reloaded.changed.push(format!("cluster \"{name}\".credentials_file"));
            }
            Some(known) if known != *cluster => {
                reloaded.restart.push(format!("cluster \"{name}\""));
                kept.push(known);
                continue;
            }
            Some(_) => {}
        }
        kept.push(cluster.clone());
    }
    let gone = old.iter().map(|cluster| &cluster.spec.name).filter(|name| named(new, name).is_none());
    reloaded.changed.extend(gone.map(|name| format!("cluster \"{name}\"")));
    kept
}

/// What scaling may start, smallest first.
fn offers(clusters: &[Cluster]) -> Vec<Spec> {
    let mut offers: Vec<Spec> = clusters.iter().map(|cluster| cluster.spec.clone()).collect();
    offers.retain(|spec| spec.offer.is_some());
    offers.sort_by_key(|spec| spec.units);
    offers
}

/// The keys by which two policies differ, as they are in the file.
fn differences(old: &punctual_core::Policy, new: &punctual_core::Policy) -> Vec<String> {
    let members = |policy| match serde_json::to_value(policy) {
        Ok(Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (members(old), members(new));
    let mut keys = Vec::new();
    for (key, value) in &new {
        match (key.as_str(), value, old.get(key)) {
            (_, value, Some(known)) if value == known => {}
            ("scaling", Value::Object(scaling), Some(known)) => {
                let differs = |key: &&String| known.get(key) != scaling.get(*key) && *key != "offers";
                keys.extend(scaling.keys().filter(differs).map(|key| format!("scaling.{key}")));
            }
            ("classes", ..) => keys.push("class".to_owned()),
            ("lanes", ..) => keys.push("lanes".to_owned()),
            ("planning", ..) => keys.push("plan.mode".to_owned()),
            ("min_modelled", ..) => keys.push("prediction.min_modelled".to_owned()),
            (key, ..) => keys.push(format!("policy.{key}")),
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    const FILE: &str = r#"
[gateway]
state_dir = "state"
[scaling]
mode = "on"
[[class]]
name = "etl"
match = [{ user = "etl" }]
[[cluster]]
name = "a"
kind = "simulated"
[[cluster]]
name = "s"
kind = "simulated"
keep = "scaled"
"#;

    fn settings(text: &str) -> Settings {
        config::parse(text, Path::new("punctual.toml")).expect("a right file")
    }

    fn merged(text: &str) -> (Settings, Reloaded) {
        merge(&settings(FILE), settings(text))
    }

    #[test]
    fn the_same_file_changes_nothing() {
        let (merged, reloaded) = merged(FILE);
        assert_eq!(reloaded, Reloaded::default());
        assert_eq!(merged.policy, settings(FILE).policy);
        assert_eq!(reloaded.to_string(), "changed: nothing; needs a restart: nothing");
    }

    #[test]
    fn rules_and_limits_change_and_are_named() {
        let text = FILE
            .replace("[scaling]", "max_sessions = 7\nshutdown_within = \"1s\"\n[policy]\nwait_limit = \"9s\"\n[prediction]\nmin_modelled = \"1s\"\n[scaling]\nmost = 3")
            .replace("user = \"etl\"", "user = \"airflow\"");
        let (merged, reloaded) = merged(&text);
        let mut changed = reloaded.changed.clone();
        changed.sort();
        assert_eq!(
            changed,
            [
                "class",
                "gateway.max_sessions",
                "gateway.shutdown_within",
                "policy.wait_limit",
                "prediction.min_modelled",
                "scaling.most"
            ]
        );
        assert_eq!(reloaded.restart, [""; 0]);
        assert_eq!((merged.door.max_sessions, merged.policy.scaling.most), (7, 3));
    }

    #[test]
    fn what_a_gateway_is_built_upon_stays_and_is_named() {
        let text = FILE
            .replace("state_dir = \"state\"", "state_dir = \"other\"\nid = 3\nlisten = \"127.0.0.1:7000\"")
            .replace("name = \"a\"\nkind = \"simulated\"", "name = \"a\"\nkind = \"simulated\"\nslots = 9");
        let (merged, reloaded) = merged(&text);
        assert_eq!(reloaded.changed, [""; 0]);
        let wanted = [
            "gateway.id",
            "gateway.listen",
            "history.dir",
            "journal.dir",
            "prediction.model",
            "plan.dir",
            "cluster \"a\"",
        ];
        assert_eq!(reloaded.restart, wanted);
        let old = settings(FILE);
        assert_eq!((merged.gateway, merged.listen, &merged.history), (0, old.listen, &old.history));
        assert_eq!(merged.clusters[0], old.clusters[0]);
    }

    #[test]
    fn clusters_come_and_go_with_what_scaling_may_start() {
        let text = FILE.replace("name = \"s\"", "name = \"t\"\nsize = 2");
        let (merged, reloaded) = merged(&text);
        assert_eq!(reloaded.changed, ["cluster \"t\"", "cluster \"s\""]);
        let offers: Vec<&str> = merged.policy.scaling.offers.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(offers, ["t"]);
        // One that is another than it was is still offered as it was.
        let (merged, reloaded) =
            merge(&settings(FILE), settings(&FILE.replace("name = \"s\"", "name = \"s\"\nsize = 2")));
        assert_eq!(reloaded.restart, ["cluster \"s\""]);
        assert_eq!(merged.policy.scaling.offers, settings(FILE).policy.scaling.offers);
    }
}
