//! Building indexes while others read and write the table.
//!
//! The rows as of a snapshot are scanned once, the entries of all new indexes derived and sorted in bounded
//! memory (`entry_sort.rs`) by several threads (`team.rs`), and the sorted runs put *below* what commits have written since the snapshot
//! (`Tree::attach_below`): there a newer version of an entry, or its deletion, wins.
//!
//! - BI1. The snapshot is taken after commits have begun to write the new indexes' entries, and no transaction
//!   that began before has changes of the table (ALT2). So each row's entry comes from the scan, or from a
//!   commit, or from both, and then the commit's is the newer one.
//! - BI2. Uniqueness. Writers are not refused while an index is built. When all entries are in the
//!   tree, the tree is read once at a second snapshot. From that snapshot on, the keys that commits
//!   put are noted. These keys are looked up in rounds, until few are left. The last round is in
//!   [`Alter::commit`], when nobody writes any more. A round takes the keys and its snapshot while
//!   no commit is under way (the gate), so its snapshot sees every key that it took.
//!
//! An error ends the build: dropping the `Alter` drops the new trees.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result};
use frond_row::{Deriver, Entries, RowCodec};
use frond_tree::{Bounds, Tree};
use frond_txn::Snapshot;

use crate::background::running_work::Work;
use crate::catalog::alter::{Alter, NewIndex};
use crate::catalog::alter_spec::Violation;
use crate::catalog::build::{attach_all, collect, write_all, Build, Progress};
use crate::catalog::build::{FEW_BYTES, POLL_EVERY, ROUNDS};
use crate::catalog::entry_sort::EntrySort;
use crate::rows::Rows;
use crate::table::trees::Changes;

impl Alter {
    /// Builds the new indexes, then looks for the parents that new foreign keys demand; others may read and write the
    /// tables. `rows` is a binding of the table, whose record layout and sort keys are used. Returns a violation of
    /// uniqueness, if there is one: then this can only be dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`], [`ErrorKind::NoSpace`], [`ErrorKind::Unsupported`] for an index with a
    /// column that the server computes, [`ErrorKind::NoParent`]; those of waiting for locks, of reading and
    /// writing files.
    pub fn build(&mut self, rows: &Rows, progress: Progress<'_>) -> Result<Option<Violation>> {
        let violation = match self.rebuild.is_some() {
            true => self.build_anew(rows, &mut *progress)?,
            false => self.build_indexes(rows, &mut *progress)?,
        };
        if violation.is_none() {
            self.check_foreigns(progress)?;
        }
        Ok(violation)
    }

    fn build_indexes(&mut self, rows: &Rows, progress: Progress<'_>) -> Result<Option<Violation>> {
        let Some(schema) = self.building.clone() else { return Ok(None) };
        let busy = self.core.clone();
        let work = Work::new("BUILD INDEX", self.table.id(), busy.shared.vfs.now());
        let bytes = self.table.tree(0).stats().logical_bytes;
        let _under_way = busy.works.begin(work.of(self.new.first().map(|new| new.tree), bytes));
        let def = self.table.def();
        let layout = rows.codec().layout().clone();
        let sort_keys = rows.codec().sort_keys().clone();
        let codec = RowCodec::bind(&def.name, schema, layout, self.table.history()?, sort_keys)?;
        let (core, codec) = (self.core.clone(), Arc::new(codec));
        let unique = self.new.iter().any(|new| new.unique);
        let total = self.table.rows() * if unique { 3 } else { 2 };
        let mut build = Build { core, codec, progress, done: 0, total };
        let sorts = self.scan(&mut build)?;
        self.attach(&mut build, sorts)?;
        if let Some(violation) = self.check_unique(&mut build)? {
            return Ok(Some(violation));
        }
        self.is_built = true;
        Ok(None)
    }

    /// One pass over the rows; returns the sorted entries of each new index.
    fn scan(&mut self, build: &mut Build<'_>) -> Result<Vec<EntrySort>> {
        let wanted = self.new.iter().fold(0u128, |all, new| all | 1 << new.building);
        let mut deriver = Deriver::new(build.codec.clone(), wanted)?;
        let mut entries = Entries::new();
        let trees: Vec<&Tree> = self.new.iter().map(|new| self.table.tree(new.tree)).collect();
        let (mut sorts, charge) =
            collect(build, (&self.table, self.at), &trees, &mut |key, value, sorts| {
                deriver.derive(key, value, &mut entries)?;
                for (new, sort) in self.new.iter().zip(sorts) {
                    sort.chunk.push(entries.key(new.building), entries.value(new.building));
                }
                Ok(())
            })?;
        // Versions that only this snapshot needs may be dropped now.
        self.snapshot = None;
        write_all(&mut sorts, build, true)?;
        drop(charge);
        Ok(sorts)
    }

    /// The runs become the lowest part of their trees.
    fn attach(&self, build: &mut Build<'_>, sorts: Vec<EntrySort>) -> Result<()> {
        let trees: Vec<IndexNo> = self.new.iter().map(|new| new.tree).collect();
        attach_all(build, &self.table, &trees, sorts)
    }

    // ---- uniqueness (BI2) ----

    fn unique(&self) -> impl Iterator<Item = &NewIndex> {
        self.new.iter().filter(|new| new.unique)
    }

    /// Begins to note the keys that commits put; what is committed before is seen by the snapshot.
    fn watch(&self) -> Snapshot {
        let _gate = self.core.gate.write();
        self.unique().for_each(|new| self.table.slot(new.tree).watch(true));
        self.core.new_snapshot()
    }

    /// The keys noted so far, and a snapshot that sees all of them.
    fn noted(&self) -> (Vec<Changes>, Snapshot) {
        let _gate = self.core.gate.write();
        let taken = self.unique().map(|new| self.table.slot(new.tree).take_changes());
        (taken.collect(), self.core.new_snapshot())
    }

    fn check_unique(&mut self, build: &mut Build<'_>) -> Result<Option<Violation>> {
        if self.unique().next().is_none() {
            return Ok(None);
        }
        let snapshot = self.watch();
        for new in self.unique() {
            if let Some(violation) = self.check_all(new, &build.codec, &snapshot, &mut || {
                build.done += POLL_EVERY;
                match (build.progress)(build.done, build.total.max(build.done)) {
                    true => Ok(()),
                    false => {
                        Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted"))
                    }
                }
            })? {
                return Ok(Some(violation));
            }
        }
        drop(snapshot);
        self.codec = Some(build.codec.clone());
        for _ in 0..ROUNDS {
            let (few, violation) = self.round()?;
            if few || violation.is_some() {
                return Ok(violation);
            }
            build.poll()?;
        }
        Ok(None)
    }

    /// Looks up what was noted; whether it was little.
    fn round(&mut self) -> Result<(bool, Option<Violation>)> {
        let Some(codec) = self.codec.clone() else { return Ok((true, None)) };
        let (taken, snapshot) = self.noted();
        let mut few = true;
        for (new, changes) in self.unique().zip(taken) {
            few &= changes.keys.len() <= FEW_BYTES && !changes.overflow;
            let violation = match changes.overflow {
                true => self.check_all(new, &codec, &snapshot, &mut || Ok(()))?,
                false => self.check_keys(new, &codec, &changes, &snapshot)?,
            };
            if violation.is_some() {
                return Ok((true, violation));
            }
        }
        Ok((few, None))
    }

    /// The last round, when nobody writes any more.
    pub(super) fn check_rest(&mut self) -> Result<Option<Violation>> {
        match &self.rebuild {
            Some(rebuild) => Ok(rebuild.round(&self.core, self.at)?.1),
            None => Ok(self.round()?.1),
        }
    }

    /// Neighbours with the same value, in the whole index.
    fn check_all(
        &self,
        new: &NewIndex,
        codec: &RowCodec,
        snapshot: &Snapshot,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Violation>> {
        let mut cursor = self.table.tree(new.tree).cursor(snapshot.at(), Bounds::all());
        let mut last = Vec::new();
        let (mut valid, mut met) = (cursor.first()?, 0u64);
        while valid {
            if let Some(value) = codec.unique_part(new.building, cursor.key())? {
                if value == &last[..] {
                    return self.violation(new, codec, cursor.key()).map(Some);
                }
                last.clear();
                last.extend_from_slice(value);
            }
            met += 1;
            if met.is_multiple_of(POLL_EVERY) {
                poll()?;
            }
            valid = cursor.next()?;
        }
        Ok(None)
    }

    /// Values that two rows have, of those in `changes`.
    fn check_keys(
        &self,
        new: &NewIndex,
        codec: &RowCodec,
        changes: &Changes,
        snapshot: &Snapshot,
    ) -> Result<Option<Violation>> {
        let tree = self.table.tree(new.tree);
        for key in changes.iter() {
            let Some(value) = codec.unique_part(new.building, key)? else { continue };
            let mut cursor = tree.cursor(snapshot.at(), Bounds::prefix(value));
            if cursor.first()? && cursor.next()? {
                return self.violation(new, codec, cursor.key()).map(Some);
            }
        }
        Ok(None)
    }

    fn violation(&self, new: &NewIndex, codec: &RowCodec, key: &[u8]) -> Result<Violation> {
        let primary_key = codec.primary_key(new.building, key)?.to_vec();
        Ok(Violation { index: new.target, primary_key })
    }
}
