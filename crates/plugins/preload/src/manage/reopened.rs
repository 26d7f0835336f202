//! Paths by which the kernel names descriptors that are open (`/proc/self/fd/N`, `/dev/fd/N`): where a number is open on a copy, such a path
//! leads to the origin.
//!
//! What asks something of a file goes by the usual spellings of such paths. What may change a file does not: the kernel is asked which file a path
//! leads to, and device and inode of that are compared with those of copies.

use std::{
    ffi::{CStr, CString},
    os::fd::RawFd,
};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::{
    engine::inside,
    manage::{
        self,
        copy_devices::{knows_any, may_hold_copies},
        copy_origins::{OriginPath, origin_beside, origin_of_tier_file},
        slots::{self, SlotKind},
    },
    system::kernel,
};

/// Treatment of a symbolic link that is the last name of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// It is followed.
    Followed,
    /// The call is about the link itself.
    Kept,
}

/// Where `path` is to lead, if it leads to a copy: the kernel is asked, however it is spelled.
#[inline]
pub(crate) fn origin_at(folder: RawFd, path: &CStr, last: LastLink) -> Option<OriginPath> {
    if knows_any() { resolved(folder, path, last) } else { None }
}

#[cold]
fn resolved(folder: RawFd, path: &CStr, last: LastLink) -> Option<OriginPath> {
    inside::run(|| {
        let (asked, opened) = match last {
            LastLink::Followed => (AtFlags::empty(), OFlags::empty()),
            LastLink::Kept => (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW),
        };
        let found = kernel::identity_below(folder, path, asked)?;
        if !may_hold_copies(found.device) {
            return None;
        }
        if let Some(origin) = origin_beside(&found) {
            return Some(origin);
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC | opened;
        let opened = rustix::fs::openat(kernel::folder(folder)?, path, flags, Mode::empty()).ok()?;
        origin_of_tier_file(&kernel::path_of(kernel::number(&opened))?)
    })
}

/// The descriptor of this process that `path` names.
#[inline]
pub(crate) fn named(path: &CStr) -> Option<RawFd> {
    let bytes = path.to_bytes();
    if !bytes.starts_with(b"/dev/") && !bytes.starts_with(b"/proc/") {
        return None;
    }
    number_in(bytes)
}

#[cold]
fn number_in(path: &[u8]) -> Option<RawFd> {
    let text = std::str::from_utf8(path).ok()?;
    match text {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let number = match text.strip_prefix("/dev/fd/") {
        Some(number) => number,
        None => {
            let (process, number) = text.strip_prefix("/proc/")?.split_once("/fd/")?;
            let is_this = |id: &str| digits(id) == Some(std::process::id());
            let is_task = || process.strip_prefix("self/task/").is_some_and(|id| digits(id).is_some());
            if !matches!(process, "self" | "thread-self") && !is_this(process) && !is_task() {
                return None;
            }
            number
        }
    };
    RawFd::try_from(digits(number)?).ok()
}

/// The number that `text` is, as the kernel writes and reads it: without a sign or a zero before it.
fn digits(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_number)
}

/// Where `path`, which names a descriptor that is open on a copy, is to lead, where something is asked of the file.
#[inline]
pub(crate) fn origin_named(path: &CStr) -> Option<OriginPath> {
    origin_of_number(named(path)?)
}

/// The path of the origin beside `fd`, if that is open on a copy.
#[inline]
pub(crate) fn origin_of_number(fd: RawFd) -> Option<OriginPath> {
    if slots::kind(fd) == SlotKind::Copy { beside(fd) } else { None }
}

#[cold]
fn beside(fd: RawFd) -> Option<OriginPath> {
    inside::run(|| {
        let (number, file) = manage::beside_copy(fd)?;
        let path = CString::new(kernel::link_of(number)).ok()?;
        Some(OriginPath { path, _file: Some(file) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_descriptors_of_this_process_are_told_from_others() {
        let own = format!("/proc/{}/fd/12", std::process::id());
        for path in ["/proc/self/fd/12", "/dev/fd/12", "/proc/thread-self/fd/12", &own] {
            assert_eq!(named(&CString::new(path).unwrap()), Some(12), "{path}");
        }
        assert_eq!((named(c"/dev/stdin"), named(c"/dev/fd/0")), (Some(0), Some(0)));
        for path in [
            c"/proc/self/fd/12/x",
            c"/proc/1/fd/12",
            c"/dev/null",
            c"/dev/fd/-1",
            c"/dev/fd/+3",
            c"/proc/self/fd/03",
            c"/a/dev/fd/3",
            c"/proc/self/maps",
        ] {
            assert_eq!(named(path), None, "{path:?}");
        }
    }
}
