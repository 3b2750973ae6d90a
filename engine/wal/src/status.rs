//! Counters of the log.

use std::time::Duration;

use frond_base::Lsn;

/// What the log has done since it was opened. Cheap to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WalStatus {
    pub end: Lsn,
    pub written: Lsn,
    pub durable: Lsn,
    pub kept_from: Lsn,
    pub segments: usize,
    pub records: u64,
    /// Bytes of the log taken by records, framing included.
    pub bytes_appended: u64,
    /// Rounds of writing the buffer out.
    pub writes: u64,
    pub bytes_written: u64,
    /// Syncs of log data (those that make a new segment's header durable are not counted).
    pub syncs: u64,
    pub sync_time: Duration,
    pub longest_sync: Duration,
    pub rotations: u64,
    /// Appends that had to wait for room in the buffer.
    pub buffer_waits: u64,
    /// Callers served by a sync: groups of 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64 and more.
    pub group_sizes: [u64; 8],
}

impl WalStatus {
    pub(crate) fn count_group(&mut self, callers: usize) {
        let class = callers.max(1).next_power_of_two().trailing_zeros() as usize;
        let last = self.group_sizes.len() - 1;
        self.group_sizes[class.min(last)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_in_their_class() {
        let mut s = WalStatus::default();
        for callers in [1, 2, 3, 4, 5, 8, 9, 64, 65, 1000] {
            s.count_group(callers);
        }
        assert_eq!(s.group_sizes, [1, 1, 2, 2, 1, 0, 1, 2]);
    }
}
