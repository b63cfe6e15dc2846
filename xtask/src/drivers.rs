//! The drivers' own test suites, straight at a Postgres and through the gateway before it: what passes straight and fails through.
//!
//! ```text
//!                       ┌───────────────────▶ Postgres, new for each run
//!   asyncpg's suite  ───┤                      ▲
//!   pg8000's suite      └──▶ gateway ──────────┘
//!   tokio-postgres' suite
//! ```
//!
//! Their authors know better than we do what a driver asks of a server. The suites come from the package registries, in pinned
//! versions, and are adapted where they name ports and passwords (`drivers/fetch`). What a suite starts for itself, a server of
//! its own say, is left out: it would not pass the gateway. `docs/drivers/suites.md` says why what is left fails.

mod fetch;
mod outcomes;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::fetch::Archives;
use self::outcomes::{Outcome, Outcomes};
use crate::pgbench::Gateway;
use crate::servers::{Server, unprivileged, write};

/// The share of what passes straight that has to pass through.
const ENOUGH: f64 = 0.95;

/// Seconds that a suite may take, and a test of it.
const SUITE_WITHIN: &str = "1200";
const TEST_WITHIN: &str = "180";

/// Who logs in, and with which password.
const USERS: [(&str, &str); 4] =
    [("postgres", "pw"), ("pass_user", "password"), ("md5_user", "password"), ("scram_user", "password")];

/// What asks for a password in the clear, by MD5, by SCRAM, or for Kerberos, as the suites want it.
const HBA: &str = "\
host all pass_user 127.0.0.1/32 password
host all md5_user 127.0.0.1/32 md5
host all scram_user 127.0.0.1/32 scram-sha-256
host pg8000_password all 127.0.0.1/32 password
host pg8000_md5 all 127.0.0.1/32 md5
host pg8000_scram_sha_256 all 127.0.0.1/32 scram-sha-256
host pg8000_gss all 127.0.0.1/32 gss";

#[derive(Clone, Copy)]
enum Suite {
    Asyncpg,
    Pg8000,
    TokioPostgres,
}

impl Suite {
    const ALL: [Suite; 3] = [Suite::Asyncpg, Suite::Pg8000, Suite::TokioPostgres];

    fn name(self) -> &'static str {
        match self {
            Suite::Asyncpg => fetch::ASYNCPG,
            Suite::Pg8000 => fetch::PG8000,
            Suite::TokioPostgres => fetch::TOKIO_POSTGRES,
        }
    }

    /// True if it wants passwords asked for; asyncpg's has none for a server that it has not started itself.
    fn has_passwords(self) -> bool {
        !matches!(self, Suite::Asyncpg)
    }

    /// True if it wants a server that encrypts. asyncpg's wants one that does not.
    fn wants_tls(self) -> bool {
        matches!(self, Suite::Pg8000)
    }

    /// What it expects to be there, besides users.
    fn extensions(self) -> &'static [&'static str] {
        match self {
            Suite::Asyncpg => &[],
            Suite::Pg8000 => &["hstore"],
            Suite::TokioPostgres => &["hstore", "citext", "ltree"],
        }
    }
}

/// What came of a suite.
struct Compared {
    suite: Suite,
    tests: usize,
    direct: usize,
    /// Of those, through the gateway.
    through: usize,
    /// Passed straight, and not through: the test and what it said.
    differences: Vec<(String, String)>,
}

impl Compared {
    fn of(suite: Suite, direct: &Outcomes, through: &Outcomes) -> Compared {
        let passed = direct.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
        let differences: Vec<(String, String)> = passed
            .clone()
            .filter_map(|(test, _)| match through.get(test) {
                Some(Outcome::Passed) => None,
                Some(Outcome::Skipped) => Some((test.clone(), "it was skipped".to_owned())),
                Some(Outcome::Failed(why)) => Some((test.clone(), why.clone())),
                None => Some((test.clone(), "it did not come to its end".to_owned())),
            })
            .collect();
        let direct_passed = passed.count();
        Compared {
            suite,
            tests: direct.len(),
            direct: direct_passed,
            through: direct_passed - differences.len(),
            differences,
        }
    }

    fn share(&self) -> f64 {
        self.through as f64 / self.direct.max(1) as f64
    }
}

/// Runs all suites, or those whose name begins so, with that program. `json`: for programs to read.
pub(crate) fn compare(punctual: &Path, postgres: &Path, only: &str, json: bool) -> Result<(), String> {
    let archives = fetch::archives()?;
    let dir = std::env::temp_dir().join(format!("punctual-drivers-{}", std::process::id()));
    let mut all = Vec::new();
    for suite in Suite::ALL.into_iter().filter(|suite| suite.name().starts_with(only)) {
        let mut sides = Vec::new();
        for through in [false, true] {
            fs::create_dir_all(&dir).map_err(|error| format!("making {}: {error}", dir.display()))?;
            let side = Side { suite, dir: &dir, punctual, postgres, archives: &archives };
            let outcomes = side.run(through);
            let _ = fs::remove_dir_all(&dir);
            sides.push(outcomes?);
        }
        all.push(Compared::of(suite, &sides[0], &sides[1]));
    }
    println!("{}", if json { to_json(&all) } else { to_text(&all) });
    match all.iter().find(|compared| compared.direct == 0 || compared.share() < ENOUGH) {
        Some(compared) => Err(format!("of {}, too little passes through the gateway", compared.suite.name())),
        None => Ok(()),
    }
}

/// One run of a suite.
struct Side<'a> {
    suite: Suite,
    dir: &'a Path,
    punctual: &'a Path,
    postgres: &'a Path,
    archives: &'a Archives,
}

impl Side<'_> {
    fn run(&self, through: bool) -> Result<Outcomes, String> {
        let how = if through { "through the gateway" } else { "straight at Postgres" };
        eprintln!("xtask: {} {how}", self.suite.name());
        let certificate = if self.suite.wants_tls() { Some(self.certificate()?) } else { None };
        // What is tested is not whether data outlive a crash.
        let mut settings = "fsync = off\njit = off\n".to_owned();
        if let Some((certificate, key)) = &certificate {
            let (certificate, key) = (certificate.display(), key.display());
            let _ = write!(settings, "ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n");
        }
        let database = Server::postgres(self.dir, self.postgres, HBA, &settings)?;
        self.set_up(&database.port)?;
        let gateway = match through {
            true => Some(Gateway::start(self.punctual, &self.configuration(&database.port, certificate.as_ref())?)?),
            false => None,
        };
        let port = gateway.as_ref().map_or(&database.port, |gateway| &gateway.port);
        match self.suite {
            Suite::Asyncpg | Suite::Pg8000 => self.pytest(port),
            Suite::TokioPostgres => self.libtest(port),
        }
    }

    /// A certificate for this machine and its key, which Postgres can read.
    fn certificate(&self) -> Result<(PathBuf, PathBuf), String> {
        let dir = self.dir.join("tls");
        fs::create_dir_all(&dir).map_err(|error| format!("making {}: {error}", dir.display()))?;
        if crate::servers::is_root() {
            crate::run(Command::new("chmod").arg("755").arg(self.dir))?;
            crate::run(Command::new("chown").arg("postgres").arg(&dir))?;
        }
        let (certificate, key) = (dir.join("server.crt"), dir.join("server.key"));
        let mut openssl = unprivileged(Path::new("openssl"));
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout"]).arg(&key);
        crate::run(openssl.arg("-out").arg(&certificate).stderr(Stdio::null()))?;
        Ok((certificate, key))
    }

    /// The users and the extensions that the suites expect.
    fn set_up(&self, port: &str) -> Result<(), String> {
        let mut sql = "alter user postgres password 'pw';\n".to_owned();
        for (user, password) in &USERS[1..] {
            let kind = if *user == "md5_user" { "md5" } else { "scram-sha-256" };
            let _ = writeln!(sql, "set password_encryption = '{kind}'; create user {user} password '{password}';");
        }
        for extension in self.suite.extensions() {
            let _ = writeln!(sql, "create extension {extension};");
        }
        let file = write(&self.dir.join("set-up.sql"), &sql)?;
        let mut psql = Command::new("psql");
        psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-f"]).arg(file);
        crate::run(psql.stdout(Stdio::null()))
    }

    fn configuration(&self, database: &str, tls: Option<&(PathBuf, PathBuf)>) -> Result<PathBuf, String> {
        let mut gateway = "[gateway]\nlisten = \"127.0.0.1:0\"\nhttp = \"off\"\n".to_owned();
        let _ = writeln!(gateway, "state_dir = \"{}\"", self.dir.join("state").display());
        let mut cluster = format!(
            "[[cluster]]\nname = \"a\"\nkind = \"postgres\"\naddress = \"127.0.0.1:{database}\"\nslots = 200\n"
        );
        if self.suite.has_passwords() {
            let mut lines = String::new();
            let mut verifiers = String::new();
            for (user, password) in USERS {
                let _ = writeln!(lines, "{user} {user} {password}");
                verifiers.push_str(&self.verifier(user, password)?);
            }
            write(&self.dir.join("users"), &verifiers)?;
            self.secret("credentials", &lines)?;
            gateway.push_str("auth = \"scram\"\nusers_file = \"users\"\nfailed_logins = 0\n");
            cluster.push_str("credentials_file = \"credentials\"\n");
        }
        if let Some((certificate, key)) = tls {
            // That of the database is not the gateway's to read.
            let key = fs::read_to_string(key).map_err(|error| format!("reading {}: {error}", key.display()))?;
            let key = self.secret("gateway.key", &key)?;
            let (certificate, key) = (certificate.display(), key.display());
            let _ = write!(gateway, "[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n");
        }
        write(&self.dir.join("punctual.toml"), &(gateway + &cluster))
    }

    /// Writes a file that nobody else reads, as the gateway wants it.
    fn secret(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = write(&self.dir.join(name), text)?;
        let modes = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file, modes).map_err(|error| format!("chmod 600 {}: {error}", file.display()))?;
        Ok(file)
    }

    /// The line that lets a user in.
    fn verifier(&self, user: &str, password: &str) -> Result<String, String> {
        let word = write(&self.dir.join("password"), &format!("{password}\n"))?;
        let word = fs::File::open(&word).map_err(|error| format!("opening {}: {error}", word.display()))?;
        let output = Command::new(self.punctual).args(["user", user]).stdin(word).output();
        let output = output.map_err(|error| format!("starting {}: {error}", self.punctual.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("punctual user {user}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn pytest(&self, port: &str) -> Result<Outcomes, String> {
        let told = self.dir.join("outcomes");
        let mut pytest = limited(&self.archives.python);
        pytest.args(["-m", "pytest", "-q", "-p", "outcomes", "-p", "no:cacheprovider", "--timeout", TEST_WITHIN]);
        pytest.env("PYTHONPATH", &self.archives.plugins).env("OUTCOMES", &told).env("PYTHONDONTWRITEBYTECODE", "1");
        match self.suite {
            Suite::Asyncpg => {
                pytest.args(["-p", "running_server", "tests"]).env("SERVER_PORT", port).env_remove("PGHOST");
                pytest.current_dir(&self.archives.asyncpg);
            }
            _ => {
                pytest.args(["--benchmark-disable", "test"]).current_dir(&self.archives.pg8000);
                pytest.env("PGHOST", "127.0.0.1").env("PGPORT", port).env("PGPASSWORD", "pw");
            }
        }
        let shown = format!("{pytest:?}");
        // It fails if a test does.
        let output = pytest.output().map_err(|error| format!("starting {shown}: {error}"))?;
        let told = fs::read_to_string(&told)
            .map_err(|error| format!("{shown}: {}: {error}", String::from_utf8_lossy(&output.stdout)))?;
        Ok(outcomes::of_lines(&told))
    }

    fn libtest(&self, port: &str) -> Result<Outcomes, String> {
        let dir = self.archives.tokio_postgres(port)?;
        let mut test = limited(Path::new("cargo"));
        test.args(["test", "--test", "test", "--features", fetch::TOKIO_FEATURES, "--no-fail-fast"]);
        test.current_dir(&dir).env("CARGO_TARGET_DIR", self.archives.dir.join("target"));
        let shown = format!("{test:?}");
        let output = test.output().map_err(|error| format!("starting {shown}: {error}"))?;
        let outcomes = outcomes::of_libtest(&String::from_utf8_lossy(&output.stdout));
        match outcomes.is_empty() {
            true => Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr))),
            false => Ok(outcomes),
        }
    }
}

/// A program that is stopped if it does not end.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", SUITE_WITHIN]).arg(program).stdin(Stdio::null());
    command
}

fn to_text(all: &[Compared]) -> String {
    let mut text = format!("\n  {:<24} {:>6} {:>8} {:>8} {:>7}\n", "", "tests", "direct", "through", "share");
    for compared in all {
        let Compared { suite, tests, direct, through, .. } = compared;
        let share = 100.0 * compared.share();
        let _ = writeln!(text, "  {:<24} {tests:>6} {direct:>8} {through:>8} {share:>6.1} %", suite.name());
    }
    text.push_str("\n  Of those that pass direct, how many pass through. Those that do not:\n");
    for Compared { suite, differences, .. } in all {
        for (test, why) in differences {
            let _ = write!(text, "\n  {}  {test}\n      {why}\n", suite.name());
        }
    }
    text
}

fn to_json(all: &[Compared]) -> String {
    let suites = all.iter().map(|compared| {
        let Compared { suite, tests, direct, through, differences } = compared;
        let differences =
            differences.iter().map(|(test, why)| format!("{{\"test\":{},\"why\":{}}}", quoted(test), quoted(why)));
        let differences: Vec<String> = differences.collect();
        format!(
            "{{\"suite\":{},\"tests\":{tests},\"pass_direct\":{direct},\"pass_through\":{through},\"share\":{:.4},\
             \"differences\":[{}]}}",
            quoted(suite.name()),
            compared.share(),
            differences.join(",")
        )
    });
    format!("{{\"suites\":[{}]}}", suites.collect::<Vec<_>>().join(","))
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(of: &[(&str, Outcome)]) -> Outcomes {
        of.iter().map(|(test, outcome)| ((*test).to_owned(), outcome.clone())).collect()
    }

    #[test]
    fn only_what_passes_direct_is_compared() {
        let failed = || Outcome::Failed("no \"x\"\n".into());
        let direct = outcomes(&[
            ("a", Outcome::Passed),
            ("b", Outcome::Passed),
            ("c", failed()),
            ("d", Outcome::Skipped),
            ("e", Outcome::Passed),
        ]);
        let through = outcomes(&[("a", Outcome::Passed), ("b", failed()), ("c", Outcome::Passed), ("d", failed())]);
        let compared = Compared::of(Suite::Pg8000, &direct, &through);
        assert_eq!((compared.tests, compared.direct, compared.through), (5, 3, 1));
        assert_eq!(compared.differences.iter().map(|(test, _)| test.as_str()).collect::<Vec<_>>(), ["b", "e"]);
        assert_eq!(
            to_json(&[compared]),
            format!(
                "{{\"suites\":[{{\"suite\":\"{}\",\"tests\":5,\"pass_direct\":3,\"pass_through\":1,\"share\":0.3333,\
                 \"differences\":[{{\"test\":\"b\",\"why\":\"no \\\"x\\\"\\u000a\"}},\
                 {{\"test\":\"e\",\"why\":\"it did not come to its end\"}}]}}]}}",
                fetch::PG8000
            )
        );
    }
}
