//! One command of a client, from its first byte to its event.

use super::answer::Answer;
use super::words::{status, Command};
use crate::stream::Piece;
use frond_event::{Event, Flag, Kind, Metric, Unmeasured};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The answer was seen to its last byte, which came at this time (nanoseconds).
    Complete(i64),
    /// The answer began, and then something was lost.
    Interrupted,
    /// There is no answer to this command.
    Unanswered,
    /// Not even the beginning of the answer was seen.
    Lost(Unmeasured),
}

/// A time in nanoseconds that may be shown, or why there is none.
type Measure = Result<u64, Unmeasured>;

#[derive(Debug)]
pub(super) struct Request {
    pub command: Command,
    pub kind: Kind,
    /// The reported text: the statement, or `administrator command: ...`.
    pub sql: Vec<u8>,
    /// `sql` is not the whole statement.
    pub cut: bool,
    /// The values that the command sets if it succeeds: the database of InitDb, `user` and `db` of
    /// ChangeUser.
    pub db: Vec<u8>,
    pub user: Vec<u8>,
    /// Bytes of the request's packets, and of those that sent values ahead.
    pub size: u64,
    /// Bytes of `sql` before it was cut.
    pub sql_size: u64,
    /// Too little was captured to tell its class.
    pub partial: bool,
    /// The first byte.
    pub begun: Piece,
    /// Position behind the last byte.
    pub end: u64,
    /// Time of the last byte: the server cannot begin earlier.
    pub sent: i64,
    /// The sequence number of the answer's next packet; `None`: any.
    pub expect: Option<u8>,
    /// Time of the answer's first byte.
    pub first: Option<i64>,
    /// When the previous answer ended, if that was after `sent`: the server cannot have begun with
    /// this request before that.
    pub floor: i64,
    /// Statements of MariaDB's bulk execution.
    pub bulk_rows: Option<u64>,
    /// The client sends a file.
    pub local_file: bool,
    /// An execution of "the statement prepared last", not of one by its number.
    pub of_last_prepared: bool,
    /// The answer cannot be told from another request's.
    pub ambiguous: bool,
    pub answer: Answer,
    pub answer_bytes: u64,
}

impl Request {
    /// A command whose first byte is `begun` and whose last byte is before `end`.
    pub(super) fn new(command: Command, begun: Piece, end: Piece, size: u64) -> Self {
        Request {
            command,
            kind: Kind::Admin,
            sql: Vec::new(),
            cut: false,
            db: Vec::new(),
            user: Vec::new(),
            size,
            sql_size: 0,
            partial: false,
            begun,
            end: end.at,
            sent: end.time,
            expect: None,
            first: None,
            floor: i64::MIN,
            bulk_rows: None,
            local_file: false,
            of_last_prepared: false,
            ambiguous: false,
            answer: Answer::to(command),
            answer_bytes: 0,
        }
    }

    /// Approximate memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.sql.len() + std::mem::size_of::<Request>()
    }

    /// Time from the request's last byte to the answer's first.
    fn first_byte_time(&self) -> Option<Measure> {
        self.first.map(|first| self.since_sent(first))
    }

    fn since_sent(&self, time: i64) -> Measure {
        let from = self.sent.max(self.floor);
        u64::try_from(time.saturating_sub(from)).map_err(|_| Unmeasured::ClockJumped)
    }

    /// Fills in what the request and its answer tell. `to_last`: the query time ends with the
    /// answer's last byte instead of its first.
    pub(super) fn describe<'a>(&'a self, end: End, to_last: bool, event: &mut Event<'a>) {
        event.kind = self.kind;
        event.sql = &self.sql;
        event.start = Some(micros(self.begun.time));
        event.metrics.set(Metric::QuerySize, self.sql_size);
        event.metrics.set(Metric::BytesReceived, self.size);
        // A login is answered when it is granted or refused, not when the server asks back.
        let to_last = to_last || self.command == Command::ChangeUser;
        let measure = match end {
            End::Unanswered => Ok(0),
            End::Lost(why) => Err(why),
            _ if self.ambiguous => Err(Unmeasured::PacketsLost),
            End::Complete(last) if to_last => self.since_sent(last),
            End::Interrupted if to_last => Err(Unmeasured::PacketsLost),
            End::Complete(_) | End::Interrupted => {
                self.first_byte_time().unwrap_or(Err(Unmeasured::PacketsLost))
            }
        };
        match measure {
            Ok(time) => event.metrics.set(Metric::QueryTime, time),
            Err(why) => {
                event.unmeasured = Some(why);
                return;
            }
        }
        if let (true, Some(Ok(first))) = (to_last, self.first_byte_time()) {
            event.metrics.set(Metric::FirstByteTime, first);
        }
        event.stamp = self.first.or(Some(self.begun.time)).map(micros);
        match end {
            End::Complete(last) => event.end = Some(micros(last)),
            End::Unanswered => event.end = event.start,
            _ => return,
        }
        if end == End::Unanswered {
            return;
        }
        let answer = &self.answer;
        event.error = Some(answer.error.map_or(0, u32::from));
        event.error_text = &answer.error_text;
        event.metrics.set(Metric::BytesSent, self.answer_bytes);
        if answer.has_rows || answer.results > 1 {
            event.metrics.set(Metric::RowsSent, answer.rows);
        }
        if let Some(affected) = answer.affected {
            event.metrics.set(Metric::RowsAffected, affected);
        }
        if let Some(warnings) = answer.warnings {
            event.metrics.set(Metric::WarningCount, u64::from(warnings));
            event.flags.set(Flag::NoIndexUsed, answer.status & status::NO_INDEX_USED != 0);
            let no_good = answer.status & status::NO_GOOD_INDEX_USED != 0;
            event.flags.set(Flag::NoGoodIndexUsed, no_good);
        }
    }
}

pub(super) fn micros(nanoseconds: i64) -> i64 {
    nanoseconds.div_euclid(1000)
}
