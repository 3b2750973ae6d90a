//! Finds anomalies in a history of list appends.
//!
//! - **garbage**: a read shows a value that no transaction appended, or one twice.
//! - **order**: two reads of a key are not prefixes of each other: no version order explains both.
//! - **internal**: a transaction does not see its own appends.
//! - **G1a**: a read shows a value of a transaction that failed.
//! - **G1b**: a read ends between two appends of one other transaction.
//! - **G0**: a cycle of overwrites. **G1c**: a cycle of overwrites and reads-from.
//! - **G-single**: a cycle with one anti-dependency (a read of a version that another transaction then
//!   replaced); **lost update** is the form in which both replaced the same version.
//! - **G2-item**: a cycle with several anti-dependencies: write skew, which snapshot isolation allows
//!   and serializability forbids.
//!
//! Values that no read shows are not checked: record a read of every key at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{Op, Outcome, Txn};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Garbage,
    Order,
    Internal,
    G1a,
    G1b,
    G0,
    G1c,
    LostUpdate,
    GSingle,
    G2Item,
}

impl Kind {
    /// Whether snapshot isolation (and REPEATABLE READ as Frond has it) forbids it.
    pub fn forbidden_by_snapshot(self) -> bool {
        self != Kind::G2Item
    }
}

/// One anomaly; transactions are named by their place in the history, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    pub kind: Kind,
    pub txns: Vec<usize>,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Ww,
    Wr,
    Rw,
}

struct Checker<'a> {
    history: &'a [Txn],
    /// The transaction that appended a value to a key.
    writer: HashMap<(u64, u64), usize>,
    /// The longest list seen, by key.
    order: BTreeMap<u64, Vec<u64>>,
    edges: Vec<BTreeSet<(usize, Edge, u64)>>,
    found: Vec<Anomaly>,
}

/// All anomalies, the worst of each cycle only.
pub fn check(history: &[Txn]) -> Vec<Anomaly> {
    let mut c = Checker {
        history,
        writer: HashMap::new(),
        order: BTreeMap::new(),
        edges: vec![BTreeSet::new(); history.len()],
        found: Vec::new(),
    };
    c.note_writers();
    c.note_order();
    c.check_reads();
    c.note_edges();
    c.check_cycles();
    c.found
}

impl Checker<'_> {
    fn report(&mut self, kind: Kind, txns: Vec<usize>, what: String) {
        self.found.push(Anomaly { kind, txns, what });
    }

    fn note_writers(&mut self) {
        for (i, txn) in self.history.iter().enumerate() {
            for op in &txn.ops {
                if let Op::Append(key, value) = op {
                    if let Some(other) = self.writer.insert((*key, *value), i) {
                        let what = format!("key {key}: value {value} is appended twice");
                        self.report(Kind::Garbage, vec![other, i], what);
                    }
                }
            }
        }
    }

    /// Reads of transactions that may have committed.
    fn reads(&self) -> Vec<(usize, u64, Vec<u64>)> {
        let mut out = Vec::new();
        for (i, txn) in self.history.iter().enumerate() {
            if txn.outcome != Outcome::Ok {
                continue;
            }
            let mut own: HashMap<u64, usize> = HashMap::new();
            for op in &txn.ops {
                match op {
                    Op::Append(key, _) => *own.entry(*key).or_default() += 1,
                    Op::Read(key, list) => {
                        // Own appends are last; the version that was read is the part before them.
                        let others = list.len().saturating_sub(own.get(key).copied().unwrap_or(0));
                        out.push((i, *key, list[..others].to_vec()));
                    }
                }
            }
        }
        out
    }

    fn note_order(&mut self) {
        for (i, txn) in self.history.iter().enumerate() {
            if txn.outcome != Outcome::Ok {
                continue;
            }
            for op in &txn.ops {
                let Op::Read(key, list) = op else { continue };
                let longest = self.order.entry(*key).or_default();
                let common = longest.len().min(list.len());
                if longest[..common] != list[..common] {
                    let what = format!("key {key}: {list:?} and {longest:?} were both read");
                    self.found.push(Anomaly { kind: Kind::Order, txns: vec![i], what });
                } else if list.len() > longest.len() {
                    longest.clone_from(list);
                }
            }
        }
    }

    fn check_reads(&mut self) {
        for (i, txn) in self.history.iter().enumerate() {
            let mut own: HashMap<u64, Vec<u64>> = HashMap::new();
            for op in &txn.ops {
                match op {
                    Op::Append(key, value) => own.entry(*key).or_default().push(*value),
                    Op::Read(key, list) if txn.outcome == Outcome::Ok => {
                        let mine = own.get(key).cloned().unwrap_or_default();
                        self.check_read(i, *key, list, &mine);
                    }
                    Op::Read(..) => {}
                }
            }
        }
    }

    fn check_read(&mut self, i: usize, key: u64, list: &[u64], own: &[u64]) {
        if !list.ends_with(own) {
            let what = format!("key {key}: read {list:?} after appending {own:?}");
            self.report(Kind::Internal, vec![i], what);
            return;
        }
        let mut seen = BTreeSet::new();
        for value in list {
            let writer = self.writer.get(&(key, *value)).copied();
            if !seen.insert(*value) || writer.is_none() {
                let what = format!("key {key}: {list:?} holds {value} twice or from nowhere");
                self.report(Kind::Garbage, vec![i], what);
            }
            if let Some(w) = writer.filter(|w| self.history[*w].outcome == Outcome::Fail) {
                let what = format!("key {key}: value {value} of a failed transaction was read");
                self.report(Kind::G1a, vec![w, i], what);
            }
        }
        let others = &list[..list.len() - own.len()];
        let Some(last) = others.last() else { return };
        let Some(&w) = self.writer.get(&(key, *last)) else { return };
        let final_one = self.history[w].ops.iter().rev().find_map(|op| match op {
            Op::Append(k, v) if *k == key => Some(*v),
            _ => None,
        });
        if w != i && final_one != Some(*last) {
            let what = format!("key {key}: read up to {last}, which its writer followed up");
            self.report(Kind::G1b, vec![w, i], what);
        }
    }

    fn edge(&mut self, from: usize, edge: Edge, to: usize, key: u64) {
        if from != to {
            self.edges[from].insert((to, edge, key));
        }
    }

    fn note_edges(&mut self) {
        for (key, list) in self.order.clone() {
            let writers: Vec<Option<usize>> =
                list.iter().map(|v| self.writer.get(&(key, *v)).copied()).collect();
            for pair in writers.windows(2) {
                if let [Some(a), Some(b)] = *pair {
                    self.edge(a, Edge::Ww, b, key);
                }
            }
        }
        for (i, key, list) in self.reads() {
            if let Some(&w) = list.last().and_then(|v| self.writer.get(&(key, *v))) {
                self.edge(w, Edge::Wr, i, key);
            }
            // The first version behind the one read that is not the reader's own.
            let next = self.order.get(&key).and_then(|order| {
                let rest = order.get(list.len()..)?;
                rest.iter().filter_map(|v| self.writer.get(&(key, *v))).find(|w| **w != i)
            });
            if let Some(&w) = next {
                self.edge(i, Edge::Rw, w, key);
            }
        }
    }

    fn check_cycles(&mut self) {
        for (allowed, kind) in [(&[Edge::Ww][..], Kind::G0), (&[Edge::Ww, Edge::Wr][..], Kind::G1c)]
        {
            if let Some(cycle) = self.cycle(allowed) {
                let what = format!("{cycle:?} depend on each other in a circle");
                self.report(kind, cycle, what);
                return;
            }
        }
        let place = self.places();
        let mut single = false;
        for a in 0..self.edges.len() {
            for (b, edge, key) in self.edges[a].clone() {
                if edge != Edge::Rw {
                    continue;
                }
                if self.edges[b].contains(&(a, Edge::Ww, key)) {
                    let what = format!("key {key}: both replaced the version that {a} read");
                    self.report(Kind::LostUpdate, vec![a, b], what);
                    single = true;
                } else if let Some(path) = self.path(b, a, &place) {
                    let what = format!("key {key}: {a} read before {b} and yet comes after it");
                    self.report(Kind::GSingle, path, what);
                    single = true;
                }
            }
        }
        if !single {
            if let Some(cycle) = self.cycle(&[Edge::Ww, Edge::Wr, Edge::Rw]) {
                let what = format!("{cycle:?} read what another of them replaced");
                self.report(Kind::G2Item, cycle, what);
            }
        }
    }

    /// A place for each transaction such that overwrites and reads-from lead upwards; there is one when
    /// they form no cycle. Places are as near to the history's order as possible, so that few paths
    /// have to be walked.
    fn places(&self) -> Vec<usize> {
        let n = self.edges.len();
        let flow = |i: usize| self.edges[i].iter().filter(|e| e.1 != Edge::Rw);
        let mut ways_in = vec![0usize; n];
        (0..n).flat_map(flow).for_each(|(to, ..)| ways_in[*to] += 1);
        let mut free: BTreeSet<usize> = (0..n).filter(|i| ways_in[*i] == 0).collect();
        let mut place = vec![n; n];
        let mut next = 0;
        while let Some(i) = free.pop_first() {
            place[i] = next;
            next += 1;
            for (to, ..) in flow(i) {
                ways_in[*to] -= 1;
                if ways_in[*to] == 0 {
                    free.insert(*to);
                }
            }
        }
        place
    }

    /// A path from `from` to `to` over overwrites and reads-from.
    fn path(&self, from: usize, to: usize, place: &[usize]) -> Option<Vec<usize>> {
        if place[from] > place[to] {
            return None;
        }
        let mut before: HashMap<usize, usize> = HashMap::from([(from, from)]);
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                let mut path = vec![at];
                let mut at = at;
                while before[&at] != at {
                    at = before[&at];
                    path.push(at);
                }
                path.reverse();
                return Some(path);
            }
            for &(next, edge, _) in &self.edges[at] {
                let on_way = edge != Edge::Rw && place[next] <= place[to];
                if on_way && !before.contains_key(&next) {
                    before.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Transactions that can reach each other over edges of the allowed kinds: those left when
    /// transactions without an edge in or without an edge out are removed again and again.
    fn cycle(&self, allowed: &[Edge]) -> Option<Vec<usize>> {
        let n = self.edges.len();
        let next = |i: usize| {
            let edges = self.edges[i].iter().filter(|(_, e, _)| allowed.contains(e));
            edges.map(|(to, ..)| *to).collect::<BTreeSet<usize>>()
        };
        let out: Vec<BTreeSet<usize>> = (0..n).map(next).collect();
        let mut ways_in = vec![0usize; n];
        out.iter().flatten().for_each(|&to| ways_in[to] += 1);
        let mut free: Vec<usize> = (0..n).filter(|i| ways_in[*i] == 0).collect();
        let mut left = n;
        while let Some(i) = free.pop() {
            left -= 1;
            for &to in &out[i] {
                ways_in[to] -= 1;
                if ways_in[to] == 0 {
                    free.push(to);
                }
            }
        }
        if left == 0 {
            return None;
        }
        // Everything left is in a cycle or behind one: a walk backwards comes to the cycle.
        let within: BTreeSet<usize> = (0..n).filter(|i| ways_in[*i] > 0).collect();
        let mut at = *within.first()?;
        let mut seen = Vec::new();
        loop {
            if let Some(start) = seen.iter().position(|s| *s == at) {
                let mut cycle = seen.split_off(start);
                cycle.reverse();
                return Some(cycle);
            }
            seen.push(at);
            at = *within.iter().find(|i| out[**i].contains(&at))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Op::{Append, Read};

    fn ok(ops: &[Op]) -> Txn {
        Txn { process: 0, outcome: Outcome::Ok, ops: ops.to_vec() }
    }

    fn kinds(history: &[Txn]) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = check(history).into_iter().map(|a| a.kind).collect();
        kinds.dedup();
        kinds
    }

    #[test]
    fn a_serial_history_is_clean() {
        let history = [
            ok(&[Append(1, 1), Read(1, vec![1]), Append(2, 1)]),
            ok(&[Read(1, vec![1]), Append(1, 2), Append(1, 3)]),
            ok(&[Read(1, vec![1, 2, 3]), Read(2, vec![1])]),
        ];
        assert_eq!(kinds(&history), []);
    }

    #[test]
    fn an_aborted_read_is_g1a() {
        let failed = Txn { process: 0, outcome: Outcome::Fail, ops: vec![Append(1, 1)] };
        assert_eq!(kinds(&[failed, ok(&[Read(1, vec![1])])]), [Kind::G1a]);
    }

    #[test]
    fn an_intermediate_read_is_g1b() {
        let history = [
            ok(&[Append(1, 1), Append(1, 2)]),
            ok(&[Read(1, vec![1])]),
            ok(&[Read(1, vec![1, 2])]),
        ];
        assert!(kinds(&history).contains(&Kind::G1b));
    }

    #[test]
    fn interleaved_writes_are_g0() {
        let history = [
            ok(&[Append(1, 1), Append(2, 1)]),
            ok(&[Append(1, 2), Append(2, 2)]),
            ok(&[Read(1, vec![1, 2]), Read(2, vec![2, 1])]),
        ];
        assert_eq!(kinds(&history), [Kind::G0]);
    }

    #[test]
    fn circular_information_flow_is_g1c() {
        let history =
            [ok(&[Append(1, 1), Read(2, vec![1])]), ok(&[Append(2, 1), Read(1, vec![1])])];
        assert_eq!(kinds(&history), [Kind::G1c]);
    }

    #[test]
    fn two_updates_of_one_version_are_a_lost_update() {
        let history = [
            ok(&[Read(1, vec![]), Append(1, 1)]),
            ok(&[Read(1, vec![]), Append(1, 2)]),
            ok(&[Read(1, vec![1, 2])]),
        ];
        assert_eq!(kinds(&history), [Kind::LostUpdate]);
    }

    #[test]
    fn a_torn_snapshot_is_g_single() {
        let history = [
            ok(&[Append(1, 1), Append(2, 1)]),
            ok(&[Read(1, vec![]), Read(2, vec![1])]),
            ok(&[Read(1, vec![1])]),
        ];
        assert_eq!(kinds(&history), [Kind::GSingle]);
    }

    #[test]
    fn write_skew_is_g2_item_and_allowed() {
        let history = [
            ok(&[Read(1, vec![]), Append(2, 1)]),
            ok(&[Read(2, vec![]), Append(1, 1)]),
            ok(&[Read(1, vec![1]), Read(2, vec![1])]),
        ];
        assert_eq!(kinds(&history), [Kind::G2Item]);
        assert!(!Kind::G2Item.forbidden_by_snapshot());
    }

    #[test]
    fn own_writes_must_be_seen_and_orders_agree() {
        assert_eq!(kinds(&[ok(&[Append(1, 1), Read(1, vec![])])]), [Kind::Internal]);
        let history = [
            ok(&[Append(1, 1)]),
            ok(&[Append(1, 2)]),
            ok(&[Read(1, vec![1])]),
            ok(&[Read(1, vec![2])]),
        ];
        assert!(kinds(&history).contains(&Kind::Order));
        assert_eq!(kinds(&[ok(&[Read(1, vec![9])])]), [Kind::Garbage]);
    }

    #[test]
    fn lines_round_trip() {
        let txn = ok(&[Append(7, 101), Read(7, vec![55, 101])]);
        let text = super::super::line(&txn);
        assert_eq!(super::super::parse(&mut text.as_bytes()), Ok(vec![txn]));
        assert!(super::super::parse(&mut &b"{\n"[..]).is_err());
    }
}
