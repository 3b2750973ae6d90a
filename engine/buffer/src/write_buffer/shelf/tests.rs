//! Tests of the shelf.

use frond_base::{EntryKind, SEQ_MAX};

use super::*;
use crate::batch::{Batch, Scan, Versions};
use crate::write_buffer::merged::copy_merged;

pub fn push(shelf: &mut Shelf, key: &[u8], seq: Seq, value: &[u8]) {
    shelf.push(&EntryRef { key, seq, kind: EntryKind::Put, value });
}

/// Joins the descent; the shelf is not divided.
fn descend(shelf: &mut Shelf) {
    let joined = shelf.joining().map(|joining| joining.run(&[], usize::MAX));
    assert!(joined.and_then(|joined| shelf.land(joined)).is_none());
}

fn scan(shelf: &Shelf, backward: bool) -> Vec<(Vec<u8>, Seq, Vec<u8>)> {
    let scan = Scan {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
        versions: Versions::All,
        max_entries: usize::MAX,
        max_bytes: usize::MAX,
    };
    let mut batch = Batch::new();
    copy_merged(shelf, Bound::Unbounded, &scan, &mut batch, backward);
    batch.finish(true, backward, Versions::All);
    let own = |e: EntryRef<'_>| (e.key.to_vec(), e.seq, e.value.to_vec());
    (0..batch.len()).map(|i| own(batch.entry(i))).collect()
}

/// Entries in the base, the descent, a part and unsorted: the later ones are more recent.
#[test]
fn readers_see_the_most_recent_of_equal_versions_at_every_stage() {
    let mut shelf = Shelf::new();
    let see = |shelf: &Shelf, value: &[u8], seqs: &[Seq]| {
        let hot = shelf.get(b"hot", 3).map(|e| (e.seq, e.value.to_vec()));
        assert_eq!(hot, Some((3, value.to_vec())));
        for backward in [false, true] {
            let got = scan(shelf, backward);
            let hot: Vec<_> = got.iter().filter(|e| e.0 == b"hot").collect();
            assert_eq!(hot.iter().map(|e| e.1).collect::<Vec<_>>(), seqs);
            assert!(hot.iter().all(|e| e.1 != 3 || e.2 == value), "{got:?}");
            assert!(got.windows(2).all(|w| w[0].0 == w[1].0 || (w[0].0 < w[1].0) != backward));
        }
    };
    for (key, seq) in [(&b"a"[..], 1), (b"hot", 3), (b"hot", 1), (b"z", 1)] {
        push(&mut shelf, key, seq, b"base");
    }
    shelf.begin();
    see(&shelf, b"base", &[3, 1]);
    descend(&mut shelf);
    see(&shelf, b"base", &[3, 1]);
    push(&mut shelf, b"hot", 3, b"descent");
    push(&mut shelf, b"b", 2, b"descent");
    see(&shelf, b"descent", &[3, 1]);
    shelf.begin();
    assert!(shelf.is_descending());
    see(&shelf, b"descent", &[3, 1]);
    push(&mut shelf, b"hot", 2, b"part");
    push(&mut shelf, b"hot", 3, b"part");
    shelf.index();
    assert_eq!(shelf.log().unsorted(), 0);
    see(&shelf, b"part", &[3, 2, 1]);
    push(&mut shelf, b"y", 2, b"tail");
    push(&mut shelf, b"hot", 3, b"tail");
    push(&mut shelf, b"hot", 4, b"tail");
    see(&shelf, b"tail", &[4, 3, 2, 1]);
    assert_eq!(shelf.get(b"hot", SEQ_MAX).map(|e| e.seq), Some(4));
    assert_eq!(shelf.get(b"hot", 0).map(|e| e.seq), None);
    descend(&mut shelf);
    shelf.begin();
    descend(&mut shelf);
    assert!(shelf.is_settled());
    see(&shelf, b"tail", &[4, 3, 2, 1]);
    assert_eq!(shelf.entries(), 8);
    shelf.check();
}

/// Versions arrive in any order, some of them twice, while parts and descents are made.
#[test]
fn reads_find_the_newest_version_in_whatever_order_they_came() {
    let mut shelf = Shelf::new();
    let mut model = std::collections::BTreeMap::new();
    let mut number = 1u64;
    let mut below = |n: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (number >> 33) % n
    };
    for round in 1..=6000u64 {
        let (key, seq) = ([below(4) as u8], 1 + round / 10 + below(300) * below(2));
        let value = round.to_be_bytes();
        push(&mut shelf, &key, seq, &value);
        model.insert((key, seq), value);
        match below(400) {
            0 => shelf.index(),
            1 => descend(&mut shelf),
            2 if !shelf.is_descending() => shelf.begin(),
            3 => shelf.settle(&[]),
            _ => {}
        }
        let (key, at) = ([below(4) as u8], below(1000));
        let want = model.range(([key[0]], 0)..=([key[0]], at)).next_back();
        let got = shelf.get(&key, at).map(|e| (e.seq, e.value.to_vec()));
        assert_eq!(got, want.map(|((_, seq), v)| (*seq, v.to_vec())), "{key:?} at {at}");
    }
}

#[test]
fn keys_that_begin_alike_are_told_apart_by_their_heads() {
    let mut shelf = Shelf::new();
    for i in 0..500u64 {
        push(&mut shelf, &[&b"tenant-0001/orders/"[..], &i.to_be_bytes()].concat(), 1, b"");
    }
    shelf.begin();
    descend(&mut shelf);
    let head =
        |i: u64| shelf.head_prefix.head(&[&b"tenant-0001/orders/"[..], &i.to_be_bytes()].concat());
    assert!((1..500).all(|i| head(i - 1) < head(i)));
    // Keys without the prefix arrive: they have the extreme heads, and order is kept.
    for i in 0..600u64 {
        push(&mut shelf, &[&b"tenant-0000/"[..], &i.to_be_bytes()].concat(), 1, b"");
        push(&mut shelf, &[&b"zone/"[..], &i.to_be_bytes()].concat(), 1, b"");
    }
    shelf.begin();
    descend(&mut shelf);
    assert_eq!(shelf.entries(), 1700);
    shelf.check();
}

#[test]
fn records_of_dropped_versions_are_given_back() {
    let mut shelf = Shelf::new();
    for seq in 1..200_000u64 {
        push(&mut shelf, &[(seq % 7) as u8], seq, &[1; 100]);
        if shelf.is_due() {
            shelf.settle(&[seq]);
        }
    }
    shelf.settle(&[200_000]);
    assert_eq!(shelf.entries(), 7);
    assert!(shelf.memory() < 400 << 10, "{} bytes", shelf.memory());
    assert!(shelf.base.records.bytes() == 7 * (4 + 4 + 1 + 100), "{}", shelf.payload());
}
