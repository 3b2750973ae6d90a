//! Which statements are sent, in which order, and how the answers are judged.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frond_replay::answer::{Answer, Column, Type};
use frond_replay::report::{Report, Totals};
use frond_replay::run::{run, Servers, Settings, Target};

type Answers = dyn Fn(usize, &str, u64) -> Answer + Send + Sync;

/// The sent statements: (server, session in the order of opening, statement).
type Sent = Arc<Mutex<Vec<(usize, usize, String)>>>;

struct Imagined {
    answers: Arc<Answers>,
    sent: Sent,
    opened: Mutex<usize>,
    most: u64,
}

struct Side {
    server: usize,
    session: usize,
    calls: u64,
    most: u64,
    answers: Arc<Answers>,
    sent: Sent,
}

impl Servers for Imagined {
    fn open(&self) -> Result<[Box<dyn Target>; 2], String> {
        let mut opened = self.opened.lock().unwrap();
        *opened += 1;
        let side = |server| -> Box<dyn Target> {
            let (answers, sent) = (self.answers.clone(), self.sent.clone());
            Box::new(Side { server, session: *opened, calls: 0, most: self.most, answers, sent })
        };
        Ok([side(0), side(1)])
    }
}

impl Target for Side {
    fn run(&mut self, sql: &[u8]) -> Result<Answer, String> {
        self.calls += 1;
        if self.calls > self.most {
            return Err("the server has gone away".into());
        }
        let sql = String::from_utf8_lossy(sql).into_owned();
        let answer = (self.answers)(self.server, &sql, self.calls);
        self.sent.lock().unwrap().push((self.server, self.session, sql));
        Ok(answer)
    }

    fn choose(&mut self, db: &[u8]) -> Result<Answer, String> {
        self.run(format!("use {}", String::from_utf8_lossy(db)).as_bytes())
    }
}

fn rows(values: &[&str]) -> Answer {
    let mut answer = Answer::new();
    answer.columns =
        vec![Column { name: "a".into(), field: ("t".into(), "a".into()), of: Type::Exact }];
    answer.nanos = 100_000;
    for value in values {
        answer.row(vec![Some(value.as_bytes().to_vec())]);
    }
    answer
}

/// A slow log of (connection, second, statement).
fn log(statements: &[(u64, u64, &str)]) -> String {
    let mut log = String::new();
    for (id, second, sql) in statements {
        log.push_str(&format!(
            "# User@Host: app[app] @ localhost []\n# Thread_id: {id}  Schema: shop  QC_hit: No\n\
             # Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 1\n\
             SET timestamp={};\n{sql};\n",
            1_767_290_000 + second
        ));
    }
    log
}

fn replay(log: &str, settings: &Settings, answers: Box<Answers>, most: u64) -> (Totals, Sent) {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("slow.log");
    std::fs::write(&path, log).unwrap();
    let sent = Sent::default();
    let servers =
        Imagined { answers: answers.into(), sent: sent.clone(), opened: Mutex::new(0), most };
    (run(&[path], settings, &servers, &|| false), sent)
}

#[test]
fn statements_of_a_session_are_sent_in_the_order_of_the_log() {
    let texts: Vec<String> = (0..300).map(|i| format!("select {i} from t")).collect();
    let all: Vec<(u64, u64, &str)> =
        texts.iter().enumerate().map(|(i, sql)| (i as u64 % 7, 0, sql.as_str())).collect();
    let settings = Settings { threads: 3, ..Settings::default() };
    let (totals, sent) = replay(&log(&all), &settings, Box::new(|_, _, _| rows(&["1"])), u64::MAX);
    assert_eq!((totals.run, totals.same, totals.sessions), (300, 300, 7));
    let sent = sent.lock().unwrap();
    for server in 0..2 {
        for session in 1..=7 {
            let of: Vec<u64> = sent
                .iter()
                .filter(|s| (s.0, s.1) == (server, session) && s.2.starts_with("select"))
                .map(|s| s.2.split(' ').nth(1).unwrap().parse().unwrap())
                .collect();
            assert!(of.len() >= 42 && of.windows(2).all(|w| w[0] + 7 == w[1]), "{of:?}");
        }
    }
}

#[test]
fn nothing_that_writes_is_sent_and_each_is_counted() {
    let text = log(&[
        (1, 0, "insert into t values (1)"),
        (1, 0, "select a from t"),
        (1, 0, "call p()"),
        (1, 0, "select f() from t"),
        (2, 0, "drop table t"),
    ]);
    let answers = |_: usize, sql: &str, _: u64| match sql.contains("f()") {
        true => Answer::failed(1792, "read only".into()),
        false => rows(&["1"]),
    };
    let (totals, sent) = replay(&text, &Settings::default(), Box::new(answers), u64::MAX);
    let report = Report::of(totals, Vec::new(), Default::default(), false);
    assert_eq!((report.read, report.compared), (5, 1));
    let skipped: u64 = report.skipped.iter().map(|c| c.statements).sum();
    assert_eq!(skipped, 4, "{:?}", report.skipped);
    let sent = sent.lock().unwrap();
    assert!(sent.iter().all(|s| !s.2.contains("insert") && !s.2.contains("drop")), "{sent:?}");
    let settings = Settings { writes: true, ..Settings::default() };
    let (totals, _) = replay(&text, &settings, Box::new(|_, _, _| rows(&["1"])), u64::MAX);
    assert_eq!(totals.run, 5);
}

#[test]
fn a_statement_is_not_run_in_another_database_than_its_own() {
    let text = log(&[(1, 0, "delete from w"), (1, 0, "delete from w")]);
    let answers = |_: usize, sql: &str, _: u64| match sql.starts_with("use") {
        true => Answer::failed(1049, "unknown database".into()),
        false => rows(&[]),
    };
    let settings = Settings { writes: true, ..Settings::default() };
    let (totals, sent) = replay(&text, &settings, Box::new(answers), u64::MAX);
    let sent = sent.lock().unwrap();
    assert!(sent.iter().all(|s| s.2 == "use shop"), "{sent:?}");
    // Both servers refuse it, each time.
    assert_eq!((totals.run, totals.same, totals.errors, sent.len()), (2, 2, [2, 2], 4));
}

#[test]
fn after_a_use_that_failed_on_one_server_both_are_in_the_same_database() {
    let text = log(&[(1, 0, "use other"), (1, 0, "select a from t")]);
    for failing in [0, 1] {
        let answers = move |server: usize, sql: &str, _: u64| match sql == "use other" {
            true if server == failing => Answer::failed(1049, "unknown database".into()),
            _ => rows(&[]),
        };
        let (_, sent) = replay(&text, &Settings::default(), Box::new(answers), u64::MAX);
        let sent = sent.lock().unwrap();
        for side in [0, 1] {
            let of: Vec<&str> = sent.iter().filter(|s| s.0 == side).map(|s| s.2.as_str()).collect();
            assert_eq!(of, ["use shop", "use other", "use shop", "select a from t"], "{failing}");
        }
    }
}

const TIMED: &str = "SET STATEMENT max_statement_time = 60 FOR ";

#[test]
fn a_wrong_row_is_found_and_what_sql_does_not_determine_is_not_called_wrong() {
    let text = log(&[
        (1, 0, "select a from t where b = 1"),
        (1, 0, "select a from t limit 1"),
        (1, 0, "select a from u limit 1"),
        (1, 0, "select rand()"),
        (1, 0, "select a from busy"),
        (1, 0, "select a from t order by a limit 1"),
        (1, 0, "select a from g group by b"),
        (1, 0, "select count(*) as a from h group by b"),
    ]);
    let answers = |server: usize, sql: &str, calls: u64| match sql.trim().trim_start_matches(TIMED)
    {
        "select a from t order by a limit 1" => rows(&[if server == 0 { "1" } else { "2" }]),
        "select a from t order by a" => rows(&["1", "2"]),
        "select a from g group by b" | "select count(*) as a from h group by b" => {
            rows(&[if server == 0 { "1" } else { "2" }])
        }
        sql if sql.contains("ONLY_FULL_GROUP_BY") && sql.contains("group by") => {
            Answer::failed(1055, "not in GROUP BY".into())
        }
        "select a from t where b = 1" => rows(&["1", if server == 0 { "2" } else { "3" }]),
        // The limit returns another row on each server; without it both return all rows.
        "select a from t limit 1" => rows(&[if server == 0 { "1" } else { "2" }]),
        "select a from t" => rows(if server == 0 { &["1", "2"] } else { &["2", "1"] }),
        "select a from u limit 1" => rows(&[if server == 0 { "1" } else { "9" }]),
        "select a from u" => rows(&["1", if server == 0 { "2" } else { "9" }]),
        "select rand()" | "select a from busy" => rows(&[&(calls * 2 + server as u64).to_string()]),
        _ => rows(&[]),
    };
    let (totals, _) = replay(&text, &Settings::default(), Box::new(answers), u64::MAX);
    let report = Report::of(totals, Vec::new(), Default::default(), false);
    let found: Vec<&str> = report.differences.iter().map(|d| d.statement.as_str()).collect();
    let wanted = [
        "select a from t where b = 1",
        "select a from u limit 1",
        "select a from t order by a limit 1",
        "select count(*) as a from h group by b",
    ];
    assert_eq!(found, wanted);
    assert_eq!((report.different, report.undetermined.len()), (4, 4), "{:?}", report.undetermined);
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in ["on       a: 2", "against  a: 3", "database shop"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn both_servers_have_the_clock_of_the_log() {
    let text = log(&[(1, 5, "select now()"), (1, 6, "select 1")]);
    let (_, sent) = replay(&text, &Settings::default(), Box::new(|_, _, _| rows(&["1"])), u64::MAX);
    let sent = sent.lock().unwrap();
    let clocks: Vec<_> = sent.iter().filter(|s| s.2.starts_with("SET timestamp")).collect();
    assert_eq!(clocks.len(), 2, "{sent:?}");
    assert!(clocks.iter().all(|s| s.2 == "SET timestamp = 1767290005.000000"), "{clocks:?}");
}

#[test]
fn the_pace_of_the_log_is_kept() {
    let text = log(&[(1, 0, "select 1"), (2, 2, "select 2"), (1, 4, "select 3")]);
    let settings = Settings { speed: Some(10.0), threads: 2, ..Settings::default() };
    let begin = Instant::now();
    let (totals, _) = replay(&text, &settings, Box::new(|_, _, _| rows(&["1"])), u64::MAX);
    assert!(begin.elapsed() >= Duration::from_millis(400), "{:?}", begin.elapsed());
    assert_eq!(totals.same, 3);
}

#[test]
fn a_server_that_goes_ends_the_run_and_nothing_waits() {
    let texts: Vec<String> = (0..1000).map(|i| format!("select {i}")).collect();
    let all: Vec<(u64, u64, &str)> =
        texts.iter().enumerate().map(|(i, sql)| (i as u64 % 3, 0, sql.as_str())).collect();
    let settings = Settings { threads: 2, ..Settings::default() };
    let (totals, _) = replay(&log(&all), &settings, Box::new(|_, _, _| rows(&["1"])), 50);
    assert_eq!(totals.failure.as_deref(), Some("the server has gone away"));
    assert!(totals.run > 40 && totals.run < 300, "{}", totals.run);
}

#[test]
fn few_connections_close_the_session_that_was_idle_longest() {
    let text = log(&[
        (1, 0, "select 1"),
        (2, 0, "select 2"),
        (1, 0, "select 3"),
        (3, 0, "select 4"),
        (1, 0, "select 5"),
    ]);
    let settings = Settings { connections: 2, ..Settings::default() };
    let (totals, _) = replay(&text, &settings, Box::new(|_, _, _| rows(&["1"])), u64::MAX);
    assert_eq!((totals.sessions, totals.closed_early), (3, 1));
}
