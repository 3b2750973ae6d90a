//! Index entries that do not match the rows, planted behind the engine's typed rows: the check names
//! each of them. And rows that are written during a check: it finds nothing wrong.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::{ErrorKind, SEQ_MAX};
use frond_engine::{CheckOutcome, Engine, Options, Transaction};

use crate::support::*;
use crate::typed::Typed;

fn compare(engine: &Engine, t: &Typed) -> CheckOutcome {
    let mut outcome = CheckOutcome::default();
    t.rows.check(engine, &mut outcome, &mut || false, None).unwrap();
    outcome
}

/// 500 rows, half of them in runs.
fn filled(engine: &Engine, hidden_primary: bool) -> Typed {
    let mut t = Typed::create(engine, "t", hidden_primary);
    for part in 0..2 {
        let mut txn = begin(engine);
        for n in 0..250 {
            t.insert(&mut txn, (n * 7919) % 100, &format!("s{}", n % 50 + part));
        }
        txn.commit().unwrap();
        if part == 0 {
            engine.flush_all().unwrap();
        }
    }
    t
}

fn pk(id: u64) -> Vec<u8> {
    (id | 1 << 63).to_be_bytes().to_vec()
}

fn value_of(t: &Typed, id: u64) -> Vec<u8> {
    let mut value = Vec::new();
    t.table().tree(0).get(&pk(id), SEQ_MAX, &mut value).unwrap().unwrap();
    value
}

fn hex(key: &[u8]) -> String {
    "0x".to_string() + &key.iter().map(|b| format!("{b:02x}")).collect::<String>()
}

/// The entry of `by_a` for a row.
fn by_a(a: i32, id: u64) -> String {
    hex(&[&(a as u32 ^ 1 << 31).to_be_bytes()[..], &pk(id)].concat())
}

/// Changes the primary index alone, and says what is found; the pages are sound.
fn planted(change: impl FnOnce(&mut Typed, &mut Transaction)) -> Vec<String> {
    let mut found = Vec::new();
    let engine = open(&memory());
    let mut t = filled(&engine, false);
    let mut txn = begin(&engine);
    change(&mut t, &mut txn);
    txn.commit().unwrap();
    // In the write buffers, in upper runs, and merged.
    for _ in 0..3 {
        let problems = compare(&engine, &t).problems;
        assert!(found.is_empty() || found == problems, "{found:#?} {problems:#?}");
        found = problems;
        engine.flush_all().unwrap();
        assert!(engine.check_table("t").unwrap().is_clean());
        engine.optimize_table(t.table(), &mut || false).unwrap();
    }
    found
}

#[test]
fn sound_tables_are_clean_with_and_without_a_primary_key() {
    for hidden in [true, false] {
        let engine = open(&memory());
        let mut t = filled(&engine, hidden);
        assert_eq!(compare(&engine, &t).problems, Vec::<String>::new());
        if !hidden {
            let mut txn = begin(&engine);
            t.update(&mut txn, (1, 0, "s0"), (1, 77, "other"));
            t.update(&mut txn, (2, 19, "s1"), (2000, 19, "s1"));
            txn.commit().unwrap();
            assert_eq!(compare(&engine, &t).problems, Vec::<String>::new());
        }
    }
}

#[test]
fn a_missing_entry_is_named_in_each_index() {
    let found = planted(|t, txn| {
        let value = value_of(t, 5);
        txn.put(t.table(), &pk(9000), &value, true).unwrap();
    });
    assert_eq!(found.len(), 4, "{found:#?}");
    let row = hex(&pk(9000));
    assert_eq!(found[0], "table 't', index 'by_a': 500 entries, the rows ask for 501");
    let entry = by_a((4 * 7919) % 100, 9000);
    assert_eq!(found[1], format!("table 't', index 'by_a': entry {entry} of row {row} is missing"));
    assert_eq!(found[2], "table 't', index 'by_s': 500 entries, the rows ask for 501");
    assert!(found[3].ends_with(&format!("of row {row} is missing")), "{found:#?}");
}

#[test]
fn an_entry_too_many_is_named_in_each_index() {
    let found = planted(|t, txn| assert!(txn.delete(t.table(), &pk(301)).unwrap()));
    assert_eq!(found.len(), 4, "{found:#?}");
    assert_eq!(found[0], "table 't', index 'by_a': 500 entries, the rows ask for 499");
    let entry = by_a((50 * 7919) % 100, 301);
    let place = "table 't', index 'by_a'";
    assert_eq!(found[1], format!("{place}: entry {entry} leads to a row that does not exist"));
    assert_eq!(found[2], "table 't', index 'by_s': 500 entries, the rows ask for 499");
}

#[test]
fn a_stale_entry_is_named_although_the_number_is_right_and_other_indexes_are_not() {
    // The same `a`, another `s`.
    let found = planted(|t, txn| {
        let value = value_of(t, 251);
        txn.put(t.table(), &pk(1), &value, false).unwrap();
    });
    assert_eq!(found.len(), 2, "{found:#?}");
    let place = "table 't', index 'by_s': entry 0x";
    assert!(found.iter().all(|f| f.starts_with(place)), "{found:#?}");
    assert!(found[0].ends_with(&format!("of row {} is missing", hex(&pk(1)))), "{found:#?}");
    assert!(found[1].ends_with("leads to a row that asks for another entry"), "{found:#?}");
}

#[test]
fn an_entry_with_another_value_is_named() {
    // Spaces at the end are no part of the key.
    let found = planted(|t, txn| {
        t.insert(txn, 0, "s0  ");
        let (mut row, table) = (Vec::new(), t.table().clone());
        assert!(txn.get(&table, 0, &pk(501), &mut row).unwrap());
        txn.put(&table, &pk(1), &row, false).unwrap();
    });
    assert_eq!(found.len(), 1, "{found:#?}");
    let what = format!("of row {} has another value than its row asks for", hex(&pk(1)));
    assert!(found[0].contains("'by_s'") && found[0].ends_with(&what), "{found:#?}");
}

#[test]
fn an_index_on_a_computed_column_is_compared_by_primary_keys() {
    let engine = open(&memory());
    let mut t = Typed::create_computed(&engine, "t");
    let mut txn = begin(&engine);
    for n in 0..100 {
        t.insert(&mut txn, n, "row");
    }
    txn.commit().unwrap();
    assert_eq!(compare(&engine, &t).problems, Vec::<String>::new());
    let by_v = |found: Vec<String>| -> Vec<String> {
        found.into_iter().filter(|f| f.contains("'by_v'")).collect()
    };
    // The rows get another primary key: the number stays right.
    let mut txn = begin(&engine);
    let row = value_of(&t, 7);
    assert!(txn.delete(t.table(), &pk(7)).unwrap());
    txn.put(t.table(), &pk(9000), &row, true).unwrap();
    txn.commit().unwrap();
    let entry = hex(&[&(1u32 << 31).to_be_bytes()[..], &pk(7)].concat());
    let stray =
        format!("table 't', index 'by_v': entry {entry} leads to a row that does not exist");
    assert_eq!(by_v(compare(&engine, &t).problems), std::slice::from_ref(&stray));
    // One more that has no entry.
    let mut txn = begin(&engine);
    txn.put(t.table(), &pk(9001), &row, true).unwrap();
    txn.commit().unwrap();
    let count = "table 't', index 'by_v': 100 entries, the rows ask for 101".to_string();
    assert_eq!(by_v(compare(&engine, &t).problems), [count, stray]);
}

#[test]
fn a_row_that_cannot_be_decoded_is_named() {
    let found = planted(|t, txn| txn.put(t.table(), &pk(5), b"\x01", false).unwrap());
    assert!(found[0].contains(&format!("index 'PRIMARY': row {}", hex(&pk(5)))), "{found:#?}");
}

#[test]
fn a_check_that_is_killed_ends() {
    let engine = open(&memory());
    let t = filled(&engine, false);
    for polls in 0..4 {
        let mut left = polls;
        let mut killed = || {
            left -= 1;
            left < 0
        };
        let e = t.rows.check(&engine, &mut CheckOutcome::default(), &mut killed, None);
        match polls {
            3 => e.unwrap(),
            _ => assert_eq!(e.unwrap_err().kind(), ErrorKind::Interrupted),
        }
    }
    let mut left = 2;
    let mut killed = || {
        left -= 1;
        left < 0
    };
    let e = engine.check_table_unless(t.table(), &mut killed).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Interrupted);
}

#[test]
fn writers_meanwhile_are_no_differences() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { background_threads: 1, ..small() };
    let engine = Arc::new(on_disk(&dir, options));
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    for n in 0..2000 {
        t.insert(&mut txn, n % 100, "begin");
    }
    txn.commit().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let commits = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..2u64)
        .map(|who| {
            let (engine, stop, commits) = (engine.clone(), stop.clone(), commits.clone());
            let mut t = Typed::bind(engine.open_table("t").unwrap());
            // Stopped below; joined before the test ends.
            #[allow(clippy::disallowed_methods)]
            std::thread::spawn(move || {
                let mut rng = Rng(who);
                // Each writer has its own half of the rows.
                let mut now: Vec<(i32, String)> =
                    (0..1000).map(|n| ((n * 2 + who as i32) % 100, "begin".into())).collect();
                while !stop.load(Ordering::Relaxed) {
                    let mut txn = read_committed(&engine);
                    for _ in 0..1 + rng.below(5) {
                        let n = rng.below(1000) as usize;
                        let id = n as u64 * 2 + who + 1;
                        let new = (rng.below(100) as i32, format!("s{}", rng.below(30)));
                        let old = (id, now[n].0, now[n].1.as_str());
                        t.update(&mut txn, old, (id, new.0, &new.1));
                        now[n] = new;
                    }
                    t.insert(&mut txn, rng.below(100) as i32, "more");
                    txn.commit().unwrap();
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut last = 0;
    for round in 0..30 {
        while commits.load(Ordering::Relaxed) < last + 20 {
            std::hint::spin_loop();
        }
        last = commits.load(Ordering::Relaxed);
        let problems = compare(&engine, &t).problems;
        assert!(problems.is_empty(), "round {round}: {problems:#?}");
        let outcome = engine.check_table("t").unwrap();
        assert!(outcome.is_clean(), "round {round}: {:#?}", outcome.problems);
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|w| w.join().unwrap());
    // And the check would have found one entry of them all.
    let mut txn = begin(&engine);
    assert!(txn.delete(t.table(), &pk(700)).unwrap());
    txn.commit().unwrap();
    assert_eq!(compare(&engine, &t).problems.len(), 4);
}
