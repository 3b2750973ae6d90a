//! Recovery counts what it does, tells the operator how far it is, and measures itself (`checkpoint/recovery_time.rs`).

use std::time::Duration;

use frond_base::Lsn;
use frond_wal::Recovered;

use crate::checkpoint::recovery_time::{Mark, Work};
use crate::commit::core::Core;

/// Between two messages.
const SAY_EACH: Duration = Duration::from_secs(3);
/// The clock is read and the log marked after this many records of the second reading.
const LOOK_EACH: u64 = 256;
/// The operator hears nothing of a log shorter than this, unless it takes long.
const SAID_FROM: u64 = 1 << 20;

/// See the module.
pub(super) struct Progress<'a> {
    core: &'a Core,
    began: Duration,
    said: Duration,
    from: Lsn,
    end: Lsn,
    records: u64,
    /// The first reading ended after this.
    search: Duration,
}

impl Progress<'_> {
    /// Opening began at `began`.
    pub fn new<'a>(core: &'a Core, log: &Recovered, began: Duration) -> Progress<'a> {
        let (from, end) = (log.start(), log.end());
        if end - from >= SAID_FROM {
            let mib = (end - from) >> 20;
            core.messages.say(2, &format!("recovery: {mib} MiB of log to read"));
        }
        Progress {
            core,
            began,
            said: core.shared.vfs.now(),
            from,
            end,
            records: 0,
            search: Duration::ZERO,
        }
    }

    /// The first reading has come to `lsn`.
    pub fn searched(&mut self, lsn: Lsn) {
        self.say("looking for changed tables", lsn);
    }

    /// The second reading begins.
    pub fn begin_replay(&mut self) {
        self.search = self.core.shared.vfs.now().saturating_sub(self.began);
    }

    /// The record at `lsn` is next; `entries` were found before it that are not in runs.
    pub fn replayed(&mut self, lsn: Lsn, entries: u64) {
        if self.records.is_multiple_of(LOOK_EACH) {
            self.core.target.mark(Mark { lsn, records: self.records, entries });
            self.say("replaying", lsn);
        }
        self.records += 1;
    }

    fn say(&mut self, what: &str, lsn: Lsn) {
        let now = self.core.shared.vfs.now();
        if now.saturating_sub(self.said) >= SAY_EACH {
            self.said = now;
            let percent = (lsn - self.from) * 100 / (self.end - self.from).max(1);
            self.core.messages.say(2, &format!("recovery: {what}, {percent} % of the log"));
        }
    }

    /// Everything is back.
    pub fn end(self, entries: u64) {
        let Progress { core, began, from, end, records, search, .. } = self;
        let took = core.shared.vfs.now().saturating_sub(began);
        let tables = core.tables.read().len() as u64;
        core.target.set_base(records, entries);
        core.target.measured(&Work { bytes: end - from, records, entries, tables }, took);
        if end - from >= SAID_FROM || took >= SAY_EACH {
            let (_, rate) = core.target.last();
            let told = format!(
                "recovery: done in {:.1} s ({:.2} s to find changed tables): {:.1} MiB of log ({:.1} MiB/s), {records} records, {entries} entries replayed, \
                 {tables} tables",
                took.as_secs_f64(),
                search.as_secs_f64(),
                (end - from) as f64 / f64::from(1 << 20),
                rate as f64 / f64::from(1 << 20),
            );
            core.messages.say(2, &told);
        }
    }
}
