//! The statements, as the files of cases say them.

use std::path::PathBuf;

/// Whoever carries cases out.
pub(crate) const RUNNERS: [&str; 13] = [
    "frames",
    "psql",
    "psycopg",
    "psycopg2",
    "asyncpg",
    "pg8000",
    "sqlalchemy+psycopg",
    "sqlalchemy+psycopg2",
    "sqlalchemy+pg8000",
    "pgjdbc",
    "node",
    "tokio-postgres",
    "sqlx",
];

/// A case: statements in one session, and what is known of them.
#[derive(Debug, Default)]
pub(crate) struct Case {
    /// Its name, a sentence or less.
    pub(crate) name: String,
    /// True if it has a session of its own.
    pub(crate) fresh: bool,
    /// Why the gateway says that the session keeps its connection.
    pub(crate) pins: Option<String>,
    /// What is done, in its order.
    pub(crate) steps: Vec<Step>,
    only: Vec<String>,
    without: Vec<String>,
    differs: Vec<String>,
}

/// Something that is done.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// How.
    pub(crate) verb: String,
    /// What, up to the parameters.
    pub(crate) sql: String,
    /// What follows the arrow.
    tail: Option<String>,
}

/// A parameter: its type, and its text unless it is null.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// The name of its type, for those who send it as more than text.
    #[allow(dead_code, reason = "the runner for sqlx has a use for it")]
    pub(crate) kind: String,
    /// Postgres' text of it.
    pub(crate) text: Option<String>,
}

/// The files of cases for a Postgres.
pub(crate) fn files() -> [PathBuf; 2] {
    ["cases.txt", "catalogues.txt"].map(file)
}

/// A file beside this one.
pub(crate) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/differential").join(name)
}

/// All cases for a Postgres.
pub(crate) fn all() -> Vec<Case> {
    read(&files())
}

/// The cases of those files.
pub(crate) fn read(files: &[PathBuf]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in lines(files) {
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        if verb == "case" {
            assert!(cases.iter().all(|case| case.name != rest), "two cases are called {rest:?}");
            cases.push(Case { name: rest.to_owned(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("a file begins with a case");
        match verb {
            "fresh" => case.fresh = true,
            "pins" => case.pins = Some(rest.to_owned()),
            "only" => case.only.extend(named(rest)),
            "not" => case.without.extend(named(rest)),
            "differs" => case.differs.extend(named(rest)),
            _ => case.steps.push(Step::of(verb, rest)),
        }
    }
    cases
}

/// The lines that say something, each with those that belong to it.
fn lines(files: &[PathBuf]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("a file of cases");
        for line in text.lines() {
            match lines.last_mut() {
                Some(last) if line.starts_with("  ") => {
                    last.push('\n');
                    last.push_str(line.trim());
                }
                _ if line.trim().is_empty() || line.starts_with('#') => {}
                _ => lines.push(line.to_owned()),
            }
        }
    }
    lines
}

/// The runners before the colon, and there must be a reason behind it.
fn named(rest: &str) -> Vec<String> {
    let (names, reason) = rest.split_once(':').unwrap_or_else(|| panic!("no reason is given: {rest:?}"));
    assert!(!reason.trim().is_empty(), "no reason is given: {rest:?}");
    for name in names.split(' ') {
        let runner = name.split('@').next().unwrap_or_default();
        assert!(runner == "all" || RUNNERS.contains(&runner), "there is no runner {name}");
    }
    names.split(' ').map(str::to_owned).collect()
}

impl Case {
    /// True if that runner carries it out.
    pub(crate) fn is_for(&self, runner: &str) -> bool {
        let is = |name: &String| name == runner;
        let can = runner != "psql" || self.steps.iter().all(Step::is_for_psql);
        can && (self.only.is_empty() || self.only.iter().any(is)) && !self.without.iter().any(is)
    }

    /// True if that runner is known to see something else at that place.
    pub(crate) fn differs(&self, runner: &str, place: &str) -> bool {
        self.differs.iter().any(|name| {
            let (name, at) = name.split_once('@').unwrap_or((name, place));
            (name == runner || name == "all") && at == place
        })
    }
}

impl Step {
    fn of(verb: &str, rest: &str) -> Step {
        let (sql, tail) = match rest.split_once(" <- ") {
            Some((sql, tail)) => (sql, Some(tail.to_owned())),
            None => (rest, None),
        };
        Step { verb: verb.to_owned(), sql: sql.to_owned(), tail }
    }

    /// psql has no parameters, and no statements or portals of the protocol.
    fn is_for_psql(&self) -> bool {
        match self.verb.as_str() {
            "run" => self.tail.is_none(),
            "simple" | "copyin" | "copyout" | "psql" => true,
            _ => false,
        }
    }

    /// Its parameters.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let one = |text: &str| match text.split_once('=') {
            Some((kind, text)) => Parameter { kind: kind.trim().to_owned(), text: Some(unescaped(text)) },
            None => Parameter { kind: text.trim().to_owned(), text: None },
        };
        self.tail.iter().flat_map(|tail| tail.split(" | ").map(one)).collect()
    }

    /// What is copied in.
    pub(crate) fn data(&self) -> String {
        self.tail.as_deref().map(unescaped).unwrap_or_default()
    }

    /// The first word of what it is about, and the rest.
    pub(crate) fn name_and_sql(&self) -> (&str, &str) {
        self.sql.split_once(' ').unwrap_or((&self.sql, ""))
    }
}

/// A text with its line ends, tabs and backslashes; a lone backslash is an empty text.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = if text == "\\" { "" } else { text }.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            char => out.push(char),
        }
    }
    out
}
