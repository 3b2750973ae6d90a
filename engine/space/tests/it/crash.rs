//! Crashes at every kind of moment, against a model of the engine around the file: a log of edits, of
//! which a prefix is durable.

use std::collections::{BTreeMap, BTreeSet};

use frond_base::{BlockId, ErrorKind, Lsn, Result};
use frond_space::{BlockChange, Extent, TableFile};
use frond_vfs::Vfs;

use crate::fault::FaultVfs;
use crate::{contents, options, Rng, NAME};

/// One record of the model's log; its LSN is its position + 1 (where it ends).
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// The number makes the contents of a reused block id different.
    Add(BlockId, Extent, u64),
    Remove(BlockId),
}

/// Blocks that the trunk names: id -> salt of the contents.
type Trunk = BTreeMap<BlockId, u64>;
type Blocks = BTreeSet<BlockId>;

fn trunk_after(log: &[Edit]) -> Trunk {
    let mut trunk = Trunk::new();
    for edit in log {
        match edit {
            Edit::Add(block, _, salt) => drop(trunk.insert(*block, *salt)),
            Edit::Remove(block) => assert!(trunk.remove(block).is_some()),
        }
    }
    trunk
}

fn encode(trunk: &Trunk) -> Vec<u8> {
    trunk.iter().flat_map(|(b, s)| [b.to_le_bytes(), s.to_le_bytes()]).flatten().collect()
}

fn decode(image: &[u8]) -> Trunk {
    let number = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap());
    image.chunks(16).map(|c| (number(&c[..8]), number(&c[8..]))).collect()
}

struct World {
    vfs: FaultVfs,
    rng: Rng,
    log: Vec<Edit>,
    /// Records of the log that a power cut cannot take.
    durable: usize,
    /// Records before this are gone.
    trimmed: Lsn,
    salt: u64,
}

impl World {
    fn end(&self) -> Lsn {
        self.log.len() as Lsn
    }

    /// One life of the process: opens (or creates), recovers, checks, works until it stops.
    fn live(&mut self, steps: u64) -> Result<()> {
        let (file, mut imaged) = self.recover()?;
        let mut trunk = trunk_after(&self.log);
        self.check(&file, &trunk);
        // Removed, but a reader still holds them.
        let mut held: Vec<(BlockId, Lsn)> = Vec::new();
        for _ in 0..steps {
            match self.rng.below(10) {
                0..=3 => self.add(&file, &mut trunk)?,
                4..=6 if !trunk.is_empty() => {
                    let nth = self.rng.below(trunk.len() as u64) as usize;
                    let block = *trunk.keys().nth(nth).unwrap();
                    trunk.remove(&block);
                    self.log.push(Edit::Remove(block));
                    held.push((block, self.end()));
                }
                7 if !held.is_empty() => {
                    let (block, lsn) = held.swap_remove(self.rng.below(held.len() as u64) as usize);
                    file.free(block, lsn);
                    file.release(self.durable as Lsn);
                }
                8 => {
                    self.durable = self.log.len();
                    file.release(self.end());
                }
                9 if self.rng.chance(40) => {
                    let pin = file.begin_checkpoint();
                    self.durable = self.log.len(); // the log is synced up to the image's LSN first
                    let (image, lsn) = (encode(&trunk), self.end());
                    let live: Blocks = trunk.keys().copied().collect();
                    let mut trunk_then = trunk.clone();
                    // Work goes on meanwhile.
                    if self.rng.chance(50) {
                        self.add(&file, &mut trunk_then)?;
                        if let Some((block, lsn)) = held.pop() {
                            file.free(block, lsn);
                        }
                        self.durable = self.log.len();
                        file.release(self.end());
                    }
                    trunk = trunk_then;
                    if self.rng.chance(20) {
                        continue; // Given up: the next one differs from the same image.
                    }
                    if self.rng.chance(10) {
                        pin.write(&image, lsn, &live.iter().rev().copied().collect::<Vec<_>>())?;
                    } else {
                        let added = live.difference(&imaged).copied().collect();
                        let removed = imaged.difference(&live).copied().collect();
                        pin.write_changed(&image, lsn, &BlockChange { added, removed })?;
                    }
                    (imaged, self.trimmed) = (live, lsn);
                }
                _ => {}
            }
        }
        self.check(&file, &trunk);
        Ok(())
    }

    fn add(&mut self, file: &TableFile, trunk: &mut Trunk) -> Result<()> {
        let blocks: Vec<BlockId> = (0..1 + self.rng.below(3)).map(|_| file.next_block()).collect();
        let mut edits = Vec::new();
        for block in blocks {
            self.salt += 1;
            let extent = file.write_block(block, &contents(block, self.salt))?;
            edits.push(Edit::Add(block, extent, self.salt));
        }
        if self.rng.chance(10) {
            // The job is given up.
            for edit in edits {
                if let Edit::Add(block, ..) = edit {
                    file.discard(block);
                }
            }
            return Ok(());
        }
        file.sync()?;
        for edit in edits {
            if let Edit::Add(block, _, salt) = edit {
                trunk.insert(block, salt);
            }
            self.log.push(edit);
        }
        Ok(())
    }

    /// The file, and the blocks that its newest image names.
    fn recover(&mut self) -> Result<(TableFile, Blocks)> {
        let (file, checkpoint) = match TableFile::open(&self.vfs, NAME, &options()) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                assert!(self.log.is_empty(), "the file was durable before the first edit");
                return Ok((TableFile::create(&self.vfs, NAME, &options(), 0)?, Blocks::new()));
            }
            other => other?,
        };
        let lsn = checkpoint.as_ref().map_or(0, |c| c.lsn);
        assert!(lsn >= self.trimmed, "checkpoint {lsn} but the log begins at {}", self.trimmed);
        assert!(lsn <= self.end());
        let mut trunk = checkpoint.map_or_else(Trunk::new, |c| decode(&c.image));
        assert_eq!(trunk, trunk_after(&self.log[..lsn as usize]));
        let imaged = trunk.keys().copied().collect();
        for edit in &self.log[lsn as usize..] {
            match edit {
                Edit::Add(block, extent, salt) => {
                    file.replay_add(*block, *extent)?;
                    trunk.insert(*block, *salt);
                }
                Edit::Remove(block) => {
                    file.replay_free(*block)?;
                    trunk.remove(block);
                }
            }
        }
        self.durable = self.log.len(); // what was replayed is synced
        file.finish_recovery(self.trimmed)?;
        Ok((file, imaged))
    }

    fn check(&self, file: &TableFile, trunk: &Trunk) {
        for (block, salt) in trunk {
            let want = contents(*block, *salt);
            let got = file.read(*block, 0, want.len());
            if let Err(e) = &got {
                assert!(self.vfs.is_stopped(), "{e}");
                continue;
            }
            assert!(got.unwrap() == want, "block {block} reads back as it was written");
        }
    }
}

fn torture(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let vfs = FaultVfs::new();
    let salt = seed << 32;
    let mut world =
        World { vfs, rng: Rng(rng.draw()), log: Vec::new(), durable: 0, trimmed: 0, salt };
    let mut crashes = 0;
    for _ in 0..12 {
        if rng.chance(85) {
            let budget = [6, 40, 200][rng.below(3) as usize];
            world.vfs.stop_after(1 + rng.below(budget));
        }
        let steps = rng.below(80);
        if let Err(e) = world.live(steps) {
            assert!(world.vfs.is_stopped(), "seed {seed}: {e}");
            crashes += 1;
        }
        if rng.chance(60) {
            world.vfs.power_cut(&mut rng);
            let lost = rng.below(1 + (world.log.len() - world.durable) as u64) as usize;
            world.log.truncate(world.log.len() - lost);
        } else {
            world.vfs.restart_process();
        }
    }
    world.vfs.restart_process();
    world.live(30).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    crashes
}

#[test]
fn every_crash_recovers_to_the_log() {
    let crashes: u64 = (0..120).map(torture).sum();
    assert!(crashes > 300, "only {crashes} crashes");
}

/// Stops at every single change of one checkpoint, torn in many ways.
#[test]
fn a_checkpoint_is_atomic_at_every_step() {
    let mut before = 0;
    let mut after = 0;
    for stop in 0..30 {
        for seed in 0..12 {
            let vfs = FaultVfs::new();
            let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
            let block = file.next_block();
            file.write_block(block, &contents(block, 1)).unwrap();
            file.checkpoint(b"one", 10, &[block]).unwrap();
            file.checkpoint(b"two", 20, &[block]).unwrap();
            vfs.stop_after(stop);
            let done = file.checkpoint(b"three", 30, &[block]).is_ok();
            vfs.power_cut(&mut Rng(seed));
            let (file, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
            file.finish_recovery(if done { 30 } else { 20 }).unwrap();
            let checkpoint = checkpoint.unwrap();
            match checkpoint.image.as_slice() {
                b"two" => {
                    assert!(!done, "stop {stop}: acknowledged and lost");
                    assert_eq!((checkpoint.seq, checkpoint.lsn), (3, 20));
                    before += 1;
                }
                b"three" => {
                    assert_eq!((checkpoint.seq, checkpoint.lsn), (4, 30));
                    after += 1;
                }
                other => panic!("image {other:?}"),
            }
            let want = contents(block, 1);
            assert!(file.read(block, 0, want.len()).unwrap() == want);
            file.checkpoint(b"four", 40, &[block]).unwrap();
        }
    }
    assert!(before > 20 && after > 20, "{before} {after}");
}

/// The newest header is readable after the process died, but was never synced.
#[test]
fn a_header_seen_after_process_death_is_made_durable_before_reuse() {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    file.checkpoint(&[1; 9000], 10, &[]).unwrap();
    // Image write, padding, sync, header write: then the machine stops before the sync.
    vfs.stop_after(4);
    file.checkpoint(&[2; 9000], 20, &[]).unwrap_err();
    vfs.restart_process();
    let (file, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
    assert_eq!(checkpoint.unwrap().image, [2; 9000], "the test stops at the right place");
    file.finish_recovery(0).unwrap();
    // Overwrites the first image's extent, which looks free.
    for _ in 0..4 {
        file.write_block(file.next_block(), &[7; 12_000]).unwrap();
    }
    let mut rng = Rng(1);
    for _ in 0..20 {
        vfs.power_cut(&mut rng);
        let (_, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
        assert_eq!(checkpoint.unwrap().image, [2; 9000]);
    }
}

#[test]
fn a_failed_sync_stops_everything_that_could_destroy_the_older_image() {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let blocks: Vec<BlockId> = (0..4).map(|_| file.next_block()).collect();
    for block in &blocks {
        file.write_block(*block, &contents(*block, 1)).unwrap();
    }
    file.checkpoint(b"one", 10, &blocks).unwrap();
    let fresh = file.next_block();
    file.write_block(fresh, b"of the image that fails").unwrap();
    vfs.fail_syncs(true);
    assert_eq!(file.checkpoint(b"two", 20, &blocks).unwrap_err().kind(), ErrorKind::Io);
    vfs.fail_syncs(false);
    let poisoned = |r: Result<()>| assert_eq!(r.unwrap_err().kind(), ErrorKind::Poisoned);
    poisoned(file.write_block(file.next_block(), b"x").map(drop));
    poisoned(file.sync());
    poisoned(file.checkpoint(b"three", 30, &blocks));
    file.free(blocks[0], 11);
    file.release(100);
    file.discard(fresh);
    file.give_back().unwrap();
    assert_eq!(file.read(blocks[0], 0, 8).unwrap(), contents(blocks[0], 1)[..8]);
    assert!(file.extent(fresh).is_some(), "a write under way could take its place");
    vfs.power_cut(&mut Rng(3));
    let (file, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
    assert_eq!(checkpoint.unwrap().image, b"one");
    file.finish_recovery(0).unwrap();
    assert_eq!(file.read(blocks[0], 0, 8).unwrap(), contents(blocks[0], 1)[..8]);
}

#[test]
fn a_full_disk_during_a_checkpoint_leaves_the_file_usable() {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 0).unwrap();
    let block = file.next_block();
    file.write_block(block, b"data").unwrap();
    file.checkpoint(b"one", 10, &[block]).unwrap();
    let used = file.stats().used_bytes;
    vfs.fail_writes(true);
    assert_eq!(file.checkpoint(b"two", 20, &[block]).unwrap_err().kind(), ErrorKind::NoSpace);
    let e = file.write_block(file.next_block(), b"more").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoSpace);
    assert_eq!(file.stats().used_bytes, used);
    vfs.fail_writes(false);
    file.checkpoint(b"three", 30, &[block]).unwrap();
}

#[test]
fn a_creation_on_a_full_disk_leaves_nothing_behind() {
    let vfs = FaultVfs::new();
    vfs.fail_writes(true);
    let e = TableFile::create(&vfs, NAME, &options(), 0).err().expect("no space");
    assert_eq!(e.kind(), ErrorKind::NoSpace);
    assert!(vfs.list().unwrap().is_empty());
    vfs.fail_writes(false);
    TableFile::create(&vfs, NAME, &options(), 0).unwrap();
}

/// Who repeats a creation would find the name, or sync the directory again (V3).
#[test]
fn a_failed_sync_of_the_directory_is_no_shortage() {
    let vfs = FaultVfs::new();
    vfs.fail_syncs_of_directory(true);
    let e = TableFile::create(&vfs, NAME, &options(), 0).err().expect("no sync");
    assert!(!e.kind().is_shortage() && e.message().contains("sync the directory"), "{e:?}");
}
