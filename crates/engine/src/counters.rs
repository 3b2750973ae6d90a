//! What a table's keys say of the numbers that it hands out, for when it is loaded.
//!
//! Counters come from the image and the log, and are right where those are. A next row id that is too small
//! must not be taken on trust all the same: rows without a primary key are written without looking, so one
//! would take another's place. Keys in use bound both counters from below, and the largest key of a tree is
//! known from memory.
//!
//! - N1. After loading, the next row id exceeds every one in use, and the next AUTO_INCREMENT value every one
//!   in use where an ascending index begins with it. Where it ends a key or descends, uniqueness is left to
//!   refuse a value given twice.
//! - N2. Next row ids are below [`NEXT_MAX`]: they do not run out, and adding does not wrap.
//!
//! What was deleted does not count for AUTO_INCREMENT, which the user may have set back.
//!
//! Tested by `tests/it/counters.rs` and, with forged images, by the tests of `frond-cli`.

use std::sync::atomic::Ordering;

use frond_base::{Error, Result, SEQ_MAX};
use frond_row::{ColumnType, Index, Schema};
use frond_tree::{Bounds, Tree};

use crate::table::Table;

/// More than any table hands out.
pub const NEXT_MAX: u64 = 1 << 62;

/// Brings the counters of a table that was loaded up to its keys (N1).
pub fn raise(table: &Table) -> Result<()> {
    let def = table.def();
    // Tables of plain keys and values hand out nothing; a schema that is damaged is for its reader to say.
    let Ok(schema) = Schema::decode(&def.schema, &def.name) else { return Ok(()) };
    if schema.indexes.iter().any(|i| usize::from(i.tree) >= table.trees().len()) {
        return Ok(());
    }
    let mut key = Vec::new();
    if schema.hidden_primary && table.tree(0).last_key(&mut key)? {
        let largest = first_word(&key);
        if largest >= NEXT_MAX {
            let what = format_args!("table '{}': row id {largest} is impossible", def.name);
            return Err(Error::corruption(table.store().file_name(), what));
        }
        table.counters().row_id.fetch_max(largest + 1, Ordering::Relaxed);
    }
    let Some(column) = schema.auto_increment else { return Ok(()) };
    let Some(index) = schema.indexes.iter().find(|i| leads_with(i, column)) else { return Ok(()) };
    let column = &schema.columns[usize::from(column)];
    let ColumnType::Int { unsigned } = column.ty else { return Ok(()) };
    let bytes = column.bytes as usize;
    let tree = table.tree(index.tree);
    let next = table.auto_increment();
    if tree.last_key(&mut key)? && value(&key, bytes, unsigned) >= next && last(tree, &mut key)? {
        let largest = value(&key, bytes, unsigned);
        table.counters().auto_increment.fetch_max(largest.saturating_add(1), Ordering::Relaxed);
    }
    Ok(())
}

fn leads_with(index: &Index, column: u16) -> bool {
    index.parts.first().is_some_and(|p| p.column == column && !p.descending && p.prefix.is_none())
}

/// The largest key that is in use.
fn last(tree: &Tree, key: &mut Vec<u8>) -> Result<bool> {
    let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
    let found = cursor.last()?;
    if found {
        key.clear();
        key.extend_from_slice(cursor.key());
    }
    Ok(found)
}

/// The first eight bytes of a key as a number; bytes that a key cut short does not have are zero.
fn first_word(key: &[u8]) -> u64 {
    let mut word = [0; 8];
    let n = key.len().min(8);
    word[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(word)
}

/// The value of an integer column of `bytes` bytes at the front of a key; 0 for negative ones.
fn value(key: &[u8], bytes: usize, unsigned: bool) -> u64 {
    let shift = 64 - 8 * bytes;
    let word = first_word(key);
    if unsigned {
        return word >> shift;
    }
    (((word ^ 1 << 63) as i64) >> shift).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_the_front_of_a_key() {
        assert_eq!(value(&[0x80, 0, 0, 5, 9, 9], 4, false), 5);
        assert_eq!(value(&[0x7f, 0xff, 0xff, 0xff], 4, false), 0, "-1");
        assert_eq!(value(&[0xff], 1, false), 127);
        assert_eq!(value(&[0xff, 3], 1, true), 255);
        assert_eq!(value(&[1, 2, 3], 3, true), 0x010203);
        assert_eq!(value(&[0xff; 8], 8, true), u64::MAX);
        assert_eq!(value(&[0xff; 8], 8, false), i64::MAX as u64);
    }
}
