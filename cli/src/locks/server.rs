//! Transactions and waits of a running server, from `information_schema`: INNODB_TRX, INNODB_LOCKS, INNODB_LOCK_WAITS and
//! PROCESSLIST, and FROND_TRX and FROND_LOCK_WAITS where the server has them.
//!
//! InnoDB's tables hold only locks that somebody waits for. A transaction of a connection that works in both engines is
//! one here, so that a chain of waits through both is seen.

use std::collections::HashMap;

use frond_digest::live::Row;
use frond_locks::model::{Dump, Given, Lock, Mode, Page, Span, Trx, NUMBERLESS};
use frond_locks::text::lock::table_name;

use crate::digest::live::connect::{number, text, Server};
use crate::out::Outcome;
use crate::server_args::ServerOptions;

/// The privilege that the account needs.
pub const NEEDS: &str = "PROCESS ON *.*";

const TRX: &str = "SELECT trx_id, trx_mysql_thread_id, \
    GREATEST(0, TIMESTAMPDIFF(SECOND, trx_started, NOW())), \
    GREATEST(0, TIMESTAMPDIFF(MICROSECOND, trx_wait_started, NOW(6))), \
    trx_state, trx_operation_state, trx_requested_lock_id, trx_lock_structs, trx_rows_locked, trx_rows_modified, \
    trx_query FROM information_schema.INNODB_TRX";
const LOCKS: &str = "SELECT lock_id, lock_trx_id, lock_mode, lock_table, lock_index, lock_space, lock_page, lock_rec, \
    lock_data FROM information_schema.INNODB_LOCKS";
const WAITS: &str = "SELECT requesting_trx_id, requested_lock_id, blocking_trx_id FROM information_schema.INNODB_LOCK_WAITS";
const PROCESSES: &str = "SELECT ID, USER, HOST, COMMAND, INFO FROM information_schema.PROCESSLIST";
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN \
    ('Innodb_history_list_length', 'Innodb_lsn_current', 'Innodb_lsn_last_checkpoint')";
const FROND_TRX: &str =
    "SELECT TRX_ID, CONNECTION_ID, GREATEST(0, TIMESTAMPDIFF(SECOND, STARTED, NOW(6))), STATE, \
    ROWS_CHANGED, LOCKS_HELD, QUERY FROM information_schema.FROND_TRX";
const FROND_WAITS: &str =
    "SELECT WAITING_TRX_ID, BLOCKING_TRX_ID, WAIT_MS, LOCK_MODE, TABLE_SCHEMA, TABLE_NAME, \
    INDEX_NAME, LOCK_DATA, LOCK_TYPE FROM information_schema.FROND_LOCK_WAITS";

/// A connection to the server, and what it has.
pub struct Asked {
    server: Server,
    has_frond: bool,
}

impl Asked {
    pub fn connect(args: &ServerOptions) -> Outcome<Asked> {
        let mut server = args.connect(NEEDS)?;
        // InnoDB's times are those of the system, whatever the session's zone.
        server.run("SET SESSION time_zone = 'SYSTEM', character_set_results = utf8mb4")?;
        let has_frond = !server.columns("information_schema", "FROND_LOCK_WAITS")?.is_empty();
        Ok(Asked { server, has_frond })
    }

    pub fn name(&self) -> String {
        self.server.name.clone()
    }

    /// The state of this moment.
    pub fn dump(&mut self) -> Outcome<Dump> {
        let clock = "SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', NOW())";
        let at = self.server.value(clock)?.and_then(|at| at.parse().ok());
        let mut dump = Dump { at, complete: true, given: Some(Vec::new()), ..Dump::default() };
        innodb(&mut self.server, &mut dump)?;
        if self.has_frond {
            self.frond(&mut dump)?;
        }
        self.processes(&mut dump)?;
        self.server.each_row(STATUS, &mut |row| match text(row, 0).as_str() {
            "Innodb_history_list_length" => dump.history = number(row, 1),
            "Innodb_lsn_current" => dump.lsn = number(row, 1),
            _ => dump.checkpoint = number(row, 1),
        })?;
        Ok(dump)
    }

    fn frond(&mut self, dump: &mut Dump) -> Outcome<()> {
        let mut of: HashMap<u64, usize> = HashMap::new();
        self.server.each_row(FROND_TRX, &mut |row| {
            let (Some(id), thread) = (number(row, 0), number(row, 1)) else { return };
            let same = |trx: &Trx| thread.is_some() && trx.thread == thread;
            let at = dump.trxs.iter().position(same).unwrap_or_else(|| {
                dump.trxs.push(Trx { thread, ..Trx::default() });
                dump.trxs.len() - 1
            });
            of.insert(id, at);
            let trx = &mut dump.trxs[at];
            let name = format!("{id} of Frond");
            trx.id = if trx.id.is_empty() { name } else { format!("{}, {name}", trx.id) };
            trx.active = trx.active.max(number(row, 2));
            trx.prepared |= text(row, 3).eq_ignore_ascii_case("prepared");
            trx.undo += number(row, 4).unwrap_or(0);
            trx.row_locks += number(row, 5).unwrap_or(0);
            if trx.statement.is_empty() {
                trx.statement = text(row, 6).into_bytes();
            }
        })?;
        self.server.each_row(FROND_WAITS, &mut |row| {
            let find = |at| number(row, at).and_then(|id| of.get(&id).copied());
            let (Some(waiter), Some(blocker)) = (find(0), find(1)) else { return };
            let trx = &mut dump.trxs[waiter];
            trx.waits = true;
            trx.wait_micros = number(row, 2).map(|ms: u64| ms.saturating_mul(1000));
            if trx.waiting_lock().is_none() {
                trx.locks.extend(frond_lock(row, &trx.id));
            }
            let blocker = Some(blocker);
            dump.given.get_or_insert_default().push(Given { waiter, blocker });
        })
    }

    fn processes(&mut self, dump: &mut Dump) -> Outcome<()> {
        self.server.each_row(PROCESSES, &mut |row| {
            let id = number(row, 0);
            for trx in dump.trxs.iter_mut().filter(|trx| trx.thread.is_some() && trx.thread == id) {
                (trx.user, trx.host) = (text(row, 1), text(row, 2));
                match text(row, 3).as_str() {
                    "Sleep" => trx.statement.clear(),
                    // INNODB_TRX has only the first 1024 characters of the statement.
                    _ => (trx.works, trx.statement) = (true, text(row, 4).into_bytes()),
                }
            }
        })
    }
}

/// InnoDB's transactions and waits; `frond top` shows them, too.
pub fn innodb(server: &mut Server, dump: &mut Dump) -> Outcome<()> {
    let mut requested = Vec::new();
    server.each_row(TRX, &mut |row| {
        dump.trxs.push(Trx {
            id: text(row, 0),
            thread: number(row, 1).filter(|id| *id > 0),
            active: number(row, 2),
            wait_micros: number(row, 3),
            waits: text(row, 4) == "LOCK WAIT",
            rolling_back: text(row, 4) == "ROLLING BACK",
            state: text(row, 5),
            lock_structs: number(row, 7).unwrap_or(0),
            row_locks: number(row, 8).unwrap_or(0),
            undo: number(row, 9).unwrap_or(0),
            statement: text(row, 10).into_bytes(),
            ..Trx::default()
        });
        requested.push(text(row, 6));
    })?;
    server.each_row(LOCKS, &mut |row| {
        let (id, owner) = (text(row, 0), text(row, 1));
        for (trx, requested) in dump.trxs.iter_mut().zip(&requested) {
            // Transactions without a number are told apart by the lock that they wait for.
            if *requested == id || (trx.id == owner && has_number(&owner)) {
                trx.locks.extend(lock(row, *requested == id));
            }
        }
    })?;
    let mut edges = Vec::new();
    server.each_row(WAITS, &mut |row| {
        let (waiter, lock, blocker) = (text(row, 0), text(row, 1), text(row, 2));
        let all = || 0..dump.trxs.len();
        let is = |at: usize, id: &str| {
            let own = &dump.trxs[at].id;
            own == id || (id == "0" && !has_number(own))
        };
        for waiter in all().filter(|at| is(*at, &waiter) && requested[*at] == lock) {
            // If several transactions without a number have locks, the server does not say which of them blocks.
            let may = |at: &usize| *at != waiter && dump.trxs[*at].lock_structs > 0;
            let mut blockers = all().filter(|at| is(*at, &blocker)).filter(may);
            let first = blockers.next();
            let blocker = first.filter(|_| blockers.next().is_none());
            edges.extend(first.map(|_| Given { waiter, blocker }));
        }
    })?;
    dump.given.get_or_insert_default().extend(edges);
    Ok(())
}

/// Transactions that changed nothing have no number: it is 0 in all tables or, in INNODB_TRX of MariaDB 10.5, an address
/// with this bit.
fn has_number(id: &str) -> bool {
    id != "0" && id.parse().is_ok_and(|id: u64| id < NUMBERLESS)
}

/// A row of INNODB_LOCKS.
fn lock(row: &Row<'_>, waiting: bool) -> Option<Lock> {
    let mode = text(row, 2);
    let (name, gap) = mode.split_once(',').unwrap_or((&mode, ""));
    let page = number(row, 5).zip(number(row, 6)).map(|(space, page)| Page {
        index: text(row, 4).trim_matches('`').into(),
        space,
        page,
    });
    Some(Lock {
        table: table_name(text(row, 3).as_bytes()).into(),
        page,
        heaps: number(row, 7).into_iter().collect(),
        mode: Mode::parse(name.as_bytes())?,
        span: if gap.contains("GAP") { Span::Gap } else { Span::Unsaid },
        insert_intention: false,
        waiting,
        owner: text(row, 1),
        key: Some(text(row, 8)).filter(|key| !key.is_empty()),
    })
}

/// The lock that a row of FROND_LOCK_WAITS waits for. It has no page; the key tells records apart.
fn frond_lock(row: &Row<'_>, owner: &str) -> Option<Lock> {
    let index = text(row, 6);
    let page = Page { index: index.as_str().into(), space: 0, page: 0 };
    Some(Lock {
        table: format!("{}.{}", text(row, 4), text(row, 5)).into(),
        // A lock on a whole index is shown as a lock on the table.
        page: (!index.is_empty() && text(row, 8) != "INDEX").then_some(page),
        heaps: Vec::new(),
        mode: Mode::parse(text(row, 3).as_bytes())?,
        span: Span::Unsaid,
        insert_intention: false,
        waiting: true,
        owner: owner.to_owned(),
        key: Some(text(row, 7)).filter(|key| !key.is_empty()),
    })
}
