//! Keys and values in comments, as tools write them of their queries.
//!
//! - [sqlcommenter](https://google.github.io/sqlcommenter/spec/): `key='value',other='with%20space'`, encoded as in URLs,
//!   a quote in a value as `\'`
//! - dbt, and others that write JSON: an object, with or without words before it: `{"app": "dbt", "node_id": "model.a.b"}`.
//!   What it says itself counts, not what is within that.
//!
//! A comment that is neither says nothing, and one that breaks off says what came before.

/// Calls `found` with each pair.
pub(super) fn each(comment: &str, mut found: impl FnMut(String, String)) {
    if let Some(object) = comment.find('{').and_then(|at| comment.get(at + 1..)) {
        Json { rest: object }.members(&mut found);
    } else {
        quoted(comment, &mut found);
    }
}

/// `key='value'`, separated by commas.
fn quoted(comment: &str, found: &mut impl FnMut(String, String)) {
    let mut rest = comment;
    while let Some((key, after)) = rest.split_once("='") {
        let key = key.trim();
        if key.is_empty() || key.contains(|c: char| c.is_whitespace() || c == '\'') {
            return;
        }
        let Some((value, after)) = quoted_value(after) else { return };
        found(decoded(key), decoded(&value));
        match after.trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None => return,
        }
    }
}

/// The value up to its closing quote, and what follows.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((value, &text[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    None
}

/// `%2F` is `/`; what is no such code stays as it is.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|c| char::from(*c).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The inside of an object, as far as it has not been read.
struct Json<'t> {
    rest: &'t str,
}

impl Json<'_> {
    /// The members whose values are texts, numbers, true, false or null.
    fn members(&mut self, found: &mut impl FnMut(String, String)) {
        loop {
            let Some(key) = self.text() else { return };
            if !self.sign(':') {
                return;
            }
            self.rest = self.rest.trim_start();
            match self.rest.chars().next() {
                Some('"') => {
                    let Some(value) = self.text() else { return };
                    found(key, value);
                }
                Some('{' | '[') => self.skip(),
                Some(_) => {
                    let end = self.rest.find([',', '}', ']']).unwrap_or(self.rest.len());
                    let (value, rest) = self.rest.split_at(end);
                    found(key, value.trim().to_owned());
                    self.rest = rest;
                }
                None => return,
            }
            if !self.sign(',') {
                return;
            }
        }
    }

    fn sign(&mut self, wanted: char) -> bool {
        match self.rest.trim_start().strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A text with its quotes.
    fn text(&mut self) -> Option<String> {
        let inside = self.rest.trim_start().strip_prefix('"')?;
        let mut text = String::new();
        let mut chars = inside.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &inside[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => {
                        let code = inside.get(at + 2..at + 6)?;
                        chars.nth(3);
                        // Half of a pair stands for nothing that we could compare.
                        char::from_u32(u32::from_str_radix(code, 16).ok()?).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    escaped => escaped,
                }),
                c => text.push(c),
            }
        }
        None
    }

    /// Goes past an object or a list, with all that is within.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        while let Some(c) = self.rest.chars().next() {
            match c {
                '"' => {
                    if self.text().is_none() {
                        self.rest = "";
                    }
                    continue;
                }
                '{' | '[' => depth += 1,
                '}' | ']' => depth -= 1,
                _ => {}
            }
            self.rest = &self.rest[c.len_utf8()..];
            if depth == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(comment: &str) -> String {
        let mut found = Vec::new();
        each(comment, |key, value| found.push(format!("{key}={value}")));
        found.join(";")
    }

    #[test]
    fn sqlcommenter_pairs_are_decoded() {
        let comment = r"action='%2Fparam*d',controller='index',framework='spring',traceparent='00-5b-01',x%20y='it\'s'";
        let wanted = "action=/param*d;controller=index;framework=spring;traceparent=00-5b-01;x y=it's";
        assert_eq!(pairs(comment), wanted);
        assert_eq!(pairs("a='100%', b='%zz'"), "a=100%;b=%zz");
    }

    #[test]
    fn the_objects_of_dbt_and_of_looker_are_read() {
        let dbt = r#"{"app": "dbt", "dbt_version": "1.7.4", "profile_name": "shop", "node_id": "model.shop.orders"}"#;
        assert_eq!(pairs(dbt), "app=dbt;dbt_version=1.7.4;profile_name=shop;node_id=model.shop.orders");
        assert_eq!(pairs(r#"Looker Query Context '{"user_id":7,"history_slug":"ab"}'"#), "user_id=7;history_slug=ab");
        let nested = r#"{"a": {"b": ["}", 1]}, "c": true, "d": [], "e": "x\"\u00e9\n", "f": null}"#;
        assert_eq!(pairs(nested), "c=true;e=x\"é\n;f=null");
    }

    #[test]
    fn what_is_neither_says_nothing_and_what_breaks_off_says_its_beginning() {
        for text in ["", "why", "it is a='b", "a=b", "{", "{}", "{1: 2}", "= 'x'", "{\"a\"", "{\"a\":", "'='a'"] {
            assert_eq!(pairs(text), "", "{text}");
        }
        assert_eq!(pairs("a='1',b='2"), "a=1");
        assert_eq!(pairs(r#"{"a": 1, "b": {"c""#), "a=1");
        assert_eq!(pairs(r#"{"a": "\u12"#), "");
        assert_eq!(pairs(r#"{"a": "\ué123"}"#), "");
    }
}
