//! The simulator: the whole engine on a machine that fails in every way `docs/fault-model.md` names.
//!
//! ```text
//! machine/   SimVfs: disk, crash images, faults, crash points, clock
//! model      the expected contents after each commit
//! world      the parameters of a run, drawn from its seed
//! sim/       the run: operations, oracles, recovery of crash images
//! session    many runs, their counts, required events, canaries
//! watch      notices that a run does not end
//! history/   black-box isolation checker for recorded histories
//! ```
//!
//! `frond-sim` runs it; every failure names the command that replays it. Not here: threads (the run is
//! on one; `history` has a recorder with real ones), SQL, performance.
#![forbid(unsafe_code)]

pub mod history;
pub mod machine;
pub mod model;
pub mod rng;
pub mod session;
pub mod sim;
pub mod watch;
pub mod world;
