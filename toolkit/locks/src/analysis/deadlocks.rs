//! Deadlocks: each once, and those that are alike together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::class;
use crate::conflict::waits_for;
use crate::model::{Deadlock, Lock, Mode};

/// Deadlocks that are known again, of one server; signatures that are kept.
const MOST: usize = 100_000;
const GROUPS: usize = 5_000;
/// The log and the monitor have the time of one deadlock from two readings of the clock.
const SAME_SECONDS: i64 = 5;

/// What a member wants, and its statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    pub table: Arc<str>,
    pub index: Arc<str>,
    pub kind: String,
    pub class: Arc<str>,
}

/// A member of the example.
#[derive(Clone, Debug)]
pub struct Member {
    pub id: String,
    pub thread: Option<u64>,
    pub user: String,
    pub host: String,
    pub part: Part,
    pub key: String,
    /// Members (from 0) that have what it wants.
    pub behind: Vec<usize>,
}

/// Deadlocks with one signature: the parts of their members, in any order.
#[derive(Clone, Debug)]
pub struct Group {
    pub count: u64,
    pub first: Option<i64>,
    pub last: Option<i64>,
    /// The latest.
    pub members: Vec<Member>,
    pub victim: Option<usize>,
    pub given_up: bool,
    pub hint: &'static str,
}

#[derive(Default)]
pub struct Deadlocks {
    pub count: u64,
    pub groups: BTreeMap<Vec<Part>, Group>,
    /// Transactions, connections and statements of the members -> the time.
    known: HashMap<Vec<(String, Option<u64>, Option<u64>)>, Option<i64>>,
}

impl Deadlocks {
    /// False if it is known already (LK4).
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
        let mut signature: Vec<Part> = members.iter().map(|m| m.part.clone()).collect();
        signature.sort();
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&signature) {
            return true;
        }
        let hint = hint(deadlock, &members);
        let new = Group {
            count: 0,
            first: deadlock.at,
            last: deadlock.at,
            members: Vec::new(),
            victim: None,
            given_up: deadlock.given_up,
            hint,
        };
        let group = self.groups.entry(signature).or_insert(new);
        group.count += 1;
        group.first = group.first.min(deadlock.at).or(group.first).or(deadlock.at);
        if group.members.is_empty() || deadlock.at >= group.last {
            (group.members, group.victim, group.hint) = (members, deadlock.victim, hint);
            group.last = deadlock.at.or(group.last);
        }
        true
    }

    pub fn end_of_server(&mut self) {
        self.known.clear();
    }
}

fn members(deadlock: &Deadlock) -> Vec<Member> {
    let all = &deadlock.members;
    let one = |(at, member): (usize, &crate::model::Member)| {
        let wanted = member.trx.waiting_lock();
        let behind = (0..all.len()).filter(|&other| {
            // MariaDB prints others' locks with the waiter, MySQL each one's own.
            let has = |lock: &Lock, owner: &str| {
                lock.owner == owner && wanted.is_some_and(|wanted| waits_for(wanted, lock))
            };
            let id = all[other].trx.id.as_str();
            let locks = all.iter().flat_map(|member| &member.others);
            other != at && locks.into_iter().any(|lock| has(lock, id))
        });
        Member {
            id: member.trx.id.clone(),
            thread: member.trx.thread,
            user: member.trx.user.clone(),
            host: member.trx.host.clone(),
            behind: behind.collect(),
            key: wanted.and_then(|lock| lock.key.clone()).unwrap_or_default(),
            part: Part {
                table: wanted.map_or_else(|| "".into(), |lock| lock.table.clone()),
                index: wanted
                    .and_then(|lock| lock.page.as_ref())
                    .map_or_else(|| "".into(), |page| page.index.clone()),
                kind: wanted.map_or_else(String::new, Lock::kind),
                class: class(&member.trx.statement),
            },
        }
    };
    all.iter().enumerate().map(one).collect()
}

/// What such deadlocks usually come from, and what helps.
fn hint(deadlock: &Deadlock, members: &[Member]) -> &'static str {
    let wanted = || deadlock.members.iter().filter_map(|member| member.trx.waiting_lock());
    let others = || deadlock.members.iter().flat_map(|member| &member.others);
    let parts = || members.iter().map(|member| &member.part);
    let same = |f: &dyn Fn(&Part) -> &str| parts().zip(parts().skip(1)).all(|(a, b)| f(a) == f(b));
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
    if !same(&|part| &part.table) {
        return "Two tables in different order: let all transactions change tables in one order.";
    }
    if !same(&|part| &part.index) {
        return "One comes through a secondary index, the other through the primary key: look rows up first and change \
                them by primary key, in its order.";
    }
    "Rows of one index in different order: change them in the order of the key (ORDER BY), or in shorter transactions."
}
