//! The one error type of the engine crates.
//!
//! Three kinds of failure are never mixed: a programmer's mistake is an `assert!`; a failing
//! environment or an impossible request is an [`Error`]; bad bytes are an [`Error`] of kind
//! [`ErrorKind::Corruption`] that names the file and the place. Messages tell an operator what to do.

use std::fmt;
use std::io;

use crate::bytes::ShortInput;

pub type Result<T> = std::result::Result<T, Error>;

/// The kinds of error that callers distinguish. Numbers are stable: they are the C API's error
/// codes, negated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter or option is out of its range.
    InvalidArgument = 1,
    /// No such table, index or file.
    NotFound = 2,
    /// A table of that name exists.
    Exists = 3,
    /// A row with that key exists.
    DuplicateKey = 4,
    /// The row was changed after the transaction's snapshot was taken.
    Conflict = 5,
    /// Waiting for this lock would close a cycle; this transaction was chosen to give way.
    Deadlock = 6,
    /// A lock was not granted within the timeout.
    LockTimeout = 7,
    /// A lock is held and the caller asked not to wait.
    LockNoWait = 8,
    /// The lock table's memory limit is reached.
    LockTableFull = 9,
    /// The caller's own interrupt flag was raised (KILL).
    Interrupted = 10,
    /// A key, row or transaction exceeds a documented limit.
    TooBig = 11,
    /// The disk (or quota) is full.
    NoSpace = 12,
    /// The operating system failed a read, write or sync.
    Io = 13,
    /// Bytes read do not verify.
    Corruption = 14,
    /// An earlier write or sync failed; nothing more will be acknowledged until restart.
    Poisoned = 15,
    /// Written by a newer release, or not a file of ours.
    UnsupportedFormat = 16,
    /// The object was closed or dropped.
    Closed = 17,
    /// Another process has the directory open.
    Busy = 18,
    /// What was asked is not supported.
    Unsupported = 19,
    /// An internal panic was caught at an API boundary.
    Panic = 20,
    /// The table is younger than the transaction's snapshot.
    TableChanged = 21,
    /// The process, or the system, may not open more files.
    TooManyFiles = 22,
    /// A row names a parent that is not there: [`Error::constraint`] says by which constraint.
    NoParent = 40,
    /// Other rows name this one: [`Error::constraint`] says by which constraint.
    Referenced = 41,
    /// A change of a parent row would go on through too many tables.
    CascadeTooDeep = 42,
    /// A change of a parent row would give two rows of [`Error::constraint`] the same unique key.
    CascadeDuplicate = 43,
    /// A foreign key does not fit the tables or indexes that it names.
    BadForeignKey = 44,
    /// The table's rows were discarded: it waits for an import.
    Discarded = 50,
    /// A table that is to be imported has other columns or indexes than the one that it is for.
    Mismatch = 51,
}

impl ErrorKind {
    /// A resource ran out, nothing was changed, and the call may be retried. Never a reason to
    /// refuse later work.
    pub fn is_shortage(self) -> bool {
        matches!(self, ErrorKind::NoSpace | ErrorKind::TooManyFiles)
    }
}

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<io::Error>,
    constraint: Option<(String, String)>,
}

/// An error: a kind to act on and a message to read. One pointer wide.
pub struct Error(Box<Inner>);

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into(), source: None, constraint: None }))
    }

    /// An error of a constraint: its child table, and its name (or that of an index of the table).
    pub fn of_constraint(
        kind: ErrorKind,
        (table, name): (&str, &str),
        message: impl Into<String>,
    ) -> Error {
        let mut e = Error::new(kind, message);
        e.0.constraint = Some((table.to_owned(), name.to_owned()));
        e
    }

    /// The child table and the name of the constraint that the error is about.
    pub fn constraint(&self) -> Option<(&str, &str)> {
        self.0.constraint.as_ref().map(|(table, name)| (table.as_str(), name.as_str()))
    }

    /// Bad bytes in `file`; `what` says where in it and what is wrong.
    pub fn corruption(file: &str, what: impl fmt::Display) -> Error {
        Error::new(
            ErrorKind::Corruption,
            format!("{file}: {what}; restore this file from a backup or run 'frond check'"),
        )
    }

    /// A failed system call on `file`. A full disk or quota becomes [`ErrorKind::NoSpace`], the lack of
    /// file descriptors [`ErrorKind::TooManyFiles`].
    pub fn io(doing: &str, file: &str, source: io::Error) -> Error {
        // 28 = ENOSPC, 122 = EDQUOT on Linux; `io::ErrorKind` names for them are recent.
        let full = matches!(source.raw_os_error(), Some(28 | 122))
            || source.kind() == io::ErrorKind::StorageFull
            || source.kind() == io::ErrorKind::QuotaExceeded;
        // 24 = EMFILE, 23 = ENFILE.
        let kind = match source.raw_os_error() {
            _ if full => ErrorKind::NoSpace,
            Some(23 | 24) => ErrorKind::TooManyFiles,
            _ => ErrorKind::Io,
        };
        let advice = match kind {
            ErrorKind::TooManyFiles => "; raise the limit of open files of this process",
            _ => "",
        };
        Error(Box::new(Inner {
            kind,
            message: format!("cannot {doing} {file}: {source}{advice}"),
            source: Some(source),
            constraint: None,
        }))
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The same error with `context` put before its message.
    pub fn context(mut self, context: impl fmt::Display) -> Error {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// A copy for a second reader (a poisoned store reports its first failure to everyone).
    pub fn duplicate(&self) -> Error {
        Error::new(self.0.kind, self.0.message.clone())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

impl ShortInput {
    /// Names the file and what was being decoded.
    pub fn in_file(self, file: &str, decoding: &str) -> Error {
        Error::corruption(file, format_args!("{decoding}: {self}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_told_from_other_failures() {
        let e = Error::io("write to", "1.frd", io::Error::from_raw_os_error(28));
        assert_eq!(e.kind(), ErrorKind::NoSpace);
        let e = Error::io("write to", "1.frd", io::Error::from_raw_os_error(5));
        assert_eq!(e.kind(), ErrorKind::Io);
        assert!(e.to_string().starts_with("cannot write to 1.frd:"), "{e}");
    }

    #[test]
    fn the_lack_of_descriptors_is_told_from_other_failures() {
        for code in [23, 24] {
            let e = Error::io("open", "1.frd", io::Error::from_raw_os_error(code));
            assert_eq!(e.kind(), ErrorKind::TooManyFiles);
            assert!(e.to_string().contains("raise the limit of open files"), "{e}");
        }
        assert!(ErrorKind::TooManyFiles.is_shortage() && !ErrorKind::Io.is_shortage());
    }
}
