//! What the gateway costs: pgbench's point lookups straight at a Postgres, through PgBouncer, and through the gateway, in turn.
//!
//! ```text
//!             ┌─────────────────────┐
//!   pgbench ──┼──▶ PgBouncer ───────┼──▶ one Postgres, on the same machine
//!             └──▶ gateway ─────────┘
//! ```
//!
//! All share the same processors, so what a proxy takes the database does not have. PgBouncer pools by session: some versions of it
//! lose prepared statements otherwise. Each figure is the best of a few rounds, in which the three take turns: what else runs on
//! the machine can only make one slower.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::pgbench::{Gateway, HOW_TO_GET_IT, latencies, quantile};

/// Seconds of each load, and how many rounds there are.
const LASTS: u32 = 5;
const ROUNDS: usize = 2;

const MODES: [&str; 3] = ["simple", "extended", "prepared"];
const CLIENTS: [u32; 3] = [1, 8, 64];

/// Measures that program beside the others and prints them side by side.
pub(crate) fn bench(punctual: &Path, postgres: &Path) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("punctual-overhead-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| format!("making {}: {error}", dir.display()))?;
    let measured = measure_all(&dir, punctual, postgres);
    let _ = fs::remove_dir_all(&dir);
    println!("\n  {:<22} {:>26} {:>26} {:>26}", "", "direct", "PgBouncer", "Punctual");
    for (mode, clients, figures) in measured? {
        let one = |figure: &Figure| format!("{:>8.0}/s {:>7.0} µs", figure.per_second, figure.p50_us);
        let [direct, bouncer, gateway] = &figures;
        println!(
            "  {mode:<10} {clients:>3} clients {:>26} {:>26} {:>26}   {:.2}× PgBouncer, {:+.0} µs",
            one(direct),
            one(bouncer),
            one(gateway),
            gateway.per_second / bouncer.per_second,
            gateway.p50_us - direct.p50_us,
        );
    }
    println!("\n  Lookups a second and the median of their latency, the best of {ROUNDS} rounds of {LASTS} s each.");
    Ok(())
}

#[derive(Clone, Copy)]
struct Figure {
    per_second: f64,
    p50_us: f64,
}

type Measured = (&'static str, u32, [Figure; 3]);

fn measure_all(dir: &Path, punctual: &Path, postgres: &Path) -> Result<Vec<Measured>, String> {
    let database = Server::postgres(dir, postgres)?;
    pgbench(dir, &database.port, "postgres", &["-i", "-q"])?;
    let bouncer = Server::bouncer(dir, &database.port)?;
    let gateway = Gateway::start(punctual, &configuration(dir, &database.port)?)?;
    let ports = [&database.port, &bouncer.port, &gateway.port];
    for port in ports {
        answers(dir, port)?;
    }
    let mut measured = Vec::new();
    for mode in MODES {
        for clients in CLIENTS {
            println!("xtask: {mode}, {clients} clients");
            let mut best = [Figure { per_second: 0.0, p50_us: f64::INFINITY }; 3];
            for _ in 0..ROUNDS {
                for (best, port) in best.iter_mut().zip(ports) {
                    let figure = measure(dir, port, mode, clients)?;
                    best.per_second = best.per_second.max(figure.per_second);
                    best.p50_us = best.p50_us.min(figure.p50_us);
                }
            }
            measured.push((mode, clients, best));
        }
    }
    Ok(measured)
}

fn measure(dir: &Path, port: &str, mode: &str, clients: u32) -> Result<Figure, String> {
    let (clients, lasts, prefix) = (clients.to_string(), LASTS.to_string(), dir.join("lookups"));
    let prefix = prefix.to_string_lossy();
    pgbench(
        dir,
        port,
        "postgres",
        &["-n", "-S", "-M", mode, "-c", &clients, "-T", &lasts, "-l", "--log-prefix", &prefix],
    )?;
    let latencies = latencies(dir, "lookups")?;
    Ok(Figure { per_second: latencies.len() as f64 / f64::from(LASTS), p50_us: 1_000.0 * quantile(&latencies, 0.5) })
}

/// Waits until lookups are answered there.
fn answers(dir: &Path, port: &str) -> Result<(), String> {
    for _ in 0..100 {
        if pgbench(dir, port, "postgres", &["-n", "-S", "-t", "1"]).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    pgbench(dir, port, "postgres", &["-n", "-S", "-t", "1"])
}

fn pgbench(dir: &Path, port: &str, database: &str, more: &[&str]) -> Result<(), String> {
    let mut command = Command::new("pgbench");
    command.args(["-h", "127.0.0.1", "-p", port, "-U", "postgres"]).args(more).arg(database).current_dir(dir);
    let output = command.output().map_err(|error| format!("{HOW_TO_GET_IT}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("pgbench at port {port}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn configuration(dir: &Path, database: &str) -> Result<PathBuf, String> {
    let text = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nhttp = \"off\"\nstate_dir = \"{}\"\n\
         [[cluster]]\nname = \"a\"\nkind = \"postgres\"\naddress = \"127.0.0.1:{database}\"\nslots = 64\n",
        dir.join("state").display()
    );
    write(&dir.join("punctual.toml"), &text)
}

pub(crate) fn write(file: &Path, text: &str) -> Result<PathBuf, String> {
    fs::write(file, text).map_err(|error| format!("writing {}: {error}", file.display()))?;
    Ok(file.to_owned())
}

/// A program that listens, and goes when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub(crate) port: String,
}

impl Server {
    /// A Postgres whose data are in `dir/data`.
    pub(crate) fn postgres(dir: &Path, bin: &Path) -> Result<Server, String> {
        let data = dir.join("data");
        fs::create_dir_all(&data).map_err(|error| format!("making {}: {error}", data.display()))?;
        if is_root() {
            // It has to get there.
            crate::run(Command::new("chmod").arg("755").arg(dir))?;
            crate::run(Command::new("chown").arg("postgres").arg(&data))?;
        }
        let at = data.to_string_lossy().into_owned();
        let initialise = ["-D", at.as_str(), "-U", "postgres", "-A", "trust", "-N"];
        let mut initdb = unprivileged(&bin.join("initdb"));
        crate::run(initdb.args(initialise).stdout(Stdio::null()))?;
        let port = free_port()?;
        let mut command = unprivileged(&bin.join("postgres"));
        command.args([
            "-D",
            at.as_str(),
            "-p",
            port.as_str(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "max_connections=300",
        ]);
        command.args(["-c", "unix_socket_directories="]);
        let server = Server::of(command, port)?;
        for _ in 0..100 {
            let port = server.port.as_str();
            let mut ready = unprivileged(&bin.join("pg_isready"));
            if ready.args(["-q", "-h", "127.0.0.1", "-p", port]).status().is_ok_and(|status| status.success()) {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("Postgres does not answer at port {}", server.port))
    }

    fn bouncer(dir: &Path, database: &str) -> Result<Server, String> {
        let port = free_port()?;
        let users = write(&dir.join("users.txt"), "\"postgres\" \"\"\n")?;
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={database}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
             pool_mode = session\ndefault_pool_size = 64\nmax_client_conn = 300\nlog_connections = 0\nlog_disconnections = 0\n",
            users.display()
        );
        let file = write(&dir.join("pgbouncer.ini"), &text)?;
        let mut command = unprivileged(Path::new("pgbouncer"));
        command.arg("-q").arg(file);
        Server::of(command, port)
    }

    fn of(mut command: Command, port: String) -> Result<Server, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("starting {command:?}: {error}"))?;
        Ok(Server { child, port })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// A port that is free now.
fn free_port() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port().to_string()).map_err(|error| format!("finding a free port: {error}"))
}

/// A program that does not run as root, and goes when we do.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(program).env("LC_ALL", "C.UTF-8").current_dir("/");
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}
