//! Starts a cluster as a process of its own and connects to it.
//!
//! The process is this test program again: the ignored test `serve` reads its options from the environment
//! and calls `run`. So the tests need no second program, and what they see is a real process: its standard
//! input, its exit, its signals.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use punctual_engine::{EngineError, Kind, Listen, Options, Secret, Simulated, run};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// How a cluster is started; what a test does not say is small.
pub(crate) struct Start {
    pub(crate) tables: Vec<PathBuf>,
    pub(crate) size: u32,
    pub(crate) memory: u64,
    pub(crate) timeout: Option<Duration>,
    pub(crate) password: Option<&'static str>,
    pub(crate) simulated: bool,
    pub(crate) tcp: Option<&'static str>,
    pub(crate) mode: u32,
}

impl Default for Start {
    fn default() -> Start {
        Start {
            tables: vec![],
            size: 2,
            memory: 256 << 20,
            timeout: None,
            password: None,
            simulated: false,
            tcp: None,
            mode: 0o700,
        }
    }
}

/// A running cluster, which ends when this is dropped.
pub(crate) struct Cluster {
    pub(crate) child: Child,
    pub(crate) directory: TempDir,
    /// What the `ready` line said.
    pub(crate) address: String,
    /// Kept open: the child's test harness has more to say, and would die of a closed pipe.
    _stdout: Lines<BufReader<ChildStdout>>,
}

/// TPC-H at scale factor 0.01, made once for all tests.
pub(crate) fn tpch() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    punctual_engine::tpch::ensure(directory, 0.01, &mut |_| ()).unwrap()
}

/// A cluster with the TPC-H tables.
pub(crate) fn with_tpch() -> Cluster {
    Start { tables: vec![tpch()], ..Start::default() }.start().unwrap()
}

impl Start {
    /// Starts the process and waits until it listens. The error is what it wrote before it exited.
    pub(crate) fn start(self) -> Result<Cluster, String> {
        let directory = tempfile::tempdir().unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(self.mode);
        std::fs::set_permissions(directory.path(), permissions).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "serve", "--ignored", "--nocapture"])
            .env("ENGINE_SOCKET", directory.path())
            .env("ENGINE_TABLES", std::env::join_paths(&self.tables).unwrap())
            .env("ENGINE_SIZE", self.size.to_string())
            .env("ENGINE_MEMORY", self.memory.to_string())
            // Spilled files go where the test can see them.
            .env("TMPDIR", directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in [
            ("ENGINE_TIMEOUT", self.timeout.map(|timeout| timeout.as_millis().to_string())),
            ("ENGINE_PASSWORD", self.password.map(str::to_owned)),
            ("ENGINE_TCP", self.tcp.map(str::to_owned)),
            ("ENGINE_SIMULATED", self.simulated.then(String::new)),
        ] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("ready {").map(|(_, json)| format!("{{{json}")));
        match ready {
            Some(json) => {
                let json: serde_json::Value = serde_json::from_str(&json).unwrap();
                let address = json["address"].as_str().unwrap().to_owned();
                Ok(Cluster { child, directory, address, _stdout: lines })
            }
            None => {
                let mut told = String::new();
                child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
                child.wait().unwrap();
                Err(told)
            }
        }
    }
}

impl Cluster {
    pub(crate) fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.directory.path()).user("tester").dbname("punctual");
        config
    }

    pub(crate) async fn connect(&self) -> Client {
        connect(&self.config()).await.unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) async fn connect(config: &tokio_postgres::Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE and the message of a failed statement.
pub(crate) fn told<T>(result: Result<T, tokio_postgres::Error>) -> (String, String) {
    let Err(error) = result else { return ("00000".to_owned(), "it did not fail".to_owned()) };
    match error.as_db_error() {
        Some(error) => (error.code().code().to_owned(), error.message().to_owned()),
        None => panic!("the connection failed: {error:?}"),
    }
}

/// The first column of the first row of a simple query.
pub(crate) async fn text(client: &Client, sql: &str) -> String {
    let rows = rows(client, sql).await;
    rows[0][0].clone().unwrap()
}

/// The rows of a simple query, as text.
pub(crate) async fn rows(client: &Client, sql: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    messages
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        })
        .collect()
}

/// Running and stuck statements, once they are as wished. Asks again until they are.
pub(crate) async fn until_activity(client: &Client, wished: impl Fn(i64, i64) -> bool) -> (i64, i64) {
    loop {
        let row = client.query_one("select running, stuck from punctual_engine.activity", &[]).await.unwrap();
        let (running, stuck) = (row.get(0), row.get(1));
        if wished(running, stuck) {
            return (running, stuck);
        }
        tokio::task::yield_now().await;
    }
}

/// A client that writes its messages byte by byte, for what a driver would not send.
pub(crate) struct Raw {
    stream: UnixStream,
    /// The number and the key that cancel.
    pub(crate) key: Vec<u8>,
}

impl Raw {
    pub(crate) fn connect(cluster: &Cluster) -> Raw {
        let mut raw = Raw { stream: Raw::stream(cluster), key: Vec::new() };
        raw.send_untyped(b"\0\x03\0\0user\0tester\0\0");
        let greeting = raw.until_ready();
        raw.key = greeting.into_iter().find(|(kind, _)| *kind == b'K').unwrap().1;
        raw
    }

    /// Sends a cancel request and waits until the server has dealt with it.
    pub(crate) fn cancel(&self, cluster: &Cluster) {
        let mut raw = Raw { stream: Raw::stream(cluster), key: Vec::new() };
        raw.send_untyped(&[&80_877_102_i32.to_be_bytes()[..], &self.key].concat());
        assert_eq!(raw.rest(), b"");
    }

    pub(crate) fn send(&mut self, kind: u8, body: &[u8]) {
        self.stream.write_all(&[kind]).unwrap();
        self.send_untyped(body);
    }

    fn send_untyped(&mut self, body: &[u8]) {
        let length = i32::try_from(body.len() + 4).unwrap().to_be_bytes();
        self.stream.write_all(&[&length, body].concat()).unwrap();
    }

    /// The messages up to ReadyForQuery: their kinds and bodies.
    pub(crate) fn until_ready(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut messages = Vec::new();
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).unwrap();
            let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.stream.read_exact(&mut body).unwrap();
            messages.push((head[0], body));
            if head[0] == b'Z' {
                return messages;
            }
        }
    }

    /// Sends a message and a Sync to a server that may close the connection at the first of them.
    pub(crate) fn provoke(&mut self, kind: u8, body: &[u8]) {
        let length = i32::try_from(body.len() + 4).unwrap().to_be_bytes();
        let _ = self.stream.write_all(&[&[kind], &length[..], body, b"S\0\0\0\x04"].concat());
    }

    /// Everything up to the end of the connection, however it ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    fn stream(cluster: &Cluster) -> UnixStream {
        UnixStream::connect(cluster.directory.path().join(".s.PGSQL.5432")).unwrap()
    }
}

/// The kinds of messages, as letters.
pub(crate) fn kinds(messages: &[(u8, Vec<u8>)]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// What the child process does.
pub(crate) fn serve() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(socket) = variable("ENGINE_SOCKET") else { return };
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
    let kind = match variable("ENGINE_SIMULATED") {
        Some(_) => Kind::Simulated(Simulated { slots: 4, time_scale: 0.01, seed: 1, warehouse: false }),
        None => Kind::Embedded {
            tables: variable("ENGINE_TABLES")
                .filter(|tables| !tables.is_empty())
                .map(|tables| std::env::split_paths(&tables).collect())
                .unwrap_or_default(),
            threads_per_unit: 1,
            memory_per_unit: number("ENGINE_MEMORY").unwrap(),
        },
    };
    let options = Options {
        listen: match variable("ENGINE_TCP") {
            Some(address) => Listen::Tcp(address.parse().unwrap()),
            None => Listen::Unix(socket.into()),
        },
        secret: variable("ENGINE_PASSWORD").map_or(Secret::None, Secret::Password),
        size: number("ENGINE_SIZE").unwrap() as u32,
        kind,
        statement_timeout: number("ENGINE_TIMEOUT").map(Duration::from_millis),
        until_stdin_closes: true,
        runaway_after: Duration::from_secs(5),
    };
    let ended: Result<(), EngineError> = run(options);
    if let Err(error) = &ended {
        eprintln!("{error}");
    }
    std::process::exit(i32::from(ended.is_err()));
}
