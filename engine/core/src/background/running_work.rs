//! The list of background work under way, for people (`FROND_JOBS`): each piece of work is in it from its start to its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use frond_base::{IndexNo, TableId};
use frond_tree::JobKind;
use parking_lot::Mutex;

/// See the module.
#[derive(Default)]
pub struct Works {
    /// In the order in which they began; there are as many as threads that work.
    works: Mutex<Vec<Arc<Work>>>,
}

/// A piece of work.
pub struct Work {
    pub kind: &'static str,
    pub table: TableId,
    /// `None`: of the whole table.
    pub index: Option<IndexNo>,
    pub since: Duration,
    /// Bytes to be read, estimated; 0: unknown.
    pub bytes: u64,
    written: AtomicU64,
}

/// The work is in the list until this is dropped.
pub struct UnderWay<'a> {
    list: &'a Works,
    work: Arc<Work>,
}

/// The name of a job, for people.
pub fn name_of(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Freeze => "WRITE BUFFER",
        JobKind::Flush => "FLUSH",
        JobKind::Merge => "MERGE",
        JobKind::Attach => "ATTACH",
    }
}

impl Work {
    pub fn new(kind: &'static str, table: TableId, since: Duration) -> Work {
        Work { kind, table, index: None, since, bytes: 0, written: AtomicU64::new(0) }
    }

    /// The work concerns one tree, and reads about this many bytes.
    pub fn of(mut self, index: Option<IndexNo>, bytes: u64) -> Work {
        (self.index, self.bytes) = (index, bytes);
        self
    }

    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Works {
    pub fn begin(&self, work: Work) -> UnderWay<'_> {
        let work = Arc::new(work);
        self.works.lock().push(work.clone());
        UnderWay { list: self, work }
    }

    /// In the order in which they began.
    pub fn all(&self) -> Vec<Arc<Work>> {
        self.works.lock().clone()
    }
}

impl UnderWay<'_> {
    /// The work has written this many bytes so far.
    pub fn wrote(&self, bytes: u64) {
        self.work.written.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.list.works.lock().retain(|work| !Arc::ptr_eq(work, &self.work));
    }
}
