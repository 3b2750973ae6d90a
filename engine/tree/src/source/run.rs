//! Slices of runs as a source.
//!
//! - A position is an entry of a page. Forward this is the version that the key resolves to.
//!   Backward the cursor meets a key's oldest version first and goes on to its newest.
//! - Keys may span pages: the fence of the next page tells without reading it.
//! - A slice in which the snapshot sees no entry is skipped without a read.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use frond_base::{EntryKind, Error, Result, Seq};
use frond_run::{Access, Page, Reader, Run, RunIndex};

use super::Walk;
use crate::slice::Slice;

/// Slices that do not overlap, ascending; one of them is open at a time.
pub(crate) struct RunSource {
    slices: Arc<[Slice]>,
    /// The target of the next seek, with the page that it reads, if it was found beforehand.
    ready: Option<(Spot, Arc<Page>)>,
    open: Option<Open>,
    /// The page of the version that the current key resolves to; what it says of that version.
    page: Option<Arc<Page>>,
    value: Range<usize>,
    pub(super) kind: EntryKind,
    pub(super) seq: Seq,
}

/// A page of a slice.
pub(crate) struct Spot {
    slice: usize,
    index: Arc<RunIndex>,
    number: u32,
}

/// A position in a slice: an entry of a page. Forward it is the current version; backward it is the
/// first version of the current key.
struct Open {
    slice: usize,
    index: Arc<RunIndex>,
    reader: Reader<Arc<Page>>,
    number: u32,
    at: usize,
    /// Forward: entries of this page that belong to the slice.
    end: usize,
    /// Every entry of the page is the only version of its key, a row, and seen by the snapshot.
    plain: bool,
}

impl Open {
    #[inline]
    fn seq(&mut self, slices: &[Slice]) -> Seq {
        slices[self.slice].run.meta().seq(&mut self.reader, self.at)
    }
}

/// A page that a walk comes to. It begins with its fence, so a walk over pages of a forged run gets on.
fn load(walk: &mut Walk, run: &Arc<Run>, index: &RunIndex, number: u32) -> Result<Arc<Page>> {
    walk.refills += 1;
    let page = walk.store.page(run, number, Access::Scan)?;
    if !page.begins_with(&index.fence(number)) {
        let what =
            format!("block {}, page {number}: first key is not the fence's", run.meta.block());
        return Err(Error::corruption(&format!("{}.frd", run.meta.id.table), what));
    }
    Ok(page)
}

impl RunSource {
    pub fn new(slices: Arc<[Slice]>) -> RunSource {
        let kind = EntryKind::Put;
        RunSource { slices, ready: None, open: None, page: None, value: 0..0, kind, seq: 0 }
    }

    /// The value of the version that the current key resolves to.
    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        match &self.page {
            Some(page) => page.value_at(self.value.clone()),
            None => &[],
        }
    }

    /// Sets the open entry, whose sequence is `seq`, as the version that the current key resolves
    /// to.
    #[inline]
    fn resolve(&mut self, seq: Seq) {
        let Some(open) = &mut self.open else { return };
        self.seq = seq;
        self.kind = open.reader.kind(open.at);
        self.value = open.reader.value(open.at);
        let page = open.reader.page();
        // Most entries are of the page of the entry before: no traffic on its reference count.
        if !self.page.as_ref().is_some_and(|known| Arc::ptr_eq(known, page)) {
            self.page = Some(page.clone());
        }
    }

    pub(super) fn seek(
        &mut self,
        walk: &mut Walk,
        from: Option<&[u8]>,
        key: &mut Vec<u8>,
    ) -> Result<bool> {
        self.open = None;
        let Some((spot, page)) = self.at_spot(walk, from)? else { return Ok(false) };
        if walk.forward {
            self.enter_forward(spot, page, from.unwrap_or(&[]));
            return self.settle_forward(walk, key);
        }
        if !self.enter_backward(walk, spot, page, from)? {
            return Ok(false);
        }
        self.settle_backward(walk, key)
    }

    fn at_spot(
        &mut self,
        walk: &mut Walk,
        from: Option<&[u8]>,
    ) -> Result<Option<(Spot, Arc<Page>)>> {
        if let Some(ready) = self.ready.take() {
            return Ok(Some(ready));
        }
        match self.spot(walk.forward, walk.at, from)? {
            Some(spot) => {
                walk.refills += 1;
                let run = &self.slices[spot.slice].run.run;
                let page = walk.store.page(run, spot.number, Access::Seek)?;
                Ok(Some((spot, page)))
            }
            None => Ok(None),
        }
    }

    /// The page where a seek to `from` (as in [`Source::seek`]) begins at snapshot `at`; `None`: there is
    /// nothing.
    pub fn spot(&self, forward: bool, at: Seq, from: Option<&[u8]>) -> Result<Option<Spot>> {
        if forward {
            let from = from.unwrap_or(&[]);
            let slice = self.slices.partition_point(|s| s.ends_before(from));
            return self.spot_forward(slice, at, from);
        }
        let after = match from {
            Some(key) => self.slices.partition_point(|s| s.first() < key),
            None => self.slices.len(),
        };
        self.spot_backward(after, at, from)
    }

    /// The run and the page number of a spot.
    pub fn page_of(&self, spot: &Spot) -> (Arc<Run>, u32) {
        (self.slices[spot.slice].run.run.clone(), spot.number)
    }

    /// Notes where the next seek begins, which must be to the key for which `spot` was found.
    pub fn set_ready(&mut self, walk: &mut Walk, spot: Spot, page: Arc<Page>) {
        walk.refills += 1;
        self.ready = Some((spot, page));
    }

    /// The page at which the entries `>= from` begin: of slice `slice`, or of the first one behind
    /// it in which `at` may see an entry.
    fn spot_forward(&self, mut slice: usize, at: Seq, from: &[u8]) -> Result<Option<Spot>> {
        while self.slices.get(slice).is_some_and(|s| s.run.meta().is_after(at)) {
            slice += 1;
        }
        let Some(s) = self.slices.get(slice) else { return Ok(None) };
        let index = s.run.index()?.keep();
        let from = from.max(s.lo.as_deref().unwrap_or(&[]));
        let number = index.page_for_seek(from).min(index.pages() - 1);
        Ok(Some(Spot { slice, index, number }))
    }

    /// Opens a slice at its first entry `>= from`.
    fn enter_forward(&mut self, spot: Spot, page: Arc<Page>, from: &[u8]) {
        let Spot { slice, index, number } = spot;
        let end = self.page_end(slice, &index, &page, number);
        let plain = self.is_plain(slice, &page);
        let mut reader = Reader::new(page);
        let from = from.max(self.slices[slice].lo.as_deref().unwrap_or(&[]));
        let at = reader.lower_bound(from, 0);
        self.open = Some(Open { slice, index, reader, number, at, end, plain });
    }

    /// See [`Open`]. Slices whose one sequence the snapshot does not see are never opened.
    fn is_plain(&self, slice: usize, page: &Page) -> bool {
        page.is_plain(self.slices[slice].run.meta().one_seq)
    }

    /// Opens slice `slice` (if it exists) at its first entry.
    fn open_forward(&mut self, walk: &mut Walk, slice: usize) -> Result<bool> {
        self.open = None;
        let Some(spot) = self.spot_forward(slice, walk.at, &[])? else { return Ok(false) };
        let page = load(walk, &self.slices[spot.slice].run.run, &spot.index, spot.number)?;
        self.enter_forward(spot, page, &[]);
        Ok(true)
    }

    /// How many entries of the page lie below the slice's upper bound.
    fn page_end(&self, slice: usize, index: &RunIndex, page: &Page, number: u32) -> usize {
        match &self.slices[slice].hi {
            // A key may span pages: when the next one starts with `hi`, this one may end with it.
            Some(hi) if number + 1 >= index.pages() || *index.fence(number + 1) >= **hi => {
                page.lower_bound(hi)
            }
            _ => page.len(),
        }
    }

    /// From the open position on, the first visible version; its key goes to `key`.
    fn settle_forward(&mut self, walk: &mut Walk, key: &mut Vec<u8>) -> Result<bool> {
        loop {
            let Some(open) = &mut self.open else { return Ok(false) };
            if open.at < open.end {
                walk.examine(1)?;
                let seq = open.seq(&self.slices);
                if seq > walk.at {
                    open.at += 1;
                    continue;
                }
                open.reader.key_into(open.at, key);
                self.resolve(seq);
                return Ok(true);
            }
            if !self.next_page(walk)? {
                return Ok(false);
            }
        }
    }

    /// Opens the next page of the slice, or the next slice.
    fn next_page(&mut self, walk: &mut Walk) -> Result<bool> {
        let Some(open) = &self.open else { return Ok(false) };
        let (slice, number) = (open.slice, open.number + 1);
        let hi = self.slices[slice].hi.as_deref();
        let more = open.end == open.reader.page().len()
            && number < open.index.pages()
            && hi.is_none_or(|hi| &*open.index.fence(number) < hi);
        if !more {
            return self.open_forward(walk, slice + 1);
        }
        let page = load(walk, &self.slices[slice].run.run, &open.index, number)?;
        let Some(open) = &self.open else { return Ok(false) };
        let end = self.page_end(slice, &open.index, &page, number);
        let plain = self.is_plain(slice, &page);
        if let Some(open) = &mut self.open {
            open.reader = Reader::new(page);
            (open.number, open.at, open.end, open.plain) = (number, 0, end, plain);
        }
        Ok(true)
    }

    /// Forward: the position in the open page up to which entries can be had by [`Self::glide`] and
    /// are below `rival`; 0 when there are none.
    pub fn alone_up_to(&mut self, rival: Option<&[u8]>) -> usize {
        let Some(open) = self.open.as_mut().filter(|open| open.plain) else { return 0 };
        let Some(rival) = rival else { return open.end };
        // The open entry is below.
        open.reader.lower_bound(rival, open.at).min(open.end)
    }

    /// Goes to the next entry if that is in the open page before position `limit` (of
    /// [`Self::alone_up_to`]); otherwise does nothing and returns false.
    #[inline]
    pub fn glide(&mut self, limit: usize, walk: &mut Walk, key: &mut Vec<u8>) -> bool {
        let Some(open) = &mut self.open else { return false };
        let at = open.at + 1;
        if at >= limit || walk.is_poll_due() {
            return false;
        }
        debug_assert!(walk.forward && open.plain && at < open.end, "GD1");
        open.at = at;
        walk.examined += 1;
        open.reader.key_into(at, key);
        // The entry before is the current version: its value, of the same page, ends where this one begins.
        self.value = open.reader.value_from(at, self.value.end);
        true
    }

    pub(super) fn advance(&mut self, walk: &mut Walk, key: &mut Vec<u8>) -> Result<bool> {
        if !walk.forward {
            if !self.before(walk)? {
                return Ok(false);
            }
            return self.settle_backward(walk, key);
        }
        // Older versions of the current key; a version without sequence is the last of its key.
        let mut more = true;
        while more {
            let Some(open) = &mut self.open else { return Ok(false) };
            if open.at < open.end {
                let last = open.seq(&self.slices) == 0;
                open.at += 1;
                if last {
                    break;
                }
            }
            if open.at < open.end {
                if open.reader.compare_key(open.at, key) != Ordering::Equal {
                    break;
                }
                walk.examine(1)?;
            } else {
                let same = open.number + 1 < open.index.pages()
                    && *open.index.fence(open.number + 1) == key[..];
                if !same {
                    break;
                }
                more = self.next_page(walk)?;
                let Some(open) = &mut self.open else { return Ok(false) };
                if open.end == 0 || open.reader.compare_key(0, key) != Ordering::Equal {
                    break;
                }
                walk.examine(1)?;
            }
        }
        self.settle_forward(walk, key)
    }

    /// The page at which the entries `< from` end: of the last slice before position `after` in
    /// which `at` may see an entry.
    fn spot_backward(&self, after: usize, at: Seq, from: Option<&[u8]>) -> Result<Option<Spot>> {
        let seen = |s: &Slice| !s.run.meta().is_after(at);
        let Some(slice) = self.slices[..after].iter().rposition(seen) else { return Ok(None) };
        let index = self.slices[slice].run.index()?.keep();
        let last = index.pages() - 1;
        let from = self.cut_at(slice, from);
        let number = from.map_or(last, |key| index.page_for_seek(key).min(last));
        Ok(Some(Spot { slice, index, number }))
    }

    /// The smaller one of `from` and the slice's upper bound.
    fn cut_at<'a>(&'a self, slice: usize, from: Option<&'a [u8]>) -> Option<&'a [u8]> {
        match (from, self.slices[slice].hi.as_deref()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Opens a slice at its last entry `< from`.
    fn enter_backward(
        &mut self,
        walk: &mut Walk,
        spot: Spot,
        page: Arc<Page>,
        from: Option<&[u8]>,
    ) -> Result<bool> {
        let Spot { slice, index, number } = spot;
        let len = page.len();
        let mut reader = Reader::new(page);
        let at = self.cut_at(slice, from).map_or(len, |key| reader.lower_bound(key, 0));
        self.open = Some(Open { slice, index, reader, number, at, end: 0, plain: false });
        self.before(walk)
    }

    /// Opens the last slice before position `after` (if any) at its last entry.
    fn open_backward(&mut self, walk: &mut Walk, after: usize) -> Result<bool> {
        self.open = None;
        let Some(spot) = self.spot_backward(after, walk.at, None)? else { return Ok(false) };
        let page = load(walk, &self.slices[spot.slice].run.run, &spot.index, spot.number)?;
        self.enter_backward(walk, spot, page, None)
    }

    /// Moves to the entry before the position, over pages and slices; false at the start.
    fn before(&mut self, walk: &mut Walk) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        if open.at > 0 {
            open.at -= 1;
        } else if open.number > 0 {
            let (slice, number) = (open.slice, open.number - 1);
            let page = load(walk, &self.slices[slice].run.run, &open.index, number)?;
            if let Some(open) = &mut self.open {
                (open.at, open.number) = (page.len() - 1, number);
                open.reader = Reader::new(page);
            }
        } else {
            let slice = open.slice;
            return self.open_backward(walk, slice);
        }
        let Some(open) = &mut self.open else { return Ok(false) };
        let slice = open.slice;
        let below = match &self.slices[slice].lo {
            Some(lo) => open.reader.compare_key(open.at, lo) == Ordering::Less,
            None => false,
        };
        if below {
            return self.open_backward(walk, slice);
        }
        Ok(true)
    }

    /// The position is at the last (oldest) version of a key. Goes to the key's first version and
    /// resolves the key; if the snapshot sees no version, goes on to the key before it.
    fn settle_backward(&mut self, walk: &mut Walk, key: &mut Vec<u8>) -> Result<bool> {
        loop {
            let Some(open) = &mut self.open else { return Ok(false) };
            open.reader.key_into(open.at, key);
            let mut seen = false;
            loop {
                walk.examine(1)?;
                let Some(open) = &mut self.open else { return Ok(false) };
                let seq = open.seq(&self.slices);
                if seq <= walk.at {
                    self.resolve(seq);
                    seen = true;
                }
                let Some(open) = &mut self.open else { return Ok(false) };
                if open.at > 0 {
                    if open.reader.compare_key(open.at - 1, key) != Ordering::Equal {
                        break;
                    }
                    open.at -= 1;
                } else if open.number > 0 && *open.index.fence(open.number) == key[..] {
                    // The page before may end with newer versions of the same key.
                    let (slice, number) = (open.slice, open.number - 1);
                    let page = load(walk, &self.slices[slice].run.run, &open.index, number)?;
                    let last = page.len() - 1;
                    if page.compare_key(last, key) != Ordering::Equal {
                        break;
                    }
                    if let Some(open) = &mut self.open {
                        (open.at, open.number) = (last, number);
                        open.reader = Reader::new(page);
                    }
                } else {
                    break;
                }
            }
            if seen {
                return Ok(true);
            }
            if !self.before(walk)? {
                return Ok(false);
            }
        }
    }
}
