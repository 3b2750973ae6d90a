//! Many runs: counted, checked for having met what must be met, and for finding seeded defects.

use std::time::Duration;

use crate::history::record::Recording;
use crate::history::{check, predicates};
use crate::machine::faults::{activate, Canary};
use crate::machine::points::{Action, FileClass, Phase, Point};
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
    activate(canary);
    let caught = std::panic::catch_unwind(|| run(world, canary, trace));
    activate(None);
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
pub fn run_checked(seed: u64, profile: Profile, canary: Option<Canary>) -> Outcome {
    let mut outcome = run_seed(seed, profile, canary, false);
    if seed.is_multiple_of(TWICE) && outcome.failure.is_none() {
        let again = run_seed(seed, profile, canary, false);
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

/// All canaries with a name each. Those inside the engine need the feature `canary`.
pub fn canaries() -> Vec<(&'static str, Canary)> {
    let mut all = vec![
        ("log syncs do nothing", Canary::SkipLogSync),
        ("table syncs do nothing", Canary::SkipTableSync),
        ("directory syncs do nothing", Canary::SkipDirSync),
        ("a header reaches the disk first", Canary::HeaderFirst),
        ("a log write is lost", Canary::LoseLogWrite),
        ("records of the log change places", Canary::SwapLogWrites),
        ("one segment too many is trimmed", Canary::TrimTooFar),
        ("the end of a run is lost", Canary::LoseRunTail),
        ("a sync forgets the length", Canary::ForgetLength),
    ];
    if cfg!(feature = "canary") {
        all.extend([
            ("an image is ahead of the log", Canary::Engine(1)),
            ("the log is trimmed to its end", Canary::Engine(2)),
            ("freed blocks are reused at once", Canary::Engine(3)),
            ("an edit is published before its runs are synced", Canary::Engine(4)),
            ("merges forget snapshots", Canary::Engine(5)),
            ("recovery drops tombstones", Canary::Engine(6)),
            ("recovery loses an entry", Canary::Engine(7)),
            ("conflicts are not looked for", Canary::Engine(8)),
            ("a commit is logged before its runs are synced", Canary::Engine(9)),
            ("a trim forgets which images it relies on", Canary::Engine(10)),
            ("blocks of undecided transactions are free after a restart", Canary::Engine(11)),
            ("prepared transactions do not hold the log", Canary::Engine(12)),
            ("packs are free before the image is durable", Canary::Engine(13)),
            ("serializable reads lock no ranges", NO_RANGES),
        ]);
    }
    all
}

const NO_RANGES: Canary = Canary::Engine(14);

/// Crash images within which a canary must be found.
pub const CANARY_IMAGES: u64 = 20_000;
/// Histories within which one of [`hunt_in_history`] must be found.
const HISTORIES: u64 = 10;

/// What it took to find a canary.
pub struct Found {
    pub seed: u64,
    pub images: u64,
    pub failure: Failure,
}

/// Looks for the canary in histories of serializable transactions: a run has one thread, so nobody waits in
/// it.
fn hunt_in_history(canary: Canary) -> Option<Found> {
    for seed in 0..HISTORIES {
        let recorded = predicates::record(Recording {
            threads: 4,
            keys: 8,
            transactions: 2_000,
            time: Duration::from_secs(5),
            seed,
            canary: Some(canary),
        });
        let failure = match recorded {
            Ok(history) => {
                check(&history).first().map(|a| Failure(format!("{:?}: {}", a.kind, a.what)))
            }
            Err(e) => Some(Failure(e.to_string())),
        };
        if let Some(failure) = failure {
            return Some(Found { seed, images: 0, failure });
        }
    }
    None
}

/// Runs seeds until one fails; `None`: it was not found within [`CANARY_IMAGES`].
pub fn hunt(canary: Canary) -> Option<Found> {
    if canary == NO_RANGES {
        return hunt_in_history(canary);
    }
    let mut images = 0;
    for seed in 0.. {
        // No crash brings a file back.
        let profile = match canary {
            Canary::Engine(10) => Profile::Rot,
            _ => Profile::Torn,
        };
        let outcome = run_seed(seed, profile, Some(canary), false);
        images += outcome.stats.images + outcome.stats.rotten_images;
        if let Some(failure) = outcome.failure {
            return Some(Found { seed, images, failure });
        }
        if images > CANARY_IMAGES {
            break;
        }
    }
    None
}

/// Images of a session that must have crashed at what happens seldom, and at every point that it has passed
/// [`OFTEN`] times, listed or not.
pub const LONG: u64 = 100_000;
const OFTEN: u64 = 500;

/// Events and crash points that a session of some size must have met: a generator that stopped making
/// them would find nothing there. Returns those that it has not.
pub fn missing(stats: &Stats, profile: Profile) -> Vec<String> {
    use crate::machine::points::{Action::*, FileClass::*, Phase};
    let mut out = Vec::new();
    let mut events = vec![
        "engine: freezes",
        "engine: jobs",
        "engine: images",
        "engine: spills",
        "engine: spilled_commits",
        "job: Freeze",
        "job: Flush",
        "job: Merge",
        "job: Attach",
        "tree with several leaves",
        "flush_all",
        "recovered without the last commits",
        "prepared",
        "prepared found after a restart",
        "prepared committed",
        "prepared committed by name",
        "prepared rolled back",
        "prepared rolled back by name",
        "definition refused: prepared",
    ];
    if profile == Profile::Swarm {
        events.extend([
            "restart after a failure",
            "commit refused: disk full",
            "writing went on after a full disk",
            "Removed noticed",
            "OlderCopy noticed",
            "disk full",
            "opened on a full disk",
        ]);
    }
    for event in events {
        if !stats.events.contains_key(event) {
            out.push(event.to_owned());
        }
    }
    let points = [
        (Phase::Create, &[(Create, Identity), (Rename, Identity), (Rename, Log)][..]),
        (
            Phase::Recover,
            &[
                (Write, Log),
                (Sync, Log),
                (SetLen, Log),
                (Rename, Log),
                (Remove, Log),
                (Remove, Table),
                (WriteHeader, Table),
                (Sync, Table),
                (SyncDir, Directory),
            ],
        ),
        (
            Phase::Write,
            &[
                (Create, NewTable),
                (Sync, NewTable),
                (Rename, Table),
                (SyncDir, Directory),
                (Write, Table),
            ],
        ),
        (Phase::Prepare, &[(Write, Table), (Sync, Table), (Write, Log), (Sync, Log)]),
        (
            Phase::Commit,
            &[
                (Write, Table),
                (Sync, Table),
                (Write, Log),
                (Sync, Log),
                (Write, Spare),
                (Sync, Spare),
                (Rename, Log),
            ],
        ),
        (Phase::Definition, &[(Write, Log), (Sync, Log)]),
        (
            Phase::Background,
            &[
                (Create, Spare),
                (Create, NewTable),
                (Sync, NewTable),
                (Rename, Table),
                (SyncDir, Directory),
                (Write, Table),
                (Sync, Table),
                (WriteHeader, Table),
                (Punch, Table),
                (Write, Log),
                (Sync, Log),
                (Rename, Spare),
                (Remove, Log),
                (Remove, Table),
            ],
        ),
        (
            Phase::FlushAll,
            &[(Write, Table), (Sync, Table), (WriteHeader, Table), (Write, Log), (Sync, Log)],
        ),
        (Phase::Close, &[(Write, Log), (Sync, Log)]),
    ];
    let seldom = [
        (
            Phase::Definition,
            &[(Create, Spare), (Write, Spare), (Sync, Spare), (Rename, Log), (SyncDir, Directory)]
                [..],
        ),
        (Phase::Background, &[(Write, Spare), (Sync, Spare), (Rename, Log)]),
        (Phase::FlushAll, &[(Rename, Log)]),
        (Phase::Sync, &[(Rename, Log)]),
        (Phase::Close, &[(Create, NewTable), (Rename, Table), (SyncDir, Directory)]),
    ];
    not_crashed_at(&points, stats, &mut out);
    if stats.images >= LONG && profile == Profile::Swarm {
        not_crashed_at(&seldom, stats, &mut out);
        out.extend(passed_over(stats));
    }
    out
}

/// What is asked of the machine in one phase.
type Listed<'a> = (Phase, &'a [(Action, FileClass)]);

fn not_crashed_at(listed: &[Listed<'_>], stats: &Stats, out: &mut Vec<String>) {
    for &(phase, list) in listed {
        for &(action, class) in list {
            let point = Point { phase, action, class };
            if stats.points.0.get(&point).is_none_or(|(_, crashed)| *crashed == 0) {
                out.push(format!("no crash at {point}"));
            }
        }
    }
}

/// Points that were passed often and never crashed at. In [`Phase::Other`] machines are not crashed.
fn passed_over(stats: &Stats) -> Vec<String> {
    let all = stats.points.0.iter().filter(|(point, _)| point.phase != Phase::Other);
    let never = all.filter(|(_, (passed, crashed))| *passed >= OFTEN && *crashed == 0);
    never
        .map(|(point, (passed, _))| format!("no crash at {point}, passed {passed} times"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_is_passed_often_must_be_crashed_at() {
        let mut stats = Stats { images: LONG, ..Stats::default() };
        let rename = Point { phase: Phase::Close, action: Action::Rename, class: FileClass::Log };
        let other = Point { phase: Phase::Other, ..rename };
        for _ in 0..OFTEN - 1 {
            stats.points.passed(rename);
            stats.points.passed(other);
        }
        assert_eq!(passed_over(&stats), Vec::<String>::new());
        stats.points.passed(rename);
        stats.points.passed(other);
        assert_eq!(passed_over(&stats), ["no crash at Close: Rename Log, passed 500 times"]);
        let asked = missing(&stats, Profile::Swarm).len();
        stats.points.crashed(rename);
        assert_eq!(passed_over(&stats), Vec::<String>::new());
        assert!(missing(&stats, Profile::Swarm).len() < asked);
        // Only long sessions must meet what is passed seldom, or not at all.
        stats.images = LONG - 1;
        assert!(missing(&stats, Profile::Swarm).len() < asked - 1);
    }
}
