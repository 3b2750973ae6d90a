//! The reference: what the database must hold after each commit. Plain maps, copied when changed.
//!
//! State `n` is the database after `n` commits, definitions included; commits are counted from the
//! creation of the database. A recovered database must equal some state between the last that was
//! promised durable and the last that was begun (oracles O1 to O3 in one comparison, because a
//! fingerprint covers all tables at once).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use frond_base::checksum64_seeded;

use crate::rng::mix;

pub type Key = Vec<u8>;
pub type Value = Arc<[u8]>;
/// A table's number in the model; kept by renames, new after a truncation.
pub type TableNo = u64;

/// One table at one time.
#[derive(Clone, Default)]
pub struct Rows {
    pub rows: BTreeMap<Key, Value>,
    sum: u64,
}

impl Rows {
    pub fn put(&mut self, key: &[u8], value: Value) {
        self.delete(key);
        self.sum = self.sum.wrapping_add(row_hash(key, &value));
        self.rows.insert(key.to_vec(), value);
    }

    pub fn delete(&mut self, key: &[u8]) {
        if let Some(old) = self.rows.remove(key) {
            self.sum = self.sum.wrapping_sub(row_hash(key, &old));
        }
    }
}

fn row_hash(key: &[u8], value: &[u8]) -> u64 {
    checksum64_seeded(value, checksum64_seeded(key, 0x0072_6f77))
}

/// A table with its name.
#[derive(Clone)]
pub struct TableState {
    pub name: String,
    pub rows: Arc<Rows>,
}

/// A prepared transaction.
#[derive(Clone)]
pub struct PreparedState {
    pub writes: Writes,
    pub used: BTreeSet<TableNo>,
    /// The session that holds its locks.
    pub who: u64,
    /// It holds exclusive locks only on rows that it changed.
    pub all_changed: bool,
}

/// The database after some commit.
#[derive(Clone, Default)]
pub struct State {
    pub tables: BTreeMap<TableNo, TableState>,
    /// By name.
    pub prepared: BTreeMap<u64, Arc<PreparedState>>,
}

impl State {
    pub fn fingerprint(&self) -> u64 {
        let names = prepared_hash(self.prepared.keys());
        self.tables.values().fold(names, |sum, t| {
            sum.wrapping_add(table_hash(&t.name, t.rows.sum, t.rows.rows.len() as u64))
        })
    }

    fn apply(&mut self, writes: &Writes) {
        for ((table, key), value) in writes {
            let Some(t) = self.tables.get_mut(table) else { continue };
            let rows = Arc::make_mut(&mut t.rows);
            match value {
                Some(value) => rows.put(key, value.clone()),
                None => rows.delete(key),
            }
        }
    }

    /// The prepared transaction of that name is no more.
    pub fn end_prepared(&mut self, name: u64, commit: bool) {
        let ended = self.prepared.remove(&name);
        if let (Some(p), true) = (ended, commit) {
            self.apply(&p.writes);
        }
    }

    pub fn by_name(&self, name: &str) -> Option<(TableNo, &TableState)> {
        self.tables.iter().find(|(_, t)| t.name == name).map(|(no, t)| (*no, t))
    }
}

fn prepared_hash<'n>(names: impl IntoIterator<Item = &'n u64>) -> u64 {
    names.into_iter().fold(0, |sum, name| sum.wrapping_add(mix(*name, 0x7072_6570)))
}

fn table_hash(name: &str, sum: u64, rows: u64) -> u64 {
    mix(mix(checksum64_seeded(name.as_bytes(), 0x7462), sum), rows)
}

/// What was read from a real database: rows by table name.
#[derive(Default)]
pub struct Dump {
    pub tables: BTreeMap<String, BTreeMap<Key, Vec<u8>>>,
    /// Names of prepared transactions.
    pub prepared: BTreeSet<u64>,
}

impl Dump {
    pub fn fingerprint(&self) -> u64 {
        self.tables.iter().fold(prepared_hash(&self.prepared), |sum, (name, rows)| {
            let all = rows.iter().fold(0u64, |s, (k, v)| s.wrapping_add(row_hash(k, v)));
            sum.wrapping_add(table_hash(name, all, rows.len() as u64))
        })
    }

    /// The first differences from `state`, in words.
    pub fn differences(&self, state: &State) -> Vec<String> {
        let mut out = Vec::new();
        let wanted: BTreeSet<u64> = state.prepared.keys().copied().collect();
        if self.prepared != wanted {
            out.push(format!("prepared are {:?} instead of {wanted:?}", self.prepared));
        }
        for t in state.tables.values() {
            let Some(rows) = self.tables.get(&t.name) else {
                out.push(format!("table '{}' is missing", t.name));
                continue;
            };
            for (key, value) in &t.rows.rows {
                match rows.get(key) {
                    None => out.push(format!("'{}' {}: missing", t.name, show(key))),
                    Some(v) if v[..] != value[..] => out.push(format!(
                        "'{}' {}: value {} instead of {}",
                        t.name,
                        show(key),
                        show(v),
                        show(value)
                    )),
                    Some(_) => {}
                }
            }
            for key in rows.keys().filter(|k| !t.rows.rows.contains_key(*k)) {
                out.push(format!("'{}' {}: should not be there", t.name, show(key)));
            }
        }
        for name in self.tables.keys().filter(|n| state.by_name(n).is_none()) {
            out.push(format!("table '{name}' should not be there"));
        }
        out
    }
}

/// Bytes for a report: the beginning, in text where it is text.
pub fn show(bytes: &[u8]) -> String {
    let head: String =
        bytes.iter().take(24).flat_map(|b| b.escape_ascii()).map(char::from).collect();
    format!("\"{head}\"({})", bytes.len())
}

/// A change of one key; `None` deletes.
pub type Writes = BTreeMap<(TableNo, Key), Option<Value>>;

/// All states that may still be asked for, and when each key was last written.
pub struct Model {
    states: VecDeque<State>,
    /// Number of the first state kept.
    first: u64,
    /// Commits that wrote a key, since the database was opened.
    last_write: HashMap<(TableNo, Key), Vec<u64>>,
    next_table: TableNo,
}

impl Default for Model {
    fn default() -> Self {
        let states = VecDeque::from([State::default()]);
        Model { states, first: 0, last_write: HashMap::new(), next_table: 1 }
    }
}

impl Model {
    /// Number of the oldest state kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of commits so far.
    pub fn now(&self) -> u64 {
        self.first + self.states.len() as u64 - 1
    }

    pub fn state(&self, n: u64) -> &State {
        &self.states[(n - self.first) as usize]
    }

    pub fn latest(&self) -> &State {
        self.state(self.now())
    }

    /// The commit that last wrote `key`, since the database was opened.
    pub fn last_write(&self, table: TableNo, key: &[u8]) -> Option<u64> {
        self.last_write.get(&(table, key.to_vec()))?.last().copied()
    }

    /// The next state is the latest changed by `writes`.
    pub fn commit(&mut self, writes: &Writes) {
        let mut state = self.latest().clone();
        state.apply(writes);
        self.note_writes(writes);
        self.states.push_back(state);
    }

    /// The next state writes these.
    fn note_writes(&mut self, writes: &Writes) {
        let n = self.now() + 1;
        for (place, _) in writes.iter() {
            if self.latest().tables.contains_key(&place.0) {
                self.last_write.entry(place.clone()).or_default().push(n);
            }
        }
    }

    /// The next state has a prepared transaction more.
    pub fn prepare(&mut self, name: u64, prepared: PreparedState) {
        let mut state = self.latest().clone();
        state.prepared.insert(name, Arc::new(prepared));
        self.states.push_back(state);
    }

    /// The next state has one less, and its changes if it is a commit.
    pub fn end_prepared(&mut self, name: u64, commit: bool) {
        let mut state = self.latest().clone();
        if let (Some(p), true) = (state.prepared.get(&name), commit) {
            let writes = p.writes.clone();
            self.note_writes(&writes);
        }
        state.end_prepared(name, commit);
        self.states.push_back(state);
    }

    /// A restart found it: somebody else holds its locks.
    pub fn found_prepared(&mut self, name: u64, who: u64) {
        if let Some(p) = self.states.back_mut().and_then(|s| s.prepared.get_mut(&name)) {
            Arc::make_mut(p).who = who;
        }
    }

    pub fn create(&mut self, name: &str) -> TableNo {
        let no = self.next_table;
        self.next_table += 1;
        let mut state = self.latest().clone();
        state.tables.insert(no, TableState { name: name.into(), rows: Arc::default() });
        self.states.push_back(state);
        no
    }

    pub fn drop_table(&mut self, no: TableNo) {
        let mut state = self.latest().clone();
        state.tables.remove(&no);
        self.states.push_back(state);
    }

    pub fn rename(&mut self, no: TableNo, to: &str) {
        let mut state = self.latest().clone();
        if let Some(t) = state.tables.get_mut(&no) {
            t.name = to.into();
        }
        self.states.push_back(state);
    }

    pub fn truncate(&mut self, no: TableNo) -> TableNo {
        let new = self.next_table;
        self.next_table += 1;
        let mut state = self.latest().clone();
        if let Some(t) = state.tables.remove(&no) {
            state.tables.insert(new, TableState { rows: Arc::default(), ..t });
        }
        self.states.push_back(state);
        new
    }

    /// The commit begun last did not happen.
    pub fn take_back(&mut self) {
        assert!(self.states.len() > 1, "the state before it is kept");
        self.states.pop_back();
        let now = self.now();
        self.last_write.values_mut().for_each(|all| all.retain(|n| *n <= now));
    }

    /// The newest state from `lower` to `upper` with that fingerprint.
    pub fn find(&self, fingerprint: u64, lower: u64, upper: u64) -> Option<u64> {
        (lower.max(self.first)..=upper.min(self.now()))
            .rev()
            .find(|&n| self.state(n).fingerprint() == fingerprint)
    }

    /// After recovery to state `n`: what came later never was. No snapshot is older than this.
    pub fn recovered(&mut self, n: u64) {
        self.states.truncate((n - self.first + 1) as usize);
        self.last_write.clear();
    }

    /// States below `n` will not be asked for again.
    pub fn forget_below(&mut self, n: u64) {
        while self.first < n && self.states.len() > 1 {
            self.states.pop_front();
            self.first += 1;
        }
    }

    /// The nearest match for a report: the state with the fewest differences.
    pub fn nearest(&self, dump: &Dump, lower: u64, upper: u64) -> (u64, Vec<String>) {
        (lower.max(self.first)..=upper.min(self.now()))
            .map(|n| (n, dump.differences(self.state(n))))
            .min_by_key(|(_, d)| d.len())
            .unwrap_or((upper, vec!["no state is kept".into()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(s: &str) -> Value {
        s.as_bytes().into()
    }

    #[test]
    fn a_dump_is_found_again_among_the_states() {
        let mut model = Model::default();
        let t = model.create("a");
        for i in 0..5u8 {
            model.commit(&Writes::from([((t, vec![i]), Some(value("x")))]));
        }
        model.commit(&Writes::from([((t, vec![0]), None)]));
        let mut dump = Dump::default();
        let rows = (0..3u8).map(|i| (vec![i], b"x".to_vec())).collect();
        dump.tables.insert("a".into(), rows);
        assert_eq!(model.find(dump.fingerprint(), 0, model.now()), Some(4));
        assert_eq!(model.find(dump.fingerprint(), 5, model.now()), None);
        assert_eq!(model.nearest(&dump, 5, 6).1.len(), 1);
        assert_eq!(model.last_write(t, &[0]), Some(7));
        model.recovered(4);
        assert_eq!(model.latest().fingerprint(), dump.fingerprint());
    }
}
