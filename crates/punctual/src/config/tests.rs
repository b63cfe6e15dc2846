//! What a file may say, and what is said of one that may not.

use std::path::Path;

use super::*;
use crate::auth::private;
use crate::settings::{Address, ClusterKind, Tables};
use crate::tls::trust::ClusterTls;

/// A file that is right, for lines to be added to.
const CLUSTER: &str = "[[cluster]]\nname = \"a\"\nkind = \"simulated\"\n";

fn read(text: &str) -> Result<Settings, ConfigError> {
    let env = |variable: &str| (variable == "WAREHOUSE_PASSWORD").then(|| "hunter2".to_owned());
    parse_within(text, Path::new("punctual.toml"), &env, Typed::default())
}

pub(super) fn refused(text: &str, expected: expect_test::Expect) {
    match read(text) {
        Ok(settings) => panic!("was accepted: {settings:#?}"),
        Err(error) => expected.assert_eq(&format!("{error}\n")),
    }
}

pub(super) fn accepted(text: &str) -> Settings {
    read(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn defaults_are_those_of_the_decisions_and_of_the_door() {
    let settings = accepted(CLUSTER);
    assert_eq!(settings.policy, Policy::default());
    assert_eq!(settings.door, Door::default());
    assert_eq!(settings.clusters[0].spec.price, Price::default());
    assert_eq!(settings.history.dir, Path::new("punctual-data/history"));
    assert_eq!(settings.journal.dir, Path::new("punctual-data/journal"));
    assert_eq!(settings.listen.to_string(), "127.0.0.1:6432");
    assert_eq!(settings.http.map(|http| http.to_string()).as_deref(), Some("127.0.0.1:8432"));
}

#[test]
fn without_a_file_two_embedded_clusters_share_the_cores() {
    let settings = default_settings();
    let units: Vec<u32> = settings.clusters.iter().map(|cluster| cluster.spec.units.0).collect();
    let cores = thread::available_parallelism().map_or(2, NonZero::get).clamp(2, 8) as u32;
    assert_eq!(units.len(), 2);
    assert_eq!(units.iter().sum::<u32>(), cores);
    assert!(units.iter().all(|units| *units >= 1));
    assert_eq!(settings.policy, Policy::default());
    assert_eq!(settings.door, Door::default());
    assert_eq!(settings.listen, accepted(CLUSTER).listen);
}

#[test]
fn every_key_means_something() {
    let settings = accepted(
        r#"
        [gateway]
        id = 3
        seed = 0x10
        listen = "localhost:1"
        http = "off"
        state_dir = "/var/lib/punctual"
        shutdown_within = "2m"
        max_sessions = 7
        max_message = "1MiB"
        startup_within = "3s"
        max_statements = 5
        max_idle_connections = 0
        connect_within = "4s"
        check_every = "6s"
        [history]
        dir = "past"
        max_bytes = "1GiB"
        sql = "text"
        [journal]
        max_bytes = "64MiB"
        segment_bytes = "32MiB"
        [policy]
        routing = "p2c"
        violation_target = 1
        max_waiting = 0
        wait_limit = "1.5s"
        retry_first = "2s"
        retry_most = "2s"
        [[table]]
        name = "shop.Events"
        time_column = "ts"
        unit = "ms"
        segment = "1d"
        from = "2020-01-01"
        to = "now"
        [[table]]
        name = "facts"
        time_column = "day"
        to = "2024-01-31T12:00:00+02:00"
        [[class]]
        name = "dashboards"
        slo = "3s"
        match = [{ application = "looker" }, { user = "bi", table = "Sales.Orders", statement = "select" }]
        [[class]]
        name = "default"
        slo = "10m"
        [[cluster]]
        name = "warehouse"
        kind = "postgres"
        size = 8
        address = "db.example.com:5439"
        user = "gateway"
        password_env = "WAREHOUSE_PASSWORD"
        database = "dev"
        [[cluster]]
        name = "local"
        kind = "embedded"
        tpch = 1
        threads_per_unit = 2
        memory_per_unit = "1GiB"
        slots = 3
        "#,
    );
    expect_test::expect_file!["snapshots/every_key.txt"].assert_debug_eq(&settings);
    let ClusterKind::Address(endpoint) = &settings.clusters[0].kind else {
        panic!("a postgres cluster has an address")
    };
    assert_eq!(endpoint.address, Address::Tcp { host: "db.example.com".into(), port: 5439 });
    assert_eq!(endpoint.login.password.as_ref().map(|secret| secret.reveal()), Some("hunter2"));
}

#[test]
fn unknown_keys_and_tables_are_refused_with_the_nearest_right_one() {
    refused(
        r#"
        listen = "127.0.0.1:1"
        [polcy]
        [zebra]
        [policy]
        max_wating = 3
        slots = 3
        colour = "red"
        [[class]]
        name = "etl"
        match = [{ usr = "etl" }]
        [[cluster]]
        name = "a"
        kind = "simulated"
        "a b" = 1
        slot = 3
        password = "hunter2"
        "#,
        expect_test::expect![[r#"
            punctual.toml:2:9: listen: there is no such table; it belongs in [gateway]
            punctual.toml:3:10: polcy: there is no such table; did you mean [policy]?
            punctual.toml:4:10: zebra: there is no such table; there are [gateway], [tls], [history], [journal], [prediction], [policy], [lanes], [scaling], [plan], [[class]], [[lane]], [[table]], [[cluster]]
            punctual.toml:6:9: policy.max_wating: there is no such key; did you mean `max_waiting`?
            punctual.toml:7:9: policy.slots: there is no such key; it belongs in [[cluster]]
            punctual.toml:8:9: policy.colour: there is no such key; there are `routing`, `routing_mode`, `baseline`, `counting`, `violation_target`, `order`, `half_life`, `max_running`, `adaptive`, `adaptive_least`, `adaptive_tolerance`, `max_waiting`, `wait_limit`, `control_slots`, `pin_idle`, `cancel_grace`, `drain_limit`, `start_limit`, `retry_first`, `retry_most`, `decisions_kept`, `max_clusters`
            punctual.toml:11:20: class "etl".match[1].usr: there is no such key; did you mean `user`?
            punctual.toml:15:9: cluster "a"."a b": there is no such key; there are `name`, `kind`, `size`, `slots`, `role`, `price_per_unit_hour`, `minimum_billed`, `keep`, `initial`, `tables`, `tpch`, `tpcds`, `threads_per_unit`, `memory_per_unit`, `time_scale`, `warehouse`, `start_takes`, `address`, `start`, `stop`, `list`, `start_within`, `credentials_file`, `user`, `password_env`, `password_file`, `database`, `tls`, `tls_ca`
            punctual.toml:16:9: cluster "a".slot: there is no such key; did you mean `slots`?
            punctual.toml:17:9: cluster "a".password: there is no such key; secrets do not belong in this file: use `password_env` or `password_file`
        "#]],
    );
}

#[test]
fn wrong_types_are_refused_with_the_right_one() {
    refused(
        r#"
        history = 3
        gateway = [{ id = 1 }]
        [policy]
        routing = 3
        max_waiting = "many"
        wait_limit = 30
        violation_target = "low"
        [journal]
        max_bytes = 100
        [[class]]
        name = ["etl"]
        match = { user = "etl" }
        [[class]]
        name = "etl"
        match = ["etl"]
        [cluster]
        name = "a"
        "#,
        expect_test::expect![[r#"
            punctual.toml:2:19: history: it is not a table; write [history]
            punctual.toml:3:19: gateway: it is written as a list; write [gateway]
            punctual.toml:5:19: policy.routing: it is a bare number; write one of "round_robin", "least_outstanding", "p2c", "jsq", "random", "tabs", "jiq", "delayed_off", "slo", "slo_stage"
            punctual.toml:6:23: policy.max_waiting: it is a text; write a whole number from 0 to 1000000
            punctual.toml:7:22: policy.wait_limit: it is a bare number; write a number and its unit (us, ms, s, m, h, d), as in "30s"
            punctual.toml:8:28: policy.violation_target: it is a text; write a number from 0 to 1
            punctual.toml:10:21: journal.max_bytes: it is a bare number; write a number and its unit (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB), as in "512MiB"
            punctual.toml:12:16: class number 1.name: it is a list; write a text in quotes
            punctual.toml:13:17: class number 1.match: it is a table; write a list of rules in brackets
            punctual.toml:16:18: class "etl".match[1]: it is a text; write a table in braces, as in { user = "looker" }
            punctual.toml:17:9: cluster: it is not a list; write [[cluster]]
        "#]],
    );
}

#[test]
fn values_out_of_bounds_are_refused_with_the_bounds() {
    refused(
        r#"
        [gateway]
        id = 40000
        seed = -1
        max_message = "2GiB"
        [policy]
        violation_target = nan
        wait_limit = "2000d"
        max_waiting = 99999999999999999999999
        control_slots = 0
        retry_first = "2m"
        [journal]
        segment_bytes = "600MiB"
        [[class]]
        name = "instant"
        slo = "0s"
        [[cluster]]
        name = "a"
        kind = "simulated"
        slots = 0
        size = 1.5
        price_per_unit_hour = inf
        time_scale = 0
        minimum_billed = "soon"
        [[cluster]]
        name = "b"
        kind = "simulated"
        price_per_unit_hour = -0.1
        "#,
        expect_test::expect![[r#"
            punctual.toml:3:14: gateway.id: 40000 is out of range; write a whole number from 0 to 32767
            punctual.toml:4:16: gateway.seed: -1 is out of range; write a whole number from 0 to 9223372036854775807
            punctual.toml:5:23: gateway.max_message: "2GiB" is out of range; write a size from 64KiB to 1GiB
            punctual.toml:7:28: policy.violation_target: NaN is not a number; write a number from 0 to 1
            punctual.toml:8:22: policy.wait_limit: "2000d" is out of range; write a duration from 0s to 8760h
            punctual.toml:9:23: policy.max_waiting: 99999999999999999999999 is out of range; write a whole number from 0 to 1000000
            punctual.toml:10:25: policy.control_slots: 0 is out of range; write a whole number from 1 to 10000
            punctual.toml:11:23: policy.retry_first: the first wait, 2m, is longer than the longest, 1m; write `retry_first` no longer than `retry_most`
            punctual.toml:13:25: journal.segment_bytes: two segments of 600MiB do not fit `max_bytes`; write at most half of 1GiB
            punctual.toml:16:15: class "instant".slo: "0s" is out of range; write a duration from 1us to 8760h
            punctual.toml:20:17: cluster "a".slots: 0 is out of range; write a whole number from 1 to 100000
            punctual.toml:21:16: cluster "a".size: it is a number with a fraction; write a whole number from 1 to 10000
            punctual.toml:22:31: cluster "a".price_per_unit_hour: inf is out of range; write a number from 0 to 1000000
            punctual.toml:23:22: cluster "a".time_scale: 0 is out of range; write a number from 0.001 to 1000000
            punctual.toml:24:26: cluster "a".minimum_billed: "soon" is not a duration; write a number and its unit (us, ms, s, m, h, d), as in "30s"
            punctual.toml:28:31: cluster "b".price_per_unit_hour: -0.1 is out of range; write a number from 0 to 1000000
        "#]],
    );
    for target in ["1.01", "-0.5", "inf", "-nan"] {
        assert!(read(&format!("[policy]\nviolation_target = {target}\n{CLUSTER}")).is_err(), "{target}");
    }
}

#[test]
fn durations_and_words_that_cannot_be_read_are_refused() {
    refused(
        &format!(
            "{CLUSTER}[policy]\nwait_limit = \"30 parsecs\"\npin_idle = \"\"\nrouting = \"least_outstandin\"\n\
             drain_limit = \"{}\"\n[history]\nsql = \"all of it\"\n[gateway]\nlisten = \"here\"\n",
            "9".repeat(5_000),
        ),
        expect_test::expect![[r#"
            punctual.toml:5:14: policy.wait_limit: "30 parsecs" is not a duration; write a number and its unit (us, ms, s, m, h, d), as in "30s"
            punctual.toml:6:12: policy.pin_idle: "" is not a duration; write a number and its unit (us, ms, s, m, h, d), as in "30s"
            punctual.toml:7:11: policy.routing: "least_outstandin" is not known; did you mean "least_outstanding"?
            punctual.toml:8:15: policy.drain_limit: "999999999999999999999999999999999999999999999999999999999999…" is not a duration; write a number and its unit (us, ms, s, m, h, d), as in "30s"
            punctual.toml:10:7: history.sql: "all of it" is not known; write one of "shape", "text", "nothing"
            punctual.toml:12:10: gateway.listen: "here" is not an address; write an address and a port, as in "127.0.0.1:6432"
        "#]],
    );
}

#[test]
fn names_are_unique_lower_case_and_not_reserved() {
    refused(
        r#"
        [[class]]
        name = "control"
        [[class]]
        name = "default"
        match = [{ user = "x" }]
        [[class]]
        name = "etl"
        match = [{}]
        [[class]]
        name = "etl"
        [[class]]
        name = "ETL"
        [[class]]
        name = "söme thing"
        [[class]]
        name = ""
        [[class]]
        [[cluster]]
        name = "a"
        kind = "simulated"
        [[cluster]]
        name = "a"
        kind = "simulated"
        "#,
        expect_test::expect![[r#"
            punctual.toml:3:16: class "control".name: "control" is built in: what drivers and tools send on their own account, which is never late; give the class another name
            punctual.toml:6:17: class "default".match: "default" takes what no rule matches, so it has none itself; leave `match` out, or give the class another name
            punctual.toml:9:18: class "etl".match[1]: a rule without conditions would take every query; write one, or leave the queries to the class `default`
            punctual.toml:11:16: class "etl".name: there is a class "etl" already; give one of them another name, or join them
            punctual.toml:13:16: class number 5.name: "ETL" has capitals; write "etl"
            punctual.toml:15:16: class number 6.name: "söme thing" is not a name; write at most 63 of a-z, 0-9, `_`, `-` and `.`
            punctual.toml:17:16: class number 7.name: it is empty; write a text, or leave the key out
            punctual.toml:18:9: class number 8: `name` is missing; write a name
            punctual.toml:23:16: cluster "a".name: there is a cluster "a" already; give one of them another name
        "#]],
    );
}

#[test]
fn whoever_comes_from_elsewhere_must_say_who_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = dir.path().join("users");
    let scram = |more: &str| format!("{CLUSTER}[gateway]\nauth = \"scram\"\nusers_file = {users:?}\n{more}");
    private::write(&users, &crate::auth::users::line("ann", "opensesame"));
    let settings = accepted(&scram("listen = \"0.0.0.0:6432\"\nadmins = [\"ann\"]\n"));
    assert_eq!((settings.access.auth.name(), settings.access.admins), ("scram", vec!["ann".to_owned()]));
    assert!(!settings.access.auth.eq(&crate::settings::Auth::Trust));
    refused(
        &format!("{CLUSTER}[gateway]\nauth = \"scram\"\nadmins = [3]\n"),
        expect_test::expect![[r#"
            punctual.toml:5:8: gateway.auth: nothing says who the users are; write `users_file` too: a file with a line for each user, as `punctual user NAME` prints it
            punctual.toml:6:11: gateway.admins: it holds what is no text; write the names of users, as in ["ann"]
        "#]],
    );
    refused(
        &format!("{CLUSTER}[gateway]\nauth = \"none\"\nusers_file = \"users\"\nadmins = [\"ann\"]\n"),
        expect_test::expect![[r#"
            punctual.toml:5:8: gateway.auth: "none" is not known; write one of "trust", "scram"
            punctual.toml:6:14: gateway.users_file: nobody is asked who they are, so it is of no use; write `auth = "scram"` too, or leave it out
            punctual.toml:7:10: gateway.admins: nobody is asked who they are, so it is of no use; write `auth = "scram"` too, or leave it out
        "#]],
    );
    private::write(&users, "# nobody yet\n");
    let said = parse(&scram(""), Path::new("punctual.toml")).expect_err("nobody could come in").to_string();
    assert_eq!(
        said,
        "punctual.toml:6:14: gateway.users_file: there is nobody in it; add the line that `punctual user NAME` prints"
    );
    private::write(&users, "ann:opensesame\n");
    let said = parse(&scram(""), Path::new("punctual.toml")).expect_err("that is a password").to_string();
    assert!(said.contains("users:1: a password does not belong here") && !said.contains("opensesame"), "{said}");
}

#[test]
fn addresses_that_others_can_reach_are_refused_with_the_reason() {
    refused(
        &format!("{CLUSTER}[gateway]\nlisten = \"0.0.0.0:6432\"\nhttp = \"192.168.1.7:80\"\n"),
        expect_test::expect![[r#"
            punctual.toml:5:10: gateway.listen: "0.0.0.0:6432" can be reached from other machines, and `auth = "trust"` asks nobody who they are; write `auth = "scram"` and `users_file`, or listen at "127.0.0.1:6432"
            punctual.toml:6:8: gateway.http: "192.168.1.7:80" can be reached from other machines, and nobody needs a token; write `http_tokens_file`, or serve it at "127.0.0.1:80"
        "#]],
    );
    refused(
        &format!("{CLUSTER}[gateway]\nlisten = \"off\"\n"),
        expect_test::expect![[r#"
        punctual.toml:5:10: gateway.listen: without it no query can come in; write an address and a port
    "#]],
    );
    refused(
        &format!("{CLUSTER}[gateway]\nlisten = \"[::1]:80\"\nhttp = \"[::1]:80\"\n"),
        expect_test::expect![[r#"
            punctual.toml:6:8: gateway.http: `listen` has the same address; write another port
        "#]],
    );
    assert!(accepted(&format!("{CLUSTER}[gateway]\nlisten = \"[::1]:0\"\nhttp = \"[::1]:0\"\n")).listen.is_ipv6());
}

#[test]
fn what_is_typed_stands_for_what_is_written_and_is_held_to_the_same_rules() {
    let with = |text: &str, listen, http| {
        let typed = Typed { listen: Some(listen), http: Some(http) };
        parse_within(text, Path::new("punctual.toml"), &|_| None, typed).map_err(|error| format!("{error}\n"))
    };
    let written = format!("{CLUSTER}[gateway]\nlisten = \"127.0.0.1:1\"\n");
    let settings = with(&written, "localhost:2", "off").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((settings.listen.to_string().as_str(), settings.http), ("127.0.0.1:2", None));
    expect_test::expect![[r#"
        --http: "here" is not an address; write an address and a port, as in "127.0.0.1:6432"
        --listen: "0.0.0.0:0" can be reached from other machines, and `auth = "trust"` asks nobody who they are; write `auth = "scram"` and `users_file`, or listen at "127.0.0.1:0"
        punctual.toml:5:1: gateway.lisen: there is no such key; did you mean `listen`?
    "#]]
    .assert_eq(&with(&format!("{CLUSTER}[gateway]\nlisen = 3\n"), "0.0.0.0:0", "here").unwrap_err());
    assert_eq!(
        with(CLUSTER, "off", "127.0.0.1:0").unwrap_err(),
        "--listen: without it no query can come in; write an address and a port\n"
    );
    assert_eq!(
        with(CLUSTER, "[::1]:5", "[::1]:5").unwrap_err(),
        "--http: `listen` has the same address; write another port\n"
    );
    let error = super::read(None, Typed { listen: Some("192.168.1.7:80"), http: None }).unwrap_err().to_string();
    assert!(error.starts_with("--listen: \"192.168.1.7:80\" can be reached from other machines"), "{error}");
    assert!(super::read(None, Typed::default()).is_ok());
}

#[test]
fn clusters_need_what_their_kind_needs_and_nothing_else() {
    refused(
        r#"
        [[cluster]]
        name = "nothing"
        kind = "embedded"
        [[cluster]]
        name = "both"
        kind = "embedded"
        tables = ["/"]
        tpch = 0.1
        time_scale = 2
        [[cluster]]
        name = "gone"
        kind = "embedded"
        tables = ["/no/such/directory", "/dev/null", 3]
        [[cluster]]
        name = "none"
        kind = "embedded"
        tables = []
        [[cluster]]
        name = "nowhere"
        kind = "postgres"
        tpch = 1
        [[cluster]]
        name = "url"
        kind = "postgres"
        address = "postgres://me:hunter2@db:5432/dev"
        [[cluster]]
        name = "odd"
        kind = "mysql"
        [[cluster]]
        "#,
        expect_test::expect![[r#"
            punctual.toml:2:9: cluster "nothing": nothing says which tables it has; write `tables = ["/path/of/parquet/files"]`, or `tpch = 0.1` for generated ones
            punctual.toml:9:16: cluster "both".tpch: `tables` is written too, and a cluster has one set of tables; leave one of them out
            punctual.toml:10:22: cluster "both".time_scale: only clusters of kind "simulated" have it; leave it out
            punctual.toml:14:19: cluster "gone".tables: cannot look into "/no/such/directory": No such file or directory (os error 2); write a directory that is there, with Parquet files in it
            punctual.toml:14:41: cluster "gone".tables: "/dev/null" is not a directory; write a directory that is there, with Parquet files in it
            punctual.toml:14:54: cluster "gone".tables: it is a bare number; write a text in quotes
            punctual.toml:18:18: cluster "none".tables: it names no directory; write at least one
            punctual.toml:19:9: cluster "nowhere": `address` is missing; write "host:port" or "unix:/path/of/socket"
            punctual.toml:22:16: cluster "nowhere".tpch: only clusters of kind "embedded" have it; leave it out
            punctual.toml:26:19: cluster "url".address: it is a URL; write "host:port" or "unix:/path/of/socket", and the rest in `user`, `password_env` and `database`
            punctual.toml:29:16: cluster "odd".kind: "mysql" is not known; write one of "embedded", "simulated", "exec", "postgres"
            punctual.toml:30:9: cluster number 8: `kind` is missing; write `"embedded"`, `"simulated"`, `"exec"` or `"postgres"`
            punctual.toml:30:9: cluster number 8: `name` is missing; write a name
        "#]],
    );
    refused(
        "",
        expect_test::expect![[r#"
        punctual.toml:1:1: cluster: there is none, so no query could run; write at least one [[cluster]]
    "#]],
    );
}

#[test]
fn generated_tables_are_of_one_benchmark_and_of_a_scale_factor_that_it_has() {
    let settings = accepted("[[cluster]]\nname = \"a\"\nkind = \"embedded\"\ntpcds = 0.1");
    let ClusterKind::Embedded(embedded) = &settings.clusters[0].kind else { panic!("it is embedded") };
    assert_eq!(embedded.tables, Tables::Tpcds { scale_factor: 0.1 });
    refused(
        r#"
        [[cluster]]
        name = "fraction"
        kind = "embedded"
        tpcds = 1.5
        [[cluster]]
        name = "between"
        kind = "embedded"
        tpcds = 11
        [[cluster]]
        name = "tiny"
        kind = "embedded"
        tpcds = 0.001
        [[cluster]]
        name = "all"
        kind = "embedded"
        tables = ["/"]
        tpch = 1
        tpcds = 1
        "#,
        expect_test::expect![[r#"
            punctual.toml:5:17: cluster "fraction".tpcds: there is no scale factor 1.5; write a number from 0.01 to 1, a whole number up to 10, or 100, 300 or 1000
            punctual.toml:9:17: cluster "between".tpcds: there is no scale factor 11; write a number from 0.01 to 1, a whole number up to 10, or 100, 300 or 1000
            punctual.toml:13:17: cluster "tiny".tpcds: 0.001 is out of range; write a number from 0.01 to 1000
            punctual.toml:18:16: cluster "all".tpch: `tables` is written too, and a cluster has one set of tables; leave one of them out
            punctual.toml:19:17: cluster "all".tpcds: `tables` is written too, and a cluster has one set of tables; leave one of them out
        "#]],
    );
}

#[test]
fn secrets_that_are_missing_are_refused_and_none_is_ever_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let (good, empty, huge) = (dir.path().join("good"), dir.path().join("empty"), dir.path().join("huge"));
    private::write(&good, "s3cret\r\n");
    private::write(&empty, "\n");
    private::write(&huge, &"x".repeat(10_000));
    let cluster = |name: &str, keys: &str| {
        format!("[[cluster]]\nname = \"{name}\"\nkind = \"postgres\"\naddress = \"db:1\"\n{keys}\n")
    };
    let file = |path: &Path| format!("user = \"me\"\npassword_file = {path:?}");
    let text = [
        cluster("unset", "user = \"me\"\npassword_env = \"NO_SUCH_VARIABLE\""),
        cluster("whose", "password_env = \"WAREHOUSE_PASSWORD\""),
        cluster("two", "user = \"me\"\npassword_env = \"WAREHOUSE_PASSWORD\"\npassword_file = \"x\""),
        cluster("missing", &file(&dir.path().join("missing"))),
        cluster("empty", &file(&empty)),
        cluster("huge", &file(&huge)),
        cluster("directory", &file(dir.path())),
    ]
    .concat();
    let Err(error) = read(&text) else { panic!("was accepted") };
    let shown = error.to_string().replace(&dir.path().display().to_string(), "/secrets");
    assert!(!shown.contains("hunter2"));
    expect_test::expect![[r#"
        punctual.toml:6:16: cluster "unset".password_env: the environment has no text in "NO_SUCH_VARIABLE"; set it before starting, or use `password_file`
        punctual.toml:11:16: cluster "whose".password_env: a password is of use only with the user whose it is; write `user` too
        punctual.toml:18:17: cluster "two".password_file: `password_env` is written too; leave one of them out
        punctual.toml:24:17: cluster "missing".password_file: cannot read "/secrets/missing": No such file or directory (os error 2); write a file with the password and nothing else
        punctual.toml:30:17: cluster "empty".password_file: it holds an empty password; put the password there, or leave the key out
        punctual.toml:36:17: cluster "huge".password_file: cannot read "/secrets/huge": it is larger than 4096 bytes; write a file with the password and nothing else
        punctual.toml:42:17: cluster "directory".password_file: cannot read "/secrets": it is not a file; write a file with the password and nothing else
    "#]].assert_eq(&format!("{shown}\n"));

    let settings = accepted(&cluster("good", &file(&good)));
    let ClusterKind::Address(endpoint) = &settings.clusters[0].kind else {
        panic!("a postgres cluster has an address")
    };
    assert_eq!(endpoint.login.password.as_ref().map(|secret| secret.reveal()), Some("s3cret"));
    assert!(!format!("{settings:?}").contains("s3cret"));
}

#[test]
fn text_that_is_no_toml_is_refused_where_it_goes_wrong() {
    refused(
        "[gateway]\nid = \nseed = 1\nseed = 2\n[[cluster]\n",
        expect_test::expect![[r#"
        punctual.toml:2:6: string values must be quoted, expected literal string
        punctual.toml:4:1: duplicate key
        punctual.toml:5:11: unclosed array table, expected `]`
    "#]],
    );
    assert!(read(&format!("a = {}", "[".repeat(100_000))).is_err());
    refused(
        "\u{0}",
        expect_test::expect![[r#"
        punctual.toml:1:1: invalid unquoted key, expected letters, numbers, `-`, `_`
        punctual.toml:1:2: key with no value, expected `=`
    "#]],
    );
    refused(
        &"[".repeat(100_000),
        expect_test::expect![[r#"
        punctual.toml:1:3: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`
    "#]],
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_cause() {
    let Err(error) = super::read(Some(Path::new("/no/such/punctual.toml")), Typed::default()) else {
        panic!("was read")
    };
    assert_eq!(error.to_string(), "cannot read /no/such/punctual.toml: No such file or directory (os error 2)");
    let Err(error) = super::read(Some(Path::new("/dev/zero")), Typed::default()) else { panic!("was read") };
    assert_eq!(error.to_string(), "/dev/zero is no configuration: it is larger than 1048576 bytes");
    let Err(error) = super::read(Some(Path::new("/")), Typed::default()) else { panic!("was read") };
    assert_eq!(error.to_string(), "cannot read /: Is a directory (os error 21)");
}

#[test]
fn tables_with_a_column_of_time_are_held_to_what_they_say() {
    refused(
        &format!(
            "{CLUSTER}[[table]]\nname = \"a\"\n[[table]]\nname = \"b\"\ntime_column = \"t\"\nunit = \"days\"\nfrom = \"soon\"\n\
             [[table]]\nname = \"B\"\ntime_column = \"t\"\nfrom = \"2024-01-02\"\nto = \"2024-01-02\"\n"
        ),
        expect_test::expect![[r#"
            punctual.toml:4:1: table "a": `time_column` is missing; write text
            punctual.toml:9:8: table "b".unit: "days" is not known; write one of "timestamp", "date", "s", "ms", "us", "yyyymmdd"
            punctual.toml:10:8: table "b".from: "soon" is no instant; write a date or a timestamp, as in "2024-01-31" or "2024-01-31T12:00:00Z"
            punctual.toml:12:8: table number 3.name: there is a table "B" already; write each table once
            punctual.toml:15:6: table number 3.to: it is not after `from`; write a later instant
        "#]],
    );
}

#[test]
fn only_the_first_of_very_many_problems_are_shown() {
    let text: String = (0..5_000).map(|n| format!("k{n} = 1\n")).collect();
    let Err(error) = read(&text) else { panic!("was accepted") };
    assert_eq!(error.to_string().lines().count(), 51);
}

#[test]
fn relative_paths_start_at_the_directory_of_the_file() {
    let text = format!("{CLUSTER}[gateway]\nstate_dir = \"state\"\n[journal]\ndir = \"/journal\"\n");
    let settings = parse(&text, Path::new("/etc/punctual/punctual.toml")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(settings.history.dir, Path::new("/etc/punctual/state/history"));
    assert_eq!(settings.journal.dir, Path::new("/journal"));
}

#[test]
fn the_example_is_right() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/punctual.toml");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let settings = accepted(&text);
    let names: Vec<&str> = settings.clusters.iter().map(|cluster| cluster.spec.name.as_str()).collect();
    assert_eq!(names, ["small", "large", "warehouse"]);
}

#[test]
fn the_documentation_lists_every_key_with_its_default() {
    doc::assert_generated("configuration.md", "keys", &markdown());
}

#[test]
fn a_certificate_that_cannot_be_shown_is_said_beforehand() {
    refused(
        &format!("{CLUSTER}[gateway]\ntls = \"required\"\n"),
        expect_test::expect![[r#"
            punctual.toml:5:7: gateway.tls: there is no certificate to show; write a table [tls] with `certificate` and `key`
        "#]],
    );
    refused(
        &format!("{CLUSTER}[tls]\ncertificate = \"/nowhere/a.crt\"\n"),
        expect_test::expect![[r#"
            punctual.toml:4:1: tls: `key` is missing; write a path
        "#]],
    );
    refused(
        &format!("{CLUSTER}[tls]\ncertificate = \"/nowhere/a.crt\"\nkey = \"/nowhere/a.key\"\n"),
        expect_test::expect![[r#"
            punctual.toml:5:15: tls.certificate: cannot read /nowhere/a.crt: No such file or directory (os error 2); write a file with the certificate, in PEM
        "#]],
    );
}

#[test]
fn how_a_cluster_is_encrypted_and_who_comes_there_is_settled_beforehand() {
    let dir = tempfile::tempdir().expect("a directory");
    let credentials = dir.path().join("credentials");
    private::write(&credentials, "ann analyst opensesame\n");
    let cluster =
        |more: &str| format!("[[cluster]]\nname = \"a\"\nkind = \"postgres\"\naddress = \"db:5432\"\n{more}\n");
    let login = |more: &str| accepted(&cluster(more)).clusters[0].login().expect("it has one").clone();
    assert!(matches!(login("").tls, ClusterTls::Preferred(_)));
    assert!(matches!(login("tls = \"off\"").tls, ClusterTls::Off));
    assert!(matches!(login("tls = \"required\"").tls, ClusterTls::Required(_)));
    let named = login(&format!("credentials_file = {credentials:?}"));
    assert_eq!(named.identity("ann", "d").map(|identity| identity.user), Some("analyst"));
    assert_eq!((named.identity("bob", "d"), named.own().user), (None, "analyst"));
    let others = login(&format!("credentials_file = {credentials:?}\nuser = \"everyone\"\ndatabase = \"x\""));
    assert_eq!(others.identity("ann", "d").map(|identity| (identity.user, identity.database)), Some(("analyst", "x")));
    assert_eq!(others.identity("bob", "d").map(|identity| identity.user), Some("everyone"));
    assert_eq!(login("").identity("bob", "d").map(|identity| (identity.user, identity.database)), Some(("bob", "d")));
    refused(
        &cluster("tls = \"verify-full\""),
        expect_test::expect![[r#"
        punctual.toml:5:7: cluster "a".tls: nothing says which authorities are trusted; write `tls_ca` too: a file with the authorities in PEM, such as "/etc/ssl/certs/ca-certificates.crt"
    "#]],
    );
    refused(
        &cluster("tls = \"required\"\ntls_ca = \"/nowhere\""),
        expect_test::expect![[r#"
        punctual.toml:6:10: cluster "a".tls_ca: no certificate is looked at, so it is of no use; write `tls = "verify-full"`, or leave it out
    "#]],
    );
    refused(
        &cluster("tls = \"verify-ca\"\ntls_ca = \"/nowhere\"\ncredentials_file = \"/nowhere\""),
        expect_test::expect![[r#"
            punctual.toml:6:10: cluster "a".tls_ca: cannot read /nowhere: No such file or directory (os error 2); write a file with certificates in PEM
            punctual.toml:7:20: cluster "a".credentials_file: cannot read /nowhere: No such file or directory (os error 2); write a file that is there and can be read
        "#]],
    );
}
