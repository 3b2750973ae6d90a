//! The state of a tree's jobs. Most trees of a large schema have neither work nor jobs, so memory for it is taken
//! when there is some, and given back when there is none.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use frond_base::{Error, NodeId};
use parking_lot::{Mutex, MutexGuard};

use crate::slice::Key;
use crate::triggers::Needs;

/// See the module.
#[derive(Default)]
pub(crate) struct State {
    pub busy: HashSet<NodeId>,
    pub freezing: bool,
    /// The oldest frozen item is in the trunk below this key.
    pub flushed_to: Option<Key>,
    pub merges: Needs,
    pub flushes: Needs,
    /// The error of the latest job that met damaged pages.
    pub damage: Option<Error>,
}

impl State {
    fn is_idle(&self) -> bool {
        let works = self.freezing || !self.busy.is_empty() || self.flushed_to.is_some();
        let needs = [&self.merges, &self.flushes];
        let none = needs.iter().all(|needs| needs.is_empty() && !needs.has_aside());
        none && !works && self.damage.is_none()
    }
}

/// What an idle tree has.
static IDLE: LazyLock<State> = LazyLock::new(State::default);

/// The mutex of a tree's [`State`]; empty for an idle tree.
#[derive(Default)]
pub(crate) struct StateMutex(Mutex<Option<Box<State>>>);

/// The locked state. Changing it takes memory for it, which goes with the guard if the tree is idle then.
pub(crate) struct StateGuard<'a>(MutexGuard<'a, Option<Box<State>>>);

impl StateMutex {
    pub fn lock(&self) -> StateGuard<'_> {
        StateGuard(self.0.lock())
    }
}

impl Deref for StateGuard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_deref().unwrap_or(&IDLE)
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.get_or_insert_default()
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        if self.0.as_ref().is_some_and(|state| state.is_idle()) {
            *self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_tree_has_no_memory_for_its_state() {
        let state = StateMutex::default();
        assert!(!state.lock().freezing && state.0.lock().is_none());
        state.lock().busy.insert(7);
        state.lock().freezing = true;
        assert!(state.lock().busy.contains(&7));
        state.lock().busy.remove(&7);
        assert!(state.0.lock().is_some());
        state.lock().freezing = false;
        assert!(state.0.lock().is_none());
    }
}
