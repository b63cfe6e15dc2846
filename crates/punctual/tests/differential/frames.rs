//! The runner that is no driver: it sends frames, and prints those that come back, byte by byte.
//!
//! Whatever no driver can be brought to do is done here: portals that are left open, Flush in place of Sync, COPY by the
//! extended protocol and given up, pipelines with a mistake in their middle.

use std::fmt::Write as _;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::cases::{Case, Parameter, Step};
use super::world::{Place, USER};

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As a simple query, if it has no parameters.
    Simple,
    /// By the unnamed statement, results in text.
    Text,
    /// By the unnamed statement, results in binary.
    Binary,
    /// By a statement with a name that is executed twice.
    Named,
}

/// Carries all cases out in all ways.
pub(crate) fn run(place: &Place) -> String {
    let mut out = String::new();
    let cases = place.cases();
    for way in [Way::Simple, Way::Text, Way::Binary, Way::Named] {
        let mut shared = Wire::connect(place, way);
        for case in cases.iter().filter(|case| case.is_for("frames")) {
            if case.fresh {
                Wire::connect(place, way).case(case, &mut out);
            } else {
                shared.case(case, &mut out);
            }
        }
    }
    out + "\t\t\tend\n"
}

/// A connection, and what came over it since it was asked last.
struct Wire<'a> {
    place: &'a Place,
    way: Way,
    stream: BufReader<TcpStream>,
    /// What a cancel request says.
    key: Vec<u8>,
    /// The transaction's status.
    status: u8,
    seen: Vec<String>,
    /// The tag of the frame that came last.
    last: u8,
    /// True if the last exchange had an error.
    failed: bool,
}

impl<'a> Wire<'a> {
    fn connect(place: &'a Place, way: Way) -> Wire<'a> {
        let stream = TcpStream::connect(("127.0.0.1", place.port)).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let stream = BufReader::with_capacity(64 << 10, stream);
        let mut wire =
            Wire { place, way, stream, key: Vec::new(), status: 0, seen: Vec::new(), last: 0, failed: false };
        let mut body = (3u32 << 16).to_be_bytes().to_vec();
        for text in ["user", USER, "database", &place.database, "application_name", "frames", ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        let length = body.len() as u32 + 4;
        wire.send(&[&length.to_be_bytes()[..], &body].concat());
        wire.until(b"Z");
        wire
    }

    fn case(&mut self, case: &Case, out: &mut String) {
        // A session of its own tells first how it was welcomed.
        if !case.fresh {
            self.seen.clear();
        }
        for (number, step) in case.steps.iter().enumerate() {
            self.failed = false;
            self.step(step);
            for line in self.seen.drain(..) {
                writeln!(out, "{:?}\t{}\t{}\t{line}", self.way, case.name, number + 1).expect("a text grows");
            }
        }
        if self.status != b'I' {
            self.query("rollback");
        }
        self.seen.clear();
    }

    fn step(&mut self, step: &Step) {
        let (name, sql) = step.name_and_sql();
        match step.verb.as_str() {
            "run" => self.statement(&step.sql, &step.parameters()),
            "simple" => self.query(&step.sql),
            "prepare" => {
                self.send(&[parse(name, sql), describe(b'S', name), sync()].concat());
                self.until(b"Z");
            }
            "execute" => self.execute(&step.sql, &step.parameters()),
            "close" => {
                self.send(&[close(b'S', &step.sql), sync()].concat());
                self.until(b"Z");
            }
            "fetch" => self.fetch(name.parse().expect("a number"), sql, &step.parameters()),
            "pipeline" => self.pipeline(&step.sql),
            "copyin" => self.copy_in(&step.sql, &step.data(), &frame(b'c', b"")),
            "copyfail" => self.copy_in(&step.sql, &step.data(), &frame(b'f', b"enough of it\0")),
            "copyout" => self.statement(&step.sql, &[]),
            "cancel" => self.cancel(&step.sql),
            verb => panic!("no such verb: {verb}"),
        }
    }

    fn statement(&mut self, sql: &str, parameters: &[Parameter]) {
        match self.way {
            Way::Simple if parameters.is_empty() => self.query(sql),
            Way::Named => {
                self.send(&[parse("named", sql), describe(b'S', "named"), sync()].concat());
                self.until(b"Z");
                if !self.failed {
                    self.execute("named", parameters);
                    if sql.starts_with("select") {
                        self.execute("named", parameters);
                    }
                    self.send(&[close(b'S', "named"), sync()].concat());
                    self.until(b"Z");
                }
            }
            _ => {
                let bound = bind("", "", parameters, self.way == Way::Binary);
                let frames = [parse("", sql), describe(b'S', ""), bound, describe(b'P', ""), execute("", 0), sync()];
                self.send(&frames.concat());
                self.until(b"Z");
            }
        }
    }

    fn query(&mut self, sql: &str) {
        self.send(&frame(b'Q', format!("{sql}\0").as_bytes()));
        self.until(b"Z");
    }

    fn execute(&mut self, name: &str, parameters: &[Parameter]) {
        let bound = bind("", name, parameters, self.way == Way::Binary);
        self.send(&[bound, describe(b'P', ""), execute("", 0), sync()].concat());
        self.until(b"Z");
    }

    /// Portions of a portal, asked for with Flush and with Sync by turns.
    fn fetch(&mut self, count: u32, sql: &str, parameters: &[Parameter]) {
        self.query("begin");
        let bound = bind("portal", "", parameters, self.way == Way::Binary);
        let mut ask = [parse("", sql), bound, describe(b'P', "portal")].concat();
        for turn in 0.. {
            ask.extend(execute("portal", count));
            ask.extend(if turn % 2 == 0 { flush() } else { sync() });
            self.send(&std::mem::take(&mut ask));
            let ended = if turn % 2 == 0 { self.until(b"sCIEZ") } else { self.until(b"Z") };
            let portion =
                if ended == b'Z' { self.seen.iter().rev().nth(1).cloned() } else { self.seen.last().cloned() };
            if !portion.is_some_and(|line| line.starts_with("s ")) {
                if ended != b'Z' {
                    self.send(&sync());
                    self.until(b"Z");
                }
                break;
            }
        }
        self.send(&[close(b'P', "portal"), sync()].concat());
        self.until(b"Z");
        self.query("commit");
    }

    fn pipeline(&mut self, statements: &str) {
        let mut frames = Vec::new();
        for (number, sql) in statements.split(" ;; ").enumerate() {
            let name = if self.way == Way::Named { format!("pipe{number}") } else { String::new() };
            frames.extend(parse(&name, sql));
            frames.extend(bind("", &name, &[], self.way == Way::Binary));
            frames.extend([describe(b'P', ""), execute("", 0)].concat());
            if !name.is_empty() {
                frames.extend(close(b'S', &name));
            }
        }
        frames.extend(sync());
        self.send(&frames);
        self.until(b"Z");
        // What came after a mistake was never closed.
        for number in 0..if self.failed && self.way == Way::Named { 9 } else { 0 } {
            self.send(&[close(b'S', &format!("pipe{number}")), sync()].concat());
            self.until(b"Z");
        }
    }

    fn copy_in(&mut self, sql: &str, data: &str, end: &[u8]) {
        let extended = self.way != Way::Simple;
        if extended {
            self.send(&[parse("", sql), bind("", "", &[], false), execute("", 0), flush()].concat());
        } else {
            self.send(&frame(b'Q', format!("{sql}\0").as_bytes()));
        }
        if self.until(b"GEZ") == b'G' {
            self.send(&[frame(b'd', data.as_bytes()), end.to_vec()].concat());
        }
        if extended {
            self.send(&sync());
        }
        if self.last != b'Z' {
            self.until(b"Z");
        }
    }

    /// Runs a query in the background, and cancels it once it sleeps.
    fn cancel(&mut self, sql: &str) {
        self.send(&frame(b'Q', format!("{sql}\0").as_bytes()));
        let mut watcher = Wire::connect(self.place, Way::Simple);
        while !watcher.seen.iter().any(|line| line.starts_with("D ") && line.ends_with('1')) {
            watcher.seen.clear();
            watcher.query(super::world::SLEEPING);
        }
        let mut request = TcpStream::connect(("127.0.0.1", self.place.port)).expect("it listens");
        let body = [&80_877_102u32.to_be_bytes()[..], &self.key].concat();
        request.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).expect("it is sent");
        let _ = request.read_to_end(&mut Vec::new());
        self.until(b"Z");
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("it reads");
    }

    /// Takes frames up to one of those tags, and gives its tag.
    fn until(&mut self, tags: &[u8]) -> u8 {
        loop {
            let mut header = [0; 5];
            self.stream.read_exact(&mut header).expect("an answer");
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.stream.read_exact(&mut body).expect("frames are whole");
            self.last = header[0];
            match self.last {
                b'K' => self.key = body.clone(),
                b'Z' => self.status = body[0],
                b'E' => self.failed = true,
                b'T' => hide_new_tables(&mut body, self.place.new_oids),
                // Which process notifies is no business of anyone's.
                b'A' => body[..4].fill(0),
                _ => {}
            }
            if self.last != b'K' {
                self.seen.push(format!("{} {}", self.last as char, body.escape_ascii()));
            }
            if tags.contains(&self.last) {
                return self.last;
            }
        }
    }
}

/// Tables that a case made are numbered as they come: in a RowDescription they have all one number.
fn hide_new_tables(body: &mut [u8], new: u32) {
    let mut at = 2;
    while let Some(end) = body[at..].iter().position(|byte| *byte == 0) {
        let table = at + end + 1;
        let id = u32::from_be_bytes([body[table], body[table + 1], body[table + 2], body[table + 3]]);
        if id >= new {
            body[table..table + 4].fill(0xff);
        }
        at = table + 18;
        if at >= body.len() {
            break;
        }
    }
}

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    frame(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Parameters go in text; what comes back is all in text or all in binary.
fn bind(portal: &str, name: &str, parameters: &[Parameter], binary: bool) -> Vec<u8> {
    let mut body = format!("{portal}\0{name}\0\0\0").into_bytes();
    body.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        match &parameter.text {
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(text) => {
                body.extend_from_slice(&(text.len() as u32).to_be_bytes());
                body.extend_from_slice(text.as_bytes());
            }
        }
    }
    body.extend_from_slice(if binary { &[0, 1, 0, 1] } else { &[0, 0] });
    frame(b'B', &body)
}

fn describe(what: u8, name: &str) -> Vec<u8> {
    frame(b'D', format!("{}{name}\0", what as char).as_bytes())
}

fn close(what: u8, name: &str) -> Vec<u8> {
    frame(b'C', format!("{}{name}\0", what as char).as_bytes())
}

fn execute(portal: &str, limit: u32) -> Vec<u8> {
    frame(b'E', &[format!("{portal}\0").as_bytes(), &limit.to_be_bytes()].concat())
}

fn flush() -> Vec<u8> {
    frame(b'H', b"")
}

fn sync() -> Vec<u8> {
    frame(b'S', b"")
}
