//! From a value of the file to a value with a type.
//!
//! Each reading says what it found and what to write instead, in words that stand after the key's name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use punctual_core::admit::lanes::Limit;
use punctual_core::tag::parse_span;
use punctual_core::time::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::near::nearest;
use crate::settings::Address;

/// Why a value was not taken.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong {
    /// What is wrong with it.
    pub(super) found: String,
    /// What to do about it.
    pub(super) fix: String,
}

pub(super) type Read<T> = Result<T, Wrong>;

pub(super) fn wrong<T>(found: impl Into<String>, fix: impl Into<String>) -> Read<T> {
    Err(Wrong { found: found.into(), fix: fix.into() })
}

/// A whole number within bounds.
pub(super) fn count(value: &DeValue<'_>, least: u64, most: u64) -> Read<u64> {
    whole_number(value, least, most)
}

/// A whole number within bounds that may be below zero.
pub(super) fn whole(value: &DeValue<'_>, least: i64, most: i64) -> Read<i64> {
    whole_number(value, least, most)
}

fn whole_number<T>(value: &DeValue<'_>, least: T, most: T) -> Read<T>
where
    T: Copy + fmt::Display + PartialOrd + TryFrom<i128>,
{
    let fix = format!("write a whole number from {least} to {most}");
    let DeValue::Integer(written) = value else { return wrong(is_a(value), fix) };
    let number =
        i128::from_str_radix(written.as_str(), written.radix()).ok().and_then(|number| T::try_from(number).ok());
    match number.filter(|number| (least..=most).contains(number)) {
        Some(number) => Ok(number),
        None => wrong(format!("{written} is out of range"), fix),
    }
}

/// A number of queries, or a share of all that may run at once.
pub(super) fn limit(value: &DeValue<'_>) -> Read<Limit> {
    const FIX: &str = "write a number of queries, or a share such as \"20%\"";
    match value {
        DeValue::Integer(_) => match count(value, 0, 1_000_000) {
            Ok(count) => Ok(Limit::Count(count as u32)),
            Err(Wrong { found, .. }) => wrong(found, FIX),
        },
        DeValue::String(written) => match written.trim().strip_suffix('%').map(|share| share.trim().parse::<f64>()) {
            Some(Ok(share)) if (0.0..=100.0).contains(&share) => Ok(Limit::Percent(share)),
            _ => wrong(format!("{} is no share from 0% to 100%", quoted(written)), FIX),
        },
        other => wrong(is_a(other), FIX),
    }
}

/// A number within bounds.
pub(super) fn number(value: &DeValue<'_>, least: f64, most: f64) -> Read<f64> {
    let fix = format!("write a number from {least} to {most}");
    let number: Option<f64> = match value {
        DeValue::Integer(written) => i128::from_str_radix(written.as_str(), written.radix()).ok().map(|n| n as f64),
        DeValue::Float(written) => written.as_str().parse().ok(),
        other => return wrong(is_a(other), fix),
    };
    match number {
        Some(number) if (least..=most).contains(&number) => Ok(number),
        Some(number) if number.is_nan() => wrong("NaN is not a number", fix),
        Some(number) => wrong(format!("{number} is out of range"), fix),
        None => wrong("it is out of range", fix),
    }
}

/// A duration with its unit, within bounds.
pub(super) fn span(value: &DeValue<'_>, least: Span, most: Span) -> Read<Span> {
    const HOW: &str = "write a number and its unit (us, ms, s, m, h, d), as in \"30s\"";
    let DeValue::String(written) = value else { return wrong(is_a(value), HOW) };
    match parse_span(written) {
        None => wrong(format!("{} is not a duration", quoted(written)), HOW),
        Some(span) if span < least || span > most => {
            wrong(format!("{} is out of range", quoted(written)), format!("write a duration from {least} to {most}"))
        }
        Some(span) => Ok(span),
    }
}

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// A number of bytes with its unit, within bounds.
pub(super) fn bytes(value: &DeValue<'_>, least: u64, most: u64) -> Read<u64> {
    const HOW: &str = "write a number and its unit (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB), as in \"512MiB\"";
    let DeValue::String(written) = value else { return wrong(is_a(value), HOW) };
    match parse_bytes(written) {
        None => wrong(format!("{} is not a size", quoted(written)), HOW),
        Some(size) if !(least..=most).contains(&size) => wrong(
            format!("{} is out of range", quoted(written)),
            format!("write a size from {} to {}", bytes_text(least), bytes_text(most)),
        ),
        Some(size) => Ok(size),
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let (_, each) = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let number: f64 = number.trim().parse().ok()?;
    // `as` saturates; what does not fit is out of every range.
    (number >= 0.0).then_some((number * *each as f64).round() as u64)
}

/// A number of bytes in the largest binary unit that divides it.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let whole = |(_, each): &&(&str, u64)| bytes >= *each && bytes.is_multiple_of(*each);
    SIZE_UNITS
        .iter()
        .filter(|(name, _)| name.contains('i'))
        .find(whole)
        .map_or(format!("{bytes}B"), |(name, each)| format!("{}{name}", bytes / each))
}

/// One of some words.
pub(super) fn choice(value: &DeValue<'_>, words: &'static [&'static str]) -> Read<&'static str> {
    let all = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let DeValue::String(written) = value else { return wrong(is_a(value), format!("write one of {all}")) };
    match words.iter().find(|word| **word == written.as_ref()) {
        Some(word) => Ok(word),
        None => match nearest(written, words.iter().copied()) {
            Some(word) => wrong(format!("{} is not known", quoted(written)), format!("did you mean \"{word}\"?")),
            None => wrong(format!("{} is not known", quoted(written)), format!("write one of {all}")),
        },
    }
}

/// A text that is not empty and holds no NUL.
pub(super) fn text(value: &DeValue<'_>) -> Read<String> {
    match value {
        DeValue::String(written) if written.is_empty() => wrong("it is empty", "write a text, or leave the key out"),
        DeValue::String(written) if written.contains('\0') => wrong("it holds a NUL", "leave that out"),
        DeValue::String(written) => Ok(written.to_string()),
        other => wrong(is_a(other), "write a text in quotes"),
    }
}

/// The longest name.
const MAX_NAME: usize = 63;

/// A name of ours.
pub(super) fn name(value: &DeValue<'_>) -> Read<String> {
    let written = text(value)?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
    if written.len() <= MAX_NAME && written.chars().all(fits) {
        return Ok(written);
    }
    let lower = written.to_ascii_lowercase();
    if lower.len() <= MAX_NAME && lower.chars().all(fits) {
        return wrong(format!("{} has capitals", quoted(&written)), format!("write \"{lower}\""));
    }
    wrong(
        format!("{} is not a name", quoted(&written)),
        format!("write at most {MAX_NAME} of a-z, 0-9, `_`, `-` and `.`"),
    )
}

/// A path as written.
pub(super) fn path(value: &DeValue<'_>) -> Read<PathBuf> {
    text(value).map(PathBuf::from)
}

/// An address to listen at; None: `"off"`.
pub(super) fn listen(value: &DeValue<'_>) -> Read<Option<SocketAddr>> {
    const HOW: &str = "write an address and a port, as in \"127.0.0.1:6432\"";
    let DeValue::String(written) = value else { return wrong(is_a(value), HOW) };
    if written == "off" {
        return Ok(None);
    }
    let local = written.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let address = match local {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        None => match written.parse::<SocketAddr>() {
            Ok(address) => address,
            Err(_) => return wrong(format!("{} is not an address", quoted(written)), HOW),
        },
    };
    Ok(Some(address))
}

/// Where a cluster listens.
pub(super) fn address(value: &DeValue<'_>) -> Read<Address> {
    const HOW: &str = "write \"host:port\" or \"unix:/path/of/socket\"";
    read_address(&text(value)?, HOW)
}

/// The same, of a text.
pub(crate) fn address_of(written: &str) -> Option<Address> {
    read_address(written, "").ok()
}

fn read_address(written: &str, how: &'static str) -> Read<Address> {
    if let Some(path) = written.strip_prefix("unix:") {
        return if path.starts_with('/') {
            Ok(Address::Unix(path.into()))
        } else {
            wrong(format!("{} is not an absolute path", quoted(path)), how)
        };
    }
    if written.contains("://") || written.contains('@') {
        // It may hold a password, so it is not repeated.
        return wrong("it is a URL", format!("{how}, and the rest in `user`, `password_env` and `database`"));
    }
    let parts = written.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = parts.filter(|(host, port)| !host.is_empty() && *port > 0) else {
        return wrong(format!("{} is not an address", quoted(written)), how);
    };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.contains(|c: char| c.is_whitespace() || c == '/') || (bare == host && host.contains(':')) {
        return wrong(format!("{} is not an address", quoted(written)), how);
    }
    Ok(Address::Tcp { host: bare.to_owned(), port })
}

/// A list, each item with its place.
pub(super) fn list<'v, 'i>(value: &'v DeValue<'i>, of: &str) -> Read<&'v [Spanned<DeValue<'i>>]> {
    match value {
        DeValue::Array(items) => Ok(items),
        other => wrong(is_a(other), format!("write a list of {of} in brackets")),
    }
}

/// A table in braces.
pub(super) fn table<'v, 'i>(value: &'v DeValue<'i>) -> Read<&'v DeTable<'i>> {
    match value {
        DeValue::Table(table) => Ok(table),
        other => wrong(is_a(other), "write a table in braces, as in { user = \"looker\" }"),
    }
}

/// `it is a string`.
fn is_a(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(_) => "it is a text",
        DeValue::Integer(_) => "it is a bare number",
        DeValue::Float(_) => "it is a number with a fraction",
        DeValue::Boolean(_) => "it is true or false",
        DeValue::Datetime(_) => "it is a date or a time",
        DeValue::Array(_) => "it is a list",
        DeValue::Table(_) => "it is a table",
    }
    .to_owned()
}

/// In quotes, on one line, cut short if it is long.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_in_binary_and_decimal_units() {
        assert_eq!(parse_bytes("512MiB"), Some(512 << 20));
        assert_eq!(parse_bytes("1.5 kB"), Some(1_500));
        assert_eq!(parse_bytes("3gib"), Some(3 << 30));
        for bad in ["512", "MiB", "-1B", "1 MiB and more", "nan B", ""] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
        assert_eq!(parse_bytes("99999999999999999999TiB"), Some(u64::MAX));
    }

    #[test]
    fn sizes_print_as_they_would_be_written() {
        assert_eq!(bytes_text(512 << 20), "512MiB");
        assert_eq!(bytes_text(1 << 40), "1TiB");
        assert_eq!(bytes_text(1_000), "1000B");
        assert_eq!(bytes_text(0), "0B");
    }

    fn address_text(text: &str) -> Option<String> {
        address(&DeValue::String(text.into())).ok().map(|address| format!("{address:?}"))
    }

    #[test]
    fn addresses_of_clusters_have_a_host_and_a_port_or_a_path() {
        assert_eq!(
            address_text("db.example.com:5432").as_deref(),
            Some(r#"Tcp { host: "db.example.com", port: 5432 }"#)
        );
        assert_eq!(address_text("[::1]:5432").as_deref(), Some(r#"Tcp { host: "::1", port: 5432 }"#));
        assert_eq!(address_text("unix:/run/pg.sock").as_deref(), Some(r#"Unix("/run/pg.sock")"#));
        for bad in ["db", "db:0", "db:65536", ":5432", "unix:pg", "::1:5432", "a b:1", "postgres://u:p@h/d", "u@h:1"] {
            assert_eq!(address_text(bad), None, "{bad}");
        }
    }
}
