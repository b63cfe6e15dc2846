//! `[[cluster]]`: what there is to run queries on.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_core::billing::Price;
use punctual_core::cluster::Spec;
use punctual_core::id::Units;
use punctual_engine::scale;

use super::access;
use super::keys::ONLY_FOR;
use super::section::Section;
use super::value::{self, Wrong, quoted};
use crate::auth::credentials::Credentials;
use crate::auth::private::{self, Keep, Unopened};
use crate::settings::{Address, Cluster, ClusterKind, Embedded, Endpoint, Exec, Login, Secret, Simulated, Tables};
use crate::tls::trust::{Authorities, ClusterTls, Connector, Trust};

/// Slots for each unit of size, where they are not written.
const SLOTS_PER_UNIT: u32 = 4;

/// The keys that say where tables come from, of which a cluster has one.
const SOURCES: [&str; 3] = ["tables", "tpch", "tpcds"];

/// The largest file that is read as a password.
const MAX_SECRET: u64 = 4_096;

/// The clusters in the order of the file.
pub(super) fn read(sections: &[Section<'_>], max_clusters: u32) -> Vec<Cluster> {
    let mut clusters = Vec::with_capacity(sections.len());
    let mut seen = BTreeSet::new();
    for (index, section) in sections.iter().enumerate() {
        if index == max_clusters as usize {
            section.complain_of_all(
                format!("there are more than {max_clusters} clusters"),
                "raise `policy.max_clusters`, or leave some out",
            );
        }
        let cluster = cluster(section);
        let name = &cluster.spec.name;
        if !name.is_empty() && !seen.insert(name.clone()) {
            section.complain("name", format!("there is a cluster \"{name}\" already"), "give one of them another name");
        }
        clusters.push(cluster);
    }
    clusters
}

fn cluster(section: &Section<'_>) -> Cluster {
    let kind = section.choice("kind");
    for (owners, keys) in ONLY_FOR.iter().filter(|(owners, _)| kind.is_some_and(|kind| !owners.contains(&kind))) {
        for key in keys.iter().filter(|key| section.has(key)) {
            let owners = owners.join("\" or \"");
            section.complain(key, format!("only clusters of kind \"{owners}\" have it"), "leave it out");
        }
    }
    let units = section.count32("size");
    let spec = Spec {
        name: section.text("name").unwrap_or_default(),
        units: Units(units),
        slots: if section.has("slots") { section.count32("slots") } else { units.saturating_mul(SLOTS_PER_UNIT) },
        price: Price {
            per_unit_hour: section.number("price_per_unit_hour").unwrap_or_default(),
            minimum: section.span_or_default("minimum_billed"),
        },
        killable: kind != Some("postgres"),
        offer: (section.choice("keep") == Some("scaled")).then(|| section.text("name").unwrap_or_default()),
        writer: section.choice("role") == Some("writer"),
    };
    let initial = initial(section, &spec, kind);
    let kind = match kind {
        Some("postgres") => ClusterKind::Address(endpoint(section)),
        Some("exec") => ClusterKind::Exec(Arc::new(exec(section))),
        Some("simulated") => ClusterKind::Simulated(simulated(section)),
        Some("embedded") => ClusterKind::Embedded(embedded(section)),
        // Noted already; what stands here is not used.
        _ => ClusterKind::Simulated(Simulated::default()),
    };
    Cluster { spec, initial, kind }
}

/// How many like it are started at the start.
fn initial(section: &Section<'_>, spec: &Spec, kind: Option<&str>) -> u32 {
    if spec.offer.is_none() {
        if section.has("initial") {
            section.complain("initial", "it is there for good, once", "write `keep = \"scaled\"`, or leave it out");
        }
        return 1;
    }
    if kind == Some("postgres") {
        section.complain("keep", "what is there already can be neither started nor stopped", "leave it out");
    }
    section.count32("initial")
}

fn exec(section: &Section<'_>) -> Exec {
    Exec {
        start: words(section, "start"),
        stop: words(section, "stop"),
        list: words(section, "list"),
        start_within: section.span_or_default("start_within"),
        login: login(section),
    }
}

/// As whom to connect, and how.
fn login(section: &Section<'_>) -> Login {
    let credentials = section.path("credentials_file").and_then(|path| match Credentials::read(&path) {
        Ok(credentials) => Some(Arc::new(credentials)),
        Err(error) => {
            access::unusable(section, "credentials_file", &error);
            None
        }
    });
    Login {
        credentials,
        user: section.text("user"),
        password: password_of_user(section),
        database: section.text("database"),
        tls: tls(section),
    }
}

/// Whether connections are encrypted.
fn tls(section: &Section<'_>) -> ClusterTls {
    let wanted = section.choice("tls");
    let verifies = matches!(wanted, Some("verify-ca" | "verify-full"));
    if !verifies && section.has("tls_ca") {
        let fix = "write `tls = \"verify-full\"`, or leave it out";
        section.complain("tls_ca", "no certificate is looked at, so it is of no use", fix);
    }
    let trust = if verifies {
        if !section.has("tls_ca") {
            let fix = "write `tls_ca` too: a file with the authorities in PEM, such as \"/etc/ssl/certs/ca-certificates.crt\"";
            section.complain("tls", "nothing says which authorities are trusted", fix);
        }
        match section.path("tls_ca").map(|path| Authorities::read(&path)) {
            Some(Ok(trusted)) if wanted == Some("verify-ca") => Trust::Led(trusted),
            Some(Ok(trusted)) => Trust::Named(trusted),
            Some(Err(error)) => {
                section.complain("tls_ca", error.to_string(), "write a file with certificates in PEM");
                return ClusterTls::Off;
            }
            None => return ClusterTls::Off,
        }
    } else {
        Trust::Anyone
    };
    match (wanted, Connector::new(trust)) {
        (Some("off"), _) => ClusterTls::Off,
        (Some("preferred"), Ok(connector)) => ClusterTls::Preferred(connector),
        (_, Ok(connector)) => ClusterTls::Required(connector),
        (_, Err(error)) => {
            section.complain("tls_ca", format!("a certificate of it cannot be trusted: {error}"), "leave that one out");
            ClusterTls::Off
        }
    }
}

/// A command, which must be there: a program and its arguments.
fn words(section: &Section<'_>, key: &str) -> Vec<String> {
    const FIX: &str = "write the program and its arguments, as in [\"/opt/warehouse.sh\", \"start\"]";
    if !section.has(key) {
        section.complain_of_all(format!("`{key}` is missing"), FIX);
        return Vec::new();
    }
    if section.list(key, "texts").is_empty() {
        section.complain(key, "it names no program", FIX);
    }
    section.words(key, FIX)
}

fn simulated(section: &Section<'_>) -> Simulated {
    Simulated {
        time_scale: section.number("time_scale").unwrap_or(1.0),
        warehouse: section.choice("warehouse") == Some("yes"),
        start_takes: section.span_or_default("start_takes"),
    }
}

fn embedded(section: &Section<'_>) -> Embedded {
    Embedded {
        tables: tables(section),
        threads_per_unit: section.count32("threads_per_unit"),
        memory_per_unit: section.bytes("memory_per_unit"),
    }
}

/// Where the tables come from. What stands here beside a complaint is not used.
fn tables(section: &Section<'_>) -> Tables {
    let written: Vec<&str> = SOURCES.into_iter().filter(|key| section.has(key)).collect();
    match written[..] {
        ["tables"] => Tables::Dirs(dirs(section)),
        ["tpch"] => Tables::Tpch { scale_factor: section.number("tpch").unwrap_or_default() },
        ["tpcds"] => Tables::Tpcds { scale_factor: tpcds(section) },
        [first, ref others @ ..] => {
            for key in others {
                section.complain(
                    key,
                    format!("`{first}` is written too, and a cluster has one set of tables"),
                    "leave one of them out",
                );
            }
            Tables::Dirs(Vec::new())
        }
        [] => {
            section.complain_of_all(
                "nothing says which tables it has",
                "write `tables = [\"/path/of/parquet/files\"]`, or `tpch = 0.1` for generated ones",
            );
            Tables::Dirs(Vec::new())
        }
    }
}

/// The scale factor of TPC-DS, of which there are only some.
fn tpcds(section: &Section<'_>) -> f64 {
    let Some(scale_factor) = section.number("tpcds") else { return 0.0 };
    if !scale::is_tpcds(scale_factor) {
        let fix = format!("write {}", scale::TPCDS);
        section.complain("tpcds", format!("there is no scale factor {scale_factor}"), fix);
    }
    scale_factor
}

/// The directories of `tables`, which must be there.
fn dirs(section: &Section<'_>) -> Vec<PathBuf> {
    let items = section.list("tables", "directories");
    if items.is_empty() {
        section.complain("tables", "it names no directory", "write at least one");
    }
    items
        .into_iter()
        .filter_map(|item| {
            let note = |found: String, fix: &str| {
                section.file().note(item.span().start, &section.key_called("tables"), found, fix);
            };
            match value::path(item.get_ref()) {
                Err(Wrong { found, fix }) => {
                    note(found, &fix);
                    None
                }
                Ok(path) => {
                    let path = section.file().base.join(path);
                    if let Some(found) = not_a_directory(&path) {
                        note(found, "write a directory that is there, with Parquet files in it");
                    }
                    Some(path)
                }
            }
        })
        .collect()
}

fn not_a_directory(path: &Path) -> Option<String> {
    let shown = quoted(&path.display().to_string());
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(format!("{shown} is not a directory")),
        Err(cause) => Some(format!("cannot look into {shown}: {cause}")),
    }
}

fn endpoint(section: &Section<'_>) -> Endpoint {
    if !section.has("address") {
        section.complain_of_all("`address` is missing", "write \"host:port\" or \"unix:/path/of/socket\"");
    }
    let address = section.address("address").unwrap_or(Address::Unix(PathBuf::new()));
    Endpoint { address, login: login(section) }
}

/// The password of the user that is written.
fn password_of_user(section: &Section<'_>) -> Option<Secret> {
    let password = password(section);
    for key in ["password_env", "password_file"] {
        if section.has(key) && !section.has("user") {
            section.complain(key, "a password is of use only with the user whose it is", "write `user` too");
        }
    }
    password
}

/// The password, from the environment or from a file. Errors never show it.
fn password(section: &Section<'_>) -> Option<Secret> {
    if section.has("password_env") && section.has("password_file") {
        section.complain("password_file", "`password_env` is written too", "leave one of them out");
        return None;
    }
    let secret = if let Some(variable) = section.text("password_env") {
        let secret = (section.file().env)(&variable);
        if secret.is_none() {
            let found = format!("the environment has no text in {}", quoted(&variable));
            section.complain("password_env", found, "set it before starting, or use `password_file`");
        }
        secret?
    } else {
        let path = section.path("password_file")?;
        match read_secret(&path) {
            Ok(secret) => secret,
            Err(Unopened::Exposed(exposed)) => {
                let found = format!("{}: {exposed}", quoted(&path.display().to_string()));
                section.complain("password_file", found, exposed.fix());
                return None;
            }
            Err(Unopened::Io(cause)) => {
                let found = format!("cannot read {}: {cause}", quoted(&path.display().to_string()));
                section.complain("password_file", found, "write a file with the password and nothing else");
                return None;
            }
        }
    };
    if secret.is_empty() {
        let key = if section.has("password_env") { "password_env" } else { "password_file" };
        section.complain(key, "it holds an empty password", "put the password there, or leave the key out");
    }
    Some(Secret::new(secret))
}

fn read_secret(path: &Path) -> Result<String, Unopened> {
    let mut secret = String::new();
    let file = private::open(path, Keep::Secrets)?.file;
    file.take(MAX_SECRET + 1).read_to_string(&mut secret).map_err(Unopened::Io)?;
    if secret.len() as u64 > MAX_SECRET {
        return Err(Unopened::Io(std::io::Error::other(format!("it is larger than {MAX_SECRET} bytes"))));
    }
    // Editors end files with a newline, which no password has.
    secret.truncate(secret.trim_end_matches(['\n', '\r']).len());
    Ok(secret)
}
