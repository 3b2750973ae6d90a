//! Ordinary life: blocks, frees, space given back, direct files, threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use frond_base::{BlockId, ErrorKind};
use frond_space::{Extent, TableFile, TableFileOptions};
use frond_vfs::{MemVfs, OsVfs, Vfs};

use crate::fault::FaultVfs;
use crate::{contents, options, Rng, NAME};

const MIB: usize = 1 << 20;

fn write(file: &TableFile, len: usize) -> (BlockId, Extent) {
    let block = file.next_block();
    (block, file.write_block(block, &vec![block as u8; len]).unwrap())
}

#[test]
fn reopening_after_a_checkpoint_restores_the_block_map() {
    let vfs = MemVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 3).unwrap();
    let blocks: Vec<BlockId> = (0..500).map(|_| file.next_block()).collect();
    for block in &blocks {
        file.write_block(*block, &contents(*block, 1)).unwrap();
    }
    let live: Vec<BlockId> = blocks.iter().copied().filter(|b| b % 3 > 0).collect();
    file.checkpoint(b"trunk", 9, &live).unwrap();
    let next = file.next_block();
    drop(file);

    let (file, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
    let checkpoint = checkpoint.unwrap();
    assert_eq!((checkpoint.lsn, &checkpoint.image[..]), (9, &b"trunk"[..]));
    file.finish_recovery(9).unwrap();
    let mut got: Vec<BlockId> = file.used_extents().iter().map(|(b, _)| *b).collect();
    got.sort_unstable();
    assert_eq!(got, live);
    for block in live {
        let want = contents(block, 1);
        assert!(file.read(block, 0, want.len()).unwrap() == want);
        assert!(file.read(block, 1, want.len() - 1).unwrap() == want[1..]);
    }
    assert!(file.next_block() >= next, "block ids are not reused");
    assert_eq!(
        TableFile::create(&vfs, NAME, &options(), 3).err().unwrap().kind(),
        ErrorKind::Exists
    );
    assert_eq!(
        TableFile::open(&vfs, "18.frd", &options()).err().unwrap().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn freed_bytes_are_not_reused_before_their_edit_is_durable() {
    let vfs = MemVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let (a, at) = write(&file, MIB);
    write(&file, 10);
    file.free(a, 100);
    file.release(99);
    assert_eq!(file.read(a, 0, 1).unwrap(), [a as u8], "readable until released");
    assert_ne!(write(&file, MIB).1, at);
    {
        let _pin = file.begin_checkpoint();
        file.release(100);
        assert_ne!(write(&file, MIB).1, at, "not while a checkpoint is being taken");
    }
    assert_eq!(write(&file, MIB).1, at, "released when the checkpoint is given up");
    assert!(file.extent(a).is_none());
}

#[test]
fn a_checkpoint_keeps_a_block_that_was_freed_after_its_image_was_taken() {
    let vfs = MemVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let (a, at) = write(&file, 5000);
    let pin = file.begin_checkpoint();
    file.free(a, 51);
    file.release(60);
    pin.write(b"names a", 50, &[a]).unwrap();
    assert!(file.extent(a).is_none(), "released by now");
    let (file, _) = TableFile::open(&vfs, NAME, &options()).unwrap();
    assert_eq!(file.extent(a), Some(at));
    file.replay_free(a).unwrap();
    file.replay_add(a + 1, at).unwrap();
    file.finish_recovery(50).unwrap();
}

#[test]
#[should_panic(expected = "S6")]
fn an_image_that_names_a_released_block_is_a_mistake() {
    let vfs = MemVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let (a, _) = write(&file, 5000);
    file.free(a, 1);
    file.release(1);
    let _ = file.checkpoint(b"", 2, &[a]);
}

#[test]
fn freed_space_goes_back_to_the_file_system() {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let blocks: Vec<(BlockId, Extent)> = (0..12).map(|_| write(&file, MIB)).collect();
    let full = vfs.bytes(NAME).len();
    // A hole in the middle is punched, the tail is cut.
    for (block, _) in blocks[2..4].iter().chain(&blocks[6..]) {
        file.free(*block, 7);
    }
    file.release(7);
    assert_eq!(vfs.bytes(NAME).len(), full, "not at once");
    let live: Vec<BlockId> = [0, 1, 4, 5].map(|i: usize| blocks[i].0).to_vec();
    file.checkpoint(b"", 8, &live).unwrap();
    let bytes = vfs.bytes(NAME);
    assert!(bytes.len() <= 6 * MIB + 8192, "{} of {full}", bytes.len());
    // The image went into the hole's first unit.
    assert_eq!(vfs.punched(), 2 * MIB as u64 - 4096);
    let hole = blocks[2].1.offset as usize + 4096..blocks[4].1.offset as usize;
    assert!(bytes[hole].iter().all(|b| *b == 0));
    for block in live {
        assert_eq!(file.read(block, 0, MIB).unwrap(), vec![block as u8; MIB]);
    }
    let stats = file.stats();
    assert_eq!((stats.blocks, stats.waiting_blocks, stats.holes), (4, 0, 1));
    assert_eq!(stats.file_bytes, bytes.len() as u64);
    assert_eq!(stats.used_bytes, 8192 + 4 * MIB as u64 + 4096);
    assert_eq!(file.give_back().unwrap(), 0, "once is enough");
}

#[test]
fn space_lost_in_a_crash_is_punched_after_recovery() {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    write(&file, MIB / 2); // no edit will name it
    let (b, _) = write(&file, MIB);
    file.checkpoint(b"", 1, &[b]).unwrap();
    let (file, _) = TableFile::open(&vfs, NAME, &options()).unwrap();
    file.finish_recovery(0).unwrap();
    assert!(file.give_back().unwrap() >= MIB as u64 / 2);
    assert_eq!(file.read(b, 0, MIB).unwrap(), vec![b as u8; MIB]);
}

/// A backup identifies a block by number and place; bytes of a transaction that a crash ended may be in one.
#[test]
fn numbers_of_blocks_that_a_crash_lost_are_not_given_out_again() {
    let vfs = MemVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let mut lost = vec![file.next_block()];
    for _ in 0..3 {
        let (file, _) = TableFile::open(&vfs, NAME, &options()).unwrap();
        file.finish_recovery(0).unwrap();
        let next = file.next_block();
        assert!(lost.iter().all(|n| n.abs_diff(next) > 100), "S8: {next} after {lost:?}");
        lost.push(next);
    }
}

#[test]
fn direct_files_get_aligned_transfers() {
    direct_transfers(512);
    direct_transfers(4096);
}

fn direct_transfers(read_align: usize) {
    let vfs = FaultVfs::direct(read_align);
    let options = TableFileOptions { direct: true, ..options() };
    let file = TableFile::create(&vfs, NAME, &options, 0).unwrap();
    let blocks: Vec<BlockId> = (0..60).map(|_| file.next_block()).collect();
    for block in &blocks {
        file.write_block(*block, &contents(*block, 2)).unwrap();
    }
    file.checkpoint(&[3; 70_001], 1, &blocks).unwrap();
    let (file, checkpoint) = TableFile::open(&vfs, NAME, &options).unwrap();
    assert_eq!(checkpoint.unwrap().image, [3; 70_001]);
    let mut rng = Rng(8);
    for block in blocks {
        let want = contents(block, 2);
        assert!(file.read(block, 0, want.len()).unwrap() == want);
        let from = rng.below(want.len() as u64);
        let len = rng.below(want.len() as u64 - from + 1) as usize;
        let got = file.read(block, from, len).unwrap();
        assert!(got == want[from as usize..from as usize + len]);
        let page = from.min(want.len() as u64 - 100);
        let asked = vfs.asked();
        file.read(block, page, 100).unwrap();
        assert!(vfs.asked() - asked <= 2 * read_align, "{} bytes for 100", vfs.asked() - asked);
    }
}

#[test]
fn a_real_directory_works_with_and_without_direct_io() {
    for direct in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let vfs = OsVfs::new(dir.path()).unwrap();
        let options = TableFileOptions { direct, ..options() };
        let file = TableFile::create(&vfs, NAME, &options, 0).unwrap();
        let blocks: Vec<(BlockId, Extent)> = (0..9).map(|_| write(&file, MIB / 2 + 5)).collect();
        for (block, _) in &blocks[4..] {
            file.free(*block, 1);
        }
        file.release(1);
        let live: Vec<BlockId> = blocks[..4].iter().map(|(b, _)| *b).collect();
        file.checkpoint(b"trunk", 1, &live).unwrap();
        let (file, checkpoint) = TableFile::open(&vfs, NAME, &options).unwrap();
        assert_eq!(checkpoint.unwrap().image, b"trunk");
        file.finish_recovery(0).unwrap();
        for block in live {
            assert_eq!(file.read(block, 5, MIB / 2).unwrap(), vec![block as u8; MIB / 2]);
        }
        assert!(file.stats().file_bytes < 3 * MIB as u64);
        let read_only = TableFileOptions { read_only: true, ..options };
        TableFile::open(&vfs, NAME, &read_only).unwrap();
        assert_eq!(vfs.list().unwrap().iter().filter(|n| n.ends_with(".new")).count(), 0);
    }
}

#[test]
fn writers_readers_and_checkpoints_do_not_disturb_each_other() {
    let vfs = Arc::new(MemVfs::new());
    let file = Arc::new(TableFile::create(&*vfs, NAME, &options(), 0).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|threads| {
        for t in 0..3u64 {
            let (file, stop) = (Arc::clone(&file), Arc::clone(&stop));
            threads.spawn(move || {
                let mut rng = Rng(t);
                let mut mine: Vec<BlockId> = Vec::new();
                for i in 0..600 {
                    let block = file.next_block();
                    file.write_block(block, &contents(block, 9)).unwrap();
                    mine.push(block);
                    if mine.len() > 20 {
                        file.free(mine.swap_remove(rng.below(20) as usize), i);
                        file.release(i);
                    }
                    let block = mine[rng.below(mine.len() as u64) as usize];
                    let want = contents(block, 9);
                    assert!(file.read(block, 0, want.len()).unwrap() == want, "block {block}");
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        let (file, stop) = (Arc::clone(&file), Arc::clone(&stop));
        threads.spawn(move || {
            let mut lsn = 1_000_000;
            while !stop.load(Ordering::Relaxed) {
                lsn += 1;
                file.begin_checkpoint().write(&[1; 10_000], lsn, &[]).unwrap();
            }
        });
    });
    // No two extents overlap.
    let mut end = 0;
    for (block, extent) in file.used_extents() {
        assert!(extent.offset >= end, "block {block} at {extent}");
        end = extent.end();
    }
}
