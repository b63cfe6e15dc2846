//! What rules of classes may say, and who may choose a class.

use punctual_core::class::{Network, Rule, Said};
use punctual_core::statement::Statement;

use crate::config::tests::{accepted, refused};

#[test]
fn rules_are_read_with_what_they_go_by() {
    let classes = accepted(
        r#"
        [[class]]
        name = "c"
        chosen_by = ["ann", "bob"]
        match = [{ client = "10.0.0.0/8", tag = "app = dbt", comment = "Nightly" }, { fingerprint = "cd9a7f6170df316c" }, { client = "local", tag = "route" }]
        [[cluster]]
        name = "a"
        kind = "simulated"
        "#,
    )
    .policy
    .classes;
    let said = |key: &str, value: Option<&str>| Some(Said { key: key.to_owned(), value: value.map(str::to_owned) });
    let wanted = [
        Rule {
            client: Network::read("10.0.0.0/8").ok(),
            tag: said("app", Some("dbt")),
            comment: Some("Nightly".into()),
            ..Rule::default()
        },
        Rule { fingerprint: Some(Statement::read("select 7").fingerprint), ..Rule::default() },
        Rule { client: Some(Network::Local), tag: said("route", None), ..Rule::default() },
    ];
    assert_eq!(classes[2].rules, wanted);
    assert_eq!(classes[2].terms.chosen_by, ["ann", "bob"]);
    refused(
        r#"
        [[class]]
        name = "c"
        chosen_by = []
        match = [{ client = "10.0.0.1/8" }, { client = "office" }, { tag = "=dbt" }, { fingerprint = "7" }]
        [[cluster]]
        name = "a"
        kind = "simulated"
        "#,
        expect_test::expect![[r#"
            punctual.toml:4:21: class "c".chosen_by: it names no user; write the names of users, as in ["ann"], or leave the key out for everyone
            punctual.toml:5:29: class "c".match[1].client: "10.0.0.1/8" has bits beyond those that count; write an address, a network such as "10.0.0.0/8" or "2001:db8::/32", or "local"
            punctual.toml:5:56: class "c".match[2].client: "office" is neither an address nor `local`; write an address, a network such as "10.0.0.0/8" or "2001:db8::/32", or "local"
            punctual.toml:5:76: class "c".match[3].tag: "=dbt" has no key; write "key" or "key=value"
            punctual.toml:5:102: class "c".match[4].fingerprint: "7" is no fingerprint; write its sixteen hexadecimal digits, as `punctual check --query` and `punctual.queries` show them
        "#]],
    );
}
