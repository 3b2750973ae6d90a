//! Inputs of jobs: the part of a source that lies in a list of key ranges.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use frond_base::{EntryRef, EntrySource, Result};
use frond_buffer::FrozenScan;
use frond_run::{Access, MergeInput, RunScan};

use crate::renewal::{Renewal, Renewing};
use crate::slice::{scale, Range, Slice};
use crate::store::RunStore;
use crate::view::Active;

/// A source that a job reads.
#[derive(Clone)]
pub(crate) enum Source {
    Buffer(Arc<Active>),
    Slice(Slice),
}

pub(crate) fn bounds(range: &Range) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let lo = range.lo.as_deref().map_or(Bound::Unbounded, Bound::Included);
    let hi = range.hi.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    (lo, hi)
}

impl Source {
    /// Estimated stored bytes of the source in `range`. `ratio`: see `TreeInner::ratio`.
    pub fn weight(&self, range: &Range, ratio: u64) -> u64 {
        match self {
            Source::Buffer(buffer) => {
                let (lo, hi) = bounds(range);
                scale(buffer.weight(lo, hi).bytes, ratio, 1024)
            }
            Source::Slice(slice) => slice.counts_in(range).bytes,
        }
    }

    pub fn entries(&self) -> u64 {
        match self {
            Source::Buffer(buffer) => buffer.entries(),
            Source::Slice(slice) => slice.counts.entries,
        }
    }

    /// The smallest key in `range`, or a smaller one; `None` when the source has nothing there.
    pub fn first_key(&self, range: &Range) -> Option<Vec<u8>> {
        match self {
            Source::Buffer(buffer) => {
                let (lo, hi) = bounds(range);
                let scan = buffer.iter_range(lo, hi);
                scan.valid().then(|| scan.entry().key.to_vec())
            }
            Source::Slice(slice) => slice.clip(range).map(|s| s.first().to_vec()),
        }
    }

    /// The source within `ranges` (ascending, disjoint).
    pub fn within(&self, ranges: &[Range]) -> Input {
        match self {
            Source::Buffer(buffer) => Input::Buffer(buffer.clone(), ranges.to_vec()),
            Source::Slice(slice) => {
                Input::Slices(ranges.iter().filter_map(|r| slice.clip(r)).collect())
            }
        }
    }
}

/// What a job reads of one source; not open yet.
pub(crate) enum Input {
    Buffer(Arc<Active>, Vec<Range>),
    /// Ascending, not overlapping.
    Slices(Vec<Slice>),
}

impl Input {
    /// Opens the input; `None` when it has no entries.
    pub fn open(
        self,
        store: &Arc<dyn RunStore>,
        renewal: &Arc<Renewal>,
    ) -> Result<Option<MergeInput>> {
        let (buffer, ranges) = match self {
            Input::Buffer(buffer, ranges) => (buffer, ranges),
            Input::Slices(parts) => return chain(store, renewal, parts),
        };
        let parts = BufferParts::new(buffer, &ranges);
        Ok(parts.valid().then(|| match renewal.is_none() {
            true => MergeInput::entries(parts),
            false => MergeInput::entries(Renewing::new(parts, renewal.clone())),
        }))
    }
}

/// Slices that do not overlap, ascending, as one input.
pub(crate) fn chain(
    store: &Arc<dyn RunStore>,
    renewal: &Arc<Renewal>,
    parts: Vec<Slice>,
) -> Result<Option<MergeInput>> {
    let old = parts.iter().any(|s| renewal.is_old(s.run.block()));
    let mut scan = SliceParts { store: store.clone(), parts: parts.into(), current: None };
    scan.open_next()?;
    if old {
        return Ok(match scan.valid() {
            true => Some(MergeInput::entries(Renewing::new(scan, renewal.clone()))),
            false => None,
        });
    }
    if scan.parts.is_empty() {
        return Ok(scan.current.map(MergeInput::run));
    }
    Ok(Some(MergeInput::entries(scan)))
}

/// The entries of a frozen buffer in some ranges, read in place.
struct BufferParts {
    buffer: Arc<Active>,
    ranges: VecDeque<Range>,
    /// Valid, or there is nothing left.
    current: Option<FrozenScan>,
}

impl BufferParts {
    fn new(buffer: Arc<Active>, ranges: &[Range]) -> BufferParts {
        let ranges = ranges.iter().cloned().collect();
        let mut parts = BufferParts { buffer, ranges, current: None };
        parts.open_next();
        parts
    }

    fn open_next(&mut self) {
        self.current = None;
        while let Some(range) = self.ranges.pop_front() {
            let (lo, hi) = bounds(&range);
            let scan = self.buffer.iter_range(lo, hi);
            if scan.valid() {
                self.current = Some(scan);
                return;
            }
        }
    }
}

impl EntrySource for BufferParts {
    #[inline]
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        match &self.current {
            Some(scan) => scan.entry(),
            None => panic!("entry() at the end of a buffer"),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(scan) = &mut self.current else { panic!("advance() at the end of a buffer") };
        scan.advance()?;
        if !scan.valid() {
            self.open_next();
        }
        Ok(())
    }
}

struct SliceParts {
    store: Arc<dyn RunStore>,
    parts: VecDeque<Slice>,
    /// Valid, or there is nothing left.
    current: Option<RunScan<dyn RunStore>>,
}

impl SliceParts {
    fn open_next(&mut self) -> Result<()> {
        self.current = None;
        while let Some(slice) = self.parts.pop_front() {
            let lo = slice.lo.as_deref().unwrap_or(&[]);
            let run = slice.run.run.clone();
            let scan =
                RunScan::new(self.store.clone(), run, lo, slice.hi.as_deref(), Access::Merge)?;
            if scan.valid() {
                self.current = Some(scan);
                return Ok(());
            }
        }
        Ok(())
    }
}

impl EntrySource for SliceParts {
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn entry(&self) -> EntryRef<'_> {
        match &self.current {
            Some(scan) => scan.entry(),
            None => panic!("entry() at the end of a chain"),
        }
    }

    fn advance(&mut self) -> Result<()> {
        let Some(scan) = &mut self.current else { panic!("advance() at the end of a chain") };
        scan.advance()?;
        if !scan.valid() {
            self.open_next()?;
        }
        Ok(())
    }
}
