//! Memory of stored runs, for the next ones: a run takes megabytes, and memory that the system gives anew costs a page fault for
//! each page (0.06 of iiBench's 1.9 us a row).
//!
//! Tested by the unit test below.

use frond_run::AlignedBuf;
use parking_lot::Mutex;

/// Larger memory is not kept, bytes.
const MOST_BYTES: usize = 32 << 20;

/// See the module. It keeps as many runs' memory as were built at the same time.
#[derive(Default)]
pub struct RunMemory(Mutex<Vec<AlignedBuf>>);

impl RunMemory {
    /// Memory for a run, empty when none is kept.
    pub(crate) fn take(&self) -> AlignedBuf {
        self.0.lock().pop().unwrap_or_default()
    }

    /// The run that had `bytes` is stored, or was given up.
    pub(crate) fn give(&self, bytes: AlignedBuf) {
        if (1..=MOST_BYTES).contains(&bytes.capacity()) {
            self.0.lock().push(bytes);
        }
    }

    /// Gives the memory that is kept back to the system: for a moment when no run is built.
    pub fn clear(&self) {
        drop(std::mem::take(&mut *self.0.lock()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_serves_again_until_it_is_cleared() {
        let memory = RunMemory::default();
        let given = AlignedBuf::with_capacity(5000);
        let at = given.as_ptr();
        memory.give(given);
        memory.give(AlignedBuf::new());
        memory.give(AlignedBuf::with_capacity(MOST_BYTES + 1));
        assert_eq!(memory.take().as_ptr(), at);
        memory.give(AlignedBuf::with_capacity(5000));
        memory.clear();
        assert_eq!(memory.take().capacity(), 0);
    }
}
