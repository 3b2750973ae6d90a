//! Rows and index entries: a typed, schema-versioned codec between a record image in memory and the
//! (key, value) pairs that trees store.
//!
//! - [`Schema`] is the persisted description of a table: columns, their order rules, indexes.
//! - [`RecordLayout`] says where each column sits in a record image; it lives only at run time.
//! - [`RowCodec`] is both of them compiled to short lists of small operations, so that a row and
//!   its index entries are encoded without a dynamic call per plain column.
//! - [`RowText`] prints stored rows without a server.
//!
//! Invariants:
//! - RK1. Keys of one index compare as byte strings exactly as their rows compare by the index's
//!   parts (NULL first; reversed for descending parts), then by the primary key.
//! - RK2. Each part's encoding is prefix-free, so parts concatenate, and the first n parts of a key
//!   are a byte prefix of it.
//! - RK3. Two rows whose parts compare as equal have the same key bytes; the differences (letter
//!   case, trailing spaces, the sign of zero) are in the entry's value, so every index gives
//!   back each column that it holds whole.
//! - RK4. A column whose bytes can be read back from the primary key is not stored in the row value.
//! - RK5. A row value says which schema version wrote it; columns are matched by [`Column::id`].
//! - RK6. Decoding trusts no byte: bad ones give `Corruption` naming table, index and offset.
//!
//! It does not follow pointers in a record image (see [`Blobs`]), know any collation (see
//! [`SortKeys`]) or decide what to write. Formats: keys in `key/mod.rs`, `order.rs` and `codes.rs`, values in
//! `value.rs`, schemas in `schema_bytes.rs`. Tested by `tests/it`.
#![forbid(unsafe_code)]

mod added_columns;
mod blobs;
mod codec;
mod codes;
mod derive;
mod entries;
mod field;
mod foreign;
mod history;
mod key;
mod layout;
mod order;
mod project;
mod renew;
mod row_input;
mod schema;
mod schema_bytes;
mod text;
mod text_value;
mod value;

pub use blobs::{BlobSink, Blobs, NoBlobs, OwnedBlobs};
pub use codec::{RowCodec, TupleKey};
pub use codes::{Coded, Codes};
pub use derive::Deriver;
pub use entries::Entries;
pub use foreign::{BadBridge, KeyBridge};
pub use history::History;
pub use layout::{ColumnPlace, RecordLayout};
pub use order::{prefix_end, PlainSortKeys, SortKeys};
pub use project::Projection;
pub use renew::Renewer;
pub use row_input::RowInput;
pub use schema::{
    Column, ColumnType, DefaultValue, Index, Part, PartPrefix, Schema, Sort, WeightLevel,
    MAX_KEY_BYTES,
};
pub use text::RowText;
pub use text_value::TextStyle;
