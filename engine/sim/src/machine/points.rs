//! Crash points: where in the program's work the machine was asked to change something, named by
//! what the program was doing and by what it asked for.

use std::collections::BTreeMap;
use std::fmt;

/// What the program is doing, as the driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Create,
    Recover,
    /// Puts and deletes: large transactions write to table files.
    Write,
    Prepare,
    Commit,
    Definition,
    Background,
    FlushAll,
    Sync,
    Close,
    Other,
}

/// What kind of file is touched, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileClass {
    Log,
    Spare,
    Table,
    NewTable,
    Identity,
    Directory,
    Other,
}

impl FileClass {
    pub fn of(name: &str) -> FileClass {
        match name {
            _ if name.starts_with("log.") => FileClass::Log,
            _ if name.starts_with("spare.") => FileClass::Spare,
            _ if name.ends_with(".frd") => FileClass::Table,
            _ if name.ends_with(".frd.new") => FileClass::NewTable,
            _ if name.to_ascii_lowercase().starts_with("frond") => FileClass::Identity,
            _ => FileClass::Other,
        }
    }
}

/// What is asked of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Create,
    Write,
    /// A write to the first two pages of a table file.
    WriteHeader,
    SetLen,
    Allocate,
    Punch,
    Sync,
    Rename,
    Remove,
    SyncDir,
}

/// A named crash point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub phase: Phase,
    pub action: Action,
    pub class: FileClass,
}

impl Point {
    /// The log begins another segment, in a phase that seldom fills the one before.
    pub fn begins_a_segment_seldom(&self) -> bool {
        use Phase::{Background, Close, Definition, FlushAll, Sync};
        matches!(self.phase, Background | Close | Definition | FlushAll | Sync)
            && matches!(
                (self.action, self.class),
                (Action::Write | Action::Sync, FileClass::Spare) | (Action::Rename, FileClass::Log)
            )
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?} {:?}", self.phase, self.action, self.class)
    }
}

/// How often each point was passed, and how often the machine crashed there.
#[derive(Clone, Debug, Default)]
pub struct Points(pub BTreeMap<Point, (u64, u64)>);

impl Points {
    /// Returns whether the point was never passed before.
    pub fn passed(&mut self, point: Point) -> bool {
        let (passed, _) = self.0.entry(point).or_default();
        *passed += 1;
        *passed == 1
    }

    pub fn crashed(&mut self, point: Point) {
        self.0.entry(point).or_default().1 += 1;
    }

    pub fn add(&mut self, other: &Points) {
        for (point, (passed, crashed)) in &other.0 {
            let mine = self.0.entry(*point).or_default();
            mine.0 += passed;
            mine.1 += crashed;
        }
    }
}
