//! Identifiers, the error type, checksums and byte codecs that every other crate uses.
//!
//! Nothing here does I/O, starts a thread or keeps state. Bytes from outside (disk, log, client)
//! are read with [`ByteReader`], all of whose methods return an error instead of panicking; callers
//! turn that error into a [`Error::corruption`] that names the file and the place.
//!
//! Tested by the unit tests in each file.
#![forbid(unsafe_code)]

mod bytes;
mod checksum;
mod entry;
mod error;
mod id_map;
mod ids;
mod retention;

pub use bytes::{put_bytes, put_varint, varint_len, ByteReader, ShortInput};
pub use checksum::{checksum128, checksum64, checksum64_seeded};
pub use entry::{key_head, EntryKind, EntryRef, EntrySource, ReadAt, MAX_KEY, SEQ_MAX};
pub use error::{Error, ErrorKind, Result};
pub use id_map::IdMap;
pub use ids::{BlockId, IndexNo, Lsn, NodeId, Seq, TableId, TreeId};
pub use retention::{AllReaders, Readers, Unserved};
