//! Tests of `pool.rs`.

use super::*;
use crate::testing::FewFiles;
use crate::MemVfs;

fn pool(descriptors: usize, limit: usize) -> (FewFiles, FilePool) {
    let few = FewFiles::new(MemVfs::stepped(), descriptors);
    let pool = FilePool::new(Arc::new(few.clone()), limit, |name| name.ends_with(".frd"));
    (few, pool)
}

fn filled(pool: &FilePool, name: &str) -> Arc<dyn VfsFile> {
    let file = pool.open(name, OpenHow::CREATE).unwrap();
    file.write_all_at(name.as_bytes(), 0).unwrap();
    file.sync().unwrap();
    file
}

fn reads(file: &dyn VfsFile, name: &str) {
    let mut got = vec![0; name.len()];
    file.read_exact_at(&mut got, 0).unwrap();
    assert_eq!(got, name.as_bytes());
}

#[test]
fn many_files_are_read_and_written_through_few_descriptors() {
    let (few, pool) = pool(3, 3);
    let names: Vec<String> = (0..40).map(|i| format!("{i}.frd")).collect();
    let files: Vec<_> = names.iter().map(|n| filled(&pool, n)).collect();
    for round in 0..3 {
        for (file, name) in files.iter().zip(&names) {
            reads(&**file, name);
            file.write_all_at(&[round], 100).unwrap();
            file.sync().unwrap();
        }
        assert!(few.open_files() <= 3 && pool.open_files() <= 3);
    }
    assert!(pool.opened_again() >= 100, "{}", pool.opened_again());
    drop(files);
    assert_eq!((few.open_files(), pool.open_files()), (0, 0));
}

#[test]
fn the_file_in_use_stays_open_and_idle_ones_go() {
    let (_, pool) = pool(100, 4);
    let hot = filled(&pool, "hot.frd");
    let cold: Vec<_> = (0..20).map(|i| filled(&pool, &format!("{i}.frd"))).collect();
    reads(&*hot, "hot.frd");
    let before = pool.opened_again();
    for file in &cold {
        let _ = file.len().unwrap();
        reads(&*hot, "hot.frd");
    }
    assert!(pool.opened_again() - before <= 25, "{}", pool.opened_again() - before);
}

#[test]
fn unsynced_changes_and_failed_syncs_keep_a_file_open() {
    let (few, pool) = pool(100, 2);
    let dirty = filled(&pool, "dirty.frd");
    dirty.write_all_at(b"x", 9).unwrap();
    let doomed = filled(&pool, "doomed.frd");
    few.fail_syncs(true);
    doomed.sync().unwrap_err();
    few.fail_syncs(false);
    let others: Vec<_> = (0..10).map(|i| filled(&pool, &format!("{i}.frd"))).collect();
    assert!(few.is_open("dirty.frd") && few.is_open("doomed.frd"));
    assert!(pool.open_files() <= 3);
    dirty.sync().unwrap();
    others.iter().for_each(|f| assert!(f.len().unwrap() > 0));
    assert!(!few.is_open("dirty.frd") && few.is_open("doomed.frd"));
}

#[test]
fn a_change_under_way_during_a_sync_is_not_taken_for_synced() {
    let (few, pool) = pool(100, 1);
    let file = filled(&pool, "a.frd");
    // As a write that began before a sync and ended after it.
    few.before_next_sync({
        let file = Arc::clone(&file);
        Box::new(move || file.write_all_at(b"late", 0).unwrap())
    });
    file.sync().unwrap();
    let _other = filled(&pool, "b.frd");
    assert!(few.is_open("a.frd"));
}

/// The system tells a failure to one of two that sync at once.
#[test]
#[allow(clippy::disallowed_methods)] // A thread of the test, not of the machine.
fn a_sync_beside_one_that_fails_does_not_succeed() {
    let (few, pool) = pool(100, 1);
    let file = filled(&pool, "a.frd");
    file.write_all_at(b"x", 0).unwrap();
    let (send, beside) = std::sync::mpsc::channel();
    few.fail_syncs(true);
    few.before_next_sync({
        let (file, few) = (Arc::clone(&file), few.clone());
        Box::new(move || {
            few.fail_syncs(false);
            let other = std::thread::spawn(move || file.sync());
            // Time enough for it to end, if it does.
            (0..1_000).for_each(|_| std::thread::yield_now());
            send.send(other).unwrap();
        })
    });
    file.sync().unwrap_err();
    beside.recv().unwrap().join().unwrap().unwrap_err();
}

#[test]
fn handles_follow_renames_and_removed_files_live_on() {
    let (_, pool) = pool(100, 1);
    let a = filled(&pool, "a.frd");
    let b = filled(&pool, "b.frd");
    pool.rename("a.frd", "c.frd").unwrap();
    reads(&*a, "a.frd");
    pool.remove("b.frd").unwrap();
    let again = filled(&pool, "b.frd");
    reads(&*a, "a.frd");
    reads(&*b, "b.frd");
    again.write_all_at(b"n", 0).unwrap();
    again.sync().unwrap();
    reads(&*b, "b.frd");
    drop(b);
    reads(&*again, "n.frd");
}

#[test]
fn without_descriptors_idle_files_are_closed_and_then_it_is_an_error() {
    let (few, pool) = pool(4, 100);
    let files: Vec<_> = (0..4).map(|i| filled(&pool, &format!("{i}.frd"))).collect();
    // Also for a file that is not pooled.
    let log = pool.open("log.frl", OpenHow::CREATE).unwrap();
    reads(&*files[0], "0.frd");
    few.leave(0);
    let refused = pool.open("log2.frl", OpenHow::CREATE).err().unwrap();
    assert!(is_out_of_descriptors(&refused));
    let refused = files[1].write_all_at(b"y", 50).unwrap_err();
    assert!(is_out_of_descriptors(&refused));
    few.leave(4);
    files.iter().zip(0..).for_each(|(f, i)| reads(&**f, &format!("{i}.frd")));
    drop(log);
}

#[test]
fn a_file_with_unsynced_changes_is_synced_and_closed_when_nothing_else_helps() {
    let (few, pool) = pool(2, 100);
    let a = filled(&pool, "a.frd");
    let b = filled(&pool, "b.frd");
    a.write_all_at(b"1", 50).unwrap();
    b.write_all_at(b"2", 50).unwrap();
    let log = pool.open("log.frl", OpenHow::CREATE).unwrap();
    drop(log);
    a.write_all_at(b"3", 50).unwrap();
    b.write_all_at(b"4", 50).unwrap();
    few.fail_syncs(true);
    let refused = pool.open("log.frl", OpenHow::WRITE).err().unwrap();
    assert!(is_out_of_descriptors(&refused));
    few.fail_syncs(false);
    // One of them was to be synced and could not: its owner must hear of that.
    assert!(a.sync().is_err() || b.sync().is_err());
}

#[test]
fn what_an_earlier_process_left_unsynced_is_synced_by_the_first_sync() {
    let files = MemVfs::stepped();
    files.set_contents("a.frd", b"left".to_vec());
    let few = FewFiles::new(files, 100);
    let pool = FilePool::new(Arc::new(few.clone()), 1, |name| name.ends_with(".frd"));
    let a = pool.open("a.frd", OpenHow::WRITE).unwrap();
    let b = filled(&pool, "b.frd");
    assert!(few.is_open("a.frd"));
    few.fail_syncs(true);
    a.sync().unwrap_err();
    few.fail_syncs(false);
    drop((a, b));
    let a = pool.open("a.frd", OpenHow::WRITE).unwrap();
    a.sync().unwrap();
    let _b = pool.open("b.frd", OpenHow::WRITE).unwrap();
    assert!(!few.is_open("a.frd"));
    // Nothing to sync, and nothing is opened for it.
    few.leave(0);
    a.sync().unwrap();
}

#[test]
fn giving_space_back_does_not_keep_a_file_open() {
    let (few, pool) = pool(100, 1);
    let a = filled(&pool, "a.frd");
    a.write_all_at(&[7; 9_000], 0).unwrap();
    a.sync().unwrap();
    a.punch_hole(0, 4_096).unwrap();
    a.set_len(8_192).unwrap();
    let b = filled(&pool, "b.frd");
    assert!(!few.is_open("a.frd"));
    assert_eq!(a.len().unwrap(), 8_192);
    a.set_len(9_000).unwrap();
    reads(&*b, "b.frd");
    assert!(few.is_open("a.frd"), "a longer file is a change");
}

#[test]
fn what_nobody_syncs_does_not_use_up_all_descriptors() {
    let (few, pool) = pool(100, 4);
    let names: Vec<String> = (0..40).map(|i| format!("{i}.frd")).collect();
    let files: Vec<_> = names.iter().map(|n| filled(&pool, n)).collect();
    for (file, name) in files.iter().zip(&names) {
        file.write_all_at(name.as_bytes(), 0).unwrap();
        assert!(few.open_files() <= 8, "{}", few.open_files());
    }
    files.iter().zip(&names).for_each(|(f, n)| reads(&**f, n));
    // A failure is not lost.
    files.iter().for_each(|f| f.write_all_at(b"x", 99).unwrap());
    few.fail_syncs(true);
    let _more: Vec<_> =
        (0..4).filter_map(|i| pool.open(&format!("new{i}.frd"), OpenHow::CREATE).ok()).collect();
    few.fail_syncs(false);
    assert!(files.iter().any(|f| f.sync().is_err()));
}

#[test]
fn a_closed_file_is_not_removed_without_a_descriptor_for_its_readers() {
    let (few, pool) = pool(100, 1);
    let a = filled(&pool, "a.frd");
    let b = filled(&pool, "b.frd");
    b.write_all_at(b"unsynced", 50).unwrap();
    few.fail_syncs(true);
    few.leave(0);
    assert!(is_out_of_descriptors(&pool.remove("a.frd").unwrap_err()));
    assert!(pool.exists("a.frd").unwrap());
    few.leave(9);
    pool.remove("a.frd").unwrap();
    let _others: Vec<_> = (0..5).map(|i| pool.open(&format!("{i}.frd"), OpenHow::CREATE)).collect();
    reads(&*a, "a.frd");
}

#[test]
fn a_file_that_another_one_replaces_lives_on_for_its_readers() {
    let (_, pool) = pool(100, 1);
    let old = filled(&pool, "a.frd");
    let new = filled(&pool, "a.frd.new.frd");
    pool.rename("a.frd.new.frd", "a.frd").unwrap();
    let _other = filled(&pool, "b.frd");
    reads(&*old, "a.frd");
    reads(&*new, "a.frd.new.frd");
    drop(old);
    let _another = filled(&pool, "c.frd");
    reads(&*new, "a.frd.new.frd");
}

#[test]
fn threads_share_few_descriptors() {
    let (few, pool) = pool(12, 2);
    let names: Vec<String> = (0..16).map(|i| format!("{i}.frd")).collect();
    let files: Vec<_> = names.iter().map(|n| filled(&pool, n)).collect();
    std::thread::scope(|threads| {
        for t in 0..4usize {
            let (files, names) = (&files, &names);
            threads.spawn(move || {
                for i in 0..2_000usize {
                    let at = (i * 7 + t * 5) % names.len();
                    reads(&*files[at], &names[at]);
                    if i % 13 == 0 {
                        files[at].write_all_at(&[1], 64 + t as u64).unwrap();
                        files[at].sync().unwrap();
                    }
                }
            });
        }
    });
    assert!(few.most_open() <= 12, "{}", few.most_open());
}
