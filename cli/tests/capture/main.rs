//! `frond digest` on captured traffic, as a program: the same report from every format, true times
//! whatever a capture lost, bounded memory, speed.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.
#![allow(clippy::disallowed_methods)] // Captures are no files of a database.

#[path = "../../../toolkit/capture/tests/it/traffic/mod.rs"]
mod traffic;

mod formats;
mod losses;
mod memory;
#[path = "../../../toolkit/sqltext/tests/it/programs.rs"]
mod programs;
mod sample;
mod speed;

use programs::bounded;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// `frond digest --json` of some files, with further options.
fn digest(files: &[&Path], options: &[&str]) -> Value {
    let output = output(files, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn output(files: &[&Path], options: &[&str]) -> Output {
    bounded(env!("CARGO_BIN_EXE_frond"))
        .args(["digest", "--json", "--reproducible", "--quiet", "--limit", "100%"])
        .args(options)
        .args(files)
        .output()
        .unwrap()
}

/// A class's statistics of the duration, by a word of its key.
fn of_class<'v>(report: &'v Value, word: &str) -> Option<&'v Value> {
    report["classes"]
        .as_array()?
        .iter()
        .find(|c| c["key"].as_str().is_some_and(|k| k.contains(word)))
}

/// The 95th percentile of a class's duration, in seconds.
fn p95(report: &Value, word: &str) -> Option<f64> {
    let metrics = of_class(report, word)?["metrics"].as_array()?;
    metrics.iter().find(|m| m["name"] == "Query_time")?["p95"].as_f64()
}
