//! The columns that a scan takes from entries and from rows, for a set of wanted columns. The last sets are kept: the
//! statements on a table take turns, and compiling a set costs more than reading a row.

use frond_row::{Projection, RowCodec};

/// Sets that a scan keeps.
const KEPT: usize = 6;

/// The projections of one set of columns.
pub(super) struct Columns {
    set: Vec<bool>,
    /// Those taken from the index entry.
    pub from_entry: Projection,
    /// Those taken from the row, where that is not the entry.
    of_row: Option<Projection>,
    /// Those that are not stored in rows: taken from the entry before the others come from the row.
    pub not_in_rows: Option<Projection>,
}

impl Columns {
    fn compile(codec: &RowCodec, index: usize, set: Vec<bool>) -> Columns {
        let is_in = |c: usize| set.get(c) == Some(&true);
        let apart =
            |c: usize| is_in(c) && !codec.schema().columns[c].stored && codec.covers(index, c);
        let any = index != 0 && (0..set.len()).any(apart);
        Columns {
            from_entry: codec.project(index, is_in),
            of_row: (index != 0).then(|| codec.project(0, is_in)),
            not_in_rows: any.then(|| codec.project(index, apart)),
            set,
        }
    }

    pub fn of_row(&self) -> &Projection {
        self.of_row.as_ref().unwrap_or(&self.from_entry)
    }
}

/// The sets that were chosen last, the current one first.
pub(super) struct ColumnSets(Vec<Columns>);

impl ColumnSets {
    pub fn all(codec: &RowCodec, index: usize) -> ColumnSets {
        ColumnSets(vec![Columns::compile(codec, index, vec![true; codec.columns()])])
    }

    pub fn now(&self) -> &Columns {
        &self.0[0]
    }

    /// Always with the codec and index of the first set.
    pub fn choose(&mut self, codec: &RowCodec, index: usize, wanted: impl Fn(usize) -> bool) {
        let is_wanted = |c: &Columns| c.set.iter().enumerate().all(|(at, is)| *is == wanted(at));
        match self.0.iter().position(is_wanted) {
            Some(at) => self.0[..=at].rotate_right(1),
            None => {
                let set = (0..codec.columns()).map(wanted).collect();
                self.0.truncate(KEPT - 1);
                self.0.insert(0, Columns::compile(codec, index, set));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_row::{
        Column, ColumnType, History, Index, Part, PlainSortKeys, RecordLayout, Schema,
    };

    use super::*;

    /// Eight numbers; the first is the primary key, the second has an index.
    fn codec() -> RowCodec {
        let column = |id| Column { id, ..Column::new("", ColumnType::Int { unsigned: false }, 8) };
        let index = |n: u16| Index {
            tree: n,
            name: format!("k{n}"),
            unique: n == 0,
            clustering: false,
            parts: vec![Part { column: n, prefix: None, descending: false }],
        };
        let columns = (0..8).map(|id| Column { name: format!("c{id}"), ..column(id) }).collect();
        let indexes = vec![index(0), index(1)];
        let schema =
            Schema { version: 1, columns, indexes, hidden_primary: false, auto_increment: None };
        let layout = RecordLayout::compact(&schema);
        let (history, sort) = (History::default(), Arc::new(PlainSortKeys));
        RowCodec::bind("t", Arc::new(schema), layout, history, sort).unwrap()
    }

    #[test]
    fn sets_that_come_again_are_kept_and_each_has_its_own_projections() {
        let codec = codec();
        for index in 0..2 {
            let mut sets = ColumnSets::all(&codec, index);
            let mut choose = |bits: usize| {
                sets.choose(&codec, index, |c| bits >> c & 1 == 1);
                let now = sets.now();
                let missing = now.from_entry.missing().iter().fold(0, |all, c| all | 1 << c);
                let covered = if index == 0 { 255 } else { 3 };
                assert_eq!(missing, bits & !covered, "{index} {bits:b}");
                assert!(now.of_row().missing().is_empty());
                (&raw const *now.from_entry.missing(), sets.0.len())
            };
            let kept: Vec<_> = (0..KEPT - 1).map(|n| choose(0b1100_0100 | n << 3)).collect();
            assert_eq!(kept.last().map(|k| k.1), Some(KEPT));
            for (n, before) in kept.iter().enumerate() {
                let again = choose(0b1100_0100 | n << 3);
                // The memory of an empty list is nowhere.
                assert_eq!(again, (before.0, KEPT), "the set is compiled once");
            }
            assert_eq!((choose(2).1, choose(4).1), (KEPT, KEPT));
        }
    }
}
