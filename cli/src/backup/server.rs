//! The server's side of a backup: the session that holds the pin, and mariadb-backup for other engines' files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use frond_digest::live::Row;
use frond_engine::{Description, PIN_FILE};
use frond_vfs::OpenHow;

use super::args::HowArgs;
use super::clients;
use super::copy::{self, failed, Meter};
use super::manifest::{Binlog, Manifest, PlainFile};
use crate::digest::live::connect::{text, Server};
use crate::out::{Failure, Outcome};

const NEEDS: &str = "RELOAD, PROCESS, BINLOG MONITOR ON *.*";
/// The engine's directory in the data directory.
pub const FROND: &str = "#frond";
/// MyRocks' directory in the data directory, which mariadb-backup copies.
const MYROCKS: &str = "#rocksdb";
/// Extensions of files that belong to no engine: definitions, options, triggers, partitions.
pub const DEFINITIONS: [&str; 5] = ["frm", "opt", "TRG", "TRN", "par"];
/// Extensions of files that FLUSH TABLES ... FOR EXPORT leaves beside a table of Frond.
const EXPORTED: [&str; 2] = ["frd", "cfg"];
/// Databases of the server itself.
pub const OWN: [&str; 4] = ["mysql", "sys", "performance_schema", "information_schema"];
/// InnoDB's tables in `mysql`: statistics that it makes anew, and positions.
pub const INNODB_OWN: [&str; 4] =
    ["innodb_table_stats", "innodb_index_stats", "transaction_registry", "gtid_slave_pos"];

/// A connection that asks for a pin and holds it until the connection ends.
pub struct Session {
    server: Arc<Mutex<Server>>,
    pub name: String,
    pub datadir: PathBuf,
    binlog: bool,
}

/// The result of the stages.
pub struct Staged {
    pub binlog: Option<Binlog>,
    pub blocked_ms: Option<u64>,
    pub files: BTreeMap<String, PlainFile>,
}

impl Session {
    pub fn open(how: &HowArgs) -> Outcome<Session> {
        let mut server = Server::patient(&how.connection, how.port, NEEDS)?;
        let ask = |server: &mut Server, what: &str| {
            Ok::<_, Failure>(server.value(&format!("SELECT {what}"))?.unwrap_or_default())
        };
        // Copying takes hours, in which this connection sends nothing.
        server.run("SET SESSION wait_timeout = 31536000, lock_wait_timeout = 240")?;
        let datadir = PathBuf::from(ask(&mut server, "@@datadir")?);
        let binlog = ask(&mut server, "@@log_bin")? == "1";
        if server.value("SHOW VARIABLES LIKE 'frond_backup'")?.is_none() {
            let what =
                format!("{}: its Frond plugin is not loaded, or too old for backups", server.name);
            return Err(Failure::Request(what));
        }
        let id = datadir.join(FROND).join("frond.id");
        copy::open(&id, OpenHow::READ).map_err(|e| {
            Failure::Request(format!(
                "{e}; a backup is copied from the data directory, so it runs on the server's machine as a user who \
                 can read {}",
                datadir.display()
            ))
        })?;
        Ok(Session {
            name: server.name.clone(),
            server: Arc::new(Mutex::new(server)),
            datadir,
            binlog,
        })
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        locked(&self.server)
    }

    /// From here on copying gives way to the server's work.
    pub fn watch(&self, how: &HowArgs, meter: &Meter) {
        if how.max_loss < 100 {
            let server = self.server.clone();
            meter.watch(
                f64::from(how.max_loss) / 100.0,
                Box::new(move || work(&mut locked(&server))),
            );
        }
    }

    /// Takes the next step of the pin.
    pub fn step(&mut self, step: &str) -> Outcome<()> {
        self.server().run(&format!("SET SESSION frond_backup = '{step}'"))
    }

    /// Makes the server checkpoint its tables, so that less of the log is copied; waits up to half a minute.
    /// Whatever remains in the log is copied, so a failure here does not fail the backup.
    pub fn shorten_log(&mut self) {
        let _ = self.step("shorten");
    }

    /// Describes the files that the pin keeps in place.
    pub fn describe(&mut self) -> Outcome<Description> {
        self.step("describe")?;
        let path = self.datadir.join(FROND).join(PIN_FILE);
        let file = copy::open(&path, OpenHow::READ)?;
        let len = file.len().map_err(failed("read", &path))?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, 0).map_err(failed("read", &path))?;
        Ok(Description::decode(&bytes)?)
    }

    /// Looks for data of other engines that only mariadb-backup can copy; returns the first such file, or table of InnoDB.
    pub fn others(&mut self) -> Outcome<Option<PathBuf>> {
        // Their data are in places of their own, which nobody copies.
        let engines = "SELECT engine FROM information_schema.engines WHERE support IN ('YES', 'DEFAULT') AND \
                       engine IN ('COLUMNSTORE', 'MROONGA', 'TOKUDB') LIMIT 1";
        if let Some(engine) = self.server().value(engines)? {
            return Err(Failure::Request(format!(
                "{}: the engine {engine} is loaded, whose tables neither frond backup nor mariadb-backup copies; \
                 unload it if it has none",
                self.name
            )));
        }
        // Other programs' files are looked for in the data directory. Only mariadb-backup asks the server where these are.
        let places = "SELECT variable_value FROM information_schema.global_variables WHERE variable_name IN \
                      ('ARIA_LOG_DIR_PATH', 'ROCKSDB_DATADIR')";
        let mut elsewhere = None;
        self.server().each_row(places, &mut |row| {
            let place = self.datadir.join(text(row, 0));
            let full = |path: &Path| std::fs::canonicalize(path).ok();
            if full(&place) != full(&self.datadir) {
                elsewhere = Some(place);
            }
        })?;
        if elsewhere.is_some() {
            return Ok(elsewhere);
        }
        let positions =
            !self.server().value("SELECT @@gtid_slave_pos")?.unwrap_or_default().is_empty();
        let files = copy::walk_data(&self.datadir)?;
        if let Some(found) = files.into_iter().find(|path| is_foreign(path, positions)) {
            return Ok(Some(found));
        }
        // Tables in InnoDB's system tablespace have no files of their own. Without InnoDB there is no such view.
        let known =
            "SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'INNODB_SYS_TABLES' AND \
                     plugin_status = 'ACTIVE'";
        if self.server().value(known)?.is_none() {
            return Ok(None);
        }
        let inside = "SELECT name FROM information_schema.innodb_sys_tables WHERE space = 0 AND name LIKE '%/%' AND name \
                      NOT IN ('mysql/innodb_table_stats', 'mysql/innodb_index_stats', 'mysql/transaction_registry') LIMIT 1";
        Ok(self.server().value(inside)?.map(PathBuf::from))
    }

    /// A statement without a result.
    pub fn run(&mut self, sql: &str) -> Outcome<()> {
        self.server().run(sql)
    }

    /// The binary log file that the server is writing; `None`: it writes none.
    pub fn binlog_file(&mut self) -> Outcome<Option<PathBuf>> {
        let Some(at) = self.run_and_look(&[], &[], &mut |_| {})? else { return Ok(None) };
        let base = self.server().value("SELECT @@log_bin_basename")?.unwrap_or_default();
        // A relative name is relative to the data directory.
        Ok(Some(self.datadir.join(Path::new(&base).with_file_name(at.file))))
    }

    /// Runs the statements of `before` and `after` in one round trip, since each wakes two processes, and between them reads the position
    /// in the binary log; `None`: there is none. `answered` gets the number of each statement of both when it has ended.
    pub fn run_and_look(
        &mut self,
        before: &[&str],
        after: &[&str],
        answered: &mut dyn FnMut(usize),
    ) -> Outcome<Option<Binlog>> {
        let look: &[&str] = match self.binlog {
            true => &["SHOW MASTER STATUS", "SELECT @@gtid_binlog_pos"],
            false => &[],
        };
        let statements = [before, look, after].concat();
        let mut found: Vec<String> = Vec::new();
        let mut each = |number: usize, row: Option<&Row<'_>>| match row {
            None if number < before.len() => answered(number),
            None if number >= before.len() + look.len() => answered(number - look.len()),
            None => {}
            // Of SHOW MASTER STATUS file and position, the first two.
            Some(row) => found.extend((0..row.len().min(2)).map(|at| text(row, at))),
        };
        if !statements.is_empty() {
            self.server().batch(&statements, &mut each)?;
        }
        Ok(match &found[..] {
            [file, position, gtid] => {
                let (file, gtid) = (file.clone(), gtid.clone());
                Some(Binlog { file, position: position.parse().unwrap_or(0), gtid })
            }
            _ => None,
        })
    }

    /// mariadb-backup copies everything else to `to`, and its stages take the pin.
    pub fn drive(
        &mut self,
        how: &HowArgs,
        to: &Path,
        base: Option<&Manifest>,
        meter: &Meter,
    ) -> Outcome<Staged> {
        // While any session's stages count, other programs' backups are not refused: no longer than needed.
        if base.is_none() {
            self.step("begin")?;
            self.shorten_log();
        }
        self.step("begin_other")?;
        let log = to.with_file_name("mariadb-backup.log");
        let mut command = Command::new(&how.mariadb_backup);
        if let Some(file) = &how.connection.defaults_file {
            command.arg(format!("--defaults-file={}", file.display()));
        } else if how.connection.no_defaults {
            command.arg("--no-defaults");
        }
        command.arg("--backup").arg(format!("--target-dir={}", to.display()));
        command.arg(format!("--datadir={}", self.datadir.display()));
        clients::connect(&how.connection, how.port, &mut command)?;
        run(command, &log)?;
        let mut files = BTreeMap::new();
        for path in copy::walk(to)? {
            let copied = copy::checksum(&to.join(&path), meter)?;
            files.insert(format!("server/{}", path.to_string_lossy()), copied);
        }
        let binlog = ["mariadb_backup_binlog_info", "xtrabackup_binlog_info"]
            .iter()
            .find_map(|name| copy::text(&to.join(name)).ok())
            .and_then(|text| parse_position(&text));
        Ok(Staged { binlog, blocked_ms: None, files })
    }
}

fn locked(server: &Mutex<Server>) -> MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts what the server has done, whatever the engine: a statement or commit, ten rows written, or a thousand read are one unit. Long statements
/// count by their rows, and rows count so little that a scan now and then does not hide what becomes of the other sessions. `None`: no answer.
fn work(server: &mut Server) -> Option<f64> {
    let own = server.asked as f64;
    let sql = "SELECT SUM(variable_value * CASE WHEN variable_name IN ('QUERIES', 'HANDLER_COMMIT') THEN 1 \
               WHEN variable_name LIKE 'HANDLER_READ%' THEN 0.001 ELSE 0.1 END) \
               FROM information_schema.global_status WHERE variable_name IN ('QUERIES', 'HANDLER_COMMIT', 'HANDLER_WRITE', \
               'HANDLER_UPDATE', 'HANDLER_DELETE', 'HANDLER_READ_FIRST', 'HANDLER_READ_KEY', 'HANDLER_READ_LAST', \
               'HANDLER_READ_NEXT', 'HANDLER_READ_PREV', 'HANDLER_READ_RND', 'HANDLER_READ_RND_NEXT')";
    let all: f64 = server.value(sql).ok()??.parse().ok()?;
    Some(all - own)
}

/// Whether a file of the data directory holds data of another engine. `positions`: the server has positions as a replica.
fn is_foreign(path: &Path, positions: bool) -> bool {
    let mut parts = path.components().map(|c| c.as_os_str().to_string_lossy().into_owned());
    let (Some(db), Some(name)) = (parts.next(), parts.next()) else { return false };
    let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
    if db.starts_with('#') {
        return db == MYROCKS;
    }
    match OWN.contains(&db.as_str()) {
        _ if DEFINITIONS.contains(&extension) || EXPORTED.contains(&extension) => false,
        // Aria's and CSV's system tables are copied under the lock.
        true if extension == "ibd" => {
            !INNODB_OWN.contains(&stem) || (stem == "gtid_slave_pos" && positions)
        }
        true => false,
        false => true,
    }
}

/// Whether a file of a backup holds other engines' data, which a server for Frond's tables does not need.
pub fn is_others(path: &str) -> bool {
    let Some(path) = path.strip_prefix("server/") else { return false };
    match path.split_once('/') {
        None => !path.starts_with("aria_log"),
        Some((db, name)) => {
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            !DEFINITIONS.contains(&extension) && (!OWN.contains(&db) || extension == "ibd")
        }
    }
}

/// `file \t position \t gtid`
fn parse_position(text: &str) -> Option<Binlog> {
    let mut parts = text.trim_end().split('\t');
    let (file, position) = (parts.next()?.to_string(), parts.next()?.parse().ok()?);
    Some(Binlog { file, position, gtid: parts.next().unwrap_or_default().to_string() })
}

/// Runs mariadb-backup with its messages in `log`.
pub fn run(mut command: Command, log: &Path) -> Outcome<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let told = |what: String| Failure::Request(format!("{program}: {what}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = command.spawn().and_then(|child| child.wait_with_output());
    let ended = ended.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => told(
            "not found; other engines hold data, so it is needed: install the package mariadb-backup".into(),
        ),
        _ => told(e.to_string()),
    })?;
    let target = copy::open(log, OpenHow::CREATE)?;
    target.write_all_at(&ended.stderr, 0).map_err(failed("write", log))?;
    let text = String::from_utf8_lossy(&ended.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !ended.status.success() || !last.ends_with("completed OK!") {
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        let shown: Vec<&str> = lines.into_iter().rev().collect();
        return Err(told(format!("failed ({}):\n{}", ended.status, shown.join("\n"))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_other_engines_are_found_behind_links_too() {
        let (dir, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for place in [dir.path().join("shop"), away.path().join("linked")] {
            std::fs::create_dir(place).unwrap();
        }
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(away.path().join(to), dir.path().join(name)).unwrap();
        };
        for name in ["linked/a.frm", "linked/b.ibd", "c.MYD"] {
            drop(copy::open(&away.path().join(name), OpenHow::CREATE).unwrap());
        }
        link("linked", "far");
        link("c.MYD", "shop/c.MYD");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("shop/back")).unwrap();
        let found = copy::walk_data(dir.path()).unwrap();
        let want = ["far/a.frm", "far/b.ibd", "shop/back", "shop/c.MYD"].map(PathBuf::from);
        assert_eq!(found, want);
        assert!(copy::walk(dir.path()).unwrap().is_empty());
        let foreign = |path: &str, positions| is_foreign(Path::new(path), positions);
        assert!(foreign("far/b.ibd", false) && foreign("shop/c.MYD", false));
        assert!(foreign("#rocksdb/CURRENT", false));
        assert!(!foreign("far/a.frm", false) && !foreign("#frond/1.frd", false));
        assert!(!foreign("shop/t.frd", false) && !foreign("shop/t.cfg", false));
        assert!(!foreign("ibdata1", false) && !foreign("mysql/db.MAD", false));
        assert!(!foreign("mysql/gtid_slave_pos.ibd", false));
        assert!(foreign("mysql/gtid_slave_pos.ibd", true));
    }

    #[test]
    fn positions_are_read_as_mariadb_backup_writes_them() {
        let at = parse_position("bin.000002\t1234\t0-1-77\n").unwrap();
        assert_eq!(
            (at.file.as_str(), at.position, at.gtid.as_str()),
            ("bin.000002", 1234, "0-1-77")
        );
        assert!(parse_position("nothing").is_none());
    }
}
