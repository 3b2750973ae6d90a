//! One table while recovery puts it together: the newest image of its file with the packs of nodes that it
//! names, then the edits of the log.
//!
//! The result is consistent: the trunks agree with the file's block map, the file agrees with what the log was
//! trimmed for (`images.rs`), and both agree with the log's end. Later code asserts all that, so bytes that say
//! otherwise are found here. The time is linear in the size of the image.
//!
//! Tested by `tests/it/stale.rs` and, with forged images, by the tests of `frond-cli`.

use std::collections::HashSet;
use std::sync::Arc;

use frond_base::{BlockId, Error, Lsn, Result, TableId};
use frond_space::TableFile;
use frond_tree::{Extent, Tree, TreeLoader};

use crate::catalog::{IndexDef, TableDef};
use crate::checkpoint::images::Found;
use crate::commit::core::Core;
use crate::record::{CounterRecord, NEXT_MAX};
use crate::table::image::TableImage;
use crate::table::store::{file_name, TableStore};
use crate::table::{tree_id, Table};

/// One table while its image and edits are being put together.
pub struct Loading {
    pub store: Arc<TableStore>,
    loaders: Vec<TreeLoader>,
    pub counters: CounterRecord,
    pub image: Found,
    /// What transactions attached (R5).
    pub attached: Vec<Attached>,
}

/// What a record names of one tree.
pub struct Attached {
    /// Where the record starts.
    pub lsn: Lsn,
    pub index: usize,
    pub blocks: Vec<(BlockId, Extent)>,
}

impl Loading {
    /// The newest image of the table's file; an empty table where there is no file.
    pub fn open(core: &Core, id: TableId) -> Result<Loading> {
        let shared = &core.shared;
        let name = file_name(id);
        let store = Arc::new(TableStore::new(shared.clone(), id));
        let counters = CounterRecord { table: id, rows_delta: 0, auto_increment: 1, row_id: 1 };
        let (loaders, attached, image) = (Vec::new(), Vec::new(), Found::NoFile);
        let mut loading = Loading { store, loaders, counters, image, attached };
        if !shared.vfs.exists(&name).map_err(|e| Error::io("look for", &name, e))? {
            return Ok(loading);
        }
        let (file, checkpoint) = TableFile::open(&*shared.vfs, &name, &shared.file_options(id))?;
        if let Some(found) = file.fallback() {
            core.messages.say(1, &format!("{name}: using the older checkpoint: {}", found.reason));
        }
        let end = shared.wal.end();
        if file.checkpoint_lsn() > end {
            let lsn = file.checkpoint_lsn();
            let what = format_args!(
                "its checkpoint is at LSN {lsn}, but the log ends at {end}: its newest segments \
                 (log.*.frl) are missing; put them back, or restore the whole directory from a backup"
            )
            .to_string();
            return Err(Error::corruption(&name, what));
        }
        loading.image = Found::NoImage;
        // From here on its blocks can be read.
        loading.store.set_file(file);
        if let Some(checkpoint) = checkpoint {
            let image = TableImage::decode(&checkpoint.image, &name)?;
            check_image(&image, checkpoint.lsn, &name)?;
            loading.image = Found::Image(checkpoint.lsn);
            loading.counters.rows_delta = image.rows;
            loading.counters.auto_increment = image.auto_increment;
            loading.counters.row_id = image.row_id;
            for (i, bytes) in image.trees.iter().enumerate() {
                let (id, store) = (tree_id(id, i), &*loading.store);
                loading.loaders.push(TreeLoader::from_image(id, bytes, store, &name)?);
            }
        }
        Ok(loading)
    }

    pub fn loader(&mut self, index: usize) -> &mut TreeLoader {
        let id = self.counters.table;
        while self.loaders.len() <= index {
            let next = self.loaders.len();
            self.loaders.push(TreeLoader::empty(tree_id(id, next)));
        }
        &mut self.loaders[index]
    }

    /// Called when all edits are in: the table as it was when the log ended, without the entries
    /// that only the log has.
    pub fn finish(mut self, core: &Core, def: &Arc<TableDef>, log_from: Lsn) -> Result<Table> {
        let name = self.store.file_name().to_owned();
        core.images.check(def.id, &name, self.image, log_from)?;
        self.loader(def.indexes.len() - 1);
        for Attached { lsn, index, blocks } in std::mem::take(&mut self.attached) {
            if lsn < self.loader(index).flushed_upto() {
                continue;
            }
            for (block, extent) in blocks {
                add_block(self.store.existing_file(), block, extent)?;
            }
        }
        let end = core.shared.wal.end();
        check_places(&self.loaders, self.store.existing_file(), end, &name)?;
        if let Some(file) = self.store.existing_file() {
            file.finish_recovery(log_from)?;
        }
        self.store.charge_map();
        if let Found::Image(lsn) = self.image {
            // This image is good only as long as the log leads on from it. A new image is written before that log goes.
            let is_older = self.store.existing_file().is_some_and(|f| f.fallback().is_some());
            if is_older || core.images.wants_newer(def.id, lsn) {
                self.store.touched(lsn);
            }
            core.images.note(def.id, lsn);
        }
        let mut trees: Vec<Tree> = Vec::new();
        // The definition may be older than the image and the edits.
        let spare = self.loaders.split_off(def.indexes.len());
        for (loader, index) in self.loaders.into_iter().zip(&def.indexes) {
            trees.push(finish_tree(core, loader, index, &self.store)?);
        }
        let table = Table::new(def.clone(), trees, self.store, &self.counters);
        table.set_spare(spare);
        Ok(table)
    }
}

/// The trunks and the file's block map agree: each run is a block of one tree and lies where the map says; and no tree
/// is ahead of the log, which ends at `end`. Code that runs later asserts all of it.
pub fn check_places(
    loaders: &[TreeLoader],
    file: Option<&TableFile>,
    end: Lsn,
    name: &str,
) -> Result<()> {
    let mut seen = HashSet::new();
    for (index, loader) in loaders.iter().enumerate() {
        let bad = |what: String| {
            Err(Error::corruption(name, format!("tree {index} of the checkpoint: {what}")))
        };
        if loader.flushed_upto() > end || loader.applied() > end.saturating_add(1) {
            return bad(format!("is ahead of the log, which ends at {end}"));
        }
        for (block, extent) in loader.runs() {
            match file.and_then(|f| f.extent(block)) {
                Some(e) if e.offset == extent.offset && e.len == extent.len => {}
                Some(e) => {
                    let at = extent.offset;
                    return bad(format!("block {block} is at {at}, in the block map at {e}"));
                }
                None => return bad(format!("block {block} is not in the block map")),
            }
            if !seen.insert(block) {
                return bad(format!("block {block} is in another tree as well"));
            }
        }
        for block in loader.packs() {
            if file.and_then(|f| f.extent(block)).is_none() {
                return bad(format!("block {block} is not in the block map"));
            }
            if !seen.insert(block) {
                return bad(format!("block {block} is named twice"));
            }
        }
    }
    Ok(())
}

fn finish_tree(
    core: &Core,
    loader: TreeLoader,
    index: &IndexDef,
    store: &Arc<TableStore>,
) -> Result<Tree> {
    let options = core.shared.tree_options.of(index, core.options.leaf_bytes);
    let (store, name) = (store.clone(), store.file_name().to_owned());
    loader.finish(options, store.clone(), store, core.readers.clone(), &name)
}

/// Adopts a later definition: afterwards `table` has trees for all of its indexes.
pub fn adopt(core: &Core, table: &Table, def: &Arc<TableDef>) -> Result<()> {
    while let Some(index) = def.indexes.get(table.trees().len()) {
        let id = tree_id(table.id(), table.trees().len());
        let loader = table.take_spare().unwrap_or_else(|| TreeLoader::empty(id));
        table.add_tree(finish_tree(core, loader, index, table.store())?);
    }
    table.set_def(def.clone());
    Ok(())
}

/// When all definitions are known: fails if a tree belongs to none of them.
pub fn check_trees(table: &Table) -> Result<()> {
    if table.spare() == 0 {
        return Ok(());
    }
    let (trees, def) = (table.trees().len() + table.spare(), table.def());
    Err(Error::corruption(
        table.store().file_name(),
        format_args!(
            "has {trees} trees, the definition of '{}' has {} indexes",
            def.name,
            def.indexes.len()
        ),
    ))
}

/// Checks that the image belongs to its header's checkpoint, so that its counters can be trusted.
pub fn check_image(image: &TableImage, lsn: Lsn, name: &str) -> Result<()> {
    let bad = |what: String| Err(Error::corruption(name, format!("checkpoint image: {what}")));
    match image.lsn {
        Some(own) if own != lsn => bad(format!("it is of LSN {own}, its header says {lsn}")),
        _ if image.row_id >= NEXT_MAX => bad(format!("impossible next row id {}", image.row_id)),
        _ => Ok(()),
    }
}

/// Marks a block that the log names as in use.
pub fn add_block(file: Option<&TableFile>, block: BlockId, extent: Extent) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    file.replay_add(block, frond_space::Extent { offset: extent.offset, len: extent.len })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_vfs::MemVfs;

    use crate::catalog::ddl::TableSpec;
    use crate::checkpoint::recovery_time::Ages;
    use crate::commit::transaction::TxnOptions;
    use crate::engine::Engine;
    use crate::options::Options;
    use crate::table::store::file_name;
    use crate::table::Table;

    use super::*;

    fn open(vfs: &MemVfs) -> Engine {
        let options = Options {
            cache_bytes: 8 << 20,
            log_segment_bytes: 64 << 10,
            log_capacity_bytes: 32 << 20,
            background_threads: 0,
            ..Options::default()
        };
        Engine::open(Arc::new(vfs.clone()), options).unwrap()
    }

    fn create(engine: &Engine, name: &str) -> Arc<Table> {
        let spec = TableSpec {
            name: name.into(),
            indexes: vec![crate::catalog::IndexDef::plain()],
            schema: Vec::new(),
            meta: Vec::new(),
            auto_increment: 1,
        };
        engine.create_table(spec).unwrap()
    }

    /// `n` rows that do not compress, 1000 bytes each.
    fn fill(engine: &Engine, table: &Arc<Table>, n: u32) {
        let mut noise = u64::from(n);
        let mut txn = engine.begin(TxnOptions::default());
        for i in 0..n {
            let mut value = vec![0u8; 1000];
            for b in &mut value {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *b = (noise >> 56) as u8;
            }
            txn.put(table, &i.to_be_bytes(), &value, false).unwrap();
        }
        txn.commit().unwrap();
    }

    /// Into runs and an image; the log stays as it is.
    fn flush(core: &Arc<Core>, table: &Table) {
        core.freeze(table.tree(0));
        while table.tree(0).frozen_count() > 0 {
            core.job_step();
        }
        core.checkpoint_table(table).unwrap();
    }

    fn rows(engine: &Engine, table: &str) -> usize {
        let table = engine.open_table(table).unwrap();
        let mut txn = engine.begin(TxnOptions::default());
        let mut cursor = engine.cursor(&mut txn, &table, 0).unwrap();
        let mut valid = cursor.first(&txn).unwrap();
        let mut n = 0;
        while valid {
            n += 1;
            valid = cursor.next(&txn).unwrap();
        }
        n
    }

    /// A file with the image before the one that the log was trimmed for: the log leads on from it, so it suffices; but
    /// only until the log is trimmed again.
    #[test]
    fn an_older_image_that_will_do_holds_the_log_until_there_is_a_newer_one() {
        let vfs = MemVfs::stepped();
        let engine = open(&vfs);
        let core = engine.core();
        let (t, other) = (create(&engine, "t"), create(&engine, "other"));
        fill(&engine, &t, 10);
        fill(&engine, &other, 200);
        let system = core.system_table();
        for table in [&t, &other, &system] {
            flush(core, table);
        }
        // Needed from here on, in memory alone.
        fill(&engine, &other, 1);
        core.checkpoint_table(&t).unwrap();
        let first = t.store().existing_file().unwrap().checkpoint_lsn();
        let name = file_name(t.id());
        let old = vfs.contents(&name).unwrap();
        fill(&engine, &create(&engine, "third"), 1);
        core.checkpoint_table(&t).unwrap();
        assert!(t.store().existing_file().unwrap().checkpoint_lsn() > first);
        engine.sync().unwrap();
        let before = core.shared.wal.kept_from();
        core.trim_log().unwrap();
        assert!(
            (before + 1..=first).contains(&core.shared.wal.kept_from()),
            "trimmed, not too far"
        );
        drop((t, other, system, engine));
        vfs.set_contents(&name, old);

        let engine = open(&vfs);
        let core = engine.core();
        let t = engine.open_table("t").unwrap();
        assert_eq!(t.store().existing_file().unwrap().checkpoint_lsn(), first);
        assert!(core.images.wants_newer(t.id(), first));
        assert_eq!(rows(&engine, "t"), 10);
        // The log goes on, far beyond the old image.
        for _ in 0..4 {
            fill(&engine, &engine.open_table("other").unwrap(), 200);
            engine.flush_all().unwrap();
            for _ in 0..10 {
                core.shorten_log(&Ages::all(core.shared.wal.durable())).unwrap();
            }
        }
        assert!(core.shared.wal.kept_from() > first);
        drop((t, engine));
        let engine = open(&vfs);
        assert_eq!(rows(&engine, "t"), 10);
    }
}
