//! Finding and breaking cycles of waits. All of this runs under the graph latch; `lock_table` says
//! why that suffices.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use crate::lock_table::{Graph, LockTable, WaitAt};
use crate::lock_wait::{Owner, Park};
use crate::report::{DeadlockMember, DeadlockReport};
use crate::TxnId;

impl LockTable {
    /// Breaks every cycle through `requester`, which has just been queued. True when it must give
    /// way itself; otherwise the victims have been taken out of their queues and woken. `reports` gets one of each cycle.
    pub(crate) fn break_cycles(
        &self,
        graph: &mut Graph,
        requester: &Arc<Owner>,
        reports: &mut Vec<DeadlockReport>,
    ) -> bool {
        while let Some(cycle) = self.find_cycle(graph, requester.id) {
            let victim = self.choose_victim(graph, &cycle);
            self.counters.deadlocks.fetch_add(1, Relaxed);
            let report = self.describe(graph, &cycle, victim);
            *self.last_deadlock.lock() = Some(report.clone());
            reports.push(report);
            if victim == requester.id {
                return true;
            }
            self.evict(graph, victim);
        }
        false
    }

    /// Owners of a cycle through `start`, each waiting for the next and the last for the first.
    fn find_cycle(&self, graph: &Graph, start: TxnId) -> Option<Vec<TxnId>> {
        let mut path: Vec<(TxnId, Vec<TxnId>)> = vec![(start, self.leads_to(graph, start))];
        let mut seen = HashSet::new();
        while let Some((_, next)) = path.last_mut() {
            match next.pop() {
                None => {
                    path.pop();
                }
                Some(id) if id == start => return Some(path.iter().map(|p| p.0).collect()),
                Some(id) if seen.insert(id) => path.push((id, self.leads_to(graph, id))),
                Some(_) => {}
            }
        }
        None
    }

    fn leads_to(&self, graph: &Graph, id: TxnId) -> Vec<TxnId> {
        let Some(place) = graph.waiting.get(&id) else { return Vec::new() };
        match place.at {
            WaitAt::Slot(shard, slot) => {
                self.shards[shard].lock().slot(slot).leads_to(id).unwrap_or_default()
            }
            WaitAt::Range(tree) => self.ranges.lock().blockers_of(tree, id),
        }
    }

    fn evict(&self, graph: &mut Graph, victim: TxnId) {
        let Some(place) = graph.waiting.remove(&victim) else { return };
        match place.at {
            WaitAt::Slot(shard, slot) => {
                let mut shard = self.shards[shard].lock();
                if let Some(empty) = shard.slot_mut(slot).leave_queue(victim) {
                    place.owner.tell(Park::Victim);
                    if empty {
                        self.drop_slot(&mut shard, slot);
                    }
                }
            }
            WaitAt::Range(tree) => self.change_ranges(|ranges| {
                if ranges.waiting(tree, victim).is_some() {
                    ranges.leave(tree, victim);
                    place.owner.tell(Park::Victim);
                }
            }),
        }
    }

    fn describe(&self, graph: &Graph, cycle: &[TxnId], victim: TxnId) -> DeadlockReport {
        let member = |id: &TxnId| {
            let place = graph.waiting.get(id)?;
            let wanted = self.wanted(place, *id)?;
            Some(DeadlockMember {
                owner: *id,
                label: place.owner.label(),
                weight: place.owner.weight(),
                tree: wanted.tree,
                key: wanted.key,
                range: wanted.range,
                mode: place.mode,
            })
        };
        DeadlockReport { victim, members: cycle.iter().filter_map(member).collect() }
    }

    /// The victim: the transaction that the observer prefers, otherwise the one with the least
    /// weight; among equals the requester, whose thread is running.
    fn choose_victim(&self, graph: &Graph, cycle: &[TxnId]) -> TxnId {
        let weight = |id: &TxnId| graph.waiting.get(id).map_or(u64::MAX, |p| p.owner.weight());
        let label = |id: &TxnId| graph.waiting.get(id).map_or(0, |p| p.owner.label());
        let mut victim = cycle[0];
        for id in &cycle[1..] {
            let preference = self.observer().map_or(0, |o| o.victim(label(&victim), label(id)));
            if preference > 0 || (preference == 0 && weight(id) < weight(&victim)) {
                victim = *id;
            }
        }
        victim
    }
}
