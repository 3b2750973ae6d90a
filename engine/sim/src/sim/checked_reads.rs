//! Reads: each is compared with the model at the transaction's snapshot, own writes on top.

use std::ops::Bound;

use frond_engine::{Isolation, Seek};

use super::{fail, note, Check, Held, Sim};
use crate::model::{show, Dump, Key, Rows, TableNo, Value, Writes};

/// A neighbour in the model: committed rows of a state with own writes on top.
pub(super) struct View<'a> {
    pub rows: Option<&'a Rows>,
    pub writes: &'a Writes,
    pub table: TableNo,
}

impl View<'_> {
    fn get(&self, key: &[u8]) -> Option<Value> {
        match self.writes.get(&(self.table, key.to_vec())) {
            Some(own) => own.clone(),
            None => self.rows.and_then(|r| r.rows.get(key).cloned()),
        }
    }

    /// The row nearest to `key` in the sense of `how`; `None` as key means from the end.
    fn seek(&self, key: Option<&[u8]>, how: Seek) -> Option<(Key, Value)> {
        let mut key = key.map(<[u8]>::to_vec);
        let mut how = how;
        loop {
            let next = self.candidate(key.as_deref(), how)?;
            if let Some(value) = self.get(&next) {
                return Some((next, value));
            }
            key = Some(next);
            how = match how {
                Seek::Ge | Seek::Gt => Seek::Gt,
                Seek::Le | Seek::Lt => Seek::Lt,
            };
        }
    }

    /// As `seek`, own deletions included.
    fn candidate(&self, key: Option<&[u8]>, how: Seek) -> Option<Key> {
        let forward = matches!(how, Seek::Ge | Seek::Gt);
        let bound = match (key, how) {
            (None, _) => Bound::Unbounded,
            (Some(k), Seek::Ge | Seek::Le) => Bound::Included(k.to_vec()),
            (Some(k), Seek::Gt | Seek::Lt) => Bound::Excluded(k.to_vec()),
        };
        let own_bound = |b: &Bound<Key>| match b {
            Bound::Unbounded if forward => Bound::Included((self.table, Vec::new())),
            Bound::Unbounded => Bound::Excluded((self.table + 1, Vec::new())),
            Bound::Included(k) => Bound::Included((self.table, k.clone())),
            Bound::Excluded(k) => Bound::Excluded((self.table, k.clone())),
        };
        let own = own_bound(&bound);
        let mine = if forward {
            self.writes.range((own, Bound::Unbounded)).next()
        } else {
            self.writes.range((Bound::Unbounded, own)).next_back()
        };
        let mine = mine.map(|((t, k), _)| (t, k)).filter(|(t, _)| **t == self.table);
        let mine = mine.map(|(_, k)| k.clone());
        let theirs = self.rows.and_then(|r| {
            let found = if forward {
                r.rows.range((bound.clone(), Bound::Unbounded)).next()
            } else {
                r.rows.range((Bound::Unbounded, bound.clone())).next_back()
            };
            found.map(|(k, _)| k.clone())
        });
        match (mine, theirs) {
            (Some(a), Some(b)) if forward => Some(a.min(b)),
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        }
    }
}

impl Sim {
    /// The state that transaction `i` reads now; takes the snapshot in the model as the engine does.
    fn snapshot(&mut self, i: usize) -> u64 {
        let now = self.model.now();
        *self.txns[i].snapshot.get_or_insert(now)
    }

    fn view(&self, i: usize, table: TableNo, at: u64) -> View<'_> {
        let rows = self.model.state(at).tables.get(&table).map(|t| &*t.rows);
        View { rows, writes: &self.txns[i].writes, table }
    }

    pub(super) fn get(&mut self) -> Check {
        let (Some(i), Some(table)) = (self.some_txn()?, self.some_table()) else { return Ok(()) };
        let key = self.some_key();
        let Some(handle) = self.handle(table)? else { return Ok(()) };
        self.txns[i].used.insert(table);
        let at = self.snapshot(i);
        let wanted = self.view(i, table, at).get(&key);
        let mut value = b"stale".to_vec();
        let got = self.txns[i].real.get(&handle, 0, &key, &mut value);
        note!(self, "  txn {} get {table} {} at {at}", self.txns[i].real.id(), show(&key));
        self.stats.reads += 1;
        let found = match got {
            Ok(found) => found,
            Err(e) if self.excused(&e) => {
                self.end(i);
                return self.after_failure(&e);
            }
            Err(e) => return fail(format!("get {}: {e:?}", show(&key))),
        };
        match wanted {
            Some(v) if found && v[..] == value[..] => {}
            None if !found => {}
            wanted => {
                let wanted = wanted.map(|v| show(&v));
                return fail(format!(
                    "get {} of table {table} at state {at}: found {found} {}, expected {wanted:?}",
                    show(&key),
                    show(&value)
                ));
            }
        }
        if self.txns[i].isolation == Isolation::ReadCommitted
            && self.txns[i].cursor.is_none()
            && self.rng.percent(60)
        {
            self.txns[i].real.end_statement();
            self.txns[i].snapshot = None;
        }
        Ok(())
    }

    /// Opens a cursor, positions it, walks some steps with turns, and may leave it open.
    pub(super) fn scan(&mut self) -> Check {
        let (Some(i), Some(table)) = (self.some_txn()?, self.some_table()) else { return Ok(()) };
        let Some(handle) = self.handle(table)? else { return Ok(()) };
        self.txns[i].used.insert(table);
        let at = self.snapshot(i);
        let key = self.some_key();
        let how = [Seek::Ge, Seek::Gt, Seek::Le, Seek::Lt][self.rng.index(4)];
        let from_end = self.rng.percent(30);
        let engine = self.engine.as_ref().unwrap_or_else(|| unreachable!("open between steps"));
        let mut cursor = match engine.cursor(&mut self.txns[i].real, &handle, 0) {
            Ok(cursor) => cursor,
            Err(e) => return fail(format!("a cursor is refused: {e}")),
        };
        let forward = matches!(how, Seek::Ge | Seek::Gt);
        let real = &self.txns[i].real;
        let got = match (from_end, forward) {
            (false, _) => cursor.seek(real, &key, how),
            (true, true) => cursor.first(real),
            (true, false) => cursor.last(real),
        };
        note!(self, "  txn {} scan {table} {how:?} {} at {at}", real.id(), show(&key));
        let wanted = self.view(i, table, at).seek((!from_end).then_some(&key[..]), how);
        let mut held = Held { cursor, table, key: Vec::new(), at };
        if !self.same_place(i, got, &mut held, wanted)? {
            return Ok(());
        }
        let steps = [3, 30, 2000][self.rng.weighted(&[4, 3, 1])];
        let turn = self.rng.percent(30);
        let mut forward = forward;
        for _ in 0..steps {
            if turn && self.rng.percent(20) {
                forward = !forward;
            }
            if !self.walk(i, &mut held, forward)? {
                return Ok(());
            }
        }
        if i < self.txns.len() {
            self.txns[i].cursor = Some(held);
        }
        Ok(())
    }

    /// One step; false when the cursor has no position any more, or the transaction ended.
    fn walk(&mut self, i: usize, held: &mut Held, forward: bool) -> Check<bool> {
        let real = &self.txns[i].real;
        let got = if forward { held.cursor.next(real) } else { held.cursor.prev(real) };
        let how = if forward { Seek::Gt } else { Seek::Lt };
        let wanted = self.view(i, held.table, held.at).seek(Some(&held.key), how);
        self.same_place(i, got, held, wanted)
    }

    pub(super) fn cursor_step(&mut self) -> Check {
        let holders: Vec<usize> =
            (0..self.txns.len()).filter(|&i| self.txns[i].cursor.is_some()).collect();
        if holders.is_empty() {
            return self.scan();
        }
        let i = holders[self.rng.index(holders.len())];
        let Some(mut held) = self.txns[i].cursor.take() else { return Ok(()) };
        note!(self, "  txn {} steps its cursor at {}", self.txns[i].real.id(), show(&held.key));
        let forward = self.rng.percent(60);
        for _ in 0..self.rng.range(1, 20) {
            if !self.walk(i, &mut held, forward)? {
                return Ok(());
            }
        }
        self.txns[i].cursor = Some(held);
        Ok(())
    }

    /// Compares the cursor's place with the wanted one.
    fn same_place(
        &mut self,
        i: usize,
        got: frond_engine::Result<bool>,
        held: &mut Held,
        wanted: Option<(Key, Value)>,
    ) -> Check<bool> {
        self.stats.reads += 1;
        let valid = match got {
            Ok(valid) => valid,
            Err(e) if self.excused(&e) => {
                self.end(i);
                self.after_failure(&e)?;
                return Ok(false);
            }
            Err(e) => return fail(format!("cursor: {e:?}")),
        };
        let place = |c: &frond_engine::Cursor| format!("{} = {}", show(c.key()), show(c.value()));
        match wanted {
            None if !valid => Ok(false),
            Some((key, value))
                if valid && held.cursor.key() == &key[..] && held.cursor.value() == &value[..] =>
            {
                held.key = key;
                Ok(true)
            }
            wanted => {
                let found = if valid { place(&held.cursor) } else { "no row".into() };
                let wanted = match &wanted {
                    Some((k, v)) => format!("{} = {}", show(k), show(v)),
                    None => "no row".into(),
                };
                fail(format!(
                    "cursor on table {} at state {}, from {}: {found}, expected {wanted}",
                    held.table,
                    held.at,
                    show(&held.key)
                ))
            }
        }
    }

    /// The whole database as it is now, compared with the newest state.
    pub(super) fn compare(&mut self) -> Check {
        let harmless = self.vfs.faults();
        self.vfs.set_faults(Default::default());
        let dump = dump(self.engine());
        self.vfs.set_faults(harmless);
        let mut dump = dump.map_err(|e| super::Failure(format!("reading everything: {e:?}")))?;
        self.list_handles(&mut dump);
        if dump.fingerprint() != self.model.latest().fingerprint() {
            let differences = dump.differences(self.model.latest());
            return fail(format!(
                "the open database differs from state {}: {:?}",
                self.model.now(),
                &differences[..differences.len().min(5)]
            ));
        }
        verify_counts(self.engine(), &dump)
    }
}

/// Reads all tables through cursors.
pub(super) fn dump(engine: &frond_engine::Engine) -> frond_engine::Result<Dump> {
    let mut out = Dump::default();
    super::prepared::list(engine, &mut out);
    let mut txn = engine.begin(frond_engine::TxnOptions::default());
    for def in engine.tables() {
        let table = engine.open_table(&def.name)?;
        let mut cursor = engine.cursor(&mut txn, &table, 0)?;
        let rows = out.tables.entry(def.name.clone()).or_default();
        let mut valid = cursor.first(&txn)?;
        while valid {
            rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
            valid = cursor.next(&txn)?;
        }
    }
    Ok(out)
}

/// The row counters must agree with the rows.
pub(super) fn verify_counts(engine: &frond_engine::Engine, dump: &Dump) -> Check {
    for (name, rows) in &dump.tables {
        let table = engine
            .open_table(name)
            .map_err(|e| super::Failure(format!("open table '{name}': {e:?}")))?;
        if table.rows() != rows.len() as u64 {
            return fail(format!(
                "table '{name}' counts {} rows and has {}",
                table.rows(),
                rows.len()
            ));
        }
    }
    Ok(())
}
