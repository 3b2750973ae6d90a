//! Files without tables, and tables without files, when everything else is back.

use std::collections::HashSet;

use frond_base::{Error, Result, TableId};

use crate::backup::format::PIN_FILE;
use crate::catalog::SYSTEM_TABLE;
use crate::checkpoint::images::Found;
use crate::commit::core::Core;
use crate::table::store::file_name;

/// Removes files that belong to no table: left by a crash after a drop or during a creation.
pub(crate) fn remove_orphans(core: &Core) -> Result<()> {
    let vfs = &core.shared.vfs;
    let all = vfs.list().map_err(|e| Error::io("list", "the database directory", e))?;
    for name in all {
        if name == PIN_FILE {
            // The description of a backup that the end of the process broke.
            vfs.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
            continue;
        }
        let made = name.strip_suffix(".new");
        let Some(stem) = made.unwrap_or(&name).strip_suffix(".frd") else { continue };
        let Ok(id) = stem.parse::<u32>().map(TableId) else { continue };
        if file_name(id) != made.unwrap_or(&name) {
            continue;
        }
        let known = id == SYSTEM_TABLE || core.names.read().by_id(id).is_some();
        if made.is_some() || !known {
            let why =
                if made.is_some() { "it was never finished" } else { "its table was dropped" };
            core.messages.say(2, &format!("removing {name}: {why}"));
            vfs.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
        }
    }
    Ok(())
}

/// Warns of tables whose file is missing and that no log record concerns. Opening such a table is refused, perhaps
/// much later.
pub(crate) fn tell_of_missing_files(core: &Core) -> Result<()> {
    let vfs = &core.shared.vfs;
    let all = vfs.list().map_err(|e| Error::io("list", "the database directory", e))?;
    let there: HashSet<String> = all.into_iter().collect();
    for id in core.images.listed().into_keys() {
        let name = file_name(id);
        if !there.contains(&name) {
            let log_from = core.shared.wal.kept_from();
            if let Err(e) = core.images.check(id, &name, Found::NoFile, log_from) {
                core.messages.say(0, e.message());
            }
        }
    }
    Ok(())
}
