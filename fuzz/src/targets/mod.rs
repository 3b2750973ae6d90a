//! The list of targets, and what their checks share.
//!
//! `run.rs` has pages, tails and whole runs; `trunk.rs` trunk edits, stored nodes and table images; `file.rs` the headers
//! and the block map of a table file, the identity file, and descriptions of pins and exported tables; `log.rs` log segments; `records.rs` what log
//! records say, through recovery; `rows.rs` tables, foreign keys, statistics, schemas and rows; `backup.rs` packed backups; `capi/` the
//! arguments of the C API.

mod backup;
mod capi;
mod database;
mod file;
mod log;
mod records;
mod rows;
mod run;
mod trunk;

use frond_base::{Error, ErrorKind};

/// One thing that reads bytes.
pub struct Target {
    pub name: &'static str,
    /// Sound inputs, others with each number.
    pub seeds: fn(u64) -> Vec<Vec<u8>>,
    /// Panics when HB1 does not hold. Says whether the input was accepted, which that of a seed should be.
    pub check: fn(&[u8]) -> bool,
    /// Limits of allocation: bytes for each byte of the input, and a constant. All allocations
    /// count, freed or not.
    pub per_byte: usize,
    pub base: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Every target. A check that opens an engine pays for its buffers and threads, which is its constant.
pub const TARGETS: [Target; 20] = [
    Target { name: "run_meta", seeds: run::metas, check: run::meta, per_byte: 16, base: 8 * KIB },
    // A page may be one packed value: up to 64 MiB of zeros take a few KiB, and are read in one piece.
    Target { name: "run_page", seeds: run::pages, check: run::page, per_byte: 32, base: 80 * MIB },
    Target { name: "run_tail", seeds: run::tails, check: run::tail, per_byte: 64, base: 64 * KIB },
    Target { name: "run", seeds: run::runs, check: run::whole, per_byte: 4096, base: 400 * MIB },
    Target {
        name: "trunk_edit",
        seeds: trunk::edits,
        check: trunk::edit,
        per_byte: 512,
        base: MIB,
    },
    Target {
        name: "trunk_node",
        seeds: trunk::nodes,
        check: trunk::node,
        per_byte: 1024,
        base: MIB,
    },
    Target {
        name: "table_image",
        seeds: trunk::images,
        check: trunk::image,
        per_byte: 512,
        base: MIB,
    },
    Target {
        name: "table_file",
        seeds: file::files,
        check: file::file,
        per_byte: 64,
        base: 2 * MIB,
    },
    Target {
        name: "identity",
        seeds: file::identities,
        check: file::identity,
        per_byte: 64,
        base: 64 * KIB,
    },
    Target {
        name: "log_segment",
        seeds: log::segments,
        check: log::segment,
        per_byte: 256,
        base: 16 * MIB,
    },
    Target {
        name: "log_record",
        seeds: records::records,
        check: records::record,
        per_byte: 4096,
        base: 64 * MIB,
    },
    Target {
        name: "backup_pin",
        seeds: file::pins,
        check: file::pin,
        per_byte: 128,
        base: 64 * KIB,
    },
    Target {
        name: "export_description",
        seeds: file::exports,
        check: file::export,
        per_byte: 512,
        base: 64 * KIB,
    },
    // A frame has at most 5 MiB, before and after it is unpacked; the two readers of a pack take one or two at a time, files keep eight.
    Target {
        name: "backup_pack",
        seeds: backup::packs,
        check: backup::check,
        per_byte: 256,
        base: 128 * MIB,
    },
    Target {
        name: "table_definition",
        seeds: rows::definitions,
        check: rows::definition,
        per_byte: 512,
        base: MIB,
    },
    Target {
        name: "foreign_key",
        seeds: rows::foreigns,
        check: rows::foreign,
        per_byte: 512,
        base: 64 * KIB,
    },
    Target {
        name: "key_statistics",
        seeds: rows::statistics,
        check: rows::statistic,
        per_byte: 512,
        base: 64 * KIB,
    },
    Target { name: "schema", seeds: rows::schemas, check: rows::schema, per_byte: 512, base: MIB },
    Target { name: "row", seeds: rows::rows, check: rows::row, per_byte: 512, base: MIB },
    Target {
        name: "c_api",
        seeds: capi::calls,
        check: capi::call,
        per_byte: 65536,
        base: 256 * MIB,
    },
];

pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Asserts that foreign bytes may cause this error.
fn refused(e: &Error) {
    let kind = e.kind();
    assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::UnsupportedFormat), "{kind:?}: {e}");
}

/// Whether it is no error; asserts that foreign bytes may cause the error.
fn accepted<T>(outcome: frond_base::Result<T>) -> bool {
    outcome.map_err(|e| refused(&e)).is_ok()
}

/// `parts`, each behind its length: how an input carries several things.
fn join(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        frond_base::put_bytes(&mut out, part);
    }
    out
}
