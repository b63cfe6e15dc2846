//! Servers that benchmarks and drivers' suites run against: each on a free port, as a user without privileges, gone with us.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program that listens, and goes when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// Where, on 127.0.0.1.
    pub(crate) port: String,
}

impl Server {
    /// A Postgres of its own in `dir`, which lets everyone in as `postgres` but for what the lines `hba` say, with these further
    /// `settings`. `bin` has its programs.
    pub(crate) fn postgres(dir: &Path, bin: &Path, hba: &str, settings: &str) -> Result<Server, String> {
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
        for (name, first, last) in [("pg_hba.conf", hba, ""), ("postgresql.conf", "", settings)] {
            let file = data.join(name);
            let usual = fs::read_to_string(&file).map_err(|error| format!("reading {}: {error}", file.display()))?;
            write(&file, &format!("{first}\n{usual}\n{last}\n"))?;
        }
        let port = free_port()?;
        let mut command = unprivileged(&bin.join("postgres"));
        command.args(["-D", at.as_str(), "-p", port.as_str(), "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "max_connections=300", "-c", "unix_socket_directories="]);
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

    /// That program, which listens at that port.
    pub(crate) fn of(mut command: Command, port: String) -> Result<Server, String> {
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
pub(crate) fn free_port() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port().to_string()).map_err(|error| format!("finding a free port: {error}"))
}

/// A program that does not run as root, and goes when we do.
pub(crate) fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(program).env("LC_ALL", "C.UTF-8").current_dir("/");
    command
}

/// Writes a text to a file, and names the file.
pub(crate) fn write(file: &Path, text: &str) -> Result<PathBuf, String> {
    fs::write(file, text).map_err(|error| format!("writing {}: {error}", file.display()))?;
    Ok(file.to_owned())
}

/// True if we are root, as whom Postgres will not run.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}
