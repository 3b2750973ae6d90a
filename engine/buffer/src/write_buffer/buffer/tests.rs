//! Tests of the write buffer.

use frond_base::{EntryKind, EntrySource};

use super::*;
use crate::{Batch, Scan, Versions};

fn insert(buffer: &WriteBuffer, keys: std::ops::Range<u32>, seq: Seq) {
    let keys: Vec<[u8; 4]> = keys.map(u32::to_be_bytes).collect();
    let entry = |key| EntryRef { key, seq, kind: EntryKind::Put, value: b"" };
    buffer.insert_batch(keys.iter().map(|key| entry(&key[..])));
}

fn mix(n: u32) -> u32 {
    n.wrapping_mul(0x9e37_79b9)
}

fn only_shelf(buffer: &WriteBuffer) -> Arc<RwLock<Shelf>> {
    buffer.whole_directory().shelves[0].clone()
}

/// Two threads join the same backlog, and the slower one is done when the next backlog is on its way.
#[test]
fn what_two_threads_joined_is_put_in_place_once() {
    let buffer = WriteBuffer::new();
    insert(&buffer, 0..100, 1);
    let latch = only_shelf(&buffer);
    buffer.change(&mut latch.write(), Shelf::begin);
    let joining = || latch.read().joining().expect("a backlog is on its way");
    let (fast, slow) = (joining(), joining());
    buffer.land(&latch, &fast, fast.run(&[], usize::MAX));
    insert(&buffer, 50..200, 2);
    buffer.change(&mut latch.write(), Shelf::begin);
    buffer.land(&latch, &slow, slow.run(&[], usize::MAX));
    assert!(latch.read().is_descending(), "what was joined late has no place");
    buffer.join(&latch);
    assert!(!latch.read().is_descending());
    let newest = |k: u32| buffer.newest(&k.to_be_bytes()).map(|(seq, _)| seq);
    assert!((0..200).all(|k| newest(k) == Some(if k < 50 { 1 } else { 2 })));
    assert_eq!(buffer.entries(), 250);
    buffer.check();
}

#[test]
fn many_writers_of_one_shelf_do_not_join_the_same_twice() {
    let buffer = WriteBuffer::new();
    std::thread::scope(|threads| {
        for w in 0..4u32 {
            let buffer = &buffer;
            threads.spawn(move || {
                // So few keys that there is one shelf.
                for n in 0..60u32 {
                    let mut keys: Vec<[u8; 4]> = (0..1000)
                        .map(|i| (mix(n * 1000 + i) % 1500 * 4 + w).to_be_bytes())
                        .collect();
                    keys.sort_unstable();
                    keys.dedup();
                    let seq = 1;
                    let entry = |key| EntryRef { key, seq, kind: EntryKind::Put, value: b"v" };
                    buffer.insert_batch(keys.iter().map(|key| entry(&key[..])));
                }
            });
        }
    });
    assert_eq!(buffer.wasted.load(Relaxed), 0);
    buffer.check();
}

/// The same of a base whose records were gathered while a backlog went down.
#[test]
fn a_base_gathered_late_has_no_place() {
    let buffer = WriteBuffer::new();
    insert(&buffer, 0..200, 1);
    let latch = only_shelf(&buffer);
    let descend = || {
        buffer.change(&mut latch.write(), Shelf::begin);
        buffer.join(&latch);
    };
    descend();
    let base = latch.read().base().clone();
    insert(&buffer, 100..300, 2);
    descend();
    buffer.change(&mut latch.write(), |shelf| shelf.replace(&base, base.gathered()));
    assert_eq!(buffer.entries(), 400);
    assert_eq!(buffer.newest(&250u32.to_be_bytes()), Some((2, EntryKind::Put)));
    buffer.check();
}

/// A flush merges all of a shelf into one base, even above the size at which a shelf is divided.
#[test]
fn large_values_are_all_there_when_a_buffer_is_frozen() {
    let value = vec![7; 200_000];
    for most in (20..400).step_by(20) {
        let buffer = WriteBuffer::new();
        for n in 0..most {
            let key = &mix(n).to_be_bytes();
            buffer.insert_batch([EntryRef { key, seq: 1, kind: EntryKind::Put, value: &value }]);
        }
        buffer.freeze();
        let mut scan = buffer.iter_range(Bound::Unbounded, Bound::Unbounded);
        let mut met = 0;
        while scan.valid() {
            met += u32::from(scan.entry().value == value);
            scan.advance().expect("memory can be read");
        }
        assert_eq!((met, buffer.entries()), (most, u64::from(most)));
        buffer.check();
    }
}

/// A thread starts the descent of a backlog that has entries which another thread has not counted yet.
#[test]
fn totals_are_never_below_nothing() {
    let buffer = WriteBuffer::new();
    let latch = only_shelf(&buffer);
    // No two fit into a small segment: a backlog of them takes twice the memory of the base that it becomes.
    let (seq, kind, value) = (1, EntryKind::Put, &[7; 2100][..]);
    for n in 0..200u32 {
        latch.write().push(&EntryRef { key: &n.to_be_bytes(), seq, kind, value });
    }
    buffer.ends.note(&0u32.to_be_bytes(), &199u32.to_be_bytes());
    let mut late = Tally::default();
    late.plus(&latch.read());
    late.minus(&Shelf::new());
    buffer.change(&mut latch.write(), Shelf::begin);
    assert!(buffer.bytes() < 1 << 20, "{} bytes", buffer.bytes());
    assert_eq!((buffer.entries(), buffer.is_empty()), (0, true));
    buffer.totals.add(late);
    buffer.check();
    assert_eq!(buffer.entries(), 200);
}

/// A shelf with entries that another thread has not counted yet is divided, and counted ones are cut off.
#[test]
fn what_was_counted_is_counted_while_a_shelf_is_divided() {
    let buffer = WriteBuffer::new();
    let latch = only_shelf(&buffer);
    let put = |key, value: &[u8]| {
        buffer.insert_batch([EntryRef { key, seq: 1, kind: EntryKind::Put, value }]);
    };
    put(b"y", &[7; 7 << 20]);
    put(b"z", &[7; 7 << 20]);
    assert_eq!(buffer.whole_directory().shelves.len(), 1);
    let (seq, kind, value) = (1, EntryKind::Put, &[7; 3 << 20][..]);
    let e = EntryRef { key: b"a", seq, kind, value };
    latch.write().push_alone(&e, alone(&e));
    buffer.change(&mut latch.write(), Shelf::begin);
    let joining = latch.read().joining().expect("a backlog is on its way");
    let joined = joining.run(&[], usize::MAX);
    let publishing = buffer.publishing.lock();
    std::thread::scope(|threads| {
        threads.spawn(|| buffer.land(&latch, &joining, joined));
        for _ in 0..20_000 {
            assert!(buffer.entries() >= 2, "{}", buffer.entries());
            std::thread::yield_now();
        }
        drop(publishing);
    });
    assert!(buffer.whole_directory().shelves.len() > 1, "nothing was divided");
}

/// A buffer of 60 000 keys, which are `mix` of the numbers below that.
fn filled() -> WriteBuffer {
    let buffer = WriteBuffer::new();
    for n in (0..60_000).step_by(100) {
        let mut keys: Vec<[u8; 4]> = (n..n + 100).map(|n| mix(n).to_be_bytes()).collect();
        keys.sort_unstable();
        let entry = |key| EntryRef { key, seq: 1, kind: EntryKind::Put, value: b"v" };
        buffer.insert_batch(keys.iter().map(|key| entry(&key[..])));
    }
    buffer
}

/// Scans forwards and backwards from `n` keys, `max_entries` each time.
fn scan_from(buffer: &WriteBuffer, n: u32, max_entries: usize) {
    let mut batch = Batch::new();
    for n in 0..n {
        let key = mix(n).to_be_bytes();
        let scan = Scan {
            from: Bound::Included(&key),
            to: Bound::Unbounded,
            versions: Versions::VisibleAt(SEQ_MAX),
            max_entries,
            max_bytes: usize::MAX,
        };
        match n % 2 {
            0 => buffer.scan_forward(&scan, &mut batch),
            _ => buffer.scan_backward(&scan, &mut batch),
        }
        assert_eq!(batch.key(0), key);
    }
}

#[test]
fn a_buffer_that_is_only_read_ends_up_in_order() {
    let buffer = filled();
    let is_tidy = |shelf: &Arc<RwLock<Shelf>>| {
        let shelf = shelf.read();
        shelf.is_settled() && shelf.base().is_gathered()
    };
    assert!(!buffer.whole_directory().shelves.iter().all(is_tidy));
    scan_from(&buffer, 20_000, 16);
    assert!(buffer.whole_directory().shelves.iter().all(is_tidy));
    assert_eq!(buffer.entries(), 60_000);
    buffer.check();
}

/// Some ten milliseconds.
#[test]
fn searches_that_take_one_entry_merge_backlogs_as_single_reads_do() {
    let buffer = filled();
    let is_settled = |shelf: &Arc<RwLock<Shelf>>| shelf.read().is_settled();
    assert!(!buffer.whole_directory().shelves.iter().all(is_settled));
    scan_from(&buffer, 5_000, 1);
    assert!(buffer.whole_directory().shelves.iter().all(is_settled));
}
