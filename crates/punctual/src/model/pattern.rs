//! Names of clusters by pattern: `*` stands for any text, `?` for one character, all else for itself.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Whether the whole name is as the pattern says. O(name × pattern) at worst.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        let (mut p, mut n) = (0, 0);
        // Where the last star stands, and how much of the name is given to it.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(wanted) if *wanted == '?' || *wanted == name[n] => (p, n) = (p + 1, n + 1),
                _ => {
                    // The star must take one more.
                    let Some((at, taken)) = star else { return false };
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
            }
        }
        pattern[p..].iter().all(|rest| *rest == '*')
    }
}

impl FromStr for Pattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Pattern, Infallible> {
        Ok(Pattern(text.to_owned()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text_and_question_marks_for_one_character() {
        let matches = |pattern: &str, name: &str| pattern.parse::<Pattern>().unwrap().matches(name);
        assert!(matches("etl-?", "etl-1") && !matches("etl-?", "etl-12") && !matches("etl-?", "etl-"));
        assert!(matches("*_0.1_*", "poisson_66_2_1_0.1_42") && !matches("*_0.1_*", "poisson_66_2_1_0.05_42"));
        assert!(matches("a*b*c", "a1b2b3c") && !matches("a*b*c", "a1b2b3"));
        assert!(matches("*", "") && matches("", "") && !matches("", "a") && matches("**a", "äa"));
    }
}
