//! Shared by the tests: tiny options, a model of versioned keys, a tree with its model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use frond_base::{BlockId, EntryKind, EntryRef, Readers, Seq, TableId, TreeId, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_run::{Compression, KeyShape, RunFormat, RunMeta};
use frond_tree::testing::{MemLog, MemStore};
use frond_tree::{
    Bounds, Extent, Job, RunStore, Seek, Step, StoredVersion, Tree, TreeLoader, TreeOptions,
};
use parking_lot::Mutex;

use crate::owner::Owner;

pub const TREE: TreeId = TreeId { table: TableId(7), index: 1 };

pub fn format(filter: bool) -> RunFormat {
    RunFormat {
        page_bytes: 4096,
        compression: Compression::None,
        key_shape: KeyShape::variable(),
        filter,
    }
}

/// So small that every shape occurs within a few thousand entries.
pub fn tiny() -> TreeOptions {
    let leaf = RunFormat { compression: Compression::Lz4, ..format(true) };
    TreeOptions {
        leaf_bytes: 16 << 10,
        fanout: 4,
        node_runs: 3,
        leaf_runs: 3,
        base_runs: 6,
        min_slice: 6 << 10,
        group_bytes: 24 << 10,
        image_bytes: 300,
        pack_bytes: 2000,
        step_entries: 200,
        cursor_refills: 5,
        ..TreeOptions::new(format(false), leaf)
    }
}

pub fn below(rng: &mut TestRng, n: u64) -> u64 {
    rng.next_u64() % n
}

type Versions = Vec<(Seq, Option<Vec<u8>>)>;

/// All versions of all keys, oldest first.
#[derive(Default, Clone)]
pub struct Model {
    pub keys: BTreeMap<Vec<u8>, Versions>,
}

impl Model {
    pub fn get(&self, key: &[u8], at: Seq) -> Option<&[u8]> {
        Self::visible(self.keys.get(key)?, at)
    }

    fn visible(versions: &Versions, at: Seq) -> Option<&[u8]> {
        versions.iter().rev().find(|(seq, _)| *seq <= at)?.1.as_deref()
    }

    pub fn range(&self, lo: Bound<&[u8]>, hi: Bound<&[u8]>, at: Seq) -> Vec<(&[u8], &[u8])> {
        let all = self.keys.range::<[u8], _>((lo, hi));
        all.filter_map(|(k, v)| Some((&k[..], Self::visible(v, at)?))).collect()
    }
}

/// The snapshots that lived when the last commit began; more recent ones are newer than all of them.
#[derive(Default)]
pub struct Live(Mutex<Vec<Seq>>);

impl Readers for Live {
    fn retention(&self) -> Vec<Seq> {
        self.0.lock().clone()
    }
}

/// A tree, its model, live snapshots, and jobs under way.
pub struct Bench {
    pub tree: Tree,
    pub store: Arc<MemStore>,
    pub log: Arc<MemLog>,
    pub options: TreeOptions,
    pub model: Model,
    pub seq: Seq,
    pub lsn: u64,
    pub snapshots: Vec<Seq>,
    live: Arc<Live>,
    pub jobs: Vec<Job>,
    /// The records written: position, sequence, and what.
    pub records: Vec<(u64, Seq, Record)>,
    /// The blocks that the newest durable image names, computed from the differences that
    /// checkpoints report.
    imaged: BTreeSet<BlockId>,
}

type Lists = Vec<Vec<(RunMeta, Extent)>>;

pub enum Record {
    Entries(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    /// Runs of a transaction, oldest list first.
    Runs(Lists),
}

impl Bench {
    pub fn new(options: TreeOptions) -> Bench {
        let (store, log) = (MemStore::with_rows(200 << 10), MemLog::new());
        let live = Arc::new(Live::default());
        let tree = Tree::new(TREE, options.clone(), store.clone(), log.clone(), live.clone());
        Bench {
            tree,
            store,
            log,
            options,
            model: Model::default(),
            seq: 0,
            lsn: 0,
            snapshots: Vec::new(),
            live,
            jobs: Vec::new(),
            records: Vec::new(),
            imaged: BTreeSet::new(),
        }
    }

    /// Live snapshots as a job must respect them.
    pub fn retention(&self) -> Vec<Seq> {
        let mut all = self.snapshots.clone();
        all.push(self.seq);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Commits one batch; `None` deletes.
    pub fn write(&mut self, mut entries: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        entries.sort();
        entries.dedup_by(|a, b| a.0 == b.0);
        *self.live.0.lock() = self.retention();
        self.seq += 1;
        self.apply(self.lsn, self.seq, &entries);
        for (key, value) in &entries {
            self.model.keys.entry(key.clone()).or_default().push((self.seq, value.clone()));
        }
        self.records.push((self.lsn, self.seq, Record::Entries(entries)));
        self.lsn += 1;
    }

    /// Commits what a transaction has written to private runs.
    pub fn attach(&mut self, mut owner: Owner) {
        self.seq += 1;
        let at = self.seq;
        let lists = owner.runs.lists();
        let committed = |(meta, extent): (RunMeta, Extent)| (meta.committed_at(at), extent);
        let lists = lists.into_iter().map(|l| l.into_iter().map(committed).collect()).collect();
        self.tree.attach_private(&mut owner.runs, at, self.lsn, self.lsn + 1);
        for (key, value) in owner.model {
            self.model.keys.entry(key).or_default().push((at, value));
        }
        self.records.push((self.lsn, at, Record::Runs(lists)));
        self.lsn += 1;
    }

    fn apply(&self, lsn: u64, seq: Seq, entries: &[(Vec<u8>, Option<Vec<u8>>)]) {
        let batch = entries.iter().map(|(key, value)| EntryRef {
            key,
            seq,
            kind: if value.is_some() { EntryKind::Put } else { EntryKind::Delete },
            value: value.as_deref().unwrap_or(&[]),
        });
        self.tree.write(lsn, batch);
    }

    /// A checkpoint: the image that names what is stored of the tree now.
    pub fn checkpoint(&mut self) -> frond_tree::Image {
        let (image, stored) = self.store_version();
        self.set_durable(stored);
        let mut held = self.held();
        held.sort_unstable();
        assert!(self.imaged.iter().eq(&held), "the image names the blocks of the tree");
        image
    }

    /// A checkpoint that is not durable yet.
    pub fn store_version(&self) -> (frond_tree::Image, StoredVersion) {
        let version = self.tree.version();
        let stored = version.store().unwrap();
        let image = frond_tree::Image { lsn: version.image().lsn, bytes: stored.image().to_vec() };
        (image, stored)
    }

    /// The image of `stored` is durable.
    pub fn set_durable(&mut self, stored: StoredVersion) {
        for block in stored.added() {
            assert!(self.imaged.insert(block), "block {block} is added twice");
        }
        for block in stored.removed() {
            assert!(self.imaged.remove(&block), "block {block} is removed twice");
        }
        let dead = stored.dead_packs().to_vec();
        stored.set_durable();
        dead.into_iter().for_each(|block| self.store.retire(block, self.lsn));
    }

    /// Runs and packs.
    fn held(&self) -> Vec<BlockId> {
        let runs = self.tree.run_extents().into_iter().map(|(block, _)| block);
        runs.chain(self.tree.packs()).collect()
    }

    pub fn freeze(&mut self) {
        self.tree.freeze(self.lsn);
    }

    /// Begins a job or steps one.
    pub fn work(&mut self, rng: &mut TestRng) {
        if self.jobs.len() < 3 {
            if let Some(plan) = self.tree.plan() {
                self.jobs.extend(self.tree.begin(&plan, self.retention()));
            }
        }
        if !self.jobs.is_empty() {
            let i = below(rng, self.jobs.len() as u64) as usize;
            if self.jobs[i].step().unwrap() == Step::Done {
                self.jobs.swap_remove(i);
            }
            self.tree.check(false).unwrap();
        }
    }

    /// Finishes all jobs and all work that the tree offers.
    pub fn settle(&mut self) {
        for mut job in self.jobs.drain(..) {
            while job.step().unwrap() == Step::More {}
        }
        frond_tree::testing::drain(&self.tree, &self.retention()).unwrap();
        self.tree.check(true).unwrap();
    }

    /// The tree from `image` (or nothing), the logged edits and the records, as after a crash.
    pub fn reopen(&mut self, image: Option<frond_tree::Image>) {
        self.jobs.clear();
        self.snapshots.clear();
        let mut loader = match &image {
            Some(image) => {
                TreeLoader::from_image(TREE, &image.bytes, &*self.store, "image").unwrap()
            }
            None => TreeLoader::empty(TREE),
        };
        if image.is_none() {
            self.tree.packs().into_iter().for_each(|block| self.store.retire(block, 0));
            self.imaged.clear();
        }
        for (lsn, bytes) in self.log.edits(TREE) {
            let edit = frond_tree::TrunkEdit::decode(&bytes, "log").unwrap();
            let fresh = image.as_ref().is_none_or(|image| lsn >= image.lsn);
            assert_eq!(loader.apply_edit(lsn, &edit, "log").unwrap(), fresh);
        }
        let (store, log) = (self.store.clone(), self.log.clone());
        let tree =
            loader.finish(self.options.clone(), store, log, self.live.clone(), "log").unwrap();
        assert_eq!(tree.image().bytes, self.tree.image().bytes, "replay gives the same trunk");
        self.tree = tree;
        let mut held = self.held();
        for (lsn, seq, record) in &self.records {
            if *lsn < self.tree.flushed_upto() {
                continue;
            }
            match record {
                Record::Entries(entries) => self.apply(*lsn, *seq, entries),
                Record::Runs(lists) => {
                    held.extend(lists.iter().flatten().map(|(meta, _)| meta.block()));
                    assert!(self.tree.attach(lists.clone(), *lsn, lsn + 1));
                }
            }
        }
        held.sort_unstable();
        assert_eq!(held, self.store.blocks(), "no block is lost or left over");
    }

    /// Compares the whole tree with the model at one snapshot, forward.
    pub fn verify_all(&self, at: Seq) {
        let mut cursor = self.tree.cursor(at, Bounds::all());
        let mut more = cursor.first().unwrap();
        for (key, value) in self.model.range(Bound::Unbounded, Bound::Unbounded, at) {
            assert!(more, "the tree ends before {key:?}");
            assert_eq!((cursor.key(), cursor.value().len()), (key, value.len()));
            assert_eq!(cursor.value(), value);
            more = cursor.next().unwrap();
        }
        assert!(!more, "the tree has more than the model");
    }

    /// Random reads of every kind at live snapshots.
    pub fn verify_some(&self, rng: &mut TestRng, key: &mut dyn FnMut(&mut TestRng) -> Vec<u8>) {
        self.tree.check_rows().unwrap();
        let mut ats = self.snapshots.clone();
        ats.extend([self.seq, SEQ_MAX]);
        let mut value = Vec::new();
        for _ in 0..8 {
            let at = ats[below(rng, ats.len() as u64) as usize];
            let k = key(rng);
            let found = self.tree.get(&k, at, &mut value).unwrap();
            assert_eq!(found.map(|_| &value[..]), self.model.get(&k, at), "{k:?} at {at}");
        }
        let at = ats[below(rng, ats.len() as u64) as usize];
        let (a, b) = (key(rng), key(rng));
        let bound = |rng: &mut TestRng, k| match below(rng, 3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(k),
            _ => Bound::Excluded(k),
        };
        let (lo, hi) = (a.clone().min(b.clone()), a.max(b));
        if lo == hi {
            return;
        }
        let (from, to) = (bound(rng, &lo[..]), bound(rng, &hi[..]));
        let expected = self.model.range(from, to, at);
        let mut cursor = self.tree.cursor(at, Bounds::new(from, to));
        let limit = 1 + below(rng, 400) as usize;
        let mut more = cursor.first().unwrap();
        for (key, value) in expected.iter().take(limit) {
            assert!(more);
            assert_eq!((cursor.key(), cursor.value()), (*key, *value));
            more = cursor.next().unwrap();
        }
        assert_eq!(more, expected.len() > limit);
        let mut more = cursor.last().unwrap();
        for (key, value) in expected.iter().rev().take(limit) {
            assert!(more, "backward from {to:?} to {from:?} at {at} misses {key:?}");
            assert_eq!((cursor.key(), cursor.value()), (*key, *value));
            more = cursor.prev().unwrap();
        }
        assert_eq!(more, expected.len() > limit);
        self.verify_seeks(rng, key, &mut cursor, &expected);
    }

    fn verify_seeks(
        &self,
        rng: &mut TestRng,
        key: &mut dyn FnMut(&mut TestRng) -> Vec<u8>,
        cursor: &mut frond_tree::TreeCursor,
        expected: &[(&[u8], &[u8])],
    ) {
        for _ in 0..4 {
            let k = key(rng);
            let at_least = expected.partition_point(|(e, _)| *e < &k[..]);
            let above = expected.partition_point(|(e, _)| *e <= &k[..]);
            let (how, want) = match below(rng, 4) {
                0 => (Seek::Ge, Some(at_least)),
                1 => (Seek::Gt, Some(above)),
                2 => (Seek::Le, above.checked_sub(1)),
                _ => (Seek::Lt, at_least.checked_sub(1)),
            };
            let mut want = want.filter(|i| *i < expected.len());
            let mut found = cursor.seek(&k, how).unwrap();
            // And a walk with turns from there.
            for _ in 0..10 {
                assert_eq!(found, want.is_some(), "{how:?} {k:?}");
                let Some(i) = want else { break };
                assert_eq!((cursor.key(), cursor.value()), expected[i]);
                if below(rng, 3) > 0 {
                    found = cursor.next().unwrap();
                    want = Some(i + 1).filter(|i| *i < expected.len());
                } else {
                    found = cursor.prev().unwrap();
                    want = i.checked_sub(1);
                }
            }
        }
    }
}
