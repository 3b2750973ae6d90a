//! The cost of CHECK TABLE: reads the pages of all indexes, then compares all entries with the
//! rows, as the server's statement does on a table in use (`frond check` is another program:
//! offline, without collations).

use std::sync::Arc;

use frond_base::Result;
use frond_engine::rows::Rows;
use frond_engine::{Engine, Table};
use frond_row::{PlainSortKeys, RecordLayout};
use frond_vfs::Vfs;
use serde::Serialize;

use crate::bench::process::Usage;
use crate::bench::purchases;

/// One part of the check.
#[derive(Clone, Copy, Serialize)]
pub struct Part {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// See the module.
#[derive(Serialize)]
pub struct Checked {
    pub pages: Part,
    pub entries: Part,
    pub rows_per_second: f64,
    pub cpu_us_per_row: f64,
    pub problems: Vec<String>,
}

impl Checked {
    /// Checks the benchmark's table of `rows` rows, without concurrent writes.
    pub fn run(
        vfs: &Arc<dyn Vfs>,
        engine: &Engine,
        table: &Arc<Table>,
        rows: u64,
    ) -> Result<Checked> {
        let layout = RecordLayout::compact(&purchases::schema());
        let binding = Rows::bind(table.clone(), layout, Arc::new(PlainSortKeys))?;
        let start = Mark::now(vfs);
        let mut outcome = engine.check_table_unless(table, &mut || false)?;
        let middle = Mark::now(vfs);
        binding.check(engine, &mut outcome, &mut || false, None)?;
        let end = Mark::now(vfs);
        let whole = start.until(&end);
        Ok(Checked {
            pages: start.until(&middle),
            entries: middle.until(&end),
            rows_per_second: rows as f64 / whole.seconds.max(1e-9),
            cpu_us_per_row: whole.cpu_seconds * 1e6 / rows.max(1) as f64,
            problems: outcome.problems,
        })
    }
}

struct Mark {
    at: std::time::Duration,
    cpu_seconds: f64,
}

impl Mark {
    fn now(vfs: &Arc<dyn Vfs>) -> Mark {
        Mark { at: vfs.now(), cpu_seconds: Usage::now().cpu_seconds }
    }

    fn until(&self, end: &Mark) -> Part {
        Part {
            seconds: (end.at - self.at).as_secs_f64(),
            cpu_seconds: end.cpu_seconds - self.cpu_seconds,
        }
    }
}
