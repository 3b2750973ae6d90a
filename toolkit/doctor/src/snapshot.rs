//! Named values of one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Number(f64),
    Text(String),
}

impl Value {
    /// A number if `text` is one; `ON` and `OFF` stay words.
    pub fn of(text: &str) -> Value {
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() => Value::Number(n),
            _ => Value::Text(text.to_owned()),
        }
    }
}

/// Values by name: `net.ListenOverflows`, `mem.MemTotal`, `var.back_log` (SHOW GLOBAL VARIABLES),
/// `status.Connections` (SHOW GLOBAL STATUS), `replica.Seconds_Behind_Master`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Seconds since 1970.
    pub at: f64,
    pub values: BTreeMap<String, Value>,
}

impl Snapshot {
    pub fn at(at: f64) -> Snapshot {
        Snapshot { at, values: BTreeMap::new() }
    }

    pub fn set(&mut self, name: impl Into<String>, value: Value) {
        self.values.insert(name.into(), value);
    }

    pub fn set_text(&mut self, name: impl Into<String>, text: &str) {
        self.set(name, Value::of(text));
    }
}

/// Two snapshots of one server; rules look at the later one.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    pub first: &'a Snapshot,
    pub last: &'a Snapshot,
}

impl Window<'_> {
    pub fn seconds(&self) -> f64 {
        self.last.at - self.first.at
    }

    pub fn value(&self, name: &str) -> Option<&Value> {
        self.last.values.get(name)
    }

    /// By how much a counter grew; `None` if it is not in both, or was reset.
    pub fn delta(&self, name: &str) -> Option<f64> {
        match (self.first.values.get(name)?, self.last.values.get(name)?) {
            (Value::Number(a), Value::Number(b)) if b >= a => Some(b - a),
            _ => None,
        }
    }

    pub fn rate(&self, name: &str) -> Option<f64> {
        let seconds = self.seconds();
        if seconds <= 0.0 {
            return None;
        }
        Some(self.delta(name)? / seconds)
    }
}
