//! The files of a history directory.
//!
//! ```text
//!   history-2026-11-29T13.parquet      an hour of ended queries, rolled up
//!   history-2026-11-29T13.1.parquet    rows of that hour that came after it was
//!   history-2026-11-29T14.log          an hour that is being written
//!   *.tmp                              a file that is being made; left over, it means nothing
//!   *.damaged                          what a damaged log looked like
//! ```
//!
//! An hour's rows are in one or more **parts**, each a log and later a Parquet file of the same name. A part's Parquet
//! file appears, whole, only when its log is complete, and the log goes only afterwards: where both are there, the log
//! counts for nothing. So no crash in between shows a row twice.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punctual_core::time::Time;

const MICROS_PER_HOUR: u64 = 3_600_000_000;

/// The last hour that has a name: 9999-12-31T23.
const LAST_HOUR: u64 = 70_389_527;

/// An hour since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hour(u64);

/// A part of an hour. Parts are numbered in the order in which they were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Part {
    pub(crate) hour: Hour,
    pub(crate) number: u32,
}

impl Hour {
    /// The hour that `at` is in; what lies beyond year 9999 counts to its last hour.
    pub(crate) fn of(at: Time) -> Hour {
        Hour((at.micros() / MICROS_PER_HOUR).min(LAST_HOUR))
    }

    /// Its end.
    pub(crate) fn end(self) -> Time {
        Time::from_micros((self.0 + 1) * MICROS_PER_HOUR)
    }

    fn parse(text: &str) -> Option<Hour> {
        let bytes = text.as_bytes();
        let shaped = bytes.len() == 13 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[10] == b'T';
        let digits = |from: usize, to: usize| {
            let digits = text.get(from..to)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
        };
        if !shaped {
            return None;
        }
        let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
        let hour = Hour(days_before(year, month, day)? * 24 + digits(11, 13)?);
        // Whatever is no real date comes out under another name.
        (hour.to_string() == text).then_some(hour)
    }
}

/// As in `2026-11-29T14`.
impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut day, mut year) = (self.0 / 24, 1970);
        // 146,097 days are 400 years of any kind.
        year += day / 146_097 * 400;
        day %= 146_097;
        while day >= days_in_year(year) {
            day -= days_in_year(year);
            year += 1;
        }
        let mut month = 1;
        while day >= days_in_month(year, month) {
            day -= days_in_month(year, month);
            month += 1;
        }
        write!(f, "{year:04}-{month:02}-{:02}T{:02}", day + 1, self.0 % 24)
    }
}

fn days_before(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let years: u64 = (1970..year).map(days_in_year).sum();
    let months: u64 = (1..month).map(|month| days_in_month(year, month)).sum();
    Some(years + months + day - 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Part {
    /// The name of its file with that extension.
    pub(crate) fn file(self, extension: &str) -> String {
        match self.number {
            0 => format!("history-{}.{extension}", self.hour),
            number => format!("history-{}.{number}.{extension}", self.hour),
        }
    }

    /// The part and the extension that a file's name stands for.
    fn parse(name: &str) -> Option<(Part, &str)> {
        let rest = name.strip_prefix("history-")?;
        let hour = Hour::parse(rest.get(..13)?)?;
        let rest = rest.get(13..)?.strip_prefix('.')?;
        let numbered = rest.split_once('.').and_then(|(number, extension)| {
            let plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
            plain.then(|| number.parse().ok())?.map(|number| (number, extension))
        });
        let (number, extension) = numbered.unwrap_or((0, rest));
        Some((Part { hour, number }, extension))
    }
}

/// What there is of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// Its log's size in bytes.
    pub(crate) log: Option<u64>,
    /// Its Parquet file's.
    pub(crate) parquet: Option<u64>,
    /// Damaged and temporary files, with their sizes.
    pub(crate) others: Vec<(PathBuf, u64)>,
}

impl Files {
    /// Bytes in all.
    pub(crate) fn bytes(&self) -> u64 {
        self.log.unwrap_or(0) + self.parquet.unwrap_or(0) + self.others.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }
}

/// All parts in a directory, oldest first. Other files are left alone.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn parts(dir: &Path) -> io::Result<BTreeMap<Part, Files>> {
    let mut parts: BTreeMap<Part, Files> = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((part, extension)) = name.to_str().and_then(Part::parse) else { continue };
        let bytes = match entry.metadata() {
            Ok(metadata) => metadata.len(),
            // Gone since it was listed.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(cause),
        };
        let files = parts.entry(part).or_default();
        match extension {
            "log" => files.log = Some(bytes),
            "parquet" => files.parquet = Some(bytes),
            _ => files.others.push((entry.path(), bytes)),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_named_as_the_calendar_has_them() {
        // From `date -u -d @N +%Y-%m-%dT%H`.
        for (seconds, name) in [
            (0, "1970-01-01T00"),
            (951_782_400, "2000-02-29T00"),
            (1_795_962_480, "2026-11-29T14"),
            (4_107_542_399, "2100-02-28T23"),
            (4_107_542_400, "2100-03-01T00"),
            (253_402_300_799, "9999-12-31T23"),
            (253_402_300_800, "9999-12-31T23"),
            (u64::MAX / 1_000_000, "9999-12-31T23"),
        ] {
            let hour = Hour::of(Time::from_micros(seconds * 1_000_000));
            assert_eq!(hour.to_string(), name);
            assert_eq!(Hour::parse(name), Some(hour));
        }
    }

    #[test]
    fn what_is_no_hour_is_not_read_as_one() {
        for text in
            ["2026-02-29T00", "2026-13-01T00", "2026-00-01T00", "2026-01-00T00", "2026-01-01T24", "1969-12-31T23"]
        {
            assert_eq!(Hour::parse(text), None, "{text}");
        }
        for text in ["", "2026-01-01", "2026-01-01 00", "+026-01-01T00", "2026-01-01T0é"] {
            assert_eq!(Hour::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_stand_for_parts_both_ways() {
        let hour = Hour::parse("2026-11-29T14").unwrap();
        for (number, extension, name) in [
            (0, "log", "history-2026-11-29T14.log"),
            (0, "parquet.tmp", "history-2026-11-29T14.parquet.tmp"),
            (12, "parquet", "history-2026-11-29T14.12.parquet"),
            (12, "log.damaged", "history-2026-11-29T14.12.log.damaged"),
        ] {
            assert_eq!(Part { hour, number }.file(extension), name);
            assert_eq!(Part::parse(name), Some((Part { hour, number }, extension)));
        }
        for name in ["history-.log", "history-2026-11-29T14", "history-2026-11-29T14log", "key", "lock"] {
            assert_eq!(Part::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_directory_lists_its_parts_oldest_first_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("history-2026-11-29T14.log", 5),
            ("history-2026-11-29T09.parquet", 7),
            ("history-2026-11-29T09.1.log", 1),
            ("history-2026-11-29T09.log", 2),
            ("history-2026-11-29T09.parquet.tmp", 3),
            ("notes.txt", 4),
        ] {
            fs::write(dir.path().join(name), vec![0; bytes]).unwrap();
        }
        let parts = parts(dir.path()).unwrap();
        let seen: Vec<_> =
            parts.iter().map(|(part, files)| (part.file("x"), files.log, files.parquet, files.bytes())).collect();
        let expected = [
            ("history-2026-11-29T09.x".to_owned(), Some(2), Some(7), 12),
            ("history-2026-11-29T09.1.x".to_owned(), Some(1), None, 1),
            ("history-2026-11-29T14.x".to_owned(), Some(5), None, 5),
        ];
        assert_eq!(seen, expected);
    }
}
