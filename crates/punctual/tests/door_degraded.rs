//! Drivers that are silent or say odd things: sessions go on, within the slots there are, and nobody is left waiting.

mod common;

use std::sync::Arc;

use common::FixedAnswers;
use common::postgres::Postgres;
use punctual::door::{InForce, Rules, Shared, serve};
use punctual::driver::fallback::Fallback;
use punctual::link::{Link, Order, Report, Reports};
use punctual::relay::Pool;
use punctual::settings::{Address, Door, Endpoint, Login};
use punctual_core::Event;
use punctual_core::class::Class;
use punctual_core::event::{Abandoned, LossCause};
use punctual_core::id::{ClusterId, Generation};
use punctual_core::time::Span;
use tokio::net::TcpListener;
use tokio_postgres::{Client, Config, NoTls};

/// A front door whose driver takes reports and never answers.
struct Silent {
    fallback: Arc<Fallback>,
    port: u16,
    reports: Reports,
}

impl Silent {
    async fn start(wait_limit: Span) -> Silent {
        let (link, reports) = Link::new();
        let fallback = Fallback::new(wait_limit);
        let answers = Arc::new(FixedAnswers);
        let in_force = InForce::new(Rules::new(Door::default(), Class::built_in()));
        let guard = Arc::new(punctual::door::Guard::trusting().expect("random numbers"));
        let shared = Shared::new(1, in_force, 1, answers, Arc::clone(&fallback), guard);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        tokio::spawn(serve(listener, link, Arc::new(shared)));
        Silent { fallback, port, reports }
    }

    fn one_slot(&self) {
        let endpoint = Postgres::shared().endpoint();
        let pool = Pool::new(ClusterId(0), Generation(0), "pg".into(), endpoint, (Door::default(), 4));
        self.fallback.set(vec![(Arc::new(pool), 1)]);
    }

    async fn client(&self) -> Client {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("ann").dbname("postgres");
        let (client, connection) = config.connect(NoTls).await.expect("the door lets us in");
        tokio::spawn(connection);
        client
    }
}

async fn number(client: &Client, sql: &str) -> i32 {
    client.query_one(sql, &[]).await.expect("an answer").get(0)
}

#[tokio::test]
async fn a_query_that_waits_for_a_dead_dispatcher_goes_on_without_it() {
    let mut silent = Silent::start(Span::from_secs(60)).await;
    silent.one_slot();
    let client = silent.client().await;
    let waiting = tokio::spawn(async move { number(&client, "select 40 + 2 from pg_class limit 1").await });
    // What is asked is kept, and never answered.
    let mut asked = Vec::new();
    while !matches!(asked.last(), Some(Report::Arrived { .. } | Report::AnyCluster { .. })) {
        asked.push(silent.reports.recv().await.expect("the session reports"));
    }
    silent.fallback.turn_on();
    assert_eq!(waiting.await.expect("it goes on"), 42);
}

#[tokio::test]
async fn a_transaction_keeps_its_slot_in_degraded_mode_too() {
    let silent = Silent::start(Span::from_secs(60)).await;
    silent.one_slot();
    silent.fallback.turn_on();
    let (first, second) = (silent.client().await, silent.client().await);
    first.batch_execute("begin").await.expect("a transaction");
    let other = second.query_one("select 2", &[]);
    futures::pin_mut!(other);
    for _ in 0..100 {
        assert!(futures::poll!(&mut other).is_pending(), "the transaction holds the only slot");
        assert_eq!(number(&first, "select 1").await, 1);
    }
    first.batch_execute("commit").await.expect("its end");
    assert_eq!(other.await.expect("an answer").get::<_, i32>(0), 2);
}

#[tokio::test]
async fn without_a_free_slot_the_wait_has_its_limit() {
    let silent = Silent::start(Span::ZERO).await;
    silent.fallback.turn_on();
    let error = silent.client().await.simple_query("select count(*) from t").await.expect_err("no cluster");
    assert_eq!(error.code().map(|code| code.code()), Some("53300"));
}

#[tokio::test]
async fn a_query_that_is_abandoned_after_it_bounced_is_answered() {
    let mut silent = Silent::start(Span::from_secs(60)).await;
    let client = silent.client().await;
    let asked = tokio::spawn(async move { client.simple_query("select count(*) from t").await });
    let (mut mailbox, mut id) = (None, None);
    loop {
        match silent.reports.recv().await.expect("the session reports") {
            Report::Joined { mailbox: joined, .. } => mailbox = Some(joined),
            Report::Arrived { query, .. } => {
                let address = Address::Unix("/nowhere".into());
                let endpoint = Endpoint { address, login: Login::default() };
                let gone = Pool::new(ClusterId(0), Generation(0), "gone".into(), endpoint, (Door::default(), 4));
                id = Some(query.id);
                let order = Order::Run { query: query.id, on: Arc::new(gone) };
                mailbox.as_ref().expect("it joined").send(order).expect("it listens");
            }
            // The dispatcher has heard of the cluster's end first, and has ended the query.
            Report::Happened(Event::Bounced { .. }) => break,
            _ => {}
        }
    }
    let because = Abandoned::ClusterLost { cause: LossCause::Exited };
    let order = Order::Abandon { query: id.expect("it arrived"), because };
    mailbox.expect("it joined").send(order).expect("it listens");
    let error = asked.await.expect("it ends").expect_err("its cluster is gone");
    assert_eq!(error.code().map(|code| code.code()), Some("57P01"));
}
