//! Seeded hangs, found by the program that watches its own runs (O7).

use std::process::Command;

/// What `frond-sim` says of runs that all hang; it would not return if it did not notice.
fn noticed(kind: &str) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_frond-sim"))
        .args(["--profile", "torn", "--images", "100", "--jobs", "2"])
        .args(["--seeded-hang", kind, "--hang-after", "2"])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1), "{text}");
    assert!(text.ends_with("0 passed, 1 failed\n"), "{text}");
    assert!(text.contains("cargo run --release -p frond-sim -- --seed "), "{text}");
    text
}

#[test]
fn a_deadlock_is_found() {
    let text = noticed("deadlock");
    assert!(text.contains("O7: the run hangs: asleep for 2 s"), "{text}");
}

#[test]
fn a_livelock_is_found_although_it_calls_files() {
    let text = noticed("livelock");
    assert!(text.contains("O7: the run hangs: 2 s of processor time"), "{text}");
}
