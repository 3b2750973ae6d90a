//! `prepare`: a full backup of an incremental one and those that it is based on.

use std::io::Write;
use std::path::Path;

use frond_vfs::{OpenHow, OsVfs, Vfs};

use super::args::PrepareArgs;
use super::chain::{Chain, ChainVfs};
use super::copy::{self, failed, Meter};
use super::manifest::{hex, TableFile};
use crate::out::{bytes, Failure, Outcome};

pub fn run(args: &PrepareArgs, out: &mut dyn Write) -> Outcome<()> {
    let chain = Chain::find(&args.dir, &args.chain)?;
    copy::new_directory(&args.to, "a backup is made in a new directory")?;
    let mut meter = Meter::new(&args.to, args.rate, args.quiet)?;
    let made = make(&chain, args, &mut meter);
    meter.finish();
    if made.is_err() {
        for name in ["frond", "server"] {
            let _ = std::fs::remove_dir_all(args.to.join(name));
        }
    }
    let id = made?;
    writeln!(
        out,
        "full backup {id} in {}: {}; the moment is that of {}",
        args.to.display(),
        bytes(meter.done),
        args.dir.display()
    )?;
    Ok(())
}

/// Returns the id.
fn make(chain: &Chain, args: &PrepareArgs, meter: &mut Meter) -> Outcome<String> {
    let mut manifest = chain.manifest.clone();
    for name in ["frond", "server"] {
        let place = args.to.join(name);
        std::fs::create_dir(&place).map_err(failed("make", &place))?;
    }
    meter.total = manifest.files.values().map(|f| f.bytes).sum::<u64>()
        + manifest.tables.iter().flat_map(|t| &t.blocks).map(|b| b.2).sum::<u64>();
    for (path, want) in &manifest.files {
        let (from, to) = (args.dir.join(path), args.to.join(path));
        if let Some(dir) = to.parent() {
            std::fs::create_dir_all(dir).map_err(failed("make", dir))?;
        }
        if copy::file(&from, &to, None, meter)? != *want {
            let what = format!("{}: damaged, its checksum does not match", from.display());
            return Err(Failure::Request(what));
        }
    }
    let vfs = chain.vfs()?;
    for file in &mut manifest.tables {
        table(&vfs, file, &args.to.join("frond"), meter)?;
        file.blocks.iter_mut().for_each(|block| block.4 = 0);
    }
    // Another backup than the one it was made of: with the same id a chain could take either.
    let random = OsVfs::new(&args.to).map_err(failed("open", &args.to))?.random_u64();
    (manifest.id, manifest.chain) = (hex(random), Vec::new());
    copy::sync_directories(&args.to)?;
    Ok(manifest.write(&args.to)?.id)
}

/// Puts a table's file together in `to`.
pub fn table(vfs: &ChainVfs, table: &TableFile, to: &Path, meter: &mut Meter) -> Outcome<()> {
    let path = to.join(table.file_name());
    let told =
        |what: String| Failure::Request(format!("{} ({}): {what}", table.shown(), path.display()));
    let source = vfs.table(table).map_err(|e| told(e.to_string()))?;
    let target = copy::open(&path, OpenHow::CREATE)?;
    let own = table.own.iter().map(|p| (p.0, p.1, &p.2));
    for (offset, len, want) in own.chain(table.blocks.iter().map(|b| (b.1, b.2, &b.3))) {
        let is = copy::range(&source, Some(&*target), offset, len, meter);
        if hex(is.map_err(|e| told(e.to_string()))?) != *want {
            return Err(told(format!(
                "damaged in the backup: the checksum of {len} bytes at offset {offset} does not match"
            )));
        }
    }
    target.set_len(table.bytes).map_err(|e| told(e.to_string()))?;
    target.sync().map_err(|e| told(e.to_string()))
}
