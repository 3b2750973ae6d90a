//! The data that a batch keeps: a record for each event, and sums for each class.

use super::class::{Best, Sample};
use super::names::{NameId, NAME_BITS};
use super::waiting::WAITING_BITS;
use frond_event::{Flag, Metric, Micros, Place};

/// Layout of a record's first word: which metrics are present (`Metric::COUNT` bits), then which flags were
/// logged, then which of them were yes.
pub(super) const LOGGED_AT: usize = Metric::COUNT;
pub(super) const YES_AT: usize = LOGGED_AT + Flag::COUNT;
const _: () = assert!(YES_AT + Flag::COUNT <= 64, "a record's first word is one word");

/// In a record's third word the bits of user groups are above the numbers of names.
pub(super) const WAITING_AT: u32 = 3 * NAME_BITS;
const _: () = assert!(WAITING_AT + WAITING_BITS <= 64, "they are one word");

/// The end of an event without a time.
pub(super) const NO_TIME: u64 = i64::MIN as u64;

/// A span of time, empty at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    first: Micros,
    last: Micros,
}

impl Default for Span {
    fn default() -> Self {
        Span { first: Micros::MAX, last: Micros::MIN }
    }
}

impl Span {
    #[inline]
    pub(super) fn widen(&mut self, from: Option<Micros>, to: Option<Micros>) {
        self.first = self.first.min(from.unwrap_or(Micros::MAX));
        self.last = self.last.max(to.unwrap_or(Micros::MIN));
    }

    pub(super) fn ends(self) -> (Option<Micros>, Option<Micros>) {
        (
            (self.first != Micros::MAX).then_some(self.first),
            (self.last != Micros::MIN).then_some(self.last),
        )
    }
}

/// A batch's data of one class, besides the records.
#[derive(Debug)]
pub(super) struct Local {
    pub hash: u64,
    pub key: (u32, u32),
    pub count: u32,
    pub unmeasured: u32,
    pub prepares: u32,
    pub executes: u32,
    pub errors: u32,
    /// The end of its records, once they are sorted.
    pub records: u32,
    pub weight: u64,
    pub times: Span,
    pub stamps: Span,
    pub begun: Place,
    /// The last error and its place.
    pub error: (Place, u32),
    /// Rank of the sample, or of the class's sample if that is better.
    pub best: Option<Best>,
    pub sample: Option<Box<Sample>>,
    pub plans: Vec<(u64, u64)>,
}

/// Different plans counted per class.
const MAX_PLANS: usize = 8;

/// Counts a plan; only the first few different plans of a class are counted.
pub(super) fn put_plan(plans: &mut Vec<(u64, u64)>, hash: u64, count: u64) {
    if let Some(plan) = plans.iter_mut().find(|p| p.0 == hash) {
        plan.1 += count;
    } else if plans.len() < MAX_PLANS {
        plans.push((hash, count));
    }
}

/// The records of a class.
#[derive(Clone, Copy)]
pub(super) struct Records<'a> {
    pub(super) words: &'a [u64],
    pub(super) begins: &'a [u32],
}

impl<'a> Records<'a> {
    #[inline]
    pub(super) fn iter(self) -> impl Iterator<Item = Record<'a>> {
        self.begins.iter().filter_map(move |begin| Record::at(self.words, *begin))
    }
}

/// The record of an event: see `Batch::words`.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub first: u64,
    pub nonzero: u64,
    pub names: u64,
    pub end: u64,
    pub values: &'a [u64],
}

impl<'a> Record<'a> {
    #[inline]
    pub(super) fn at(words: &'a [u64], begin: u32) -> Option<Record<'a>> {
        match &words[begin as usize..] {
            [first, nonzero, names, end, rest @ ..] => Some(Record {
                first: *first,
                nonzero: *nonzero,
                names: *names,
                end: *end,
                values: &rest[..nonzero.count_ones() as usize],
            }),
            _ => None,
        }
    }

    /// The numbers of database, user and host.
    #[inline]
    pub(super) fn who(self) -> [NameId; 3] {
        [0, 1, 2].map(|at| (self.names >> (at * NAME_BITS)) as NameId & ((1 << NAME_BITS) - 1))
    }

    /// Bits of `Groups`.
    #[inline]
    pub(super) fn waiting(self) -> u8 {
        (self.names >> WAITING_AT) as u8
    }

    /// Nanoseconds; 0 if it was not measured.
    #[inline]
    pub(super) fn time(self) -> u64 {
        const AT: usize = Metric::QueryTime.index();
        match self.nonzero >> AT & 1 {
            0 => 0,
            _ => self.values[(self.nonzero & ((1 << AT) - 1)).count_ones() as usize],
        }
    }
}
