//! Many runs: counted, checked for having met what must be met, and for finding seeded defects.

use crate::machine::faults::Canary;
use crate::rng::mix;
use crate::sim::{run, Failure, Outcome, Stats};
use crate::world::{Profile, World};

/// A failed seed.
#[derive(Clone, Debug)]
pub struct Failed {
    pub seed: u64,
    pub profile: Profile,
    pub failure: Failure,
}

impl Failed {
    /// The command that shows it again.
    pub fn replay(&self) -> String {
        let profile = self.profile.name();
        format!("cargo run --release -p frond-sim -- --seed {} --profile {profile}", self.seed)
    }
}

/// Runs one seed; a panic of the engine is a failure of the run.
pub fn run_seed(seed: u64, profile: Profile, canary: Option<Canary>, trace: bool) -> Outcome {
    let world = World::draw(seed, profile);
    let caught = std::panic::catch_unwind(|| run(world, canary, trace));
    caught.unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_default();
        Outcome {
            failure: Some(Failure(format!("panic: {why}"))),
            stats: Stats::default(),
            trace_hash: 0,
            trace: Vec::new(),
        }
    })
}

/// Every this many seeds one is run twice (O8).
const TWICE: u64 = 40;

/// Runs a seed as a session does.
pub fn run_checked(seed: u64, profile: Profile) -> Outcome {
    let mut outcome = run_seed(seed, profile, None, false);
    if seed % TWICE == 0 && outcome.failure.is_none() {
        let again = run_seed(seed, profile, None, false);
        if again.trace_hash != outcome.trace_hash {
            let what = "O8: the same seed gave another sequence of calls";
            outcome.failure = Some(Failure(what.into()));
        }
    }
    outcome
}

/// The seed of run `n` of a session that starts at `first`.
pub fn seed_of(first: u64, n: u64) -> u64 {
    // Small numbers are easier to talk about; the session's base is mixed in only when given.
    if first == 0 {
        n
    } else {
        mix(first, n) >> 16
    }
}
