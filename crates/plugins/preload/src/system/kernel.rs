//! System calls on descriptors by their numbers; they go to the kernel at once and pass no hook.

#![expect(unsafe_code, reason = "the program names descriptors by number, open or not")]

use std::{
    ffi::{CStr, OsString},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
        unix::ffi::OsStringExt,
    },
    path::PathBuf,
};

use forebay_process::{hidden_numbers, record_locks};
use rustix::{
    fs::{AtFlags, FileType, OFlags, SeekFrom, Statx, StatxFlags},
    io::{DupFlags, FdFlags},
};

/// Which bytes a regular file has, as far as the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) len: u64,
    modified: (i64, u32),
}

impl KernelIdentity {
    /// True when both are the same file, with whichever bytes.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The descriptor `fd`, for the length of a call.
pub(crate) fn borrowed<'a>(fd: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: a number that is not open makes a call fail; nothing is read or closed by it.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// What the regular file is that `fd` is open on, as far as this machine knows; nothing for anything else. No server is asked.
pub(crate) fn identity(fd: RawFd) -> Option<KernelIdentity> {
    ask(fd, AtFlags::STATX_DONT_SYNC)
}

/// The same, as the file's own file system says it now.
pub(crate) fn current_identity(fd: RawFd) -> Option<KernelIdentity> {
    ask(fd, AtFlags::empty())
}

/// What the regular file at `path` is now.
pub(crate) fn identity_at(path: &CStr) -> Option<KernelIdentity> {
    regular(&rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), WANTED).ok()?)
}

/// What the regular file is that `path` leads to from `folder`, as far as this machine knows.
pub(crate) fn identity_below(folder: RawFd, path: &CStr, how: AtFlags) -> Option<KernelIdentity> {
    let how = how | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    regular(&rustix::fs::statx(self::folder(folder)?, path, how, WANTED).ok()?)
}

/// The folder that paths of a call begin at.
pub(crate) fn folder<'a>(folder: RawFd) -> Option<BorrowedFd<'a>> {
    if folder == libc::AT_FDCWD { Some(rustix::fs::CWD) } else { borrowed(folder) }
}

const WANTED: StatxFlags =
    StatxFlags::TYPE.union(StatxFlags::INO).union(StatxFlags::SIZE).union(StatxFlags::MTIME);

fn ask(fd: RawFd, how: AtFlags) -> Option<KernelIdentity> {
    regular(&rustix::fs::statx(borrowed(fd)?, c"", AtFlags::EMPTY_PATH | how, WANTED).ok()?)
}

fn regular(found: &Statx) -> Option<KernelIdentity> {
    (FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile).then(|| KernelIdentity {
        device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        len: found.stx_size,
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
    })
}

/// The path that the kernel knows the open file by, with all links resolved; a file without a name has none that leads to it.
pub(crate) fn path_of(fd: RawFd) -> Option<PathBuf> {
    let link = rustix::fs::readlink(link_of(fd), Vec::with_capacity(256)).ok()?;
    Some(PathBuf::from(OsString::from_vec(link.into_bytes())))
}

/// The path by which `fd` is opened once more, as an open file description of its own.
pub(crate) fn link_of(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}

/// The flags `fd` was opened with.
pub(crate) fn open_flags(fd: RawFd) -> Option<OFlags> {
    rustix::fs::fcntl_getfl(borrowed(fd)?).ok()
}

/// Whether `fd` is closed on `exec`.
pub(crate) fn is_closed_on_exec(fd: RawFd) -> Option<bool> {
    Some(rustix::io::fcntl_getfd(borrowed(fd)?).ok()?.contains(FdFlags::CLOEXEC))
}

/// Where the next `read` of `fd` begins.
pub(crate) fn position(fd: RawFd) -> Option<u64> {
    rustix::fs::seek(borrowed(fd)?, SeekFrom::Current(0)).ok()
}

/// Has the next `read` of `fd` begin at `at`.
pub(crate) fn set_position(fd: RawFd, at: u64) -> bool {
    borrowed(fd).is_some_and(|fd| rustix::fs::seek(fd, SeekFrom::Start(at)).is_ok())
}

/// Has the next `read` of `fd` begin `by` bytes later.
pub(crate) fn move_position(fd: RawFd, by: i64) -> bool {
    borrowed(fd).is_some_and(|fd| rustix::fs::seek(fd, SeekFrom::Current(by)).is_ok())
}

/// Another descriptor of the open file, under a number that the program does not use and closed on `exec`; nothing where none is left, or where the
/// program has a record lock on the file, so that this one could not be closed.
pub(crate) fn kept_beside(fd: RawFd) -> Option<OwnedFd> {
    let file = borrowed(fd)?;
    if record_locks::is_locked(file) {
        return None;
    }
    hidden_numbers::hidden(file).ok()
}

/// A number that differs for most files, of whichever kind; nothing where `fd` is not open.
pub(crate) fn inode_hash(fd: RawFd) -> Option<u64> {
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(borrowed(fd)?, c"", how, StatxFlags::INO).ok()?;
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Some(found.stx_ino ^ device.rotate_left(32))
}

/// Lays the open file of `from` over the number `onto`, which keeps its flag for `exec`.
pub(crate) fn lay_over(from: RawFd, onto: RawFd) -> bool {
    let (Some(source), Some(target)) = (borrowed(from), borrowed(onto)) else { return false };
    let Ok(flags) = rustix::io::fcntl_getfd(target) else { return false };
    let flags = if flags.contains(FdFlags::CLOEXEC) { DupFlags::CLOEXEC } else { DupFlags::empty() };
    // SAFETY: the number is the program's and stays so: it is not closed here.
    let mut target = unsafe { OwnedFd::from_raw_fd(onto) };
    let laid = rustix::io::dup3(source, &mut target, flags);
    let _number = target.into_raw_fd();
    laid.is_ok()
}

/// 0 where a number is left, and else -1 with the kernel's error.
pub(crate) fn look_for_a_number() -> libc::c_int {
    // SAFETY: the calls take numbers; what is closed is what was made, which nobody else knows of.
    unsafe {
        let made = libc::syscall(libc::SYS_eventfd2, 0, libc::O_CLOEXEC);
        if made < 0 {
            return -1;
        }
        libc::syscall(libc::SYS_close, made);
        0
    }
}

/// Reads from `file` at `at`.
pub(crate) fn pread(file: &OwnedFd, into: &mut [u8], at: u64) -> Option<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match rustix::io::pread(file, &mut into[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(filled)
}

/// Writes to `fd`, as much as it takes.
pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> Result<usize, rustix::io::Errno> {
    rustix::io::write(borrowed(fd).ok_or(rustix::io::Errno::BADF)?, bytes)
}

/// The bytes of the program's memory at `address`; nothing where there is none, which is for the kernel to refuse.
pub(crate) fn read_memory<const LEN: usize>(address: usize) -> Option<[u8; LEN]> {
    let mut bytes = [0; LEN];
    let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: LEN };
    let from = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: LEN };
    // SAFETY: the call writes to memory of our own, and reads where there is memory.
    let len = unsafe { libc::process_vm_readv(libc::getpid(), &raw const into, 1, &raw const from, 1, 0) };
    if len < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT) && address != 0 {
        // The call is forbidden here.
        // SAFETY: the program passes the address of as many bytes.
        return Some(unsafe { std::ptr::with_exposed_provenance::<[u8; LEN]>(address).read_unaligned() });
    }
    (usize::try_from(len) == Ok(LEN)).then_some(bytes)
}

/// The number of a descriptor of ours.
pub(crate) fn number(file: &impl AsRawFd) -> RawFd {
    file.as_raw_fd()
}

/// Closes all descriptors from the number `first` on, as far as the limit of this process reaches.
pub(crate) fn close_from(first: RawFd) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
    for fd in first.max(0)..RawFd::try_from(most).unwrap_or(RawFd::MAX) {
        // SAFETY: the program asks for it; a number that is not open is refused.
        unsafe { libc::close(fd) };
    }
}
