//! The expectations of innotop's and percona-toolkit's own tests for their sample files. `FROND_MONITOR_SAMPLES` names a
//! directory with the files (`innodb-status-001` and so on from innotop's `t/`, `bug_1082104.txt` and so on from
//! percona-toolkit's `t/pt-deadlock-logger/samples`); without it the test says so.

use std::path::Path;

use crate::read;

/// File; dumps; transactions; history; row locks of some connections; members of the deadlock, and which of them was
/// rolled back.
struct Facts(&'static str, usize, Option<u64>, &'static [(u64, u64)], usize, Option<usize>);

const FACTS: [Facts; 12] = [
    Facts("innodb-status-001", 2, Some(11), &[(1, 3), (2_541_119, 0)], 0, None),
    Facts("innodb-status-002", 2, Some(1067), &[(479, 0), (1, 0)], 0, None),
    Facts("innodb-status-006", 2, Some(130), &[(589, 0), (577, 0)], 0, None),
    Facts(
        "innodb-status-007",
        17,
        Some(2496),
        &[(406_416, 0), (405_451, 0), (406_073, 4_093_569)],
        2,
        Some(0),
    ),
    Facts("innodb-status-008", 1, Some(18), &[(1, 0)], 0, None),
    Facts("innodb-status-009", 1, Some(2401), &[(1552, 0)], 0, None),
    Facts("innodb-status-010", 4, Some(16), &[(12, 0)], 0, None),
    Facts("innodb-status-011", 5, Some(109), &[(27, 0)], 0, None),
    Facts("innodb-status-012", 4, Some(297), &[], 0, None),
    // Without a monitor's header.
    Facts("bug_1082104.txt", 0, None, &[], 2, Some(1)),
    Facts("bug_903443.txt", 0, None, &[], 2, Some(1)),
    Facts("bug_1195034.txt", 0, None, &[], 1, None),
];

#[test]
fn samples_of_other_tools_have_the_facts_that_these_expect() {
    let Some(dir) = std::env::var_os("FROND_MONITOR_SAMPLES") else {
        eprintln!("skipped: FROND_MONITOR_SAMPLES names no directory");
        return;
    };
    for Facts(name, transactions, history, some, members, victim) in FACTS {
        let text = std::fs::read(Path::new(&dir).join(name)).unwrap();
        let found = read(&text);
        let dump = found.dumps.first();
        assert!(found.dumps.len() <= 1, "{name}");
        assert_eq!(dump.map_or(0, |dump| dump.trxs.len()), transactions, "{name}");
        assert_eq!(dump.and_then(|dump| dump.history), history, "{name}");
        for (thread, rows) in some {
            let trxs = &dump.unwrap().trxs;
            let trx = trxs.iter().find(|trx| trx.thread == Some(*thread)).unwrap();
            assert_eq!(trx.row_locks, *rows, "{name} {thread}");
        }
        let deadlock = found.deadlocks.first();
        assert_eq!(deadlock.map_or(0, |d| d.members.len()), members, "{name}");
        assert_eq!(deadlock.and_then(|d| d.victim), victim, "{name}");
    }
}
