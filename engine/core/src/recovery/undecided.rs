//! What the two readings of the log keep of prepared transactions (`recovery/prepared.rs`).

use std::collections::BTreeMap;

use frond_base::Lsn;

use crate::record::{AttachedRuns, KIND_COMMIT_PREPARED, KIND_PREPARE, KIND_ROLLBACK_PREPARED};

/// Records of prepared transactions.
pub(super) const PREPARED_KINDS: [u8; 3] =
    [KIND_PREPARE, KIND_COMMIT_PREPARED, KIND_ROLLBACK_PREPARED];

/// First reading: the private runs of transactions that are prepared at this place of the log, by
/// the LSN at which their newest record starts.
pub(super) type PreparedRuns = BTreeMap<Lsn, Vec<AttachedRuns>>;

/// Second reading: their records.
pub(super) type Undecided = BTreeMap<Lsn, Vec<u8>>;
