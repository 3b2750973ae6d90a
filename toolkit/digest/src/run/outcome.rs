//! The result of reading inputs.

use super::attributes::Attributes;
use super::settings::GroupBy;
use super::skips::Skips;
use super::unanswered::Unanswered;
use crate::stats::patterns::Patterns;
use crate::stats::Table;
use frond_event::Losses;
use frond_querylog::input::Format;

/// An input that was read.
#[derive(Clone, Debug)]
pub struct FileInfo {
    pub name: String,
    pub format: Option<Format>,
    /// Unpacked size.
    pub bytes: u64,
}

/// An input that could not be read properly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub name: String,
    pub what: String,
}

/// The progress of the work.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub name: &'a str,
    /// Stored bytes read of all inputs.
    pub done: u64,
    /// Stored bytes of all inputs whose size is known.
    pub total: Option<u64>,
}

/// The result.
pub struct Outcome {
    pub table: Table,
    pub files: Vec<FileInfo>,
    pub problems: Vec<Problem>,
    pub skips: Skips,
    pub losses: Option<Losses>,
    /// For captured traffic.
    pub traffic: Option<frond_capture::Summary>,
    /// For captured traffic: chosen statements that never returned.
    pub unanswered: Unanswered,
    /// Events read, before filters.
    pub events: u64,
    /// Events that filters and times left out.
    pub left_out: u64,
    /// Seconds east of UTC of the log's own times, as far as known.
    pub zone: Option<i32>,
    /// Set if patterns were requested.
    pub patterns: Option<Patterns>,
    /// For captured traffic of which only some connections were read: totals over all of them, for each class
    /// by its `class_hash`.
    pub sampled: Option<frond_capture::Estimator>,
    /// Notes on the input for the reader; whole sentences.
    pub notes: Vec<String>,
    pub(super) attributes: Attributes,
    /// Stamps of the log have a zone; pt-query-digest prints such stamps in another form.
    pub(crate) zoned: bool,
}

impl Outcome {
    /// The error of the attribute by which statements were grouped: no statement has it.
    pub fn unknown_group(&self, group_by: &GroupBy) -> Option<String> {
        let counted = self.events > self.left_out;
        let names = group_by.attributes();
        names.into_iter().filter(|_| counted).find_map(|name| self.attributes.complaint(name))
    }
}
