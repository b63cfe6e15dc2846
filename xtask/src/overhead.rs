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
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::pgbench::{Gateway, HOW_TO_GET_IT, latencies, quantile};
use crate::servers::{Server, free_port, unprivileged, write};

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
    let database = Server::postgres(dir, postgres, "", "")?;
    pgbench(dir, &database.port, "postgres", &["-i", "-q"])?;
    let bouncer = bouncer(dir, &database.port)?;
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

/// A PgBouncer before that Postgres.
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
