//! Where the suites come from: the registries' archives in pinned versions, kept in the cache, adapted where they name a port or
//! a password of their authors'.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::needs::cache;
use crate::run;
use crate::servers::write;

pub(super) const ASYNCPG: &str = "asyncpg 0.32.0";
pub(super) const PG8000: &str = "pg8000 1.31.6";
pub(super) const TOKIO_POSTGRES: &str = "tokio-postgres 0.7.18";

/// What the suites need beside the drivers themselves. Other versions are other tests.
const PYTHON_NEEDS: [&str; 8] = [
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "pytest-mock==3.17.0",
    "pytest-benchmark==5.3.1",
    "pytz==2026.6",
    "docutils==0.23",
    "distro==1.9.0",
    "python-dateutil==4.0.0",
];

/// The types of other crates that tokio-postgres converts, as it tests them.
pub(super) const TOKIO_FEATURES: &str = "with-bit-vec-0_6,with-bit-vec-0_7,with-bit-vec-0_8,with-bit-vec-0_9,\
     with-chrono-0_4,with-eui48-1,with-geo-types-0_6,with-geo-types-0_7,with-jiff-0_1,with-jiff-0_2,with-serde_json-1,\
     with-smol_str-01,with-time-0_2,with-time-0_3,with-uuid-0_8,with-uuid-1,array-impls";

/// The suites, unpacked.
pub(super) struct Archives {
    /// Where all of it is.
    pub(super) dir: PathBuf,
    /// A Python that has the drivers.
    pub(super) python: PathBuf,
    /// Where our pytest plugins are.
    pub(super) plugins: PathBuf,
    pub(super) asyncpg: PathBuf,
    pub(super) pg8000: PathBuf,
}

/// Fetches what is not there.
pub(super) fn archives() -> Result<Archives, String> {
    let dir = cache().join("drivers");
    let plugins = dir.join("plugins");
    fs::create_dir_all(&plugins).map_err(|error| format!("making {}: {error}", plugins.display()))?;
    write(&plugins.join("outcomes.py"), include_str!("outcomes.py"))?;
    write(&plugins.join("running_server.py"), include_str!("running_server.py"))?;
    let python = python(&dir)?;
    // The driver that is tested is the one that pip has built; its sources would come first.
    let asyncpg = source(&dir, &python, ASYNCPG, &["--exclude=*/asyncpg"])?;
    let pg8000 = source(&dir, &python, PG8000, &[])?;
    adapt(
        &pg8000.join("README.md"),
        &[("password=\"cpsnow\"", "password=\"pw\", port=__import__(\"os\").environ[\"PGPORT\"]")],
    )?;
    crate_source(&dir)?;
    Ok(Archives { dir, python, plugins, asyncpg, pg8000 })
}

impl Archives {
    /// tokio-postgres with its tests, which go to that port and bring a password for `postgres`, too.
    pub(super) fn tokio_postgres(&self, port: &str) -> Result<PathBuf, String> {
        let dir = self.dir.join(folder(TOKIO_POSTGRES));
        let from = self.dir.join("vendor").join(folder(TOKIO_POSTGRES));
        let _ = fs::remove_dir_all(&dir);
        run(Command::new("cp").arg("-r").arg(from).arg(&dir))?;
        let changes = [("5433", port), ("user=postgres", "user=postgres password=pw")];
        let tests = dir.join("tests/test");
        // Those of the texts of addresses mean no server.
        for file in rust_files(&tests)?.iter().filter(|file| !file.ends_with("parse.rs")) {
            adapt(file, &changes)?;
        }
        Ok(dir)
    }
}

/// A Python environment with the drivers, made once for each set of versions.
fn python(dir: &Path) -> Result<PathBuf, String> {
    let environment = dir.join("python");
    let (python, made_of) = (environment.join("bin/python"), environment.join("made-of"));
    let drivers = [ASYNCPG, PG8000].map(|driver| driver.replace(' ', "=="));
    let wanted: Vec<&str> = drivers.iter().map(String::as_str).chain(PYTHON_NEEDS).collect();
    if fs::read_to_string(&made_of).is_ok_and(|there| there == wanted.join("\n")) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let mut pip = pip(&python, "install");
    run(pip.args(&wanted))?;
    write(&made_of, &wanted.join("\n"))?;
    Ok(python)
}

/// A driver's source archive from PyPI, unpacked.
fn source(dir: &Path, python: &Path, driver: &str, unpack: &[&str]) -> Result<PathBuf, String> {
    let (folder, version) = (folder(driver), driver.replace(' ', "=="));
    if dir.join(&folder).is_dir() {
        return Ok(dir.join(folder));
    }
    let mut download = pip(python, "download");
    download.args(["--no-deps", "--no-binary", ":all:", "--dest"]).arg(dir);
    run(download.arg(version))?;
    let archive = format!("{folder}.tar.gz");
    run(Command::new("tar").arg("xzf").arg(&archive).args(unpack).current_dir(dir))?;
    Ok(dir.join(folder))
}

fn pip(python: &Path, what: &str) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", what, "--quiet", "--disable-pip-version-check"]);
    pip
}

/// tokio-postgres's sources: a crate that depends on it is made, and cargo fetches what that needs.
fn crate_source(dir: &Path) -> Result<(), String> {
    if dir.join("vendor").join(folder(TOKIO_POSTGRES)).is_dir() {
        return Ok(());
    }
    let empty = dir.join("empty");
    fs::create_dir_all(empty.join("src")).map_err(|error| format!("making {}: {error}", empty.display()))?;
    write(&empty.join("src/lib.rs"), "")?;
    let (name, version) = TOKIO_POSTGRES.split_once(' ').unwrap_or((TOKIO_POSTGRES, "*"));
    let manifest = format!(
        "[package]\nname = \"empty\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{name} = \"={version}\"\n"
    );
    write(&empty.join("Cargo.toml"), &manifest)?;
    let mut vendor = crate::cargo();
    vendor.args(["vendor", "--quiet", "--versioned-dirs"]).arg(dir.join("vendor")).current_dir(&empty);
    run(vendor.stdout(std::process::Stdio::null()))
}

/// The Rust files in a directory and in those in it.
fn rust_files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("reading {}: {error}", dir.display()))?;
    let mut files = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        match path.is_dir() {
            true => files.extend(rust_files(&path)?),
            false => files.extend(path.extension().is_some_and(|end| end == "rs").then_some(path)),
        }
    }
    Ok(files)
}

/// `name 1.2` as archives call their folder.
fn folder(driver: &str) -> String {
    driver.replace(' ', "-")
}

/// Puts other texts in the place of some in a file.
fn adapt(file: &Path, changes: &[(&str, &str)]) -> Result<(), String> {
    let mut text = fs::read_to_string(file).map_err(|error| format!("reading {}: {error}", file.display()))?;
    for (from, to) in changes {
        text = text.replace(from, to);
    }
    write(file, &text).map(drop)
}
