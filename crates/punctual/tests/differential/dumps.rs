//! pg_dump and pg_restore through the gateway.

use std::path::Path;
use std::process::Command;

use super::world::{Place, USER, World};

/// What pg_dump is asked for; a directory is written by two jobs, which share a snapshot.
const FORMS: [&[&str]; 4] = [
    &["--format=plain"],
    &["--schema-only", "--create"],
    &["--data-only", "--inserts", "--rows-per-insert=7"],
    &["--format=custom"],
];

#[test]
fn pg_dump_writes_the_same() {
    let world = World::new();
    let places = world.places();
    let dir = tempfile::tempdir().expect("a directory");
    for form in FORMS {
        // All of one database: what differs is the way there.
        let written = places.each_ref().map(|place| dumped(place, &places[0].database, dir.path(), form));
        assert!(written[0].len() > 5_000, "{form:?}: {}", written[0]);
        for (place, other) in places.iter().zip(&written).skip(1) {
            assert_eq!(&written[0], other, "{form:?} {}", place.name);
        }
    }
    for place in &places {
        let parallel = dumped(place, &places[0].database, dir.path(), &["--format=directory", "--jobs=2"]);
        assert_eq!(
            parallel,
            dumped(&places[0], &places[0].database, dir.path(), &["--format=custom"]),
            "{}",
            place.name
        );
    }
}

#[test]
fn what_pg_restore_makes_through_the_gateway_is_what_was_dumped() {
    let world = World::new();
    let places = world.places();
    let dir = tempfile::tempdir().expect("a directory");
    let original = dumped(&places[0], &places[0].database, dir.path(), &["--format=plain"]);
    for place in &places {
        let into = &format!("{}_restored", place.database);
        let file = dir.path().join(place.name);
        let source = &places[0].database;
        ran(pg("pg_dump", place, source).args(["--format=custom", "--file"]).arg(&file));
        world.ask("postgres", &["-c", &format!("create database {into}")]);
        ran(pg("pg_restore", place, into).args(["--jobs=2", "--exit-on-error"]).arg(&file));
        assert_eq!(dumped(&places[0], into, dir.path(), &["--format=plain"]), original, "{}", place.name);
    }
}

/// A dump as text.
fn dumped(place: &Place, database: &str, dir: &Path, form: &[&str]) -> String {
    let file = dir.join(format!("{}.dump", place.name));
    let _ = std::fs::remove_dir_all(&file);
    ran(pg("pg_dump", place, database).args(form).arg("--file").arg(&file));
    let archived = form.iter().any(|option| option.ends_with("custom") || option.ends_with("directory"));
    let text = if archived {
        let text = ran(Command::new("pg_restore").args(["--file", "-"]).arg(&file));
        std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir_all(&file)).expect("it was written");
        text
    } else {
        std::fs::read_to_string(&file).expect("a dump")
    };
    // Newer programs make up a key for each dump.
    text.lines().filter(|line| !line.contains("restrict ")).map(|line| line.to_owned() + "\n").collect()
}

fn pg(program: &str, place: &Place, database: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-U", USER, "-d", database, "-p"]).arg(place.port.to_string());
    command
}

fn ran(command: &mut Command) -> String {
    let output = command.output().expect("Postgres' programs are installed: cargo xtask needs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
