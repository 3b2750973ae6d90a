//! The arguments of the C API: an input is a sequence of calls, each with arguments from the bytes behind
//! it.
//!
//! Pointers are NULL or good, as their contract says (A2 of the library): everything else is anything.
//! Lengths with a NULL pointer are anything, those with a good one are right; counts, enumerations, offsets
//! and struct sizes are anything; calls come in any order and with handles that are NULL. Handles are not
//! used after they were given back, and scans and cursors are closed before what they belong to: that is the
//! caller's part.

mod ffi;
mod session;

use std::ffi::{c_void, CStr, CString};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use frond_run::testing::TestRng;
// The symbols that `ffi` declares.
use frond as _;

use ffi::Handle;
use session::Session;

/// The result of a call that panicked inside.
const PANIC: i32 = -20;

/// Panics in this process, those that a function without a status hides as well.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// The database that all inputs share, in a directory of its own.
struct Shared {
    db: NonNull<c_void>,
    _directory: tempfile::TempDir,
}

// SAFETY: a database handle may be used by any thread.
unsafe impl Send for Shared {}

fn shared() -> &'static Mutex<Shared> {
    static SHARED: OnceLock<Mutex<Shared>> = OnceLock::new();
    SHARED.get_or_init(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(panic);
        }));
        let directory = tempfile::tempdir().expect("a temporary directory");
        let name = directory.path().to_str().and_then(|name| CString::new(name).ok());
        let name = name.expect("temporary directories have plain names");
        let options = ffi::Options {
            struct_size: size_of::<ffi::Options>() as u32,
            durability: 0,
            cache_bytes: 8 << 20,
            log_segment_bytes: 1 << 20,
            log_capacity_bytes: 4 << 20,
            lock_bytes: 1 << 20,
            background_threads: 1,
            direct_io: 0,
            read_only: 0,
            create: 1,
            discard_damaged_tables: 0,
            log: None,
            log_ctx: null_mut(),
            open_files: 0,
            recovery_target: 0,
        };
        let mut db: Handle = null_mut();
        // SAFETY: A2, all pointers are good.
        let status = unsafe { ffi::frond_open(name.as_ptr(), &options, &mut db) };
        let db = NonNull::new(db).filter(|_| status == 0);
        Mutex::new(Shared { db: db.expect("an empty directory opens"), _directory: directory })
    })
}

/// Sequences of calls that make sense: a table, a transaction, changes and reads.
pub fn calls(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    let order = [
        session::CREATE_ROWS,
        session::OPEN,
        session::BIND,
        session::BEGIN,
        session::INSERT,
        session::INSERT,
        session::SCAN,
        session::FIRST,
        session::NEXT,
        session::REF,
        session::FETCH,
        session::UPDATE,
        session::COMMIT,
    ];
    let plain = [
        session::CREATE,
        session::OPEN,
        session::BEGIN,
        session::PUT,
        session::PUT,
        session::CURSOR,
        session::SEEK,
        session::STEP,
        session::ENTRY,
        session::GET,
        session::COMMIT,
    ];
    let mut out = Vec::new();
    for n in 0..24 {
        let order: &[u8] = if n % 3 == 0 { &plain } else { &order };
        let mut input = Vec::new();
        for call in order {
            input.push(*call);
            let arguments = rng.bytes(session::ARGUMENTS);
            // Mostly small numbers: good pointers, first choices.
            input.extend(arguments.iter().map(|b| if n % 2 == 0 { b % 8 } else { *b }));
        }
        out.push(input);
    }
    out
}

pub fn call(input: &[u8]) -> bool {
    let shared = shared().lock().unwrap_or_else(PoisonError::into_inner);
    let before = PANICS.load(Ordering::Relaxed);
    let mut session = Session::new(shared.db.as_ptr());
    for call in input.chunks_exact(1 + session::ARGUMENTS).take(60) {
        let status = session.call(call[0], &call[1..]);
        // SAFETY: never NULL, and valid until this thread's next call.
        let message = unsafe { CStr::from_ptr(ffi::frond_last_error()) };
        assert!(status != PANIC, "call {} panics: {message:?}", call[0]);
    }
    drop(session);
    assert_eq!(PANICS.load(Ordering::Relaxed), before, "a call panicked and hid it");
    true
}
