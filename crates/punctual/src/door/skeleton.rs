//! A text of SQL without its plain literals, so that what was read of one text holds for all that differ in nothing else.
//!
//! Reading a text costs more than everything else that a session does for a short query; applications send the same
//! few texts with other numbers in them. Only what is certainly a literal is left out: runs of digits that stand alone,
//! and strings in plain quotes. Everything else, comments and white space included, stays as it is, so two texts of one
//! skeleton have the same tokens but for the values of their literals.

/// Stands for a literal; no text of the protocol can contain it.
const LITERAL: u8 = 0;

/// Writes the skeleton of `text`; None if it cannot be told with certainty. Otherwise true if literals were left out.
pub fn skeleton(text: &str, out: &mut Vec<u8>) -> Option<bool> {
    let bytes = text.as_bytes();
    let (mut at, mut left_out) = (0, false);
    out.clear();
    // What a literal must not cling to: it would be part of a name, of a number with a fraction, of `E'...'` or `U&'...'`.
    let clings = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'&') || byte >= 0x80;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let after_word = at > 0 && clings(bytes[at - 1]);
        let end = match rest[0] {
            b'0'..=b'9' if !after_word => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                if rest.get(digits).is_none_or(|byte| !clings(*byte)) {
                    out.push(LITERAL);
                    left_out = true;
                    at += digits;
                    continue;
                }
                digits
            }
            b'\'' if !after_word => {
                let end = 1 + rest[1..].iter().position(|byte| matches!(byte, b'\'' | b'\\'))?;
                if rest[end] == b'\\' || rest.get(end + 1) == Some(&b'\'') {
                    return None;
                }
                out.push(LITERAL);
                left_out = true;
                at += end + 1;
                continue;
            }
            b'\'' | b'$' => return None,
            b'"' => 2 + rest[1..].iter().position(|byte| *byte == b'"')?,
            b'-' if rest.get(1) == Some(&b'-') => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            b'/' if rest.get(1) == Some(&b'*') => comment(rest)?,
            _ => 1,
        };
        out.extend_from_slice(&rest[..end]);
        at += end;
    }
    Some(left_out)
}

/// The length of a comment that holds no other; None if it does, or does not end.
fn comment(bytes: &[u8]) -> Option<usize> {
    let inside = &bytes[2..];
    let end = inside.windows(2).position(|pair| pair == b"*/")?;
    let nested = inside[..end].windows(2).any(|pair| pair == b"/*");
    (!nested).then_some(end + 4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use punctual_core::statement::Statement;

    use super::*;

    fn of(text: &str) -> Option<String> {
        let mut out = Vec::new();
        skeleton(text, &mut out)?;
        Some(String::from_utf8(out).unwrap().replace('\0', "?"))
    }

    #[test]
    fn plain_literals_are_left_out_and_nothing_else() {
        let text = "select a1, 'x' from t2 where b = 12 and c in (3,4) -- 5 'six'\n/* 7 */ limit 8";
        let expected = "select a1, ? from t2 where b = ? and c in (?,?) -- 5 'six'\n/* 7 */ limit ?";
        assert_eq!(of(text).as_deref(), Some(expected));
        assert_eq!(of("select 1.5, 2e3, \"4 'five'\"").as_deref(), Some("select 1.5, 2e3, \"4 'five'\""));
        for uncertain in ["E'a'", "'it''s'", "'a\\'", "$1", "$$ $$", "'open", "\"open", "/* open", "/* /* */ */"] {
            assert_eq!(of(uncertain), None, "{uncertain}");
        }
    }

    proptest! {
        /// The promise that sessions rely on.
        #[test]
        fn texts_of_one_skeleton_are_one_statement(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "select ", "set ", "a", "b1", " ", ", ", "(", ")", " in ", "=", "-", "--", "\n", "/*", "*/", "E",
                    "x", "U&", "\"", ".", ";", " from ", "t", "#", "#", "#", "@", "@", "$", "e", "é", "::", "punctual",
                    " values ", "[", "]", "_",
                ]),
                0..24,
            ),
            numbers in prop::collection::vec(0u32..1_000_000, 48),
        ) {
            let fill = |offset: usize| {
                let mut filled = String::new();
                for (at, piece) in pieces.iter().enumerate() {
                    match *piece {
                        "#" => filled += &numbers[at + offset].to_string(),
                        "@" => filled += &format!("'{}; select'", numbers[at + offset]),
                        piece => filled += piece,
                    }
                }
                filled
            };
            let (one, other) = (fill(0), fill(24));
            if let (Some(a), Some(b)) = (of(&one), of(&other)) && a == b {
                prop_assert_eq!(Statement::read(&one), Statement::read(&other), "{} and {}", one, other);
            }
        }
    }
}
