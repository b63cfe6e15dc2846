//! The house rules that no lint knows: every file says what it is, crates depend one way, the invariants have their
//! tests, names are names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Longer files hold more than one idea.
const LONGEST_FILE: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Every source file of the workspace with its text, by path from the root.
fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for dir in ["crates", "xtask"] {
        collect(&root().join(dir), &mut found);
    }
    assert!(found.len() > 20, "the sources were not found below {}", root().display());
    found
}

fn collect(dir: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).expect("a readable directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            found.insert(name, fs::read_to_string(&path).expect("a readable source file"));
        }
    }
}

fn complain(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_file_opens_by_saying_what_it_is() {
    let bare = sources().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    complain(&bare.map(|(name, _)| format!("{name}: no module documentation")).collect::<Vec<_>>());
}

#[test]
fn no_file_holds_more_than_one_idea() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        if text.lines().count() > LONGEST_FILE {
            faults.push(format!("{name}: {} lines, at most {LONGEST_FILE}", text.lines().count()));
        }
    }
    complain(&faults);
}

#[test]
fn types_are_named_for_what_they_are() {
    const EMPTY_WORDS: [&str; 9] =
        ["Manager", "Handler", "Service", "Helper", "Util", "Processor", "Inner", "Base", "Impl"];
    let mut faults = Vec::new();
    for (name, text) in sources() {
        for line in text.lines() {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            for pair in words.windows(2) {
                let defined = matches!(pair[0], "struct" | "enum" | "trait" | "type");
                let empty = |word: &&str| pair[1].ends_with(*word) || pair[1] == "Data" || pair[1] == "Info";
                if defined && EMPTY_WORDS.iter().any(empty) {
                    faults.push(format!("{name}: {} says nothing", pair[1]));
                }
            }
        }
    }
    complain(&faults);
}

#[test]
fn nothing_is_left_for_later_in_a_comment() {
    let marks = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "XX".to_owned() + "X:"];
    let mut faults = Vec::new();
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                faults.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    complain(&faults);
}

/// The names under `[dependencies]` of a crate.
fn dependencies(package: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(package).join("Cargo.toml")).expect("a manifest");
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).expect("dependencies");
    let names = section.lines().skip(1).filter(|line| !line.starts_with('#'));
    names
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn core_depends_on_nothing_that_could_read_the_world() {
    assert_eq!(dependencies("core"), ["libm", "rand_core", "rand_pcg", "serde", "sqlparser"]);
}

#[test]
fn crates_depend_one_way() {
    let ours = |package: &str| -> Vec<String> {
        dependencies(package).into_iter().filter(|name| name.starts_with("punctual-")).collect()
    };
    assert_eq!(ours("core"), Vec::<String>::new());
    assert_eq!(ours("learn"), ["punctual-core"]);
    assert_eq!(ours("sim"), ["punctual-core"]);
    assert_eq!(ours("engine"), ["punctual-core", "punctual-sim"]);
    assert_eq!(
        ours("punctual"),
        ["punctual-core", "punctual-engine", "punctual-learn", "punctual-sim", "punctual-tuner"]
    );
    assert_eq!(ours("tuner"), ["punctual-core", "punctual-sim"]);
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let sources = sources();
    let mut faults = Vec::new();
    let mut invariants = 0;
    // | 1 | invariant | `file.rs`: `test_name` |
    for line in
        text.lines().filter(|line| line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit()))
    {
        invariants += 1;
        let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let tests = quoted.windows(2).filter(|pair| pair[0].ends_with(".rs"));
        let mut named = 0;
        for pair in tests {
            named += 1;
            let exists = sources.get(pair[0]).is_some_and(|text| text.contains(&format!("fn {}(", pair[1])));
            if !exists {
                faults.push(format!("ARCHITECTURE.md: {} in {} does not exist", pair[1], pair[0]));
            }
        }
        if named == 0 {
            faults.push(format!("ARCHITECTURE.md: no test for {line}"));
        }
    }
    complain(&faults);
    assert_eq!(invariants, 16, "ARCHITECTURE.md must list the sixteen invariants");
}
