//! What the tests need besides cargo: a Postgres server and its clients, and the drivers whose view of the gateway is compared
//! with their view of a Postgres.
//!
//! What is there is used. What is missing is installed: with apt, with pip into an environment of its own in the cache,
//! with npm into a directory there; and each step says so. Versions are pinned where we choose them: another version is
//! another test. The tests start their own servers on their own sockets; nothing runs as a service.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run;

/// Python's drivers.
const PYTHON: [&str; 5] =
    ["psycopg[binary]==3.2.13", "psycopg2-binary==2.9.13", "asyncpg==0.32.0", "pg8000==1.31.6", "SQLAlchemy==2.1.9"];

/// node's.
const NODE: &str = "pg@8.23.1";

/// Where Debian puts pgjdbc.
const JDBC: &str = "/usr/share/java/postgresql.jar";

/// Programs, and Debian's packages that have them.
const PROGRAMS: [(&str, &str); 8] = [
    ("psql", "postgresql-client"),
    ("pg_dump", "postgresql-client"),
    // It makes certificates for tests.
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("java", "default-jdk-headless"),
    ("javac", "default-jdk-headless"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// Where the tests find things.
pub(crate) struct Needs {
    /// A Python that can import its drivers.
    pub(crate) python: PathBuf,
    /// The directory with initdb and postgres.
    pub(crate) postgres: PathBuf,
    /// The directory that node finds its driver in.
    node_modules: PathBuf,
    /// The program that runs statements with sqlx.
    sqlx: PathBuf,
}

impl Needs {
    /// The environment that tells the tests.
    pub(crate) fn variables(&self) -> [(&'static str, &Path); 5] {
        [
            ("PUNCTUAL_TEST_PYTHON", &self.python),
            ("PUNCTUAL_TEST_POSTGRES", &self.postgres),
            ("PUNCTUAL_TEST_NODE_MODULES", &self.node_modules),
            ("PUNCTUAL_TEST_JDBC", Path::new(JDBC)),
            ("PUNCTUAL_TEST_SQLX", &self.sqlx),
        ]
    }
}

/// Installs what is missing.
pub(crate) fn install() -> Result<Needs, String> {
    let mut missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !on_path(program)).map(|(_, package)| *package).collect();
    if postgres_bin().is_none() {
        missing.push("postgresql");
    }
    if !Path::new(JDBC).is_file() {
        missing.push("libpostgresql-jdbc-java");
    }
    missing.sort_unstable();
    missing.dedup();
    if !missing.is_empty() {
        println!("xtask: these of Debian's packages are not here and will be installed: {}", missing.join(", "));
        apt(&missing)?;
    }
    let postgres = postgres_bin().ok_or("there is still no initdb in /usr/lib/postgresql")?;
    Ok(Needs { python: python()?, postgres, node_modules: node_modules()?, sqlx: sqlx()? })
}

/// Installs PgBouncer and pgbench, which only benchmarks need.
pub(crate) fn bouncer() -> Result<(), String> {
    for (program, package) in [("pgbouncer", "pgbouncer"), ("pgbench", "postgresql-contrib")] {
        if !on_path(program) {
            println!("xtask: no {program} here; installing Debian's");
            apt(&[package])?;
        }
    }
    Ok(())
}

/// The newest server's programs, where Debian puts them.
fn postgres_bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let bins = versions.flatten().map(|version| version.path().join("bin"));
    bins.filter(|bin| bin.join("initdb").is_file()).max_by_key(|bin| version_of(bin))
}

fn version_of(bin: &Path) -> u32 {
    let version = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    version.and_then(|name| name.parse().ok()).unwrap_or(0)
}

/// A Python environment with the drivers, made once.
fn python() -> Result<PathBuf, String> {
    let dir = cache().join("test-python");
    let (python, installed) = (dir.join("bin/python"), dir.join("installed"));
    let wanted = PYTHON.join("\n");
    if python.is_file() && fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return Ok(python);
    }
    println!("xtask: installing {} from PyPI in {}", PYTHON.join(", "), dir.display());
    let install = || {
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PYTHON))
    };
    if !python.is_file() || install().is_err() {
        let venv = || run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir));
        if venv().is_err() {
            println!("xtask: python3 cannot make environments; installing Debian's python3-venv");
            apt(&["python3-venv"])?;
            venv()?;
        }
        install()?;
    }
    fs::write(&installed, wanted).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(python)
}

/// A directory with node's driver, made once.
fn node_modules() -> Result<PathBuf, String> {
    let dir = cache().join("test-node");
    let installed = dir.join("installed");
    if !fs::read_to_string(&installed).is_ok_and(|there| there == NODE) {
        println!("xtask: installing {NODE} from npm in {}", dir.display());
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        run(Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(&dir)
            .arg(NODE))?;
        fs::write(&installed, NODE).map_err(|error| format!("{}: {error}", installed.display()))?;
    }
    Ok(dir.join("node_modules"))
}

/// The program that runs statements with sqlx, built where it was not. It has a build directory of its own: with what the
/// gateway is made of, each would have features of the other's.
fn sqlx() -> Result<PathBuf, String> {
    // As cargo says when it runs: two checkouts may share one build directory, and this program.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = Path::new(&here).with_file_name("crates/punctual/tests/differential/sqlx");
    let target = cache().join("test-sqlx");
    run(Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--locked", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target))?;
    Ok(target.join("debug/sqlx-runner"))
}

/// Where what has been fetched is kept.
pub(crate) fn cache() -> PathBuf {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home).unwrap_or_else(env::temp_dir).join("punctual")
}

fn on_path(program: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(program).is_file())
}

/// Installs Debian packages, through sudo where we are not root.
fn apt(packages: &[&str]) -> Result<(), String> {
    let command = |args: &[&str]| {
        let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
        if !root {
            command.arg("apt-get");
        }
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(&mut command(&["update", "-qq"]))?;
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(packages);
    run(&mut command(&install))
}
