//! The directory of a write buffer: its shelves and their router.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::router::Router;
use crate::write_buffer::shelf::Shelf;

/// The router and the shelves it leads to; replaced as a whole.
pub(crate) struct Directory {
    pub router: Router,
    pub shelves: Vec<Arc<RwLock<Shelf>>>,
}
