//! Connections to clusters: how they begin, and which of them are used again.

mod common;

use std::sync::Arc;

use common::postgres::Postgres;
use punctual::relay::{ConnectError, KnownTypes, Pool, probe, tend};
use punctual::settings::{Address, Door, Endpoint, Login, Secret};
use punctual_core::id::{ClusterId, Generation};
use punctual_core::time::Span;
use tokio::net::TcpListener;

fn pool(door: Door) -> Arc<Pool> {
    let endpoint = Postgres::shared().endpoint();
    Arc::new(Pool::new(ClusterId(0), Generation(1), "pg".into(), endpoint, (door, 4)))
}

fn endpoint(user: &str, password: Option<&str>) -> Endpoint {
    let usual = Postgres::shared().endpoint();
    let password = password.map(|password| Secret::new(password.into()));
    let login = Login { user: Some(user.into()), password, database: Some("postgres".into()), ..Login::default() };
    Endpoint { login, ..usual }
}

#[tokio::test]
async fn every_way_to_prove_who_one_is_is_known() {
    for user in ["scram", "md5", "plain", "ann"] {
        let facts = probe(&endpoint(user, Some("opensesame")), Span::from_secs(10)).await.unwrap();
        assert!(facts.get("server_version").is_some(), "{user}");
    }
}

#[tokio::test]
async fn why_there_is_no_connection_is_told_apart() {
    let within = Span::from_secs(10);
    let wrong = probe(&endpoint("scram", Some("opensesam")), within).await.unwrap_err();
    assert!(wrong.is_the_clients(), "{wrong}");
    let none = probe(&endpoint("scram", None), within).await.unwrap_err();
    assert_eq!(none.to_string(), "authentication failed: a password is asked for and none is configured");
    let nobody = probe(&endpoint("nobody", None), within).await.unwrap_err();
    assert!(nobody.is_the_clients(), "{nobody}");
    let address = Address::Unix("/nonexistent/socket".into());
    let nowhere = Endpoint { address, login: Login::default() };
    let unreachable = probe(&nowhere, within).await.unwrap_err();
    assert!(matches!(unreachable, ConnectError::Unreachable { .. }));
    assert!(unreachable.to_string().starts_with("connecting to /nonexistent/socket failed: "));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_and_one_that_talks_nonsense_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = Address::Tcp { host: "127.0.0.1".into(), port };
    let endpoint = Endpoint { address, login: Login::default() };
    let error = probe(&endpoint, Span::from_millis(10)).await.unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    let nonsense = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            std::mem::forget(stream);
        }
    };
    tokio::select! {
        () = nonsense => {}
        error = probe(&endpoint, Span::from_secs(10)) => {
            assert!(matches!(error, Err(ConnectError::Garbled(_))), "{error:?}");
        }
    }
}

#[tokio::test]
async fn the_connection_used_last_is_taken_first_and_the_oldest_goes() {
    let pool = pool(Door { max_idle_connections: Some(2), ..Door::default() });
    let mut leases = Vec::new();
    for _ in 0..3 {
        leases.push(pool.lease("ann", "postgres").await.unwrap());
    }
    let keys: Vec<_> = leases.iter().map(|lease| lease.key.clone()).collect();
    leases.into_iter().for_each(|lease| lease.give_back());
    assert_eq!(pool.idle(), 2);
    assert_eq!(pool.lease("ann", "postgres").await.unwrap().key, keys[2]);
    assert_eq!(pool.lease("ann", "postgres").await.unwrap().key, keys[1]);
}

#[tokio::test]
async fn a_connection_is_used_again_only_by_its_own_user_and_only_if_it_is_well() {
    let pool = pool(Door::default());
    let lease = pool.lease("ann", "postgres").await.unwrap();
    let ann = lease.key.clone();
    lease.give_back();
    let bob = pool.lease("bob", "postgres").await.unwrap();
    assert_ne!(bob.key, ann);
    let mut lease = pool.lease("ann", "postgres").await.unwrap();
    assert_eq!(lease.key, ann);
    lease.tainted = true;
    lease.give_back();
    assert_eq!(pool.idle(), 0);
    drop(bob);
    assert_eq!(pool.idle(), 0);
}

#[tokio::test]
async fn a_closed_pool_lends_nothing_and_takes_nothing_back() {
    let pool = pool(Door::default());
    let lease = pool.lease("ann", "postgres").await.unwrap();
    pool.lease("ann", "postgres").await.unwrap().give_back();
    pool.close();
    assert_eq!(pool.idle(), 0);
    lease.give_back();
    assert_eq!(pool.idle(), 0);
    assert!(matches!(pool.lease("ann", "postgres").await, Err(ConnectError::Closed)));
}

#[tokio::test]
async fn as_many_lie_idle_as_make_up_the_slots_with_those_in_use() {
    let pool = pool(Door::default());
    let mut leases = Vec::new();
    for _ in 0..6 {
        leases.push(pool.lease("ann", "postgres").await.unwrap());
    }
    leases.drain(..2).for_each(|lease| lease.give_back());
    assert_eq!(pool.idle(), 0, "four are in use");
    leases.drain(..3).for_each(|lease| lease.give_back());
    assert_eq!(pool.idle(), 3);
    // Two of them have to go for bob: a cluster does not have to hold more than its slots for that.
    let bob = [pool.lease("bob", "postgres").await.unwrap(), pool.lease("bob", "postgres").await.unwrap()];
    assert_eq!(pool.idle(), 1);
    drop((leases, bob));
    pool.lease("ann", "postgres").await.unwrap().give_back();
    assert_eq!(pool.idle(), 1);
}

#[tokio::test]
async fn what_is_old_is_closed_and_what_will_be_needed_is_opened() {
    let old = pool(Door { connection_idle_timeout: Span::from_millis(1), ..Door::default() });
    old.lease("ann", "postgres").await.unwrap().give_back();
    let tended = tokio::spawn(tend(Arc::downgrade(&old), Arc::default()));
    while old.idle() > 0 {
        tokio::task::yield_now().await;
    }
    drop(old);
    tended.await.unwrap();

    let ahead = pool(Door { min_idle_connections: 2, ..Door::default() });
    drop(ahead.lease("ann", "postgres").await.unwrap());
    // One who comes to any cluster is expected at all.
    let other = pool(Door { min_idle_connections: 1, ..Door::default() });
    other.expect_visitors_of([&ahead]);
    for pool in [&ahead, &other] {
        tokio::spawn(tend(Arc::downgrade(pool), Arc::default()));
    }
    while (ahead.idle(), other.idle()) != (2, 1) {
        tokio::task::yield_now().await;
    }
    assert!(other.lease("ann", "postgres").await.unwrap().reused);
}

/// Runs statements on a database, one by one.
async fn on(database: &str, statements: &[&str]) {
    let mut config = tokio_postgres::Config::new();
    config.host_path(Postgres::shared().dir()).user("postgres").dbname(database);
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
}

#[tokio::test]
async fn types_that_users_make_are_known_once_somebody_has_come() {
    let (mood, size) = ("create type mood as enum ('good')", "create type size as enum ('large')");
    on("postgres", &["create database one", "create database two"]).await;
    on("one", &[mood, size, "create table t (m mood)"]).await;
    on("two", &[size, mood]).await;
    let known = Arc::new(KnownTypes::default());
    // Two clusters, each with its own idea of what the clients' database is.
    let clusters = ["one", "two"].map(|name| {
        let usual = Postgres::shared().endpoint();
        let login = Login { database: Some(name.into()), ..Login::default() };
        let endpoint = Endpoint { login, ..usual };
        Arc::new(Pool::new(ClusterId(0), Generation(1), name.into(), endpoint, (Door::default(), 4)))
    });
    for cluster in &clusters {
        cluster.lease("ann", "shop").await.unwrap().give_back();
        tokio::spawn(tend(Arc::downgrade(cluster), Arc::clone(&known)));
    }
    while known.clusters("shop") != ["one", "two"] {
        tokio::task::yield_now().await;
    }
    let oid = |cluster: &str, name: &str| known.oid(cluster, "shop", name);
    for name in ["public.mood", "public.size"] {
        assert!(oid("one", name).is_some() && oid("one", name) != oid("two", name), "{name}: {known:?}");
    }
    assert_eq!(oid("one", "public.t"), None, "a table's rows");
}
