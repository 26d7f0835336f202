//! The calls that a watcher sees.

use std::{ffi::OsStr, os::fd::BorrowedFd, path::Path};

use rustix::fs::{Mode, OFlags};

/// A system call that is about to be made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the arguments of the calls")]
pub enum Call<'a> {
    Open {
        directory: BorrowedFd<'a>,
        name: &'a Path,
        flags: OFlags,
        mode: Mode,
    },
    Write {
        file: BorrowedFd<'a>,
        offset: u64,
        parts: &'a [&'a [u8]],
    },
    SetLen {
        file: BorrowedFd<'a>,
        len: u64,
    },
    Sync {
        file: BorrowedFd<'a>,
    },
    SyncFileSystem {
        file: BorrowedFd<'a>,
    },
    Rename {
        from_directory: BorrowedFd<'a>,
        from: &'a Path,
        to_directory: BorrowedFd<'a>,
        to: &'a Path,
    },
    Link {
        directory: BorrowedFd<'a>,
        from: &'a Path,
        to: &'a Path,
    },
    Remove {
        directory: BorrowedFd<'a>,
        name: &'a Path,
        is_directory: bool,
    },
    MakeDirectory {
        directory: BorrowedFd<'a>,
        name: &'a Path,
    },
    Symlink {
        target: &'a Path,
        directory: BorrowedFd<'a>,
        name: &'a Path,
    },
    SetMode {
        file: BorrowedFd<'a>,
        mode: Mode,
    },
    SetOwner {
        file: BorrowedFd<'a>,
    },
    SetXattr {
        file: BorrowedFd<'a>,
        name: &'a OsStr,
        value: &'a [u8],
    },
    RemoveXattr {
        file: BorrowedFd<'a>,
        name: &'a OsStr,
    },
    SetTimes {
        file: BorrowedFd<'a>,
    },
    Read {
        file: BorrowedFd<'a>,
    },
    /// A call that only looks: `stat`, `readdir`, `access`, `getxattr` and their like.
    Look {
        what: &'static str,
    },
}
