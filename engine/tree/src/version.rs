//! One version of a tree's metadata, as a checkpoint takes it: in constant time, under the mutexes that order
//! commits and edits. What it holds never changes, so it is encoded and written while the tree goes on.
//!
//! The runs of a version are not given back while it is held.

use std::collections::BTreeSet;
use std::sync::Arc;

use frond_base::BlockId;

use crate::difference;
use crate::format;
use crate::tree::{Image, Tree};
use crate::trunk::Trunk;

/// See the module.
pub struct Version {
    trunk: Arc<Trunk>,
}

impl Tree {
    /// The current version. Constant time.
    pub fn version(&self) -> Version {
        Version { trunk: self.inner.view.load().trunk.clone() }
    }
}

impl Version {
    /// The version as bytes for [`crate::TreeLoader::from_image`].
    pub fn image(&self) -> Image {
        let lsn = self.trunk.applied;
        Image { lsn, bytes: format::encode_image(lsn, &difference::whole(&self.trunk)) }
    }

    /// The blocks that the image names, ascending.
    pub fn blocks(&self) -> Vec<BlockId> {
        let mut blocks = BTreeSet::new();
        self.trunk.each_slice(&mut |s| {
            blocks.insert(s.run.block());
        });
        blocks.into_iter().collect()
    }
}
