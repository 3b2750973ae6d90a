//! `restore`: a data directory from a backup.
//!
//! - RS1. The identity of the Frond database is copied last: without it the server's plugin refuses the directory, so a
//!   restore that was cut short never looks like a server without rows.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use frond_vfs::OpenHow;

use super::args::RestoreArgs;
use super::chain::{Chain, ChainVfs};
use super::copy::{self, failed, Meter};
use super::manifest::{hex, PlainFile, TableFile};
use super::server::{self, FROND};
use crate::out::{bytes, Failure, Outcome};

const IDENTITY: &str = "frond/frond.id";

pub fn run(args: &RestoreArgs, out: &mut dyn Write) -> Outcome<()> {
    let chain = Chain::find(&args.dir, &args.chain)?;
    let manifest = &chain.manifest;
    copy::new_directory(
        &args.datadir,
        "restore makes a data directory anew; stop the server, and move the old one away",
    )?;
    let frond = args.datadir.join(FROND);
    std::fs::create_dir(&frond).map_err(failed("make", &frond))?;
    let mut meter = Meter::new(&args.datadir, args.rate, args.quiet)?;
    meter.total = manifest.files.values().map(|f| f.bytes).sum::<u64>()
        + manifest.tables.iter().flat_map(|t| &t.blocks).map(|b| b.2).sum::<u64>();
    let vfs = chain.vfs()?;
    for file in &manifest.tables {
        table(&vfs, file, &frond, &mut meter)?;
    }
    for (path, want) in manifest.files.iter().filter(|(path, _)| *path != IDENTITY) {
        let target = match path.strip_prefix("frond/") {
            Some(name) => frond.join(name),
            None => args.datadir.join(path.strip_prefix("server/").unwrap_or(path)),
        };
        plain(&args.dir.join(path), &target, want, &mut meter)?;
    }
    meter.finish();
    if manifest.others == "mariadb-backup" {
        let log = args.datadir.join("mariadb-backup-prepare.log");
        let mut command = Command::new(&args.mariadb_backup);
        command.arg("--prepare").arg(format!("--target-dir={}", args.datadir.display()));
        server::run(command, &log)?;
    }
    let Some(want) = manifest.files.get(IDENTITY) else {
        return Err(Failure::Request(format!("{}: it has no {IDENTITY}", args.dir.display())));
    };
    copy::sync_directories(&args.datadir)?;
    plain(&args.dir.join(IDENTITY), &frond.join("frond.id"), want, &mut meter)?;
    copy::sync_directories(&frond)?;
    writeln!(
        out,
        "restored backup {} to {}: {}",
        manifest.id,
        args.datadir.display(),
        bytes(meter.done)
    )?;
    writeln!(out, "next: chown -R mysql:mysql {}; start the server", args.datadir.display())?;
    if manifest.others == "frond" {
        writeln!(
            out,
            "then: mariadb-upgrade --force, which makes InnoDB's own tables in mysql anew"
        )?;
    }
    if let Some(at) = &manifest.binlog {
        writeln!(
            out,
            "as a replica: SET GLOBAL gtid_slave_pos = '{}' (binary log {} position {})",
            at.gtid, at.file, at.position
        )?;
    }
    Ok(())
}

fn plain(from: &Path, to: &Path, want: &PlainFile, meter: &mut Meter) -> Outcome<()> {
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir).map_err(failed("make", dir))?;
    }
    match copy::file(from, to, None, meter)? == *want {
        true => Ok(()),
        false => Err(Failure::Request(format!(
            "{}: damaged, its checksum does not match",
            from.display()
        ))),
    }
}

fn table(vfs: &ChainVfs, table: &TableFile, to: &Path, meter: &mut Meter) -> Outcome<()> {
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
