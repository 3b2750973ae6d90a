//! What a caller vouches for when it writes a row.

/// Guarantees of the writer.
#[derive(Clone, Copy, Default, Debug)]
pub struct WriteFlags {
    /// Nobody else can see the table: take no locks.
    pub no_locks: bool,
    /// Secondary keys are known to be unique.
    pub skip_unique: bool,
    /// Foreign keys are neither checked nor do they cascade.
    pub skip_foreign: bool,
}
