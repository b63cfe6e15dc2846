//! The words and signs of a text, which is all that fingerprints and features look at.
//!
//! Every query is cut before anything is decided about it, so this is on the path of all of them. The tokenizer of
//! `sqlparser` knows every corner of the language and allocates for each token; most texts have no corners. So a text
//! of plain names, numbers, strings, comments and common signs is cut here, by reference, in a tenth of the time; and
//! where anything else turns up (an operator of Postgres's own, an escape, a letter beyond ASCII), the tokenizer reads
//! the whole text instead. What comes out is the same either way, since history is keyed by it: the tests hold the two
//! against each other.
//!
//! ```text
//!   text ──▶ Plain: names, numbers, strings, signs ──▶ lexemes
//!              └── anything else ──▶ Tokenizer ─────────▲
//! ```

use std::borrow::Cow;

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use crate::fingerprint::is_literal;
use crate::tag::Tag;

/// A word or a sign of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lexeme<'t> {
    /// A word without quotes, lower case.
    Word(Cow<'t, str>),
    /// A name in double quotes, as it was written between them.
    Quoted(Cow<'t, str>),
    /// A number, as it was written.
    Number(Cow<'t, str>),
    /// A string in single quotes, with what was written between them.
    Text(Cow<'t, str>),
    /// A parameter, as it was written: `$1`.
    Parameter(Cow<'t, str>),
    /// Another literal.
    Literal,
    /// Anything else, as SQL writes it.
    Sign(Cow<'t, str>),
}

impl Lexeme<'_> {
    /// True for numbers, strings and parameters.
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self, Lexeme::Number(_) | Lexeme::Text(_) | Lexeme::Parameter(_) | Lexeme::Literal)
    }

    /// True for words, in quotes or not.
    pub(crate) fn is_name(&self) -> bool {
        matches!(self, Lexeme::Word(_) | Lexeme::Quoted(_))
    }

    /// True for that sign.
    pub(crate) fn is(&self, sign: &str) -> bool {
        matches!(self, Lexeme::Sign(this) if this == sign)
    }

    /// The word or sign, lower case; `?` for a literal.
    pub(crate) fn lower(&self) -> Cow<'_, str> {
        match self {
            Lexeme::Word(text) | Lexeme::Sign(text) => Cow::Borrowed(text),
            Lexeme::Quoted(name) if name.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                Cow::Owned(name.to_ascii_lowercase())
            }
            Lexeme::Quoted(name) => Cow::Borrowed(name),
            Lexeme::Number(_) | Lexeme::Text(_) | Lexeme::Parameter(_) | Lexeme::Literal => Cow::Borrowed("?"),
        }
    }
}

/// Cuts `text`; `lower` is the same with its ASCII letters in lower case. Comments are read for what they say of the
/// query. None: not even the tokenizer can cut it.
pub(crate) fn cut<'t>(text: &'t str, lower: &'t str, tag: &mut Tag) -> Option<Vec<Lexeme<'t>>> {
    let mut plain = Plain { text, lower, at: 0, comments: Vec::new() };
    // A word and the space after it are six bytes or so.
    let mut lexemes = Vec::with_capacity(text.len().min(1 << 16) / 4);
    loop {
        match plain.next() {
            Step::Lexeme(lexeme) => lexemes.push(lexeme),
            Step::Nothing => {}
            Step::End => {
                plain.comments.iter().for_each(|comment| tag.read_comment(comment));
                return Some(lexemes);
            }
            Step::Unusual => return cut_by_tokenizer(text, tag),
        }
    }
}

/// The slow and complete way.
fn cut_by_tokenizer(text: &str, tag: &mut Tag) -> Option<Vec<Lexeme<'static>>> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize().ok()?;
    let mut lexemes = Vec::with_capacity(tokens.len());
    for token in tokens {
        match token {
            Token::Whitespace(Whitespace::MultiLineComment(comment)) => tag.read_comment(&comment),
            Token::Whitespace(Whitespace::SingleLineComment { comment, .. }) => tag.read_comment(&comment),
            Token::Whitespace(_) | Token::EOF => {}
            token => lexemes.push(lexeme_of(token)),
        }
    }
    Some(lexemes)
}

fn lexeme_of(token: Token) -> Lexeme<'static> {
    match token {
        Token::Word(mut word) if word.quote_style.is_none() => {
            word.value.make_ascii_lowercase();
            Lexeme::Word(Cow::Owned(word.value))
        }
        Token::Word(word) => Lexeme::Quoted(Cow::Owned(word.value)),
        Token::Number(number, _) => Lexeme::Number(Cow::Owned(number)),
        Token::SingleQuotedString(text) => Lexeme::Text(Cow::Owned(text)),
        Token::Placeholder(name) => Lexeme::Parameter(Cow::Owned(name)),
        token if is_literal(&token) => Lexeme::Literal,
        token => Lexeme::Sign(Cow::Owned(token.to_string())),
    }
}

/// Cuts what is plain.
struct Plain<'t> {
    text: &'t str,
    lower: &'t str,
    at: usize,
    comments: Vec<&'t str>,
}

enum Step<'t> {
    Lexeme(Lexeme<'t>),
    /// A comment.
    Nothing,
    End,
    /// Something that the tokenizer had better read.
    Unusual,
}

impl<'t> Plain<'t> {
    fn next(&mut self) -> Step<'t> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let Some(&first) = bytes.get(self.at) else { return Step::End };
        let second = bytes.get(self.at + 1).copied().unwrap_or(b' ');
        match (first, second) {
            (b'A'..=b'Z' | b'a'..=b'z' | b'_', _) => self.word(),
            (b'0'..=b'9', _) | (b'.', b'0'..=b'9') => self.number(),
            (b'.', b'_') => Step::Unusual,
            (b'\'', _) => self.string(),
            (b'$', b'0'..=b'9') => self.parameter(),
            (b'"', _) => self.quoted(),
            (b'-', b'-') => self.line_comment(),
            (b'/', b'*') => self.block_comment(),
            _ => self.sign(first, second),
        }
    }

    fn word(&mut self) -> Step<'t> {
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().position(|byte| !is_part_of_word(*byte)).unwrap_or(rest.len());
        // `E'...'`, `U&'...'`, `b"..."`: a string with a prefix, or its beginning.
        if matches!(rest.get(len), Some(b'\'' | b'"' | b'&' | 0x80..)) {
            return Step::Unusual;
        }
        let word = &self.lower[self.at..self.at + len];
        self.at += len;
        Step::Lexeme(Lexeme::Word(Cow::Borrowed(word)))
    }

    /// Digits with at most one point: `7`, `7.`, `7.5`, `.5`.
    fn number(&mut self) -> Step<'t> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| {
            let after = &rest[from..];
            from + after.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(after.len())
        };
        let mut len = digits(0);
        if rest.get(len) == Some(&b'.') {
            len = digits(len + 1);
        }
        // An exponent, a separator, a unit.
        if rest.get(len).is_some_and(|byte| is_part_of_word(*byte) || !byte.is_ascii()) {
            return Step::Unusual;
        }
        let number = &self.text[self.at..self.at + len];
        self.at += len;
        Step::Lexeme(Lexeme::Number(Cow::Borrowed(number)))
    }

    fn string(&mut self) -> Step<'t> {
        let from = self.at + 1;
        let (mut at, mut doubled) = (from, false);
        loop {
            let Some(quote) = self.text[at..].find('\'') else { return Step::Unusual };
            at += quote + 1;
            if self.text.as_bytes().get(at) != Some(&b'\'') {
                self.at = at;
                let text = &self.text[from..at - 1];
                return Step::Lexeme(Lexeme::Text(match doubled {
                    true => Cow::Owned(text.replace("''", "'")),
                    false => Cow::Borrowed(text),
                }));
            }
            (at, doubled) = (at + 1, true);
        }
    }

    fn parameter(&mut self) -> Step<'t> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        // `$1$`: the beginning of a string.
        if rest.get(len).is_some_and(|byte| is_part_of_word(*byte) || !byte.is_ascii()) {
            return Step::Unusual;
        }
        let name = &self.text[self.at..self.at + 1 + len];
        self.at += 1 + len;
        Step::Lexeme(Lexeme::Parameter(Cow::Borrowed(name)))
    }

    fn quoted(&mut self) -> Step<'t> {
        let from = self.at + 1;
        let Some(len) = self.text[from..].find('"') else { return Step::Unusual };
        if self.text.as_bytes().get(from + len + 1) == Some(&b'"') {
            return Step::Unusual;
        }
        self.at = from + len + 1;
        Step::Lexeme(Lexeme::Quoted(Cow::Borrowed(&self.text[from..from + len])))
    }

    fn line_comment(&mut self) -> Step<'t> {
        let from = self.at + 2;
        let rest = &self.text[from..];
        let len = rest.find(['\n', '\r']).unwrap_or(rest.len());
        self.comments.push(&rest[..len]);
        self.at = from + len;
        Step::Nothing
    }

    fn block_comment(&mut self) -> Step<'t> {
        let from = self.at + 2;
        let Some(len) = self.text[from..].find("*/") else { return Step::Unusual };
        let comment = &self.text[from..from + len];
        // A comment in a comment has to be closed first.
        if comment.contains("/*") || comment.ends_with('/') {
            return Step::Unusual;
        }
        self.comments.push(comment);
        self.at = from + len + 2;
        Step::Nothing
    }

    fn sign(&mut self, first: u8, second: u8) -> Step<'t> {
        let (sign, len) = match (first, second) {
            (b'(', _) => ("(", 1),
            (b')', _) => (")", 1),
            (b',', _) => (",", 1),
            (b'.', _) => (".", 1),
            (b';', _) => (";", 1),
            (b'[', _) => ("[", 1),
            (b']', _) => ("]", 1),
            (b'+', _) => ("+", 1),
            (b'*', _) => ("*", 1),
            (b'/', _) => ("/", 1),
            (b'=', b'=' | b'>') => return Step::Unusual,
            (b'=', _) => ("=", 1),
            (b':', b':') => ("::", 2),
            (b'!', b'=') => ("<>", 2),
            (b'<', b'>') => ("<>", 2),
            (b'<', b'=') => ("<=", 2),
            (b'>', b'=') => (">=", 2),
            (b'|', b'|') => ("||", 2),
            (b'<', _) => ("<", 1),
            (b'>', _) => (">", 1),
            (b'-', _) => ("-", 1),
            _ => return Step::Unusual,
        };
        // Those that other signs may prolong to an operator of their own.
        let grows = matches!(first, b'<' | b'>' | b'-' | b'|');
        if grows && self.text.as_bytes().get(self.at + len).is_some_and(|next| b"+-*/<>=~!@#%^&|`?".contains(next)) {
            return Step::Unusual;
        }
        self.at += len;
        Step::Lexeme(Lexeme::Sign(Cow::Borrowed(sign)))
    }
}

fn is_part_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Both ways, with what the comments say; the first is None where it is left to the other.
    fn both(text: &str) -> [Option<(Vec<Lexeme<'static>>, Tag)>; 2] {
        let (lower, mut tag) = (text.to_ascii_lowercase(), Tag::default());
        let mut plain = Plain { text, lower: &lower, at: 0, comments: Vec::new() };
        let mut lexemes = Vec::new();
        let quickly = loop {
            match plain.next() {
                Step::Lexeme(lexeme) => lexemes.push(owned(&lexeme)),
                Step::Nothing => {}
                Step::End => break true,
                Step::Unusual => break false,
            }
        };
        plain.comments.iter().for_each(|comment| tag.read_comment(comment));
        let mut other = Tag::default();
        [quickly.then_some((lexemes, tag)), cut_by_tokenizer(text, &mut other).map(|lexemes| (lexemes, other))]
    }

    fn owned(lexeme: &Lexeme<'_>) -> Lexeme<'static> {
        let own = |text: &Cow<'_, str>| Cow::Owned(text.clone().into_owned());
        match lexeme {
            Lexeme::Word(text) => Lexeme::Word(own(text)),
            Lexeme::Quoted(text) => Lexeme::Quoted(own(text)),
            Lexeme::Number(text) => Lexeme::Number(own(text)),
            Lexeme::Text(text) => Lexeme::Text(own(text)),
            Lexeme::Parameter(text) => Lexeme::Parameter(own(text)),
            Lexeme::Literal => Lexeme::Literal,
            Lexeme::Sign(text) => Lexeme::Sign(own(text)),
        }
    }

    /// True if the text is plain; panics where the two ways differ.
    fn is_plain(text: &str) -> bool {
        let [quick, slow] = both(text);
        let plain = quick.is_some();
        assert!(!plain || quick == slow, "{text:?}: {quick:?} and {slow:?}");
        plain
    }

    #[test]
    fn plain_texts_are_cut_as_the_tokenizer_cuts_them() {
        for text in [
            "",
            "SELECT a.b, \"C d\".e FROM s.T1 AS x WHERE y$1 <> 7.5 AND z != .5 OR w >= 1. -- punctual: class=a\n LIMIT 5;",
            "/* punctual: class=etl, slo=3m */ select 'it''s \\', count(*)::int / (a||b)[1] <= -1;;",
            "select $1, a$2 from t where b=$3 and c>$45;",
            "select a.5, 1..2, x.1.2 from t where a<b and c> d and e=f and g=-1",
            "select 'straße' -- ünd \r\n from t /**/ where /***/ a /* / */ = 1",
        ] {
            assert!(is_plain(text), "{text}");
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_tokenizer() {
        for text in [
            "select E'\\n'",
            "select u&'x'",
            "select b\"x\"",
            "select $1$ x $1$",
            "select $1a",
            "select 1e5",
            "select 0x1F",
            "select 1_000",
            "select a->>b",
            "select a<-b",
            "select a<@b",
            "select straße",
            "/* /* */ */",
            "/* a/*/",
            "\"a\"\"b\"",
            "'open",
            "\"open",
            "/* open",
            "a => b",
            "a == b",
            ":x",
            "%",
            "5L",
            "$$ x $$",
            "a ._b",
            "\u{b}",
        ] {
            assert!(!is_plain(text), "{text}");
        }
    }

    const PIECES: [&str; 64] = [
        "select",
        "FROM",
        "t",
        "a_1",
        "B$",
        "b",
        "E",
        "n",
        "U",
        "x",
        "_",
        "0",
        "17",
        ".",
        "..",
        "'",
        "''",
        "'a b'",
        "\"",
        "\"\"",
        "\"Q q\"",
        "(",
        ")",
        ",",
        ";",
        "+",
        "-",
        "*",
        "/",
        "=",
        "<",
        ">",
        "!",
        "|",
        "||",
        ":",
        "::",
        "--",
        "--x\n",
        "/*",
        "*/",
        "/* y */",
        "/*punctual: class=c*/",
        " ",
        " ",
        " ",
        "\n",
        "\r",
        "\t",
        "$",
        "$1",
        "&",
        "%",
        "@",
        "#",
        "?",
        "[",
        "]",
        "{",
        "\\",
        "é",
        "İ",
        "e5",
        "L",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_cut_the_same_both_ways(at in prop::collection::vec(0..PIECES.len(), 0..12)) {
            let text: String = at.iter().map(|at| PIECES[*at]).collect();
            is_plain(&text);
        }
    }
}
