//! Keeps generated parts of documents equal to the code that they describe.
//!
//! A document marks such a part with `<!-- generated: NAME -->` and `<!-- end: NAME -->`. With `UPDATE_EXPECT` set, as
//! for snapshots, the part is written anew instead of compared.

use std::fs;
use std::path::Path;

/// Panics unless the part `name` of `docs/file` equals `expected`.
pub(crate) fn assert_generated(file: &str, name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let text = fs::read_to_string(&path).expect("the document is there");
    let (open, close) = (format!("<!-- generated: {name} -->\n"), format!("<!-- end: {name} -->"));
    let start = text.find(&open).expect("the part is marked") + open.len();
    let end = start + text[start..].find(&close).expect("the part's end is marked");
    let expected = format!("\n{}\n\n", expected.trim());
    if std::env::var_os("UPDATE_EXPECT").is_some() && text[start..end] != expected {
        let renewed = format!("{}{expected}{}", &text[..start], &text[end..]);
        fs::write(&path, renewed).expect("the document can be written");
        return;
    }
    assert_eq!(&text[start..end], expected, "docs/{file} is out of date: run the test with UPDATE_EXPECT=1");
}
