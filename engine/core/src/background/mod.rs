//! What is done beside statements.
//!
//! Worker threads take the most urgent job of all trees, run it step by step, and look again (`jobs`). One
//! more thread keeps log and disk small (`housekeeping`): the sync each second, the next segment, trimming,
//! and images for tables that hold the log back. Writers are let in as memory and debt allow (`admission`).
//! Without threads (`background_threads` = 0) the owner calls `Core::background_step`.
//!
//! Those three work for the whole engine. What they share knows nothing of it:
//!
//! ```text
//! ledger        what each tree has buffered and what work it offers
//! queue         trees left alone after a failure, sleeping and ending
//! pressure      memory and debt against their limits; pacing turns them into delays
//! disk_full     whether commits are refused
//! upkeep        what the log thread keeps between its rounds
//! held_writers  where writers sleep
//! ```
//!
//! `maintain` is OPTIMIZE; `dropped` clears away dropped tables.

pub(crate) mod admission;
pub(crate) mod disk_full;
pub(crate) mod dropped;
pub(crate) mod held_writers;
pub(crate) mod housekeeping;
pub(crate) mod jobs;
pub(crate) mod ledger;
pub(crate) mod maintain;
pub(crate) mod pacing;
pub(crate) mod pressure;
pub(crate) mod queue;
pub(crate) mod upkeep;
