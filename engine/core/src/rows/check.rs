//! Compares every index with the rows: it must have exactly their entries.
//!
//! One pass over the rows derives the entries of all other indexes and adds up their hashes; one
//! pass over each index adds up its entries' hashes. Equal sums and counts mean equal sets (but for
//! a chance of about 2^-100), without sorting or look-ups, and memory is one sum per index. Only
//! where they differ, a look-up per entry finds the first wrong one. Rejected: a look-up per entry
//! in any case, which costs a page read each when the cache is cold.
//!
//! - RC1. All passes read at one snapshot, so concurrent writes make no differences.
//! - RC2. The caller derives entries with virtual columns, because the server computes those.
//!   Without the caller's help they are compared by number and primary keys only.
//!
//! It reads everything that is committed and writes nothing. Pages are verified by `check.rs`. `frond check`
//! compares offline, without the server's collations (`cli/src/check/rows.rs`).
//!
//! Tested by `tests/it/entries.rs`.

use std::sync::Arc;

use frond_base::{checksum128, Error, ErrorKind, Result, Seq};
use frond_row::{Deriver, Entries, Renewer, RowCodec};
use frond_tree::{Bounds, Tree, TreeCursor};

use super::Rows;
use crate::check::CheckOutcome;
use crate::commit::transaction::TxnOptions;
use crate::engine::Engine;

/// Entries between two polls of `killed`.
const POLL_EVERY: u64 = 1024;
/// Bytes of a key shown.
const KEY_SHOWN: usize = 48;

/// Whether the check is to end early.
pub type Killed<'a> = &'a mut dyn FnMut() -> bool;

/// Derives the entries that the engine cannot derive: those with columns that the server computes.
pub trait Computer {
    /// The entries of the indexes in `wanted` for one entry of the primary index.
    fn entries(&mut self, key: &[u8], row: &[u8], wanted: u128, out: &mut Entries) -> Result<()>;
}

/// A set of entries, by count and sum of hashes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    entries: u64,
    hashes: u128,
}

impl Sum {
    /// `scratch` is a buffer for the entry.
    fn add(&mut self, key: &[u8], value: &[u8], scratch: &mut Vec<u8>) {
        scratch.clear();
        scratch.extend_from_slice(&(key.len() as u32).to_le_bytes());
        scratch.extend_from_slice(key);
        scratch.extend_from_slice(value);
        self.entries += 1;
        self.hashes = self.hashes.wrapping_add(checksum128(scratch));
    }
}

impl Rows {
    /// Compares all indexes with the rows, as committed now; problems go to `outcome`. Reads every entry of
    /// every index. `Interrupted` when `killed` returns true.
    pub fn check(
        &self,
        engine: &Engine,
        outcome: &mut CheckOutcome,
        killed: Killed<'_>,
        computer: Option<&mut dyn Computer>,
    ) -> Result<()> {
        let indexes = self.indexes();
        if indexes < 2 {
            return Ok(());
        }
        // Keeps the versions that its snapshot sees.
        let mut txn = engine.begin(TxnOptions::default());
        let at = txn.read_at(&self.table, false)?;
        let derivable = (1..indexes)
            .filter(|index| Deriver::new(self.codec.clone(), 1 << index).is_ok())
            .fold(0u128, |all, index| all | 1 << index);
        let all = (1..indexes).fold(0u128, |all, index| all | 1 << index);
        let computed = if computer.is_some() { all & !derivable } else { 0 };
        let mut check =
            EntryCheck { rows: self, codec: &self.codec, at, derivable, computed, computer };
        let (rows, wanted) = check.wanted(outcome, killed)?;
        for index in 1..indexes {
            let wanted = if check.derives(index) { wanted[index] } else { rows };
            check.index(index, wanted, outcome, killed)?;
        }
        Ok(())
    }
}

/// One comparison.
struct EntryCheck<'a, 'c> {
    rows: &'a Rows,
    codec: &'a Arc<RowCodec>,
    at: Seq,
    /// Indexes whose entries can be derived from rows.
    derivable: u128,
    /// Indexes whose entries the computer derives.
    computed: u128,
    computer: Option<&'c mut dyn Computer>,
}

/// Derives entries of one row.
struct Source {
    deriver: Deriver,
    computed: u128,
    entries: Entries,
    computed_entries: Entries,
}

impl Source {
    fn derive(
        &mut self,
        key: &[u8],
        row: &[u8],
        computer: &mut Option<&mut dyn Computer>,
    ) -> Result<()> {
        self.deriver.derive(key, row, &mut self.entries)?;
        match computer {
            Some(computer) if self.computed != 0 => {
                computer.entries(key, row, self.computed, &mut self.computed_entries)
            }
            _ => Ok(()),
        }
    }

    /// The entry of `index` for the last row.
    fn entry(&self, index: usize) -> (&[u8], &[u8]) {
        let from = match self.computed >> index & 1 {
            1 => &self.computed_entries,
            _ => &self.entries,
        };
        (from.key(index), from.value(index))
    }
}

/// Values of entries as the current schema writes them: entries of clustering indexes may have
/// older versions.
struct Renewed {
    renewer: Option<Renewer>,
    bytes: Vec<u8>,
}

impl Renewed {
    fn new(codec: &RowCodec, index: usize) -> Renewed {
        Renewed { renewer: codec.renewer(index), bytes: Vec::new() }
    }

    fn of<'v>(&'v mut self, value: &'v [u8]) -> &'v [u8] {
        match &self.renewer {
            Some(renewer) if renewer.renew(value, &mut self.bytes) => &self.bytes,
            _ => value,
        }
    }
}

/// Walks the entries of a tree that the snapshot sees.
struct Walk<'a, 'k> {
    cursor: TreeCursor,
    killed: &'a mut (dyn FnMut() -> bool + 'k),
    met: u64,
    valid: bool,
}

impl<'a, 'k> Walk<'a, 'k> {
    fn new(tree: &Tree, at: Seq, killed: &'a mut (dyn FnMut() -> bool + 'k)) -> Walk<'a, 'k> {
        Walk { cursor: tree.cursor(at, Bounds::all()), killed, met: 0, valid: false }
    }

    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.met.is_multiple_of(POLL_EVERY) && (self.killed)() {
            return Err(Error::new(ErrorKind::Interrupted, "the check was interrupted"));
        }
        self.valid = match self.met {
            0 => self.cursor.first()?,
            _ => self.cursor.next()?,
        };
        self.met += 1;
        Ok(self.valid.then(|| (self.cursor.key(), self.cursor.value())))
    }
}

impl EntryCheck<'_, '_> {
    fn tree(&self, index: usize) -> &Tree {
        self.rows.table.tree(self.rows.tree_no(index))
    }

    fn derives(&self, index: usize) -> bool {
        (self.derivable | self.computed) >> index & 1 == 1
    }

    /// For the indexes in `wanted` that can be derived.
    fn source(&self, wanted: u128) -> Result<Source> {
        Ok(Source {
            deriver: Deriver::new(self.codec.clone(), self.derivable & wanted)?,
            computed: self.computed & wanted,
            entries: Entries::new(),
            computed_entries: Entries::new(),
        })
    }

    fn place(&self, index: usize) -> String {
        let def = self.rows.table.def();
        format!("table '{}', index '{}'", def.name, self.codec.schema().indexes[index].name)
    }

    /// The set of primary keys, and per index the set of expected entries.
    fn wanted(
        &mut self,
        outcome: &mut CheckOutcome,
        killed: Killed<'_>,
    ) -> Result<(Sum, Vec<Sum>)> {
        let mut wanted = vec![Sum::default(); self.codec.schema().indexes.len()];
        let mut keys = Sum::default();
        let mut source = self.source(u128::MAX)?;
        let mut scratch = Vec::new();
        let mut unreadable = false;
        let mut walk = Walk::new(self.tree(0), self.at, killed);
        while let Some((key, value)) = walk.next()? {
            keys.add(key, &[], &mut scratch);
            if let Err(e) = source.derive(key, value, &mut self.computer) {
                if !unreadable {
                    outcome.problems.push(format!("{}: row {}: {e}", self.place(0), shown(key)));
                }
                unreadable = true;
                continue;
            }
            for (index, sum) in wanted.iter_mut().enumerate() {
                if self.derives(index) {
                    let (key, value) = source.entry(index);
                    sum.add(key, value, &mut scratch);
                }
            }
        }
        Ok((keys, wanted))
    }

    fn index(
        &mut self,
        index: usize,
        wanted: Sum,
        outcome: &mut CheckOutcome,
        killed: Killed<'_>,
    ) -> Result<()> {
        let place = self.place(index);
        let derives = self.derives(index);
        let (mut found, mut scratch) = (Sum::default(), Vec::new());
        let mut unreadable = false;
        let mut renewed = Renewed::new(self.codec, index);
        let mut walk = Walk::new(self.tree(index), self.at, killed);
        while let Some((key, value)) = walk.next()? {
            let value = renewed.of(value);
            match self.codec.primary_key(index, key) {
                _ if derives => found.add(key, value, &mut scratch),
                Ok(primary) => found.add(primary, &[], &mut scratch),
                Err(e) => {
                    if !unreadable {
                        outcome.problems.push(format!("{place}: entry {}: {e}", shown(key)));
                    }
                    unreadable = true;
                }
            }
        }
        if found == wanted {
            return Ok(());
        }
        let before = outcome.problems.len();
        if found.entries != wanted.entries {
            outcome.problems.push(format!(
                "{place}: {} entries, the rows ask for {}",
                found.entries, wanted.entries
            ));
        }
        outcome.problems.extend(self.first_missing(index, killed)?);
        outcome.problems.extend(self.first_stray(index, killed)?);
        if outcome.problems.len() == before {
            outcome.problems.push(format!("{place}: its entries are not those of the rows"));
        }
        Ok(())
    }

    /// The first row without its entry.
    fn first_missing(&mut self, index: usize, killed: Killed<'_>) -> Result<Option<String>> {
        if !self.derives(index) {
            return Ok(None);
        }
        let mut source = self.source(1 << index)?;
        let mut value = Vec::new();
        let mut renewed = Renewed::new(self.codec, index);
        let mut walk = Walk::new(self.tree(0), self.at, killed);
        while let Some((key, row)) = walk.next()? {
            if source.derive(key, row, &mut self.computer).is_err() {
                continue;
            }
            value.clear();
            let (wanted, wanted_value) = source.entry(index);
            let what = match self.tree(index).get(wanted, self.at, &mut value)? {
                Some(_) if renewed.of(&value) == wanted_value => continue,
                Some(_) => "has another value than its row asks for",
                None => "is missing",
            };
            let entry = shown(wanted);
            let place = self.place(index);
            return Ok(Some(format!("{place}: entry {entry} of row {} {what}", shown(key))));
        }
        Ok(None)
    }

    /// The first entry without its row.
    fn first_stray(&mut self, index: usize, killed: Killed<'_>) -> Result<Option<String>> {
        let mut source = match self.derives(index) {
            true => Some(self.source(1 << index)?),
            false => None,
        };
        let mut row = Vec::new();
        let mut walk = Walk::new(self.tree(index), self.at, killed);
        while let Some((key, _)) = walk.next()? {
            let Ok(primary) = self.codec.primary_key(index, key) else { continue };
            row.clear();
            let there = self.tree(0).get(primary, self.at, &mut row)?.is_some();
            let fits = match &mut source {
                Some(source) if there => {
                    source.derive(primary, &row, &mut self.computer).is_err()
                        || source.entry(index).0 == key
                }
                _ => there,
            };
            if !fits {
                let what = match there {
                    true => "a row that asks for another entry",
                    false => "a row that does not exist",
                };
                let place = self.place(index);
                return Ok(Some(format!("{place}: entry {} leads to {what}", shown(key))));
            }
        }
        Ok(None)
    }
}

/// A key for people: hexadecimal, cut off when long.
fn shown(key: &[u8]) -> String {
    let digits: String = key.iter().take(KEY_SHOWN).map(|b| format!("{b:02x}")).collect();
    format!("0x{digits}{}", if key.len() > KEY_SHOWN { "..." } else { "" })
}
