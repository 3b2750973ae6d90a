//! Tables that recovery needs and that are damaged (R1): the refusal to open, and dropping them on demand.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};

use crate::catalog::TableDef;
use crate::commit::core::Core;
use crate::table::store::file_name;

/// A table that is defined and was lost.
pub(crate) struct Damaged {
    pub(super) def: Arc<TableDef>,
    pub(super) why: Error,
}

impl Damaged {
    /// Why the database is not opened when `count` tables are damaged.
    pub(super) fn refusal(&self, count: usize) -> Error {
        let others = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        Error::new(
            ErrorKind::Corruption,
            format!(
                "{}; table '{}'{others} is needed for recovery, so the database was not opened and nothing \
                 was changed. Put a sound copy of the file back, or restore the whole directory from a \
                 backup. To go on without such tables, open once with discard_damaged_tables, which drops \
                 them and keeps their files as *.frd.damaged",
                self.why.message(),
                self.def.name
            ),
        )
    }
}

impl Core {
    /// Drops a table that recovery could not bring back, as it was told to. Its file gets another name, from
    /// which somebody may still read what is sound.
    pub(crate) fn discard(self: &Arc<Self>, damaged: &Damaged) -> Result<()> {
        let Damaged { def, why } = damaged;
        let vfs = &self.shared.vfs;
        let (file, aside) = (file_name(def.id), format!("{}.damaged", file_name(def.id)));
        let there = vfs.exists(&file).map_err(|e| Error::io("look for", &file, e))?;
        if there {
            vfs.rename(&file, &aside)
                .and_then(|()| vfs.sync_dir())
                .map_err(|e| Error::io("rename", &file, e))?;
        }
        self.drop_table(&def.name, &|_| true)?;
        let kept = if there { format!(" Its file is now {aside}.") } else { String::new() };
        let told = format!("table '{}' was dropped, as it is damaged: {why}.{kept}", def.name);
        self.messages.say(0, &told);
        Ok(())
    }
}
