//! `linkat` by an open descriptor or a path of one: a link to a copy is a link to the origin.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::ffi::CStr;

use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_FOLLOW, c_char, c_int};

use super::exported;
use crate::{
    manage::{
        inherited,
        reopened::{self, LastLink},
    },
    system::real,
};

/// Links by `link` to what a path leads to: the origin, where that is a copy.
///
/// # Safety
/// `from` is null or a text that ends with a zero byte.
unsafe fn linked(
    (folder, from): (c_int, *const c_char),
    flags: c_int,
    link: impl Fn(c_int, *const c_char, c_int) -> c_int,
) -> c_int {
    if from.is_null() || flags & (AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) == 0 {
        return link(folder, from, flags);
    }
    inherited::look_once();
    let last = if flags & AT_SYMLINK_FOLLOW != 0 { LastLink::Followed } else { LastLink::Kept };
    // SAFETY: as the caller promises.
    let origin = unsafe {
        match CStr::from_ptr(from) {
            itself if itself.is_empty() => reopened::origin_of_number(folder),
            path => reopened::origin_at(folder, path, last),
        }
    };
    match origin {
        Some(origin) => link(AT_FDCWD, origin.path.as_ptr(), AT_SYMLINK_FOLLOW),
        None => link(folder, from, flags),
    }
}

// SAFETY of all that follow: the arguments are handed on as they came, but for paths that lead to a copy, and the paths among them are texts of C.
exported! {
    fn linkat(folder: c_int, from: *const c_char, into: c_int, to: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { linked((folder, from), flags, |folder, from, flags| real::linkat(folder, from, into, to, flags)) }
    }
}
