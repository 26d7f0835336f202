//! Streams: the C library opens and reads their files by calls that no hook sees, so a copy is laid over the number afterwards.
//!
//! A stream whose file has no whole copy yet reads the origin, and the file is placed for the next one.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::ffi::CStr;

use libc::{AT_FDCWD, FILE, c_char, c_int};

use super::{
    exported,
    numbers::{keep_a_number_free, with_a_number},
};
use crate::{
    engine::{inside, prefix},
    manage::{
        self, OpenedBy,
        copy_origins::OriginPath,
        inherited,
        reopened::{self, LastLink},
    },
    system::real,
};

/// Manages the file of a stream that was just opened.
///
/// # Safety
/// `path` is null or a text that ends with a zero byte; `stream` is null or open.
unsafe fn opened(path: *const c_char, stream: *mut FILE) -> *mut FILE {
    if stream.is_null() || path.is_null() {
        return stream;
    }
    // SAFETY: as the caller promises.
    if prefix::may_cover(unsafe { CStr::from_ptr(path) }) {
        // SAFETY: the stream is open, and has read nothing yet.
        manage::opened(unsafe { libc::fileno(stream) }, OpenedBy::Stream);
    }
    stream
}

/// Opens a stream by `open`, and manages its file; a path that names a descriptor on a copy leads to the origin.
///
/// # Safety
/// `path` is null or a text that ends with a zero byte; `open` gives a stream that is open, or null.
unsafe fn opened_by(path: *const c_char, open: impl Fn(*const c_char) -> *mut FILE) -> *mut FILE {
    // SAFETY: as the caller promises.
    let named = if path.is_null() { None } else { reopened::named(unsafe { CStr::from_ptr(path) }) };
    // SAFETY: as the caller promises.
    let origin = unsafe { origin(path) };
    if named.is_none() && origin.is_none() {
        // SAFETY: as the caller promises.
        return unsafe { opened(path, open(path)) };
    }
    // SAFETY: the stream is open, or null.
    unsafe { opened_again(open(origin.as_ref().map_or(path, |origin| origin.path.as_ptr()))) }
}

/// Where `path` is to lead, if it leads to a copy.
///
/// # Safety
/// `path` is null or a text that ends with a zero byte.
unsafe fn origin(path: *const c_char) -> Option<OriginPath> {
    inherited::look_once();
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let path = unsafe { CStr::from_ptr(path) };
    reopened::origin_at(AT_FDCWD, path, LastLink::Followed)
}

/// Manages the file of a stream that was just opened by a name that does not tell which file it is.
///
/// # Safety
/// `stream` is null or open.
unsafe fn opened_again(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() && prefix::is_on() {
        // SAFETY: as the caller promises.
        manage::opened(unsafe { libc::fileno(stream) }, OpenedBy::Stream);
    }
    stream
}

/// Opens the file of `stream` anew by `open`, which is the C library's own and asks the kernel for the number.
///
/// # Safety
/// `stream` is null or open.
unsafe fn opened_anew(
    path: *const c_char,
    stream: *mut FILE,
    open: impl Fn(*const c_char) -> *mut FILE,
) -> *mut FILE {
    // SAFETY: as the caller promises.
    unsafe {
        // A stream that could not be opened anew is closed: it cannot be tried once more.
        keep_a_number_free();
        if path.is_null() && !stream.is_null() {
            // The number leads to the origin while it is opened once more.
            manage::unlay(libc::fileno(stream));
            closing(stream);
            return opened_again(open(path));
        }
        // The descriptor that the path names may be that of the stream itself.
        let origin = origin(path);
        closing(stream);
        match origin {
            Some(origin) => opened_again(open(origin.path.as_ptr())),
            None => opened_by(path, open),
        }
    }
}

/// The file of `stream` is about to be closed.
///
/// # Safety
/// `stream` is null or open.
unsafe fn closing(stream: *mut FILE) {
    if !stream.is_null() {
        // A stream without a descriptor is an error here, and none of the call.
        let errno = inside::errno();
        // SAFETY: as the caller promises.
        manage::closing(unsafe { libc::fileno(stream) });
        inside::set_errno(errno);
    }
}

// SAFETY of all that follow: the arguments are handed on as they came: texts of C, and a stream that is open.
exported! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
        // SAFETY: above.
        unsafe { opened_by(path, |path| with_a_number(|| real::fopen(path, mode))) }
    }

    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
        // SAFETY: above.
        unsafe { opened_by(path, |path| with_a_number(|| real::fopen64(path, mode))) }
    }

    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        // SAFETY: above.
        unsafe { opened_anew(path, stream, |path| real::freopen(path, mode, stream)) }
    }

    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        // SAFETY: above.
        unsafe { opened_anew(path, stream, |path| real::freopen64(path, mode, stream)) }
    }

    fn fclose(stream: *mut FILE) -> c_int {
        // SAFETY: above.
        unsafe {
            closing(stream);
            real::fclose(stream)
        }
    }
}
