//! Several threads at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use frond_base::ErrorKind;
use frond_vfs::{OsVfs, Vfs};
use frond_wal::{Wal, WalOptions};

use crate::{faulty::FaultyVfs, reopen, small, Rng};

/// For `seconds`, at most, until `done`.
fn is_soon(seconds: u64, done: impl Fn() -> bool) -> bool {
    for _ in 0..seconds * 1000 {
        if done() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    false
}

/// Each committer's records, in its order, must come back complete and in the order of their LSNs. Some committers sync
/// each record, some only write them.
fn commit_concurrently(vfs: Arc<dyn Vfs>, opts: WalOptions, threads: u64, commits: u64) -> Wal {
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    let trimmed = AtomicU64::new(0);
    // Where each committer's last record ends.
    let ends: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for t in 0..threads {
            let (wal, trimmed, last) = (&wal, &trimmed, &ends[t as usize]);
            scope.spawn(move || {
                let mut rng = Rng(t);
                for i in 0..commits {
                    let mut payload = t.to_le_bytes().to_vec();
                    payload.extend(i.to_le_bytes());
                    let more = if i % 64 == 0 { 200_000 } else { 200 };
                    payload.extend(rng.bytes(rng.0 as usize % more));
                    let at = wal.append(1 + t as u8, &payload).unwrap();
                    if t % 3 == 2 || rng.below(4) == 0 {
                        wal.write_to(at.end).unwrap();
                        assert!(wal.written() >= at.end);
                    }
                    if t % 3 != 2 || i + 1 == commits {
                        wal.sync_to(at.end).unwrap();
                        assert!(wal.durable() >= at.end);
                    }
                    last.store(at.end, Ordering::Relaxed);
                    if t == 0 && i == commits / 2 {
                        let upto = wal.durable() / 2;
                        wal.trim(upto).unwrap();
                        trimmed.store(wal.kept_from(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let status = wal.status();
    assert!(status.syncs <= threads * commits + status.rotations);
    assert_eq!(status.durable, status.end);
    drop(wal);
    let (wal, got) = reopen(&vfs, &opts);
    let mut next = vec![None; threads as usize];
    let mut last = trimmed.load(Ordering::Relaxed);
    for (lsn, end, kind, payload) in got {
        assert!(lsn >= last && end > lsn);
        last = end;
        let t = u64::from_le_bytes(payload[..8].try_into().unwrap());
        let i = u64::from_le_bytes(payload[8..16].try_into().unwrap());
        assert_eq!(u64::from(kind), 1 + t);
        let expected = next[t as usize].replace(i + 1);
        assert!(expected.is_none_or(|e| e == i), "thread {t}: {i} after {expected:?}");
    }
    for (t, (n, end)) in next.iter().zip(&ends).enumerate() {
        // A committer may have been done before the first half of the log was trimmed.
        let gone = end.load(Ordering::Relaxed) <= trimmed.load(Ordering::Relaxed);
        assert!(*n == Some(commits) || gone && n.is_none(), "committer {t}: {n:?}");
    }
    println!("{status:?}");
    wal
}

#[test]
fn committers_share_syncs_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = Arc::new(OsVfs::new(dir.path()).unwrap());
    commit_concurrently(vfs, small(1 << 20), 8, 150);
}

#[test]
fn threads_committing_never_miss_a_wake_up() {
    // Syncs cost nothing here, so that leaders change as fast as they can. Of five, some wait for the round after the next.
    for (threads, commits) in [(2, 3000), (2, 3000), (2, 3000), (5, 1500), (5, 1500)] {
        let vfs = Arc::new(FaultyVfs::new());
        commit_concurrently(vfs, small(1 << 20), threads, commits);
    }
}

#[test]
fn a_failing_sync_reaches_every_waiting_committer() {
    for fail_at in [5, 40, 41, 42, 43, 100] {
        let vfs = FaultyVfs::new();
        let opts = small(1 << 20);
        let wal = Wal::create(Arc::new(vfs.clone()), opts.clone()).unwrap();
        vfs.fail_call(vfs.calls() + fail_at);
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for t in 0..4u8 {
                let (wal, acknowledged) = (&wal, &acknowledged);
                scope.spawn(move || loop {
                    let Ok(at) = wal.append(1 + t, &[t; 100]) else { return };
                    if t == 0 {
                        if wal.write_to(at.end).is_err() {
                            return;
                        }
                        continue;
                    }
                    if wal.sync_to(at.end).is_err() {
                        return;
                    }
                    acknowledged.fetch_max(at.end, Ordering::Relaxed);
                });
            }
        });
        assert!(wal.failure().is_some());
        drop(wal);
        let vfs: Arc<dyn Vfs> = Arc::new(vfs.crash(fail_at));
        let (wal, _) = reopen(&vfs, &opts);
        assert!(wal.end() >= acknowledged.into_inner());
    }
}

#[test]
fn a_commit_that_is_only_written_does_not_wait_for_a_sync() {
    for fails in [false, true] {
        let vfs = FaultyVfs::new();
        let opts = small(1 << 20);
        let wal = &Wal::create(Arc::new(vfs.clone()), opts.clone()).unwrap();
        let (gate, before) = (vfs.gate(), vfs.at_gate());
        let closed = gate.lock();
        let first = wal.append(1, b"first").unwrap();
        std::thread::scope(|scope| {
            let synced = scope.spawn(|| wal.sync_to(first.end));
            assert!(is_soon(10, || vfs.at_gate() > before));
            let second = wal.append(1, b"second").unwrap();
            let written = scope.spawn(move || wal.write_to(second.end));
            let in_time = is_soon(10, || written.is_finished());
            if fails {
                vfs.fail_call(vfs.calls() + 1);
            }
            assert_eq!(wal.durable(), first.start);
            drop(closed);
            assert!(in_time, "it waited for the sync");
            written.join().unwrap().unwrap();
            assert_eq!(synced.join().unwrap().is_err(), fails);
            // What is durable was written when its sync began.
            assert_eq!(wal.durable(), if fails { first.start } else { first.end });
            let status = wal.status();
            assert_eq!(
                (status.syncs, status.group_sizes.iter().sum()),
                if fails { (0, 0) } else { (1, 1) }
            );
            assert_eq!(wal.sync_to(second.end).is_err(), fails);
            assert_eq!(wal.append(1, b"third").is_err(), fails);
        });
        for seed in 0..20 {
            let vfs: Arc<dyn Vfs> = Arc::new(vfs.crash(seed));
            let (_, got) = reopen(&vfs, &opts);
            assert!(fails || got.len() >= 2, "{} records with seed {seed}", got.len());
        }
    }
}

/// A writer that enters a segment waits for another thread's sync of the last one, and that fails.
#[test]
fn the_first_failure_is_kept_with_its_cause() {
    for round in 0..50 {
        let vfs = FaultyVfs::new();
        let wal = &Wal::create(Arc::new(vfs.clone()), small(8 << 10)).unwrap();
        let (gate, before) = (vfs.gate(), vfs.at_gate());
        let closed = gate.lock();
        let first = wal.append(1, b"first").unwrap();
        std::thread::scope(|scope| {
            let synced = scope.spawn(move || wal.sync_to(first.end));
            assert!(is_soon(10, || vfs.at_gate() > before));
            (0..3).for_each(|_| _ = wal.append(1, &Rng(round).bytes(3000)).unwrap());
            let written = scope.spawn(move || wal.write_to(wal.end()));
            // Two parts: that of the first segment is written, and the next one waits.
            assert!(is_soon(10, || wal.written() > first.end));
            vfs.fail_call(vfs.calls() + 1);
            drop(closed);
            assert_eq!(synced.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(written.join().unwrap().unwrap_err().kind(), ErrorKind::Poisoned);
        });
        assert_eq!(wal.failure().map(|e| e.kind()), Some(ErrorKind::Io), "round {round}");
    }
}
