//! Range locks: readers, writers, queues, deadlocks, memory.

use frond_txn::KeyRange;

use super::*;

const OK: Result<Granted, ErrorKind> = Ok(Granted::New);
const REFUSED: Result<Granted, ErrorKind> = Err(ErrorKind::LockNoWait);

fn range(text: &str) -> KeyRange {
    let (from, to) = text.split_once("..").unwrap();
    let to = (!to.is_empty()).then(|| to.as_bytes().to_vec());
    KeyRange { from: from.as_bytes().to_vec(), to }
}

fn read(l: &mut Locker, text: &str, mode: RowMode, wait: Wait) -> Result<Granted, ErrorKind> {
    l.lock_range(TREE, range(text), mode, wait).map_err(|e| e.kind())
}

fn write(l: &mut Locker, key: &str, wait: Wait) -> Result<Granted, ErrorKind> {
    l.lock_written(TREE, KeyRange::point(key.as_bytes()), wait).map_err(|e| e.kind())
}

#[test]
fn readers_keep_writers_out_of_their_ranges_and_of_no_more() {
    let t = table();
    let (mut a, mut b, mut c) = (t.locker(TxnId(1)), t.locker(TxnId(2)), t.locker(TxnId(3)));
    assert!(!t.has_readers());
    assert_eq!(read(&mut a, "d..m", S, Wait::NoWait), OK);
    assert!(t.has_readers());
    assert_eq!(read(&mut b, "f..z", S, Wait::NoWait), OK);
    for (key, outcome) in [("c", OK), ("d", REFUSED), ("l~", REFUSED), ("y", REFUSED), ("z", OK)] {
        assert_eq!(write(&mut c, key, Wait::NoWait), outcome, "{key}");
    }
    // The owner of a range may write in it as long as nobody else reads it.
    assert_eq!(write(&mut a, "e", Wait::NoWait), OK);
    assert_eq!(write(&mut a, "g", Wait::NoWait), REFUSED);
    assert_eq!(read(&mut b, "d..f", S, Wait::NoWait), REFUSED);
    assert_eq!(read(&mut b, "..", X, Wait::NoWait), REFUSED);
    drop(b);
    assert_eq!(write(&mut a, "g", Wait::NoWait), OK);
    // Writers do not keep each other out: rows' locks do that.
    drop(a);
    assert!(!t.has_readers());
    assert_eq!(write(&mut c, "g", Wait::NoWait), OK);
    assert_eq!(c.lock_range(OTHER, range(".."), X, Wait::NoWait).unwrap(), Granted::New);
    drop(c);
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn locks_that_moved_to_another_locker_outlive_the_first() {
    let t = table();
    let (mut first, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert_eq!(read(&mut first, "d..m", S, Wait::NoWait), OK);
    assert_eq!(lock(&mut first, "row", X, Wait::NoWait), OK);
    let (handle, moved) = (first.handle(), first.take());
    drop(first);
    assert_eq!(write(&mut b, "e", Wait::NoWait), REFUSED);
    assert_eq!(lock(&mut b, "row", S, Wait::NoWait), REFUSED);
    assert!(t.interrupt(TxnId(1)) && handle.is_interrupted() && moved.id() == TxnId(1));
    drop(moved);
    assert!(!t.interrupt(TxnId(1)), "nobody of this name is left");
    assert_eq!(write(&mut b, "e", Wait::NoWait), OK);
    assert_eq!(lock(&mut b, "row", S, Wait::NoWait), OK);
    drop(b);
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

#[test]
fn ends_of_an_index_and_empty_ranges_are_locked() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert_eq!(read(&mut a, "..b", X, Wait::NoWait), OK);
    assert_eq!(read(&mut a, "x..", X, Wait::NoWait), OK);
    for (key, outcome) in [("a", REFUSED), ("\0", REFUSED), ("b", OK), ("w", OK), ("zz", REFUSED)] {
        assert_eq!(write(&mut b, key, Wait::NoWait), outcome, "{key}");
    }
    assert_eq!(read(&mut b, "a..c", S, Wait::NoWait), REFUSED);
    assert_eq!(read(&mut b, "b..x", S, Wait::NoWait), OK);
}

#[test]
fn ranges_that_touch_become_one_and_very_many_become_one() {
    let t = table();
    let mut a = t.locker(TxnId(1));
    for text in ["b..d", "f..h", "d..f"] {
        assert_eq!(read(&mut a, text, S, Wait::NoWait), OK);
    }
    assert_eq!(read(&mut a, "b..h", S, Wait::NoWait), Ok(Granted::AlreadyHeld));
    assert_eq!(t.locks(10).len(), 1);
    let bytes = t.memory_bytes();
    for n in 0..10_000 {
        assert!(write(&mut a, &format!("{:05}", n * 7 % 10_000), Wait::NoWait).is_ok());
    }
    assert!(t.locks(1000).len() <= 66, "{} ranges", t.locks(1000).len());
    assert!(t.memory_bytes() < bytes + 20_000);
    drop(a);
    assert_eq!(t.memory_bytes(), 0);
}

#[test]
fn no_range_is_made_larger_than_others_allow() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert_eq!(read(&mut b, "05000..05001", S, Wait::NoWait), OK);
    for n in (0..200).map(|n| n * 50).filter(|n| *n != 5000) {
        assert_eq!(write(&mut a, &format!("{n:05}"), Wait::NoWait), OK);
    }
    assert_eq!(write(&mut a, "05000", Wait::NoWait), REFUSED);
}

#[test]
fn writer_waits_for_the_reader_and_later_readers_for_the_writer() {
    let t = table();
    let mut a = t.locker(TxnId(1));
    assert_eq!(read(&mut a, "b..d", S, LONG), OK);
    std::thread::scope(|scope| {
        let mut b = t.locker(TxnId(2));
        let writer = scope.spawn(move || {
            assert_eq!(write(&mut b, "c", LONG), OK);
            b
        });
        until_waiting(&t, 1);
        let wait = &t.waits()[0];
        assert_eq!((wait.waiter, wait.blockers.as_slice()), (TxnId(2), &[TxnId(1)][..]));
        assert_eq!(wait.range, Some(KeyRange::point(b"c")));
        let mut c = t.locker(TxnId(3));
        assert_eq!(read(&mut c, "a..z", S, Wait::NoWait), REFUSED);
        assert_eq!(read(&mut c, "d..z", S, Wait::NoWait), OK);
        // An owner does not wait for owners that wait for it.
        assert_eq!(read(&mut a, "a..e", S, Wait::NoWait), OK);
        a.release_all();
        drop(writer.join().unwrap());
        assert_eq!(read(&mut c, "a..z", S, Wait::NoWait), OK);
    });
    assert!(!t.has_readers());
    assert_eq!(t.memory_bytes(), 0);
}

#[test]
fn cycles_of_ranges_and_of_ranges_and_rows_are_broken() {
    for rows in [false, true] {
        let t = table();
        let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
        a.set_weight(9);
        assert_eq!(read(&mut a, "a..m", S, LONG), OK);
        if rows {
            assert_eq!(lock(&mut b, "row", X, LONG), OK);
        } else {
            assert_eq!(read(&mut b, "c..z", S, LONG), OK);
        }
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                let outcome = write(&mut b, "d", LONG);
                drop(b);
                outcome
            });
            until_waiting(&t, 1);
            let own = if rows { lock(&mut a, "row", X, LONG) } else { write(&mut a, "e", LONG) };
            assert_eq!(own, OK);
            assert_eq!(other.join().unwrap(), Err(ErrorKind::Deadlock));
        });
        assert_eq!(t.stats().deadlocks, 1);
    }
}

#[test]
fn waits_for_ranges_end_by_time_and_by_interrupt() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert_eq!(read(&mut a, "..", X, LONG), OK);
    let short = Wait::Block(Duration::from_millis(20));
    assert_eq!(read(&mut b, "b..c", S, short), Err(ErrorKind::LockTimeout));
    b.handle().interrupt();
    assert_eq!(write(&mut b, "b", LONG), Err(ErrorKind::Interrupted));
    drop(a);
    assert!(!t.has_readers());
    b.handle().clear_interrupt();
    assert_eq!(write(&mut b, "b", LONG), OK);
}

#[test]
fn what_is_imposed_on_a_prepared_owner_is_waited_for() {
    let t = table();
    let (mut a, mut b, mut c) = (t.locker(TxnId(1)), t.locker(TxnId(2)), t.locker(TxnId(3)));
    assert_eq!(read(&mut a, "a..z", S, LONG), OK);
    assert_eq!(read(&mut c, "b..m", S, LONG), OK);
    t.impose(&b.handle(), TREE, KeyRange::point(b"k"));
    // By all readers, however often they ask; not elsewhere, and the owner itself does not wait for them.
    for _ in 0..2 {
        t.impose(&b.handle(), TREE, KeyRange::point(b"k"));
        assert_eq!(read(&mut a, "a..z", S, Wait::NoWait), REFUSED);
        assert_eq!(read(&mut c, "b..m", S, Wait::NoWait), REFUSED);
        assert_eq!(read(&mut c, "b..k", S, Wait::NoWait), Ok(Granted::AlreadyHeld));
    }
    assert_eq!(write(&mut b, "k", Wait::NoWait), Ok(Granted::AlreadyHeld));
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || (read(&mut a, "a..z", S, LONG), a));
        until_waiting(&t, 1);
        drop(b);
        let (outcome, mut a) = reader.join().unwrap();
        assert_eq!(outcome, OK);
        assert_eq!(read(&mut a, "a..z", S, Wait::NoWait), Ok(Granted::AlreadyHeld));
    });
    assert_eq!(read(&mut c, "b..m", S, Wait::NoWait), Ok(Granted::AlreadyHeld));
    drop(c);
    assert_eq!((t.lock_count(), t.memory_bytes()), (0, 0));
}

/// Random readers and writers: nobody writes what another one has read.
#[test]
fn random_readers_and_writers_exclude_each_other() {
    let t = table();
    // Per key: readers, writers.
    let state = Arc::new(Mutex::new(vec![(0u32, 0u32); 32]));
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let (t, state) = (t.clone(), state.clone());
            scope.spawn(move || {
                let mut x = n + 1;
                let mut random = move |most: u64| {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (x >> 33) % most
                };
                for round in 0..400 {
                    let mut l = t.locker(TxnId(round * 4 + n + 1));
                    let (mut reads, mut writes) = (Vec::new(), Vec::new());
                    for _ in 0..3 {
                        let from = random(32) as usize;
                        let to = (from + 1 + random(8) as usize).min(32);
                        let key = |k: usize| format!("{k:02}");
                        if random(2) == 0 {
                            if read(&mut l, &format!("{}..{}", key(from), key(to)), S, LONG)
                                .is_err()
                            {
                                break;
                            }
                            reads.extend(from..to);
                            let mut all = state.lock().unwrap();
                            (from..to).for_each(|k| all[k].0 += 1);
                            let own = |k: usize| writes.iter().filter(|w| **w == k).count() as u32;
                            assert!(
                                (from..to).all(|k| all[k].1 == own(k)),
                                "a written key is read"
                            );
                        } else {
                            if write(&mut l, &key(from), LONG).is_err() {
                                break;
                            }
                            writes.push(from);
                            let mut all = state.lock().unwrap();
                            all[from].1 += 1;
                            let own = reads.iter().filter(|r| **r == from).count() as u32;
                            assert_eq!(all[from].0, own, "a read key is written");
                        }
                    }
                    let mut all = state.lock().unwrap();
                    reads.into_iter().for_each(|k| all[k].0 -= 1);
                    writes.into_iter().for_each(|k| all[k].1 -= 1);
                    drop(all);
                    drop(l);
                }
            });
        }
    });
    assert!(!t.has_readers());
    assert_eq!((t.memory_bytes(), t.waits().len()), (0, 0));
}
