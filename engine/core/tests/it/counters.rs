//! Counters that come back too small: from a header that names another LSN than its image, and from an
//! image whose numbers do not fit the rows.

use std::sync::Arc;

use frond_base::{checksum64_seeded, put_varint, ByteReader, ErrorKind};
use frond_engine::rows::Written;
use frond_engine::{Engine, Options, TableImage};
use frond_space::{TableFile, TableFileOptions};
use frond_tree::TrunkEdit;
use frond_vfs::MemVfs;

use crate::durability::copy;
use crate::support::*;
use crate::typed::Typed;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn newest_header(file: &[u8]) -> usize {
    if u64_at(file, 32) > u64_at(file, 4096 + 32) {
        0
    } else {
        4096
    }
}

fn seal(file: &mut [u8], header: usize) {
    let seed = 0x6672_6f6e_6468_6472 + (header / 4096) as u64;
    let sum = checksum64_seeded(&file[header..header + 504], seed);
    file[header + 504..header + 512].copy_from_slice(&sum.to_le_bytes());
}

/// A database whose table `t` has 100 rows in its image and 50 more in the log, and was cut off.
fn crashed(hidden_primary: bool) -> MemVfs {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", hidden_primary);
    for n in 0..150 {
        if n == 100 {
            engine.flush_all().unwrap();
        }
        let mut txn = begin(&engine);
        t.insert(&mut txn, n, "row");
        txn.commit().unwrap();
    }
    engine.sync().unwrap();
    copy(&vfs)
}

/// Changes the newest image of `1.frd` by writing a new checkpoint into the file, as a tool would.
fn with_image(vfs: &MemVfs, change: impl FnOnce(&mut TableImage)) {
    let database = frond_engine::read_identity(vfs).unwrap();
    let table = frond_base::TableId(1);
    let options = TableFileOptions { database, table, direct: false, read_only: false };
    let (file, checkpoint) = TableFile::open(vfs, "1.frd", &options).unwrap();
    let checkpoint = checkpoint.unwrap();
    let mut image = TableImage::decode(&checkpoint.image, "1.frd").unwrap();
    change(&mut image);
    file.finish_recovery(0).unwrap();
    let live: Vec<_> = file.used_extents().into_iter().map(|(block, _)| block).collect();
    file.begin_checkpoint().write(&image.encode(), checkpoint.lsn, &live).unwrap();
}

fn assert_goes_on(vfs: &MemVfs, hidden_primary: bool, what: &str) {
    let engine = open(vfs);
    let mut t = Typed::bind(engine.open_table("t").unwrap());
    let before = all(&engine, t.table());
    assert_eq!(before.len(), 150, "{what}");
    let mut txn = begin(&engine);
    let (written, id, row_id) = t.insert(&mut txn, 1000, "new");
    txn.commit().unwrap();
    assert_eq!((written, id), (Written::Done, 151), "{what}");
    assert!(!hidden_primary || row_id == 151, "{what}: row id {row_id}");
    let after = all(&engine, t.table());
    assert_eq!(after.len(), 151, "{what}: a row took another's place");
    assert!(before.iter().all(|row| after.contains(row)), "{what}");
    assert!(engine.check_all(&mut |_| {}).is_clean());
}

#[test]
fn sound_counters_go_on() {
    for hidden in [true, false] {
        assert_goes_on(&crashed(hidden), hidden, "sound");
    }
}

#[test]
fn header_that_names_another_lsn_than_its_image_is_corruption() {
    for hidden in [true, false] {
        let vfs = crashed(hidden);
        let mut file = vfs.contents("1.frd").unwrap();
        let header = newest_header(&file);
        let lsn = u64_at(&file, header + 40);
        // Up, still within the log, and down.
        for forged in [lsn + 8, lsn + 800, lsn - 8, 0] {
            file[header + 40..header + 48].copy_from_slice(&forged.to_le_bytes());
            seal(&mut file, header);
            let forged_vfs = copy(&vfs);
            forged_vfs.set_contents("1.frd", file.clone());
            let e = Engine::open(Arc::new(forged_vfs), small()).err().expect("it opens");
            assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            assert!(e.to_string().contains("1.frd"), "{e}");
            assert!(e.to_string().contains(&format!("LSN {lsn}")), "{e}");
        }
    }
}

#[test]
fn image_with_counters_below_the_keys_in_use_is_put_right() {
    for hidden in [true, false] {
        let vfs = crashed(hidden);
        with_image(&vfs, |image| (image.auto_increment, image.row_id) = (1, 1));
        assert_goes_on(&vfs, hidden, "the log has more");
        // Now nothing but the image says it, after an orderly close.
        let engine = open(&vfs);
        engine.flush_all().unwrap();
        engine.close().unwrap();
        drop(engine);
        with_image(&vfs, |image| (image.auto_increment, image.row_id) = (3, 5));
        let engine = open(&vfs);
        let mut t = Typed::bind(engine.open_table("t").unwrap());
        let mut txn = begin(&engine);
        let (written, id, row_id) = t.insert(&mut txn, 7, "new");
        txn.commit().unwrap();
        assert_eq!((written, id), (Written::Done, 152));
        assert!(!hidden || row_id == 152, "row id {row_id}");
        assert_eq!(all(&engine, t.table()).len(), 152);
    }
}

#[test]
fn auto_increment_is_put_right_by_a_descending_index() {
    for hidden in [true, false] {
        let vfs = memory();
        let engine = open(&vfs);
        let mut t = Typed::create_descending(&engine, "t", hidden);
        let mut txn = begin(&engine);
        for n in 0..150 {
            t.insert(&mut txn, n, "row");
        }
        txn.commit().unwrap();
        drop(t);
        engine.flush_all().unwrap();
        engine.close().unwrap();
        drop(engine);
        with_image(&vfs, |image| image.auto_increment = 3);
        let engine = open(&vfs);
        let mut t = Typed::bind(engine.open_table("t").unwrap());
        assert_eq!(t.table().auto_increment(), 151, "hidden primary key: {hidden}");
        let mut txn = begin(&engine);
        let (written, id, _) = t.insert(&mut txn, 7, "new");
        assert_eq!((written, id), (Written::Done, 151));
        txn.commit().unwrap();
        // Deleted rows do not count.
        let mut txn = begin(&engine);
        for id in (101..=151u64).filter(|_| !hidden) {
            assert!(txn.delete(t.table(), &(!(id | 1 << 63)).to_be_bytes()).unwrap());
        }
        txn.commit().unwrap();
        engine.set_auto_increment(t.table(), 3).unwrap();
        drop(t);
        engine.flush_all().unwrap();
        engine.close().unwrap();
        drop(engine);
        let next = open(&vfs).open_table("t").unwrap().auto_increment();
        assert_eq!(next, if hidden { 152 } else { 101 });
    }
}

#[test]
fn image_of_an_earlier_release_is_read() {
    let vfs = crashed(true);
    with_image(&vfs, |image| image.lsn = None);
    assert_goes_on(&vfs, true, "version 1");
}

#[test]
fn auto_increment_set_back_behind_deleted_rows_stays_there() {
    let vfs = memory();
    let engine = open(&vfs);
    let mut t = Typed::create(&engine, "t", false);
    let mut txn = begin(&engine);
    for n in 0..100 {
        t.insert(&mut txn, n, "row");
    }
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    let mut txn = begin(&engine);
    for id in 51..=100u64 {
        assert!(txn.delete(t.table(), &(id | 1 << 63).to_be_bytes()).unwrap());
    }
    txn.commit().unwrap();
    engine.set_auto_increment(t.table(), 51).unwrap();
    drop(t);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&vfs);
    assert_eq!(engine.open_table("t").unwrap().auto_increment(), 51);
}

#[test]
fn impossible_row_ids_are_corruption() {
    let vfs = crashed(true);
    with_image(&vfs, |image| image.row_id = u64::MAX);
    let e = Engine::open(Arc::new(vfs), small()).err().expect("it opens");
    assert!(e.kind() == ErrorKind::Corruption && e.to_string().contains("row id"), "{e}");
}

#[test]
fn impossible_row_ids_in_keys_are_corruption() {
    let vfs = memory();
    let engine = open(&vfs);
    let t = Typed::create(&engine, "t", true);
    let mut txn = begin(&engine);
    txn.put(t.table(), &(1u64 << 62).to_be_bytes(), b"row", true).unwrap();
    txn.commit().unwrap();
    drop(t);
    engine.flush_all().unwrap();
    engine.close().unwrap();
    drop(engine);
    let e = Engine::open(Arc::new(copy(&vfs)), small()).err().expect("it opens");
    assert!(e.kind() == ErrorKind::Corruption && e.to_string().contains("row id"), "{e}");
    // The error names that table alone, and says what to do.
    assert!(e.to_string().contains("open once with discard_damaged_tables"), "{e}");
    let options = Options { discard_damaged_tables: true, ..small() };
    let engine = Engine::open(Arc::new(vfs.clone()), options).unwrap();
    assert!(!engine.table_exists("t"));
    let mut other = Typed::create(&engine, "t", true);
    let mut txn = begin(&engine);
    other.insert(&mut txn, 1, "row");
    txn.commit().unwrap();
    engine.flush_all().unwrap();
    engine.close().unwrap();
    drop((other, engine));
    let engine = open(&vfs);
    assert_eq!(all(&engine, &engine.open_table("t").unwrap()).len(), 1);
    assert!(vfs.contents("1.frd.damaged").is_ok());
}

#[test]
fn trees_that_are_ahead_of_the_log_are_corruption() {
    let forge: [fn(&mut u64, &mut TrunkEdit); 2] =
        [|applied, _| *applied = 1 << 50, |_, all| all.flushed_upto = 1 << 50];
    for forge in forge {
        let vfs = crashed(false);
        with_image(&vfs, |image| {
            let mut reader = ByteReader::new(&image.trees[1]);
            let mut applied = reader.varint().unwrap();
            let mut all = TrunkEdit::decode(&image.trees[1][reader.position()..], "image").unwrap();
            forge(&mut applied, &mut all);
            let mut bytes = Vec::new();
            put_varint(&mut bytes, applied);
            all.encode(&mut bytes);
            image.trees[1] = bytes;
        });
        let e = Engine::open(Arc::new(vfs), small()).err().expect("it opens");
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        assert!(e.to_string().contains("1.frd: tree 1"), "{e}");
        assert!(e.to_string().contains("is ahead of the log"), "{e}");
    }
}
