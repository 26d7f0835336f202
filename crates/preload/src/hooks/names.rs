//! Names of files in calls: where one is that of a staged file, a call is made with the name of its image, or after the file has got to
//! its destination.
//!
//! Without staging each call is the C library's own function behind one comparison.

#![expect(unsafe_code, reason = "reads names that programs pass as texts of C")]

use std::ffi::CStr;

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, c_char, c_int};

use crate::{
    inherited, inside, manage, reopened,
    staged::{self, LastLink},
};

/// What is done with a link at the end of a path, by the flags of a call.
pub(super) fn last_link(flags: c_int) -> LastLink {
    if flags & AT_SYMLINK_NOFOLLOW != 0 { LastLink::Kept } else { LastLink::Followed }
}

/// The text at `path`, where staging is on.
///
/// # Safety
/// `path` is null or a text that ends with a zero byte.
#[inline]
pub(super) unsafe fn name<'a>(path: *const c_char) -> Option<&'a CStr> {
    if !staged::is_on() || path.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { CStr::from_ptr(path) })
}

/// A plain call on `path` has failed: where a staged file stands for a folder in it, the kernel has found nothing, and would have said that it is no folder.
///
/// # Safety
/// As [`name`].
#[cold]
pub(super) unsafe fn failed(folder: c_int, path: *const c_char) {
    if inside::errno() != libc::ENOENT {
        return;
    }
    // SAFETY: as the caller promises.
    if unsafe { name(path) }.is_some_and(|name| staged::has_file_for_folder(folder, name)) {
        inside::set_errno(libc::ENOTDIR);
    }
}

/// What a plain call on `path` gave, with the error that the kernel has for it.
///
/// # Safety
/// As [`name`].
#[inline]
pub(super) unsafe fn answered<R: PartialEq + From<i8>>(folder: c_int, path: *const c_char, answer: R) -> R {
    if answer == R::from(-1) && staged::is_on() {
        // SAFETY: as the caller promises.
        unsafe { failed(folder, path) };
    }
    answer
}

/// What `call` gives for `path`, or for the image of a staged file.
///
/// # Safety
/// As [`name`].
#[inline]
pub(super) unsafe fn ask<R: PartialEq + From<i8>>(
    folder: c_int,
    path: *const c_char,
    last: LastLink,
    call: impl Fn(c_int, *const c_char) -> R,
) -> R {
    // SAFETY: as the caller promises.
    if let Some(name) = unsafe { name(path) } {
        let mut asked = None;
        // One that is gone was replaced by another, or is at its destination.
        while let Some(image) = staged::asked(folder, name, last).filter(|now| asked.as_ref() != Some(now)) {
            let answer = call(AT_FDCWD, image.as_ptr());
            if answer != R::from(-1) || inside::errno() != libc::ENOENT {
                return answer;
            }
            asked = Some(image);
        }
    }
    if path.is_null() {
        return call(folder, path);
    }
    // SAFETY: as the caller promises.
    let origin = reopened::origin_named(unsafe { CStr::from_ptr(path) });
    if let Some(origin) = origin {
        return call(AT_FDCWD, origin.path.as_ptr());
    }
    let answer = call(folder, path);
    // SAFETY: as the caller promises.
    unsafe { answered(folder, path, answer) }
}

/// The same for a call that changes the file.
///
/// # Safety
/// As [`name`].
#[inline]
pub(super) unsafe fn change(
    folder: c_int,
    path: *const c_char,
    last: LastLink,
    call: impl Fn(c_int, *const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    if let Some(name) = unsafe { name(path) }
        && let Some(answer) = staged::changed(folder, name, last, |image| call(AT_FDCWD, image.as_ptr()))
        && (answer != Ok(-1) || inside::errno() != libc::ENOENT)
    {
        return answer.unwrap_or_else(inside::refused);
    }
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
        None => {
            let answer = call(folder, path);
            // SAFETY: as the caller promises.
            unsafe { answered(folder, path, answer) }
        }
    }
}

/// What `call` gives for `path`, or for the image of a staged file that is being written.
///
/// # Safety
/// As [`name`].
pub(super) unsafe fn on_image<R>(path: *const c_char, call: impl Fn(*const c_char) -> R) -> R {
    // SAFETY: as the caller promises.
    let name = unsafe { name(path) };
    let on_image = |name| staged::changed(AT_FDCWD, name, LastLink::Followed, |image| call(image.as_ptr()));
    name.and_then(on_image).and_then(Result::ok).unwrap_or_else(|| call(path))
}

/// Has a staged file be at its destination, as far as it can be.
///
/// # Safety
/// As [`name`].
pub(super) unsafe fn whole(path: *const c_char) {
    // SAFETY: as the caller promises.
    if let Some(name) = unsafe { name(path) } {
        let _is_open = staged::whole(AT_FDCWD, name);
    }
}
