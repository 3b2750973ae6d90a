//! Why there is no result.

use std::fmt;
use std::io;
use std::path::Path;

#[derive(Debug)]
pub enum Error {
    /// The request cannot be met here; the text says what can.
    Request(String),
    /// The system refused; the text says what was tried, and where.
    System(String, io::Error),
    /// Somebody stopped it.
    Interrupted,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err`: what was tried on `path`.
    pub fn at<'a>(path: &'a Path, what: &'a str) -> impl FnOnce(io::Error) -> Error + 'a {
        move |e| Error::System(format!("cannot {what} {}", path.display()), e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Request(text) => f.write_str(text),
            Error::System(what, e) => write!(f, "{what}: {e}"),
            Error::Interrupted => f.write_str("interrupted: no result; the test files are removed"),
        }
    }
}
