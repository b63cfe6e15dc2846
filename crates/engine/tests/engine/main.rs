//! A cluster as its clients see it: through tokio-postgres and psql, over its socket.

mod cancel;
mod errors;
mod protocol;
mod psql;
mod queries;
mod simulated;
mod starting;
mod support;

/// Not a test: the process of a cluster, started by the tests.
#[test]
#[ignore = "the tests start it themselves"]
fn serve() {
    support::serve();
}
