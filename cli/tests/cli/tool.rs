//! Runs `frond COMMAND` on given input, and writes bad files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::programs::bounded;

/// Its status, output and errors.
pub fn frond(command: &str, args: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = bounded(env!("CARGO_BIN_EXE_frond"))
        .arg(command)
        .args(args)
        .env_remove("MYSQL_PWD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that rejects its options reads no input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A directory for bad files.
pub struct Files {
    command: &'static str,
    dir: tempfile::TempDir,
}

impl Files {
    pub fn of(command: &'static str) -> Files {
        Files { command, dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The output of the command for a file, and its complaint, which must name the file.
    pub fn complaint(&self, path: &Path) -> (String, String) {
        let (status, out, error) = frond(self.command, &[path.to_str().unwrap()], b"");
        assert_eq!(status, 2, "{out} {error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        (out, error)
    }

    pub fn assert_missing_and_directories_are_named(&self) {
        assert!(self.complaint(&self.path("missing")).1.contains("no such file"));
        assert!(self.complaint(self.dir.path()).1.contains("directory"));
    }
}
