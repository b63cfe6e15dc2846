//! A client that speaks in frames.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that sends and receives whole frames.
pub struct Raw {
    pub stream: TcpStream,
}

/// A frame of that tag and body.
pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
    out
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    frame(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// A Bind of a statement to the unnamed portal, with parameters as text.
pub fn bind(name: &str, parameters: &[&str]) -> Vec<u8> {
    let mut body = format!("\0{name}\0\0\0").into_bytes();
    body.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        body.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
        body.extend_from_slice(parameter.as_bytes());
    }
    body.extend_from_slice(&[0, 0]);
    frame(b'B', &body)
}

pub fn describe(what: u8, name: &str) -> Vec<u8> {
    frame(b'D', format!("{}{name}\0", what as char).as_bytes())
}

pub fn close(what: u8, name: &str) -> Vec<u8> {
    frame(b'C', format!("{}{name}\0", what as char).as_bytes())
}

pub fn execute(limit: u32) -> Vec<u8> {
    frame(b'E', &[&[0], &limit.to_be_bytes()[..]].concat())
}

pub fn query(sql: &str) -> Vec<u8> {
    frame(b'Q', format!("{sql}\0").as_bytes())
}

pub fn sync() -> Vec<u8> {
    frame(b'S', b"")
}

pub fn flush() -> Vec<u8> {
    frame(b'H', b"")
}

/// A start-up message of version 3.`minor`.
pub fn start_up(minor: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = ((3u32 << 16) | minor).to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
    }
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw { stream: TcpStream::connect(address).await.expect("the gateway listens") }
    }

    /// Connects and is welcomed.
    pub async fn session(address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address).await;
        raw.send(&start_up(0, &[("user", "ann"), ("database", "postgres")])).await;
        raw.until_ready().await;
        raw
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the gateway reads");
    }

    /// The next frame's tag and body; None at the end.
    pub async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header).await.ok()?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).await.expect("frames are whole");
        Some((header[0], body))
    }

    /// Frames up to ReadyForQuery or the end, told shortly: tags, values of rows, codes of errors, the status.
    pub async fn until_ready(&mut self) -> String {
        self.until(b'Z').await
    }

    /// Frames up to one of that tag or the end.
    pub async fn until(&mut self, last: u8) -> String {
        let mut told = Vec::new();
        loop {
            let Some((tag, body)) = self.frame().await else {
                told.push("end".to_owned());
                break;
            };
            told.push(tell(tag, &body));
            if tag == last {
                break;
            }
        }
        told.join(" ")
    }
}

fn tell(tag: u8, body: &[u8]) -> String {
    match tag {
        b'D' => format!("D({})", values(body).join(",")),
        b'E' | b'N' => {
            let code = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"C")).unwrap_or_default();
            format!("{}({})", tag as char, String::from_utf8_lossy(code))
        }
        b'Z' => format!("Z{}", body[0] as char),
        b'C' => format!("C({})", String::from_utf8_lossy(&body[..body.len() - 1])),
        tag => (tag as char).to_string(),
    }
}

fn values(body: &[u8]) -> Vec<String> {
    let (mut rest, mut values) = (&body[2..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            values.push("null".to_owned());
            rest = after;
        } else {
            values.push(String::from_utf8_lossy(&after[..length as usize]).into_owned());
            rest = &after[length as usize..];
        }
    }
    values
}
