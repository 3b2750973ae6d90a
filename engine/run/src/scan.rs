//! Forward scans of a run between two keys, a group of 128 entries at a time.
//!
//! The scan checks that entries ascend, within groups and across them: it yields source order even
//! from forged bytes, so that builders can assert order.

use std::sync::Arc;

use frond_base::{EntryRef, EntrySource, Error, Result};

use crate::batch::{Batch, BatchSource};
use crate::columns::GROUP;
use crate::index::RunIndex;
use crate::page::Page;
use crate::source::{Access, PageSource, Run};

/// Reads groups in order; the part of a scan that does not depend on head width.
struct Reader<P: PageSource + ?Sized> {
    source: Arc<P>,
    run: Arc<Run>,
    index: Arc<RunIndex>,
    access: Access,
    hi: Option<Box<[u8]>>,
    /// The page being read, if any, and the next entry in it.
    page: Option<Arc<Page>>,
    at: usize,
    /// Entries of it that are below `hi`.
    end: usize,
    page_no: u32,
    next_page: u32,
    last_key: Vec<u8>,
    last_seq: u64,
    started: bool,
}

impl<P: PageSource + ?Sized> Reader<P> {
    fn new(
        source: Arc<P>,
        run: Arc<Run>,
        lo: &[u8],
        hi: Option<&[u8]>,
        access: Access,
    ) -> Result<Reader<P>> {
        let index = source.index(&run)?;
        let mut reader = Reader {
            page_no: 0,
            next_page: index.page_for_seek(lo),
            source,
            run,
            index,
            access,
            hi: hi.map(Into::into),
            page: None,
            at: 0,
            end: 0,
            last_key: Vec::new(),
            last_seq: 0,
            started: false,
        };
        if reader.open_page()? {
            if let Some(page) = &reader.page {
                reader.at = page.lower_bound(lo);
            }
        }
        Ok(reader)
    }

    /// Loads the next page; false when there is none or it starts at `hi` or behind.
    fn open_page(&mut self) -> Result<bool> {
        self.page = None;
        if self.next_page >= self.index.pages() {
            return Ok(false);
        }
        let hi = self.hi.as_deref();
        if hi.is_some_and(|hi| &*self.index.fence(self.next_page) >= hi) {
            self.next_page = self.index.pages();
            return Ok(false);
        }
        let page = self.source.page(&self.run, self.next_page, self.access)?;
        if !page.begins_with(&self.index.fence(self.next_page)) {
            return Err(self.corruption(self.next_page, "first key is not the fence's"));
        }
        self.page_no = self.next_page;
        self.next_page += 1;
        self.at = 0;
        self.end = page.len();
        if let Some(hi) = hi {
            let beyond = match self.next_page < self.index.pages() {
                true => &*self.index.fence(self.next_page) >= hi,
                false => &*self.run.meta.max_key >= hi,
            };
            if beyond {
                self.end = page.lower_bound(hi);
                self.next_page = self.index.pages();
            }
        }
        self.page = Some(page);
        Ok(true)
    }

    fn fill<const W: usize>(&mut self, batch: &mut Batch<W>) -> Result<()> {
        loop {
            let Some(page) = &self.page else {
                batch.clear();
                return Ok(());
            };
            if self.at < self.end {
                let start = self.at - self.at % GROUP;
                page.decode_group(self.at / GROUP, batch);
                batch.truncate(self.end - start);
                if self.run.meta.one_seq {
                    batch.seqs.clear();
                    batch.seqs.resize(batch.len(), self.run.meta.max_seq);
                }
                batch.pos = self.at - start;
                self.at = start + batch.len();
                return self.check_order(batch);
            }
            if !self.open_page()? {
                batch.clear();
                return Ok(());
            }
        }
    }

    fn corruption(&self, page: u32, what: &str) -> Error {
        let (table, block) = (self.run.meta.id.table, self.run.meta.id.block);
        let place = format_args!("block {block}, page {page}: {what}").to_string();
        Error::corruption(&format!("table {table}"), place)
    }

    fn check_order<const W: usize>(&mut self, batch: &Batch<W>) -> Result<()> {
        // Entries of the batch are compared with each other, and the first one with the last of the
        // batch before.
        let first = batch.pos;
        let mut sound = batch.in_order(first);
        let mut key = Vec::new();
        if self.started && sound {
            batch.key_into(first, &mut key);
            sound = match self.last_key.cmp(&key) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => self.last_seq > batch.seq(first),
                std::cmp::Ordering::Greater => false,
            };
        }
        if !sound {
            return Err(self.corruption(self.page_no, "keys out of order"));
        }
        batch.key_into(batch.len() - 1, &mut self.last_key);
        self.last_seq = batch.seq(batch.len() - 1);
        self.started = true;
        Ok(())
    }
}

/// A scan as an input of a merge job.
pub(crate) struct Batches<P: PageSource + ?Sized>(Reader<P>);

impl<const W: usize, P: PageSource + ?Sized> BatchSource<W> for Batches<P> {
    fn fill(&mut self, batch: &mut Batch<W>) -> Result<()> {
        self.0.fill(batch)
    }
}

/// The entries of a run with `lo <= key < hi`, as an [`EntrySource`] or as an input of a merge job.
pub struct RunScan<P: PageSource + ?Sized> {
    reader: Reader<P>,
    batch: Batch<1>,
    key: Vec<u8>,
}

impl<P: PageSource + ?Sized> RunScan<P> {
    /// Positions at the first entry of `run` that is not below `lo` (empty: the start); the scan
    /// ends before `hi`, or with the run.
    pub fn new(
        source: Arc<P>,
        run: Arc<Run>,
        lo: &[u8],
        hi: Option<&[u8]>,
        access: Access,
    ) -> Result<RunScan<P>> {
        let reader = Reader::new(source, run, lo, hi, access)?;
        let mut scan = RunScan { reader, batch: Batch::new(), key: Vec::new() };
        scan.reader.fill(&mut scan.batch)?;
        scan.load_key();
        Ok(scan)
    }

    /// What is left of the scan, batch by batch and for heads of any width.
    pub(crate) fn into_batches(mut self) -> Batches<P> {
        // The batch that was decoded for the entry interface is handed out again.
        self.reader.at -= self.batch.len() - self.batch.pos;
        self.reader.started = false;
        Batches(self.reader)
    }

    fn load_key(&mut self) {
        if self.batch.pos < self.batch.len() {
            self.batch.key_into(self.batch.pos, &mut self.key);
        }
    }
}

impl<P: PageSource + ?Sized> EntrySource for RunScan<P> {
    #[inline]
    fn valid(&self) -> bool {
        self.batch.pos < self.batch.len()
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        let i = self.batch.pos;
        assert!(i < self.batch.len(), "entry() at the end of a scan");
        EntryRef {
            key: &self.key,
            seq: self.batch.seq(i),
            kind: self.batch.kind(i),
            value: self.batch.value(i),
        }
    }

    fn advance(&mut self) -> Result<()> {
        assert!(self.valid(), "advance() at the end of a scan");
        self.batch.pos += 1;
        if self.batch.pos >= self.batch.len() {
            self.reader.fill(&mut self.batch)?;
        }
        self.load_key();
        Ok(())
    }
}
