//! Copying from a chunk into a batch.

use std::ops::Bound;

use crate::batch::{Batch, Scan, Stop};
use crate::write_set::chunk::Chunk;

/// Copies from `chunk` the entries that the scan asks for, left to right.
pub(crate) fn copy_forward(
    chunk: &Chunk,
    from: Bound<&[u8]>,
    scan: &Scan<'_>,
    batch: &mut Batch,
) -> Stop {
    let (mut p, _) = chunk.lower(from);
    let (end, last) = chunk.upper(scan.to);
    while p < end && chunk.is_entry(p) {
        if !batch.take_forward(&chunk.entry(p), scan) {
            return Stop::Full;
        }
        p = chunk.next(p);
    }
    if last || (end < chunk.end() && p >= end) {
        Stop::Range
    } else {
        Stop::Edge
    }
}

/// Copies from `chunk` the entries that the scan asks for, right to left.
pub(crate) fn copy_backward(
    chunk: &Chunk,
    from: Bound<&[u8]>,
    scan: &Scan<'_>,
    batch: &mut Batch,
) -> Stop {
    let (mut p, _) = chunk.upper(from);
    let (first, last) = chunk.lower(scan.to);
    while let Some(q) = chunk.prev(p) {
        if q < first {
            return Stop::Range;
        }
        if !batch.take_backward(&chunk.entry(q), scan) {
            return Stop::Full;
        }
        p = q;
    }
    if last {
        Stop::Range
    } else {
        Stop::Edge
    }
}
