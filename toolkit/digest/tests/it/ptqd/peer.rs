//! Runs pt-query-digest and reads its JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::programs::bounded;

/// One attribute of a class: first the exact figures, then those from buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    pub p95: f64,
    pub median: f64,
    pub stddev: f64,
}

/// A class, in the order of rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    pub id: String,
    pub fingerprint: String,
    pub count: u64,
    pub metrics: BTreeMap<String, Numbers>,
    pub yes: BTreeMap<String, f64>,
}

pub fn is_there() -> bool {
    Command::new("pt-query-digest")
        .arg("--version")
        .output()
        .is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("3.2"))
}

fn number(value: &Value) -> f64 {
    match value {
        Value::String(text) => text.parse().unwrap_or(f64::NAN),
        other => other.as_f64().unwrap_or(f64::NAN),
    }
}

/// The results of pt-query-digest for a file. It has to be told the server of a capture on another
/// port than 3306: `servers` are tried in order, and the first that gives classes is used.
pub fn digest_of_servers(file: &Path, kind: &str, servers: &[&str]) -> Vec<Class> {
    let plain = digest(file, kind);
    if !plain.is_empty() {
        return plain;
    }
    let told = servers.iter().map(|s| run(file, kind, &["--watch-server", s]));
    told.into_iter().find(|classes| !classes.is_empty()).unwrap_or_default()
}

pub fn digest(file: &Path, kind: &str) -> Vec<Class> {
    run(file, kind, &[])
}

fn run(file: &Path, kind: &str, options: &[&str]) -> Vec<Class> {
    let unpacked;
    let mut path = file;
    if file.extension().is_some_and(|e| e == "gz") {
        // pt-query-digest does not read packed files.
        let text = Command::new("gzip").args(["-dc"]).arg(file).output().unwrap().stdout;
        unpacked = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(unpacked.path(), text).unwrap();
        path = unpacked.path();
    }
    let output = bounded("pt-query-digest")
        .args(["--no-version-check", "--output", "json", "--limit", "1000000", "--type", kind])
        .args(options)
        .arg(path)
        .output()
        .unwrap();
    let Ok(json) = serde_json::from_slice::<Value>(&output.stdout) else { return Vec::new() };
    let classes = json["classes"].as_array().cloned().unwrap_or_default();
    classes
        .iter()
        .map(|class| {
            let mut metrics = BTreeMap::new();
            let mut yes = BTreeMap::new();
            for (name, values) in class["metrics"].as_object().into_iter().flatten() {
                if values["sum"] != Value::Null {
                    let of = |field: &str| number(&values[field]);
                    let numbers = Numbers {
                        sum: of("sum"),
                        min: of("min"),
                        max: of("max"),
                        p95: of("pct_95"),
                        median: of("median"),
                        stddev: of("stddev"),
                    };
                    metrics.insert(name.to_ascii_lowercase(), numbers);
                } else if values["yes"] != Value::Null {
                    yes.insert(name.to_ascii_lowercase(), number(&values["yes"]));
                }
            }
            Class {
                id: class["checksum"].as_str().unwrap_or("").to_owned(),
                fingerprint: class["fingerprint"].as_str().unwrap_or("").to_owned(),
                count: class["query_count"].as_u64().unwrap_or(0),
                metrics,
                yes,
            }
        })
        .collect()
}
