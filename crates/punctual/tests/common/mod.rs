//! What the tests of the front door stand on: a real Postgres, and a gateway in front of it with a small driver.

#![allow(dead_code, unreachable_pub)]

pub mod driver;
pub mod mortal;
pub mod postgres;
pub mod raw;
pub mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use punctual::catalog::{Answer, Column, ColumnKind, Question};
use punctual::door::{AnswerError, Answers, Guard, InForce, Rules, Shared, serve};
use punctual::driver::fallback::Fallback;
use punctual::link::Link;
use punctual::settings::Door;
use punctual_core::Policy;
use punctual_core::class::Class;
use punctual_core::query::{Ended, SqlState};
use punctual_core::time::Span;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls};

use self::driver::{Driver, Knob};
use self::postgres::Postgres;

/// A gateway in front of clusters that are all the same Postgres.
pub struct Gateway {
    pub address: SocketAddr,
    pub shared: Arc<Shared>,
    pub link: Link,
    /// Ended queries, as they end.
    pub records: mpsc::UnboundedReceiver<Ended>,
    pub driver: mpsc::UnboundedSender<Knob>,
    listening: JoinHandle<()>,
}

/// How a gateway is to be.
pub struct Wanted {
    pub door: Door,
    pub policy: Policy,
    pub clusters: usize,
    pub slots: u32,
}

impl Default for Wanted {
    fn default() -> Wanted {
        let mut policy = Policy::default();
        let class = |name: &str, slo| Class { name: name.into(), slo, ..Class::default() };
        policy.classes.push(class("etl", Some(Span::from_secs(600))));
        policy.classes.push(class("dash", Some(Span::from_secs(2))));
        Wanted { door: Door::default(), policy, clusters: 1, slots: 8 }
    }
}

impl Gateway {
    pub async fn start(wanted: Wanted) -> Gateway {
        let postgres = Postgres::shared();
        let (link, reports) = Link::new();
        let (tell, records) = mpsc::unbounded_channel();
        let (driver, knobs) = mpsc::unbounded_channel();
        let classes = wanted.policy.classes.clone();
        let fallback = Fallback::new(wanted.policy.wait_limit);
        let in_force = InForce::new(Rules::new(wanted.door.clone(), classes));
        let guard = Arc::new(Guard::trusting().expect("random numbers"));
        let shared = Shared::new(1, in_force, 1, Arc::new(FixedAnswers), fallback, guard);
        let shared = Arc::new(shared);
        let driving = Driver::new(wanted.policy, wanted.door, postgres.endpoint(), tell);
        tokio::spawn(driving.run(reports, knobs));
        for at in 0..wanted.clusters {
            let _ = driver.send(Knob::Add { name: format!("pg{at}"), slots: wanted.slots, endpoint: None });
        }
        // The driver has seen them once it answers.
        link.look().await.expect("the driver is there");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let listening = tokio::spawn(serve(listener, link.clone(), Arc::clone(&shared)));
        Gateway { address, shared, link, records, driver, listening }
    }

    pub async fn usual() -> Gateway {
        Gateway::start(Wanted::default()).await
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.address.port()).user("ann").dbname("postgres");
        config
    }

    pub async fn connect(&self) -> Client {
        self.connect_with(&self.config()).await.expect("the gateway lets us in")
    }

    pub async fn connect_with(&self, config: &Config) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// The next query that ends, of those that are not housekeeping.
    pub async fn ended(&mut self) -> Ended {
        loop {
            let ended = self.records.recv().await.expect("the driver is there");
            if ended.query.class != punctual_core::class::CONTROL {
                return ended;
            }
        }
    }

    /// Waits until what the driver knows satisfies `until`.
    pub async fn wait_until(&self, until: impl Fn(&punctual_core::view::View) -> bool) {
        loop {
            let snapshot = self.link.look().await.expect("the driver is there");
            assert_eq!(snapshot.broken, 0, "an invariant of the dispatcher is broken");
            if until(&snapshot.view) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Answers every question with the same two rows of every kind.
pub struct FixedAnswers;

impl Answers for FixedAnswers {
    fn answer<'a>(
        &'a self,
        question: Question<'a>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Answer, AnswerError>> + Send + 'a>> {
        Box::pin(async move {
            assert!(!question.sql.contains("panics"), "as the test wants");
            if question.sql.contains("nothing") {
                let message = "no such table: punctual.nothing".to_owned();
                return Err(AnswerError { sqlstate: SqlState(*b"42P01"), message, hint: None });
            }
            let column = |name: &str, kind| Column { name: name.to_owned(), kind };
            let row = |values: [&str; 5]| values.map(|value| (value != "-").then(|| value.to_owned())).to_vec();
            Ok(Answer {
                columns: vec![
                    column("n", ColumnKind::Int8),
                    column("x", ColumnKind::Float8),
                    column("user", ColumnKind::Text),
                    column("ok", ColumnKind::Bool),
                    column("at", ColumnKind::Timestamptz),
                ],
                rows: vec![
                    row(["7", "1.5", question.user, "t", "2000-01-01 00:00:01+00"]),
                    row(["-", "-", "-", "f", "-"]),
                ],
            })
        })
    }
}

/// The SQLSTATE of an error that the server sent.
pub fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("none", |code| code.code())
}
