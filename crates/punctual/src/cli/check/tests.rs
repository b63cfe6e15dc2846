//! What `punctual check` prints.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;

use punctual_core::class::Client;

use super::*;
use crate::door::Problem;
use crate::door::frames::{Severity, problem};

mod asked;

const FILE: &str = r#"
[gateway]
http = "off"
[policy]
violation_target = 0.001
[[class]]
name = "dashboards"
slo = "3s"
match = [{ application = "looker" }, { user = "bi", table = "orders" }]
[[class]]
name = "etl"
slo = "30m"
match = [{ statement = "write" }, { application = "looker" }]
[[class]]
name = "asked_for"
[[cluster]]
name = "fleet"
kind = "simulated"
size = 128
slots = 100
time_scale = 60
warehouse = "yes"
start_takes = "90s"
[[cluster]]
name = "warehouse"
kind = "postgres"
size = 8
address = "db.example.com:5439"
"#;

/// What a run prints, and its exit code.
fn printed(file: Option<&str>, check: Check) -> (String, u8) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = file.map(|text| {
        let path = dir.path().join("punctual.toml");
        std::fs::write(&path, text).expect("a file");
        path
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&Check { config, ..check }, &mut out, &mut err).expect("output");
    let text = String::from_utf8([out, err].concat()).expect("text");
    (text.replace(&dir.path().display().to_string(), "/etc"), code)
}

#[test]
fn a_file_is_told_in_words() {
    let (text, code) = printed(Some(FILE), Check::default());
    assert_eq!(code, DONE);
    expect_test::expect![[r#"
        /etc/punctual.toml is right. It means:

        Clients connect to 127.0.0.1:6432 with any Postgres driver: psql -h 127.0.0.1 -p 6432
        They are on this machine, are not asked for a password, and are not encrypted.
        HTTP is off: no metrics, no health.

        Clusters

          name       size  slots  $/hour awake  $ to wake  what
          fleet       128    100         48.00       0.80  simulated warehouse, 60 seconds in one, starts in 90s
          warehouse     8     32          3.00       0.05  Postgres at db.example.com:5439

          An hour with all of them awake costs $51.00.

        Classes, the first that matches

          name        late after  queries
          dashboards          3s  the application starts with "looker"
                                  or the user is "bi" and it reads the table "orders"
          etl                30m  the statement is of kind "write"
                                  or the application starts with "looker"
          asked_for        never  only queries that ask for it
          default          never  whatever no rule matches
          control          never  what drivers and tools send on their own account

        Limits

          Queries go to clusters by least_outstanding.
          0.1% of the queries may miss their SLO.
          At most 1000 queries wait, each at most 5m; one more, or one that waited longer, is refused.
          At most 1000 clients are connected, each with at most 1000 prepared statements.
          A protocol message is at most 64MiB.
          Of those that wait the oldest goes first.
          A session that sends nothing for 10m in a transaction loses it.
          A cancelled query that goes on for 5s costs its cluster its life.
          A cluster has 5m to start, and 1m to finish its queries before it goes.
          A shutdown takes at most 1m.

        Records

          Ended queries go to /etc/punctual-data/history, with their shapes, without literals, at most 10GiB.
          Decisions go to /etc/punctual-data/journal, at most 1GiB.
          Latencies are predicted from /etc/punctual-data/punctual.model, if it is there.

        Warnings

          what goes to and from cluster "warehouse" at db.example.com:5439 is not encrypted if the cluster, or whoever passes for it, cannot: see its `tls`
          clients come to cluster "warehouse" under their own names and without a password, which it has to allow
          a rule of class "etl" never decides, since class "dashboards" has it too and comes first: the application starts with "looker"
    "#]].assert_eq(&text);
}

fn asked(application: &str, sql: &str) -> String {
    let check = Check { query: Some(sql.to_owned()), application: application.to_owned(), ..Check::default() };
    let (text, code) = printed(Some(FILE), check);
    assert_eq!(code, DONE);
    text
}

#[test]
fn a_query_is_told_its_class_and_why() {
    expect_test::expect![[r#"
        The query is of class dashboards: rule 1 of the class matches: the application starts with "looker".

          It is late after 3 s. Its kind is select, its tables: sales.orders.
          Its priority is 0. No lane limits it.
          Its shape, d57521f71fbe3077: select sum ( price ) from sales . orders where day > ?

        The query is of class etl: rule 1 of the class matches: the statement is of kind "write".

          It is late after 1800 s. Its kind is write, its tables: none.
          Its priority is 0. No lane limits it.
          Its shape, 3e173426bcbf42d1: insert into t values ( ? )

        The query is of class default: no rule of any class matches.

          It is never late. Its kind is select, its tables: t.
          Its priority is 0. No lane limits it.
          Its shape, 145756426e3ef3ed: select a from t

        The query is of class control: it is what drivers and tools send on their own account.

          It is never late. Its kind is select, its tables: none.
          Its shape, cd9a7f6170df316c: select ?

        The query is of class asked_for: its comment names the class.

          It is late after 90 s. Its kind is select, its tables: t.
          Its priority is 0. No lane limits it.
          Its shape, 145756426e3ef3ed: select a from t
    "#]]
    .assert_eq(
        &[
            asked("looker 7", "select sum(price) from sales.orders where day > 3"),
            asked("psql", "insert into t values (1)"),
            asked("psql", "select a from t"),
            asked("psql", "select 1"),
            asked("psql", "select a from t /* punctual: class=asked_for, slo=90s */"),
        ]
        .join("\n"),
    );
    let check =
        Check { query: Some("select a from t -- punctual: class=elt, slo=soon".to_owned()), ..Check::default() };
    let (text, _) = printed(Some(FILE), check);
    assert!(text.starts_with("The query is of class default"), "{text}");
    assert!(text.contains("asks for class \"elt\", which does not exist"), "{text}");
    assert!(text.contains("says `slo=soon`, which cannot be read"), "{text}");
}

#[test]
fn a_query_is_told_what_its_client_its_tags_and_its_session_make_of_it() {
    let file = format!(
        "{FILE}\n[[class]]\nname = \"office\"\nmatch = [{{ client = \"10.0.0.0/8\" }}]\n\
         [[class]]\nname = \"models\"\nmatch = [{{ tag = \"app=dbt\", comment = \"nightly\" }}]\n"
    );
    let told = |check: Check| printed(Some(&file), check).0;
    let query = |sql: &str| Check { query: Some(sql.to_owned()), ..Check::default() };
    let client = Client::read("::ffff:10.7.0.1");
    let text = told(Check { client, priority: Some(3), ..query("select a from t") });
    assert!(text.contains("is of class office: rule 1 of the class matches: the client is in 10.0.0.0/8."), "{text}");
    assert!(text.contains("Its priority is 0 (it asks for 3, which its class does not allow)"), "{text}");
    let text = told(query("/* {\"app\": \"dbt\", \"target\": \"nightly\"} */ select a from t"));
    assert!(text.contains("a comment says `app=dbt` and a comment has \"nightly\" in it."), "{text}");
    let text = told(Check { class: Some("Asked_For".into()), ..query("select a from t") });
    assert!(text.contains("is of class asked_for: its session chose the class."), "{text}");
    let lanes = file.replace(
        "[[class]]\nname = \"office\"",
        "[lanes]\nstrategy = \"hilo\"\nmax_low_percent = 20\n[[class]]\nname = \"office\"\npriority_from = -5",
    );
    let (text, _) = printed(Some(&lanes), Check { client, ..query("select a from t /* punctual: priority=-2 */") });
    assert!(text.contains("Its priority is -2. Its lane is low."), "{text}");
    let text = told(query("select a from t /* punctual: class=control */"));
    assert!(text.contains("asks for class \"control\" in vain: Nobody can choose it"), "{text}");
}

#[test]
fn a_file_that_is_wrong_is_bad_usage_in_both_formats() {
    let wrong = "[polcy]\n[[cluster]]\nname = \"a\"\nkind = \"simulated\"\n";
    let (text, code) = printed(Some(wrong), Check::default());
    assert_eq!(code, USAGE);
    assert_eq!(text, "/etc/punctual.toml:1:2: polcy: there is no such table; did you mean [policy]?\n");
    let (text, code) = printed(Some(wrong), Check { format: Format::Json, ..Check::default() });
    assert_eq!(code, USAGE);
    expect_test::expect![[r#"
        {
          "error": "/etc/punctual.toml:1:2: polcy: there is no such table; did you mean [policy]?",
          "problems": [
            {
              "column": 2,
              "fix": "did you mean [policy]?",
              "found": "there is no such table",
              "key": "polcy",
              "line": 1
            }
          ],
          "right": false
        }
    "#]]
    .assert_eq(&text);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let missing = Check { config: Some("/no/such/file.toml".into()), ..Check::default() };
    assert_eq!(run(&missing, &mut out, &mut err).expect("output"), USAGE);
    assert_eq!(
        String::from_utf8_lossy(&err),
        "cannot read /no/such/file.toml: No such file or directory (os error 2)\n"
    );
}

#[test]
fn programs_get_the_same_as_json() {
    let (text, code) = printed(Some(FILE), Check { format: Format::Json, ..Check::default() });
    assert_eq!(code, DONE);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["right"], true);
    assert_eq!(json["clusters"][1]["usd_per_hour"], 3.0);
    assert_eq!(json["classes"][0]["slo_s"], 3.0);
    assert_eq!(json["reached"], serde_json::Value::Null);

    let check = Check { query: Some("select a from t".to_owned()), format: Format::Json, ..Check::default() };
    let (text, code) = printed(Some(FILE), check);
    assert_eq!(code, DONE);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    let expected = [
        "adjustment",
        "because",
        "class",
        "fingerprint",
        "lane",
        "priority",
        "priority_asked",
        "priority_before",
        "scan",
        "shape",
        "slo_s",
        "statement",
        "tables",
        "thresholds_predicted",
        "thresholds_tripped",
        "warnings",
    ];
    assert_eq!((keys, &json["class"]), (expected.map(String::from).iter().collect(), &"default".into()));
}

#[test]
#[cfg(feature = "embedded")]
fn without_a_file_the_demo_clusters_are_told() {
    let (text, code) = printed(None, Check::default());
    assert_eq!(code, DONE);
    assert!(text.starts_with("Without a configuration file:\n\nClients connect to 127.0.0.1:6432"), "{text}");
    assert!(text.contains("TPC-H of scale factor 0.1"), "{text}");
}

#[test]
fn clusters_that_cannot_be_reached_fail_the_check() {
    let there = TcpListener::bind("127.0.0.1:0").expect("a port");
    let refusing = there.try_clone().expect("a descriptor");
    // It knows nobody.
    std::thread::spawn(move || {
        for mut caller in refusing.incoming().flatten() {
            let _ = caller.read(&mut [0; 256]);
            let mut said = Vec::new();
            problem(&mut said, Severity::Fatal, &Problem::new(b"28000", "who is that?"));
            let _ = caller.write_all(&said);
        }
    });
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (there_at, gone_at) = (there.local_addr().expect("an address"), gone.local_addr().expect("an address"));
    drop(gone);
    let cluster = |name: &str, address: &str| {
        format!("[[cluster]]\nname = \"{name}\"\nkind = \"postgres\"\naddress = \"{address}\"\ntls = \"off\"\n")
    };
    let connect = || Check { connect: true, ..Check::default() };
    let good = cluster("there", &there_at.to_string());
    let (text, code) = printed(Some(&good), connect());
    assert_eq!(code, DONE);
    let reached =
        "can be reached; a made-up name was tried (clients use their own), and the cluster said: who is that? (28000)";
    assert!(text.contains(&format!("there at {there_at} {reached}")), "{text}");
    let (text, code) = printed(Some(&(good.clone() + "user = \"ann\"\n")), connect());
    assert_eq!(code, FAILED);
    let refused = "cannot be reached: the cluster said: who is that? (28000)";
    assert!(text.contains(&format!("there at {there_at} {refused}")), "{text}");

    let bad = cluster("gone", &gone_at.to_string()) + &cluster("socket", "unix:/no/such/socket");
    let (text, code) = printed(Some(&(good + &bad)), connect());
    assert_eq!(code, FAILED);
    assert!(text.contains(&format!("gone at {gone_at} cannot be reached: Connection refused")), "{text}");
    assert!(text.contains("socket at /no/such/socket cannot be reached: No such file"), "{text}");
}

#[test]
#[cfg(feature = "embedded")]
fn embedded_clusters_that_would_not_start_fail_the_check() {
    let (empty, broken) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    std::fs::write(empty.path().join("readme.txt"), "soon").expect("a file");
    std::fs::write(broken.path().join("orders.parquet"), "half of it").expect("a file");
    let cluster =
        |name: &str, dir: &Path| format!("[[cluster]]\nname = \"{name}\"\nkind = \"embedded\"\ntables = [{dir:?}]\n");
    let file = cluster("bare", empty.path()) + &cluster("broken", broken.path());
    let (text, code) = printed(Some(&file), Check::default());
    assert_eq!(code, FAILED);
    assert!(text.starts_with("/etc/punctual.toml can be read, but not every cluster would start."), "{text}");
    let bare = format!(
        "cluster \"bare\" would not start: cannot serve tables from {}: there are no Parquet files in it",
        empty.path().display()
    );
    assert!(text.contains(&bare), "{text}");
    let broken = format!(
        "cluster \"broken\" would not start: cannot serve tables from {}/orders.parquet: it is not",
        broken.path().display()
    );
    assert!(text.contains(&broken), "{text}");
    let (text, code) = printed(Some(&file), Check { format: Format::Json, ..Check::default() });
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &json["right"], json["problems"].as_array().map(Vec::len)), (FAILED, &false.into(), Some(2)));
}

#[test]
fn a_fleet_that_never_comes_fails_the_check() {
    let scaled = "[[cluster]]\nname = \"a\"\nkind = \"simulated\"\nkeep = \"scaled\"\n";
    let (text, code) = printed(Some(scaled), Check::default());
    assert!(code == FAILED && text.contains("no cluster is started at the start"), "{text}");
    for mode in ["shadow", "suggest"] {
        let (text, code) = printed(Some(&format!("{scaled}[scaling]\nmode = \"{mode}\"\n")), Check::default());
        assert!(code == FAILED && text.contains(&format!("`scaling.mode` is \"{mode}\", so none ever is")), "{text}");
    }
    let (text, _) =
        printed(Some(&format!("{scaled}[scaling]\nmode = \"on\"\nstart_takes = \"10m\"\n")), Check::default());
    assert!(!text.contains("no cluster is started") && text.contains("is given up after 5m"), "{text}");
}

const SCALED: &str = r#"
[gateway]
http = "off"
[policy]
routing = "slo"
[[class]]
name = "a"
slo = "3s"
[[cluster]]
name = "always"
kind = "simulated"
size = 2
[[cluster]]
name = "burst"
kind = "simulated"
keep = "scaled"
initial = 1
size = 4
price_per_unit_hour = 0.5
[[cluster]]
name = "more"
kind = "simulated"
keep = "scaled"
size = 8
[scaling]
"#;

/// The text from one line on, up to another.
fn part(text: &str, from: &str, to: &str) -> String {
    let (from, to) = (text.find(from).expect("its beginning"), text.find(to).expect("its end"));
    text[from..to].trim_end().to_owned() + "\n"
}

#[test]
fn what_scaling_may_do_and_cost_is_told() {
    let (text, code) =
        printed(Some(&format!("{SCALED}mode = \"on\"\nmost = 4\nmost_per_hour = 9.5\n")), Check::default());
    assert_eq!(code, DONE);
    expect_test::expect![[r#"
        Clusters

          name    size  slots  $/hour awake  $ to wake  what
          always     2      8          0.75     0.0125  simulated
          burst      4     16          2.00    0.03333  scaled, 1 at the start; simulated
          more       8     32          3.00       0.05  scaled, 0 at the start; simulated

          An hour with all awake that are there at the start costs $2.75, and at most $9.50.
          One that is stopped sooner than waking it up is billed for is billed until then.

        Scaling

          When a cluster is started is decided by combined, what by add_cluster.
          "burst" is scaled: 1 is there at the start, each called burst and a number.
          "more" is scaled: none is there at the start, each called more and a number.
          There are at most 4 clusters, the 1 that is there for good included, as long as all of them awake cost at most $9.50 an hour.
          One that has been idle for 20m is stopped, 20m after its start at the earliest, while more than 1 are ready.
          A start is expected to take 5m.
          Until there is a model, what is started is as by horizontal, not by add_cluster.
    "#]]
    .assert_eq(&part(&text, "Clusters", "\nClasses"));
    expect_test::expect![[r#"
        Warnings

          slo goes by least_outstanding until there is a model in /etc/punctual-data/punctual.model
    "#]]
    .assert_eq(&text[text.find("Warnings").expect("warnings")..]);
    let json = Check { format: Format::Json, ..Check::default() };
    // Three of the dearest beside the one that stays.
    let (text, _) = printed(Some(&format!("{SCALED}mode = \"on\"\nmost = 4\n")), json.clone());
    let said: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&said["usd_per_hour"], &said["usd_per_hour_most"]), (&2.75.into(), &9.75.into()));
    assert_eq!((&said["clusters"][1]["keep"], &said["clusters"][1]["initial"]), (&"scaled".into(), &1.into()));
    // Where nothing is started, it costs no more than at the start.
    let (text, _) = printed(Some(&format!("{SCALED}mode = \"shadow\"\n")), json);
    let said: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&said["usd_per_hour"], &said["usd_per_hour_most"]), (&2.75.into(), &2.75.into()));
    assert!(
        said["scaling"][0].as_str().is_some_and(|said| said.starts_with("Nothing is started or stopped")),
        "{text}"
    );
}

#[test]
fn scaling_that_can_never_start_anything_is_warned_of() {
    let kept = "[[cluster]]\nname = \"k\"\nkind = \"simulated\"\nsize = 2\n";
    let scaled = "[[cluster]]\nname = \"s\"\nkind = \"simulated\"\nkeep = \"scaled\"\nsize = 4\n";
    let warned = |rules: &str| {
        let (text, code) = printed(Some(&format!("{kept}{scaled}[scaling]\nmode = \"on\"\n{rules}")), Check::default());
        assert_eq!(code, DONE);
        text.lines().find(|line| line.contains("nothing can ever be started")).map(|line| line.trim().to_owned())
    };
    assert_eq!(
        warned("most = 1\n").as_deref(),
        Some(
            "nothing can ever be started: 1 cluster is there for good, and there may be 1 (`scaling.most`, `policy.max_clusters`)"
        )
    );
    // $0.75 and $1.50.
    assert_eq!(
        warned("most_per_hour = 2.2\n").as_deref(),
        Some(
            "nothing can ever be started: with the cheapest that may be, \"s\", the clusters would cost $2.25 an hour, and \
             `scaling.most_per_hour` is 2.20"
        )
    );
    assert_eq!(warned("most = 2\nmost_per_hour = 2.25\n"), None);
}

#[test]
#[cfg(feature = "embedded")]
fn the_example_is_explained_without_surprise() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/punctual.toml");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let check = Check { config: Some(path), ..Check::default() };
    assert_eq!(run(&check, &mut out, &mut err).expect("output"), DONE);
    assert!(err.is_empty());
}

#[test]
fn the_command_line_reads_what_is_documented() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        check: Check,
    }
    let read =
        |words: &[&str]| <Line as clap::Parser>::try_parse_from([&["check"], words].concat()).map(|line| line.check);
    let check = read(&["-c", "p.toml", "--query", "select 1", "--user", "ann", "--format", "json"]).expect("right");
    assert_eq!((check.config.as_deref(), check.user.as_str()), (Some(Path::new("p.toml")), "ann"));
    assert_eq!((check.connect, check.format), (false, Format::Json));
    assert!(read(&["--connect"]).expect("right").connect);
    assert!(read(&["--sql", "select 1", "--connect"]).is_err(), "two questions");
    assert!(read(&["--user", "ann"]).is_err());
    let check = read(&["--query", "select 1", "--client", "10.1.2.3", "--priority", "-2"]).expect("right");
    assert_eq!((check.client, check.priority), (Client::read("10.1.2.3"), Some(-2)));
    assert!(read(&["--query", "select 1", "--client", "office"]).is_err());
    assert!(read(&["--format", "yaml"]).is_err());
}
