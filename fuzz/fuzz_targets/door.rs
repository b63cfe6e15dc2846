//! Anything that a client may send, from its first byte to its last, through the door's own code.
//!
//! The first byte says how it is brought ([`How`]); the rest is what the client sends. Some inputs are not what the fuzzer has found
//! by chance but sessions as clients hold them, so that it need not find out by itself what a session is.

#![no_main]

#[path = "../../crates/punctual/tests/fuzzed/mod.rs"]
mod fuzzed;

use std::cell::RefCell;

use fuzzed::{Doorway, How, walk};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use punctual_core::rng::Rng;

/// Inputs after which a door has seen enough: what its cluster and its driver remember grows with each.
const WORN: u32 = 20_000;

thread_local! {
    static DOORWAY: RefCell<(u32, Doorway)> = RefCell::default();
}

/// How it is brought, by the first byte.
fn how(byte: u8) -> How {
    How { asks: byte & 1 != 0, greeted: byte & 2 != 0, chunks: u64::from(byte >> 2) }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    DOORWAY.with_borrow_mut(|(used, doorway)| {
        if *used == WORN {
            (*used, *doorway) = Default::default();
        }
        *used += 1;
        doorway.send(how(*first), bytes);
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut rng = Rng::numbered(u64::from(seed), 0);
    if !rng.chance(0.1) {
        return fuzzer_mutate(data, size, max_size);
    }
    let first = rng.bits() as u8;
    let messages = walk::session(&mut rng, how(first).greeted);
    let made = [&[first][..], &walk::harmed(&mut rng, messages)].concat();
    let size = made.len().min(max_size);
    data[..size].copy_from_slice(&made[..size]);
    size
});
