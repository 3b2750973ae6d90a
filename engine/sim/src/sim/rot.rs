//! Damage at rest (O9): flipped bits, zeroed and misdirected sectors, files cut short, files that are gone
//! and older copies of files. The database must notice, or not be concerned; it must not give a wrong
//! answer, and not panic.

use std::panic::{catch_unwind, AssertUnwindSafe};

use frond_engine::{Engine, Error, ErrorKind};

use super::checked_reads::dump;
use super::{fail, note, Check, Sim};
use crate::machine::content::{Content, SECTOR};
use crate::machine::disk::Disk;
use crate::machine::points::{FileClass, Phase};
use crate::machine::SimVfs;
use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    BitFlip,
    ZeroSector,
    Misdirected,
    CutShort,
    Removed,
    /// The file as it was at an earlier close, no crash in between: after a crash a second block may have the
    /// same number, and an older copy cannot be told from it.
    OlderCopy,
}

impl Sim {
    /// Damages copies of a database that was closed; sometimes keeps one, to take older files from.
    pub(super) fn rot(&mut self, disk: &Disk, settled: bool) -> Check {
        for _ in 0..4 {
            let mut rng = self.rng.fork(4);
            let now = self.model.now();
            self.rot_one(disk, now, settled, &mut rng)?;
        }
        if self.older.is_none() || self.rng.percent(40) {
            self.older = Some(disk.snapshot());
        }
        Ok(())
    }

    pub(super) fn rot_crash(&mut self, disk: &Disk, upper: u64, rng: &mut Rng) -> Check {
        self.rot_one(disk, upper, false, rng)
    }

    fn rot_one(&mut self, disk: &Disk, upper: u64, settled: bool, rng: &mut Rng) -> Check {
        crate::watch::operation();
        let mut disk = disk.snapshot();
        let older = self.older.as_ref();
        let Some((name, damage, at)) = damage(&mut disk, older, rng) else { return Ok(()) };
        self.stats.rotten_images += 1;
        // A torn end of the log cannot be told from damage to records that no promise covers yet. One flipped bit
        // cannot hit both the last record and the promise behind it; larger damage can. A closed log that ends
        // too early is noticed by what the catalog says (K5).
        let log = FileClass::of(&name) == FileClass::Log;
        let exact = settled
            && !(log
                && matches!(damage, Damage::ZeroSector | Damage::Misdirected | Damage::CutShort));
        let lower = if exact { upper } else { 0 };
        note!(self, "  rot: {damage:?} in {name} at {at}, states {lower}..={upper}");
        let machine = SimVfs::new(disk, rng.next());
        machine.set_phase(Phase::Recover);
        let options = self.world.options.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let engine = match Engine::open(machine.handle(), options) {
                Ok(engine) => engine,
                Err(e) => return (Err(e), None),
            };
            let found = dump(&engine);
            (found, Some(engine))
        }));
        let what = format!("{damage:?} in {name} at {at}");
        let (found, engine) = match outcome {
            Ok(outcome) => outcome,
            Err(panic) => {
                let why = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                return fail(format!("O9: {what}: panic: {why:?}"));
            }
        };
        machine.kill();
        drop(engine);
        match found {
            Err(e) if noticed(&e, &name, damage) => {
                self.stats.rot_detected += 1;
                if matches!(damage, Damage::Removed | Damage::OlderCopy) {
                    self.stats.event(&format!("{damage:?} noticed"));
                }
                Ok(())
            }
            Err(e) => fail(format!("O9: {what}: {e:?} instead of Corruption")),
            Ok(found) => match self.model.find(found.fingerprint(), lower, upper) {
                Some(_) => Ok(()),
                None if lower < self.model.first() => Ok(()),
                None => {
                    let (n, differences) = self.model.nearest(&found, lower, upper);
                    fail(format!(
                        "O9: {what}: a wrong answer; nearest state {n} of {lower}..={upper}: {:?}",
                        &differences[..differences.len().min(5)]
                    ))
                }
            },
        }
    }
}

/// Whether an error says what it should: the file at fault, or that there is no database without it.
///
/// Newest segments that no promise covers may be missing unnoticed at first. Pages that were then overwritten are
/// found in the table's file, and the error blames that file.
fn noticed(e: &Error, name: &str, damage: Damage) -> bool {
    let at_fault = match FileClass::of(name) {
        FileClass::Log => e.kind() == ErrorKind::Corruption || e.message().contains("log"),
        // `frond.id.new` of a creation that ended early is asked for by the name it would have got.
        FileClass::Identity => e.message().contains("frond.id"),
        _ => e.message().contains(name),
    };
    match (damage, e.kind()) {
        (Damage::Removed, ErrorKind::NotFound | ErrorKind::InvalidArgument) => at_fault,
        (Damage::Removed | Damage::OlderCopy, ErrorKind::Corruption) => at_fault,
        (Damage::Removed | Damage::OlderCopy, _) => false,
        (_, kind) => matches!(kind, ErrorKind::Corruption | ErrorKind::UnsupportedFormat),
    }
}

/// Damages one file. Says which, how and where.
fn damage(disk: &mut Disk, older: Option<&Disk>, rng: &mut Rng) -> Option<(String, Damage, u64)> {
    let names: Vec<String> = disk
        .names()
        .into_iter()
        .filter(|n| disk.find(n).is_some_and(|no| !disk.inode(no).current.is_empty()))
        .collect();
    if names.is_empty() {
        return None;
    }
    let name = names[rng.index(names.len())].clone();
    let mut content: Content = disk.inode(disk.find(&name)?).current.clone();
    let kind = [
        Damage::BitFlip,
        Damage::ZeroSector,
        Damage::Misdirected,
        Damage::CutShort,
        Damage::Removed,
        Damage::OlderCopy,
    ][rng.weighted(&[6, 2, 2, 1, 2, 4])];
    if kind == Damage::Removed {
        disk.lose(&name);
        return Some((name, kind, 0));
    }
    if kind == Damage::OlderCopy {
        let older = older?;
        let content = older.inode(older.find(&name)?).current.clone();
        disk.replace(&name, content);
        return Some((name, kind, 0));
    }
    // Most of a preallocated file is empty: damage where something is.
    let mut at = rng.below(content.len());
    for _ in 0..50 {
        if content.sector(at / SECTOR as u64).iter().any(|&b| b != 0) {
            break;
        }
        at = rng.below(content.len());
    }
    let sector = at / SECTOR as u64;
    match kind {
        Damage::BitFlip => {
            let mut byte = [0];
            content.read(&mut byte, at);
            content.write_within(&[byte[0] ^ (1 << rng.below(8))], at);
        }
        Damage::ZeroSector => content.zero(sector * SECTOR as u64, (sector + 1) * SECTOR as u64),
        Damage::Misdirected => {
            let from = rng.below(content.len()) / SECTOR as u64;
            let bytes = content.sector(from);
            let len = content.len();
            content.write_within(&bytes, sector * SECTOR as u64);
            content.set_len(len);
        }
        Damage::CutShort => content.set_len(at),
        Damage::Removed | Damage::OlderCopy => unreachable!("whole files were dealt with"),
    }
    disk.replace(&name, content);
    Some((name, kind, at))
}
