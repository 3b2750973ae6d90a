//! Opening, closing, settings and status of a database.

use std::ffi::{c_char, c_int, c_void, CString, OsString};
use std::ptr;
use std::sync::Arc;

use frond_base::{Error, Result};
use frond_engine::{Durability, Engine, Log, Options};
use frond_vfs::{OsVfs, Vfs};

use crate::abi::{
    frond_options, EmitCounter, FROND_EACH_SECOND, FROND_OK, FROND_SYNC, FROND_WRITE,
};
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{handle, put, put_new, text};

/// `frond_options.recovery_target`: no aim.
const NO_RECOVERY_TARGET: u32 = u32::MAX;

/// An open database.
pub struct frond_db {
    pub engine: Arc<Engine>,
}

/// The context pointer of a callback, which the header requires to be usable from any thread.
struct Context(*mut c_void);
// SAFETY: the header says that the log function may be called from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

fn or_default(given: u64, default: u64) -> u64 {
    if given == 0 {
        default
    } else {
        given
    }
}

fn durability(mode: u32) -> Result<Durability> {
    match mode {
        FROND_EACH_SECOND => Ok(Durability::EachSecond),
        FROND_SYNC => Ok(Durability::Sync),
        FROND_WRITE => Ok(Durability::Write),
        _ => Err(invalid("durability is not one of enum frond_durability")),
    }
}

/// For tests: the environment's FROND_LEAF_BYTES replaces the size of a leaf, so that small tables have many.
fn leaf_bytes(given: Option<OsString>, default: u64) -> Result<u64> {
    let Some(text) = given else { return Ok(default) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| invalid("FROND_LEAF_BYTES is not a number of bytes"))
}

fn options(o: &frond_options) -> Result<Options> {
    let d = Options::default();
    Ok(Options {
        cache_bytes: or_default(o.cache_bytes, d.cache_bytes),
        durability: durability(o.durability)?,
        log_segment_bytes: or_default(o.log_segment_bytes, d.log_segment_bytes),
        log_capacity_bytes: or_default(o.log_capacity_bytes, d.log_capacity_bytes),
        recovery_target: match o.recovery_target {
            NO_RECOVERY_TARGET => 0,
            seconds => or_default(u64::from(seconds), d.recovery_target),
        },
        lock_bytes: or_default(o.lock_bytes, d.lock_bytes),
        background_threads: or_default(u64::from(o.background_threads), 2) as usize,
        direct_io: o.direct_io != 0,
        read_only: o.read_only != 0,
        discard_damaged_tables: o.discard_damaged_tables != 0,
        leaf_bytes: leaf_bytes(std::env::var_os("FROND_LEAF_BYTES"), d.leaf_bytes)?,
        open_files: o.open_files as usize,
        ..d
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_open(
    directory: *const c_char,
    opts: *const frond_options,
    db: *mut *mut frond_db,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        unsafe { open(directory, opts, db, Engine::open_with_log) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_open_scratch(
    directory: *const c_char,
    opts: *const frond_options,
    db: *mut *mut frond_db,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        unsafe { open(directory, opts, db, Engine::open_scratch) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_wipe_scratch(directory: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let directory = unsafe { text(directory, "directory") }?;
        match OsVfs::new(directory) {
            Ok(vfs) => frond_engine::wipe(&vfs)?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("open the directory", directory, e)),
        }
        Ok(FROND_OK)
    })
}

/// # Safety
/// A2 for the pointers.
unsafe fn open(
    directory: *const c_char,
    opts: *const frond_options,
    db: *mut *mut frond_db,
    how: fn(Arc<dyn Vfs>, Options, Log) -> Result<Engine>,
) -> Result<c_int> {
    // SAFETY: A2.
    let directory = unsafe { text(directory, "directory") }?;
    // SAFETY: A2.
    let given = unsafe { handle(opts, "options") }?;
    if given.struct_size as usize != size_of::<frond_options>() {
        return Err(invalid("options.struct_size is not that of this release"));
    }
    let opened = if given.create != 0 && given.read_only == 0 {
        OsVfs::create(directory)
    } else {
        OsVfs::new(directory)
    };
    let vfs = opened.map_err(|e| Error::io("open the directory", directory, e))?;
    let (call, ctx) = (given.log, Context(given.log_ctx));
    let log = move |level: u8, message: &str| {
        if let (Some(call), Ok(message)) = (call, CString::new(message)) {
            call(ctx.get(), c_int::from(level), message.as_ptr());
        }
    };
    let engine = how(Arc::new(vfs), options(given)?, Arc::new(log))?;
    let object = frond_db { engine: Arc::new(engine) };
    // SAFETY: A2.
    unsafe { put_new(db, object, "db") }?;
    Ok(FROND_OK)
}

#[no_mangle]
pub unsafe extern "C" fn frond_close(db: *mut frond_db) -> c_int {
    guard(|| {
        if db.is_null() {
            return Err(invalid("db is NULL"));
        }
        // SAFETY: A2, a live handle from frond_open, given up by the caller.
        let db = unsafe { Box::from_raw(db) };
        db.engine.close()?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_set(db: *mut frond_db, name: *const c_char, value: u64) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, name) = unsafe { (handle(db, "db")?, text(name, "name")?) };
        match name {
            "durability" => {
                // A value above 32 bits is no durability mode.
                db.engine.set_durability(durability(u32::try_from(value).unwrap_or(u32::MAX))?);
            }
            "cache_bytes" => db.engine.set_cache_bytes(value)?,
            "log_capacity_bytes" => db.engine.set_log_capacity(value),
            "recovery_target" => db.engine.set_recovery_target(value),
            "backup_pin_bytes" => db.engine.set_backup_pin_limit(value),
            "row_cache" => db.engine.set_row_cache(value != 0),
            "print_deadlocks" => db.engine.print_deadlocks(value != 0),
            _ => return Err(invalid(&format!("there is no setting '{name}'"))),
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_sync(db: *mut frond_db) -> c_int {
    guard(|| {
        // SAFETY: A2.
        unsafe { handle(db, "db") }?.engine.sync()?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_backup(
    db: *mut frond_db,
    step: *const c_char,
    id: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, step) = unsafe { (handle(db, "db")?, text(step, "step")?) };
        // SAFETY: A2.
        let known = *unsafe { handle(id, "id") }?;
        let engine = &db.engine;
        let given = match step {
            "begin" => engine.backup_begin()?,
            "armed" => u64::from(engine.backup_is_armed()),
            "shorten" => u64::from(engine.backup_shorten(known)?),
            "mark" => u64::from(engine.backup_mark()?),
            "proven" | "unproven" => {
                engine.backup_proven(step == "proven");
                known
            }
            "describe" => engine.backup_describe(known).map(|()| known)?,
            "log_copied" => engine.backup_log_copied(known).map(|()| known)?,
            "end" => engine.backup_end(known).map(|()| known)?,
            "abandon" => {
                engine.backup_abandon(known);
                known
            }
            _ => return Err(invalid(&format!("a backup has no step '{step}'"))),
        };
        // SAFETY: A2.
        unsafe { put(id, given, "id") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_status(
    db: *mut frond_db,
    emit: Option<EmitCounter>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        for (name, value) in db.engine.status() {
            let name = CString::new(name).unwrap_or_default();
            emit(ctx, name.as_ptr(), value);
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_status_text(db: *mut frond_db) -> *mut c_char {
    guard_or(ptr::null_mut(), || {
        // SAFETY: A2.
        let Ok(db) = (unsafe { handle(db, "db") }) else { return ptr::null_mut() };
        CString::new(db.engine.status_text()).unwrap_or_default().into_raw()
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_free(p: *mut c_void) {
    if !p.is_null() {
        // SAFETY: A2, a string returned by frond_status_text, given up by the caller.
        drop(unsafe { CString::from_raw(p.cast()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_set_the_size_of_a_leaf_with_a_number() {
        assert_eq!(leaf_bytes(None, 7).unwrap(), 7);
        assert_eq!(leaf_bytes(Some("16384".into()), 7).unwrap(), 16384);
        for wrong in ["", "16K", "-1"] {
            let error = leaf_bytes(Some(wrong.into()), 7).unwrap_err();
            assert!(error.to_string().contains("FROND_LEAF_BYTES"), "{error}");
        }
    }
}
