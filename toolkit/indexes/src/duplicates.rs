//! Which key repeats which other key.
//!
//! A key `a` is superfluous beside `b` if `b` finds everything that `a` finds in the same order, and the constraint
//! of `a` is enforced without it. For an ordered key this means: the parts of `a` are the first parts of `b`.
//!
//! - Directions have to agree, or all have to be opposite, because an index is also read backwards.
//! - A part of `a` with a prefix length is covered by a longer prefix or the whole column only if it is the last
//!   part: behind a prefix, further columns have another order.
//! - On clustered engines every other index ends with the columns of the primary key. So `(x, pk)` is the same
//!   index as `(x)`; if there is no other key `(x)`, it can be written shorter.
//! - Of a UNIQUE key and a key on the same columns that is not UNIQUE, the latter goes. A UNIQUE key goes only if
//!   another key's uniqueness implies its own, even if its index is covered.
//! - An ignored key covers nothing, since no statement may read it, but its uniqueness is checked.
//! - FULLTEXT finds by the whole set of its columns, and so does HASH: only equal sets repeat each other. SPATIAL and
//!   VECTOR keys repeat only equal keys. A key never covers a key of another kind.
//!
//! Keys are examined one after the other, those least worth keeping first, and compared with the keys that are still
//! there; so one of several equal keys stays (IX2).
//!
//! Two costs are not weighed: a short index reads faster than the longer one that covers it, and on a clustered
//! engine `(x)` gives rows of one `x` in the order of the primary key, which `(x, y)` does not. docs/indexes.md says
//! so.

use crate::duty::{covers_constraint, Duties, Parents};
use crate::model::{Key, KeyKind, Part, Table};

/// How a key repeats another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeats {
    /// The same parts.
    Exact,
    /// Its parts are the other's first ones.
    Prefix,
    /// One of the two above, if the other is read backwards.
    Backwards,
    /// Together with the other's invisible end, which is the primary key.
    PrimarySuffix,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// `key` can go, because `of` stays.
    Key { key: String, of: String, how: Repeats, also: Option<String> },
    /// `key` ends with columns of the primary key: `parts` are enough.
    Suffix { key: String, parts: usize },
    /// The foreign key `at` (its number in the table) repeats the foreign key `of`.
    Foreign { at: usize, of: usize, actions_differ: bool },
}

/// All findings of `table`; `parents` has the foreign keys that may refer to it.
pub fn find(table: &Table, parents: &Parents<'_>) -> Vec<Finding> {
    let duties = Duties::of(table, parents);
    let mut gone = vec![false; table.keys.len()];
    let order = order(table);
    for &at in &order {
        let key = &table.keys[at];
        let others: Vec<&Key> = staying(table, &gone).filter(|k| !std::ptr::eq(*k, key)).collect();
        let covered = others.iter().any(|other| covers(table, other, key).is_some());
        if covered && duties.held(key, &others).is_none() {
            gone[at] = true;
        }
    }
    // `(x, pk)` repeats `(x)`. But `(x)` may have been dropped in favour of `(x, y)`, which has another order of
    // rows.
    loop {
        let stays: Vec<&Key> = staying(table, &gone).collect();
        // The one most worth keeping comes first, because it may cover the others.
        let lost =
            |at: &&usize| gone[**at] && best_cover(table, &stays, &table.keys[**at]).is_none();
        let Some(&at) = order.iter().rev().find(lost) else { break };
        gone[at] = false;
    }
    let stays: Vec<&Key> = staying(table, &gone).collect();
    let mut findings = Vec::new();
    for (key, _) in table.keys.iter().zip(&gone).filter(|(_, gone)| **gone) {
        if let Some((of, how)) = best_cover(table, &stays, key) {
            let constrains = |other: &&&Key| covers_constraint(other, key);
            let also = (key.is_unique() && !covers_constraint(of, key))
                .then(|| stays.iter().find(constrains).map(|other| other.name.clone()))
                .flatten();
            findings.push(Finding::Key { key: key.name.clone(), of: of.name.clone(), how, also });
        }
    }
    // Shortening makes a key anew; one that is ignored would be read again.
    for key in stays.iter().filter(|key| !key.ignored) {
        if let Some(parts) = without_suffix(table, key) {
            let mut short = (*key).clone();
            short.parts.truncate(parts);
            let mut others: Vec<&Key> =
                stays.iter().copied().filter(|k| !std::ptr::eq(*k, *key)).collect();
            short.kind = KeyKind::Plain;
            others.push(&short);
            if duties.held(key, &others).is_none() {
                findings.push(Finding::Suffix { key: key.name.clone(), parts });
            }
        }
    }
    findings.extend(foreign(table));
    findings
}

fn staying<'t>(table: &'t Table, gone: &'t [bool]) -> impl Iterator<Item = &'t Key> {
    table.keys.iter().zip(gone).filter(|(_, gone)| !**gone).map(|(key, _)| key)
}

/// Numbers of the keys, those least worth keeping first: ignored ones, then those without uniqueness, then those with
/// fewer parts; of equal ones, the one that was made later.
fn order(table: &Table) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..table.keys.len()).filter(|at| table.keys[*at].kind != KeyKind::Primary).collect();
    order.sort_by_key(|at| {
        let key = &table.keys[*at];
        let ends_with_primary = without_suffix(table, key).is_some();
        let parts = without_suffix(table, key).unwrap_or(key.parts.len());
        (!key.ignored, key.is_unique(), parts, !ends_with_primary, std::cmp::Reverse(*at))
    });
    order
}

fn best_cover<'k>(table: &Table, stays: &[&'k Key], key: &Key) -> Option<(&'k Key, Repeats)> {
    let rank = |how: &Repeats| match how {
        Repeats::Exact => 0,
        Repeats::PrimarySuffix => 1,
        Repeats::Prefix => 2,
        Repeats::Backwards => 3,
    };
    stays
        .iter()
        .filter_map(|other| covers(table, other, key).map(|how| (*other, how)))
        .min_by_key(|(other, how)| (rank(how), !other.is_unique(), other.parts.len()))
}

/// Whether `other` finds what `key` finds, and how.
fn covers(table: &Table, other: &Key, key: &Key) -> Option<Repeats> {
    // Ignored on both sides is fine: an ignored key may be covered by an ignored key.
    if other.ignored && !key.ignored {
        return None;
    }
    if key.is_ordered() && other.is_ordered() {
        return covers_ordered(table, other, key);
    }
    let same_kind = key.is_ordered() == other.is_ordered()
        && key.hash == other.hash
        && (key.hash || key.kind == other.kind);
    if !same_kind || key.options != other.options || key.parts.len() != other.parts.len() {
        return None;
    }
    let has =
        |part: &Part| other.parts.iter().any(|o| o.same_column(part) && o.prefix == part.prefix);
    key.parts.iter().all(has).then_some(Repeats::Exact)
}

fn covers_ordered(table: &Table, other: &Key, key: &Key) -> Option<Repeats> {
    let last = key.parts.len().checked_sub(1)?;
    let long = effective(table, other);
    if key.parts.len() > long.len() {
        return None;
    }
    let mut reversed = None;
    for (at, (part, theirs)) in key.parts.iter().zip(&long).enumerate() {
        if !part.same_column(theirs) {
            return None;
        }
        let whole = match (part.prefix, theirs.prefix) {
            (a, b) if a == b => true,
            (Some(_), None) => at == last,
            (Some(a), Some(b)) => at == last && a < b,
            (None, _) => false,
        };
        let opposite = part.descending != theirs.descending;
        if !whole || *reversed.get_or_insert(opposite) != opposite {
            return None;
        }
    }
    Some(if reversed == Some(true) {
        Repeats::Backwards
    } else if key.parts.len() > other.parts.len() {
        Repeats::PrimarySuffix
    } else if key.parts.len() == other.parts.len()
        // With another prefix on the last column, the two keys are not the same.
        && key.parts[last].prefix == other.parts[last].prefix
    {
        Repeats::Exact
    } else {
        Repeats::Prefix
    })
}

/// The parts of a key with those that a clustered engine adds.
fn effective(table: &Table, key: &Key) -> Vec<Part> {
    let mut parts = key.parts.clone();
    let Some(primary) = table.clustering_key() else { return parts };
    if table.is_clustered() && !std::ptr::eq(primary, key) {
        let missing = |part: &&Part| {
            part.prefix.is_none()
                && !key.parts.iter().any(|p| p.prefix.is_none() && p.is_column(&part.column))
        };
        // Columns behind a prefix of a primary column are not in the order of the whole column.
        if primary.parts.iter().all(|part| part.prefix.is_none()) {
            parts.extend(primary.parts.iter().filter(missing).cloned());
        }
    }
    parts
}

/// The number of parts without those at the end that the engine adds anyway; `None` if there are none of those.
fn without_suffix(table: &Table, key: &Key) -> Option<usize> {
    let primary = table.clustering_key()?;
    if !table.is_clustered() || !key.is_ordered() || std::ptr::eq(primary, key) {
        return None;
    }
    if primary.parts.iter().any(|part| part.prefix.is_some()) {
        return None;
    }
    let most = primary.parts.len().min(key.parts.len().saturating_sub(1));
    (1..=most).rev().map(|n| (n, key.parts.len() - n)).find_map(|(n, rest)| {
        let equal = key.parts[rest..]
            .iter()
            .zip(&primary.parts[..n])
            .all(|(a, b)| a.same_column(b) && a.prefix.is_none() && a.descending == b.descending);
        equal.then_some(rest)
    })
}

fn foreign(table: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pairs = |at: usize| {
        let key = &table.foreign[at];
        let mut pairs: Vec<(String, String)> = key
            .columns
            .iter()
            .zip(&key.parent_columns)
            .map(|(a, b)| (a.to_lowercase(), b.to_lowercase()))
            .collect();
        pairs.sort();
        // Most servers tell tables apart by case, and none writes one table's name in two ways.
        (&key.parent_db, &key.parent, pairs)
    };
    let all: Vec<_> = (0..table.foreign.len()).map(pairs).collect();
    for at in 1..all.len() {
        if let Some(of) = (0..at).find(|of| all[*of] == all[at]) {
            let actions_differ = table.foreign[of].actions != table.foreign[at].actions;
            findings.push(Finding::Foreign { at, of, actions_differ });
        }
    }
    findings
}
