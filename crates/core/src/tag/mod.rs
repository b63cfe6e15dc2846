//! What a query says about itself in its comments: `/* punctual: class=etl, slo=30m, priority=-1 */`, and the pairs of keys
//! and values that other tools write for whoever reads along ([`pairs`]).
//!
//! In ours, keys and values are separated by `=`, pairs by commas. Unknown keys are left alone, since a comment is written
//! for more readers than us; a value that cannot be read is reported, since someone meant it.

mod pairs;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Pairs that are kept of one text.
pub const MAX_PAIRS: usize = 32;
/// The longest key or value that is kept, in bytes.
pub const MAX_PAIR: usize = 256;
/// What is kept of the comments of one text, in bytes.
pub const MAX_COMMENTS: usize = 4_096;

/// A query's own wishes, and what else its comments say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The class it wants to be treated as.
    pub class: Option<String>,
    /// The latency target it wants.
    pub slo: Option<Span>,
    /// The priority it wants.
    pub priority: Option<i32>,
    /// The first value that could not be read: `slo=soon`.
    pub unreadable: Option<String>,
    /// Keys and values, at most [`MAX_PAIRS`]; none that is longer than [`MAX_PAIR`].
    pub pairs: Vec<(String, String)>,
    /// The comments, a line each, at most [`MAX_COMMENTS`] bytes of them.
    pub comments: String,
}

impl Tag {
    /// Reads one comment's text, without its delimiters.
    pub fn read_comment(&mut self, comment: &str) {
        let comment = comment.trim();
        self.keep(comment);
        if let Some(ours) = comment.strip_prefix("punctual:") {
            for pair in ours.split(',') {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let (key, value) = (key.trim(), value.trim().trim_matches('\''));
                self.wish(key, value);
                self.note(key.to_owned(), value.to_owned());
            }
        } else {
            pairs::each(comment, |key, value| {
                if let Some(ours) = key.strip_prefix("punctual.") {
                    self.wish(ours, &value);
                }
                self.note(key, value);
            });
        }
    }

    fn wish(&mut self, key: &str, value: &str) {
        match key {
            "class" if !value.is_empty() => self.class = Some(value.to_owned()),
            // Nothing cannot be met, so it is no target.
            "slo" if parse_span(value).is_some_and(|slo| slo > Span::ZERO) => self.slo = parse_span(value),
            "priority" if value.parse::<i32>().is_ok() => self.priority = value.parse().ok(),
            "class" | "slo" | "priority" => self.unreadable = Some(format!("{key}={value}")),
            _ => {}
        }
    }

    fn note(&mut self, key: String, value: String) {
        if self.pairs.len() < MAX_PAIRS && !key.is_empty() && key.len() <= MAX_PAIR && value.len() <= MAX_PAIR {
            self.pairs.push((key, value));
        }
    }

    fn keep(&mut self, comment: &str) {
        if !self.comments.is_empty() && self.comments.len() < MAX_COMMENTS {
            self.comments.push('\n');
        }
        let mut room = MAX_COMMENTS.saturating_sub(self.comments.len()).min(comment.len());
        while !comment.is_char_boundary(room) {
            room -= 1;
        }
        self.comments.push_str(&comment[..room]);
    }
}

/// Reads a duration as people write it: `250ms`, `3s`, `1.5h`, `30m`, `2d`, `10us`. None for anything else,
/// a bare number included: a unit that is guessed is a unit that is wrong.
pub fn parse_span(text: &str) -> Option<Span> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let micros_each = match unit.trim() {
        "us" => 1.0,
        "ms" => 1e3,
        "s" | "sec" => 1e6,
        "m" | "min" => 60e6,
        "h" => 3_600e6,
        "d" => 86_400e6,
        _ => return None,
    };
    let number: f64 = number.trim().parse().ok()?;
    let micros = number * micros_each;
    (number >= 0.0 && micros < 9e18).then(|| Span::from_micros(micros.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(comments: &[&str]) -> Tag {
        let mut tag = Tag::default();
        comments.iter().for_each(|comment| tag.read_comment(comment));
        tag
    }

    #[test]
    fn durations_need_their_unit() {
        assert_eq!(parse_span("250ms"), Some(Span::from_millis(250)));
        assert_eq!(parse_span(" 1.5 h "), Some(Span::from_secs(5_400)));
        assert_eq!(parse_span("30m"), Some(Span::from_secs(1_800)));
        for bad in ["", "3", "s", "-1s", "3 parsecs", "1e400s", "nan s", "3s4"] {
            assert_eq!(parse_span(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_comment_chooses_class_slo_and_priority_and_keeps_what_it_cannot_read() {
        let tag = read(&[" punctual: class=etl, slo=30m, priority=-3, owner=ann "]);
        assert_eq!((tag.class.as_deref(), tag.slo, tag.priority), (Some("etl"), parse_span("30m"), Some(-3)));
        assert_eq!(tag.unreadable, None);
        let owner = ("owner".to_owned(), "ann".to_owned());
        assert_eq!((tag.pairs.len(), &tag.pairs[3]), (4, &owner));
        assert_eq!(read(&["dbt model: x", "punctual: slo=soon"]).unreadable.as_deref(), Some("slo=soon"));
        let nothing = read(&["punctual: slo=0s"]);
        assert_eq!((nothing.slo, nothing.unreadable.as_deref()), (None, Some("slo=0s")));
        for priority in ["high", "1.5", "", "99999999999"] {
            let tag = read(&[&format!("punctual: priority={priority}")]);
            assert_eq!((tag.priority, tag.unreadable), (None, Some(format!("priority={priority}"))));
        }
    }

    #[test]
    fn a_wish_can_stand_among_the_pairs_of_other_tools() {
        let tag = read(&["route='%2Fhome',punctual.class='etl'"]);
        assert_eq!((tag.class.as_deref(), tag.pairs.len()), (Some("etl"), 2));
        let tag = read(&[r#"{"app": "dbt", "punctual.priority": -2, "punctual.slo": "1h"}"#]);
        assert_eq!((tag.priority, tag.slo), (Some(-2), parse_span("1h")));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let many: Vec<String> = (0..99).map(|n| format!("k{n}='v'")).collect();
        assert_eq!(read(&[&many.join(",")]).pairs.len(), MAX_PAIRS);
        let long = "x".repeat(MAX_PAIR + 1);
        assert_eq!(read(&[&format!("a='{long}',b='1'")]).pairs, [("b".to_owned(), "1".to_owned())]);
        // Not in the middle of a letter.
        let tag = read(&[&"é".repeat(3_000), "more", "and more"]);
        assert!(tag.comments.len() <= MAX_COMMENTS && tag.comments.starts_with("éé"));
        assert_eq!(read(&[" one ", "two"]).comments, "one\ntwo");
    }
}
