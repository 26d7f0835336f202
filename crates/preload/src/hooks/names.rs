//! Functions that take the name of a file: where it is that of a staged file, they are called with the name of its image, or after the
//! file has got to its destination.
//!
//! Without staging each is the C library's own function behind one comparison.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::ffi::CStr;

use libc::{
    AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW, DIR, c_char, c_int, c_uint, c_void, gid_t, mode_t, size_t,
    ssize_t, timespec, timeval, uid_t,
};

use super::exported;
use crate::{
    inside, real,
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
unsafe fn name<'a>(path: *const c_char) -> Option<&'a CStr> {
    if !staged::is_on() || path.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { CStr::from_ptr(path) })
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
    if let Some(name) = unsafe { name(path) }
        && let Some(image) = staged::asked(folder, name, last)
    {
        let answer = call(AT_FDCWD, image.as_ptr());
        if answer != R::from(-1) || inside::errno() != libc::ENOENT {
            return answer;
        }
    }
    call(folder, path)
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
        && let Some(image) = staged::changed(folder, name, last)
    {
        let answer = call(AT_FDCWD, image.path.as_ptr());
        if answer != -1 || inside::errno() != libc::ENOENT {
            return answer;
        }
    }
    call(folder, path)
}

/// What `call` gives for `path`, or for the image of a staged file that is being written.
///
/// # Safety
/// As [`name`].
pub(super) unsafe fn on_image<R>(path: *const c_char, call: impl FnOnce(*const c_char) -> R) -> R {
    // SAFETY: as the caller promises.
    let image = unsafe { name(path) }.and_then(|name| staged::changed(AT_FDCWD, name, LastLink::Followed));
    call(image.as_ref().map_or(path, |image| image.path.as_ptr()))
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
    match unsafe { (name(from.1), name(to.1)) } {
        (Some(old), Some(new)) => staged::renamed((from.0, old), (to.0, new), flags == 0, call),
        _ => call(),
    }
}

/// Removes by `call`, and gives up a staged file.
///
/// # Safety
/// As [`name`].
unsafe fn removed(folder: c_int, path: *const c_char, flags: c_int, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { name(path) } {
        Some(name) if flags & AT_REMOVEDIR != 0 => staged::removed_folder(folder, name, call),
        Some(name) => staged::removed(folder, name, call),
        None => call(),
    }
}

/// Lists by `call` what is in folders, all staged files being there.
fn listed<R>(call: impl FnOnce() -> R) -> R {
    if staged::is_on() {
        staged::whole_everywhere();
    }
    call()
}

/// A folder that was just opened is to be listed.
///
/// # Safety
/// `folder` is null or open.
unsafe fn opened_folder(folder: *mut DIR) -> *mut DIR {
    if staged::is_on() && !folder.is_null() {
        // SAFETY: as the caller promises.
        staged::whole_folder(unsafe { libc::dirfd(folder) });
    }
    folder
}

/// The path of a staged file without links, in memory of the C library or at `into`.
///
/// # Safety
/// As [`name`]; `into` is null or has room for the longest path.
unsafe fn real_path(path: *const c_char, into: *mut c_char) -> Option<*mut c_char> {
    // SAFETY: as the caller promises.
    let found = staged::real_path(unsafe { name(path) }?)?;
    // SAFETY: the text ends with a zero byte and is no longer than paths are.
    Some(unsafe {
        if into.is_null() { libc::strdup(found.as_ptr()) } else { libc::strcpy(into, found.as_ptr()) }
    })
}

/// After a sync of `fd`, what leads to a staged file is synced as well.
fn synced(fd: c_int, answer: c_int) -> c_int {
    if answer == 0 && staged::is_on() {
        staged::synced(fd);
    }
    answer
}

use LastLink::{Followed, Kept};

// SAFETY of all that follow: the arguments are handed on as they came, but for names of staged files, and the paths among them are texts of C.
exported! {
    fn stat(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::stat(path, into)) }
    }

    fn stat64(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::stat64(path, into)) }
    }

    fn lstat(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Kept, |_, path| real::lstat(path, into)) }
    }

    fn lstat64(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Kept, |_, path| real::lstat64(path, into)) }
    }

    fn __xstat(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::__xstat(version, path, into)) }
    }

    fn __xstat64(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::__xstat64(version, path, into)) }
    }

    fn __lxstat(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Kept, |_, path| real::__lxstat(version, path, into)) }
    }

    fn __lxstat64(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Kept, |_, path| real::__lxstat64(version, path, into)) }
    }

    fn access(path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::access(path, mode)) }
    }

    fn eaccess(path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::eaccess(path, mode)) }
    }

    fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::euidaccess(path, mode)) }
    }

    fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { ask(folder, path, last_link(flags), |folder, path| real::faccessat(folder, path, mode, flags)) }
    }

    fn getxattr(path: *const c_char, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::getxattr(path, name, into, len)) }
    }

    fn lgetxattr(path: *const c_char, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Kept, |_, path| real::lgetxattr(path, name, into, len)) }
    }

    fn listxattr(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Followed, |_, path| real::listxattr(path, into, len)) }
    }

    fn llistxattr(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Kept, |_, path| real::llistxattr(path, into, len)) }
    }

    fn readlink(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, Kept, |_, path| real::readlink(path, into, len)) }
    }

    fn readlinkat(folder: c_int, path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(folder, path, Kept, |folder, path| real::readlinkat(folder, path, into, len)) }
    }

    fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char {
        // SAFETY: above.
        unsafe { real_path(path, into).unwrap_or_else(|| real::realpath(path, into)) }
    }

    fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
        // SAFETY: above.
        unsafe { real_path(path, std::ptr::null_mut()).unwrap_or_else(|| real::canonicalize_file_name(path)) }
    }

    fn chmod(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::chmod(path, mode)) }
    }

    fn fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(folder, path, last_link(flags), |folder, path| real::fchmodat(folder, path, mode, flags)) }
    }

    fn chown(path: *const c_char, user: uid_t, group: gid_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::chown(path, user, group)) }
    }

    fn lchown(path: *const c_char, user: uid_t, group: gid_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lchown(path, user, group)) }
    }

    fn fchownat(folder: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            change(folder, path, last_link(flags), |folder, path| real::fchownat(folder, path, user, group, flags))
        }
    }

    fn utime(path: *const c_char, times: *const c_void) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::utime(path, times)) }
    }

    fn utimes(path: *const c_char, times: *const timeval) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::utimes(path, times)) }
    }

    fn lutimes(path: *const c_char, times: *const timeval) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lutimes(path, times)) }
    }

    fn utimensat(folder: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(folder, path, last_link(flags), |folder, path| real::utimensat(folder, path, times, flags)) }
    }

    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::setxattr(path, name, value, len, flags)) }
    }

    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lsetxattr(path, name, value, len, flags)) }
    }

    fn removexattr(path: *const c_char, name: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::removexattr(path, name)) }
    }

    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lremovexattr(path, name)) }
    }

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
        unsafe { removed(AT_FDCWD, path, 0, || real::remove(path)) }
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
            if is_taken(into, to) { -1 } else { real::linkat(folder, from, into, to, flags) }
        }
    }

    fn symlink(target: *const c_char, path: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(AT_FDCWD, path) { -1 } else { real::symlink(target, path) } }
    }

    fn symlinkat(target: *const c_char, folder: c_int, path: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(folder, path) { -1 } else { real::symlinkat(target, folder, path) } }
    }

    fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(AT_FDCWD, path) { -1 } else { real::mkdir(path, mode) } }
    }

    fn mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { if is_taken(folder, path) { -1 } else { real::mkdirat(folder, path, mode) } }
    }

    fn opendir(path: *const c_char) -> *mut DIR {
        // SAFETY: above.
        unsafe { opened_folder(real::opendir(path)) }
    }

    fn fdopendir(fd: c_int) -> *mut DIR {
        // SAFETY: above.
        unsafe { opened_folder(real::fdopendir(fd)) }
    }

    fn scandir(path: *const c_char, names: *mut c_void, choose: *const c_void, compare: *const c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::scandir(path, names, choose, compare) })
    }

    fn scandir64(path: *const c_char, names: *mut c_void, choose: *const c_void, compare: *const c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::scandir64(path, names, choose, compare) })
    }

    fn glob(pattern: *const c_char, flags: c_int, on_error: *const c_void, into: *mut c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::glob(pattern, flags, on_error, into) })
    }

    fn glob64(pattern: *const c_char, flags: c_int, on_error: *const c_void, into: *mut c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::glob64(pattern, flags, on_error, into) })
    }

    fn nftw(path: *const c_char, visit: *const c_void, most: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::nftw(path, visit, most, flags) })
    }

    fn nftw64(path: *const c_char, visit: *const c_void, most: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::nftw64(path, visit, most, flags) })
    }

    fn fts_open(paths: *const *mut c_char, options: c_int, compare: *const c_void) -> *mut c_void {
        // SAFETY: above.
        listed(|| unsafe { real::fts_open(paths, options, compare) })
    }

    fn posix_spawn(
        pid: *mut c_int,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *mut c_char,
        variables: *const *mut c_char,
    ) -> c_int {
        // SAFETY: above.
        unsafe {
            whole(path);
            real::posix_spawn(pid, path, actions, attributes, arguments, variables)
        }
    }

    fn posix_spawnp(
        pid: *mut c_int,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *mut c_char,
        variables: *const *mut c_char,
    ) -> c_int {
        // SAFETY: above.
        unsafe {
            whole(path);
            real::posix_spawnp(pid, path, actions, attributes, arguments, variables)
        }
    }

    fn fsync(fd: c_int) -> c_int {
        // SAFETY: above.
        synced(fd, unsafe { real::fsync(fd) })
    }

    fn fdatasync(fd: c_int) -> c_int {
        // SAFETY: above.
        synced(fd, unsafe { real::fdatasync(fd) })
    }
}
