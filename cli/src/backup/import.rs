//! Moves a table from a private server into the running one as its files: FLUSH TABLES ... FOR EXPORT there, DISCARD and IMPORT
//! TABLESPACE here (docs/rfcs/0014-moving-tables.md).
//!
//! - EI1. The rows bypass the binary log, so replicas would not get them. By default this way is taken only into a server that
//!   writes no binary log. When the user asks for it elsewhere, nothing about the table is logged: a replica then lacks the table,
//!   but does not stop at a file that it does not have.
//! - EI2. IMPORT verifies every page, the order of keys, and that each index has as many entries as there are rows.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{fchown, MetadataExt};
use std::path::{Path, PathBuf};

use frond_vfs::OpenHow;
use rustix::fs::{self, Mode, OFlags};

use super::copy::{self, failed, Meter, Show};
use super::names::{file_name, quoted, text};
use super::private::Private;
use crate::digest::live::connect::Server;
use crate::out::Outcome;

/// The directory of the database `database` in the running server, if a table can be imported there as files; else the reason why not.
pub fn place(
    private: &mut Server,
    target: &mut Server,
    (database, table): (&str, &str),
    asked: bool,
) -> Outcome<Result<PathBuf, String>> {
    let sql = format!(
        "SELECT table_type = 'BASE TABLE' AND engine = 'Frond' AND create_options NOT LIKE '%partitioned%' FROM \
         information_schema.tables WHERE table_schema = {} AND table_name = {}",
        text(database),
        text(table)
    );
    if private.value(&sql)?.as_deref() != Some("1") {
        return Ok(Err("only whole tables of Frond without partitions are imported".into()));
    }
    if !asked && target.value("SELECT @@log_bin")?.as_deref() != Some("0") {
        return Ok(Err("an import is not in the binary log".into()));
    }
    if target.value("SELECT @@hostname")? != hostname() {
        return Ok(Err("the server is on another machine".into()));
    }
    let datadir = target.value("SELECT @@datadir")?.unwrap_or_default();
    let dir = Path::new(&datadir).join(file_name(database));
    let Ok(owner) = std::fs::metadata(&dir).map(|is| is.uid()) else {
        return Ok(Err(format!("{} cannot be read", dir.display())));
    };
    let me = std::fs::metadata("/proc/self").map_or(u32::MAX, |is| is.uid());
    match me == 0 || me == owner {
        true => Ok(Ok(dir)),
        false => Ok(Err(format!("only root and its owner can put files into {}", dir.display()))),
    }
}

/// The machine's name. Files of /proc report no length, so a fixed number of bytes is read.
fn hostname() -> Option<String> {
    let file = copy::open(Path::new("/proc/sys/kernel/hostname"), OpenHow::READ).ok()?;
    let mut name = [0; 256];
    let n = file.read_at(&mut name, 0).ok()?;
    Some(String::from_utf8_lossy(&name[..n]).trim_end().to_string())
}

/// Turns the binary log off for this session (EI1).
pub const UNLOGGED: &str = "SET SESSION sql_log_bin = 0";

/// Puts the rows of `database.made` of the private server on `datadir` into the empty table of that name of the running one, whose
/// files are in `dir`.
pub fn run(
    private: &mut Private,
    datadir: &Path,
    target: &mut Server,
    dir: &Path,
    (database, made): (&str, &str),
) -> Outcome<()> {
    let place = format!("{}.{}", quoted(database), quoted(made));
    target.run(&format!("ALTER TABLE {place} DISCARD TABLESPACE"))?;
    private.server.run(&format!("FLUSH TABLES {place} FOR EXPORT"))?;
    let from = datadir.join(file_name(database));
    let files = ["frd", "cfg"].map(|extension| format!("{made}.{extension}"));
    let moved = files.iter().try_for_each(|name| put(&from.join(name), &dir.join(name)));
    let done = moved.and_then(|()| {
        private.server.run("UNLOCK TABLES")?;
        target.run(&format!("ALTER TABLE {place} IMPORT TABLESPACE"))
    });
    if done.is_err() {
        // When IMPORT succeeds, it has taken the files.
        files.iter().for_each(|name| drop(copy::remove(&dir.join(name))));
    }
    done
}

/// Copies a file for the server. The server's account has to own it, because the server locks and removes it.
fn put(from: &Path, to: &Path) -> Outcome<()> {
    let dir = to.parent().unwrap_or(Path::new("."));
    let meter = Meter::new(dir, None, Show::Nobody)?;
    let file = make(dir, to.file_name().unwrap_or_default()).map_err(failed("make", to))?;
    copy::sparse(from, &file, to, &meter)
}

/// Makes a new file in `dir`, owned by the owner of `dir`. That account can exchange what is in the directory, and the directory, while
/// root is at work: so no name is looked up twice, and no link is followed.
fn make(dir: &Path, name: &OsStr) -> io::Result<File> {
    let place = fs::open(dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let owner = File::from(place.try_clone()?).metadata()?;
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(fs::openat(&place, name, how, Mode::from_raw_mode(0o660))?);
    fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_servers_directory_is_not_followed() {
        let (dir, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = away.path().join("x");
        std::os::unix::fs::symlink(&victim, dir.path().join("t.frd")).unwrap();
        assert!(make(dir.path(), OsStr::new("t.frd")).is_err());
        assert!(!victim.exists());
        let file = make(dir.path(), OsStr::new("t.cfg")).unwrap();
        let owner = std::fs::metadata(dir.path()).unwrap();
        assert_eq!(file.metadata().unwrap().uid(), owner.uid());
    }
}
