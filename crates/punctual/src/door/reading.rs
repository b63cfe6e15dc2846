//! A text of SQL as a session sees it: what core reads of it, what it does to its session, and whether the gateway
//! answers it itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use punctual_core::predict::features::features;
use punctual_core::query::Traits;
use punctual_core::statement::{Kind, Statement};

use super::configs::{Config, configs};
use super::messages::Bind;
use super::problem::Problem;
use super::skeleton::skeleton;
use super::words::{Word, Words};
use crate::history::Key;

/// Kinds of text that a session remembers having read.
const REMEMBERED: usize = 128;

/// The longest text that is remembered.
const LONGEST_REMEMBERED: usize = 16 << 10;

/// A text of SQL that has been read.
#[derive(Debug)]
pub struct Reading {
    /// The text.
    pub text: Arc<str>,
    /// Its shape.
    pub shape: Arc<str>,
    /// What decisions need to know of it.
    pub statement: Arc<Statement>,
    /// What its statements do to their session, in their order.
    pub effects: Vec<Effect>,
    /// How the gateway answers it; None if a cluster does.
    pub local: Option<Local>,
    /// What predictions are made from, once they were.
    traits: OnceLock<Box<Traits>>,
}

/// What a statement does to its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// SET: a variable's name and the statement.
    Set(String, String),
    /// `set_config` of a variable to the value of a parameter: [`Set`](Effect::Set), once it is bound.
    SetTo(Config),
    /// RESET, SET ... TO DEFAULT: the variable's name.
    Reset(String),
    /// RESET ALL.
    ResetAll,
    /// DISCARD ALL.
    DiscardAll,
    /// DEALLOCATE of a name, or of all.
    Deallocate(Option<String>),
    /// The session needs the same connection from now on.
    Stick(Stuck),
    /// COMMIT, ROLLBACK and their like, but for savepoints.
    EndTransaction,
    /// ROLLBACK TO a savepoint.
    RollBackTo,
}

/// Why a session needs the same connection from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// CREATE TEMPORARY, SELECT INTO TEMPORARY.
    TemporaryTable,
    /// PREPARE.
    Prepare,
    /// LISTEN.
    Listen,
    /// DECLARE WITH HOLD.
    Cursor,
    /// pg_advisory_lock and the like.
    AdvisoryLock,
    /// set_config for the session.
    SetConfig,
    /// SET ROLE, SET SESSION AUTHORIZATION.
    Role,
    /// SET SESSION CHARACTERISTICS.
    Characteristics,
    /// LOAD.
    Library,
    /// A SET whose lasting cannot be told.
    UncertainSet,
}

/// A statement that the gateway answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Local {
    /// SET punctual.…: the name after the dot, and the value; None: what the session began with.
    Set(String, Option<String>),
    /// SHOW punctual.…: the name after the dot.
    Show(String),
    /// A SELECT over the schema `punctual`.
    Catalogue,
    /// DEALLOCATE: of one statement of the protocol, or of all.
    Deallocate(Option<String>),
    /// It cannot be answered.
    Impossible(Box<Problem>),
}

impl Reading {
    /// Reads a text.
    pub fn of(text: &str) -> Reading {
        Reading::with_certainty(text).0
    }

    /// Reads a text; true if every text that differs in the values of literals alone reads the same.
    fn with_certainty(text: &str) -> (Reading, bool) {
        let statement = Arc::new(Statement::read(text));
        let mut found = Found::default();
        found.read(text);
        let local = local_of(&statement, found.own, &found.effects);
        let holds_for_all = found.effects.is_empty() && local.is_none() && !found.depends_on_literals;
        let shape = Arc::from(statement.shape.as_str());
        (
            Reading { text: text.into(), shape, statement, effects: found.effects, local, traits: OnceLock::new() },
            holds_for_all,
        )
    }

    /// What this text is, known of another that differs in the values of literals alone.
    fn again(&self, text: &str) -> Reading {
        let (shape, statement) = (Arc::clone(&self.shape), Arc::clone(&self.statement));
        Reading { text: text.into(), shape, statement, effects: Vec::new(), local: None, traits: OnceLock::new() }
    }

    /// What it does to its session when it is executed with these parameters, if that depends on them.
    pub(super) fn bound(&self, bind: &Bind<'_>) -> Option<Reading> {
        let depends = self.effects.iter().any(|effect| matches!(effect, Effect::SetTo(_)));
        depends.then(|| {
            let values = bind.values().1;
            let texts: Vec<_> = values.iter().map(|value| value.and_then(|value| str::from_utf8(value).ok())).collect();
            let effects = self.effects.iter().map(|effect| match effect {
                Effect::SetTo(config) => configuring(config, Some(&texts)),
                effect => effect.clone(),
            });
            Reading { effects: effects.collect(), ..self.again(&self.text) }
        })
    }

    /// What predictions are made from, with the hash of the text under this key.
    pub(super) fn traits(&self, key: Key) -> Box<Traits> {
        let make = || Traits { text: key.hash(self.text.as_bytes()), features: features(&self.text, None) };
        self.traits.get_or_init(|| Box::new(make())).clone()
    }
}

/// What the gateway has to do with a text.
fn local_of(statement: &Statement, own: Option<Local>, effects: &[Effect]) -> Option<Local> {
    let alone = statement.count == 1;
    let ours = |table: &String| table.starts_with("punctual.");
    match (own, effects) {
        (Some(local), _) if alone => return Some(local),
        (Some(_), _) => return Some(impossible("a statement about the gateway cannot be sent along with others")),
        (None, [Effect::Deallocate(name)]) if alone => return Some(Local::Deallocate(name.clone())),
        (None, _) => {}
    }
    if !statement.tables.iter().any(ours) {
        return None;
    }
    Some(if !statement.tables.iter().all(ours) {
        impossible("tables of the schema punctual cannot be mixed with other tables")
    } else if !alone {
        impossible("a statement about the gateway cannot be sent along with others")
    } else if statement.kind != Kind::Select {
        impossible("the schema punctual can only be selected from")
    } else {
        Local::Catalogue
    })
}

fn impossible(why: &str) -> Local {
    let hint = "The gateway answers SET, SHOW and RESET of punctual.*, and SELECT from punctual.*, each on its own.";
    Local::Impossible(Box::new(Problem::new(b"0A000", why).hint(hint)))
}

/// What has been found so far in a text.
#[derive(Debug, Default)]
struct Found {
    effects: Vec<Effect>,
    own: Option<Local>,
    /// True if the statement that is being read calls `set_config` for its session.
    configures: bool,
    /// True if a literal made a difference.
    depends_on_literals: bool,
}

/// The first words of a statement that are kept: enough for every rule below.
const FIRST_WORDS: usize = 12;

impl Found {
    fn read(&mut self, text: &str) {
        let mut words = Words::of(text);
        let mut first: Vec<Word<'_>> = Vec::with_capacity(FIRST_WORDS);
        let mut from = text;
        loop {
            let before = words.rest();
            let word = words.next();
            if matches!(word, None | Some(Word::Sign(';'))) {
                let end = if word.is_some() { words.rest().len() + 1 } else { before.len() };
                self.statement(&first, from[..from.len() - end].trim());
                first.clear();
                from = words.rest();
            }
            if let Some(Word::Plain(name) | Word::Quoted(name)) = word
                && is_temporary_schema(name)
            {
                self.stick(Stuck::TemporaryTable);
            }
            match word {
                None => return,
                Some(word @ Word::Plain(name)) => {
                    self.call(name, &words);
                    if first.len() < FIRST_WORDS {
                        first.push(word);
                    } else if word.is("hold") && first[0].is("declare") {
                        self.stick(Stuck::Cursor);
                    }
                    if word.is("into") && words.clone().next().is_some_and(is_temporary) {
                        self.stick(Stuck::TemporaryTable);
                    }
                }
                Some(Word::Sign(';')) => {}
                Some(word) if first.len() < FIRST_WORDS => first.push(word),
                Some(_) => {}
            }
        }
    }

    fn stick(&mut self, why: Stuck) {
        self.effects.push(Effect::Stick(why));
    }

    /// Looks at a name that may be that of a function that leaves something on its connection.
    fn call(&mut self, name: &str, after: &Words<'_>) {
        const LOCKS: [&str; 4] =
            ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"];
        let is_lock = || LOCKS.iter().any(|lock| name.eq_ignore_ascii_case(lock));
        let is_set_config = || name.eq_ignore_ascii_case("set_config");
        if !(name.len() == 10 || name.len() >= 16) || !(is_set_config() || is_lock()) {
            return;
        }
        let mut after = after.clone();
        if after.next() != Some(Word::Sign('(')) {
            return;
        }
        if is_lock() {
            return self.stick(Stuck::AdvisoryLock);
        }
        self.depends_on_literals = true;
        // set_config(name, value, true) ends with its transaction.
        let (mut depth, mut last) = (1, Word::Sign('('));
        for word in after {
            match word {
                Word::Sign('(') => depth += 1,
                Word::Sign(')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            last = word;
        }
        let is_local = last.is("true") || matches!(last, Word::Text(text) if text.eq_ignore_ascii_case("true"));
        self.configures |= !is_local;
    }

    /// A whole statement calls `set_config` for its session.
    fn configure(&mut self, text: &str) {
        let Some(all) = configs(text) else { return self.stick(Stuck::SetConfig) };
        self.effects.extend(all.into_iter().map(|config| configuring(&config, None)));
    }

    /// Looks at a whole statement, by its first words.
    fn statement(&mut self, first: &[Word<'_>], text: &str) {
        if std::mem::take(&mut self.configures) {
            self.configure(text);
        }
        let Some((Word::Plain(verb), rest)) = first.split_first() else { return };
        let second = |keyword: &str| rest.first().is_some_and(|word| word.is(keyword));
        match verb.to_ascii_lowercase().as_str() {
            "set" => self.set(rest, text),
            "reset" if second("all") => self.effects.push(Effect::ResetAll),
            "reset" => self.reset(rest),
            "show" => {
                if let Some((name, _)) = dotted(rest)
                    && let Some(name) = name.strip_prefix("punctual.")
                {
                    self.own = Some(Local::Show(name.to_owned()));
                }
            }
            "discard" if second("all") => self.effects.push(Effect::DiscardAll),
            "create" if rest.iter().take(4).any(|word| is_temporary(*word)) => self.stick(Stuck::TemporaryTable),
            "prepare" if !second("transaction") => self.stick(Stuck::Prepare),
            "deallocate" => self.deallocate(rest),
            "listen" => self.stick(Stuck::Listen),
            "declare" if rest.iter().any(|word| word.is("hold")) => self.stick(Stuck::Cursor),
            "load" => self.stick(Stuck::Library),
            "rollback" if rest.iter().take(3).any(|word| word.is("to")) => self.effects.push(Effect::RollBackTo),
            "commit" | "end" | "rollback" | "abort" => self.effects.push(Effect::EndTransaction),
            _ => {}
        }
    }

    /// SET, with what follows it.
    fn set(&mut self, mut rest: &[Word<'_>], text: &str) {
        let is = |rest: &[Word<'_>], at: usize, keyword: &str| rest.get(at).is_some_and(|word| word.is(keyword));
        let local = is(rest, 0, "local");
        if is(rest, 0, "session") && is(rest, 1, "characteristics") {
            return self.stick(Stuck::Characteristics);
        }
        if is(rest, 0, "role") || (is(rest, 0, "session") && is(rest, 1, "authorization")) {
            return self.stick(Stuck::Role);
        }
        if local || is(rest, 0, "session") {
            rest = &rest[1..];
        }
        let Some((name, value)) = dotted(rest) else { return };
        if let Some(own) = name.strip_prefix("punctual.") {
            self.own = Some(if local {
                impossible("SET LOCAL is not there for punctual.*: what a session wishes outlasts its transactions")
            } else {
                Local::Set(own.to_owned(), value_of(value))
            });
            return;
        }
        if local || matches!(name.as_str(), "transaction" | "constraints") {
            return;
        }
        // In quotes, or by the names of the variables. RESET ALL leaves these two as they are: who comes next would have them.
        if matches!(name.as_str(), "role" | "session_authorization") {
            return self.stick(Stuck::Role);
        }
        let name = match name.as_str() {
            "time" => "timezone",
            "names" => "client_encoding",
            "schema" => "search_path",
            name => name,
        };
        // What is created then is temporary.
        if name == "search_path"
            && value.iter().any(|word| matches!(word, Word::Text(text) if is_temporary_schema(text)))
        {
            self.stick(Stuck::TemporaryTable);
        }
        let to_default = value.len() == 2 && value[1].is("default");
        self.effects.push(if to_default {
            Effect::Reset(name.to_owned())
        } else {
            Effect::Set(name.to_owned(), text.to_owned())
        });
    }

    fn reset(&mut self, rest: &[Word<'_>]) {
        let Some((name, _)) = dotted(rest) else { return };
        match name.as_str() {
            "role" | "session" | "session_authorization" => self.stick(Stuck::Role),
            "time" => self.effects.push(Effect::Reset("timezone".to_owned())),
            name => match name.strip_prefix("punctual.") {
                Some(own) => self.own = Some(Local::Set(own.to_owned(), None)),
                None => self.effects.push(Effect::Reset(name.to_owned())),
            },
        }
    }

    fn deallocate(&mut self, rest: &[Word<'_>]) {
        let rest = match rest {
            [first, _, ..] if first.is("prepare") => &rest[1..],
            rest => rest,
        };
        match rest.first() {
            Some(word) if word.is("all") => self.effects.push(Effect::Deallocate(None)),
            Some(Word::Plain(name)) => self.effects.push(Effect::Deallocate(Some(name.to_ascii_lowercase()))),
            Some(Word::Quoted(name)) => self.effects.push(Effect::Deallocate(Some(name.replace("\"\"", "\"")))),
            _ => {}
        }
    }
}

/// True for the schema in which a connection's temporary things are, as all call it and as the catalogue does.
fn is_temporary_schema(name: &str) -> bool {
    let name = name.as_bytes();
    name.len() >= 7 && name[..7].eq_ignore_ascii_case(b"pg_temp") && matches!(name.get(7), None | Some(b'_'))
}

fn is_temporary(word: Word<'_>) -> bool {
    word.is("temp") || word.is("temporary")
}

/// Joins `a . b` at the start, in lower case, and gives what follows.
fn dotted<'a, 'b>(words: &'b [Word<'a>]) -> Option<(String, &'b [Word<'a>])> {
    let part = |word: &Word<'_>| match word {
        Word::Plain(name) => Some(name.to_ascii_lowercase()),
        Word::Quoted(name) => Some((*name).to_ascii_lowercase()),
        _ => None,
    };
    let (first, mut rest) = words.split_first()?;
    let mut name = part(first)?;
    while let [Word::Sign('.'), next, after @ ..] = rest {
        name = format!("{name}.{}", part(next)?);
        rest = after;
    }
    Some((name, rest))
}

/// What `set_config` does; None: its parameters are not known yet.
fn configuring(config: &Config, parameters: Option<&[Option<&str>]>) -> Effect {
    let Some(text) = config.text(parameters.unwrap_or_default()) else {
        return if parameters.is_none() { Effect::SetTo(config.clone()) } else { Effect::Stick(Stuck::SetConfig) };
    };
    match (config.name.as_str(), config.statement(&text)) {
        ("role" | "session_authorization", _) => Effect::Stick(Stuck::Role),
        ("search_path", _) if text.to_ascii_lowercase().contains("pg_temp") => Effect::Stick(Stuck::TemporaryTable),
        (_, Some(sql)) => Effect::Set(config.name.clone(), sql),
        (_, None) => Effect::Stick(Stuck::SetConfig),
    }
}

/// The value after `=` or TO, as text; None for DEFAULT and for nothing.
fn value_of(words: &[Word<'_>]) -> Option<String> {
    let [equals, value @ ..] = words else { return None };
    if !(equals.is("to") || *equals == Word::Sign('=')) || matches!(value, [word] if word.is("default")) {
        return None;
    }
    // `SET punctual.slo = 2s` is cut into one word or two; both mean what they say.
    let pieces = value.iter().map(|word| match word {
        Word::Plain(text) | Word::Quoted(text) | Word::Number(text) => (*text).to_owned(),
        Word::Text(text) => text.replace("''", "'"),
        Word::Sign(sign) => sign.to_string(),
    });
    Some(pieces.collect())
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stuck::TemporaryTable => "temporary tables live on one connection",
            Stuck::Prepare => "statements of PREPARE live on one connection",
            Stuck::Listen => "LISTEN is for one connection",
            Stuck::Cursor => "cursors WITH HOLD live on one connection",
            Stuck::AdvisoryLock => "advisory locks are held by one connection",
            Stuck::SetConfig => "what set_config sets lives on one connection",
            Stuck::Role => "SET ROLE and SET SESSION AUTHORIZATION are for one connection",
            Stuck::Characteristics => "SET SESSION CHARACTERISTICS is for one connection",
            Stuck::Library => "LOAD is for one connection",
            Stuck::UncertainSet => "a SET in the middle of transactions cannot be repeated elsewhere",
        })
    }
}

/// Texts that a session has read. Bounded: when it is full it starts afresh.
#[derive(Debug, Default)]
pub struct Readings {
    known: HashMap<Box<[u8]>, Known>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Known {
    reading: Arc<Reading>,
    /// True if the skeleton stands for other texts as well.
    for_others: bool,
}

impl Readings {
    /// The reading of a text.
    pub fn of(&mut self, text: &str) -> Arc<Reading> {
        if text.len() > LONGEST_REMEMBERED {
            return Arc::new(Reading::of(text));
        }
        let Some(for_others) = skeleton(text, &mut self.scratch) else { return Arc::new(Reading::of(text)) };
        if let Some(known) = self.known.get(self.scratch.as_slice()) {
            return if known.for_others { Arc::new(known.reading.again(text)) } else { Arc::clone(&known.reading) };
        }
        let (reading, holds_for_all) = Reading::with_certainty(text);
        let reading = Arc::new(reading);
        if !for_others || holds_for_all {
            if self.known.len() >= REMEMBERED {
                self.known.clear();
            }
            let known = Known { reading: Arc::clone(&reading), for_others };
            self.known.insert(self.scratch.as_slice().into(), known);
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(text: &str) -> Vec<Effect> {
        Reading::of(text).effects
    }

    fn sticks(text: &str) -> Option<Stuck> {
        effects(text).iter().find_map(|effect| match effect {
            Effect::Stick(why) => Some(*why),
            _ => None,
        })
    }

    #[test]
    fn sets_are_remembered_as_they_were_written() {
        let set = |name: &str, text: &str| vec![Effect::Set(name.into(), text.into())];
        assert_eq!(effects("SET Search_Path TO a, b;"), set("search_path", "SET Search_Path TO a, b"));
        assert_eq!(effects("set session time zone 'UTC'"), set("timezone", "set session time zone 'UTC'"));
        assert_eq!(effects("set my.\"Thing\" = ';'"), set("my.thing", "set my.\"Thing\" = ';'"));
        assert_eq!(effects("SET x = DEFAULT"), [Effect::Reset("x".into())]);
        assert_eq!(effects("reset x"), [Effect::Reset("x".into())]);
        for nothing in ["set local x = 1", "set transaction read only", "select 'set x = 1'", "update t set x = 1"] {
            assert_eq!(effects(nothing), [], "{nothing}");
        }
        assert_eq!(effects("set a=1; select 2 ; set b=3").len(), 2);
        assert_eq!(effects("select 1 ; set b=3"), set("b", "set b=3"));
    }

    #[test]
    fn what_lives_on_one_connection_sticks() {
        assert_eq!(sticks("create or replace local temp view v as select 1"), Some(Stuck::TemporaryTable));
        assert_eq!(sticks("select 1 into temporary t"), Some(Stuck::TemporaryTable));
        for text in [
            "create table pg_temp.t (a int)",
            "create type \"pg_temp\".mood as enum ('sad')",
            "alter table t set schema PG_TEMP",
            "select * into pg_temp_3.t from u",
            "set search_path to pg_temp, public",
            "set search_path = 'pg_temp'",
        ] {
            assert_eq!(sticks(text), Some(Stuck::TemporaryTable), "{text}");
        }
        assert_eq!(sticks("select 1 from pg_namespace where nspname not like 'pg_temp%' and a = pg_temporal"), None);
        assert_eq!(sticks("select 1; prepare p as select 1"), Some(Stuck::Prepare));
        assert_eq!(sticks("LISTEN x"), Some(Stuck::Listen));
        assert_eq!(sticks("declare c cursor with hold for select 1"), Some(Stuck::Cursor));
        assert_eq!(sticks("select pg_advisory_lock(1)"), Some(Stuck::AdvisoryLock));
        assert_eq!(sticks("select pg_catalog.set_config('a', f(1), false)"), Some(Stuck::SetConfig));
        assert_eq!(sticks("select set_config('role', 'r', false)"), Some(Stuck::Role));
        assert_eq!(sticks("select set_config('search_path', 'public, pg_temp', false)"), Some(Stuck::TemporaryTable));
        for text in [
            "set role r",
            "SET SESSION ROLE r",
            "set \"role\" to r",
            "set session authorization r",
            "set session_authorization = 'r'",
            "set session \"session_authorization\" = 'r'",
            "reset session_authorization",
        ] {
            assert_eq!(sticks(text), Some(Stuck::Role), "{text}");
        }
        for loose in [
            "create table temporary_things (a int)",
            "select set_config('a', f(1), true)",
            "select pg_advisory_xact_lock(1)",
            "declare c cursor for select 1",
            "prepare transaction 'x'",
            "select 'pg_advisory_lock(1)'",
            "insert into t values (1)",
        ] {
            assert_eq!(sticks(loose), None, "{loose}");
        }
    }

    #[test]
    fn set_config_with_a_parameter_is_a_set_once_it_is_bound() {
        let reading = Reading::of("SELECT set_config('jit', $1, false)");
        let bound = |values: &[&[u8]]| {
            let mut frame = b"B\0\0\0\0\0\0\0\0".to_vec();
            frame.extend_from_slice(&u16::try_from(values.len()).expect("a few").to_be_bytes());
            for value in values {
                frame.extend_from_slice(&u32::try_from(value.len()).expect("a few").to_be_bytes());
                frame.extend_from_slice(value);
            }
            frame.extend_from_slice(&[0, 0]);
            reading.bound(&Bind::read(&frame).expect("it is one")).expect("it depends on it").effects
        };
        let set = "SELECT pg_catalog.set_config('jit', 'on', false)".to_owned();
        assert_eq!(bound(&[b"on"]), [Effect::Set("jit".into(), set)]);
        assert_eq!(bound(&[b"\xff"]), [Effect::Stick(Stuck::SetConfig)]);
        assert_eq!(bound(&[]), [Effect::Stick(Stuck::SetConfig)]);
        assert!(!reading.bearing().is_for_the_writer);
    }

    #[test]
    fn a_cluster_that_only_reads_is_not_for_what_would_change_it() {
        let is_not = |text: &str, within: bool| Reading::of(text).bearing().on_reader.is_refused(within);
        for text in ["insert into t values (1)", "select nextval('s')", "select 1; insert into t values (1)"] {
            assert!(is_not(text, true) && is_not(text, false), "{text}");
        }
        assert!(is_not("set transaction read write", true));
        assert!(is_not("begin", false) && is_not("call p()", false), "what follows may do anything");
        assert!(!is_not("begin", true) && !is_not("savepoint a", true), "the cluster says what it thinks of it");
        for text in ["select 1", "fetch c", "begin read only", "commit", "set a = 1"] {
            assert!(!is_not(text, true) && !is_not(text, false), "{text}");
        }
        assert!(Reading::of("set role r").bearing().is_for_the_writer, "whatever comes, it comes there");
    }

    #[test]
    fn statements_about_the_gateway_are_found() {
        let local = |text: &str| Reading::of(text).local;
        assert_eq!(local("SET punctual.slo = '2s'"), Some(Local::Set("slo".into(), Some("2s".into()))));
        assert_eq!(local("set session Punctual.Class to etl;"), Some(Local::Set("class".into(), Some("etl".into()))));
        assert_eq!(local("set punctual.slo = 2s"), Some(Local::Set("slo".into(), Some("2s".into()))));
        assert_eq!(local("reset punctual.slo"), Some(Local::Set("slo".into(), None)));
        assert_eq!(local("set punctual.slo to default"), Some(Local::Set("slo".into(), None)));
        assert_eq!(local("show punctual.slo"), Some(Local::Show("slo".into())));
        assert_eq!(local("select * from punctual.queries q join punctual.clusters c on true"), Some(Local::Catalogue));
        assert_eq!(local("deallocate prepare \"A\""), Some(Local::Deallocate(Some("A".into()))));
        for mixed in [
            "select * from punctual.queries, t",
            "select 1; select * from punctual.queries",
            "set punctual.slo = '1s'; select 1",
            "set local punctual.slo = '1s'",
        ] {
            assert!(matches!(local(mixed), Some(Local::Impossible(_))), "{mixed}");
        }
        assert_eq!(local("select 'punctual.queries' from t"), None);
        assert_eq!(local("show search_path"), None);
    }

    #[test]
    fn transactions_ends_are_told_from_savepoints() {
        assert_eq!(effects("ROLLBACK"), [Effect::EndTransaction]);
        assert_eq!(effects("rollback work to savepoint a"), [Effect::RollBackTo]);
        assert_eq!(effects("release savepoint a"), []);
    }

    #[test]
    fn what_was_read_once_holds_for_other_literals_where_it_can() {
        let mut readings = Readings::default();
        let one = readings.of("select a from t where b = 1");
        let other = readings.of("select a from t where b = 22");
        assert!(Arc::ptr_eq(&one.statement, &other.statement));
        assert_eq!(&*other.text, "select a from t where b = 22");
        assert!(Arc::ptr_eq(&readings.of("commit"), &readings.of("commit")));
        readings.of("set a = 1");
        assert_eq!(readings.of("set a = 2").effects, [Effect::Set("a".into(), "set a = 2".into())]);
        readings.of("select set_config('a', 'b', 'true')");
        let set = "SELECT pg_catalog.set_config('a', 'b', false)".to_owned();
        assert_eq!(readings.of("select set_config('a', 'b', 'false')").effects, [Effect::Set("a".into(), set)]);
        readings.of("show punctual.slo");
        assert_eq!(readings.of("show punctual.class").local, Some(Local::Show("class".into())));
    }
}
