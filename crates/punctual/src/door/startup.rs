//! How a client's connection begins: what it asks for before and in its start-up message.

use punctual_core::class::Classes;

use super::client::Client;
use super::frames as say;
use super::local::{self, Wished};
use super::problem::Problem;
use crate::relay::frames::split_text;
use crate::relay::{CANCEL_REQUEST, PROTOCOL};
use crate::tls::serving::DoorTls;

/// What stands in a version's place when a client asks for TLS.
const SSL_REQUEST: u32 = 80_877_103;
/// What stands in a version's place when a client asks for GSSAPI encryption.
const GSS_REQUEST: u32 = 80_877_104;
/// The longest start-up message, as in Postgres.
const LONGEST: usize = 10_000;

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// A session.
    Session(Hello),
    /// Another session's query to be cancelled.
    Cancel {
        /// That session's process number.
        process: u32,
        /// And its secret.
        secret: u32,
    },
    /// Encryption, and then to say what else. It has been told to go ahead.
    Encryption,
    /// Nothing: it has hung up.
    Nothing,
}

/// A start-up message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// The application's name, possibly empty.
    pub application: String,
    /// What it asks of the gateway, as it came: name without `punctual.`, and value.
    pub asked: Vec<(String, String)>,
    /// What it wishes of the gateway, once that has been [heeded](Hello::heed).
    pub wished: Wished,
    /// Variables that it sets.
    pub variables: Vec<(String, String)>,
    /// What it asks for of the protocol that is not spoken here; None if it asks for nothing beyond 3.0.
    pub beyond: Option<Vec<String>>,
}

/// Waits for what a client wants, and declines on the way what encryption it cannot have.
///
/// # Errors
/// What the client is to be told before it is hung up on.
pub(super) async fn open(client: &mut Client, tls: &DoorTls) -> Result<Opening, Problem> {
    // Each kind of encryption may be asked for once.
    for _ in 0..3 {
        let Some(packet) = packet(client).await? else { return Ok(Opening::Nothing) };
        let Some((code, body)) = packet.split_first_chunk::<4>() else { return Err(not_postgres()) };
        match u32::from_be_bytes(*code) {
            SSL_REQUEST | GSS_REQUEST if client.is_encrypted() => return Err(not_postgres()),
            SSL_REQUEST if tls.identity().is_some() => return encrypt(client).await,
            SSL_REQUEST | GSS_REQUEST => {
                client.out.push(b'N');
                if client.flush().await.is_err() {
                    return Ok(Opening::Nothing);
                }
            }
            CANCEL_REQUEST => {
                let [a, b, c, d, w, x, y, z] = *body else { return Err(not_postgres()) };
                let (process, secret) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([w, x, y, z]));
                return Ok(Opening::Cancel { process, secret });
            }
            version if version >> 16 == PROTOCOL >> 16 => {
                // A cancel request may come as it is: what it says is of use once, and many clients know no other way.
                if matches!(tls, DoorTls::Required(_)) && !client.is_encrypted() {
                    let problem = Problem::new(b"28000", "connections to this gateway have to be encrypted");
                    return Err(problem.hint("Connect with sslmode=require, or better, verify-full."));
                }
                return Hello::read(version & 0xffff, body).map(Opening::Session);
            }
            version => {
                let (major, minor) = (version >> 16, version & 0xffff);
                let message = format!("unsupported frontend protocol {major}.{minor}: this server supports 3.0");
                return Err(Problem::new(b"0A000", message));
            }
        }
    }
    Err(not_postgres())
}

/// Tells a client to go ahead with the handshake.
async fn encrypt(client: &mut Client) -> Result<Opening, Problem> {
    if !client.input.is_empty() {
        // Whoever sits in between would have it taken for what the client says encrypted (CVE-2021-23214).
        let problem = Problem::new(b"08P01", "received unencrypted data after SSL request");
        return Err(problem.detail(
            "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.",
        ));
    }
    client.out.push(b'S');
    Ok(if client.flush().await.is_ok() { Opening::Encryption } else { Opening::Nothing })
}

fn not_postgres() -> Problem {
    Problem::new(b"08P01", "invalid startup packet: this is not the Postgres protocol")
}

/// The next packet without its length; None if the client has hung up.
async fn packet(client: &mut Client) -> Result<Option<Vec<u8>>, Problem> {
    loop {
        if let Some(length) = client.input.filled().first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if !(8..=LONGEST).contains(&length) {
                return Err(not_postgres());
            }
            if client.input.len() >= length {
                return Ok(Some(client.input.take(length).split_off(4)));
            }
        }
        match client.socket.fill(&mut client.input).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

impl Hello {
    /// Reads the body of a start-up message.
    ///
    /// # Errors
    /// What the client is to be told.
    pub fn read(minor: u32, body: &[u8]) -> Result<Hello, Problem> {
        let mut hello = Hello::default();
        let (mut rest, mut unknown) = (body, Vec::new());
        loop {
            let name = split_text(&mut rest).ok_or_else(not_postgres)?;
            if name.is_empty() {
                break;
            }
            let value = split_text(&mut rest).ok_or_else(not_postgres)?;
            match name {
                "user" => hello.user = value.to_owned(),
                "database" => hello.database = value.to_owned(),
                "replication" if !is_false(value) => {
                    return Err(Problem::new(b"0A000", "replication does not pass through the gateway")
                        .hint("Connect to the cluster itself."));
                }
                "replication" => {}
                "options" => options(value).into_iter().try_for_each(|(name, value)| hello.set(&name, value))?,
                name if name.starts_with("_pq_.") => unknown.push(name.to_owned()),
                name => hello.set(name, value.to_owned())?,
            }
        }
        if hello.user.is_empty() {
            return Err(Problem::new(b"28000", "no PostgreSQL user name specified in startup packet"));
        }
        if hello.database.is_empty() {
            hello.database.clone_from(&hello.user);
        }
        hello.beyond = (minor > 0 || !unknown.is_empty()).then_some(unknown);
        Ok(hello)
    }

    /// Takes its wishes for what they mean: not before it is known who asks, since the answer tells of classes.
    ///
    /// # Errors
    /// What the client is to be told.
    pub fn heed(&mut self, classes: &Classes) -> Result<(), Problem> {
        for (name, value) in std::mem::take(&mut self.asked) {
            self.wished.take(local::wish(&name, Some(&value), classes)?, &Wished::default());
        }
        local::permit_class(self.wished.class.as_deref(), classes, &self.user)
    }

    /// Takes a variable that the message sets.
    fn set(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let lower = name.to_ascii_lowercase();
        if let Some(own) = lower.strip_prefix("punctual.") {
            self.asked.push((own.to_owned(), value));
            return Ok(());
        }
        if lower == "application_name" {
            self.application.clone_from(&value);
        }
        if lower == "client_encoding" && is_utf8(&value) {
            // Connections to clusters have it anyway.
            return Ok(());
        }
        if matches!(lower.as_str(), "role" | "session_authorization") {
            // What is set at the start is set again on other connections, and nothing sets these back.
            let problem = Problem::new(b"0A000", format!("\"{lower}\" cannot be set at the start of a session here"));
            return Err(problem.hint("Connect first and then SET it, which keeps the connection for the session."));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        if !lower.chars().all(is_name) {
            return Err(Problem::new(b"42602", format!("invalid parameter name \"{name}\"")));
        }
        self.variables.retain(|(known, _)| *known != lower);
        self.variables.push((lower, value));
        Ok(())
    }

    /// Tells the client what is not spoken here, if it asked for any of that.
    pub fn negotiate(&self, out: &mut Vec<u8>) {
        if let Some(unknown) = &self.beyond {
            say::negotiate(out, unknown);
        }
    }
}

fn is_utf8(value: &str) -> bool {
    let bare: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    bare.eq_ignore_ascii_case("utf8") || bare.eq_ignore_ascii_case("unicode")
}

fn is_false(value: &str) -> bool {
    ["false", "off", "no", "0"].iter().any(|no| value.eq_ignore_ascii_case(no))
}

/// The settings in the options of a start-up message: `-c name=value`, `-cname=value`, `--name=value`; white space
/// separates, a backslash keeps the character behind it. What is not a setting is left out.
fn options(text: &str) -> Vec<(String, String)> {
    let mut arguments = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, arguments.last_mut()) {
            ('\\', Some(last)) => last.extend(chars.next()),
            (c, Some(last)) if c.is_whitespace() => {
                if !last.is_empty() {
                    arguments.push(String::new());
                }
            }
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    let mut settings = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let setting = match argument.strip_prefix("-c").or_else(|| argument.strip_prefix("--")) {
            Some("") if argument == "-c" => arguments.next().unwrap_or_default(),
            Some(setting) => setting.to_owned(),
            None => continue,
        };
        if let Some((name, value)) = setting.split_once('=') {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use punctual_core::admit::terms::Terms;
    use punctual_core::class::Class;
    use punctual_core::time::Span;

    use super::*;

    fn classes() -> Classes {
        let mut list = Class::built_in();
        let terms = Terms { chosen_by: vec!["ann".into()], ..Terms::default() };
        list.push(Class { name: "board".into(), terms, ..Class::default() });
        Classes::new(list)
    }

    fn read(text: &str) -> Result<Hello, Problem> {
        let body = format!("{}\0", text.replace('|', "\0"));
        let mut hello = Hello::read(0, body.as_bytes())?;
        hello.heed(&classes())?;
        Ok(hello)
    }

    #[test]
    fn a_start_up_message_says_who_and_how() {
        let hello = read("user|ann|application_name|psql|punctual.class|default|TimeZone|UTC|client_encoding|utf-8|");
        let hello = hello.expect("it is well formed");
        assert_eq!((hello.user.as_str(), hello.database.as_str()), ("ann", "ann"));
        assert_eq!((hello.application.as_str(), hello.wished.class.as_deref()), ("psql", Some("default")));
        let variables = [("application_name", "psql"), ("timezone", "UTC")];
        assert_eq!(hello.variables, variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(hello.beyond, None);
    }

    #[test]
    fn options_are_cut_as_postgres_cuts_them() {
        let pairs = [("a", "1 2"), ("punctual.slo", "2s"), ("work_mem", "1MB")];
        assert_eq!(
            options("-c a=1\\ 2  -cpunctual.slo=2s --work-mem=1MB -d 3"),
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(read("user|ann|options|-c punctual.slo=2s|").unwrap().wished.slo, Some(Span::from_secs(2)));
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_its_code() {
        let code = |text: &str| read(text).unwrap_err().sqlstate.code().to_owned();
        assert_eq!(code("database|x|"), "28000");
        assert_eq!(code("user|a|replication|database|"), "0A000");
        assert_eq!(code("user|a|options|-c role=postgres|"), "0A000");
        assert_eq!(code("user|a|Session_Authorization|postgres|"), "0A000");
        assert_eq!(code("user|a|punctual.class|nope|"), "22023");
        assert_eq!(code("user|a|punctual.priority|high|"), "22023");
        assert_eq!(code("punctual.class|board|user|bob|"), "42501");
        assert_eq!(code("user|ann|punctual.class|control|"), "42501");
        let hello = read("punctual.class|Board|user|ann|punctual.priority|-2|").unwrap();
        assert_eq!((hello.wished.class.as_deref(), hello.wished.priority), (Some("board"), Some(-2)));
        assert_eq!(code("user|a|options|-c punctual.slo=soon|"), "22023");
        assert_eq!(code("user|a|database"), "08P01");
    }

    #[test]
    fn later_protocols_are_negotiated_down() {
        let body = b"user\0a\0_pq_.x\0on\0\0";
        let hello = Hello::read(2, body).unwrap();
        assert_eq!(hello.beyond, Some(vec!["_pq_.x".to_owned()]));
        let mut out = Vec::new();
        hello.negotiate(&mut out);
        assert_eq!(out, b"v\0\0\0\x13\0\0\0\0\0\0\0\x01_pq_.x\0");
    }
}
