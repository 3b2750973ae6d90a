//! From a path to an open, read-only engine, with errors that tell a newcomer what to give instead.

use std::path::Path;
use std::sync::Arc;

use frond_base::ErrorKind;
use frond_engine::{Engine, Options};
use frond_vfs::{OsVfs, Vfs};

use crate::out::{Failure, Outcome};

/// The file that makes a directory a database.
pub const IDENTITY: &str = "frond.id";
/// The directory that the MariaDB plugin keeps inside the server's data directory.
const IN_SERVER: &str = "#frond";

/// The directory as a [`Vfs`]. Refuses a directory that is not a Frond database before anything is
/// created in it (a lock file, for example).
pub fn directory(path: &Path) -> Outcome<Arc<dyn Vfs>> {
    let shown = path.display();
    let ask = "give the directory that holds frond.id (for a MariaDB server: #frond in its data \
               directory)";
    let refuse = |what: String| Err(Failure::Request(what));
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return refuse(format!("{shown} does not exist; {ask}"));
        }
        Err(e) => return refuse(format!("cannot look at {shown}: {e}")),
        Ok(meta) if !meta.is_dir() => {
            return refuse(format!("{shown} is a file, not a directory; {ask}"));
        }
        Ok(_) => {}
    }
    if !path.join(IDENTITY).exists() {
        if path.join(IN_SERVER).join(IDENTITY).exists() {
            let inner = path.join(IN_SERVER);
            return refuse(format!(
                "{shown} is a server's data directory; its Frond database is in '{}'",
                inner.display()
            ));
        }
        // If only the identity is lost, that is damage, and `check` should be able to name it.
        if !looks_like_ours(path) {
            return refuse(format!("{shown} holds no Frond database; {ask}"));
        }
    }
    let vfs = OsVfs::new(path)
        .map_err(|e| Failure::Request(format!("cannot open the directory {shown}: {e}")))?;
    Ok(Arc::new(vfs))
}

fn looks_like_ours(path: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .any(|n| n.ends_with(".frd") || (n.starts_with("log.") && n.ends_with(".frl")))
}

/// The options with which the tool opens a database: recovery in memory, no threads, nothing
/// written.
pub fn options(cache_bytes: u64) -> Options {
    Options {
        cache_bytes,
        read_only: true,
        background_threads: 0,
        direct_io: false,
        ..Options::default()
    }
}

/// Opens the database for reading.
pub fn engine(vfs: Arc<dyn Vfs>, cache_bytes: u64) -> Outcome<Engine> {
    Engine::open(vfs, options(cache_bytes)).map_err(explain)
}

/// Adds to the message what a user of the tool can do.
pub fn explain(e: frond_base::Error) -> Failure {
    match e.kind() {
        ErrorKind::Busy => Failure::Request(
            "the database is in use by another process; stop that server or program first (a \
             running server answers itself: SHOW ENGINE FROND STATUS, CHECK TABLE)"
                .into(),
        ),
        _ => Failure::Engine(e),
    }
}
