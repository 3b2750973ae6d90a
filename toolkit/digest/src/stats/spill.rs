//! Texts of samples that are too long to be kept in memory, in a file without a name.
//!
//! Invariants:
//!
//! - SP1. The file goes away with the process, however that ends.
//! - SP2. It never holds more than `LIMIT` bytes. A text that does not fit, or cannot be written,
//!   is cut in memory, like a statement longer than the limit of samples; reports give its
//!   length.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parking_lot::Mutex;

/// The most bytes of the file.
const LIMIT: u64 = 4 << 30;

/// Where a text is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    offset: u64,
    length: u32,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Spill {
    /// Created when it is first needed. The number is the end of its contents.
    file: Mutex<Option<(File, u64)>>,
}

impl Spill {
    /// Stores a text; `None` if that is not possible.
    pub fn store(&self, sql: &[u8]) -> Option<Stored> {
        let mut guard = self.file.lock();
        let (file, end) = match &mut *guard {
            Some(open) => open,
            none => none.insert((tempfile::tempfile().ok()?, 0)),
        };
        let stored = Stored { offset: *end, length: u32::try_from(sql.len()).ok()? };
        if *end + sql.len() as u64 > LIMIT {
            return None;
        }
        file.write_all_at(sql, stored.offset).ok()?;
        *end += sql.len() as u64;
        Some(stored)
    }

    /// Reads a text back; `None` if that fails.
    pub fn read(&self, stored: Stored) -> Option<Box<[u8]>> {
        let guard = self.file.lock();
        let (file, _) = guard.as_ref()?;
        let mut sql = vec![0; stored.length as usize];
        file.read_exact_at(&mut sql, stored.offset).ok()?;
        Some(sql.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back() {
        let spill = Spill::default();
        let statements: Vec<Vec<u8>> = (0..50).map(|i| vec![i as u8; 1000 * i]).collect();
        let stored: Vec<_> = statements.iter().filter_map(|s| spill.store(s)).collect();
        for (stored, statement) in stored.iter().zip(&statements) {
            assert_eq!(spill.read(*stored).as_deref(), Some(&statement[..]));
        }
        assert_eq!(stored.len(), 50);
        assert_eq!(spill.read(Stored { offset: 1 << 40, length: 1 }), None);
    }
}
