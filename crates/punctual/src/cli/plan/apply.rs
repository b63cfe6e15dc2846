//! `punctual plan apply`: has a running gateway follow a plan, and says whether it does.
//!
//! The file is read here first, so that what is no plan is said without asking anybody. The gateway judges the rest: the policy that it was
//! made for, its day, sizes and times.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::super::{FAILED, Format, Stop};
use crate::plan::file;
use crate::print;

/// How long the gateway may take to connect, and to answer.
const WITHIN: Duration = Duration::from_secs(15);

/// The longest answer that is read, in bytes.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(in crate::cli) struct Flags {
    /// The plan, as punctual plan writes it
    file: PathBuf,
    /// Where the gateway serves HTTP: http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    url: String,
    /// A file with the token of an administrator, where the gateway asks for one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    let host = host(&flags.url).map_err(Stop::usage)?;
    let bytes = file::bytes(&flags.file).map_err(Stop::failed)?;
    let plan = file::parse(&bytes).map_err(|error| Stop::failed(format_args!("{}: {error}", flags.file.display())))?;
    let token = flags.token_file.as_deref().map(token).transpose()?;
    let (status, answer) = post(host, token.as_deref(), &bytes)
        .map_err(|cause| Stop::failed(format_args!("{}: {cause}; is a gateway running there?", flags.url)))?;
    let because = answer["error"].as_str().unwrap_or("it does not say why");
    match (status, flags.format) {
        (200, Format::Text) => print::line(format!("Plan {} is followed.", plan.id))?,
        (_, Format::Json) => print::json(&answer)?,
        (_, Format::Text) => {
            return Err(Stop::failed(format_args!("plan {} is not followed ({status}): {because}", plan.id)));
        }
    }
    Ok(if status == 200 { 0 } else { FAILED })
}

/// Host and port of a URL.
fn host(url: &str) -> Result<&str, String> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let host = rest.strip_suffix('/').unwrap_or(rest);
    let plain = !host.is_empty() && host.bytes().all(|c| c.is_ascii_alphanumeric() || b".:-_[]".contains(&c));
    if plain && host.contains(':') {
        return Ok(host);
    }
    Err(format!("--url {url}: this is not http:// with a host and a port, as in http://127.0.0.1:8080"))
}

fn token(path: &Path) -> Result<String, Stop> {
    let text = std::fs::read_to_string(path).map_err(|e| Stop::failed(format_args!("{}: {e}", path.display())))?;
    let token = text.trim();
    if token.is_empty() || token.bytes().any(|c| c.is_ascii_control() || c == b' ') {
        return Err(Stop::failed(format_args!("{}: a token is one word on one line", path.display())));
    }
    Ok(token.to_owned())
}

/// Status and body of what is answered.
fn post(host: &str, token: Option<&str>, body: &[u8]) -> io::Result<(u16, Value)> {
    let mut stream = connected(host)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /v1/plan HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{token}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    let Some(status) = status else { return Err(io::Error::other("what answers there is no gateway")) };
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, serde_json::from_str(body).unwrap_or_default()))
}

fn connected(host: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the host has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(cause) => last = cause,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port_and_nothing_else() {
        assert_eq!(host("http://127.0.0.1:8080/"), Ok("127.0.0.1:8080"));
        assert_eq!(host("[::1]:80"), Ok("[::1]:80"));
        for wrong in ["https://a:1", "http://a", "http://a:1/v1", "http://a:1\r\nX: y", ""] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }
}
