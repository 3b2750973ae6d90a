//! `frond locks`: a server's own text and tables with known waits, and the messages for bad files.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Client, Server};
use crate::programs::has;
use crate::tool::{self, Files};

fn frond(args: &[&str], input: &[u8]) -> (i32, String, String) {
    tool::frond("locks", args, input)
}

pub const STATUS: &str = "\
=====================================
2026-11-23 19:37:16 0x7fd1400aa6c0 INNODB MONITOR OUTPUT
=====================================
------------
TRANSACTIONS
------------
History list length 7
---TRANSACTION 35, ACTIVE 2 sec starting index read
LOCK WAIT 1 lock struct(s), heap size 1128, 1 row lock(s)
MariaDB thread id 11, OS thread handle 140536699946688, query id 31 localhost shop Updating
update sale set price = 7 where id = 1
------- TRX HAS BEEN WAITING 1191886 us FOR THIS LOCK TO BE GRANTED:
RECORD LOCKS space id 5 page no 4 n bits 320 index PRIMARY of table `shop`.`sale` trx id 35 lock_mode X waiting
Record lock, heap no 2 PHYSICAL RECORD: n_fields 2; compact format; info bits 32
 0: len 4; hex 80000001; asc     ;;

------------------
---TRANSACTION 33, ACTIVE 60 sec
1 lock struct(s), heap size 1128, 7 row lock(s), undo log entries 1
MariaDB thread id 8, OS thread handle 140536700868288, query id 25 app.local shop
RECORD LOCKS space id 5 page no 4 n bits 320 index PRIMARY of table `shop`.`sale` trx id 33 lock_mode X locks rec but not gap
Record lock, heap no 2 PHYSICAL RECORD: n_fields 2; compact format; info bits 32
 0: len 4; hex 80000001; asc     ;;

----------------------------
END OF INNODB MONITOR OUTPUT
============================
";

#[test]
fn who_waits_for_whom_is_printed() {
    let (status, out, error) = frond(&["-"], STATUS.as_bytes());
    assert_eq!((status, error.as_str()), (1, ""), "{out}");
    for line in [
        "2026-11-23 19:37:16, by the server's clock\n1 wait, waited in all 1.19s, 2 open transactions, 0 deadlocks, 1 dump\n",
        "  connection 8 (transaction 33)  shop@app.local, open 60s, idle in transaction",
        "    connection 11 (transaction 35)  shop@localhost",
        "waits 1.19s for X next-key on shop.sale index PRIMARY key (1)",
        "update sale set price = ? where id = ?",
        "   1.19s  shop.sale, index PRIMARY, key (1), 1 wait, 1 at once",
        "     60s  connection 8 (transaction 33), shop@app.local, 7 row locks, 1 change, idle in transaction",
        "  shop.sale, index PRIMARY, X next-key, waiting, 1 lock, 1 record, 1 transaction",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(!out.contains('\x1b'), "{out}");
    let (_, out, _) = frond(&["-", "--no-keys"], STATUS.as_bytes());
    assert!(out.contains("index PRIMARY\n") && !out.contains("key ("), "{out}");
    let csv = ["-", "--csv", "waits", "--fields", "connection,seconds,wants.key,held_by"];
    let (status, out, _) = frond(&csv, STATUS.as_bytes());
    assert_eq!(
        (status, out.as_str()),
        (1, "connection,seconds,wants.key,held_by\n11,1.191886,1,33\n")
    );
    let (status, _, error) = frond(&["-", "--csv", "waits", "--fields", "secs"], STATUS.as_bytes());
    assert!(
        status == 2 && error.contains("no field 'secs': there are ") && error.contains("seconds"),
        "{error}"
    );
    // Nobody waits.
    let quiet = STATUS.replace("LOCK WAIT ", "").replace(" waiting\n", "\n");
    assert_eq!(frond(&["-"], quiet.as_bytes()).0, 0);
}

#[test]
fn bad_files_are_named_with_what_is_wrong() {
    let files = Files::of("locks");
    let complaint = |name: &str, bytes: &[u8]| files.complaint(&files.write(name, bytes));
    assert!(complaint("empty", b"").1.contains("no monitor output"));
    assert!(complaint("binary", &[0x7f, 0, 0xff, 3].repeat(5000)).1.contains("no monitor output"));
    assert!(complaint("cut.gz", b"\x1f\x8b\x08\0\0\0\0\0").1.contains("cut.gz: "));
    files.assert_missing_and_directories_are_named();
    // The readable part is still shown, and so is the part before a cut.
    let good = files.write("good", STATUS.as_bytes());
    let missing = files.path("missing");
    let (status, out, error) = frond(&[good.to_str().unwrap(), missing.to_str().unwrap()], b"");
    assert!(status == 2 && out.contains("1 wait") && error.contains("missing"), "{out} {error}");
    let cut = &STATUS[..STATUS.find("---TRANSACTION 33").unwrap()];
    let (status, out, _) = frond(&["-"], cut.as_bytes());
    assert!(
        status == 1 && out.contains("which is cut") && out.contains("1 of 1 dumps are cut"),
        "{out}"
    );
}

#[test]
fn a_log_is_followed_while_it_grows_and_when_it_is_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("error.log");
    std::fs::write(&log, "what was there before\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_frond"))
        .args(["locks", "--follow", "--run-time", "8", "--json", log.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(STATUS.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    std::fs::rename(&log, dir.path().join("error.log.1")).unwrap();
    std::fs::write(&log, STATUS.replace("connection", "").replace("thread id 11", "thread id 12"))
        .unwrap();
    // Until FLUSH LOGS the server writes to the old file.
    file.write_all(STATUS.replace("thread id 11", "thread id 13").as_bytes()).unwrap();
    file.write_all(b"half a line").unwrap();
    // Rotated again before the reader left the first file.
    std::thread::sleep(Duration::from_millis(700));
    std::fs::rename(&log, dir.path().join("error.log.0")).unwrap();
    std::fs::write(&log, STATUS.replace("thread id 11", "thread id 14")).unwrap();
    let mut out = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let reports: Vec<Value> =
        serde_json::Deserializer::from_str(&out).into_iter().map(Result::unwrap).collect();
    let who: Vec<_> =
        reports.iter().map(|r| r["longest_waits"][0]["connection"].as_u64()).collect();
    assert_eq!(who, [Some(11), Some(13), Some(12), Some(14)]);
}

/// (statement of the waiter, statement of the blocker; "idle": it runs none)
type Edges = BTreeSet<(String, String)>;

fn edges(report: &Value) -> Edges {
    let nodes = report["tree"]["nodes"].as_array().unwrap();
    let name = |id: &str| {
        let node = nodes.iter().find(|n| n["transaction"] == id).unwrap();
        if node["idle"] == true {
            "idle".to_owned()
        } else {
            node["statement"].as_str().unwrap().into()
        }
    };
    let mut edges = Edges::new();
    for wait in report["longest_waits"].as_array().unwrap() {
        for by in wait["held_by"].as_array().unwrap() {
            edges.insert((wait["statement"].as_str().unwrap().into(), name(by.as_str().unwrap())));
        }
    }
    edges
}

fn later(socket: &Path, first: &'static str, sql: &'static str) -> JoinHandle<u16> {
    let mut client = Client::connect(socket, "shop").unwrap();
    client.run("begin");
    if !first.is_empty() {
        client.run(first);
    }
    std::thread::spawn(move || {
        let error = client.query(sql.as_bytes()).error;
        client.run("rollback");
        error
    })
}

#[test]
fn waits_of_a_server_are_found_in_its_text_and_in_its_tables() {
    if !has("mariadbd") || !has("mariadb-install-db") || !has("mariadb") {
        eprintln!("skipped: mariadbd is not installed");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let options = [
        "--innodb-status-output-locks=1",
        "--innodb-print-all-deadlocks=1",
        "--innodb-lock-wait-timeout=60",
    ];
    let server = Server::start(home.path(), &options).unwrap_or_else(|e| panic!("{e}"));
    let socket = server.socket.to_str().unwrap().to_owned();
    let mut admin = Client::connect(&server.socket, "").unwrap();
    admin.run("create database shop");
    admin.run("create table shop.t (id int primary key, a int, b int, c int, d int, key (a)) engine=innodb");
    admin.run("insert into shop.t (id, a) values (1, 10), (2, 20), (3, 30), (9, 90)");
    // The documented least privilege.
    admin.run("create user reader@localhost identified by 'secret'");
    admin.run("grant process on *.* to reader@localhost");
    std::fs::write(home.path().join("password"), "secret\n").unwrap();
    let password = home.path().join("password");
    let account = [
        "--no-defaults",
        "--socket",
        &socket,
        "--user",
        "reader",
        "--password-file",
        password.to_str().unwrap(),
    ];
    let live = || {
        let (status, out, error) = frond(&[&["--live", "--json"], &account[..]].concat(), b"");
        assert!((0..=1).contains(&status), "{error}");
        (status, serde_json::from_str::<Value>(&out).unwrap())
    };
    let (status, report) = live();
    assert_eq!((status, &report["waits"]["count"]), (0, &0.into()));
    // Of a deadlock's first member these servers print no lock that it has, so it cannot be named as a blocker.
    let older = report["sources"][0].as_str().unwrap().starts_with("10.5.");

    // The first holds a row lock and a gap lock, and is idle.
    let mut holder = Client::connect(&server.socket, "shop").unwrap();
    holder.run("begin");
    holder.run("update t set b = 0 where id = 1");
    holder.query(b"select * from t where a between 15 and 25 for update");
    let waiters = [
        later(&server.socket, "update t set b = 1 where id = 3", "update t set b = 1 where id = 1"),
        later(&server.socket, "", "update t set c = 1 where id = 3"),
        later(&server.socket, "", "insert into t (id, a) values (5, 21)"),
        later(&server.socket, "", "select d from t where id = 1 lock in share mode"),
    ];
    let statement = |text: &str| text.to_owned();
    let first = statement("update t set b = ? where id = ?");
    let known: Edges = [
        (first.clone(), statement("idle")),
        (statement("update t set c = ? where id = ?"), first),
        (statement("insert into t(id, a) values(?+)"), statement("idle")),
        (statement("select d from t where id = ? lock in share mode"), statement("idle")),
    ]
    .into();
    let until = Instant::now() + Duration::from_secs(30);
    let report = loop {
        let (_, report) = live();
        if report["waits"]["count"] == 4 || Instant::now() > until {
            break report;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(edges(&report), known, "{report:#}");
    assert_eq!(report["blockers"][0]["statement"], "", "{report:#}");
    assert_eq!(report["blockers"][0]["waits"], 4);
    // The same from the server's text, in both forms in which the client prints it.
    for format in ["--vertical", "--batch"] {
        let status = Command::new("mariadb")
            .args(["--no-defaults", "--user=root", format, &format!("--socket={socket}")])
            .args(["-e", "show engine innodb status"])
            .output()
            .unwrap();
        let (code, out, error) = frond(&["--json", "-"], &status.stdout);
        assert_eq!((code, error.as_str()), (1, ""), "{format}");
        let text: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(edges(&text), known, "{format} {text:#}");
        assert_eq!(text["notes"].as_array().unwrap().len(), 0, "{text:#}");
        let keys = |report: &Value| -> BTreeSet<String> {
            let waits = report["longest_waits"].as_array().unwrap();
            waits.iter().map(|w| w["wants"]["key"].to_string()).collect()
        };
        assert_eq!(keys(&text), keys(&report));
    }
    holder.run("rollback");
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), 0);
    }
    // InnoDB's tables are a copy, which is taken anew only when nobody has read it for a while.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let (status, report) = live();
        if status == 0 {
            break;
        }
        assert!(Instant::now() < until, "{report:#}");
        std::thread::sleep(Duration::from_millis(500));
    }

    // A deadlock: the log shows it at once, and the monitor keeps it.
    let begin = |first: &str| {
        let mut client = Client::connect(&server.socket, "shop").unwrap();
        client.run("begin");
        client.run(first);
        client
    };
    let mut one = begin("update t set a = 1 where id = 1");
    let mut other = begin("update t set d = 1 where id = 2");
    let waits = std::thread::spawn(move || one.query(b"update t set c = 3 where id = 2").error);
    std::thread::sleep(Duration::from_millis(500));
    let error = other.query(b"update t set b = 3 where id = 1").error;
    drop(other);
    let mut errors = [error, waits.join().unwrap()];
    errors.sort_unstable();
    assert_eq!(errors, [0, 1213]);
    let log = home.path().join("log");
    let (status, out, error) = frond(&["--json", log.to_str().unwrap()], b"");
    assert_eq!((status, error.as_str()), (1, ""));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["deadlocks"], 1, "{report:#}");
    let members = report["deadlock_groups"][0]["members"].as_array().unwrap();
    let found: BTreeSet<_> = members.iter().map(|m| m["statement"].as_str().unwrap()).collect();
    let wanted = ["update t set b = ? where id = ?", "update t set c = ? where id = ?"];
    assert_eq!(found, wanted.into());
    assert_eq!(members[0]["held_by"][0], members[1]["transaction"]);
    if older {
        assert_eq!(members[1]["held_by"], Value::Array(Vec::new()));
    } else {
        assert_eq!(members[1]["held_by"][0], members[0]["transaction"]);
    }
    assert_eq!(members.iter().filter(|m| m["rolled_back"] == true).count(), 1);

    // Without the privilege, the message says what is missing.
    admin.run("revoke process on *.* from reader@localhost");
    let (status, _, error) = frond(&[&["--live"], &account[..]].concat(), b"");
    assert!(status == 2 && error.contains("GRANT PROCESS ON *.* TO 'reader'"), "{error}");
    drop(server);
    let (status, _, error) = frond(&[&["--live"], &account[..]].concat(), b"");
    assert!(status == 2 && error.contains("is the server running"), "{error}");
}
