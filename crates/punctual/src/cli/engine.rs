//! `punctual engine`: one cluster as a process. The gateway starts it as a child; people may, to look at it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use punctual_core::tag::parse_span;
use punctual_engine::{Kind, Listen, Options, Secret, Simulated};

use super::Stop;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Listen on the socket DIR/.s.PGSQL.5432; DIR is made if it is missing, for our user alone
    #[arg(long, value_name = "DIR", conflicts_with = "listen", required_unless_present = "listen")]
    socket_dir: Option<PathBuf>,
    /// Listen on this address instead; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Read the password that clients must give from the first line of standard input, and end when that closes
    #[arg(long)]
    secret_on_stdin: bool,
    /// Size in units
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    size: u32,
    /// Directory whose NAME.parquet files and NAME directories become tables; may be given several times
    #[arg(long, value_name = "DIR", required_unless_present = "simulated")]
    tables: Vec<PathBuf>,
    /// Worker threads for each unit
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads_per_unit: u32,
    /// Bytes of memory for each unit
    #[arg(long, default_value_t = 512 << 20)]
    memory_per_unit: u64,
    /// End a statement after this long (say 30s), unless its session says otherwise
    #[arg(long, value_parser = duration)]
    statement_timeout: Option<Duration>,
    /// Say on standard output when something that nobody waits for has worked on for this long
    #[arg(long, value_parser = duration, default_value = "5s")]
    runaway_after: Duration,
    /// Answer when a simulated cluster would, without any data
    #[arg(long, conflicts_with = "tables")]
    simulated: bool,
    /// A simulated cluster of the warehouse that `punctual reproduce world` shows: it has slots, memory, I/O and a cache of
    /// its own, and knows the queries of TPC-DS by a comment, say /* tpcds:42 */
    #[arg(long, requires = "simulated")]
    warehouse: bool,
    /// What the chance of a simulated warehouse begins with
    #[arg(long, default_value_t = 0, requires = "warehouse")]
    seed: u64,
    /// Queries that a simulated cluster runs at once; more wait
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    slots: u32,
    /// Simulated seconds that pass in a real one
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    if !(flags.time_scale.is_finite() && flags.time_scale > 0.0) {
        return Err(Stop::usage(format_args!("--time-scale {} is not a positive number", flags.time_scale)));
    }
    let secret = match flags.secret_on_stdin.then(read_secret) {
        None => Secret::None,
        Some(Ok(secret)) => Secret::Password(secret),
        Some(Err(error)) => {
            return Err(Stop::failed(format_args!("reading the secret from standard input: {error}")));
        }
    };
    let listen = match (&flags.socket_dir, flags.listen) {
        (Some(dir), _) => Listen::Unix(dir.clone()),
        (None, Some(address)) => Listen::Tcp(address),
        (None, None) => return Err(Stop::usage("--socket-dir or --listen is needed")),
    };
    let kind = match flags.simulated {
        true => Kind::Simulated(Simulated {
            slots: flags.slots,
            warehouse: flags.warehouse,
            time_scale: 1.0 / flags.time_scale,
            seed: flags.seed,
        }),
        false => Kind::Embedded {
            tables: flags.tables.clone(),
            threads_per_unit: flags.threads_per_unit,
            memory_per_unit: flags.memory_per_unit,
        },
    };
    let options = Options {
        listen,
        secret,
        size: flags.size,
        kind,
        statement_timeout: flags.statement_timeout,
        until_stdin_closes: flags.secret_on_stdin,
        runaway_after: flags.runaway_after,
    };
    punctual_engine::run(options).map(|()| 0).map_err(Stop::failed)
}

fn duration(text: &str) -> Result<Duration, String> {
    let span = parse_span(text).ok_or_else(|| format!("{text:?} is not a duration; write 250ms, 30s, 5m or 1h"))?;
    Ok(Duration::from(span))
}

/// The first line of standard input. Read byte by byte: what follows is not ours to take.
fn read_secret() -> std::io::Result<String> {
    let mut secret = Vec::new();
    let mut byte = [0u8];
    loop {
        // Unbuffered, unlike `stdin()`.
        let read = rustix::io::read(rustix::stdio::stdin(), &mut byte)?;
        match (read, byte[0]) {
            (0, _) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            (_, b'\n') => break,
            (_, byte) if secret.len() < 1_024 => secret.push(byte),
            _ => return Err(std::io::Error::other("it is longer than 1024 bytes")),
        }
    }
    String::from_utf8(secret).map_err(std::io::Error::other)
}
