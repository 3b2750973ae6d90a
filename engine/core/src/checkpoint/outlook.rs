//! What recovery would take if it had to begin now, and which changes are too old for the target (`recovery_time.rs`).

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use frond_base::Lsn;

use crate::checkpoint::holders::Holder;
use crate::checkpoint::recovery_time::{Ages, Mark, Outlook};
use crate::commit::core::Core;

impl Core {
    /// How much was logged up to now.
    pub(crate) fn logged(&self) -> Mark {
        let counters = &self.counters;
        let records = counters.commits.load(Relaxed);
        // Spilled entries are in runs, not in the log. Each is counted as spilled before it is counted as committed,
        // so the spilled ones are read last: rather too few entries than too many (RTM1).
        let committed = counters.entries_committed.load(Acquire);
        let entries = committed.saturating_sub(counters.entries_spilled.load(Relaxed));
        // The end is read last (RTM1).
        self.target.mark_at(self.shared.wal.end(), records, entries)
    }

    /// What recovery would take. Looks at each open table.
    pub(crate) fn outlook(&self) -> Outlook {
        let now = self.logged();
        let (oldest, tables) = self.needed();
        self.target.outlook(self.shared.wal.kept_from(), oldest.unwrap_or(now.lsn), &now, tables)
    }

    /// Which changes are too old for the target. `None`: none is. The log thread has marked where the log is.
    pub(crate) fn too_old(&self) -> Option<Ages> {
        let now = self.logged();
        let kept = self.shared.wal.kept_from();
        self.target.forget_before(kept);
        // An upper bound from all of the log, without a look at the tables: usually enough.
        let most = self.target.outlook(kept, kept, &now, self.tables.read().len() as u64);
        if !self.target.is_near(&most) {
            self.target.press(&most);
            return None;
        }
        let began = self.shared.vfs.now();
        let (oldest, tables) = self.needed();
        self.upkeep.needs.worked(began, self.shared.vfs.now());
        let oldest = oldest.unwrap_or(now.lsn);
        self.target.press(&self.target.outlook(kept, oldest, &now, tables));
        let ages = self.target.ages(&now, tables, oldest.saturating_sub(kept));
        (oldest < ages.youngest()).then_some(ages)
    }

    /// The oldest record with changes that are not in runs yet, and the number of tables that need
    /// log.
    fn needed(&self) -> (Option<Lsn>, u64) {
        let oldest = self.clock.holds_log_from();
        let tables = self.tables.read();
        let needs = tables.values().filter_map(Holder::holds_log_from);
        needs.fold((oldest, 0), |(oldest, n), lsn| {
            (Some(oldest.map_or(lsn, |o: Lsn| o.min(lsn))), n + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_vfs::MemVfs;

    use crate::catalog::ddl::TableSpec;
    use crate::commit::transaction::TxnOptions;
    use crate::engine::Engine;
    use crate::options::Options;
    use crate::table::Table;

    const TARGET: u64 = 1;
    /// As if this machine needed 20 us for an entry.
    const SLOWNESS: u64 = 100_000;

    fn open(vfs: &MemVfs, recovery_target: u64) -> Engine {
        let options = Options {
            cache_bytes: 128 << 20,
            log_segment_bytes: 256 << 10,
            log_capacity_bytes: 1 << 30,
            background_threads: 0,
            recovery_target,
            ..Options::default()
        };
        Engine::open(Arc::new(vfs.clone()), options).unwrap()
    }

    fn create(engine: &Engine, name: &str) -> Arc<Table> {
        let spec = TableSpec::plain(name);
        engine.create_table(spec).unwrap()
    }

    fn write(engine: &Engine, table: &Arc<Table>, noise: &mut u64, rows: u64) {
        let mut txn = engine.begin(TxnOptions::default());
        for _ in 0..rows {
            let mut value = [0; 96];
            for b in value.chunks_mut(8) {
                *noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b.copy_from_slice(&noise.to_be_bytes());
            }
            txn.put(table, &noise.to_be_bytes(), &value, false).unwrap();
        }
        txn.commit().unwrap();
    }

    /// The longest that recovery would have taken, in seconds, while 100 000 rows go to four tables and one is quiet;
    /// and the freezes.
    fn load(engine: &Engine) -> (f64, u64) {
        let quiet = create(engine, "quiet");
        let tables: Vec<Arc<Table>> = (0..4).map(|n| create(engine, &format!("t{n}"))).collect();
        let (mut noise, mut longest) = (1, 0.0f64);
        write(engine, &quiet, &mut noise, 1);
        for n in 0..500 {
            write(engine, &tables[n % 4], &mut noise, 200);
            while engine.background_step() {}
            longest = longest.max(engine.core().outlook().time.as_secs_f64());
        }
        (longest, engine.status().iter().find(|(n, _)| *n == "freezes").unwrap().1)
    }

    #[test]
    fn the_log_is_kept_as_short_as_the_target_asks() {
        let vfs = MemVfs::stepped();
        let engine = open(&vfs, TARGET);
        engine.core().target.set_slowness(Some(SLOWNESS));
        let (longest, freezes) = load(&engine);
        assert!((0.5..1.0).contains(&longest), "{longest} s");
        // The longest age is 0.75 s, some 35 000 rows: each table is frozen a few times.
        assert!((15..60).contains(&freezes), "{freezes} freezes");
        assert!(engine.core().target.used() < 1.0);
        engine.sync().unwrap();
        drop(engine);
        // The speed is known again, from the newest trim of the log.
        let engine = open(&vfs, TARGET);
        assert_eq!(engine.core().target.slowness(), Some(SLOWNESS));

        let free = open(&MemVfs::stepped(), 0);
        free.core().target.set_slowness(Some(SLOWNESS));
        let (longest, freezes) = load(&free);
        assert!(longest > 3.0 && freezes < 10, "{longest} s, {freezes} freezes");
    }
}
