//! The trees of an open table, by number. Some may be added while the table is used; none is taken away.
//!
//! Invariant TSL1: a tree stays where it is as long as the table is open, so a reference to it costs no latch.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

use frond_base::{IndexNo, Seq};
use frond_tree::Tree;
use parking_lot::Mutex;

use crate::catalog::definition::SLOTS_MAX;

/// Trees that are added come in pieces of this many.
const PIECE: usize = 64;

type Piece = Box<[OnceLock<Slot>]>;

/// See the module.
pub struct Trees {
    first: Box<[Slot]>,
    more: OnceLock<Box<[OnceLock<Piece>]>>,
    count: AtomicUsize,
}

/// A tree, and what the table notes of it.
pub(crate) struct Slot {
    pub tree: Tree,
    /// Bytes of the active buffer as last noted in the ledger.
    pub noted: AtomicU64,
    /// Snapshots older than this may not read the tree: its index was built after they were taken.
    pub oldest_snapshot: AtomicU64,
    /// Whether commits are to be noted in `changes`.
    watched: AtomicBool,
    /// `None`: no key was noted.
    changes: Mutex<Option<Box<Changes>>>,
}

/// Keys that commits have put into a tree whose uniqueness is being checked.
#[derive(Default)]
pub(crate) struct Changes {
    /// Each with its length, 4 bytes, before it.
    pub keys: Vec<u8>,
    /// Some keys are not in `keys`.
    pub overflow: bool,
}

/// More keys than this overflow.
const CHANGES_BYTES: usize = 16 << 20;

impl Slot {
    fn new(tree: Tree) -> Slot {
        Slot {
            tree,
            noted: AtomicU64::new(0),
            oldest_snapshot: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            changes: Mutex::default(),
        }
    }

    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    /// Begins to note keys, with none noted yet, or ends it.
    pub fn watch(&self, on: bool) {
        *self.changes.lock() = None;
        self.watched.store(on, Ordering::Release);
    }

    pub fn take_changes(&self) -> Changes {
        self.changes.lock().take().map_or_else(Changes::default, |changes| *changes)
    }

    /// A commit has put `keys`.
    pub fn note<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        let mut changes = self.changes.lock();
        let changes = changes.get_or_insert_default();
        for key in keys {
            if changes.overflow || changes.keys.len() > CHANGES_BYTES {
                **changes = Changes { keys: Vec::new(), overflow: true };
                return;
            }
            changes.keys.extend_from_slice(&(key.len() as u32).to_le_bytes());
            changes.keys.extend_from_slice(key);
        }
    }

    /// A commit has attached runs.
    pub fn note_attached(&self) {
        if self.is_watched() {
            let overflow = Changes { keys: Vec::new(), overflow: true };
            *self.changes.lock() = Some(Box::new(overflow));
        }
    }

    pub fn oldest_snapshot(&self) -> Seq {
        self.oldest_snapshot.load(Ordering::Acquire)
    }
}

impl Changes {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.keys[..];
        std::iter::from_fn(move || {
            let (len, after) = rest.split_first_chunk::<4>()?;
            let (key, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = after;
            Some(key)
        })
    }
}

impl Trees {
    pub(crate) fn new(trees: Vec<Tree>) -> Trees {
        let first: Box<[Slot]> = trees.into_iter().map(Slot::new).collect();
        let count = AtomicUsize::new(first.len());
        Trees { first, more: OnceLock::new(), count }
    }

    /// How many there are; their numbers are below.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn slot(&self, n: usize) -> Option<&Slot> {
        match self.first.get(n) {
            Some(slot) => Some(slot),
            None => self.added(n - self.first.len()),
        }
    }

    fn added(&self, n: usize) -> Option<&Slot> {
        self.more.get()?.get(n / PIECE)?.get()?.get(n % PIECE)?.get()
    }

    pub fn get(&self, n: usize) -> Option<&Tree> {
        self.slot(n).map(|slot| &slot.tree)
    }

    pub fn first(&self) -> Option<&Tree> {
        self.get(0)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tree> {
        (0..self.len()).filter_map(|n| self.get(n))
    }

    /// Adds the tree whose number is the next one. One caller at a time.
    pub(crate) fn add(&self, tree: Tree) {
        let n = self.len();
        assert_eq!(usize::from(tree.id().index), n, "trees are added in order (TSL1)");
        let at = n - self.first.len();
        let pieces = SLOTS_MAX.div_ceil(PIECE);
        let more = self.more.get_or_init(|| (0..pieces).map(|_| OnceLock::new()).collect());
        let piece = more[at / PIECE].get_or_init(|| (0..PIECE).map(|_| OnceLock::new()).collect());
        let set = piece[at % PIECE].set(Slot::new(tree));
        assert!(set.is_ok(), "tree {n} is added twice (TSL1)");
        self.count.store(n + 1, Ordering::Release);
    }
}

impl std::ops::Index<IndexNo> for Trees {
    type Output = Tree;

    #[inline]
    fn index(&self, n: IndexNo) -> &Tree {
        match self.first.get(usize::from(n)) {
            Some(slot) => &slot.tree,
            None => self.get(n.into()).unwrap_or_else(|| panic!("there is no tree {n}")),
        }
    }
}
