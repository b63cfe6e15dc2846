//! What the tests need besides cargo: a Postgres server, its client, and a Python with psycopg.
//!
//! What is there is used. What is missing is installed with apt, or with pip into an environment of its own in the
//! cache, and each step says so. The tests start their own servers on their own sockets; nothing runs as a service.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run;

/// The driver that the tests use, pinned: another version is another test.
const PSYCOPG: &str = "psycopg[binary]==3.2.*";

/// Where the tests find things.
pub(crate) struct Needs {
    /// A Python that can import psycopg.
    pub(crate) python: PathBuf,
    /// The directory with initdb and postgres.
    pub(crate) postgres: PathBuf,
}

/// Installs what is missing.
pub(crate) fn install() -> Result<Needs, String> {
    let postgres = match postgres_bin() {
        Some(bin) => bin,
        None => {
            println!("xtask: no Postgres server here; installing Debian's");
            apt(&["postgresql"])?;
            postgres_bin().ok_or("there is still no initdb in /usr/lib/postgresql")?
        }
    };
    if !on_path("psql") {
        println!("xtask: no psql here; installing Debian's");
        apt(&["postgresql-client"])?;
    }
    if !on_path("openssl") {
        println!("xtask: no openssl here, which makes certificates for tests; installing Debian's");
        apt(&["openssl"])?;
    }
    Ok(Needs { python: python()?, postgres })
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

/// A Python environment with psycopg, made once.
fn python() -> Result<PathBuf, String> {
    let dir = cache().join("test-python");
    let python = dir.join("bin/python");
    if can_import_psycopg(&python) {
        return Ok(python);
    }
    println!("xtask: making a Python environment with {PSYCOPG} in {}", dir.display());
    if !on_path("python3") {
        apt(&["python3", "python3-venv"])?;
    }
    let venv = || run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir));
    if venv().is_err() {
        println!("xtask: python3 cannot make environments; installing Debian's python3-venv");
        apt(&["python3-venv"])?;
        venv()?;
    }
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PSYCOPG]))?;
    match can_import_psycopg(&python) {
        true => Ok(python),
        false => Err(format!("{} cannot import psycopg", python.display())),
    }
}

fn can_import_psycopg(python: &Path) -> bool {
    let import = Command::new(python).args(["-c", "import psycopg"]).output();
    import.is_ok_and(|output| output.status.success())
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
