//! A real Postgres for tests, in a directory of its own, listening on a Unix socket there.
//!
//! One for each process that runs tests: its data directory is a copy of one that was set up once. It runs as the user
//! `postgres` if we are root, since it refuses root, and goes when we go.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use punctual::settings::{Address, Endpoint, Login};

pub(crate) const HOW_TO_GET_IT: &str = "these tests need a Postgres server: apt-get install -y postgresql";

/// A Postgres that runs.
pub(crate) struct Postgres {
    dir: PathBuf,
}

impl Postgres {
    /// The one of this process.
    pub(crate) fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Postgres::start(&[String::from("listen_addresses=")], |_| {}))
    }

    /// One that listens on a port, and takes nobody there who is not encrypted and does not prove who they are; at its Unix
    /// socket anyone is who they say. Its certificate is `server.crt` of that directory, with `server.key`.
    pub(crate) fn secured(port: u16, certificates: &Path) -> &'static Postgres {
        static SECURED: OnceLock<Postgres> = OnceLock::new();
        let settings = [format!("port={port}"), "listen_addresses=127.0.0.1".to_owned(), "ssl=on".to_owned()];
        SECURED.get_or_init(|| {
            Postgres::start(&settings, |dir| {
                for file in ["server.crt", "server.key"] {
                    fs::copy(certificates.join(file), dir.join(file)).expect("a certificate is there");
                    fs::set_permissions(dir.join(file), fs::Permissions::from_mode(0o600)).expect("it is ours");
                }
                let hba = "hostssl all all 127.0.0.1/32 scram-sha-256\nlocal all all trust\n";
                fs::write(dir.join("pg_hba.conf"), hba).expect("it can be written");
            })
        })
    }

    /// The directory of its Unix socket.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where it listens; anyone may come in as themselves.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let address = Address::Unix(self.dir.join(".s.PGSQL.5432"));
        Endpoint { address, login: Login::default() }
    }

    /// Starts one with those settings, whose directory was prepared by that.
    fn start(settings: &[String], prepare: impl FnOnce(&Path)) -> Postgres {
        let bin = installation();
        let template = template(&bin);
        let dir = std::env::temp_dir().join(format!("punctual-test-postgres-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        run(Command::new("cp").arg("-r").arg(&template).arg(&dir));
        prepare(&dir);
        own(&dir);
        let (bin, at) = (bin.clone(), dir.clone());
        let settings: Vec<String> = settings.iter().flat_map(|setting| ["-c".to_owned(), setting.clone()]).collect();
        let (ready, is_ready) = std::sync::mpsc::channel();
        // It is told to go when the thread that started it ends: this one never does.
        std::thread::spawn(move || {
            let mut child = as_postgres(&bin.join("postgres"))
                .arg("-D")
                .arg(&at)
                .args(settings)
                .args(["-c", "fsync=off", "-c", "max_connections=200", "-c"])
                .arg(format!("unix_socket_directories={}", at.display()))
                .stderr(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect(HOW_TO_GET_IT);
            let log = BufReader::new(child.stderr.take().expect("it is piped"));
            let mut seen = String::new();
            for line in log.lines().map_while(Result::ok) {
                if line.contains("database system is ready to accept connections") {
                    let _ = ready.send(Ok(()));
                }
                seen = format!("{seen}\n{line}").chars().rev().take(4_000).collect::<Vec<_>>().iter().rev().collect();
            }
            let _ = child.wait();
            let _ = ready.send(Err(seen));
        });
        is_ready.recv().expect("the thread is there").unwrap_or_else(|log| panic!("Postgres did not start:\n{log}"));
        Postgres { dir }
    }
}

/// The newest installation's programs.
pub(crate) fn installation() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").map(|dir| dir.flatten().map(|entry| entry.path()).collect());
    let mut versions: Vec<PathBuf> = versions.unwrap_or_default();
    versions.sort();
    let found = versions.iter().rev().map(|version| version.join("bin")).find(|bin| bin.join("initdb").exists());
    found.unwrap_or_else(|| panic!("{HOW_TO_GET_IT}"))
}

/// A data directory that is set up, shared by all processes that run tests.
pub(crate) fn template(bin: &Path) -> PathBuf {
    let temp = std::env::temp_dir();
    let lock = File::create(temp.join("punctual-test-postgres.lock")).expect("the temporary directory can be written");
    lock.lock().expect("it can be locked");
    sweep(&temp);
    let template = temp.join("punctual-test-postgres-template-2");
    if template.join("ready").exists() {
        return template;
    }
    let _ = fs::remove_dir_all(&template);
    fs::create_dir(&template).expect("the temporary directory can be written");
    own(&template);
    run(as_postgres(&bin.join("initdb")).arg("-D").arg(&template).args([
        "-U",
        "postgres",
        "-A",
        "trust",
        "-N",
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
    ]));
    let hba = "local all scram scram-sha-256\nlocal all md5 md5\nlocal all plain password\nlocal all all trust\n";
    fs::write(template.join("pg_hba.conf"), hba).expect("it can be written");
    let roles = "SET password_encryption = 'scram-sha-256'; \
        CREATE ROLE ann LOGIN SUPERUSER; CREATE ROLE bob LOGIN SUPERUSER; \
        CREATE ROLE scram LOGIN PASSWORD 'opensesame'; CREATE ROLE plain LOGIN PASSWORD 'opensesame'; \
        SET password_encryption = 'md5'; CREATE ROLE md5 LOGIN PASSWORD 'opensesame';";
    let sql = template.join("roles.sql");
    fs::write(&sql, roles.replace("; ", ";\n")).expect("it can be written");
    run(as_postgres(&bin.join("postgres"))
        .args(["--single", "-D"])
        .arg(&template)
        .arg("postgres")
        .stdin(File::open(&sql).expect("it was written")));
    fs::write(template.join("ready"), "").expect("it can be written");
    template
}

/// Removes what processes that are gone have left.
fn sweep(temp: &Path) {
    for entry in fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("punctual-test-postgres-").and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn am_root() -> bool {
    fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0).unwrap_or(false)
}

/// A program that does not run as root, and is interrupted when we go.
pub(crate) fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if am_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(program).env("LC_ALL", "C.UTF-8").current_dir("/");
    command
}

pub(crate) fn own(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("it is ours");
    if am_root() {
        run(Command::new("chown").args(["-R", "postgres:postgres"]).arg(dir));
    }
}

pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; {HOW_TO_GET_IT}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
