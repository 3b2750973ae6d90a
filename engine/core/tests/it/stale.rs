//! Table files that are missing or older than the images for which the log was trimmed
//! (`images.rs`), and a log without its newest segments.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use frond_engine::{Engine, Error, ErrorKind, Options};
use frond_vfs::{MemVfs, Vfs};

use crate::support::*;

type Files = BTreeMap<String, Vec<u8>>;

fn files(vfs: &MemVfs) -> Files {
    let names = vfs.list().unwrap();
    names.into_iter().map(|n| (n.clone(), vfs.contents(&n).unwrap())).collect()
}

fn directory(files: &Files) -> MemVfs {
    let vfs = memory();
    for (name, bytes) in files {
        vfs.set_contents(name, bytes.clone());
    }
    vfs
}

/// `n` keys from `from` on, in table `name`, with values that do not compress.
fn fill(engine: &Engine, name: &str, from: u64, n: u64) {
    let table = engine.open_table(name).unwrap();
    let mut txn = begin(engine);
    let mut x = from * 2 + 1;
    for k in from..from + n {
        let mut value = [0u8; 200];
        for b in &mut value {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *b = (x >> 56) as u8;
        }
        txn.put(&table, &key(k), &value, false).unwrap();
    }
    txn.commit().unwrap();
}

fn figure(engine: &Engine, name: &str) -> u64 {
    engine.status().into_iter().find(|(n, _)| *n == name).unwrap().1
}

/// Writes `table` until the log holds nothing of before.
fn turn_the_log_over(engine: &Engine, table: &str) {
    let before = figure(engine, "log_bytes_appended");
    let mut from = 1_000_000;
    loop {
        fill(engine, table, from, 300);
        from += 300;
        engine.flush_all().unwrap();
        let end = figure(engine, "log_bytes_appended");
        if figure(engine, "log_bytes_kept") <= end - before {
            return;
        }
        assert!(from < 1_100_000, "the log is never trimmed");
    }
}

/// The sound database, and its files as they were when `t` had half of its rows and `late` was not there.
/// `t` is table 1, `other` table 2; the log has nothing of `t`, nor of the catalog.
fn trimmed() -> (Files, Files) {
    let vfs = memory();
    let engine = open(&vfs);
    engine.create_table(plain("t")).unwrap();
    engine.create_table(plain("other")).unwrap();
    fill(&engine, "t", 0, 500);
    engine.flush_all().unwrap();
    turn_the_log_over(&engine, "other");
    let old = files(&vfs);
    fill(&engine, "t", 500, 500);
    engine.create_table(plain("late")).unwrap();
    engine.flush_all().unwrap();
    turn_the_log_over(&engine, "other");
    engine.close().unwrap();
    drop(engine);
    (files(&vfs), old)
}

/// What opening the database and its table `t` fails with.
fn refusal(files: &Files) -> Error {
    match try_open(files) {
        Err(e) => e,
        Ok(engine) => match engine.open_table("t") {
            Err(e) => e,
            Ok(_) => panic!("the table is not refused"),
        },
    }
}

fn try_open(files: &Files) -> Result<Engine, Error> {
    Engine::open(Arc::new(directory(files)), small())
}

fn rows(files: &Files) -> usize {
    let engine = try_open(files).unwrap();
    let t = engine.open_table("t").unwrap();
    all(&engine, &t).len()
}

#[test]
fn missing_table_file_is_noticed_after_the_log_was_trimmed() {
    let (mut sound, _) = trimmed();
    assert_eq!(rows(&sound), 1000);
    sound.remove("1.frd").unwrap();
    let e = refusal(&sound);
    assert_eq!(e.kind(), ErrorKind::Corruption);
    for word in ["1.frd", "missing", "backup", "drop it"] {
        assert!(e.to_string().contains(word), "{word}: {e}");
    }
    let check = try_open(&sound).unwrap().check_all(&mut |_| {});
    assert!(check.problems.iter().any(|p| p.contains("1.frd")), "{:?}", check.problems);
}

#[test]
fn older_copy_of_a_table_file_is_noticed_after_the_log_was_trimmed() {
    let (mut sound, old) = trimmed();
    sound.insert("1.frd".into(), old["1.frd"].clone());
    let e = refusal(&sound);
    assert_eq!(e.kind(), ErrorKind::Corruption);
    for word in ["1.frd", "older copy", "backup"] {
        assert!(e.to_string().contains(word), "{word}: {e}");
    }
}

#[test]
fn missing_or_older_catalog_is_noticed_after_the_log_was_trimmed() {
    let (sound, old) = trimmed();
    let mut without = sound.clone();
    without.remove("0.frd").unwrap();
    let mut older = sound.clone();
    older.insert("0.frd".into(), old["0.frd"].clone());
    for (what, files) in [("missing", without), ("older copy", older)] {
        let e = try_open(&files).err().unwrap_or_else(|| panic!("{what} and opened"));
        assert!(e.to_string().contains(what), "{e}");
        assert_eq!(e.kind(), ErrorKind::Corruption);
        assert!(e.to_string().contains("0.frd"), "{e}");
    }
}

/// Edits in the log that do not fit the older file are a consequence: the cause is named.
#[test]
fn older_copy_is_named_as_such_when_the_log_has_newer_changes() {
    let (mut sound, old) = trimmed();
    let vfs = directory(&sound);
    let engine = open(&vfs);
    for part in 0..4 {
        fill(&engine, "t", part * 200, 400);
        engine.flush_all().unwrap();
    }
    drop(engine);
    sound = files(&vfs);
    assert_eq!(rows(&sound), 1000);
    sound.insert("1.frd".into(), old["1.frd"].clone());
    let e = refusal(&sound);
    assert!(e.to_string().contains("older copy"), "{e}");
    sound.remove("1.frd");
    let e = refusal(&sound);
    assert!(e.to_string().contains("the file is missing"), "{e}");
}

#[test]
fn what_was_relied_on_outlives_reopening_and_more_trims() {
    let (sound, _) = trimmed();
    let vfs = directory(&sound);
    for _ in 0..2 {
        // `t` is never opened.
        let engine = open(&vfs);
        turn_the_log_over(&engine, "other");
        engine.close().unwrap();
    }
    let mut now = files(&vfs);
    assert_eq!(rows(&now), 1000);
    now.remove("1.frd").unwrap();
    assert!(refusal(&now).to_string().contains("1.frd"));
}

#[test]
fn dropped_and_truncated_tables_are_not_missed() {
    let (sound, _) = trimmed();
    let vfs = directory(&sound);
    let engine = open(&vfs);
    engine.truncate_table("t").unwrap();
    engine.drop_table("other").unwrap();
    drop(engine);
    let now = files(&vfs);
    assert!(!now.contains_key("1.frd") && !now.contains_key("2.frd"));
    assert_eq!(rows(&now), 0);
    let engine = open(&vfs);
    engine.create_table(plain("third")).unwrap();
    turn_the_log_over(&engine, "third");
    drop(engine);
    assert_eq!(rows(&files(&vfs)), 0);
    assert!(open(&vfs).check_all(&mut |_| {}).is_clean());
}

#[test]
fn table_whose_file_is_missing_can_be_dropped() {
    let (mut sound, _) = trimmed();
    sound.remove("1.frd").unwrap();
    let vfs = directory(&sound);
    let engine = open(&vfs);
    engine.drop_table("t").unwrap();
    turn_the_log_over(&engine, "other");
    drop(engine);
    assert!(open(&vfs).check_all(&mut |_| {}).is_clean());
}

#[test]
fn missing_file_is_told_at_the_start() {
    let (mut sound, _) = trimmed();
    sound.remove("1.frd").unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    let engine = Engine::open_with_log(
        Arc::new(directory(&sound)),
        Options { read_only: true, ..small() },
        Arc::new(move |level, text: &str| log.lock().unwrap().push((level, text.to_string()))),
    )
    .unwrap();
    let told = told.lock().unwrap().clone();
    assert!(told.iter().any(|(level, text)| *level == 0 && text.contains("1.frd")), "{told:?}");
    drop(engine);
}

/// While the log still holds all of a table, its file may be an older one.
#[test]
fn older_copy_from_which_the_log_leads_on_loses_nothing_silently() {
    let vfs = memory();
    let options = Options { log_segment_bytes: 4 << 20, log_capacity_bytes: 32 << 20, ..small() };
    let engine = Engine::open(Arc::new(vfs.clone()), options.clone()).unwrap();
    engine.create_table(plain("t")).unwrap();
    fill(&engine, "t", 0, 500);
    engine.flush_all().unwrap();
    let old = files(&vfs);
    fill(&engine, "t", 500, 500);
    drop(engine);
    let mut now = files(&vfs);
    now.insert("1.frd".into(), old["1.frd"].clone());
    let engine = Engine::open(Arc::new(directory(&now)), options).unwrap();
    let t = engine.open_table("t").unwrap();
    assert_eq!(all(&engine, &t).len(), 1000);
}

#[test]
fn newest_segments_removed_after_a_close_are_noticed() {
    let vfs = memory();
    let engine = open(&vfs);
    engine.create_table(plain("t")).unwrap();
    drop(engine);
    // Each opening begins a segment.
    for part in 0..3 {
        let engine = open(&vfs);
        fill(&engine, "t", part * 50, 50);
        engine.close().unwrap();
    }
    // Opened and closed again without a change: an empty segment is the newest.
    drop(open(&vfs));
    let sound = files(&vfs);
    let mut segments: Vec<String> =
        sound.keys().filter(|n| n.starts_with("log.")).cloned().collect();
    let mut now = sound.clone();
    let mut noticed = 0;
    while segments.len() > 1 {
        now.remove(&segments.pop().unwrap());
        match try_open(&now) {
            Err(e) => {
                noticed += 1;
                assert_eq!(e.kind(), ErrorKind::Corruption);
                assert!(e.to_string().contains("newest segments"), "{e}");
            }
            Ok(_) => assert_eq!(rows(&now), 150),
        }
    }
    assert!(noticed >= 2, "{:?}", sound.keys());
}

/// `t` is in the log and in its file; `other` as well.
fn two_tables_that_need_the_log() -> Files {
    let vfs = memory();
    let engine = open(&vfs);
    for name in ["t", "other"] {
        engine.create_table(plain(name)).unwrap();
        fill(&engine, name, 0, 500);
    }
    engine.flush_all().unwrap();
    for name in ["t", "other"] {
        fill(&engine, name, 500, 10);
    }
    engine.close().unwrap();
    files(&vfs)
}

#[test]
fn a_damaged_table_that_the_log_needs_is_refused_by_name_with_a_way_on() {
    let sound = two_tables_that_need_the_log();
    let mut damaged = sound.clone();
    damaged.get_mut("1.frd").unwrap()[..8192].fill(0xee);
    let e = refusal(&damaged);
    assert_eq!(e.kind(), ErrorKind::Corruption);
    for word in ["1.frd", "table 't'", "sound copy", "discard_damaged_tables"] {
        assert!(e.message().contains(word), "{e}");
    }

    // Nothing was changed: with its file it is all there.
    let vfs = directory(&damaged);
    drop(Engine::open(Arc::new(vfs.clone()), small()).map(drop).unwrap_err());
    vfs.set_contents("1.frd", sound["1.frd"].clone());
    assert_eq!(rows(&files(&vfs)), 510);
}

#[test]
fn damaged_tables_are_dropped_on_demand_and_the_others_stay() {
    let mut damaged = two_tables_that_need_the_log();
    damaged.get_mut("1.frd").unwrap()[..8192].fill(0xee);
    for missing in [false, true] {
        if missing {
            damaged.remove("1.frd").unwrap();
        }
        let vfs = directory(&damaged);
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let told = told.clone();
            Arc::new(move |level: u8, what: &str| {
                told.lock().unwrap().push((level, what.to_owned()));
            })
        };
        let options = Options { discard_damaged_tables: true, ..small() };
        let engine = Engine::open_with_log(Arc::new(vfs.clone()), options, log).unwrap();
        assert!(told.lock().unwrap().iter().any(|(level, what)| *level == 0
            && what.contains("table 't' was dropped")
            && (missing || what.contains("1.frd.damaged"))));
        assert!(!engine.table_exists("t"));
        assert_eq!(all(&engine, &engine.open_table("other").unwrap()).len(), 510);
        engine.create_table(plain("t")).unwrap();
        fill(&engine, "t", 0, 20);
        engine.flush_all().unwrap();
        turn_the_log_over(&engine, "other");
        engine.close().unwrap();
        drop(engine);
        let now = files(&vfs);
        assert_eq!(now.contains_key("1.frd.damaged"), !missing);
        assert_eq!(rows(&now), 20);
    }
}

#[test]
fn whoever_only_reads_drops_no_damaged_table() {
    let mut damaged = two_tables_that_need_the_log();
    damaged.get_mut("1.frd").unwrap()[..8192].fill(0xee);
    let options = Options { discard_damaged_tables: true, read_only: true, ..small() };
    let e = Engine::open(Arc::new(directory(&damaged)), options).map(drop).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
}
