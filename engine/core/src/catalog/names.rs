//! The catalog in memory: names to definitions.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result, TableId};

use crate::catalog::foreign::Foreigns;
use crate::catalog::key_statistics::KeyStatistics;
use crate::catalog::{CatalogRow, TableDef, FIRST_TABLE};

/// How the name of a table begins that is to take the place of another one (RB1).
pub(crate) const REBUILD_PREFIX: &str = "#rebuild#";

/// Whether a table of this name is to take the place of another one.
pub(crate) fn is_rebuild(name: &str) -> bool {
    name.starts_with(REBUILD_PREFIX)
}

/// All tables by name, and the next unused table number.
pub struct Names {
    by_name: BTreeSet<Named>,
    by_id: HashMap<TableId, Arc<TableDef>>,
    next: u32,
    pub(crate) foreigns: Foreigns,
    statistics: HashMap<TableId, Arc<KeyStatistics>>,
}

/// A definition in the order of its name.
struct Named(Arc<TableDef>);

impl Borrow<str> for Named {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Ord for Named {
    fn cmp(&self, other: &Named) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

impl PartialOrd for Named {
    fn partial_cmp(&self, other: &Named) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Named) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Named {}

impl Default for Names {
    fn default() -> Self {
        Names {
            by_name: BTreeSet::new(),
            by_id: HashMap::new(),
            next: FIRST_TABLE,
            foreigns: Foreigns::default(),
            statistics: HashMap::new(),
        }
    }
}

impl Names {
    pub fn get(&self, name: &str) -> Option<&Arc<TableDef>> {
        self.by_name.get(name).map(|named| &named.0)
    }

    pub fn by_id(&self, id: TableId) -> Option<&Arc<TableDef>> {
        self.by_id.get(&id)
    }

    /// What the catalog has of a table's indexes.
    pub fn statistics(&self, id: TableId) -> Option<&Arc<KeyStatistics>> {
        self.statistics.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.by_name.iter().map(|named| &named.0)
    }

    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The number that the next created table gets.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Whether a table of this number was ever created.
    pub fn was_given(&self, id: TableId) -> bool {
        id.0 < self.next
    }

    /// Applies one row of the system table. It cannot fail: the row may be durable already, and then the caller has to know
    /// the same tables as the next start will.
    pub fn apply(&mut self, row: CatalogRow) {
        match row {
            CatalogRow::NextTable(next) => self.next = self.next.max(next),
            CatalogRow::Foreign { table, name, definition } => {
                self.foreigns.apply(&table, &name, definition);
            }
            CatalogRow::Statistics { table, statistics: Some(statistics) } => {
                self.statistics.insert(table, statistics);
            }
            CatalogRow::Statistics { table, statistics: None } => {
                self.statistics.remove(&table);
            }
            CatalogRow::Table { name, definition: None } => {
                if let Some(Named(old)) = self.by_name.take(name.as_str()) {
                    // Another name may have got the number.
                    if self.by_id.get(&old.id).is_some_and(|def| def.name == name) {
                        self.by_id.remove(&old.id);
                    }
                }
            }
            CatalogRow::Table { definition: Some(def), .. } => {
                self.next = self.next.max(def.id.0.saturating_add(1));
                let id = def.id;
                self.by_id.insert(id, def.clone());
                if let Some(Named(old)) = self.by_name.replace(Named(def)) {
                    // TRUNCATE: the same name got a new number.
                    if old.id != id {
                        self.by_id.remove(&old.id);
                    }
                }
            }
        }
    }

    pub fn require(&self, name: &str) -> Result<Arc<TableDef>> {
        self.get(name)
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no table '{name}'")))
    }
}
