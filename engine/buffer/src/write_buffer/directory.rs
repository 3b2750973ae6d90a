//! The directory of a write buffer: its shelves and their router. A buffer with one shelf has none.

use std::sync::Arc;

use arc_swap::Guard;
use parking_lot::RwLock;

use crate::router::Router;
use crate::write_buffer::shelf::Shelf;

/// The router and the shelves it leads to; replaced as a whole.
pub(crate) struct Directory {
    pub router: Router,
    pub shelves: Vec<Arc<RwLock<Shelf>>>,
}

/// A buffer's directory at one moment.
pub(crate) struct Loaded(pub Option<Guard<Option<Arc<Directory>>>>);

impl Loaded {
    /// `None`: there is the leftmost shelf alone.
    #[inline]
    pub fn get(&self) -> Option<&Directory> {
        self.0.as_ref()?.as_deref()
    }
}
