//! Reads of what `absorb` will change, so that it is in the processor's cache by then: see `Table::fetch`. What they
//! return has no meaning; a line of 64 bytes is there when any of its bytes was read.

use super::Class;

impl Class {
    /// Its own lines.
    #[inline]
    pub(in crate::stats) fn touch(&self) -> u64 {
        self.count
            ^ self.key.len() as u64
            ^ self.nonzero
            ^ self.first.unwrap_or_default() as u64
            ^ self.last_stamp.unwrap_or_default() as u64
            ^ self.sample.length
            ^ self.sample.time.unwrap_or_default()
            ^ self.begun.offset
            ^ self.series.touch()
    }

    /// What these lines point to.
    #[inline]
    pub(in crate::stats) fn touch_parts(&self) -> u64 {
        let key = self.key.iter().step_by(64).fold(0, |read, byte| read ^ u64::from(*byte));
        let tops = self.dbs.touch() ^ self.users.touch() ^ self.hosts.touch();
        let distributions = self.distributions.iter().fold(0, |read, d| read ^ d.max());
        let flags = self.flags.as_ref().map_or(0, |flags| flags[0].0);
        key ^ tops ^ distributions ^ flags
    }

    #[inline]
    pub(in crate::stats) fn touch_histograms(&self) -> u64 {
        self.distributions.iter().fold(0, |read, d| read ^ d.touch())
    }
}
