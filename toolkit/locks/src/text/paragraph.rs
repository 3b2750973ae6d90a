//! The lines of one transaction, in the list of transactions and in a deadlock.

use memchr::memmem::find;

use super::key::Fields;
use super::lock::{lock, short, Names};
use super::{number, number_after, number_before};
use crate::model::{Lock, Member, Trx};

/// Bytes of a statement that are kept: enough to tell its class from others.
const MAX_STATEMENT: usize = 16 << 10;

/// Memory that a dump may take; the rest of a larger one is not read (LK2).
pub const ROOM: usize = 48 << 20;

/// Where the text of the statement is in its paragraph.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Before,
    Inside,
    Behind,
}

/// A transaction that is being read.
#[derive(Default)]
pub struct Paragraph {
    trx: Trx,
    others: Vec<Lock>,
    /// The locks being read belong to others (`CONFLICTING WITH`, `HOLDS`).
    to_others: bool,
    in_deadlock: bool,
    text: Text,
    /// The lock whose records are being read.
    open: Option<Lock>,
    /// The lock that it waits for was seen.
    waits: bool,
    fields: Option<Fields>,
}

impl Paragraph {
    /// `TRANSACTION 35, ACTIVE 2 sec starting index read`, without the dashes that may be in front.
    pub fn begin(line: &[u8]) -> Option<Paragraph> {
        let rest = line.strip_prefix(b"TRANSACTION ")?;
        let comma = memchr::memchr(b',', rest)?;
        let id = short(&rest[..comma]);
        let what = rest[comma + 1..].trim_ascii();
        let mut trx = Trx { id, ..Trx::default() };
        if let Some(rest) = what.strip_prefix(b"ACTIVE ") {
            trx.prepared = rest.starts_with(b"(PREPARED)");
            let rest = rest.strip_prefix(b"(PREPARED) ").unwrap_or(rest);
            let (seconds, rest) = number(rest)?;
            trx.active = Some(seconds);
            trx.state = state(rest.strip_prefix(b" sec").unwrap_or(rest));
        } else if !what.starts_with(b"not started") {
            // `COMMITTED IN MEMORY`, `forced rollback done` and the like.
            trx.state = state(what);
        }
        trx.rolling_back = find(what, b"rollback").is_some();
        Some(Paragraph { trx, ..Paragraph::default() })
    }

    /// The following locks belong to others than the described transaction.
    pub fn others(&mut self, others: bool) {
        self.text = Text::Behind;
        self.close();
        self.in_deadlock = true;
        self.to_others = others;
    }

    /// Reads any further line. `room`: memory that the dump may still take, in bytes.
    pub fn line(&mut self, line: &[u8], names: &mut Names, room: &mut usize) {
        match line.first() {
            Some(b'R') if line.starts_with(b"RECORD LOCKS space id ") => {
                self.lock(line, names, room)
            }
            Some(b'T') if line.starts_with(b"TABLE LOCK table ") => self.lock(line, names, room),
            Some(b'R') if line.starts_with(b"Record lock, heap no ") => self.record(line, room),
            Some(b'-') if line.starts_with(b"------- TRX HAS BEEN WAITING ") => {
                self.text = Text::Behind;
                let waited = number_after(line, b"WAITING ");
                let unit = if find(line, b" us ").is_some() { 1 } else { 1_000_000 };
                self.trx.wait_micros = waited.map(|n| n.saturating_mul(unit));
            }
            Some(b'T') if line.starts_with(b"Trx read view will not see ") => {
                self.text = Text::Behind;
                self.trx.read_view = true;
            }
            Some(b' ') if self.fields.is_some() && self.text == Text::Behind => {
                if let Some(fields) = &mut self.fields {
                    fields.line(line);
                }
            }
            _ => match self.text {
                Text::Before => self.head(line, room),
                Text::Inside => self.statement(line, room),
                Text::Behind => {}
            },
        }
    }

    fn head(&mut self, line: &[u8], room: &mut usize) {
        if find(line, b" lock struct(s)").is_some() {
            self.trx.waits |= line.starts_with(b"LOCK WAIT ");
            self.trx.rolling_back |= line.starts_with(b"ROLLING BACK ");
            self.trx.lock_structs = number_before(line, b" lock struct(s)").unwrap_or(0);
            self.trx.row_locks = number_before(line, b" row lock(s)").unwrap_or(0);
            self.trx.undo = number_after(line, b"undo log entries ").unwrap_or(0);
        } else if let Some(thread) = number_after(line, b" thread id ") {
            if line.starts_with(b"MariaDB ") || line.starts_with(b"MySQL ") {
                self.trx.thread = Some(thread);
                if let Some(at) = find(line, b"query id ") {
                    if let Some((id, rest)) = number(&line[at + 9..]) {
                        self.trx.query_id = Some(id);
                        (self.trx.host, self.trx.user) = account(rest);
                        *room = room.saturating_sub(self.trx.host.len() + self.trx.user.len());
                        // A replica's applier has no account: its work follows, the name of a function.
                        self.trx.works = self.trx.host.is_empty() && self.trx.user.is_empty();
                    }
                }
                self.text = Text::Inside;
            }
        }
    }

    fn statement(&mut self, line: &[u8], room: &mut usize) {
        let text = &mut self.trx.statement;
        let most = MAX_STATEMENT.saturating_sub(text.len()).min(*room);
        if most == 0 || (text.is_empty() && line.is_empty()) {
            return;
        }
        let before = text.len();
        if !text.is_empty() {
            text.push(b'\n');
        }
        text.extend_from_slice(&line[..line.len().min(most)]);
        *room = room.saturating_sub(text.len() - before);
    }

    fn lock(&mut self, line: &[u8], names: &mut Names, room: &mut usize) {
        self.text = Text::Behind;
        self.close();
        if *room > 0 {
            self.open = lock(line, names);
        }
        *room = room.saturating_sub(200 + line.len());
    }

    fn record(&mut self, line: &[u8], room: &mut usize) {
        let Some(lock) = &mut self.open else { return };
        let heap = number_after(line, b"heap no ").and_then(|n| u32::try_from(n).ok());
        if let (Some(heap), true) = (heap, *room >= 4) {
            lock.heaps.push(heap);
            *room -= 4;
            // Only the key of a record that is waited for is shown, and that is a single record.
            self.fields = (lock.waiting && lock.heaps.len() == 1).then(Fields::default);
        }
    }

    /// All records of the open lock have been read.
    fn close(&mut self) {
        let fields = self.fields.take();
        let Some(mut lock) = self.open.take() else { return };
        lock.key = fields.and_then(|fields| fields.key());
        // A deadlock may be logged between the lines of a dump; its locks belong to others.
        let own = self.trx.id == lock.owner || self.trx.id.starts_with('(') || self.in_deadlock;
        if !own {
            return;
        }
        if self.to_others {
            self.others.push(lock);
        } else if !(lock.waiting && std::mem::replace(&mut self.waits, true)) {
            // The list of all locks repeats the lock that is waited for, and there is only one.
            self.trx.locks.push(lock);
        }
    }

    pub fn finish(mut self) -> Member {
        self.close();
        // In a deadlock all members wait, and the line of the locks may be missing.
        self.trx.waits |= self.trx.waiting_lock().is_some();
        Member { trx: self.trx, others: self.others }
    }
}

/// The thread's current work, without the text that old servers print behind the time.
fn state(text: &[u8]) -> String {
    let text = short(text);
    let words = text.trim().trim_start_matches(',').split(", ");
    let known = words.map(|part| {
        let part = part.trim();
        match part.strip_prefix("OS thread id ") {
            Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim(),
            None if part.starts_with("process no ") || part.starts_with("thread declared ") => "",
            None => part,
        }
    });
    known.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Host and user from ` localhost 127.0.0.1 root Updating`: host and address may each be missing.
fn account(text: &[u8]) -> (String, String) {
    let text = short(text);
    let words: Vec<&str> = text.split_ascii_whitespace().take(3).collect();
    if words.first().is_some_and(|word| word.contains('(') || word.contains("::")) {
        return (String::new(), String::new());
    }
    let address = |word: &str| word.parse::<std::net::IpAddr>().is_ok();
    match words[..] {
        [host, ip, user] if address(ip) => (host.into(), user.into()),
        [user] if !address(user) => (String::new(), user.into()),
        [host, user, ..] => (host.into(), user.into()),
        [host] => (host.into(), String::new()),
        [] => (String::new(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Trx {
        let mut paragraph = Paragraph::begin(lines[0].as_bytes()).unwrap();
        let (mut names, mut room) = (Names::default(), ROOM);
        lines[1..].iter().for_each(|l| paragraph.line(l.as_bytes(), &mut names, &mut room));
        paragraph.finish().trx
    }

    #[test]
    fn heads_of_old_and_new_servers_are_read() {
        let trx = read(&[
            "TRANSACTION 0 3793489, ACTIVE 2 sec, process no 5488, OS thread id 1141422400 starting index read, \
             thread declared inside InnoDB 500",
            "mysql tables in use 1, locked 1",
            "LOCK WAIT 4 lock struct(s), heap size 1216, undo log entries 7",
            "MySQL thread id 12, query id 351 localhost 127.0.0.1 baron Updating",
            "update t",
            "",
            "set a = 1",
        ]);
        assert_eq!(
            (trx.id.as_str(), trx.active, trx.state.as_str()),
            ("0 3793489", Some(2), "starting index read")
        );
        assert_eq!(
            (trx.thread, trx.query_id, trx.lock_structs, trx.undo),
            (Some(12), Some(351), 4, 7)
        );
        assert_eq!((trx.user.as_str(), trx.host.as_str(), trx.waits), ("baron", "localhost", true));
        assert_eq!(trx.statement, b"update t\n\nset a = 1");
        let trx =
            read(&["TRANSACTION 1C3, ACTIVE (PREPARED) 5 sec", "0 lock struct(s), heap size 1"]);
        assert!(trx.prepared && !trx.idle());
        let idle = read(&[
            "TRANSACTION 33, ACTIVE 100 sec",
            "4 lock struct(s), heap size 1128, 7 row lock(s), undo log entries 1",
            "MariaDB thread id 8, OS thread handle 140536700868288, query id 25 10.0.0.1 shop ",
            "Trx read view will not see trx with id >= 9, sees < 9",
        ]);
        assert!(idle.idle() && idle.read_view, "{idle:?}");
        assert_eq!((idle.host.as_str(), idle.user.as_str()), ("10.0.0.1", "shop"));
        let applier = read(&[
            "TRANSACTION 34, ACTIVE 1 sec inserting",
            "1 lock struct(s), heap size 1128, 0 row lock(s), undo log entries 1",
            "MariaDB thread id 9, OS thread handle 14053, query id 41 Write_rows_log_event::write_row(-1) on table `t`",
        ]);
        assert_eq!((applier.user.as_str(), applier.host.as_str(), applier.idle()), ("", "", false));
        assert!(Paragraph::begin(b"TRANSACTION (0x7fd140f64780), not started")
            .unwrap()
            .trx
            .active
            .is_none());
        assert!(Paragraph::begin(b"TRANSACTION 5").is_none());
    }
}
