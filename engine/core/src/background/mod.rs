//! Background work.
//!
//! Worker threads take the most urgent job of all trees, run it step by step, and look again (`jobs`). One
//! more thread keeps log and disk small (`housekeeping`): the sync each second, the next segment, trimming,
//! and images for tables that keep the log. Writers are delayed by memory and debt (`admission`).
//! Without threads (`background_threads` = 0) the owner calls `Core::background_step`.
//!
//! These three use the whole engine (`Core`). The parts that they share do not know it:
//!
//! ```text
//! ledger        buffered bytes and offered work of each tree
//! queue         trees that wait after a failure; sleep and end of workers
//! pressure      memory and debt against their limits; pacing computes delays from them
//! disk_full     whether commits are refused
//! upkeep        the log thread's state between its rounds
//! held_writers  where writers sleep
//! running_work  what is under way, for people
//! ```
//!
//! `maintain` is OPTIMIZE; `dropped` clears away dropped tables; `sampling` keeps index statistics up to date.

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
pub(crate) mod running_work;
pub(crate) mod sampling;
pub(crate) mod upkeep;
