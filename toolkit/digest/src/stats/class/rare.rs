//! Data that few classes have, kept separately.

use crate::stats::record::{put_plan, Local};
use frond_event::Place;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Rare {
    /// Events that failed.
    pub errors: u64,
    /// The last error number that is not 0.
    pub error: u32,
    error_place: Place,
    pub unmeasured: u64,
    pub prepares: u64,
    pub executes: u64,
    /// Different plans seen: (hash, count).
    pub plans: Vec<(u64, u64)>,
}

/// The data of a class without any of it.
pub(super) static NOTHING: Rare = Rare::new();

impl Default for Rare {
    fn default() -> Self {
        Rare::new()
    }
}

impl Rare {
    const fn new() -> Rare {
        Rare {
            errors: 0,
            error: 0,
            error_place: Place { file: 0, offset: 0 },
            unmeasured: 0,
            prepares: 0,
            executes: 0,
            plans: Vec::new(),
        }
    }

    /// True if a batch has any such data.
    pub(super) fn is_in(local: &Local) -> bool {
        local.errors | local.unmeasured | local.prepares | local.executes != 0
            || local.error.1 != 0
            || !local.plans.is_empty()
    }

    pub(super) fn absorb(&mut self, local: &Local) {
        self.unmeasured += u64::from(local.unmeasured);
        self.prepares += u64::from(local.prepares);
        self.executes += u64::from(local.executes);
        self.errors += u64::from(local.errors);
        self.put_error(local.error);
        for (hash, count) in &local.plans {
            put_plan(&mut self.plans, *hash, *count);
        }
    }

    pub(super) fn merge(&mut self, other: &Rare) {
        self.unmeasured += other.unmeasured;
        self.prepares += other.prepares;
        self.executes += other.executes;
        self.errors += other.errors;
        self.put_error((other.error_place, other.error));
        for (hash, count) in &other.plans {
            put_plan(&mut self.plans, *hash, *count);
        }
    }

    fn put_error(&mut self, (place, error): (Place, u32)) {
        if error != 0 && (self.error == 0 || place >= self.error_place) {
            self.error = error;
            self.error_place = place;
        }
    }

    pub(super) fn memory(&self) -> usize {
        std::mem::size_of::<Rare>() + self.plans.capacity() * 16
    }
}
