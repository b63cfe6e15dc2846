//! Clusters that commands start and stop: what is started is stopped in the end, whatever goes wrong between.

mod served;

use std::fs;
use std::path::{Path, PathBuf};

use served::Served;
use tempfile::TempDir;

/// A warehouse as a script: clusters are simulated ones, known by a file each.
const SCRIPT: &str = r#"
echo "$1 $PUNCTUAL_CLUSTER $PUNCTUAL_GENERATION of $PUNCTUAL_GATEWAY, size $PUNCTUAL_SIZE" >> "$HERE/calls"
file="$HERE/$PUNCTUAL_CLUSTER.cluster"
start() {
    "$PUNCTUAL" engine --simulated --size "$PUNCTUAL_SIZE" --socket-dir "$HERE/$PUNCTUAL_CLUSTER" \
        > /dev/null 2>&1 < /dev/null &
    echo "$PUNCTUAL_CLUSTER unix:$HERE/$PUNCTUAL_CLUSTER/.s.PGSQL.5432 $!" > "$file"
    echo "starting $PUNCTUAL_CLUSTER"
    echo "unix:$HERE/$PUNCTUAL_CLUSTER/.s.PGSQL.5432"
}
stop() {
    if [ -e "$file" ]; then
        read -r name address pid < "$file"
        kill "$pid" && rm "$file"
    fi
}
list() {
    for file in "$HERE"/*.cluster; do
        [ ! -e "$file" ] || { read -r name address pid < "$file"; echo "$name $address"; }
    done
}
"#;

/// Where the script and what it starts are. What is still there at the end is ended.
struct Warehouse(TempDir);

impl Warehouse {
    /// The script, with some of it done otherwise.
    fn new(otherwise: &str) -> Warehouse {
        let dir = tempfile::tempdir().expect("a directory");
        let (here, program) = (dir.path().display(), env!("CARGO_BIN_EXE_punctual"));
        let script = format!("HERE='{here}'\nPUNCTUAL='{program}'\n{SCRIPT}\n{otherwise}\n\"$1\"\n");
        fs::write(dir.path().join("warehouse.sh"), script).expect("a script");
        Warehouse(dir)
    }

    /// One cluster that the script starts, and whatever else is configured.
    fn configuration(&self, more: &str) -> String {
        let script = self.0.path().join("warehouse.sh");
        let command = |what: &str| format!("{what} = [\"sh\", {script:?}, \"{what}\"]\n");
        format!(
            "[policy]\nretry_first = \"50ms\"\n[[cluster]]\nname = \"a\"\nkind = \"exec\"\nsize = 2\n{}{}{}{more}\n",
            command("start"),
            command("stop"),
            command("list")
        )
    }

    /// What the script was told, without its lists.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.0.path().join("calls")).unwrap_or_default();
        calls.lines().filter(|call| !call.starts_with("list")).map(str::to_owned).collect()
    }

    fn wait_for_calls(&self, count: usize) -> Vec<String> {
        while self.calls().len() < count {
            std::thread::yield_now();
        }
        self.calls()
    }

    fn clusters(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path()).expect("the directory").map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "cluster")).collect()
    }
}

impl Drop for Warehouse {
    fn drop(&mut self) {
        for cluster in self.clusters() {
            let known = fs::read_to_string(cluster).unwrap_or_default();
            let pid = known.split_whitespace().nth(2).and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

async fn asks(served: &Served) {
    let client = served.client("psql").await;
    client.simple_query("SELECT count(*) FROM t /* punctual: work=1ms */").await.expect("an answer");
}

/// What a client is told while no cluster is there.
async fn refused(served: &Served) -> String {
    let client = served.client("psql").await;
    let error = client.simple_query("SELECT 1 FROM t").await.expect_err("no cluster is there");
    error.as_db_error().and_then(|error| error.detail()).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_starts_a_cluster_queries_run_there_and_a_command_stops_it() {
    let warehouse = Warehouse::new("");
    let served = Served::start(&warehouse.configuration(""));
    served.wait_ready();
    asks(&served).await;
    assert_eq!(warehouse.calls(), ["start a 0 of 0, size 2"]);
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
    assert_eq!(warehouse.calls(), ["start a 0 of 0, size 2", "stop a 0 of 0, size 2"]);
    assert_eq!(warehouse.clusters(), [""; 0].map(PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_what_is_wanted_is_taken_over_and_what_is_not_is_stopped() {
    let warehouse = Warehouse::new("kill() { command kill \"$1\" 2> /dev/null; true; }");
    let served = Served::start(&warehouse.configuration(""));
    served.wait_ready();
    let (_, _, dir) = served.kill();
    assert_eq!(warehouse.clusters().len(), 1, "it outlives the gateway");
    // One that nobody wants any more.
    fs::write(warehouse.0.path().join("b-7.cluster"), "b-7 127.0.0.1:1 no-process\n").expect("a file");
    fs::write(warehouse.0.path().join("harmless"), "").expect("a file");
    let served = Served::start_in(dir, &warehouse.configuration(""));
    served.wait_ready();
    asks(&served).await;
    warehouse.wait_for_calls(2);
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("taken over") && log.contains("it is there and not wanted"), "{log}");
    let mut calls = warehouse.calls();
    calls.sort();
    assert_eq!(calls, ["start a 0 of 0, size 2", "stop a 0 of 0, size 2", "stop b-7 0 of 0, size 0"]);
}

/// Starts that come to nothing: each is followed by a stop before the next, and clients hear why.
async fn fails(otherwise: &str, more: &str, why: &str) {
    let warehouse = Warehouse::new(otherwise);
    let served = Served::start(&warehouse.configuration(more));
    let calls = warehouse.wait_for_calls(4);
    let expected = ["start a 0", "stop a 0", "start a 1", "stop a 1"];
    assert!(calls.iter().zip(expected).all(|(call, expected)| call.starts_with(expected)), "{calls:?}");
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains(why), "{log}");
    assert_eq!(warehouse.clusters(), [""; 0].map(PathBuf::from));
    let calls = warehouse.calls();
    assert!(calls.last().is_some_and(|call| call.starts_with("stop")), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_is_cleaned_up_and_tried_again() {
    let fail = "start() { echo 'no quota' >&2; exit 3; }";
    fails(fail, "", "start: it failed (exit status: 3): no quota").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_hangs_is_killed_and_cleaned_up() {
    fails("start() { sleep 1000; }", "start_within = \"1s\"", "start: it took longer than 1s and was killed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_says_no_address_is_cleaned_up() {
    fails("start() { echo started; }", "", "start: its last line is no address").await;
    fails("start() { :; }", "", "start: it succeeded, and said no address").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_where_nothing_answers_is_cleaned_up() {
    let nowhere = "start() { echo 127.0.0.1:1; }";
    fails(nowhere, "start_within = \"1s\"", "start: nothing answers at 127.0.0.1:1 within 1s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_where_something_listens_and_never_answers_is_cleaned_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let otherwise = format!("start() {{ echo {address}; }}");
    let warehouse = Warehouse::new(&otherwise);
    let brief = "connect_within = \"1s\"\n".to_owned();
    let served = Served::start(&(brief + &warehouse.configuration("start_within = \"1s\"")));
    let calls = warehouse.wait_for_calls(3);
    assert!(calls[1].starts_with("stop a 0") && calls[2].starts_with("start a 1"), "{calls:?}");
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains(&format!("nothing answers at {address} within 1s")), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_hangs_does_not_hold_up_a_shutdown_beyond_its_limit_and_is_told() {
    let warehouse = Warehouse::new("if [ \"$1\" = stop ]; then sleep 1000; fi");
    let served = Served::start_to_stop_within("1s", &warehouse.configuration(""));
    served.wait_ready();
    let (_, log, _) = served.stop();
    let told = "it may run on and cost money: the gateway has ended before its stop has";
    assert_eq!(log.matches(told).count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_answers_the_last_counts_and_a_client_hears_why_there_is_no_cluster() {
    let twice = "once() {\n    echo 127.0.0.1:1\n    start\n}\nif [ \"$1\" = start ]; then once; exit; fi";
    let warehouse = Warehouse::new(twice);
    let served = Served::start(&warehouse.configuration(""));
    served.wait_ready();
    asks(&served).await;
    drop(served.stop());

    let warehouse = Warehouse::new("start() { echo 'no quota' >&2; exit 3; }");
    let more = "[[class]]\nname = \"psql\"\nmatch = [{ application = \"psql\" }]";
    let configuration = warehouse.configuration(more).replace("[policy]\n", "[policy]\nwait_limit = \"100ms\"\n");
    let served = Served::start(&configuration);
    warehouse.wait_for_calls(2);
    let told = refused(&served).await;
    assert!(told.contains("Cluster a: ") && told.contains("no quota"), "{told}");
    drop(served.stop());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_fails_is_tried_again_until_it_succeeds() {
    let twice = r#"
        once() { if [ ! -e "$HERE/tried" ]; then touch "$HERE/tried"; exit 1; fi; stop; }
        if [ "$1" = stop ]; then once; exit; fi
    "#;
    let warehouse = Warehouse::new(twice);
    let served = Served::start(&warehouse.configuration(""));
    served.wait_ready();
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("stop: tried again in 250ms: it failed"), "{log}");
    assert_eq!(warehouse.calls().len(), 3);
    assert_eq!(warehouse.clusters(), [""; 0].map(PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_fails_keeps_no_cluster_from_starting() {
    let warehouse = Warehouse::new("list() { exit 1; }");
    let served = Served::start(&warehouse.configuration(""));
    served.wait_ready();
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("what is there from before is not known"), "{log}");
}

#[test]
fn commands_that_are_missing_or_no_words_are_said() {
    let text = "[[cluster]]\nname = \"a\"\nkind = \"exec\"\nstart = []\nstop = \"stop\"\n[[cluster]]\nname = \"b\"\n\
                kind = \"exec\"\nstart = [\"x\", 3]\nstop = [\"x\"]\nlist = [\"x\"]\naddress = \"h:1\"\n";
    let error = punctual::config::parse(text, Path::new("punctual.toml")).expect_err("much is wrong").to_string();
    for part in [
        "cluster \"a\".start: it names no program",
        "cluster \"a\".stop: it is",
        "cluster \"a\": `list` is missing",
        "cluster \"b\".start: it holds what is no text",
        "cluster \"b\".address: only clusters of kind \"postgres\" have it",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_does_not_begin_before_an_old_one_of_its_name_has_ended() {
    let warehouse = Warehouse::new("");
    // By its name it could be the first that is started for a query. It is not wanted from the start, so it is stopped.
    fs::write(warehouse.0.path().join("a-0.cluster"), "a-0 127.0.0.1:1 no-process\n").expect("a file");
    let scaled = "keep = \"scaled\"\n[scaling]\nmode = \"on\"\nleast = 0\n";
    let slow =
        "kill() { until [ -e \"$HERE/asked\" ]; do sleep 0.01; done; command kill \"$1\" 2> /dev/null; true; }\n";
    let script = warehouse.0.path().join("warehouse.sh");
    let text = fs::read_to_string(&script).expect("the script");
    fs::write(&script, format!("{slow}{text}")).expect("the script");
    let served = Served::start(&warehouse.configuration(scaled));
    warehouse.wait_for_calls(1);
    let client = served.client("psql").await;
    let asking = tokio::spawn(async move { client.simple_query("SELECT 1 FROM t /* punctual: work=1ms */").await });
    while !served.get("/v1/clusters").1.contains("\"phase\":\"starting\"") {
        tokio::task::yield_now().await;
    }
    fs::write(warehouse.0.path().join("asked"), "").expect("a file");
    asking.await.expect("no panic").expect("an answer");
    let calls = warehouse.calls();
    assert_eq!(calls, ["stop a-0 0 of 0, size 0", "start a-0 0 of 0, size 2"]);
    drop(served.stop());
    assert_eq!(warehouse.clusters(), [""; 0].map(PathBuf::from));
}

/// Runs are told apart: each is a file of its own, and listed with its run. Of `start`, the first waits for leave.
const BY_RUN: &str = r#"
file="$HERE/$PUNCTUAL_CLUSTER@$PUNCTUAL_RUN.cluster"
start() {
    if mkdir "$HERE/first" 2> /dev/null; then until [ -e "$HERE/go" ]; do sleep 0.01; done; fi
    dir="$HERE/$PUNCTUAL_RUN"
    "$PUNCTUAL" engine --simulated --size "$PUNCTUAL_SIZE" --socket-dir "$dir" > /dev/null 2>&1 < /dev/null &
    echo "$PUNCTUAL_CLUSTER unix:$dir/.s.PGSQL.5432 $! $PUNCTUAL_RUN" > "$file.new"
    mv "$file.new" "$file"
    echo "unix:$dir/.s.PGSQL.5432"
}
stop() {
    if [ -e "$file" ]; then
        read -r name address pid run < "$file"
        kill "$pid" && rm "$file"
    fi
}
list() {
    for file in "$HERE"/*.cluster; do
        [ ! -e "$file" ] || { read -r name address pid run < "$file"; echo "$name $address run=$run"; }
    done
}
"#;

/// The first `start` waits for leave.
const SLOW: &str = r#"
at_once() {
    "$PUNCTUAL" engine --simulated --size "$PUNCTUAL_SIZE" --socket-dir "$HERE/$PUNCTUAL_CLUSTER" \
        > /dev/null 2>&1 < /dev/null &
    echo "$PUNCTUAL_CLUSTER unix:$HERE/$PUNCTUAL_CLUSTER/.s.PGSQL.5432 $!" > "$file"
    echo "unix:$HERE/$PUNCTUAL_CLUSTER/.s.PGSQL.5432"
}
start() {
    if mkdir "$HERE/first" 2> /dev/null; then until [ -e "$HERE/go" ]; do sleep 0.01; done; fi
    at_once
}
"#;

/// `stop` fails until it may succeed.
const STUBBORN: &str = r#"if [ "$1" = stop ] && [ ! -e "$HERE/may" ]; then echo 'not now' >&2; exit 1; fi"#;

const SCALED: &str = "keep = \"scaled\"\n[scaling]\nmode = \"on\"\nleast = 0\n";

impl Warehouse {
    fn allow(&self, what: &str) {
        fs::write(self.0.path().join(what), "").expect("a file");
    }

    fn wait_for_clusters(&self, count: usize) {
        while self.clusters().len() != count {
            std::thread::yield_now();
        }
    }
}

/// Sends a query, and does not wait for its answer.
async fn wants(served: &Served) {
    let client = served.client("psql").await;
    tokio::spawn(async move { client.simple_query("SELECT 1 FROM t /* punctual: work=1ms */").await });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_outlives_its_gateway_is_waited_for_and_what_it_starts_is_taken_over() {
    let warehouse = Warehouse::new(SLOW);
    let more = "[[class]]\nname = \"psql\"\nmatch = [{ application = \"psql\" }]";
    let configuration = warehouse.configuration(more).replace("[policy]\n", "[policy]\nwait_limit = \"100ms\"\n");
    let served = Served::start(&configuration);
    warehouse.wait_for_calls(1);
    let (_, _, dir) = served.kill();
    let served = Served::start_in(dir, &configuration);
    while !refused(&served).await.contains("a start of an earlier gateway still runs") {}
    warehouse.allow("go");
    served.wait_ready();
    asks(&served).await;
    assert_eq!(warehouse.calls(), ["start a 0 of 0, size 2"], "nothing is started beside it");
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("taken over"), "{log}");
    assert_eq!(warehouse.clusters(), [""; 0].map(PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_start_brings_up_that_outlives_its_gateway_is_stopped_if_nobody_wants_it() {
    let warehouse = Warehouse::new(SLOW);
    let served = Served::start(&warehouse.configuration(SCALED));
    wants(&served).await;
    warehouse.wait_for_calls(1);
    let (_, _, dir) = served.kill();
    let served = Served::start_in(dir, &warehouse.configuration(SCALED));
    assert_eq!(warehouse.clusters().len(), 0);
    warehouse.allow("go");
    assert_eq!(warehouse.wait_for_calls(2), ["start a-0 0 of 0, size 2", "stop a-0 0 of 0, size 0"]);
    warehouse.wait_for_clusters(0);
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("it is there and not wanted"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_under_one_name_the_one_of_an_earlier_gateway_is_stopped() {
    let warehouse = Warehouse::new(BY_RUN);
    let configuration = warehouse.configuration("start_within = \"3s\"");
    let served = Served::start(&configuration);
    warehouse.wait_for_calls(1);
    drop(served.kill());
    // With a state of its own, as on another machine: it cannot know that a start is in flight.
    let served = Served::start(&configuration);
    served.wait_ready();
    let ours = warehouse.clusters();
    warehouse.allow("go");
    let calls = warehouse.wait_for_calls(3);
    assert_eq!(calls, ["start a 0 of 0, size 2", "start a 0 of 0, size 2", "stop a 0 of 0, size 0"]);
    warehouse.wait_for_clusters(1);
    assert_eq!(warehouse.clusters(), ours);
    asks(&served).await;
    let (status, log, _) = served.stop();
    assert!(status.success(), "{log}");
    assert_eq!(warehouse.calls().len(), 4);
    assert_eq!(warehouse.clusters(), [""; 0].map(PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_does_not_stop_is_kept_in_mind_and_told_to_stop_until_it_does() {
    let warehouse = Warehouse::new(STUBBORN);
    let scaled = format!("{SCALED}idle = \"10ms\"\nlifetime = \"10ms\"\n");
    let configuration = warehouse.configuration(&scaled).replace("[policy]\n", "[policy]\ndrain_limit = \"10ms\"\n");
    let served = Served::start(&configuration);
    asks(&served).await;
    // The last of them comes long after the limit.
    warehouse.wait_for_calls(6);
    assert!(served.get("/v1/clusters").1.contains("\"phase\":\"stopping\""));
    assert!(served.get("/metrics").1.contains("punctual_cluster_unstopped{cluster=\"a-0\"} 1"));
    warehouse.allow("may");
    warehouse.wait_for_clusters(0);
    while served.get("/metrics").1.contains("punctual_cluster_unstopped{") {
        std::thread::yield_now();
    }
    while served.get("/v1/clusters").1.contains("\"phase\":\"stopping\"") {
        std::thread::yield_now();
    }
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("it may run on and cost money: stop: it failed"), "{log}");
    assert!(log.contains("not now; tried again in 4s"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_wants_and_does_not_stop_is_told_so_again_at_a_shutdown() {
    let warehouse = Warehouse::new(&format!("kill() {{ true; }}\n{STUBBORN}"));
    fs::write(warehouse.0.path().join("b-7.cluster"), "b-7 127.0.0.1:1 no-process\n").expect("a file");
    let served = Served::start(&warehouse.configuration(SCALED));
    while !served.get("/metrics").1.contains("punctual_cluster_unstopped{cluster=\"b-7\"} 1") {
        std::thread::yield_now();
    }
    served.terminate();
    warehouse.allow("may");
    let (status, log, _) = served.stopped();
    assert!(status.success() && log.contains("it may run on and cost money: stop: it failed"), "{log}");
    assert_eq!(warehouse.clusters(), [""; 0].map(PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_under_one_name_that_cannot_be_told_apart_are_told_of_and_left_alone() {
    let twice = "list() { echo a 127.0.0.1:1; echo a 127.0.0.1:2; }";
    let warehouse = Warehouse::new(twice);
    let served = Served::start(&warehouse.configuration(""));
    while !served.get("/metrics").1.contains("punctual_cluster_unstopped{cluster=\"a\"} 1") {
        std::thread::yield_now();
    }
    let (_, log, _) = served.stop();
    assert!(log.contains("several run under one name and cost money"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_hangs_holds_up_starts_for_a_while_and_not_for_ever() {
    let warehouse = Warehouse::new("list() { sleep 1000; }");
    let served = Served::start(&warehouse.configuration(""));
    served.wait_ready();
    asks(&served).await;
    let (status, log, _) = served.stop();
    assert!(status.success() && log.contains("list has not answered within 10s"), "{log}");
}
