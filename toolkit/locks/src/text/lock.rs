//! Parses the line of a lock.

use std::collections::HashSet;
use std::sync::Arc;

use memchr::memmem::find;

use super::number_after;
use crate::model::{Lock, Mode, Page, Span};

/// Bytes of names that are shared; further names are allocated each time.
const MOST: usize = 8 << 20;
/// A longer name is cut. A server's names have at most 64 characters, a partition's with its table's some hundreds.
const LONGEST: usize = 1 << 10;

/// Names of tables and indexes, each once in memory.
#[derive(Default)]
pub struct Names {
    known: HashSet<Arc<str>>,
    bytes: usize,
}

/// The beginning of `text`, for names and the like.
pub fn short(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(LONGEST)]).into_owned()
}

impl Names {
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        let name: Arc<str> = text.into();
        if self.bytes < MOST {
            self.bytes += name.len();
            self.known.insert(name.clone());
        }
        name
    }
}

/// `RECORD LOCKS space id 5 page no 3 n bits 320 index PRIMARY of table `shop`.`t` trx id 27 lock_mode X locks ...` or
/// `TABLE LOCK table `shop`.`t` trx id 46 lock mode IX`; `None` if it is cut or something else.
pub fn lock(line: &[u8], names: &mut Names) -> Option<Lock> {
    let line = line.trim_ascii_end();
    // A name may contain anything, but the text behind it cannot.
    let at = memchr::memmem::rfind(line, b" trx id ")?;
    let (place, tail) = (&line[..at], &line[at + 8..]);
    let mode_at = find(tail, b" lock_mode ").or_else(|| find(tail, b" lock mode "))?;
    let owner = short(&tail[..mode_at]);
    let what = &tail[mode_at + 11..];
    let word = what.iter().take_while(|b| **b != b' ').count();
    let mode = Mode::parse(&what[..word])?;
    let has = |text: &[u8]| find(what, text).is_some();
    let span = if has(b"locks gap before rec") {
        Span::Gap
    } else if has(b"locks rec but not gap") {
        Span::Record
    } else {
        Span::NextKey
    };
    let (table, page) = if let Some(table) = place.strip_prefix(b"TABLE LOCK table ") {
        (table, None)
    } else {
        let rest = place.strip_prefix(b"RECORD LOCKS ")?;
        let of = find(rest, b" of table ")?;
        let index = find(&rest[..of], b" index ")?;
        let name = short(&rest[index + 7..of]);
        let page = Page {
            index: names.get(name.trim_matches('`')),
            space: number_after(rest, b"space id ")?,
            page: number_after(rest, b"page no ")?,
        };
        (&rest[of + 10..], Some(page))
    };
    Some(Lock {
        table: names.get(&table_name(&table[..table.len().min(LONGEST)])),
        page,
        heaps: Vec::new(),
        mode,
        span,
        insert_intention: has(b"insert intention"),
        waiting: what.ends_with(b" waiting"),
        owner,
        key: None,
    })
}

/// `shop.t` for `` `shop`.`t` `` and `` `shop/t` ``; a partition in parentheses.
pub fn table_name(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let (name, partition) = match text.find(" /* Partition ") {
        Some(at) => (&text[..at], text[at + 14..].trim_end_matches(" */").replace('`', "")),
        None => (text.trim_end(), String::new()),
    };
    let mut name = name.replace('`', "");
    if !text.contains("`.`") {
        name = name.replacen('/', ".", 1);
    }
    match name.split_once("#P#") {
        _ if !partition.is_empty() => format!("{name} ({partition})"),
        Some((table, partition)) => format!("{table} ({partition})"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_servers_are_read() {
        let names = &mut Names::default();
        let l = lock(
            b"RECORD LOCKS space id 0 page no 3662 n bits 72 index `GEN_CLUST_INDEX` of table `test/dl` \
              trx id 0 3793488 lock_mode X waiting",
            names,
        )
        .unwrap();
        assert_eq!((&*l.table, l.owner.as_str(), l.waiting), ("test.dl", "0 3793488", true));
        assert_eq!(
            (l.mode, l.span, l.kind().as_str()),
            (Mode::Exclusive, Span::NextKey, "X next-key")
        );
        let l = lock(
            b"RECORD LOCKS space id 5 page no 4 n bits 320 index a of table `shop`.`t` /* Partition `p0` */ \
              trx id 34 lock_mode X locks gap before rec insert intention waiting",
            names,
        )
        .unwrap();
        assert_eq!((&*l.table, l.insert_intention, l.span), ("shop.t (p0)", true, Span::Gap));
        let l = lock(b"TABLE LOCK table `shop`.`t` trx id 46 lock mode AUTO-INC waiting", names)
            .unwrap();
        assert_eq!((l.mode, l.page, l.waiting), (Mode::AutoInc, None, true));
        let long = "t".repeat(1 << 20);
        let line = format!("TABLE LOCK table `a`.`{long}` trx id {long} lock mode IX");
        let l = lock(line.as_bytes(), names).unwrap();
        assert!(l.table.len() <= LONGEST && l.owner.len() <= LONGEST);
        for cut in [
            "TABLE LOCK table `a`",
            "TABLE LOCK table `a` trx id 4",
            "RECORD LOCKS space id trx id 1 lock_mode X",
        ] {
            assert!(lock(cut.as_bytes(), names).is_none(), "{cut}");
        }
    }
}
