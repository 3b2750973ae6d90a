//! What a log does when nothing fails.

use std::sync::Arc;

use frond_base::ErrorKind;
use frond_vfs::{MemVfs, OsVfs, Vfs};
use frond_wal::{inspect, Wal, WalOptions};

use crate::{drain, reopen, small, Rng, DATABASE};

fn mem() -> (MemVfs, Arc<dyn Vfs>) {
    let vfs = MemVfs::stepped();
    (vfs.clone(), Arc::new(vfs))
}

#[test]
fn records_come_back_in_order_with_their_lsns() {
    let (_, vfs) = mem();
    let opts = small(64 << 10);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    let mut rng = Rng(1);
    let mut want = Vec::new();
    for i in 0..2000u64 {
        let len = rng.below(if i % 50 == 0 { 300_000 } else { 300 }) as usize;
        let payload = if i % 3 == 0 { vec![i as u8; len] } else { rng.bytes(len) };
        let kind = 1 + (i % 255) as u8;
        let at = if i % 2 == 0 {
            wal.append(kind, &payload).unwrap()
        } else {
            wal.append_prepared(&wal.prepare(kind, &payload).unwrap()).unwrap()
        };
        assert_eq!(at.start, want.last().map_or(0, |w: &crate::Owned| w.1));
        assert_eq!(wal.end(), at.end);
        want.push((at.start, at.end, kind, payload));
    }
    wal.sync_to(wal.end()).unwrap();
    assert_eq!((wal.written(), wal.durable()), (wal.end(), wal.end()));
    let status = wal.status();
    assert_eq!((status.records, status.bytes_appended), (2000, wal.end()));
    assert!(status.rotations > 10 && status.segments > 10);
    drop(wal);
    let (wal, got) = reopen(&vfs, &opts);
    assert!(got == want);
    let more = wal.append(7, b"more").unwrap();
    wal.sync_to(more.end).unwrap();
    want.push((more.start, more.end, 7, b"more".to_vec()));
    assert!(reopen(&vfs, &opts).1 == want);
}

#[test]
fn unsynced_records_survive_the_process_once_written() {
    let (_, vfs) = mem();
    let opts = small(1 << 20);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    let a = wal.append(1, b"handed over").unwrap();
    wal.write_to(a.end).unwrap();
    assert_eq!((wal.written(), wal.durable()), (a.end, 0));
    wal.append(1, b"still in memory").unwrap();
    drop(wal);
    let (_, got) = reopen(&vfs, &opts);
    assert_eq!(got, [(0, a.end, 1, b"handed over".to_vec())]);
}

#[test]
fn a_payload_of_100_mib_spans_segments() {
    let (_, vfs) = mem();
    let opts = small(64 << 20);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    let payload = Rng(5).bytes(100 << 20);
    wal.append(1, b"before").unwrap();
    let big = wal.append(2, &payload).unwrap();
    wal.append(3, b"after").unwrap();
    wal.sync_to(wal.end()).unwrap();
    assert!(wal.status().segments == 2 && wal.status().buffer_waits > 50);
    drop(wal);
    let (_, got) = reopen(&vfs, &opts);
    assert_eq!(got.len(), 3);
    assert!(got[1] == (big.start, big.end, 2, payload));
    assert_eq!(got[2].3, b"after");
}

/// The record that ends a prepared transaction is appended where nothing may wait for a write.
#[test]
fn a_record_that_must_not_wait_is_appended_to_a_full_buffer() {
    let (_, vfs) = mem();
    let opts = small(4 << 20);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    let mut want = Vec::new();
    let mut rng = Rng(6);
    let filler = rng.bytes(500);
    while wal.end() + 600 < opts.buffer_bytes as u64 {
        let at = wal.append(1, &filler).unwrap();
        want.push((at.start, at.end, 1, filler.clone()));
    }
    for _ in 0..100 {
        let at = wal.append_unwaited(2, &filler).unwrap();
        want.push((at.start, at.end, 2, filler.clone()));
    }
    assert!(wal.written() == 0 && wal.end() > opts.buffer_bytes as u64);
    // Others wait for room, as before.
    let at = wal.append(1, &filler).unwrap();
    want.push((at.start, at.end, 1, filler));
    assert_eq!((wal.status().buffer_waits, wal.written()), (1, at.start));
    wal.sync_to(at.end).unwrap();
    drop(wal);
    assert!(reopen(&vfs, &opts).1 == want);
}

#[test]
fn an_empty_log_and_one_opened_many_times_keep_no_empty_segments() {
    let (mem, vfs) = mem();
    let opts = small(1 << 20);
    drop(Wal::create(Arc::clone(&vfs), opts.clone()).unwrap());
    for _ in 0..5 {
        assert_eq!(reopen(&vfs, &opts).1, []);
    }
    assert_eq!(mem.list().unwrap(), ["log.00000006.frl"]);
    let e = Wal::create(Arc::clone(&vfs), opts.clone()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Exists);
    let e = Wal::open(Arc::new(MemVfs::stepped()), opts.clone()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    let e = Wal::open(vfs, WalOptions { database: 1, ..opts }).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Corruption);
}

#[test]
fn all_that_was_appended_before_a_segment_was_begun_can_be_trimmed() {
    let (_, vfs) = mem();
    let opts = small(64 << 10);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    assert_eq!((wal.begin_segment().unwrap(), wal.begin_segment().unwrap()), (0, 0));
    wal.append(1, b"before").unwrap();
    let start = wal.begin_segment().unwrap();
    assert_eq!((wal.begin_segment().unwrap(), wal.end()), (start, start));
    let behind = wal.append(1, b"behind").unwrap();
    wal.sync_to(behind.end).unwrap();
    wal.trim(start).unwrap();
    assert_eq!(wal.kept_from(), start);
    drop(wal);
    let (_, got) = reopen(&vfs, &opts);
    assert_eq!(got, [(start, behind.end, 1, b"behind".to_vec())]);
}

#[test]
fn trim_removes_whole_segments_and_never_the_current_one() {
    let (mem, vfs) = mem();
    let opts = WalOptions { spare_segments: 2, ..small(64 << 10) };
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    let mut rng = Rng(2);
    let mut all = Vec::new();
    for i in 0..400u32 {
        let payload = rng.bytes(1000);
        let at = wal.append(1, &payload).unwrap();
        all.push((at.start, at.end, 1, payload));
        if i == 200 {
            // Nothing is durable yet except what rotation synced: only that may go.
            wal.write_to(at.end).unwrap();
            wal.trim(at.end).unwrap();
            assert!(wal.kept_from() <= wal.durable());
        }
    }
    wal.sync_to(wal.end()).unwrap();
    let upto = all[300].0;
    let (before, gain) = (wal.kept_from(), wal.trimmable(upto));
    wal.trim(upto).unwrap();
    let kept = wal.kept_from();
    assert!(kept <= upto && kept + (64 << 10) > upto);
    assert_eq!((kept - before, wal.trimmable(upto)), (gain, 0));
    let spares = mem.list().unwrap().iter().filter(|n| n.starts_with("spare.")).count();
    assert_eq!(spares, opts.spare_segments);
    drop(wal);
    let (wal, got) = reopen(&vfs, &opts);
    // The record that began in a removed segment is gone, the others are there.
    let want: Vec<_> = all.iter().filter(|r| r.0 >= kept).cloned().collect();
    assert!(got == want);
    wal.trim(u64::MAX).unwrap();
    assert_eq!((wal.status().segments, wal.kept_from()), (1, wal.end()));
    assert_eq!(reopen(&vfs, &opts).1, []);
}

#[test]
fn recycled_segments_show_nothing_of_their_former_contents() {
    let (_, vfs) = mem();
    let opts = small(64 << 10);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    for round in 0..40u64 {
        // Equal sizes: old frames lie exactly where new ones would.
        for _ in 0..60 {
            wal.append(1, &round.to_le_bytes().repeat(100)).unwrap();
        }
        wal.sync_to(wal.end()).unwrap();
        wal.trim(wal.end()).unwrap();
    }
    assert!(wal.status().rotations > 10);
    let kept = wal.kept_from();
    let end = wal.end();
    drop(wal);
    let (_, got) = reopen(&vfs, &opts);
    assert!(got.iter().all(|r| r.0 >= kept && r.1 <= end));
    assert_eq!(got.last().unwrap().1, end);
}

#[test]
fn settle_writes_one_marker_and_then_nothing() {
    let (_, vfs) = mem();
    let opts = small(1 << 20);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    wal.settle().unwrap();
    assert_eq!(wal.end(), 0);
    let a = wal.append(1, b"x").unwrap();
    wal.settle().unwrap();
    let end = wal.end();
    assert!(end > a.end && wal.durable() == end);
    wal.settle().unwrap();
    assert_eq!(wal.end(), end);
    let report = inspect(&*vfs, Some(DATABASE), &mut |_| ()).unwrap();
    assert_eq!((report.promised, report.end, report.records), (a.end, end, 1));
    assert_eq!(reopen(&vfs, &opts).1, [(a.start, a.end, 1, b"x".to_vec())]);
}

#[test]
fn it_works_on_the_real_machine() {
    let dir = tempfile::tempdir().unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new(dir.path()).unwrap());
    let opts = small(1 << 20);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    wal.prepare_segment().unwrap();
    let mut rng = Rng(3);
    let mut want = Vec::new();
    for _ in 0..300 {
        let payload = rng.bytes(rng.0 as usize % 20_000);
        let at = wal.append(4, &payload).unwrap();
        if rng.below(10) == 0 {
            wal.sync_to(at.end).unwrap();
        }
        want.push((at.start, at.end, 4, payload));
    }
    wal.settle().unwrap();
    drop(wal);
    let (wal, got) = reopen(&vfs, &opts);
    assert!(got == want);
    wal.trim(wal.end()).unwrap();
    assert_eq!(reopen(&vfs, &opts).1, []);
}

/// Time this thread has spent on a processor, nanoseconds: other work on the machine does not count.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Not a benchmark, a ceiling: prints what appends and recovery cost.
#[test]
fn appends_are_cheap() {
    let (_, vfs) = mem();
    let opts = WalOptions::new(DATABASE);
    let wal = Wal::create(Arc::clone(&vfs), opts.clone()).unwrap();
    let payload = [7u8; 100];
    let (mut spent, n) = (0, 1_000_000u64);
    for _ in 0..n / 50_000 {
        let began = cpu_ns();
        for _ in 0..50_000 {
            wal.append(1, &payload).unwrap();
        }
        spent += cpu_ns() - began;
        wal.sync_to(wal.end()).unwrap();
    }
    drop(wal);
    let began = cpu_ns();
    let (_, mut recovered) = Wal::open(vfs, opts).unwrap();
    let opened = cpu_ns() - began;
    let mut records = 0;
    while recovered.next().unwrap().is_some() {
        records += 1;
    }
    assert_eq!(records, n);
    let read = cpu_ns() - began - opened;
    println!("append of 100 bytes: {} ns; open {} us", spent / n, opened / 1000);
    println!("recovery: {} ns per record", read / n);
    assert!(spent / n < 5_000);
}

#[test]
fn records_of_unwanted_kinds_are_passed_over_but_verified() {
    let vfs = MemVfs::stepped();
    let arc: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let wal = Wal::create(arc.clone(), small(64 << 10)).unwrap();
    let mut rng = Rng(7);
    let mut wanted = Vec::new();
    for i in 0..200u64 {
        let kind = (i % 3) as u8 + 1;
        let len = rng.below(5_000) as usize;
        let payload = rng.bytes(len);
        let at = wal.append(kind, &payload).unwrap();
        if kind == 2 {
            wanted.push((at.start, at.end, kind, payload));
        }
    }
    wal.sync_to(wal.end()).unwrap();
    drop(wal);
    let (_, mut recovered) = Wal::open(arc.clone(), small(64 << 10)).unwrap();
    let mut found = Vec::new();
    while let Some(r) = recovered.next_of(|kind| kind == 2).unwrap() {
        found.push((r.lsn, r.end, r.kind, r.payload.to_vec()));
    }
    assert_eq!(found, wanted);
    recovered.rewind();
    assert_eq!(drain(&mut recovered).unwrap().len(), 200);

    // Damage in a record that nobody wants is still damage.
    let name = vfs.list().unwrap().into_iter().find(|n| n.starts_with("log.")).unwrap();
    let mut bytes = vfs.contents(&name).unwrap();
    bytes[4096 + 200] ^= 1;
    vfs.set_contents(&name, bytes);
    let failed = match Wal::open(arc, small(64 << 10)) {
        Err(e) => e,
        Ok((_, mut recovered)) => recovered.next_of(|_| false).err().unwrap(),
    };
    assert_eq!(failed.kind(), frond_base::ErrorKind::Corruption);
}
