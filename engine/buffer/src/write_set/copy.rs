//! Copying from a group into a batch.

use std::ops::Bound;

use crate::batch::{Batch, Scan, Stop};
use crate::write_set::group::Group;

/// Copies from `group` the entries that the scan asks for, left to right.
pub(crate) fn copy_forward(
    group: Group<'_>,
    from: Bound<&[u8]>,
    scan: &Scan<'_>,
    batch: &mut Batch,
) -> Stop {
    let (mut p, _) = group.lower(from);
    let (end, last) = group.upper(scan.to);
    while p < end && group.is_entry(p) {
        if !batch.take_forward(&group.entry(p), scan) {
            return Stop::Full;
        }
        p = group.next(p);
    }
    if last || (end < group.end() && p >= end) {
        Stop::Range
    } else {
        Stop::Edge
    }
}

/// Copies from `group` the entries that the scan asks for, right to left.
pub(crate) fn copy_backward(
    group: Group<'_>,
    from: Bound<&[u8]>,
    scan: &Scan<'_>,
    batch: &mut Batch,
) -> Stop {
    let (mut p, _) = group.upper(from);
    let (first, last) = group.lower(scan.to);
    while let Some(q) = group.prev(p) {
        if q < first {
            return Stop::Range;
        }
        if !batch.take_backward(&group.entry(q), scan) {
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
