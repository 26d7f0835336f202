//! The functions in whose place the hooks stand: the next ones of their names, found by `dlsym(RTLD_NEXT)` when the library is
//! loaded, or when first called if that is earlier.
//!
//! Nothing is allocated and no lock is taken: a hook may run before the C library is ready.

#![expect(unsafe_code, reason = "calls functions of the C library by their addresses")]

use std::{
    ffi::CStr,
    mem,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

use libc::{
    DIR, FILE, c_char, c_int, c_uint, c_ulong, c_void, gid_t, iovec, mmsghdr, mode_t, msghdr, off_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec, timeval, uid_t,
};

/// What a function answers that this system does not have, with `ENOSYS`.
trait MissingAnswer {
    const MISSING: Self;
}

impl MissingAnswer for c_int {
    const MISSING: Self = -1;
}

impl MissingAnswer for ssize_t {
    const MISSING: Self = -1;
}

impl MissingAnswer for off_t {
    const MISSING: Self = -1;
}

impl<T> MissingAnswer for *mut T {
    const MISSING: Self = null_mut();
}

/// The address of `name` in the libraries behind this one; null where none has it.
#[cold]
fn find(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; the call only looks names up.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    place.store(address, Relaxed);
    address
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        /// Where the addresses are, by name.
        static PLACES: &[(&AtomicPtr<c_void>, &CStr)] = &[$((&places::$name, names::$name)),*];

        #[expect(non_upper_case_globals, reason = "they have the names of functions")]
        mod places {
            use super::{AtomicPtr, c_void, null_mut};
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(null_mut());)*
        }

        #[expect(non_upper_case_globals, reason = "they have the names of functions")]
        mod names {
            use super::CStr;
            $(pub(super) const $name: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };)*
        }

        $(
            /// The C library's function of this name.
            ///
            /// # Safety
            /// The arguments are what that function asks for.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $kind),*) -> $answer {
                let mut address = places::$name.load(Relaxed);
                if address.is_null() {
                    address = find(&places::$name, names::$name);
                    if address.is_null() {
                        return missing();
                    }
                }
                // SAFETY: the address is that of the function with this name and signature in the C library.
                let function: unsafe extern "C" fn($($kind),*) -> $answer = unsafe { mem::transmute(address) };
                // SAFETY: the caller passes what the function asks for.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

/// Finds all of them when the library is loaded: `dlsym` takes locks, which a signal handler or the child of a fork must not wait for.
extern "C" fn find_all() {
    for (place, name) in PLACES {
        if place.load(Relaxed).is_null() {
            find(place, name);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIND_ALL: extern "C" fn() = find_all;

fn missing<T: MissingAnswer>() -> T {
    // SAFETY: the address is that of this thread's own number.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    T::MISSING
}

functions! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    __open_2(path: *const c_char, flags: c_int) -> c_int;
    __open64_2(path: *const c_char, flags: c_int) -> c_int;
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    creat(path: *const c_char, mode: mode_t) -> c_int;
    creat64(path: *const c_char, mode: mode_t) -> c_int;
    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fclose(stream: *mut FILE) -> c_int;
    read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    pread(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t;
    pread64(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t;
    __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    __pread_chk(fd: c_int, into: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t;
    __pread64_chk(fd: c_int, into: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t;
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t;
    pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    preadv(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    preadv64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    preadv2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    preadv64v2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    lseek(fd: c_int, offset: off_t, from: c_int) -> off_t;
    lseek64(fd: c_int, offset: off_t, from: c_int) -> off_t;
    fstat(fd: c_int, into: *mut c_void) -> c_int;
    fstat64(fd: c_int, into: *mut c_void) -> c_int;
    __fxstat(version: c_int, fd: c_int, into: *mut c_void) -> c_int;
    __fxstat64(version: c_int, fd: c_int, into: *mut c_void) -> c_int;
    fstatat(folder: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int;
    fstatat64(folder: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int;
    __fxstatat(version: c_int, folder: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int;
    __fxstatat64(version: c_int, folder: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int;
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut c_void) -> c_int;
    fstatfs(fd: c_int, into: *mut c_void) -> c_int;
    fstatfs64(fd: c_int, into: *mut c_void) -> c_int;
    fstatvfs(fd: c_int, into: *mut c_void) -> c_int;
    fstatvfs64(fd: c_int, into: *mut c_void) -> c_int;
    fchmod(fd: c_int, mode: mode_t) -> c_int;
    fchown(fd: c_int, user: uid_t, group: gid_t) -> c_int;
    futimens(fd: c_int, times: *const timespec) -> c_int;
    futimes(fd: c_int, times: *const timeval) -> c_int;
    fgetxattr(fd: c_int, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t;
    flistxattr(fd: c_int, into: *mut c_char, len: size_t) -> ssize_t;
    fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int;
    fremovexattr(fd: c_int, name: *const c_char) -> c_int;
    copy_file_range(from: c_int, at: *mut off_t, to: c_int, into: *mut off_t, len: size_t, flags: c_uint) -> ssize_t;
    sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t;
    sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t;
    mkstemp(template: *mut c_char) -> c_int;
    mkstemp64(template: *mut c_char) -> c_int;
    mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    mkostemp64(template: *mut c_char, flags: c_int) -> c_int;
    mkstemps(template: *mut c_char, suffix: c_int) -> c_int;
    mkstemps64(template: *mut c_char, suffix: c_int) -> c_int;
    mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    execvp(path: *const c_char, arguments: *const *const c_char) -> c_int;
    execve(path: *const c_char, arguments: *const *const c_char, variables: *const *const c_char) -> c_int;
    execvpe(path: *const c_char, arguments: *const *const c_char, variables: *const *const c_char) -> c_int;
    fexecve(fd: c_int, arguments: *const *const c_char, variables: *const *const c_char) -> c_int;
    mmap(at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
    mmap64(at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
    munmap(at: *mut c_void, len: size_t) -> c_int;
    mprotect(at: *mut c_void, len: size_t, protection: c_int) -> c_int;
    pkey_mprotect(at: *mut c_void, len: size_t, protection: c_int, key: c_int) -> c_int;
    mremap(at: *mut c_void, len: size_t, new_len: size_t, flags: c_int, new: *mut c_void) -> *mut c_void;
    ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int;
    sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    execveat(folder: c_int, path: *const c_char, arguments: *const *const c_char, variables: *const *const c_char, flags: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, onto: c_int) -> c_int;
    dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
    flock(fd: c_int, operation: c_int) -> c_int;
    lockf(fd: c_int, command: c_int, len: off_t) -> c_int;
    lockf64(fd: c_int, command: c_int, len: off_t) -> c_int;
    posix_fadvise(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int;
    posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int;
    truncate(path: *const c_char, len: off_t) -> c_int;
    truncate64(path: *const c_char, len: off_t) -> c_int;
    stat(path: *const c_char, into: *mut c_void) -> c_int;
    stat64(path: *const c_char, into: *mut c_void) -> c_int;
    lstat(path: *const c_char, into: *mut c_void) -> c_int;
    lstat64(path: *const c_char, into: *mut c_void) -> c_int;
    __xstat(version: c_int, path: *const c_char, into: *mut c_void) -> c_int;
    __xstat64(version: c_int, path: *const c_char, into: *mut c_void) -> c_int;
    __lxstat(version: c_int, path: *const c_char, into: *mut c_void) -> c_int;
    __lxstat64(version: c_int, path: *const c_char, into: *mut c_void) -> c_int;
    statfs(path: *const c_char, into: *mut c_void) -> c_int;
    statfs64(path: *const c_char, into: *mut c_void) -> c_int;
    statvfs(path: *const c_char, into: *mut c_void) -> c_int;
    statvfs64(path: *const c_char, into: *mut c_void) -> c_int;
    access(path: *const c_char, mode: c_int) -> c_int;
    eaccess(path: *const c_char, mode: c_int) -> c_int;
    euidaccess(path: *const c_char, mode: c_int) -> c_int;
    faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    chmod(path: *const c_char, mode: mode_t) -> c_int;
    fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int;
    chown(path: *const c_char, user: uid_t, group: gid_t) -> c_int;
    lchown(path: *const c_char, user: uid_t, group: gid_t) -> c_int;
    fchownat(folder: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int) -> c_int;
    utime(path: *const c_char, times: *const c_void) -> c_int;
    utimes(path: *const c_char, times: *const timeval) -> c_int;
    lutimes(path: *const c_char, times: *const timeval) -> c_int;
    futimesat(folder: c_int, path: *const c_char, times: *const timeval) -> c_int;
    utimensat(folder: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int;
    getxattr(path: *const c_char, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t;
    lgetxattr(path: *const c_char, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t;
    listxattr(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t;
    llistxattr(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t;
    setxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int;
    lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int;
    removexattr(path: *const c_char, name: *const c_char) -> c_int;
    lremovexattr(path: *const c_char, name: *const c_char) -> c_int;
    readlink(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t;
    readlinkat(folder: c_int, path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t;
    linkat(folder: c_int, from: *const c_char, into: c_int, to: *const c_char, flags: c_int) -> c_int;
    opendir(path: *const c_char) -> *mut DIR;
    pipe(into: *mut c_int) -> c_int;
    pipe2(into: *mut c_int, flags: c_int) -> c_int;
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    socketpair(domain: c_int, kind: c_int, protocol: c_int, into: *mut c_int) -> c_int;
    accept(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    accept4(socket: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    eventfd(first: c_uint, flags: c_int) -> c_int;
    epoll_create(size: c_int) -> c_int;
    epoll_create1(flags: c_int) -> c_int;
    timerfd_create(clock: c_int, flags: c_int) -> c_int;
    signalfd(fd: c_int, signals: *const c_void, flags: c_int) -> c_int;
    inotify_init() -> c_int;
    inotify_init1(flags: c_int) -> c_int;
    memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    chdir(path: *const c_char) -> c_int;
    fchdir(fd: c_int) -> c_int;
}
