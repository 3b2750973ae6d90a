//! The result: what `--json` writes, and what texts and advice are made of.
//!
//! docs/bench-device.md documents every field. `schema` is raised when the meaning of a field
//! changes.

use serde::Serialize;

use crate::latency::Latency;
use crate::place::{FileFacts, Place};

pub const SCHEMA: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Fill,
    RandomRead,
    RandomWrite,
    SequentialRead,
    SequentialWrite,
    FsyncAppend,
    FsyncOverwrite,
    FdatasyncAppend,
    FdatasyncOverwrite,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub kind: Kind,
    pub block_bytes: u32,
    /// Threads, each with one operation at a time.
    pub depth: u32,
    /// Threads that read at random meanwhile.
    pub readers: u32,
    pub operations: u64,
    pub seconds: f64,
    /// Time of the sync after writes, in seconds.
    pub settle_seconds: f64,
    /// Operations per second, without the sync after them.
    pub per_second: f64,
    /// The same with the sync: the rate that the device can sustain.
    pub durable_per_second: f64,
    pub bytes_per_second: f64,
    pub latency_us: Latency,
}

/// Whose speed was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Past the system's cache. A device, its controller and a virtual machine's host have their own.
    Direct,
    /// Through the system's cache, with data of at least twice the memory.
    LargerThanMemory,
    /// Through the system's cache, and it may have held the data: not the device's speed.
    Cached,
}

/// Which writes a power failure may leave half done.
#[derive(Clone, Debug, Serialize)]
pub struct Tearing {
    /// The size that the device claims to write whole; `None` if nothing tells.
    pub told_unit_bytes: Option<u64>,
    /// Who says so, and what that is worth.
    pub told_by: String,
    /// Always false: only a power failure could show it.
    pub proven: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Engine {
    InnoDB,
    MyRocks,
    Frond,
}

/// A setting that follows from the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    pub engine: Engine,
    pub name: &'static str,
    pub value: String,
    /// Why, with the arithmetic, on one line.
    pub reason: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    pub generator: String,
    pub place: Place,
    pub file: FileFacts,
    /// Offsets and lengths that direct reads accepted; `None` without direct I/O.
    pub direct_alignment_found_bytes: Option<u32>,
    pub cache: Cache,
    pub tearing: Tearing,
    pub data_bytes: u64,
    pub log_bytes: u64,
    pub seconds: f64,
    pub figures: Vec<Figure>,
    pub settings: Vec<Setting>,
    /// What a reader must know so as not to misread the figures; whole sentences.
    pub notes: Vec<String>,
}

impl Report {
    pub fn figure(
        &self,
        kind: Kind,
        block_bytes: u32,
        depth: u32,
        readers: u32,
    ) -> Option<&Figure> {
        self.figures.iter().find(|f| {
            (f.kind, f.block_bytes, f.depth, f.readers) == (kind, block_bytes, depth, readers)
        })
    }
}
