//! A Postgres that can be killed, stopped and started again, at a port of its own.
//!
//! Its processes end with ours, however that comes about.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::{Client, Config, NoTls};

use super::postgres::{HOW_TO_GET_IT, as_postgres, installation, own, run, template};

/// How often a start is tried: what a killed one has left behind may keep the next one away for a while.
const TRIES: u32 = 400;

/// A Postgres.
pub struct Mortal {
    dir: PathBuf,
    /// Where it listens.
    pub port: u16,
    postmaster: Mutex<Pid>,
}

impl Mortal {
    /// Starts one; `name` is unique among those of this process.
    pub fn start(name: &str) -> Mortal {
        let template = template(&installation());
        let dir = std::env::temp_dir().join(format!("punctual-test-postgres-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        run(std::process::Command::new("cp").arg("-r").arg(&template).arg(&dir));
        fs::write(dir.join("pg_hba.conf"), "local all all trust\nhost all all 127.0.0.1/32 trust\n").expect("a file");
        own(&dir);
        // Free now; the system gives it to nobody else soon.
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let postmaster = Mutex::new(launch(&dir, port));
        Mortal { dir, port, postmaster }
    }

    /// Kills its processes, all of them or the first alone, whose children take note by themselves.
    pub fn kill(&self, all: bool) {
        let (first, others) = self.processes();
        kill(first);
        others.into_iter().filter(|_| all).for_each(kill);
    }

    /// Starts it again after a kill.
    pub fn revive(&self) {
        *self.postmaster.lock().expect("no panic") = launch(&self.dir, self.port);
    }

    /// Stops all of its processes where they are, or has them go on.
    pub fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        let (first, others) = self.processes();
        for pid in others.into_iter().chain([first]) {
            let _ = kill_process(pid, signal);
        }
    }

    fn processes(&self) -> (Pid, Vec<Pid>) {
        let first = *self.postmaster.lock().expect("no panic");
        let number = first.as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
        (first, children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect())
    }

    /// A connection of its superuser, not through the gateway.
    pub async fn client(&self) -> Client {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("postgres").dbname("postgres");
        // It may be about to begin again.
        for _ in 0..TRIES {
            if let Ok((client, connection)) = config.connect(NoTls).await {
                tokio::spawn(connection);
                return client;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("Postgres does not answer at port {}", self.port)
    }

    /// The table of a configuration that puts it behind a gateway.
    pub fn cluster(&self, name: &str, slots: u32) -> String {
        let address = format!("127.0.0.1:{}", self.port);
        format!(
            "[[cluster]]\nname = {name:?}\nkind = \"postgres\"\naddress = {address:?}\ndatabase = \"postgres\"\nslots = {slots}\n"
        )
    }
}

/// Kills a process, if it is there.
pub fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
}

impl Drop for Mortal {
    fn drop(&mut self) {
        self.freeze(false);
        self.kill(true);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Starts it, as often as it takes, and says which process it is.
fn launch(dir: &std::path::Path, port: u16) -> Pid {
    let mut said = String::new();
    for _ in 0..TRIES {
        let (tell, told) = channel();
        let dir = dir.to_owned();
        // It is told to go when the thread that started it ends: this one waits for it.
        std::thread::spawn(move || live(dir, port, &tell));
        match told.recv().expect("the thread says something") {
            Ok(pid) => return pid,
            Err(log) => said = log,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("Postgres did not start:\n{said}")
}

fn live(dir: PathBuf, port: u16, tell: &Sender<Result<Pid, String>>) {
    let mut child = as_postgres(&installation().join("postgres"))
        .arg("-D")
        .arg(&dir)
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"])
        .args(["-c", "fsync=off", "-c"])
        .arg(format!("unix_socket_directories={}", dir.display()))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect(HOW_TO_GET_IT);
    let pid = Pid::from_child(&child);
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut seen = String::new();
    for line in log.lines().map_while(Result::ok) {
        if line.contains("database system is ready to accept connections") {
            let _ = tell.send(Ok(pid));
        }
        if seen.len() < 4_000 {
            seen += &line;
            seen.push('\n');
        }
    }
    let _ = child.wait();
    let _ = tell.send(Err(seen));
}
