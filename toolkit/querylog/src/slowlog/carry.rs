//! The values that an event inherits from the lines before it, and that a piece leaves to the next.
//!
//! Invariant: the next piece inherits the same values whether this one was parsed or only searched from its
//! end. Both ways read an event's lines with `Parser::head` and `preamble`, and both use `database` for the
//! default database; only lines that certainly lack such values are skipped unread.

use memchr::{memchr2_iter, memmem};

use super::found::{database, Carry, Found};
use super::preamble::preamble;
use super::split::Mark;
use super::warnings::Listless;
use super::{head, Inherited, Parser};
use frond_event::text::Stamp;
use frond_event::Event;

impl Parser {
    /// The values that the piece behind `bytes` inherits, found without parsing all of `bytes`: cheap
    /// enough for the one thread that cuts a log into pieces. `marks` come from `split::cut`.
    pub fn carry_over(&self, bytes: &[u8], marks: &[Mark], before: &Carry) -> Carry {
        let mut carry = before.clone();
        let head_of = |mark: &Mark| &bytes[mark.at as usize..mark.body as usize];
        let time = memmem::Finder::new(b"# Time: ");
        // This is a quick test for the many events without a stamp.
        let stamped = |mark: &&Mark| time.find(head_of(mark)).is_some();
        let listless = &mut Listless::default();
        let mut reread = |mark: &Mark| self.reread(bytes, mark, listless);
        let stamp = marks.iter().rev().filter(stamped).find_map(|mark| reread(mark).0);
        carry.stamp = stamp.or(carry.stamp);
        let named = |mark: &&Mark| {
            bytes[mark.body as usize..].starts_with(b"use ") || names_schema(head_of(mark))
        };
        if let Some(db) = marks.iter().rev().filter(named).find_map(|mark| reread(mark).1) {
            carry.db = db.to_vec();
        }
        carry
    }

    /// The stamp and the database that the event at `mark` itself has.
    fn reread<'a>(
        &self,
        bytes: &'a [u8],
        mark: &Mark,
        listless: &mut Listless,
    ) -> (Option<Stamp>, Option<&'a [u8]>) {
        let mut event = Event::default();
        let mut found = Found::default();
        let mut inherited = Inherited {
            expected: head::Expected::default(),
            stamp: None,
            db: b"",
            zone: None,
            listless: std::mem::take(listless),
        };
        let (body, _) = self.head(bytes, mark.at as usize, &mut event, &mut found, &mut inherited);
        let text = bytes.get(body..mark.end as usize).unwrap_or_default();
        *listless = inherited.listless;
        (inherited.stamp, database(event.db, preamble(text).database))
    }
}

/// False only if no attribute in `head` is `Schema`, in whatever case.
fn names_schema(head: &[u8]) -> bool {
    const NAME: &[u8] = b"schema:";
    memchr2_iter(b'S', b's', head)
        .any(|at| head.get(at..at + NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))
}
