//! Foreign keys of rows: checked per row and at once, as InnoDB does.
//!
//! `plan.rs` finds the constraints of a table and compiles them. `parents.rs` looks for the parents
//! of a child row that is written. `children.rs` looks for the children of a parent row that is
//! deleted or gets another key, and changes them. `existing.rs` looks for the parents of rows that were there
//! before the constraint. `restored_locks.rs` takes the locks of prepared
//! transactions after a restart. Why no row can lose its parent is in
//! `docs/rfcs/0009-foreign-keys.md`:
//!
//! - FK1. A transaction that writes a child row, or moves its entry in the index of the constraint, locks the parent shared
//!   (its key, where that identifies the row), then reads the parent's newest version, and keeps the lock to its end.
//!   The snapshot plays no part.
//! - FK2. A transaction that removes or changes a parent's key locks it exclusively, then reads the
//!   newest version of the child's index. So a child that was written by a transaction still
//!   running is behind the lock.
//! - FK3. Plans are looked up again after the locks of FK2 are held: a constraint that was added in between
//!   has copied its rows under the locks of FK1.
//! - FK4. The changes that follow from a row's change are undone with it: a savepoint is taken before a row
//!   that has children is changed.

mod children;
mod existing;
mod parents;
mod plan;
mod restored_locks;

pub(super) use children::Change;
pub(crate) use existing::check_parents_of_rows;
pub(super) use parents::Which;
pub(super) use plan::Plan;
pub(crate) use restored_locks::lock_parents_again;
