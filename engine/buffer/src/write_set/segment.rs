//! `SegmentScan`: the part of a transaction's buffer that was written between two of its
//! savepoints, to be written to private runs.
//!
//! It shares the buffer instead of borrowing or emptying it: if writing fails, nothing is lost.

use std::sync::Arc;

use frond_base::{EntryRef, EntrySource, Result, Seq};

use crate::write_set::chunk::Place;
use crate::write_set::sorted::SortedBuffer;

/// The newest version of every key among those with `after < sequence <= upto`, in key order.
pub struct SegmentScan {
    buffer: Arc<SortedBuffer>,
    at: Option<(usize, Place)>,
    after: Seq,
    upto: Seq,
}

impl SegmentScan {
    pub fn new(buffer: Arc<SortedBuffer>, after: Seq, upto: Seq) -> SegmentScan {
        let mut scan = SegmentScan { at: buffer.first_at(), buffer, after, upto };
        scan.settle();
        scan
    }

    /// Skips versions outside of the segment. Within a key the newest version comes first.
    fn settle(&mut self) {
        while let Some(at) = self.at {
            let seq = self.buffer.entry_at(at).seq;
            if self.after < seq && seq <= self.upto {
                return;
            }
            self.at = self.buffer.after(at);
        }
    }
}

impl EntrySource for SegmentScan {
    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        match self.at {
            Some(at) => self.buffer.entry_at(at),
            None => panic!("entry() at the end of a segment"),
        }
    }

    fn advance(&mut self) -> Result<()> {
        let Some(was) = self.at else { panic!("advance() at the end of a segment") };
        let key = self.buffer.entry_at(was).key;
        let mut next = self.buffer.after(was);
        while let Some(at) = next.filter(|at| self.buffer.entry_at(*at).key == key) {
            next = self.buffer.after(at);
        }
        self.at = next;
        self.settle();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use frond_base::EntryKind;

    use super::*;

    fn entries(buffer: &Arc<SortedBuffer>, after: Seq, upto: Seq) -> Vec<(u32, Seq)> {
        let mut scan = SegmentScan::new(buffer.clone(), after, upto);
        let mut out = Vec::new();
        while scan.valid() {
            let e = scan.entry();
            out.push((u32::from_be_bytes(e.key.try_into().unwrap()), e.seq));
            scan.advance().unwrap();
        }
        out
    }

    #[test]
    fn a_segment_has_the_newest_version_that_it_saw_of_each_key() {
        let mut buffer = SortedBuffer::new();
        // Three rounds over all keys, over several chunks; the second leaves out the odd ones.
        let keys = 5_000u32;
        let mut seq = 0;
        for round in 0..3 {
            for n in (0..keys).filter(|n| round != 1 || n % 2 == 0) {
                seq += 1;
                buffer.put(&n.to_be_bytes(), seq, EntryKind::Put, &[7; 40]);
            }
        }
        let buffer = Arc::new(buffer);
        let (one, two) = (u64::from(keys), u64::from(keys + keys / 2));
        let first = entries(&buffer, 0, one);
        assert_eq!(first, (0..keys).map(|n| (n, u64::from(n) + 1)).collect::<Vec<_>>());
        let second = entries(&buffer, one, two);
        assert!(second.iter().all(|(n, s)| n % 2 == 0 && *s > one && *s <= two));
        assert_eq!(second.len(), 2_500);
        let both = entries(&buffer, 0, two);
        assert!(both.len() == 5_000 && both.iter().all(|(n, s)| (n % 2 == 0) == (*s > one)));
        assert_eq!(entries(&buffer, 0, seq).len(), 5_000);
        assert!(entries(&buffer, seq, seq + 9).is_empty());
        assert!(entries(&Arc::default(), 0, 9).is_empty());
    }
}
