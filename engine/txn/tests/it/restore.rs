//! What a locker lists as held exclusively, and taking it again.

use super::*;

#[test]
fn exclusive_locks_are_listed_and_restored() {
    let t = table();
    let mut a = t.locker(TxnId(1));
    let mut b = t.locker(TxnId(2));
    for (key, mode) in
        [("x", X), ("s", S), ("up", S), ("long key of more than thirty-eight bytes, it is", X)]
    {
        lock(&mut a, key, mode, LONG).unwrap();
    }
    lock(&mut b, "s", S, LONG).unwrap();
    lock(&mut a, "up", X, LONG).unwrap();
    a.lock(OTHER, b"row", X, LONG).unwrap();
    let third = TreeId { index: 2, ..TREE };
    a.lock_tree(third, TreeMode::X, LONG).unwrap();

    let mut all = a.exclusive(&|_| true);
    all.sort_by_key(|l| l.tree);
    assert_eq!(all.len(), 3);
    assert_eq!((all[0].tree, all[0].whole, all[0].keys.len()), (TREE, false, 3));
    assert_eq!((all[1].tree, &all[1].keys[..]), (OTHER, &[b"row".to_vec()][..]));
    assert!(all[2].whole && all[2].keys.is_empty() && all[2].tree == third);
    let some = a.exclusive(&|tree| tree == OTHER);
    assert_eq!(some.len(), 2, "whole trees always: {some:?}");

    // As after a restart, in a table that has no room for row locks.
    let t = LockTable::new(LockOptions { memory_limit: 0, ..LockOptions::default() });
    let mut again = t.locker(TxnId(9));
    for l in &all {
        assert!(again.restore(l.tree, l.whole, l.keys.iter().map(Vec::as_slice)));
    }
    assert_eq!(again.rows_locked(TREE), 3);
    let mut c = t.locker(TxnId(10));
    let refused =
        |c: &mut Locker, tree, key: &[u8]| c.lock(tree, key, S, Wait::NoWait).unwrap_err().kind();
    assert_eq!(refused(&mut c, TREE, b"up"), ErrorKind::LockNoWait);
    assert_eq!(refused(&mut c, OTHER, b"row"), ErrorKind::LockNoWait);
    assert_eq!(refused(&mut c, third, b"any"), ErrorKind::LockNoWait);
    assert!(!c.restore(TREE, false, [&b"x"[..]]));
    assert!(c.restore(TREE, false, [&b"other"[..]]));
    drop((again, c));
    assert_eq!(t.memory_bytes(), 0);
}

#[test]
fn shared_locks_of_rows_are_restored_beside_those_of_others_and_never_against_them() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert!(a.restore(TREE, false, [&b"mine"[..]]));
    assert!(a.restore_shared(TREE, b"mine") && a.restore_shared(TREE, b"parent"));
    assert_eq!(a.rows_locked(TREE), 2);
    assert!(b.restore_shared(TREE, b"parent") && !b.restore_shared(TREE, b"mine"));
    let mut c = t.locker(TxnId(3));
    assert!(c.lock(TREE, b"parent", X, Wait::NoWait).is_err());
    drop((a, b));
    assert!(c.lock(TREE, b"parent", X, Wait::NoWait).is_ok());
    drop(c);
    assert_eq!(t.memory_bytes(), 0);
}

/// A whole tree stands for rows of which each was locked beside what others have locked.
#[test]
fn a_shared_lock_of_a_whole_tree_is_restored_whatever_others_hold() {
    let t = table();
    let (mut a, mut b, mut d) = (t.locker(TxnId(1)), t.locker(TxnId(2)), t.locker(TxnId(4)));
    assert!(a.restore(TREE, false, [&b"a"[..]]) && b.restore(TREE, false, [&b"b"[..]]));
    let listed = a.exclusive(&|_| true);
    for _ in 0..2 {
        a.restore_shared_tree(OTHER);
        b.restore_shared_tree(TREE);
        d.restore_shared_tree(OTHER);
        d.restore_shared_tree(TREE);
    }
    a.restore_shared_tree(TREE);
    assert!(a.restore_shared(OTHER, b"row"));
    // Of a locker without changes of its own beside one whose S and IX became X.
    let mut e = t.locker(TxnId(5));
    assert!(e.restore_shared(TREE, b"e") && !e.restore_shared(TREE, b"a"));
    // What is written down for the next restart is what could be taken then.
    assert_eq!(a.exclusive(&|_| true), listed);
    let mut c = t.locker(TxnId(3));
    let mut refused = |tree, mode| c.lock(tree, b"any", mode, Wait::NoWait).is_err();
    assert!(refused(TREE, X) && refused(OTHER, X) && !refused(OTHER, S));
    e.release_all();
    b.release_all();
    a.release_all();
    assert!(refused(TREE, X) && !refused(TREE, S));
    d.release_all();
    assert!(!refused(TREE, X) && !refused(OTHER, X));
    drop((a, b, c, d, e));
    assert_eq!(t.memory_bytes(), 0);
}
