//! Version reduction: which versions of a key a merge must keep, and with which sequence.
//!
//! Invariants:
//!
//! - RD1. Versions newer than the last snapshot are all kept: a snapshot that is taken after the job
//!   has started may need any of them.
//! - RD2. Of the rest a version is kept iff it is the newest one that some snapshot sees (both:
//!   [`Unserved`]).
//! - RD3. A version that the oldest snapshot sees is seen by all: it gets sequence 0, and all older
//!   ones are dropped. At the bottom of the tree a tombstone in its place is dropped as well.
//! - RD4. A version is dropped when its sequence is not below that of the version before it, which
//!   hides it from every reader. A replay of the log makes such versions in several sources.

use frond_base::{EntryKind, EntryRef, EntrySource, Result, Seq, Unserved};

/// Which versions a merge keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Live snapshots, ascending, never empty: the last element is the published sequence at the
    /// start of the job.
    pub snapshots: Vec<Seq>,
    /// Nothing older than the merge's inputs exists for its key range.
    pub bottom: bool,
}

impl Retention {
    /// Keeps only what a reader at `at` or later sees.
    pub fn newest(at: Seq, bottom: bool) -> Retention {
        Retention { snapshots: vec![at], bottom }
    }
}

/// Decides version by version; feed it the versions of a key newest first.
pub struct VersionFilter {
    snapshots: Vec<Seq>,
    bottom: bool,
    first: Seq,
    unserved: Unserved,
    /// Sequence of the version before.
    before: Seq,
}

impl VersionFilter {
    pub fn new(retention: Retention) -> VersionFilter {
        let Retention { snapshots, bottom } = retention;
        assert!(snapshots.is_sorted(), "snapshots ascend (RD2)");
        let Some(&first) = snapshots.first() else {
            panic!("a merge needs at least the published sequence (RD1)");
        };
        let unserved = Unserved::all(&snapshots);
        VersionFilter { snapshots, bottom, first, unserved, before: 0 }
    }

    /// Whether the next version is kept, and the sequence to write it with. `same_key`: it is an
    /// older version of the key of the call before.
    #[inline]
    pub fn admit(&mut self, same_key: bool, seq: Seq, kind: EntryKind) -> Option<Seq> {
        if !same_key {
            if seq <= self.first {
                self.unserved = Unserved::none();
                return (!(self.bottom && kind == EntryKind::Delete)).then_some(0);
            }
            self.unserved = Unserved::all(&self.snapshots);
        } else if self.unserved.is_none() || seq >= self.before {
            return None;
        }
        self.before = seq;
        self.admit_slow(seq, kind)
    }

    /// [`Self::admit`] of a put with sequence 0 that is the first of its key: it is always kept.
    #[inline]
    pub(crate) fn admit_oldest(&mut self) {
        self.unserved = Unserved::none();
    }

    #[inline(never)]
    fn admit_slow(&mut self, seq: Seq, kind: EntryKind) -> Option<Seq> {
        if self.unserved.serve(seq, &self.snapshots)? > 0 {
            return Some(seq);
        }
        (!(self.bottom && kind == EntryKind::Delete)).then_some(0)
    }
}

/// Pushes what `retention` keeps of `source` into `sink`. For streams of any kind; merges of runs
/// use [`crate::MergeJob`].
pub fn reduce(
    source: &mut impl EntrySource,
    retention: &Retention,
    sink: &mut impl FnMut(EntryRef<'_>),
) -> Result<()> {
    let mut filter = VersionFilter::new(retention.clone());
    let mut key: Vec<u8> = Vec::new();
    while source.valid() {
        let entry = source.entry();
        let same = key == entry.key;
        if let Some(seq) = filter.admit(same, entry.seq, entry.kind) {
            sink(EntryRef { seq, ..entry });
        }
        if !same {
            key.clear();
            key.extend_from_slice(entry.key);
        }
        source.advance()?;
    }
    Ok(())
}
