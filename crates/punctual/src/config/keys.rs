//! Every key of the configuration file, once.
//!
//! The reader takes defaults and bounds from this table, unknown keys are compared with it, and the tables of
//! `docs/configuration.md` are printed from it: so what is documented is what is read.

mod admission;
mod gateway;
mod lists;
mod rules;

use std::fmt::{self, Write};

use punctual_core::time::Span;

use super::value::bytes_text;

pub(super) use admission::{LANE, LANES};
pub(super) use gateway::{GATEWAY, HISTORY, JOURNAL, TLS};
pub(super) use lists::{CLASS, CLUSTER, ONLY_FOR, RULE, TABLE};
pub(super) use rules::{PLAN, POLICY, PREDICTION, SCALING};

/// A table of the file, such as `[policy]`.
pub(super) struct Table {
    /// Its name.
    pub(super) name: &'static str,
    /// True if it is written once for each thing: `[[cluster]]`.
    pub(super) list: bool,
    /// What it is about.
    pub(super) what: &'static str,
    /// Its keys.
    pub(super) keys: &'static [Key],
}

/// A key.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) fallback: Fallback,
    /// What it governs, as a sentence.
    pub(super) what: &'static str,
}

/// What a key's value looks like, with its bounds, which are included.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number.
    Count { least: u64, most: u64 },
    /// A whole number that may be below zero.
    Whole { least: i64, most: i64 },
    /// A number of queries, or a share of all that may run at once.
    Limit,
    /// A number.
    Number { least: f64, most: f64 },
    /// A duration.
    Duration { least: Span, most: Span },
    /// A number of bytes.
    Bytes { least: u64, most: u64 },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A name of ours: lower-case letters, digits, `_`, `-` and `.`.
    Name,
    /// Any text but an empty one.
    Text,
    /// A path; a relative one starts at the file's directory.
    Path,
    /// A list of directories that are there.
    Dirs,
    /// A program and its arguments, as a list.
    Words,
    /// An address to listen at.
    Listen,
    /// Where a cluster listens.
    Address,
    /// A list of match rules.
    Rules,
}

/// What holds where a key is not written.
#[derive(Clone, Copy)]
pub(super) enum Fallback {
    /// This value, written as in the file.
    Is(&'static str),
    /// There is none: the key must be written.
    Required,
    /// What these words say.
    Said(&'static str),
}

use Fallback::{Is, Required, Said};
use Kind::{
    Address, Bytes, Choice, Count, Dirs, Duration, Limit, Listen, Name, Number, Path, Rules, Text, Whole, Words,
};

const NOTHING: Span = Span::ZERO;
const MILLISECOND: Span = Span::from_millis(1);
const SECOND: Span = Span::from_secs(1);
const HOUR: Span = Span::from_secs(3_600);
const DAY: Span = Span::from_secs(86_400);
const YEAR: Span = Span::from_secs(365 * 86_400);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn key(name: &'static str, kind: Kind, fallback: Fallback, what: &'static str) -> Key {
    Key { name, kind, fallback, what }
}

/// The tables of the file.
pub(super) static TABLES: [&Table; 13] = [
    &GATEWAY,
    &TLS,
    &HISTORY,
    &JOURNAL,
    &PREDICTION,
    &POLICY,
    &LANES,
    &SCALING,
    &PLAN,
    &CLASS,
    &LANE,
    &TABLE,
    &CLUSTER,
];

impl Table {
    /// The table of that name.
    pub(super) fn named(name: &str) -> Option<&'static Table> {
        TABLES.into_iter().find(|table| table.name == name)
    }

    /// How its header is written.
    pub(super) fn header(&self) -> String {
        if self.list { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }

    /// The key of that name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// In people's words, with its bounds.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Count { least, most } => write!(f, "a whole number from {least} to {most}"),
            Whole { least, most } => write!(f, "a whole number from {least} to {most}"),
            Limit => write!(f, "a number of queries, or a share such as `\"20%\"`"),
            Number { least, most } => write!(f, "a number from {least} to {most}"),
            Duration { least, most } => write!(f, "a duration from {least} to {most}"),
            Bytes { least, most } => write!(f, "a size from {} to {}", bytes_text(least), bytes_text(most)),
            Choice(words) => write!(f, "{}", one_of(words)),
            Name => write!(f, "a name"),
            Text => write!(f, "text"),
            Path => write!(f, "a path"),
            Dirs => write!(f, "a list of directories"),
            Words => write!(f, "a list of words"),
            Listen => write!(f, "an address and a port"),
            Address => write!(f, "an address"),
            Rules => write!(f, "a list of rules"),
        }
    }
}

/// `"a"`, `"b"` or `"c"`.
fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Every table with its keys, as Markdown: the generated part of `docs/configuration.md`.
pub fn markdown() -> String {
    let mut text = String::new();
    for table in TABLES {
        write_table(&mut text, table);
        if table.name == "class" {
            write_table(&mut text, &RULE);
        }
    }
    text
}

fn write_table(text: &mut String, table: &Table) {
    let header =
        if table.name == RULE.name { "`match`, in `[[class]]`".to_owned() } else { format!("`{}`", table.header()) };
    let _ = write!(
        text,
        "### {header}\n\n{}\n\n| key | value | default | what it governs |\n|---|---|---|---|\n",
        table.what
    );
    for Key { name, kind, fallback, what } in table.keys {
        let fallback = match fallback {
            Is(written) => format!("`{written}`"),
            Required => "required".to_owned(),
            Said(words) => (*words).to_owned(),
        };
        let _ = writeln!(text, "| `{name}` | {kind} | {fallback} | {what} |");
    }
    text.push('\n');
}
