//! Transactions: writes, savepoints, commit, and the locks and conflicts that the model predicts.

use std::sync::Arc;
use std::time::Duration;

use frond_engine::{
    Durability, ErrorKind, Granted, Isolation, OnLocked, RowMode, Table, TxnOptions,
};

use super::{fail, note, Check, Loose, Sim, Txn};
use crate::machine::points::Phase;
use crate::model::{show, Key, TableNo, Value, Writes};
use crate::world::KeyStyle;

/// What the model says about locking a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expect {
    Granted,
    Refused,
    Conflict,
}

impl Sim {
    /// An open transaction's place, if there is one; may begin one.
    pub(super) fn some_txn(&mut self) -> Check<Option<usize>> {
        if self.txns.is_empty() {
            self.begin()?;
        }
        Ok((!self.txns.is_empty()).then(|| self.rng.index(self.txns.len())))
    }

    pub(super) fn some_table(&mut self) -> Option<TableNo> {
        let tables: Vec<TableNo> = self.model.latest().tables.keys().copied().collect();
        (!tables.is_empty()).then(|| tables[self.rng.index(tables.len())])
    }

    pub(super) fn some_key(&mut self) -> Key {
        let n = self.rng.below(self.world.keys);
        self.key(n)
    }

    pub(super) fn key(&self, n: u64) -> Key {
        match self.world.key_style {
            KeyStyle::Text => {
                let tail = "x".repeat((n % 7) as usize * (n % 3) as usize);
                format!("key {n:06}{tail}").into_bytes()
            }
            KeyStyle::Fixed => {
                let (a, b) = ((n % 13) as u32, n as u32);
                [a.to_be_bytes(), b.to_be_bytes()].concat()
            }
        }
    }

    /// A value that no other write has.
    pub(super) fn value(&mut self) -> Value {
        self.values += 1;
        let len = if self.world.large_values && self.rng.percent(3) {
            self.rng.range(5_000, 70_000)
        } else {
            self.rng.range(0, self.world.value_bytes)
        } as usize;
        if len == 0 {
            return Value::from(&[][..]);
        }
        let mut out = self.values.to_le_bytes().to_vec();
        // Half of it compresses.
        while out.len() < len {
            let word = if out.len() % 64 < 32 { self.rng.next() } else { self.values };
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.truncate(len);
        out.into()
    }

    pub(super) fn begin(&mut self) -> Check {
        if self.txns.len() >= self.world.transactions {
            return Ok(());
        }
        let isolation =
            if self.rng.percent(75) { Isolation::Snapshot } else { Isolation::ReadCommitted };
        let options =
            TxnOptions { isolation, lock_timeout: Duration::ZERO, ..TxnOptions::default() };
        let real = self.engine().begin(options);
        let mut txn = Txn {
            real,
            isolation,
            snapshot: None,
            writes: Writes::new(),
            savepoints: Vec::new(),
            cursor: None,
            used: Default::default(),
            loose: Vec::new(),
        };
        if self.rng.percent(40) {
            txn.real.snapshot();
            txn.snapshot = Some(self.model.now());
        }
        note!(self, "  begin {} {isolation:?} at {:?}", txn.real.id(), txn.snapshot);
        self.txns.push(txn);
        Ok(())
    }

    /// Whatever the limit; returns its place.
    pub(super) fn begin_one_more(&mut self) -> Check<usize> {
        let limit = std::mem::replace(&mut self.world.transactions, usize::MAX);
        let begun = self.begin();
        self.world.transactions = limit;
        begun.map(|()| self.txns.len() - 1)
    }

    /// What locking `key` must give, and the lock in the model when it is granted.
    fn expect_lock(&mut self, i: usize, table: TableNo, key: &[u8], mode: RowMode) -> Expect {
        let txn = &self.txns[i];
        let who = txn.real.id();
        let holders = self.locks.entry((table, key.to_vec())).or_default();
        if !holders.grants(who, mode) {
            return Expect::Refused;
        }
        holders.add(who, mode);
        for loose in &mut self.txns[i].loose {
            loose.again |= loose.table == table && loose.key == key;
        }
        let txn = &self.txns[i];
        let changed = self.model.last_write(table, key).unwrap_or(0);
        match txn.snapshot {
            Some(at) if txn.isolation == Isolation::Snapshot && changed > at => Expect::Conflict,
            _ => Expect::Granted,
        }
    }

    /// Compares what an operation on a row said with what the model expected. `Some` is a success.
    fn judge<T>(
        &mut self,
        i: usize,
        what: &str,
        expect: Expect,
        got: frond_engine::Result<T>,
    ) -> Check<Option<T>> {
        match (expect, got) {
            (Expect::Granted, Ok(v)) => Ok(Some(v)),
            (Expect::Refused, Err(e)) if e.kind() == ErrorKind::LockNoWait => {
                self.stats.lock_refusals += 1;
                Ok(None)
            }
            (Expect::Conflict, Err(e)) if e.kind() == ErrorKind::Conflict => {
                self.stats.conflicts += 1;
                self.end(i);
                Ok(None)
            }
            (_, Err(e)) if self.excused(&e) => {
                self.end(i);
                self.after_failure(&e)?;
                Ok(None)
            }
            (expect, Ok(_)) => fail(format!("{what}: succeeded, expected {expect:?}")),
            (expect, Err(e)) => fail(format!("{what}: {e:?}, expected {expect:?}")),
        }
    }

    pub(super) fn put(&mut self) -> Check {
        let (Some(i), Some(table)) = (self.some_txn()?, self.some_table()) else { return Ok(()) };
        let key = self.some_key();
        self.put_row(i, table, key).map(drop)
    }

    /// Puts a fresh value; false when the transaction ended or was refused.
    fn put_row(&mut self, i: usize, table: TableNo, key: Key) -> Check<bool> {
        let Some(handle) = self.handle(table)? else { return Ok(false) };
        let value = self.value();
        self.put_value(i, &handle, table, key, value)
    }

    pub(super) fn put_value(
        &mut self,
        i: usize,
        handle: &Arc<Table>,
        table: TableNo,
        key: Key,
        value: Value,
    ) -> Check<bool> {
        let must_be_new = self.rng.percent(10);
        let present = self.row_in(i, table, &key);
        note!(
            self,
            "  txn {} put {table} {} = {}",
            self.txns[i].real.id(),
            show(&key),
            show(&value)
        );
        let expect = self.expect_lock(i, table, &key, RowMode::X);
        self.txns[i].used.insert(table);
        let before = self.vfs.set_phase(Phase::Write);
        let got = self.txns[i].real.put(handle, &key, &value, must_be_new);
        self.vfs.set_phase(before);
        if expect == Expect::Granted && must_be_new && present {
            return match got {
                Err(e) if e.kind() == ErrorKind::DuplicateKey => Ok(true),
                Err(e) if self.excused(&e) => {
                    self.end(i);
                    self.after_failure(&e)?;
                    Ok(false)
                }
                other => fail(format!("put of a present key {}: {other:?}", show(&key))),
            };
        }
        let what = format!("put {} by {}", show(&key), self.txns[i].real.id());
        if self.judge(i, &what, expect, got)?.is_none() {
            return Ok(false);
        }
        self.txns[i].writes.insert((table, key), Some(value));
        Ok(true)
    }

    /// Whether the row is there for a writer: own writes, then the newest committed.
    fn row_in(&self, i: usize, table: TableNo, key: &[u8]) -> bool {
        match self.txns[i].writes.get(&(table, key.to_vec())) {
            Some(own) => own.is_some(),
            None => self
                .model
                .latest()
                .tables
                .get(&table)
                .is_some_and(|t| t.rows.rows.contains_key(key)),
        }
    }

    pub(super) fn delete(&mut self) -> Check {
        let (Some(i), Some(table)) = (self.some_txn()?, self.some_table()) else { return Ok(()) };
        let key = self.some_key();
        let Some(handle) = self.handle(table)? else { return Ok(()) };
        let present = self.row_in(i, table, &key);
        note!(self, "  txn {} delete {table} {}", self.txns[i].real.id(), show(&key));
        let expect = self.expect_lock(i, table, &key, RowMode::X);
        self.txns[i].used.insert(table);
        let before = self.vfs.set_phase(Phase::Write);
        let got = self.txns[i].real.delete(&handle, &key);
        self.vfs.set_phase(before);
        let what = format!("delete {}", show(&key));
        match self.judge(i, &what, expect, got)? {
            None => Ok(()),
            Some(found) if found != present => {
                fail(format!("{what}: found {found}, expected {present}"))
            }
            Some(_) => {
                if present {
                    self.txns[i].writes.insert((table, key), None);
                }
                Ok(())
            }
        }
    }

    pub(super) fn get_locked(&mut self) -> Check {
        let (Some(i), Some(table)) = (self.some_txn()?, self.some_table()) else { return Ok(()) };
        let key = self.some_key();
        let Some(handle) = self.handle(table)? else { return Ok(()) };
        let mode = if self.rng.percent(50) { RowMode::S } else { RowMode::X };
        note!(self, "  txn {} lock {mode:?} {table} {}", self.txns[i].real.id(), show(&key));
        self.txns[i].used.insert(table);
        if self.rng.percent(30) {
            return self.lock_only(i, table, &key, mode);
        }
        let expect = self.expect_lock(i, table, &key, mode);
        let own = self.txns[i].writes.get(&(table, key.clone())).cloned();
        let newest = self.model.latest().tables.get(&table);
        let committed = newest.and_then(|t| t.rows.rows.get(&key).cloned());
        let wanted = own.unwrap_or(committed);
        let mut value = b"stale".to_vec();
        let got = self.txns[i].real.get_locked(&handle, 0, &key, mode, &mut value);
        let what = format!("locked read of {}", show(&key));
        let Some(found) = self.judge(i, &what, expect, got)? else { return Ok(()) };
        self.stats.reads += 1;
        match wanted {
            Some(v) if found && v[..] == value[..] => Ok(()),
            None if !found => Ok(()),
            wanted => {
                let wanted = wanted.map(|v| show(&v));
                fail(format!("{what}: found {found} {}, expected {wanted:?}", show(&value)))
            }
        }
    }

    /// A lock that is given back, when it is new, now or after others were taken: the row did not match
    /// after all.
    fn lock_only(&mut self, i: usize, table: TableNo, key: &[u8], mode: RowMode) -> Check {
        let Some(handle) = self.handle(table)? else { return Ok(()) };
        let who = self.txns[i].real.id();
        let granted = self.locks.entry((table, key.to_vec())).or_default().grants(who, mode);
        let got = self.txns[i].real.lock(&handle, 0, key, mode, OnLocked::Fail);
        match got {
            Ok(Granted::New) if granted => {
                self.locks.entry((table, key.to_vec())).or_default().add(who, mode);
                let lock = self.txns[i].real.loosen_lock();
                let loose = &mut self.txns[i].loose;
                loose.push(Loose { lock, table, key: key.into(), again: false });
                if loose.len() > 8 || self.rng.percent(50) {
                    let n = self.txns[i].loose.len();
                    let which = self.rng.index(n);
                    return self.give_back(i, which);
                }
                Ok(())
            }
            // An upgrade stays.
            Ok(_) if granted => {
                self.expect_lock(i, table, key, mode);
                Ok(())
            }
            Err(e) if !granted && e.kind() == ErrorKind::LockNoWait => Ok(()),
            other => fail(format!("lock {}: {other:?}, expected {granted}", show(key))),
        }
    }

    /// Gives back that lock and no other, unless its row was asked for again.
    fn give_back(&mut self, i: usize, which: usize) -> Check {
        let txn = &mut self.txns[i];
        let loose = txn.loose.swap_remove(which);
        let who = txn.real.id();
        let gone = txn.real.give_lock_back(loose.lock);
        if gone == loose.again {
            let key = show(&loose.key);
            return fail(format!("lock of {key} given back: {gone}, asked again: {}", loose.again));
        }
        if gone {
            let holders = self.locks.entry((loose.table, loose.key.to_vec())).or_default();
            holders.shared.remove(&who);
            holders.exclusive.take_if(|x| *x == who);
        }
        Ok(())
    }

    pub(super) fn savepoint(&mut self) -> Check {
        let Some(i) = self.some_txn()? else { return Ok(()) };
        let n = self.txns[i].savepoints.len();
        if n > 0 && self.rng.percent(30) {
            let gone = self.rng.index(n);
            let (at, _) = self.txns[i].savepoints.remove(gone);
            self.txns[i].real.release(at);
            return Ok(());
        }
        let txn = &mut self.txns[i];
        let at = txn.real.savepoint();
        txn.savepoints.push((at, txn.writes.clone()));
        Ok(())
    }

    pub(super) fn rollback_to(&mut self) -> Check {
        let Some(i) = self.some_txn()? else { return Ok(()) };
        let n = self.txns[i].savepoints.len();
        if n == 0 {
            return Ok(());
        }
        let to = self.rng.index(n);
        let txn = &mut self.txns[i];
        let (at, writes) = txn.savepoints[to].clone();
        // The savepoint itself stays; those after it are gone.
        txn.savepoints.truncate(to + 1);
        txn.real.rollback_to(at);
        txn.writes = writes;
        Ok(())
    }

    pub(super) fn rollback(&mut self) -> Check {
        if let Some(i) = (!self.txns.is_empty()).then(|| self.rng.index(self.txns.len())) {
            self.end(i);
        }
        Ok(())
    }

    /// Drops the transaction, in the engine and in the model.
    pub(super) fn end(&mut self, i: usize) {
        let txn = self.txns.swap_remove(i);
        self.unlock(txn.real.id());
        note!(self, "  txn {} rolled back", txn.real.id());
        txn.real.rollback();
    }

    pub(super) fn unlock(&mut self, who: u64) {
        self.locks.retain(|_, h| {
            h.shared.remove(&who);
            if h.exclusive == Some(who) {
                h.exclusive = None;
            }
            h.exclusive.is_some() || !h.shared.is_empty()
        });
    }

    pub(super) fn commit_some(&mut self) -> Check {
        if self.txns.is_empty() {
            return Ok(());
        }
        if self.rng.percent(4) {
            let mode = [Durability::Sync, Durability::Write, Durability::EachSecond];
            self.durability = mode[self.rng.index(3)];
            self.engine().set_durability(self.durability);
        }
        let i = self.rng.index(self.txns.len());
        self.commit(i)
    }

    pub(super) fn commit(&mut self, i: usize) -> Check {
        let txn = self.txns.swap_remove(i);
        let (who, writes) = (txn.real.id(), txn.writes);
        drop(txn.cursor);
        let changes = !writes.is_empty();
        if changes {
            self.model.commit(&writes);
        }
        self.tell_bounds();
        note!(self, "  commit {who}: {} keys -> state {}", writes.len(), self.model.now());
        let before = self.vfs.set_phase(Phase::Commit);
        let got = txn.real.commit();
        self.vfs.set_phase(before);
        self.unlock(who);
        match got {
            Ok(end) if end.is_some() || !changes => {
                self.stats.commits += 1;
                // Without changes nothing is acknowledged.
                match self.durability {
                    Durability::Sync if changes => self.all_durable(),
                    Durability::Write if changes => self.written = self.model.now(),
                    _ => {}
                }
                Ok(())
            }
            Ok(end) => fail(format!("commit of {} changes gave {end:?}", writes.len())),
            Err(e) if !self.excused(&e) => fail(format!("commit: {e:?}")),
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                // Promised: rolled back, nothing logged.
                if changes {
                    self.model.take_back();
                }
                self.tell_bounds();
                self.stats.event("commit refused: disk full");
                self.after_failure(&e)
            }
            Err(e) => {
                note!(self, "  commit {who} failed: {e:?}");
                // Unknown until recovery.
                self.stats.failed_calls += 1;
                self.stats.event("commit failed, outcome unknown");
                self.restart_after_failure()
            }
        }
    }

    /// One transaction of many rows, neighbours or scattered.
    pub(super) fn bulk(&mut self) -> Check {
        let Some(table) = self.some_table() else { return Ok(()) };
        if self.txns.len() > self.world.transactions {
            return Ok(());
        }
        let i = self.begin_one_more()?;
        let rows = self.rng.range(1, self.world.bulk_rows);
        let first = self.rng.below(self.world.keys);
        let scattered = self.rng.percent(50);
        let deleting = self.rng.percent(20);
        for n in 0..rows {
            let n = if scattered { self.rng.below(self.world.keys) } else { first + n };
            let key = self.key(n % (2 * self.world.keys));
            if deleting {
                if !self.bulk_delete(i, table, key)? {
                    return Ok(());
                }
                continue;
            }
            let txns = self.txns.len();
            self.put_row(i, table, key)?;
            if self.txns.len() != txns {
                return Ok(());
            }
        }
        self.commit(i)
    }

    fn bulk_delete(&mut self, i: usize, table: TableNo, key: Key) -> Check<bool> {
        let Some(handle) = self.handle(table)? else { return Ok(false) };
        let present = self.row_in(i, table, &key);
        let expect = self.expect_lock(i, table, &key, RowMode::X);
        self.txns[i].used.insert(table);
        let before = self.vfs.set_phase(Phase::Write);
        let got = self.txns[i].real.delete(&handle, &key);
        self.vfs.set_phase(before);
        let txns = self.txns.len();
        let done = self.judge(i, "bulk delete", expect, got)?;
        if self.txns.len() != txns {
            return Ok(false);
        }
        match done {
            Some(found) if found != present => {
                fail(format!("delete {}: found {found}, expected {present}", show(&key)))
            }
            Some(true) => {
                self.txns[i].writes.insert((table, key), None);
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}
