//! The stages of a backup where no other engine holds data: definitions and the server's own tables are copied, and Frond is
//! pinned, all as of one moment.
//!
//! - BG1. While the server blocks commits, files that were copied before and have not changed are not copied again, and nothing is
//!   synced that could be synced before. From BACKUP STAGE START on no limit on the rate applies (the caller's duty).
//! - BG2. An earlier copy of a file is valid for the moment if number, length and times of the file are as before the copy, and
//!   the last change before the copy was longer ago than the resolution of the file system's clock.
//! - BG4. Aria's checkpoints go on under all stages. Aria's control file is copied first and its logs last, so that the logs reach
//!   beyond the checkpoint that the control file names. If the control file changed meanwhile, logs may have been removed: all is
//!   looked at again.
//! - BG3. If the base has a file with the same bytes, the file is named, not copied.
//!
//! The server's Aria tables take no changes from BLOCK_DDL on; statistics and logs do until BLOCK_COMMIT.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use frond_vfs::{OpenHow, OsVfs, Vfs};
use serde::Serialize;

use super::copy::{self, failed, Meter};
use super::manifest::{Manifest, Part, PlainFile};
use super::server::{Session, Staged, DEFINITIONS, INNODB_OWN, OWN};
use crate::out::{Failure, Outcome};

/// The coarsest resolution of a file system's time stamps (BG2), in nanoseconds.
const COARSE: i128 = 1_000_000_000;

const ARIA_CONTROL: &str = "aria_log_control";
/// How often the server's files are looked at (BG4). Aria's checkpoints are 30 seconds apart.
const ROUNDS: usize = 5;

/// Tells whether a file changed: inode number, length, and times of the contents and of the inode in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    number: u64,
    len: u64,
    modified: i128,
    changed: i128,
}

impl Stamp {
    fn of(path: &Path) -> Outcome<Stamp> {
        let is = std::fs::metadata(path).map_err(failed("look at", path))?;
        let nanos = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
        Ok(Stamp {
            number: is.ino(),
            len: is.len(),
            modified: nanos(is.mtime(), is.mtime_nsec()),
            changed: nanos(is.ctime(), is.ctime_nsec()),
        })
    }

    /// Whether a later change is certain to give another stamp; `now` in nanoseconds.
    fn is_settled(&self, now: i128) -> bool {
        (now - self.modified.max(self.changed)).abs() > COARSE
    }
}

/// For `--json`: the times for which commits waited.
#[derive(Serialize)]
struct Blocked {
    event: &'static str,
    /// Until no transaction was committing any more.
    stage_ms: u64,
    /// Reading the position in the binary log, and the pin.
    pin_ms: u64,
    /// Copying changed files again.
    files_ms: u64,
    /// BACKUP STAGE END.
    end_ms: u64,
}

impl Session {
    /// Runs the stages in this program: copies definitions and system tables to `to`, and has the pin taken.
    pub fn stages(&mut self, to: &Path, base: Option<&Manifest>, meter: &Meter) -> Outcome<Staged> {
        self.step("begin")?;
        if base.is_none() {
            self.shorten_log();
        }
        for stage in ["START", "FLUSH", "BLOCK_DDL"] {
            self.run(&format!("BACKUP STAGE {stage}"))?;
        }
        // Until here tables could be made.
        if let Some(found) = self.others()? {
            return Err(Failure::Request(format!(
                "{} was made for another engine while the backup began: begin it again, with mariadb-backup",
                found.display()
            )));
        }
        let clock = OsVfs::new(to).map_err(failed("open", to))?;
        let mut files = BTreeMap::new();
        // If this table had rows in InnoDB, mariadb-backup would do this backup; without a definition mariadb-upgrade makes the
        // table.
        let positions = Path::new("mysql/gtid_slave_pos.frm");
        let without = self.datadir.join(positions).with_extension("ibd").exists();
        let is_copied =
            |path: &&PathBuf| is_definition(path) && !(without && path.as_path() == positions);
        for path in copy::walk_data(&self.datadir)?.iter().filter(is_copied) {
            let copied = self.take(path, to, base, meter)?;
            files.insert(name(path), copied);
        }
        let mut before = BTreeMap::new();
        for path in self.system_files()? {
            let now = clock.wall_clock().as_nanos() as i128;
            let stamp = Stamp::of(&self.datadir.join(&path))?;
            let copied = self.take(&path, to, base, meter)?;
            files.insert(name(&path), copied);
            before.insert(path, (stamp, stamp.is_settled(now)));
        }
        self.settle()?;
        let began = meter.seconds();
        let until_now = || ((meter.seconds() - began) * 1000.0).ceil() as u64;
        // The second statement completes Aria's log and pins Frond.
        let (block, flush) =
            (["BACKUP STAGE BLOCK_COMMIT"], ["FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS"]);
        let mut ended = [0; 2];
        let binlog = self.run_and_look(&block, &flush, &mut |n| ended[n] = until_now())?;
        let [stage, pin] = ended;
        let again = self.changed(to, &before, meter)?;
        let copied = until_now();
        self.run("BACKUP STAGE END")?;
        let all = until_now();
        meter.event(&Blocked {
            event: "blocked",
            stage_ms: stage,
            pin_ms: pin - stage,
            files_ms: copied - pin,
            end_ms: all - copied,
        });
        let blocked_ms = Some(all);
        for path in again {
            files.insert(name(&path), copy::checksum(&to.join(path), meter)?);
        }
        Ok(Staged { binlog, blocked_ms, files })
    }

    /// Syncs the binary log and the logs of all engines now, so that the next stage does not do it while commits wait.
    fn settle(&mut self) -> Outcome<()> {
        if let Some(binlog) = self.binlog_file()? {
            // Another process may sync the file as well. If it may not read the file, the server does all of it later.
            if let Ok(file) = copy::open(&binlog, OpenHow::READ) {
                let _ = file.sync();
            }
        }
        self.run("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")
    }

    /// Copies again the system files that changed since, and returns them. Log tables in CSV only grow: the new bytes are
    /// appended.
    fn changed(
        &self,
        to: &Path,
        before: &BTreeMap<PathBuf, (Stamp, bool)>,
        meter: &Meter,
    ) -> Outcome<BTreeSet<PathBuf>> {
        let control = self.datadir.join(ARIA_CONTROL);
        let mut again = BTreeSet::new();
        for _ in 0..ROUNDS {
            let was = Stamp::of(&control)?;
            again.extend(self.changed_once(to, before, meter)?);
            if Stamp::of(&control)? == was {
                return Ok(again);
            }
        }
        Err(Failure::Request(format!("{} changes all the time (BG4)", control.display())))
    }

    fn changed_once(
        &self,
        to: &Path,
        before: &BTreeMap<PathBuf, (Stamp, bool)>,
        meter: &Meter,
    ) -> Outcome<Vec<PathBuf>> {
        let mut again = Vec::new();
        for path in self.system_files()? {
            let (source, target) = (self.datadir.join(&path), to.join(&path));
            let now = Stamp::of(&source)?;
            match before.get(&path) {
                Some((then, true)) if *then == now => continue,
                Some((then, _))
                    if path.extension().is_some_and(|e| e == "CSV")
                        && target.exists()
                        && then.number == now.number
                        && then.len <= now.len =>
                {
                    let (from, into) =
                        (copy::open(&source, OpenHow::READ)?, copy::open(&target, OpenHow::WRITE)?);
                    let more = now.len - then.len;
                    into.set_len(then.len).map_err(failed("write", &target))?;
                    copy::range(&*from, Some(&*into), then.len, more, meter)
                        .map_err(failed("write", &target))?;
                }
                _ => {
                    if target.exists() {
                        copy::remove(&target)?;
                    }
                    self.take(&path, to, None, meter)?;
                }
            }
            again.push(path);
        }
        Ok(again)
    }

    /// Copies a file to `to`, unless the base has the same bytes (BG3).
    fn take(
        &self,
        path: &Path,
        to: &Path,
        base: Option<&Manifest>,
        meter: &Meter,
    ) -> Outcome<PlainFile> {
        let source = self.datadir.join(path);
        if let Some((known, member)) = base.and_then(|base| whole(base, &name(path))) {
            let is = copy::checksum(&source, meter)?;
            if is == known {
                let parts = vec![Part(0, is.bytes, is.checksum.clone(), member)];
                return Ok(PlainFile { parts, ..is });
            }
        }
        let target = to.join(path);
        if let Some(dir) = target.parent() {
            std::fs::create_dir_all(dir).map_err(failed("make", dir))?;
        }
        copy::unsynced(&source, &target, meter)
    }

    /// Tables of the server itself in Aria and CSV, and Aria's log; relative.
    fn system_files(&self) -> Outcome<Vec<PathBuf>> {
        let mut found = Vec::new();
        for place in [""].iter().chain(&OWN) {
            let dir = self.datadir.join(place);
            if !dir.is_dir() {
                continue;
            }
            for entry in std::fs::read_dir(&dir).map_err(failed("list", &dir))? {
                let path = Path::new(place).join(entry.map_err(failed("list", &dir))?.file_name());
                if is_system_data(&path) {
                    found.push(path);
                }
            }
        }
        found.sort_by_key(|path| (age(path), path.clone()));
        Ok(found)
    }
}

/// The order of copying (BG4).
fn age(path: &Path) -> u8 {
    let name = path.to_string_lossy();
    match name.starts_with("aria_log") {
        true if name == ARIA_CONTROL => 0,
        true => 2,
        false => 1,
    }
}

/// A file that one backup has in full: with its checksum, and the place of that backup in the chain.
fn whole(base: &Manifest, name: &str) -> Option<(PlainFile, usize)> {
    let file = base.files.get(name)?;
    match &file.parts(base.chain.len())[..] {
        [part] => {
            let (bytes, checksum) = (file.bytes, part.2.clone());
            Some((PlainFile { bytes, checksum, parts: Vec::new() }, part.3))
        }
        _ => None,
    }
}

/// The name in the manifest.
fn name(path: &Path) -> String {
    format!("server/{}", path.to_string_lossy())
}

fn parts(path: &Path) -> Option<(String, String, String)> {
    let mut parts = path.components().map(|c| c.as_os_str().to_string_lossy().into_owned());
    let (db, name) = (parts.next()?, parts.next()?);
    let (stem, extension) = name.rsplit_once('.')?;
    (!db.starts_with('#') && parts.next().is_none())
        .then(|| (db, stem.to_string(), extension.to_string()))
}

/// Whether a file is a definition that is copied; InnoDB's tables about itself are not, since their data are not copied.
fn is_definition(path: &Path) -> bool {
    let innodb = |db: &str, stem: &str| db == "mysql" && INNODB_OWN.contains(&stem);
    parts(path).is_some_and(|(db, stem, extension)| {
        DEFINITIONS.contains(&extension.as_str())
            && !stem.starts_with("#sql")
            && !(innodb(&db, &stem) && stem != "gtid_slave_pos")
    })
}

fn is_system_data(path: &Path) -> bool {
    let of_aria = path.components().count() == 1 && path.to_string_lossy().starts_with("aria_log");
    of_aria
        || parts(path).is_some_and(|(db, _, extension)| {
            OWN.contains(&db.as_str())
                && matches!(extension.as_str(), "MAI" | "MAD" | "CSV" | "CSM" | "MYI" | "MYD")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_and_system_tables_are_told_from_data() {
        let definition = |path: &str| is_definition(Path::new(path));
        assert!(
            definition("shop/orders.frm")
                && definition("shop/db.opt")
                && definition("mysql/db.frm")
        );
        assert!(!definition("shop/orders.ibd") && !definition("shop/#sql-1.frm"));
        assert!(!definition("mysql/innodb_table_stats.frm") && !definition("#frond/x.frm"));
        let system = |path: &str| is_system_data(Path::new(path));
        assert!(
            system("aria_log_control") && system("mysql/db.MAD") && system("mysql/general_log.CSV")
        );
        assert!(!system("shop/a.MAD") && !system("ibdata1") && !system("mysql/gtid_slave_pos.ibd"));
    }

    #[test]
    fn the_control_file_of_aria_is_copied_first_and_its_logs_last() {
        let all = ["aria_log.00000001", "aria_log_control", "mysql/db.MAD"];
        assert_eq!(all.map(|path| age(Path::new(path))), [2, 0, 1], "BG4");
    }

    #[test]
    fn a_file_that_changed_just_now_is_not_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        copy::open(&path, OpenHow::CREATE).unwrap().write_all_at(b"one", 0).unwrap();
        let stamp = Stamp::of(&path).unwrap();
        assert!(!stamp.is_settled(stamp.changed + 1000));
        assert!(stamp.is_settled(stamp.changed + 2 * COARSE));
        copy::open(&path, OpenHow::WRITE).unwrap().write_all_at(b"more", 0).unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), stamp);
    }
}
