//! A cluster that answers at once, whatever it is asked, and holds what it is sent to the protocol.
//!
//! It knows no SQL. What a text is answered with hangs on words in it: `copy` asks for data or gives some, `error`, `selec ` and
//! whatever begins with `punctual` fail, `begin`, `commit` and `rollback` do what they say, all else is a row.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use punctual::door::messages::{self, Bind, Malformed, Parse};
use punctual::door::unit::body;
use punctual::relay::frames::{self, HEADER, Header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// What may be seen from outside.
#[derive(Debug, Default)]
pub struct Seen {
    /// Messages that it has had: a count that stands still once nothing comes any more.
    pub messages: AtomicU64,
    /// What it was sent that no client may send.
    pub wrong: Mutex<Option<String>>,
}

/// Listens there until the runtime ends.
pub fn listen(at: &Path, seen: Arc<Seen>) {
    let listener = UnixListener::bind(at).expect("a socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut connection = Connection::new(stream, Arc::clone(&seen));
            tokio::spawn(async move {
                let _ = connection.serve().await;
            });
        }
    });
}

struct Connection {
    stream: UnixStream,
    seen: Arc<Seen>,
    input: Vec<u8>,
    out: Vec<u8>,
    statements: HashMap<String, String>,
    portals: HashMap<String, String>,
    status: u8,
    /// True from an error to the next Sync.
    skips: bool,
    /// True while it copies in; the other is whether that is a simple query's.
    copies: Option<bool>,
}

impl Connection {
    fn new(stream: UnixStream, seen: Arc<Seen>) -> Connection {
        Connection {
            stream,
            seen,
            input: Vec::new(),
            out: Vec::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            status: b'I',
            skips: false,
            copies: None,
        }
    }

    /// Answers until the other end has gone; None then.
    async fn serve(&mut self) -> Option<()> {
        while self.input.len() < 8 {
            self.read().await?;
        }
        let [a, b, c, d, code @ ..]: [u8; 8] = self.input[..8].try_into().unwrap_or_default();
        if u32::from_be_bytes(code) != 3 << 16 {
            return None;
        }
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        while self.input.len() < length {
            self.read().await?;
        }
        self.input.drain(..length);
        self.frame(b'R', &[0; 4]);
        self.frame(b'S', b"server_version\x0015.9\0");
        self.frame(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]);
        self.frame(b'Z', b"I");
        loop {
            self.write().await?;
            self.read().await?;
            while let Some(Header { tag, len }) = frames::header(&self.input).ok()?
                && self.input.len() >= len
            {
                let frame: Vec<u8> = self.input.drain(..len).collect();
                self.seen.messages.fetch_add(1, Ordering::Relaxed);
                if let Err(wrong) = self.take(tag, &frame) {
                    let what = format!("{wrong}: {}", frame.escape_ascii());
                    self.seen.wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(what);
                    return None;
                }
            }
        }
    }

    async fn read(&mut self) -> Option<()> {
        (self.stream.read_buf(&mut self.input).await.ok()? > 0).then_some(())
    }

    async fn write(&mut self) -> Option<()> {
        self.stream.write_all(&self.out).await.ok()?;
        self.out.clear();
        Some(())
    }

    fn frame(&mut self, tag: u8, body: &[u8]) {
        frames::frame(&mut self.out, tag, |out| out.extend_from_slice(body));
    }

    /// Takes one message; Err if none like it may come.
    fn take(&mut self, tag: u8, frame: &[u8]) -> Result<(), String> {
        if let Some(simple) = self.copies {
            return self.copied(tag, simple);
        }
        match tag {
            b'Q' => {
                let text = messages::query(frame).map_err(|error| error.to_string())?;
                self.skips = false;
                let text = String::from_utf8_lossy(text).to_ascii_lowercase();
                if self.run(&text, true) {
                    self.ready();
                }
            }
            b'S' => {
                messages::bare(frame).map_err(|error| error.to_string())?;
                self.skips = false;
                self.ready();
            }
            b'P' | b'B' | b'D' | b'E' | b'C' => match self.extended(tag, frame) {
                // In another encoding than UTF-8, anything may be said.
                Ok(()) | Err(Malformed::NotUtf8(_)) => {}
                Err(malformed) => return Err(malformed.to_string()),
            },
            b'H' => messages::bare(frame).map_err(|error| error.to_string())?,
            b'X' | b'd' | b'c' | b'f' => {}
            tag => return Err(format!("a cluster was sent a {:?}", tag as char)),
        }
        Ok(())
    }

    /// Part of a pipeline.
    fn extended(&mut self, tag: u8, frame: &[u8]) -> Result<(), Malformed> {
        match tag {
            b'P' => {
                let Parse { name, sql, .. } = Parse::read(frame)?;
                if self.fails(sql) {
                    return Ok(());
                }
                self.statements.insert(name.to_owned(), sql.to_ascii_lowercase());
                self.reply(b'1', b"");
            }
            b'B' => {
                let Bind { portal, statement, .. } = Bind::read(frame)?;
                match self.statements.get(statement).cloned() {
                    Some(text) => {
                        self.portals.insert(portal.to_owned(), text);
                        self.reply(b'2', b"");
                    }
                    None => self.fail(),
                }
            }
            b'D' => {
                let (what, name) = messages::target(tag, frame)?;
                let known =
                    if what == b'S' { self.statements.contains_key(name) } else { self.portals.contains_key(name) };
                match known {
                    true => {
                        if what == b'S' {
                            self.reply(b't', &[0, 0]);
                        }
                        self.reply(b'n', b"");
                    }
                    false => self.fail(),
                }
            }
            b'E' => {
                let (portal, limit) = messages::execute(frame)?;
                match self.portals.get(portal).cloned() {
                    _ if self.skips => {}
                    Some(_) if limit == 1 => self.reply(b's', b""),
                    Some(text) => drop(self.run(&text, false)),
                    None => self.fail(),
                }
            }
            _ => {
                let (what, name) = messages::target(tag, frame)?;
                let names = if what == b'S' { &mut self.statements } else { &mut self.portals };
                names.remove(name);
                self.reply(b'3', b"");
            }
        }
        Ok(())
    }

    /// Runs a text; true if it is over then.
    fn run(&mut self, text: &str, simple: bool) -> bool {
        if self.fails(text) {
            return true;
        }
        let word = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        match word {
            "begin" => self.status = b'T',
            "commit" | "rollback" | "end" | "abort" => self.status = b'I',
            "copy" if text.contains("from") => {
                self.frame(b'G', &[0, 0, 0]);
                self.copies = Some(simple);
                return false;
            }
            "copy" => {
                self.frame(b'H', &[0, 0, 0]);
                self.frame(b'd', b"1\n");
                self.frame(b'c', b"");
            }
            "" => {
                self.frame(b'I', b"");
                return true;
            }
            _ => {
                if simple {
                    self.frame(b'T', b"\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0");
                }
                self.frame(b'D', b"\0\x01\0\0\0\x017");
            }
        }
        self.frame(b'C', b"SELECT 1\0");
        true
    }

    /// What comes while it copies in.
    fn copied(&mut self, tag: u8, simple: bool) -> Result<(), String> {
        match tag {
            b'd' | b'H' | b'S' => return Ok(()),
            b'c' => self.frame(b'C', b"COPY 0\0"),
            b'f' => self.fail(),
            tag => return Err(format!("a cluster was sent a {:?} while it copied", tag as char)),
        }
        self.copies = None;
        if simple {
            self.skips = false;
            self.ready();
        }
        Ok(())
    }

    fn fails(&mut self, text: &str) -> bool {
        let fails = text.contains("error") || text.contains("selec ") || text.starts_with("punctual");
        if fails {
            self.fail();
        }
        fails
    }

    fn fail(&mut self) {
        if !self.skips {
            self.frame(b'E', b"SERROR\0VERROR\0C42601\0Mas it wants\0\0");
        }
        self.skips = true;
        if self.status == b'T' {
            self.status = b'E';
        }
    }

    fn reply(&mut self, tag: u8, body: &[u8]) {
        if !self.skips {
            self.frame(tag, body);
        }
    }

    fn ready(&mut self) {
        let status = [self.status];
        self.frame(b'Z', &status);
    }
}

/// The bodies of the frames of that kind among these.
pub fn bodies(heard: &[u8], wanted: u8) -> Vec<Vec<u8>> {
    let frames = punctual::door::unit::frames_of(heard);
    frames
        .filter(|(tag, frame)| *tag == wanted && frame.len() >= HEADER)
        .map(|(_, frame)| body(frame).to_vec())
        .collect()
}
