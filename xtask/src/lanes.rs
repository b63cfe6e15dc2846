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
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::pgbench::{Gateway, HOW_TO_GET_IT, latencies, quantile};

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
    let clients = Clients { gateway: &gateway, dir };
    clients.answers()?;
    let heavy = with_heavy.then(|| clients.pgbench("heavy", HEAVY, SLOTS)).transpose()?;
    let light = clients.pgbench("light", LIGHT, 4)?;
    let light = ended(light, dir, "light")?;
    let heavy = heavy.map_or_else(|| Ok(Vec::new()), |heavy| ended(heavy, dir, "heavy"))?;
    Ok((light, heavy))
}

/// The clients of a gateway.
struct Clients<'a> {
    gateway: &'a Gateway,
    dir: &'a Path,
}

impl Clients<'_> {
    /// Waits for the first answer: the data may have to be generated.
    fn answers(&self) -> Result<(), String> {
        let mut first = self.command("light", LIGHT, 1, &["-t", "1"])?;
        let done = first.wait().map_err(|error| format!("waiting for pgbench: {error}"))?;
        if done.success() { Ok(()) } else { Err("the gateway does not answer pgbench".to_owned()) }
    }

    /// Clients that send that for as long as a load lasts, with a log of every query.
    fn pgbench(&self, user: &str, sql: &str, clients: u32) -> Result<Child, String> {
        let prefix = self.dir.join(format!("{user}.log"));
        let lasts = LASTS.to_string();
        self.command(user, sql, clients, &["-T", &lasts, "-l", "--log-prefix", &prefix.to_string_lossy()])
    }

    fn command(&self, user: &str, sql: &str, clients: u32, more: &[&str]) -> Result<Child, String> {
        let file = self.dir.join(format!("{user}.sql"));
        fs::write(&file, sql).map_err(|error| format!("writing {}: {error}", file.display()))?;
        let clients = clients.to_string();
        let mut command = Command::new("pgbench");
        command.args([
            "-n",
            "-M",
            "simple",
            "-h",
            "127.0.0.1",
            "-p",
            &self.gateway.port,
            "-U",
            user,
            "-c",
            &clients,
            "-f",
        ]);
        command.arg(&file).args(more).arg("dev").stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| format!("{HOW_TO_GET_IT}: {error}"))
    }
}

/// Latencies in milliseconds, sorted, once all is done.
fn ended(mut pgbench: Child, dir: &Path, user: &str) -> Result<Vec<f64>, String> {
    let done = pgbench.wait().map_err(|error| format!("waiting for pgbench: {error}"))?;
    if !done.success() {
        return Err(format!("pgbench as {user}: {done}"));
    }
    latencies(dir, &format!("{user}.log"))
}
