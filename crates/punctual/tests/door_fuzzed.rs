//! Whatever a client sends, the door neither panics, nor loops, nor passes it on malformed, nor grows.

mod fuzzed;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use fuzzed::cluster::bodies;
use fuzzed::{Doorway, How, walk};
use punctual_core::rng::Rng;

/// Sessions that are walked.
const SESSIONS: u64 = 4_000;

/// How long one may take before it counts as a loop: each is done within milliseconds.
const STUCK: Duration = Duration::from_secs(120);

/// What the process may grow by, in KiB: a handful of messages of the largest size.
const GROWTH: u64 = 64 << 10;

/// What the process has held at most, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn walk(doorway: &Doorway, seed: u64) {
    let mut rng = Rng::numbered(seed, 0);
    let (asks, greeted) = (rng.chance(0.1), rng.chance(0.7));
    let chunks = if rng.chance(0.5) { 0 } else { seed };
    let messages = walk::session(&mut rng, greeted);
    let bytes = walk::harmed(&mut rng, messages);
    doorway.send(How { asks, greeted, chunks }, &bytes);
}

#[test]
fn whatever_a_client_sends_the_door_neither_panics_nor_loops_nor_grows() {
    let (tell, told) = channel();
    let walking = std::thread::spawn(move || {
        let doorway = Doorway::default();
        (0..100).for_each(|seed| walk(&doorway, seed));
        let before = peak();
        for seed in 100..SESSIONS {
            let _ = tell.send(seed);
            walk(&doorway, seed);
        }
        peak() - before
    });
    let mut last = 0;
    loop {
        match told.recv_timeout(STUCK) {
            Ok(seed) => last = seed,
            Err(RecvTimeoutError::Timeout) => panic!("the session of seed {last} does not end"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let grown = walking.join().unwrap_or_else(|_| panic!("the session of seed {last} failed"));
    assert!(grown < GROWTH, "{grown} KiB more than after the first hundred sessions");
}

#[test]
fn a_walk_that_comes_to_no_harm_is_answered() {
    let doorway = Doorway::default();
    let mut rows = 0;
    for seed in 0..200 {
        let mut rng = Rng::numbered(seed, 0);
        let messages = walk::session(&mut rng, true);
        let heard = doorway.send(How { greeted: true, ..How::default() }, &messages.concat());
        // It is welcomed at least.
        assert!(!bodies(&heard, b'Z').is_empty(), "seed {seed}: {}", heard.escape_ascii());
        rows += bodies(&heard, b'D').len();
    }
    assert!(rows > 100, "{rows} rows: the cluster was hardly reached");
}
