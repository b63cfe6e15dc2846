//! A Postgres with the same tables three times, and two gateways in front of it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::cases::{self, Case};
use super::postgres::Postgres;
use super::served::Served;

/// Who connects.
pub(crate) const USER: &str = "ann";

/// Whether a query sleeps in a database: so long as none does, the answer is 0. Who has cancelled one waits until the server has
/// hung up before it goes on: a Postgres signals twice for one cancel, and what comes between would end before it is seen asleep.
pub(crate) const SLEEPING: &str = "select count(*)::int4 from pg_stat_activity \
                                   where datname = current_database() and wait_event = 'PgSleep'";

/// A place where runners do what they do, in a database of its own.
#[derive(Debug)]
pub(crate) struct Place {
    /// `straight`, `single` or `hopped`.
    pub(crate) name: &'static str,
    /// Where it listens, on loopback.
    pub(crate) port: u16,
    /// The database. All names are of one length.
    pub(crate) database: String,
    /// Tables of this id and above are not of the template.
    pub(crate) new_oids: u32,
    /// What is done there.
    pub(crate) files: Vec<PathBuf>,
}

impl Place {
    /// The cases of its files.
    pub(crate) fn cases(&self) -> Vec<Case> {
        cases::read(&self.files)
    }
}

/// The Postgres and what leads to it.
pub(crate) struct World {
    socket: PathBuf,
    straight: SocketAddr,
    single: Served,
    hopped: Served,
    template: String,
    new_oids: u32,
}

impl World {
    /// Starts everything; the Postgres is that of this process.
    pub(crate) fn new() -> World {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let dir = Postgres::shared().dir();
        let socket = dir.join(".s.PGSQL.5432");
        let template = format!("differ{:02}", MADE.fetch_add(1, Ordering::Relaxed));
        ask(dir, "postgres", &["-c", &format!("create database {template}")]);
        ask(dir, &template, &["-f", &cases::file("schema.sql").display().to_string()]);
        let new_oids = ask(dir, &template, &["-c", "select max(oid::int8) + 1 from pg_class"]);
        for number in 1..=3 {
            ask(dir, "postgres", &["-c", &format!("create database {template}_{number} template {template}")]);
        }
        let cluster = |name: &str| {
            format!(
                "[[cluster]]\nname = {name:?}\nkind = \"postgres\"\nslots = 8\naddress = \"unix:{}\"\n",
                socket.display()
            )
        };
        let hopping = "max_idle_connections = 1\n[policy]\nrouting = \"round_robin\"\n";
        let single = Served::start(&cluster("a"));
        let hopped = Served::start(&(hopping.to_owned() + &cluster("a") + &cluster("b")));
        single.wait_ready();
        hopped.wait_ready_all(2);
        let new_oids = new_oids.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number");
        World { straight: listen_for(&socket), socket, single, hopped, template, new_oids }
    }

    /// Where runners do what they do; first where no gateway is.
    pub(crate) fn places(&self) -> [Place; 3] {
        let place = |name, address: SocketAddr, number| Place {
            name,
            port: address.port(),
            database: format!("{}_{number}", self.template),
            new_oids: self.new_oids,
            files: cases::files().to_vec(),
        };
        [
            place("straight", self.straight, 1),
            place("single", self.single.address, 2),
            place("hopped", self.hopped.address, 3),
        ]
    }

    /// Runs psql at the Postgres itself.
    pub(crate) fn ask(&self, database: &str, arguments: &[&str]) -> String {
        ask(self.socket.parent().expect("its directory"), database, arguments)
    }

    /// How many queries each cluster of the second gateway has had.
    pub(crate) fn hops(&self) -> [Option<u64>; 2] {
        let (_, metrics) = self.hopped.get("/metrics");
        let of = |cluster: &str| {
            let named = format!("punctual_cluster_queries_total{{cluster=\"{cluster}\"");
            let line = metrics.lines().find(|line| line.starts_with(&named))?;
            line.rsplit(' ').next()?.parse::<u64>().ok()
        };
        [of("a"), of("b")]
    }
}

fn ask(dir: &Path, database: &str, arguments: &[&str]) -> String {
    let output = Command::new("psql")
        .args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", database, "-h"])
        .arg(dir)
        .args(arguments)
        .output()
        .expect("psql is installed: cargo xtask needs");
    assert!(output.status.success(), "psql {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A port that leads to a Unix socket, byte by byte: some drivers know no such sockets. It is open as long as the process.
fn listen_for(socket: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let socket = socket.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            if let Ok(server) = UnixStream::connect(&socket) {
                join(client, server);
            }
        }
    });
    address
}

fn join(client: TcpStream, server: UnixStream) {
    let _ = client.set_nodelay(true);
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    std::thread::spawn(move || {
        copy(from_client, &to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        copy(server, &client);
        let _ = client.shutdown(Shutdown::Write);
    });
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}
