//! What building an index and making a table anew share: rows as of a snapshot are read once, their entries sorted in
//! bounded memory (`entry_sort.rs`) by several threads (`team.rs`), and put below what commits have written since.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result, Seq};
use frond_cache::{Charge, Part};
use frond_row::RowCodec;
use frond_tree::{one_by_one, Bounds, MergePart, PrivateRuns, Tree, WrittenPart};

use crate::catalog::entry_sort::EntrySort;
use crate::catalog::team::{Poll, Running, Task};
use crate::commit::core::Core;
use crate::table::chunk::Chunk;
use crate::table::Table;

/// Entries between two polls.
pub(super) const POLL_EVERY: u64 = 128;
/// The chunks of all indexes and the runs that are written take a share of the cache, within bounds.
const SHARE: usize = 8;
const CHUNKS_MIN: usize = 1 << 20;
const CHUNKS_MAX: usize = 256 << 20;
/// Each thread has a run in memory that it writes, and the scan, which has one thread, soon takes most of the time.
const THREADS_MAX: usize = 4;
/// Chunks of all indexes that are worth a thread for sorting each.
const SORT_BYTES: usize = 16 << 20;
/// Rounds of looking up new keys end when at most this many bytes of them are left, or after [`ROUNDS`] rounds.
pub(super) const FEW_BYTES: usize = 16 << 10;
pub(super) const ROUNDS: u32 = 20;

/// Called now and then with the number of rows that are done and the number of all rows; false ends
/// the work.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// What a build needs besides the table, and how far it is.
pub(super) struct Build<'a> {
    pub core: Arc<Core>,
    /// Of the schema that has the new indexes.
    pub codec: Arc<RowCodec>,
    pub progress: Progress<'a>,
    pub done: u64,
    pub total: u64,
}

impl Build<'_> {
    pub fn poll(&mut self) -> Result<()> {
        match (self.progress)(self.done, self.total.max(self.done)) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
        }
    }

    /// Polls now and then; an entry was looked at.
    pub fn count(&mut self) -> Result<()> {
        self.done += 1;
        match self.done.is_multiple_of(POLL_EVERY) {
            true => self.poll(),
            false => Ok(()),
        }
    }

    /// A failed write poisons the engine, as for any table file: nobody knows what a retry would find.
    pub fn note(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::Io => self.core.shared.poison(e),
            _ => e,
        }
    }
}

/// Puts the entries of one row into the chunks.
pub(super) type Derive<'a> = &'a mut dyn FnMut(&[u8], &[u8], &mut [EntrySort]) -> Result<()>;

/// One pass over the rows of a table as of a snapshot; `derive` puts the entries of `trees` into their chunks. Not all of
/// them are written when it returns ([`write_all`]). The charge is for the chunks and the runs that are written.
pub(super) fn collect(
    build: &mut Build<'_>,
    (table, at): (&Table, Seq),
    trees: &[&Tree],
    derive: Derive<'_>,
) -> Result<(Vec<EntrySort>, Charge)> {
    let core = build.core.clone();
    let runs = |tree: &&Tree| EntrySort::new(PrivateRuns::new(tree, core.options.leaf_bytes));
    let mut sorts: Vec<EntrySort> = trees.iter().map(runs).collect();
    let expected = 2 * table.tree(0).stats().logical_bytes as usize;
    let share = (core.shared.budget.limit() / SHARE).clamp(CHUNKS_MIN, CHUNKS_MAX);
    let memory = share.min(expected + CHUNKS_MIN);
    let charge = core.shared.budget.charge(Part::WriteBuffers, memory);
    core.fit_cache();
    // The run that each thread writes, and the chunks.
    let most = memory - (threads(&core) * core.options.leaf_bytes as usize).min(memory / 2);
    let rows = table.rows() as usize;
    sorts.iter_mut().for_each(|sort| sort.chunk.reserve(most.min(expected), rows));
    let mut cursor = table.tree(0).cursor(at, Bounds::all());
    let mut valid = cursor.first()?;
    while valid {
        derive(cursor.key(), cursor.value(), &mut sorts)?;
        let held: usize = sorts.iter().map(|sort| sort.chunk.memory()).sum();
        if held > most || sorts.iter().any(|s| s.chunk.is_full()) {
            write_all(&mut sorts, build, false)?;
        }
        build.count()?;
        valid = cursor.next()?;
    }
    Ok((sorts, charge))
}

/// The runs become the lowest part of these trees of `table`.
pub(super) fn attach_all(
    build: &mut Build<'_>,
    table: &Arc<Table>,
    trees: &[IndexNo],
    mut sorts: Vec<EntrySort>,
) -> Result<()> {
    // One file, one sync.
    let filled = sorts.iter().find(|s| !s.runs.is_empty());
    filled.map_or(Ok(()), |s| s.runs.sync()).map_err(|e| build.note(e))?;
    for (number, sort) in trees.iter().zip(&mut sorts) {
        let tree = table.tree(*number);
        let core = build.core.clone();
        let attached = tree.attach_below(&mut sort.runs, &mut || {
            core.queue.pause();
            build.poll()
        });
        core.ledger.note(table, tree);
        attached.map_err(|e| build.note(e))?;
    }
    build.core.queue.wake();
    Ok(())
}

/// Sorts and writes the chunks, and in the end merges all. Several threads sort an index each, then each index is written by
/// all of them, a part of its keys each.
pub(super) fn write_all(sorts: &mut [EntrySort], build: &mut Build<'_>, all: bool) -> Result<()> {
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
