//! The table of classes that all threads of a run add to.
//!
//! Each thread gathers events in a `Batch`, and adds a full batch to the shards one after the other. A class is in
//! one shard only, so its memory does not depend on the number of threads. One table per thread was rejected: with two
//! threads it took nearly twice the memory, and merging took more than a tenth of the run.
//!
//! Invariants:
//!
//! - SHR1. The hash of a class determines its shard.
//! - SHR2. Numbers of names mean the same in all shards.
//! - SHR3. A thread holds at most one lock at a time.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::batch::Batch;
use super::breakdowns::Breakdowns;
use super::class::Best;
use super::names::{NameId, Names};
use super::spill::Spill;
use super::top::Room;
use super::waiting::{Groups, Patterns};
use super::Table;

/// See the module's text.
pub struct Shared {
    shards: Box<[Mutex<Table>]>,
    names: Mutex<Names>,
    breakdowns: Mutex<Breakdowns>,
    groups: Mutex<Groups>,
    spill: Arc<Spill>,
    room: Arc<Room>,
    max_classes: usize,
    sample_limit: usize,
}

impl Shared {
    /// A table for this many threads.
    pub fn new(
        threads: usize,
        max_classes: usize,
        sample_limit: usize,
        users: &Patterns,
    ) -> Shared {
        // Enough shards that threads rarely wait for each other; one thread needs only one.
        let shards = if threads <= 1 { 1 } else { (4 * threads).next_power_of_two() };
        let (spill, room) = (Arc::new(Spill::default()), Arc::new(Room::default()));
        let table =
            || Table::part(max_classes, sample_limit, shards, (spill.clone(), room.clone()));
        Shared {
            shards: (0..shards).map(|_| Mutex::new(table())).collect(),
            names: Mutex::default(),
            breakdowns: Mutex::default(),
            groups: Mutex::new(Groups::new(users)),
            spill: spill.clone(),
            room: room.clone(),
            max_classes,
            sample_limit,
        }
    }

    #[inline]
    fn shard(&self, hash: u64) -> usize {
        // The table uses the low bits.
        (hash >> 32) as usize % self.shards.len()
    }

    /// The number of a host or database.
    pub fn name(&self, name: &[u8]) -> NameId {
        self.names.lock().id(name)
    }

    /// The number of a user who sent a statement, and the bits of the user's groups.
    pub fn user(&self, name: &[u8]) -> (NameId, u8) {
        (self.name(name), self.groups.lock().bits(name))
    }

    /// The rank of a class's sample, if the class exists and no other thread is using its shard. Keeping a
    /// sample that turns out to be unnecessary is better than waiting.
    pub fn best(&self, hash: u64, key: &[u8]) -> Option<Best> {
        self.shards[self.shard(hash)].try_lock()?.best(hash, key)
    }

    pub fn sample_limit(&self) -> usize {
        self.sample_limit
    }

    /// Adds a batch and empties it.
    pub fn absorb(&self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        batch.break_down(&mut self.breakdowns.lock());
        batch.sort();
        let mut add = |number: usize, mut shard: MutexGuard<'_, Table>| {
            shard.absorb(batch, |hash| self.shard(hash) == number);
        };
        // The shards that are free come first.
        let mut busy = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            match shard.try_lock() {
                Some(shard) => add(number, shard),
                None => busy.push(number),
            }
        }
        for number in busy {
            add(number, self.shards[number].lock());
        }
        batch.clear();
    }

    /// Takes out everything that was added so far, as one table.
    pub fn take(&self) -> Table {
        let (max, limit) = (self.max_classes, self.sample_limit);
        let stores = || (self.spill.clone(), self.room.clone());
        let mut all = Table::part(max, limit, 1, stores());
        all.names = std::mem::take(&mut self.names.lock());
        all.breakdowns = std::mem::take(&mut self.breakdowns.lock());
        all.groups = std::mem::take(&mut self.groups.lock());
        for shard in &self.shards {
            let new = Table::part(max, limit, self.shards.len(), stores());
            all.append(std::mem::replace(&mut shard.lock(), new));
        }
        all
    }
}
