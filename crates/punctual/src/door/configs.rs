//! `SELECT set_config('name', 'value', false)`: a SET that some drivers and tools say as a query.
//!
//! A session that ran one could keep its connection for good, as it does after anything that lives on one. But asyncpg runs it in
//! most sessions, and pg_dump in all of its own; so where the text says what is set, and nothing but that, it is remembered and
//! said again elsewhere like a SET. Where it is one call among others, or sets what it works out, it is not.

use std::borrow::Cow;

use super::words::{Word, Words};

/// What a call sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The variable, lower case.
    pub name: String,
    /// To what.
    pub value: Value,
}

/// The second argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text, as it is between its quotes.
    Text(String),
    /// The parameter of that number, from 1.
    Parameter(usize),
}

impl Config {
    /// The text that it is set to; None if that is not one of `parameters`.
    pub fn text<'a>(&'a self, parameters: &[Option<&'a str>]) -> Option<Cow<'a, str>> {
        match &self.value {
            Value::Text(text) => Some(Cow::Borrowed(text)),
            Value::Parameter(number) => {
                let text = (*parameters.get(number.checked_sub(1)?)?)?;
                Some(Cow::Owned(text.replace('\'', "''")))
            }
        }
    }

    /// The statement that sets it to that on another connection; None if it cannot be said again.
    pub fn statement(&self, text: &str) -> Option<String> {
        // What a backslash means inside quotes is for another setting to say.
        let says_itself = !text.contains(['\\', '\0']);
        says_itself.then(|| format!("SELECT pg_catalog.set_config('{}', '{text}', false)", self.name))
    }
}

/// What a statement sets for its session, if it is a SELECT of `set_config` and `current_setting` with plain arguments and
/// nothing else. What lasts for a transaction is not among it.
pub(super) fn configs(statement: &str) -> Option<Vec<Config>> {
    let mut words = Words::of(statement).collect::<Vec<_>>().into_iter().peekable();
    words.next().filter(|word| word.is("select"))?;
    let mut found = Vec::new();
    loop {
        let mut called = words.next()?;
        if called.is("pg_catalog") {
            words.next().filter(|word| *word == Word::Sign('.'))?;
            called = words.next()?;
        }
        words.next().filter(|word| *word == Word::Sign('('))?;
        let arguments = arguments(&mut words)?;
        match (arguments.as_slice(), called) {
            ([Argument::Text(_), ..], called) if called.is("current_setting") => {}
            ([Argument::Text(name), value, Argument::Text(local)], called) if called.is("set_config") => {
                let value = match value {
                    Argument::Text(text) => Value::Text((*text).to_owned()),
                    Argument::Parameter(number) => Value::Parameter(*number),
                };
                let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
                match local.to_ascii_lowercase().as_str() {
                    "true" => {}
                    "false" if plain => found.push(Config { name: name.to_ascii_lowercase(), value }),
                    _ => return None,
                }
            }
            _ => return None,
        }
        if words.next_if(|word| word.is("as")).is_some() {
            words.next().filter(|word| matches!(word, Word::Plain(_) | Word::Quoted(_)))?;
        }
        match words.next() {
            None => return Some(found),
            Some(Word::Sign(',')) => {}
            Some(_) => return None,
        }
    }
}

enum Argument<'a> {
    Text(&'a str),
    Parameter(usize),
}

/// Plain arguments, with the parenthesis after them.
fn arguments<'a>(words: &mut impl Iterator<Item = Word<'a>>) -> Option<Vec<Argument<'a>>> {
    let mut all = Vec::new();
    loop {
        all.push(match words.next()? {
            Word::Text(text) => Argument::Text(text),
            Word::Plain(word) if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") => {
                Argument::Text(word)
            }
            Word::Sign('$') => match words.next()? {
                Word::Number(digits) => Argument::Parameter(digits.parse().ok()?),
                _ => return None,
            },
            _ => return None,
        });
        match words.next()? {
            Word::Sign(',') => {}
            Word::Sign(')') => return Some(all),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(statement: &str, parameters: &[Option<&str>]) -> Option<Vec<Option<String>>> {
        let again = |config: &Config| config.text(parameters).and_then(|text| config.statement(&text));
        configs(statement).map(|all| all.iter().map(again).collect())
    }

    #[test]
    fn what_a_driver_sets_by_a_query_is_known_from_its_text() {
        let set = |name: &str, value: &str| Some(format!("SELECT pg_catalog.set_config('{name}', '{value}', false)"));
        let asyncpg = "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new";
        assert_eq!(said(asyncpg, &[]), Some(vec![set("jit", "off")]));
        assert_eq!(said("SELECT set_config('jit', $1, false)", &[Some("on")]), Some(vec![set("jit", "on")]));
        assert_eq!(said("SELECT set_config('a', $1, false)", &[Some("it's")]), Some(vec![set("a", "it''s")]));
        assert_eq!(said("select set_config('A.b', 'it''s', 'f' )", &[]), None, "what 'f' means is not looked into");
        let pg_dump = "SELECT pg_catalog.set_config('search_path', '', false)";
        assert_eq!(said(pg_dump, &[]), Some(vec![set("search_path", "")]));
        assert_eq!(said("select set_config('a', 'b', true), current_setting('c', true)", &[]), Some(vec![]));
    }

    #[test]
    fn what_it_sets_otherwise_is_not() {
        assert_eq!(said("SELECT set_config('jit', $1, false)", &[None]), Some(vec![None]), "to nothing");
        assert_eq!(
            said("SELECT set_config('jit', $2, false)", &[Some("on")]),
            Some(vec![None]),
            "to what is not there"
        );
        assert_eq!(said("SELECT set_config('a', $1, false)", &[Some("\\")]), Some(vec![None]));
        for sql in [
            "select set_config('a', f(1), false)",
            "select set_config('a', 'b' || 'c', false)",
            "select set_config('a', 'b', false) where false",
            "select set_config('a', 'b', false) from t",
            "select case when c then set_config('a', 'b', false) end",
            "select set_config($1, 'b', false)",
            "select set_config('a', 'b', $1)",
            "select set_config('a''', 'b', false)",
            "select set_config('a', 'b', false",
            "select set_config('a', 'b'), set_config",
            "select f('a', 'b', false)",
            "with x as (select set_config('a', 'b', false)) select 1",
            "select",
        ] {
            assert_eq!(configs(sql), None, "{sql}");
        }
    }
}
