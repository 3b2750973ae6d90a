//! Identifiers: plain numbers with a name. Only `TableId` and `TreeId` are types that the compiler
//! tells apart.

use std::fmt;

/// A commit sequence: the position of a transaction in commit order. 0 means "older than every
/// snapshot" (the sequence was dropped when the run was written); real commits start at 1.
pub type Seq = u64;

/// A byte position in the log stream, counted from the creation of the database.
pub type Lsn = u64;

/// A variable-sized block of a table file: a run, or a pack of trunk nodes. Never reused in a file.
pub type BlockId = u64;

/// A node of one tree's trunk. Never reused within a tree.
pub type NodeId = u64;

/// The number of an index's tree within its table. It stays the same while other indexes come and
/// go. 0: the primary index.
pub type IndexNo = u16;

/// A table, by number; the file of table 17 is `17.frd`. Never reused in a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u32);

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One tree: an index of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeId {
    pub table: TableId,
    pub index: IndexNo,
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table, self.index)
    }
}
