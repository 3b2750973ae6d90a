//! Whether the attribute to group by exists, and which attributes do: a name may be mistyped.

use std::collections::BTreeSet;

use super::settings::no_such_attribute;
use frond_event::Event;

/// Names that are remembered.
const MOST: usize = 40;

/// The longest name that is remembered.
const LONGEST: usize = 64;

/// The attributes that events had.
#[derive(Debug, Default)]
pub struct Attributes {
    /// The attributes to group by that some event had; they are few.
    found: Vec<Box<str>>,
    others: BTreeSet<Box<[u8]>>,
}

impl Attributes {
    /// Notes whether the event had the attribute `name`.
    pub fn see(&mut self, name: &str, found: bool, event: &Event<'_>) {
        if found {
            self.find(name);
            return;
        }
        for (name, _) in &event.extra {
            if self.others.len() < MOST && name.len() <= LONGEST && !self.others.contains(*name) {
                self.others.insert((*name).into());
            }
        }
    }

    fn find(&mut self, name: &str) {
        if !self.found.iter().any(|found| **found == *name) {
            self.found.push(name.into());
        }
    }

    pub fn merge(&mut self, other: Attributes) {
        other.found.iter().for_each(|name| self.find(name));
        for name in other.others {
            if self.others.len() < MOST {
                self.others.insert(name);
            }
        }
    }

    /// The error for grouping by `name`, if no event had it.
    pub fn complaint(&self, name: &str) -> Option<String> {
        let names = self.others.iter().filter_map(|name| std::str::from_utf8(name).ok());
        let found = self.found.iter().any(|found| **found == *name);
        (!found).then(|| no_such_attribute(name, names))
    }
}
