//! Which indexes were read: servers' counts, the names in logged plans, and what follows from both.
//!
//! Invariants:
//!
//! - IU1. Evidence only adds: an index that any server counted, or any plan named, is used. Names are compared without
//!   case, so that in doubt an index counts as used.
//! - IU2. Within a window no counter was reset. Counters that went down or away between two readings are refused; those of a
//!   restarted server count from its start. An ALTER resets its table's counters: all keys of such a table count as used, and
//!   without earlier counters the table's time begins then.
//!
//! The counters count rows found through an index (those of performance_schema too, as observed with MariaDB 10.11). So an
//! index whose look-ups find nothing is not counted. A logged plan names it nevertheless.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::dump::Hiding;
use crate::duplicates::{self, Finding};
use crate::duty::{Duties, Parents};
use crate::model::{same_name, Key, KeyKind, Table};
use crate::report::{item, Item, Kind};

/// Version of a file of counters.
const VERSION: u32 = 1;
/// Seconds by which clock and uptime may differ, because they are not read at the same moment.
const SLACK: u64 = 5;

/// Reads of an index, as one of a server's tables counts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Count {
    pub db: String,
    pub table: String,
    /// Empty: the row is of the table, and `n` counts changed rows.
    pub key: String,
    pub n: u64,
}

/// The counters of one server at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Host name and port as the server knows them.
    pub server: String,
    /// The moment, in seconds since 1970 by the server's clock; and how long the server had been running.
    pub taken: u64,
    pub uptime: u64,
    /// When each table's definition was written; `key` is empty, `n` in seconds since 1970. Counts of a table begin then.
    #[serde(default)]
    pub created: Vec<Count>,
    /// The keys of each table; `n` is 0. Frond keeps a table's time when an index is added or dropped in place.
    #[serde(default)]
    pub keys: Vec<Count>,
    /// Keyed by the source of the counts: `performance_schema`, `userstat`.
    pub sources: BTreeMap<String, Vec<Count>>,
}

/// A file of counters.
#[derive(Debug, Serialize, Deserialize)]
pub struct Saved {
    version: u32,
    servers: Vec<Counters>,
}

impl Saved {
    pub fn new(servers: Vec<Counters>) -> Saved {
        Saved { version: VERSION, servers }
    }

    /// From the bytes of a file.
    pub fn read(bytes: &[u8]) -> Result<Saved, String> {
        let saved: Saved = serde_json::from_slice(bytes)
            .map_err(|e| format!("this is no file that --save wrote: {e}"))?;
        if saved.version != VERSION {
            return Err(format!("its format is {}, this program reads {VERSION}", saved.version));
        }
        Ok(saved)
    }

    /// The counts from this file's counters of the same server to `now`.
    pub fn until(&self, now: &Counters) -> Result<Window, String> {
        let before = self.servers.iter().find(|old| old.server == now.server).ok_or_else(|| {
            format!("it has no counters of {}: save them with the same --also", now.server)
        })?;
        let elapsed = now.taken.saturating_sub(before.taken);
        if now.uptime + SLACK < elapsed {
            return Ok(Window { restarted: true, ..now.window() });
        }
        let created: HashMap<_, _> = now.created.iter().map(|c| ((&c.db, &c.table), c.n)).collect();
        // Both are by the server's clock, in whole seconds.
        let since = |n: &u64| *n >= before.taken;
        let (old, new): (BTreeSet<_>, BTreeSet<_>) =
            (before.keys.iter().collect(), now.keys.iter().collect());
        // Earlier versions of this program saved no keys.
        let differing = old.symmetric_difference(&new).filter(|_| !old.is_empty());
        let altered: HashSet<_> = differing.map(|c| (&c.db, &c.table)).collect();
        let changed = |count: &Count| {
            let table = (&count.db, &count.table);
            altered.contains(&table) || created.get(&table).is_some_and(since)
        };
        let mut counts = Vec::new();
        let mut sources = Vec::new();
        for (kind, now_counted) in &now.sources {
            let Some(old) = before.sources.get(kind) else { continue };
            let mut old: HashMap<_, _> =
                old.iter().map(|c| ((&c.db, &c.table, &c.key), c)).collect();
            let reset = |count: &Count| {
                format!(
                    "{kind} of {} was set back since (index {} of {}.{}): what was read before is not known; \
                     begin with a new --save",
                    now.server, count.key, count.db, count.table
                )
            };
            sources.push(kind.clone());
            for count in now_counted {
                let old = old.remove(&(&count.db, &count.table, &count.key)).map_or(0, |c| c.n);
                match count.n.checked_sub(old) {
                    Some(n) => counts.push(Count { n, ..count.clone() }),
                    None if changed(count) => {}
                    None => return Err(reset(count)),
                }
            }
            // A count that is gone was set back as well, unless its table went or was changed.
            let there = |c: &&&Count| created.contains_key(&(&c.db, &c.table)) && !changed(c);
            if let Some(gone) = old.values().filter(|c| c.n > 0).find(there) {
                return Err(reset(gone));
            }
        }
        if sources.is_empty() {
            return Err(format!("{} counts otherwise now than in it", now.server));
        }
        let unknown = now.created.iter().filter(|c| changed(c));
        let unknown = unknown.map(|c| (c.db.clone(), c.table.clone())).collect();
        let exact = true;
        Ok(Window { seconds: elapsed, counts, sources, unknown, exact, ..Window::default() })
    }
}

impl Counters {
    /// All counts since the server started counting.
    pub fn window(&self) -> Window {
        let age = |c: &Count| Count { n: self.taken.saturating_sub(c.n), ..c.clone() };
        Window {
            younger: self.created.iter().map(age).filter(|c| c.n < self.uptime).collect(),
            seconds: self.uptime,
            counts: self.sources.values().flatten().cloned().collect(),
            sources: self.sources.keys().cloned().collect(),
            ..Window::default()
        }
    }
}

/// The counts of one server from one moment to another.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub seconds: u64,
    pub counts: Vec<Count>,
    pub sources: Vec<String>,
    /// Tables (database, name) that were made or altered within it: reads before that are not counted.
    pub unknown: Vec<(String, String)>,
    /// Tables that are younger than the window; `n` is their age in seconds.
    pub younger: Vec<Count>,
    /// The server was restarted since the earlier counters: these counts begin at its start.
    pub restarted: bool,
    /// Both ends are known. If false, counting may have begun at any time since the server's start.
    pub exact: bool,
}

type Name = (String, String, String);

fn name(db: &str, table: &str, key: &str) -> Name {
    (db.to_lowercase(), table.to_lowercase(), key.to_lowercase())
}

/// All evidence together.
#[derive(Debug, Default)]
pub struct Usage {
    used: HashSet<Name>,
    /// Tables of which not all reads are known: their keys count as used.
    unknown: HashSet<(String, String)>,
    /// Seconds for which a table's reads are known, if they are fewer than `seconds`.
    younger: HashMap<(String, String), u64>,
    /// Rows that were inserted, updated or deleted, by table; from the server with the most.
    changes: HashMap<(String, String), u64>,
    /// The shortest window of any server.
    seconds: Option<u64>,
    sources: HashSet<String>,
    servers: usize,
    plans: usize,
}

impl Usage {
    pub fn add(&mut self, window: &Window) {
        self.servers += 1;
        self.seconds = Some(self.seconds.map_or(window.seconds, |s| s.min(window.seconds)));
        self.sources.extend(window.sources.iter().cloned());
        let lower = |(db, table): &(String, String)| (db.to_lowercase(), table.to_lowercase());
        self.unknown.extend(window.unknown.iter().map(lower));
        for count in &window.younger {
            let name = name(&count.db, &count.table, "");
            let seconds = self.younger.entry((name.0, name.1)).or_insert(count.n);
            *seconds = count.n.min(*seconds);
        }
        for count in window.counts.iter().filter(|count| count.n > 0) {
            let name = name(&count.db, &count.table, &count.key);
            if count.key.is_empty() {
                let changes = self.changes.entry((name.0, name.1)).or_default();
                *changes = count.n.max(*changes);
            } else {
                self.used.insert(name);
            }
        }
    }

    /// Adds the lines of a logged plan (`# explain: ...`, tab separated, the first names the columns). `tables` are those of
    /// the statement, as (database, table); `all` are the server's. A plan names tables by their aliases. So a key counts for
    /// every table of the statement that has a key of this name; if none has, or if one of them is no base table but may be a
    /// view, for every table of the server.
    pub fn add_plan(&mut self, plan: &[u8], tables: &[(String, String)], all: &[Table]) {
        let text = String::from_utf8_lossy(plan);
        let mut lines = text.lines().map(|line| line.trim_start_matches("# explain: "));
        let Some(at) = lines.next().and_then(|head| head.split('\t').position(|c| c == "key"))
        else {
            return;
        };
        self.plans += 1;
        for cell in lines.filter_map(|line| line.split('\t').nth(at)).filter(|c| *c != "NULL") {
            // An index merge names several keys, and a rowid filter follows a `|`; a name may contain these characters
            // itself.
            for key in cell.split([',', '|']).chain([cell]) {
                self.add_named(key, tables, all);
            }
        }
    }

    fn add_named(&mut self, key: &str, tables: &[(String, String)], all: &[Table]) {
        let having = || all.iter().filter(|table| table.key(key).is_some());
        let is = |(db, name): &(String, String), table: &Table| {
            (db.is_empty() || same_name(db, &table.db)) && same_name(name, &table.name)
        };
        let hidden = tables.iter().any(|name| !all.iter().any(|table| is(name, table)));
        let of_statement = |table: &&Table| tables.iter().any(|name| is(name, table));
        let mut found: Vec<&Table> = having().filter(of_statement).collect();
        if found.is_empty() || hidden {
            found = having().collect();
        }
        for table in found {
            self.used.insert(name(&table.db, &table.name, key));
        }
    }

    fn is_used(&self, table: &Table, key: &Key) -> bool {
        let (db, table, key) = name(&table.db, &table.name, &key.name);
        self.used.contains(&(db.clone(), table.clone(), key)) || self.unknown.contains(&(db, table))
    }

    /// `no statement has read it in 3.2 days`, with the evidence.
    fn reason(&self, table: &Table) -> String {
        let mut sources: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        sources.sort_unstable();
        let table = (table.db.to_lowercase(), table.name.to_lowercase());
        let seconds = self.seconds.into_iter().chain(self.younger.get(&table).copied()).min();
        let mut reason =
            format!("nothing has read it in {}", duration(seconds.unwrap_or_default()));
        reason += &format!(" ({}", sources.join(", "));
        if self.servers > 1 {
            reason += &format!(" of {} servers", self.servers);
        }
        reason += ")";
        if self.plans > 0 {
            reason += &format!(", and none of {} logged plans names it", self.plans);
        }
        if let Some(n) = self.changes.get(&table) {
            reason += &format!("; rows changed in the table meanwhile: {n}");
        }
        reason
    }
}

/// The keys of `table` that nothing has read and nothing needs. All of them can be dropped at once, together with the keys
/// that `duplicates` finds superfluous (IX2).
pub fn unused(table: &Table, parents: &Parents<'_>, usage: &Usage, hiding: Hiding) -> Vec<Item> {
    let duplicates = duplicates::find(table, parents);
    let mut used: Vec<&Key> = table.keys.iter().filter(|key| usage.is_used(table, key)).collect();
    let mut stay: Vec<&Key> = table.keys.iter().collect();
    for finding in &duplicates {
        if let Finding::Key { key, of, .. } = finding {
            // The key that stays in its place will be read from then on.
            if used.iter().any(|other| other.name == *key) {
                used.extend(table.key(of));
            }
            stay.retain(|other| other.name != *key);
        }
    }
    let duties = Duties::of(table, parents);
    let mut found = Vec::new();
    for key in &table.keys {
        // Servers differ from release to release in how they count reads of the other kinds.
        let counted = matches!(key.kind, KeyKind::Plain | KeyKind::Unique | KeyKind::Spatial);
        let is = |other: &&Key| std::ptr::eq(*other, key);
        if !counted || used.iter().any(is) || !stay.iter().any(is) {
            continue;
        }
        let others: Vec<&Key> = stay.iter().copied().filter(|other| !is(other)).collect();
        if duties.held(key, &others).is_none() {
            stay = others;
            found.push(item(table, key, Kind::Unused, usage.reason(table), hiding));
        }
    }
    found
}

/// `3.2 days`, `5.0 hours`, `40 seconds`.
pub fn duration(seconds: u64) -> String {
    let unit = |size: u64, name: &str| format!("{:.1} {name}", seconds as f64 / size as f64);
    match seconds {
        0..=119 => format!("{seconds} seconds"),
        120..=7199 => unit(60, "minutes"),
        7200..=172_799 => unit(3600, "hours"),
        _ => unit(86_400, "days"),
    }
}
