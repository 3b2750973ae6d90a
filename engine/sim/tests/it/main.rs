//! A few seeds of every profile, the same in every run, and two canaries: the long sessions are a stage
//! of `make test`.
#![allow(clippy::unwrap_used)]

mod full;
mod hangs;
mod load;

use frond_sim::machine::faults::Canary;
use frond_sim::session::{hunt, run_seed};
use frond_sim::world::Profile;

fn passes(profile: Profile, seeds: std::ops::Range<u64>) {
    let mut images = 0;
    for seed in seeds {
        let outcome = run_seed(seed, profile, None, false);
        if let Some(failure) = outcome.failure {
            panic!("frond-sim --seed {seed} --profile {}: {}", profile.name(), failure.0);
        }
        images += outcome.stats.images + outcome.stats.rotten_images;
    }
    assert!(images > 0, "nothing was recovered");
}

#[test]
fn crashes_lose_nothing_acknowledged() {
    passes(Profile::Torn, 0..12);
}

#[test]
fn failing_disks_lose_nothing_acknowledged() {
    passes(Profile::Errors, 0..8);
}

#[test]
fn full_disks_lose_nothing_and_writing_goes_on() {
    passes(Profile::Space, 0..8);
}

#[test]
fn damage_is_noticed_or_does_not_matter() {
    passes(Profile::Rot, 0..8);
}

/// Seeds that found a defect once.
#[test]
fn what_was_found_stays_fixed() {
    for (profile, seed) in [
        (Profile::Torn, 21),
        (Profile::Torn, 88),
        (Profile::Torn, 97),
        (Profile::Torn, 161),
        (Profile::Torn, 165),
        (Profile::Torn, 373),
        (Profile::Errors, 1),
        (Profile::Errors, 36),
        (Profile::Space, 21),
        (Profile::Space, 87),
        (Profile::Rot, 21),
        (Profile::Swarm, 101),
        (Profile::Swarm, 722),
        (Profile::Swarm, 5550),
        (Profile::Swarm, 9733),
        (Profile::Swarm, 200_045),
        (Profile::Swarm, 5_514_058),
    ] {
        passes(profile, seed..seed + 1);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 80, 120] {
        let first = run_seed(seed, Profile::Torn, None, false);
        let second = run_seed(seed, Profile::Torn, None, false);
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
}

#[test]
fn skipped_syncs_are_found() {
    for canary in [Canary::SkipLogSync, Canary::SkipTableSync, Canary::SkipDirSync] {
        assert!(hunt(canary).is_some(), "{canary:?}");
    }
}
