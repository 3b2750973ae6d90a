//! The storage engine: tables of sorted indexes with transactions, durable in one directory.
//!
//! ```text
//! Engine      open, definitions, background work, status        engine.rs ddl.rs status.rs
//!             what threads do and when                           work.rs jobs.rs tend.rs pacing.rs
//! Transaction snapshot, locks, write set; Cursor                 transaction.rs cursor.rs
//! Rows        typed rows with all their indexes                  rows/
//! Core        commit path, checkpoint, recovery                  core.rs checkpoint.rs recovery.rs
//! Table       trees, file, counters                              table.rs counters.rs store.rs readahead.rs
//! formats     log records, catalog, images, identity             record.rs catalog.rs image.rs identity.rs
//! ```
//!
//! Keys are byte strings ordered by memcmp, 1 to [`KEY_BYTES_MAX`] bytes; values have up to
//! [`VALUE_BYTES_MAX`] bytes.
#![forbid(unsafe_code)]

#[cfg(feature = "canary")]
pub mod canary;
#[cfg(not(feature = "canary"))]
mod canary;
mod catalog;
mod check;
mod checkpoint;
mod core;
mod counters;
mod cursor;
mod ddl;
mod engine;
mod identity;
mod image;
mod images;
mod jobs;
mod large;
mod loading;
mod maintain;
mod names;
mod options;
mod pacing;
mod readahead;
mod readers;
mod record;
mod recovery;
pub mod rows;
mod shared;
mod spill;
mod status;
mod store;
mod table;
mod tend;
mod transaction;
mod work;

pub use catalog::{IndexDef, TableDef};
pub use check::{CheckOutcome, Problem};
pub use cursor::Cursor;
pub use ddl::TableSpec;
pub use engine::{Engine, Log};
pub use frond_base::{Error, ErrorKind, Result};
pub use frond_run::Compression;
pub use frond_tree::Seek;
pub use frond_txn::{Granted, LooseLock, OwnerHandle, RowMode, TreeMode};
pub use identity::{read as read_identity, FORMAT_VERSION};
pub use image::TableImage;
pub use options::{Durability, Options, CACHE_BYTES_MIN, KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use status::Status;
pub use table::{Table, TableStatistics};
pub use transaction::{Isolation, OnLocked, Transaction, TxnOptions};
