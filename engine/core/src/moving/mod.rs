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
//! - MV1. From the image that ends the beginning of an export to its end, no job of the table's trees begins and no
//!   checkpoint of it is written: nothing that the image names changes in the file, nor do its headers.
//! - MV2. A table is discarded or not for as long as it is open: discarding and importing make a table of
//!   another number, and one record of the catalog puts it in the place of the one before.
//! - MV3. The number of an imported table is taken by a durable record before its file is made, so the number is never
//!   used again: a file and log records of an import that did not end belong to no definition.
//! - MV4. When the record that names an imported table is written, its file has an image of all of it, durably.
//! - MV5. Nothing of an exported file is taken over unverified: every page of every index in use is read.
//! - MV6. An imported table has no row of an older schema: where such rows are in the file is known of the other
//!   file alone, so they become new as they are copied.
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
