//! Keys of packed backups: files of one line, `frond-backup-key 1 NAME KEY`; NAME and KEY are hexadecimal. The name is random, and it is in
//! the head of every pack that was sealed with the key.
//!
//! - KY1. A key is never printed, and it is only in files that others may not read.
//! - KY2. With a key, a backup that is not sealed is refused unless the user allows it: whoever can write where backups are could have
//!   put it in the place of a sealed one.

use std::io::Write;
use std::path::Path;

use frond_vfs::{OsVfs, Vfs};
use rustix::fs::{Mode, OFlags};

use super::args::KeyArgs;
use super::copy::{self, failed};
use super::manifest::hex;
use crate::out::{Failure, Outcome};

const WORD: &str = "frond-backup-key";

pub struct Key {
    pub id: String,
    /// Whether backups are taken that are not sealed with it (KY2).
    pub allows_unencrypted: bool,
    bytes: [u8; 32],
}

impl Key {
    pub fn bytes(&self) -> &chacha20poly1305::Key {
        chacha20poly1305::Key::from_slice(&self.bytes)
    }

    /// Reads a key file; refuses a file that others may read (KY1).
    pub fn read(path: &Path) -> Outcome<Key> {
        use std::os::unix::fs::PermissionsExt;
        let fail = |what: &str| Failure::Request(format!("key file {}: {what}", path.display()));
        let is = std::fs::metadata(path).map_err(|e| fail(&e.to_string()))?;
        if is.permissions().mode() & 0o007 != 0 {
            return Err(fail("others may use it: chmod 600 it"));
        }
        let text = copy::text(path)?;
        let parts: Vec<&str> = text.split_whitespace().collect();
        let no_key = || fail("it has no key: make one with frond backup key FILE");
        let [WORD, "1", id, digits] = parts[..] else { return Err(no_key()) };
        let is_hex = |text: &str, len: usize| {
            text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit())
        };
        if !is_hex(id, 16) || !is_hex(digits, 64) {
            return Err(no_key());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| no_key())?;
        }
        Ok(Key { id: id.to_string(), allows_unencrypted: false, bytes })
    }

    pub fn of(path: Option<&Path>, allows_unencrypted: bool) -> Outcome<Option<Key>> {
        path.map(|path| Ok(Key { allows_unencrypted, ..Key::read(path)? })).transpose()
    }
}

/// Makes a key file.
pub fn run(args: &KeyArgs, out: &mut dyn Write) -> Outcome<()> {
    let path = &args.file;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let vfs = OsVfs::new(dir).map_err(failed("open", dir))?;
    let id = hex(vfs.random_u64());
    let digits: String = (0..4).map(|_| hex(vfs.random_u64())).collect();
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, how, Mode::RUSR | Mode::WUSR);
    let mut file = std::fs::File::from(file.map_err(|e| failed("make", path)(e.into()))?);
    let line = format!("{WORD} 1 {id} {digits}\n");
    let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_all());
    written.and_then(|()| vfs.sync_dir()).map_err(failed("write", path))?;
    writeln!(
        out,
        "key {id} in {}: keep a copy elsewhere, nothing opens a backup without it",
        path.display()
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_read_as_it_was_made_and_only_by_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("k");
        let mut told = Vec::new();
        run(&KeyArgs { file: file.clone() }, &mut told).unwrap();
        let key = Key::read(&file).unwrap();
        let told = String::from_utf8(told).unwrap();
        let digits: String = key.bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert!(told.contains(&key.id) && !told.contains(&digits), "KY1");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(run(&KeyArgs { file: file.clone() }, &mut Vec::new()).is_err(), "written over");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let e = Key::read(&file).err().unwrap().to_string();
        assert!(e.contains("chmod 600"), "{e}");
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_printed() {
        let dir = tempfile::tempdir().unwrap();
        for (n, text) in
            ["", "frond-backup-key 1 secret", "frond-backup-key 2 00 11"].iter().enumerate()
        {
            let path = dir.path().join(n.to_string());
            let file = copy::open(&path, frond_vfs::OpenHow::CREATE).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let e = Key::read(&path).err().unwrap().to_string();
            assert!(e.contains("no key") && !e.contains("secret"), "{e}");
        }
    }
}
