//! Bytes that are not monitor output, or only its beginning (LK2, LK3).

use frond_locks::graph::waits;

use crate::checks::monitor;
use crate::fuzzing::{first_seed, rounds};
use crate::print::{dump, How, Server};
use crate::world::World;
use crate::{read, Random};

const HOW: How = How { server: Server::MariaDb, lock_monitor: true, most: 10, second: 60 };

#[test]
fn a_dump_cut_anywhere_is_read_as_far_as_it_goes() {
    let mut random = Random::new(11);
    let world = World::new(&mut random);
    let text = dump(&HOW, &world, "", &mut random);
    let whole = read(text.as_bytes());
    let all = whole.dumps[0].trxs.len();
    for end in 0..text.len() {
        let found = read(&text.as_bytes()[..end]);
        assert!(found.dumps.len() <= 1);
        for dump in &found.dumps {
            assert!(!dump.complete || end + 40 > text.len());
            assert!(dump.trxs.len() <= all);
            // Each blocker is also one in the whole dump.
            for wait in waits(dump) {
                let names = |d: &frond_locks::model::Dump, w: &frond_locks::graph::Wait| {
                    w.by.iter().map(|by| d.trxs[by.trx].id.clone()).collect::<Vec<_>>()
                };
                let id = &dump.trxs[wait.waiter].id;
                let same = waits(&whole.dumps[0]);
                let same = same.iter().find(|w| whole.dumps[0].trxs[w.waiter].id == *id);
                let known = same.map_or(Vec::new(), |w| names(&whole.dumps[0], w));
                assert!(names(dump, &wait).iter().all(|by| known.contains(by)), "{end}");
            }
        }
        if end % 7 == 0 {
            monitor(&text.as_bytes()[..end]);
        }
    }
}

#[test]
fn no_bytes_make_it_fail() {
    let first = first_seed();
    for round in 0..rounds(3_000) {
        let mut random = Random::new(first.wrapping_add(round));
        let world = World::new(&mut random);
        let mut text = dump(&HOW, &world, "", &mut random).into_bytes();
        for _ in 0..1 + random.below(30) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(4) {
                0 => text[at] = random.below(256) as u8,
                1 => drop(text.drain(at..(at + random.below(40) as usize).min(text.len()))),
                2 => {
                    let more = random.of(&[
                        "9999999999999999999",
                        "-",
                        "\n",
                        "***",
                        "---",
                        "\\n",
                        ", ",
                        "`",
                    ]);
                    text.splice(at..at, more.bytes());
                }
                _ => {
                    let from = random.below(text.len() as u64) as usize;
                    let piece = text[from..(from + 200).min(text.len())].to_vec();
                    text.splice(at..at, piece);
                }
            }
            if text.is_empty() {
                break;
            }
        }
        monitor(&text);
    }
    let noise: Vec<u8> =
        (0..1_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    monitor(&noise);
}

#[test]
fn one_record_with_ten_thousand_waiters_takes_no_time() {
    let mut text = String::from("=\n2026-11-23 01:00:00 0x1 INNODB MONITOR OUTPUT\n=\n------------\nTRANSACTIONS\n------------\n");
    for n in 0..10_000 {
        let waiting = if n == 0 { "" } else { " waiting" };
        let lock = format!(
            "RECORD LOCKS space id 5 page no 3 n bits 320 index PRIMARY of table `a`.`b` trx id {n} lock_mode X{waiting}\n\
             Record lock, heap no 2\n"
        );
        text += &format!("---TRANSACTION {n}, ACTIVE 5 sec\nLOCK WAIT 1 lock struct(s), heap size 1\nMySQL thread id {n}\nx\n");
        text += &format!(
            "------- TRX HAS BEEN WAITING {} us FOR THIS LOCK TO BE GRANTED:\n{lock}",
            20_000 - n
        );
    }
    let began = std::time::Instant::now();
    monitor(text.as_bytes());
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

/// Damage by chance once made two such numbers.
#[test]
fn waits_of_any_length_are_added_up() {
    let mut text = String::from("=\n2026-11-23 01:00:00 0x1 INNODB MONITOR OUTPUT\n=\n------------\nTRANSACTIONS\n------------\n");
    for n in 0..2 {
        let micros = u64::MAX - n;
        text += &format!(
            "---TRANSACTION {n}, ACTIVE 5 sec\nLOCK WAIT 1 lock struct(s), heap size 1\nMySQL thread id {n}\nx\n\
             ------- TRX HAS BEEN WAITING {micros} us FOR THIS LOCK TO BE GRANTED:\n\
             RECORD LOCKS space id 5 page no 3 n bits 320 index PRIMARY of table `a`.`b` trx id {n} lock_mode X waiting\n\
             Record lock, heap no 2\n"
        );
    }
    monitor(text.as_bytes());
}

#[test]
fn a_status_in_one_line_is_the_same_as_in_many() {
    let mut random = Random::new(5);
    let world = World::new(&mut random);
    let text = dump(&HOW, &world, "", &mut random);
    let one = format!("InnoDB\t\t\\n{}\n", text.replace('\\', "\\\\").replace('\n', "\\n"));
    assert_eq!(read(text.as_bytes()).dumps, read(one.as_bytes()).dumps);
    let vertical = format!("***** 1. row *****\n  Type: InnoDB\n  Name: \nStatus: \n{text}");
    assert_eq!(read(text.as_bytes()).dumps, read(vertical.as_bytes()).dumps);
    assert_eq!(read(text.as_bytes()).dumps, read(text.replace('\n', "\r\n").as_bytes()).dumps);
}
