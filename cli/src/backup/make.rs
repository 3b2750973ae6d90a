//! `full` and `incremental`: from a running server to a directory, a pack or a stream.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use frond_engine::Description;
use frond_space::PinnedFile;
use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};
use serde::Serialize;

use super::args::HowArgs;
use super::copy::{self, failed, Meter, Show};
use super::into::Into;
use super::key::Key;
use super::log::{self, Segment};
use super::manifest::{hex, sum, Block, Manifest, Piece, PlainFile, TableFile};
use super::pack::{Frames, Head, Out, Packer};
use super::parallel::{extents, Range, To};
use super::private::Work;
use super::server::{Session, FROND};
use super::store::{self, Store, PACK, PART};
use crate::out::{bytes, Failure, Outcome};

/// The result, for `--json`.
#[derive(Serialize)]
struct Result<'a> {
    event: &'a str,
    id: &'a str,
    kind: &'a str,
    /// `None`: written to a stream.
    dir: Option<&'a Path>,
    bytes: u64,
    /// Bytes of the pack, if there is one.
    bytes_packed: Option<u64>,
    bytes_named: u64,
    tables: usize,
    seconds: f64,
    /// Of these, how many the copy paused for the server's work.
    seconds_paused: f64,
    blocked_ms: Option<u64>,
    binlog: &'a Option<super::manifest::Binlog>,
    commit_sequence: u64,
}

/// For `--json`: the moment was taken, and copying begins.
#[derive(Serialize)]
struct Pinned<'a> {
    event: &'a str,
    id: &'a str,
    commit_sequence: u64,
    blocked_ms: Option<u64>,
    bytes_to_copy: u64,
}

/// Makes a backup in `dir`, or on standard output, based on the one in `base` (`allow_unencrypted`: whatever the key).
pub fn run(
    dir: Option<&Path>,
    base: Option<&Path>,
    allow_unencrypted: bool,
    how: &HowArgs,
    out: &mut dyn Write,
) -> Outcome<()> {
    // A wrong base, key or password is reported before anything is made.
    let key = Key::of(how.key_file.as_deref(), allow_unencrypted)?;
    let base = base.map(|base| Store::open(base, key.as_ref())).transpose()?.map(|(_, read)| read);
    if dir.is_none() && std::io::stdout().is_terminal() {
        let what = "a stream is for a program or a file, and standard output is a terminal";
        return Err(Failure::Request(what.into()));
    }
    let mut session = Session::open(how)?;
    if let Some(dir) = dir {
        copy::new_directory(dir, "a backup is made in a new directory")?;
    }
    let packs = dir.is_none() || how.compress.is_some() || key.is_some();
    let made = match packs {
        true => packed(dir, base.as_ref(), key.as_ref(), &mut session, how),
        false => directory(dir.unwrap_or(Path::new(".")), base.as_ref(), &mut session, how),
    };
    let (manifest, packed, seconds) = made.inspect_err(|_| {
        // Without manifest and pack nothing here looks whole; but the failure may be a lack of space, so free it.
        dir.into_iter().for_each(store::clear);
    })?;
    match dir {
        Some(_) => tell(&manifest, dir, packed, seconds, how, out),
        // The backup itself is on standard output.
        None if how.quiet => Ok(()),
        None => tell(&manifest, dir, packed, seconds, how, &mut std::io::stderr()),
    }
}

fn tell(
    manifest: &Manifest,
    dir: Option<&Path>,
    packed: Option<u64>,
    [seconds, seconds_paused]: [f64; 2],
    how: &HowArgs,
    out: &mut dyn Write,
) -> Outcome<()> {
    let own = manifest.chain.len();
    let named = manifest.tables.iter().flat_map(|t| &t.blocks).filter(|b| b.4 != own);
    let parts = manifest.files.values().flat_map(|f| &f.parts).filter(|p| p.3 != own);
    let result = Result {
        event: "done",
        id: &manifest.id,
        kind: manifest.kind(),
        dir,
        bytes: manifest.bytes(),
        bytes_packed: packed,
        bytes_named: named.map(|b| b.2).chain(parts.map(|p| p.1)).sum(),
        tables: manifest.tables.len(),
        seconds,
        seconds_paused,
        blocked_ms: manifest.blocked_ms,
        binlog: &manifest.binlog,
        commit_sequence: manifest.commit_sequence,
    };
    if how.json {
        let text = serde_json::to_string(&result).map_err(|e| Failure::Request(e.to_string()))?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let place = dir.map_or("the stream".into(), |dir| dir.display().to_string());
    let packed = packed.map_or(String::new(), |n| format!(" ({} packed)", bytes(n)));
    let paused = match seconds_paused > 0.0 {
        true => format!(" ({seconds_paused:.1} s of pauses for the busy server)"),
        false => String::new(),
    };
    writeln!(
        out,
        "{} backup {} in {place}: {} copied{packed}, {} in earlier backups, {seconds:.1} s{paused}",
        result.kind,
        result.id,
        bytes(result.bytes),
        bytes(result.bytes_named),
    )?;
    if let Some(at) = &manifest.binlog {
        writeln!(out, "binary log {} position {}, GTID '{}'", at.file, at.position, at.gtid)?;
    }
    Ok(())
}

/// The manifest, bytes of the pack, seconds, and how many of these were pauses.
type Made = (Manifest, Option<u64>, [f64; 2]);

/// Makes the backup as files in `dir`.
fn directory(
    dir: &Path,
    base: Option<&Manifest>,
    session: &mut Session,
    how: &HowArgs,
) -> Outcome<Made> {
    let meter = Meter::new(dir, how.rate, Show::of(how.quiet, how.json))?;
    session.watch(how, &meter);
    let (frond, server) = (dir.join("frond"), dir.join("server"));
    for place in [&frond, &server] {
        std::fs::create_dir(place).map_err(failed("make", place))?;
    }
    let (mut manifest, described) = stage(&server, base, session, how, &meter)?;
    let into = Into::Directory(frond);
    copy_frond(session, &described, base, &into, &mut manifest, how, &meter)?;
    // Fails when the pin was broken: then the copied bytes may be anything.
    session.step("end")?;
    copy::sync_files(dir, &meter)?;
    copy::sync_directories(dir)?;
    meter.finish();
    Ok((manifest.write(dir)?, None, [meter.seconds(), meter.paused()]))
}

/// Makes the backup as a pack in `dir`, or on standard output. Commits wait while the server's own files are copied, and a slow
/// reader of the pack must not prolong that; so those files are copied to a directory first.
fn packed(
    dir: Option<&Path>,
    base: Option<&Manifest>,
    key: Option<&Key>,
    session: &mut Session,
    how: &HowArgs,
) -> Outcome<Made> {
    let temporary = std::env::temp_dir();
    let work = Work::new(how.work.as_deref().or(dir).unwrap_or(&temporary))?;
    let meter = Meter::new(&work.0, how.rate, Show::of(how.quiet, how.json))?;
    session.watch(how, &meter);
    let shown = dir.map_or("standard output".into(), |dir| dir.join(PART).display().to_string());
    let cannot = |e: std::io::Error| Failure::Request(format!("writing {shown}: {e}"));
    // Before anything else: this file tells `list` that a backup was begun.
    let out = match dir {
        Some(dir) => Out::File(copy::open(&dir.join(PART), OpenHow::CREATE)?),
        None => {
            let pipe = std::io::stdout().as_fd().try_clone_to_owned().map_err(cannot)?;
            Out::Pipe(Box::new(std::fs::File::from(pipe)))
        }
    };
    let server = work.0.join("server");
    std::fs::create_dir(&server).map_err(failed("make", &server))?;
    let (mut manifest, described) = stage(&server, base, session, how, &meter)?;

    let head = Head {
        id: manifest.id.clone(),
        chain: manifest.chain.clone(),
        created: manifest.created,
        database: manifest.database.clone(),
        key: None,
    };
    let salt = [meter.machine().random_u64(), meter.machine().random_u64()];
    let frames = Frames::new(head, key, salt).map_err(Failure::Request)?;
    let packer = Arc::new(Packer::begin(out, frames, how.compress).map_err(cannot)?);
    let into = Into::Pack(packer.clone());
    copy_frond(session, &described, base, &into, &mut manifest, how, &meter)?;
    let own = manifest.chain.len();
    let of_server = |(path, want): &(&String, &PlainFile)| {
        path.starts_with("server/") && want.own_bytes(own).is_some()
    };
    for (path, want) in manifest.files.iter().filter(of_server) {
        let is = into.file(&work.0.join(path), path, how.threads, &meter)?;
        if is != *want {
            return Err(Failure::Request(format!(
                "{path}: its copy changed in {}",
                work.0.display()
            )));
        }
    }
    drop(work);
    session.step("end")?;
    let manifest = manifest.seal()?;
    let size = packer.finish(manifest.clone()).map_err(cannot)?;
    if let Some(dir) = dir {
        let vfs = OsVfs::new(dir).map_err(failed("open", dir))?;
        vfs.rename(PART, PACK).and_then(|()| vfs.sync_dir()).map_err(cannot)?;
    }
    meter.finish();
    Ok((manifest, Some(size), [meter.seconds(), meter.paused()]))
}

/// Copies the server's own and other engines' files to `server`, and takes the pin.
fn stage(
    server: &Path,
    base: Option<&Manifest>,
    session: &mut Session,
    how: &HowArgs,
    meter: &Meter,
) -> Outcome<(Manifest, Description)> {
    let others = session.others()?;
    let drives = how.with_mariadb_backup || others.is_some();
    let mut manifest = Manifest::new(meter.machine().random_u64(), &session.name);
    let staged = match drives {
        true => session.drive(how, server, base, meter)?,
        // From here DDL, and then commits, wait until the stages end.
        false => meter.unlimited(|meter| session.stages(server, base, meter))?,
    };
    manifest.created = meter.machine().wall_clock().as_secs();
    manifest.others = if drives { "mariadb-backup" } else { "frond" }.into();
    (manifest.binlog, manifest.blocked_ms) = (staged.binlog, staged.blocked_ms);
    manifest.files = staged.files;

    let described = session.describe()?;
    manifest.database = hex(described.database);
    manifest.commit_sequence = described.at;
    manifest.rows = Some(described.rows.iter().cloned().collect());
    if let Some(base) = base {
        if base.database != manifest.database {
            return Err(foreign(base, "it is of another database"));
        }
        if base.commit_sequence > described.at {
            return Err(foreign(base, "it is newer than the server's data"));
        }
        manifest.chain = base.chain.iter().cloned().chain([base.id.clone()]).collect();
    }
    Ok((manifest, described))
}

/// Copies Frond's log and tables.
fn copy_frond(
    session: &mut Session,
    described: &Description,
    base: Option<&Manifest>,
    into: &Into,
    manifest: &mut Manifest,
    how: &HowArgs,
    meter: &Meter,
) -> Outcome<()> {
    // Nobody waits for the copy any more; threads started here inherit the priority.
    meter.machine().yield_to_others();
    let known: HashMap<u32, &TableFile> =
        base.iter().flat_map(|b| &b.tables).map(|t| (t.table, t)).collect();
    let plans: Vec<Plan> = described
        .files
        .iter()
        .zip(&described.names)
        .map(|(file, name)| {
            Plan::of(file, name, known.get(&file.table.0).copied(), manifest.chain.len())
        })
        .collect();
    let cannot = |what: String| match base {
        Some(base) => foreign(base, &what),
        None => Failure::Request(what),
    };
    let segments = log::plan(described, base).map_err(cannot)?;
    let in_logs: u64 = segments.iter().map(Segment::bytes).sum();
    let to_copy = plans.iter().map(Plan::bytes).sum::<u64>() + in_logs;
    meter.expect(to_copy);
    meter.event(&Pinned {
        event: "pinned",
        id: &manifest.id,
        commit_sequence: described.at,
        blocked_ms: manifest.blocked_ms,
        bytes_to_copy: to_copy,
    });
    let source = session.datadir.join(FROND);
    // The log first: once it is copied, the server need not keep it any longer.
    for segment in &segments {
        let (path, copied) =
            segment.copy(&source, into, manifest.chain.len(), how.threads, meter)?;
        manifest.files.insert(path, copied);
    }
    log::same_bytes(&source, &segments, meter)?.map_err(cannot)?;
    let path = "frond/frond.id";
    let copied = into.file(&source.join("frond.id"), path, how.threads, meter)?;
    manifest.files.insert(path.into(), copied);
    session.step("log_copied")?;
    for plan in plans {
        let copied = table(&source, into, plan, how.threads, meter)?;
        manifest.tables.push(copied.map_err(cannot)?);
    }
    Ok(())
}

fn foreign(base: &Manifest, what: &str) -> Failure {
    Failure::Request(format!("backup {} cannot be the base: {what}; make a full backup", base.id))
}

/// What to copy of a table's file, and what the base has of it.
struct Plan<'a> {
    file: &'a PinnedFile,
    copied: TableFile,
    /// Image and blocks to copy; the blocks' places index `copied.blocks`.
    extents: Vec<Range>,
    to_sum: Vec<usize>,
    newest_shared: Option<&'a Block>,
}

impl<'a> Plan<'a> {
    fn of(file: &'a PinnedFile, name: &str, base: Option<&'a TableFile>, own: usize) -> Plan<'a> {
        let copied = TableFile {
            table: file.table.0,
            name: name.to_string(),
            bytes: file.len(),
            next_block: file.next_block,
            own: vec![Piece(0, file.front.len() as u64, sum(&file.front))],
            blocks: Vec::new(),
        };
        let extents = file.image.iter().map(|e| (e.offset, e.len)).collect();
        let mut plan = Plan { file, copied, extents, to_sum: Vec::new(), newest_shared: None };
        let known: HashMap<u64, &Block> =
            base.iter().flat_map(|t| &t.blocks).map(|b| (b.0, b)).collect();
        for (block, e) in &file.blocks {
            let same = known.get(block).filter(|b| (b.1, b.2) == (e.offset, e.len));
            if let Some(same) = same {
                plan.copied.blocks.push((*same).clone());
                plan.newest_shared = Some(*same);
                continue;
            }
            plan.to_sum.push(plan.copied.blocks.len());
            plan.copied.blocks.push(Block(*block, e.offset, e.len, String::new(), own));
            plan.extents.push((e.offset, e.len));
        }
        plan
    }

    fn bytes(&self) -> u64 {
        self.extents.iter().map(|(_, len)| len).sum()
    }
}

/// Copies the front, the image, and the blocks that the base does not have. The inner error: the base belongs to another
/// history.
fn table(
    from: &Path,
    into: &Into,
    plan: Plan<'_>,
    threads: usize,
    meter: &Meter,
) -> Outcome<std::result::Result<TableFile, String>> {
    let mut copied = plan.copied;
    let path = from.join(copied.file_name());
    let source = copy::open(&path, OpenHow::READ)?;
    let to = into.open(&format!("frond/{}", copied.file_name()))?;
    let cannot = |e| Failure::Request(format!("copying {} to the backup: {e}", path.display()));
    to.write(&plan.file.front, 0).map_err(cannot)?;
    let sums = extents(&source, &to, &plan.extents, threads, meter).map_err(cannot)?;
    let mut sums = sums.into_iter();
    if let (Some(e), Some(sum)) = (plan.file.image, plan.file.image.and_then(|_| sums.next())) {
        copied.own.push(Piece(e.offset, e.len, hex(sum)));
    }
    for (at, sum) in plan.to_sum.iter().zip(sums) {
        copied.blocks[*at].3 = hex(sum);
    }
    if let Some(shared) = plan.newest_shared {
        if let Err(what) = same_bytes(&*source, shared, meter).map_err(cannot)? {
            return Ok(Err(format!("{}: {what}", copied.shown())));
        }
    }
    if let To::File(target) = &to {
        target.set_len(copied.bytes).map_err(cannot)?;
    }
    Ok(Ok(copied))
}

/// Detects a server that was restored from a backup older than the base: it gives the same numbers to other blocks. If any
/// shared block differs, the newest one does.
fn same_bytes(
    source: &dyn VfsFile,
    shared: &Block,
    meter: &Meter,
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
