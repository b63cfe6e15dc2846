//! Lanes against real clusters: light queries beside a loop of heavy ones, with and without a lane, side by side in one run.
//!
//! ```text
//!   pgbench, user light: a count over a small table, four clients ─┐
//!                                                                  ├──▶ gateway ──▶ one embedded cluster, TPC-H
//!   pgbench, user heavy: a join over the large ones, a loop ───────┘
//! ```
//!
//! Both are closed loops. The heavy ones are as many as there are slots, so that without a lane they have the cluster to
//! themselves. What is shown is the light queries' 95 % quantile, and how many heavy ones are done in a second.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Seconds that each of the loads lasts.
const LASTS: u32 = 20;

/// Queries that may run at once on the cluster, and clients that send heavy ones.
const SLOTS: u32 = 6;

/// What is looked up by the light ones.
const LIGHT: &str = "SELECT count(*) FROM supplier WHERE s_nationkey = 7;\n";

/// What the heavy ones join.
const HEAVY: &str = "SELECT sum(l.l_extendedprice) FROM lineitem l JOIN orders o ON l.l_orderkey = o.o_orderkey \
                     JOIN customer c ON o.o_custkey = c.c_custkey WHERE c.c_acctbal > 0 GROUP BY c.c_nationkey;\n";

/// Each way of admitting: its name, what the configuration says of it, and whether heavy queries come.
const WAYS: [(&str, &str, bool); 5] = [
    ("light alone", "", false),
    ("no lanes", "", true),
    ("priorities", "[policy]\norder = \"fair\"\n", true),
    ("hilo, 25 %", "[lanes]\nstrategy = \"hilo\"\nmax_low_percent = 25\n", true),
    ("a lane of 1", "[lanes]\nstrategy = \"manual\"\n[[lane]]\nname = \"batch\"\nlimit = 1\n", true),
];

/// Measures every way with that program and prints them side by side.
pub(crate) fn bench(punctual: &Path) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("punctual-lanes-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| format!("making {}: {error}", dir.display()))?;
    let measured: Result<Vec<_>, String> = WAYS.iter().map(|way| measure(punctual, &dir, way)).collect();
    let _ = fs::remove_dir_all(&dir);
    println!("\n  {:<12} {:>16} {:>14} {:>16}", "", "light p95, ms", "light a second", "heavy a second");
    for ((name, ..), (light, heavy)) in WAYS.iter().zip(measured?) {
        let (p95, each) = (quantile(&light, 0.95), light.len() as f64 / f64::from(LASTS));
        println!("  {name:<12} {p95:>16.1} {each:>14.1} {:>16.2}", heavy.len() as f64 / f64::from(LASTS));
    }
    Ok(())
}

type Latencies = Vec<f64>;

/// Latencies in milliseconds of the light and of the heavy queries.
fn measure(
    punctual: &Path,
    dir: &Path,
    (name, rules, with_heavy): &(&str, &str, bool),
) -> Result<(Latencies, Latencies), String> {
    println!("xtask: {name}, for {LASTS} s");
    let lane = if rules.contains("manual") { "lane = \"batch\"\n" } else { "" };
    let text = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nhttp = \"off\"\nstate_dir = \"{}\"\n{rules}\
         [[class]]\nname = \"light\"\nmatch = [{{ user = \"light\" }}]\n\
         [[class]]\nname = \"heavy\"\nmatch = [{{ user = \"heavy\" }}]\npriority = -5\n{lane}\
         [[cluster]]\nname = \"a\"\nkind = \"embedded\"\ntpch = 0.1\nslots = {SLOTS}\n",
        dir.join("state").display()
    );
    let file = dir.join("punctual.toml");
    fs::write(&file, text).map_err(|error| format!("writing {}: {error}", file.display()))?;
    let gateway = Gateway::start(punctual, &file)?;
    gateway.answers(dir)?;
    let heavy = with_heavy.then(|| gateway.pgbench(dir, "heavy", HEAVY, SLOTS)).transpose()?;
    let light = gateway.pgbench(dir, "light", LIGHT, 4)?;
    let light = ended(light, dir, "light")?;
    let heavy = heavy.map_or_else(|| Ok(Vec::new()), |heavy| ended(heavy, dir, "heavy"))?;
    Ok((light, heavy))
}

/// A running `punctual serve`.
struct Gateway {
    child: Child,
    port: String,
    _out: BufReader<ChildStdout>,
}

impl Gateway {
    fn start(punctual: &Path, file: &Path) -> Result<Gateway, String> {
        let mut command = Command::new(punctual);
        command.arg("serve").arg("-c").arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("starting {}: {error}", punctual.display()))?;
        let mut out = BufReader::new(child.stdout.take().ok_or("it has no standard output")?);
        let mut line = String::new();
        out.read_line(&mut line).map_err(|error| format!("reading what the gateway says: {error}"))?;
        let port =
            line.trim().strip_prefix("listening on 127.0.0.1:").map(|rest| rest.split(',').next().unwrap_or(rest));
        match port.map(str::to_owned) {
            Some(port) => Ok(Gateway { child, port, _out: out }),
            None => {
                let _ = child.kill();
                Err(format!("the gateway does not listen: {line:?}; `punctual check -c {}` says why", file.display()))
            }
        }
    }

    /// Waits for the first answer: the data may have to be generated.
    fn answers(&self, dir: &Path) -> Result<(), String> {
        let mut first = self.command(dir, "light", LIGHT, 1, &["-t", "1"])?;
        let done = first.wait().map_err(|error| format!("waiting for pgbench: {error}"))?;
        if done.success() { Ok(()) } else { Err("the gateway does not answer pgbench".to_owned()) }
    }

    /// Clients that send that for as long as a load lasts, with a log of every query.
    fn pgbench(&self, dir: &Path, user: &str, sql: &str, clients: u32) -> Result<Child, String> {
        let prefix = dir.join(format!("{user}.log"));
        let lasts = LASTS.to_string();
        self.command(dir, user, sql, clients, &["-T", &lasts, "-l", "--log-prefix", &prefix.to_string_lossy()])
    }

    fn command(&self, dir: &Path, user: &str, sql: &str, clients: u32, more: &[&str]) -> Result<Child, String> {
        let file = dir.join(format!("{user}.sql"));
        fs::write(&file, sql).map_err(|error| format!("writing {}: {error}", file.display()))?;
        let clients = clients.to_string();
        let mut command = Command::new("pgbench");
        command.args(["-n", "-M", "simple", "-h", "127.0.0.1", "-p", &self.port, "-U", user, "-c", &clients, "-f"]);
        command.arg(&file).args(more).arg("dev").stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| format!("starting pgbench (package postgresql-contrib): {error}"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Its clusters end with it.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Latencies in milliseconds, sorted: the third number of each line of pgbench's logs, in microseconds.
fn ended(mut pgbench: Child, dir: &Path, user: &str) -> Result<Vec<f64>, String> {
    let done = pgbench.wait().map_err(|error| format!("waiting for pgbench: {error}"))?;
    if !done.success() {
        return Err(format!("pgbench as {user}: {done}"));
    }
    let is_log = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(&format!("{user}.log."))
    };
    let entries = fs::read_dir(dir).map_err(|error| format!("reading {}: {error}", dir.display()))?;
    let mut latencies = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_log) {
        let text = fs::read_to_string(&path).map_err(|error| format!("reading {}: {error}", path.display()))?;
        let micros = text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok());
        latencies.extend(micros.map(|micros| micros / 1_000.0));
        let _ = fs::remove_file(&path);
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// By nearest rank, of sorted values; none: no number.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
