//! Prepared transactions: made, ended by their handle or by their name, found again after a restart.
//!
//! Preparing and both ways of ending are steps of the model like commits: what is recovered has exactly the
//! prepared transactions of one state. What they would change is compared when they are committed.

use std::collections::BTreeSet;
use std::sync::Arc;

use frond_engine::{Durability, Engine, Error, ErrorKind, PreparedTransaction, RowMode, Xid};

use super::{fail, note, Check, Failure, Handle, Sim};
use crate::machine::faults::Faults;
use crate::machine::points::Phase;
use crate::model::{Dump, PreparedState, TableNo};
use crate::rng::Rng;

/// The most prepared transactions at a time.
const MOST: usize = 4;

pub(super) fn xid(name: u64) -> Xid {
    // Bytes of both parts, in the order of the numbers.
    let bytes = name.to_be_bytes();
    Xid::new(7, &bytes[..6], &bytes[6..]).unwrap_or_else(|e| unreachable!("{e}"))
}

/// The holder of the locks of a transaction that a restart found.
fn found_owner(name: u64) -> u64 {
    u64::MAX - name
}

/// Adds the names of those without a handle.
pub(super) fn list(engine: &Engine, dump: &mut Dump) {
    for xid in engine.prepared() {
        let bytes = [xid.gtrid(), xid.bqual()].concat();
        dump.prepared.extend(bytes.try_into().map(u64::from_be_bytes));
    }
}

impl Sim {
    /// As [`list`], for those with a handle.
    pub(super) fn list_handles(&self, dump: &mut Dump) {
        let latest = self.model.latest();
        let logged =
            self.handles_of_prepared.iter().filter(|h| latest.prepared.contains_key(&h.name));
        dump.prepared.extend(logged.map(|h| h.name));
    }

    pub(super) fn tables_of_prepared(&self) -> BTreeSet<TableNo> {
        self.model.latest().prepared.values().flat_map(|p| p.used.iter().copied()).collect()
    }

    pub(super) fn prepare(&mut self) -> Check {
        if self.txns.is_empty() || self.model.latest().prepared.len() >= MOST {
            return Ok(());
        }
        let i = self.rng.index(self.txns.len());
        let txn = self.txns.swap_remove(i);
        drop(txn.cursor);
        self.names += 1;
        let (name, who) = (self.names, txn.real.id());
        let mine = self.locks.iter().filter(|(_, holders)| holders.exclusive == Some(who));
        let all_changed = mine.map(|(at, _)| at).all(|at| txn.writes.contains_key(at));
        let (changes, all) = (!txn.writes.is_empty(), all_changed);
        let state = PreparedState { writes: txn.writes, used: txn.used, who, all_changed: all };
        note!(self, "  prepare {who} as {name}: {} keys", state.writes.len());
        if changes {
            self.model.prepare(name, state);
        }
        self.tell_bounds();
        let before = self.vfs.set_phase(Phase::Prepare);
        let got = txn.real.prepare(xid(name));
        self.vfs.set_phase(before);
        match got {
            Ok(real) if changes => {
                self.stats.event("prepared");
                self.acknowledged();
                self.handles_of_prepared.push(Handle { name, real });
                Ok(())
            }
            Ok(real) => {
                self.unlock(who);
                match real.commit(true) {
                    Ok(None) => Ok(()),
                    other => fail(format!("commit of nothing that was prepared: {other:?}")),
                }
            }
            Err(e) if !self.excused(&e) => fail(format!("prepare: {e:?}")),
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                // Promised: rolled back, nothing logged.
                self.unlock(who);
                if changes {
                    self.model.take_back();
                }
                self.tell_bounds();
                self.stats.event("prepare refused: disk full");
                self.after_failure(&e)
            }
            Err(e) => {
                note!(self, "  prepare {name} failed: {e:?}");
                self.stats.failed_calls += 1;
                self.restart_after_failure()
            }
        }
    }

    /// A step that was to be durable is done.
    fn acknowledged(&mut self) {
        match self.durability {
            Durability::Sync => self.all_durable(),
            Durability::Write => self.written = self.model.now(),
            Durability::EachSecond => {}
        }
    }

    /// Ends one, or lets go of its handle.
    pub(super) fn end_some_prepared(&mut self) -> Check {
        let all: Vec<u64> = self.model.latest().prepared.keys().copied().collect();
        if all.is_empty() {
            return Ok(());
        }
        let name = all[self.rng.index(all.len())];
        let handle = self.handles_of_prepared.iter().position(|h| h.name == name);
        if let (Some(at), true) = (handle, self.rng.percent(25)) {
            note!(self, "  the handle of {name} goes");
            self.handles_of_prepared.swap_remove(at);
            return Ok(());
        }
        self.end_prepared(name)
    }

    fn end_prepared(&mut self, name: u64) -> Check {
        let handle = self.handles_of_prepared.iter().position(|h| h.name == name);
        let handle = handle.map(|at| self.handles_of_prepared.swap_remove(at).real);
        let Some(state) = self.model.latest().prepared.get(&name).cloned() else {
            return fail(format!("the model has no prepared transaction {name}"));
        };
        let (commit, wait) = (self.rng.percent(60), self.rng.percent(50));
        let by_name = handle.is_none();
        self.model.end_prepared(name, commit);
        self.tell_bounds();
        note!(
            self,
            "  end {name}: commit {commit}, by name {by_name} -> state {}",
            self.model.now()
        );
        let before = self.vfs.set_phase(Phase::Commit);
        let got = match (handle, commit) {
            (Some(real), true) => self.commit_handle(real, wait),
            (Some(real), false) => real.rollback(),
            (None, true) => self.engine().commit_prepared(&xid(name)).map(|found| assert!(found)),
            (None, false) => {
                self.engine().rollback_prepared(&xid(name)).map(|found| assert!(found))
            }
        };
        self.vfs.set_phase(before);
        self.unlock(state.who);
        match got {
            Ok(()) => {
                self.stats.event(match (commit, by_name) {
                    (true, true) => "prepared committed by name",
                    (true, false) => "prepared committed",
                    (false, true) => "prepared rolled back by name",
                    (false, false) => "prepared rolled back",
                });
                if wait || by_name || !commit {
                    self.acknowledged();
                }
                Ok(())
            }
            Err(e) if !self.excused(&e) => fail(format!("end of {name}: {e:?}")),
            // After an opening on a full disk there was no room to keep.
            Err(e) if e.kind() == ErrorKind::NoSpace && by_name => {
                self.model.take_back();
                self.tell_bounds();
                if !state.all_changed {
                    return self.end_with_space(name, &e);
                }
                for (table, key) in state.writes.keys() {
                    let holders = self.locks.entry((*table, key.clone())).or_default();
                    holders.add(state.who, RowMode::X);
                }
                self.after_failure(&e)
            }
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                fail(format!("a full disk refused to end {name}: {e:?}"))
            }
            Err(e) => {
                note!(self, "  end of {name} failed: {e:?}");
                self.stats.failed_calls += 1;
                self.restart_after_failure()
            }
        }
    }

    /// A full disk refused to end a transaction, and the model does not know all of its locks. It
    /// cannot stay while others lock rows. Nothing was lost, and with space again it ends.
    fn end_with_space(&mut self, name: u64, refused: &Error) -> Check {
        note!(self, "  refused, again with space: {refused:?}");
        self.stats.failed_calls += 1;
        self.stats.event("prepared ended after a full disk");
        self.compare()?;
        self.vfs.set_faults(Faults { space: None, ..self.vfs.faults() });
        self.end_prepared(name)
    }

    /// Its two steps; between them it is visible.
    fn commit_handle(
        &mut self,
        mut real: PreparedTransaction,
        wait: bool,
    ) -> frond_engine::Result<()> {
        real.commit_ordered()?;
        real.commit(wait).map(drop)
    }

    /// After a restart: the transactions that are prepared now, with their locks. As a coordinator does,
    /// most are ended at once. One that had locked more than it changed is always ended: the engine
    /// restores such a lock for trees with private runs and secondary indexes only, and the model does not
    /// know which these are.
    pub(super) fn prepared_found(&mut self) -> Check {
        let found: Vec<(u64, Arc<PreparedState>)> =
            self.model.latest().prepared.iter().map(|(name, p)| (*name, p.clone())).collect();
        for (name, state) in found {
            self.stats.event("prepared found after a restart");
            let who = found_owner(name);
            for (table, key) in state.writes.keys() {
                let holders = self.locks.entry((*table, key.clone())).or_default();
                holders.add(who, RowMode::X);
            }
            self.model.found_prepared(name, who);
            let restarts = self.stats.restarts;
            if !state.all_changed || self.rng.percent(50) {
                self.end_prepared(name)?;
            }
            if self.stats.restarts != restarts {
                // That start has handled the others.
                break;
            }
        }
        Ok(())
    }

    /// The end of a run: each is ended, and what it did compared.
    pub(super) fn end_all_prepared(&mut self) -> Check {
        while let Some(name) = self.model.latest().prepared.keys().next().copied() {
            self.end_prepared(name)?;
        }
        Ok(())
    }

    /// A table that prepared transactions have changes in stays as it is.
    pub(super) fn refuse_definition(&mut self, table: TableNo, name: &str) -> Check {
        let changed = |p: &Arc<PreparedState>| p.writes.keys().any(|(t, _)| *t == table);
        if !self.model.latest().prepared.values().any(changed) {
            return Ok(());
        }
        let got = match self.rng.below(3) {
            0 => self.engine().drop_table(name),
            1 => self.engine().truncate_table(name).map(drop),
            _ => self.engine().rename_table(name, "nothing"),
        };
        match got {
            Err(e) if e.kind() == ErrorKind::LockTimeout => {
                self.stats.event("definition refused: prepared");
                Ok(())
            }
            other => {
                fail(format!("a definition of '{name}', which has prepared changes: {other:?}"))
            }
        }
    }
}

/// O6 on a crash image: ends the prepared transactions of `state` there and here.
pub(super) fn end_on_image(
    engine: &Engine,
    state: &mut crate::model::State,
    rng: &mut Rng,
) -> Check {
    for name in state.prepared.keys().copied().collect::<Vec<_>>() {
        let commit = rng.percent(60);
        let ended = match commit {
            true => engine.commit_prepared(&xid(name)),
            false => engine.rollback_prepared(&xid(name)),
        };
        match ended {
            Ok(true) => state.end_prepared(name, commit),
            other => return Err(Failure(format!("end of {name} after recovery: {other:?}"))),
        }
    }
    Ok(())
}
