//! Background work, and the end and the new beginning of the process: closing, killing, power loss,
//! failures.

use frond_engine::{Engine, Error};

use super::{fail, note, Check, Failure, Sim};
use crate::machine::disk::Disk;
use crate::machine::faults::Faults;
use crate::machine::points::Phase;
use crate::machine::SimVfs;
use crate::world::Profile;

impl Sim {
    /// Opens the database on the machine as it is and fits the model to what was recovered.
    ///
    /// What was only written survives the process, but not a power loss during recovery: captures
    /// taken meanwhile are held to `durable` alone.
    pub(super) fn start(&mut self, phase: Phase) -> Check {
        self.tell_bounds();
        let before = self.vfs.set_phase(phase);
        let opened = self.open();
        self.vfs.set_phase(before);
        let engine = opened?;
        let (lower, upper) = (self.durable.max(self.written), self.model.now());
        let n = self.matched(&engine, lower, upper)?;
        note!(self, "  open: state {n} of {lower}..={upper}");
        if n < upper {
            self.stats.event("recovered without the last commits");
        }
        self.model.recovered(n);
        self.durability = self.world.options.durability;
        self.engine = Some(engine);
        // Recovery makes durable what it hands out.
        self.all_durable();
        self.prepared_found()?;
        self.choose_faults();
        Ok(())
    }

    /// Faults may meet recovery as well; then it is tried again without.
    fn open(&mut self) -> Check<Engine> {
        let log = self.log.clone();
        let hear: frond_engine::Log = std::sync::Arc::new(move |_, line: &str| {
            let mut log = log.lock();
            if log.len() < 1000 {
                log.push(line.to_owned());
            }
        });
        let vfs = self.vfs.handle();
        match Engine::open_with_log(vfs, self.world.options.clone(), hear.clone()) {
            Ok(engine) => {
                if self.vfs.faults().space.is_some() {
                    self.stats.event("opened on a full disk");
                }
                return Ok(engine);
            }
            Err(e) if self.excused(&e) => {
                note!(self, "  open failed: {e:?}");
                self.stats.event("recovery failed by a fault");
            }
            Err(e) => return fail(format!("open: {e:?}")),
        }
        let disk = self.vfs.kill();
        self.replace_machine(disk, Faults::default());
        self.vfs.set_phase(Phase::Recover);
        Engine::open_with_log(self.vfs.handle(), self.world.options.clone(), hear)
            .map_err(|e| Failure(format!("open after a failed open: {e:?}")))
    }

    /// The next machine, with `disk`.
    pub(super) fn replace_machine(&mut self, disk: Disk, faults: Faults) {
        self.trace_hash = crate::rng::mix(self.trace_hash, self.vfs.trace_hash());
        let points = self.vfs.take_points();
        self.stats.points.add(&points);
        let next = SimVfs::new(disk, self.rng.next());
        next.set_canary(self.canary);
        next.set_policy(self.world.policy);
        next.set_faults(faults);
        if self.trace.is_some() {
            let lines = self.vfs.take_trace();
            self.trace.get_or_insert_default().extend(lines);
            next.keep_trace();
        }
        self.vfs = next;
        self.tell_bounds();
    }

    /// What fails from now on. A full disk comes and goes.
    pub(super) fn choose_faults(&mut self) {
        let mut faults = self.world.faults;
        if self.world.profile == Profile::Space && self.rng.percent(70) {
            faults.space = Some(self.vfs.pages_used() + self.rng.range(0, 120));
        }
        self.vfs.set_faults(faults);
    }

    /// A call failed with an excuse. When the engine is poisoned the process ends.
    pub(super) fn after_failure(&mut self, e: &Error) -> Check {
        note!(self, "  failed: {e:?}");
        self.stats.failed_calls += 1;
        if e.kind() == frond_engine::ErrorKind::NoSpace {
            return self.disk_full();
        }
        if self.engine().is_poisoned() {
            return self.restart_after_failure();
        }
        self.sync()
    }

    /// Nothing may be lost; reads go on; and with space again, writing does.
    fn disk_full(&mut self) -> Check {
        self.stats.full_disks += 1;
        self.stats.event("disk full");
        self.compare()?;
        if self.rng.percent(50) {
            // Let more calls meet the full disk first.
            return Ok(());
        }
        let mut faults = self.vfs.faults();
        faults.space = None;
        self.vfs.set_faults(faults);
        while !self.txns.is_empty() {
            self.end(0);
        }
        for _ in 0..200 {
            self.vfs.advance(std::time::Duration::from_secs(1));
            self.engine().background_step();
        }
        let Some(table) = self.some_table() else { return self.create_after_full() };
        let handle = self.handle(table)?;
        let Some(handle) = handle else { return fail("no handle without faults") };
        let value = self.value();
        let mut txn = self.engine().begin(Default::default());
        let put = txn.put(&handle, b"after the full disk", &value, false);
        put.map_err(|e| Failure(format!("put after the disk was full: {e:?}")))?;
        let writes = [((table, b"after the full disk".to_vec()), Some(value))].into();
        self.model.commit(&writes);
        self.tell_bounds();
        let done = txn.commit();
        done.map_err(|e| Failure(format!("commit after the disk was full: {e:?}")))?;
        self.stats.event("writing went on after a full disk");
        if self.durability == frond_engine::Durability::Sync {
            self.all_durable();
        }
        self.choose_faults();
        Ok(())
    }

    fn create_after_full(&mut self) -> Check {
        self.create_table()
    }

    /// The engine is poisoned, or an outcome unknown: only recovery helps.
    pub(super) fn restart_after_failure(&mut self) -> Check {
        self.stats.event("restart after a failure");
        if self.rng.percent(50) {
            self.kill_process()
        } else {
            self.power_loss()
        }
    }

    pub(super) fn background(&mut self) -> Check {
        let before = self.vfs.set_phase(Phase::Background);
        for _ in 0..self.rng.range(1, 6) {
            self.note_plans();
            self.engine().background_step();
        }
        self.vfs.set_phase(before);
        self.stop_if_poisoned()
    }

    /// Background work has no caller to tell: a poisoned engine shows at the next write.
    fn stop_if_poisoned(&mut self) -> Check {
        if self.vfs.faults().harmless() {
            return Ok(());
        }
        let engine = self.engine();
        if engine.is_poisoned() {
            return self.restart_after_failure();
        }
        Ok(())
    }

    fn note_plans(&mut self) {
        for handle in self.handles.values() {
            for tree in handle.trees().iter() {
                if let Some(plan) = tree.plan() {
                    self.stats.event(&format!("job: {:?}", plan.kind));
                }
                let stats = tree.stats();
                if stats.leaves > 1 {
                    self.stats.event("tree with several leaves");
                }
                if stats.height > 2 {
                    self.stats.event("tree of three levels");
                }
            }
        }
    }

    pub(super) fn flush_all(&mut self) -> Check {
        let before = self.vfs.set_phase(Phase::FlushAll);
        let got = self.engine().flush_all();
        self.vfs.set_phase(before);
        match got {
            Ok(()) => self.stats.event("flush_all"),
            Err(e) if self.excused(&e) => return self.after_failure(&e),
            Err(e) => return fail(format!("flush_all: {e:?}")),
        }
        self.stop_if_poisoned()
    }

    /// Takes steps of a backup: the log is shortened, for some rounds or to the end; a pin is taken and given up.
    pub(super) fn backup(&mut self) -> Check {
        let rounds = self.rng.range(0, 30);
        let before = self.vfs.set_phase(Phase::FlushAll);
        let engine = self.engine();
        let taken = engine.backup_begin().and_then(|id| {
            let begun =
                (0..rounds).try_fold(true, |more, _| Ok(more && engine.backup_shorten(id)?));
            let marked = begun.and_then(|more| Ok((engine.backup_mark()?, more)));
            engine.backup_proven(true);
            engine.backup_abandon(id);
            marked
        });
        self.vfs.set_phase(before);
        match taken {
            Ok((marked, more)) => {
                assert!(marked, "nothing was pinned");
                self.stats.event(if more { "backup's log cut off" } else { "backup" });
            }
            Err(e) if self.excused(&e) => return self.after_failure(&e),
            Err(e) => return fail(format!("backup: {e:?}")),
        }
        self.stop_if_poisoned()
    }

    pub(super) fn sync(&mut self) -> Check {
        let before = self.vfs.set_phase(Phase::Sync);
        let got = self.engine().sync();
        self.vfs.set_phase(before);
        match got {
            Ok(()) => {
                self.all_durable();
                Ok(())
            }
            Err(e) if self.excused(&e) => self.restart_after_failure(),
            Err(e) => fail(format!("sync: {e:?}")),
        }
    }

    /// Forgets transactions, handles and engine without asking anything of the machine.
    pub(super) fn abandon(&mut self) {
        self.note_engine();
        self.vfs.kill();
        self.txns.clear();
        self.handles_of_prepared.clear();
        self.locks.clear();
        self.handles.clear();
        self.engine = None;
        self.older = None;
    }

    /// Figures of the engine that become events.
    fn note_engine(&mut self) {
        let Some(engine) = &self.engine else { return };
        for (name, value) in engine.status() {
            let counted =
                ["freezes", "jobs", "images", "job_failures", "spills", "spilled_commits"];
            if value > 0 && counted.contains(&name) {
                let name = format!("engine: {name}");
                *self.stats.events.entry(name).or_default() += value;
            }
        }
        for line in std::mem::take(&mut *self.log.lock()) {
            if line.contains("older checkpoint") {
                self.stats.event("recovery used the older header");
            }
            if let Some(lines) = &mut self.trace {
                lines.push(format!("  engine: {line}"));
            }
        }
    }

    /// A clean end and a new start.
    pub(super) fn reopen(&mut self) -> Check {
        self.stats.restarts += 1;
        self.note_engine();
        while !self.txns.is_empty() {
            self.end(0);
        }
        self.handles_of_prepared.clear();
        self.locks.clear();
        self.handles.clear();
        let before = self.vfs.set_phase(Phase::Close);
        let closed = self.engine().close();
        self.engine = None;
        self.vfs.set_phase(before);
        let disk = self.vfs.kill();
        match closed {
            Ok(()) => self.all_durable(),
            Err(e) if self.excused(&e) => {}
            Err(e) => return fail(format!("close: {e:?}")),
        }
        note!(self, "  closed");
        self.settle_captures()?;
        if self.rotten() {
            self.rot(&disk, true)?;
        }
        let faults = self.vfs.faults();
        self.replace_machine(disk, faults);
        self.start(Phase::Recover)
    }

    pub(super) fn kill(&mut self) -> Check {
        self.kill_process()
    }

    /// The process ends without a word; the machine goes on.
    fn kill_process(&mut self) -> Check {
        self.stats.restarts += 1;
        note!(self, "  killed");
        let disk = self.vfs.kill();
        self.abandon();
        let faults = self.faults_at_start(&disk);
        self.replace_machine(disk, faults);
        self.start(Phase::Recover)
    }

    pub(super) fn power_loss(&mut self) -> Check {
        self.stats.restarts += 1;
        note!(self, "  power loss");
        let disk = self.vfs.kill();
        self.abandon();
        let disk = disk.after_power_loss(&mut self.rng);
        let faults = self.faults_at_start(&disk);
        self.replace_machine(disk, faults);
        self.written = self.durable;
        self.start(Phase::Recover)
    }

    /// A full disk may be full still, or nearly so.
    fn faults_at_start(&mut self, disk: &Disk) -> Faults {
        let mut faults = if self.rng.percent(50) { self.world.faults } else { Faults::default() };
        faults.space = None;
        if self.world.profile == Profile::Space && self.rng.percent(50) {
            faults.space = Some(disk.pages_used() + self.rng.range(0, 4));
        }
        faults
    }

    /// The end of a run: everything is compared, then closed, opened and compared again.
    pub(super) fn finish(&mut self) -> Check {
        self.vfs.set_faults(Faults { space: None, ..self.world.faults });
        self.end_all_prepared()?;
        self.reopen()?;
        self.vfs.set_faults(Faults::default());
        self.end_all_prepared()?;
        let outcome = self.engine().check_all(&mut |_| ());
        if !outcome.is_clean() {
            return fail(format!("check at the end: {:?}", outcome.problems));
        }
        self.compare()
    }
}
