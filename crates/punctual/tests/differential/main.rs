//! What clients do, straight at a database and through the gateway in front of it: what they see is the same.
//!
//! ```text
//!   cases.txt ──▶ a runner for each driver ──┬─ straight ───────────────▶ Postgres
//!   catalogues.txt                           ├─ through a gateway ──────▶ Postgres
//!                                            └─ through one with two ───▶ Postgres twice
//! ```
//!
//! The statements are data; a runner is a small program in the driver's own language that carries them out and prints
//! whatever the driver sees of them: columns, types, values, tags, errors with all their fields, notices. Nobody says what
//! is right: the same runner's lines are compared. What a pooler cannot pass is named in the data, with its reason, and
//! must then be different. The second gateway takes turns between two clusters and keeps one idle connection to each, so
//! that two statements of a session seldom run on one connection.

mod cases;
mod compare;
mod dumps;
#[cfg(feature = "embedded")]
mod engine;
mod frames;
#[path = "../common/postgres.rs"]
mod postgres;
mod programs;
mod psql;
#[path = "../served/mod.rs"]
mod served;
mod tokio_driver;
mod world;

use compare::same;
use programs::{java, node, python, sqlx};
use world::World;

#[test]
fn there_are_statements_enough() {
    let cases = cases::all();
    let statements: usize = cases.iter().map(|case| case.steps.len()).sum();
    assert!(cases.len() >= 150 && statements >= 600, "{} cases, {statements} statements", cases.len());
}

#[test]
fn frames_are_the_same_byte_for_byte() {
    same("frames", &World::new(), frames::run);
}

#[test]
fn psql_sees_the_same() {
    same("psql", &World::new(), psql::run);
}

#[test]
fn psycopg_sees_the_same() {
    same("psycopg", &World::new(), python("psycopg"));
}

#[test]
fn psycopg2_sees_the_same() {
    same("psycopg2", &World::new(), python("psycopg2"));
}

#[test]
fn asyncpg_sees_the_same() {
    same("asyncpg", &World::new(), python("asyncpg"));
}

#[test]
fn pg8000_sees_the_same() {
    same("pg8000", &World::new(), python("pg8000"));
}

#[test]
fn sqlalchemy_sees_the_same() {
    let world = World::new();
    for driver in ["sqlalchemy+psycopg", "sqlalchemy+psycopg2", "sqlalchemy+pg8000"] {
        same(driver, &world, python(driver));
    }
}

#[test]
fn pgjdbc_sees_the_same() {
    same("pgjdbc", &World::new(), java());
}

#[test]
fn nodes_pg_sees_the_same() {
    same("node", &World::new(), node());
}

#[test]
fn tokio_postgres_sees_the_same() {
    same("tokio-postgres", &World::new(), tokio_driver::run);
}

#[test]
fn sqlx_sees_the_same() {
    same("sqlx", &World::new(), sqlx());
}
