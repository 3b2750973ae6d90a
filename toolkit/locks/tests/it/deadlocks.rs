//! Deadlocks from the log and from the monitor: each once (LK4), with all members, edges and the
//! victim.

use std::fmt::Write;

use frond_locks::analysis::Analysis;
use frond_locks::report::{Options, Report};
use frond_locks::text::reader::Reader;

use crate::print::{dump, head, id, lock, stamp, How, Server};
use crate::world::{Request, What, World};
use crate::{read, Random};

fn request(trx: usize, heap: u32, granted: bool) -> Request {
    let at = Some((0, 3, heap));
    Request { trx, table: 0, at, mode: "X", what: What::Record, granted, behind: Vec::new() }
}

/// Each of `members` has the record with its number and waits for the next one's.
fn circle(members: usize) -> World {
    let has = (0..members).map(|trx| request(trx, trx as u32 + 2, true));
    let next = |trx: usize| ((trx + 1) % members) as u32 + 2;
    let wants = (0..members).map(|trx| request(trx, next(trx), false));
    World { transactions: members, requests: has.chain(wants).collect() }
}

/// The printed text of a deadlock; `prefix` begins the error log's own lines.
fn printed(how: &How, members: usize, shift: usize, prefix: &str) -> String {
    let world = circle(members);
    let mut out = String::new();
    for trx in 0..members {
        let at = (trx + shift) % members;
        let mariadb = how.server == Server::MariaDb;
        let break_line = if prefix.is_empty() { "" } else { "\n" };
        write!(out, "{prefix}{break_line}*** ({}) TRANSACTION:\n{break_line}", trx + 1).unwrap();
        head(how, &world, at, &format!("update sale set a = {at} where id = {at}"), &mut out);
        let wants = world.waits(at).unwrap();
        let number = if mariadb { String::new() } else { format!("({}) ", trx + 1) };
        let mut own = world.locks(at)[0][0].clone();
        let wait = |out: &mut String| {
            write!(out, "{prefix}*** {number}WAITING FOR THIS LOCK TO BE GRANTED:\n{break_line}")
                .unwrap();
            lock(how, &[wants], out);
        };
        if mariadb {
            wait(&mut out);
            write!(out, "{prefix}*** CONFLICTING WITH:\n{break_line}").unwrap();
            own.trx = (at + 1) % members;
            own.at = wants.at;
            lock(how, &[&own], &mut out);
        } else {
            write!(out, "{prefix}*** {number}HOLDS THE LOCK(S):\n{break_line}").unwrap();
            lock(how, &[&own], &mut out);
            wait(&mut out);
        }
    }
    writeln!(out, "{prefix}*** WE ROLL BACK TRANSACTION ({members})").unwrap();
    out
}

fn report(text: &str) -> Report {
    let (mut analysis, mut reader) = (Analysis::default(), Reader::default());
    reader.feed(text.as_bytes(), &mut analysis);
    reader.finish(&mut analysis);
    Report::of(&mut analysis, vec!["x".into()], &Options { limit: 100, keys: true })
}

const HOW: How = How { server: Server::MariaDb, lock_monitor: true, most: 10, second: 7_200 };

#[test]
fn members_edges_and_the_victim_are_found() {
    for server in [Server::MariaDb, Server::MySql80, Server::MySql55] {
        let how = How { server, ..HOW };
        for members in 2..6 {
            let latest = format!("{}\n{}", stamp(server, 7_000), printed(&how, members, 1, ""));
            let world = circle(2);
            let text = dump(&how, &world, &latest, &mut Random::new(1));
            let report = report(&text);
            assert_eq!(
                (report.deadlocks, report.deadlock_groups.len()),
                (1, 1),
                "{server:?}\n{text}"
            );
            let group = &report.deadlock_groups[0];
            assert_eq!(group.first.unwrap().to_string(), "2026-11-23 01:56:40");
            assert_eq!(group.members.len(), members);
            for (at, member) in group.members.iter().enumerate() {
                let trx = (at + 1) % members;
                assert_eq!(member.who.transaction, id(server, trx));
                assert_eq!(
                    member.held_by,
                    [id(server, (trx + 1) % members)],
                    "{server:?} {members}"
                );
                assert_eq!(member.rolled_back, at + 1 == members);
                assert_eq!(member.wants.lock, "X record");
                assert_eq!(member.wants.table, "shop.sale");
                assert_eq!(member.statement, "update sale set a = ? where id = ?");
            }
            assert!(group.hint.contains("different order"), "{}", group.hint);
        }
    }
}

#[test]
fn a_deadlock_in_the_log_and_in_every_dump_counts_once() {
    for (server, prefix) in [
        (Server::MariaDb, "2026-11-23 01:56:40 6 [Note] InnoDB: "),
        (Server::MySql80, "2026-11-23T01:56:40.123456Z 8 [Note] [MY-012469] [InnoDB] "),
    ] {
        let how = How { server, ..HOW };
        let mut log =
            format!("{prefix}Transactions deadlock detected, dumping detailed information.\n");
        log += &printed(&how, 3, 0, prefix);
        assert_eq!(read(log.as_bytes()).deadlocks.len(), 1, "{log}");
        let latest = format!("{}\n{}", stamp(server, 7_000), printed(&how, 3, 0, ""));
        for n in 0..5 {
            let how = How { second: 7_200 + 15 * n, ..how };
            log += &dump(&how, &circle(2), &latest, &mut Random::new(n));
        }
        let report = report(&log);
        assert_eq!((report.dumps, report.deadlocks), (5, 1), "{server:?}");
        // Another deadlock, later: the same transaction numbers with other statements.
        let later = latest.replacen("01:56:40", "02:10:00", 1).replace("query id 9", "query id 8");
        let later = later.replace(&stamp(server, 7_000), &stamp(server, 7_800));
        log += &dump(&How { second: 7_900, ..how }, &circle(2), &later, &mut Random::new(9));
        let report = self::report(&log);
        assert_eq!((report.deadlocks, report.deadlock_groups.len()), (2, 1), "{server:?}");
        assert_eq!(report.deadlock_groups[0].count, 2);
    }
}

#[test]
fn a_deadlock_in_the_files_of_one_server_counts_once() {
    let latest = format!("{}\n{}", stamp(HOW.server, 7_000), printed(&HOW, 2, 0, ""));
    let text = dump(&HOW, &circle(2), &latest, &mut Random::new(1));
    let mut analysis = Analysis::default();
    for _ in 0..2 {
        let mut reader = Reader::default();
        reader.feed(text.as_bytes(), &mut analysis);
        reader.finish(&mut analysis);
        analysis.end_of_server();
    }
    assert_eq!((analysis.dumps, analysis.deadlocks.count), (2, 1));
}

#[test]
fn a_member_without_a_number_is_known_by_its_address() {
    let first = id(HOW.server, 0);
    let text = format!("{}\n{}", stamp(HOW.server, 7_000), printed(&HOW, 2, 0, ""));
    let text =
        text.replace(&format!("TRANSACTION {first},"), "TRANSACTION (0x7fd140f64780),").replace(
            &format!(" trx id {first} "),
            &format!(" trx id {} ", 0x7fd1_40f6_4780_u64 | 1 << 48),
        );
    let report = report(&dump(&HOW, &circle(2), &text, &mut Random::new(1)));
    assert_eq!(report.deadlock_groups[0].members[1].held_by, ["(0x7fd140f64780)"]);
    assert_eq!(report.deadlock_groups[0].members[0].held_by, [id(HOW.server, 1)]);
}

#[test]
fn a_deadlock_that_is_logged_between_the_lines_of_a_dump_adds_no_locks_to_it() {
    let world = circle(2);
    let text = dump(&HOW, &world, "", &mut Random::new(3));
    let prefix = "2026-11-23 01:56:40 6 [Note] InnoDB: ";
    let mut other = printed(&HOW, 4, 0, prefix);
    // The transactions are not in the dump.
    for trx in 0..4 {
        other = other.replace(&id(Server::MariaDb, trx), &format!("99{trx}"));
    }
    let lines: Vec<&str> = text.lines().collect();
    for at in 0..lines.len() {
        let mixed = format!("{}\n{other}{}\n", lines[..at].join("\n"), lines[at..].join("\n"));
        for dump in read(mixed.as_bytes()).dumps {
            let locks =
                dump.trxs.iter().flat_map(|trx| trx.locks.iter().map(move |lock| (trx, lock)));
            assert!(locks.into_iter().all(|(trx, lock)| trx.id == lock.owner), "{at}\n{mixed}");
        }
    }
}
