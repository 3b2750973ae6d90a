//! Every wait and every blocker of a known state is found in its text, and none is invented (LK1).

use std::collections::{BTreeMap, BTreeSet};

use frond_locks::graph::{roots, waits, Unknown};
use frond_locks::model::{Dump, Given, Trx};

use crate::print::{dump, id, waited_micros, with_noise, How, Server, SERVERS};
use crate::world::World;
use crate::{read, Random};

/// Waiter -> (blocker, holds).
type Edges = BTreeMap<String, BTreeSet<(String, bool)>>;

fn found(dump: &Dump) -> Edges {
    let name = |at: usize| dump.trxs[at].id.clone();
    waits(dump)
        .iter()
        .map(|w| (name(w.waiter), w.by.iter().map(|by| (name(by.trx), by.holds)).collect()))
        .collect()
}

fn known(world: &World, server: Server) -> Edges {
    let mut edges = Edges::new();
    for trx in 0..world.transactions {
        if let Some(wait) = world.waits(trx) {
            let mut by: BTreeSet<_> =
                wait.behind.iter().map(|(by, granted)| (id(server, *by), *granted)).collect();
            // A blocker that has a lock on the same record is named as a holder, even if it waits for
            // more.
            for (name, _) in by.clone().into_iter().filter(|(_, granted)| *granted) {
                by.remove(&(name, false));
            }
            edges.insert(id(server, trx), by);
        }
    }
    edges
}

const HOW: How =
    How { server: Server::MariaDb, lock_monitor: true, most: usize::MAX, second: 3_600 };

#[test]
fn every_wait_and_every_blocker_of_a_thousand_worlds_is_found() {
    let (mut edges, mut queued, mut chains) = (0, 0, 0);
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        for server in SERVERS {
            let text = dump(&How { server, ..HOW }, &world, "", &mut random);
            let text = if seed % 2 == 0 { with_noise(&text, &mut random) } else { text };
            let read = read(text.as_bytes());
            assert_eq!((read.dumps.len(), read.deadlocks.len()), (1, 0), "seed {seed} {server:?}");
            let dump = &read.dumps[0];
            assert!(dump.complete, "seed {seed}");
            let known = known(&world, server);
            assert_eq!(found(dump), known, "seed {seed} {server:?}\n{text}");
            assert_eq!((dump.lsn, dump.checkpoint), (Some(4_294_968_296), Some(4_294_967_896)));
            // Roots, too.
            let waits = waits(dump);
            for (wait, roots) in waits.iter().zip(roots(&waits)) {
                let names: BTreeSet<String> =
                    roots.iter().map(|at| dump.trxs[*at].id.clone()).collect();
                let trx = (0..world.transactions)
                    .find(|trx| id(server, *trx) == dump.trxs[wait.waiter].id)
                    .unwrap();
                let wanted = world.roots(trx).into_iter().map(|trx| id(server, trx)).collect();
                assert_eq!(names, wanted, "seed {seed}");
                chains += usize::from(wait.by.iter().all(|by| !roots.contains(&by.trx)));
            }
            edges += known.values().map(BTreeSet::len).sum::<usize>();
            queued += known.values().flatten().filter(|(_, holds)| !holds).count();
        }
    }
    // The worlds must have enough of each case.
    assert!(edges > 20_000 && queued > 2_000 && chains > 500, "{edges} {queued} {chains}");
}

#[test]
fn facts_of_each_transaction_are_read() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        for server in SERVERS {
            let text = dump(&How { server, ..HOW }, &world, "", &mut random);
            let read = read(text.as_bytes());
            let dump = &read.dumps[0];
            assert_eq!(dump.trxs.len(), world.transactions);
            for trx in 0..world.transactions {
                let seen = dump.trxs.iter().find(|t| t.id == id(server, trx)).unwrap();
                let locks = world.locks(trx);
                assert_eq!(seen.locks.len(), locks.len(), "seed {seed} {seen:?}");
                if locks.is_empty() {
                    assert_eq!(seen.active, None);
                    continue;
                }
                let n = trx as u64;
                assert_eq!((seen.active, seen.thread), (Some(60 + n), Some(100 + n)));
                assert_eq!((seen.undo, seen.query_id), (n, Some(900 + n)));
                assert_eq!((seen.user.as_str(), seen.host.as_str()), ("shop", "localhost"));
                assert_eq!(seen.waits, world.waits(trx).is_some());
                assert_eq!(seen.idle(), seen.statement.is_empty());
                if let Some(wait) = world.waits(trx) {
                    let micros = waited_micros(&world, trx);
                    let unit = if server == Server::MariaDb { 1 } else { 1_000_000 };
                    assert_eq!(seen.wait_micros, Some(micros / unit * unit));
                    let key = seen.waiting_lock().unwrap().key.clone();
                    let wanted = wait.at.map(|(_, _, heap)| match heap {
                        1 => "behind the last record of the page".to_owned(),
                        heap => heap.to_string(),
                    });
                    assert_eq!(key, wanted);
                }
            }
        }
    }
}

#[test]
fn blockers_that_are_not_printed_are_not_guessed() {
    let (mut without, mut suppressed) = (0, 0);
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        let known = known(&world, Server::MariaDb);
        let off = dump(&How { lock_monitor: false, ..HOW }, &world, "", &mut random);
        let read_off = read(off.as_bytes());
        for wait in waits(&read_off.dumps[0]) {
            let id = &read_off.dumps[0].trxs[wait.waiter].id;
            assert!(wait.by.iter().all(|by| !by.holds), "seed {seed}");
            let has = known[id].iter().any(|(_, holds)| *holds);
            let said = wait.unknown == Some(Unknown::NotPrinted);
            assert!(said || !has, "seed {seed}: {wait:?}");
            without += usize::from(said);
        }
        // With the limit on printed locks everything that is reported is true, and missing locks are
        // reported.
        let some = dump(&How { most: 2, ..HOW }, &world, "", &mut random);
        let read_some = read(some.as_bytes());
        for (waiter, by) in found(&read_some.dumps[0]) {
            let names = |by: &BTreeSet<(String, bool)>| -> BTreeSet<String> {
                by.iter().map(|(name, _)| name.clone()).collect()
            };
            assert!(names(&by).is_subset(&names(&known[&waiter])), "seed {seed}: {waiter} {by:?}");
        }
        for wait in waits(&read_some.dumps[0]) {
            let id = &read_some.dumps[0].trxs[wait.waiter].id;
            let has = known[id].iter().any(|(_, holds)| *holds);
            let named = wait.by.iter().any(|by| by.holds);
            assert!(!has || named || wait.unknown == Some(Unknown::NotPrinted), "seed {seed}");
            suppressed += usize::from(has && !named);
        }
    }
    assert!(without > 200 && suppressed > 20, "{without} {suppressed}");
}

#[test]
fn a_wait_in_many_dumps_counts_once() {
    let mut random = Random::new(7);
    let world = loop {
        let world = World::new(&mut random);
        if (0..world.transactions).any(|trx| world.waits(trx).is_some()) {
            break world;
        }
    };
    let count = (0..world.transactions).filter(|trx| world.waits(*trx).is_some()).count();
    let mut text = String::new();
    for n in 0..20 {
        text += &dump(&How { second: 3_600 + n * 15, ..HOW }, &world, "", &mut random);
    }
    let mut analysis = frond_locks::analysis::Analysis::default();
    let mut reader = frond_locks::text::reader::Reader::default();
    reader.feed(text.as_bytes(), &mut analysis);
    reader.finish(&mut analysis);
    let options = frond_locks::report::Options { limit: 100, keys: true };
    let report = frond_locks::report::Report::of(&mut analysis, vec!["x".into()], &options);
    assert_eq!((report.dumps, report.waits.count), (20, count as u64));
    let open = (0..world.transactions).filter(|trx| !world.locks(*trx).is_empty()).count();
    assert_eq!(report.transactions, open as u64);
    assert_eq!(report.longest_transactions[0].dumps, 20);
    assert_eq!(report.series.len(), 20);
}

#[test]
fn a_blocker_that_the_server_does_not_name_is_not_said_to_be_gone() {
    let trxs = vec![Trx { waits: true, ..Trx::default() }, Trx::default()];
    let given = |blocker| Some(vec![Given { waiter: 0, blocker }]);
    let dump = Dump { trxs, given: given(None), complete: true, ..Dump::default() };
    assert_eq!(waits(&dump)[0].unknown, Some(Unknown::NotPrinted));
    let dump = Dump { given: given(Some(1)), ..dump };
    assert_eq!((waits(&dump)[0].by.len(), waits(&dump)[0].unknown), (1, None));
}

#[test]
fn a_long_queue_of_waiters_takes_linear_time() {
    const N: usize = 50_000;
    let trxs = (0..=N).map(|at| Trx { waits: at < N, ..Trx::default() }).collect();
    let next = |waiter| Given { waiter, blocker: Some(waiter + 1) };
    let dump = Dump { trxs, given: Some((0..N).map(next).collect()), ..Dump::default() };
    let begin = std::time::Instant::now();
    assert!(roots(&waits(&dump)).iter().all(|roots| *roots == [N]));
    assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
}
