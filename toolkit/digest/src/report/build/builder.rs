//! The inputs of every part of the document.

use crate::report::rank::{Limit, Order, Outliers};
use crate::run::GroupBy;
use crate::stats::names::Names;
use crate::stats::Class;
use frond_capture::Sampling;
use frond_event::{Metric, Micros};
use frond_sqltext::Dialect;

/// What the document contains.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub order: Order,
    /// True if the user chose the order; otherwise a log without durations is ranked by count.
    pub order_given: bool,
    pub limit: Limit,
    pub outliers: Option<Outliers>,
    pub redact: bool,
    /// Bytes of a sample; 0: as much as was kept.
    pub sample_bytes: usize,
    pub dialect: Dialect,
    pub group_by: GroupBy,
    pub filter: Option<String>,
    pub since: Option<Micros>,
    pub until: Option<Micros>,
    pub generated: Option<Micros>,
    /// How captured traffic was sampled, and its servers' ports.
    pub sampling: Option<Sampling>,
    pub ports: Vec<u16>,
}

pub(super) struct Builder<'a> {
    pub(super) options: &'a Options,
    pub(super) names: &'a Names,
    pub(super) overall: &'a Class,
    pub(super) files: Vec<String>,
    pub(super) width: i64,
    pub(super) sampled: Option<&'a frond_capture::Estimator>,
    pub(super) totals: [u64; Metric::COUNT],
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Seconds from one time to another. Logs may hold any times.
pub(super) fn span(first: Option<Micros>, last: Option<Micros>) -> Option<f64> {
    first.zip(last).map(|(first, last)| last.saturating_sub(first) as f64 / 1e6)
}
