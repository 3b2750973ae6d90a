//! Changes of many trees, applied by several threads while the log is read on.
//!
//! The reader of the log checks changes and gathers them by tree, in a *window* of some MiB. A full window is handed to
//! the threads, which take a tree of it at a time, the largest first, and the reader fills the next one. Trees do not
//! know each other, so their order does not matter; what concerns more than one tree stays with the reader.
//!
//! - AP1. Changes of a tree are applied in the order in which they were added: within a window one thread has all of the
//!   tree's, and a window is handed out when the one before is done.
//! - AP2. What is not a change of one tree's entries (definitions, free space, counters) is done by the reader; where that
//!   needs the entries, or changes the table, [`Appliers::finish`] comes first.
//! - AP3. The failure that is reported is that of the oldest record; nothing is added after it.
//!
//! Where `vfs` starts no threads (the simulator) the reader applies each window itself, by tree. Rejected: a thread for a
//! fixed share of the trees. Most loads are uneven: one table with a few indexes, of which one ascends.
//!
//! Tested by `tests/it/replay.rs`, and by each opening of every other test.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, Error, ErrorKind, Lsn, Result, TreeId};
use frond_run::RunMeta;
use frond_tree::{Extent, Tree};
use frond_vfs::JoinThread;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::canary;
use crate::commit::core::Core;
use crate::record::RecordReader;
use crate::table::Table;

/// Bytes of entries in a window. Two windows are in memory: more gains nothing, as a batch of one tree is long enough.
const WINDOW: usize = 4 << 20;
/// The reader itself applies a window that ended early and is smaller than this: waking a thread
/// would take longer.
const SMALL: usize = 64 << 10;
/// Bytes that a change counts besides its entries.
const OVERHEAD: usize = 64;

/// Which record a change is from.
#[derive(Clone, Copy)]
pub struct Origin {
    /// Where the record starts that has the change: the log is needed from there.
    pub named_at: Lsn,
    /// The record that committed it.
    pub lsn: Lsn,
    pub end: Lsn,
}

enum Change {
    /// This many entries, which are next in the tree's bytes.
    Entries(usize),
    Runs(Vec<Vec<(RunMeta, Extent)>>),
}

/// The changes of one tree in a window.
struct TreeChanges {
    table: Arc<Table>,
    has_runs: bool,
    tree: Tree,
    /// Entries as the log has them.
    bytes: Vec<u8>,
    changes: Vec<(Origin, Change)>,
}

#[derive(Default)]
struct State {
    /// What is left of the window that is being applied; the last one is next.
    left: Vec<TreeChanges>,
    /// Number of trees that threads are applying now.
    taken: usize,
    /// With the start of its record.
    failure: Option<(Lsn, Error)>,
    stop: bool,
}

struct Shared {
    core: Arc<Core>,
    state: Mutex<State>,
    /// There are trees left, or the end has come.
    work: Condvar,
    /// The window is done.
    done: Condvar,
}

/// See the module.
pub struct Appliers {
    shared: Arc<Shared>,
    threads: Vec<Box<dyn JoinThread>>,
    window: BTreeMap<TreeId, TreeChanges>,
    size: usize,
}

impl Appliers {
    pub fn new(core: &Arc<Core>) -> Appliers {
        let shared = Arc::new(Shared {
            core: core.clone(),
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        Appliers { shared, threads: Vec::new(), window: BTreeMap::new(), size: 0 }
    }

    /// `count` entries of the tree, encoded in `bytes`. The caller has checked them: they ascend, and are sound.
    pub fn entries(
        &mut self,
        table: &Arc<Table>,
        tree: &Tree,
        origin: Origin,
        (bytes, count): (&[u8], usize),
    ) -> Result<()> {
        let changes = self.of(table, tree);
        changes.bytes.extend_from_slice(bytes);
        changes.changes.push((origin, Change::Entries(count)));
        self.grew(bytes.len())
    }

    /// Runs that a transaction attached to the tree: lists, oldest first.
    pub fn runs(
        &mut self,
        table: &Arc<Table>,
        tree: &Tree,
        origin: Origin,
        lists: Vec<Vec<(RunMeta, Extent)>>,
    ) -> Result<()> {
        let changes = self.of(table, tree);
        changes.has_runs = true;
        changes.changes.push((origin, Change::Runs(lists)));
        self.grew(0)
    }

    /// Waits until all changes are applied.
    pub fn finish(&mut self) -> Result<()> {
        if self.size >= SMALL && self.shared.core.options.background_threads > 0 {
            self.hand_out()?;
        }
        self.shared.help_until_done()?;
        let window = self.take_window();
        self.shared.begin(window);
        self.shared.help_until_done()
    }

    fn of(&mut self, table: &Arc<Table>, tree: &Tree) -> &mut TreeChanges {
        self.window.entry(tree.id()).or_insert_with(|| TreeChanges {
            table: table.clone(),
            has_runs: false,
            tree: tree.clone(),
            bytes: Vec::new(),
            changes: Vec::new(),
        })
    }

    fn grew(&mut self, bytes: usize) -> Result<()> {
        self.size += bytes + OVERHEAD;
        if self.size < WINDOW {
            return Ok(());
        }
        self.hand_out()
    }

    /// The window goes to the threads.
    fn hand_out(&mut self) -> Result<()> {
        self.start_threads();
        self.shared.help_until_done()?; // AP1
        let window = self.take_window();
        self.shared.begin(window);
        match self.threads.is_empty() {
            true => return self.shared.help_until_done(),
            false => self.shared.work.notify_all(),
        };
        Ok(())
    }

    /// The smallest first, as the last one is taken first; of equal ones the last tree first.
    fn take_window(&mut self) -> Vec<TreeChanges> {
        self.size = 0;
        let mut trees: Vec<TreeChanges> = std::mem::take(&mut self.window).into_values().collect();
        trees.sort_by_key(|t| t.bytes.len());
        trees
    }

    /// Only for a log that is worth it.
    fn start_threads(&mut self) {
        if !self.threads.is_empty() {
            return;
        }
        let core = &self.shared.core;
        for n in 0..core.options.background_threads {
            let shared = self.shared.clone();
            let work = Box::new(move || shared.work());
            let Ok(thread) = core.shared.vfs.spawn(&format!("frond-replay-{n}"), work) else {
                break;
            };
            self.threads.extend(thread);
        }
    }
}

impl Drop for Appliers {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.stop = true;
            state.left.clear();
        }
        self.shared.work.notify_all();
        self.threads.drain(..).for_each(|thread| thread.join());
    }
}

impl Shared {
    /// The next window may be applied.
    fn begin(&self, window: Vec<TreeChanges>) {
        let mut state = self.state.lock();
        assert!(state.left.is_empty() && state.taken == 0, "AP1: two windows are applied at once");
        assert!(state.failure.is_none(), "AP3: a window is added after a failure");
        state.left = window;
    }

    /// The loop of a thread.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.stop {
            match state.left.pop() {
                Some(tree) => state = self.take(state, tree),
                None => self.work.wait(&mut state),
            }
        }
    }

    /// The reader applies trees as well, instead of waiting.
    fn help_until_done(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(tree) = state.left.pop() {
                state = self.take(state, tree);
            } else if state.taken > 0 {
                self.done.wait(&mut state);
            } else {
                return match &state.failure {
                    Some((_, e)) => Err(e.duplicate()),
                    None => Ok(()),
                };
            }
        }
    }

    /// Applies a tree's changes, without the lock.
    fn take<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        changes: TreeChanges,
    ) -> MutexGuard<'a, State> {
        state.taken += 1;
        drop(state);
        let first = changes.changes.first().map_or(0, |(origin, _)| origin.lsn);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.apply(changes))).unwrap_or_else(|_| {
            let what = "internal error while the log was replayed; please report it";
            Err((first, Error::new(ErrorKind::Panic, what)))
        });
        let mut state = self.state.lock();
        state.taken -= 1;
        if let Err((lsn, e)) = outcome {
            if state.failure.as_ref().is_none_or(|(other, _)| lsn < *other) {
                state.failure = Some((lsn, e)); // AP3
            }
        }
        if state.taken == 0 && state.left.is_empty() {
            self.done.notify_all();
        }
        state
    }

    fn apply(&self, changes: TreeChanges) -> std::result::Result<(), (Lsn, Error)> {
        let TreeChanges { table, has_runs, tree, bytes, changes } = changes;
        let mut reader = RecordReader::new(&bytes, 0);
        let mut entries = Vec::new();
        for (origin, change) in changes {
            let Origin { named_at, lsn, end } = origin;
            match change {
                Change::Entries(count) => {
                    entries.clear();
                    for _ in 0..count {
                        entries.push(reader.entry().map_err(|e| (lsn, e))?);
                    }
                    sabotage(&mut entries);
                    let entry = |&(key, kind, value)| EntryRef { key, seq: end, kind, value };
                    tree.write(named_at, entries.iter().map(entry));
                }
                Change::Runs(lists) => {
                    if !tree.attach_named_at(lists, named_at, lsn, end) {
                        return Err((lsn, impossible_runs(lsn, tree.id())));
                    }
                }
            }
        }
        match has_runs {
            true => self.core.ledger.note(&table, &tree),
            false => self.core.ledger.note_written(&table, &tree),
        }
        Ok(())
    }
}

pub fn impossible_runs(lsn: Lsn, tree: TreeId) -> Error {
    let what = format_args!("record at {lsn}: the runs of tree {tree} are impossible").to_string();
    Error::corruption("log", what)
}

/// A seeded defect for tests of the simulator, which must find it.
pub fn sabotage(entries: &mut Vec<(&[u8], EntryKind, &[u8])>) {
    if canary::active(canary::DROP_TOMBSTONES) {
        entries.retain(|(_, kind, _)| *kind == EntryKind::Put);
    }
    if canary::active(canary::LOSE_REPLAYED_ENTRY) && entries.len() > 8 {
        entries.remove(8);
    }
}

#[cfg(test)]
mod tests {
    use frond_vfs::MemVfs;

    use crate::catalog::ddl::TableSpec;
    use crate::engine::Engine;
    use crate::options::Options;

    use super::*;

    /// The record whose failure is reported when the changes of several trees are no entries, the oldest in the middle.
    fn reported(vfs: MemVfs, background_threads: usize) -> Lsn {
        let options = Options { cache_bytes: 8 << 20, background_threads, ..Options::default() };
        let engine = Engine::open(Arc::new(vfs), options).unwrap();
        let mut appliers = Appliers::new(engine.core());
        for (name, lsn) in [("a", 30), ("b", 10), ("c", 20)] {
            let table = engine.create_table(TableSpec::plain(name)).unwrap();
            let origin = Origin { named_at: lsn, lsn, end: lsn + 1 };
            // The key is said to have 255 bytes and more.
            let cut = vec![0xff; SMALL];
            appliers.entries(&table, table.tree(0), origin, (&cut, 1)).unwrap();
        }
        let e = appliers.finish().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        let failure = appliers.shared.state.lock().failure.take();
        failure.unwrap().0
    }

    #[test]
    fn failure_of_the_oldest_record_is_reported_whatever_thread_has_it() {
        assert_eq!(reported(MemVfs::stepped(), 0), 10);
        for _ in 0..10 {
            assert_eq!(reported(MemVfs::new(), 3), 10);
        }
    }
}
