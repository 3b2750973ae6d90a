//! Reports lock waits and deadlocks to the program that opened the database, and deadlocks to the
//! operator's log if wanted.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use frond_txn::{DeadlockReport, LockObserver};

use super::places::Places;
use crate::commit::core::Core;

/// Calls to the owner of a database. Transactions are named by their connections (`OwnerHandle::set_label`);
/// 0: none.
pub trait WaitHooks: Send + Sync {
    /// `waiter` sleeps from now on, on this thread, until one of `holders` ends. May interrupt transactions.
    fn waits(&self, waiter: u64, holders: &[u64]);
    /// That sleep is over.
    fn waited(&self, waiter: u64);
    /// Which of two members of a deadlock should be rolled back: below zero `a`, above zero `b`. Must not
    /// call the engine.
    fn victim(&self, a: u64, b: u64) -> i32;
    /// The statement that a connection runs, for people; may be empty.
    fn statement(&self, connection: u64) -> String;
}

pub(crate) struct Watch {
    core: Weak<Core>,
    hooks: OnceLock<Box<dyn WaitHooks>>,
    prints_deadlocks: AtomicBool,
}

impl Watch {
    /// Watches the locks of `core` as long as it lives.
    pub fn over(core: &Arc<Core>) -> Arc<Watch> {
        let watch = Arc::new(Watch {
            core: Arc::downgrade(core),
            hooks: OnceLock::new(),
            prints_deadlocks: AtomicBool::new(false),
        });
        core.locks.set_observer(Box::new(Observer(watch.clone())));
        watch
    }

    pub fn set_hooks(&self, hooks: Box<dyn WaitHooks>) -> bool {
        self.hooks.set(hooks).is_ok()
    }

    pub fn print_deadlocks(&self, on: bool) {
        self.prints_deadlocks.store(on, Relaxed);
    }

    fn statement(&self, connection: u64) -> String {
        self.hooks.get().map(|hooks| hooks.statement(connection)).unwrap_or_default()
    }
}

struct Observer(Arc<Watch>);

impl LockObserver for Observer {
    fn waits(&self, waiter: u64, holders: &[u64]) {
        if let Some(hooks) = self.0.hooks.get() {
            hooks.waits(waiter, holders);
        }
    }

    fn waited(&self, waiter: u64) {
        if let Some(hooks) = self.0.hooks.get() {
            hooks.waited(waiter);
        }
    }

    fn victim(&self, a: u64, b: u64) -> i32 {
        self.0.hooks.get().map_or(0, |hooks| hooks.victim(a, b))
    }

    fn deadlock(&self, report: &DeadlockReport) {
        if !self.0.prints_deadlocks.load(Relaxed) {
            return;
        }
        if let Some(core) = self.0.core.upgrade() {
            let text = deadlock_text(&core, report, |connection| self.0.statement(connection));
            core.messages.say(2, &format!("deadlock:\n{}", text.trim_end()));
        }
    }
}

/// Whom to KILL: the server's connection, if it is known.
pub(crate) fn who(connection: u64, transaction: u64) -> String {
    match connection {
        0 => format!("transaction {transaction}"),
        _ => format!("connection {connection} (transaction {transaction})"),
    }
}

/// One line for each member; and which of them was rolled back.
pub(crate) fn deadlock_text(
    core: &Core,
    report: &DeadlockReport,
    statement: impl Fn(u64) -> String,
) -> String {
    let mut out = String::new();
    let mut places = Places::new(core);
    let members = &report.members;
    for (i, m) in members.iter().enumerate() {
        let next = &members[(i + 1) % members.len()];
        let place = places.phrase(m.tree, m.key.as_deref(), m.range.as_ref());
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{} ({} changes) waits for {:?} on {place}, behind {}",
            who(m.label, m.owner.0),
            m.weight,
            m.mode,
            who(next.label, next.owner.0),
        );
        let statement = statement(m.label);
        if !statement.is_empty() {
            let _ = writeln!(out, "  its statement: {statement}");
        }
    }
    let label = members.iter().find(|m| m.owner == report.victim).map_or(0, |m| m.label);
    let _ = writeln!(out, "{} was rolled back", who(label, report.victim.0));
    out
}
