//! Building indexes while others read and write the table.
//!
//! The rows as of a snapshot are scanned once, the entries of all new indexes derived and sorted in bounded
//! memory (`entry_sort.rs`) by several threads (`team.rs`), and the sorted runs put *below* what commits have written since the snapshot
//! (`Tree::attach_below`): there a newer version of an entry, or its deletion, wins.
//!
//! - BI1. The snapshot is taken after commits have begun to write the new indexes' entries, and no transaction
//!   that began before has changes of the table (ALT2). So each row's entry comes from the scan, or from a
//!   commit, or from both, and then the commit's is the newer one.
//! - BI2. Uniqueness. Writers are not refused while an index is built. When all entries are in the
//!   tree, the tree is read once at a second snapshot. From that snapshot on, the keys that commits
//!   put are noted. These keys are looked up in rounds, until few are left. The last round is in
//!   [`Alter::commit`], when nobody writes any more. A round takes the keys and its snapshot while
//!   no commit is under way (the gate), so its snapshot sees every key that it took.
//!
//! An error ends the build: dropping the `Alter` drops the new trees.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_cache::Part;
use frond_row::{Deriver, Entries, RowCodec};
use frond_tree::{one_by_one, Bounds, MergePart, PrivateRuns, WrittenPart};
use frond_txn::Snapshot;

use crate::background::running_work::Work;
use crate::catalog::alter::{Alter, NewIndex, Violation};
use crate::catalog::entry_sort::EntrySort;
use crate::catalog::team::{Poll, Running, Task};
use crate::commit::core::Core;
use crate::rows::Rows;
use crate::table::chunk::Chunk;
use crate::table::trees::Changes;

/// Entries between two polls.
const POLL_EVERY: u64 = 128;
/// The chunks of all indexes and the runs that are written take a share of the cache, within bounds.
const SHARE: usize = 8;
const CHUNKS_MIN: usize = 1 << 20;
const CHUNKS_MAX: usize = 256 << 20;
/// Each thread has a run in memory that it writes, and the scan, which has one thread, soon takes most of the time.
const THREADS_MAX: usize = 4;
/// Chunks of all indexes that are worth a thread for sorting each.
const SORT_BYTES: usize = 16 << 20;
/// Rounds of looking up new keys end when at most this many bytes of them are left, or after [`ROUNDS`] rounds.
const FEW_BYTES: usize = 16 << 10;
const ROUNDS: u32 = 20;

/// Called now and then with the number of rows that are done and the number of all rows; false ends
/// the work.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// What a build needs besides the table, and how far it is.
struct Build<'a> {
    core: Arc<Core>,
    codec: Arc<RowCodec>,
    progress: Progress<'a>,
    done: u64,
    total: u64,
}

impl Build<'_> {
    fn poll(&mut self) -> Result<()> {
        match (self.progress)(self.done, self.total.max(self.done)) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
        }
    }

    /// A failed write poisons the engine, as for any table file: nobody knows what a retry would find.
    fn note(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::Io => self.core.shared.poison(e),
            _ => e,
        }
    }
}

impl Alter {
    /// Builds the new indexes, then looks for the parents that new foreign keys demand; others may read and write the
    /// tables. `rows` is a binding of the table, whose record layout and sort keys are used. Returns a violation of
    /// uniqueness, if there is one: then this can only be dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`], [`ErrorKind::NoSpace`], [`ErrorKind::Unsupported`] for an index with a
    /// column that the server computes, [`ErrorKind::NoParent`]; those of waiting for locks, of reading and
    /// writing files.
    pub fn build(&mut self, rows: &Rows, progress: Progress<'_>) -> Result<Option<Violation>> {
        let violation = self.build_indexes(rows, &mut *progress)?;
        if violation.is_none() {
            self.check_foreigns(progress)?;
        }
        Ok(violation)
    }

    fn build_indexes(&mut self, rows: &Rows, progress: Progress<'_>) -> Result<Option<Violation>> {
        let Some(schema) = self.building.clone() else { return Ok(None) };
        let busy = self.core.clone();
        let work = Work::new("BUILD INDEX", self.table.id(), busy.shared.vfs.now());
        let bytes = self.table.tree(0).stats().logical_bytes;
        let _under_way = busy.works.begin(work.of(self.new.first().map(|new| new.tree), bytes));
        let def = self.table.def();
        let layout = rows.codec().layout().clone();
        let sort_keys = rows.codec().sort_keys().clone();
        let codec = RowCodec::bind(&def.name, schema, layout, self.table.history()?, sort_keys)?;
        let (core, codec) = (self.core.clone(), Arc::new(codec));
        let unique = self.new.iter().any(|new| new.unique);
        let total = self.table.rows() * if unique { 3 } else { 2 };
        let mut build = Build { core, codec, progress, done: 0, total };
        let sorts = self.scan(&mut build)?;
        self.attach(&mut build, sorts)?;
        if let Some(violation) = self.check_unique(&mut build)? {
            return Ok(Some(violation));
        }
        self.is_built = true;
        Ok(None)
    }

    /// One pass over the rows; returns the sorted entries of each new index.
    fn scan(&mut self, build: &mut Build<'_>) -> Result<Vec<EntrySort>> {
        let wanted = self.new.iter().fold(0u128, |all, new| all | 1 << new.building);
        let mut deriver = Deriver::new(build.codec.clone(), wanted)?;
        let core = build.core.clone();
        let runs =
            |new: &NewIndex| PrivateRuns::new(self.table.tree(new.tree), core.options.leaf_bytes);
        let mut sorts: Vec<EntrySort> = self.new.iter().map(|n| EntrySort::new(runs(n))).collect();
        if let Some((first, others)) = sorts.split_first_mut() {
            others.iter_mut().for_each(|sort| sort.runs.share_spares(&first.runs));
        }
        let expected = 2 * self.table.tree(0).stats().logical_bytes as usize;
        let share = (core.shared.budget.limit() / SHARE).clamp(CHUNKS_MIN, CHUNKS_MAX);
        let memory = share.min(expected + CHUNKS_MIN);
        let charge = core.shared.budget.charge(Part::WriteBuffers, memory);
        core.fit_cache();
        // The run that each thread writes, and the chunks.
        let most = memory - (threads(&core) * core.options.leaf_bytes as usize).min(memory / 2);
        let rows = self.table.rows() as usize;
        sorts.iter_mut().for_each(|sort| sort.chunk.reserve(most.min(expected), rows));
        let mut entries = Entries::new();
        let mut cursor = self.table.tree(0).cursor(self.at, Bounds::all());
        let mut valid = cursor.first()?;
        while valid {
            deriver.derive(cursor.key(), cursor.value(), &mut entries)?;
            let mut held = 0;
            for (new, sort) in self.new.iter().zip(&mut sorts) {
                sort.chunk.push(entries.key(new.building), entries.value(new.building));
                held += sort.chunk.memory();
            }
            if held > most || sorts.iter().any(|s| s.chunk.is_full()) {
                write_all(&mut sorts, build, false)?;
            }
            build.done += 1;
            if build.done.is_multiple_of(POLL_EVERY) {
                build.poll()?;
            }
            valid = cursor.next()?;
        }
        drop(cursor);
        // Versions that only this snapshot needs may be dropped now.
        self.snapshot = None;
        write_all(&mut sorts, build, true)?;
        drop(charge);
        Ok(sorts)
    }

    /// The runs become the lowest part of their trees.
    fn attach(&self, build: &mut Build<'_>, mut sorts: Vec<EntrySort>) -> Result<()> {
        // One file, one sync.
        let filled = sorts.iter().find(|s| !s.runs.is_empty());
        filled.map_or(Ok(()), |s| s.runs.sync()).map_err(|e| build.note(e))?;
        for (new, sort) in self.new.iter().zip(&mut sorts) {
            let tree = self.table.tree(new.tree);
            let core = build.core.clone();
            let attached = tree.attach_below(&mut sort.runs, &mut || {
                core.queue.pause();
                build.poll()
            });
            core.ledger.note(&self.table, tree);
            attached.map_err(|e| build.note(e))?;
        }
        build.core.queue.wake();
        Ok(())
    }

    // ---- uniqueness (BI2) ----

    fn unique(&self) -> impl Iterator<Item = &NewIndex> {
        self.new.iter().filter(|new| new.unique)
    }

    /// Begins to note the keys that commits put; what is committed before is seen by the snapshot.
    fn watch(&self) -> Snapshot {
        let _gate = self.core.gate.write();
        self.unique().for_each(|new| self.table.slot(new.tree).watch(true));
        self.core.new_snapshot()
    }

    /// The keys noted so far, and a snapshot that sees all of them.
    fn noted(&self) -> (Vec<Changes>, Snapshot) {
        let _gate = self.core.gate.write();
        let taken = self.unique().map(|new| self.table.slot(new.tree).take_changes());
        (taken.collect(), self.core.new_snapshot())
    }

    fn check_unique(&mut self, build: &mut Build<'_>) -> Result<Option<Violation>> {
        if self.unique().next().is_none() {
            return Ok(None);
        }
        let snapshot = self.watch();
        for new in self.unique() {
            if let Some(violation) = self.check_all(new, &build.codec, &snapshot, &mut || {
                build.done += POLL_EVERY;
                match (build.progress)(build.done, build.total.max(build.done)) {
                    true => Ok(()),
                    false => {
                        Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted"))
                    }
                }
            })? {
                return Ok(Some(violation));
            }
        }
        drop(snapshot);
        self.codec = Some(build.codec.clone());
        for _ in 0..ROUNDS {
            let (few, violation) = self.round()?;
            if few || violation.is_some() {
                return Ok(violation);
            }
            build.poll()?;
        }
        Ok(None)
    }

    /// Looks up what was noted; whether it was little.
    fn round(&mut self) -> Result<(bool, Option<Violation>)> {
        let Some(codec) = self.codec.clone() else { return Ok((true, None)) };
        let (taken, snapshot) = self.noted();
        let mut few = true;
        for (new, changes) in self.unique().zip(taken) {
            few &= changes.keys.len() <= FEW_BYTES && !changes.overflow;
            let violation = match changes.overflow {
                true => self.check_all(new, &codec, &snapshot, &mut || Ok(()))?,
                false => self.check_keys(new, &codec, &changes, &snapshot)?,
            };
            if violation.is_some() {
                return Ok((true, violation));
            }
        }
        Ok((few, None))
    }

    /// The last round, when nobody writes any more.
    pub(super) fn check_rest(&mut self) -> Result<Option<Violation>> {
        Ok(self.round()?.1)
    }

    /// Neighbours with the same value, in the whole index.
    fn check_all(
        &self,
        new: &NewIndex,
        codec: &RowCodec,
        snapshot: &Snapshot,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Violation>> {
        let mut cursor = self.table.tree(new.tree).cursor(snapshot.at(), Bounds::all());
        let mut last = Vec::new();
        let (mut valid, mut met) = (cursor.first()?, 0u64);
        while valid {
            if let Some(value) = codec.unique_part(new.building, cursor.key())? {
                if value == &last[..] {
                    return self.violation(new, codec, cursor.key()).map(Some);
                }
                last.clear();
                last.extend_from_slice(value);
            }
            met += 1;
            if met.is_multiple_of(POLL_EVERY) {
                poll()?;
            }
            valid = cursor.next()?;
        }
        Ok(None)
    }

    /// Values that two rows have, of those in `changes`.
    fn check_keys(
        &self,
        new: &NewIndex,
        codec: &RowCodec,
        changes: &Changes,
        snapshot: &Snapshot,
    ) -> Result<Option<Violation>> {
        let tree = self.table.tree(new.tree);
        for key in changes.iter() {
            let Some(value) = codec.unique_part(new.building, key)? else { continue };
            let mut cursor = tree.cursor(snapshot.at(), Bounds::prefix(value));
            if cursor.first()? && cursor.next()? {
                return self.violation(new, codec, cursor.key()).map(Some);
            }
        }
        Ok(None)
    }

    fn violation(&self, new: &NewIndex, codec: &RowCodec, key: &[u8]) -> Result<Violation> {
        let primary_key = codec.primary_key(new.building, key)?.to_vec();
        Ok(Violation { index: new.target, primary_key })
    }
}

/// Sorts and writes the chunks, and in the end merges all. Several threads sort an index each, then each index is written by
/// all of them, a part of its keys each.
fn write_all(sorts: &mut [EntrySort], build: &mut Build<'_>, all: bool) -> Result<()> {
    let core = build.core.clone();
    let threads = threads(&core);
    let bytes: usize = sorts.iter().map(|sort| sort.chunk.memory()).sum();
    if threads > 1 && bytes >= SORT_BYTES {
        sort_chunks(&core, sorts, &mut || build.poll())?;
    }
    for sort in sorts {
        let mut poll = || build.poll();
        let mut run = |parts: Vec<MergePart>| match parts.len() {
            1 => one_by_one(&mut poll)(parts),
            _ => Running::start(&core, parts.into_iter().map(write_part).collect()).wait(&mut poll),
        };
        let written = match all {
            true => sort.finish(threads, &mut run),
            false => sort.write(threads, &mut run),
        };
        written.map_err(|e| build.note(e))?;
    }
    Ok(())
}

fn threads(core: &Core) -> usize {
    core.options.background_threads.clamp(1, THREADS_MAX)
}

fn write_part(part: MergePart) -> Task<WrittenPart> {
    Box::new(move |poll| part.write(poll))
}

fn sort_chunks(core: &Arc<Core>, sorts: &mut [EntrySort], poll: Poll<'_>) -> Result<()> {
    let sort = |sort: &mut EntrySort| -> Task<Chunk> {
        let mut chunk = std::mem::take(&mut sort.chunk);
        Box::new(move |_| {
            let len = chunk.len();
            chunk.sort(0, len);
            Ok(chunk)
        })
    };
    let tasks = sorts.iter_mut().map(sort).collect();
    let sorted = Running::start(core, tasks).wait(poll)?;
    sorts.iter_mut().zip(sorted).for_each(|(sort, chunk)| sort.chunk = chunk);
    Ok(())
}
