//! Status of the engine: counters by name, and a report for people.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use frond_cache::Part;
use frond_txn::TxnId;

use crate::engine::Engine;
use crate::report::places::Places;
use crate::report::watch::{deadlock_text, who};

/// Counters by name; the names are stable.
pub type Status = Vec<(&'static str, u64)>;

impl Engine {
    /// All counters. Cheap enough to be polled each second.
    pub fn status(&self) -> Status {
        let core = self.core();
        let shared = &core.shared;
        let (wal, cache, work) =
            (shared.wal.status(), shared.cache.stats(), core.pressure.status());
        let locks = core.locks.stats();
        let rows = shared.rows.stats();
        let budget = &shared.budget;
        let outlook = core.outlook();
        let (recovery_micros, recovery_rate) = core.target.last();
        let (backup_files, backup_held, backup_broken) = core.backups.status();
        let prepared_age =
            core.prepared.oldest().map_or(Duration::ZERO, |s| shared.vfs.now().saturating_sub(s));
        let part = |p| budget.used_by(p) as u64;
        vec![
            ("commits", core.counters.commits.load(Relaxed)),
            ("entries_committed", core.counters.entries_committed.load(Relaxed)),
            ("tables", core.names.read().len() as u64),
            ("tables_open", core.tables.read().len() as u64),
            ("files_open", shared.files.open_files() as u64),
            ("files_open_limit", shared.files.limit() as u64),
            ("files_opened_again", shared.files.opened_again()),
            ("prepared", core.prepared.len() as u64),
            ("prepared_oldest_micros", prepared_age.as_micros() as u64),
            ("snapshots", core.snapshots.count() as u64),
            ("log_bytes_appended", wal.bytes_appended),
            ("log_bytes_written", wal.bytes_written),
            ("log_bytes_kept", wal.end - wal.kept_from),
            ("log_bytes_to_replay", outlook.bytes),
            ("recovery_estimate_micros", outlook.time.as_micros() as u64),
            ("recovery_target_seconds", core.target.seconds()),
            ("recovery_slowness_percent", core.target.slowness().unwrap_or(0) / 10),
            ("last_recovery_micros", recovery_micros),
            ("last_recovery_bytes_per_second", recovery_rate),
            ("log_syncs", wal.syncs),
            ("log_sync_micros", wal.sync_time.as_micros() as u64),
            ("log_sync_micros_max", wal.longest_sync.as_micros() as u64),
            ("log_segments", wal.segments as u64),
            ("cache_bytes_limit", budget.limit() as u64),
            ("cache_bytes_used", budget.used() as u64),
            ("page_cache_bytes", part(Part::PageCache)),
            ("page_cache_pages", cache.pages),
            ("page_cache_hits", cache.hits),
            ("page_cache_misses", cache.misses),
            ("page_cache_evicted", cache.evicted),
            ("row_cache_bytes", part(Part::RowCache)),
            ("row_cache_limit", rows.limit),
            ("row_cache_rows", rows.rows),
            ("row_cache_hits", rows.hits),
            ("row_cache_misses", rows.misses),
            ("row_cache_inserted", rows.inserted),
            ("row_cache_evicted", rows.evicted),
            ("run_index_bytes", part(Part::RunIndexes)),
            ("metadata_bytes", part(Part::Metadata)),
            ("run_memory_bytes", core.shared.run_memory.bytes() as u64),
            ("write_memory_bytes", part(Part::WriteBuffers)),
            ("write_buffer_bytes", work.buffered),
            ("write_buffer_limit", work.write_limit),
            ("merge_debt_bytes", work.debt),
            ("merge_debt_limit", work.debt_limit),
            ("drain_bytes_per_second", work.drain_rate),
            ("writers_delayed_micros", work.delayed_micros),
            ("backup_files_pinned", backup_files),
            ("backup_bytes_held", backup_held),
            ("backup_pins_broken", backup_broken),
            ("disk_full", u64::from(core.disk.is_full())),
            ("spills", core.counters.spills.load(Relaxed)),
            ("loads", core.counters.loads.load(Relaxed)),
            ("spilled_commits", core.counters.spilled_commits.load(Relaxed)),
            ("memory_returns", core.counters.memory_returns.load(Relaxed)),
            ("freezes", core.counters.freezes.load(Relaxed)),
            ("jobs", core.counters.jobs.load(Relaxed)),
            ("job_failures", core.counters.job_failures.load(Relaxed)),
            ("images", core.counters.images.load(Relaxed)),
            ("lock_bytes", core.locks.memory_bytes() as u64),
            ("lock_waits", locks.waits),
            ("lock_timeouts", locks.timeouts),
            ("deadlocks", locks.deadlocks),
        ]
    }

    /// A report for people, as `SHOW ENGINE FROND STATUS` shows it.
    pub fn status_text(&self) -> String {
        let mut out = String::with_capacity(4096);
        let core = self.core();
        // Writing to a string cannot fail.
        let _ = self.write_report(&mut out);
        if let Some(deadlock) = core.locks.last_deadlock() {
            out.push_str("\nLATEST DEADLOCK\n---------------\n");
            out.push_str(&deadlock_text(core, &deadlock, |_| String::new()));
            out.push('\n');
        }
        out
    }

    fn write_report(&self, out: &mut String) -> std::fmt::Result {
        let core = self.core();
        writeln!(out, "COUNTERS\n--------")?;
        for (name, value) in self.status() {
            writeln!(out, "{name:<28} {value}")?;
        }
        writeln!(out, "\nLOCK WAITS\n----------")?;
        let waiters = core.locks.waiters();
        if waiters.is_empty() {
            writeln!(out, "none")?;
        }
        let mut places = Places::new(core);
        let who = |id: TxnId| who(core.locks.label(id), id.0);
        for wait in waiters.into_iter().filter_map(|w| core.locks.wait_of(w)).take(100) {
            let behind: Vec<String> = wait.blockers.iter().map(|b| who(*b)).collect();
            let now = core.shared.vfs.now();
            writeln!(
                out,
                "{} waits {:.1} s for {:?} on {}, behind {}",
                who(wait.waiter),
                now.saturating_sub(wait.since).as_secs_f64(),
                wait.mode,
                places.phrase(wait.tree, wait.key.as_deref(), wait.range.as_ref()),
                behind.join(", ")
            )?;
        }
        writeln!(out, "\nBACKUP\n------")?;
        core.write_backup(out)?;
        writeln!(out, "\nTREES\n-----")?;
        writeln!(
            out,
            "{:<40} {:>5} {:>12} {:>14} {:>14} {:>6} {:>7} {:>6} {:>14}",
            "table",
            "index",
            "entries",
            "stored bytes",
            "logical bytes",
            "runs",
            "leaves",
            "height",
            "buffered bytes"
        )?;
        let mut tables: Vec<_> = core.tables.read().values().cloned().collect();
        tables.sort_by_key(|t| t.id());
        for table in tables.iter().take(200) {
            let def = table.def();
            let name = if def.name.is_empty() { "(catalog)" } else { &def.name };
            for tree in table.trees().iter() {
                let s = tree.stats();
                writeln!(
                    out,
                    "{:<40} {:>5} {:>12} {:>14} {:>14} {:>6} {:>7} {:>6} {:>14}",
                    name,
                    tree.id().index,
                    s.entries,
                    s.run_bytes,
                    s.logical_bytes,
                    s.runs,
                    s.leaves,
                    s.height,
                    tree.buffered_bytes()
                )?;
            }
        }
        Ok(())
    }
}
