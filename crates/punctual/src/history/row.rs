//! A row of history: all that is known of a query once it has ended.

use std::sync::Arc;

use punctual_core::admit::claim::Scan;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{QueryId, Units};
use punctual_core::query::{Ended, SqlState, Status};
use punctual_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::link::About;
use crate::settings::RecordSql;

/// The longest text that is written down; a longer one is cut. The hash of the text covers the whole.
pub const MAX_SQL: usize = 1 << 20;

/// The names that a row shows instead of ids.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The cluster that the query ran on last, if it was placed.
    pub cluster: Option<&'a Arc<str>>,
    /// Its class.
    pub class: &'a Arc<str>,
    /// The lane that it was admitted to.
    pub lane: Option<&'a Arc<str>>,
}

/// One ended query, recorded, imported or generated. Rows from elsewhere may know less: what is None there is null in
/// Parquet. The serialised form (postcard, fields in this order) is what logs hold: a change to it is a new
/// [`LOG_VERSION`](super::LOG_VERSION).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The query.
    pub query_id: Option<QueryId>,
    /// When it arrived.
    pub arrival: Time,
    /// When it was placed for the last time; None if it never was, or if that is not known.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Time,
    /// The name of the cluster that it ran on last.
    #[serde(with = "shared_option")]
    pub cluster: Option<Arc<str>>,
    /// That cluster's size.
    pub cluster_size: Option<Units>,
    /// The name of its class.
    #[serde(with = "shared_option")]
    pub class: Option<Arc<str>>,
    /// The name of its lane.
    #[serde(with = "shared_option")]
    pub lane: Option<Arc<str>>,
    /// The user that sent it.
    #[serde(with = "shared_option")]
    pub user: Option<Arc<str>>,
    /// The database that it was sent to.
    #[serde(with = "shared_option")]
    pub database: Option<Arc<str>>,
    /// The application that sent it.
    #[serde(with = "shared_option")]
    pub application: Option<Arc<str>>,
    /// Its literal-free shape.
    pub fingerprint: Fingerprint,
    /// A keyed hash of its whole text: equal for equal texts of one history.
    pub text_hash: Option<u64>,
    /// Its text or its shape, as the settings want it.
    #[serde(with = "shared_option")]
    pub sql: Option<Arc<str>>,
    /// What predictions are made from.
    pub features: Option<Vec<f32>>,
    /// Its latency target.
    pub slo: Option<Span>,
    /// The median of the latency that was predicted when it was placed.
    pub predicted_p50: Option<Span>,
    /// The 90 % quantile of that.
    pub predicted_p90: Option<Span>,
    /// The latency that was predicted for it alone on its cluster.
    pub isolated: Option<Span>,
    /// How it ended.
    pub status: Option<Status>,
    /// The code of the error that its client saw.
    pub sqlstate: Option<SqlState>,
    /// Rows sent to its client.
    pub rows: Option<u64>,
    /// Bytes of results sent to its client.
    pub bytes: Option<u64>,
    /// The priority by which it was admitted.
    pub priority: Option<i32>,
    /// The priority that its client asked for.
    pub priority_asked: Option<i32>,
    /// How much of time it read; None: not known, or it read no table with a column of time.
    pub scan: Option<Scan>,
    /// How long its result waited for its client to take it.
    pub blocked: Option<Span>,
    /// The part of a trace that it belongs to: `train`, `val` or `test`. Traces have it, logs do not.
    #[serde(skip)]
    pub split: Option<Arc<str>>,
    /// Somebody else's prediction of its latency, to compare with and never to learn from. Traces have it, logs do not.
    #[serde(skip)]
    pub published: Option<Span>,
}

impl Row {
    /// A row of which no more is known than a row must have.
    pub fn new(arrival: Time, ended: Time, fingerprint: Fingerprint) -> Row {
        Row {
            query_id: None,
            arrival,
            started: None,
            ended,
            cluster: None,
            cluster_size: None,
            class: None,
            lane: None,
            user: None,
            database: None,
            application: None,
            fingerprint,
            text_hash: None,
            sql: None,
            features: None,
            slo: None,
            predicted_p50: None,
            predicted_p90: None,
            isolated: None,
            status: None,
            sqlstate: None,
            rows: None,
            bytes: None,
            priority: None,
            priority_asked: None,
            scan: None,
            blocked: None,
            split: None,
            published: None,
        }
    }

    /// The row of a query that ended here, without the hash of its text: that takes long enough for a long text to be
    /// left to the thread that writes. Copies pointers only.
    pub fn of(ended: &Ended, about: &About, names: Names<'_>, sql: RecordSql) -> Row {
        Row {
            query_id: Some(ended.query.id),
            cluster: names.cluster.cloned(),
            class: Some(names.class.clone()),
            lane: names.lane.cloned(),
            user: Some(about.user.clone()),
            database: Some(about.database.clone()),
            application: Some(about.application.clone()),
            sql: match sql {
                RecordSql::Shape => Some(about.shape.clone()),
                RecordSql::Text => Some(about.text.clone()),
                RecordSql::Nothing => None,
            },
            ..Row::anonymous(ended)
        }
    }

    /// What decisions know of a query that ended: all but who sent it, its text, and names.
    pub(crate) fn anonymous(ended: &Ended) -> Row {
        Row {
            started: ended.placed,
            cluster_size: ended.cluster.map(|(_, units)| units),
            text_hash: ended.query.traits.as_ref().map(|traits| traits.text),
            features: ended.query.traits.as_ref().map(|traits| traits.features.to_vec()),
            slo: ended.query.slo,
            predicted_p50: ended.predicted.map(|predicted| predicted.p50),
            predicted_p90: ended.predicted.map(|predicted| predicted.p90),
            isolated: ended.predicted.map(|predicted| predicted.isolated),
            status: Some(ended.status),
            sqlstate: ended.sqlstate,
            rows: Some(ended.rows),
            bytes: Some(ended.bytes),
            priority: Some(ended.priority),
            priority_asked: ended.query.claim.priority,
            scan: ended.query.claim.scan,
            blocked: Some(ended.blocked),
            ..Row::new(ended.arrived, ended.ended, ended.query.fingerprint)
        }
    }

    /// Latency as an SLO sees it: from arrival to the end, its wait for a cluster included, its wait for its client not. Zero
    /// if the clock went back meanwhile.
    pub fn latency(&self) -> Span {
        self.ended.since(self.arrival) - self.blocked.unwrap_or_default()
    }

    /// When it would have ended with a client that takes all at once.
    pub fn done(&self) -> Time {
        self.arrival + self.latency()
    }

    /// Bytes of text and numbers that it holds, roughly.
    pub(crate) fn weight(&self) -> usize {
        let names = [&self.cluster, &self.class, &self.lane, &self.user, &self.database, &self.application];
        let texts = names.into_iter().chain([&self.sql, &self.split]);
        let text: usize = texts.flatten().map(|text| text.len()).sum();
        size_of::<Row>() + text + self.features.as_ref().map_or(0, |features| features.len() * size_of::<f32>())
    }

    /// Cuts what is longer than is written down.
    pub(crate) fn cut(&mut self) {
        if let Some(sql) = self.sql.as_mut().filter(|sql| sql.len() > MAX_SQL) {
            *sql = sql[..sql.floor_char_boundary(MAX_SQL)].into();
        }
    }
}

/// Shared text is written like any other.
mod shared_option {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(text: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
        text.as_deref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<str>>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Arc::from))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use punctual_core::admit::claim::Claim;
    use punctual_core::class::DEFAULT;
    use punctual_core::id::{ClusterId, LaneId, SessionId};
    use punctual_core::query::Query;
    use punctual_core::statement::Kind;

    use super::*;

    /// Any row: times as far as Parquet's microseconds and seconds in floating point carry them exactly.
    pub(crate) fn any_row() -> impl Strategy<Value = Row> {
        let time = || (0..1u64 << 50).prop_map(Time::from_micros);
        let span = || proptest::option::of((0..1u64 << 50).prop_map(Span::from_micros));
        let text = || proptest::option::of("\\PC{0,12}".prop_map(Arc::<str>::from));
        let whole = || proptest::option::of(any::<u64>());
        let who = (text(), text(), text(), text(), text(), text(), text());
        let when = (time(), proptest::option::of(time()), time(), span(), span(), span(), span());
        let features = proptest::option::of(proptest::collection::vec(-1e30f32..1e30, 0..5));
        let state = proptest::option::of("[A-Z0-9]{5}");
        let status = proptest::option::of(proptest::sample::select(Status::ALL.to_vec()));
        let size = proptest::option::of(any::<u32>().prop_map(Units));
        let scan = (span(), span(), proptest::option::of(any::<u32>()), span());
        let scan = scan.prop_map(|(reach, duration, segments, segment_range)| {
            let segment_range = segment_range.filter(|_| segments.is_some());
            Scan { reach, duration, segments, segment_range }
        });
        let asks = (any::<i32>(), proptest::option::of(any::<i32>()), proptest::option::of(scan), span());
        let id = (whole(), asks);
        let end = (features, state, status, size);
        (who, when, end, any::<u64>(), id, whole(), whole(), whole()).prop_map(
            |(who, when, end, fingerprint, (id, asks), hash, rows, bytes)| Row {
                query_id: id.map(QueryId),
                started: when.1,
                cluster: who.0,
                cluster_size: end.3,
                class: who.1,
                lane: who.2,
                user: who.3,
                database: who.4,
                application: who.5,
                text_hash: hash,
                sql: who.6,
                features: end.0,
                slo: when.3,
                predicted_p50: when.4,
                predicted_p90: when.5,
                isolated: when.6,
                status: end.2,
                sqlstate: end.1.map(|code| SqlState(code.into_bytes().try_into().unwrap())),
                rows,
                bytes,
                priority: Some(asks.0),
                priority_asked: asks.1,
                scan: asks.2,
                blocked: asks.3,
                ..Row::new(when.0, when.2, Fingerprint(fingerprint))
            },
        )
    }

    fn a_scan() -> Scan {
        Scan { reach: Some(Span::from_secs(86_400)), duration: None, segments: Some(2), segment_range: None }
    }

    /// A query that ended, and what the driver knows of it.
    pub(crate) fn an_end(id: u64, ended: Time) -> (Ended, About) {
        let query = Query {
            id: QueryId(id),
            session: SessionId(1),
            fingerprint: Fingerprint(0xabcd),
            kind: Kind::Select,
            class: DEFAULT,
            slo: Some(Span::from_secs(2)),
            claim: Claim { priority: Some(3), scan: Some(a_scan()), ..Claim::default() },
            traits: None,
        };
        let ended = Ended {
            query,
            priority: -2,
            lane: LaneId(1),
            cluster: Some((ClusterId(3), Units(8))),
            arrived: Time::from_micros(ended.micros().saturating_sub(1_000_000)),
            placed: Some(Time::from_micros(ended.micros().saturating_sub(900_000))),
            ended,
            blocked: Span::from_micros(250_000),
            status: Status::Failed,
            sqlstate: Some(SqlState(*b"22012")),
            rows: 5,
            bytes: 60,
            violated: Some(true),
            predicted: None,
        };
        let about = About {
            user: "ada".into(),
            database: "shop".into(),
            application: "bi".into(),
            text: "select 1/0".into(),
            shape: "select ? / ?".into(),
        };
        (ended, about)
    }

    #[test]
    fn a_row_says_what_ended_where_and_for_whom() {
        let (ended, about) = an_end(7, Time::from_micros(5_000_000));
        let (cluster, class) = (Arc::from("blue"), Arc::from("default"));
        let lane = Arc::from("low");
        let names = Names { cluster: Some(&cluster), class: &class, lane: Some(&lane) };
        let row = Row::of(&ended, &about, names, RecordSql::Shape);
        let expected = Row {
            query_id: Some(QueryId(7)),
            started: Some(Time::from_micros(4_100_000)),
            cluster: Some("blue".into()),
            cluster_size: Some(Units(8)),
            class: Some("default".into()),
            lane: Some("low".into()),
            user: Some("ada".into()),
            database: Some("shop".into()),
            application: Some("bi".into()),
            sql: Some("select ? / ?".into()),
            slo: Some(Span::from_secs(2)),
            status: Some(Status::Failed),
            sqlstate: Some(SqlState(*b"22012")),
            rows: Some(5),
            bytes: Some(60),
            priority: Some(-2),
            priority_asked: Some(3),
            scan: Some(a_scan()),
            blocked: Some(Span::from_micros(250_000)),
            ..Row::new(Time::from_micros(4_000_000), Time::from_micros(5_000_000), Fingerprint(0xabcd))
        };
        assert_eq!(row, expected);
        assert_eq!(row.latency(), Span::from_micros(750_000));
        assert_eq!(row.done(), Time::from_micros(4_750_000));
    }

    #[test]
    fn of_the_text_only_what_is_wanted_is_kept() {
        let (ended, about) = an_end(7, Time::from_micros(5_000_000));
        let class = Arc::from("default");
        let sql = |record| Row::of(&ended, &about, Names { cluster: None, class: &class, lane: None }, record).sql;
        assert_eq!(sql(RecordSql::Text).as_deref(), Some("select 1/0"));
        assert_eq!(sql(RecordSql::Shape).as_deref(), Some("select ? / ?"));
        assert_eq!(sql(RecordSql::Nothing), None);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let mut row = Row::new(Time::ZERO, Time::ZERO, Fingerprint(1));
        row.sql = Some(format!("x{}", "é".repeat(MAX_SQL)).into());
        row.cut();
        assert_eq!(row.sql.unwrap().len(), MAX_SQL - 1);
    }

    #[test]
    fn the_logged_form_is_the_one_that_its_version_means() {
        let (ended, about) = an_end(7, Time::from_micros(5_000_000));
        let (cluster, class) = (Arc::from("blue"), Arc::from("default"));
        let names = Names { cluster: Some(&cluster), class: &class, lane: None };
        let bytes = postcard::to_stdvec(&Row::of(&ended, &about, names, RecordSql::Text)).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        expect_test::expect!["01078092f40101a09ffa01c096b1020104626c75650108010764656661756c74000103616461010473686f7001026269cdd70200010a73656c65637420312f30000180897a00000001010132323031320105013c01030106010180c0ddeec102000102000190a10f"].assert_eq(&hex);
    }

    proptest! {
        #[test]
        fn any_row_survives_its_logged_form(row in any_row()) {
            let bytes = postcard::to_stdvec(&row).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Row>(&bytes).unwrap(), row);
        }
    }
}
