//! A text with its literals taken out and numbered: what the grammar has to be read of, and what is put in later.
//!
//! ```text
//!   select a from t where ts > '2024-01-01' and b in (1, 2, 3) limit 10
//!   select a from t where ts > '0' and b in ( 1 ) limit 2          and: 2024-01-01 | 1 2 3 | 10
//! ```
//!
//! What is left is SQL still: each literal is one of its own kind that says its number. So the parser reads it as it would
//! read the text, and two texts that leave the same have the same grammar. (The fingerprint folds more: lists of any kind,
//! and strings with numbers. It is where to look, and the text that is left decides.)
//!
//! A tree must not be so deep that walking it overflows the stack, nor a text so long that parsing it takes long: such
//! texts are not asked about.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use super::calendar::Unit;
use crate::lexemes::{self, Lexeme};
use crate::tag::Tag;

/// The longest text that is looked at.
pub(crate) const LONGEST: usize = 256 << 10;
/// The most words and signs that are parsed.
const MOST_LEXEMES: usize = 8_192;
/// The most parentheses in one another.
const MOST_NESTED: usize = 32;
/// The most operators around one another: a tree is as deep as that.
const MOST_OPERATORS: usize = 240;

/// The most that parsing is expected to take, in words and signs: those in a call are parsed twice, to find out whether its
/// arguments have names, and those in a call in a call four times.
const MOST_WORK: usize = 20_000;

/// A literal of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal<'t> {
    Text(Cow<'t, str>),
    Number(Cow<'t, str>),
    /// `$1` is 0.
    Parameter(usize),
    /// Something else.
    Other,
}

/// A text with its literals taken out.
#[derive(Debug)]
pub(crate) struct Asked<'t> {
    /// What is left.
    pub(crate) shape: String,
    literals: Vec<Literal<'t>>,
    /// The literals that each number stands for: one, or those of a list.
    slots: Vec<Range<u32>>,
}

impl<'t> Asked<'t> {
    /// Of a text; `lower` is the same with its ASCII letters in lower case. None if it cannot be cut, or not be asked about.
    pub(crate) fn of(text: &'t str, lower: &'t str) -> Option<Asked<'t>> {
        if text.len() > LONGEST {
            return None;
        }
        let lexemes = lexemes::cut(text, lower, &mut Tag::default())?;
        let mut asked = Asked { shape: String::with_capacity(text.len()), literals: Vec::new(), slots: Vec::new() };
        let (mut depth, mut written, mut at) = (Depth::default(), 0, 0);
        while let Some(lexeme) = lexemes.get(at) {
            written += 1;
            let before = at.checked_sub(1).map(|before| &lexemes[before]);
            if written > MOST_LEXEMES || !depth.goes_on(before, lexeme, lexemes.get(at + 1)) {
                return None;
            }
            let opens_list = lexeme.is("(") && at > 0 && matches!(&lexemes[at - 1], Lexeme::Word(word) if word == "in");
            at += 1;
            let len = if opens_list { list_length(&lexemes[at..]) } else { 0 };
            asked.write(lexeme);
            if len > 0 {
                asked.list(&lexemes[at..at + len]);
                at += len;
            }
        }
        Some(asked)
    }

    /// The literals under a number.
    pub(crate) fn slot(&self, number: usize) -> &[Literal<'t>] {
        let range = self.slots.get(number).cloned().unwrap_or_default();
        self.literals.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// All literals, in order.
    pub(crate) fn literals(&self) -> &[Literal<'t>] {
        &self.literals
    }

    fn write(&mut self, lexeme: &Lexeme<'t>) {
        match lexeme {
            Lexeme::Word(text) | Lexeme::Sign(text) => self.shape.push_str(text),
            Lexeme::Quoted(name) => {
                self.shape.push('"');
                self.shape.push_str(&name.replace('"', "\"\""));
                self.shape.push('"');
            }
            literal => match self.same_unit(literal) {
                Some(slot) => self.number(literal, slot),
                None => self.list(std::slice::from_ref(literal)),
            },
        }
        self.shape.push(' ');
    }

    /// Writes a number for the literals among these, of the kind of the first.
    fn list(&mut self, lexemes: &[Lexeme<'t>]) {
        let from = self.literals.len() as u32;
        self.literals.extend(lexemes.iter().filter_map(literal));
        self.number(&lexemes[0], self.slots.len());
        self.slots.push(from..self.literals.len() as u32);
        if lexemes.len() > 1 {
            self.shape.push(' ');
        }
    }

    fn number(&mut self, literal: &Lexeme<'t>, slot: usize) {
        let wrote = match literal {
            Lexeme::Number(_) => write!(self.shape, "{slot}"),
            Lexeme::Parameter(_) => write!(self.shape, "${slot}"),
            _ => write!(self.shape, "'{slot}'"),
        };
        debug_assert!(wrote.is_ok());
    }

    /// The number under which the same unit of time stands already: what is grouped by `date_trunc('day', ts)` is seen to be
    /// what is selected. (Of other literals it is chance whether they are the same.)
    fn same_unit(&self, lexeme: &Lexeme<'t>) -> Option<usize> {
        let Lexeme::Text(text) = lexeme else { return None };
        if text.len() > "microseconds".len() || Unit::named(text).is_none() {
            return None;
        }
        self.slots.iter().position(|slot| match self.literals.get(slot.start as usize..slot.end as usize) {
            Some([Literal::Text(other)]) => other == text,
            _ => false,
        })
    }
}

fn literal<'t>(lexeme: &Lexeme<'t>) -> Option<Literal<'t>> {
    Some(match lexeme {
        Lexeme::Text(text) => Literal::Text(text.clone()),
        Lexeme::Number(number) => Literal::Number(number.clone()),
        Lexeme::Parameter(name) => match name[1..].parse::<usize>() {
            Ok(number @ 1..) => Literal::Parameter(number - 1),
            _ => Literal::Other,
        },
        Lexeme::Literal => Literal::Other,
        Lexeme::Word(_) | Lexeme::Quoted(_) | Lexeme::Sign(_) => return None,
    })
}

/// How many lexemes a list of literals alone has, up to its closing parenthesis; zero if it is not one, or of one literal.
fn list_length(lexemes: &[Lexeme<'_>]) -> usize {
    let mut len = 0;
    while lexemes.get(len).is_some_and(Lexeme::is_literal) {
        match lexemes.get(len + 1) {
            Some(next) if next.is(",") => len += 2,
            Some(next) if next.is(")") && len > 0 => return len + 1,
            _ => return 0,
        }
    }
    0
}

/// How deep a tree may get: operators around one another, in the parentheses that are open.
#[derive(Default)]
struct Depth {
    /// Of each open parenthesis: the operators outside since the last comma, and whether it is that of a call.
    outside: Vec<(usize, bool)>,
    here: usize,
    sum: usize,
    calls: u32,
    work: usize,
}

impl Depth {
    /// False if it is too deep.
    fn goes_on(&mut self, before: Option<&Lexeme<'_>>, lexeme: &Lexeme<'_>, next: Option<&Lexeme<'_>>) -> bool {
        self.work = self.work.saturating_add(1 << self.calls);
        if self.work > MOST_WORK {
            return false;
        }
        let sign = match lexeme {
            Lexeme::Sign(sign) => sign,
            Lexeme::Word(word) => {
                // The only brackets that the depth of parentheses does not bound.
                if matches!(&**word, "array" | "struct" | "map") && next.is_some_and(|next| next.is("<")) {
                    return false;
                }
                return !is_operator(word) || self.operator();
            }
            _ => return true,
        };
        match &**sign {
            "(" | "[" | "{" => {
                let call = match before {
                    Some(Lexeme::Word(word)) => !is_before_parenthesis(word),
                    before => before.is_some_and(Lexeme::is_name),
                };
                self.outside.push((self.here, call));
                self.here = 0;
                self.calls += u32::from(call);
                self.outside.len() <= MOST_NESTED
            }
            ")" | "]" | "}" => {
                self.sum -= self.here;
                let (here, call) = self.outside.pop().unwrap_or_default();
                self.here = here;
                self.calls -= u32::from(call);
                true
            }
            "," | ";" => {
                self.sum -= self.here;
                self.here = 0;
                true
            }
            "." => true,
            _ => self.operator(),
        }
    }

    fn operator(&mut self) -> bool {
        self.here += 1;
        self.sum += 1;
        self.sum <= MOST_OPERATORS
    }
}

/// True for words before a parenthesis that is not that of a call.
fn is_before_parenthesis(word: &str) -> bool {
    is_operator(word)
        || matches!(
            word,
            "as" | "by"
                | "distinct"
                | "else"
                | "exists"
                | "from"
                | "having"
                | "join"
                | "lateral"
                | "materialized"
                | "on"
                | "over"
                | "select"
                | "then"
                | "using"
                | "values"
                | "when"
                | "where"
        )
}

fn is_operator(word: &str) -> bool {
    matches!(
        word,
        "and"
            | "or"
            | "not"
            | "xor"
            | "is"
            | "isnull"
            | "notnull"
            | "in"
            | "like"
            | "ilike"
            | "similar"
            | "rlike"
            | "regexp"
            | "between"
            | "collate"
            | "at"
            | "overlaps"
            | "operator"
            | "member"
            | "div"
            | "union"
            | "intersect"
            | "except"
            | "minus"
            | "interval"
            | "prior"
            | "explain"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Option<String> {
        Asked::of(text, &text.to_ascii_lowercase()).map(|asked| asked.shape)
    }

    #[test]
    fn literals_are_numbered_and_lists_of_them_are_one() {
        let text = "SELECT \"A\"\"b\" FROM t WHERE ts > 'x' AND b IN (1, 2, 3) and c in ($2) and d in (-1, 2) limit 7;";
        let lower = text.to_ascii_lowercase();
        let asked = Asked::of(text, &lower).expect("plain");
        assert_eq!(
            asked.shape,
            "select \"A\"\"b\" from t where ts > '0' and b in ( 1 ) and c in ( $2 ) and d in ( - 3 , 4 ) limit 5 ; "
        );
        assert_eq!(asked.slot(0), [Literal::Text("x".into())]);
        assert_eq!(asked.slot(1), ["1", "2", "3"].map(|number| Literal::Number(number.into())));
        assert_eq!(asked.slot(2), [Literal::Parameter(1)]);
        assert_eq!(asked.slot(99), []);
    }

    #[test]
    fn what_is_written_alike_leaves_the_same_and_what_is_not_does_not() {
        let same = |one: &str, other: &str| shape(one) == shape(other);
        assert!(same("select 1 from t where a in (1,2)", "SELECT 2 FROM t /* x */ WHERE a IN (1,2,3,4)"));
        assert!(!same("select a from t where a > '1'", "select a from t where a > 1"));
        assert!(!same("select f(1, 2)", "select f(1)"));
        assert!(!same("select \"A\"", "select a"));
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_not_asked_about() {
        let nested = |times: usize| format!("select {}1{}", "(".repeat(times), ")".repeat(times));
        assert!(shape(&nested(MOST_NESTED)).is_some());
        assert!(shape(&nested(MOST_NESTED + 1)).is_none());
        assert!(shape(&format!("select 1{}", "+1".repeat(MOST_OPERATORS))).is_some());
        assert!(shape(&format!("select 1{}", "+1".repeat(MOST_OPERATORS + 1))).is_none());
        assert!(shape(&format!("select 1{}", ",1+1".repeat(2_000))).is_some());
        assert!(shape(&format!("select {}1{}", "(1+1+(".repeat(16), "))".repeat(16))).is_some());
        assert!(shape(&format!("select a in (1{})", ",1".repeat(50_000))).is_some());
        assert!(shape(&format!("select 1{}", ",1".repeat(5_000))).is_none());
        assert!(shape(&"x".repeat(LONGEST + 1)).is_none());
        assert!(shape("select x::array<array<int>>").is_none());
        assert!(shape("'open").is_none());
    }
}
