//! Pins: what a copy of a file in use relies on.

use frond_base::BlockId;
use frond_space::{Extent, TableFile};
use frond_vfs::{MemVfs, OpenHow, Vfs};

use crate::{options, Rng, NAME};

fn write(file: &TableFile, rng: &mut Rng) -> (BlockId, Vec<u8>) {
    let block = file.next_block();
    let bytes = vec![rng.draw() as u8; 1 + rng.below(30_000) as usize];
    file.write_block(block, &bytes).unwrap();
    (block, bytes)
}

/// Blocks come and go, checkpoints are written, and space is given back.
fn live(
    file: &TableFile,
    blocks: &mut Vec<(BlockId, Vec<u8>)>,
    lsn: &mut u64,
    rng: &mut Rng,
    steps: u64,
) {
    for _ in 0..steps {
        *lsn += 1;
        match rng.below(10) {
            0..=4 => blocks.push(write(file, rng)),
            5..=7 if !blocks.is_empty() => {
                let (block, _) = blocks.swap_remove(rng.below(blocks.len() as u64) as usize);
                file.free(block, *lsn);
                file.release(*lsn);
            }
            8 => {
                let (block, _) = write(file, rng);
                file.discard(block);
            }
            _ => {
                let live: Vec<BlockId> = blocks.iter().map(|(b, _)| *b).collect();
                file.checkpoint(&lsn.to_le_bytes(), *lsn, &live).unwrap();
                file.give_back().unwrap();
            }
        }
    }
}

#[test]
fn a_copy_of_pinned_extents_made_late_is_the_file_as_it_was() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let vfs = MemVfs::new();
        let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
        let (mut blocks, mut lsn) = (Vec::new(), 0);
        live(&file, &mut blocks, &mut lsn, &mut rng, 60);
        let ids: Vec<BlockId> = blocks.iter().map(|(b, _)| *b).collect();
        lsn += 1;
        file.checkpoint(&lsn.to_le_bytes(), lsn, &ids).unwrap();
        let (then, at) = (blocks.clone(), lsn);
        file.pin();
        live(&file, &mut blocks, &mut lsn, &mut rng, 200);

        let pinned = file.pinned().unwrap();
        assert_eq!((pinned.lsn, pinned.blocks.len() >= then.len()), (at, true), "seed {seed}");
        let source = vfs.contents(NAME).unwrap();
        let copy = MemVfs::new();
        let mut bytes = vec![0; pinned.len() as usize];
        bytes[..pinned.front.len()].copy_from_slice(&pinned.front);
        for e in pinned.blocks.iter().map(|(_, e)| *e).chain(pinned.image) {
            let range = e.offset as usize..e.end() as usize;
            bytes[range.clone()].copy_from_slice(&source[range]);
        }
        copy.open(NAME, OpenHow::CREATE).unwrap();
        copy.set_contents(NAME, bytes);
        let (opened, checkpoint) = TableFile::open(&copy, NAME, &options()).unwrap();
        assert!(opened.fallback().is_none());
        assert_eq!(checkpoint.unwrap().image, at.to_le_bytes());
        opened.finish_recovery(at).unwrap();
        for (block, want) in &then {
            assert!(
                opened.read(*block, 0, want.len()).unwrap() == *want,
                "seed {seed}, block {block}"
            );
        }

        // Afterwards everything is as if there had been no pin.
        assert!(file.held_bytes() > 0, "seed {seed}");
        file.unpin();
        file.unpin();
        assert_eq!(file.held_bytes(), 0);
        assert!(file.pinned().is_none());
        file.release(lsn);
        assert_eq!(file.stats().blocks, blocks.len() as u64);
        for (block, want) in &blocks {
            assert!(file.read(*block, 0, want.len()).unwrap() == *want);
        }
    }
}

#[test]
fn space_of_blocks_made_after_the_pin_is_reused_at_once() {
    let vfs = MemVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let mut rng = Rng(1);
    let (old, _) = write(&file, &mut rng);
    file.pin();
    let round = |file: &TableFile| -> Extent {
        let block = file.next_block();
        let at = file.write_block(block, &[7; 9000]).unwrap();
        file.free(block, 1);
        file.release(1);
        at
    };
    assert_eq!(round(&file), round(&file));
    assert_eq!(file.held_bytes(), 0);
    let at = file.extent(old).unwrap();
    file.free(old, 2);
    file.release(2);
    assert_eq!(file.held_bytes(), at.len);
    assert_eq!(file.extent(old), Some(at), "its place is still known");
}

#[test]
fn a_second_call_pins_what_was_added() {
    let file = TableFile::create(&MemVfs::new(), NAME, &options(), 0).unwrap();
    let mut rng = Rng(1);
    let (old, _) = write(&file, &mut rng);
    assert!(file.pin() && !file.pin());
    let (new, _) = write(&file, &mut rng);
    let pinned = || file.pinned().unwrap().blocks.iter().map(|(b, _)| *b).collect::<Vec<_>>();
    assert_eq!(pinned(), [old]);
    assert!(file.pin() && !file.pin());
    assert_eq!(pinned(), [old, new]);
    let bytes = file.extent(new).unwrap().len;
    file.free(new, 1);
    file.release(1);
    assert_eq!(file.held_bytes(), bytes);
}

/// A file without a checkpoint: the headers of its creation.
#[test]
fn a_new_file_is_copied_by_its_front_and_its_blocks() {
    let vfs = MemVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 5).unwrap();
    file.pin();
    let pinned = file.pinned().unwrap();
    assert_eq!((pinned.image, pinned.len()), (None, 8192));
    let copy = MemVfs::new();
    copy.open(NAME, OpenHow::CREATE).unwrap();
    copy.set_contents(NAME, pinned.front);
    let (opened, checkpoint) = TableFile::open(&copy, NAME, &options()).unwrap();
    assert!(checkpoint.is_none() && opened.fallback().is_none());
}
