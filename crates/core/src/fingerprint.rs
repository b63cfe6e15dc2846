//! The literal-free shape of a query, so that what was learnt from one run holds for the next.
//!
//! Two texts have one fingerprint when they differ only in literals, parameters, white space, comments, the case of
//! unquoted words, or the length of a list of literals (`IN (1, 2)` and `IN (1, 2, 3)`; `VALUES` rows too). Any text
//! gets one: what the tokenizer rejects is cut into words by hand. The number must not change between builds, since
//! history is keyed by it: it is 64-bit FNV-1a over the shape, finished with a mixer.

use std::fmt;

use serde::{Deserialize, Serialize};
use sqlparser::tokenizer::Token;

use crate::id::UserId;
use crate::lexemes::Lexeme;

/// A query's shape as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Reads it as it is shown: sixteen hexadecimal digits. None for anything else.
    pub fn read(text: &str) -> Option<Fingerprint> {
        let digits = text.len() == 16 && text.bytes().all(|c| c.is_ascii_hexdigit());
        if digits { u64::from_str_radix(text, 16).ok().map(Fingerprint) } else { None }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The longest shape that is kept as text; the fingerprint always covers the whole.
pub const MAX_SHAPE: usize = 4_096;

/// Collects the shape of a text, token by token.
#[derive(Debug)]
pub(crate) struct Shape {
    text: String,
    hash: u64,
    list: List,
    /// Pieces that are not written yet, since they fold away if the list goes on.
    held: Vec<&'static str>,
    /// True while the parenthesis opened last holds nothing but literals.
    pure_row: bool,
}

/// How far into a list of literals, or of parenthesised rows of literals, the text is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum List {
    None,
    /// `?`
    Literal,
    /// `?` and a comma that is held.
    Comma,
    /// `( ? )`
    Row,
    /// `( ? )` and a comma that is held.
    RowComma,
    /// The same, and inside a further row, all of it held: after its parenthesis, a literal, a comma.
    NextRow,
    NextRowLiteral,
    NextRowComma,
}

impl Shape {
    pub(crate) fn new() -> Shape {
        Shape { text: String::new(), hash: EMPTY, list: List::None, held: Vec::new(), pure_row: false }
    }

    /// Adds a word, a literal or a sign.
    pub(crate) fn lexeme(&mut self, lexeme: &Lexeme<'_>) {
        match lexeme {
            Lexeme::Word(piece) | Lexeme::Sign(piece) => self.piece(piece),
            Lexeme::Quoted(name) => self.piece(&format!("\"{name}\"")),
            Lexeme::Number(_) | Lexeme::Text(_) | Lexeme::Parameter(_) | Lexeme::Literal => self.literal(),
        }
    }

    /// Adds a literal or a parameter.
    pub(crate) fn literal(&mut self) {
        self.list = match self.list {
            List::Comma => {
                self.held.clear();
                List::Literal
            }
            List::NextRow => {
                self.held.push("?");
                List::NextRowLiteral
            }
            List::NextRowComma => {
                self.held.pop();
                List::NextRowLiteral
            }
            _ => {
                self.settle();
                self.write("?");
                List::Literal
            }
        };
    }

    /// Adds a word or an operator as it is.
    pub(crate) fn piece(&mut self, piece: &str) {
        let hold = match (self.list, piece) {
            (List::Literal, ",") => Some((List::Comma, ",")),
            (List::Row, ",") => Some((List::RowComma, ",")),
            (List::RowComma, "(") => Some((List::NextRow, "(")),
            (List::NextRowLiteral, ",") => Some((List::NextRowComma, ",")),
            _ => None,
        };
        if let Some((list, held)) = hold {
            self.held.push(held);
            self.list = list;
        } else if (self.list, piece) == (List::NextRowLiteral, ")") {
            self.held.clear();
            self.list = List::Row;
        } else {
            let row = (self.list, piece) == (List::Literal, ")") && self.pure_row;
            self.settle();
            self.write(piece);
            self.pure_row = piece == "(";
            self.list = if row { List::Row } else { List::None };
        }
    }

    /// Writes what was held: the list did not go on.
    fn settle(&mut self) {
        for held in std::mem::take(&mut self.held) {
            self.write(held);
        }
        self.list = List::None;
    }

    fn write(&mut self, piece: &str) {
        if !self.text.is_empty() || piece.is_empty() {
            self.feed(b' ');
        }
        piece.bytes().for_each(|byte| self.feed(byte));
        if self.text.len() + piece.len() < MAX_SHAPE {
            if !self.text.is_empty() {
                self.text.push(' ');
            }
            self.text.push_str(piece);
        }
    }

    fn feed(&mut self, byte: u8) {
        self.hash = fed(self.hash, byte);
    }

    /// The number and the text of the shape.
    pub(crate) fn finish(mut self) -> (Fingerprint, String) {
        self.settle();
        (Fingerprint(mixed(self.hash)), self.text)
    }
}

impl UserId {
    /// The user of that name: the same hash of it as of a shape.
    pub fn of(name: &str) -> UserId {
        UserId(mixed(name.bytes().fold(EMPTY, fed)))
    }
}

/// FNV-1a of nothing.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of one byte more.
fn fed(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// The finaliser of SplitMix64: FNV's low bits alone are weak, and the number is used to spread things.
fn mixed(hash: u64) -> u64 {
    let mut mixed = hash;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// True for what a fingerprint leaves out: numbers, strings of every quoting, parameters.
pub(crate) fn is_literal(token: &Token) -> bool {
    use Token::*;
    matches!(
        token,
        Number(..)
            | SingleQuotedString(_)
            | TripleSingleQuotedString(_)
            | TripleDoubleQuotedString(_)
            | DollarQuotedString(_)
            | SingleQuotedByteStringLiteral(_)
            | DoubleQuotedByteStringLiteral(_)
            | TripleSingleQuotedByteStringLiteral(_)
            | TripleDoubleQuotedByteStringLiteral(_)
            | SingleQuotedRawStringLiteral(_)
            | DoubleQuotedRawStringLiteral(_)
            | TripleSingleQuotedRawStringLiteral(_)
            | TripleDoubleQuotedRawStringLiteral(_)
            | NationalStringLiteral(_)
            | QuoteDelimitedStringLiteral(_)
            | NationalQuoteDelimitedStringLiteral(_)
            | EscapedStringLiteral(_)
            | UnicodeStringLiteral(_)
            | HexStringLiteral(_)
            | Placeholder(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Statement;

    fn shape(sql: &str) -> String {
        Statement::read(sql).shape
    }

    fn same(a: &str, b: &str) -> bool {
        Statement::read(a).fingerprint == Statement::read(b).fingerprint
    }

    #[test]
    fn literals_comments_case_and_white_space_do_not_count() {
        assert_eq!(shape("SELECT a FROM t WHERE b = 17 -- why"), "select a from t where b = ?");
        assert!(same("select A from T where b='x'", "SELECT a\n FROM t /* ! */ WHERE b = 'it''s'"));
        assert!(same("select $1", "select 4.5e3"));
    }

    #[test]
    fn lists_of_literals_fold_whatever_their_length() {
        assert_eq!(shape("select 1 from t where a in (1, 2, 3) and b"), "select ? from t where a in ( ? ) and b");
        assert!(same("insert into t values (1, 'a')", "insert into t values (1, 'a'), (2, 'b'), (3, 'c')"));
        assert!(!same("select a, b from t", "select a from t"));
        assert!(!same("select f(a, 1), (2) from t", "select f(a, 1) from t"));
        assert_eq!(shape("select (1), (2, b), (3)"), "select ( ? ) , ( ? , b ) , ( ? )");
        assert_eq!(shape("select 1, a, 2, 3, f(4), b"), "select ? , a , ? , f ( ? ) , b");
    }

    #[test]
    fn quoted_names_keep_their_case() {
        assert!(!same("select \"A\" from t", "select a from t"));
    }

    #[test]
    fn any_text_gets_a_fingerprint() {
        for text in ["", ";", "'unclosed", "/* unclosed", "select \u{0} from", "💥 $$ half", "\"open"] {
            Statement::read(text);
        }
        assert!(same("select 'unclosed 12", "select 'unclosed 77"));
        assert!(!same("select a from 'x", "select b from 'x"));
    }

    #[test]
    fn the_number_of_a_shape_never_changes() {
        // History written by an older build is keyed by this number.
        assert_eq!(Statement::read("SELECT 1").fingerprint.to_string(), "cd9a7f6170df316c");
        assert_eq!(Fingerprint::read("cd9a7f6170df316c"), Some(Statement::read("select 2").fingerprint));
        assert_eq!(Fingerprint::read("+d9a7f6170df316c"), None);
    }

    #[test]
    fn the_number_of_a_user_never_changes() {
        assert_ne!(UserId::of("ann"), UserId::of("Ann"));
        assert_eq!(UserId::of("ann").0, 9_265_845_255_492_201_856);
    }
}
