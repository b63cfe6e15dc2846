//! What the schema says, and what it refuses to do.

use super::sample::snapshot;
use super::*;
use punctual_core::id::{ClusterId, ModelId, Units};
use punctual_core::mode::Mode;
use punctual_core::predict::record::Lately;
use punctual_core::route::{Regret, Routing, Verdicts};
use punctual_core::scale::{Act, Because, Scaled};
use punctual_core::time::{Span, Time};
use punctual_core::view::{ModelView, RoutingView};

/// The answer as lines: columns with their types, then rows.
fn ask_as(user: &str, sql: &str) -> String {
    match answer(Question { sql, parameters: &[], user, is_admin: user == "admin" }, &snapshot()) {
        Err(error) => format!("{}: {error}\n", error.sqlstate().code()),
        Ok(Answer { columns, rows }) => {
            let header: Vec<String> = columns.iter().map(|c| format!("{} {}", c.name, c.kind.name())).collect();
            let row = |row: &Vec<Option<String>>| {
                row.iter().map(|value| value.as_deref().unwrap_or("null")).collect::<Vec<_>>().join(" | ")
            };
            let lines: Vec<String> = std::iter::once(header.join(" | ")).chain(rows.iter().map(row)).collect();
            lines.join("\n") + "\n"
        }
    }
}

fn ask(sql: &str) -> String {
    ask_as("ann", sql)
}

/// The code of the error, where steps alone bound the work: the machine's speed must not decide a test.
fn code(sql: &str) -> String {
    let work = sandbox::Work { looks: 3_000, time: Duration::from_secs(3_600) };
    match sandbox::answer(Question { sql, parameters: &[], user: "ann", is_admin: false }, &snapshot(), work) {
        Err(error) => error.sqlstate().code().to_owned(),
        Ok(answer) => panic!("{sql} was answered with {} rows", answer.rows.len()),
    }
}

#[test]
fn queries_show_where_they_are_and_since_when() {
    expect_test::expect![[r#"
        query_id bigint | session_id bigint | status text | class text | kind text | user text | database text | application text | arrival timestamptz | started timestamptz | waited_s double precision | running_s double precision | slo_s double precision | late boolean | cluster text | cluster_id bigint | predicted_p50_s double precision | predicted_p90_s double precision | priority bigint | lane text | waits_for text | ahead bigint | expected_wait_s double precision | fingerprint text | shape text | sql text
        281474976710658 | 281474976710658 | running | dashboards | select | ann | dev | psql | 2026-01-02 03:04:06.000000+00 | 2026-01-02 03:04:06.000000+00 | 0 | 2 | 1.5 | t | small | 0 | null | null | 0 | default | null | null | null | cd9a7f6170df316c | select ? | select 'ann''s'
        281474976710659 | 281474976710659 | waiting | dashboards | select | bob | dev | psql | 2026-01-02 03:04:07.000000+00 | null | 1 | null | 1.5 | f | null | null | null | null | 0 | default | cluster | 0 | null | cd9a7f6170df316c | select ? | null
    "#]].assert_eq(&ask("select * from punctual.queries order by query_id"));
}

#[test]
fn clusters_show_their_life_and_their_cost() {
    expect_test::expect![[r#"
        cluster_id bigint | cluster text | phase text | since timestamptz | generation bigint | size bigint | slots bigint | role text | running bigint | pins bigint | stuck bigint | placed bigint | awake boolean | active_s double precision | cost_usd double precision | failed_by text
        0 | small | ready | 2026-01-02 03:04:05.000000+00 | 0 | 1 | 1 | any | 1 | 0 | 0 | 2 | t | 3 | 0.0003125 | null
        1 | large | starting | 2026-01-02 03:04:05.000000+00 | 0 | 2 | 1 | any | 0 | 0 | 0 | 0 | f | 0 | 0 | null
    "#]].assert_eq(&ask("SELECT * FROM punctual.clusters"));
}

#[test]
fn classes_show_what_became_of_their_queries() {
    expect_test::expect![[r#"
        class text | slo_s double precision | waiting bigint | running bigint | finished bigint | failed bigint | cancelled bigint | refused bigint | lost bigint | counted bigint | violated bigint | violation_rate double precision
        control | null | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | null
        default | null | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | null
        dashboards | 1.5 | 1 | 1 | 1 | 0 | 0 | 0 | 0 | 1 | 0 | 0
    "#]].assert_eq(&ask("select * from \"punctual\".\"classes\" -- all of them"));
}

#[test]
fn decisions_show_their_evidence() {
    expect_test::expect![[r#"
        42601: near "table_is_not_a_word": syntax error
    "#]]
    .assert_eq(&ask("table_is_not_a_word"));
    expect_test::expect![[r#"
        at timestamptz | query_id bigint | class text | cluster text | cluster_id bigint | why text | waited_s double precision | predicted_p50_s double precision | predicted_p90_s double precision | isolated_s double precision | candidates text | instead text | instead_id bigint | instead_why text | regret_violations double precision | regret_usd double precision
        2026-01-02 03:04:05.000000+00 | 281474976710657 | dashboards | small | 0 | the only cluster with room | 0 | null | null | null | [{"cluster_id":0,"size":1,"outstanding":0,"slots":1,"awake":false}] | null | null | null | null | null
        2026-01-02 03:04:06.000000+00 | 281474976710658 | dashboards | small | 0 | the only cluster with room | 0 | null | null | null | [{"cluster_id":0,"size":1,"outstanding":0,"slots":1,"awake":true}] | null | null | null | null | null
    "#]].assert_eq(&ask("select * from Punctual.Decisions"));
}

#[test]
fn controllers_show_what_they_would_do_and_advise_it() {
    let told_with = |mode, verdicts, scaled: Vec<Scaled>, model| {
        let mut snapshot = snapshot();
        let view = &mut snapshot.view;
        view.routing = RoutingView { mode, policy: Routing::Slo, verdicts, ..view.routing };
        (view.scaler.mode, view.scaling) = (mode, scaled);
        view.model = model;
        let sql =
            "select controller, mode, policy, acts, decisions, different, regret_usd, advice from punctual.controllers";
        let rows = answer(Question { sql, parameters: &[], user: "ann", is_admin: false }, &snapshot).unwrap().rows;
        let row = |row: &Vec<Option<String>>| {
            row.iter().map(|value| value.as_deref().unwrap_or("null")).collect::<Vec<_>>().join(" | ")
        };
        rows.iter().map(row).collect::<Vec<_>>().join("\n") + "\n"
    };
    let model = |lately| Some(ModelView { id: ModelId(1), corrected: 0, lately });
    let told = |mode, verdicts, scaled| told_with(mode, verdicts, scaled, model(None));
    let verdicts = Verdicts { decisions: 9, elsewhere: 2, regret: Regret { violations: 1.5, cost: -0.25 } };
    let start = |mode| Scaled {
        at: Time::from_micros(1_767_323_045_000_000),
        mode,
        act: Act::Start(Units(8), None),
        because: Because::Best,
        prospects: Vec::new(),
    };
    expect_test::expect![[r#"
        routing | on | slo:expected | slo:expected | null | null | null | null
        scaling | on | combined:add_cluster | combined:add_cluster | 1 | 0 | null | null
        planning | off | no plan | null | 0 | 0 | null | null
    "#]]
    .assert_eq(&told(Mode::On, Verdicts::default(), vec![start(Mode::On)]));
    expect_test::expect![[r#"
        routing | shadow | slo:expected | least_outstanding | 9 | 2 | -0.25 | null
        scaling | shadow | combined:add_cluster | null | 1 | 1 | null | null
        planning | off | no plan | null | 0 | 0 | null | null
    "#]]
    .assert_eq(&told(Mode::Shadow, verdicts, vec![start(Mode::Shadow)]));
    expect_test::expect![[r#"
        routing | suggest | slo:expected | least_outstanding | 9 | 2 | -0.25 | set policy.routing_mode to "on": of 9 queries 2 would go elsewhere, and it expects -1.5 SLO violations and +0.2500 dollars of that
        scaling | suggest | combined:add_cluster | null | 1 | 1 | null | start a cluster of size 8: of what could be done it keeps SLOs best (2026-01-02 03:04:05.000000)
        planning | off | no plan | null | 0 | 0 | null | null
    "#]].assert_eq(&told(Mode::Suggest, verdicts, vec![start(Mode::Suggest)]));
    // What a model says that has drifted.
    let drifted =
        Lately { queries: 99, q_error_p50: 3.0, q_error_p90: 9.0, coverage_p90: 0.4, bias: 2.5, drifted: true };
    let advice = told_with(Mode::Suggest, verdicts, vec![start(Mode::Suggest)], model(Some(drifted)));
    let doubted =
        "; but the model that says so has drifted (punctual.model): do not go by it until it is learnt again\n";
    assert_eq!(advice.matches(doubted).count(), 2, "{advice}");
    let sound = model(Some(Lately { drifted: false, ..drifted }));
    let advice = told_with(Mode::Suggest, verdicts, vec![start(Mode::Suggest)], sound);
    assert!(!advice.contains("drifted"), "{advice}");
    let idle =
        Scaled { act: Act::Stop(ClusterId(1)), because: Because::Idle(Span::from_secs(9)), ..start(Mode::Suggest) };
    let advice = told_with(Mode::Suggest, Verdicts::default(), vec![idle], model(Some(drifted)));
    assert!(advice.contains("stop cluster") && !advice.contains("drifted"), "nothing was predicted: {advice}");
    // Without one, something else acts.
    expect_test::expect![[r#"
        routing | on | slo:expected | least_outstanding | null | null | null | null
        scaling | on | combined:add_cluster | combined:horizontal | 0 | 0 | null | null
        planning | off | no plan | null | 0 | 0 | null | null
    "#]]
    .assert_eq(&told_with(Mode::On, Verdicts::default(), vec![], None));
}

#[test]
fn users_read_their_own_texts_and_an_admin_everyones() {
    let sql = "select user, shape, sql from punctual.queries";
    expect_test::expect![[r#"
        user text | shape text | sql text
        ann | select ? | select 'ann''s'
        bob | select ? | null
    "#]]
    .assert_eq(&ask_as("ann", sql));
    expect_test::expect![[r#"
        user text | shape text | sql text
        ann | select ? | null
        bob | select ? | null
    "#]]
    .assert_eq(&ask_as("eve", sql));
    expect_test::expect![[r#"
        user text | shape text | sql text
        ann | select ? | select 'ann''s'
        bob | select ? | select 'bob''s'
    "#]]
    .assert_eq(&ask_as("admin", sql));
    // What is not shown is not there to be found either.
    assert_eq!(ask_as("eve", "select count(*) n from punctual.queries where sql like '%bob%'"), "n bigint\n0\n");
}

#[test]
fn computed_columns_have_the_type_of_their_values() {
    expect_test::expect![[r#"
        count(*) bigint | max(arrival) timestamptz | avg(waited_s) double precision | two bigint | x text | nil text | bytes text | much double precision | odd text
        2 | 2026-01-02 03:04:07.000000+00 | 0.5 | 2 | x | null | \x00ff | Infinity | �
    "#]]
    .assert_eq(&ask(
        "select count(*), max(arrival), avg(waited_s), 1 + 1 as two, 'x' x, null as nil, x'00ff' as bytes,
         1e999 as much, cast(x'ff' as text) as odd from punctual.queries",
    ));
    let columns = ask("select query_id, awake, since from punctual.queries, punctual.clusters where false");
    assert_eq!(columns, "query_id bigint | awake boolean | since timestamptz\n");
    // A declared type that not all values have does not hold.
    assert_eq!(ask("select placed from punctual.clusters where false union select 'x'"), "placed text\nx\n");
}

#[test]
fn joins_windows_and_recursion_work() {
    expect_test::expect![[r#"
        i bigint | cluster text | r bigint | slots bigint
        1 | small | 1 | 1
        1 | small | 1 | 1
        2 | small | 1 | 1
        2 | small | 1 | 1
        3 | small | 1 | 1
        3 | small | 1 | 1
    "#]]
    .assert_eq(&ask("with recursive n(i) as (select 1 union all select i + 1 from n where i < 3)
         select i, c.cluster, rank() over (order by c.size desc) as r, json_extract(d.candidates, '$[0].slots') slots
         from n, punctual.decisions d join punctual.clusters c using (cluster_id)"));
}

#[test]
fn mistakes_have_the_codes_that_clients_know() {
    expect_test::expect![[r#"
        42601: near "selec": syntax error
        42P01: no such table: punctual.querys
        42703: no such column: colour
        42703: no such column: "colour" - should this be a string literal in single-quotes?
        42883: no such function: frobnicate
        42883: wrong number of arguments to function lower()
        42702: ambiguous column name: cluster
        42803: misuse of aggregate function count()
        42P02: there is no parameter $1
        42601: 2 statements in one text about the gateway
        42601: unrecognized token: "'open from punctual.queries"
        42601: 0 statements in one text about the gateway
        42601: 0 statements in one text about the gateway
    "#]]
    .assert_eq(
        &[
            "selec * from punctual.queries",
            "select * from punctual.querys",
            "select colour from punctual.queries",
            "select \"colour\" from punctual.queries",
            "select frobnicate(1)",
            "select lower() from punctual.queries",
            "select cluster from punctual.queries, punctual.clusters",
            "select query_id from punctual.queries where count(*) > 1",
            "select $1 from punctual.queries",
            "select 1 from punctual.queries; select 2",
            "select 'open from punctual.queries",
            "",
            ";",
        ]
        .map(ask)
        .concat(),
    );
}

#[test]
fn parameters_are_values_and_nothing_else() {
    let asked = |sql: &str, parameters: &[Parameter]| {
        let question = Question { sql, parameters, user: "ann", is_admin: true };
        answer(question, &snapshot()).map(|answer| answer.rows.concat()).map_err(|error| error.to_string())
    };
    let text = |text: &str| Parameter::Text(text.to_owned());
    let by = |condition: &str, value: Parameter| {
        asked(&format!("select query_id - 281474976710656 from punctual.queries where {condition}"), &[value])
    };
    let second = Ok(vec![Some("2".to_owned())]);
    assert_eq!(by("status = $1", text("running")), second);
    assert_eq!(by("running_s > $1", Parameter::Float(1.5)), second);
    assert_eq!(by("query_id = $1::int8", Parameter::Int(281_474_976_710_658)), second);
    // As clients send it that have no type for it.
    assert_eq!(by("query_id = $1", text("281474976710658")), second);
    assert_eq!(by("arrival < $1", text("2026-01-02 03:04:06.500000")), second);
    assert_eq!(by("late = $1", Parameter::Int(1)), second);
    assert_eq!(by("status = $1", Parameter::Null), Ok(vec![]));
    assert_eq!(by("status = $1", text("' or '1' = '1")), Ok(vec![]));
    assert_eq!(asked("select $2, $1, $2", &[Parameter::Int(1), text("x")]).unwrap().len(), 3);
    for (sql, name) in
        [("select $2", "$2"), ("select ?", "?"), ("select :a", ":a"), ("select $0", "$0"), ("select $a", "$a")]
    {
        assert_eq!(asked(sql, &[Parameter::Int(1)]), Err(format!("there is no parameter {name}")));
    }
}

#[test]
fn nothing_but_our_tables_can_be_read_or_touched() {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    let path = secret.path().display();
    for sql in [
        format!("attach '{path}' as x"),
        "attach ':memory:' as x".to_owned(),
        "detach punctual".to_owned(),
        "pragma hard_heap_limit = 0".to_owned(),
        "select * from pragma_database_list".to_owned(),
        "select count(*) from pragma_database_list".to_owned(),
        "select count(*) from pragma_hard_heap_limit".to_owned(),
        "select * from sqlite_master".to_owned(),
        "select * from punctual.sqlite_master".to_owned(),
        "select * from sqlite_schema".to_owned(),
        "select * from dbstat".to_owned(),
        "select * from json_each('[1]')".to_owned(),
        "select load_extension('/tmp/x.so')".to_owned(),
        "select fts3_tokenizer('simple')".to_owned(),
        "select randomblob(10)".to_owned(),
        "insert into punctual.queries(query_id) values (1)".to_owned(),
        "update punctual.queries set sql = ''".to_owned(),
        "delete from punctual.queries".to_owned(),
        "drop table punctual.queries".to_owned(),
        "create table punctual.x (a)".to_owned(),
        "create temp table x (a)".to_owned(),
        "create temp view v as select * from punctual.queries".to_owned(),
        "create virtual table x using fts5(a)".to_owned(),
        format!("vacuum into '{path}.copy'"),
        "vacuum".to_owned(),
        "begin".to_owned(),
        "reindex".to_owned(),
        "analyze".to_owned(),
    ] {
        let Err(error) = answer(Question { sql: &sql, parameters: &[], user: "ann", is_admin: true }, &snapshot())
        else {
            panic!("{sql} was allowed")
        };
        assert_eq!(error.sqlstate().code(), "42501", "{sql}: {error}");
    }
}

#[test]
fn what_would_never_end_is_ended() {
    for sql in [
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
        "with recursive n(i) as (select 1 union all select i + 1 from n limit 3000)
         select count(*) from n a, n b, n c where a.i + b.i + c.i < 0",
    ] {
        assert_eq!(code(sql), "57014", "{sql}");
    }
}

#[test]
fn what_would_fill_the_memory_is_stopped() {
    let numbers = "with recursive n(i) as (select 1 union all select i + 1 from n limit 1000000) ";
    for (sql, expected) in [
        (format!("{numbers} select i from n"), "54000"),
        (format!("{numbers} select printf('%.100000c', 'x') || i as t from n"), "54000"),
        (format!("{numbers} select printf('%.100000c', 'x') || i as t from n order by t"), "53200"),
        (format!("{numbers} select group_concat(printf('%.1000c', 'x')) from (select i from n limit 5000)"), "54000"),
        ("select printf('%.1000000000c', 'x')".to_owned(), "54000"),
        (format!("select {} from punctual.queries", vec!["1"; 300].join(",")), "42601"),
        (format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000)), "42601"),
        (format!("select '{}'", "x".repeat(100_000)), "54000"),
        (vec!["select 1"; 100].join(" union all "), "42601"),
    ] {
        assert_eq!(code(&sql), expected, "{}", &sql[..sql.len().min(100)]);
    }
    // And afterwards there is memory again.
    assert_eq!(ask("select count(*) n from punctual.queries"), "n bigint\n2\n");
}

#[tokio::test]
async fn the_catalogue_asks_the_driver_and_says_so_when_it_is_gone() {
    let (link, mut reports) = Link::new();
    let catalog = Catalog::new(link);
    let driver = tokio::spawn(async move {
        if let Some(crate::link::Report::Look { answer }) = reports.recv().await {
            let _ = answer.send(snapshot());
        }
    });
    let question =
        Question { sql: "select count(*) n from punctual.clusters", parameters: &[], user: "ann", is_admin: false };
    let answered = catalog.answer(question).await.map(|answer| answer.rows);
    assert_eq!(answered, Ok(vec![vec![Some("2".to_owned())]]));
    driver.await.expect("the driver ends");
    assert_eq!(catalog.answer(question).await, Err(CatalogError::NoSnapshot));
}

#[test]
fn the_documentation_lists_every_table_and_column() {
    crate::config::doc::assert_generated("schema.md", "tables", &markdown());
}
