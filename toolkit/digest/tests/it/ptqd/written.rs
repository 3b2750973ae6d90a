//! Logs that a private MariaDB writes during the test: every part of `log_slow_verbosity`, with known statements.
//!
//! The test is the generator: it knows each statement's class, its text, and the server's answer. So each
//! log is compared twice: with pt-query-digest on all numbers, and with the generator's figures, which show who
//! is right. Where pt-query-digest is wrong, a separate test says so and shows that it still is wrong.
//!
//! Needs `mariadbd`; without it: skipped. Without pt-query-digest only the second comparison is made.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use frond_digest::run::{run, Outcome, Settings};
use frond_event::Metric;
use frond_querylog::input::{Format, Origin};
use frond_sqltext::Dialect;

use super::compare;
use super::peer::{self, Class, Numbers};
use crate::client::{Answer, Client, Parameter, Server};
use crate::programs::has;

/// The known figures of one class.
#[derive(Clone, Debug, Default)]
struct Truth {
    sizes: Vec<u64>,
    sent: Vec<u64>,
    affected: Vec<u64>,
    /// Seconds that each statement took at least.
    at_least: f64,
    /// Only the number of statements is known.
    only_count: bool,
}

type Truths = BTreeMap<String, Truth>;

/// A connection that sends statements, and the true figures of their classes.
struct Load<'c> {
    client: &'c mut Client,
    truths: Truths,
}

impl Load<'_> {
    /// Sends `sql`, which is of the class `class`.
    fn query(&mut self, class: &str, sql: &[u8]) -> Answer {
        let answer = self.client.query(sql);
        self.add(class, sql.len(), answer);
        answer
    }

    fn add(&mut self, class: &str, size: usize, answer: Answer) -> &mut Truth {
        let truth = self.truths.entry(class.to_owned()).or_default();
        truth.sizes.push(size as u64);
        truth.sent.push(answer.rows);
        truth.affected.push(answer.affected);
        truth
    }
}

/// Statements for every log: neither reader has trouble with them.
fn ordinary(load: &mut Load<'_>) {
    for i in 0..12 {
        let sql = format!("insert into t (id, a, b) values ({i}, 'name {i}', {})", i * 7 % 5);
        load.query("insert into t (id, a, b) values(?+)", sql.as_bytes());
    }
    let rows: Vec<String> = (100..160).map(|i| format!("({i}, 'many', {})", i % 9)).collect();
    let sql = format!("insert into t (id, a, b) values {}", rows.join(", "));
    load.query("insert into t (id, a, b) values(?+)", sql.as_bytes());
    for i in 0..15 {
        let sql = format!("select a, b from t where id = {}", i % 4);
        load.query("select a, b from t where id = ?", sql.as_bytes());
    }
    for limit in [3, 10] {
        let sql = format!("select b, count(*) n from t group by b order by n desc limit {limit}");
        load.query(
            "select b, count(*) n from t group by b order by n desc limit ?",
            sql.as_bytes(),
        );
    }
    for i in 0..3 {
        let sql =
            format!("select x.a from t x join t y on x.b = y.b where y.id > {i} and x.a like 'n%'");
        load.query(
            "select x.a from t x join t y on x.b = y.b where y.id > ? and x.a like ?",
            sql.as_bytes(),
        );
    }
    load.query("begin", b"BEGIN");
    load.query("update t set b = b ? ? where id = ?", b"update t set b = b + 10 where id = 3");
    load.query("delete from t where id in(?+)", b"delete from t where id in (150, 151, 152)");
    load.query("commit", b"COMMIT");
    let slow = load.client.query(b"select sleep(0.06)");
    load.add("select sleep(?)", 18, slow).at_least = 0.06;
    // A warning that reads like an attribute, and a procedure call.
    load.query("select ? ? ?", b"select 'abc' + 1");
    for id in [1, 2] {
        let answer = load.client.query(format!("call name_of({id})").as_bytes());
        load.add("call name_of", 15, answer).only_count = true;
    }
    // An error, in a class of its own.
    let failed = load.query("select * from nosuch", b"select * from nosuch");
    assert_eq!(failed.error, 1146);
    // Line breaks, a tab, a comment.
    load.query("select a from t where id = ?", b"select a\r\nfrom t\r\n\twhere id = 2");
    load.query("select a from t where id = ?", b"select /* of the shop */ a from t\nwhere id = 5");
}

/// Statements with bytes that are not text, and very long statements.
fn bytes(load: &mut Load<'_>) {
    let class = "insert into blobs (c) values(?+)";
    load.query(class, b"insert into blobs (c) values ('\xff\xfe caf\xe9 \xc3(')");
    load.query(class, b"insert into blobs (c) values ('nul \0 and \x01\x1a bytes')");
    load.query(
        "select ?, hex(c) from blobs limit ?",
        b"select '\xe2\x82', hex(c) from blobs limit 1",
    );
    let long = [b"insert into blobs (c) values ('", &vec![b'x'; 3 << 20][..], b"')"].concat();
    assert_eq!(load.query(class, &long).affected, 1);
    let rows: Vec<String> =
        (0..60_000).map(|i| format!("('row number {i} of many, it''s long')")).collect();
    let many = format!("insert into blobs (c) values {}", rows.join(","));
    assert!(many.len() > 2 << 20);
    assert_eq!(load.query(class, many.as_bytes()).affected, 60_000);
}

/// Statements prepared on the server, through the protocol and through SQL.
fn prepared(load: &mut Load<'_>) {
    let class = "insert into t (id, a, b) values(?+)";
    load.query(
        class,
        b"insert into t (id, a, b) values (1, 'one', 1), (2, 'q''x', 2), (150, 'x', 3)",
    );
    let class = "select a from t where id = ? and a <> ?";
    let number = load.client.prepare(class.as_bytes());
    for id in [1, 2, 150] {
        let answer = load.client.execute(number, &[Parameter::Number(id), Parameter::Text(b"q'x")]);
        // The log has the values in place of the marks.
        let size = format!("select a from t where id = {id} and a <> 'q\\'x'").len();
        load.add(class, size, answer);
    }
    load.client.close(number);
}

/// Statements that contain what servers write between events.
fn heads(load: &mut Load<'_>) {
    const HEAD: &str = "# User@Host: fake[fake] @ localhost []\n# Query_time: 9999  Lock_time: 0";
    let class = "insert into t (id, a, b) values(?+)";
    for (i, inner) in [
        "x;\n# y".into(),
        format!("x;\n{HEAD}\nselect 1;\n"),
        "x;\n# Time: 260101  1:02:03\n".into(),
    ]
    .iter()
    .enumerate()
    {
        let sql = format!("insert into t (id, a, b) values ({i}, '{inner}', 5)");
        assert_eq!(load.query(class, sql.as_bytes()).affected, 1);
    }
    let sql = format!("select a /* not here;\n{HEAD}\n */ from t where id = 2");
    load.query("select a from t where id = ?", sql.as_bytes());
    load.query("select a from t where id = ?", b"select a from t where id = 1");
}

/// The options of one log.
struct Log {
    name: &'static str,
    verbosity: &'static str,
    content: fn(&mut Load<'_>),
}

const LOGS: &[Log] = &[
    Log { name: "plain", verbosity: "", content: ordinary },
    Log { name: "query_plan", verbosity: "query_plan", content: ordinary },
    Log { name: "innodb", verbosity: "innodb", content: ordinary },
    Log { name: "engine", verbosity: "engine", content: ordinary },
    Log { name: "explain", verbosity: "query_plan,explain", content: ordinary },
    Log { name: "warnings", verbosity: "warnings", content: ordinary },
    Log { name: "full", verbosity: "full", content: ordinary },
    Log { name: "all", verbosity: "all", content: ordinary },
    Log { name: "bytes", verbosity: "query_plan", content: bytes },
    Log { name: "prepared", verbosity: "query_plan", content: prepared },
    Log { name: "heads", verbosity: "full", content: heads },
];

/// Logs on which both readers have to agree.
const AGREED: &[&str] = &[
    "plain",
    "query_plan",
    "innodb",
    "engine",
    "explain",
    "warnings",
    "full",
    "all",
    "bytes",
    "prepared",
];

/// The general log of a load.
const GENERAL: &str = "general";

/// The log that the server wrote.
pub struct Written {
    home: PathBuf,
    truths: BTreeMap<&'static str, Truths>,
}

impl Written {
    pub fn log(&self, name: &str) -> PathBuf {
        self.home.join(format!("{name}.log"))
    }
}

/// Written once for all tests of this process; `None`: there is no server here.
static WRITTEN: LazyLock<Option<Written>> = LazyLock::new(|| {
    if !has("mariadbd") || !has("mariadb-install-db") {
        return None;
    }
    Some(write())
});

pub fn written() -> Option<&'static Written> {
    if WRITTEN.is_none() {
        eprintln!("skipped: mariadbd is not installed");
    }
    WRITTEN.as_ref()
}

fn write() -> Written {
    // The logs are kept for inspection until the next run.
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("written");
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).unwrap();
    let place = tempfile::tempdir().unwrap();
    let options = ["--log-slow-disabled-statements=", "--sql-mode="];
    let server = Server::start(place.path(), &options).unwrap_or_else(|e| panic!("{e}"));
    let mut admin = Client::connect(&server.socket, "").unwrap();
    for sql in [
        "create database shop",
        "create table shop.t (id int primary key, a varchar(100), b int, key (b)) engine=InnoDB",
        "create table shop.blobs (c longblob) engine=MyISAM",
        "create procedure shop.name_of(n int) select a from t where id = n",
        "set global log_output = 'FILE'",
        "set global long_query_time = 0",
    ] {
        admin.run(sql);
    }
    let mut truths = BTreeMap::new();
    for log in LOGS {
        admin.run("truncate shop.t");
        admin.run("truncate shop.blobs");
        admin.run(&format!("set global log_slow_verbosity = '{}'", log.verbosity));
        admin.run(&format!(
            "set global slow_query_log_file = '{}'",
            home.join(format!("{}.log", log.name)).display()
        ));
        // A session takes the global settings when it begins.
        admin.run("set global slow_query_log = 1");
        let mut client = Client::connect(&server.socket, "shop").unwrap();
        let mut load = Load { client: &mut client, truths: Truths::new() };
        (log.content)(&mut load);
        let known = load.truths;
        client.ping();
        admin.run("set global slow_query_log = 0");
        truths.insert(log.name, known);
        client.quit();
    }
    truths.insert(GENERAL, general(&server, &mut admin, &home));
    drop(server);
    Written { home, truths }
}

/// A load with only the general log on.
fn general(server: &Server, admin: &mut Client, home: &Path) -> Truths {
    admin.run("truncate shop.t");
    let log = home.join(format!("{GENERAL}.log"));
    admin.run(&format!("set global general_log_file = '{}'", log.display()));
    admin.run("set global general_log = 1");
    let mut client = Client::connect(&server.socket, "shop").unwrap();
    let mut load = Load { client: &mut client, truths: Truths::new() };
    prepared(&mut load);
    load.query("select a from t where id = ?", b"select a\r\nfrom t\r\n\twhere id = 2");
    load.query("select ?", b"select 'nul \0 and \xff\xfe'");
    load.client.init_db("mysql");
    let known = load.truths;
    client.ping();
    admin.run("set global general_log = 0");
    client.quit();
    known
}

/// False for commands of the protocol and statements of the administrator, which are not part of the load.
fn is_load(class: &Class) -> bool {
    !class.fingerprint.starts_with("administrator command: ")
        && !class.fingerprint.starts_with("set global ")
}

/// The differences from the known figures; one sentence each.
fn untrue(classes: &[Class], truths: &Truths) -> Vec<String> {
    let mut found = Vec::new();
    for class in classes.iter().filter(|c| is_load(c)) {
        let Some(truth) = truths.get(&class.fingerprint) else {
            found.push(format!("`{}` was never sent ({} times)", class.fingerprint, class.count));
            continue;
        };
        if class.count != truth.sizes.len() as u64 {
            found.push(format!(
                "`{}`: {} times, in truth {}",
                class.fingerprint,
                class.count,
                truth.sizes.len()
            ));
        }
        if truth.only_count {
            continue;
        }
        for (name, values) in [
            ("query_length", &truth.sizes),
            ("rows_sent", &truth.sent),
            ("rows_affected", &truth.affected),
        ] {
            let said = class.metrics.get(name).cloned().unwrap_or_default();
            let sum = values.iter().sum::<u64>() as f64;
            let (min, max) = (values.iter().min().unwrap(), values.iter().max().unwrap());
            if (said.sum, said.min, said.max) != (sum, *min as f64, *max as f64) {
                found.push(format!(
                    "`{}`: {name} {said:?}, in truth sum {sum} min {min} max {max}",
                    class.fingerprint
                ));
            }
        }
        let time: Numbers = class.metrics.get("query_time").cloned().unwrap_or_default();
        // The whole load took less than a minute.
        if time.min < truth.at_least || time.max > 60.0 {
            found.push(format!("`{}`: time {time:?}", class.fingerprint));
        }
    }
    for class in truths.keys() {
        if !classes.iter().any(|c| c.fingerprint == *class) {
            found.push(format!("`{class}` is missing"));
        }
    }
    found
}

#[test]
fn every_verbosity_gives_what_was_sent_and_what_the_peer_says() {
    let Some(written) = written() else { return };
    let mut failed = Vec::new();
    for name in AGREED {
        let (file, truths) = (written.log(name), &written.truths[name]);
        let ours = compare::digest(&file, "slowlog");
        failed.extend(untrue(&ours, truths).into_iter().map(|u| format!("{name}: ours: {u}")));
        if peer::is_there() {
            let peer = peer::digest(&file, "slowlog");
            failed.extend(untrue(&peer, truths).into_iter().map(|u| format!("{name}: peer: {u}")));
            let differences = compare::differences(&peer, &ours);
            failed.extend(differences.into_iter().map(|d| format!("{name}: {d}")));
        }
    }
    if !peer::is_there() {
        eprintln!("skipped in part: pt-query-digest is not installed");
    }
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n"));
}

/// Checks that ours agrees with the truth, and that pt-query-digest (where it is installed) does not.
fn ours_is_right(file: &Path, truths: &Truths) {
    let ours = untrue(&compare::digest(file, "slowlog"), truths);
    assert!(ours.is_empty(), "{}", ours.join("\n"));
    if peer::is_there() {
        let theirs = untrue(&peer::digest(file, "slowlog"), truths);
        assert!(!theirs.is_empty(), "the peer is right now");
    }
}

#[test]
fn heads_inside_statements_split_none() {
    let Some(written) = written() else { return };
    ours_is_right(&written.log("heads"), &written.truths["heads"]);
}

#[test]
fn a_log_with_line_ends_of_windows_is_the_same_log() {
    let Some(written) = written() else { return };
    let log = std::fs::read(written.log("all")).unwrap();
    let mut copy = Vec::with_capacity(log.len() * 2);
    for (i, byte) in log.iter().enumerate() {
        if *byte == b'\n' && (i == 0 || log[i - 1] != b'\r') {
            copy.push(b'\r');
        }
        copy.push(*byte);
    }
    let file = written.home.join("windows.log");
    std::fs::write(&file, copy).unwrap();
    let mut truths = written.truths["all"].clone();
    // Statements of several lines have become longer, too.
    truths.get_mut("select a from t where id = ?").unwrap().only_count = true;
    ours_is_right(&file, &truths);
}

/// The number of statements, and the skipped parts.
fn read(log: &[u8], format: Format, dialect: Dialect) -> Outcome {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(log).unwrap();
    let settings = Settings { format: Some(format), dialect, ..Settings::default() };
    run(&[Origin::of(file.path())], &Arc::new(settings), &mut |_| {})
        .unwrap_or_else(|p| panic!("{p:?}"))
}

#[test]
fn a_log_cut_in_the_middle_of_an_event_has_that_event_less() {
    let Some(written) = written() else { return };
    let log = std::fs::read(written.log("full")).unwrap();
    let heads: Vec<usize> = memchr::memmem::find_iter(&log, b"\n# User@Host: ").collect();
    let (whole, last) = (heads.len() - 1, *heads.last().unwrap() + 1);
    let middle = log.len() - 12;
    for cut in [last + 5, last + 60, last + 150, middle] {
        let outcome = read(&log[..cut], Format::SlowLog, Dialect::Ptqd32);
        let counted = outcome.events as usize;
        // A `# Time` line before the head is lost together with the head.
        assert!(
            counted == whole && outcome.skips.count() == 1,
            "cut at {cut}: {counted} of {whole}"
        );
    }
    // Cut at the other end: the rest of the first event is reported, too.
    let outcome = read(&log[heads[0] + 40..], Format::SlowLog, Dialect::Ptqd32);
    assert_eq!(outcome.events as usize + outcome.skips.count() as usize, heads.len());
    if peer::is_there() {
        let file = written.home.join("cut.log");
        std::fs::write(&file, &log[..middle]).unwrap();
        let counted: u64 = peer::digest(&file, "slowlog").iter().map(|c| c.count).sum();
        assert!(counted as usize > whole, "the peer leaves the torn statement out now");
    }
}

#[test]
fn a_general_log_agrees_with_the_peer_and_without_it_has_the_executions() {
    let Some(written) = written() else { return };
    let (file, truths) = (written.log(GENERAL), &written.truths[GENERAL]);
    if peer::is_there() {
        let (peer, ours) = (peer::digest(&file, "genlog"), compare::digest(&file, "genlog"));
        let differences = compare::differences(&peer, &ours);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        let executed =
            peer.iter().any(|c| c.fingerprint == "select a from t where id = ? and a <> ?");
        assert!(!executed, "the peer sees executions now");
    }
    let outcome = read(&std::fs::read(&file).unwrap(), Format::GeneralLog, Dialect::Ptqd32);
    for (class, truth) in truths {
        let found = outcome.table.classes.iter().find(|c| *c.key == *class.as_bytes());
        let found = found.unwrap_or_else(|| panic!("no {class}"));
        let size = found.summary(Metric::QuerySize).unwrap();
        assert_eq!(found.count, truth.sizes.len() as u64, "{class}");
        assert_eq!(size.sum, truth.sizes.iter().sum::<u64>(), "{class}");
    }
}
