//! Verification of a whole table or database: every page of every run, every count, the block map.
//! `rows/check.rs` compares indexes with rows.

use std::collections::HashMap;
use std::sync::Arc;

use frond_base::{BlockId, Error, ErrorKind, Result};
use frond_tree::BlockSource;

use crate::engine::Engine;
use crate::table::Table;

/// One problem, in words that name the place.
pub type Problem = String;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckOutcome {
    pub problems: Vec<Problem>,
    pub tables: u64,
    pub trees: u64,
    pub runs: u64,
    pub pages: u64,
    pub entries: u64,
}

impl CheckOutcome {
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Engine {
    /// Checks the pages of one table. Reads and writes may go on.
    pub fn check_table(&self, name: &str) -> Result<CheckOutcome> {
        let table = self.open_table(name)?;
        self.check_table_unless(&table, &mut || false)
    }

    /// As [`Engine::check_table`]; `Interrupted` when `killed`, called before each page, returns true.
    pub fn check_table_unless(
        &self,
        table: &Arc<Table>,
        killed: &mut dyn FnMut() -> bool,
    ) -> Result<CheckOutcome> {
        let mut outcome = CheckOutcome::default();
        match check_one(table, &mut outcome, killed) {
            true => Ok(outcome),
            false => Err(Error::new(ErrorKind::Interrupted, "the check was interrupted")),
        }
    }

    /// Checks every table and the catalog; `progress` gets each table's name first.
    pub fn check_all(&self, progress: &mut dyn FnMut(&str)) -> CheckOutcome {
        let mut outcome = CheckOutcome::default();
        progress("catalog");
        check_one(&self.core().system_table(), &mut outcome, &mut || false);
        for def in self.tables() {
            progress(&def.name);
            match self.core().open_table_by_def(&def) {
                Ok(table) => {
                    check_one(&table, &mut outcome, &mut || false);
                }
                Err(e) => outcome.problems.push(format!("table '{}': {e}", def.name)),
            }
        }
        outcome
    }
}

/// False when it was killed.
fn check_one(
    table: &Arc<Table>,
    outcome: &mut CheckOutcome,
    killed: &mut dyn FnMut() -> bool,
) -> bool {
    outcome.tables += 1;
    let name = table.def().name.clone();
    table.store().forget_read_ahead();
    let mut stopped = false;
    let mut killed = || {
        stopped = stopped || killed();
        stopped
    };
    for tree in table.trees().iter() {
        outcome.trees += 1;
        let index = tree.id().index;
        let problems = &mut outcome.problems;
        let mut found = |e| problems.push(format!("table '{name}', index {index}: {e}"));
        let report = tree.check_all_unless(true, &mut found, &mut killed);
        outcome.runs += report.runs;
        outcome.pages += report.pages;
        outcome.entries += report.entries;
    }
    if killed() {
        return false;
    }
    // Edits change the trunks and the block map together.
    let _edits = table.store().edits().lock();
    let mut named: HashMap<BlockId, frond_tree::Extent> = HashMap::new();
    for (block, extent) in table.trees().iter().flat_map(|tree| tree.run_extents()) {
        if named.insert(block, extent).is_some() {
            outcome.problems.push(format!("table '{name}': block {block} is in two trees"));
        }
    }
    for block in table.trees().iter().flat_map(frond_tree::Tree::packs) {
        let extent = table.store().block_extent(block);
        let extent = extent.unwrap_or(frond_tree::Extent { offset: 0, len: 0 });
        if named.insert(block, extent).is_some() {
            outcome.problems.push(format!("table '{name}': block {block} is named twice"));
        }
    }
    check_extents(table, &name, &named, outcome);
    true
}

/// The trunks and the block map must name the same blocks at the same places.
fn check_extents(
    table: &Table,
    name: &str,
    named: &HashMap<BlockId, frond_tree::Extent>,
    outcome: &mut CheckOutcome,
) {
    let Some(file) = table.store().existing_file() else {
        if !named.is_empty() {
            outcome.problems.push(format!("table '{name}': runs are named but there is no file"));
        }
        return;
    };
    for (block, extent) in named {
        match file.extent(*block) {
            Some(e) if e.offset == extent.offset && e.len == extent.len => {}
            Some(e) => outcome.problems.push(format!(
                "table '{name}': block {block} is at {} in the block map, at {} in the trunk",
                e.offset, extent.offset
            )),
            None => outcome
                .problems
                .push(format!("table '{name}': block {block} is not in the block map")),
        }
    }
}
