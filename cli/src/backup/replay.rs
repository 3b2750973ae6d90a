//! Replays binary logs into a private server with the stock mariadb-binlog.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::copy::failed;
use super::manifest::Binlog;
use super::private::{self, Filter, Private};
use super::torn::end_torn;
use crate::out::{Failure, Outcome};

/// The end of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Until {
    /// The last transactions that are replayed, one per replication domain.
    Gtid(String),
    /// Local time of this machine, as mariadb-binlog takes it; what was logged at that second or later is not replayed.
    Time(String),
    /// A position in the last file.
    Position(u64),
}

/// Parses an argument: `0-1-4711` (with others after commas), or a date and time.
pub fn until(text: &str) -> Result<Until, String> {
    let is_gtid = |part: &str| {
        let numbers: Vec<&str> = part.trim().split('-').collect();
        numbers.len() == 3
            && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_date = text.parse::<jiff::civil::DateTime>().is_ok();
    match (is_date, text.split(',').all(is_gtid)) {
        (true, _) => Ok(Until::Time(text.replace('T', " "))),
        (_, true) => Ok(Until::Gtid(text.replace(' ', ""))),
        _ => {
            Err("give a GTID such as 0-1-4711, or a local time such as '2026-11-23 10:00:00'"
                .into())
        }
    }
}

/// The parts of a GTID: domain and number.
fn parts(gtid: &str) -> (&str, u64) {
    let (domain, rest) = gtid.split_once('-').unwrap_or((gtid, ""));
    (domain, rest.split_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0))
}

/// The GTIDs of a list.
fn list(gtids: &str) -> impl Iterator<Item = &str> + Clone {
    gtids.split(',').map(str::trim).filter(|gtid| !gtid.is_empty())
}

/// The binary logs from the one of `from` on, in the order of their numbers. `places` are files, or directories that have
/// them. An end that is before `from` is refused.
pub fn logs(places: &[PathBuf], from: &Binlog, until: Option<&Until>) -> Outcome<Vec<PathBuf>> {
    if let Some(Until::Gtid(ends)) = until {
        let is_before = |end: &&str| {
            let (domain, n) = parts(end);
            list(&from.gtid).any(|own| own != *end && parts(own).0 == domain && parts(own).1 >= n)
        };
        if let Some(end) = list(ends).find(is_before) {
            let what = format!("{end} is not behind the backup's own position {}", from.gtid);
            return Err(Failure::Request(what));
        }
    }
    let number = |name: &str| {
        let (stem, digits) = name.rsplit_once('.')?;
        let own = from.file.rsplit_once('.')?.0;
        (stem == own && digits.len() >= 6).then(|| digits.parse::<u64>().ok()).flatten()
    };
    let first = number(&from.file)
        .ok_or_else(|| Failure::Request(format!("'{}' is no binary log's name", from.file)))?;
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    let mut add = |path: PathBuf| {
        let n = path.file_name().and_then(|name| number(&name.to_string_lossy()));
        found.extend(n.filter(|n| *n >= first).map(|n| (n, path)));
    };
    for place in places {
        match place.is_dir() {
            false => add(place.clone()),
            true => {
                for entry in std::fs::read_dir(place).map_err(failed("list", place))? {
                    add(entry.map_err(failed("list", place))?.path());
                }
            }
        }
    }
    found.sort();
    found.dedup_by_key(|(n, _)| *n);
    // A gap would lose transactions silently.
    for (at, (n, path)) in found.iter().enumerate() {
        private::readable(path)?;
        if *n != first + at as u64 {
            let what = format!(
                "binary log number {} is missing before {}",
                first + at as u64,
                path.display()
            );
            return Err(Failure::Request(what));
        }
    }
    if found.is_empty() {
        let what =
            format!("no binary log from {} on is there; say where with --binlogs", from.file);
        return Err(Failure::Request(what));
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// `mariadb-binlog ...`
fn source(files: &[PathBuf], from: &Binlog, until: Option<&Until>) -> Command {
    let mut command = Command::new("mariadb-binlog");
    // After a crash the server reuses the numbers of transactions that were torn off.
    command.args(["--no-defaults", "--skip-gtid-strict-mode"]);
    // mariadb-binlog takes either two positions or two GTIDs.
    match until {
        Some(Until::Gtid(_)) if !from.gtid.is_empty() => {
            command.arg(format!("--start-position={}", from.gtid))
        }
        _ => command.arg(format!("--start-position={}", from.position)),
    };
    match until {
        None => {}
        Some(Until::Gtid(gtid)) => {
            command.arg(format!("--stop-position={gtid}"));
        }
        Some(Until::Time(time)) => {
            command.arg(format!("--stop-datetime={time}"));
        }
        Some(Until::Position(at)) => {
            command.arg(format!("--stop-position={at}"));
        }
    }
    command.args(files);
    command
}

/// Where a replica goes on after a replay: the backup's position `from`, of each replication domain, but for the ends of the replay.
/// Then the domains that have no end, of which mariadb-binlog replays nothing.
pub fn reached(from: &Binlog, until: &str) -> (String, Vec<String>) {
    let ends = list(until);
    let left: Vec<String> = list(&from.gtid)
        .filter(|gtid| ends.clone().all(|end| parts(end).0 != parts(gtid).0))
        .map(String::from)
        .collect();
    (ends.map(String::from).chain(left.clone()).collect::<Vec<_>>().join(","), left)
}

/// Whether the replay reached its end, by the messages of mariadb-binlog, whose status does not say it. A time may lie behind all
/// that was logged: then returns a remark. A transaction that is not there is an error.
fn ended(messages: &str, until: Option<&Until>) -> Outcome<Option<String>> {
    let missed = |what: &str| messages.contains(&format!("Did not reach stop {what}"));
    let told = |what: String| Err(Failure::Request(what));
    match until {
        Some(Until::Time(time)) if missed("datetime") => {
            Ok(Some(format!("all of the binary logs was replayed: they end before {time}")))
        }
        Some(Until::Gtid(gtid)) if missed("position") => {
            told(format!("the binary logs end before {gtid}: give later ones, too, or another end"))
        }
        Some(Until::Position(at)) if missed("position") => {
            told(format!("the last binary log ends before position {at}"))
        }
        _ => Ok(None),
    }
}

/// Replays into `server`, which has no other client. Returns the commands as one would type them, and remarks.
pub fn run(
    server: &Private,
    files: &[PathBuf],
    from: &Binlog,
    until: Option<&Until>,
) -> Outcome<String> {
    let at = from;
    let from = source(files, at, until);
    let mut to = server.client("mariadb");
    // Until here this server checks no accounts; GRANT fails unless they are loaded.
    to.args(["--binary-mode", "--init-command=FLUSH PRIVILEGES"]);
    let told = format!("{} | mariadb --binary-mode", private::shown(&from));
    // mariadb-binlog takes a transaction of another server with the same number for the end.
    let awaited = RefCell::new(match until {
        Some(Until::Gtid(ends)) => {
            list(ends).filter(|end| !list(&at.gtid).any(|own| own == *end)).collect()
        }
        _ => Vec::new(),
    });
    let passes =
        |gtid: &[u8]| awaited.borrow_mut().retain(|end| end.as_bytes() != gtid.trim_ascii());
    let filter: Filter<'_> = &|from, to| end_torn(from, to, &mut |gtid| passes(gtid));
    let messages = private::pipe_through(from, Some(filter), to, server.place())?;
    let mut told = vec![told];
    told.extend(ended(&messages, until)?);
    if let Some(end) = awaited.borrow().first() {
        return Err(Failure::Request(format!("the binary logs have no transaction {end}")));
    }
    if let Some(Until::Gtid(gtid)) = until {
        let left = reached(at, gtid).1;
        told.extend(
            left.iter().map(|gtid| format!("not replayed, as it has no end: the domain of {gtid}")),
        );
    }
    Ok(told.join("\n"))
}

/// The directory of a server's binary logs, from its own settings.
pub fn place(datadir: &Path, basename: &str) -> PathBuf {
    let full = datadir.join(basename);
    full.parent().map_or(datadir.to_path_buf(), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_vfs::OpenHow;

    #[test]
    fn ends_are_gtids_or_times() {
        assert_eq!(until("0-1-77,1-2-3"), Ok(Until::Gtid("0-1-77,1-2-3".into())));
        assert_eq!(until("2026-11-23 10:00:00"), Ok(Until::Time("2026-11-23 10:00:00".into())));
        assert!(until("yesterday").is_err() && until("0-1").is_err() && until("").is_err());
        assert!(until("0-1-x").is_err());
    }

    #[test]
    fn an_end_that_was_not_reached_is_an_error_and_no_domain_is_forgotten() {
        // As mariadb-binlog 10.11 writes it, with status 0.
        let missed = "WARNING: Did not reach stop position 0-1-9 before end of input\n";
        let gtid = Until::Gtid("0-1-9".into());
        assert!(ended(missed, Some(&gtid)).unwrap_err().to_string().contains("0-1-9"));
        assert_eq!(ended("", Some(&gtid)).unwrap(), None);
        let time = Until::Time("2036-01-01 00:00:00".into());
        let late = "WARNING: Did not reach stop datetime '2036-01-01 00:00:00' before end of input";
        assert!(ended(late, Some(&time)).unwrap().unwrap().contains("2036"));
        let at = |gtid: &str| Binlog { file: String::new(), position: 4, gtid: gtid.into() };
        let of = |from: &str, until: &str| reached(&at(from), until);
        assert_eq!(of("0-1-5,1-2-7", "0-1-9"), ("0-1-9,1-2-7".into(), vec!["1-2-7".into()]));
        assert_eq!(of("0-1-5,1-2-7", "1-2-8,0-3-9"), ("1-2-8,0-3-9".into(), vec![]));
        assert_eq!(of("", "0-1-9"), ("0-1-9".into(), vec![]));
        assert_eq!(of("10-1-5", "1-1-9"), ("1-1-9,10-1-5".into(), vec!["10-1-5".into()]));
    }

    #[test]
    fn a_missing_binary_log_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            drop(super::super::copy::open(&dir.path().join(name), OpenHow::CREATE).unwrap())
        };
        let at = |file: &str| Binlog { file: file.into(), position: 4, gtid: String::new() };
        let places = [dir.path().to_path_buf()];
        for name in ["bin.000002", "bin.000003", "bin.000005", "bin.index", "other.000004"] {
            make(name);
        }
        let logs = |from: &str| logs(&places, &at(from), None);
        let told = logs("bin.000002").unwrap_err().to_string();
        assert!(told.contains("number 4 is missing"), "{told}");
        make("bin.000004");
        assert_eq!(logs("bin.000003").unwrap().len(), 3);
        assert!(logs("bin.000009").is_err() && logs("bin.000001").is_err());
        let from = Binlog { gtid: "0-1-5, 1-2-7".into(), ..at("bin.000002") };
        let until = |ends: &str| super::logs(&places, &from, Some(&Until::Gtid(ends.into())));
        assert!(until("0-1-6").is_ok() && until("0-1-5,1-2-8").is_ok() && until("2-1-1").is_ok());
        let told = until("1-2-8,0-1-4").unwrap_err().to_string();
        assert!(told.contains("0-1-4 is not behind") && until("0-7-5").is_err(), "{told}");
    }
}
