//! A world as servers print it.

use std::fmt::Write;

use crate::world::{Request, What, World};
use crate::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// 10.4 and later: microseconds, hexadecimal threads.
    MariaDb,
    MySql80,
    /// 5.5: hexadecimal numbers of transactions, short dates.
    MySql55,
    /// 5.0: numbers in two parts.
    MySql50,
}

pub const SERVERS: [Server; 4] =
    [Server::MariaDb, Server::MySql80, Server::MySql55, Server::MySql50];

#[derive(Clone, Copy)]
pub struct How {
    pub server: Server,
    /// `innodb_status_output_locks`
    pub lock_monitor: bool,
    /// The most locks that are printed for a transaction.
    pub most: usize,
    /// Seconds after midnight.
    pub second: u64,
}

const TABLES: [&str; 3] = ["sale", "odd name", "t2"];
const INDEXES: [&str; 2] = ["PRIMARY", "by_price"];

/// Statements, some of which look like the text around them.
const STATEMENTS: [&str; 6] = [
    "update sale set price = 1 where id = 5",
    "select '\nTRANSACTION 5, ACTIVE 7 sec\nmysql tables in use 1, locked 1\n' for update",
    "insert into t2 values ('\n=====\nRECORD LOCKS of nobody\n--- x\n')",
    "delete from `odd name`\n\n  where a = 'MySQL thread id 9, query id 4'\n 0: len 4; hex 80000063; asc    c;;",
    "update t2 set a = '\n*** (1) TRANSACTION:\n*** WE ROLL BACK TRANSACTION (1)\n'",
    "call p()",
];

pub fn id(server: Server, trx: usize) -> String {
    match server {
        Server::MySql55 => format!("{:X}", 0x1c3e1a0 + trx),
        Server::MySql50 => format!("0 {}", 3_793_488 + trx),
        Server::MySql80 | Server::MariaDb => (4_000 + trx).to_string(),
    }
}

pub fn stamp(server: Server, second: u64) -> String {
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    match server {
        Server::MariaDb => format!("2026-11-23 {h:02}:{m:02}:{s:02} 0x7fd1400aa6c0"),
        Server::MySql80 => format!("2026-11-23 {h:02}:{m:02}:{s:02} 139785217"),
        Server::MySql55 | Server::MySql50 => format!("261123 {h:>2}:{m:02}:{s:02}"),
    }
}

/// How long a waiter has been waiting: later requests wait for less time.
pub fn waited_micros(world: &World, trx: usize) -> u64 {
    let place = world.requests.iter().position(|r| r.trx == trx && !r.granted).unwrap();
    (world.requests.len() - place) as u64 * 1_700_000 + 13
}

pub fn lock(how: &How, of: &[&Request], out: &mut String) {
    let first = of[0];
    let trx = id(how.server, first.trx);
    let table = match how.server {
        Server::MySql50 => format!("`shop/{}`", TABLES[first.table]),
        _ => format!("`shop`.`{}`", TABLES[first.table]),
    };
    let waiting = if first.granted { "" } else { " waiting" };
    let Some((index, page, _)) = first.at else {
        writeln!(out, "TABLE LOCK table {table} trx id {trx} lock mode {}{waiting}", first.mode)
            .unwrap();
        return;
    };
    let index = match how.server {
        Server::MariaDb | Server::MySql80 => INDEXES[index].to_owned(),
        _ => format!("`{}`", INDEXES[index]),
    };
    let mode = if first.mode == "X" { "lock_mode X" } else { "lock mode S" };
    let supremum = first.at.is_some_and(|(_, _, heap)| heap == 1);
    let what = match first.what {
        What::NextKey => "",
        What::Gap => " locks gap before rec",
        What::Record => " locks rec but not gap",
        What::InsertIntention if supremum => " insert intention",
        What::InsertIntention => " locks gap before rec insert intention",
    };
    writeln!(
        out,
        "RECORD LOCKS space id {} page no {page} n bits 320 index {index} of table {table} trx id {trx} {mode}{what}{waiting}",
        first.table + 5,
    )
    .unwrap();
    for request in of {
        let heap = request.at.unwrap().2;
        record(heap, out);
    }
}

pub fn record(heap: u32, out: &mut String) {
    if heap == 1 {
        out.push_str(
            "Record lock, heap no 1 PHYSICAL RECORD: n_fields 1; compact format; info bits 0\n",
        );
        out.push_str(" 0: len 8; hex 73757072656d756d; asc supremum;;\n\n");
        return;
    }
    let n = 0x8000_0000_u32 + heap;
    write!(
        out,
        "Record lock, heap no {heap} PHYSICAL RECORD: n_fields 3; compact format; info bits 0\n \
         0: len 4; hex {n:x}; asc     ;;\n 1: len 6; hex 00000000001c; asc       ;;\n \
         2: len 7; hex 09000001390110; asc     9  ;;\n\n"
    )
    .unwrap();
}

/// The lines of a transaction up to its statement.
pub fn head(how: &How, world: &World, trx: usize, statement: &str, out: &mut String) {
    let locks = world.locks(trx);
    let waits = world.waits(trx).is_some();
    let rows = world.requests.iter().filter(|r| r.trx == trx && r.at.is_some()).count();
    let old = matches!(how.server, Server::MySql55 | Server::MySql50);
    let thread = if old { ", process no 5488, OS thread id 1141287232" } else { "" };
    let state = if waits { " starting index read" } else { "" };
    writeln!(out, "TRANSACTION {}, ACTIVE {} sec{thread}{state}", id(how.server, trx), 60 + trx)
        .unwrap();
    out.push_str("mysql tables in use 1, locked 1\n");
    let wait = if waits { "LOCK WAIT " } else { "" };
    writeln!(
        out,
        "{wait}{} lock struct(s), heap size 1128, {rows} row lock(s), undo log entries {trx}",
        locks.len()
    )
    .unwrap();
    let name = if how.server == Server::MariaDb { "MariaDB" } else { "MySQL" };
    let handle = if old { "" } else { ", OS thread handle 140536700868288" };
    let state = if waits { "Updating" } else { "" };
    writeln!(
        out,
        "{name} thread id {}{handle}, query id {} localhost shop {state}",
        100 + trx,
        900 + trx
    )
    .unwrap();
    if !statement.is_empty() {
        writeln!(out, "{statement}").unwrap();
    }
}

fn transaction(how: &How, world: &World, trx: usize, random: &mut Random, out: &mut String) {
    let locks = world.locks(trx);
    if locks.is_empty() {
        writeln!(
            out,
            "---TRANSACTION {}, not started\n0 lock struct(s), heap size 1128, 0 row lock(s)",
            id(how.server, trx)
        )
        .unwrap();
        return;
    }
    let waits = world.waits(trx);
    // A waiting transaction runs a statement.
    let statement = if waits.is_none() && random.one_in(2) { "" } else { random.of(&STATEMENTS) };
    out.push_str("---");
    head(how, world, trx, statement, out);
    if random.one_in(3) {
        out.push_str("Trx read view will not see trx with id >= 4711, sees < 4700\n");
    }
    if let Some(wait) = waits {
        let micros = waited_micros(world, trx);
        match how.server {
            Server::MariaDb => writeln!(
                out,
                "------- TRX HAS BEEN WAITING {micros} us FOR THIS LOCK TO BE GRANTED:"
            ),
            _ => writeln!(
                out,
                "------- TRX HAS BEEN WAITING {} SEC FOR THIS LOCK TO BE GRANTED:",
                micros / 1_000_000
            ),
        }
        .unwrap();
        lock(how, &[wait], out);
        out.push_str("------------------\n");
    }
    if how.lock_monitor {
        locks.iter().take(how.most).for_each(|of| lock(how, of, out));
        if locks.len() > how.most {
            writeln!(out, "{} LOCKS PRINTED FOR THIS TRX: SUPPRESSING FURTHER PRINTS", how.most)
                .unwrap();
        }
    }
}

/// A whole dump. `latest`: the section of the latest deadlock, if there is one.
pub fn dump(how: &How, world: &World, latest: &str, random: &mut Random) -> String {
    let mut out = String::new();
    let bar = "=====================================\n";
    write!(out, "{bar}{} INNODB MONITOR OUTPUT\n{bar}", stamp(how.server, how.second)).unwrap();
    out.push_str("Per second averages calculated from the last 15 seconds\n");
    out.push_str("-----------------\nBACKGROUND THREAD\n-----------------\n");
    out.push_str(
        "----------\nSEMAPHORES\n----------\nOS WAIT ARRAY INFO: reservation count 8133\n",
    );
    if !latest.is_empty() {
        let bar = "------------------------\n";
        write!(out, "{bar}LATEST DETECTED DEADLOCK\n{bar}{latest}").unwrap();
    }
    out.push_str("------------\nTRANSACTIONS\n------------\nTrx id counter 4711\n");
    out.push_str("Purge done for trx's n:o < 27 undo n:o < 0 state: running but idle\n");
    writeln!(out, "History list length {}", how.second % 100).unwrap();
    out.push_str("LIST OF TRANSACTIONS FOR EACH SESSION:\n");
    let mut order: Vec<usize> = (0..world.transactions).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    order.into_iter().for_each(|trx| transaction(how, world, trx, random, &mut out));
    out.push_str("--------\nFILE I/O\n--------\nPending flushes (fsync): 0\n---\nLOG\n---\n");
    out.push_str(match how.server {
        Server::MySql50 => "Log sequence number 1 1000\nLast checkpoint at  1 600\n",
        _ => "Log sequence number 4294968296\nLast checkpoint at  4294967896\n",
    });
    out.push_str(
        "--------------\nROW OPERATIONS\n--------------\n0 read views open inside InnoDB\n",
    );
    out.push_str("----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n");
    out
}

/// Lines of other threads between those of a log.
pub fn with_noise(text: &str, random: &mut Random) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if random.one_in(12) {
            out.push_str(random.of(&[
                "2026-11-23 19:37:12 55 [Warning] Aborted connection 55 to db: 'x' (Got timeout)\n",
                "2026-11-23T19:37:12.123456Z 8 [Note] [MY-010051] [Server] something\n",
                "261123 19:37:12 [Note] Event Scheduler: Loaded 0 events\n",
            ]));
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}
