//! `verify`: reads everything of a backup, without a server.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use frond_vfs::VfsFile;
use serde::Serialize;

use super::against;
use super::args::VerifyArgs;
use super::chain::Chain;
use super::copy::{self, Meter, Show};
use super::manifest::{hex, Manifest, TableFile};
use super::parallel::{extents, To};
use super::prepare::compare;
use super::store::Store;
use crate::check::{self, Severity};
use crate::out::{bytes, Failure, Outcome};

/// Further findings are only counted.
const SHOWN: usize = 100;

#[derive(Serialize)]
struct Verified<'a> {
    id: &'a str,
    sound: bool,
    problems: &'a [String],
    bytes: u64,
    tables: usize,
    blocks: usize,
}

/// True if the backup is sound.
pub fn run(args: &VerifyArgs, out: &mut dyn Write) -> Outcome<bool> {
    let chain = Chain::find(&args.dir, &args.chain, &args.key)?;
    let newest = chain.newest();
    let meter = Meter::new(machine(&args.dir), None, Show::of(args.quiet, args.json))?;
    let manifest = &chain.manifest;
    let (mut problems, mut told) = (Vec::new(), Vec::new());
    let expected = manifest.files.values().map(|f| f.bytes).sum::<u64>();
    let expected = expected + manifest.tables.iter().map(TableFile::extents_len).sum::<u64>();
    meter.expect(expected);
    for (path, want) in &manifest.files {
        problems.extend(compare(&chain, path, want, args.threads, &meter).err());
    }
    let unknown = |path: &Path| {
        let shown = path.to_string_lossy();
        let is_table = shown.ends_with(".frd") || shown == "frond/LOCK";
        let known = manifest.files.get(&*shown);
        !is_table && known.and_then(|file| file.own_bytes(manifest.chain.len())).is_none()
    };
    let parts: &[&str] = match newest.store {
        Store::Dir(_) => &["frond", "server"],
        Store::Pack(_) => &[],
    };
    for part in parts {
        let found = copy::walk(&args.dir.join(part))?;
        for path in found.iter().map(|p| Path::new(part).join(p)).filter(|p| unknown(p)) {
            problems.push(format!("{}: not a file of this backup", args.dir.join(path).display()));
        }
    }
    let vfs = chain.vfs()?;
    for table in &manifest.tables {
        let path = args.dir.join("frond").join(table.file_name());
        let len = std::fs::metadata(&path).map_or(0, |m| m.len());
        if !parts.is_empty() && len != table.bytes {
            problems.push(format!(
                "{}: {} has {len} bytes, and had {}",
                table.shown(),
                path.display(),
                table.bytes
            ));
        }
        match vfs.table(table, false) {
            Ok(file) => blocks(Arc::new(file), table, &chain, args.threads, &meter, &mut problems),
            Err(e) => problems.push(format!("{}, file {}: {e}", table.shown(), table.file_name())),
        }
    }
    meter.finish();
    if !args.quick {
        let report = check::run(Arc::new(vfs), &check::Options::default(), &mut |_| {})?;
        let found = report.findings.iter().filter(|f| f.severity == Severity::Problem);
        problems.extend(found.map(|f| f.what.clone()));
        problems.extend(rows(manifest, &report.rows_of, report.complete));
        let named = manifest.tables.iter().filter(|t| !t.name.is_empty()).count() as u64;
        if problems.is_empty() && report.tables < named {
            problems.push(format!("it has {} tables, and should have {named}", report.tables));
        }
    }
    if args.against_server && problems.is_empty() {
        problems.extend(against::run(args, &chain, &mut told)?);
    }
    let more = problems.len().saturating_sub(SHOWN);
    problems.truncate(SHOWN);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    let verified = Verified {
        id: &manifest.id,
        sound: problems.is_empty(),
        problems: &problems,
        bytes: meter.done(),
        tables: manifest.tables.len(),
        blocks: manifest.tables.iter().map(|t| t.blocks.len()).sum(),
    };
    if args.json {
        let text = serde_json::to_string(&verified).map_err(|e| Failure::Request(e.to_string()))?;
        writeln!(out, "{text}")?;
    } else {
        told.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        problems.iter().try_for_each(|problem| writeln!(out, "problem: {problem}"))?;
        let what = if problems.is_empty() { "sound" } else { "DAMAGED" };
        writeln!(
            out,
            "backup {}: {what}; {} read, {} tables",
            manifest.id,
            bytes(meter.done()),
            verified.tables
        )?;
    }
    Ok(problems.is_empty())
}

/// Tables whose number of rows differs from that at the time of the backup. `whole`: all tables
/// were read.
fn rows(manifest: &Manifest, found: &BTreeMap<String, u64>, whole: bool) -> Vec<String> {
    let wrong = |(name, want): (&String, &u64)| match found.get(name) {
        Some(is) if is == want => None,
        Some(is) => Some(format!("table '{name}': it has {is} rows, and had {want}")),
        None => whole.then(|| format!("table '{name}': it is missing, and had {want} rows")),
    };
    let wanted = manifest.rows.iter().flatten();
    wanted.filter_map(wrong).collect()
}

/// Compares each piece of a table file with its checksum. Each is checked even if others cannot be
/// read.
fn blocks(
    file: Arc<dyn VfsFile>,
    table: &TableFile,
    chain: &Chain,
    threads: usize,
    meter: &Meter,
    problems: &mut Vec<String>,
) {
    let own = chain.manifest.chain.len();
    let pieces = table.own.iter().map(|p| ("headers or image".to_string(), p.0, p.1, &p.2, own));
    let all: Vec<_> = pieces
        .chain(table.blocks.iter().map(|b| (format!("block {}", b.0), b.1, b.2, &b.3, b.4)))
        .collect();
    let ranges: Vec<_> = all.iter().map(|(_, offset, len, _, _)| (*offset, *len)).collect();
    let together = extents(&file, &To::Nowhere, &ranges, threads, meter);
    if together.is_ok_and(|sums| sums.iter().zip(&all).all(|(sum, one)| hex(*sum) == *one.3)) {
        return;
    }
    for (what, offset, len, want, member) in all {
        let bad = match copy::range(&*file, None, offset, len, meter) {
            Ok(is) if hex(is) == *want => continue,
            Ok(_) => "its checksum does not match".to_string(),
            Err(e) => e.to_string(),
        };
        let place = chain.members[member].path.join("frond").join(table.file_name());
        problems.push(format!(
            "{}: {what} at offset {offset} of {}: {bad}",
            table.shown(),
            place.display()
        ));
    }
}

/// Any directory, for access to the clock.
fn machine(backup: &Path) -> &Path {
    match backup.is_file() {
        true => backup.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        false => backup,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_missing_are_told_with_their_table() {
        let mut manifest = Manifest::new(1, "here");
        let of = |all: &[(&str, u64)]| all.iter().map(|(n, r)| (n.to_string(), *r)).collect();
        manifest.rows = Some(of(&[("a/b", 3), ("a/c", 0), ("a/d", 7)]));
        assert!(
            rows(&manifest, &of(&[("a/b", 3), ("a/c", 0), ("a/d", 7), ("x", 1)]), true).is_empty()
        );
        let told = rows(&manifest, &of(&[("a/b", 2), ("a/c", 0)]), true);
        assert!(
            told.len() == 2 && told[0].contains("'a/b': it has 2") && told[1].contains("'a/d'")
        );
        assert_eq!(rows(&manifest, &of(&[("a/b", 2)]), false).len(), 1);
    }
}
