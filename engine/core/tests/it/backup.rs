//! Copies of a database in use: the tool's part is played here in a few lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use frond_engine::{Description, Durability, Engine, ErrorKind, Options, Table, Xid, PIN_FILE};
use frond_vfs::{MemVfs, OpenHow, Vfs};

use crate::support::*;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A table and what it holds.
struct Model {
    name: String,
    table: Arc<Table>,
    rows: Rows,
}

/// One random step: a transaction, a definition, or background work.
fn step(engine: &Engine, models: &mut Vec<Model>, rng: &mut Rng, names: &mut u64) {
    match rng.below(40) {
        0 => {
            let name = format!("t{names}");
            *names += 1;
            let table = engine.create_table(plain(&name)).unwrap();
            models.push(Model { name, table, rows: Rows::new() });
        }
        1 if models.len() > 1 => {
            let gone = models.swap_remove(rng.below(models.len() as u64) as usize);
            engine.drop_table(&gone.name).unwrap();
        }
        2 if !models.is_empty() => {
            let at = rng.below(models.len() as u64) as usize;
            models[at].table = engine.truncate_table(&models[at].name).unwrap();
            models[at].rows.clear();
        }
        3 if !models.is_empty() => {
            let at = rng.below(models.len() as u64) as usize;
            let to = format!("r{names}");
            *names += 1;
            engine.rename_table(&models[at].name, &to).unwrap();
            models[at].name = to;
        }
        4 => engine.flush_all().unwrap(),
        5..=14 => drop(engine.background_step()),
        _ if models.is_empty() => {}
        _ => {
            let at = rng.below(models.len() as u64) as usize;
            let model = &mut models[at];
            let mut txn = begin(engine);
            for _ in 0..1 + rng.below(200) {
                let k = key(rng.below(3000));
                if rng.below(4) == 0 {
                    txn.delete(&model.table, &k).unwrap();
                    model.rows.remove(&k);
                } else {
                    let value = vec![rng.next() as u8; rng.below(120) as usize];
                    txn.put(&model.table, &k, &value, false).unwrap();
                    model.rows.insert(k, value);
                }
            }
            txn.commit().unwrap();
        }
    }
}

fn mark(engine: &Engine) -> u64 {
    let id = engine.backup_begin().unwrap();
    assert!(engine.backup_mark().unwrap());
    engine.backup_proven(true);
    id
}

fn described(engine: &Engine, vfs: &MemVfs, id: u64) -> Description {
    engine.backup_describe(id).unwrap();
    let described = Description::decode(&vfs.contents(PIN_FILE).unwrap()).unwrap();
    assert_eq!(described.pin, id);
    described
}

fn give(to: &MemVfs, name: &str, bytes: Vec<u8>) {
    to.open(name, OpenHow::CREATE).unwrap();
    to.set_contents(name, bytes);
}

/// The log up to the mark.
fn copy_log(from: &MemVfs, to: &MemVfs, described: &Description) {
    give(to, "frond.id", from.contents("frond.id").unwrap());
    let ends = described.segments.iter().skip(1).map(|(_, start)| *start).chain([described.at]);
    for ((number, start), end) in described.segments.iter().zip(ends) {
        let name = format!("log.{number:08}.frl");
        let mut bytes = from.contents(&name).unwrap();
        bytes.truncate((4096 + end - start) as usize);
        give(to, &name, bytes);
    }
}

fn copy_file(from: &MemVfs, to: &MemVfs, file: &frond_space::PinnedFile) {
    let name = format!("{}.frd", file.table);
    let source = from.contents(&name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    bytes[..file.front.len()].copy_from_slice(&file.front);
    for e in file.blocks.iter().map(|(_, e)| *e).chain(file.image) {
        let range = e.offset as usize..e.end() as usize;
        bytes[range.clone()].copy_from_slice(&source[range]);
    }
    give(to, &name, bytes);
}

fn contents(engine: &Engine) -> BTreeMap<String, Rows> {
    let rows = |name: &str| all(engine, &engine.open_table(name).unwrap()).into_iter().collect();
    engine.tables().iter().map(|def| (def.name.clone(), rows(&def.name))).collect()
}

#[test]
fn a_copy_made_while_everything_changes_is_the_database_of_the_mark() {
    for seed in 0..25 {
        let mut rng = Rng(seed);
        let vfs = memory();
        let engine = open(&vfs);
        let (mut models, mut names) = (Vec::new(), 0);
        for _ in 0..150 {
            step(&engine, &mut models, &mut rng, &mut names);
        }
        let id = engine.backup_begin().unwrap();
        for _ in 0..10 {
            if seed % 3 > 0 {
                engine.backup_shorten(id).unwrap();
            }
            step(&engine, &mut models, &mut rng, &mut names);
        }
        if seed % 2 == 0 {
            assert!(engine.backup_mark().unwrap());
            for _ in 0..20 {
                step(&engine, &mut models, &mut rng, &mut names);
            }
        }
        assert!(engine.backup_mark().unwrap());
        let then: BTreeMap<String, Rows> =
            models.iter().map(|m| (m.name.clone(), m.rows.clone())).collect();
        engine.backup_proven(true);

        let mut live = |n| (0..n).for_each(|_| step(&engine, &mut models, &mut rng, &mut names));
        live(60);
        let described = described(&engine, &vfs, id);
        let copy = memory();
        copy_log(&vfs, &copy, &described);
        engine.backup_log_copied(id).unwrap();
        let counted: BTreeMap<_, _> = described.rows.iter().cloned().collect();
        let wanted = then.iter().map(|(name, rows)| (name.clone(), rows.len() as u64)).collect();
        assert_eq!(counted, wanted, "seed {seed}");
        for file in &described.files {
            live(30);
            copy_file(&vfs, &copy, file);
        }
        engine.backup_end(id).unwrap();
        assert!(!vfs.exists(PIN_FILE).unwrap());

        let restored = open(&copy);
        assert_eq!(contents(&restored), then, "seed {seed}");
        assert!(restored.check_all(&mut |_| {}).problems.is_empty(), "seed {seed}");
        // The backup has changed nothing in the source.
        let now: BTreeMap<String, Rows> =
            models.iter().map(|m| (m.name.clone(), m.rows.clone())).collect();
        assert_eq!(contents(&engine), now, "seed {seed}");
        models.clear();
        engine.flush_all().unwrap();
        while engine.background_step() {}
        drop(engine);
        let tables = now.len() + 1;
        let files = vfs.list().unwrap().iter().filter(|n| n.ends_with(".frd")).count();
        assert!(files <= tables, "seed {seed}: {files} files of {tables} tables");
        assert_eq!(contents(&open(&vfs)), now, "seed {seed}");
    }
}

/// Changes that only buffers have are written to files, which takes less space than their log; the copy's log
/// begins behind them.
#[test]
fn the_log_is_made_short_before_a_backup_and_a_short_one_is_left_alone() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    let xid = Xid::new(1, b"x", b"y").unwrap();
    let mut txn = begin(&engine);
    txn.put(&table, b"p", b"2", false).unwrap();
    drop(txn.prepare(xid.clone()).unwrap());
    let fill = |n: u64| (0..n).for_each(|n| put(&engine, &table, &key(n), &[n as u8; 100]));
    fill(10);
    let id = engine.backup_begin().unwrap();
    let freezes = status(&engine, "freezes");
    assert!(!engine.backup_shorten(id).unwrap());
    assert_eq!(status(&engine, "freezes"), freezes, "a little log is copied");
    fill(1000);
    let kept = status(&engine, "log_bytes_kept");
    let mut rounds = 0;
    while engine.backup_shorten(id).unwrap() {
        // Commits go on, and their log stays.
        put(&engine, &table, b"during", b"1");
        rounds += 1;
        assert!(rounds < 100);
    }
    assert!(engine.backup_mark().unwrap());
    assert!(!engine.backup_shorten(id).unwrap(), "too late");
    engine.backup_proven(true);
    let described = described(&engine, &vfs, id);
    let in_log = described.at - described.segments[0].1;
    assert!(kept > 100_000 && in_log < 2000, "{in_log} of {kept} bytes are left");
    let copy = memory();
    copy_log(&vfs, &copy, &described);
    described.files.iter().for_each(|file| copy_file(&vfs, &copy, file));
    engine.backup_end(id).unwrap();
    assert_eq!(engine.backup_shorten(id).unwrap_err().kind(), ErrorKind::NotFound);
    let restored = open(&copy);
    assert_eq!(contents(&restored), contents(&engine));
    assert!(restored.commit_prepared(&xid).unwrap());
}

/// The log thread writes it again at most at the pace of the log; a backup does it at once.
#[test]
fn a_large_prepared_transaction_does_not_keep_the_log_long_for_a_backup() {
    let vfs = memory();
    let engine = open(&vfs);
    let (t, other) =
        (engine.create_table(plain("t")).unwrap(), engine.create_table(plain("o")).unwrap());
    let mut rng = Rng(1);
    let mut value = |n: usize| -> Vec<u8> { (0..n).map(|_| rng.next() as u8).collect() };
    let mut txn = begin(&engine);
    (0..30).for_each(|n| txn.put(&t, &key(n), &value(2_000), false).unwrap());
    drop(txn.prepare(Xid::new(1, b"x", b"y").unwrap()).unwrap());
    let appended = || status(&engine, "log_bytes_appended");
    // Until the record is written again.
    let written_again = (0..400).any(|n| {
        let before = appended();
        put(&engine, &other, &key(n), &value(1_000));
        engine.background_step();
        appended() - before > 50_000
    });
    assert!(written_again);
    (0..50).for_each(|n| put(&engine, &other, &key(n), &value(1_000)));
    let id = engine.backup_begin().unwrap();
    let rounds = (0..100).take_while(|_| engine.backup_shorten(id).unwrap()).count();
    let kept = status(&engine, "log_bytes_kept");
    assert!(rounds < 100 && kept < 90_000, "{kept} bytes are copied; 60 KB are prepared");
}

/// The server blocks commits for a second mark: a sync would hold them up.
#[test]
fn a_second_mark_does_not_sync_the_log_and_the_description_does() {
    let vfs = memory();
    let engine = Engine::open(
        Arc::new(vfs.clone()),
        Options { durability: Durability::EachSecond, ..small() },
    )
    .unwrap();
    let table = engine.create_table(plain("t")).unwrap();
    let syncs = || status(&engine, "log_syncs");
    let id = engine.backup_begin().unwrap();
    assert!(engine.backup_mark().unwrap());
    put(&engine, &table, b"a", b"1");
    let before = syncs();
    assert!(engine.backup_mark().unwrap());
    engine.backup_proven(true);
    assert_eq!(syncs(), before);
    engine.backup_describe(id).unwrap();
    assert_eq!(syncs(), before + 1);
}

#[test]
fn a_prepared_transaction_of_the_mark_is_prepared_in_the_copy() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    put(&engine, &table, b"a", b"1");
    let xid = Xid::new(1, b"x", b"y").unwrap();
    let mut txn = begin(&engine);
    txn.put(&table, b"b", b"2", false).unwrap();
    drop(txn.prepare(xid.clone()).unwrap());
    let id = mark(&engine);
    assert!(engine.commit_prepared(&xid).unwrap());
    put(&engine, &table, b"c", b"3");
    engine.flush_all().unwrap();
    let described = described(&engine, &vfs, id);
    let copy = memory();
    copy_log(&vfs, &copy, &described);
    described.files.iter().for_each(|file| copy_file(&vfs, &copy, file));
    engine.backup_end(id).unwrap();
    let restored = open(&copy);
    assert_eq!(restored.prepared(), std::slice::from_ref(&xid));
    assert!(restored.commit_prepared(&xid).unwrap());
    let t = restored.open_table("t").unwrap();
    let want = [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())];
    assert_eq!(all(&restored, &t), want);
}

/// Fills, pins, and changes everything once, so that all that is pinned is freed.
fn changed_under_a_pin(engine: &Engine) -> u64 {
    let table = engine.create_table(plain("t")).unwrap();
    let fill = |byte: u8| {
        for n in 0..300 {
            put(engine, &table, &key(n), &vec![byte; 900]);
        }
        engine.flush_all().unwrap();
    };
    fill(1);
    let id = mark(engine);
    fill(2);
    fill(3);
    id
}

fn status(engine: &Engine, name: &str) -> u64 {
    engine.status().into_iter().find(|(n, _)| *n == name).unwrap().1
}

#[test]
fn a_pin_over_its_limit_is_broken_and_the_database_goes_on() {
    let vfs = memory();
    let engine = open(&vfs);
    let id = changed_under_a_pin(&engine);
    engine.background_step();
    let held = status(&engine, "backup_bytes_held");
    assert!(held > 100_000, "{held}");
    assert_eq!(status(&engine, "backup_files_pinned"), 2);
    engine.backup_describe(id).unwrap();
    engine.set_backup_pin_limit(held - 1);
    engine.background_step();
    for failed in [engine.backup_describe(id), engine.backup_log_copied(id), engine.backup_end(id)]
    {
        let e = failed.unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::NotFound), "{e}");
    }
    assert_eq!(status(&engine, "backup_files_pinned"), 0);
    assert_eq!(status(&engine, "backup_bytes_held"), 0);
    assert_eq!(status(&engine, "backup_pins_broken"), 1);
    assert!(!vfs.exists(PIN_FILE).unwrap());
    // Space and log go back.
    let t = engine.open_table("t").unwrap();
    put(&engine, &t, b"k", b"v");
    engine.flush_all().unwrap();
    let id = mark(&engine);
    engine.backup_end(id).unwrap();
}

#[test]
fn log_is_kept_until_it_is_copied_and_dropped_files_until_the_end() {
    let vfs = memory();
    let engine = open(&vfs);
    let id = changed_under_a_pin(&engine);
    let kept = |engine: &Engine| status(engine, "log_bytes_kept");
    let before = kept(&engine);
    assert!(before > 256 << 10, "{before}");
    engine.backup_log_copied(id).unwrap();
    engine.flush_all().unwrap();
    assert!(kept(&engine) < before / 2);
    engine.drop_table("t").unwrap();
    while engine.background_step() {}
    assert!(vfs.exists("1.frd").unwrap());
    engine.backup_abandon(id);
    while engine.background_step() {}
    assert!(!vfs.exists("1.frd").unwrap());
}

#[test]
fn steps_out_of_order_are_refused() {
    let vfs = memory();
    let engine = open(&vfs);
    assert!(!engine.backup_mark().unwrap(), "nobody asked for a pin");
    let id = engine.backup_begin().unwrap();
    assert_eq!(engine.backup_begin().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(engine.backup_describe(id).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(engine.backup_mark().unwrap());
    assert!(engine.backup_mark().unwrap(), "a later moment takes the place of an earlier one");
    assert_eq!(engine.backup_end(id).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(engine.backup_end(id).unwrap_err().kind(), ErrorKind::NotFound);

    let id = mark(&engine);
    engine.backup_abandon(id + 2);
    engine.backup_log_copied(id).unwrap();
    engine.backup_abandon(id);

    // Commits came between the mark and its proof.
    let id = engine.backup_begin().unwrap();
    assert!(engine.backup_mark().unwrap());
    engine.backup_proven(false);
    assert_eq!(engine.backup_end(id).unwrap_err().kind(), ErrorKind::Interrupted);
}

/// A crash during a backup costs nothing: the pin was in memory.
#[test]
fn a_crash_under_a_pin_leaves_the_database_whole() {
    let vfs = memory();
    let engine = open(&vfs);
    let id = changed_under_a_pin(&engine);
    engine.backup_describe(id).unwrap();
    engine.drop_table("t").unwrap();
    let copy = memory();
    for name in vfs.list().unwrap() {
        give(&copy, &name, vfs.contents(&name).unwrap());
    }
    let reopened = open(&copy);
    assert!(reopened.tables().is_empty());
    assert!(!copy.exists(PIN_FILE).unwrap() && !copy.exists("1.frd").unwrap());
}

/// A mark that is not proven keeps the log thread from images (BP4), and not for ever.
#[test]
fn images_wait_for_a_moment_that_is_not_proven_yet() {
    let vfs = memory();
    let engine = open(&vfs);
    let table = engine.create_table(plain("t")).unwrap();
    let images = |engine: &Engine| {
        for n in 0..400 {
            put(engine, &table, &key(n), &[7; 900]);
        }
        (0..200).for_each(|_| _ = engine.background_step());
        status(engine, "images")
    };
    let before = images(&engine);
    assert!(before > 0);
    engine.backup_begin().unwrap();
    assert!(engine.backup_mark().unwrap());
    assert_eq!(images(&engine), before);
    vfs.advance(std::time::Duration::from_secs(3));
    let later = images(&engine);
    assert!(later > before);
    assert!(engine.backup_mark().unwrap());
    engine.backup_proven(true);
    assert!(images(&engine) > later);
}
