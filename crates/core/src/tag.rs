//! What a query says about itself in a comment: `/* punctual: class=etl, slo=30m */`.
//!
//! Keys and values are separated by `=`, pairs by commas. Unknown keys are left alone, since a comment is written for
//! more readers than us; a value that cannot be read is reported, since someone meant it.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// A query's own wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The class it wants to be treated as.
    pub class: Option<String>,
    /// The latency target it wants.
    pub slo: Option<Span>,
    /// The first value that could not be read: `slo=soon`.
    pub unreadable: Option<String>,
}

impl Tag {
    /// Reads one comment's text, without its delimiters; what does not start with `punctual:` says nothing.
    pub fn read_comment(&mut self, comment: &str) {
        let Some(pairs) = comment.trim().strip_prefix("punctual:") else { return };
        for pair in pairs.split(',') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim().trim_matches('\''));
            match key {
                "class" if !value.is_empty() => self.class = Some(value.to_owned()),
                // Nothing cannot be met, so it is no target.
                "slo" if parse_span(value).is_some_and(|slo| slo > Span::ZERO) => self.slo = parse_span(value),
                "class" | "slo" => self.unreadable = Some(format!("{key}={value}")),
                _ => {}
            }
        }
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
    fn a_comment_chooses_class_and_slo_and_keeps_what_it_cannot_read() {
        let mut tag = Tag::default();
        tag.read_comment(" punctual: class=etl, slo=30m, owner=ann ");
        assert_eq!(tag, Tag { class: Some("etl".into()), slo: Some(Span::from_secs(1_800)), unreadable: None });
        tag.read_comment("dbt model: x");
        tag.read_comment("punctual: slo=soon");
        assert_eq!(tag.unreadable.as_deref(), Some("slo=soon"));
        let mut nothing = Tag::default();
        nothing.read_comment("punctual: slo=0s");
        assert_eq!((nothing.slo, nothing.unreadable.as_deref()), (None, Some("slo=0s")));
    }
}
