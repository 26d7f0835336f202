//! Names that are given, changed and removed: `rename`, `unlink`, `link`, `mkdir`. A staged file gets another destination, or is given up.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::ffi::CStr;

use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, c_char, c_int, c_uint, mode_t};

use super::{
    exported,
    names::{answered, name, whole},
};
use crate::{
    inherited, inside, real, reopened,
    staged::{self, LastLink},
};

/// True where a staged file has the name that a call is to give to something else; the call is refused then.
///
/// # Safety
/// As [`name`].
unsafe fn is_taken(folder: c_int, path: *const c_char) -> bool {
    // SAFETY: as the caller promises.
    let is_taken = unsafe { name(path) }.is_some_and(|name| staged::made_name(folder, name));
    if is_taken {
        inside::set_errno(libc::EEXIST);
    }
    is_taken
}

/// Renames by `call`, or within the staging area.
///
/// # Safety
/// Both paths are null or texts that end with a zero byte.
unsafe fn renamed(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: c_uint,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        match (name(from.1), name(to.1)) {
            (Some(old), Some(new)) => {
                let answer = staged::renamed((from.0, old), (to.0, new), flags, call);
                answered(to.0, to.1, answered(from.0, from.1, answer))
            }
            _ => call(),
        }
    }
}

/// Removes by `call`, and gives up a staged file.
///
/// # Safety
/// As [`name`].
unsafe fn removed(folder: c_int, path: *const c_char, flags: c_int, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { name(path) } {
        Some(name) => {
            let answer = match flags & AT_REMOVEDIR {
                0 => staged::removed(folder, name, call),
                _ => staged::removed_folder(folder, name, call),
            };
            // SAFETY: as the caller promises.
            unsafe { answered(folder, path, answer) }
        }
        None => call(),
    }
}

/// Links by `link` to what a path leads to: the origin, where that is a copy.
///
/// # Safety
/// As [`name`].
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

// SAFETY of all that follow: the arguments are handed on as they came, but for names of staged files, and the paths among them are texts of C.
exported! {
    fn rename(from: *const c_char, to: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { renamed((AT_FDCWD, from), (AT_FDCWD, to), 0, || real::rename(from, to)) }
    }

    fn renameat(folder: c_int, from: *const c_char, into: c_int, to: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { renamed((folder, from), (into, to), 0, || real::renameat(folder, from, into, to)) }
    }

    fn renameat2(folder: c_int, from: *const c_char, into: c_int, to: *const c_char, flags: c_uint) -> c_int {
        // SAFETY: above.
        unsafe { renamed((folder, from), (into, to), flags, || real::renameat2(folder, from, into, to, flags)) }
    }

    fn unlink(path: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { removed(AT_FDCWD, path, 0, || real::unlink(path)) }
    }

    fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { removed(folder, path, flags, || real::unlinkat(folder, path, flags)) }
    }

    fn remove(path: *const c_char) -> c_int {
        // SAFETY: above.
        let call = || unsafe { real::remove(path) };
        // SAFETY: above.
        match unsafe { name(path) } {
            // SAFETY: above.
            Some(name) => unsafe { removed(AT_FDCWD, path, if staged::is_folder(name) { AT_REMOVEDIR } else { 0 }, call) },
            None => call(),
        }
    }

    fn rmdir(path: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { removed(AT_FDCWD, path, AT_REMOVEDIR, || real::rmdir(path)) }
    }

    fn link(from: *const c_char, to: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe {
            whole(from);
            if is_taken(AT_FDCWD, to) { -1 } else { real::link(from, to) }
        }
    }

    fn linkat(folder: c_int, from: *const c_char, into: c_int, to: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            if let Some(name) = name(from) {
                let _is_open = staged::whole(folder, name);
            }
            if is_taken(into, to) { -1 } else { linked((folder, from), flags, |folder, from, flags| real::linkat(folder, from, into, to, flags)) }
        }
    }

    fn symlink(target: *const c_char, path: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(AT_FDCWD, path) { -1 } else { answered(AT_FDCWD, path, real::symlink(target, path)) } }
    }

    fn symlinkat(target: *const c_char, folder: c_int, path: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(folder, path) { -1 } else { answered(folder, path, real::symlinkat(target, folder, path)) } }
    }

    fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(AT_FDCWD, path) { -1 } else { answered(AT_FDCWD, path, real::mkdir(path, mode)) } }
    }

    fn mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(folder, path) { -1 } else { answered(folder, path, real::mkdirat(folder, path, mode)) } }
    }
}
