//! The waits of one dump as a forest: roots, and below each the transactions that wait for it.

use std::collections::HashMap;

use crate::analysis::class;
use crate::graph::{places, Blocker, Unknown, Wait};
use crate::model::{Clock, Dump};
use crate::rows::{Micros, Node, Place, Tree};

/// Nodes that are shown at most.
const MOST: usize = 1_000;

struct Forest<'a> {
    dump: &'a Dump,
    waits: &'a [Wait],
    /// Waiter -> index of its wait.
    of: HashMap<usize, usize>,
    /// Blocker -> the waiters shown below it.
    children: HashMap<usize, Vec<usize>>,
    shown: Vec<bool>,
    nodes: Vec<Node>,
}

/// The blocker to show it below: one that has the lock, else an earlier request.
fn parent(wait: &Wait) -> Option<&Blocker> {
    wait.by.iter().find(|by| by.holds).or(wait.by.first())
}

pub fn tree(dump: &Dump, waits: &[Wait]) -> Tree {
    let of = places(waits);
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for wait in waits {
        match parent(wait) {
            Some(parent) => {
                let below = children.entry(parent.trx).or_default();
                if below.is_empty() && !of.contains_key(&parent.trx) {
                    roots.push(parent.trx);
                }
                below.push(wait.waiter);
            }
            None => roots.push(wait.waiter),
        }
    }
    let longest = |at: &usize| std::cmp::Reverse(dump.trxs[*at].wait_micros.unwrap_or(0));
    children.values_mut().for_each(|list| list.sort_by_key(longest));
    roots.sort_by_key(|root| std::cmp::Reverse(children.get(root).map_or(0, Vec::len)));
    let shown = vec![false; dump.trxs.len()];
    let mut forest = Forest { dump, waits, of, children, shown, nodes: Vec::new() };
    roots.iter().for_each(|root| forest.show(*root, None));
    // A wait that no root leads to is in a circle or behind one: as many steps as there are waits end in it.
    for wait in waits {
        if !forest.left(wait.waiter) {
            continue;
        }
        let step = |at, _| forest.of.get(&at).and_then(|at| parent(&waits[*at])).map(|by| by.trx);
        let inside = (0..waits.len()).try_fold(wait.waiter, step).unwrap_or(wait.waiter);
        forest.show(inside, Some("waits in a circle: a deadlock that is not detected yet"));
    }
    Tree { at: dump.at.map(Clock), nodes: forest.nodes }
}

impl Forest<'_> {
    /// Whether `trx` is still to be shown.
    fn left(&self, trx: usize) -> bool {
        !self.shown[trx] && self.nodes.len() < MOST
    }

    /// Shows `root` and everything below it that is not shown yet.
    fn show(&mut self, root: usize, note: Option<&'static str>) {
        let mut stack = vec![(root, 0)];
        while let Some((at, depth)) = stack.pop() {
            if !self.left(at) {
                continue;
            }
            self.shown[at] = true;
            let wait = self.of.get(&at).map(|at| &self.waits[*at]);
            let mut node = node(self.dump, at, depth, wait);
            if depth == 0 {
                node.note = note.or(node.note);
            }
            self.nodes.push(node);
            let below = self.children.get(&at).map_or(&[][..], Vec::as_slice);
            stack.extend(below.iter().rev().map(|at| (*at, depth + 1)));
        }
    }
}

fn node(dump: &Dump, at: usize, depth: u32, wait: Option<&Wait>) -> Node {
    let trx = &dump.trxs[at];
    let parent = wait.and_then(parent);
    let also = wait.map_or(Vec::new(), |wait| {
        let others = wait.by.iter().filter(|by| Some(by.trx) != parent.map(|by| by.trx));
        others.take(10).map(|by| dump.trxs[by.trx].id.clone()).collect()
    });
    let note = wait.and_then(|wait| match wait.unknown? {
        Unknown::NotPrinted => Some("its blocker's locks are not printed"),
        Unknown::Cut => Some("its blocker is not in the dump, which is cut"),
        Unknown::Gone => Some("no lock is in its way any more"),
    });
    Node {
        depth,
        who: trx.into(),
        open_seconds: trx.active,
        waits_seconds: wait.map(|_| Micros(trx.wait_micros.unwrap_or(0))),
        idle: trx.idle(),
        statement: class(&trx.statement),
        wants: trx.waiting_lock().filter(|_| wait.is_some()).map(Place::from),
        also_behind: also,
        note,
    }
}
