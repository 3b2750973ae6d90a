//! Typed rows: keeps every index of a table consistent with its rows.
//!
//! [`Rows`] is one user's binding of an open table to a record layout. It encodes record images into
//! entries, checks uniqueness, locks, and reads them back through [`Scan`]s.
//!
//! Invariants:
//!
//! - RW1. A secondary entry is written only by a transaction that holds the exclusive lock on its row's
//!   primary key. So secondary entries need no locks of their own.
//! - RW2. A transaction that adds or removes an entry of a unique index, also one that moves a value to another primary
//!   key, holds an exclusive lock on the unique part of its key. So a uniqueness check that finds nothing stays true
//!   until the transaction ends. A commit may be read in parts: who reads without that lock may miss an entry that moves.
//! - RW3. A statement that fails changes nothing: all checks of a row come before its first write, or
//!   behind a savepoint (FK4).
//! - RW4. When a transaction changes a version of a row that its snapshot does not see, the write
//!   set gets every entry of the new version, also unchanged ones: the snapshot has other entries
//!   of the row, which a scan skips.

mod check;
pub(crate) mod distinct;
mod estimate;
mod flags;
mod foreign;
mod load;
mod scan;
mod twin;
mod write;

use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result, TableId};
use frond_row::{RecordLayout, RowCodec, RowInput, Schema, SortKeys};

use crate::catalog::{IndexState, TableDef};
use crate::commit::transaction::Transaction;
use crate::table::Table;
use foreign::Plan;
use twin::BoundTwin;

pub(crate) use twin::Note;

pub use check::Computer;
pub use flags::WriteFlags;
pub(crate) use foreign::{check_parents_of_rows, lock_parents_again};
pub use scan::{Condition, Fetched, Scan, ScanHooks, ScanLock, TupleSeek};

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    Done,
    /// A row with the same key in this index exists; nothing was changed.
    Duplicate(usize),
}

/// A table bound to a record layout. One thread at a time.
pub struct Rows {
    table: Arc<Table>,
    codec: Arc<RowCodec>,
    /// The stamp of the definition that `codec` was made from.
    stamp: u64,
    /// Indexes that can be read; those behind them are being built, and only written.
    visible: usize,
    /// The table with other keys that gets the same rows.
    twin: Option<Box<BoundTwin>>,
    /// The table's foreign keys, as of `foreign_version`; for each constraint that changes
    /// children, the binding of the child table; and in such a binding, the rows of the cascade
    /// above it.
    plan: Option<Box<Plan>>,
    foreign_version: u64,
    cascades: Vec<Option<Box<Rows>>>,
    chain: Vec<Link>,
}

/// A row of a cascade above the one that is changed.
#[derive(Clone, Copy)]
struct Link {
    table: TableId,
    /// The row gets another key; otherwise it is deleted.
    updates: bool,
}

/// The schema that rows of a table are written with.
struct WrittenSchema {
    schema: Schema,
    /// How many of its indexes can be read, and how many of its columns there are; the others are being built, or are to come.
    visible: usize,
    columns: usize,
}

/// The schema's bytes.
fn written_bytes(def: &TableDef) -> &[u8] {
    if def.building.is_empty() {
        &def.schema
    } else {
        &def.building
    }
}

fn written_schema(table: &Table, def: &TableDef) -> Result<WrittenSchema> {
    let mut schema = Schema::decode(&def.schema, &def.name)?;
    let (visible, columns) = (schema.indexes.len(), schema.columns.len());
    if !def.building.is_empty() {
        schema = Schema::decode(written_bytes(def), &def.name)?;
    }
    let unknown = |i: &frond_row::Index| {
        let tree = usize::from(i.tree);
        let dropped = def.indexes.get(tree).is_none_or(|i| i.state == IndexState::Dropped);
        tree >= table.trees().len() || dropped
    };
    if schema.indexes.len() < visible
        || schema.columns.len() < columns
        || schema.indexes.iter().any(unknown)
    {
        return Err(Error::corruption(
            "catalog (0.frd)",
            format_args!("table '{}': schema and trees disagree", def.name),
        ));
    }
    Ok(WrittenSchema { schema, visible, columns })
}

impl Rows {
    /// Binds `table`, whose schema must describe the columns of `layout`.
    pub fn bind(
        table: Arc<Table>,
        layout: RecordLayout,
        sort_keys: Arc<dyn SortKeys>,
    ) -> Result<Rows> {
        let stamp = table.stamp();
        let def = table.def();
        let WrittenSchema { schema, visible, columns } = written_schema(&table, &def)?;
        if layout.own_columns() != columns {
            let what = format!("table '{}': the record's layout has other columns", def.name);
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let codec = RowCodec::bind(&def.name, schema.into(), layout, table.history()?, sort_keys)?;
        let codec = table.store().shared().codecs.share(written_bytes(&def), codec);
        let twin = BoundTwin::of(&table, &codec)?;
        Ok(Rows {
            table,
            codec,
            stamp,
            visible,
            twin,
            plan: None,
            foreign_version: 0,
            cascades: Vec::new(),
            chain: Vec::new(),
        })
    }

    /// Before a row is written: the definition may have got indexes since this was bound (ALT2).
    #[inline]
    fn keep_up(&mut self) -> Result<()> {
        match self.stamp == self.table.stamp() {
            true => Ok(()),
            false => self.bind_again(),
        }
    }

    #[cold]
    fn bind_again(&mut self) -> Result<()> {
        let stamp = self.table.stamp();
        let def = self.table.def();
        let WrittenSchema { schema, visible, columns } = written_schema(&self.table, &def)?;
        let form = |s: &Schema, columns: usize| -> Vec<_> {
            s.columns[..columns].iter().map(|c| (c.id, c.ty, c.bytes)).collect()
        };
        let prefix = self.codec.schema().indexes[..self.visible.min(visible)].iter();
        let same_indexes =
            visible == self.visible && prefix.zip(&schema.indexes).all(|(a, b)| a.tree == b.tree);
        let now = form(&schema, columns);
        if form(self.codec.schema(), self.codec.columns()) != now || !same_indexes {
            return Err(Error::new(
                ErrorKind::TableChanged,
                format!("table '{}' has another definition now: open it again", def.name),
            ));
        }
        let (layout, sort_keys) = (self.codec.layout().clone(), self.codec.sort_keys().clone());
        let history = self.table.history()?;
        let codec = RowCodec::bind(&def.name, schema.into(), layout, history, sort_keys)?;
        let codec = self.table.store().shared().codecs.share(written_bytes(&def), codec);
        self.twin = BoundTwin::of(&self.table, &codec)?;
        (self.codec, self.stamp, self.visible) = (codec, stamp, visible);
        Ok(())
    }

    /// As [`BoundTwin::meet`].
    #[inline]
    fn meet_twin(
        &mut self,
        txn: &mut Transaction,
        rows: (Option<&RowInput<'_>>, Option<&RowInput<'_>>),
        row: &[u8],
    ) -> Result<()> {
        match &mut self.twin {
            None => Ok(()),
            Some(twin) => twin.meet(txn, rows, row),
        }
    }

    #[inline]
    fn put_twin(&mut self, txn: &mut Transaction) -> Result<()> {
        match &self.twin {
            None => Ok(()),
            Some(twin) => twin.put(txn),
        }
    }

    /// Indexes that can be read; their numbers are below.
    pub fn indexes(&self) -> usize {
        self.visible
    }

    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub fn codec(&self) -> &Arc<RowCodec> {
        &self.codec
    }

    /// The tree of schema index `index`.
    pub fn tree_no(&self, index: usize) -> IndexNo {
        self.codec.schema().indexes[index].tree
    }
}
