//! The buffers against a `BTreeMap` (this file), under several threads (`concurrent`), and while
//! unneeded versions are dropped (`readers`); keys of all lengths (`long_keys`).

// Helpers outside #[test] functions; no simulated time in tests with real threads.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod concurrent;
mod long_keys;
mod readers;
mod support;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use frond_base::{EntryKind, EntryRef, EntrySource, Seq, SEQ_MAX};
use frond_buffer::{Cursor, SortedBuffer, Versions, WriteBuffer};

use crate::support::{
    all, check_scans, expected, key, key_of, newest_in, own, random_bound, scan_all, value,
    write_both, Buffer, Model, Rng,
};

/// Rounds of puts, every second one undone in part; after each all reads are compared with a model's.
fn sorted_buffer_is_a_map(shape: u64, seed: u64, (most, space): (u64, u64)) {
    let mut rng = Rng(seed);
    let mut buffer = SortedBuffer::new();
    let mut model = Model::new();
    let mut seq = 0;
    for round in 0..6 {
        let n = 1 + most / 2 + rng.below(most);
        for _ in 0..n {
            seq += 1;
            let (k, v) = (key(&mut rng, shape, space), value(&mut rng));
            let kind = if rng.below(5) == 0 { EntryKind::Delete } else { EntryKind::Put };
            let v = if kind == EntryKind::Put { v } else { Vec::new() };
            let before = newest_in(&model, &k, SEQ_MAX).map(|(seq, kind, _)| (seq, kind));
            let put = buffer.put(&k, seq, kind, &v);
            assert_eq!(put.newest_before, before);
            model.insert((k, Reverse(seq)), (kind, v));
        }
        if round % 2 == 1 {
            let mark = seq - rng.below(n);
            buffer.undo_to(mark);
            model.retain(|k, _| k.1 .0 <= mark);
        }
        buffer.check();
        assert_eq!(buffer.entries(), model.len());
        assert!(buffer.iter().map(own).eq(all(&model)));
        check_scans(&buffer, &model, &mut rng, shape, space, seq);
        for _ in 0..n.min(300) {
            let (k, at) = (key(&mut rng, shape, space), rng.below(seq + 1));
            let mut out = Vec::new();
            let got = buffer.get(&k, at, &mut out).map(|(s, kind)| (s, kind, out));
            assert_eq!(got, newest_in(&model, &k, at));
            let (lo, hi) = (Bound::Excluded(&k[..]), Bound::Unbounded);
            let within = model.keys().filter(|(key, _)| *key > k).count() as u64;
            assert_eq!(buffer.weight(lo, hi).entries, within);
        }
        let newest: Vec<_> = buffer.iter_newest().map(own).collect();
        let visible = Versions::VisibleAt(SEQ_MAX);
        assert_eq!(newest, expected(&model, Bound::Unbounded, Bound::Unbounded, visible, false));
    }
    buffer.undo_to(0);
    assert!(buffer.is_empty() && buffer.iter().next().is_none());
    assert!(buffer.bytes() < 40_000, "{} bytes when empty", buffer.bytes());
}

#[test]
fn sorted_buffer_behaves_as_a_map_of_versions() {
    (0..6).for_each(|shape| sorted_buffer_is_a_map(shape, 77 + shape, (2500, 15_000)));
}

/// A buffer begins with few entries, in another form than many.
#[test]
fn few_entries_behave_as_many_do() {
    for seed in 0..600 {
        sorted_buffer_is_a_map(seed % 6, 1000 + seed, (1 + seed % 5, 3 + seed % 20));
    }
}

/// Otherwise a search for the next entry would pass the empty leaves and chunks at every step.
#[test]
fn a_rollback_to_a_savepoint_leaves_nothing_to_pass_over() {
    for shape in [0, 1, 3] {
        let mut buffer = SortedBuffer::new();
        let put = |buffer: &mut SortedBuffer, n: u64, seq: Seq| {
            buffer.put(&key_of(n, shape), seq, EntryKind::Put, b"value");
        };
        for (n, seq) in [(0, 1), (100_000, 2), (150_000, 3)] {
            put(&mut buffer, n, seq);
        }
        let before = buffer.bytes();
        (0..200_000).for_each(|n| put(&mut buffer, n, n + 4));
        buffer.check();
        buffer.undo_to(3);
        buffer.check();
        assert_eq!(buffer.entries(), 3);
        assert!(buffer.bytes() <= before + (16 << 10), "{} bytes", buffer.bytes());
        // The same again, backwards, and a part of it taken back.
        (0..200_000).rev().for_each(|n| put(&mut buffer, n, 300_000 - n));
        buffer.undo_to(200_000);
        buffer.check();
        assert_eq!(buffer.entries(), 3 + 100_000);
        for n in [0, 99_999, 100_000, 100_001, 150_000, 199_999] {
            let newest = buffer.newest(&key_of(n, shape)).map(|(seq, _)| seq);
            let first = [(0, 1), (100_000, 2), (150_000, 3)].into_iter().find(|f| f.0 == n);
            let want = if n >= 100_000 { Some(300_000 - n) } else { first.map(|f| f.1) };
            assert_eq!(newest, want, "{n}");
        }
    }
}

#[test]
fn put_over_keeps_one_version_after_the_mark() {
    for others in [0u8, 100] {
        let mut b = SortedBuffer::new();
        for n in 0..others {
            b.put(&[n], 1, EntryKind::Put, b"");
        }
        for seq in 1..=500u64 {
            let mark = if seq < 250 { 0 } else { 249 };
            let put = b.put_over(b"row", seq, EntryKind::Put, &seq.to_le_bytes(), mark);
            assert_eq!(put.newest_before, (seq > 1).then_some((seq - 1, EntryKind::Put)));
            assert!(b.entries() <= usize::from(others) + 2, "{} entries", b.entries());
        }
        b.check();
        assert_eq!(b.entries(), usize::from(others) + 2);
        assert_eq!(b.newest(b"row"), Some((500, EntryKind::Put)));
        b.undo_to(249);
        assert_eq!(b.newest(b"row"), Some((249, EntryKind::Put)));
    }
}

#[test]
fn versions_of_one_key_may_fill_many_chunks() {
    let n = 40_000u64;
    let (mut sorted, shared) = (SortedBuffer::new(), WriteBuffer::new());
    let mut model = Model::new();
    for seq in 1..=n {
        sorted.put(b"hot", seq, EntryKind::Put, &seq.to_le_bytes());
        shared.insert_batch([EntryRef {
            key: b"hot",
            seq,
            kind: EntryKind::Put,
            value: &seq.to_le_bytes(),
        }]);
        model.insert((b"hot".to_vec(), Reverse(seq)), (EntryKind::Put, seq.to_le_bytes().into()));
    }
    for at in [1, 2, 777, n / 2, n - 1, n, SEQ_MAX] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let want = Some((at.min(n), EntryKind::Put));
        assert_eq!((sorted.get(b"hot", at, &mut a), shared.get(b"hot", at, &mut b)), (want, want));
        assert_eq!((&a[..], &b[..]), (&at.min(n).to_le_bytes()[..], &at.min(n).to_le_bytes()[..]));
    }
    assert_eq!(shared.get(b"hot", 0, &mut Vec::new()), None);
    for backward in [false, true] {
        for b in [&sorted as &dyn Buffer, &shared] {
            for versions in [Versions::All, Versions::VisibleAt(n / 3)] {
                let got = scan_all(b, Bound::Unbounded, Bound::Unbounded, versions, 10, backward);
                let want = expected(&model, Bound::Unbounded, Bound::Unbounded, versions, backward);
                assert!(got == want);
            }
        }
    }
    shared.check();
}

#[test]
fn write_buffer_behaves_as_a_map_of_versions() {
    for shape in 0..6 {
        let mut rng = Rng(1234 + shape);
        let buffer = WriteBuffer::new();
        let mut model = Model::new();
        let space = 40_000;
        for seq in 1..=60u64 {
            let mut batch = BTreeMap::new();
            // Small batches leave entries in no order, large ones send backlogs down.
            let most = if rng.below(3) == 0 { 3000 } else { 40 };
            for _ in 0..1 + rng.below(most) {
                let put = match rng.below(6) {
                    0 => (EntryKind::Delete, Vec::new()),
                    _ => (EntryKind::Put, value(&mut rng)),
                };
                batch.insert(key(&mut rng, shape, space), put);
            }
            if rng.below(12) == 0 {
                let large = vec![rng.next() as u8; 60_000 + rng.below(10_000) as usize];
                batch.insert(key(&mut rng, shape, space), (EntryKind::Put, large));
            }
            write_both(&buffer, &mut model, seq, batch);
            // Readers, before anything is settled.
            for _ in 0..40 {
                let (k, at) = (key(&mut rng, shape, space), rng.below(seq + 2));
                let mut out = Vec::new();
                let got = buffer.get(&k, at, &mut out).map(|(s, kind)| (s, kind, out));
                assert_eq!(got, newest_in(&model, &k, at));
                let newest = newest_in(&model, &k, SEQ_MAX).map(|(s, kind, _)| (s, kind));
                assert_eq!(buffer.newest(&k), newest);
            }
            if seq % 10 == 0 {
                check_scans(&buffer, &model, &mut rng, shape, space, seq);
            }
            if seq % 30 == 0 {
                buffer.check();
                assert_eq!(buffer.entries(), model.len() as u64);
                check_scans(&buffer, &model, &mut rng, shape, space, seq);
            }
        }
        assert_eq!((buffer.min_seq(), buffer.max_seq()), (Some(1), Some(60)));
        buffer.freeze();
        for _ in 0..8 {
            let (a, b) = (key(&mut rng, shape, space), key(&mut rng, shape, space));
            let (lo, hi) = (random_bound(&mut rng, &a), random_bound(&mut rng, &b));
            let (lo, hi) = (lo.as_ref().map(|k| k.as_slice()), hi.as_ref().map(|k| k.as_slice()));
            let mut scan = buffer.iter_range(lo, hi);
            let mut got = Vec::new();
            while scan.valid() {
                got.push(own(scan.entry()));
                scan.advance().unwrap();
            }
            let want = expected(&model, lo, hi, Versions::All, false);
            assert!(got == want);
            assert_eq!(buffer.weight(lo, hi).entries, want.len() as u64);
        }
        let w = buffer.weight(Bound::Unbounded, Bound::Unbounded);
        assert_eq!((w.entries, w.bytes), (buffer.entries(), buffer.payload_bytes()));
        let bytes: usize = model.iter().map(|((k, _), (_, v))| 6 + k.len() + v.len()).sum();
        let long = model.values().filter(|(_, v)| v.len() > 65_535).count();
        assert_eq!(buffer.payload_bytes(), (bytes + 4 * long) as u64);
    }
}

/// A scan for few entries puts in order no more than it needs, and finds what only lies further on.
#[test]
fn scans_for_few_entries_find_what_lies_beyond_many_unseen_versions() {
    let buffer = WriteBuffer::new();
    let insert = |keys: &mut dyn Iterator<Item = u32>, seq: Seq| {
        let keys: Vec<[u8; 4]> = keys.map(|k| k.to_be_bytes()).collect();
        buffer.insert_batch(keys.iter().map(|key| EntryRef {
            key,
            seq,
            kind: EntryKind::Put,
            value: b"",
        }));
    };
    insert(&mut (0..5000), 10);
    insert(&mut [100u32, 4900].into_iter(), 5);
    insert(&mut (0..40).map(|i| i * 100 + 3), 7);
    let all = (Bound::Unbounded, Bound::Unbounded);
    for backward in [false, true] {
        let seen = |at| scan_all(&buffer, all.0, all.1, Versions::VisibleAt(at), 1, backward);
        assert_eq!(seen(5).len(), 2);
        assert_eq!(seen(7).len(), 42);
        assert_eq!(seen(9).len(), 42);
        assert_eq!(seen(10).len(), 5000);
        assert_eq!(seen(4).len(), 0);
    }
}

#[test]
fn a_sample_stands_for_all_entries_where_they_lie() {
    let buffer = WriteBuffer::new();
    let mut rng = Rng(11);
    for seq in 1..=30_000u64 {
        let key = rng.next().to_be_bytes();
        buffer.insert_batch([EntryRef { key: &key, seq, kind: EntryKind::Put, value: b"v" }]);
    }
    for (most, least) in [(1, 1), (100, 100), (100_000, 30_000)] {
        let (mut all, mut low, mut keys) = (0, 0, 0);
        buffer.sample(most, &mut |key, entries| {
            all += entries;
            low += if key < &[0x80][..] { entries } else { 0 };
            keys += 1;
        });
        assert_eq!(all, 30_000);
        assert!((least..=most.min(30_000) + 100).contains(&keys), "{most}: {keys}");
        assert!(most == 1 || (9_000..21_000).contains(&low), "{most}: {low} below the middle");
    }
}

#[test]
fn same_key_and_sequence_replaces() {
    let b = WriteBuffer::new();
    for v in [&b"old"[..], b"new"] {
        b.insert_batch([EntryRef { key: b"k", seq: 3, kind: EntryKind::Put, value: v }]);
    }
    let mut out = Vec::new();
    assert_eq!(b.get(b"k", 3, &mut out), Some((3, EntryKind::Put)));
    b.check();
    assert_eq!((b.entries(), &out[..]), (1, &b"new"[..]));
}

#[test]
#[should_panic(expected = "frozen")]
fn frozen_buffer_refuses_entries() {
    let b = WriteBuffer::new();
    b.freeze();
    b.insert_batch([EntryRef { key: b"k", seq: 1, kind: EntryKind::Put, value: b"" }]);
}

#[test]
fn cursor_steps_over_changes_of_the_buffer() {
    let mut b = SortedBuffer::new();
    for i in (0..1000u64).step_by(2) {
        b.put(&i.to_be_bytes(), i + 1, EntryKind::Put, b"");
    }
    let mut c = Cursor::new();
    let mut at = c.seek(&b, Bound::Unbounded).map(|e| e.key.to_vec());
    let mut seen = Vec::new();
    let mut seq = 2000;
    while let Some(k) = at {
        // Behind the cursor, and far ahead of it: neither disturbs it.
        seq += 1;
        if !seen.is_empty() {
            b.put(&[&[0][..], &k].concat(), seq, EntryKind::Put, b"");
        }
        b.put(&[0xff; 9], seq, EntryKind::Put, b"");
        seen.push(k);
        at = c.next(&b).filter(|e| e.key.len() == 8).map(|e| e.key.to_vec());
    }
    assert!(seen.is_sorted() && seen.len() == 500, "{}", seen.len());
    b.undo_to(2000);
    let mut back = Vec::new();
    let mut at = c.seek_back(&b, Bound::Unbounded).map(|e| e.key.to_vec());
    while let Some(k) = at {
        back.push(k);
        b.undo_to(SEQ_MAX - 1);
        at = c.prev(&b).map(|e| e.key.to_vec());
    }
    back.reverse();
    assert_eq!(back.len(), 500);
    assert!(back.is_sorted());
    // The entry under the cursor vanishes: the neighbours are found all the same.
    c.seek(&b, Bound::Included(&500u64.to_be_bytes())).unwrap();
    b.undo_to(400);
    assert!(c.next(&b).is_none());
    assert_eq!(c.prev(&b).map(|e| e.key.to_vec()), Some(398u64.to_be_bytes().to_vec()));
}
