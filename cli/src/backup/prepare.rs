//! `prepare`: makes a full backup from an incremental one and those that it is based on, or a directory from a pack. Restoring uses parts
//! of it.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};

use super::args::PrepareArgs;
use super::chain::{Chain, ChainVfs};
use super::copy::{self, failed, Meter, Show};
use super::manifest::{hex, PlainFile, TableFile};
use super::parallel::{bypasses_cache, extents, To};
use super::store;
use crate::out::{bytes, Failure, Outcome};

pub fn run(args: &PrepareArgs, out: &mut dyn Write) -> Outcome<()> {
    let chain = Chain::find(&args.dir, &args.chain, &args.key)?;
    copy::new_directory(&args.to, "a backup is made in a new directory")?;
    let meter = Meter::new(&args.to, args.rate, Show::of(args.quiet, false))?;
    let made = make(&chain, args, &meter);
    meter.finish();
    if made.is_err() {
        store::clear(&args.to);
    }
    let id = made?;
    writeln!(
        out,
        "full backup {id} in {}: {}; the moment is that of {}",
        args.to.display(),
        bytes(meter.done()),
        args.dir.display()
    )?;
    Ok(())
}

/// Makes the backup and returns its id.
fn make(chain: &Chain, args: &PrepareArgs, meter: &Meter) -> Outcome<String> {
    let mut manifest = chain.manifest.clone();
    for name in ["frond", "server"] {
        let place = args.to.join(name);
        std::fs::create_dir(&place).map_err(failed("make", &place))?;
    }
    meter.expect(
        manifest.files.values().map(|f| f.bytes).sum::<u64>()
            + manifest.tables.iter().map(TableFile::extents_len).sum::<u64>(),
    );
    for (path, want) in &manifest.files {
        plain(chain, path, &args.to.join(path), want, args.threads, meter)?;
    }
    manifest.files.values_mut().flat_map(|f| &mut f.parts).for_each(|part| part.3 = 0);
    let vfs = chain.vfs()?;
    for file in &mut manifest.tables {
        table(&vfs, file, &args.to.join("frond"), args.threads, meter)?;
        file.blocks.iter_mut().for_each(|block| block.4 = 0);
    }
    // The new backup gets a new id: with the id of its source a chain could use either of the two.
    let random = OsVfs::new(&args.to).map_err(failed("open", &args.to))?.random_u64();
    (manifest.id, manifest.chain) = (hex(random), Vec::new());
    copy::sync_files(&args.to, meter)?;
    copy::sync_directories(&args.to)?;
    Ok(manifest.write(&args.to)?.id)
}

/// Puts a table's file together in `to`; the caller syncs it, as that takes less time for all files together.
pub fn table(
    vfs: &ChainVfs,
    table: &TableFile,
    to: &Path,
    threads: usize,
    meter: &Meter,
) -> Outcome<()> {
    let path = to.join(table.file_name());
    let told =
        |what: String| Failure::Request(format!("{} ({}): {what}", table.shown(), path.display()));
    let own = table.own.iter().map(|p| (p.0, p.1, &p.2));
    let all: Vec<_> = own.chain(table.blocks.iter().map(|b| (b.1, b.2, &b.3))).collect();
    let ranges: Vec<_> = all.iter().map(|(offset, len, _)| (*offset, *len)).collect();
    let direct = bypasses_cache(&ranges);
    let source = vfs.table(table, direct).map_err(|e| told(e.to_string()))?;
    let source: Arc<dyn VfsFile> = Arc::new(source);
    let target = copy::open(&path, OpenHow { direct, ..OpenHow::CREATE })?;
    // Nobody else is at work here, so the disk may have more to do at once than beside a server.
    let threads = threads.max(if direct { 4 } else { 1 });
    let sums = extents(&source, &To::File(target.clone()), &ranges, threads, meter);
    for (is, (offset, len, want)) in sums.map_err(|e| told(e.to_string()))?.iter().zip(all) {
        if hex(*is) != *want {
            return Err(told(format!(
                "damaged in the backup: the checksum of {len} bytes at offset {offset} does not match"
            )));
        }
    }
    target.set_len(table.bytes).map_err(|e| told(e.to_string()))
}

/// Copies a file of a backup to `to`, and compares it with the manifest; the caller syncs it.
pub fn plain(
    from: &Chain,
    path: &str,
    to: &Path,
    want: &PlainFile,
    threads: usize,
    meter: &Meter,
) -> Outcome<()> {
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir).map_err(failed("make", dir))?;
    }
    let target = copy::open(to, OpenHow::CREATE)?;
    read(from, path, want, &To::File(target), threads, meter).map_err(Failure::Request)
}

/// Returns the file if it is as in the manifest, else what is wrong with it.
pub fn compare(
    from: &Chain,
    path: &str,
    want: &PlainFile,
    threads: usize,
    meter: &Meter,
) -> Result<(), String> {
    read(from, path, want, &To::Nowhere, threads, meter)
}

fn read(
    from: &Chain,
    path: &str,
    want: &PlainFile,
    to: &To,
    threads: usize,
    meter: &Meter,
) -> Result<(), String> {
    let told = |member: usize, what: String| {
        format!("{}: {what}", from.members[member].path.join(path).display())
    };
    let own = from.members.len() - 1;
    if want.own_bytes(own).is_some() {
        let file =
            from.members[own].store.file(path, false).map_err(|e| told(own, e.to_string()))?;
        let len = file.len().map_err(|e| told(own, e.to_string()))?;
        if len != want.bytes {
            return Err(told(own, format!("damaged: it has {len} bytes, and had {}", want.bytes)));
        }
    }
    let parts = want.parts(own);
    let source = from.plain(path, want).map_err(|e| told(own, e.to_string()))?;
    let source: Arc<dyn VfsFile> = Arc::new(source);
    let ranges: Vec<_> = parts.iter().map(|p| (p.0, p.1)).collect();
    let sums = extents(&source, to, &ranges, threads, meter);
    let sums = sums.map_err(|e| told(own, e.to_string()))?;
    match parts.iter().zip(sums).find(|(part, sum)| hex(*sum) != part.2) {
        None => Ok(()),
        Some((part, _)) => Err(told(part.3, "damaged: its checksum does not match".into())),
    }
}
