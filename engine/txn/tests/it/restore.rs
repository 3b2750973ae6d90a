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
fn shared_locks_are_restored_beside_those_of_others_and_never_against_them() {
    let t = table();
    let (mut a, mut b) = (t.locker(TxnId(1)), t.locker(TxnId(2)));
    assert!(a.restore(TREE, false, [&b"mine"[..]]));
    assert!(a.restore_shared(TREE, Some(b"mine")) && a.restore_shared(TREE, Some(b"parent")));
    assert_eq!(a.rows_locked(TREE), 2);
    assert!(b.restore_shared(TREE, Some(b"parent")) && !b.restore_shared(TREE, Some(b"mine")));
    assert!(!b.restore_shared(TREE, None) && b.restore_shared(OTHER, None));
    let mut c = t.locker(TxnId(3));
    assert!(c.lock(TREE, b"parent", X, Wait::NoWait).is_err());
    assert!(c.lock(OTHER, b"any", X, Wait::NoWait).is_err());
    drop((a, b));
    assert!(c.lock(TREE, b"parent", X, Wait::NoWait).is_ok());
    drop(c);
    assert_eq!(t.memory_bytes(), 0);
}
