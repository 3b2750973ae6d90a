//! Positioning a scan by a search tuple, which is the server's key image or its first parts.

use frond_base::{Error, ErrorKind, Result};
use frond_row::prefix_end;
use frond_tree::Seek;

use super::lock::Origin;
use super::{Fetched, Place, Scan, ScanHooks, Way};
use crate::commit::transaction::Transaction;

/// Where a search tuple puts the scan; as MariaDB's `ha_rkey_function`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TupleSeek {
    /// First entry that matches, or none.
    Exact,
    /// First entry at or after the tuple.
    OrNext,
    /// Last entry at or before; entries that match the tuple count as equal.
    OrPrev,
    /// First entry after all that match.
    After,
    /// Last entry before all that match.
    Before,
    /// Last entry that matches, or none.
    PrefixLast,
    /// Last entry that matches, or the one before.
    PrefixLastOrPrev,
}

impl Scan {
    /// Positions by the first `parts` parts of `tuple` (the server's key image).
    pub fn seek(
        &mut self,
        txn: &mut Transaction,
        how: TupleSeek,
        (tuple, parts): (&[u8], usize),
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        let mut prefix = std::mem::take(&mut self.prefix);
        prefix.clear();
        let outcome = self.seek_prefix(txn, how, (tuple, parts), None, &mut prefix, record, hooks);
        self.prefix = prefix;
        outcome
    }

    /// As [`Scan::seek`], forwards, but not beyond the entries that match the first `same` parts of
    /// `tuple`: the entry behind them is neither locked nor read.
    pub fn seek_within(
        &mut self,
        txn: &mut Transaction,
        how: TupleSeek,
        (tuple, parts, same): (&[u8], usize, usize),
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        if !matches!(how, TupleSeek::Exact | TupleSeek::OrNext | TupleSeek::After) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a search within matching entries goes forwards",
            ));
        }
        let mut stop = Vec::new();
        self.codec.tuple_key(self.index, tuple, same.min(parts), &mut stop)?;
        let mut prefix = std::mem::take(&mut self.prefix);
        prefix.clear();
        let (tuple, stop) = ((tuple, parts), Some(stop.as_slice()));
        let outcome = self.seek_prefix(txn, how, tuple, stop, &mut prefix, record, hooks);
        self.prefix = prefix;
        outcome
    }

    #[allow(clippy::too_many_arguments)] // The prefix is moved out and back, so that its memory is reused.
    fn seek_prefix(
        &mut self,
        txn: &mut Transaction,
        how: TupleSeek,
        (tuple, parts): (&[u8], usize),
        within: Option<&[u8]>,
        prefix: &mut Vec<u8>,
        record: &mut [u8],
        hooks: &mut dyn ScanHooks,
    ) -> Result<Fetched> {
        txn.settle(self.table.id())?;
        self.codec.tuple_key(self.index, tuple, parts, prefix)?;
        self.keep_lock(txn);
        if how == TupleSeek::Exact && self.index == 0 && self.for_condition.is_none() {
            let all = self.codec.schema().indexes[0].parts.len();
            if all > 0 && parts == all {
                // The whole primary key: a point read, which needs no cursor.
                return self.fetch(txn, prefix, record, hooks);
            }
        }
        let must_match = matches!(how, TupleSeek::Exact | TupleSeek::PrefixLast);
        let way = match how {
            TupleSeek::Exact | TupleSeek::OrNext | TupleSeek::After => Way::Forward,
            _ => Way::Backward,
        };
        let valid = match how {
            TupleSeek::Exact | TupleSeek::OrNext => {
                self.start(txn, Origin::Key(Seek::Ge), prefix)?
            }
            TupleSeek::Before => self.start(txn, Origin::Key(Seek::Lt), prefix)?,
            _ => {
                let mut end = prefix.clone();
                let bounded = prefix_end(&mut end);
                match (how, bounded) {
                    (TupleSeek::After, true) => self.start(txn, Origin::Key(Seek::Ge), &end)?,
                    (TupleSeek::After, false) => {
                        self.place = Place::AfterLast;
                        return Ok(Fetched::End);
                    }
                    (_, true) => self.start(txn, Origin::Key(Seek::Lt), &end)?,
                    (_, false) => self.start(txn, Origin::Last, &[])?,
                }
            }
        };
        let stop = if must_match { Some(prefix.as_slice()) } else { within };
        match self.deliver(txn, valid, way, stop, record, hooks)? {
            Fetched::End if must_match => {
                self.stand_before(prefix);
                Ok(Fetched::NotFound)
            }
            other => Ok(other),
        }
    }
}
