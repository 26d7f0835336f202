//! What stands at a mount point: nothing, a living mount, or one whose program died.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use forebay_source::{Error, ErrorKind, Mounts, Result};
use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};

/// The name our mounts have in the system's table.
pub(crate) const NAME: &str = "forebay-slow";

/// Makes sure that a folder at `mountpoint` can be mounted on; true when a dead mount of ours was taken away first.
pub(crate) fn clear(mountpoint: &Path) -> Result<bool> {
    let is_ours = is_ours(mountpoint);
    let found = fs::metadata(mountpoint);
    let is_dead = found.as_ref().is_err_and(is_disconnected);
    if is_dead && !is_ours {
        let error = Error::new(
            ErrorKind::Unavailable,
            "a mount of another program stands here, and that program is gone",
        );
        return Err(
            error.hint(format!("unmount it: fusermount3 -u {0}, or umount {0}", mountpoint.display()))
        );
    }
    if is_dead {
        detach(mountpoint)?;
        return clear(mountpoint).map(|_| true);
    }
    let found = found.map_err(|error| missing(error, mountpoint))?;
    if !found.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, "a mount point must be a folder"));
    }
    if is_ours {
        let error = Error::new(ErrorKind::Unavailable, "another `forebay simulate` stands here");
        return Err(error.hint("end that one, or take another folder"));
    }
    Ok(false)
}

/// Takes away the mount at `mountpoint`, even one that is in use.
pub(crate) fn detach(mountpoint: &Path) -> Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(errno) => return Err(Error::from_io(errno.into())),
    }
    // Who is not root asks the program that may.
    let mut asked = Command::new("fusermount3");
    asked.args(["-u", "-z", "--"]).arg(mountpoint).stdin(Stdio::null()).stdout(Stdio::null());
    match asked.stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => {
            let error = Error::new(ErrorKind::Denied, "the mount that stands here cannot be taken away");
            Err(error.hint("install the package fuse3, or have an administrator unmount it"))
        }
    }
}

fn missing(error: io::Error, mountpoint: &Path) -> Error {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let error = Error::from_io(error);
    if is_missing { error.hint(format!("make it first: mkdir {}", mountpoint.display())) } else { error }
}

fn is_disconnected(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
}

/// True when the topmost mount at `mountpoint` is one of ours, living or dead.
fn is_ours(mountpoint: &Path) -> bool {
    let Some(place) = place(mountpoint) else { return false };
    Mounts::of_this_process().at(&place).is_some_and(|mount| mount.source == NAME)
}

/// The path as the system's table has it; the last part may be a dead mount, which cannot be asked.
fn place(mountpoint: &Path) -> Option<PathBuf> {
    if let Ok(place) = mountpoint.canonicalize() {
        return Some(place);
    }
    let mountpoint = std::path::absolute(mountpoint).ok()?;
    Some(mountpoint.parent()?.canonicalize().ok()?.join(mountpoint.file_name()?))
}

/// True when one of two canonical paths lies in the other, or both are the same: what is mounted would show itself.
pub(crate) fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}
