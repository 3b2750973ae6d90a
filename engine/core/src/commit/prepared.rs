//! Prepared transactions: they can be committed or rolled back, whatever happens, and nothing can refuse the
//! commit. The decisions are in `docs/rfcs/0006-prepared-transactions.md`.
//!
//! - PX1. From before its prepare record is appended until its changes are in the buffers, or its rollback
//!   is in the log, a transaction has an entry in `prepared_set.rs`, and holds the log.
//! - PX2. What its end needs is there when it is prepared: room in the log, runs on disk, memory.
//! - PX3. Its locks are held until its end is in the log: then nobody else can have written its keys
//!   before that.
//! - PX4. The blocks of its private runs are not given back before its rollback is in the log, and not used
//!   again before that is durable.
//! - PX5. The commit record's place is the commit's place; the prepare record only has the content (C1 of
//!   `core.rs`). Buffers are told that they need the log from the prepare record on.
//!
//! Tested by `tests/it/prepared.rs` and the simulator.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;

use frond_base::{put_varint, Error, ErrorKind, Lsn, Result, TableId};
use frond_txn::{OwnerHandle, Wait};
use frond_wal::{Appended, Claim, KeptRoom};
use parking_lot::Mutex;

use crate::commit::core::{encode_entries, record_bytes, Core, News, Whole, SMALL_RECORD};
use crate::commit::memory::LARGE;
use crate::commit::prepared_set::{Entry, Parts, State, NOTHING};
use crate::commit::transaction::{OnLocked, Transaction};
use crate::commit::xid::Xid;
use crate::record::{
    self, AttachedRuns, CounterRecord, KIND_COMMIT_PREPARED, KIND_PREPARE, KIND_ROLLBACK_PREPARED,
};
use crate::table::Table;

/// Errors that come before a prepare record is appended.
const NOTHING_WAS_LOGGED: [ErrorKind; 6] = [
    ErrorKind::Exists,
    ErrorKind::Deadlock,
    ErrorKind::LockTimeout,
    ErrorKind::LockNoWait,
    ErrorKind::LockTableFull,
    ErrorKind::Interrupted,
];

/// Bytes that name a prepare record, at most.
const NAME_BYTES: usize = 16;

impl Transaction {
    /// Prepares: afterwards the transaction survives a crash, undecided, and its commit cannot be refused.
    /// As durable as the durability mode says.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] when another prepared transaction has this name; otherwise as
    /// [`Transaction::commit`]: before anything is logged it is rolled back, and after [`ErrorKind::Io`]
    /// and [`ErrorKind::Poisoned`] the next recovery finds out what it is.
    pub fn prepare(self, xid: Xid) -> Result<PreparedTransaction> {
        self.prepare_for(xid, false)
    }

    /// As [`Transaction::prepare`], under a name that others know and may end it by, also while the handle is alive.
    pub fn prepare_named(self, xid: Xid) -> Result<PreparedTransaction> {
        let prepared = self.prepare_for(xid, false)?;
        prepared.entry.named.store(true, Ordering::Release);
        Ok(prepared)
    }

    /// As [`Transaction::prepare`], for a coordinator (a binary log) that will soon end transactions in groups, in an
    /// order of its own. The thread that ends a group begins with the transaction that it has prepared itself. The log
    /// is then synced once for a group.
    pub fn prepare_coordinated(self, xid: Xid) -> Result<PreparedTransaction> {
        self.prepare_for(xid, true)
    }

    fn prepare_for(mut self, xid: Xid, coordinated: bool) -> Result<PreparedTransaction> {
        self.settle_all()?;
        let core = self.core.clone();
        if self.changes() == 0 {
            core.log_unlogged_counters(self.tables.values());
            let entry = core.keep_prepared(&xid, self.into_parts(), NOTHING, None, true)?;
            return Ok(PreparedTransaction { core, xid, entry, ended: None });
        }
        core.may_write()?;
        let (at, entry) = core.log_prepare(&xid, self)?;
        let prepared = PreparedTransaction { core: core.clone(), xid, entry, ended: None };
        if coordinated {
            let counts = core.acknowledge_coordinated(at.end)?;
            prepared.entry.coordinated.store(counts, Ordering::Release);
        } else {
            core.acknowledge(at.end)?;
        }
        Ok(prepared)
    }
}

/// A handle of a prepared transaction. Dropping it does not end the transaction: it stays prepared, and is
/// ended by its name ([`crate::Engine::commit_prepared`]).
pub struct PreparedTransaction {
    core: Arc<Core>,
    xid: Xid,
    /// Another transaction may have the name when this one was ended by it.
    entry: Arc<Entry>,
    /// Committed and visible.
    ended: Option<Ended>,
}

/// What is left to do after a commit.
struct Ended {
    end: Option<Lsn>,
    parts: Parts,
    /// For [`Core::wrote`].
    news: News,
    /// The commit attached runs.
    had_runs: bool,
}

impl PreparedTransaction {
    pub fn xid(&self) -> &Xid {
        &self.xid
    }

    /// Commits: visible to all snapshots from now on, not durable by itself. No sync, no wait for memory or disk
    /// space. Calls for several transactions one after the other give their commits this order.
    ///
    /// # Errors
    /// Only when the log is poisoned. The transaction stays prepared.
    pub fn commit_ordered(&mut self) -> Result<()> {
        if self.ended.is_none() {
            let ended = self.core.end_by_commit(&self.xid, &self.entry)?;
            self.ended = Some(ended.ok_or_else(|| not_prepared(&self.xid))?);
        }
        Ok(())
    }

    /// Commits if that is not done. With `wait`, durable as the durability mode says when it returns.
    pub fn commit(mut self, wait: bool) -> Result<Option<Lsn>> {
        self.commit_ordered()?;
        let Some(ended) = self.ended.take() else { return Ok(None) };
        self.core.after_commit(ended, wait)
    }

    /// Rolls back; as durable as the durability mode says when it returns.
    ///
    /// # Errors
    /// Only when the log is poisoned, or gets so.
    pub fn rollback(self) -> Result<()> {
        assert!(self.ended.is_none(), "a committed transaction is not rolled back");
        match self.core.end_by_rollback(&self.xid, &self.entry)? {
            true => Ok(()),
            false => Err(not_prepared(&self.xid)),
        }
    }
}

impl Drop for PreparedTransaction {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            // Without waiting, nothing fails.
            let _ = self.core.after_commit(ended, false);
        } else {
            self.entry.attached.store(false, Ordering::Release);
            if let Some(state) = &*self.entry.state.lock() {
                // No session is left that could be killed to end it.
                state.parts.locker.handle().set_label(0);
            }
        }
    }
}

fn not_prepared(xid: &Xid) -> Error {
    Error::new(ErrorKind::NotFound, format!("no transaction of the name {xid:?} is prepared"))
}

impl Core {
    /// Adds a prepared transaction; at [`NOTHING`] one that wrote nothing.
    pub(crate) fn keep_prepared(
        &self,
        xid: &Xid,
        parts: Parts,
        at: Lsn,
        room: Option<KeptRoom>,
        attached: bool,
    ) -> Result<Arc<Entry>> {
        let entry = Arc::new(Entry {
            owner: parts.locker.id(),
            needs_log_from: AtomicU64::new(at),
            attached: AtomicBool::new(attached),
            named: AtomicBool::new(false),
            since: self.shared.vfs.now(),
            coordinated: AtomicBool::new(false),
            thread: thread::current().id(),
            tables: parts.tables.values().iter().map(|t| t.id()).collect(),
            state: Mutex::new(Some(State { parts, at, room })),
        });
        self.prepared.add(xid, entry.clone())?;
        Ok(entry)
    }

    /// Room for the record by which a transaction that wrote to `tables` tables will end.
    pub(crate) fn room_for_end(&self, tables: &[Arc<Table>], claim: Claim) -> Result<KeptRoom> {
        let bytes = record_bytes(&[0; NAME_BYTES], tables);
        Ok(self.shared.wal.reserve(bytes, claim)?.keep())
    }

    fn log_prepare(
        self: &Arc<Self>,
        xid: &Xid,
        mut txn: Transaction,
    ) -> Result<(Appended, Arc<Entry>)> {
        let (owner, wait) = (txn.handle(), txn.wait(OnLocked::Wait));
        if !txn.spilled.is_empty() {
            txn.spill_rest()?;
            self.sync_private_runs(&txn)?;
        }
        let large = txn.writes.bytes() > LARGE;
        if large {
            self.pace(txn.writes.bytes() as u64 / 2, &owner)?;
        }
        let _memory = large.then(|| self.enter_large(txn.writes.bytes(), &owner)).transpose()?;
        let mut parts = txn.into_parts();
        let lent = tables_with_runs(&parts);
        let logged = self.log_parts(xid, &mut parts, large, wait, &owner);
        if logged.is_err() {
            // As at a rollback, before the locks go (TB2).
            self.log_unlogged_counters(parts.tables.values());
            // The runs' space has to be free first.
            drop(parts);
            lent.iter().for_each(|table| self.upkeep.give_back_later(table));
        }
        logged
    }

    fn log_parts(
        self: &Arc<Self>,
        xid: &Xid,
        parts: &mut Parts,
        large: bool,
        wait: Wait,
        owner: &OwnerHandle,
    ) -> Result<(Appended, Arc<Entry>)> {
        let (payload, counters) = self.prepare_payload(xid, parts, 0)?;
        let bytes = payload.len() as u64;
        let room = self.shared.wal.reserve(bytes, Claim::Ordinary);
        let _room = room.map_err(|e| self.disk.note(e))?;
        let kept = self.room_for_end(parts.tables.values(), Claim::Ordinary);
        let kept = KeptForEnd::new(self, kept.map_err(|e| self.disk.note(e))?);
        if !large {
            self.pace(bytes, owner)?;
        }
        let entry = Arc::new(Entry {
            owner: parts.locker.id(),
            needs_log_from: AtomicU64::new(NOTHING),
            attached: AtomicBool::new(true),
            named: AtomicBool::new(false),
            since: self.shared.vfs.now(),
            coordinated: AtomicBool::new(false),
            thread: thread::current().id(),
            tables: parts.tables.values().iter().map(|t| t.id()).collect(),
            state: Mutex::new(None),
        });
        // From here on recovery may find the record (P3 of `spill.rs`).
        parts.spilled.filled().for_each(|private| private.keep());
        let (mut state, at) = loop {
            // Not with the state: a reader that has a range asks for it.
            let Parts { locker, writes, spilled, tables, .. } = &mut *parts;
            let covered = self.lock_written(locker, tables.values(), (writes, spilled), wait);
            let state = entry.state.lock();
            let mut came = false;
            let at = covered.and_then(|covered| {
                self.append_prepare((&payload, &counters), parts.tables.values(), |from| {
                    entry.needs_log_from.store(from, Ordering::Release);
                    self.prepared.add(xid, entry.clone())?;
                    // RX2
                    self.readers_came(covered).inspect_err(|_| {
                        came = true;
                        self.prepared.remove(xid);
                    })
                })
            });
            if !came {
                break (state, at);
            }
        };
        let at = match at {
            Ok(at) => at,
            Err(e) => {
                if NOTHING_WAS_LOGGED.contains(&e.kind()) {
                    // Nothing was appended.
                    parts.spilled.filled_mut().for_each(|private| private.retire(0));
                } else {
                    self.prepared.remove(xid);
                }
                return Err(e);
            }
        };
        *state = Some(State { parts: parts.take(), at: at.start, room: Some(kept.keep()) });
        drop(state);
        Ok((at, entry))
    }

    fn sync_private_runs(&self, txn: &Transaction) -> Result<()> {
        let mut synced: Vec<TableId> = Vec::new();
        for private in txn.spilled.filled() {
            if !synced.contains(&private.id().table) {
                private.sync()?;
                synced.push(private.id().table);
            }
        }
        Ok(())
    }

    /// The record of kind 7 that takes the place of `replaced`; all its private runs are synced.
    fn prepare_payload(
        &self,
        xid: &Xid,
        parts: &Parts,
        replaced: Lsn,
    ) -> Result<(Vec<u8>, Vec<CounterRecord>)> {
        let has_runs = |tree| parts.spilled.filled().any(|p| p.id() == tree);
        // Exclusive locks of rows of the first index follow from the entries.
        let locks = parts.locker.exclusive(&|tree| tree.index > 0 || has_runs(tree));
        let attached: Vec<AttachedRuns> = parts
            .spilled
            .filled()
            .map(|p| AttachedRuns { tree: p.id(), lists: p.lists() })
            .collect();
        let mut payload = Vec::with_capacity(SMALL_RECORD);
        record::put_prepare(&mut payload, replaced, xid, &locks);
        record::put_runs(&mut payload, &attached);
        encode_entries(&parts.writes, &mut payload)?;
        let counters = self.put_counters(&mut payload, &parts.writes, parts.tables.values());
        Ok((payload, counters))
    }

    /// Appends a record of kind 7. `before` is called with the position from which on the log is needed, and may refuse.
    fn append_prepare(
        &self,
        (payload, counters): (&[u8], &[CounterRecord]),
        tables: &[Arc<Table>],
        before: impl FnOnce(Lsn) -> Result<()>,
    ) -> Result<Appended> {
        let wal = &self.shared.wal;
        let prepared = wal.prepare(KIND_PREPARE, payload)?;
        let _ordered = self.commit.lock();
        let from = wal.end();
        before(from)?;
        tables.iter().for_each(|table| table.store().touched(from));
        let at = wal.append_prepared(&prepared)?;
        tables.iter().zip(counters).for_each(|(table, counters)| table.note_logged(counters));
        Ok(at)
    }

    /// `None`: no such transaction, or it has ended.
    fn end_by_commit(self: &Arc<Self>, xid: &Xid, entry: &Entry) -> Result<Option<Ended>> {
        let mut state = entry.state.lock();
        let Some(found) = &mut *state else { return Ok(None) };
        found.assert_room();
        let had_runs = !found.parts.spilled.is_empty();
        let end = match found.at {
            NOTHING => None,
            _ => Some(self.append_commit(found)?),
        };
        let Some(State { mut parts, room, .. }) = state.take() else { return Ok(None) };
        self.forget_prepared(xid, entry, room);
        let published = self.clock.published();
        let is_there = end.as_ref().is_none_or(|(end, _)| published >= *end);
        assert!(is_there, "locks go before the commit record is published (PX3)");
        parts.locker.release_all();
        let (end, news) = end.map_or((None, News::new()), |(end, news)| (Some(end), news));
        Ok(Some(Ended { end, parts, news, had_runs }))
    }

    /// Steps 3 to 5 of a commit, of what is prepared.
    fn append_commit(&self, state: &mut State) -> Result<(Lsn, News)> {
        let State { parts, at: prepared_at, .. } = state;
        let mut payload = Vec::with_capacity(SMALL_RECORD);
        put_varint(&mut payload, *prepared_at);
        let counters = self.put_counters(&mut payload, &parts.writes, parts.tables.values());
        let _whole = Whole(&self.shared);
        let (shared, alone) = match parts.spilled.is_empty() {
            true => (Some(self.gate.read()), None),
            false => (None, Some(self.gate.write())),
        };
        let at = self.append(parts.tables.values(), &counters, |wal| {
            wal.append_unwaited(KIND_COMMIT_PREPARED, &payload)
        })?;
        let live = |id| parts.tables.get(id).filter(|t| !t.is_dropped());
        for private in parts.spilled.filled_mut() {
            let id = private.id();
            match live(id.table) {
                Some(table) => {
                    let slot = table.slot(id.index);
                    slot.tree.attach_prepared(private, *prepared_at, at.start, at.end, at.end);
                    slot.note_attached();
                }
                None => private.abandon(),
            }
        }
        // Buffers take entries from several transactions at once.
        let alone = alone.map(parking_lot::RwLockWriteGuard::downgrade);
        let news = self.apply(&parts.writes, parts.tables.values(), *prepared_at, at.end);
        self.clock.finish(at.end);
        drop((shared, alone));
        Ok((at.end, news))
    }

    fn after_commit(self: &Arc<Self>, ended: Ended, wait: bool) -> Result<Option<Lsn>> {
        if ended.end.is_some() {
            let parts = ended.parts;
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
            self.counters
                .entries_committed
                .fetch_add(parts.writes.entries() as u64, Ordering::Relaxed);
            let tables = parts.tables.values();
            if ended.had_runs {
                for table in tables.iter().filter(|table| !table.is_dropped()) {
                    self.ledger.note_all(table);
                    // The runs may be of an index that was dropped meanwhile.
                    self.clear_dropped_later(table);
                }
                self.queue.wake();
            }
            self.wrote(parts.writes.bytes() as u64 / 2, &ended.news);
            self.write_sets.leave(parts.writes, parts.rows);
        }
        if let (Some(end), true) = (ended.end, wait) {
            self.acknowledge(end)?;
        }
        Ok(ended.end)
    }

    /// False: no such transaction, or it has ended.
    fn end_by_rollback(&self, xid: &Xid, entry: &Entry) -> Result<bool> {
        let mut state = entry.state.lock();
        let Some(found) = state.take() else { return Ok(false) };
        found.assert_room();
        let State { mut parts, at, room } = found;
        let logged = match at {
            NOTHING => None,
            _ => {
                let mut payload = Vec::new();
                put_varint(&mut payload, at);
                Some(self.shared.wal.append_unwaited(KIND_ROLLBACK_PREPARED, &payload))
            }
        };
        let lent = tables_with_runs(&parts);
        for private in parts.spilled.filled_mut() {
            let id = private.id().table;
            let is_live = lent.iter().any(|t| t.id() == id);
            match &logged {
                // PX4
                Some(Ok(at)) if is_live => private.retire(at.end),
                _ => private.abandon(),
            }
        }
        drop(parts);
        lent.iter().for_each(|table| self.upkeep.give_back_later(table));
        self.forget_prepared(xid, entry, room);
        match logged.transpose()? {
            Some(at) => self.acknowledge(at.end).map(|()| true),
            None => Ok(true),
        }
    }

    fn forget_prepared(&self, xid: &Xid, entry: &Entry, room: Option<KeptRoom>) {
        if entry.coordinated.swap(false, Ordering::AcqRel) {
            self.shared.wal.coordinated_ended(entry.thread == thread::current().id());
        }
        if let Some(room) = room {
            self.shared.wal.give_back(room);
        }
        self.prepared.remove(xid);
    }

    /// Ends the transaction of that name; false when there is none. A handle of it then has nothing left to end.
    pub(crate) fn end_prepared(self: &Arc<Self>, xid: &Xid, commit: bool) -> Result<bool> {
        // The server asks every engine for every name, also one that failed and only reads.
        let Some(entry) = self.prepared.get(xid) else { return Ok(false) };
        self.may_free_space()?;
        if let Some(State { parts, room: room @ None, at }) = &mut *entry.state.lock() {
            if *at != NOTHING {
                *room = Some(self.room_for_end(parts.tables.values(), Claim::Freeing)?);
            }
        }
        if !commit {
            return self.end_by_rollback(xid, &entry);
        }
        match self.end_by_commit(xid, &entry)? {
            Some(ended) => self.after_commit(ended, true).map(|_| true),
            None => Ok(false),
        }
    }

    /// Fails when a prepared transaction has changes in the table of that name, whose definition is about to change.
    pub(crate) fn check_not_prepared(&self, table: &str) -> Result<()> {
        let Some(def) = self.names.read().get(table).cloned() else { return Ok(()) };
        self.check_has_no_prepared(def.id, table)
    }

    /// As [`Core::check_not_prepared`], for a table and its name.
    pub(crate) fn check_has_no_prepared(&self, id: TableId, name: &str) -> Result<()> {
        match self.prepared.of_table(id, false) {
            None => Ok(()),
            Some(xid) => Err(has_changes(&xid, name)),
        }
    }

    /// As [`Core::check_not_prepared`]; also fails when a prepared transaction that is left to others has changes in a child
    /// of the table. Such a transaction holds locks on parents by the indexes that exist now, and its session may be gone, with
    /// the metadata lock that keeps the definition for it. The caller has no prepared transaction itself: MariaDB allows no
    /// statement but its end.
    pub(crate) fn check_family_not_prepared(&self, table: &str) -> Result<()> {
        self.check_not_prepared(table)?;
        let names = self.names.read();
        for f in names.foreigns.naming(table) {
            let Some(child) = names.get(&f.table) else { continue };
            if let Some(xid) = self.prepared.of_table(child.id, true) {
                return Err(has_changes(&xid, &f.table));
            }
        }
        Ok(())
    }

    /// For the log thread: [`Core::renew_prepared`], but not before the log has grown by what the last call wrote. Records that
    /// take more of the log than there is behind `target` would be old again at once.
    pub(crate) fn renew_prepared_at_pace(&self, target: Lsn) -> Result<()> {
        let wal = &self.shared.wal;
        if wal.end() < self.prepared.renewed_upto.load(Ordering::Relaxed) {
            return Ok(());
        }
        let bytes = self.renew_prepared(target)?;
        self.prepared.renewed_upto.store(wal.end() + bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the prepare records again that hold log below `target`, and returns how many bytes that took. On a full disk
    /// they stay where they are.
    pub(crate) fn renew_prepared(&self, target: Lsn) -> Result<u64> {
        let wal = &self.shared.wal;
        let mut bytes = 0;
        for (xid, entry) in self.prepared.older_than(target) {
            let mut state = entry.state.lock();
            let Some(State { parts, at, .. }) = &mut *state else { continue };
            // Another thread may have done it meanwhile.
            if entry.needs_log_from.load(Ordering::Acquire) >= target {
                continue;
            }
            let (payload, counters) = self.prepare_payload(&xid, parts, *at)?;
            let Ok(_room) = wal.reserve(payload.len() as u64, Claim::Ordinary) else { break };
            let again =
                self.append_prepare((&payload, &counters), parts.tables.values(), |_| Ok(()))?;
            *at = again.start;
            entry.needs_log_from.store(again.start, Ordering::Release);
            bytes += again.end - again.start;
        }
        Ok(bytes)
    }
}

fn has_changes(xid: &Xid, table: &str) -> Error {
    let what =
        format!("the prepared transaction {xid:?} has changes in table '{table}': end it first");
    Error::new(ErrorKind::LockTimeout, what)
}

/// The tables with private runs that were not dropped.
fn tables_with_runs(parts: &Parts) -> Vec<Arc<Table>> {
    let of = |table: &&Arc<Table>| parts.spilled.filled().any(|p| p.id().table == table.id());
    let live = parts.tables.values().iter().filter(|t| !t.is_dropped());
    live.filter(of).cloned().collect()
}

/// Gives room back unless it is kept.
struct KeptForEnd<'a> {
    core: &'a Core,
    room: Option<KeptRoom>,
}

impl<'a> KeptForEnd<'a> {
    fn new(core: &'a Core, room: KeptRoom) -> Self {
        KeptForEnd { core, room: Some(room) }
    }

    fn keep(mut self) -> KeptRoom {
        self.room.take().expect("it was not taken before")
    }
}

impl Drop for KeptForEnd<'_> {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.core.shared.wal.give_back(room);
        }
    }
}
