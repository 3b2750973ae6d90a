//! Error codes, the thread's last message, and the panic boundary.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

use frond_base::{Error, ErrorKind};

use crate::abi::{code, FROND_PANIC};

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
    /// Child table and constraint.
    static CONSTRAINT: RefCell<(CString, CString)> = RefCell::default();
}

fn remember(message: &str) {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
}

/// Runs `work`; turns an error into its code, a panic into `FROND_PANIC`, and keeps the message. Each of the hundred functions
/// has a copy of this, so what failures need is in [`failed`] and [`panicked`]: inlined, it was a third of this crate's code.
pub fn guard(work: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => code,
        Ok(Err(e)) => failed(e),
        Err(panic) => panicked(panic),
    }
}

#[cold]
#[inline(never)]
fn failed(e: Error) -> c_int {
    remember(e.message());
    let (table, name) = e.constraint().unwrap_or_default();
    let text = |s: &str| CString::new(s).unwrap_or_default();
    CONSTRAINT.with(|last| *last.borrow_mut() = (text(table), text(name)));
    code(e.kind())
}

#[cold]
#[inline(never)]
fn panicked(panic: Box<dyn Any + Send>) -> c_int {
    let what = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause");
    remember(&format!("internal error: {what}; please report it"));
    FROND_PANIC
}

/// As [`guard`] for functions that return a value and cannot fail otherwise.
pub fn guard_or<T>(fallback: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(fallback)
}

pub fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

#[no_mangle]
pub extern "C" fn frond_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

#[no_mangle]
pub unsafe extern "C" fn frond_last_constraint(
    table: *mut *const c_char,
    name: *mut *const c_char,
) {
    CONSTRAINT.with(|last| {
        let last = last.borrow();
        if !table.is_null() && !name.is_null() {
            // SAFETY: A2, writable.
            unsafe { (*table, *name) = (last.0.as_ptr(), last.1.as_ptr()) }
        }
    });
}

#[no_mangle]
pub extern "C" fn frond_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
