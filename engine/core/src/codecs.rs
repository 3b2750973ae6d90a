//! Codecs of tables with the same definition share what they are made of.
//!
//! So do the partitions of a table, whose server opens all of them for each connection: a statement that writes to a thousand finds
//! their common codec in the processor's cache, and it takes the memory of one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use frond_row::RowCodec;
use parking_lot::Mutex;

/// See the module.
#[derive(Default)]
pub struct Codecs {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// One codec for each definition, by a checksum of that.
    by_definition: HashMap<u64, Weak<RowCodec>>,
    /// At this many, those that nobody uses are removed.
    most: usize,
}

/// Not worth a search for unused ones.
const FEW: usize = 64;

impl Codecs {
    /// `codec`, made from the definition `schema`; with the parts of an older one if these are the same.
    pub fn share(&self, schema: &[u8], mut codec: RowCodec) -> Arc<RowCodec> {
        let mut kept = self.kept.lock();
        let number = frond_base::checksum64(schema);
        let other = kept.by_definition.get(&number).and_then(Weak::upgrade);
        if other.is_some_and(|other| codec.share(&other)) {
            return Arc::new(codec);
        }
        let codec = Arc::new(codec);
        if kept.by_definition.len() >= kept.most {
            kept.by_definition.retain(|_, codec| codec.strong_count() > 0);
            kept.most = FEW.max(2 * kept.by_definition.len());
        }
        kept.by_definition.insert(number, Arc::downgrade(&codec));
        codec
    }
}

#[cfg(test)]
mod tests {
    use frond_row::{
        Column, ColumnType, History, Index, Part, PlainSortKeys, RecordLayout, Schema,
    };

    use super::*;

    fn codec(name: &str, bytes: u32) -> RowCodec {
        let column = Column::new("id", ColumnType::Int { unsigned: false }, bytes);
        let part = Part { column: 0, prefix: None, descending: false };
        let index = Index {
            tree: 0,
            name: "PRIMARY".into(),
            unique: true,
            clustering: false,
            parts: vec![part],
        };
        let schema = Schema {
            version: 1,
            columns: vec![column],
            indexes: vec![index],
            hidden_primary: false,
            auto_increment: None,
        };
        let layout = RecordLayout::compact(&schema);
        let (history, sort) = (History::default(), Arc::new(PlainSortKeys));
        RowCodec::bind(name, Arc::new(schema), layout, history, sort).unwrap()
    }

    #[test]
    fn only_codecs_of_one_definition_share_their_parts() {
        let codecs = Codecs::default();
        let (a, b) = (codecs.share(b"a", codec("1", 8)), codecs.share(b"a", codec("2", 8)));
        assert!(Arc::ptr_eq(a.schema(), b.schema()));
        // As if two definitions had the same checksum.
        let other = codecs.share(b"a", codec("3", 4));
        assert!(!Arc::ptr_eq(a.schema(), other.schema()) && other.schema().columns[0].bytes == 4);
        drop((a, b, other));
        for n in 0..10 * FEW as u32 {
            drop(codecs.share(&n.to_be_bytes(), codec("4", 8)));
        }
        assert!(codecs.kept.lock().by_definition.len() <= FEW, "unused ones stay");
    }
}
