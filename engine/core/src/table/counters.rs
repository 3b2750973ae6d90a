//! What a table's keys say of the numbers that it hands out, for when it is loaded.
//!
//! Counters come from the image and the log, and are right where those are. A next row id that is too small
//! must not be taken on trust all the same: rows without a primary key are written without looking, so one
//! would take another's place. Keys in use bound both counters from below, and bounds of a tree's keys
//! are known from memory: pages are read only where they say that a counter is too small.
//!
//! - N1. After loading, the next row id exceeds every one in use, and the next AUTO_INCREMENT value every one
//!   in use where an index begins with it, ascending or descending. (The server asks for such an index.)
//! - N2. Next row ids are below [`NEXT_MAX`]: they do not run out, and adding does not wrap.
//!
//! What was deleted does not count for AUTO_INCREMENT, which the user may have set back.
//!
//! Tested by `tests/it/counters.rs` and, with forged images, by the tests of `frond-cli`.

use std::sync::atomic::Ordering;

use frond_base::{Error, IndexNo, Result, SEQ_MAX};
use frond_row::{ColumnType, Schema};
use frond_tree::{Bounds, Tree};

use crate::record::NEXT_MAX;
use crate::table::Table;

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
    let Some((tree, order)) = leading(&schema, column) else { return Ok(()) };
    let column = &schema.columns[usize::from(column)];
    let ColumnType::Int { unsigned } = column.ty else { return Ok(()) };
    let (tree, bytes) = (table.tree(tree), column.bytes as usize);
    let largest = |key: &[u8]| value(key, bytes, unsigned, order);
    let bounded = match order {
        Order::Ascending => tree.last_key(&mut key)?,
        Order::Descending => tree.first_key(&mut key)?,
    };
    if bounded && largest(&key) >= table.auto_increment() && in_use(tree, order, &mut key)? {
        let next = largest(&key).saturating_add(1);
        table.counters().auto_increment.fetch_max(next, Ordering::Relaxed);
    }
    Ok(())
}

/// Of the values in an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Ascending,
    Descending,
}

/// The tree of an index that begins with the whole of `column`.
fn leading(schema: &Schema, column: u16) -> Option<(IndexNo, Order)> {
    if schema.columns[usize::from(column)].nullable {
        return None;
    }
    schema.indexes.iter().find_map(|index| {
        let first = index.parts.first()?;
        let order = if first.descending { Order::Descending } else { Order::Ascending };
        (first.column == column && first.prefix.is_none()).then_some((index.tree, order))
    })
}

/// The key in use at the end where the largest values are.
fn in_use(tree: &Tree, order: Order, key: &mut Vec<u8>) -> Result<bool> {
    let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
    let found = match order {
        Order::Ascending => cursor.last()?,
        Order::Descending => cursor.first()?,
    };
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

/// The value of an integer column of `bytes` bytes at the front of a key; 0 for negative ones. Of a key that
/// was cut short, not below the largest value that it bounds.
fn value(key: &[u8], bytes: usize, unsigned: bool, order: Order) -> u64 {
    let shift = 64 - 8 * bytes;
    let word = match order {
        Order::Ascending => first_word(key),
        Order::Descending => !first_word(key),
    };
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
        for (key, bytes, unsigned, expected) in [
            (&[0x80, 0, 0, 5, 9, 9][..], 4, false, 5),
            // -1
            (&[0x7f, 0xff, 0xff, 0xff], 4, false, 0),
            (&[0xff], 1, false, 127),
            (&[0xff, 3], 1, true, 255),
            (&[1, 2, 3], 3, true, 0x010203),
            (&[0xff; 8], 8, true, u64::MAX),
            (&[0xff; 8], 8, false, i64::MAX as u64),
        ] {
            assert_eq!(value(key, bytes, unsigned, Order::Ascending), expected);
            let inverted: Vec<u8> = key.iter().map(|b| !b).collect();
            assert_eq!(value(&inverted, bytes, unsigned, Order::Descending), expected);
        }
    }

    #[test]
    fn keys_cut_short_bound_the_values() {
        // Keys below 0x8000_0006, and from the inversion of that on.
        assert_eq!(value(&[0x80, 0, 0, 6], 8, false, Order::Ascending), 6 << 32);
        assert_eq!(value(&[0x7f, 0xff, 0xff, 0xf9], 8, false, Order::Descending), (7 << 32) - 1);
    }
}
