//! How each test of a suite ended, read from what its runner says.

use std::collections::BTreeMap;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// It did not want to run here.
    Skipped,
    /// With the first line of what it said.
    Failed(String),
}

/// Of each test, by name.
pub(super) type Outcomes = BTreeMap<String, Outcome>;

/// Reads the lines that `outcomes.py` writes: an outcome, a test and a reason, with tabs between them.
pub(super) fn of_lines(text: &str) -> Outcomes {
    let one = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let outcome = match (fields.next()?, fields.next()?, fields.next().unwrap_or_default()) {
            ("passed", test, _) => (test.to_owned(), Outcome::Passed),
            ("skipped", test, _) => (test.to_owned(), Outcome::Skipped),
            (_, test, why) => (test.to_owned(), Outcome::Failed(why.to_owned())),
        };
        Some(outcome)
    };
    text.lines().filter_map(one).collect()
}

/// Reads what a Rust test program prints.
pub(super) fn of_libtest(text: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let (mut said_by, mut panicked) = (None, false);
    for line in text.lines() {
        if let Some((test, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            let outcome = match outcome.split([',', ' ']).next() {
                Some("ok") => Outcome::Passed,
                Some("ignored") => Outcome::Skipped,
                _ => Outcome::Failed(String::new()),
            };
            outcomes.insert(test.to_owned(), outcome);
        } else if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            (said_by, panicked) = (Some(test.to_owned()), false);
        } else if let Some(Outcome::Failed(why)) = said_by.as_ref().and_then(|test| outcomes.get_mut(test)) {
            // What follows the line that says where; of a comparison, both sides, too.
            let is_side = ["  left: ", " right: "].iter().any(|side| line.starts_with(side));
            if (panicked && why.is_empty()) || (is_side && !why.is_empty()) {
                why.push_str(line);
            }
            panicked = line.contains(" panicked at ");
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pytest_said_is_read() {
        let failed = |why: &str| Outcome::Failed(why.to_owned());
        let told = of_lines("passed\ta::b\t\nskipped\ta::c\t\nfailed\ta::d[x y]\tE: no\tway\nfailed\ta::e\n");
        let expected = [
            ("a::b", Outcome::Passed),
            ("a::c", Outcome::Skipped),
            ("a::d[x y]", failed("E: no\tway")),
            ("a::e", failed("")),
        ];
        assert_eq!(told, expected.map(|(test, outcome)| (test.to_owned(), outcome)).into());
    }

    #[test]
    fn what_libtest_said_is_read() {
        let told = of_libtest(
            "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored, not here\n\nfailures:\n\n\
             ---- c stdout ----\n\nthread 'c' (7) panicked at src/x.rs:1:2:\nit is not\n  left: 1\n right: 2\nnote: more\n\n",
        );
        let expected = [
            ("a::b", Outcome::Passed),
            ("c", Outcome::Failed("it is not  left: 1 right: 2".to_owned())),
            ("d", Outcome::Skipped),
        ];
        assert_eq!(told, expected.map(|(test, outcome)| (test.to_owned(), outcome)).into());
    }
}
