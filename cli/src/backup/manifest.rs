//! `manifest.json`: what a backup consists of.
//!
//! - BM1. The manifest is written last: under another name, synced, renamed, and the directory synced. So a directory with a
//!   manifest has a whole backup, whatever ended the program.
//! - BM2. Its last member is a checksum of the rest; a reader trusts nothing before the checksum matches.

use std::collections::BTreeMap;
use std::path::Path;

use frond_base::checksum64;
use frond_vfs::{OpenHow, OsVfs, Vfs};
use serde::{Deserialize, Serialize};

use crate::out::{Failure, Outcome};

pub const NAME: &str = "manifest.json";
pub const TEMPORARY: &str = "manifest.json.new";
/// 2 added `rows`; 3: files have parts in earlier backups. Formats 1 and 2 are read as well.
const FORMAT: u32 = 3;
/// A larger file is not a manifest: this is enough for about 10 million blocks.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u32,
    /// 16 hexadecimal digits, random.
    pub id: String,
    /// The ids of the backups that this one is based on, the full backup first; empty for a full backup.
    pub chain: Vec<String>,
    /// Seconds since the Unix epoch: the moment of the backup, by the clock of the server's machine.
    pub created: u64,
    pub server: String,
    /// The program that copied the server's other files: `mariadb-backup`, or `frond`.
    pub others: String,
    pub binlog: Option<Binlog>,
    /// The id of the Frond database, 16 hexadecimal digits.
    pub database: String,
    /// All transactions up to here are in the backup.
    pub commit_sequence: u64,
    /// Milliseconds for which this program blocked commits; `None`: another program did it.
    pub blocked_ms: Option<u64>,
    pub tables: Vec<TableFile>,
    /// Committed rows of each of Frond's tables, named `database/table`, whether or not the table has a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<BTreeMap<String, u64>>,
    /// By their paths in the backup, `/` between names.
    pub files: BTreeMap<String, PlainFile>,
    /// 16 hexadecimal digits: the checksum of this document with an empty string here.
    pub checksum: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Binlog {
    pub file: String,
    pub position: u64,
    pub gtid: String,
}

/// A file that is not a table's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlainFile {
    pub bytes: u64,
    /// Checksum of the whole file; empty: each part has its own.
    pub checksum: String,
    /// Ascending, without gaps. Empty: one part, the whole file, in this backup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// Bytes of a file: offset, length, checksum, and the place in the chain of the backup that has them. The chain's length: this
/// backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part(pub u64, pub u64, pub String, pub usize);

impl PlainFile {
    /// A file that is in one part in a backup; the part does not say the backup's place in the chain.
    pub fn whole(bytes: u64, checksum: u64) -> PlainFile {
        PlainFile { bytes, checksum: hex(checksum), parts: Vec::new() }
    }

    /// Its parts, in a backup whose place in the chain is `own`.
    pub fn parts(&self, own: usize) -> Vec<Part> {
        match self.parts.is_empty() {
            true => vec![Part(0, self.bytes, self.checksum.clone(), own)],
            false => self.parts.clone(),
        }
    }

    /// Bytes that the backup at place `own` has itself; `None`: it has no such file.
    pub fn own_bytes(&self, own: usize) -> Option<u64> {
        let parts = self.parts(own);
        let mut own = parts.iter().filter(|p| p.3 == own).map(|p| p.1).peekable();
        own.peek().is_some().then(|| total(own))
    }
}

/// A file `frond/N.frd`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TableFile {
    pub table: u32,
    /// `database/table`; empty: the catalog.
    pub name: String,
    /// Length of the complete file.
    pub bytes: u64,
    pub next_block: u64,
    /// Headers and image: always in this backup.
    pub own: Vec<Piece>,
    pub blocks: Vec<Block>,
}

/// Bytes of a table file: offset, length, checksum.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece(pub u64, pub u64, pub String);

/// Block number, offset, length, checksum, and the place in the chain of the backup that has the bytes. The chain's length:
/// this backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Block(pub u64, pub u64, pub u64, pub String, pub usize);

impl TableFile {
    pub fn file_name(&self) -> String {
        format!("{}.frd", self.table)
    }

    /// Sum of the bytes of all extents.
    pub fn extents_len(&self) -> u64 {
        total(self.own.iter().map(|p| p.1).chain(self.blocks.iter().map(|b| b.2)))
    }

    /// The name for messages.
    pub fn shown(&self) -> String {
        match self.name.as_str() {
            "" => "the catalog".into(),
            name => format!("table '{name}'"),
        }
    }
}

/// The sum without overflow: a manifest may hold any numbers.
pub fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

pub fn hex(n: u64) -> String {
    format!("{n:016x}")
}

pub fn sum(bytes: &[u8]) -> String {
    hex(checksum64(bytes))
}

impl Manifest {
    pub fn new(id: u64, server: &str) -> Manifest {
        Manifest {
            format: FORMAT,
            id: hex(id),
            chain: Vec::new(),
            created: 0,
            server: server.into(),
            others: String::new(),
            binlog: None,
            database: String::new(),
            commit_sequence: 0,
            blocked_ms: None,
            tables: Vec::new(),
            rows: None,
            files: BTreeMap::new(),
            checksum: String::new(),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self.chain.is_empty() {
            true => "full",
            false => "incremental",
        }
    }

    /// Bytes that this backup has itself.
    pub fn bytes(&self) -> u64 {
        let own = self.chain.len();
        let blocks = self.tables.iter().flat_map(|t| &t.blocks).filter(|b| b.4 == own);
        let pieces = self.tables.iter().flat_map(|t| &t.own);
        let files = self.files.values().filter_map(|f| f.own_bytes(own));
        total(blocks.map(|b| b.2).chain(pieces.map(|p| p.1)).chain(files))
    }

    fn text(&self) -> Outcome<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Failure::Request(format!("{NAME}: {e}")))
    }

    /// Fills in the checksum (BM2).
    pub fn seal(mut self) -> Outcome<Manifest> {
        self.checksum = String::new();
        self.checksum = sum(&self.text()?);
        Ok(self)
    }

    /// Writes the manifest, which makes the directory a backup (BM1). All files that it names must be durable.
    pub fn write(self, dir: &Path) -> Outcome<Manifest> {
        let sealed = self.seal()?;
        let failed = |e: std::io::Error| {
            Failure::Request(format!("writing {}: {e}", dir.join(NAME).display()))
        };
        let vfs = OsVfs::new(dir).map_err(failed)?;
        let file = vfs.open(TEMPORARY, OpenHow::CREATE).map_err(failed)?;
        file.write_all_at(&sealed.text()?, 0).map_err(failed)?;
        file.sync().map_err(failed)?;
        vfs.rename(TEMPORARY, NAME).map_err(failed)?;
        vfs.sync_dir().map_err(failed)?;
        Ok(sealed)
    }

    /// Reads and verifies the manifest of the backup in `dir` (BM2).
    pub fn read(dir: &Path) -> Outcome<Manifest> {
        let shown = dir.join(NAME);
        let fail = |what: String| Failure::Request(format!("{}: {what}", shown.display()));
        let vfs =
            OsVfs::new(dir).map_err(|e| Failure::Request(format!("{}: {e}", dir.display())))?;
        let file = vfs.open(NAME, OpenHow::READ).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Failure::Request(format!(
                "{} holds no whole backup: it has no {NAME}, which is written last",
                dir.display()
            )),
            _ => fail(e.to_string()),
        })?;
        let len = file.len().map_err(|e| fail(e.to_string()))?;
        if len > MAX_BYTES {
            return Err(fail(format!("{len} bytes are too many")));
        }
        let mut text = vec![0; len as usize];
        file.read_exact_at(&mut text, 0).map_err(|e| fail(e.to_string()))?;
        Manifest::parse(&text).map_err(fail)
    }

    /// Parses and checks a manifest. Hostile bytes give an error.
    pub fn parse(text: &[u8]) -> Result<Manifest, String> {
        #[derive(Deserialize)]
        struct Front {
            format: u32,
        }
        let front: Front = serde_json::from_slice(text).map_err(|e| format!("damaged: {e}"))?;
        if !(1..=FORMAT).contains(&front.format) {
            return Err(format!(
                "it has format {}, this program reads 1 to {FORMAT}: use the release that made it",
                front.format
            ));
        }
        let mut read: Manifest =
            serde_json::from_slice(text).map_err(|e| format!("damaged: {e}"))?;
        let told = std::mem::take(&mut read.checksum);
        let is = serde_json::to_vec(&read).map(|bytes| sum(&bytes)).unwrap_or_default();
        if told != is {
            return Err("damaged: its checksum does not match".into());
        }
        read.checksum = told;
        read.check()?;
        Ok(read)
    }

    /// Checks what a checksum cannot: nothing points outside the backup or beyond the end of a file.
    fn check(&self) -> Result<(), String> {
        let own = self.chain.len();
        for table in &self.tables {
            let within = |offset: u64, len: u64| {
                len > 0 && offset.checked_add(len).is_some_and(|end| end <= table.bytes)
            };
            let pieces = table.own.iter().all(|p| within(p.0, p.1));
            let blocks = table.blocks.iter().all(|b| within(b.1, b.2) && b.4 <= own);
            if !pieces || !blocks || table.bytes > 1 << 50 {
                return Err(format!("damaged: {} has pieces beyond its file", table.shown()));
            }
        }
        // Not by `Path::components`, which skips an empty name: behind its prefix the rest of `server//etc` is absolute.
        let plain = |path: &str| path.split('/').all(|name| !matches!(name, "" | "." | ".."));
        if let Some(path) = self.files.keys().find(|path| !plain(path)) {
            return Err(format!("damaged: a file is named '{path}'"));
        }
        for (path, file) in &self.files {
            let ends = file.parts(own).iter().try_fold(0u64, |at, part| {
                let follows = part.0 == at && part.3 <= own;
                at.checked_add(part.1).filter(|_| follows)
            });
            if ends != Some(file.bytes) || file.bytes > 1 << 50 {
                return Err(format!("damaged: the parts of {path} are not all of it"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let mut m = Manifest::new(7, "10.11 at here");
        m.chain = vec![hex(3)];
        let blocks = vec![Block(1, 8192, 4096, hex(1), 0), Block(9, 12288, 4096, hex(2), 1)];
        let own = vec![Piece(0, 8192, hex(5))];
        m.rows = Some(BTreeMap::from([("a/b".into(), 12)]));
        m.tables = vec![TableFile {
            table: 4,
            name: "a/b".into(),
            bytes: 16384,
            next_block: 11,
            own,
            blocks,
        }];
        m.files.insert("server/a/b.frm".into(), PlainFile::whole(9, 3));
        let parts = vec![Part(0, 5000, hex(8), 0), Part(5000, 16, hex(9), 1)];
        let log = PlainFile { bytes: 5016, checksum: String::new(), parts };
        m.files.insert("frond/log.00000001.frl".into(), log);
        m
    }

    #[test]
    fn each_flipped_bit_of_a_manifest_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let written = sample().write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), written);
        assert_eq!((written.kind(), written.bytes()), ("incremental", 8192 + 4096 + 9 + 16));
        let text = written.text().unwrap();
        for bit in 0..text.len() * 8 {
            let mut damaged = text.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::parse(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn sizes_that_no_machine_has_are_summed_without_a_panic() {
        let mut m = sample();
        for (name, bytes) in [("server/x", u64::MAX), ("server/y", 1)] {
            m.files.insert(name.into(), PlainFile::whole(bytes, 3));
        }
        assert_eq!(m.bytes(), u64::MAX);
        m.tables[0].own.extend([Piece(0, u64::MAX, hex(5)), Piece(0, 9, hex(5))]);
        assert_eq!(m.tables[0].extents_len(), u64::MAX);
    }

    #[test]
    fn a_manifest_that_leads_out_of_its_backup_is_refused() {
        let refused = |change: fn(&mut Manifest)| {
            let mut m = sample();
            change(&mut m);
            m.checksum = String::new();
            m.checksum = sum(&m.text().unwrap());
            Manifest::parse(&m.text().unwrap()).is_err()
        };
        assert!(!refused(|_| {}));
        assert!(!refused(|m| (m.format, m.rows) = (1, None)));
        assert!(refused(|m| m.format = 4));
        fn log(m: &mut Manifest) -> &mut PlainFile {
            m.files.get_mut("frond/log.00000001.frl").unwrap()
        }
        assert!(refused(|m| log(m).parts[1].0 = 5008));
        assert!(refused(|m| log(m).parts[1].3 = 2));
        assert!(refused(|m| log(m).parts[1].1 = u64::MAX));
        assert!(refused(|m| log(m).bytes = 5017));
        assert!(refused(|m| m.tables[0].blocks[1].1 = u64::MAX));
        assert!(refused(|m| m.tables[0].blocks[0].4 = 2));
        for path in
            ["../etc/x", "/etc/x", "server//etc/x", "frond//x", "server/./x", "server/x/", ""]
        {
            let mut m = sample();
            m.files.insert(path.into(), m.files["server/a/b.frm"].clone());
            let text = m.seal().unwrap().text().unwrap();
            assert!(Manifest::parse(&text).is_err(), "{path}");
        }
    }
}
