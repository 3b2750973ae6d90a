//! Crash images: recovered one by one and held against the oracles.

use frond_engine::{Durability, Engine, TxnOptions};

use super::checked_reads::{dump, verify_counts};
use super::{fail, note, Check, Failure, Sim};
use crate::machine::disk::Disk;
use crate::machine::points::Phase;
use crate::machine::{Capture, CapturePolicy, SimVfs};
use crate::model::{show, Dump};
use crate::rng::Rng;

/// Crashes within recoveries of crashes go at most this deep.
const DEPTH: u32 = 3;

/// What a crash image must recover to.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    lower: u64,
    upper: u64,
    depth: u32,
}

impl Sim {
    /// Recovers images of what was captured since the last step.
    pub(super) fn settle_captures(&mut self) -> Check {
        for capture in self.vfs.take_captures() {
            for _ in 0..self.world.images_per_capture {
                let mut rng = self.rng.fork(3);
                self.crash(&capture, &mut rng)?;
            }
        }
        self.forget();
        Ok(())
    }

    fn crash(&mut self, capture: &Capture, rng: &mut Rng) -> Check {
        let (lower, upper) = capture.bounds;
        let wanted = Wanted { lower, upper, depth: 0 };
        let lost_power = !rng.percent(10);
        let disk =
            if lost_power { capture.disk.after_power_loss(rng) } else { capture.disk.snapshot() };
        note!(
            self,
            "  image at call {} ({}), states {lower}..={upper}",
            capture.call,
            capture.point
        );
        note!(self, "  power lost: {lost_power}, files: {:?}", disk.names());
        if self.rotten() {
            return self.rot_crash(&disk, wanted.upper, rng);
        }
        self.recover(disk, wanted, lost_power, rng).map_err(|Failure(what)| {
            Failure(format!(
                "crash at call {} ({}), power lost: {lost_power}: {what}",
                capture.call, capture.point
            ))
        })
    }

    /// Recovers one image, and images of its recovery.
    fn recover(&mut self, disk: Disk, wanted: Wanted, lost_power: bool, rng: &mut Rng) -> Check {
        crate::watch::operation();
        let machine = self.image_machine(disk, wanted, rng);
        let opened = Engine::open(machine.handle(), self.world.options.clone());
        self.stats.images += 1;
        let engine = match opened {
            Ok(engine) => engine,
            Err(e) => return fail(format!("recovery: {e:?}")),
        };
        machine.set_policy(CapturePolicy::default());
        let n = self.matched(&engine, wanted.lower, wanted.upper)?;
        self.trace_hash = crate::rng::mix(self.trace_hash, machine.trace_hash());
        let points = machine.take_points();
        self.stats.points.add(&points);
        // O5: what crashes during recovery leave must come out the same. When the machine lost no
        // power before, the tail of the log may still go.
        let lower = if lost_power { n } else { wanted.lower };
        for capture in machine.take_captures() {
            let wanted = Wanted { lower, upper: n, depth: wanted.depth + 1 };
            let disk = capture.disk.after_power_loss(rng);
            self.stats.nested_images += 1;
            self.recover(disk, wanted, true, rng).map_err(|Failure(what)| {
                Failure(format!(
                    "crash in recovery at call {} ({}): {what}",
                    capture.call, capture.point
                ))
            })?;
        }
        match rng.below(10) {
            0..=2 => self.work_on(engine, &machine, n, rng),
            3..=5 => {
                drop_dead(engine, &machine);
                let again = self.image_machine(machine.kill().after_power_loss(rng), wanted, rng);
                again.set_policy(CapturePolicy::default());
                self.reopened(&again, n)
            }
            _ => {
                drop_dead(engine, &machine);
                Ok(())
            }
        }
    }

    fn image_machine(&mut self, disk: Disk, wanted: Wanted, rng: &mut Rng) -> SimVfs {
        let machine = SimVfs::new(disk, rng.next());
        machine.set_canary(self.canary);
        machine.set_bounds(wanted.lower, wanted.upper);
        machine.set_phase(Phase::Recover);
        if wanted.depth < DEPTH {
            let at = [60_000, 15_000, 5_000][wanted.depth as usize];
            machine.set_policy(CapturePolicy { at_sync: at, at_other: at, at_new: at, most: 2 });
        }
        machine
    }

    /// Recovers once more and expects exactly state `n`.
    fn reopened(&mut self, machine: &SimVfs, n: u64) -> Check {
        let again = Engine::open(machine.handle(), self.world.options.clone())
            .map_err(|e| Failure(format!("second recovery: {e:?}")))?;
        self.stats.images += 1;
        let done = self.matched(&again, n, n).map(drop);
        drop_dead(again, machine);
        done.map_err(|Failure(what)| Failure(format!("second recovery: {what}")))
    }

    /// O6: writes, flushes and crashes once more.
    fn work_on(&mut self, engine: Engine, machine: &SimVfs, n: u64, rng: &mut Rng) -> Check {
        let broken = |what: &str| {
            let what = what.to_owned();
            move |e: frond_engine::Error| Failure(format!("{what} after recovery: {e:?}"))
        };
        machine.set_phase(Phase::Other);
        engine.set_durability(Durability::Sync);
        let mut state = self.model.state(n).clone();
        super::prepared::end_on_image(&engine, &mut state, rng)?;
        if let Some((&no, _)) = state.tables.iter().nth(rng.index(state.tables.len().max(1))) {
            let name = state.tables[&no].name.clone();
            let table = engine.open_table(&name).map_err(broken("open table"))?;
            let mut txn = engine.begin(TxnOptions::default());
            let rows = std::sync::Arc::make_mut(
                &mut state.tables.get_mut(&no).unwrap_or_else(|| unreachable!("just found")).rows,
            );
            for _ in 0..rng.range(1, 60) {
                let key = self.key(rng.below(self.world.keys));
                if rng.percent(30) {
                    txn.delete(&table, &key).map_err(broken("delete"))?;
                    rows.delete(&key);
                } else {
                    let value: Vec<u8> = rng.next().to_le_bytes().repeat(rng.range(0, 20) as usize);
                    txn.put(&table, &key, &value, false).map_err(broken("put"))?;
                    rows.put(&key, value.into());
                }
            }
            txn.commit().map_err(broken("commit"))?;
        }
        for _ in 0..rng.below(4) {
            engine.background_step();
        }
        if rng.percent(50) {
            engine.flush_all().map_err(broken("flush_all"))?;
        }
        let found = dump(&engine).map_err(broken("reading"))?;
        same(&found, &state, "after work on a recovered image")?;
        drop_dead(engine, machine);
        let machine = SimVfs::new(machine.kill().after_power_loss(rng), rng.next());
        machine.set_canary(self.canary);
        machine.set_phase(Phase::Recover);
        let engine = Engine::open(machine.handle(), self.world.options.clone())
            .map_err(broken("recovery of work done"))?;
        self.stats.images += 1;
        let found = dump(&engine).map_err(broken("reading"))?;
        same(&found, &state, "after work on a recovered image and another crash")?;
        verify_counts(&engine, &found)?;
        drop_dead(engine, &machine);
        Ok(())
    }

    /// O1 to O4: the state that was recovered.
    pub(super) fn matched(&mut self, engine: &Engine, lower: u64, upper: u64) -> Check<u64> {
        let faults = self.vfs.faults();
        self.vfs.set_faults(Default::default());
        let found = self.matched_without_faults(engine, lower, upper);
        self.vfs.set_faults(faults);
        found
    }

    fn matched_without_faults(&mut self, engine: &Engine, lower: u64, upper: u64) -> Check<u64> {
        let outcome = engine.check_all(&mut |_| ());
        if !outcome.is_clean() {
            return fail(format!("O4: check after recovery: {:?}", outcome.problems));
        }
        let found = dump(engine).map_err(|e| Failure(format!("reading after recovery: {e:?}")))?;
        let Some(n) = self.model.find(found.fingerprint(), lower, upper) else {
            let (n, differences) = self.model.nearest(&found, lower, upper);
            let earlier = self.model.find(found.fingerprint(), 0, lower);
            return fail(format!(
                "O1: recovered no state from {lower} to {upper} (nor O2, O3); an earlier one: {earlier:?}; \
                 nearest is {n}: {} differences: {:?}",
                differences.len(),
                &differences[..differences.len().min(6)]
            ));
        };
        verify_counts(engine, &found)?;
        self.point_reads(engine, &found)?;
        Ok(n)
    }

    /// Point reads go another way than cursors: through filters and fences.
    fn point_reads(&mut self, engine: &Engine, found: &Dump) -> Check {
        let mut txn = engine.begin(TxnOptions::default());
        for (name, rows) in &found.tables {
            let table = engine
                .open_table(name)
                .map_err(|e| Failure(format!("open table '{name}': {e:?}")))?;
            for _ in 0..8 {
                let key = self.some_key();
                let mut value = Vec::new();
                let present = txn
                    .get(&table, 0, &key, &mut value)
                    .map_err(|e| Failure(format!("get {}: {e:?}", show(&key))))?;
                if present.then_some(&value) != rows.get(&key) {
                    return fail(format!(
                        "get {} in '{name}' gives {present}, a cursor says otherwise",
                        show(&key)
                    ));
                }
            }
        }
        Ok(())
    }
}

fn same(found: &Dump, state: &crate::model::State, when: &str) -> Check {
    if found.fingerprint() == state.fingerprint() {
        return Ok(());
    }
    let differences = found.differences(state);
    fail(format!("{when}: {:?}", &differences[..differences.len().min(6)]))
}

/// The process of that engine was killed: dropping it reaches nothing.
fn drop_dead(engine: Engine, machine: &SimVfs) {
    machine.kill();
    drop(engine);
}
