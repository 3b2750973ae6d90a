//! The storage engine: tables of sorted indexes with transactions, durable in one directory.
//!
//! ```text
//! engine.rs    open, close, settings: the public interface  status.rs  counters and report
//! commit/      transactions, cursors, large write sets, the path of a commit
//! rows/        typed rows with all their indexes, and what foreign keys check and change
//! table/       an open table: trees, file, counters, readahead, its checkpoint image
//! catalog/     the list of tables and foreign keys; create, drop, rename, truncate
//! background/  threads: jobs, memory, pacing, upkeep of log and disk
//! backup/      pins: a running database is copied
//! checkpoint/  images of tables, and how far the log can be trimmed
//! moving/      exporting and importing tables as files
//! recovery/    from files and log to open tables
//! report/      transactions, locks and waits, for people and for the server
//! scratch.rs   a database that ends with its process    codecs.rs   what codecs of tables with one definition share
//! record.rs identity.rs   bytes of log records and of `frond.id`     messages.rs  to the operator
//! ```
//!
//! Keys are byte strings ordered by memcmp, 1 to [`KEY_BYTES_MAX`] bytes; values have up to
//! [`VALUE_BYTES_MAX`] bytes.
#![forbid(unsafe_code)]

mod background;
mod backup;
#[cfg(feature = "canary")]
pub mod canary;
#[cfg(not(feature = "canary"))]
mod canary;
mod catalog;
mod check;
mod checkpoint;
mod codecs;
mod commit;
mod engine;
mod identity;
mod messages;
mod moving;
mod options;
mod record;
mod recovery;
mod report;
pub mod rows;
mod scratch;
mod shared;
mod status;
mod table;

pub use backup::format::{Description, PIN_FILE};
pub use catalog::alter::Alter;
pub use catalog::alter_spec::{AlterSpec, Pages, Violation};
pub use catalog::build::Progress;
pub use catalog::ddl::TableSpec;
pub use catalog::foreign::{Action, Foreign, ForeignState, FOREIGN_COLUMNS_MAX};
pub use catalog::foreign_ddl::{AddedForeigns, NewForeigns, RenameForeigns};
pub use catalog::key_statistics::{KeyStatistics, PartStatistics};
pub use catalog::versions::history;
pub use catalog::{IndexDef, IndexState, OldSchema, TableDef};
pub use check::{CheckOutcome, Problem};
pub use commit::cursor::Cursor;
pub use commit::prepared::PreparedTransaction;
pub use commit::transaction::{Isolation, OnLocked, Transaction, TxnOptions};
pub use commit::xid::{Xid, XID_PART_MAX};
pub use engine::Engine;
pub use frond_base::{Error, ErrorKind, Result};
pub use frond_run::Compression;
pub use frond_tree::Seek;
pub use frond_txn::{Granted, LockMode, LooseLock, OwnerHandle, RowMode, TreeMode};
pub use identity::{read as read_identity, FORMAT_VERSION};
pub use messages::Log;
pub use moving::{CollationName, Export, ExportDescription, Import, ImportFiles, EXPORT_VERSION};
/// The kinds of log records, for programs that read the log.
pub mod record_kind {
    pub use crate::record::{
        KIND_COMMIT_PREPARED, KIND_COUNTERS, KIND_EDIT, KIND_PREPARE, KIND_ROLLBACK_PREPARED,
        KIND_SET_COUNTERS, KIND_TRANSACTION, KIND_TRANSACTION_OF_RUNS, KIND_TRIM,
    };
}

pub use options::{
    Durability, Options, RowCaching, CACHE_BYTES_MIN, KEY_BYTES_MAX, RECOVERY_TARGET_MAX,
    VALUE_BYTES_MAX,
};
pub use report::jobs::JobInfo;
pub use report::lists::{HeldLock, LockWait, TransactionInfo, TransactionState};
pub use report::places::{LockKind, LockPlace};
pub use report::storage::{CachedInfo, FileInfo, IndexInfo};
pub use report::tables::{TableInfo, TreeInfo};
pub use report::watch::WaitHooks;
pub use scratch::wipe;
pub use status::Status;
pub use table::image::TableImage;
pub use table::read_counts::{self, ReadCounts};
pub use table::trees::Trees;
pub use table::{Table, TableStatistics};
