//! The meaning of a server's packets, from the first to the last of an answer.
//!
//! The capabilities may be unknown, because a connection may have begun before the capture. Where
//! the protocol has two forms, the packets tell which one is used. An EOF packet has at most 5
//! bytes, the OK packet that replaced it at least 7. A column count with one more byte before or
//! behind it is sent to clients that do not need the columns again. Once an answer shows how EOF
//! packets are used, that holds for the connection ([`Dialect`]).
//!
//! Invariants
//!
//! - AN1. A packet that is impossible at its place is [`Verdict::Nonsense`]: the caller has lost
//!   its position in the stream and must find it again. Nothing is guessed.
//! - AN2. Only the beginning of a packet is read: rows are counted by their first byte.

use super::cursor::Cursor;
use super::words::{status, Command};

/// At most this many bytes of a packet's payload are kept: the longest that matters is an error's
/// text.
pub(super) const HEAD: usize = 600;

/// A payload of this length is continued in the next packet.
pub(super) const LONGEST: u32 = 0xff_ffff;

/// The longest EOF packet; in old protocols it is one byte.
const LONGEST_EOF: u32 = 5;

/// Known properties of the connection's protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dialect {
    /// No EOF packets after column definitions.
    pub deprecate_eof: Option<bool>,
}

/// The form of a command's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// OK, an error, a result set's column count, or a request for a local file.
    Result,
    /// This many column definitions, then rows.
    Columns(u64),
    /// An EOF, or the first row, or the end.
    AfterColumns,
    Rows,
    Prepared,
    /// Definitions of parameters and of columns.
    Definitions {
        parameters: u16,
        columns: u16,
        eof_due: bool,
    },
    /// Definitions until EOF.
    Fields,
    /// Packets of the login, until OK or an error.
    Login,
    /// One packet of whatever kind.
    Any,
    /// A replication stream.
    Endless,
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Part of the answer; more follows.
    More,
    /// The last packet.
    Done,
    /// The last packet, or the last but one: if the dialect is not yet known, an EOF may follow.
    DoneUnlessEof,
    /// The server reports progress of a long statement; the answer has not begun.
    Progress,
    /// The server requests a file from the client.
    LocalFile,
    Nonsense,
}

/// The identifier that the server gave a statement, and its number of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    pub id: u32,
    pub parameters: u16,
}

#[derive(Debug)]
pub(super) struct Answer {
    expect: Expect,
    /// The last payload had the largest length, so the next packet continues it.
    continued: bool,
    pub rows: u64,
    pub results: u32,
    pub affected: Option<u64>,
    pub insert_id: u64,
    pub warnings: Option<u16>,
    pub status: u16,
    pub error: Option<u16>,
    pub error_text: Vec<u8>,
    pub prepared: Option<Prepared>,
    /// The answer has result sets (and `rows` counts).
    pub has_rows: bool,
}

impl Answer {
    pub(super) fn to(command: Command) -> Self {
        let expect = match command {
            Command::Query | Command::Execute | Command::BulkExecute => Expect::Result,
            // COM_PROCESS_INFO.
            Command::Other(0x0a) => Expect::Result,
            Command::Prepare => Expect::Prepared,
            Command::Fetch => Expect::Rows,
            Command::FieldList => Expect::Fields,
            Command::ChangeUser => Expect::Login,
            Command::BinlogDump => Expect::Endless,
            _ => Expect::Any,
        };
        Answer {
            expect,
            continued: false,
            rows: 0,
            results: 0,
            affected: None,
            insert_id: 0,
            warnings: None,
            status: 0,
            error: None,
            error_text: Vec::new(),
            prepared: None,
            has_rows: expect == Expect::Rows,
        }
    }

    /// The answer to a login.
    pub(super) fn to_login() -> Self {
        Answer::to(Command::ChangeUser)
    }

    /// Reads one packet: the length of its payload and its first bytes (at least [`HEAD`], if it
    /// has so many).
    #[inline]
    pub(super) fn packet(&mut self, length: u32, head: &[u8], dialect: &mut Dialect) -> Verdict {
        if self.continued {
            self.continued = length == LONGEST;
            return Verdict::More;
        }
        self.continued = length == LONGEST;
        let Some(&first) = head.first() else {
            // Only a row of no columns could be empty, and servers send no such row.
            return Verdict::Nonsense;
        };
        if first == 0xff {
            return self.failure(head);
        }
        match self.expect {
            Expect::Rows => self.row(first, length, head),
            Expect::Columns(left) => {
                if !is_definition(head) {
                    return Verdict::Nonsense;
                }
                self.expect =
                    if left > 1 { Expect::Columns(left - 1) } else { Expect::AfterColumns };
                Verdict::More
            }
            Expect::AfterColumns => {
                if first == 0xfe && length <= LONGEST_EOF {
                    dialect.deprecate_eof = Some(false);
                    self.end_of_file(head);
                    if self.status & status::CURSOR_EXISTS != 0 {
                        return Verdict::Done;
                    }
                    self.expect = Expect::Rows;
                    return Verdict::More;
                }
                dialect.deprecate_eof = Some(true);
                self.expect = Expect::Rows;
                self.row(first, length, head)
            }
            Expect::Result => self.result(first, length, head),
            Expect::Prepared => self.prepare_ok(length, head),
            Expect::Definitions { parameters, columns, eof_due } => {
                self.definition(length, head, parameters, columns, eof_due, dialect)
            }
            Expect::Fields => match first {
                0xfe => self.last(length, head),
                _ if is_definition(head) => Verdict::More,
                _ => Verdict::Nonsense,
            },
            Expect::Login => match first {
                0 => self.last(length, head),
                // Another authentication method, or more data; the client replies.
                1 | 0xfe => Verdict::More,
                _ => Verdict::Nonsense,
            },
            Expect::Any => match first {
                0 | 0xfe => self.last(length, head),
                _ => Verdict::Done,
            },
            Expect::Endless => Verdict::More,
        }
    }

    #[inline]
    fn row(&mut self, first: u8, length: u32, head: &[u8]) -> Verdict {
        if first == 0xfe && length < LONGEST {
            self.results += 1;
            return self.last(length, head);
        }
        self.rows += 1;
        Verdict::More
    }

    fn result(&mut self, first: u8, length: u32, head: &[u8]) -> Verdict {
        if first == 0 && length >= 7 {
            self.results += 1;
            return self.last(length, head);
        }
        if first == 0xfb {
            return Verdict::LocalFile;
        }
        let Some((columns, definitions)) = column_count(head) else { return Verdict::Nonsense };
        self.has_rows = true;
        self.expect = if definitions { Expect::Columns(columns) } else { Expect::AfterColumns };
        Verdict::More
    }

    fn prepare_ok(&mut self, length: u32, head: &[u8]) -> Verdict {
        let mut cursor = Cursor::new(head);
        let fields = (cursor.u8(), cursor.u32(), cursor.u16(), cursor.u16());
        let (Some(0), Some(id), Some(columns), Some(parameters)) = fields else {
            return Verdict::Nonsense;
        };
        if length < 9 {
            return Verdict::Nonsense;
        }
        self.prepared = Some(Prepared { id, parameters });
        if columns == 0 && parameters == 0 {
            return Verdict::Done;
        }
        // MySQL: both sides agreed to leave out the definitions.
        if head.get(12) == Some(&0) {
            return Verdict::Done;
        }
        self.expect = Expect::Definitions { parameters, columns, eof_due: false };
        Verdict::More
    }

    fn definition(
        &mut self,
        length: u32,
        head: &[u8],
        mut parameters: u16,
        mut columns: u16,
        eof_due: bool,
        dialect: &mut Dialect,
    ) -> Verdict {
        if head.first() == Some(&0xfe) && length <= LONGEST_EOF {
            dialect.deprecate_eof = Some(false);
            if !eof_due {
                return Verdict::Nonsense;
            }
            if parameters == 0 && columns == 0 {
                return Verdict::Done;
            }
            self.expect = Expect::Definitions { parameters, columns, eof_due: false };
            return Verdict::More;
        }
        if !is_definition(head) {
            return Verdict::Nonsense;
        }
        if eof_due {
            if parameters == 0 && columns == 0 {
                return Verdict::Nonsense;
            }
            dialect.deprecate_eof = Some(true);
        }
        let list = if parameters > 0 { &mut parameters } else { &mut columns };
        *list = list.saturating_sub(1);
        let list_ends = *list == 0;
        let all = parameters == 0 && columns == 0;
        match dialect.deprecate_eof {
            Some(true) if all => return Verdict::Done,
            None if all => return Verdict::DoneUnlessEof,
            _ => {}
        }
        let eof_due = list_ends && dialect.deprecate_eof != Some(true);
        self.expect = Expect::Definitions { parameters, columns, eof_due };
        Verdict::More
    }

    /// An OK or EOF packet that ends a result.
    fn last(&mut self, length: u32, head: &[u8]) -> Verdict {
        if head.first() == Some(&0xfe) && length <= LONGEST_EOF {
            self.end_of_file(head);
        } else {
            self.ok(head);
        }
        if self.status & status::MORE_RESULTS != 0 {
            self.expect = Expect::Result;
            return Verdict::More;
        }
        Verdict::Done
    }

    fn end_of_file(&mut self, head: &[u8]) {
        let mut cursor = Cursor::new(head.get(1..).unwrap_or_default());
        if let (Some(warnings), Some(status)) = (cursor.u16(), cursor.u16()) {
            self.warn(warnings);
            self.status = status;
        }
    }

    fn ok(&mut self, head: &[u8]) {
        let mut cursor = Cursor::new(head.get(1..).unwrap_or_default());
        let (Some(affected), Some(insert_id)) = (cursor.length(), cursor.length()) else { return };
        // At the end of rows the same packet has another first byte, and its count does not matter.
        if head.first() == Some(&0) {
            self.affected = Some(self.affected.unwrap_or(0).saturating_add(affected));
            self.insert_id = insert_id;
        }
        self.status = cursor.u16().unwrap_or(0);
        self.warn(cursor.u16().unwrap_or(0));
    }

    fn warn(&mut self, warnings: u16) {
        self.warnings = Some(self.warnings.unwrap_or(0).saturating_add(warnings));
    }

    fn failure(&mut self, head: &[u8]) -> Verdict {
        let mut cursor = Cursor::new(head.get(1..).unwrap_or_default());
        let Some(code) = cursor.u16() else { return Verdict::Nonsense };
        if code == 0xffff {
            return Verdict::Progress;
        }
        if code == 0 {
            return Verdict::Nonsense;
        }
        self.error = Some(code);
        let text = cursor.rest();
        // `#` and five characters of SQLSTATE, since 4.1.
        let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or(text) } else { text };
        self.error_text.clear();
        self.error_text.extend_from_slice(text);
        Verdict::Done
    }
}

/// The number of columns, and whether their definitions follow. Two bytes mean that both sides can
/// leave definitions out. Their order tells the two forms apart, since no result has 0 columns.
fn column_count(head: &[u8]) -> Option<(u64, bool)> {
    let counted = |bytes| {
        let mut cursor = Cursor::new(bytes);
        let columns = cursor.length().filter(|columns| (1..=4096).contains(columns))?;
        Some((columns, cursor.rest()))
    };
    match (counted(head), head) {
        (Some((columns, [])), _) => Some((columns, true)),
        // MariaDB
        (Some((columns, [follow @ 0..=1])), _) => Some((columns, *follow == 1)),
        // MySQL
        (_, [follow @ 0..=1, behind @ ..]) => match counted(behind)? {
            (columns, []) => Some((columns, *follow == 1)),
            _ => None,
        },
        _ => None,
    }
}

/// Column definitions begin with the catalog, which is always "def".
fn is_definition(head: &[u8]) -> bool {
    head.starts_with(b"\x03def")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &[u8] = &[0, 3, 9, 2, 0, 1, 0];
    const MORE_OK: &[u8] = &[0, 3, 9, 8, 0, 1, 0];
    const EOF: &[u8] = &[0xfe, 2, 0, 0x22, 0];
    const CURSOR_EOF: &[u8] = &[0xfe, 0, 0, 0x42, 0];
    const EOF_AS_OK: &[u8] = &[0xfe, 0, 0, 0x12, 0, 4, 0];
    const COLUMN: &[u8] = b"\x03def\x00";
    const ERROR: &[u8] = b"\xff\x7a\x04#42S02Table 'a.b' doesn't exist";
    const ROW: &[u8] = b"\x011\x012";

    fn run(answer: &mut Answer, dialect: &mut Dialect, packets: &[&[u8]]) -> Vec<Verdict> {
        packets.iter().map(|p| answer.packet(p.len() as u32, p, dialect)).collect()
    }

    fn last(command: Command, packets: &[&[u8]]) -> (Answer, Dialect, Verdict) {
        let (mut answer, mut dialect) = (Answer::to(command), Dialect::default());
        let verdicts = run(&mut answer, &mut dialect, packets);
        let (end, before) = verdicts.split_last().unwrap();
        assert!(before.iter().all(|v| *v == Verdict::More), "{verdicts:?}");
        (answer, dialect, *end)
    }

    #[test]
    fn result_sets_end_with_either_form_of_eof() {
        let (answer, dialect, end) =
            last(Command::Query, &[&[2], COLUMN, COLUMN, EOF, ROW, ROW, ROW, EOF]);
        assert_eq!((answer.rows, answer.warnings, end), (3, Some(4), Verdict::Done));
        assert_eq!(dialect.deprecate_eof, Some(false));
        assert_eq!(answer.status & status::NO_INDEX_USED, status::NO_INDEX_USED);
        let (answer, dialect, end) = last(Command::Query, &[&[1], COLUMN, ROW, EOF_AS_OK]);
        assert_eq!((answer.rows, answer.warnings, end), (1, Some(4), Verdict::Done));
        assert_eq!(dialect.deprecate_eof, Some(true));
        assert_eq!(answer.affected, None);
        let old: &[u8] = &[0xfe];
        let (answer, _, end) = last(Command::Query, &[&[1], COLUMN, old, ROW, ROW, EOF]);
        assert_eq!((answer.rows, end), (2, Verdict::Done));
        let (answer, _, end) = last(Command::Query, &[&[1], COLUMN, EOF_AS_OK]);
        assert_eq!((answer.rows, end), (0, Verdict::Done));
    }

    #[test]
    fn several_results_are_one_answer() {
        let more_eof: &[u8] = &[0xfe, 0, 0, 8, 0];
        let (answer, _, end) =
            last(Command::Query, &[MORE_OK, &[1], COLUMN, EOF, ROW, more_eof, OK]);
        assert_eq!((answer.rows, answer.results, end), (1, 3, Verdict::Done));
        assert_eq!((answer.affected, answer.has_rows), (Some(6), true));
        let (answer, _, end) = last(Command::Query, &[MORE_OK, ERROR]);
        assert_eq!((answer.error, end), (Some(1146), Verdict::Done));
    }

    #[test]
    fn an_error_has_code_and_text_and_progress_is_none() {
        let (answer, _, end) = last(Command::Query, &[&[1], COLUMN, EOF, ROW, ERROR]);
        assert_eq!((answer.error, end), (Some(1146), Verdict::Done));
        assert_eq!(answer.error_text, b"Table 'a.b' doesn't exist");
        let (_, _, end) = last(Command::Query, &[b"\xff\xff\xff\x01\x01\x02abc"]);
        assert_eq!(end, Verdict::Progress);
    }

    #[test]
    fn a_cursor_ends_the_answer_before_its_rows() {
        let (answer, _, end) = last(Command::Execute, &[&[1], COLUMN, CURSOR_EOF]);
        assert_eq!((answer.rows, end), (0, Verdict::Done));
        let (answer, _, end) = last(Command::Fetch, &[&[0, 0, 1], &[0, 0, 2], CURSOR_EOF]);
        assert_eq!((answer.rows, end), (2, Verdict::Done));
    }

    #[test]
    fn prepared_statements_end_with_their_last_definition_or_its_eof() {
        let ok: &[u8] = &[0, 7, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0];
        let (answer, dialect, end) =
            last(Command::Prepare, &[ok, COLUMN, EOF, COLUMN, COLUMN, EOF]);
        assert_eq!(answer.prepared, Some(Prepared { id: 7, parameters: 1 }));
        assert_eq!((dialect.deprecate_eof, end), (Some(false), Verdict::Done));
        let (_, dialect, end) = last(Command::Prepare, &[ok, COLUMN, COLUMN, COLUMN]);
        assert_eq!((dialect.deprecate_eof, end), (Some(true), Verdict::Done));
        // There is only one list: it is unknown whether an EOF follows.
        let only: &[u8] = &[0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(last(Command::Prepare, &[only, COLUMN]).2, Verdict::DoneUnlessEof);
        let none: &[u8] = &[0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(last(Command::Prepare, &[none]).2, Verdict::Done);
    }

    #[test]
    fn metadata_that_the_client_has_is_not_sent() {
        let row: &[u8] = &[0, 0, 1];
        let mariadb = (&[2, 0][..], &[2, 1][..]);
        let mysql = (&[0, 2][..], &[1, 2][..]);
        for (without, with) in [mariadb, mysql] {
            let (answer, _, end) = last(Command::Execute, &[without, EOF, row, EOF]);
            assert_eq!((answer.rows, end), (1, Verdict::Done), "{without:?}");
            let (answer, _, end) = last(Command::Execute, &[with, COLUMN, COLUMN, EOF, row, EOF]);
            assert_eq!((answer.rows, end), (1, Verdict::Done), "{with:?}");
        }
        let ok: &[u8] = &[0, 7, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(last(Command::Prepare, &[ok]).2, Verdict::Done);
    }

    #[test]
    fn a_column_count_tells_its_form() {
        assert_eq!(column_count(&[7]), Some((7, true)));
        assert_eq!(column_count(&[0xfc, 0, 3]), Some((768, true)));
        // For one column both forms are the same bytes.
        assert_eq!(column_count(&[1, 1]), Some((1, true)));
        assert_eq!(column_count(&[1, 0]), Some((1, false)));
        assert_eq!(column_count(&[0, 1]), Some((1, false)));
        assert_eq!(column_count(&[0xfc, 0, 3, 0]), Some((768, false)));
        assert_eq!(column_count(&[0, 0xfc, 0, 3]), Some((768, false)));
        assert_eq!(column_count(&[1, 0xfc, 0, 3]), Some((768, true)));
        for nonsense in [&[][..], &[0], &[0, 0], &[2, 2], &[1, 2, 0], &[7, 7, 7], &[0xfc, 0, 17]] {
            assert_eq!(column_count(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn a_row_longer_than_a_packet_is_one_row() {
        let mut answer = Answer::to(Command::Query);
        let mut dialect = Dialect::default();
        run(&mut answer, &mut dialect, &[&[1], COLUMN, EOF]);
        assert_eq!(answer.packet(LONGEST, &[0xfd, 1], &mut dialect), Verdict::More);
        assert_eq!(answer.packet(LONGEST, &[0xfe], &mut dialect), Verdict::More);
        assert_eq!(answer.packet(5, EOF, &mut dialect), Verdict::More);
        assert_eq!(answer.packet(5, EOF, &mut dialect), Verdict::Done);
        assert_eq!(answer.rows, 1);
    }

    #[test]
    fn what_cannot_stand_there_is_nonsense() {
        for first in [&[][..], &[0][..], &[0xfe, 1], &[2, 3, 4], b"\x03def"] {
            assert_eq!(last(Command::Query, &[first]).2, Verdict::Nonsense, "{first:?}");
        }
        assert_eq!(last(Command::Query, &[&[1], ROW]).2, Verdict::Nonsense);
        assert_eq!(last(Command::Query, &[b"select"]).2, Verdict::Nonsense);
    }

    #[test]
    fn a_login_goes_on_until_ok_or_an_error() {
        let more: &[u8] = b"\xfemysql_native_password\0abc";
        assert_eq!(last(Command::ChangeUser, &[more, &[1, 4], OK]).2, Verdict::Done);
        assert_eq!(last(Command::ChangeUser, &[more, ERROR]).2, Verdict::Done);
        assert_eq!(last(Command::FieldList, &[COLUMN, COLUMN, EOF]).2, Verdict::Done);
        assert_eq!(last(Command::Statistics, &[b"Uptime: 5"]).2, Verdict::Done);
        assert_eq!(last(Command::Query, &[b"\xfb/etc/file"]).2, Verdict::LocalFile);
    }
}
