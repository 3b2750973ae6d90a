//! Converts a C table description to a schema.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use frond_base::{IndexNo, Result};
use frond_engine::{Compression, IndexDef, TableSpec};
use frond_row::{
    Coded, Codes, Column, ColumnType, Index, Part, PartPrefix, Schema, Sort, WeightLevel,
};

use crate::abi::*;
use crate::db::frond_db;
use crate::error::{guard, invalid};
use crate::pointers::{array, bytes, handle, put, text};
use crate::table::frond_table;

fn column_type(c: &frond_column_spec) -> Result<ColumnType> {
    let small =
        |n: u32| u8::try_from(n).map_err(|_| invalid("a parameter of a column type is above 255"));
    let (a, b) = (c.a, c.b);
    Ok(match c.r#type {
        FROND_INT => ColumnType::Int { unsigned: a != 0 },
        FROND_FLOAT => ColumnType::Float,
        FROND_DOUBLE => ColumnType::Double,
        FROND_DECIMAL => ColumnType::Decimal { precision: small(a)?, scale: small(b)? },
        FROND_YEAR => ColumnType::Year,
        FROND_DATE => ColumnType::Date,
        FROND_TIME => ColumnType::Time { fsp: small(a)? },
        FROND_DATETIME => ColumnType::DateTime { fsp: small(a)? },
        FROND_TIMESTAMP => ColumnType::Timestamp { fsp: small(a)? },
        FROND_OLD_DATE => ColumnType::OldDate,
        FROND_OLD_TIME => ColumnType::OldTime,
        FROND_OLD_DATETIME => ColumnType::OldDateTime,
        FROND_OLD_TIMESTAMP => ColumnType::OldTimestamp,
        FROND_OLD_TEMPORAL => ColumnType::OldTemporal,
        FROND_BIT => ColumnType::Bit { bits: small(a)? },
        FROND_ENUM => ColumnType::Enum,
        FROND_SET => ColumnType::Set,
        FROND_CHAR => ColumnType::Char,
        FROND_BINARY => ColumnType::Binary,
        FROND_VARCHAR => ColumnType::VarChar { length_bytes: small(a)? },
        FROND_BLOB => ColumnType::Blob { length_bytes: small(a)? },
        FROND_UUID => ColumnType::Uuid { swapped: a != 0 },
        FROND_INET6 => ColumnType::Inet6,
        FROND_INET4 => ColumnType::Inet4,
        FROND_OPAQUE => ColumnType::Opaque {
            key_bytes: a.try_into().map_err(|_| invalid("an opaque sort key is too long"))?,
        },
        n => return Err(invalid(&format!("column type {n} is unknown"))),
    })
}

fn codes(c: &frond_codes) -> Result<Arc<Codes>> {
    let coded = |n: usize| Coded {
        weight: c.weights[n],
        char: c.chars[n],
        both_cases: c.both_cases[n] != 0,
    };
    let count = usize::from(c.count);
    if count > c.weights.len() {
        return Err(invalid("a list of codes has 1 to 95 weights"));
    }
    let list: Vec<Coded> = (0..count).map(coded).collect();
    Codes::new(c.width, &list).map_err(|what| invalid(&what))
}

/// # Safety
/// A2 for the pointers inside.
unsafe fn column(n: usize, c: &frond_column_spec) -> Result<Column> {
    // SAFETY: A2.
    let name = unsafe { text(c.name, "column name") }?;
    let mut column = Column::new(name, column_type(c)?, c.bytes);
    column.id = n as u32;
    column.nullable = c.flags & FROND_NULLABLE != 0;
    column.stored = c.flags & FROND_VIRTUAL == 0;
    column.charset = c.charset;
    column.max_char_bytes = c.max_char_bytes;
    column.min_char_bytes = c.min_char_bytes;
    column.sort = match c.sort {
        FROND_SORT_BINARY => Sort::Binary,
        FROND_SORT_BINARY_PAD_SPACE => Sort::BinaryPadSpace,
        FROND_SORT_WEIGHTS => {
            let n = usize::from(c.level_count);
            if !(1..=8).contains(&n) {
                return Err(invalid("a collation has 1 to 8 levels"));
            }
            let level = |i: usize| {
                let len = usize::from(c.space_len[i]).min(4);
                WeightLevel::plain(c.levels[i], &c.space[i][..len])
            };
            let mut levels: Vec<_> = (0..n).map(level).collect();
            // SAFETY: A2.
            levels[0].codes = unsafe { c.codes.as_ref() }.map(codes).transpose()?;
            Sort::Weights(levels)
        }
        n => return Err(invalid(&format!("sort {n} is unknown"))),
    };
    Ok(column)
}

/// # Safety
/// A2 for the pointers inside.
unsafe fn index(n: usize, i: &frond_index_spec) -> Result<Index> {
    // SAFETY: A2.
    let (name, parts) =
        unsafe { (text(i.name, "index name")?, array(i.parts, i.part_count, "parts")?) };
    let small =
        |n: u32| u16::try_from(n).map_err(|_| invalid("a number in an index is above 65535"));
    let parts = parts.iter().map(|p| {
        let prefix = match p.prefix_bytes {
            0 => None,
            n => Some(PartPrefix { bytes: small(n)?, chars: small(p.prefix_chars)? }),
        };
        Ok(Part { column: small(p.column)?, prefix, descending: p.descending != 0 })
    });
    Ok(Index {
        tree: IndexNo::try_from(n).map_err(|_| invalid("too many indexes"))?,
        name: name.to_owned(),
        unique: i.unique != 0,
        clustering: i.clustering != 0,
        parts: parts.collect::<Result<_>>()?,
    })
}

/// The storage format of index `n`.
fn storage(n: usize, i: &frond_index_spec, schema: &Schema) -> Result<IndexDef> {
    let plain = IndexDef::plain();
    let level = i8::try_from(i.compression_level).unwrap_or(3);
    // An ascending primary key needs no filter (fences suffice), and ranges of a non-unique index cannot
    // use one.
    let ascending = n == 0 && (schema.hidden_primary || leads_with_auto_increment(schema));
    Ok(IndexDef {
        key_shape: schema.index_key_shape(n),
        filter: n == 0 && !ascending,
        page_bytes: if i.page_bytes == 0 { plain.page_bytes } else { i.page_bytes },
        compression: match i.compression {
            FROND_COMPRESSION_DEFAULT => plain.compression,
            FROND_COMPRESSION_NONE => Compression::None,
            FROND_COMPRESSION_LZ4 => Compression::Lz4,
            FROND_COMPRESSION_ZSTD => Compression::Zstd(if level == 0 { 3 } else { level }),
            n => return Err(invalid(&format!("compression {n} is unknown"))),
        },
        ..plain
    })
}

fn leads_with_auto_increment(schema: &Schema) -> bool {
    let first = schema.indexes[0].parts.first().map(|p| p.column);
    schema.auto_increment.is_some() && first == schema.auto_increment
}

/// A table description in the engine's types.
pub struct Described<'a> {
    pub schema: Schema,
    pub indexes: Vec<IndexDef>,
    pub meta: &'a [u8],
}

/// # Safety
/// A2 for the pointers inside.
pub unsafe fn described(spec: &frond_table_spec) -> Result<Described<'_>> {
    if spec.struct_size as usize != size_of::<frond_table_spec>() {
        return Err(invalid("spec.struct_size is not that of this release"));
    }
    // SAFETY: A2.
    let (columns, indexes, meta) = unsafe {
        (
            array(spec.columns, spec.column_count, "columns")?,
            array(spec.indexes, spec.index_count, "indexes")?,
            bytes(spec.meta, spec.meta_len, "meta")?,
        )
    };
    // SAFETY: A2 for the names inside.
    let make_column = |(n, c): (usize, &frond_column_spec)| unsafe { column(n, c) };
    // SAFETY: A2 for the names and parts inside.
    let make_index = |(n, i): (usize, &frond_index_spec)| unsafe { index(n, i) };
    let schema = Schema {
        version: 1,
        columns: columns.iter().enumerate().map(make_column).collect::<Result<_>>()?,
        indexes: indexes.iter().enumerate().map(make_index).collect::<Result<_>>()?,
        hidden_primary: spec.hidden_primary != 0,
        auto_increment: u16::try_from(spec.auto_increment_column).ok(),
    };
    schema.validate()?;
    let stored = indexes.iter().enumerate().map(|(n, i)| storage(n, i, &schema));
    let indexes = stored.collect::<Result<_>>()?;
    Ok(Described { schema, indexes, meta })
}

/// The engine's description of a new table.
///
/// # Safety
/// A2 for both and for what is inside.
pub(crate) unsafe fn table_spec(
    name: *const c_char,
    spec: *const frond_table_spec,
) -> Result<TableSpec> {
    // SAFETY: A2.
    let (name, spec) = unsafe { (text(name, "name")?, handle(spec, "spec")?) };
    // SAFETY: A2.
    let Described { schema, indexes, meta } = unsafe { described(spec) }?;
    let mut encoded = Vec::new();
    schema.encode(&mut encoded);
    Ok(TableSpec {
        name: name.to_owned(),
        indexes,
        schema: encoded,
        meta: meta.to_vec(),
        auto_increment: spec.auto_increment,
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_create(
    db: *mut frond_db,
    name: *const c_char,
    spec: *const frond_table_spec,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, spec) = unsafe { (handle(db, "db")?, table_spec(name, spec)?) };
        db.engine.create_table(spec)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_table_meta(
    table: *mut frond_table,
    meta: *mut *const u8,
    len: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") }?;
        // SAFETY: A2; the definition lives as long as the handle.
        unsafe {
            put(meta, table.def.meta.as_ptr(), "meta")?;
            put(len, table.def.meta.len(), "len")?;
        }
        Ok(FROND_OK)
    })
}

/// Changes the schema's names; false when it has them already.
fn rename(schema: &mut Schema, columns: &[&str], indexes: &[&str]) -> Result<bool> {
    if columns.len() != schema.columns.len() || indexes.len() != schema.indexes.len() {
        return Err(invalid("the table has other columns or indexes than the description"));
    }
    let mut changed = false;
    let mut set = |name: &mut String, new: &str| {
        if name != new {
            *name = new.to_owned();
            changed = true;
        }
    };
    schema.columns.iter_mut().zip(columns).for_each(|(c, new)| set(&mut c.name, new));
    schema.indexes.iter_mut().zip(indexes).for_each(|(i, new)| set(&mut i.name, new));
    Ok(changed)
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_rename(
    table: *mut frond_table,
    spec: *const frond_table_spec,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (table, spec) = unsafe { (handle(table, "table")?, handle(spec, "spec")?) };
        if spec.struct_size as usize != size_of::<frond_table_spec>() {
            return Err(invalid("spec.struct_size is not that of this release"));
        }
        // SAFETY: A2.
        let (columns, indexes, meta) = unsafe {
            (
                array(spec.columns, spec.column_count, "columns")?,
                array(spec.indexes, spec.index_count, "indexes")?,
                bytes(spec.meta, spec.meta_len, "meta")?,
            )
        };
        // SAFETY: A2 for the names inside.
        let column_name = |c: &frond_column_spec| unsafe { text(c.name, "column name") };
        // SAFETY: A2 for the names inside.
        let index_name = |i: &frond_index_spec| unsafe { text(i.name, "index name") };
        let columns = columns.iter().map(column_name).collect::<Result<Vec<_>>>()?;
        let indexes = indexes.iter().map(index_name).collect::<Result<Vec<_>>>()?;
        let def = table.table.def();
        let mut schema = Schema::decode(&def.schema, &def.name)?;
        if rename(&mut schema, &columns, &indexes)? || def.meta != meta {
            let mut encoded = Vec::new();
            schema.encode(&mut encoded);
            table.engine.set_schema(&def.name, encoded, meta.to_vec())?;
        }
        Ok(FROND_OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Schema {
        let column = |id, name: &str| Column {
            id,
            ..Column::new(name, ColumnType::Int { unsigned: false }, 4)
        };
        let part = |column| Part { column, prefix: None, descending: false };
        let index = |name: &str, tree: IndexNo, column| Index {
            name: name.into(),
            tree,
            parts: vec![part(column)],
            unique: false,
            clustering: false,
        };
        Schema {
            version: 1,
            columns: vec![column(0, "a"), column(1, "b")],
            indexes: vec![index("PRIMARY", 0, 0), index("k", 1, 1)],
            hidden_primary: false,
            auto_increment: None,
        }
    }

    #[test]
    fn renaming_changes_names_alone() {
        let mut schema = sample();
        assert!(!rename(&mut schema, &["a", "b"], &["PRIMARY", "k"]).unwrap());
        assert_eq!(schema, sample());
        assert!(rename(&mut schema, &["a", "c"], &["PRIMARY", "k"]).unwrap());
        assert!(rename(&mut schema, &["a", "c"], &["PRIMARY", "l"]).unwrap());
        assert_eq!((schema.columns[1].name.as_str(), schema.indexes[1].name.as_str()), ("c", "l"));
        let expected = sample();
        schema.columns[1].name = "b".into();
        schema.indexes[1].name = "k".into();
        assert_eq!(schema, expected);
    }

    #[test]
    fn renaming_refuses_another_number_of_columns_or_indexes() {
        assert!(rename(&mut sample(), &["a"], &["PRIMARY", "k"]).is_err());
        assert!(rename(&mut sample(), &["a", "b"], &["PRIMARY"]).is_err());
    }
}
