//! What memory the gateway takes: at its peak while results pass that are ten times as large as others, and for sessions that do
//! nothing, with and without encryption, or much.
//!
//! Every figure is of a gateway that was started for it, as the system counts it (`VmHWM`, `VmRSS`). The clients are one Python
//! program, so that thousands of them take little themselves.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::pgbench::Gateway;
use crate::servers::{Server, write};

const IDLE: u32 = 10_000;
const BUSY: u32 = 1_000;
const FEW: u32 = 1_000_000;
const MANY: u32 = 10_000_000;

/// The clients: one that reads a large result, at once or slowly, or many that are idle or busy. They say `there` and stay.
const CLIENTS: &str = r#"
import os, resource, selectors, socket, ssl, struct, sys, time
what, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
READY = b"Z\0\0\0\x05I"

def connect(encrypted):
    sock = socket.create_connection(("127.0.0.1", port))
    if encrypted:
        sock.sendall(struct.pack(">II", 8, 80877103))
        assert sock.recv(1) == b"S"
        sock = context.wrap_socket(sock)
    body = struct.pack(">I", 196608) + b"user\0postgres\0database\0postgres\0\0"
    sock.sendall(struct.pack(">I", len(body) + 4) + body)
    read(sock)
    return sock

def read(sock, rest=0):
    tail = b""
    while not tail.endswith(READY):
        got = sock.recv(65536)
        assert got, "the gateway hung up"
        tail = (tail + got)[-6:]
        time.sleep(rest)

def query(sql):
    return b"Q" + struct.pack(">I", len(sql) + 5) + sql.encode() + b"\0"

if what in ("result", "slow"):
    sock = connect(False)
    if what == "slow":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.sendall(query("select g, repeat('x', 100) from generate_series(1, %d) g" % n))
    read(sock, 0.001 if what == "slow" else 0)
elif what in ("idle", "encrypted"):
    socks = [connect(what == "encrypted") for _ in range(n)]
elif what == "busy":
    selector = selectors.DefaultSelector()
    sql = query("select g, repeat('x', 100) from generate_series(1, 100) g")
    for _ in range(n):
        sock = connect(False)
        selector.register(sock, selectors.EVENT_READ)
        sock.sendall(sql)
    ends = time.monotonic() + 15
    while time.monotonic() < ends:
        for key, _ in selector.select(1):
            if key.fileobj.recv(65536).endswith(READY):
                key.fileobj.sendall(sql)
print("there", flush=True)
sys.stdin.read()
"#;

/// Measures that program and prints what it takes.
pub(crate) fn bench(punctual: &Path, postgres: &Path, python: &Path) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("punctual-memory-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| format!("making {}: {error}", dir.display()))?;
    let measured = Place::new(&dir, punctual, postgres, python).and_then(|place| place.measure_all());
    let _ = fs::remove_dir_all(&dir);
    measured
}

/// What all measurements share.
struct Place<'a> {
    punctual: &'a Path,
    python: &'a Path,
    configuration: PathBuf,
    _database: Server,
}

impl Place<'_> {
    fn new<'a>(dir: &Path, punctual: &'a Path, postgres: &Path, python: &'a Path) -> Result<Place<'a>, String> {
        let database = Server::postgres(dir, postgres, "", "")?;
        let (certificate, key) = (dir.join("gateway.crt"), dir.join("gateway.key"));
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "9",
        ]);
        openssl.args(["-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"]);
        crate::run(openssl.arg(&key).arg("-out").arg(&certificate).stderr(Stdio::null()))?;
        let text = format!(
            "[gateway]\nlisten = \"127.0.0.1:0\"\nhttp = \"off\"\nstate_dir = {:?}\nmax_sessions = {}\n\
             [tls]\ncertificate = {certificate:?}\nkey = {key:?}\n\
             [[cluster]]\nname = \"a\"\nkind = \"postgres\"\naddress = \"127.0.0.1:{}\"\nslots = 64\n",
            dir.join("state"),
            2 * IDLE,
            database.port
        );
        let configuration = write(&dir.join("punctual.toml"), &text)?;
        Ok(Place { punctual, python, configuration, _database: database })
    }

    fn measure_all(&self) -> Result<(), String> {
        println!("\n  {:<44} {:>10}", "the peak while a result passes, of", "MB");
        let few = self.peak("result", FEW)?;
        let many = self.peak("result", MANY)?;
        let slow = self.peak("slow", FEW)?;
        let mb = |kb: u64| kb as f64 / 1_024.0;
        println!("  {:<44} {:>10.1}", format!("{FEW} rows"), mb(few));
        println!("  {:<44} {:>10.1}   {:+.1}", format!("{MANY} rows"), mb(many), mb(many) - mb(few));
        println!("  {:<44} {:>10.1}   {:+.1}", format!("{FEW} rows, read slowly"), mb(slow), mb(slow) - mb(few));
        println!("\n  {:<44} {:>10} {:>16}", "with so many sessions", "MB", "kB a session");
        for (what, count, named) in
            [("idle", IDLE, "idle"), ("encrypted", IDLE, "idle, encrypted"), ("busy", BUSY, "busy on 64 slots")]
        {
            let (alone, with) = self.sessions(what, count)?;
            let each = (with.saturating_sub(alone)) as f64 / f64::from(count);
            println!("  {:<44} {:>10.1}", "none", mb(alone));
            println!("  {:<44} {:>10.1} {each:>16.1}", format!("{count} {named}"), mb(with));
        }
        println!("\n  Peaks are to be within 10 MB of each other; 30 kB a session that is idle, 60 MB without any.");
        Ok(())
    }

    /// The most memory in kB that a gateway had by the time a client has read such a result.
    fn peak(&self, what: &str, rows: u32) -> Result<u64, String> {
        let gateway = self.gateway()?;
        let _clients = self.clients(&gateway, what, rows)?;
        status(&gateway, "VmHWM")
    }

    /// Memory in kB that a gateway had before so many sessions came and while they are there.
    fn sessions(&self, what: &str, count: u32) -> Result<(u64, u64), String> {
        let gateway = self.gateway()?;
        let alone = status(&gateway, "VmRSS")?;
        let _clients = self.clients(&gateway, what, count)?;
        Ok((alone, status(&gateway, "VmRSS")?))
    }

    /// A gateway whose cluster is ready.
    fn gateway(&self) -> Result<Gateway, String> {
        let gateway = Gateway::start(self.punctual, &self.configuration)?;
        let asked =
            ["-X", "-q", "-h", "127.0.0.1", "-U", "postgres", "-c", "select 1", "-p", &gateway.port, "postgres"];
        for _ in 0..100 {
            let answered = Command::new("psql").args(asked).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if answered.is_ok_and(|status| status.success()) {
                return Ok(gateway);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("the gateway at port {} does not answer", gateway.port))
    }

    /// Clients that have done what they were to do, and stay until they are dropped.
    fn clients(&self, gateway: &Gateway, what: &str, n: u32) -> Result<Clients, String> {
        let mut python = Command::new(self.python);
        python.args(["-c", CLIENTS, what, &gateway.port, &n.to_string()]);
        let mut child =
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| format!("{error}"))?;
        let out = child.stdout.take();
        let clients = Clients(child);
        let mut line = String::new();
        let _ = out.map(|out| BufReader::new(out).read_line(&mut line));
        if line == "there\n" {
            Ok(clients)
        } else {
            Err(format!("{what}: the clients did not get what they asked for"))
        }
    }
}

/// A process that ends when this is dropped.
struct Clients(Child);

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A number of kB in what the system says of the gateway.
fn status(gateway: &Gateway, what: &str) -> Result<u64, String> {
    let file = format!("/proc/{}/status", gateway.pid());
    let text = fs::read_to_string(&file).map_err(|error| format!("reading {file}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("{file} does not say {what}"))
}
