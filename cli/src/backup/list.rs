//! `list` and `keep`: the backups of a directory.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use jiff::Timestamp;
use serde::Serialize;

use super::args::{KeepArgs, ListArgs};
use super::copy::failed;
use super::key::Key;
use super::manifest::Binlog;
use super::store::{self, look, Found, Store};
use crate::out::{bytes, Failure, Grid, Outcome};

/// Backups in `dir`, or `dir` itself if it is one; those without a date first, then the oldest.
fn find(dir: &Path) -> Outcome<Vec<(PathBuf, Found)>> {
    let mut places = vec![dir.to_path_buf()];
    if look(dir).is_none() {
        places.clear();
        for entry in std::fs::read_dir(dir).map_err(failed("list", dir))? {
            places.push(entry.map_err(failed("list", dir))?.path());
        }
    }
    let mut found: Vec<_> = places.into_iter().filter_map(|p| look(&p).map(|f| (p, f))).collect();
    // Of two backups made in the same second, the one based on the other comes second, whatever their
    // names.
    let age = |f: &Found| match f {
        Found::Whole(is) => (is.created, is.chain.len()),
        _ => (0, 0),
    };
    found.sort_by(|a, b| (age(&a.1), &a.0).cmp(&(age(&b.1), &b.0)));
    Ok(found)
}

#[derive(Serialize)]
struct Line<'a> {
    dir: &'a Path,
    state: &'a str,
    problem: Option<&'a str>,
    id: Option<&'a str>,
    kind: Option<&'a str>,
    chain: Option<&'a [String]>,
    created: Option<String>,
    bytes: Option<u64>,
    tables: Option<usize>,
    server: Option<&'a str>,
    binlog: Option<&'a Binlog>,
    /// `directory`, `packed`, `encrypted`.
    form: Option<&'a str>,
    /// The name of the key that opens it.
    key: Option<&'a str>,
}

/// Reads the manifest of a pack, if the pack is not sealed or `key` is its key.
fn open(path: &Path, is: &mut Found, key: Option<&Key>) {
    let Found::Whole(summary) = is else { return };
    let Some(sealed) = &summary.pack else { return };
    if sealed.as_ref().is_some_and(|id| key.is_none_or(|key| key.id != *id)) {
        return;
    }
    match Store::open(path, key.filter(|_| sealed.is_some())) {
        Ok((_, manifest)) => summary.manifest = Some(Box::new(manifest)),
        Err(e) => *is = Found::Damaged(e.to_string()),
    }
}

/// True if all backups are whole, and the backups that they are based on are there.
pub fn run(args: &ListArgs, out: &mut dyn Write) -> Outcome<bool> {
    let key = Key::of(args.key_file.as_deref(), false)?;
    let mut found = find(&args.dir)?;
    found.iter_mut().for_each(|(path, is)| open(path, is, key.as_ref()));
    let mut ids = HashSet::new();
    let mut grid =
        Grid::new(5, &["backup", "kind", "created (UTC)", "state", "form", "tables", "size"]);
    let mut fine = true;
    for (dir, is) in &found {
        let mut line = Line {
            dir,
            state: "whole",
            problem: None,
            id: None,
            kind: None,
            chain: None,
            created: None,
            bytes: None,
            tables: None,
            server: None,
            binlog: None,
            form: None,
            key: None,
        };
        match is {
            Found::Whole(m) => {
                ids.insert(m.id.clone());
                let date = Timestamp::from_second(i64::try_from(m.created).unwrap_or(0)).ok();
                let kind = if m.chain.is_empty() { "full" } else { "incremental" };
                (line.id, line.kind) = (Some(m.id.as_str()), Some(kind));
                line.created = date.map(|d| d.strftime("%F %T").to_string());
                (line.bytes, line.chain) = (Some(m.bytes), Some(m.chain.as_slice()));
                line.key = m.pack.as_ref().and_then(|key| key.as_deref());
                line.form = Some(match &m.pack {
                    None => "directory",
                    Some(None) => "packed",
                    Some(Some(_)) => "encrypted",
                });
                if let Some(read) = &m.manifest {
                    line.tables = Some(read.tables.len());
                    (line.server, line.binlog) = (Some(read.server.as_str()), read.binlog.as_ref());
                }
                if m.chain.iter().any(|id| !ids.contains(id)) {
                    line.state = "base missing";
                }
            }
            Found::Incomplete => line.state = "incomplete",
            Found::Damaged(what) => (line.state, line.problem) = ("damaged", Some(what.as_str())),
        }
        fine &= line.state == "whole";
        if args.json {
            let text = serde_json::to_string(&line).map_err(|e| Failure::Request(e.to_string()))?;
            writeln!(out, "{text}")?;
        }
        grid.row(vec![
            dir.display().to_string(),
            line.kind.unwrap_or("").into(),
            line.created.unwrap_or_default(),
            line.state.into(),
            line.form.unwrap_or("").into(),
            line.tables.map_or(String::new(), |n| n.to_string()),
            line.bytes.map_or(String::new(), bytes),
        ]);
    }
    if !args.json {
        match found.is_empty() {
            true => writeln!(out, "no backups in {}", args.dir.display())?,
            false => write!(out, "{grid}")?,
        }
    }
    Ok(fine)
}

pub fn keep(args: &KeepArgs, out: &mut dyn Write) -> Outcome<()> {
    let (mut found, mut left) = (Vec::new(), Vec::new());
    let all = find(&args.dir)?;
    let ids: HashSet<String> = all
        .iter()
        .filter_map(|(_, is)| match is {
            Found::Whole(m) => Some(m.id.clone()),
            _ => None,
        })
        .collect();
    for (dir, is) in all {
        match is {
            Found::Whole(m) if m.chain.iter().all(|id| ids.contains(id)) => found.push((dir, *m)),
            Found::Whole(m) => {
                writeln!(
                    out,
                    "left alone {}: a backup that it is based on is not here, or not whole",
                    dir.display()
                )?;
                left.extend(m.chain);
            }
            // It may have been something else, or somebody may be making it now.
            Found::Incomplete => writeln!(out, "left alone {}: incomplete", dir.display())?,
            Found::Damaged(what) => writeln!(out, "left alone {}: {what}", dir.display())?,
        }
    }
    if found.is_empty() {
        writeln!(out, "no backups in {}", args.dir.display())?;
    }
    let dates: Vec<(String, Date)> =
        found.iter().map(|(_, m)| (m.id.clone(), date(m.created))).collect();
    let mut kept = chosen(&dates, args.daily, args.weekly);
    let chains =
        found.iter().filter(|(_, m)| kept.contains(&m.id)).flat_map(|(_, m)| m.chain.clone());
    let chains: Vec<String> = chains.collect();
    kept.extend(chains);
    // The rest of their chain may be elsewhere.
    kept.extend(left);
    // Incremental backups before their base: if this is cut short, no backup is without its base.
    for (dir, m) in found.iter().rev() {
        if kept.contains(&m.id) {
            writeln!(out, "keep {}", dir.display())?;
            continue;
        }
        match args.delete {
            false => writeln!(out, "would remove {} ({})", dir.display(), bytes(m.bytes))?,
            true => {
                store::remove(dir)?;
                writeln!(out, "removed {}", dir.display())?;
            }
        }
    }
    Ok(())
}

fn date(seconds: u64) -> Date {
    let at = Timestamp::from_second(i64::try_from(seconds).unwrap_or(0)).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// The newest of each of the last `daily` days and `weekly` weeks that have a backup. `all`: the oldest
/// first.
fn chosen(all: &[(String, Date)], daily: u64, weekly: u64) -> HashSet<String> {
    let mut kept: HashSet<String> = all.last().map(|(id, _)| id.clone()).into_iter().collect();
    let (mut days, mut weeks) = (HashSet::new(), HashSet::new());
    for (id, date) in all.iter().rev() {
        let week = date.iso_week_date();
        let is_day = (days.len() as u64) < daily && days.insert(*date);
        let is_week = (weeks.len() as u64) < weekly && weeks.insert((week.year(), week.week()));
        if is_day || is_week {
            kept.insert(id.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::manifest::{hex, Manifest};

    /// Makes a backup of nothing; `chain`: the bases' numbers.
    fn make(dir: &Path, name: &str, id: u64, hour: u64, chain: &[u64]) {
        let mut manifest = Manifest::new(id, "here");
        manifest.created = 1_793_491_200 + 3600 * hour;
        manifest.chain = chain.iter().map(|base| hex(*base)).collect();
        std::fs::create_dir(dir.join(name)).unwrap();
        manifest.write(&dir.join(name)).unwrap();
    }

    #[test]
    fn backups_of_one_second_are_listed_behind_their_base() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "z-full", 7, 0, &[]);
        make(dir.path(), "a-incremental", 8, 0, &[7]);
        let args = ListArgs { dir: dir.path().into(), key_file: None, json: false };
        let mut told = Vec::new();
        let fine = run(&args, &mut told).unwrap();
        assert!(fine, "{}", String::from_utf8_lossy(&told));
    }

    #[test]
    fn a_backup_without_its_base_takes_no_place_of_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "full", 7, 26, &[]);
        make(dir.path(), "orphan", 8, 47, &[3]);
        make(dir.path(), "old", 9, 0, &[]);
        let args = KeepArgs { dir: dir.path().into(), daily: 1, weekly: 0, delete: true };
        let mut told = Vec::new();
        keep(&args, &mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(dir.path().join("full").exists() && dir.path().join("orphan").exists(), "{told}");
        assert!(!dir.path().join("old").exists() && told.contains("left alone"), "{told}");
    }

    #[test]
    fn incremental_backups_are_removed_before_their_base() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "base", 7, 7, &[]);
        make(dir.path(), "incremental", 8, 8, &[7]);
        make(dir.path(), "new", 9, 9, &[]);
        let args = KeepArgs { dir: dir.path().into(), daily: 1, weekly: 0, delete: true };
        let mut told = Vec::new();
        keep(&args, &mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        let at = |name: &str| told.find(&format!("removed {}/{name}", dir.path().display()));
        assert!(at("incremental") < at("base") && at("incremental").is_some(), "{told}");
    }

    #[test]
    fn the_newest_of_each_day_and_week_is_kept() {
        // Two a day, for 30 days: 1 November 2026 is a Sunday.
        let first = date(1_793_491_200);
        assert_eq!(first.to_string(), "2026-11-01");
        let all: Vec<(String, Date)> = (0..60)
            .map(|n| (format!("{n:02}"), first.checked_add(jiff::Span::new().days(n / 2)).unwrap()))
            .collect();
        let mut kept: Vec<String> = chosen(&all, 3, 4).into_iter().collect();
        kept.sort();
        // 30 November is a Monday and its week's newest; then the Sundays before.
        assert_eq!(kept, ["29", "43", "55", "57", "59"]);
        assert_eq!(chosen(&all, 0, 0).len(), 1);
        assert!(chosen(&[], 3, 4).is_empty());
    }
}
