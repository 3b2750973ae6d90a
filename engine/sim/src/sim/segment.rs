//! Log segments that are begun by rare operations.
//!
//! A segment is begun by the operation whose record does not fit into the last one. Commits write most
//! of the log, so in a hundred thousand crash images a sync or a definition begins a dozen segments,
//! and a crash at one of them is a matter of luck. Some runs leave a segment's worth of unwritten
//! commits in the log: then the next operation that writes has to begin another segment.

use frond_engine::Durability;

use super::{note, Check, Sim};
use crate::world::Op;

/// Bytes of a value: no transaction has to write them to a table's file.
const VALUE: usize = 500;

impl Sim {
    /// Before some of the operations of which [`crate::session::missing`] asks that they begin segments.
    pub(super) fn fill_segment(&mut self, next: Op) -> Check {
        let percent = match next {
            Op::Sync | Op::FlushAll | Op::Reopen => 30,
            Op::Create | Op::Drop | Op::Rename | Op::Truncate => 15,
            // There are many.
            Op::Background => 2,
            _ => 0,
        };
        if percent == 0 || !self.rng.percent(percent) {
            return Ok(());
        }
        self.durability = Durability::EachSecond;
        self.engine().set_durability(self.durability);
        let restarts = self.stats.restarts;
        // The disk may be full, and rows locked: not at any price.
        for _ in 0..400 {
            if self.unwritten() > self.world.options.log_segment_bytes {
                note!(self, "  the log has a segment to write");
                self.stats.event("a segment of the log left to write");
                break;
            }
            let Some(table) = self.some_table() else { break };
            let Some(handle) = self.handle(table)? else { break };
            let i = self.begin_one_more()?;
            let (id, key) = (self.txns[i].real.id(), self.some_key());
            self.values += 1;
            let mut value = self.values.to_le_bytes().to_vec();
            while value.len() < VALUE {
                value.extend_from_slice(&self.rng.next().to_le_bytes());
            }
            self.put_value(i, &handle, table, key, value.into())?;
            // It has ended already where the row was refused for a conflict or by the machine.
            if let Some(i) = self.txns.iter().position(|t| t.real.id() == id) {
                self.commit(i)?;
            }
            if self.stats.restarts != restarts {
                break;
            }
        }
        Ok(())
    }

    /// Bytes of the log that only this process has.
    fn unwritten(&self) -> u64 {
        let status = self.engine().status();
        let of = |name| status.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v);
        of("log_bytes_appended").saturating_sub(of("log_bytes_written"))
    }
}
