//! `full` and `incremental`: from a running server to a directory.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use frond_engine::Description;
use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};
use serde::Serialize;

use super::args::HowArgs;
use super::copy::{self, failed, Meter};
use super::manifest::{hex, sum, Block, Manifest, Piece, PlainFile, TableFile};
use super::server::{Session, FROND};
use crate::out::{bytes, Failure, Outcome};

/// Bytes in front of a log segment's frames.
const LOG_HEADER: u64 = 4096;

/// What was done.
#[derive(Serialize)]
struct Result<'a> {
    id: &'a str,
    kind: &'a str,
    dir: &'a Path,
    bytes: u64,
    bytes_named: u64,
    tables: usize,
    seconds: f64,
    blocked_ms: Option<u64>,
    binlog: &'a Option<super::manifest::Binlog>,
    commit_sequence: u64,
}

/// Makes a backup in `dir`, based on the one in `base`.
pub fn run(dir: &Path, base: Option<&Path>, how: &HowArgs, out: &mut dyn Write) -> Outcome<()> {
    // A wrong base or password is told before anything is made.
    let base = base.map(Manifest::read).transpose()?;
    let mut session = Session::open(how)?;
    copy::new_directory(dir, "a backup is made in a new directory")?;
    let made = make(dir, base.as_ref(), &mut session, how);
    let (manifest, seconds) = match made {
        Ok(made) => made,
        Err(e) => {
            // Nothing here looks whole, as there is no manifest; the space may be what is missing.
            clear(dir);
            return Err(e);
        }
    };
    let own = manifest.chain.len();
    let named = manifest.tables.iter().flat_map(|t| &t.blocks).filter(|b| b.4 != own);
    let result = Result {
        id: &manifest.id,
        kind: manifest.kind(),
        dir,
        bytes: manifest.bytes(),
        bytes_named: named.map(|b| b.2).sum(),
        tables: manifest.tables.len(),
        seconds,
        blocked_ms: manifest.blocked_ms,
        binlog: &manifest.binlog,
        commit_sequence: manifest.commit_sequence,
    };
    if how.json {
        let text = serde_json::to_string(&result).map_err(|e| Failure::Request(e.to_string()))?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} backup {} in {}: {} copied, {} in earlier backups, {:.1} s",
        result.kind,
        result.id,
        dir.display(),
        bytes(result.bytes),
        bytes(result.bytes_named),
        seconds
    )?;
    if let Some(at) = &manifest.binlog {
        writeln!(out, "binary log {} position {}, GTID '{}'", at.file, at.position, at.gtid)?;
    }
    Ok(())
}

/// Removes what a failed backup left in its directory.
fn clear(dir: &Path) {
    for name in ["frond", "server"] {
        let _ = std::fs::remove_dir_all(dir.join(name));
    }
    if let Ok(vfs) = OsVfs::new(dir) {
        let _ = vfs.remove("mariadb-backup.log");
    }
}

fn make(
    dir: &Path,
    base: Option<&Manifest>,
    session: &mut Session,
    how: &HowArgs,
) -> Outcome<(Manifest, f64)> {
    let mut meter = Meter::new(dir, how.rate, how.quiet)?;
    let clock = OsVfs::new(dir).map_err(failed("open", dir))?;
    let (frond, server) = (dir.join("frond"), dir.join("server"));
    for place in [&frond, &server] {
        std::fs::create_dir(place).map_err(failed("make", place))?;
    }
    let others = session.others()?;
    let drives = how.with_mariadb_backup || others.is_some();
    let mut manifest = Manifest::new(clock.random_u64(), &session.name);
    let staged = match drives {
        true => session.drive(how, &server, &mut meter)?,
        // DDL and then commits wait until the stages end.
        false => meter.unlimited(|meter| session.stages(&server, meter))?,
    };
    manifest.created = clock.wall_clock().as_secs();
    manifest.others = if drives { "mariadb-backup" } else { "frond" }.into();
    (manifest.binlog, manifest.blocked_ms) = (staged.binlog, staged.blocked_ms);
    manifest.files = staged.files;

    let described = session.describe()?;
    manifest.database = hex(described.database);
    manifest.commit_sequence = described.at;
    manifest.rows = Some(described.rows.iter().cloned().collect());
    let source = session.datadir.join(FROND);
    if let Some(base) = base {
        if base.database != manifest.database {
            return Err(foreign(base, "it is of another database"));
        }
        if base.commit_sequence > described.at {
            return Err(foreign(base, "it is newer than the server's data"));
        }
        manifest.chain = base.chain.iter().cloned().chain([base.id.clone()]).collect();
    }
    log(&source, &frond, &described, &mut manifest, &mut meter)?;
    session.step("log_copied")?;
    let known: HashMap<u32, &TableFile> =
        base.iter().flat_map(|b| &b.tables).map(|t| (t.table, t)).collect();
    meter.total = described.files.iter().flat_map(|f| &f.blocks).map(|(_, e)| e.len).sum();
    for (file, name) in described.files.iter().zip(&described.names) {
        let known = known.get(&file.table.0).copied();
        let copied = table(&source, &frond, file, name, known, manifest.chain.len(), &mut meter)?;
        manifest.tables.push(copied.map_err(|what| match base {
            Some(base) => foreign(base, &what),
            None => Failure::Request(what),
        })?);
    }
    copy::sync_directories(dir)?;
    // Fails when the pin was broken: then what was copied may be anything.
    session.step("end")?;
    meter.finish();
    Ok((manifest.write(dir)?, meter.seconds()))
}

fn foreign(base: &Manifest, what: &str) -> Failure {
    Failure::Request(format!("backup {} cannot be the base: {what}; make a full backup", base.id))
}

/// Identity and log, up to the commit sequence.
fn log(
    from: &Path,
    to: &Path,
    described: &Description,
    manifest: &mut Manifest,
    meter: &mut Meter,
) -> Outcome<()> {
    let mut take = |name: String, len: Option<u64>| -> Outcome<()> {
        let copied = copy::file(&from.join(&name), &to.join(&name), len, meter)?;
        manifest.files.insert(format!("frond/{name}"), copied);
        Ok(())
    };
    let ends = described.segments.iter().skip(1).map(|(_, start)| *start).chain([described.at]);
    for ((number, start), end) in described.segments.iter().zip(ends) {
        take(format!("log.{number:08}.frl"), Some(LOG_HEADER + end.saturating_sub(*start)))?;
    }
    take("frond.id".into(), None)
}

/// Front, image and those blocks that the base does not have. The inner error: the base is of another history.
fn table(
    from: &Path,
    to: &Path,
    file: &frond_space::PinnedFile,
    name: &str,
    base: Option<&TableFile>,
    own: usize,
    meter: &mut Meter,
) -> Outcome<std::result::Result<TableFile, String>> {
    let mut copied = TableFile {
        table: file.table.0,
        name: name.to_string(),
        bytes: file.len(),
        next_block: file.next_block,
        own: Vec::new(),
        blocks: Vec::new(),
    };
    let path: PathBuf = from.join(copied.file_name());
    let target_path = to.join(copied.file_name());
    let source = copy::open(&path, OpenHow::READ)?;
    let target = copy::open(&target_path, OpenHow::CREATE)?;
    let cannot = |e| {
        Failure::Request(format!("copying {} to {}: {e}", path.display(), target_path.display()))
    };
    target.write_all_at(&file.front, 0).map_err(cannot)?;
    copied.own.push(Piece(0, file.front.len() as u64, sum(&file.front)));
    if let Some(e) = file.image {
        let image =
            copy::range(&*source, Some(&*target), e.offset, e.len, meter).map_err(cannot)?;
        copied.own.push(Piece(e.offset, e.len, hex(image)));
    }
    let known: HashMap<u64, &Block> =
        base.iter().flat_map(|t| &t.blocks).map(|b| (b.0, b)).collect();
    let mut newest_shared = None;
    for (block, e) in &file.blocks {
        let same = known.get(block).filter(|b| (b.1, b.2) == (e.offset, e.len));
        if let Some(same) = same {
            copied.blocks.push((*same).clone());
            newest_shared = Some(*same);
            continue;
        }
        let sum = copy::range(&*source, Some(&*target), e.offset, e.len, meter).map_err(cannot)?;
        copied.blocks.push(Block(*block, e.offset, e.len, hex(sum), own));
    }
    if let Some(shared) = newest_shared {
        if let Err(what) = same_bytes(&*source, shared, meter).map_err(cannot)? {
            return Ok(Err(format!("{}: {what}", copied.shown())));
        }
    }
    target.set_len(copied.bytes).map_err(cannot)?;
    target.sync().map_err(failed("sync", &target_path))?;
    Ok(Ok(copied))
}

/// A server that was restored from an older backup than the base gives the same numbers to other blocks. If any shared one
/// differs, the newest does.
fn same_bytes(
    source: &dyn VfsFile,
    shared: &Block,
    meter: &mut Meter,
) -> std::io::Result<std::result::Result<(), String>> {
    let is = copy::range(source, None, shared.1, shared.2, meter)?;
    Ok(match hex(is) == shared.3 {
        true => Ok(()),
        false => Err(format!(
            "its block {} has other bytes now: the server's data were restored since",
            shared.0
        )),
    })
}

/// A file as the manifest has it.
pub fn compare(
    path: &Path,
    want: &PlainFile,
    meter: &mut Meter,
) -> Outcome<std::result::Result<(), String>> {
    let is = match copy::checksum(path, meter) {
        Ok(is) => is,
        Err(e) => return Ok(Err(e.to_string())),
    };
    Ok(match is == *want {
        true => Ok(()),
        false if is.bytes != want.bytes => {
            Err(format!("{}: it has {} bytes, and had {}", path.display(), is.bytes, want.bytes))
        }
        false => Err(format!("{}: its checksum does not match", path.display())),
    })
}
