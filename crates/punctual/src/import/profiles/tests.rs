//! A small file of each system, written by hand, and the rows that it becomes.

use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{QueryId, Units};
use punctual_core::query::{SqlState, Status};
use punctual_core::statement::Statement;
use punctual_core::time::Time;

use super::ALL;
use crate::config::doc;
use crate::history::{Key, Row};
use crate::import::mapping::FILE;
use crate::import::report::Report;
use crate::import::target::Target;
use crate::import::tests::Bench;

/// 2024-05-27 13:45:02 UTC.
const T: u64 = 1_716_817_502_000_000;

fn import(profile: &str, file: &str) -> (Report, Vec<Row>) {
    let bench = Bench::new(profile, "", &[file.as_bytes()]);
    let report = bench.run().unwrap();
    assert_eq!(report.dropped, 0, "{report}");
    (report, bench.rows())
}

/// A finished row that arrived at [`T`] and took so many milliseconds.
fn row(millis: u64, sql: &str) -> Row {
    let fingerprint = Statement::read(sql).fingerprint;
    let row = Row::new(Time::from_micros(T), Time::from_micros(T + millis * 1_000), fingerprint);
    Row { sql: Some(sql.into()), status: Some(Status::Finished), ..row }
}

fn after(millis: u64) -> Option<Time> {
    Some(Time::from_micros(T + millis * 1_000))
}

fn hashed(text: &str) -> u64 {
    Key::PUBLIC.hash(text.as_bytes())
}

/// The same row without the hash of its text, which is the directory's own.
fn unhashed(row: &Row) -> Row {
    Row { text_hash: None, ..row.clone() }
}

#[test]
fn redshift_sys_query_history() {
    let (report, rows) = import(
        "redshift",
        "user_id,query_id,database_name,query_type,status,result_cache_hit,start_time,end_time,elapsed_time,queue_time,\
         execution_time,returned_rows,returned_bytes,query_text,compute_type,service_class_name\n\
         100,7001,dev       ,SELECT,success   ,f,2024-05-27 13:45:02,2024-05-27 13:45:03.5,1500000,500000,1000000,3,96,\
         \"select a\\nfrom t   \",primary,Default queue\n\
         100,7002,dev,SELECT,canceled,f,2024-05-27 13:45:02,2024-05-27 13:45:04,2000000,0,2000000,-1,0,select b from t,\
         primary-scale,\n\
         100,7003,dev,SELECT,running,f,2024-05-27 13:45:02,,,0,,,,select c from t,primary,\n",
    );
    assert_eq!(report.left_out, 1);
    let first = Row {
        query_id: Some(QueryId(7001)),
        started: after(500),
        cluster: Some("primary".into()),
        lane: Some("Default queue".into()),
        user: Some("100".into()),
        database: Some("dev".into()),
        rows: Some(3),
        bytes: Some(96),
        ..row(1_500, "select a\nfrom t")
    };
    assert_eq!(unhashed(&rows[0]), first);
    let second = Row {
        query_id: Some(QueryId(7002)),
        started: after(0),
        cluster: Some("primary-scale".into()),
        user: Some("100".into()),
        database: Some("dev".into()),
        status: Some(Status::Cancelled),
        bytes: Some(0),
        ..row(2_000, "select b from t")
    };
    assert_eq!(unhashed(&rows[1]), second);
}

#[test]
fn redshift_stl_query() {
    let (report, rows) = import(
        "redshift",
        "userid,query,label,xid,pid,database,querytxt,starttime,endtime,aborted\n\
         1,5,default,9,8,dev,select 1,2024-05-27 13:45:02.000000,2024-05-27 13:45:02.250000,0\n\
         1,6,default,9,8,dev,select 1,2024-05-27 13:45:02.000000,2024-05-27 13:45:05.000000,1\n",
    );
    assert_eq!(report.files[0].layout, "STL_QUERY");
    let first = Row {
        query_id: Some(QueryId(5)),
        user: Some("1".into()),
        database: Some("dev".into()),
        ..row(250, "select 1")
    };
    assert_eq!(unhashed(&rows[0]), first);
    assert_eq!(rows[1].status, Some(Status::Cancelled));
}

#[test]
fn snowflake_query_history() {
    let (_, rows) = import(
        "snowflake",
        "QUERY_ID,QUERY_TEXT,DATABASE_NAME,USER_NAME,WAREHOUSE_NAME,WAREHOUSE_SIZE,CLUSTER_NUMBER,EXECUTION_STATUS,\
         ERROR_CODE,START_TIME,END_TIME,TOTAL_ELAPSED_TIME,BYTES_WRITTEN_TO_RESULT,ROWS_PRODUCED,\
         QUEUED_PROVISIONING_TIME,QUEUED_REPAIR_TIME,QUEUED_OVERLOAD_TIME\n\
         01b-7,select 1,DB,ADA,WH,X-Small,2,SUCCESS,,2024-05-27 06:45:02.000 -0700,2024-05-27 06:45:03.000 -0700,1000,64,\
         1,100,0,20\n\
         01b-8,select 2,DB,ADA,WH,2X-Large,,FAIL,000630,2024-05-27 06:45:02.000 -0700,2024-05-27 06:45:04.000 -0700,2000,\
         ,,0,0,0\n",
    );
    let first = Row {
        query_id: Some(QueryId(hashed("01b-7"))),
        started: after(120),
        cluster: Some("WH/2".into()),
        cluster_size: Some(Units(1)),
        user: Some("ADA".into()),
        database: Some("DB".into()),
        rows: Some(1),
        bytes: Some(64),
        ..row(1_000, "select 1")
    };
    assert_eq!(unhashed(&rows[0]), first);
    let cluster = (rows[1].cluster.as_deref(), rows[1].cluster_size);
    assert_eq!(cluster, (Some("WH"), Some(Units(32))));
    assert_eq!((rows[1].status, rows[1].sqlstate), (Some(Status::Cancelled), Some(SqlState(*b"57014"))));
}

#[test]
fn trino_runtime_queries() {
    let (report, rows) = import(
        "trino",
        "query_id,state,user,source,query,resource_group_id,queued_time_ms,analysis_time_ms,planning_time_ms,created,\
         started,last_heartbeat,end,error_type,error_code\n\
         20240527_1,FINISHED,ada,trino-cli,select 1,\"[global, adhoc]\",250,1,2,2024-05-27 13:45:02.000 UTC,\
         2024-05-27 13:45:02.250 UTC,2024-05-27 13:45:03.000 UTC,2024-05-27 13:45:03.000 UTC,,\n\
         20240527_2,FAILED,ada,trino-cli,select 2,,0,1,2,2024-05-27 13:45:02.000 UTC,,,2024-05-27 13:45:04.000 UTC,\
         USER_ERROR,USER_CANCELED\n\
         20240527_3,FAILED,ada,trino-cli,select 3,,0,1,2,2024-05-27 13:45:02.000 UTC,,,2024-05-27 13:45:05.000 UTC,\
         INSUFFICIENT_RESOURCES,EXCEEDED_LOCAL_MEMORY_LIMIT\n\
         20240527_4,RUNNING,ada,trino-cli,select 4,,0,1,2,2024-05-27 13:45:02.000 UTC,,,,,\n",
    );
    let first = Row {
        query_id: Some(QueryId(hashed("20240527_1"))),
        started: after(250),
        lane: Some("[global, adhoc]".into()),
        user: Some("ada".into()),
        application: Some("trino-cli".into()),
        ..row(1_000, "select 1")
    };
    assert_eq!(unhashed(&rows[0]), first);
    assert_eq!((rows[1].status, rows[2].status), (Some(Status::Cancelled), Some(Status::Failed)));
    assert_eq!(report.left_out, 1);
}

#[test]
fn trino_events() {
    let (report, rows) = import(
        "trino",
        r#"{"metadata":{"queryId":"q1","query":"select 1","queryState":"FINISHED"},"statistics":{"outputRows":1,"outputBytes":9},"context":{"user":"ada","source":"bi","catalog":"hive","environment":"prod"},"failureInfo":null,"createTime":"2024-05-27T13:45:02Z","executionStartTime":"2024-05-27T13:45:02.100Z","endTime":"2024-05-27T13:45:03Z"}
{"metadata":{"queryId":"q2","query":"select 2","queryState":"FAILED"},"context":{"user":"ada"},"failureInfo":{"errorCode":{"code":131075,"name":"EXCEEDED_TIME_LIMIT"}},"createTime":"2024-05-27T13:45:02Z","executionStartTime":"2024-05-27T13:45:02.100Z","endTime":"2024-05-27T13:45:04Z"}
"#,
    );
    assert_eq!(report.files[0].layout, "HTTP event listener");
    let first = Row {
        query_id: Some(QueryId(hashed("q1"))),
        started: after(100),
        cluster: Some("prod".into()),
        user: Some("ada".into()),
        database: Some("hive".into()),
        application: Some("bi".into()),
        rows: Some(1),
        bytes: Some(9),
        ..row(1_000, "select 1")
    };
    assert_eq!(unhashed(&rows[0]), first);
    assert_eq!((rows[1].status, rows[1].sqlstate), (Some(Status::Cancelled), Some(SqlState(*b"57014"))));
}

#[test]
fn a_first_line_that_is_broken_does_not_hide_what_the_file_is() {
    let event =
        r#"{"metadata":{"query":"select 1"},"createTime":"2024-05-27T13:45:02Z","endTime":"2024-05-27T13:45:03Z"}"#;
    let bench = Bench::new("trino", "", &[format!("{{\"meta\n{event}\n").as_bytes()]);
    let report = bench.run().unwrap();
    assert_eq!((report.files[0].layout, report.kept, report.dropped), ("HTTP event listener", 1, 1));
    assert!(report.examples[0].at.ends_with("a.csv:1"), "{report}");
}

#[test]
fn clickhouse_query_log() {
    let (report, rows) = import(
        "clickhouse",
        r#"{"hostname":"ch1","type":"QueryStart","query_start_time_microseconds":"2024-05-27 13:45:02.000000","query_duration_ms":"0","query":"select 1","is_initial_query":1,"user":"ada","query_id":"q1"}
{"hostname":"ch1","type":"QueryFinish","query_start_time":"2024-05-27 13:45:02","query_start_time_microseconds":"2024-05-27 13:45:02.000000","query_duration_ms":"15","result_rows":"1","result_bytes":"128","current_database":"default","query":"select 1","exception_code":0,"is_initial_query":1,"user":"ada","query_id":"q1","client_name":"cli","normalized_query_hash":"1234"}
{"hostname":"ch1","type":"ExceptionWhileProcessing","query_start_time_microseconds":"2024-05-27 13:45:02.000000","query_duration_ms":"20","query":"select 2","exception_code":394,"is_initial_query":1,"user":"ada","query_id":"q2"}
{"hostname":"ch1","type":"ExceptionBeforeStart","query_start_time_microseconds":"2024-05-27 13:45:02.000000","query_duration_ms":"30","query":"select 3","exception_code":62,"is_initial_query":1,"user":"ada","query_id":"q3"}
{"hostname":"ch2","type":"QueryFinish","query_start_time_microseconds":"2024-05-27 13:45:02.000000","query_duration_ms":"9","query":"select 1","is_initial_query":0,"user":"ada","query_id":"q4"}
"#,
    );
    let first = Row {
        query_id: Some(QueryId(hashed("q1"))),
        cluster: Some("ch1".into()),
        user: Some("ada".into()),
        database: Some("default".into()),
        application: Some("cli".into()),
        rows: Some(1),
        bytes: Some(128),
        ..row(15, "select 1")
    };
    assert_eq!(unhashed(&rows[0]), first);
    assert_eq!((rows[1].status, rows[2].status), (Some(Status::Cancelled), Some(Status::Failed)));
    assert_eq!((report.others["the start of a query"], report.others["a part of a query elsewhere"]), (1, 1));
}

#[test]
fn bigquery_jobs() {
    let (report, rows) = import(
        "bigquery",
        r#"{"creation_time":"2024-05-27 13:45:02 UTC","start_time":"2024-05-27 13:45:02.500000 UTC","end_time":"2024-05-27 13:45:03 UTC","project_id":"p","user_email":"ada@x.org","job_id":"j1","job_type":"QUERY","statement_type":"SELECT","priority":"INTERACTIVE","state":"DONE","reservation_id":"r","query":"select 1"}
{"creation_time":"2024-05-27 13:45:02 UTC","start_time":"2024-05-27 13:45:02 UTC","end_time":"2024-05-27 13:45:04 UTC","job_id":"j2","job_type":"QUERY","state":"DONE","query":"select 2","error_result":{"reason":"stopped","message":"m"}}
{"creation_time":"2024-05-27 13:45:02 UTC","start_time":"2024-05-27 13:45:02 UTC","end_time":"2024-05-27 13:45:05 UTC","job_id":"j3","job_type":"QUERY","state":"DONE","query":"select 3","error_result":{"reason":"invalidQuery"}}
{"creation_time":"2024-05-27 13:45:02 UTC","job_id":"j4","job_type":"LOAD","state":"DONE"}
{"creation_time":"2024-05-27 13:45:02 UTC","job_id":"j5","job_type":"QUERY","statement_type":"SCRIPT","state":"DONE","query":"begin; end"}
{"creation_time":"2024-05-27 13:45:02 UTC","job_id":"j6","job_type":"QUERY","state":"RUNNING","query":"select 6"}
"#,
    );
    let first = Row {
        query_id: Some(QueryId(hashed("j1"))),
        started: after(500),
        cluster: Some("r".into()),
        lane: Some("INTERACTIVE".into()),
        user: Some("ada@x.org".into()),
        database: Some("p".into()),
        ..row(1_000, "select 1")
    };
    assert_eq!(unhashed(&rows[0]), first);
    assert_eq!((rows[1].status, rows[2].status), (Some(Status::Cancelled), Some(Status::Failed)));
    assert_eq!((report.kept, report.left_out), (3, 3));
}

#[test]
fn databend_query_history() {
    let (_, rows) = import(
        "databend",
        "query_id,query_start_time,event_time,query_queued_duration_ms,query_duration_ms,query_hash,\
         query_parameterized_hash,log_type_name,result_rows,result_bytes,current_database,sql_user,node_num\n\
         a-1,2024-05-27 13:45:02+00:00,2024-05-27 13:45:03.864+00:00,830.0,1864.0,4e4d,4e4e,Finish,2.0,0.0,db,ada,1\n\
         a-2,2024-05-27 13:45:02+00:00,2024-05-27 13:45:04+00:00,0.0,2000.0,4e4d,4e4e,Aborted,0.0,0.0,db,ada,1\n",
    );
    let first = Row {
        query_id: Some(QueryId(hashed("a-1"))),
        started: after(830),
        user: Some("ada".into()),
        database: Some("db".into()),
        fingerprint: Fingerprint(hashed("4e4e")),
        text_hash: Some(hashed("4e4d")),
        sql: None,
        rows: Some(2),
        bytes: Some(0),
        ..row(1_864, "")
    };
    assert_eq!(rows[0], first);
    assert_eq!(rows[1].status, Some(Status::Cancelled));
}

#[test]
fn postgres_csvlog() {
    let record = |time: &str, severity: &str, state: &str, message: &str| {
        format!(
            "{time},\"ada\",\"shop\",77,\"10.0.0.1:5\",6655.1,1,\"SELECT\",2024-05-27 13:00:00 UTC,3/4,0,{severity},{state},\
             \"{message}\",,,,,,,,,\"psql\",\"client backend\",,0\n"
        )
    };
    let log = [
        record("2024-05-27 13:45:02.000 UTC", "LOG", "00000", "connection authorized: user=ada"),
        record(
            "2024-05-27 13:45:03.000 UTC",
            "LOG",
            "00000",
            "duration: 1000.000 ms  statement: select \"\"a\"\"\nfrom t",
        ),
        record("2024-05-27 13:45:02.000 UTC", "LOG", "00000", "statement: select 1/0"),
        record("2024-05-27 13:45:04.000 UTC", "ERROR", "22012", "division by zero"),
    ];
    let (report, rows) = import("postgres-csvlog", &log.concat());
    let who = |row: Row| Row {
        user: Some("ada".into()),
        database: Some("shop".into()),
        application: Some("psql".into()),
        ..row
    };
    assert_eq!(unhashed(&rows[0]), who(row(1_000, "select \"a\"\nfrom t")));
    let failed =
        Row { status: Some(Status::Failed), sqlstate: Some(SqlState(*b"22012")), ..who(row(2_000, "select 1/0")) };
    assert_eq!(unhashed(&rows[1]), failed);
    assert_eq!(report.left_out, 2);
}

const REDSET: &str = "instance_id,cluster_size,user_id,database_id,query_id,arrival_timestamp,compile_duration_ms,\
                      queue_duration_ms,execution_duration_ms,feature_fingerprint,was_aborted,was_cached";

#[test]
fn redset() {
    let file = format!(
        "{REDSET}\n12,4.0,3,1,99,2024-05-27 13:45:02,100,200.0,700,abc,0,0\n12,,3,1,98,2024-05-27 13:45:02,,,900,abc,1,0\n"
    );
    let (_, rows) = import("redset", &file);
    let second = Row {
        query_id: Some(QueryId(99)),
        started: after(200),
        cluster: Some("12".into()),
        cluster_size: Some(Units(4)),
        user: Some("3".into()),
        database: Some("1".into()),
        fingerprint: Fingerprint(hashed("abc")),
        sql: None,
        ..row(1_000, "")
    };
    assert_eq!(rows[1], second);
    assert_eq!((rows[0].status, rows[0].cluster_size), (Some(Status::Cancelled), None));
}

#[test]
fn redbench() {
    let file = format!("{REDSET},start_t,sql\n12,4,3,1,99,2024-05-27T13:45:02,100,200,700,abc,0,0,,select 1\n");
    let (_, rows) = import("redbench", &file);
    let expected = Row {
        query_id: Some(QueryId(99)),
        started: after(200),
        cluster: Some("12".into()),
        cluster_size: Some(Units(4)),
        user: Some("3".into()),
        database: Some("1".into()),
        ..row(1_000, "select 1")
    };
    assert_eq!(unhashed(&rows[0]), expected);
}

#[test]
fn cab() {
    let (_, rows) = import(
        "cab",
        "type,runtime,warehouse_size,query_stream_id, query_id, start, relative_start, query_duration, \
         query_duration_with_queue, start_delay\n\
         snowflake,3600,2,0,17,1716817502000,1680604,900,1000,1\n",
    );
    let expected = Row {
        started: after(100),
        cluster: Some("a".into()),
        cluster_size: Some(Units(2)),
        database: Some("0".into()),
        fingerprint: Fingerprint(17),
        text_hash: Some(hashed("17\u{1f}0")),
        sql: None,
        status: None,
        ..row(1_000, "")
    };
    assert_eq!(rows, [expected]);
}

#[test]
fn a_file_of_another_system_is_refused_with_what_is_missing() {
    let bench = Bench::new("snowflake", "", &[b"start_tim,total_elapsed_time,query_text\n1,2,3\n"]);
    assert_eq!(bench.run().unwrap_err(), "a.csv: there is no column start_time; did you mean start_tim?");
    let bench = Bench::new("redbench", "", &[b"filepath,num_joins,query_id\nx,2,3\n"]);
    let error = bench.run().unwrap_err();
    assert!(error.starts_with("a.csv: there is no column arrival_timestamp; "), "{error}");
}

#[test]
fn a_mapping_overrides_a_profile_column_by_column() {
    let file = "type,warehouse_size,query_stream_id,query_id,start,query_duration_with_queue,when\nx,2,0,17,1,5,7\n";
    let bench = Bench::new("cab", "arrival=when:s,lane=type", &[file.as_bytes()]);
    bench.run().unwrap();
    let row = &bench.rows()[0];
    assert_eq!((row.arrival.micros(), row.lane.as_deref(), row.fingerprint.0), (7_000_000, Some("x"), 17));
}

/// The profiles' tables as Markdown: the generated part of `docs/import.md`.
fn markdown() -> String {
    let mut text = String::new();
    for profile in ALL.iter().filter(|profile| !profile.layouts.is_empty()) {
        text += &format!("### `{}`\n\n{}.\n\n", profile.name, profile.about);
        for layout in profile.layouts {
            text += &format!("| history | {} |\n|---|---|\n", layout.name);
            for (target, name, _) in Target::ALL {
                let fields = layout.fields.iter().filter(|field| field.target == target);
                let from: Vec<String> = fields
                    .map(|field| {
                        let unit = field.unit.map_or_else(String::new, |unit| format!(":{unit}"));
                        let columns = field.columns.join("+").replace(FILE, "the file's name");
                        format!("`{columns}{unit}`")
                    })
                    .collect();
                if !from.is_empty() {
                    text += &format!("| `{name}` | {} |\n", from.join(", else "));
                }
            }
            for left_out in layout.left_out {
                let values = left_out.values.join("`, `");
                text += &format!("| left out | `{}` is `{values}`: {} |\n", left_out.column, left_out.because);
            }
            text.push('\n');
        }
    }
    text
}

#[test]
fn the_page_on_imports_lists_every_profile_as_it_is() {
    doc::assert_generated("import.md", "profiles", &markdown());
}
