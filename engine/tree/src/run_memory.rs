//! Memory of stored runs, for the next ones: a run takes megabytes, and memory that the system gives anew costs a page fault for
//! each page (0.06 of iiBench's 1.9 us a row).
//!
//! Tested by the unit test below.

use frond_run::AlignedBuf;
use parking_lot::Mutex;

/// Larger memory is not kept, bytes: leaves' runs have less.
const MOST_BYTES: usize = 16 << 20;

/// See the module. What it keeps is charged to no budget.
pub struct RunMemory {
    kept: Mutex<Vec<AlignedBuf>>,
    most: usize,
}

impl RunMemory {
    /// Keeps the memory of `most` runs: of those that background threads build. Sessions build runs as well, any number at a time.
    pub fn new(most: usize) -> RunMemory {
        RunMemory { kept: Mutex::default(), most }
    }

    /// Memory for a run, empty when none is kept.
    pub(crate) fn take(&self) -> AlignedBuf {
        self.kept.lock().pop().unwrap_or_default()
    }

    /// The run that had `bytes` is stored, or was given up.
    pub(crate) fn give(&self, bytes: AlignedBuf) {
        if (1..=MOST_BYTES).contains(&bytes.capacity()) {
            let mut kept = self.kept.lock();
            if kept.len() < self.most {
                kept.push(bytes);
            }
        }
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.kept.lock().iter().map(AlignedBuf::capacity).sum()
    }

    /// Gives the memory that is kept back to the system: for who finds no run to build.
    pub fn clear(&self) {
        drop(std::mem::take(&mut *self.kept.lock()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_serves_again_until_it_is_cleared() {
        let memory = RunMemory::new(2);
        let given = AlignedBuf::with_capacity(5000);
        let at = given.as_ptr();
        memory.give(given);
        memory.give(AlignedBuf::new());
        memory.give(AlignedBuf::with_capacity(MOST_BYTES + 1));
        assert_eq!(memory.take().as_ptr(), at);
        (0..9).for_each(|_| memory.give(AlignedBuf::with_capacity(5000)));
        let kept = [memory.take(), memory.take(), memory.take()].map(|bytes| bytes.capacity());
        assert_eq!(kept, [8192, 8192, 0]);
        memory.give(AlignedBuf::with_capacity(5000));
        memory.clear();
        assert_eq!((memory.bytes(), memory.take().capacity()), (0, 0));
    }
}
