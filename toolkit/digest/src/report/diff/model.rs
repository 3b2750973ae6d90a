//! The result of a comparison.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    pub schema: u32,
    pub generator: String,
    pub before: Side,
    pub after: Side,
    /// All classes, by their absolute difference of load (of time where the load is unknown), the largest
    /// first.
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
}

/// One of the two reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    pub inputs: Vec<String>,
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub events: u64,
    pub classes: u64,
    /// Seconds in statements.
    pub time: Option<f64>,
    /// Statements running at the same time, on average.
    pub load: Option<f64>,
}

/// A class on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub id: String,
    pub key: String,
    pub item: String,
    /// `new`, `gone`, `slower`, `faster`, `mixed` (one measure says slower, another faster, or the load says the reverse
    /// at the same calls), `more`, `less` (calls or load, at the same speed), `same` (nothing shown), `unsure` (too few
    /// data).
    pub verdict: String,
    pub before: Option<Values>,
    pub after: Option<Values>,
    pub tests: Vec<Test>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Values {
    pub events: u64,
    /// Calls per second of the report's period.
    pub per_second: Option<f64>,
    /// Seconds in statements per second of the report's period.
    pub load: Option<f64>,
    /// Seconds.
    pub time: Option<f64>,
    pub mean: Option<f64>,
    /// Geometric mean: outliers hardly change it.
    #[serde(default)]
    pub typical: Option<f64>,
    pub p95: Option<f64>,
    /// Per call.
    pub rows_examined: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// `mean`, `typical`, `p95`, `rows_examined`, `load`, `calls`, `presence`.
    pub what: String,
    /// After divided by before, of what was tested; `None` if before was zero.
    pub ratio: Option<f64>,
    pub p: f64,
    /// `p` adjusted for the number of tests.
    pub adjusted: f64,
    /// Certain enough and large enough.
    pub significant: bool,
}
