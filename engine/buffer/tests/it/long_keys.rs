//! Keys around the lengths at which records change their form, up to the longest: they differ in their last
//! bytes alone, or are the beginning of each other.

use std::cmp::Reverse;
use std::ops::Bound;

use frond_base::{EntryKind, EntryRef, Seq, SEQ_MAX};
use frond_buffer::{SortedBuffer, Versions, WriteBuffer, MAX_KEY};

use crate::support::{all, expected, newest_in, own, scan_all, Model, Rng};

/// Lengths of keys, and how many there are of each.
const LENGTHS: [(usize, u64); 9] = [
    (3500, 300),
    (4095, 300),
    (4096, 300),
    (4097, 300),
    (32_700, 60),
    (32_760, 60),
    (65_535, 40),
    (65_600, 40),
    (MAX_KEY, 6),
];

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let (length, many) = LENGTHS[rng.below(LENGTHS.len() as u64) as usize];
    let mut key = vec![b'p'; length];
    match rng.below(20) {
        0 => {}
        1 => key.truncate(1 + rng.below(3) as usize),
        _ => key[length - 2..].copy_from_slice(&(rng.below(many) as u16).to_be_bytes()),
    }
    key
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    vec![7; [0, 3, 1024, 1025, 70_000][rng.below(5) as usize] % (1 + rng.below(80_000) as usize)]
}

#[test]
fn a_shared_buffer_tells_long_keys_apart() {
    let buffer = WriteBuffer::new();
    let mut model = Model::new();
    let mut rng = Rng(5);
    for seq in 1..=40u64 {
        let mut keys: Vec<Vec<u8>> = (0..20).map(|_| random_key(&mut rng)).collect();
        keys.sort();
        keys.dedup();
        let value = random_value(&mut rng);
        let entry = |key| EntryRef { key, seq, kind: EntryKind::Put, value: &value };
        buffer.insert_batch(keys.iter().map(|k| entry(&k[..])));
        model.extend(
            keys.iter().map(|k| ((k.clone(), Reverse(seq)), (EntryKind::Put, value.clone()))),
        );
        for _ in 0..20 {
            let (k, at) = (random_key(&mut rng), rng.below(seq + 2));
            let got = buffer.get(&k, at, &mut Vec::new());
            assert_eq!(got, newest_in(&model, &k, at).map(|(s, kind, _)| (s, kind)));
        }
    }
    for (versions, backward) in [
        (Versions::VisibleAt(30), false),
        (Versions::VisibleAt(30), true),
        (Versions::All, false),
        (Versions::All, true),
    ] {
        let got = scan_all(&buffer, Bound::Unbounded, Bound::Unbounded, versions, 7, backward);
        let want = expected(&model, Bound::Unbounded, Bound::Unbounded, versions, backward);
        assert!(got == want);
    }
    buffer.check();
    assert_eq!(buffer.entries(), model.len() as u64);
}

#[test]
fn a_write_set_tells_long_keys_apart_and_undoes_them() {
    let mut buffer = SortedBuffer::new();
    let mut model = Model::new();
    let mut rng = Rng(6);
    let mut seq: Seq = 0;
    for round in 0..6 {
        for _ in 0..150 {
            seq += 1;
            let (key, value) = (random_key(&mut rng), random_value(&mut rng));
            buffer.put(&key, seq, EntryKind::Put, &value);
            model.insert((key, Reverse(seq)), (EntryKind::Put, value));
        }
        if round % 2 == 1 {
            let mark = seq - rng.below(100);
            buffer.undo_to(mark);
            model.retain(|k, _| k.1 .0 <= mark);
        }
        buffer.check();
        assert!(buffer.iter().map(own).eq(all(&model)));
        let bytes: usize = model.iter().map(|((k, _), (_, v))| k.len() + v.len()).sum();
        assert!(buffer.bytes() >= bytes, "{} for {bytes}", buffer.bytes());
        for _ in 0..50 {
            let (key, mut value) = (random_key(&mut rng), Vec::new());
            let got = buffer.get(&key, SEQ_MAX, &mut value);
            let want = newest_in(&model, &key, SEQ_MAX);
            assert_eq!(got, want.as_ref().map(|(s, kind, _)| (*s, *kind)));
            assert!(want.is_none_or(|w| w.2 == value));
        }
    }
    buffer.undo_to(0);
    assert!(buffer.is_empty() && buffer.bytes() < 40_000);
}
