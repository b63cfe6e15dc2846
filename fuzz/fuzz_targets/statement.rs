//! Texts of SQL as a session reads them: each alone, and each with what was read before it remembered.
//!
//! The texts of an input are separated by zeros, which none can hold. What was read once has to hold for a text that differs in its
//! literals alone: both readings say the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual::door::reading::{Reading, Readings};
use punctual_core::predict::features::features;

fuzz_target!(|input: &[u8]| {
    let mut readings = Readings::default();
    for text in input.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok()) {
        let (alone, again) = (Reading::of(text), readings.of(text));
        assert_eq!(*again.text, *text);
        assert_eq!(again.effects, alone.effects, "{text:?}");
        assert_eq!(again.local, alone.local, "{text:?}");
        assert_eq!(again.statement.kind, alone.statement.kind, "{text:?}");
        assert_eq!(again.statement.fingerprint, alone.statement.fingerprint, "{text:?}");
        assert_eq!(again.statement.tables, alone.statement.tables, "{text:?}");
        assert_eq!(again.shape, alone.shape, "{text:?}");
        let _ = features(text, None);
    }
});
