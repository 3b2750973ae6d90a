//! The options of trees, which equal trees share: those of a hundred thousand tables of a few kinds take the memory
//! of a few.

use std::sync::Arc;

use frond_run::{KeyShape, RunFormat};
use frond_tree::TreeOptions;
use parking_lot::Mutex;

use crate::catalog::IndexDef;

/// So many are kept for the next trees. It is no loss if two trees do not find the same.
const KEPT: usize = 64;

/// The options that were made last.
#[derive(Default)]
pub struct SharedOptions {
    kept: Mutex<Vec<Arc<TreeOptions>>>,
}

impl SharedOptions {
    /// The options of one index's tree.
    pub fn of(&self, index: &IndexDef, leaf_bytes: u64) -> Arc<TreeOptions> {
        self.share(tree_options(index, leaf_bytes))
    }

    fn share(&self, options: TreeOptions) -> Arc<TreeOptions> {
        let mut kept = self.kept.lock();
        if let Some(at) = kept.iter().position(|other| **other == options) {
            let found = kept.remove(at);
            kept.push(found.clone());
            return found;
        }
        if kept.len() == KEPT {
            kept.remove(0);
        }
        let options = Arc::new(options);
        kept.push(options.clone());
        options
    }
}

/// As [`SharedOptions::of`], for trees without a database.
pub(crate) fn tree_options(index: &IndexDef, leaf_bytes: u64) -> TreeOptions {
    let format = RunFormat {
        page_bytes: index.page_bytes,
        compression: index.compression,
        key_shape: KeyShape::fixed(&index.key_shape),
        filter: index.filter,
    };
    let upper = RunFormat { filter: false, ..format };
    let mut options = TreeOptions::new(upper, format);
    options.leaf_bytes = leaf_bytes;
    // 16 MiB, 128 KiB, 32 KiB and 1 MiB with the default; with the small leaves of tests all sizes are small.
    options.group_bytes = 2 * leaf_bytes;
    options.min_slice = (leaf_bytes / 64).max(1);
    options.image_bytes = leaf_bytes / 256;
    options.pack_bytes = leaf_bytes / 8;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_trees_share_their_options() {
        let shared = SharedOptions::default();
        let of = |page_bytes| {
            let index = IndexDef { page_bytes, ..IndexDef::plain() };
            shared.share(tree_options(&index, 8 << 20))
        };
        let (first, other) = (of(4096), of(8192));
        assert!(Arc::ptr_eq(&first, &of(4096)) && first != other);
        for leaf_bytes in 0..KEPT as u64 {
            shared.share(tree_options(&IndexDef::plain(), 1 << 20 | leaf_bytes));
        }
        assert!(!Arc::ptr_eq(&first, &of(4096)) && first == of(4096));
        assert_eq!(shared.kept.lock().len(), KEPT);
    }
}
