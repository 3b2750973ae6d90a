//! The file of `-o`: written under a temporary name and renamed when the report is complete.
//!
//! Invariants:
//!
//! - OU1. A report that fails (a mistyped option, an unreadable log) leaves the file of that name as it was.
//! - OU2. An output that is one of the inputs is refused: it would overwrite the log, or the baseline of a
//!   comparison.
//! - OU3. `flush` completes the file; what is written behind that (`--follow`) is appended to it.
//!
//! Outputs that are no files (`/dev/stdout`, a pipe) are written directly.
#![allow(clippy::disallowed_methods)] // A report is no file of a database.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::out::{Failure, Outcome};

/// See the module's text.
pub struct Output {
    out: BufWriter<File>,
    /// (temporary name, final name), until it is renamed.
    moves: Option<(PathBuf, PathBuf)>,
}

impl Output {
    /// Begins the file `path`, which must be none of `inputs`.
    pub fn begin<'a>(path: &Path, inputs: impl Iterator<Item = &'a PathBuf>) -> Outcome<Output> {
        let fail = |e: io::Error| Failure::Request(format!("{}: {e}", path.display()));
        let there = match fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(fail(io::ErrorKind::IsADirectory.into())),
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(fail)?;
                return Ok(Output { out: BufWriter::new(file), moves: None });
            }
            Ok(there) => Some(there),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(fail(e)),
        };
        if let Some(there) = &there {
            refuse_inputs(path, there, inputs)?;
        }
        // If the path is a symbolic link, its target is replaced, not the link.
        let target =
            if there.is_some() { fs::canonicalize(path).map_err(fail)? } else { path.into() };
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        let beside = target.with_file_name(name);
        let file = File::create(&beside)
            .map_err(|e| Failure::Request(format!("cannot create {}: {e}", beside.display())))?;
        let output = Output { out: BufWriter::new(file), moves: Some((beside, target)) };
        if let Some(there) = there {
            output.out.get_ref().set_permissions(there.permissions()).map_err(fail)?;
        }
        Ok(output)
    }
}

fn refuse_inputs<'a>(
    path: &Path,
    there: &Metadata,
    inputs: impl Iterator<Item = &'a PathBuf>,
) -> Outcome<()> {
    for input in inputs {
        let same = fs::metadata(input)
            .is_ok_and(|input| (input.dev(), input.ino()) == (there.dev(), there.ino()));
        if same {
            return Err(Failure::Request(format!(
                "{}: is one of the inputs; write the report to another file",
                path.display()
            )));
        }
    }
    Ok(())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Some((beside, target)) = &self.moves {
            fs::rename(beside, target)?;
            self.moves = None;
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((beside, _)) = &self.moves {
            let _ = fs::remove_file(beside);
        }
    }
}
