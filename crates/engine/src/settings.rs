//! What a session may SET and SHOW.
//!
//! Drivers set a handful of parameters when they connect and expect to read them back. They are kept here, a
//! map for each session; none reaches DataFusion, whose options would change the plans and the limits of
//! everyone. A few have a meaning: the statement timeout, `work_mem`, which bounds the memory of each
//! statement once it is set, and how dates, intervals, bytes and floats are written as text.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::sqlstate::{Failure, SqlState};

/// The version of Postgres that drivers take this for: what `datafusion-pg-catalog` imitates.
pub(crate) const SERVER_VERSION: &str = "16.6";

/// Parameters that a client is told about at its start and whenever they change, with the name as Postgres
/// spells it.
const REPORTED: [&str; 12] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "standard_conforming_strings",
    "TimeZone",
];

/// Every parameter known, in lower case, with its default. Alphabetical.
const KNOWN: [(&str, &str); 41] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "on"),
    ("enable_seqscan", "on"),
    ("extra_float_digits", "1"),
    ("geqo", "on"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("jit", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C.UTF-8"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160006"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("transaction_deferrable", "off"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
    ("work_mem", "4MB"),
];

const READ_ONLY: [&str; 10] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_identifier_length",
    "server_encoding",
    "server_version",
    "server_version_num",
    "transaction_deferrable",
];

/// Parameters with a dot belong to extensions; Postgres keeps any, we keep this many.
const MOST_CUSTOM: usize = 64;

/// The longest value that is kept.
const LONGEST_VALUE: usize = 8 << 10;

/// The parameters of one session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What differs from the default, by lower-case name.
    changed: BTreeMap<String, String>,
    /// What SET LOCAL replaced, to be put back when the transaction ends.
    local: Vec<(String, Option<String>)>,
    timeout: Option<Duration>,
    server_timeout: Option<Duration>,
}

impl Settings {
    /// Those of a new session. `server_timeout` is the statement timeout when the session sets none.
    pub(crate) fn new(server_timeout: Option<Duration>) -> Settings {
        Settings { changed: BTreeMap::new(), local: Vec::new(), timeout: server_timeout, server_timeout }
    }

    /// How long a statement may run.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Bytes of memory that a statement may use, if the session has said so.
    pub(crate) fn work_mem(&self) -> Option<usize> {
        parse_memory(self.changed.get("work_mem")?).ok()
    }

    /// Sets a parameter, or with `None` back to its default. Returns what the client must be told, if
    /// anything: the parameter's name as Postgres spells it, and its value.
    pub(crate) fn set(&mut self, name: &str, value: Option<String>) -> Result<Option<(&'static str, String)>, Failure> {
        let name = name.to_ascii_lowercase();
        let known = check_name(&name)?;
        if READ_ONLY.contains(&name.as_str()) {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(Failure::new(SqlState::InsufficientPrivilege, message));
        }
        let value = match value {
            Some(value) => Some(checked(&name, value)?),
            None => None,
        };
        let custom = self.changed.keys().filter(|name| name.contains('.')).count();
        if !known && value.is_some() && custom >= MOST_CUSTOM && !self.changed.contains_key(&name) {
            let message = format!("a session keeps at most {MOST_CUSTOM} parameters of its own");
            return Err(Failure::new(SqlState::LimitExceeded, message));
        }
        match value {
            Some(value) => self.changed.insert(name.clone(), value),
            None => self.changed.remove(&name),
        };
        if name == "statement_timeout" {
            self.timeout = self.effective_timeout()?;
        }
        let reported = REPORTED.into_iter().find(|given| given.eq_ignore_ascii_case(&name));
        Ok(reported.map(|spelled| (spelled, self.value(&name))))
    }

    /// SET LOCAL: until the transaction ends.
    pub(crate) fn set_local(
        &mut self,
        name: &str,
        value: Option<String>,
    ) -> Result<Option<(&'static str, String)>, Failure> {
        let before = self.changed.get(&name.to_ascii_lowercase()).cloned();
        let told = self.set(name, value)?;
        if self.local.len() < MOST_CUSTOM {
            self.local.push((name.to_owned(), before));
        }
        Ok(told)
    }

    /// Puts back what SET LOCAL replaced. Returns what the client must be told.
    pub(crate) fn end_transaction(&mut self) -> Vec<(&'static str, String)> {
        let local = std::mem::take(&mut self.local);
        local.into_iter().rev().filter_map(|(name, before)| self.set(&name, before).ok().flatten()).collect()
    }

    /// RESET ALL. Returns what the client must be told.
    pub(crate) fn reset_all(&mut self) -> Vec<(&'static str, String)> {
        self.changed.clear();
        self.local.clear();
        self.timeout = self.server_timeout;
        self.reported()
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Result<String, Failure> {
        let name = name.to_ascii_lowercase();
        if check_name(&name)? || self.changed.contains_key(&name) { Ok(self.value(&name)) } else { Err(unknown(&name)) }
    }

    /// Every parameter and its value, for SHOW ALL.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let mut all: BTreeMap<String, String> =
            KNOWN.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        all.extend(self.changed.clone());
        all.into_iter().collect()
    }

    /// What a client is told at its start.
    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        REPORTED.into_iter().map(|name| (name, self.value(&name.to_ascii_lowercase()))).collect()
    }

    /// How values are written as text, under the names that the encoder looks for.
    pub(crate) fn formats(&self) -> HashMap<String, String> {
        ["datestyle", "intervalstyle", "bytea_output", "extra_float_digits"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.changed.get(name)?.clone())))
            .collect()
    }

    fn value(&self, name: &str) -> String {
        match self.changed.get(name) {
            Some(value) => value.clone(),
            None => default_of(name).unwrap_or_default().to_owned(),
        }
    }

    fn effective_timeout(&self) -> Result<Option<Duration>, Failure> {
        match self.changed.get("statement_timeout") {
            None => Ok(self.server_timeout),
            Some(text) => {
                let timeout = parse_timeout(text)?;
                Ok((!timeout.is_zero()).then_some(timeout))
            }
        }
    }
}

/// Whether the name is one of ours; an error if it can be nobody's.
fn check_name(name: &str) -> Result<bool, Failure> {
    if default_of(name).is_some() {
        return Ok(true);
    }
    match name.split_once('.') {
        Some(("datafusion", _)) => Err(Failure::new(
            SqlState::InsufficientPrivilege,
            format!("the engine's own options cannot be seen or changed: \"{name}\""),
        )),
        Some(_) if name.len() <= 128 => Ok(false),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new(SqlState::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""))
}

fn default_of(name: &str) -> Option<&'static str> {
    let at = KNOWN.binary_search_by_key(&name, |(known, _)| known).ok()?;
    Some(KNOWN[at].1)
}

/// The value as it is kept.
fn checked(name: &str, value: String) -> Result<String, Failure> {
    let invalid = |hint: &'static str| {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        Err(Failure::new(SqlState::InvalidParameterValue, message).hint(hint))
    };
    if value.len() > LONGEST_VALUE || value.contains('\0') {
        return Err(Failure::new(SqlState::InvalidParameterValue, format!("the value of \"{name}\" is too long")));
    }
    match name {
        "client_encoding" => {
            let folded: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            match folded.to_ascii_lowercase().as_str() {
                "utf8" | "unicode" | "auto" => Ok("UTF8".to_owned()),
                _ => invalid("Only UTF8 is spoken here."),
            }
        }
        "standard_conforming_strings" if !is_on(&value) => {
            invalid("Backslashes in string literals are always ordinary characters here.")
        }
        "extra_float_digits" if value.parse::<i8>().is_err() => invalid("It is a small number."),
        "statement_timeout" => parse_timeout(&value).map(|_| value),
        "work_mem" => parse_memory(&value).map(|_| value),
        _ => Ok(value),
    }
}

fn is_on(value: &str) -> bool {
    ["on", "true", "yes", "1"].iter().any(|on| value.eq_ignore_ascii_case(on))
}

/// A number of milliseconds, or a number with one of Postgres's units.
fn parse_timeout(text: &str) -> Result<Duration, Failure> {
    let text = text.trim();
    let units = [("us", 1e-6), ("", 1e-3), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
    in_units(text, &units)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        // Postgres's own limit: 2^31 - 1 milliseconds.
        .filter(|timeout| timeout.as_millis() <= i32::MAX as u128)
        .ok_or_else(|| {
            let message = format!("invalid value for parameter \"statement_timeout\": \"{text}\"");
            Failure::new(SqlState::InvalidParameterValue, message)
                .hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
        })
}

/// Bytes from a number of kilobytes, or a number with one of Postgres's units.
fn parse_memory(text: &str) -> Result<usize, Failure> {
    const KB: f64 = 1_024.0;
    let text = text.trim();
    let units = [("B", 1.0), ("", KB), ("kB", KB), ("MB", KB * KB), ("GB", KB * KB * KB), ("TB", KB * KB * KB * KB)];
    let read = in_units(text, &units);
    // Postgres's own limits: 64 kB, and 2^31 - 1 of them.
    match read.filter(|bytes| (65_536.0..=2_199_023_254_528.0).contains(bytes)) {
        Some(bytes) => Ok(bytes as usize),
        None => {
            let message = format!("invalid value for parameter \"work_mem\": \"{text}\"");
            Err(Failure::new(SqlState::InvalidParameterValue, message)
                .hint("It is 64kB to 2TB; valid units are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\"."))
        }
    }
}

/// A number and its unit; None if it is not that.
fn in_units(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_mem_bounds_what_a_statement_may_use_once_it_is_set() {
        let mut settings = Settings::new(None);
        assert_eq!(settings.work_mem(), None);
        for (value, bytes) in [("64", 65_536), ("64kB", 65_536), ("1.5MB", 1_572_864), ("65536 B", 65_536)] {
            set(&mut settings, "work_mem", value).unwrap();
            assert_eq!(settings.work_mem(), Some(bytes), "{value}");
        }
        for wrong in ["63", "0", "-1", "1mb", "3TB", "much", ""] {
            assert_eq!(set(&mut settings, "work_mem", wrong), Err("22023"), "{wrong}");
        }
        settings.set("work_mem", None).unwrap();
        assert_eq!(settings.work_mem(), None);
    }

    fn set(settings: &mut Settings, name: &str, value: &str) -> Result<(), &'static str> {
        settings.set(name, Some(value.to_owned())).map(|_| ()).map_err(|f| f.state.code())
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(KNOWN.is_sorted_by_key(|(name, _)| *name));
        for name in REPORTED {
            assert!(default_of(&name.to_ascii_lowercase()).is_some(), "{name}");
        }
    }

    #[test]
    fn what_drivers_set_can_be_read_back() {
        let mut settings = Settings::new(None);
        for (name, value) in [("Application_Name", "tests"), ("search_path", "public"), ("a.b", "c")] {
            set(&mut settings, name, value).unwrap();
            assert_eq!(settings.get(name).unwrap(), value);
        }
        assert_eq!(settings.get("timezone").unwrap(), "UTC");
        assert_eq!(settings.get("nonsense").unwrap_err().state, SqlState::UndefinedObject);
    }

    #[test]
    fn a_change_is_reported_under_the_name_that_clients_know() {
        let mut settings = Settings::new(None);
        let told = settings.set("datestyle", Some("SQL, DMY".to_owned())).unwrap();
        assert_eq!(told, Some(("DateStyle", "SQL, DMY".to_owned())));
        assert_eq!(settings.set("search_path", Some("x".to_owned())).unwrap(), None);
    }

    #[test]
    fn the_engines_own_options_are_out_of_reach() {
        let mut settings = Settings::new(None);
        let name = "datafusion.execution.target_partitions";
        assert_eq!(set(&mut settings, name, "99"), Err("42501"));
        assert_eq!(set(&mut settings, "server_version", "99"), Err("42501"));
        assert_eq!(settings.get(name).unwrap_err().state, SqlState::InsufficientPrivilege);
    }

    #[test]
    fn timeouts_have_units_and_fall_back_to_the_servers() {
        let mut settings = Settings::new(Some(Duration::from_secs(9)));
        for (text, expected) in [("250", 250), ("2s", 2000), ("1.5 min", 90_000)] {
            set(&mut settings, "statement_timeout", text).unwrap();
            assert_eq!(settings.statement_timeout(), Some(Duration::from_millis(expected)));
        }
        set(&mut settings, "statement_timeout", "0").unwrap();
        assert_eq!(settings.statement_timeout(), None);
        settings.set("statement_timeout", None).unwrap();
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(9)));
        for text in ["soon", "-1", "5 years", "1e99", ""] {
            assert_eq!(set(&mut settings, "statement_timeout", text), Err("22023"), "{text}");
        }
    }

    #[test]
    fn set_local_ends_with_its_transaction() {
        let mut settings = Settings::new(None);
        set(&mut settings, "work_mem", "1MB").unwrap();
        settings.set_local("work_mem", Some("2MB".to_owned())).unwrap();
        settings.set_local("work_mem", Some("3MB".to_owned())).unwrap();
        settings.end_transaction();
        assert_eq!(settings.get("work_mem").unwrap(), "1MB");
    }

    #[test]
    fn what_a_session_keeps_is_bounded() {
        let mut settings = Settings::new(None);
        for number in 0..MOST_CUSTOM {
            set(&mut settings, &format!("my.p{number}"), "x").unwrap();
        }
        assert_eq!(set(&mut settings, "my.other", "x"), Err("54000"));
        assert_eq!(set(&mut settings, "my.p0", "y"), Ok(()));
        assert_eq!(set(&mut settings, "work_mem", &"x".repeat(LONGEST_VALUE + 1)), Err("22023"));
    }
}
