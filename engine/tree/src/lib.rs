//! The tree: a lazy B-epsilon-tree of immutable sorted runs.
//!
//! Committed entries go into a write buffer in memory. A full buffer is frozen and moves down the
//! trunk as sorted runs: large pieces go straight to the leaves, the rest waits on the edges of
//! inner nodes. A leaf merges its delta runs into its base when there are enough of them, or when
//! reading them has cost as much as the merge. Everything stored is immutable; only the trunk
//! changes: metadata in memory that is copied on write, published by one pointer, and logged as
//! edits.
//!
//! Files:
//!
//! - the metadata: `tree` (handle, publication), `view` (what a reader sees), `trunk`, `node`, `slice`, `totals`,
//!   `sums`, `extent`, `options`;
//! - changing them: `draft`, `shape`, `edit`, `difference`, `build` (indexes that are being built);
//! - their bytes: `format`, `raw`, `load`; storing what changed of them: `book`, `place`, `stored_format`, `version`,
//!   `load_packs`;
//! - background work: `triggers`, `plan`, `state`, `job`, `push`, `merge`, `rewrite`, `renewal`, `old_values`, `input`;
//! - reading: `read`, `fetch` (prefetching for writes), `cursor`, `bounds`, `source`, `dead_ranges`, `rows`, `row_cache`, `estimate`;
//! - a transaction's own runs: `private`;
//! - checks and figures: `check`, `audit`, `stats`, `counters`;
//! - interfaces to file and log: `store`; with the feature `testing`: `testing`, `synthetic`, `counted`.
//!
//! Does not: open files, log transactions, start threads, decide visibility of uncommitted data.
//!
//! Tested in `tests/it`, against a model of versioned keys.
#![forbid(unsafe_code)]

mod audit;
mod book;
mod bounds;
mod build;
mod check;
#[cfg(any(test, feature = "testing"))]
pub mod counted;
mod counters;
mod cursor;
mod dead_ranges;
mod difference;
mod draft;
mod edit;
mod estimate;
mod extent;
mod fetch;
mod format;
mod input;
mod job;
mod load;
mod load_packs;
mod merge;
mod node;
mod old_values;
mod options;
mod place;
mod plan;
mod private;
mod push;
mod raw;
mod read;
mod renewal;
mod rewrite;
mod row_cache;
mod rows;
mod run_memory;
mod shape;
mod slice;
mod source;
mod state;
mod stats;
mod store;
mod stored_format;
mod sums;
#[cfg(any(test, feature = "testing"))]
pub mod synthetic;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod totals;
mod tree;
mod triggers;
mod trunk;
mod version;
mod view;

pub use audit::CheckReport;
pub use bounds::Bounds;
pub use build::TreeHold;
pub use cursor::{Seek, TreeCursor};
pub use edit::TrunkEdit;
pub use extent::Extent;
pub use job::Job;
pub use load::TreeLoader;
pub use options::{Formats, TreeOptions};
pub use plan::{Debt, JobKind, Plan, Step};
pub use private::{
    one_by_one, MergePart, Parted, PrivateRuns, PrivateView, RunParts, Segment, WrittenPart,
};
pub use renewal::Renew;
pub use run_memory::RunMemory;
pub use stats::{Sizes, TreeStats};
pub use store::{BlockSource, CountedPiece, EditLog, RunStore};
pub use tree::{Image, Tree};
pub use version::{StoredVersion, Version};
