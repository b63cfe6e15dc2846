//! An embedded engine in the place of a Postgres: whatever drivers see of it, they see through the gateway.

use std::path::{Path, PathBuf};

use punctual_engine::tpch;

use super::cases;
use super::compare::same_at;
use super::frames;
use super::programs::{java, node, python, sqlx};
use super::psql;
use super::served::{Engine, Served};
use super::tokio_driver;
use super::world::Place;

/// Its tables, made once for all tests of this checkout.
fn tables() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tpch::ensure(dir, 0.01, &mut |_| {}).expect("TPC-H is generated")
}

/// An engine to ask straight, and a gateway with one of its own.
struct Pair {
    engine: Engine,
    gateway: Served,
}

impl Pair {
    fn start() -> Pair {
        let tables = tables();
        let engine = Engine::start(&tables);
        let gateway = Served::start(&format!(
            "[[cluster]]\nname = \"a\"\nkind = \"embedded\"\nslots = 4\ntables = [{tables:?}]\n"
        ));
        gateway.wait_ready();
        Pair { engine, gateway }
    }

    fn places(&self) -> [Place; 2] {
        let place = |name, port| Place {
            name,
            port,
            database: "demo".to_owned(),
            new_oids: u32::MAX,
            files: vec![cases::file("engine.txt")],
        };
        [place("straight", self.engine.port), place("single", self.gateway.address.port())]
    }
}

#[test]
fn an_engine_looks_the_same_to_frames_and_psql() {
    let pair = Pair::start();
    same_at("frames", &pair.places(), frames::run);
    same_at("psql", &pair.places(), psql::run);
}

#[test]
fn an_engine_looks_the_same_to_drivers_in_python() {
    let pair = Pair::start();
    // With psycopg, SQLAlchemy asks for the type hstore by a function that the engine has not.
    let alchemy = ["sqlalchemy+psycopg2", "sqlalchemy+pg8000"];
    for driver in ["psycopg", "psycopg2", "asyncpg", "pg8000"].into_iter().chain(alchemy) {
        same_at(driver, &pair.places(), python(driver));
    }
}

#[test]
fn an_engine_looks_the_same_to_other_drivers() {
    let pair = Pair::start();
    same_at("tokio-postgres", &pair.places(), tokio_driver::run);
    same_at("sqlx", &pair.places(), sqlx());
    same_at("node", &pair.places(), node());
    same_at("pgjdbc", &pair.places(), java());
}
