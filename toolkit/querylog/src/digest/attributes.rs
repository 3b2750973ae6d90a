//! Whether the attribute that makes the classes exists, and which others do: a name may be mistyped.

use std::collections::BTreeSet;

use super::settings::no_such_attribute;
use crate::event::Event;

/// Names that are remembered.
const MOST: usize = 40;

/// The longest of them.
const LONGEST: usize = 64;

/// What events had.
#[derive(Debug, Default)]
pub struct Attributes {
    found: bool,
    others: BTreeSet<Box<[u8]>>,
}

impl Attributes {
    /// The attribute was in an event, or it was not.
    pub fn see(&mut self, found: bool, event: &Event<'_>) {
        if found {
            self.found = true;
            return;
        }
        for (name, _) in &event.extra {
            if self.others.len() < MOST && name.len() <= LONGEST && !self.others.contains(*name) {
                self.others.insert((*name).into());
            }
        }
    }

    pub fn merge(&mut self, other: Attributes) {
        self.found |= other.found;
        for name in other.others {
            if self.others.len() < MOST {
                self.others.insert(name);
            }
        }
    }

    /// What is wrong with grouping by `name`, if no event had it.
    pub fn complaint(&self, name: &str) -> Option<String> {
        let names = self.others.iter().filter_map(|name| std::str::from_utf8(name).ok());
        (!self.found).then(|| no_such_attribute(name, names))
    }
}
