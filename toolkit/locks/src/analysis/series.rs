//! History list, log and waits over time.

use crate::graph::Wait;
use crate::model::{Clock, Dump};
use crate::rows::Point;

/// The most points that are kept. When there are more, neighbours are joined, with the larger value of
/// each.
const MOST: usize = 4_096;

#[derive(Debug, Default)]
pub struct Series {
    pub points: Vec<Point>,
    /// Dumps in one point.
    per_point: u64,
    in_last: u64,
}

impl Series {
    pub fn dump(&mut self, dump: &Dump, waits: &[Wait]) {
        let age = dump.lsn.zip(dump.checkpoint).and_then(|(lsn, at)| lsn.checked_sub(at));
        let point = Point {
            at: dump.at.map(Clock),
            history: dump.history,
            checkpoint_age: age,
            lsn: dump.lsn,
            active: dump.trxs.iter().filter(|trx| trx.active.is_some()).count() as u64,
            waiting: waits.len() as u64,
            row_locks: dump.trxs.iter().fold(0, |n, trx| trx.row_locks.saturating_add(n)),
        };
        let per_point = self.per_point.max(1);
        match self.points.last_mut() {
            Some(last) if self.in_last < per_point => *last = joined(*last, point),
            _ => {
                self.points.push(point);
                self.in_last = 0;
            }
        }
        self.in_last += 1;
        if self.points.len() > MOST {
            let halved = self.points.chunks(2).map(|pair| match pair {
                [a, b] => joined(*a, *b),
                _ => pair[0],
            });
            self.points = halved.collect();
            // The number is odd, so the last point has only one dump.
            self.per_point = 2 * per_point;
        }
    }
}

/// Joins two points: the larger of each value, at the first time.
fn joined(a: Point, b: Point) -> Point {
    Point {
        at: a.at.or(b.at),
        history: a.history.max(b.history),
        checkpoint_age: a.checkpoint_age.max(b.checkpoint_age),
        lsn: a.lsn.max(b.lsn),
        active: a.active.max(b.active),
        waiting: a.waiting.max(b.waiting),
        row_locks: a.row_locks.max(b.row_locks),
    }
}
