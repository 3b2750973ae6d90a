//! Foreign keys in the catalog: their rows in the system table, and all of them in memory.
//!
//! | key | value |
//! |-----|-------|
//! | `F` child-table NUL name | version (1), state, on delete, on update: one varint each; parent table; number of columns; per column its name in the child and in the parent. Names: length and bytes |
//!
//! Both tables are known by name: a parent may be missing, and its number changes when it is truncated
//! or replaced by a copy. Rejected: constraints in the definitions of both tables. A RENAME of a
//! parent would have to write its children's definitions, and a constraint whose parent is missing
//! has only one table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frond_base::{put_bytes, put_varint, ByteReader, Error, ErrorKind, Result, ShortInput};

pub(crate) const FOREIGN_PREFIX: u8 = b'F';
const FOREIGN_VERSION: u64 = 1;
/// The most columns of a foreign key; MariaDB's limit for an index is lower.
pub const FOREIGN_COLUMNS_MAX: usize = 64;
/// The longest name of a table, in bytes: as in the catalog.
const TABLE_BYTES_MAX: usize = 1024;
/// The longest name of a constraint or column, in bytes.
const PART_BYTES_MAX: usize = 1024;

/// What happens to child rows when their parent row goes or gets another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The change of the parent is refused.
    Restrict,
    /// As `Restrict`: rows are checked at once, not at the end of the statement.
    NoAction,
    /// Child rows go, or get the new key.
    Cascade,
    /// The child's columns become NULL.
    SetNull,
}

/// Where a constraint is between an ALTER TABLE's copy and its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForeignState {
    /// Enforced.
    Active,
    /// The child is a copy that is being filled, and the table that it will replace has no such constraint. Its rows are checked; parents of rows copied
    /// already can be neither deleted nor changed, whatever the actions say.
    Adding,
    /// The child stands beside the table that has the constraint: not enforced.
    Waiting,
    /// The child is given the constraint in place: rows that are written are checked. This state and the next one are in memory only (AF1).
    Checking,
    /// As `Checking`, when all rows can be found by the constraint's columns: parents of rows can be neither deleted nor changed.
    Guarding,
}

impl ForeignState {
    /// Whether the catalog on disk has no such constraint.
    pub fn is_in_memory(self) -> bool {
        matches!(self, ForeignState::Checking | ForeignState::Guarding)
    }
}

/// A foreign key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// Unique among the active ones; a server writes `database/name`.
    pub name: String,
    /// The child.
    pub table: String,
    pub parent: String,
    /// Columns of the child, and the parent's columns that they refer to, in the same order.
    pub columns: Vec<String>,
    pub parent_columns: Vec<String>,
    pub on_delete: Action,
    pub on_update: Action,
    pub state: ForeignState,
}

/// Key of a constraint's row in the system table.
pub(crate) fn foreign_key(table: &str, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + table.len() + name.len());
    key.push(FOREIGN_PREFIX);
    key.extend_from_slice(table.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

fn action_of(n: u64) -> Option<Action> {
    [Action::Restrict, Action::NoAction, Action::Cascade, Action::SetNull]
        .into_iter()
        .find(|a| *a as u64 == n)
}

fn state_of(n: u64) -> Option<ForeignState> {
    [ForeignState::Active, ForeignState::Adding, ForeignState::Waiting]
        .into_iter()
        .find(|s| *s as u64 == n)
}

impl Foreign {
    /// The same constraint of another table, or in another state.
    pub(crate) fn moved(&self, table: &str, state: ForeignState) -> Foreign {
        Foreign { table: table.to_owned(), state, ..self.clone() }
    }

    /// Key of its row in the system table, with the prefix.
    pub fn key(&self) -> Vec<u8> {
        foreign_key(&self.table, &self.name)
    }

    /// Refuses what the catalog cannot store.
    pub fn validate(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::new(ErrorKind::InvalidArgument, what));
        let bad_table = |t: &str| t.is_empty() || t.len() > TABLE_BYTES_MAX || t.contains('\0');
        let bad_name = |n: &String| n.is_empty() || n.len() > PART_BYTES_MAX || n.contains('\0');
        if bad_table(&self.table) || bad_table(&self.parent) {
            return refuse("a foreign key names a table by 1 to 1024 bytes without NUL");
        }
        if bad_name(&self.name) || self.columns.iter().chain(&self.parent_columns).any(bad_name) {
            return refuse("names in a foreign key have 1 to 1024 bytes without NUL");
        }
        let n = self.columns.len();
        if n != self.parent_columns.len() || !(1..=FOREIGN_COLUMNS_MAX).contains(&n) {
            return refuse("a foreign key has 1 to 64 columns, and as many of its parent");
        }
        Ok(())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, FOREIGN_VERSION);
        put_varint(&mut out, self.state as u64);
        put_varint(&mut out, self.on_delete as u64);
        put_varint(&mut out, self.on_update as u64);
        put_bytes(&mut out, self.parent.as_bytes());
        put_varint(&mut out, self.columns.len() as u64);
        for (own, of_parent) in self.columns.iter().zip(&self.parent_columns) {
            put_bytes(&mut out, own.as_bytes());
            put_bytes(&mut out, of_parent.as_bytes());
        }
        out
    }

    /// Decodes a row; `key` is its key without the prefix, `value` is `None` for a deleted row.
    ///
    /// # Errors
    /// `Corruption`, or `UnsupportedFormat` for a newer version.
    pub fn decode_row(
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(String, String, Option<Foreign>)> {
        let (table, name) = Foreign::split_key(key).ok_or_else(|| {
            Error::corruption("catalog (0.frd)", "the key of a foreign key is unreadable")
        })?;
        let foreign = value.map(|v| Foreign::decode(&table, &name, v)).transpose()?;
        Ok((table, name, foreign))
    }

    /// Decodes the row of the constraint `name` of `table`.
    pub fn decode(table: &str, name: &str, bytes: &[u8]) -> Result<Foreign> {
        let place = format!("foreign key '{name}' of table '{table}'");
        let foreign = decode_foreign(table, name, bytes)
            .map_err(|e| e.in_file("catalog (0.frd)", &place))?
            .map_err(|what| Error::new(ErrorKind::UnsupportedFormat, format!("{place}: {what}")))?;
        foreign.validate().map_err(|e| Error::corruption("catalog (0.frd)", e))?;
        Ok(foreign)
    }

    /// Table and name of a row's key, behind its prefix.
    fn split_key(key: &[u8]) -> Option<(String, String)> {
        let at = key.iter().position(|b| *b == 0)?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some((text(&key[..at])?, text(&key[at + 1..])?))
    }
}

type Understood<T> = std::result::Result<T, String>;

fn decode_foreign(
    table: &str,
    name: &str,
    bytes: &[u8],
) -> std::result::Result<Understood<Foreign>, ShortInput> {
    let mut r = ByteReader::new(bytes);
    let version = r.varint()?;
    if version != FOREIGN_VERSION {
        return Ok(Err(format!("version {version} is not known to this release")));
    }
    let (state, on_delete, on_update) = (r.varint()?, r.varint()?, r.varint()?);
    let (Some(state), Some(on_delete), Some(on_update)) =
        (state_of(state), action_of(on_delete), action_of(on_update))
    else {
        return Ok(Err("a state or action is not known to this release".into()));
    };
    let text = |r: &mut ByteReader<'_>| {
        let at = r.position();
        let bytes = r.bytes()?.to_vec();
        String::from_utf8(bytes).map_err(|_| ShortInput { at })
    };
    let parent = text(&mut r)?;
    let n = r.bounded_len()?;
    let (mut columns, mut parent_columns) = (Vec::new(), Vec::new());
    for _ in 0..n {
        columns.push(text(&mut r)?);
        parent_columns.push(text(&mut r)?);
    }
    if r.remaining() != 0 {
        return Err(ShortInput { at: r.position() });
    }
    Ok(Ok(Foreign {
        name: name.to_owned(),
        table: table.to_owned(),
        parent,
        columns,
        parent_columns,
        on_delete,
        on_update,
        state,
    }))
}

/// All constraints, by child and by parent.
#[derive(Default)]
pub struct Foreigns {
    by_table: BTreeMap<String, BTreeMap<String, Arc<Foreign>>>,
    /// Child and name.
    by_parent: BTreeMap<String, BTreeSet<(String, String)>>,
}

impl Foreigns {
    /// Constraints of the child `table`, by name.
    pub fn of(&self, table: &str) -> Vec<Arc<Foreign>> {
        self.by_table.get(table).map(|of| of.values().cloned().collect()).unwrap_or_default()
    }

    /// Constraints that name `parent`, by child and name.
    pub fn naming(&self, parent: &str) -> Vec<Arc<Foreign>> {
        let Some(children) = self.by_parent.get(parent) else { return Vec::new() };
        children.iter().filter_map(|(table, name)| self.get(table, name)).cloned().collect()
    }

    pub fn get(&self, table: &str, name: &str) -> Option<&Arc<Foreign>> {
        self.by_table.get(table)?.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Foreign>> {
        self.by_table.values().flat_map(BTreeMap::values)
    }

    /// Whether a constraint names the table, as child or as parent.
    pub fn mention(&self, table: &str) -> bool {
        self.by_table.contains_key(table) || self.by_parent.contains_key(table)
    }

    /// Applies one row; `foreign` is `None` for a deleted one.
    pub(crate) fn apply(&mut self, table: &str, name: &str, foreign: Option<Foreign>) {
        if let Some(old) = self.get(table, name).cloned() {
            let child = (table.to_owned(), name.to_owned());
            if let Some(children) = self.by_parent.get_mut(&old.parent) {
                children.remove(&child);
                if children.is_empty() {
                    self.by_parent.remove(&old.parent);
                }
            }
            if let Some(of) = self.by_table.get_mut(table) {
                of.remove(name);
                if of.is_empty() {
                    self.by_table.remove(table);
                }
            }
        }
        let Some(foreign) = foreign else { return };
        let child = (table.to_owned(), name.to_owned());
        self.by_parent.entry(foreign.parent.clone()).or_default().insert(child);
        self.by_table
            .entry(table.to_owned())
            .or_default()
            .insert(name.to_owned(), Arc::new(foreign));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Foreign {
        Foreign {
            name: "shop/orders_ibfk_1".into(),
            table: "shop/orders".into(),
            parent: "shop/customers".into(),
            columns: vec!["customer".into(), "country".into()],
            parent_columns: vec!["id".into(), "land".into()],
            on_delete: Action::Cascade,
            on_update: Action::SetNull,
            state: ForeignState::Active,
        }
    }

    #[test]
    fn constraint_round_trips() {
        let f = sample();
        let key = f.key();
        let (table, name, again) = Foreign::decode_row(&key[1..], Some(&f.encode())).unwrap();
        assert_eq!((table, name, again), (f.table.clone(), f.name.clone(), Some(f)));
    }

    #[test]
    fn cut_constraint_is_corruption_and_a_newer_one_unsupported() {
        let bytes = sample().encode();
        for cut in 0..bytes.len() {
            let e = Foreign::decode("t", "c", &bytes[..cut]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "cut at {cut}: {e}");
        }
        let mut newer = bytes.clone();
        newer[0] = 9;
        let e = Foreign::decode("t", "c", &newer).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::UnsupportedFormat);
        let mut longer = bytes;
        longer.push(0);
        assert!(Foreign::decode("t", "c", &longer).is_err());
    }

    #[test]
    fn constraints_are_found_from_both_sides_until_they_are_dropped() {
        let mut all = Foreigns::default();
        let f = sample();
        all.apply(&f.table, &f.name, Some(f.clone()));
        assert_eq!(all.of("shop/orders").len(), 1);
        assert_eq!(*all.naming("shop/customers")[0], f);
        let other = Foreign { parent: "shop/people".into(), ..f.clone() };
        all.apply(&f.table, &f.name, Some(other));
        assert!(all.naming("shop/customers").is_empty() && !all.mention("shop/customers"));
        assert_eq!(all.naming("shop/people").len(), 1);
        all.apply(&f.table, &f.name, None);
        assert!(!all.mention("shop/orders") && !all.mention("shop/people"));
        assert_eq!(all.iter().count(), 0);
    }
}
