//! `restore`: a data directory from a backup.
//!
//! - RS1. The identity of the Frond database is copied last: without it the server's plugin refuses the directory, so a
//!   restore that was cut short never looks like a server without rows.
//! - RS2. With a replay all this happens in a directory below the data directory; its contents are moved up when the replay has
//!   ended: first Frond's files, last Frond's identity (RS1). So a server never starts with a moment between the backup's and the
//!   one that was asked for.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use frond_vfs::{OsVfs, Vfs};

use super::args::RestoreArgs;
use super::chain::Chain;
use super::copy::{self, failed, Meter, Show};
use super::manifest::{total, TableFile};
use super::prepare::{plain, table};
use super::private::Private;
use super::replay::{self, Until};
use super::server::{self, FROND};
use super::store;
use crate::out::{bytes, Failure, Outcome};

const IDENTITY: &str = "frond/frond.id";
const ID: &str = "frond.id";
/// The place of the data until binary logs were replayed (RS2).
const REPLAYING: &str = "#frond-replaying";
const ANEW: &str =
    "restore makes a data directory anew; stop the server, and move the old one away";

pub fn run(args: &RestoreArgs, out: &mut dyn Write) -> Outcome<()> {
    let chain = Chain::find(&args.dir, &args.chain, &args.key)?;
    let manifest = &chain.manifest;
    // The files for a replay are looked for before hours of copying.
    let replayed = match (&args.until, &manifest.binlog) {
        (None, _) => None,
        (Some(until), Some(at)) => Some((until, at, replay::logs(&args.binlogs, at, Some(until))?)),
        (Some(_), None) => {
            let what = "the backup has no binary log position: its server wrote no binary log";
            return Err(Failure::Request(format!("{}: {what}", args.dir.display())));
        }
    };
    copy::new_directory(&args.datadir, ANEW)?;
    // RS2.
    let place = match &replayed {
        Some(_) => args.datadir.join(REPLAYING),
        None => args.datadir.clone(),
    };
    let how = Lay {
        datadir: &place,
        mariadb_backup: &args.mariadb_backup,
        rate: args.rate,
        quiet: args.quiet,
        threads: args.threads,
    };
    let copied = how.lay(&chain, None)?;
    let datadir = args.datadir.display();
    writeln!(out, "restored backup {} to {datadir}: {}", manifest.id, bytes(copied))?;
    if let Some((until, at, files)) = &replayed {
        let server = Private::start(&place, &args.server, &[])?;
        let command = replay::run(&server, files, at, Some(until))?;
        server.stop()?;
        move_up(&place, &args.datadir)?;
        writeln!(out, "replayed: {command}")?;
    }
    writeln!(out, "next: chown -R mysql:mysql {datadir}; start the server")?;
    if manifest.others == "frond" {
        writeln!(
            out,
            "then: mariadb-upgrade --force, which makes InnoDB's own tables in mysql anew"
        )?;
    }
    match (&manifest.binlog, &replayed) {
        (Some(at), None) => writeln!(
            out,
            "as a replica: SET GLOBAL gtid_slave_pos = '{}' (binary log {} position {})",
            at.gtid, at.file, at.position
        )?,
        (_, Some((Until::Gtid(gtid), at, _))) => {
            let (gtid, _) = replay::reached(at, gtid);
            writeln!(out, "as a replica: SET GLOBAL gtid_slave_pos = '{gtid}'")?;
        }
        _ => {}
    }
    Ok(())
}

/// Moves everything in `from` to `to`, and removes `from`. Frond's files come first: a missing directory of Frond's the plugin
/// would make anew, one without its identity it refuses (RS1).
fn move_up(from: &Path, to: &Path) -> Outcome<()> {
    let frond = to.join(FROND);
    std::fs::create_dir(&frond).map_err(failed("make", &frond))?;
    let mut names = Vec::new();
    for place in ["", FROND] {
        let dir = from.join(place);
        for entry in std::fs::read_dir(&dir).map_err(failed("list", &dir))? {
            names.push(Path::new(place).join(entry.map_err(failed("list", &dir))?.file_name()));
        }
    }
    names.retain(|name| name != Path::new(FROND));
    names.sort_by_key(|name| (name.ends_with(ID), !name.starts_with(FROND)));
    let sync =
        |dir: &Path| OsVfs::new(dir).and_then(|vfs| vfs.sync_dir()).map_err(failed("sync", dir));
    for name in names {
        if name.ends_with(ID) {
            sync(&frond)?;
            sync(to)?;
        }
        let moved = rustix::fs::rename(from.join(&name), to.join(&name));
        moved.map_err(|e| failed("move up", &from.join(&name))(e.into()))?;
    }
    for dir in [&from.join(FROND), from] {
        std::fs::remove_dir(dir).map_err(failed("remove", dir))?;
    }
    sync(&frond)?;
    sync(to)
}

/// How to make a data directory.
pub struct Lay<'a> {
    pub datadir: &'a Path,
    pub mariadb_backup: &'a Path,
    pub rate: Option<u64>,
    pub quiet: bool,
    pub threads: usize,
}

impl Lay<'_> {
    /// Copies, and has other engines' files prepared. `only`: copies only these of Frond's tables, and no other
    /// engine's data. The catalog still names the other tables, so the server has to be told to discard them. Returns
    /// the bytes copied.
    pub fn lay(&self, chain: &Chain, only: Option<&dyn Fn(&str) -> bool>) -> Outcome<u64> {
        let manifest = &chain.manifest;
        let newest = chain.newest();
        copy::new_directory(self.datadir, ANEW)?;
        let frond = self.datadir.join(FROND);
        std::fs::create_dir(&frond).map_err(failed("make", &frond))?;
        let wanted = |t: &&TableFile| t.name.is_empty() || only.is_none_or(|only| only(&t.name));
        let meter = Meter::new(self.datadir, self.rate, Show::of(self.quiet, false))?;
        let tables: Vec<&TableFile> = manifest.tables.iter().filter(wanted).collect();
        let files = manifest.files.values().map(|f| f.bytes);
        meter.expect(total(files.chain(tables.iter().map(|t| t.extents_len()))));
        let vfs = chain.vfs()?;
        for file in tables {
            table(&vfs, file, &frond, self.threads, &meter)?;
        }
        let needed = |path: &str| path != IDENTITY && (only.is_none() || !server::is_others(path));
        for (path, want) in manifest.files.iter().filter(|(path, _)| needed(path)) {
            let target = match path.strip_prefix("frond/") {
                Some(name) => frond.join(name),
                None => self.datadir.join(path.strip_prefix("server/").unwrap_or(path)),
            };
            plain(chain, path, &target, want, self.threads, &meter)?;
        }
        meter.finish();
        if manifest.others == "mariadb-backup" && only.is_none() {
            let log = self.datadir.join("mariadb-backup-prepare.log");
            let mut command = Command::new(self.mariadb_backup);
            command.arg("--prepare").arg(format!("--target-dir={}", self.datadir.display()));
            server::run(command, &log)?;
        }
        let Some(want) = manifest.files.get(IDENTITY) else {
            return Err(store::fail(&newest.path, format!("it has no {IDENTITY}")));
        };
        copy::sync_files(self.datadir, &meter)?;
        copy::sync_directories(self.datadir)?;
        plain(chain, IDENTITY, &frond.join(ID), want, 1, &meter)?;
        copy::sync(&frond.join(ID))?;
        copy::sync_directories(&frond)?;
        Ok(meter.done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replayed_is_moved_up_whole() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join(REPLAYING);
        for place in ["#frond/x", "#frond/frond.id", "shop/x"] {
            std::fs::create_dir_all(from.join(place).parent().unwrap()).unwrap();
            drop(copy::open(&from.join(place), frond_vfs::OpenHow::CREATE).unwrap());
        }
        move_up(&from, dir.path()).unwrap();
        let found = copy::walk(dir.path()).unwrap();
        let want = ["#frond/frond.id", "#frond/x", "shop/x"].map(std::path::PathBuf::from);
        assert_eq!(found, want);
        assert!(!from.exists());
        // Cut short at any place (here `shop` cannot be moved): the plugin refuses it (RS1).
        let (from, half) = (dir.path().to_owned(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(half.path().join("shop/y")).unwrap();
        assert!(move_up(&from, half.path()).is_err());
        let found = copy::walk(half.path()).unwrap();
        assert_eq!(found, ["#frond/x"].map(std::path::PathBuf::from));
    }
}
