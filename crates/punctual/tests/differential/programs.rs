//! Runners in other languages.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use tempfile::TempDir;

use super::cases;
use super::world::Place;

/// One of Python's drivers.
pub(crate) fn python(driver: &'static str) -> impl Fn(&Place) -> String {
    move |place| output(Command::new(variable("PUNCTUAL_TEST_PYTHON")).arg(cases::file("drivers.py")), driver, place)
}

/// node's `pg`.
pub(crate) fn node() -> impl Fn(&Place) -> String {
    |place| {
        let mut command = Command::new("node");
        command.env("NODE_PATH", variable("PUNCTUAL_TEST_NODE_MODULES")).arg("--no-deprecation");
        output(command.arg(cases::file("node.js")), "node", place)
    }
}

/// sqlx, whose runner is a package of its own.
pub(crate) fn sqlx() -> impl Fn(&Place) -> String {
    |place| output(&mut Command::new(variable("PUNCTUAL_TEST_SQLX")), "sqlx", place)
}

/// pgjdbc, whose runner is compiled first.
pub(crate) fn java() -> impl Fn(&Place) -> String {
    let (classes, jar) = (TempDir::new().expect("a directory"), variable("PUNCTUAL_TEST_JDBC"));
    let compiled = Command::new("javac")
        .arg("-cp")
        .arg(&jar)
        .arg("-d")
        .arg(classes.path())
        .arg(cases::file("Jdbc.java"))
        .output()
        .expect("a JDK is installed: cargo xtask needs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut path = jar;
    path.push(":");
    path.push(classes.path());
    move |place| {
        let _kept = &classes;
        let mut command = Command::new("java");
        // It runs for seconds: what takes long is to start.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]).arg(&path);
        output(command.arg("Jdbc"), "pgjdbc", place)
    }
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("{name} is set by cargo xtask test"))
}

/// What a runner prints. Its arguments are the driver's name, the port, the database, and the files.
fn output(command: &mut Command, driver: &str, place: &Place) -> String {
    let output = command
        .arg(driver)
        .arg(place.port.to_string())
        .arg(&place.database)
        .args(&place.files)
        .env("PUNCTUAL_NEW_OIDS", place.new_oids.to_string())
        .env("TZ", "UTC")
        .env("PYTHONIOENCODING", "utf-8")
        .output()
        .unwrap_or_else(|error| panic!("{driver}: {error}; cargo xtask needs installs what it takes"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{driver} {}: {said}", place.name);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
