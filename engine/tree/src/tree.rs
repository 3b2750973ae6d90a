//! A tree: the write buffers, the trunk, and access to both.
//!
//! Invariants
//!
//! - TR1. Readers see one [`View`]; every publication swaps a whole view. The view lock orders swaps,
//!   the install lock orders edits (and is taken first).
//! - TR2. A node is marked busy only under the install lock, so a change that is being made never
//!   splits, joins or removes a node that a job has just taken.
//! - TR3. At most one job flushes frozen items, oldest first. So entries that enter at the top are
//!   always newer than those in the trunk.
//! - TR4. A job that passes entries to a child marks the child, takes along all pending slices of
//!   the edges it passes, and adds to marked nodes only; entries that it cannot pass it adds to
//!   edges. That keeps recency (ND3) whatever other jobs do meanwhile.
//!
//! Not here: files (`RunStore`), the log (`EditLog`), threads (the engine steps the jobs),
//! snapshots and locks. Tested in `tests/`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwap;
use frond_base::{BlockId, EntryKind, EntryRef, Lsn, NodeId, Readers, Result, TreeId};
use frond_buffer::WriteBuffer;
use frond_run::RunMeta;
use parking_lot::Mutex;

use crate::book::{Book, Noted};
use crate::counters::Counters;
use crate::dead_ranges::DeadRanges;
use crate::difference::{self, Change, Refs};
use crate::draft::Draft;
use crate::extent::Extent;
use crate::node::{Body, Node};
use crate::options::{Formats, TreeOptions};
use crate::renewal::Renewals;
use crate::rows::Rows;
use crate::slice::{Key, Range, Slice};
use crate::state::{State, StateMutex};
use crate::store::{EditLog, RunStore, TrunkRun};
use crate::totals::Totals;
use crate::triggers::{self, Need};
use crate::trunk::Trunk;
use crate::view::{Active, Content, Frozen, View};

/// After meeting so many dead entries in the active buffer a tree asks to be frozen.
const DEAD_IN_BUFFER: u64 = 20_000;

/// Handle of a tree; clones are the same tree.
#[derive(Clone)]
pub struct Tree {
    pub(crate) inner: Arc<TreeInner>,
}

pub(crate) struct TreeInner {
    pub id: TreeId,
    pub options: Arc<TreeOptions>,
    /// `None`: those of the options.
    pub formats: Mutex<Option<Box<Formats>>>,
    pub store: Arc<dyn RunStore>,
    log: Arc<dyn EditLog>,
    readers: Arc<dyn Readers>,
    pub view: ArcSwap<View>,
    view_lock: Mutex<()>,
    pub install: Mutex<Refs>,
    pub state: StateMutex,
    /// The packs that the newest durable image names.
    pub packs: Mutex<BTreeSet<BlockId>>,
    /// What the newest durable image does not have; the view lock orders it with views.
    pub book: Mutex<Book>,
    /// Nodes at which reading has made work.
    hot: Mutex<Vec<(NodeId, Option<Key>)>>,
    reader_news: AtomicBool,
    pub counters: Counters,
    /// Stored bytes per 1024 logical bytes of this tree's recent runs.
    pub ratio: AtomicU64,
    buffer_dead: AtomicU64,
    wants_freeze: AtomicBool,
    /// Bytes of memory that were charged for the trunk and an empty buffer.
    pub charged: AtomicU64,
    pub dead_ranges: DeadRanges,
    pub rows: Rows,
    /// Whether it is being built, or abandoned (`build.rs`).
    pub phase: AtomicU8,
    pub renewals: Renewals,
    /// A version is being stored (VN1).
    pub storing: AtomicBool,
}

/// A checkpoint image of a tree's metadata.
#[derive(Clone, Debug)]
pub struct Image {
    /// Edits logged at positions below this are part of the image.
    pub lsn: Lsn,
    pub bytes: Vec<u8>,
}

impl Tree {
    /// An empty tree. Its write buffers drop versions that none of `readers` needs: a reader holds
    /// one of their snapshots while it reads, or reads at `SEQ_MAX`. Trees may share `options`.
    pub fn new(
        id: TreeId,
        options: impl Into<Arc<TreeOptions>>,
        store: Arc<dyn RunStore>,
        log: Arc<dyn EditLog>,
        readers: Arc<dyn Readers>,
    ) -> Tree {
        let (options, trunk) = (options.into(), Trunk::empty());
        Tree::with_trunk(id, options, store, log, readers, trunk, Noted::default())
    }

    pub(crate) fn with_trunk(
        id: TreeId,
        options: Arc<TreeOptions>,
        store: Arc<dyn RunStore>,
        log: Arc<dyn EditLog>,
        readers: Arc<dyn Readers>,
        trunk: Trunk,
        noted: Noted,
    ) -> Tree {
        options.assert_sound();
        let counters = Counters::default();
        let refs = difference::count_refs(&trunk, &mut |run| counters.add_run(run));
        let packs = noted.packs.keys().copied().collect();
        let active = Arc::new(Active::new(&readers));
        let view = View { active, frozen: Vec::new(), trunk: Arc::new(trunk), taken_in: 0 };
        let rows = Rows::new(&*store);
        let inner = TreeInner {
            id,
            options,
            formats: Mutex::default(),
            store,
            log,
            readers,
            view: ArcSwap::from_pointee(view),
            view_lock: Mutex::new(()),
            install: Mutex::new(refs),
            state: StateMutex::default(),
            packs: Mutex::new(packs),
            book: Mutex::new(Book::new(noted)),
            hot: Mutex::default(),
            reader_news: AtomicBool::new(false),
            counters,
            ratio: AtomicU64::new(512),
            buffer_dead: AtomicU64::new(0),
            wants_freeze: AtomicBool::new(false),
            charged: AtomicU64::new(0),
            dead_ranges: DeadRanges::default(),
            rows,
            phase: AtomicU8::new(0),
            renewals: Renewals::default(),
            storing: AtomicBool::new(false),
        };
        inner.charge();
        inner.find_all_needs();
        Tree { inner: Arc::new(inner) }
    }

    pub fn id(&self) -> TreeId {
        self.inner.id
    }

    pub fn options(&self) -> &TreeOptions {
        &self.inner.options
    }

    /// The trunk as bytes for [`crate::TreeLoader::from_image`].
    pub fn image(&self) -> Image {
        self.version().image()
    }

    /// Adds committed entries: sorted by key, newest first within a key. `lsn` is where the log record
    /// starts that has them. Several threads may write at once (different keys); none while the tree is
    /// being frozen. Returns the memory of the active buffer.
    pub fn write<'a>(&self, lsn: Lsn, batch: impl IntoIterator<Item = EntryRef<'a>>) -> u64 {
        if self.is_abandoned() {
            return 0;
        }
        let view = self.inner.view.load();
        view.active.note_lsn(lsn);
        let mut puts: Option<(&[u8], &[u8])> = None;
        let noting = batch.into_iter().inspect(|e| {
            if e.kind == EntryKind::Put {
                puts = Some((puts.map_or(e.key, |(first, _)| first), e.key));
            }
        });
        view.active.insert_batch(noting);
        if let Some((first, last)) = puts {
            self.inner.dead_ranges.note_puts(first, last);
        }
        view.active.bytes()
    }

    /// The active buffer becomes a frozen item and an empty one takes its place. Constant time. The
    /// caller makes sure that no write is under way and that all records of earlier writes start
    /// below `boundary`. False: nothing was buffered.
    pub fn freeze(&self, boundary: Lsn) -> bool {
        let inner = &self.inner;
        let _order = inner.view_lock.lock();
        inner.freeze_locked(boundary)
    }

    /// Adds runs built elsewhere, by reference: lists of runs, oldest first, each ascending and not
    /// overlapping; durable, with sequences above all that the tree holds for their keys, or 0.
    /// `lsn` is where the record that names them starts, `boundary` where it ends; the record has
    /// no other changes of this tree. As for `freeze`, no write is under way, and all records of
    /// earlier writes start below `lsn`. False, and nothing was done, when a list is not in order.
    pub fn attach(&self, lists: Vec<Vec<(RunMeta, Extent)>>, lsn: Lsn, boundary: Lsn) -> bool {
        self.attach_named_at(lists, lsn, lsn, boundary)
    }

    /// As [`Self::attach`], of runs that another record names, which starts at `named_at`, before `lsn`: the
    /// log is needed from there.
    pub fn attach_named_at(
        &self,
        lists: Vec<Vec<(RunMeta, Extent)>>,
        named_at: Lsn,
        lsn: Lsn,
        boundary: Lsn,
    ) -> bool {
        let store = &self.inner.store;
        let live =
            |(meta, extent)| Slice::whole(Arc::new(TrunkRun::live(meta, extent, store.clone())));
        let lists: Vec<Arc<[Slice]>> =
            lists.into_iter().map(|runs| runs.into_iter().map(live).collect()).collect();
        let in_order = |runs: &Arc<[Slice]>| runs.windows(2).all(|w| w[0].before(&w[1]));
        let sound = lists.iter().all(in_order);
        if sound {
            self.inner.attach(lists, named_at, lsn, boundary);
        }
        sound
    }

    /// Memory of the active buffer, 0 of an empty one: no flush frees that, and thousands of idle trees would stop writers for ever.
    #[inline]
    pub fn active_bytes(&self) -> u64 {
        self.inner.view.load().active.bytes()
    }

    /// Memory of frozen items that wait to be flushed.
    pub fn frozen_bytes(&self) -> u64 {
        self.inner.view.load().frozen.iter().map(|f| f.bytes()).sum()
    }

    pub fn frozen_count(&self) -> usize {
        self.inner.view.load().frozen.len()
    }

    pub fn buffered_bytes(&self) -> u64 {
        self.active_bytes() + self.frozen_bytes()
    }

    /// This tree needs the log from here on; `None` when nothing is buffered. The caller must
    /// consider records that are appended but not yet written to the tree.
    pub fn oldest_needed(&self) -> Option<Lsn> {
        let view = self.inner.view.load();
        let frozen = view.frozen.iter().map(|f| f.first_lsn).min();
        let oldest = frozen.unwrap_or(Lsn::MAX).min(view.active.first_lsn());
        (oldest != Lsn::MAX).then_some(oldest)
    }

    /// Records of this tree that start below this position are in its runs: recovery skips them.
    pub fn flushed_upto(&self) -> Lsn {
        self.inner.view.load().trunk.flushed_upto
    }

    /// Whether [`Tree::plan`] may find something. Cheap: for a look at many trees.
    pub fn may_have_work(&self) -> bool {
        let inner = &self.inner;
        let state = inner.state.lock();
        !state.merges.is_empty()
            || !state.flushes.is_empty()
            || !inner.hot.lock().is_empty()
            || self.frozen_count() > 0
    }

    /// Whether readers have made work since this was last asked: [`Tree::plan`] and the debt may have changed.
    pub fn take_reader_news(&self) -> bool {
        let news = &self.inner.reader_news;
        news.load(Ordering::Relaxed) && news.swap(false, Ordering::Relaxed)
    }

    /// Readers met many dead entries in the active buffer: freezing it would help.
    #[inline]
    pub fn wants_freeze(&self) -> bool {
        self.inner.wants_freeze.load(Ordering::Relaxed)
    }
}

impl TreeInner {
    /// `lists` oldest first. Entries buffered before are older.
    pub fn attach(&self, mut lists: Vec<Arc<[Slice]>>, named_at: Lsn, lsn: Lsn, boundary: Lsn) {
        lists.reverse();
        let _order = self.view_lock.lock();
        // Frozen up to `lsn` and not up to `boundary`: the record is needed until the runs are
        // flushed too.
        self.freeze_locked(lsn);
        let view = self.view.load_full();
        let totals = Totals::of_slices(lists.iter().flat_map(|runs| runs.iter()));
        let item = Frozen { content: Content::Runs(lists), boundary, first_lsn: named_at, totals };
        let mut frozen = vec![Arc::new(item)];
        frozen.extend(view.frozen.iter().cloned());
        self.view.store(Arc::new(View { frozen, ..View::clone(&view) }));
        self.dead_ranges.clear();
    }

    fn freeze_locked(&self, boundary: Lsn) -> bool {
        assert!(self.view_lock.is_locked(), "the view lock orders swaps (TR1)");
        let view = self.view.load_full();
        let newest = view.frozen.first().map_or(0, |f| f.boundary);
        assert!(newest <= boundary, "boundary {boundary} after {newest}: out of order (VW1)");
        self.wants_freeze.store(false, Ordering::Relaxed);
        self.buffer_dead.store(0, Ordering::Relaxed);
        if view.active.is_empty() {
            if view.active.first_lsn() != Lsn::MAX {
                // A log may have a batch without entries. It must not keep the log from being
                // trimmed.
                let active = Arc::new(Active::new(&self.readers));
                self.view.store(Arc::new(View { active, ..View::clone(&view) }));
            }
            return false;
        }
        let first = view.active.first_lsn();
        assert!(first < boundary, "a record at {first} is frozen with boundary {boundary} (VW1)");
        view.active.freeze();
        let item = Frozen {
            content: Content::Buffer(view.active.clone()),
            boundary,
            first_lsn: first,
            totals: Totals::default(),
        };
        let mut frozen = vec![Arc::new(item)];
        frozen.extend(view.frozen.iter().cloned());
        let active = Arc::new(Active::new(&self.readers));
        self.view.store(Arc::new(View { active, frozen, ..View::clone(&view) }));
        true
    }

    /// A cursor reports dead entries that it met in write buffers.
    pub fn note_buffer_dead(&self, count: u64) {
        let before = self.buffer_dead.fetch_add(count, Ordering::Relaxed);
        if before + count >= DEAD_IN_BUFFER && !self.wants_freeze.swap(true, Ordering::Relaxed) {
            self.store.note_reader_news();
        }
    }

    /// A cursor reports a node at which reading has made work.
    pub fn note_hot(&self, id: NodeId, lo: &Option<Key>) {
        if let Some(mut hot) = self.hot.try_lock() {
            if hot.len() < 1024 && !hot.iter().any(|(other, _)| *other == id) {
                hot.push((id, lo.clone()));
                self.reader_news.store(true, Ordering::Relaxed);
                self.store.note_reader_news();
            }
        }
    }

    /// A job releases a node: its need was taken off the list when the job began.
    pub fn note_given_back(&self, id: NodeId, lo: Option<Key>) {
        let mut hot = self.hot.lock();
        if !hot.iter().any(|(other, _)| *other == id) {
            hot.push((id, lo));
        }
    }

    /// Brings the needs of nodes that readers reported up to date.
    pub fn consider_hot(&self, state: &mut State) {
        let hot = std::mem::take(&mut *self.hot.lock());
        if hot.is_empty() {
            return;
        }
        let view = self.view.load();
        for (id, lo) in hot {
            let Some(found) = view.trunk.find(lo.as_deref().unwrap_or(&[]), id) else { continue };
            let lo = &found.range.lo;
            if let Body::Leaf(leaf) = &found.node.body {
                let need = triggers::of_leaf(leaf, &found.node.heat, lo, &self.options);
                state.merges.set(id, need);
            }
            let need = found.edge.and_then(|e| triggers::of_edge(e, lo, &self.options));
            state.flushes.set(id, need);
        }
    }

    /// Finds the needs of all nodes of a trunk that was never read; visits only subtrees that have
    /// debt.
    fn find_all_needs(&self) {
        fn below(node: &Arc<Node>, range: &Range, state: &mut State, options: &TreeOptions) {
            let inner = match &node.body {
                Body::Inner(inner) => inner,
                Body::Leaf(leaf) => {
                    let merge = triggers::of_leaf(leaf, &node.heat, &range.lo, options);
                    return state.merges.set(node.id, merge);
                }
            };
            for (i, child) in inner.children.iter().enumerate() {
                let range = inner.range(i, range);
                let flush = triggers::of_edge(child, &range.lo, options);
                if flush.is_some() {
                    state.flushes.set(child.node.id, flush);
                }
                if child.below.debt > 0 {
                    below(&child.node, &range, state, options);
                }
            }
        }
        let view = self.view.load();
        below(&view.trunk.root, &Range::all(), &mut self.state.lock(), &self.options);
    }

    /// Runs `f` while no edit can be installed and no other job can take nodes (TR2). `None`: no job begins.
    pub fn taking<R>(&self, f: impl FnOnce(&View, &mut State) -> Option<R>) -> Option<R> {
        let _installs = self.install.lock();
        if self.begins_no_job() {
            return None;
        }
        let view = self.view.load_full();
        f(&view, &mut self.state.lock())
    }

    /// As [`Self::taking`], for a job that is under way.
    pub fn going_on<R>(&self, f: impl FnOnce(&View, &mut State) -> R) -> R {
        let _installs = self.install.lock();
        let view = self.view.load_full();
        f(&view, &mut self.state.lock())
    }

    /// Runs `f` while no edit can be installed and no job can take nodes.
    pub fn holding(&self, f: impl FnOnce()) {
        let _installs = self.install.lock();
        f();
    }

    /// Replaces the view by one that `f` makes from it and an empty buffer; returns the old view
    /// and what else `f` returns.
    pub fn swap_view<R>(&self, f: impl FnOnce(&View, Arc<Active>) -> (View, R)) -> (Arc<View>, R) {
        let _order = self.view_lock.lock();
        let view = self.view.load_full();
        let (new, more) = f(&view, Arc::new(Active::new(&self.readers)));
        self.view.store(Arc::new(new));
        (view, more)
    }

    /// Changes the trunk: `change` edits a draft, the result is logged and published. `own` are the
    /// nodes that the calling job has marked; `finished` leaves the view in the same publication.
    /// Runs that the change adds are durable already. On `Err` nothing has changed.
    pub fn install(
        &self,
        own: &[NodeId],
        finished: Option<&Arc<Frozen>>,
        change: impl FnOnce(&mut Draft),
    ) -> Result<()> {
        let mut refs = self.install.lock();
        let trunk = self.view.load_full().trunk.clone();
        let mut draft = Draft::of(&trunk);
        change(&mut draft);
        if let Some(item) = finished {
            draft.flushed_upto = draft.flushed_upto.max(item.boundary);
        }
        let mut busy = self.state.lock().busy.clone();
        own.iter().for_each(|id| {
            busy.remove(id);
        });
        draft.settle(&busy, &self.options);
        draft.sum_up(&self.options);
        let change = difference::difference(&trunk, &draft, &refs);
        let needs = changed_needs(&draft, &self.options);
        let removed_nodes = change.edit.nodes_removed.clone();

        let mut draft = Some(draft);
        let mut published = false;
        let mut publish = |lsn: Lsn| {
            let draft = draft.take();
            let Some(draft) = draft else { panic!("an edit is published once") };
            for run in &change.added {
                run.set_live();
                self.counters.add_run(run);
            }
            self.publish(draft.into_trunk(lsn + 1), finished, &change);
            for run in &change.removed {
                run.set_retired(lsn);
                self.counters.remove_run(run);
            }
            published = true;
        };
        self.log.log_edit(self.id, &change.edit, &mut publish)?;
        assert!(published, "log_edit publishes when it succeeds");

        for (block, count) in change.refs {
            match count {
                0 => refs.remove(&block),
                n => refs.insert(block, n),
            };
        }
        self.charge();
        let mut state = self.state.lock();
        for id in removed_nodes {
            state.merges.forget(&id);
            state.flushes.forget(&id);
        }
        for (id, merge) in needs.merges {
            state.merges.set(id, merge);
        }
        for (id, flush) in needs.flushes {
            state.flushes.set(id, flush);
        }
        Ok(())
    }

    /// Tells the store how much memory the trunk and an empty buffer take.
    fn charge(&self) {
        let totals = self.view.load().trunk.sums.totals;
        let trunk = totals.memory_bytes(self.counters.runs.load(Ordering::Relaxed));
        let now = trunk + WriteBuffer::EMPTY_BYTES as u64;
        let before = self.charged.swap(now, Ordering::Relaxed);
        if before != now {
            self.store.charge_trunk(before, now);
        }
    }

    fn publish(&self, trunk: Trunk, finished: Option<&Arc<Frozen>>, change: &Change) {
        let _order = self.view_lock.lock();
        let view = self.view.load_full();
        if let Some(item) = finished {
            let oldest = view.frozen.last().is_some_and(|f| Arc::ptr_eq(f, item));
            assert!(oldest, "an item leaves the view before an older one (TR3)");
        }
        assert!(trunk.next_node >= view.trunk.next_node, "node numbers are not used again (TR1)");
        let gone = |f: &Arc<Frozen>| finished.is_some_and(|item| Arc::ptr_eq(f, item));
        let taken_in = view.taken_in + u64::from(finished.is_some());
        assert!(finished.is_none() || self.rows.told(taken_in), "the rows were not told (RWC1)");
        self.view.store(Arc::new(View {
            active: view.active.clone(),
            frozen: view.frozen.iter().filter(|f| !gone(f)).cloned().collect(),
            trunk: Arc::new(trunk),
            taken_in,
        }));
        self.book.lock().edited(change);
    }

    /// The trunk of the view, and what the book says of it.
    pub fn trunk_and_book(&self) -> (Arc<Trunk>, Arc<Noted>) {
        let _order = self.view_lock.lock();
        (self.view.load().trunk.clone(), self.book.lock().snapshot())
    }
}

impl Drop for TreeInner {
    fn drop(&mut self) {
        self.store.charge_trunk(*self.charged.get_mut(), 0);
    }
}

#[derive(Default)]
struct ChangedNeeds {
    merges: Vec<(NodeId, Option<Need>)>,
    flushes: Vec<(NodeId, Option<Need>)>,
}

/// The needs of all nodes that the draft changed, and of their edges.
fn changed_needs(draft: &Draft, options: &TreeOptions) -> ChangedNeeds {
    fn visit(node: &Arc<Node>, range: &Range, options: &TreeOptions, out: &mut ChangedNeeds) {
        if Arc::strong_count(node) > 1 {
            return;
        }
        match &node.body {
            Body::Leaf(leaf) => {
                let need = triggers::of_leaf(leaf, &node.heat, &range.lo, options);
                out.merges.push((node.id, need));
            }
            Body::Inner(inner) => {
                for (i, child) in inner.children.iter().enumerate() {
                    let range = inner.range(i, range);
                    let need = triggers::of_edge(child, &range.lo, options);
                    out.flushes.push((child.node.id, need));
                    visit(&child.node, &range, options, out);
                }
            }
        }
    }
    let mut out = ChangedNeeds::default();
    out.flushes.push((draft.root.id, None));
    visit(&draft.root, &Range::all(), options, &mut out);
    out
}
