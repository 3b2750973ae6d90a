//! Crashes at every point, several lives long.
//!
//! The oracle is the list of records appended, cut to what each recovery found. After every crash:
//! everything acknowledged by `sync_to` is there, what is there is a prefix, and nothing that an
//! earlier recovery did not find ever comes back (payloads are unique over all lives).

use std::sync::Arc;

use frond_base::ErrorKind;
use frond_vfs::Vfs;
use frond_wal::{inspect, Wal, WalOptions};

use crate::faulty::FaultyVfs;
use crate::{drain, small, Owned, Rng, DATABASE};

struct Oracle {
    records: Vec<Owned>,
    /// Everything ending here or before was acknowledged as durable.
    durable: u64,
    /// Records that begin below may be gone.
    trimmed: u64,
    serial: u64,
}

impl Oracle {
    fn new() -> Oracle {
        Oracle { records: Vec::new(), durable: 0, trimmed: 0, serial: 0 }
    }

    fn payload(&mut self, rng: &mut Rng) -> Vec<u8> {
        self.serial += 1;
        let len = match rng.below(20) {
            0 => rng.below(20_000),
            1..=4 => rng.below(3000),
            // Equal lengths, so that frames of different lives lie at equal places.
            5..=14 => 40,
            _ => rng.below(200),
        };
        let mut payload = self.serial.to_le_bytes().to_vec();
        if rng.below(2) == 0 {
            payload.resize(8 + len as usize, 0x61);
        } else {
            payload.extend(rng.bytes(len as usize));
        }
        payload
    }

    /// Compares with what was recovered, and forgets what was lost.
    fn recovered(&mut self, got: &[Owned], what: &str) {
        let kept: Vec<&Owned> = self.records.iter().filter(|r| r.0 >= self.trimmed).collect();
        // Trimming is not durable at once: more of the beginning may be there.
        let first = got.first().map_or(u64::MAX, |g| g.0);
        let all: Vec<&Owned> =
            self.records.iter().filter(|r| r.0 >= first.min(self.trimmed)).collect();
        for (i, g) in got.iter().enumerate() {
            assert!(
                all.get(i) == Some(&g),
                "{what}: record {i} at {} is not the one appended",
                g.0
            );
        }
        let end = got.last().map_or(0, |g| g.1);
        let lost = kept.iter().find(|r| r.1 <= self.durable && r.1 > end);
        assert!(lost.is_none(), "{what}: acknowledged {:?} is lost", lost.map(|r| (r.0, r.1)));
        let end = end.max(self.trimmed.min(self.durable));
        self.records.retain(|r| r.1 <= end);
    }
}

/// Appends, syncs and trims at random until the machine fails or the script ends.
fn live(wal: &Wal, oracle: &mut Oracle, rng: &mut Rng, steps: u64) -> frond_base::Result<()> {
    for _ in 0..steps {
        let end = wal.end();
        match rng.below(17) {
            0..=9 => {
                let payload = oracle.payload(rng);
                // In the log even when the append fails half-way: then it may or may not be found.
                let at = wal.append(1, &payload)?;
                oracle.records.push((at.start, at.end, 1, payload));
            }
            10 => wal.write_to(end)?,
            11..=13 => {
                wal.sync_to(end)?;
                oracle.durable = oracle.durable.max(end);
            }
            14 => {
                let upto = rng.below(wal.durable() + 1);
                let result = wal.trim(upto);
                oracle.trimmed = oracle.trimmed.max(upto);
                result?;
            }
            15 => {
                // Without a file for it nothing has happened; the engine gives up then, unless the disk is full.
                let start = wal.begin_segment().inspect_err(|e| wal.poison(e))?;
                assert_eq!(start, end);
            }
            _ => {
                wal.settle()?;
                oracle.durable = oracle.durable.max(end);
            }
        }
    }
    Ok(())
}

fn open(vfs: &FaultyVfs, opts: &WalOptions) -> frond_base::Result<(Wal, Vec<Owned>)> {
    let (wal, mut recovered) = Wal::open(Arc::new(vfs.clone()), opts.clone())?;
    let records = drain(&mut recovered)?;
    Ok((wal, records))
}

fn lives(seed: u64, opts: &WalOptions) {
    let mut rng = Rng(seed);
    let mut vfs = FaultyVfs::new();
    let mut oracle = Oracle::new();
    let mut wal = Wal::create(Arc::new(vfs.clone()), opts.clone()).unwrap();
    for life in 0..6 {
        let what = format!("seed {seed} life {life}");
        let fault = vfs.calls() + 1 + rng.below(60);
        match rng.below(3) {
            0 => vfs.power_off_at(fault),
            1 => vfs.fail_call(fault),
            _ => {}
        }
        let steps = rng.below(150);
        let _ = live(&wal, &mut oracle, &mut rng, steps);
        if let Some(first) = wal.failure() {
            let end = wal.end();
            if end > wal.durable() {
                assert_eq!(wal.sync_to(end).unwrap_err().kind(), ErrorKind::Poisoned);
            }
            assert_eq!(wal.append(1, b"late").unwrap_err().kind(), ErrorKind::Poisoned);
            assert_ne!(first.kind(), ErrorKind::Corruption, "{what}: {first}");
        }
        drop(wal);
        // Looks at several states that the crash may leave, and continues from one of them.
        for k in 0..4 {
            let image = vfs.crash(seed * 1000 + life * 10 + k);
            let disk: Arc<dyn Vfs> = Arc::new(image.clone());
            let report = inspect(&*disk, Some(DATABASE), &mut |_| ()).unwrap();
            assert_eq!(report.problems, [], "{what} image {k}");
            let (_, got) = open(&image, opts).unwrap_or_else(|e| panic!("{what} image {k}: {e}"));
            let mut copy = Oracle { records: oracle.records.clone(), ..oracle };
            copy.recovered(&got, &format!("{what} image {k}"));
        }
        vfs = if rng.below(3) == 0 { vfs.kill() } else { vfs.crash(seed * 1000 + life * 10) };
        // Crashes within recovery change nothing.
        for attempt in 0..rng.below(4) {
            vfs.power_off_at(vfs.calls() + 1 + rng.below(12));
            let opened = open(&vfs, opts);
            if let Ok((_, got)) = &opened {
                let mut copy = Oracle { records: oracle.records.clone(), ..oracle };
                copy.recovered(got, &what);
                // What recovery has shown is durable.
                oracle.durable = oracle.durable.max(got.last().map_or(0, |g| g.1));
            }
            vfs = if rng.below(3) == 0 { vfs.kill() } else { vfs.crash(seed + attempt) };
        }
        let (next, got) = open(&vfs, opts).unwrap_or_else(|e| panic!("{what}: {e}"));
        oracle.recovered(&got, &what);
        oracle.durable = next.end();
        wal = next;
    }
}

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_acknowledged() {
    let seeds = std::env::var("FROND_WAL_SEEDS").ok().and_then(|n| n.parse().ok());
    for seed in 0..seeds.unwrap_or(200) {
        lives(seed, &small([8 << 10, 16 << 10, 64 << 10][seed as usize % 3]));
    }
}

#[test]
fn the_power_may_go_at_every_single_call() {
    let opts = WalOptions { spare_segments: 1, ..small(8 << 10) };
    for k in 1.. {
        let vfs = FaultyVfs::new();
        vfs.power_off_at(k);
        let mut oracle = Oracle::new();
        let mut script = || -> frond_base::Result<()> {
            let wal = Wal::create(Arc::new(vfs.clone()), opts.clone())?;
            live(&wal, &mut oracle, &mut Rng(77), 120)
        };
        let finished = script().is_ok();
        for seed in 0..8 {
            let image = vfs.crash(seed);
            match open(&image, &opts) {
                Ok((_, got)) => {
                    let mut copy = Oracle { records: oracle.records.clone(), ..oracle };
                    copy.recovered(&got, &format!("call {k} seed {seed}"));
                }
                // Cut off before create returned: there may be no log.
                Err(e) => {
                    assert!(e.kind() == ErrorKind::NotFound && oracle.serial == 0, "{k}: {e}")
                }
            }
        }
        if finished {
            assert!(k > 50, "the script hardly did anything");
            return;
        }
    }
}

#[test]
fn every_single_call_may_fail() {
    let opts = WalOptions { spare_segments: 1, ..small(8 << 10) };
    for k in 1.. {
        let vfs = FaultyVfs::new();
        vfs.fail_call(k);
        let mut oracle = Oracle::new();
        let mut syncs = 0;
        let mut script = || -> frond_base::Result<()> {
            let wal = Wal::create(Arc::new(vfs.clone()), opts.clone())?;
            let done = live(&wal, &mut oracle, &mut Rng(78), 120);
            if done.is_err() {
                syncs = vfs.syncs();
                // Poisoned: nothing is tried again.
                let calls = vfs.calls();
                assert!(wal.sync_to(wal.end()).is_err() || wal.end() == wal.durable());
                assert_eq!(wal.append(1, b"x").unwrap_err().kind(), ErrorKind::Poisoned);
                assert_eq!(wal.trim(u64::MAX).unwrap_err().kind(), ErrorKind::Poisoned);
                assert_eq!((vfs.calls(), vfs.syncs()), (calls, syncs));
            }
            done
        };
        if script().is_ok() {
            assert!(k > 50 && syncs == 0);
            return;
        }
        for seed in 0..4 {
            // The process is restarted (reads see the clean pages of a failed sync), then power
            // fails.
            let image = if seed % 2 == 0 { vfs.crash(seed) } else { vfs.kill() };
            match open(&image, &opts) {
                Ok((wal, got)) => {
                    let mut copy = Oracle { records: oracle.records.clone(), ..oracle };
                    copy.recovered(&got, &format!("call {k} seed {seed}"));
                    drop(wal);
                    let (_, again) = open(&image.crash(seed + 99), &opts).unwrap();
                    assert!(again == got, "call {k}: what recovery has shown is durable");
                }
                Err(e) => {
                    assert!(e.kind() == ErrorKind::NotFound && oracle.serial == 0, "{k}: {e}")
                }
            }
        }
    }
}

/// Torn frames must stay dead when new ones fill the gap before them.
#[test]
fn torn_records_do_not_come_back_after_new_appends() {
    let opts = small(1 << 20);
    let mut survivors = 0;
    for seed in 0..200 {
        let vfs = FaultyVfs::new();
        let wal = Wal::create(Arc::new(vfs.clone()), opts.clone()).unwrap();
        // 480 + 24 + 8: a frame is a sector long, the header block ends at a sector.
        let old = |i: u8| [i; 488];
        for i in 0..10 {
            let at = wal.append(1, &old(i)).unwrap();
            wal.write_to(at.end).unwrap();
        }
        let vfs = vfs.crash(seed);
        let (wal, got) = open(&vfs, &opts).unwrap();
        survivors += got.len();
        let at = wal.append(1, &[100; 488]).unwrap();
        wal.sync_to(at.end).unwrap();
        let (_, again) = open(&vfs.kill(), &opts).unwrap();
        assert_eq!(again.len(), got.len() + 1);
        assert_eq!(again.last().unwrap().3, [100; 488]);
    }
    assert!(survivors > 50 && survivors < 1950, "{survivors}");
}
