//! Verification of a whole table or database: every page of every run, every count, every index entry.

use std::collections::HashMap;
use std::sync::Arc;

use frond_base::{BlockId, Result};

use crate::engine::Engine;
use crate::table::Table;

/// One thing that is wrong, in words that name the place.
pub type Problem = String;

/// What a check found.
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
    /// Checks one table. Reads may go on; the table's writers should be idle.
    pub fn check_table(&self, name: &str) -> Result<CheckOutcome> {
        let mut outcome = CheckOutcome::default();
        let table = self.open_table(name)?;
        check_one(&table, &mut outcome);
        Ok(outcome)
    }

    /// Checks every table and the catalog; `progress` hears each table's name first.
    pub fn check_all(&self, progress: &mut dyn FnMut(&str)) -> CheckOutcome {
        let mut outcome = CheckOutcome::default();
        progress("catalog");
        check_one(&self.core().system_table(), &mut outcome);
        for def in self.tables() {
            progress(&def.name);
            match self.core().open_table_by_def(&def) {
                Ok(table) => check_one(&table, &mut outcome),
                Err(e) => outcome.problems.push(format!("table '{}': {e}", def.name)),
            }
        }
        outcome
    }
}

fn check_one(table: &Arc<Table>, outcome: &mut CheckOutcome) {
    outcome.tables += 1;
    let name = table.def().name.clone();
    table.store().forget_read_ahead();
    let mut named: HashMap<BlockId, frond_tree::Extent> = HashMap::new();
    for tree in table.trees() {
        outcome.trees += 1;
        let index = tree.id().index;
        let report = tree.check_all(true, &mut |e| {
            outcome.problems.push(format!("table '{name}', index {index}: {e}"));
        });
        outcome.runs += report.runs;
        outcome.pages += report.pages;
        outcome.entries += report.entries;
        for (block, extent) in tree.run_extents() {
            if named.insert(block, extent).is_some() {
                outcome.problems.push(format!("table '{name}': block {block} is in two trees"));
            }
        }
    }
    check_extents(table, &name, &named, outcome);
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
