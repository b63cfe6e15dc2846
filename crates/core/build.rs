//! Gives the crate the identity of its decisions: a hash over its own sources.
//!
//! A journal replays only on the build that wrote it. A version number would not do: two builds of one version can
//! decide differently during development.

use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files);
    files.sort();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in &files {
        let text = fs::read(file).unwrap_or_else(|error| panic!("reading {file}: {error}"));
        for byte in file.bytes().chain(text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rustc-env=PUNCTUAL_BUILD={version}+{hash:016x}");
}

fn collect(dir: &Path, files: &mut Vec<String>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("listing {}: {error}", dir.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path.to_string_lossy().replace('\\', "/")),
        }
    }
}
