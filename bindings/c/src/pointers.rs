//! Checked reading of C arguments.

use std::ffi::{c_char, CStr};
use std::slice;

use frond_base::Result;

use crate::error::invalid;

/// The object behind a handle.
///
/// # Safety
/// `p` is NULL or a live handle of that type, and nobody else has a mutable reference to it.
pub unsafe fn handle<'a, T>(p: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: A2, non-NULL handles are live.
    unsafe { p.as_ref() }.ok_or_else(|| invalid(&format!("{what} is NULL")))
}

/// As [`handle`], exclusively.
///
/// # Safety
/// `p` is NULL or a live handle of that type, used by this thread alone.
pub unsafe fn handle_mut<'a, T>(p: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: A2, non-NULL handles are live and belong to one thread at a time.
    unsafe { p.as_mut() }.ok_or_else(|| invalid(&format!("{what} is NULL")))
}

/// A byte string.
///
/// # Safety
/// `p` is NULL or points to `len` readable bytes.
pub unsafe fn bytes<'a>(p: *const u8, len: usize, what: &str) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if p.is_null() || isize::try_from(len).is_err() {
        return Err(invalid(&format!("{what} is NULL or its length is impossible")));
    }
    // SAFETY: A2, the caller gives `len` readable bytes; NULL and oversized lengths were refused.
    Ok(unsafe { slice::from_raw_parts(p, len) })
}

/// An array of `n` structures.
///
/// # Safety
/// `p` is NULL or points to `n` readable, initialised values.
pub unsafe fn array<'a, T>(p: *const T, n: u32, what: &str) -> Result<&'a [T]> {
    if n == 0 {
        return Ok(&[]);
    }
    if p.is_null() || n > 1 << 16 {
        return Err(invalid(&format!("{what} is NULL or has too many elements")));
    }
    // SAFETY: A2, the caller gives `n` initialised elements.
    Ok(unsafe { slice::from_raw_parts(p, n as usize) })
}

/// A C string that must be UTF-8.
///
/// # Safety
/// `p` is NULL or a NUL-terminated string.
pub unsafe fn text<'a>(p: *const c_char, what: &str) -> Result<&'a str> {
    if p.is_null() {
        return Err(invalid(&format!("{what} is NULL")));
    }
    // SAFETY: A2, the caller gives a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(p) };
    text.to_str().map_err(|_| invalid(&format!("{what} is not UTF-8")))
}

/// Gives a new object to the caller, as a handle. Drops it if `p` is NULL.
///
/// # Safety
/// `p` is NULL or points to writable memory for a pointer.
pub unsafe fn put_new<T>(p: *mut *mut T, object: T, what: &str) -> Result<()> {
    if p.is_null() {
        return Err(invalid(&format!("{what} is NULL")));
    }
    // SAFETY: A2, the caller gives room for a pointer.
    unsafe { p.write(Box::into_raw(Box::new(object))) };
    Ok(())
}

/// Writes a result.
///
/// # Safety
/// `p` is NULL or points to writable memory for a `T`.
pub unsafe fn put<T>(p: *mut T, value: T, what: &str) -> Result<()> {
    if p.is_null() {
        return Err(invalid(&format!("{what} is NULL")));
    }
    // SAFETY: A2, the caller gives room for a `T`.
    unsafe { p.write(value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_object_for_which_there_is_no_place_ends() {
        let counted = Arc::new(());
        // SAFETY: NULL is allowed.
        let refused = unsafe { put_new(null_mut(), counted.clone(), "object") };
        assert!(refused.is_err());
        assert_eq!(Arc::strong_count(&counted), 1);
        let mut object = null_mut();
        // SAFETY: room for a pointer.
        unsafe { put_new(&mut object, counted.clone(), "object") }.unwrap();
        assert_eq!(Arc::strong_count(&counted), 2);
        // SAFETY: it was made by `put_new`, and is given up here.
        drop(unsafe { Box::from_raw(object) });
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
