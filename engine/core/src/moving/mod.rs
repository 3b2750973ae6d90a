//! Tables move between databases as files: export, discard, import (docs/rfcs/0014-moving-tables.md).
//!
//! ```text
//! format.rs   the description of an exported file
//! export.rs   a table's file that holds everything and stays as it is
//! source.rs   the trees of an exported file, to be read
//! fit.rs      whether a table fits the one that it is to be imported into
//! import.rs   discarding a table's rows, and importing others
//! ```
//!
//! Invariants
//!
//! - MV1. From the image that completes the beginning of an export until the export ends, no job of the table's trees
//!   begins and no checkpoint of it is written: nothing that the image names changes in the file, nor do its headers.
//! - MV2. Whether a table is discarded does not change while it is open: discarding and importing make a table of
//!   another number, and one record of the catalog puts it in the place of the old one.
//! - MV3. A durable record takes the number of an imported table before its file is made, so the number is never used
//!   again. The file and log records of an unfinished import belong to no definition.
//! - MV4. When the record that names an imported table is written, its file has an image of all of it, durably.
//! - MV5. An import reads and verifies every page of every index in use.
//! - MV6. An imported table has no row of an older schema. The exported definition says where such
//!   rows are in the other file. In the copy they are elsewhere, so rows are renewed as they are
//!   copied.
//!
//! Tested by `tests/it/moving.rs`.

pub(crate) mod export;
mod fit;
mod format;
pub(crate) mod import;
mod source;

pub use export::Export;
pub use fit::CollationName;
pub use format::{ExportDescription, EXPORT_VERSION};
pub use import::{Import, ImportFiles};
