//! Isolation tested from outside: histories of transactions that append to lists and read them, and
//! a checker that uses only the clients' view.
//!
//! A read of a list shows the order of all appends before it, so the versions of a key, and the
//! dependencies of transactions, are known without the engine. Cycles of dependencies are the
//! anomalies (Adya): see [`check`].
//!
//! A history is text, one transaction per line, JSON: any client can record one (`frond-history FILE`
//! checks it).
//!
//! ```text
//! {"process":3,"outcome":"ok","ops":[{"append":[7,101]},{"read":[7,[55,101]]}]}
//! ```
//!
//! `outcome` is `ok`, `fail` (certainly rolled back) or `info` (unknown: the client lost the
//! connection during commit). Values of one key are unique over the whole history.

use std::io::BufRead;

use serde::{Deserialize, Serialize};

pub mod check;
pub mod predicates;
pub mod record;

pub use check::{check, Anomaly, Kind};

/// The operations of a transaction, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Key, value: the value was put at the end of the key's list.
    Append(u64, u64),
    /// Key, list.
    Read(u64, Vec<u64>),
}

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Fail,
    Info,
}

/// One transaction of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Txn {
    pub process: u64,
    pub outcome: Outcome,
    pub ops: Vec<Op>,
}

/// Reads a history; the error names the line.
pub fn parse(input: &mut dyn BufRead) -> Result<Vec<Txn>, String> {
    let mut out = Vec::new();
    for (i, line) in input.lines().enumerate() {
        let line = line.map_err(|e| format!("line {}: {e}", i + 1))?;
        if line.trim().is_empty() {
            continue;
        }
        let txn = serde_json::from_str(&line).map_err(|e| format!("line {}: {e}", i + 1))?;
        out.push(txn);
    }
    Ok(out)
}

/// A line of a history.
pub fn line(txn: &Txn) -> String {
    // Numbers, lists and fixed names: nothing that JSON could not hold.
    serde_json::to_string(txn).unwrap_or_default()
}
