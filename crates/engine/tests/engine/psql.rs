//! The real psql.

use std::process::Command;

use crate::support::{Cluster, with_tpch};

/// What psql prints for some commands.
fn psql(cluster: &Cluster, commands: &[&str]) -> String {
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "--pset=pager=off", "--host"]).arg(cluster.directory.path()).args([
        "--username",
        "tester",
        "--dbname",
        "punctual",
    ]);
    for command in commands {
        psql.args(["--command", command]);
    }
    let output = psql.output().expect("psql is installed");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    text(output.stdout) + &text(output.stderr)
}

/// Without trailing blanks, which psql fills columns with.
fn trimmed(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).collect()
}

#[test]
fn the_tables_are_listed() {
    let cluster = with_tpch();
    assert_eq!(
        trimmed(&psql(&cluster, &["\\dt"])),
        [
            "          List of relations",
            " Schema |   Name   | Type  |  Owner",
            "--------+----------+-------+----------",
            " public | customer | table | postgres",
            " public | lineitem | table | postgres",
            " public | nation   | table | postgres",
            " public | orders   | table | postgres",
            " public | part     | table | postgres",
            " public | partsupp | table | postgres",
            " public | region   | table | postgres",
            " public | supplier | table | postgres",
            "(8 rows)",
            "",
        ]
    );
    // \d shows views as well.
    let all = psql(&cluster, &["\\d"]);
    assert!(all.contains(" punctual_engine | activity | view  | postgres"), "{all}");
    assert!(all.contains("(9 rows)"), "{all}");
}

#[test]
fn a_table_is_described() {
    let cluster = with_tpch();
    assert_eq!(
        trimmed(&psql(&cluster, &["\\d region"])),
        [
            "                 Table \"public.region\"",
            "   Column    |  Type  | Collation | Nullable | Default",
            "-------------+--------+-----------+----------+---------",
            " r_regionkey | bigint |           | not null |",
            " r_name      | text   |           | not null |",
            " r_comment   | text   |           | not null |",
            "",
        ]
    );
    let lineitem = psql(&cluster, &["\\d lineitem"]);
    for column in ["l_orderkey", "l_shipdate", "l_comment"] {
        assert!(lineitem.contains(column), "{lineitem}");
    }
    assert!(psql(&cluster, &["\\d missing"]).contains("Did not find any relation named \"missing\"."));
}

#[test]
fn results_and_errors_are_shown() {
    let cluster = with_tpch();
    assert_eq!(
        trimmed(&psql(&cluster, &["select n_name, n_regionkey from nation order by 1 limit 2"])),
        [
            "  n_name   | n_regionkey",
            "-----------+-------------",
            " ALGERIA   |           0",
            " ARGENTINA |           1",
            "(2 rows)",
            "",
        ]
    );
    let error = psql(&cluster, &["select nothing from nation"]);
    assert!(error.starts_with("ERROR:  "), "{error}");
    let error = psql(&cluster, &["select 1 frm x y"]);
    assert!(error.contains("LINE 1: select 1 frm x y\n                     ^"), "{error}");
}
