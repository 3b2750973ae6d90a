//! Memory that the cursors of a thread leave to each other while they rest: a connection may keep thousands of cursors,
//! and uses few of them at a time.

use std::cell::RefCell;
use std::sync::Arc;

use frond_base::NodeId;
use frond_buffer::Batch;

use crate::node::Node;
use crate::slice::Key;
use crate::source::Source;

/// Cursors that a statement may use at once and still find memory for each.
const MOST: usize = 4;
/// Most bytes of a batch, of a list of sources, and of all keys that are kept.
const BYTES: usize = 32 << 10;
const KEYS: usize = 32;

/// A node on a path, and where its range begins.
pub(super) type Step = (NodeId, Option<Key>, Arc<Node>);

/// See the module. Lists are empty.
#[derive(Default)]
pub(super) struct Spares {
    pub sources: Vec<Source>,
    pub keys: Vec<Vec<u8>>,
    pub batch: Option<Batch>,
    pub path: Vec<Step>,
}

thread_local! {
    static LEFT: RefCell<Vec<Spares>> = const { RefCell::new(Vec::new()) };
}

impl Spares {
    pub fn keep_batch(&mut self, batch: Batch) {
        self.batch = (batch.memory_bytes() <= BYTES).then_some(batch);
    }

    /// What a cursor of this thread has left, if there is any.
    pub fn found() -> Option<Spares> {
        LEFT.try_with(|left| left.borrow_mut().pop()).ok().flatten()
    }

    /// Leaves it to the next cursor.
    pub fn leave(mut self) {
        debug_assert!(self.sources.is_empty() && self.path.is_empty(), "spares are in use");
        self.sources.shrink_to(BYTES / size_of::<Source>());
        self.keys.retain(|key| key.capacity() <= BYTES / KEYS);
        self.keys.truncate(KEYS);
        // A thread that ends frees it.
        let _ = LEFT.try_with(|left| {
            let mut left = left.borrow_mut();
            if left.len() < MOST {
                left.push(self);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use frond_base::{AllReaders, EntryKind, EntryRef, TableId, TreeId, SEQ_MAX};
    use frond_run::{Compression, KeyShape, RunFormat};

    use super::*;
    use crate::testing::{MemLog, MemStore};
    use crate::{Bounds, Tree, TreeOptions};

    #[test]
    fn resting_cursors_keep_nothing_and_the_next_one_finds_it() {
        let format = RunFormat {
            page_bytes: 4096,
            compression: Compression::None,
            key_shape: KeyShape::fixed(&[1]),
            filter: false,
        };
        let (id, options) =
            (TreeId { table: TableId(1), index: 0 }, TreeOptions::new(format, format));
        let tree = Tree::new(id, options, MemStore::new(), MemLog::new(), Arc::new(AllReaders));
        tree.write(1, [EntryRef { key: b"k", seq: 1, kind: EntryKind::Put, value: b"v" }]);
        let mut cursors: Vec<_> = (0..20).map(|_| tree.cursor(SEQ_MAX, Bounds::all())).collect();
        let left = || LEFT.with(|left| left.borrow().len());
        for cursor in &mut cursors {
            assert!(cursor.first().unwrap());
            assert!(cursor.sources.capacity() > 0 && left() == 0);
            cursor.rest();
            assert!(cursor.sources.capacity() == 0 && left() == 1);
        }
        cursors.iter_mut().for_each(|cursor| assert!(cursor.first().unwrap()));
        assert!(cursors.iter().all(|cursor| cursor.value() == b"v") && left() == 0);
        cursors.iter_mut().for_each(|cursor| cursor.rest());
        assert_eq!(left(), MOST);
    }
}
