//! The older schemas that rows may name.
//!
//! - HIS1. Each schema reads rows of the one before it, and the current schema reads rows of the newest old one. Reading
//!   is transitive, because dropped columns do not come back and parts of an index do not change. So the current schema
//!   reads all rows, and a change of the definition checks one pair of schemas instead of a thousand.

use std::ops::Deref;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};

use crate::schema::Schema;

/// Schemas whose rows the current one reads, ascending by version. Cheap to clone.
#[derive(Clone, Default)]
pub struct History(Arc<[Arc<Schema>]>);

impl History {
    /// `name` is the table's, in messages.
    ///
    /// Errors: `InvalidArgument`; `Unsupported` when a schema differs from the next one in more than columns
    /// added, dropped, moved, lengthened, widened or made nullable, or in the parts of an index that both have.
    pub fn new(name: &str, current: &Schema, mut older: Vec<Arc<Schema>>) -> Result<History> {
        older.sort_by_key(|old| old.version);
        History::default().followed_by(name, current, older)
    }

    /// The history of a later schema of the same table; `newer` are the schemas in between, ascending.
    pub fn followed_by(
        &self,
        name: &str,
        current: &Schema,
        newer: Vec<Arc<Schema>>,
    ) -> Result<History> {
        current.validate()?;
        let all: Vec<Arc<Schema>> = self.iter().cloned().chain(newer).collect();
        // Begin at the newest schema that was checked before.
        for n in self.len().saturating_sub(1)..all.len() {
            let (old, next) = (&*all[n], all.get(n + 1).map_or(current, |next| next));
            old.validate()?;
            next.check_reads(old).map_err(|e| {
                let (from, to) = (old.version, next.version);
                let what = format!("{name}: schema {from} to {to}: {}", e.message());
                Error::new(ErrorKind::Unsupported, what)
            })?;
        }
        Ok(History(all.into()))
    }
}

impl Deref for History {
    type Target = [Arc<Schema>];

    fn deref(&self) -> &[Arc<Schema>] {
        &self.0
    }
}
