//! A transaction that writes private runs, and what they must hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use frond_base::{EntryKind, SEQ_MAX};
use frond_buffer::{SegmentScan, SortedBuffer};
use frond_run::MergeInput;
use frond_tree::{Bounds, PrivateRuns, Segment};

use crate::support::Bench;

pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A transaction's private runs, and what they must hold.
pub struct Owner {
    pub runs: PrivateRuns,
    pub op: u64,
    pub model: Changes,
}

impl Owner {
    pub fn new(bench: &Bench) -> Owner {
        Owner { runs: PrivateRuns::new(&bench.tree, 16 << 10), op: 0, model: Changes::new() }
    }

    /// One generation of changes.
    pub fn write(&mut self, changes: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
        let (input, segment) = self.input(changes);
        self.runs.write(input, segment, &mut || Ok(())).unwrap();
    }

    /// The changes as what is written.
    pub fn input(
        &mut self,
        changes: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
    ) -> (MergeInput, Segment) {
        let mut buffer = SortedBuffer::new();
        let after = self.op;
        for (key, value) in changes {
            self.op += 1;
            let kind = if value.is_some() { EntryKind::Put } else { EntryKind::Delete };
            buffer.put(&key, self.op, kind, value.as_deref().unwrap_or(&[]));
            self.model.insert(key, value);
        }
        let segment = Segment { after, upto: self.op };
        let scan = SegmentScan::new(Arc::new(buffer), segment.after, segment.upto);
        (MergeInput::entries(scan), segment)
    }

    pub fn tidy(&mut self, marks: &[u64]) {
        self.runs.tidy(marks, &mut || Ok(())).unwrap();
    }

    pub fn verify(&self, bench: &Bench) {
        for (key, value) in &self.model {
            let mut found = Vec::new();
            let kind = self.runs.get(key, Some(&mut found)).unwrap();
            match value {
                Some(v) => assert!(kind == Some(EntryKind::Put) && found == *v),
                None => assert_eq!(kind, Some(EntryKind::Delete)),
            }
        }
        assert_eq!(self.runs.get(b"absent", None).unwrap(), None);
        let mut seen: BTreeMap<Vec<u8>, Vec<u8>> = bench
            .model
            .range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, SEQ_MAX)
            .into_iter()
            .map(|(k, v)| (k.to_vec(), v.to_vec()))
            .collect();
        for (key, value) in &self.model {
            match value {
                Some(v) => seen.insert(key.clone(), v.clone()),
                None => seen.remove(key),
            };
        }
        for backward in [false, true] {
            let mut cursor = bench.tree.cursor(SEQ_MAX, Bounds::all());
            cursor.set_private(Some(self.runs.view()));
            let mut valid = if backward { cursor.last() } else { cursor.first() }.unwrap();
            let mut expected: Vec<_> = seen.iter().collect();
            if backward {
                expected.reverse();
            }
            for (key, value) in expected {
                assert!(valid && cursor.key() == &key[..] && cursor.value() == &value[..]);
                valid = if backward { cursor.prev() } else { cursor.next() }.unwrap();
            }
            assert!(!valid);
        }
    }
}
