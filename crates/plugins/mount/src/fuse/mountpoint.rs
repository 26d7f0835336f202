//! What stands at a mount point: nothing, a living mount, or one whose program died.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::Mounts;
use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};

/// The name that mounts of `forebay simulate` have in the system's table.
pub(crate) const SLOW_NAME: &str = "forebay-slow";
/// The name that mounts of `forebay mount` have there.
pub(crate) const TIERED_NAME: &str = "forebay";

/// Makes sure that a folder at `mountpoint` can be mounted on; true when a dead mount of ours was taken away first.
pub(crate) fn clear(mountpoint: &Path) -> Result<bool> {
    let found_name = name_at(mountpoint);
    let is_ours = found_name.is_some();
    let is_dead = is_dead(mountpoint);
    let found = fs::metadata(mountpoint);
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
    if let Some(name) = found_name {
        let command = if name == SLOW_NAME { "simulate" } else { "mount" };
        let error = Error::new(ErrorKind::Unavailable, format!("another `forebay {command}` stands here"));
        return Err(error.hint("end that one, or take another folder"));
    }
    Ok(false)
}

/// Refuses a mount point that would hide files.
pub(crate) fn check_empty(mountpoint: &Path) -> Result<()> {
    let mut entries = fs::read_dir(mountpoint).map_err(Error::from_io)?;
    match entries.next() {
        None => Ok(()),
        Some(_) => {
            let error = Error::invalid("the mount point is not empty: what is in it would be hidden");
            Err(error.hint("take an empty folder"))
        }
    }
}

/// True when the mount at `mountpoint` has lost its program. What the folder is may be known to the kernel for a second more; to open
/// it, the program is asked.
pub(crate) fn is_dead(mountpoint: &Path) -> bool {
    fs::read_dir(mountpoint).is_err_and(|error| is_disconnected(&error))
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

/// The name of the topmost mount at `mountpoint`, living or dead, if it is one of ours.
pub(crate) fn name_at(mountpoint: &Path) -> Option<&'static str> {
    let found = Mounts::of_this_process().at(&place(mountpoint)?)?.source.clone();
    [SLOW_NAME, TIERED_NAME].into_iter().find(|name| found == *name)
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
