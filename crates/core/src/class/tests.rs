//! How a query finds its class, and that the index changes nothing about it.

use proptest::prelude::*;

use super::*;
use crate::fingerprint::Fingerprint;
use crate::statement::Kind;

fn classes() -> Classes {
    let mut classes = Class::built_in();
    let rule = |application: &str| Rule { application: Some(application.into()), ..Rule::default() };
    let tables = Rule { table: Some("orders".into()), kind: Some(Kind::Select), ..Rule::default() };
    classes.push(Class {
        name: "dashboards".into(),
        rules: vec![rule("looker")],
        slo: Some(Span::from_secs(3)),
        ..Class::default()
    });
    classes.push(Class { name: "etl".into(), rules: vec![rule("airflow"), tables], ..Class::default() });
    let terms = Terms { chosen_by: vec!["ann".into()], ..Terms::default() };
    classes.push(Class { name: "board".into(), terms, ..Class::default() });
    Classes::new(classes)
}

fn class_of(application: &str, sql: &str) -> (String, Because) {
    let origin = Origin { application, user: "bob", ..Origin::default() };
    let (class, because) = classes().classify(None, origin, &Statement::read(sql));
    (classes().list()[class.0 as usize].name.clone(), because)
}

#[test]
fn the_first_match_wins_and_default_takes_the_rest() {
    let q = "select count(*) from t";
    assert_eq!(class_of("looker-7", q), ("dashboards".into(), Because::Rule(0)));
    assert_eq!(class_of("psql", "select * from sales.orders"), ("etl".into(), Because::Rule(1)));
    assert_eq!(class_of("looker", "select * from orders"), ("dashboards".into(), Because::Rule(0)));
    assert_eq!(class_of("psql", q), ("default".into(), Because::Nothing));
}

#[test]
fn a_comment_beats_housekeeping_beats_the_session_beats_rules() {
    let q = "select count(*) from t /* punctual: class=ETL */";
    assert_eq!(class_of("looker", q), ("etl".into(), Because::Comment));
    assert_eq!(class_of("looker", "select 1"), ("control".into(), Because::Housekeeping));
    let chosen = |sql| classes().classify(Some(ClassId(3)), Origin::default(), &Statement::read(sql)).1;
    assert_eq!(chosen("select count(*) from t"), Because::Chosen);
    assert_eq!(chosen("select 1"), Because::Housekeeping);
}

#[test]
fn a_class_that_does_not_exist_or_may_not_be_chosen_is_not() {
    let q = "select count(*) from t /* punctual: class=elt */";
    assert_eq!(class_of("looker", q).1, Because::Rule(0));
    let of = |user, chosen, sql| {
        let origin = Origin { user, application: "looker", ..Origin::default() };
        classes().classify(chosen, origin, &Statement::read(sql)).1
    };
    let board = Some(ClassId(4));
    assert_eq!(of("ann", board, "select count(*) from t"), Because::Chosen);
    assert_eq!(of("bob", board, "select count(*) from t"), Because::Rule(0));
    assert_eq!(of("ann", None, "select count(*) from t /* punctual: class=board */"), Because::Comment);
    assert_eq!(of("bob", None, "select count(*) from t /* punctual: class=board */"), Because::Rule(0));
    // What goes past every queue is for drivers alone.
    assert_eq!(of("ann", Some(CONTROL), "select count(*) from t /* punctual: class=control */"), Because::Rule(0));
}

#[test]
fn a_query_keeps_its_class_by_name_under_other_classes() {
    let old = classes();
    let mut list = Class::built_in();
    list.push(Class { name: "etl".into(), ..Class::default() });
    let new = Classes::new(list);
    let translated: Vec<u32> = (0..6).map(|id| new.translate(ClassId(id), &old).0).collect();
    assert_eq!(translated, [0, 1, 1, 2, 1, 1]);
}

/// Few words, so that rules and queries meet often.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "ab", "abc", "b", "ba", "bab", "c", "s.a", "s.ab"]).prop_map(str::to_owned)
}

fn network() -> impl Strategy<Value = Network> {
    let texts = ["local", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0", "::/0", "::1", "2001:db8::/32"];
    prop::sample::select(texts.to_vec()).prop_map(|text| Network::read(text).expect("a network"))
}

fn client() -> impl Strategy<Value = Client> {
    let texts = ["local", "10.1.2.3", "10.1.2.4", "10.9.9.9", "192.168.0.1", "::1", "2001:db8::7", "::ffff:10.1.2.3"];
    prop_oneof![
        Just(Client::Unknown),
        prop::sample::select(texts.to_vec()).prop_map(|text| Client::read(text).expect("a client")),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let maybe = |of: BoxedStrategy<String>| prop::option::weighted(0.25, of);
    let said = (word(), prop::option::of(word())).prop_map(|(key, value)| Said { key, value });
    let conditions = (
        (maybe(word().boxed()), maybe(word().boxed()), maybe(word().boxed()), maybe(word().boxed())),
        prop::option::weighted(0.2, network()),
        prop::option::weighted(0.2, said),
        maybe("[ab]{1,5}".boxed()),
        prop::option::weighted(0.2, prop::sample::select(Kind::ALL.to_vec())),
        prop::option::weighted(0.2, (0_u64..4).prop_map(Fingerprint)),
    );
    conditions.prop_map(|((user, database, application, table), client, tag, comment, kind, fingerprint)| Rule {
        user,
        database,
        application,
        client,
        tag,
        comment,
        kind,
        table,
        fingerprint,
    })
}

/// Sometimes a rule without conditions is among them, which takes what the rules before it leave.
fn policy() -> impl Strategy<Value = Vec<Class>> {
    let class = prop::collection::vec(rule(), 0..4).prop_map(|rules| Class { rules, ..Class::default() });
    prop::collection::vec(class, 0..24)
}

fn query() -> impl Strategy<Value = Statement> {
    let tables = prop::collection::vec(word(), 0..4);
    let pairs = prop::collection::vec((word(), word()), 0..3);
    let kind = prop::sample::select(Kind::ALL.to_vec());
    (tables, pairs, "[ab]{0,9}", kind, 0_u64..5).prop_map(|(tables, pairs, comments, kind, fingerprint)| {
        let mut statement = Statement::read("");
        (statement.tables, statement.kind, statement.fingerprint) = (tables, kind, Fingerprint(fingerprint));
        (statement.tag.pairs, statement.tag.comments) = (pairs, comments);
        statement
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_index_finds_what_trying_all_rules_finds(
        list in policy(),
        queries in prop::collection::vec((query(), word(), word(), word(), client()), 1..12),
    ) {
        let classes = Classes::new(list.clone());
        for (statement, user, database, application, client) in &queries {
            let origin = Origin { user, database, application, client: *client };
            let wanted = first_match_one_by_one(&list, origin, statement);
            prop_assert_eq!(classes.first_match(origin, statement), wanted);
        }
    }
}
