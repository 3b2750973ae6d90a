//! Tests of the leaf.

use super::*;

fn put<'a>(key: &'a [u8], seq: Seq, value: &'a [u8]) -> EntryRef<'a> {
    EntryRef { key, seq, kind: EntryKind::Put, value }
}

fn add(leaf: &mut Leaf, e: EntryRef<'_>) -> bool {
    let (slot, exact) = leaf.find(e.key, e.seq);
    assert!(!exact);
    leaf.insert(slot, &e).is_ok()
}

#[test]
fn sequences_of_every_width_come_back() {
    let mut leaf = Leaf::<LEAF_ENTRIES>::new(0);
    let seqs = [0, 1, 0xffff, 0x1_0000, 0xffff_ffff, 1 << 32, (1 << 48) - 1, 1 << 48, u64::MAX];
    for s in seqs {
        assert!(add(&mut leaf, put(b"k", s, b"v")));
    }
    let got: Vec<_> = (0..leaf.len()).map(|i| leaf.entry(i).seq).collect();
    let mut want = seqs.to_vec();
    want.reverse();
    assert_eq!(got, want);
}

#[test]
fn equal_and_all_ones_heads_are_told_apart_by_the_key() {
    let mut leaf = Leaf::<LEAF_ENTRIES>::new(0);
    for tail in [3u8, 1, 2] {
        assert!(add(&mut leaf, put(&[&[0xff; 9][..], &[tail]].concat(), 7, b"")));
    }
    assert!(add(&mut leaf, put(&[0xff; 8], 7, b"")));
    let keys: Vec<_> = (0..4).map(|i| leaf.key(i).to_vec()).collect();
    assert!(keys.is_sorted());
    assert_eq!(leaf.find(&[0xff; 8], 7), (0, true));
    assert_eq!(leaf.find(&[0xff; 12], 7), (4, false));
}

#[test]
fn large_values_survive_removal_compaction_and_split() {
    let mut leaf = Leaf::<LEAF_ENTRIES>::new(0);
    let value = |i: u8| vec![i; if i.is_multiple_of(3) { 5000 } else { 300 }];
    for i in 0..90u8 {
        assert!(add(&mut leaf, put(&[i], u64::from(i), &value(i))));
    }
    assert_eq!(leaf.remove_newer(59), 30);
    let before = leaf.payload();
    let right = leaf.split(20, 0, 0);
    assert_eq!(before, leaf.payload() + right.payload());
    for (part, base) in [(&leaf, 0u8), (&right, 20)] {
        for slot in 0..part.len() {
            let i = base + slot as u8;
            assert_eq!(part.entry(slot), put(&[i], u64::from(i), &value(i)));
        }
    }
    assert_eq!((leaf.len(), right.len()), (20, 40));
}

#[test]
fn leaf_is_full_by_count_or_by_bytes() {
    let mut leaf = Leaf::<LEAF_ENTRIES>::new(0);
    for i in 0..LEAF_ENTRIES as u32 {
        assert!(add(&mut leaf, put(&i.to_be_bytes(), 1, b"")));
    }
    assert!(!add(&mut leaf, put(b"zzzz", 1, b"")));
    let mut leaf = Leaf::<LEAF_ENTRIES>::new(0);
    let mut n = 0u32;
    while add(&mut leaf, put(&[&n.to_be_bytes()[..], &[7; 3496]].concat(), 1, &[1; 1024])) {
        n += 1;
    }
    assert!(n >= 14 && leaf.len() == n as usize);
    assert_eq!(leaf.middle(), n as usize / 2);
}
