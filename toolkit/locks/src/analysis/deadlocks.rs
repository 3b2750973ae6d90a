//! Deadlocks: each counted once, and similar ones grouped.

use std::collections::{BTreeMap, HashMap};

use super::class;
use crate::conflict::waits_for;
use crate::model::{Clock, Deadlock, Lock, Mode, Trx};
use crate::rows::{Deadlocks as Group, Member, Place};

/// Limit of the deadlocks of one server that are remembered, and of the signatures that are kept.
const MOST: usize = 100_000;
const GROUPS: usize = 5_000;
/// The log and the monitor stamp the same deadlock from two readings of the clock, at most so far
/// apart.
const SAME_SECONDS: i64 = 5;

/// The lock that each member wants (without keys), and its statement, in a fixed order.
type Signature = Vec<(Place, String)>;

/// Transaction, connection, statement.
type Known = (String, Option<u64>, Option<u64>);

#[derive(Default)]
pub struct Deadlocks {
    pub count: u64,
    pub groups: BTreeMap<Signature, Group>,
    /// Transactions, connections and statements of the members -> the time.
    known: HashMap<Vec<Known>, Option<i64>>,
}

impl Deadlocks {
    /// Adds a deadlock; false if it is already known (LK4).
    pub fn add(&mut self, deadlock: &Deadlock) -> bool {
        let mut who: Vec<_> = deadlock
            .members
            .iter()
            .map(|m| (m.trx.id.clone(), m.trx.thread, m.trx.query_id))
            .collect();
        who.sort();
        if self.known.len() >= MOST {
            self.known.clear();
        }
        if let Some(before) = self.known.get(&who) {
            let near = before.zip(deadlock.at).is_none_or(|(a, b)| (a - b).abs() <= SAME_SECONDS);
            if near {
                return false;
            }
        }
        self.known.insert(who, deadlock.at);
        self.count += 1;
        let members = members(deadlock);
        let part = |m: &Member| (Place { key: None, ..m.wants.clone() }, m.statement.clone());
        let mut signature: Signature = members.iter().map(part).collect();
        signature.sort();
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&signature) {
            return true;
        }
        let at = deadlock.at.map(Clock);
        let group = self.groups.entry(signature).or_default();
        group.count += 1;
        group.first = group.first.min(at).or(group.first).or(at);
        if group.members.is_empty() || at >= group.last {
            group.hint = hint(deadlock, &members);
            group.members = members;
            group.last = at.or(group.last);
        }
        true
    }

    /// One deadlock may be in several files of a server. Without times, numbers of different servers could be equal.
    pub fn end_of_server(&mut self) {
        self.known.retain(|_, at| at.is_some());
    }
}

fn members(deadlock: &Deadlock) -> Vec<Member> {
    let all = &deadlock.members;
    let one = |(at, member): (usize, &crate::model::Member)| {
        let wanted = member.trx.waiting_lock();
        // With the waiter MariaDB prints locks of others, MySQL each transaction's own.
        let has = |lock: &Lock, owner: &Trx| {
            owner.owns(lock) && wanted.is_some_and(|wanted| waits_for(wanted, lock))
        };
        let behind = all.iter().enumerate().filter(|(other, member)| {
            let mut locks = all.iter().flat_map(|member| &member.others);
            *other != at && locks.any(|lock| has(lock, &member.trx))
        });
        Member {
            who: (&member.trx).into(),
            wants: wanted.map(Place::from).unwrap_or_default(),
            held_by: behind.map(|(_, member)| member.trx.id.clone()).collect(),
            rolled_back: deadlock.victim == Some(at),
            statement: class(&member.trx.statement),
        }
    };
    all.iter().enumerate().map(one).collect()
}

/// The usual cause of such deadlocks, and a remedy.
fn hint(deadlock: &Deadlock, members: &[Member]) -> &'static str {
    let wanted = || deadlock.members.iter().filter_map(|member| member.trx.waiting_lock());
    let others = || deadlock.members.iter().flat_map(|member| &member.others);
    let same = |f: &dyn Fn(&Place) -> Option<&str>| {
        members.windows(2).all(|two| f(&two[0].wants) == f(&two[1].wants))
    };
    let inserts = wanted().filter(|lock| lock.insert_intention).count();
    if deadlock.given_up {
        return "The server gave up the search: many transactions wait for each other. Make them shorter or fewer.";
    }
    if inserts > 0 {
        return "An INSERT waits for a gap that another has locked: lock rows that exist, use READ COMMITTED, or insert \
                first and look at the error (INSERT ... ON DUPLICATE KEY UPDATE) instead of SELECT ... FOR UPDATE first.";
    }
    if wanted().any(|lock| lock.mode == Mode::AutoInc) {
        return "Locks on AUTO_INCREMENT: innodb_autoinc_lock_mode = 2 with row-based replication has none.";
    }
    let shared = others().any(|lock| lock.mode == Mode::Shared);
    if shared && wanted().any(|lock| lock.mode == Mode::Exclusive) {
        return "Both have a shared lock and want an exclusive one (LOCK IN SHARE MODE, a foreign key's or a unique key's \
                check, INSERT ... SELECT): take the exclusive lock at once, with SELECT ... FOR UPDATE.";
    }
    if !same(&|place| Some(&place.table)) {
        return "Two tables in different order: let all transactions change tables in one order.";
    }
    if !same(&|place| place.index.as_deref()) {
        return "One comes through a secondary index, the other through the primary key: look rows up first and change \
                them by primary key, in its order.";
    }
    "Rows of one index in different order: change them in the order of the key (ORDER BY), or in shorter transactions."
}
