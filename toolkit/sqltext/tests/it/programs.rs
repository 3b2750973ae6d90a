//! Runs other programs, bounded in time: one that hangs fails its test and not the whole run.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// A program that is ended after a time, with status 124. `has` tells whether a program exists.
pub fn bounded(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "240"]).arg(program);
    command
}

/// True if a program is installed.
pub fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}
