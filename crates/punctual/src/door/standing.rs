//! What a session has become by what it ran: its transaction, its variables, and whether it can leave its connection.
//!
//! A SET is remembered and said again on any other connection that the session runs on. Inside a transaction it lasts
//! only if the transaction does, so the variables from before are kept until it ends. Where neither can be told, the
//! session stays on its connection for good; so it does after anything that lives on one connection alone.

use std::sync::Arc;

use super::reading::{Effect, Reading, Stuck};
use super::replies::LastCommand;
use crate::relay::carried::Variables;

/// Variables that a session may have set, and the longest SET that is remembered.
const MOST_VARIABLES: usize = 128;
const LONGEST_SET: usize = 16 << 10;

/// Where a session stands between two queries.
#[derive(Debug)]
pub struct Standing {
    /// The transaction's status: `I`, `T` or `E`.
    pub status: u8,
    /// Why it needs its connection for good, if it does.
    pub stuck: Option<Stuck>,
    /// The variables that its connection is to have.
    pub variables: Arc<Variables>,
    /// Those from before the transaction.
    before: Option<Arc<Variables>>,
}

/// What a query did besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// The session needs its connection from now on, and did not before.
    pub newly_stuck: Option<Stuck>,
    /// Everything that the session had is gone: DISCARD ALL.
    pub discarded: bool,
    /// Its prepared statements are gone.
    pub forgot_statements: bool,
    /// Its wishes are as at its start.
    pub reset: bool,
    /// The connection's variables are not those that the session is to have.
    pub redress: bool,
}

impl Standing {
    /// A session that has just begun, with the variables of its start-up message.
    pub fn new(start_up: Vec<(String, String)>) -> Standing {
        let variables = Arc::new(Variables { start_up, set: Vec::new() });
        Standing { status: b'I', stuck: None, variables, before: None }
    }

    /// True if the session holds its cluster.
    pub fn is_pinned(&self) -> bool {
        self.status != b'I' || self.stuck.is_some()
    }

    /// True if its client speaks UTF-8, as far as its settings tell.
    pub fn is_utf8(&self) -> bool {
        let set = self.variables.set.iter().chain(&self.variables.start_up);
        // The latest is what counts: a SET is looked at before the start-up message.
        let encoding = set.into_iter().find(|(name, _)| name == "client_encoding");
        encoding.is_none_or(|(_, text)| {
            let bare: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
            let bare = bare.to_ascii_lowercase();
            bare.ends_with("utf8") || bare.ends_with("unicode")
        })
    }

    /// A query has ended and left the transaction at `status`; these texts ran.
    pub fn after(&mut self, status: u8, failed: bool, last: LastCommand, ran: &[Arc<Reading>]) -> Aftermath {
        let mut aftermath = Aftermath::default();
        let was_stuck = self.stuck.is_some();
        let was_idle = self.status == b'I';
        if was_idle {
            self.before = Some(Arc::clone(&self.variables));
        }
        self.status = status;
        if ran.iter().any(|reading| !reading.effects.is_empty()) {
            let effects: Vec<&Effect> = ran.iter().flat_map(|reading| &reading.effects).collect();
            let alone = ran.iter().map(|reading| reading.statement.count).sum::<u32>() <= 1;
            self.take(&effects, failed, alone, &mut aftermath);
        }
        if status == b'I'
            && let Some(before) = self.before.take()
            && !was_idle
            && (failed || last == LastCommand::Rollback)
        {
            self.variables = before;
        }
        if !was_stuck {
            aftermath.newly_stuck = self.stuck;
        }
        aftermath
    }

    /// The connection broke, and the transaction with it.
    pub fn lost(&mut self) {
        self.status = b'I';
        if let Some(before) = self.before.take() {
            self.variables = before;
        }
    }

    fn take(&mut self, effects: &[&Effect], failed: bool, alone: bool, aftermath: &mut Aftermath) {
        let sets = effects
            .iter()
            .any(|e| matches!(e, Effect::Set(..) | Effect::SetTo(_) | Effect::Reset(_) | Effect::ResetAll));
        let ends = effects.iter().any(|e| matches!(e, Effect::EndTransaction));
        if sets && ends {
            self.stuck.get_or_insert(Stuck::UncertainSet);
        }
        for effect in effects {
            match effect {
                // A lock outlasts the failure of the statement that took it; and of several statements, some may have
                // lasted.
                Effect::Stick(why) if !failed || !alone || *why == Stuck::AdvisoryLock => {
                    self.stuck.get_or_insert(*why);
                }
                _ if failed => {}
                effect => self.apply(effect, aftermath),
            }
        }
    }

    fn apply(&mut self, effect: &Effect, aftermath: &mut Aftermath) {
        match effect {
            Effect::Set(name, sql) => {
                let variables = Arc::make_mut(&mut self.variables);
                match variables.set.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => known.clone_from(sql),
                    None => variables.set.push((name.clone(), sql.clone())),
                }
                if variables.set.len() > MOST_VARIABLES || sql.len() > LONGEST_SET {
                    self.stuck.get_or_insert(Stuck::UncertainSet);
                }
            }
            Effect::Reset(name) => {
                Arc::make_mut(&mut self.variables).set.retain(|(known, _)| known != name);
                aftermath.redress |= !self.variables.start_up.is_empty();
            }
            Effect::ResetAll => {
                Arc::make_mut(&mut self.variables).set.clear();
                aftermath.redress |= !self.variables.start_up.is_empty();
                aftermath.reset = true;
            }
            Effect::DiscardAll => {
                Arc::make_mut(&mut self.variables).set.clear();
                self.stuck = None;
                *aftermath = Aftermath {
                    discarded: true,
                    forgot_statements: true,
                    reset: true,
                    redress: !self.variables.start_up.is_empty(),
                    newly_stuck: None,
                };
            }
            Effect::Deallocate(None) => aftermath.forgot_statements = true,
            Effect::RollBackTo => {
                if self.before.as_ref().is_some_and(|before| *before != self.variables) {
                    self.stuck.get_or_insert(Stuck::UncertainSet);
                }
            }
            // Every statement of the gateway's is bound before it is executed; what it becomes is not known for others.
            Effect::SetTo(_) => {
                self.stuck.get_or_insert(Stuck::SetConfig);
            }
            Effect::Deallocate(Some(_)) | Effect::EndTransaction | Effect::Stick(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs texts, each with the status that it leaves and whether it fails.
    fn after(runs: &[(&str, u8, bool)]) -> Standing {
        let mut standing = Standing::new(Vec::new());
        for (text, status, failed) in runs {
            let last = if text.starts_with("rollback") { LastCommand::Rollback } else { LastCommand::Other };
            standing.after(*status, *failed, last, &[Arc::new(Reading::of(text))]);
        }
        standing
    }

    fn set(runs: &[(&str, u8, bool)]) -> Vec<String> {
        after(runs).variables.set.iter().map(|(_, sql)| sql.clone()).collect()
    }

    #[test]
    fn a_set_lasts_if_it_succeeds() {
        assert_eq!(set(&[("set a = 1", b'I', false), ("set b = 2", b'I', true)]), ["set a = 1"]);
        assert_eq!(set(&[("set a = 1", b'I', false), ("set a = 2", b'I', false)]), ["set a = 2"]);
        assert_eq!(set(&[("set a = 1", b'I', false), ("reset a", b'I', false)]), [""; 0]);
        assert_eq!(set(&[("set a = 1", b'I', false), ("discard all", b'I', false)]), [""; 0]);
    }

    #[test]
    fn a_set_in_a_transaction_lasts_if_the_transaction_does() {
        let begin = ("begin", b'T', false);
        assert_eq!(set(&[begin, ("set a = 1", b'T', false), ("commit", b'I', false)]), ["set a = 1"]);
        assert_eq!(set(&[begin, ("set a = 1", b'T', false), ("rollback", b'I', false)]), [""; 0]);
        assert_eq!(set(&[begin, ("set a = 1", b'T', false), ("commit", b'I', true)]), [""; 0]);
        let mut standing = after(&[begin, ("set a = 1", b'T', false)]);
        standing.lost();
        assert_eq!(standing.variables.set, []);
    }

    #[test]
    fn a_clients_encoding_is_known_from_its_settings() {
        let is_utf8 = |text: &str| after(&[(text, b'I', false)]).is_utf8();
        assert!(is_utf8("select 1") && is_utf8("set names 'UTF-8'") && is_utf8("set client_encoding = utf8"));
        assert!(!is_utf8("set client_encoding to latin1") && !is_utf8("set names 'SQL_ASCII'"));
        assert!(!Standing::new(vec![("client_encoding".into(), "LATIN1".into())]).is_utf8());
    }

    #[test]
    fn what_cannot_be_told_sticks() {
        assert_eq!(after(&[("begin; set a = 1; commit", b'I', false)]).stuck, Some(Stuck::UncertainSet));
        let savepoint = [("begin", b'T', false), ("set a = 1", b'T', false), ("rollback to s", b'T', false)];
        assert_eq!(after(&savepoint).stuck, Some(Stuck::UncertainSet));
        assert_eq!(after(&[("begin; set a = 1", b'T', false)]).stuck, None);
        assert_eq!(after(&[("create temp table t (a int)", b'I', true)]).stuck, None);
        assert_eq!(after(&[("select pg_advisory_lock(1), 1/0", b'I', true)]).stuck, Some(Stuck::AdvisoryLock));
        let discarded = [("listen a", b'I', false), ("discard all", b'I', false)];
        assert_eq!(after(&discarded).stuck, None);
    }

    #[test]
    fn a_transaction_pins_until_it_ends() {
        assert!(after(&[("begin", b'T', false)]).is_pinned());
        assert!(after(&[("begin", b'T', false), ("select 1/0", b'E', true)]).is_pinned());
        assert!(!after(&[("begin", b'T', false), ("rollback", b'I', false)]).is_pinned());
        assert!(after(&[("listen a", b'I', false)]).is_pinned());
    }
}
