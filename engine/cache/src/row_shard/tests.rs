//! Admission, replacement and accounting of one shard.

use std::collections::HashMap;

use frond_base::{TableId, SEQ_MAX};

use super::*;

const TAGS: usize = 256;

fn put(seq: Seq) -> CachedRow {
    CachedRow { seq, kind: Some(EntryKind::Put) }
}

fn name(key: &[u8]) -> RowKey<'_> {
    RowKey::new(TableId(1), 3, key)
}

impl RowShard {
    /// Checks RSH1 and RSH2.
    fn verify(&self) {
        let data: usize = self.slots.iter().map(|s| block(s.data.len())).sum();
        let tables = SLOT * self.slots.capacity() + 4 * self.heads.len() + 2 * self.seen.len();
        assert_eq!(self.bytes, data + tables);
        assert!(self.bytes <= self.limit || self.bytes == 0);
        let mut listed = vec![false; self.slots.len()];
        let mut walk = |mut at: u32, state: &dyn Fn(&Slot) -> bool| {
            let mut n = 0;
            while at != NIL {
                let slot = &self.slots[at as usize];
                assert!(state(slot) && !std::mem::replace(&mut listed[at as usize], true));
                (at, n) = (slot.next, n + 1);
            }
            n
        };
        let mut live = 0;
        for (bucket, head) in self.heads.iter().enumerate() {
            live += walk(*head, &|s| s.state != State::Free && self.bucket(s.hash) == bucket);
        }
        walk(self.free, &|s| s.state == State::Free);
        assert_eq!(live, self.live);
        assert!(listed.iter().all(|l| *l), "every slot is in a list");
    }
}

#[test]
fn lists_bytes_and_rows_agree_with_a_map_under_random_operations() {
    let mut n = 1u64;
    let mut below = |k: u64| {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (n >> 33) % k
    };
    let mut shard = RowShard::new(30_000, TAGS);
    // What was admitted last; the shard may have lost it.
    let mut model: HashMap<Vec<u8>, (CachedRow, Vec<u8>)> = HashMap::new();
    let mut found = 0;
    for step in 0..60_000u64 {
        let key = format!("key{}", below(400)).into_bytes();
        let name = name(&key);
        let kind = [Some(EntryKind::Put), Some(EntryKind::Delete), None][below(3) as usize];
        let row = CachedRow { seq: below(1_000), kind };
        let len = if below(50) == 0 { below(5_000) } else { below(300) };
        let value = vec![step as u8; if kind == Some(EntryKind::Put) { len as usize } else { 0 }];
        match below(20) {
            0..=4 => {
                shard.insert(&name, row, &value);
                model.insert(key, (row, value));
            }
            5..=7 => {
                let there = shard.find(&name).is_some();
                shard.update(&name, row, &value);
                if there {
                    model.insert(key, (row, value));
                }
            }
            8 => {
                shard.meet(&name);
            }
            9 if step % 7 == 0 => shard.sweep(),
            10 if step % 50 == 0 => shard.remove_if(|_, _, k| k.ends_with(b"7")),
            11 if step % 100 == 0 => shard.set_limit([400, 4_000, 30_000][below(3) as usize]),
            _ => {
                let at = below(1_000);
                let mut got = b"before".to_vec();
                if let Some(row) = shard.get(&name, at, Some(&mut got)) {
                    let (wanted, value) = &model[&key];
                    assert_eq!((&row, &got[6..]), (wanted, &value[..]));
                    assert!(row.seq <= at);
                    found += 1;
                }
            }
        }
        if step % 16 == 0 {
            shard.verify();
        }
    }
    assert!(found > 2_000 && shard.stats.evicted > 1_000, "{found} {:?}", shard.stats);
}

#[test]
fn only_the_second_meeting_counts_and_a_scan_evicts_nothing() {
    let mut shard = RowShard::new(200_000, TAGS);
    let keys = |from: u32, upto: u32| (from..upto).map(|n| n.to_be_bytes());
    let read = |shard: &mut RowShard, key: &[u8]| {
        if shard.get(&name(key), SEQ_MAX, None).is_some() {
            return true;
        }
        if shard.meet(&name(key)) {
            shard.insert(&name(key), put(1), &[7; 224]);
        }
        false
    };
    for _ in 0..20 {
        keys(0, 100).for_each(|k| _ = read(&mut shard, &k));
    }
    let hot = shard.len();
    assert!(hot >= 95, "{hot}");
    // Once each: tags are all that a scan leaves, and one row in some thousands that is taken for another.
    keys(1_000, 200_000).for_each(|k| _ = read(&mut shard, &k));
    assert!(shard.len() < hot + 60, "{} rows", shard.len());
    assert_eq!(keys(0, 100).filter(|k| read(&mut shard, k)).count(), hot);
    shard.verify();
}

#[test]
fn rows_that_are_read_outlive_those_that_are_not_and_sweeps_tell_them_apart() {
    let mut shard = RowShard::new(100_000, TAGS);
    let insert = |shard: &mut RowShard, n: u32| {
        let key = n.to_be_bytes();
        shard.insert(&name(&key), put(1), &[1; 224]);
    };
    let read =
        |shard: &mut RowShard, n: u32| shard.get(&name(&n.to_be_bytes()), SEQ_MAX, None).is_some();
    (0..50).for_each(|n| insert(&mut shard, n));
    for n in 50..5_000 {
        insert(&mut shard, n);
        (0..50).for_each(|n| assert!(read(&mut shard, n), "{n}"));
    }
    let before = shard.len();
    assert!(before > 200);
    // Four rounds of the hand.
    for _ in 0..32 {
        shard.sweep();
        (0..50).for_each(|n| assert!(read(&mut shard, n), "{n}"));
    }
    assert_eq!(shard.len(), 50);
    shard.verify();
    assert!(shard.bytes() < 30_000, "{} bytes of 50 rows", shard.bytes());
}

#[test]
fn a_row_that_a_snapshot_does_not_see_and_one_of_another_tree_are_not_found() {
    let mut shard = RowShard::new(20_000, TAGS);
    shard.insert(&name(b"a"), put(10), b"ten");
    assert_eq!(shard.get(&name(b"a"), 9, None), None);
    assert_eq!(shard.get(&name(b"a"), 10, None), Some(put(10)));
    assert_eq!(shard.get(&RowKey::new(TableId(1), 4, b"a"), 10, None), None);
    // Too large to be of use: the old version must not stay.
    shard.update(&name(b"a"), put(11), &[0; ROW_BYTES_MAX]);
    assert_eq!(shard.get(&name(b"a"), SEQ_MAX, None), None);
}
