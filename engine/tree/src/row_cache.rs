//! Reading through the row cache, keeping it current, checking it. The rules are in `rows.rs`.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use frond_base::{EntryKind, EntrySource, Error, Result, Seq, SEQ_MAX};
use frond_buffer::FrozenScan;
use frond_cache::{CachedRow, RowCache, RowKey};

use crate::rows::{Found, Trace};
use crate::slice::Slice;
use crate::tree::{Tree, TreeInner};
use crate::view::{Content, Frozen, View};

/// Keys that a job goes over in one step.
const STEP: usize = 20_000;

fn row_of(found: Found) -> CachedRow {
    match found {
        Some((seq, kind)) => CachedRow { seq, kind: Some(kind) },
        None => CachedRow { seq: 0, kind: None },
    }
}

impl TreeInner {
    fn row_key<'a>(&self, key: &'a [u8]) -> RowKey<'a> {
        RowKey::new(self.id.table, self.rows.number, key)
    }

    /// The newest version in the trunk with `seq <= at`; its value is appended to `value`.
    pub(crate) fn lookup_trunk(
        &self,
        view: &View,
        key: &[u8],
        at: Seq,
        mut value: Option<&mut Vec<u8>>,
    ) -> Result<Found> {
        let Some(cache) = self.store.rows().filter(|rows| !rows.is_off()) else {
            return self.descend(view, key, at, &mut value, &mut Trace::default());
        };
        if self.rows.used.load(Ordering::Relaxed) {
            if let Some(row) = cache.get(&self.row_key(key), at, value.as_deref_mut()) {
                return Ok(row.kind.map(|kind| (row.seq, kind)));
            }
        }
        let start = value.as_ref().map_or(0, |v| v.len());
        let mut trace = Trace { read: cache.takes_all(), passed: false };
        let found = self.descend(view, key, at, &mut value, &mut trace)?;
        if trace.read && !trace.passed {
            self.offer(view, key, found, value.map(|v| &v[start..]))?;
        }
        Ok(found)
    }

    /// Called after a page was read: `found`, with `value`, is the newest version of the key in the
    /// trunk.
    #[cold]
    fn offer(&self, view: &View, key: &[u8], found: Found, value: Option<&[u8]>) -> Result<()> {
        let Some(cache) = self.store.rows() else { return Ok(()) };
        let name = self.row_key(key);
        let (known, judge) = cache.meet(&name);
        if known {
            self.rows.used.store(true, Ordering::SeqCst);
            let may = || self.rows.told(view.taken_in);
            match (value, found) {
                (Some(value), _) => cache.insert(&name, row_of(found), value, may),
                (None, Some((_, EntryKind::Put))) => {
                    // Only its sequence was asked for; the page is in memory now.
                    let mut value = Vec::new();
                    let mut trace = Trace::default();
                    let again =
                        self.descend(view, key, SEQ_MAX, &mut Some(&mut value), &mut trace)?;
                    assert!(!trace.passed, "RWC3: a version is above all snapshots");
                    cache.insert(&name, row_of(again), &value, may);
                }
                (None, _) => cache.insert(&name, row_of(found), &[], may),
            }
        }
        if judge {
            self.store.judge_rows();
        }
        Ok(())
    }

    /// Drops all rows of the tree, before an edit that is not the end of an item. No job is under way.
    pub fn forget_rows(&self) {
        self.begin_telling();
        if let Some(cache) = self.store.rows().filter(|_| self.rows.may_have()) {
            cache.forget(self.rows.number, |_| true);
        }
    }

    /// The edit after [`Self::forget_rows`] is published.
    pub fn rows_forgotten(&self) {
        let taken_in = self.rows.told_now();
        self.swap_view(|view, _| (View { taken_in, ..view.clone() }, ()));
    }

    /// A job begins to go over the next item, for the first time or again (RWC2).
    fn begin_telling(&self) {
        let taken_in = self.view.load().taken_in;
        let told = self.rows.told.swap(taken_in + 1, Ordering::SeqCst);
        assert!(
            told == taken_in || told == taken_in + 1,
            "RWC2: {told} items told, {taken_in} taken in"
        );
    }
}

/// A job goes over the keys of an item before its last edit (RWC1).
pub(crate) struct Telling {
    /// `None`: nothing is left.
    rest: Option<FrozenScan>,
    /// The previous key; its newest version came first.
    key: Vec<u8>,
}

impl Telling {
    pub fn begin(tree: &TreeInner, item: &Frozen) -> Telling {
        tree.begin_telling();
        let mut telling = Telling { rest: None, key: Vec::new() };
        let Some(cache) = tree.store.rows().filter(|_| tree.rows.may_have()) else {
            return telling;
        };
        match &item.content {
            Content::Buffer(buffer) => {
                telling.rest = Some(buffer.iter_range(Bound::Unbounded, Bound::Unbounded));
            }
            Content::Runs(lists) => {
                let within = |key: &[u8]| lists.iter().any(|runs| may_hold(runs, key));
                cache.forget(tree.rows.number, within);
            }
        }
        telling
    }

    /// Goes on; true when all is done.
    pub fn step(&mut self, tree: &TreeInner) -> Result<bool> {
        let (Some(cache), Some(scan)) = (tree.store.rows(), &mut self.rest) else {
            return Ok(true);
        };
        for _ in 0..STEP {
            if !scan.valid() {
                self.rest = None;
                return Ok(true);
            }
            let entry = scan.entry();
            if entry.key != &self.key[..] {
                let row = CachedRow { seq: entry.seq, kind: Some(entry.kind) };
                cache.update(&tree.row_key(entry.key), row, entry.value);
                self.key.clear();
                self.key.extend_from_slice(entry.key);
            }
            scan.advance()?;
        }
        Ok(false)
    }
}

/// Whether a list of runs may have the key.
fn may_hold(runs: &[Slice], key: &[u8]) -> bool {
    let after = runs.partition_point(|s| s.first() <= key);
    runs[..after].last().is_some_and(|s| s.contains(key))
}

impl Tree {
    /// Compares all cached rows with the runs (RWC1), except those that change meanwhile.
    pub fn check_rows(&self) -> Result<u64> {
        let inner = &self.inner;
        let Some(cache) = inner.store.rows() else { return Ok(0) };
        (0..cache.shards()).map(|shard| inner.check_shard(cache, shard, || ())).sum()
    }
}

impl TreeInner {
    /// Checks one shard of the cache; tests do something when its rows are `listed`.
    fn check_shard(&self, cache: &RowCache, shard: usize, listed: impl FnOnce()) -> Result<u64> {
        let told = self.rows.told_now();
        // Loaded first: a job that ends while the rows are listed has its item in this view (RWC1).
        let view = self.view.load_full();
        let mut rows = Vec::new();
        cache.each_of(shard, self.rows.number, &mut |key, row, value| {
            rows.push((key.to_vec(), row, value.to_vec()));
        });
        listed();
        let checked = rows.len() as u64;
        for (key, row, value) in rows {
            let wrong = self.is_out_of_date(&view, &key, row, value)?;
            if let Some(what) = wrong.filter(|_| told == self.rows.told_now()) {
                return Err(Error::corruption("memory", what));
            }
        }
        Ok(checked)
    }

    /// What is wrong with a cached row, if anything is.
    fn is_out_of_date(
        &self,
        view: &View,
        key: &[u8],
        row: CachedRow,
        value: Vec<u8>,
    ) -> Result<Option<String>> {
        if in_an_item(view, key) {
            return Ok(None);
        }
        let (mut stored, mut trace) = (Vec::new(), Trace::default());
        let found = self.descend(view, key, SEQ_MAX, &mut Some(&mut stored), &mut trace)?;
        let is_put = row.kind == Some(EntryKind::Put);
        let alike = match found {
            Some((seq, EntryKind::Put)) => {
                // A job may have renewed the stored one (`renewal.rs`).
                let renewal = self.renewal();
                is_put
                    && renewal.newest(value) == renewal.newest(stored)
                    && (seq == 0 || seq == row.seq)
            }
            _ => !is_put,
        };
        Ok((!alike).then(|| {
            format!(
                "a cached row of tree {} is not what its runs have (RWC1): key '{}', {row:?}, stored {found:?}",
                self.id,
                key.escape_ascii()
            )
        }))
    }
}

/// Whether a frozen item may have the key: readers look there first.
fn in_an_item(view: &View, key: &[u8]) -> bool {
    view.frozen.iter().any(|item| match &item.content {
        Content::Buffer(buffer) => buffer.newest(key).is_some(),
        Content::Runs(lists) => lists.iter().any(|runs| may_hold(runs, key)),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_base::{AllReaders, EntryRef, TableId, TreeId, SEQ_MAX};
    use frond_run::{Compression, KeyShape, RunFormat};

    use super::*;
    use crate::options::TreeOptions;
    use crate::plan::Step;
    use crate::store::RunStore;
    use crate::testing::{drain, MemLog, MemStore};

    /// The job has begun to tell the rows, but not of the last one, when the check lists that.
    #[test]
    fn a_check_takes_no_row_for_wrong_that_a_job_changes_meanwhile() {
        let format = RunFormat {
            page_bytes: 4096,
            compression: Compression::None,
            key_shape: KeyShape::variable(),
            filter: false,
        };
        let id = TreeId { table: TableId(7), index: 1 };
        let (store, log) = (MemStore::with_rows(64 << 10), MemLog::new());
        let options = TreeOptions::new(format, format);
        let tree = Tree::new(id, options, store.clone(), log, Arc::new(AllReaders));
        let put = |lsn: u64, keys: std::ops::Range<usize>| {
            let keys: Vec<Vec<u8>> = keys.map(|n| (n as u32).to_be_bytes().to_vec()).collect();
            let (kind, value) = (EntryKind::Put, &lsn.to_be_bytes()[..]);
            tree.write(lsn, keys.iter().map(|key| EntryRef { key, seq: lsn, kind, value }));
            tree.freeze(lsn + 1);
        };
        put(1, STEP..STEP + 1);
        drain(&tree, &[9]).unwrap();
        let last = (STEP as u32).to_be_bytes();
        for _ in 0..2 {
            store.forget_pages();
            assert!(tree.get(&last, SEQ_MAX, &mut Vec::new()).unwrap().is_some());
        }
        put(2, 0..STEP + 1);
        let told = tree.inner.rows.told_now();
        let mut job = tree.begin(&tree.plan().unwrap(), vec![9]).unwrap();
        while tree.inner.rows.told_now() == told {
            assert_eq!(job.step().unwrap(), Step::More);
        }
        let mut job = Some(job);
        let cache = store.rows().unwrap();
        let mut checked = 0;
        for shard in 0..cache.shards() {
            let mut own = 0;
            cache.each_of(shard, tree.inner.rows.number, &mut |_, _, _| own += 1);
            let listed = || {
                let ending = if own > 0 { job.take() } else { None };
                ending.into_iter().for_each(|mut job| while job.step().unwrap() == Step::More {});
            };
            checked += tree.inner.check_shard(cache, shard, listed).unwrap();
        }
        assert_eq!((checked, job.is_none()), (1, true), "the row was listed, and the job ended");
    }
}
