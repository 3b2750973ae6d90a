//! What a change of a table's definition is to be, and what may be wrong with it.

use frond_row::Schema;
use frond_run::Compression;

use crate::catalog::foreign_ddl::AddedForeigns;
use crate::catalog::IndexDef;

/// How the pages of an index's runs are written from now on. `None`: as before.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pages {
    pub page_bytes: Option<u32>,
    pub compression: Option<Compression>,
}

/// The definition that a table is to have.
pub struct AlterSpec {
    /// Columns and indexes in their new order. Column ids and the indexes' trees are chosen here; the
    /// defaults of columns that the table has already are kept.
    pub schema: Schema,
    /// Per index of `schema`: the index of the table that it is, or `None`: it is to be built. If that is the
    /// first one, also with the same columns, the table is made anew (`rebuild.rs`).
    pub index_from: Vec<Option<usize>>,
    /// Per column of `schema`: the column of the table that it is, or `None`: it is added.
    pub column_from: Vec<Option<usize>>,
    /// Per index of `schema`: its storage format, used for those that are to be built.
    pub storage: Vec<IndexDef>,
    /// Per index of `schema`: what changes in its storage format if the table has it already.
    pub pages: Vec<Pages>,
    pub meta: Vec<u8>,
    /// Names of foreign keys of the table that are dropped.
    pub foreigns_gone: Vec<String>,
    /// Foreign keys that the table is given (`add_foreign.rs`).
    pub foreigns_new: AddedForeigns,
}

/// Two rows have the same value in an index that is to be unique.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Number in the new schema.
    pub index: usize,
    /// The primary key of one of the rows.
    pub primary_key: Vec<u8>,
}

pub(super) fn encoded(schema: &Schema) -> Vec<u8> {
    let mut bytes = Vec::new();
    schema.encode(&mut bytes);
    bytes
}
