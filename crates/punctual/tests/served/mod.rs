//! A gateway as its users have it: the program itself, with a configuration file, on free ports.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use punctual::model::file::{self, Facts};
use punctual_core::predict::model::{Model, Parts};
use punctual_core::predict::net::{Layout, Shape};
use punctual_core::predict::stage::Stage;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A running `punctual serve`.
pub(crate) struct Served {
    child: Child,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// Where HTTP is served.
    pub(crate) http: SocketAddr,
    /// Its state directory and configuration.
    pub(crate) dir: TempDir,
    log: Option<JoinHandle<String>>,
}

/// Writes a file as secrets are kept.
pub(crate) fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;

    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// The program under test: the one that was built with the tests, unless PUNCTUAL_TEST_PROGRAM names another.
pub(crate) fn punctual() -> Command {
    let program = std::env::var_os("PUNCTUAL_TEST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_punctual").into());
    let mut command = Command::new(program);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Two simulated clusters of four slots.
pub(crate) const SIMULATED: &str = r#"
[[cluster]]
name = "a"
kind = "simulated"
slots = 4

[[cluster]]
name = "b"
kind = "simulated"
slots = 4
"#;

impl Served {
    /// Serves the given clusters and classes; addresses and the state directory are added.
    pub(crate) fn start(configuration: &str) -> Served {
        Served::start_in(tempfile::tempdir().expect("a temporary directory"), configuration)
    }

    /// The same, to be shut down within that time.
    pub(crate) fn start_to_stop_within(within: &str, configuration: &str) -> Served {
        Served::launch(tempfile::tempdir().expect("a temporary directory"), within, configuration)
    }

    /// The same, over an existing state directory.
    pub(crate) fn start_in(dir: TempDir, configuration: &str) -> Served {
        Served::launch(dir, "10s", configuration)
    }

    /// The same, with HTTP served there.
    pub(crate) fn start_in_with_http(dir: TempDir, http: &str, configuration: &str) -> Served {
        let mut child = spawn_with(dir.path(), "10s", configuration, Stdio::piped(), &["--http", http]);
        let log = heard(&mut child);
        Served::of(child, dir, Some(log))
    }

    /// The same, started by another program: with limits, say, or with files of its own.
    pub(crate) fn start_by(wrapper: &[&str], dir: TempDir, configuration: &str) -> Served {
        let file = write_file(dir.path(), "10s", configuration);
        let program = punctual();
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(program.get_program()).args(["serve", "-c"]).arg(file).env("NO_COLOR", "1");
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = heard(&mut child);
        Served::of(child, dir, Some(log))
    }

    fn launch(dir: TempDir, within: &str, configuration: &str) -> Served {
        let mut child = spawn(dir.path(), within, configuration, Stdio::piped());
        let log = heard(&mut child);
        Served::of(child, dir, Some(log))
    }

    /// The same, with its log going elsewhere and its state below a directory that stays.
    pub(crate) fn start_with_log(below: &Path, configuration: &str, log: Stdio) -> Served {
        let dir = tempfile::tempdir_in(below).expect("a temporary directory");
        Served::of(spawn(dir.path(), "10s", configuration, log), dir, None)
    }

    fn of(mut child: Child, dir: TempDir, log: Option<JoinHandle<String>>) -> Served {
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its standard output");
        BufReader::new(stdout).read_line(&mut line).expect("a line on standard output");
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut served = Served { child, address: nowhere, http: nowhere, dir, log };
        let parsed = line.trim().strip_prefix("listening on ").and_then(|rest| rest.split_once(", HTTP on "));
        let Some((address, http)) = parsed else {
            let _ = served.child.kill();
            panic!("it did not listen: {line:?}\n{}", served.log());
        };
        served.address = address.parse().expect("an address");
        served.http = http.parse().expect("an address");
        served
    }

    /// A connection as that application.
    pub(crate) async fn client(&self, application: &str) -> Client {
        let (client, connection) = self.config(application).connect(NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    /// How to connect.
    pub(crate) fn config(&self, application: &str) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.address.port()).user("ann").dbname("demo").application_name(application);
        config
    }

    /// Waits until `/readyz` says yes, which needs a ready cluster.
    pub(crate) fn wait_ready(&self) {
        while self.get("/readyz").0 != 200 {
            std::thread::yield_now();
        }
    }

    /// Waits until that many clusters are ready.
    pub(crate) fn wait_ready_all(&self, count: usize) {
        while self.get("/v1/clusters").1.matches("\"phase\":\"ready\"").count() < count {
            std::thread::yield_now();
        }
    }

    /// Status and body of a GET.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.request(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http))
    }

    /// Status and body of a POST.
    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, String) {
        let (host, length) = (self.http, body.len());
        self.request(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Status and body of a DELETE.
    pub(crate) fn delete(&self, path: &str) -> (u16, String) {
        self.request(&format!("DELETE {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http))
    }

    fn request(&self, request: &str) -> (u16, String) {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(self.http).expect("HTTP accepts");
        stream.write_all(request.as_bytes()).expect("a request is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }

    /// What a metric comes to, over all its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").1;
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        text.lines().filter(|line| line.split([' ', '{']).next() == Some(name)).filter_map(value).sum()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The processes that it has started as clusters.
    pub(crate) fn children(&self) -> Vec<i32> {
        let own = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("its threads");
        let lists = own.flatten().map(|task| task.path().join("children"));
        let texts: Vec<String> = lists.filter_map(|list| std::fs::read_to_string(list).ok()).collect();
        let mut all: Vec<i32> = texts.iter().flat_map(|text| text.split_whitespace()).flat_map(str::parse).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// SIGHUP.
    pub(crate) fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("a signal is sent");
    }

    /// Writes another configuration in place of the one that it was started with.
    pub(crate) fn configure(&self, configuration: &str) {
        write_file(self.dir.path(), "10s", configuration);
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn stop(self) -> (ExitStatus, String, TempDir) {
        self.terminate();
        self.stopped()
    }

    /// Waits for the end.
    pub(crate) fn stopped(mut self) -> (ExitStatus, String, TempDir) {
        self.end()
    }

    /// SIGKILL: no goodbyes.
    pub(crate) fn kill(mut self) -> (ExitStatus, String, TempDir) {
        self.child.kill().expect("it is killed");
        self.end()
    }

    fn end(&mut self) -> (ExitStatus, String, TempDir) {
        let status = self.child.wait().expect("it ends");
        let log = self.log();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().expect("a temporary directory"));
        (status, log, dir)
    }

    fn log(&mut self) -> String {
        self.log.take().map(|log| log.join().unwrap_or_default()).unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes what it says on standard error.
fn heard(child: &mut Child) -> JoinHandle<String> {
    let mut stderr = child.stderr.take().expect("its standard error");
    std::thread::spawn(move || {
        let mut log = String::new();
        let _ = stderr.read_to_string(&mut log);
        log
    })
}

/// The program, serving what is configured over the state directory `dir/state`.
fn spawn(dir: &Path, within: &str, configuration: &str, stderr: Stdio) -> Child {
    spawn_with(dir, within, configuration, stderr, &[])
}

fn spawn_with(dir: &Path, within: &str, configuration: &str, stderr: Stdio, more: &[&str]) -> Child {
    let file = write_file(dir, within, configuration);
    let mut command = punctual();
    command.args(["serve", "-c"]).arg(&file).args(more).stdout(Stdio::piped()).stderr(stderr);
    command.spawn().expect("the program starts")
}

fn write_file(dir: &Path, within: &str, configuration: &str) -> std::path::PathBuf {
    let file = dir.join("punctual.toml");
    let state = dir.join("state");
    let gateway = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nstate_dir = {state:?}\nshutdown_within = {within:?}\n"
    );
    std::fs::write(&file, gateway + configuration).expect("a configuration file");
    file
}

/// The directories that a gateway over that state directory writes.
pub(crate) fn journal_of(dir: &Path) -> std::path::PathBuf {
    dir.join("state/journal")
}

/// A state directory with a model that expects every query to take that many seconds alone on one unit.
pub(crate) fn with_model(seconds: f64) -> TempDir {
    with_model_of(seconds, 0.5)
}

/// The same, with executions that vary by so much: the deviation of the logarithm.
pub(crate) fn with_model_of(seconds: f64, spread: f64) -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let shape = Shape { known: 0, hidden: 16 };
    let mut stage = Stage { spreads: [spread; 4], ..Stage::default() };
    stage.trees.start = seconds.ln();
    let weights = vec![0.0; Layout::of(shape).total()];
    let parts = Parts { stage, known: Vec::new(), hidden: 16, weights, spread_scales: [1.0; 2] };
    let facts = Facts {
        build: "test".into(),
        queries: 9,
        isolated: 3,
        newest: 1,
        kind: "stage".into(),
        epochs: 1,
        seed: 0,
        split: "none".into(),
    };
    std::fs::create_dir_all(dir.path().join("state")).expect("a directory");
    let path = dir.path().join("state/punctual.model");
    file::write(&path, &Model::new(parts).expect("sound parts"), &facts).expect("a model is written");
    dir
}

/// A body in chunks, whole.
pub(crate) fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let at = body.windows(2).position(|two| two == b"\r\n").expect("a length");
        let length = usize::from_str_radix(std::str::from_utf8(&body[..at]).expect("text"), 16).expect("a length");
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[at + 2..at + 2 + length]);
        body = &body[at + 4 + length..];
    }
}

/// An embedded engine without a gateway, to ask straight.
pub(crate) struct Engine {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub(crate) port: u16,
}

impl Engine {
    /// One over those tables.
    pub(crate) fn start(tables: &Path) -> Engine {
        let mut child = punctual()
            .args(["engine", "--listen", "127.0.0.1:0", "--tables"])
            .arg(tables)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the engine starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let port =
            line.rsplit(':').next().map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line:?}"));
        Engine { child, port }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
