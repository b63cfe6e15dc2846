//! A text of SQL cut into words, as far as it takes to see what a statement does to its session.
//!
//! It allocates nothing and never fails: what is not closed reaches to the end of the text. Comments and white space
//! are passed over; what is inside quotes is one word and cannot be mistaken for SQL.

/// A word of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// A name or a keyword, as written.
    Plain(&'a str),
    /// A name in double quotes, without them; doubled quotes inside are left as they are.
    Quoted(&'a str),
    /// A string in single quotes or dollars, without them; doubled quotes inside are left as they are.
    Text(&'a str),
    /// Digits, and what clings to them.
    Number(&'a str),
    /// Anything else, one character.
    Sign(char),
}

impl Word<'_> {
    /// True if it is this keyword, written in lower case here.
    pub fn is(&self, keyword: &str) -> bool {
        matches!(self, Word::Plain(word) if word.eq_ignore_ascii_case(keyword))
    }
}

/// The words of a text.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The words of `text`.
    pub fn of(text: &'a str) -> Words<'a> {
        Words { rest: text }
    }

    /// What has not been cut yet.
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    /// Splits off `n` bytes; the text is cut at its end, and never inside a character.
    fn take(&mut self, n: usize) -> &'a str {
        let mut n = n.min(self.rest.len());
        while !self.rest.is_char_boundary(n) {
            n += 1;
        }
        let (taken, rest) = self.rest.split_at(n);
        self.rest = rest;
        taken
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            let blanks = self.rest.bytes().take_while(u8::is_ascii_whitespace).count();
            self.take(blanks);
            if self.rest.starts_with("--") {
                let line = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(line);
            } else if self.rest.starts_with("/*") {
                let comment = comment_length(self.rest.as_bytes());
                self.take(comment);
            } else {
                return;
            }
        }
    }

    /// What is between quotes that open here; a doubled quote does not close, nor does one after a backslash if those
    /// count.
    fn quoted(&mut self, quote: u8, backslashes: bool) -> &'a str {
        let bytes = self.rest.as_bytes();
        let mut at = 1;
        while at < bytes.len() {
            match bytes[at] {
                b'\\' if backslashes => at += 2,
                byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
                byte if byte == quote => break,
                _ => at += 1,
            }
        }
        let closed = at < bytes.len();
        let whole = self.take(at + 1);
        if closed { &whole[1..whole.len() - 1] } else { &whole[1..] }
    }

    /// A string between `$tag$` and `$tag$`; None if no such thing opens here.
    fn dollar_quoted(&mut self) -> Option<&'a str> {
        let tag_end = 1 + self.rest[1..].find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        if self.rest.as_bytes()[tag_end] != b'$' || self.rest.as_bytes()[1].is_ascii_digit() {
            return None;
        }
        let tag = self.take(tag_end + 1);
        let text_end = self.rest.find(tag).unwrap_or(self.rest.len());
        let text = self.take(text_end);
        self.take(tag.len());
        Some(text)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        self.skip_blanks_and_comments();
        let first = self.rest.chars().next()?;
        Some(match first {
            '\'' => Word::Text(self.quoted(b'\'', false)),
            'e' | 'E' if self.rest.as_bytes().get(1) == Some(&b'\'') => {
                self.take(1);
                Word::Text(self.quoted(b'\'', true))
            }
            '"' => Word::Quoted(self.quoted(b'"', false)),
            '$' => match self.dollar_quoted() {
                Some(text) => Word::Text(text),
                None => {
                    self.take(1);
                    Word::Sign('$')
                }
            },
            c if c.is_ascii_digit() => {
                let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
                Word::Number(self.take(end.unwrap_or(self.rest.len())))
            }
            c if c.is_alphabetic() || c == '_' => {
                let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
                Word::Plain(self.take(end.unwrap_or(self.rest.len())))
            }
            c => {
                self.take(c.len_utf8());
                Word::Sign(c)
            }
        })
    }
}

/// The length of the comment that opens at the start; comments nest.
fn comment_length(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word<'_>> {
        Words::of(text).collect()
    }

    #[test]
    fn quotes_and_comments_hide_what_is_in_them() {
        use Word::*;
        assert_eq!(
            words("SET x /* ; /* ' */ */ = 'a;''b' -- ;\n, \"Q\"\"q\" $f$ ; ' $f$ E'\\'' $1"),
            [
                Plain("SET"),
                Plain("x"),
                Sign('='),
                Text("a;''b"),
                Sign(','),
                Quoted("Q\"\"q"),
                Text(" ; ' "),
                Text("\\'"),
                Sign('$'),
                Number("1"),
            ]
        );
    }

    #[test]
    fn what_is_not_closed_reaches_to_the_end() {
        assert_eq!(words("'open"), [Word::Text("open")]);
        assert_eq!(words("E'open\\"), [Word::Text("open\\")]);
        assert_eq!(words("$$ open"), [Word::Text(" open")]);
        assert_eq!(words("a /* open"), [Word::Plain("a")]);
        assert_eq!(words("\""), [Word::Quoted("")]);
        assert_eq!(words("E'é\\é"), [Word::Text("é\\é")]);
        assert_eq!(words("$é"), [Word::Sign('$'), Word::Plain("é")]);
    }
}
