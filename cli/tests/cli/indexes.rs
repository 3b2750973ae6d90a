//! `frond indexes`: files, and the messages for bad ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::client::{Client, Server};
use crate::programs::{bounded, has};
use crate::tool::{self, Files};

fn frond(args: &[&str], input: &[u8]) -> (i32, String, String) {
    tool::frond("indexes", args, input)
}

const FOUND: &str = "use shop; create table t (id int not null, a int, b int, primary key (id), \
    key x (a), key y (a, b)) engine=innodb;\n\
    create table ok (a int, key x (a));\n\
    create table other.t (a int, unique u (a), key v (a));\n";

#[test]
fn what_is_found_in_a_dump_is_printed_with_its_statements() {
    let (status, out, error) = frond(&["-"], FOUND.as_bytes());
    assert_eq!((status, error.as_str()), (1, ""), "{out}");
    for line in [
        "shop.t",
        "KEY x (a)",
        "stays: KEY y (a, b)",
        "ALTER TABLE `shop`.`t` ALTER INDEX `x` IGNORED;",
        "ALTER TABLE `shop`.`t` ALTER INDEX `x` NOT IGNORED;",
        "ALTER TABLE `shop`.`t` DROP INDEX `x`;",
        "2 findings in 3 tables with 6 indexes.",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(!out.contains('\x1b'), "{out}");
    let (status, out, _) = frond(&["-", "--json", "--database", "other"], FOUND.as_bytes());
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, report["version"].as_u64()), (1, Some(1)));
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((&findings[0]["kind"], &findings[0]["key"]), (&"duplicate".into(), &"v".into()));
    let (status, out, error) = frond(&["-"], b"create table ok (a int, key x (a));");
    assert_eq!((status, error.as_str()), (0, ""), "{out}");
}

#[test]
fn a_foreign_key_of_one_file_needs_the_index_of_another() {
    let files = Files::of("indexes");
    let parent = "create table p (a int, id int, primary key (id), key x (a, id)) engine=innodb;";
    let child = "create table c (a int, b int, key (a, b), foreign key (a, b) references p (a, id)) engine=innodb;";
    let write = |name, sql: &str| files.write(name, sql.as_bytes()).display().to_string();
    let (parent, child) = (write("parent.sql", parent), write("child.sql", child));
    let (status, out, _) = frond(&[&parent], b"");
    assert_eq!(status, 1, "{out}");
    let (status, out, _) = frond(&[&parent, &child], b"");
    assert_eq!(status, 0, "{out}");
}

#[test]
fn bad_files_are_named_with_what_is_wrong() {
    let files = Files::of("indexes");
    let complaint = |name: &str, bytes: &[u8]| files.complaint(&files.write(name, bytes));
    assert!(complaint("empty.sql", b"").1.contains("the file is empty"));
    assert!(complaint("binary", b"\x7fELF\x02\0\0\0").1.contains("no SQL text"));
    assert!(complaint("rows.sql", b"insert into t values (1);").1.contains("CREATE TABLE"));
    files.assert_missing_and_directories_are_named();
    // The part before the cut is still shown.
    let cut = format!("{FOUND}create table late (a int, key (a");
    let (out, error) = complaint("cut.sql", cut.as_bytes());
    assert!(error.contains("late") && error.contains("not closed"), "{error}");
    assert!(out.contains("2 findings"), "{out}");
}

/// Keys of a table with `id int not null primary key, a int, b int not null, c int`, and how many of them can be
/// dropped.
const SHAPES: [(&str, usize); 10] = [
    ("key x (a), key y (b)", 0),
    ("key x (a), key y (a)", 1),
    ("key x (a), key y (a, b)", 1),
    ("key x (a), key y (a, b), key z (a, b, c)", 2),
    ("key x (id)", 1),
    ("unique x (id)", 1),
    ("unique x (a), key y (a)", 1),
    ("unique x (a, b), key y (a)", 1),
    ("key x (a, b), key y (b, a)", 0),
    ("unique x (a), unique y (b, a)", 0),
];

fn drops(report: &Value) -> BTreeMap<String, usize> {
    let mut drops = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        *drops.entry(finding["table"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    drops
}

fn ask(socket: &Path, args: &[&str]) -> Value {
    let all = [&["--no-defaults", "--json", "--socket", socket.to_str().unwrap()], args].concat();
    let (status, out, error) = frond(&all, b"");
    assert!((0..=1).contains(&status), "{args:?} {error}");
    serde_json::from_str(&out).unwrap()
}

/// The number of keys that pt-duplicate-key-checker would drop, by table.
fn drops_of_percona(socket: &Path) -> BTreeMap<String, usize> {
    let socket = format!("--socket={}", socket.display());
    let output = bounded("pt-duplicate-key-checker")
        .args(["--no-version-check", "--user=root", &socket, "--databases=shop"])
        .output()
        .unwrap();
    let mut drops = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(rest) = line.strip_prefix("ALTER TABLE `shop`.`") {
            let table = rest.split('`').next().unwrap().to_owned();
            *drops.entry(table).or_default() += rest.matches("DROP INDEX").count();
        }
    }
    drops
}

#[test]
fn a_server_is_asked_as_a_dump_is_read() {
    if !has("mariadbd") || !has("mariadb-install-db") {
        eprintln!("skipped: mariadbd is not installed");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap_or_else(|e| panic!("{e}"));
    let mut admin = Client::connect(&server.socket, "").unwrap();
    admin.run("create database shop");
    let mut wanted = BTreeMap::new();
    for n in 0..50 {
        let (keys, count) = SHAPES[n % SHAPES.len()];
        admin.run(&format!(
            "create table shop.t{n} (id int not null primary key, a int, b int not null, c int, {keys}) engine=innodb"
        ));
        if count > 0 {
            wanted.insert(format!("t{n}"), count);
        }
    }
    // The documented least privilege.
    admin.run("create user reader@localhost identified by 'secret'");
    admin.run("grant select on *.* to reader@localhost");
    std::fs::write(home.path().join("password"), "secret\n").unwrap();
    let password = home.path().join("password");
    let account = ["--user", "reader", "--password-file", password.to_str().unwrap()];
    let live = ask(&server.socket, &account);
    assert_eq!(drops(&live), wanted);
    assert_eq!((&live["tables"], &live["notes"]), (&50.into(), &Value::Array(Vec::new())));
    let sized = |f: &Value| f["bytes"].as_u64() > Some(0) && f["cardinality"].as_u64() == Some(0);
    assert!(live["findings"].as_array().unwrap().iter().all(sized), "{live:#}");
    if has("mariadb-dump") {
        let socket = format!("--socket={}", server.socket.display());
        let args = ["--no-defaults", "--user=root", &socket, "--databases", "shop"];
        let dump = Command::new("mariadb-dump").args(args).output().unwrap();
        let (status, out, error) = frond(&["-", "--json"], &dump.stdout);
        assert_eq!((status, error.as_str()), (1, ""));
        assert_eq!(drops(&serde_json::from_str(&out).unwrap()), wanted);
    }
    if has("pt-duplicate-key-checker") {
        assert_eq!(drops_of_percona(&server.socket), wanted);
    }
    let refused = |args: &[&str]| {
        let (status, out, error) = frond(&[&["--no-defaults"], args].concat(), b"");
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        error
    };
    let socket = server.socket.to_str().unwrap().to_owned();
    let wrong = refused(&["--socket", &socket, "--user", "reader"]);
    assert!(wrong.contains("Access denied") && wrong.contains("--password-file"), "{wrong}");
    drop(server);
    assert!(refused(&["--socket", &socket, "--user", "root"]).contains("is the server running"));
}

/// The statement that reads an index of `t{n}`, with `{}` for the table's number; `None`: nothing reads it.
/// One statement finds no row: servers do not count that, but they log it.
const READS: [Option<&str>; 10] = [
    None,
    Some("select * from shop.t{} where k = 5"),
    Some(MISS),
    Some("select k from shop.t{} order by k limit 1"),
    Some("update shop.t{} force index (x) set a = a + 100 where k = 7"),
    None,
    Some("delete from shop.t{} where k between 3 and 4"),
    Some("select count(*) from shop.one straight_join shop.t{} on t{}.k = one.id"),
    Some("select max(k) from shop.t{}"),
    Some("select id from shop.t{} force index (x, y) where k = 1 or a = 2"),
];

const MISS: &str = "select * from shop.t{} where k = -1";

#[test]
fn of_200_indexes_all_that_nothing_reads_are_named_and_no_other() {
    if !has("mariadbd") || !has("mariadb-install-db") {
        eprintln!("skipped: mariadbd is not installed");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let slow = home.path().join("slow.log");
    let slow_option = format!("--slow-query-log-file={}", slow.display());
    let options = [
        "--performance-schema=ON",
        "--log-slow-verbosity=explain",
        "--slow-query-log=1",
        "--long-query-time=0",
        "--log-output=FILE",
        &slow_option,
    ];
    let server = Server::start(home.path(), &options).unwrap_or_else(|e| panic!("{e}"));
    let mut admin = Client::connect(&server.socket, "").unwrap();
    admin.run("create database shop");
    admin.run("create table shop.one (id int primary key) engine=innodb");
    admin.run("insert into shop.one values (2)");
    let socket = server.socket.to_str().unwrap().to_owned();
    let (mut unused, mut missed) = (Vec::new(), Vec::new());
    for n in 0..200 {
        admin.run(&format!(
            "create table shop.t{n} (id int primary key, k int, a int, key x (k), unique y (a)) engine=innodb"
        ));
        admin.run(&format!("insert into shop.t{n} select seq, seq, seq from shop.seq_1_to_20"));
        if READS[n % READS.len()] == Some(MISS) {
            missed.push(format!("t{n}"));
        }
        match READS[n % READS.len()] {
            Some(sql) => drop(admin.run(&sql.replace("{}", &n.to_string()))),
            None => unused.push(format!("t{n}")),
        }
    }
    unused.sort();
    let mut uncounted = [unused.clone(), missed].concat();
    uncounted.sort();
    let named = |report: &Value| -> Vec<String> {
        let findings = report["findings"].as_array().unwrap().iter();
        let mut names: Vec<String> = findings
            .inspect(|f| assert_eq!((&f["kind"], &f["key"]), (&"unused".into(), &"x".into())))
            .map(|f| f["table"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    // A table made in the second of the save could be newer than it.
    admin.run("do sleep(1.1)");
    let saved = home.path().join("saved.json");
    let saved = saved.to_str().unwrap();
    let root = ["--user", "root", "--unused"];
    let with = |args: &[&str]| ask(&server.socket, &[&root, args].concat());
    let report = with(&["--save", saved]);
    assert_eq!(named(&report), uncounted);
    assert!(report["notes"].to_string().contains("only asked for what is not there"));
    // The server's own log has a plan of each statement.
    assert_eq!(named(&with(&["--log", slow.to_str().unwrap()])), unused);
    let reason = report["findings"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("rows changed in the table meanwhile: 20"), "{reason}");
    // Since then nothing was read but one index, which a plan in a log shows as well.
    admin.run("select * from shop.t17 where k = 5");
    let since = named(&with(&["--since", saved]));
    assert_eq!((since.len(), since.contains(&"t17".into())), (199, false));
    let log = home.path().join("made.log");
    let head = "# Time: 261101 10:00:00\n# User@Host: u[u] @ localhost []\n# Thread_id: 5  Schema: shop  QC_hit: No\n\
        # Query_time: 0.1  Lock_time: 0.0  Rows_sent: 1  Rows_examined: 1\n#\n";
    let plan = "# explain: id\tselect_type\ttable\ttype\tpossible_keys\tkey\n# explain: 1\tSIMPLE\tz\tref\tx\tx\n#\n";
    let body = format!("{head}{plan}SET timestamp=1793527200;\nselect * from t18 z where k = 1;\n");
    std::fs::write(&log, body).unwrap();
    let since = named(&with(&["--since", saved, "--log", log.to_str().unwrap()]));
    assert_eq!((since.len(), since.contains(&"t18".into())), (198, false));
    // The same server named as another one: the indexes that it reads are used.
    assert_eq!(named(&with(&["--also", &socket])), uncounted);
    admin.run("truncate performance_schema.table_io_waits_summary_by_index_usage");
    let refused = |args: &[&str]| {
        let all = [&["--no-defaults", "--socket", &socket], &root[..], args].concat();
        let (status, out, error) = frond(&all, b"");
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        error
    };
    assert!(refused(&["--since", saved]).contains("set back"), "counters went down");
    admin.run("update performance_schema.setup_instruments set enabled = 'NO' where name like 'wait/io/table%'");
    let blind = refused(&[]);
    assert!(blind.contains("wait/io/table/sql/handler") && blind.contains("userstat"), "{blind}");
    assert!(refused(&["--also", "localhost:x"]).contains("is no port"));
}
