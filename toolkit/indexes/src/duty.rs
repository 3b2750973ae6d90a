//! Reasons for which a key must stay even if nothing reads it (IX1).

use std::collections::HashMap;

use crate::model::{ForeignKey, Key, KeyKind, Table};

/// A foreign key, of this or another table, that needs an index on columns of this table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    columns: Vec<String>,
    what: String,
}

/// Foreign keys by the table that they refer to. The server decides whether names of tables differ in case; here they are
/// compared without case.
#[derive(Debug)]
pub struct Parents<'a>(HashMap<(String, String), Vec<(&'a Table, &'a ForeignKey)>>);

impl<'a> Parents<'a> {
    pub fn of(all: &'a [Table]) -> Parents<'a> {
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        for table in all {
            for key in &table.foreign {
                let parent = (key.parent_db.to_lowercase(), key.parent.to_lowercase());
                found.entry(parent).or_default().push((table, key));
            }
        }
        Parents(found)
    }
}

/// The reasons of one table.
#[derive(Clone, Debug, Default)]
pub struct Duties {
    needs: Vec<Need>,
    /// The UNIQUE key by which a clustered engine stores the rows of a table without a primary key: without it, all other
    /// keys end with other columns.
    clustering: Option<String>,
}

impl Duties {
    /// `parents` has the foreign keys of all tables.
    pub fn of(table: &Table, parents: &Parents<'_>) -> Duties {
        let mut needs: Vec<Need> = table
            .foreign
            .iter()
            .map(|key| Need {
                columns: key.columns.clone(),
                what: match &key.name {
                    Some(name) => format!("the foreign key {name}"),
                    None => format!("the foreign key on {}", key.columns.join(", ")),
                },
            })
            .collect();
        let name = (table.db.to_lowercase(), table.name.to_lowercase());
        needs.extend(parents.0.get(&name).into_iter().flatten().map(|(other, key)| Need {
            columns: key.parent_columns.clone(),
            what: format!("a foreign key of {}", other.full_name()),
        }));
        if let Some(column) = &table.auto_increment {
            // Without a key that begins with the column, engines without a clustered key count within the columns before it.
            let ordered = || table.keys.iter().filter(|key| key.is_ordered());
            let place = |key: &Key| key.parts.iter().position(|part| part.is_column(column));
            let first = ordered().any(|key| place(key) == Some(0));
            for (key, n) in ordered().filter_map(|key| Some((key, place(key)?))) {
                if n == 0 || !first {
                    needs.push(Need {
                        columns: key.parts[..=n].iter().map(|part| part.column.clone()).collect(),
                        what: format!("the AUTO_INCREMENT column {column}"),
                    });
                }
            }
        }
        let clustering = table.clustering_key().filter(|_| table.is_clustered());
        Duties { needs, clustering: clustering.map(|key| key.name.clone()) }
    }

    /// Why `key` cannot go while only `others` stay; `None` if it can.
    pub fn held(&self, key: &Key, others: &[&Key]) -> Option<String> {
        if key.kind == KeyKind::Primary {
            return Some("the primary key".into());
        }
        if self.clustering.as_ref() == Some(&key.name) {
            return Some("the order of the rows".into());
        }
        if key.without_overlaps {
            return Some("the constraint WITHOUT OVERLAPS".into());
        }
        if key.is_unique() && !others.iter().any(|other| covers_constraint(other, key)) {
            return Some("its uniqueness".into());
        }
        let lost = |need: &&Need| {
            serves(key, &need.columns) && !others.iter().any(|other| serves(other, &need.columns))
        };
        self.needs.iter().find(lost).map(|need| need.what.clone())
    }
}

/// Whether a foreign key (or AUTO_INCREMENT) on `columns` can use `key`: its first parts are these columns, whole and
/// in order.
fn serves(key: &Key, columns: &[String]) -> bool {
    key.is_ordered()
        && !columns.is_empty()
        && key.parts.len() >= columns.len()
        && columns
            .iter()
            .zip(&key.parts)
            .all(|(column, part)| part.prefix.is_none() && part.is_column(column))
}

/// Whether `other`, which is UNIQUE, already forbids all rows that `key` forbids; then the uniqueness of
/// `key` adds nothing.
pub(crate) fn covers_constraint(other: &Key, key: &Key) -> bool {
    other.is_unique()
        && !other.without_overlaps
        && !other.parts.is_empty()
        && other.parts.iter().all(|theirs| {
            key.parts.iter().any(|part| {
                part.same_column(theirs)
                    && match (part.prefix, theirs.prefix) {
                        (None, _) => true,
                        (Some(_), None) => false,
                        (Some(a), Some(b)) => a >= b,
                    }
            })
        })
}
