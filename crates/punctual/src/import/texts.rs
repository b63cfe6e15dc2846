//! The text of each query from a file that the record names: `queries/{template:02}.sql`.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::records::Cell;
use super::units::whole;

/// Texts that are kept, and the bytes that they may hold together.
const KEPT: usize = 16_384;
const KEPT_BYTES: usize = 64 << 20;

/// The most digits that a number is filled up to.
const WIDEST: usize = 32;

/// A name of files, with the values of columns in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Plain(String),
    /// The value of a column, filled up with zeros to so many digits.
    Column {
        name: String,
        digits: usize,
    },
}

/// Why a name of files makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplateError {
    /// A brace is not closed, or closes nothing.
    Brace,
    /// What follows the colon is no width such as `02`.
    Width(String),
    /// No column is named, so that every query would have one text.
    Constant,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::Brace => {
                f.write_str("a brace has no partner; write {{ or }} for one that stands for itself")
            }
            TemplateError::Width(width) => write!(f, "{width:?} is no width; write {{column:02}} for two digits"),
            TemplateError::Constant => f.write_str("it names no column, as in queries/{template:02}.sql"),
        }
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// If it makes no sense.
    pub(crate) fn read(text: &str) -> Result<Template, TemplateError> {
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            if rest[at + 1..].starts_with(brace) {
                plain.push_str(brace);
                rest = &rest[at + 2..];
                continue;
            }
            let (inside, after) = rest[at + 1..].split_once('}').ok_or(TemplateError::Brace)?;
            if brace == "}" || inside.is_empty() || inside.contains('{') {
                return Err(TemplateError::Brace);
            }
            if !plain.is_empty() {
                pieces.push(Piece::Plain(std::mem::take(&mut plain)));
            }
            pieces.push(column(inside)?);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Plain(plain));
        }
        let constant = !pieces.iter().any(|piece| matches!(piece, Piece::Column { .. }));
        if constant { Err(TemplateError::Constant) } else { Ok(Template { pieces }) }
    }

    /// The columns that it names, in order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Plain(_) => None,
            Piece::Column { name, .. } => Some(name.as_str()),
        })
    }

    /// The name for a record with these values of its columns.
    ///
    /// # Errors
    /// The value that would lead out of the directory, or is null.
    pub(crate) fn fill<'a>(&self, mut values: impl Iterator<Item = &'a Cell>) -> Result<String, String> {
        let mut path = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Plain(text) => path.push_str(text),
                Piece::Column { digits, .. } => {
                    let value = values.next().and_then(Cell::text).unwrap_or_default();
                    let plain = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                    let number = whole(&value).filter(|_| plain);
                    let value = number.map_or(value, |number| format!("{number:0digits$}"));
                    if value.is_empty() || value.contains(['/', '\\', '\0']) || value.starts_with('.') {
                        return Err(value);
                    }
                    path.push_str(&value);
                }
            }
        }
        Ok(path)
    }
}

fn column(inside: &str) -> Result<Piece, TemplateError> {
    let Some((name, width)) = inside.rsplit_once(':') else {
        return Ok(Piece::Column { name: inside.to_owned(), digits: 0 });
    };
    let digits = width.strip_prefix('0').and_then(|digits| digits.parse().ok()).filter(|digits| *digits <= WIDEST);
    let digits = digits.ok_or_else(|| TemplateError::Width(width.to_owned()))?;
    Ok(Piece::Column { name: name.to_owned(), digits })
}

/// Texts that were read already.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    known: HashMap<String, Arc<str>>,
    bytes: usize,
}

impl Texts {
    /// The text in a file, without white space at its ends.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn get(&mut self, path: String) -> Result<Arc<str>, (PathBuf, io::Error)> {
        if let Some(text) = self.known.get(&path) {
            return Ok(text.clone());
        }
        let bytes = fs::read(&path).map_err(|cause| (PathBuf::from(&path), cause))?;
        let text: Arc<str> = String::from_utf8_lossy(&bytes).trim().into();
        if self.known.len() >= KEPT || self.bytes + text.len() > KEPT_BYTES {
            (self.known, self.bytes) = (HashMap::new(), 0);
        }
        self.bytes += text.len();
        self.known.insert(path, text.clone());
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, values: &[&str]) -> Result<String, String> {
        let cells: Vec<Cell> = values.iter().map(|value| Cell::of_text(value)).collect();
        Template::read(template).unwrap().fill(cells.iter())
    }

    #[test]
    fn columns_fill_the_name_and_numbers_are_widened() {
        assert_eq!(filled("q/{template:02}.sql", &["7"]).unwrap(), "q/07.sql");
        assert_eq!(filled("q/{template:02}.sql", &["123"]).unwrap(), "q/123.sql");
        assert_eq!(filled("{set}/{template}.sql", &["ds", "7.0"]).unwrap(), "ds/7.sql");
        assert_eq!(filled("{{q}}/{name:02}", &["ab"]).unwrap(), "{q}/ab");
        assert_eq!(Template::read("{a}/{b:02}").unwrap().columns().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_value_cannot_lead_out_of_the_directory() {
        for value in ["../../etc/passwd", "/etc/passwd", "..", "", "a/b", ".hidden"] {
            assert_eq!(filled("q/{name}", &[value]), Err(value.to_owned()));
        }
    }

    #[test]
    fn a_template_that_makes_no_sense_is_refused() {
        for text in ["{a", "a}", "{}", "{a{b}}", "x}{y"] {
            assert_eq!(Template::read(text), Err(TemplateError::Brace), "{text}");
        }
        assert_eq!(Template::read("{a:x}"), Err(TemplateError::Width("x".into())));
        assert_eq!(Template::read("{a:099}"), Err(TemplateError::Width("099".into())));
        assert_eq!(Template::read("q.sql"), Err(TemplateError::Constant));
    }

    #[test]
    fn a_text_is_read_once_and_a_missing_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.sql").display().to_string();
        fs::write(&path, "\nselect 1;\n").unwrap();
        let mut texts = Texts::default();
        assert_eq!(&*texts.get(path.clone()).unwrap(), "select 1;");
        fs::remove_file(&path).unwrap();
        assert_eq!(&*texts.get(path).unwrap(), "select 1;");
        assert_eq!(texts.get("missing.sql".into()).unwrap_err().0, PathBuf::from("missing.sql"));
    }
}
