//! Which keys are called unused, with which evidence.

use std::collections::BTreeMap;

use frond_indexes::dump::Hiding;
use frond_indexes::report::Kind;
use frond_indexes::usage::{unused, Count, Counters, Saved, Usage};

use frond_indexes::duty::Parents;

use crate::read;

fn counters(taken: u64, uptime: u64, counts: &[(&str, &str, u64)]) -> Counters {
    let counts = counts
        .iter()
        .map(|(table, key, n)| Count {
            db: "shop".into(),
            table: (*table).into(),
            key: (*key).into(),
            n: *n,
        })
        .collect();
    Counters {
        server: "here:3306 #1".into(),
        taken,
        uptime,
        sources: BTreeMap::from([("performance_schema".into(), counts)]),
        ..Counters::default()
    }
}

/// The unused keys of all tables of `sql`, which are in `shop`.
fn names(sql: &str, usage: &Usage) -> Vec<String> {
    let dump = read(&format!("use shop; {sql}"));
    let items = dump
        .tables
        .iter()
        .flat_map(|t| unused(t, &Parents::of(&dump.tables), usage, Hiding::Ignored));
    items.inspect(|item| assert_eq!(item.kind, Kind::Unused)).map(|item| item.key).collect()
}

fn used(keys: &[(&str, &str)]) -> Usage {
    let counts: Vec<_> = keys.iter().map(|(table, key)| (*table, *key, 1)).collect();
    let mut usage = Usage::default();
    usage.add(&counters(100_000, 90_000, &counts).window());
    usage
}

const T: &str = "create table t (id int primary key, a int, b int, c int, key x (a), key y (b), \
    unique u (c)) engine=innodb;";

#[test]
fn what_nothing_reads_is_named_and_what_is_needed_is_not() {
    assert_eq!(names(T, &used(&[])), ["x", "y"]);
    assert_eq!(names(T, &used(&[("t", "x")])), ["y"]);
    // If the case of names differs, the key counts as used.
    assert_eq!(names(T, &used(&[("T", "X"), ("t", "y")])), [""; 0]);
    let foreign = "create table p (id int primary key, r int, key r (r)) engine=innodb; \
        create table c (id int primary key, p int, q int, key p (p), key pq (p, id, q), \
        foreign key f (p) references p (r)) engine=innodb;";
    // `p` repeats `pq`, so `pq` is the index that the foreign key keeps (IX2); the parent's key is
    // needed as well.
    assert_eq!(names(foreign, &used(&[])), [""; 0]);
    let counter = "create table n (id int auto_increment, a int, key (id), key a (a));";
    assert_eq!(names(counter, &used(&[])), ["a"]);
    let within = "create table n (id int auto_increment, a int, key x (a, id)) engine=MyISAM;";
    assert_eq!(names(within, &used(&[])), [""; 0]);
    let rows = "create table n (a int not null, b int, unique u (a), unique v (a)) engine=innodb;";
    assert_eq!(names(rows, &used(&[])), [""; 0]);
}

#[test]
fn what_covers_a_key_that_is_read_is_used() {
    let sql =
        "create table t (id int primary key, a int, b int, key x (a), key y (a, b)) engine=innodb;";
    // x is superfluous beside y.
    assert_eq!(names(sql, &used(&[("t", "x")])), [""; 0]);
    assert_eq!(names(sql, &used(&[])), ["y"]);
}

#[test]
fn a_plan_uses_keys_of_its_statements_tables() {
    let sql =
        format!("{T} create table o (id int primary key, a int, key x (a), key only_o (a, id));");
    let dump = read(&format!("use shop; {sql}"));
    let plan = |cells: &[&str]| {
        let head = "# explain: id\tselect_type\ttable\ttype\tpossible_keys\tkey\tkey_len\n";
        let rows = cells.iter().map(|c| format!("# explain: 1\tSIMPLE\tz\tref\tx,y\t{c}\t5\n"));
        format!("{head}{}", rows.collect::<String>())
    };
    let named = |cells: &[&str], tables: &[(&str, &str)]| {
        let mut usage = used(&[]);
        let tables: Vec<_> = tables.iter().map(|(d, t)| (d.to_string(), t.to_string())).collect();
        usage.add_plan(plan(cells).as_bytes(), &tables, &dump.tables);
        names(&sql, &usage)
    };
    // `o.x` repeats `only_o` by its end, so reads do not matter.
    assert_eq!(named(&["x"], &[("shop", "t")]), ["y", "only_o"]);
    assert_eq!(named(&["x,y"], &[("", "t")]), ["only_o"]);
    assert_eq!(named(&["x|y", "NULL"], &[("shop", "T")]), ["only_o"]);
    // A view or a routine hides the table: the name counts for every table that has such a key.
    assert_eq!(named(&["only_o"], &[("shop", "view")]), ["x", "y"]);
    assert_eq!(named(&["only_o"], &[("elsewhere", "o")]), ["x", "y"]);
    assert_eq!(named(&["x"], &[("shop", "o"), ("shop", "view")]), ["y"]);
    let mut usage = used(&[]);
    usage.add_plan(b"# explain: id\n", &[], &dump.tables);
    usage.add_plan(b"\xff", &[], &dump.tables);
    assert_eq!(names(&sql, &usage), ["x", "y", "only_o"]);
}

#[test]
fn a_window_is_bounded_by_what_was_saved() {
    let text =
        serde_json::to_vec(&Saved::new(vec![counters(1000, 500, &[("t", "x", 7)])])).unwrap();
    let saved = Saved::read(&text).unwrap();
    let until = |now: &Counters| saved.until(now);
    let window = until(&counters(5000, 4500, &[("t", "x", 7), ("t", "y", 2)])).unwrap();
    assert_eq!((window.seconds, window.exact, window.restarted), (4000, true, false));
    let mut usage = Usage::default();
    usage.add(&window);
    assert_eq!(names(T, &usage), ["x"]);
    // The server was restarted: all its counts are from since then.
    let window = until(&counters(5000, 100, &[("t", "x", 1)])).unwrap();
    assert_eq!((window.seconds, window.restarted, window.counts[0].n), (100, true, 1));
    // IU2: it is unknown what was read before the counters were reset.
    let error = until(&counters(5000, 4500, &[("t", "x", 6)])).unwrap_err();
    assert!(error.contains("set back") && error.contains("--save"), "{error}");
    let elsewhere = Counters { server: "there".into(), ..counters(5000, 4500, &[]) };
    assert!(until(&elsewhere).unwrap_err().contains("no counters of there"));
    let mut otherwise = counters(5000, 4500, &[]);
    otherwise.sources = BTreeMap::from([("userstat".into(), Vec::new())]);
    assert!(until(&otherwise).unwrap_err().contains("counts otherwise"));
    for bad in [&b""[..], b"[]", b"{\"version\":1}", b"\x00\xff"] {
        assert!(Saved::read(bad).unwrap_err().contains("--save"), "{bad:?}");
    }
    assert!(Saved::read(b"{\"version\":2,\"servers\":[]}").unwrap_err().contains("format is 2"));
}

#[test]
fn counts_that_vanish_were_set_back_and_an_altered_table_is_not_judged() {
    let made = |n: u64, at: u64, counts: &[(&str, &str, u64)]| {
        let table = |table: &str| Count {
            db: "shop".into(),
            table: table.into(),
            key: String::new(),
            n: at,
        };
        Counters { created: vec![table("t")], ..counters(n, n - 500, counts) }
    };
    let saved = Saved::new(vec![made(1000, 100, &[("t", "x", 7), ("gone", "x", 7)])]);
    let error = saved.until(&made(5000, 100, &[])).unwrap_err();
    assert!(error.contains("set back") && error.contains("shop.t"), "{error}");
    // An ALTER that copies the table begins its counts anew, whether they were 0 before or not.
    for counts in [&[][..], &[("t", "x", 3)], &[("t", "x", 8)]] {
        let mut usage = Usage::default();
        usage.add(&saved.until(&made(5000, 3000, counts)).unwrap());
        assert_eq!(names(T, &usage), [""; 0], "{counts:?}");
    }
    // Without earlier counters, or after a restart, the table's time begins with the ALTER.
    let early = Saved::new(vec![made(1000, 100, &[])]);
    let again = |now: Counters| Counters { uptime: 3000, ..now };
    let restarted = early.until(&again(made(5000, 4400, &[]))).unwrap();
    for window in [made(5000, 4400, &[]).window(), restarted] {
        let mut usage = Usage::default();
        usage.add(&window);
        let dump = read(&format!("use shop; {T}"));
        let items = unused(&dump.tables[0], &Parents::of(&dump.tables), &usage, Hiding::Ignored);
        assert!(
            items[0].reason.contains("nothing has read it in 10.0 minutes"),
            "{}",
            items[0].reason
        );
    }
}

#[test]
fn a_table_whose_keys_were_altered_in_place_is_not_judged() {
    let with = |n: u64, keys: &[&str], counts: &[(&str, &str, u64)]| {
        let all = counters(n, n - 500, counts);
        let row = |key: &str| Count { db: "shop".into(), table: "t".into(), key: key.into(), n: 0 };
        let created = vec![Count { n: 100, ..row("") }];
        Counters { created, keys: keys.iter().map(|key| row(key)).collect(), ..all }
    };
    let saved = Saved::new(vec![with(1000, &["x", "y"], &[("t", "x", 7), ("t", "y", 7)])]);
    for (keys, unknown) in [(&["y"][..], 1), (&["x", "y", "z"], 1)] {
        assert_eq!(
            saved.until(&with(5000, keys, &[("t", "y", 1)])).unwrap().unknown.len(),
            unknown
        );
    }
    assert!(saved.until(&with(5000, &["x", "y"], &[("t", "y", 1)])).is_err(), "set back");
    // As an earlier version of this program saved it.
    let saved = Saved::new(vec![with(1000, &[], &[])]);
    assert!(saved.until(&with(5000, &["y"], &[])).unwrap().unknown.is_empty());
}

#[test]
fn the_weakest_window_and_the_work_of_writes_are_told() {
    let mut usage = used(&[]);
    usage.add(&counters(100_000, 600, &[("t", "", 12)]).window());
    let dump = read(&format!("use shop; {T}"));
    let items = unused(&dump.tables[0], &Parents::of(&dump.tables), &usage, Hiding::Ignored);
    assert_eq!(
        items[0].reason,
        "nothing has read it in 10.0 minutes (performance_schema of 2 servers); \
         rows changed in the table meanwhile: 12"
    );
    assert_eq!(items[0].now.as_deref(), Some("ALTER TABLE `shop`.`t` ALTER INDEX `x` IGNORED;"));
}
