//! Calls by path: a path that leads to a copy (`/proc/self/fd/N` of a descriptor that is open on one) is replaced by the origin's.
//!
//! Where this process has no copy open each call is the C library's own function behind one comparison.

#![expect(unsafe_code, reason = "reads names that programs pass as texts of C")]

use std::ffi::CStr;

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, c_char, c_int};

use crate::{
    engine::inside,
    manage::{
        self, inherited,
        reopened::{self, LastLink},
    },
};

/// What is done with a link at the end of a path, by the flags of a call.
pub(super) fn last_link(flags: c_int) -> LastLink {
    if flags & AT_SYMLINK_NOFOLLOW != 0 { LastLink::Kept } else { LastLink::Followed }
}

/// Makes `call`, which asks something of the file at `path`.
///
/// # Safety
/// `path` is null or a text that ends with a zero byte.
#[inline]
pub(super) unsafe fn ask<R>(
    folder: c_int,
    path: *const c_char,
    call: impl Fn(c_int, *const c_char) -> R,
) -> R {
    if path.is_null() {
        return call(folder, path);
    }
    // SAFETY: as the caller promises.
    match reopened::origin_named(unsafe { CStr::from_ptr(path) }) {
        Some(origin) => call(AT_FDCWD, origin.path.as_ptr()),
        None => call(folder, path),
    }
}

/// Makes `call`, which changes the file at `path`.
///
/// # Safety
/// As [`ask`].
#[inline]
pub(super) unsafe fn change(
    folder: c_int,
    path: *const c_char,
    last: LastLink,
    call: impl Fn(c_int, *const c_char) -> c_int,
) -> c_int {
    if path.is_null() {
        return call(folder, path);
    }
    inherited::look_once();
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(path) };
    if text.is_empty() {
        // The call is about the descriptor itself. The file is held until it is done: it keeps the number open.
        let beside = inside::run(|| manage::beside_copy(folder));
        return call(beside.as_ref().map_or(folder, |(number, _file)| *number), path);
    }
    match reopened::origin_at(folder, text, last) {
        Some(origin) => call(AT_FDCWD, origin.path.as_ptr()),
        None => call(folder, path),
    }
}
