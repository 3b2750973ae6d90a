//! One run: a seeded workload on a simulated machine, compared with the model at every step, and
//! crashed again and again.
//!
//! The oracles (docs/fault-model.md gives the promise behind each):
//!
//! - O1. What was acknowledged as durable is there.
//! - O2. Transactions are atomic.
//! - O3. What survived is a
//!   prefix of the commit order: one comparison, see `model`.
//! - O4. The engine's own check is clean and its row counts are right.
//! - O5. Recovering again gives the same, also after crashes inside recovery.
//! - O6. The recovered database goes on working and matches the model.
//! - O7. Every call ends (`watch` checks that the run makes progress).
//! - O8. The same seed gives the same calls in the same order.
//! - O9. After damage at rest: the right answer or `Corruption`.
//!
//! Every read is checked too: point reads, locked reads, scans and cursors held open see exactly the
//! state of their snapshot with the transaction's own writes; conflicts and lock refusals happen
//! exactly when the model says so.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use frond_engine::{
    Cursor, Durability, Engine, Isolation, LooseLock, PreparedTransaction, RowMode, Table,
    Transaction,
};

use crate::machine::disk::Disk;
use crate::machine::faults::Canary;
use crate::machine::points::{Phase, Points};
use crate::machine::SimVfs;
use crate::model::{Key, Model, TableNo, Writes};
use crate::rng::{mix, Rng};
use crate::world::{Op, Profile, World, OPS};

mod checked_reads;
mod definitions;
mod life;
mod prepared;
mod rot;
mod segment;
mod transactions;
mod verify;

/// What went wrong: the oracle's words.
#[derive(Clone, Debug)]
pub struct Failure(pub String);

pub type Check<T = ()> = Result<T, Failure>;

pub(crate) fn fail<T>(what: impl Into<String>) -> Check<T> {
    Err(Failure(what.into()))
}

/// Counts of one run, or of many.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub images: u64,
    pub nested_images: u64,
    pub rotten_images: u64,
    pub rot_detected: u64,
    pub commits: u64,
    pub reads: u64,
    pub conflicts: u64,
    pub lock_refusals: u64,
    pub restarts: u64,
    pub failed_calls: u64,
    pub full_disks: u64,
    /// Named things that must happen somewhere in a session of many runs.
    pub events: BTreeMap<String, u64>,
    pub points: Points,
}

impl Stats {
    pub fn add(&mut self, other: &Stats) {
        self.images += other.images;
        self.nested_images += other.nested_images;
        self.rotten_images += other.rotten_images;
        self.rot_detected += other.rot_detected;
        self.commits += other.commits;
        self.reads += other.reads;
        self.conflicts += other.conflicts;
        self.lock_refusals += other.lock_refusals;
        self.restarts += other.restarts;
        self.failed_calls += other.failed_calls;
        self.full_disks += other.full_disks;
        for (name, n) in &other.events {
            *self.events.entry(name.clone()).or_default() += n;
        }
        self.points.add(&other.points);
    }

    pub(crate) fn event(&mut self, name: &str) {
        match self.events.get_mut(name) {
            Some(n) => *n += 1,
            None => drop(self.events.insert(name.to_owned(), 1)),
        }
    }
}

/// How a run ended.
pub struct Outcome {
    pub failure: Option<Failure>,
    pub stats: Stats,
    pub trace_hash: u64,
    /// Readable lines, when asked for.
    pub trace: Vec<String>,
}

/// A running transaction and what the model knows of it.
pub(crate) struct Txn {
    real: Transaction,
    isolation: Isolation,
    /// The state it reads.
    snapshot: Option<u64>,
    writes: Writes,
    savepoints: Vec<(u64, Writes)>,
    cursor: Option<Held>,
    used: BTreeSet<TableNo>,
    /// Locks that may be given back, and whether their row was asked for again.
    loose: Vec<Loose>,
}

/// A prepared transaction with a handle.
pub(crate) struct Handle {
    name: u64,
    real: PreparedTransaction,
}

/// See [`Txn`].
pub(crate) struct Loose {
    lock: LooseLock,
    table: TableNo,
    key: Key,
    again: bool,
}

/// A cursor kept open between steps.
pub(crate) struct Held {
    cursor: Cursor,
    table: TableNo,
    key: Key,
    at: u64,
}

/// The session that holds a row lock.
#[derive(Default)]
pub(crate) struct Holders {
    shared: BTreeSet<u64>,
    exclusive: Option<u64>,
}

impl Holders {
    fn add(&mut self, who: u64, mode: RowMode) {
        match mode {
            RowMode::S => drop(self.shared.insert(who)),
            RowMode::X => self.exclusive = Some(who),
        }
    }

    /// Whether `who` gets `mode` now.
    fn grants(&self, who: u64, mode: RowMode) -> bool {
        let other = |id: &u64| *id != who;
        let taken = self.exclusive.as_ref().is_some_and(other);
        match mode {
            RowMode::S => !taken,
            RowMode::X => !taken && !self.shared.iter().any(other),
        }
    }
}

/// See the module.
pub struct Sim {
    pub(crate) world: World,
    rng: Rng,
    vfs: SimVfs,
    engine: Option<Engine>,
    model: Model,
    /// Every commit up to this one is durable.
    durable: u64,
    /// Every commit up to this one outlives the process.
    written: u64,
    durability: Durability,
    handles: BTreeMap<TableNo, Arc<Table>>,
    txns: Vec<Txn>,
    handles_of_prepared: Vec<Handle>,
    locks: HashMap<(TableNo, Key), Holders>,
    values: u64,
    names: u64,
    stats: Stats,
    trace: Option<Vec<String>>,
    trace_hash: u64,
    canary: Option<Canary>,
    /// The files at an earlier close, no crash since: damage at rest puts some of them back.
    older: Option<Disk>,
    pub(crate) log: Arc<parking_lot::Mutex<Vec<String>>>,
}

/// Adds a line to the trace when there is one.
macro_rules! note {
    ($sim:expr, $($arg:tt)*) => {
        if let Some(lines) = &mut $sim.trace {
            lines.extend($sim.vfs.take_trace());
            lines.push(format!($($arg)*));
        }
    };
}
pub(crate) use note;

/// Runs `world` to its end.
pub fn run(world: World, canary: Option<Canary>, trace: bool) -> Outcome {
    let mut rng = Rng::new(world.seed ^ 0x51);
    let vfs = SimVfs::new(Disk::default(), rng.next());
    let durability = world.options.durability;
    let mut sim = Sim {
        world,
        rng,
        vfs,
        engine: None,
        model: Model::default(),
        durable: 0,
        written: 0,
        durability,
        handles: BTreeMap::new(),
        txns: Vec::new(),
        handles_of_prepared: Vec::new(),
        locks: HashMap::new(),
        values: 0,
        names: 0,
        stats: Stats::default(),
        trace: trace.then(Vec::new),
        trace_hash: 0,
        canary,
        older: None,
        log: Arc::default(),
    };
    let failure = sim.go().err();
    sim.abandon();
    sim.trace_hash = mix(sim.trace_hash, sim.vfs.trace_hash());
    let points = sim.vfs.take_points();
    sim.stats.points.add(&points);
    note!(sim, "end: {failure:?}");
    Outcome {
        failure,
        stats: sim.stats,
        trace_hash: sim.trace_hash,
        trace: sim.trace.unwrap_or_default(),
    }
}

impl Sim {
    fn go(&mut self) -> Check {
        note!(self, "{:?}", self.world);
        if self.trace.is_some() {
            self.vfs.keep_trace();
        }
        self.vfs.set_policy(self.world.policy);
        self.vfs.set_canary(self.canary);
        self.start(Phase::Create)?;
        for _ in 0..self.world.tables {
            self.create_table()?;
        }
        for step in 0..self.world.steps {
            let op = OPS[self.rng.weighted(&self.world.weights.clone())].0;
            note!(
                self,
                "step {step}: {op:?} (state {}, durable {})",
                self.model.now(),
                self.durable
            );
            self.step(op)?;
            self.settle_captures()?;
            if self.stats.images + self.stats.rotten_images >= self.world.images {
                break;
            }
        }
        self.finish()
    }

    fn step(&mut self, op: Op) -> Check {
        crate::watch::operation();
        if self.world.seldom {
            self.fill_segment(op)?;
        }
        match op {
            Op::Begin => self.begin(),
            Op::Put => self.put(),
            Op::Delete => self.delete(),
            Op::Get => self.get(),
            Op::GetLocked => self.get_locked(),
            Op::Scan => self.scan(),
            Op::CursorStep => self.cursor_step(),
            Op::Savepoint => self.savepoint(),
            Op::RollbackTo => self.rollback_to(),
            Op::Commit => self.commit_some(),
            Op::Rollback => self.rollback(),
            Op::Prepare => self.prepare(),
            Op::EndPrepared => self.end_some_prepared(),
            Op::Bulk => self.bulk(),
            Op::Background => self.background(),
            Op::FlushAll => self.flush_all(),
            Op::Backup => self.backup(),
            Op::Sync => self.sync(),
            Op::Create => self.create_table(),
            Op::Drop => self.drop_table(),
            Op::Rename => self.rename_table(),
            Op::Truncate => self.truncate_table(),
            Op::Optimize => self.optimize(),
            Op::Advance => {
                self.vfs.advance(std::time::Duration::from_millis(self.rng.range(1, 3000)));
                Ok(())
            }
            Op::Compare => self.compare(),
            Op::Reopen => self.reopen(),
            Op::Kill => self.kill(),
            Op::PowerLoss => self.power_loss(),
        }
    }

    /// The engine; it is there between steps.
    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap_or_else(|| unreachable!("open between steps"))
    }

    /// Captures taken from now on may hold anything between what is durable and what is begun.
    fn tell_bounds(&self) {
        self.vfs.set_bounds(self.durable, self.model.now());
    }

    /// The newest state that was promised for sure is now.
    fn all_durable(&mut self) {
        self.durable = self.model.now();
        self.written = self.durable;
        self.tell_bounds();
    }

    /// Only when no capture waits: they ask for older states.
    fn forget(&mut self) {
        let oldest = self.txns.iter().filter_map(|t| t.snapshot).min().unwrap_or(u64::MAX);
        self.model.forget_below(self.durable.min(oldest));
    }

    /// Whether an error of that kind is the machine's doing.
    fn excused(&self, e: &frond_engine::Error) -> bool {
        use frond_engine::ErrorKind::{Io, NoSpace, Poisoned};
        let faults = self.vfs.faults();
        match e.kind() {
            Io | Poisoned => !faults.harmless(),
            NoSpace => faults.space.is_some(),
            _ => false,
        }
    }

    fn rotten(&self) -> bool {
        self.world.profile == Profile::Rot
    }
}
