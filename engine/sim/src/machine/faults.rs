//! Which faults a machine has, and which canary (a seeded defect at this seam) is active.

/// Probabilities are in millionths per call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Reads and writes that transfer less than asked.
    pub short: u32,
    /// Reads and writes that are interrupted before anything was transferred.
    pub interrupted: u32,
    pub read_error: u32,
    pub write_error: u32,
    pub sync_error: u32,
    /// Pages of 4 KiB that all files may take together.
    pub space: Option<u64>,
}

impl Faults {
    /// Faults that a correct program need not even report.
    pub fn harmless(self) -> bool {
        self.read_error == 0
            && self.write_error == 0
            && self.sync_error == 0
            && self.space.is_none()
    }
}

/// Defects that the simulator must find: each is one broken promise of the layer below, or a switch
/// compiled into the engine (feature `canary`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Syncs of log segments do nothing.
    SkipLogSync,
    /// Syncs of table files do nothing.
    SkipTableSync,
    /// Syncs of the directory do nothing.
    SkipDirSync,
    /// The headers of a table file reach the disk at once, syncs of the file do nothing.
    HeaderFirst,
    /// The second of two writes to the log between syncs is lost.
    LoseLogWrite,
    /// Two neighbouring records of a log write change places.
    SwapLogWrites,
    /// With the oldest segment, the next one goes.
    TrimTooFar,
    /// The last sectors of every run are not written.
    LoseRunTail,
    /// A sync makes data durable, but not the length.
    ForgetLength,
    /// Syncing the log takes a lock that its caller holds. Not one for `hunt`, which would wait as well.
    Deadlock,
    /// Each write to the log is interrupted, and done again, for ever. As above.
    Livelock,
    /// In the engine, by number: see `frond_engine::canary`.
    Engine(u8),
}

/// Activates the engine's own defect of `canary` on this thread, or none.
pub fn activate(canary: Option<Canary>) {
    #[cfg(feature = "canary")]
    frond_engine::canary::activate(match canary {
        Some(Canary::Engine(n)) => n,
        _ => 0,
    });
    #[cfg(not(feature = "canary"))]
    let _ = canary;
}
