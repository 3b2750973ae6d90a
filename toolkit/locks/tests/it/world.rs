//! A small server with locks. Requests are granted or wait by the tables in InnoDB's manual, so it is known who waits
//! for whom. It uses none of the project's own rules.

use std::collections::BTreeSet;

use crate::Random;

/// The requested part of one record and the gap before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    NextKey,
    Gap,
    Record,
    InsertIntention,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub trx: usize,
    pub table: usize,
    /// Index, page, heap number; `None`: the table itself.
    pub at: Option<(usize, u64, u32)>,
    pub mode: &'static str,
    pub what: What,
    pub granted: bool,
    /// The requests that blocked it, and whether they had been granted.
    pub behind: Vec<(usize, bool)>,
}

pub struct World {
    pub transactions: usize,
    /// In the order in which they were made.
    pub requests: Vec<Request>,
}

/// The manual's table of modes, in the order X, IX, S, IS, AUTO-INC; a dot: compatible.
const MODES: [(&str, &str); 5] =
    [("X", "#####"), ("IX", "#.#.."), ("S", "##..#"), ("IS", "#...."), ("AUTO-INC", "#.#.#")];

fn modes_conflict(a: &str, b: &str) -> bool {
    let column = MODES.iter().position(|(name, _)| *name == b).unwrap();
    let row = MODES.iter().find(|(name, _)| *name == a).unwrap().1;
    row.as_bytes()[column] == b'#'
}

/// Rows: the request; columns: the existing lock. Next-key, gap, record, insert intention.
fn spans_conflict(asked: What, there: What, supremum: bool) -> bool {
    let row = match asked {
        What::NextKey | What::Record if supremum => "....",
        What::NextKey => "#.#.",
        What::Gap => "....",
        What::Record => "#.#.",
        What::InsertIntention => "##..",
    };
    row.as_bytes()[there as usize] == b'#'
}

fn conflict(asked: &Request, there: &Request) -> bool {
    asked.table == there.table
        && asked.at == there.at
        && modes_conflict(asked.mode, there.mode)
        && asked.at.is_none_or(|(_, _, heap)| spans_conflict(asked.what, there.what, heap == 1))
}

impl World {
    pub fn new(random: &mut Random) -> World {
        let transactions = 2 + random.below(10) as usize;
        let mut world = World { transactions, requests: Vec::new() };
        for _ in 0..5 + random.below(60) {
            let trx = random.below(transactions as u64) as usize;
            if world.requests.iter().any(|r| r.trx == trx && !r.granted) {
                continue;
            }
            let table = random.below(3) as usize;
            let mut request = Request {
                trx,
                table,
                at: None,
                mode: random.of(&["IX", "IS", "IX", "IX", "S", "X", "AUTO-INC"]),
                what: What::NextKey,
                granted: true,
                behind: Vec::new(),
            };
            if !random.one_in(6) {
                let heap = 1 + random.below(5) as u32;
                request.at = Some((random.below(2) as usize, 3 + random.below(2), heap));
                request.mode = random.of(&["X", "S"]);
                request.what = match random.below(4) {
                    _ if heap == 1 && !random.one_in(2) => What::NextKey,
                    0 => What::Gap,
                    1 => What::InsertIntention,
                    2 if heap != 1 => What::Record,
                    _ => What::NextKey,
                };
                if request.what == What::InsertIntention {
                    request.mode = "X";
                }
            }
            world.ask(request);
        }
        world
    }

    fn ask(&mut self, mut request: Request) {
        // A transaction does not request again what it has.
        let again = |r: &&Request| {
            r.trx == request.trx
                && r.table == request.table
                && r.at == request.at
                && r.mode == request.mode
                && r.what == request.what
        };
        if self.requests.iter().any(|r| again(&r)) {
            return;
        }
        for there in self.requests.iter().filter(|r| r.trx != request.trx) {
            if conflict(&request, there) {
                request.behind.push((there.trx, there.granted));
            }
        }
        request.granted = request.behind.is_empty();
        // A lock on a gap is granted although an insert already waits for the gap; that insert then waits for this
        // lock, too.
        for waiter in self.requests.iter_mut().filter(|r| !r.granted && r.trx != request.trx) {
            if request.granted && conflict(waiter, &request) {
                assert_eq!(waiter.what, What::InsertIntention);
                waiter.behind.push((request.trx, true));
            }
        }
        // An insert whose gap is free leaves no lock.
        if request.what != What::InsertIntention || !request.granted {
            self.requests.push(request);
        }
    }

    /// The requests of one transaction; those of one page, mode and kind are together, as they are printed.
    pub fn locks(&self, trx: usize) -> Vec<Vec<&Request>> {
        let mut locks: Vec<Vec<&Request>> = Vec::new();
        for request in self.requests.iter().filter(|r| r.trx == trx) {
            let page = |r: &Request| r.at.map(|(index, page, _)| (index, page));
            let same = |lock: &&mut Vec<&Request>| {
                let first = lock[0];
                request.at.is_some()
                    && (first.table, page(first), first.mode, first.what, first.granted)
                        == (
                            request.table,
                            page(request),
                            request.mode,
                            request.what,
                            request.granted,
                        )
            };
            match locks.iter_mut().find(same) {
                Some(lock) => lock.push(request),
                None => locks.push(vec![request]),
            }
        }
        locks
    }

    pub fn waits(&self, trx: usize) -> Option<&Request> {
        self.requests.iter().find(|r| r.trx == trx && !r.granted)
    }

    /// The transactions that wait for nothing and that `trx` waits for, directly or not.
    pub fn roots(&self, trx: usize) -> BTreeSet<usize> {
        let (mut seen, mut roots, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![trx]);
        while let Some(at) = next.pop() {
            for (by, _) in self.waits(at).map_or(&[][..], |wait| &wait.behind) {
                match self.waits(*by) {
                    Some(_) if seen.insert(*by) => next.push(*by),
                    Some(_) => {}
                    None => {
                        roots.insert(*by);
                    }
                }
            }
        }
        roots
    }
}
