//! Paths by which the kernel names descriptors that are open (`/proc/self/fd/N`, `/dev/fd/N`): where a number is open on a copy, such a path
//! leads to the origin.

use std::{
    ffi::{CStr, CString},
    os::fd::RawFd,
    sync::Arc,
};

use crate::{
    inside, manage,
    program_file::ProgramFile,
    slots::{self, SlotKind},
};

/// A path that leads to an open file of the origin, and what keeps it open.
#[derive(Debug)]
pub(crate) struct OriginPath {
    pub(crate) path: CString,
    _file: Arc<ProgramFile>,
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
            let is_this = |id: &str| id.parse() == Ok(std::process::id());
            let is_task = || process.strip_prefix("self/task/").is_some_and(|id| id.parse::<u32>().is_ok());
            if !matches!(process, "self" | "thread-self") && !is_this(process) && !is_task() {
                return None;
            }
            number
        }
    };
    number.parse().ok().filter(|number| *number >= 0)
}

/// Where `path`, which names a descriptor that is open on a copy, is to lead.
#[inline]
pub(crate) fn origin_path(path: &CStr) -> Option<OriginPath> {
    let fd = named(path).filter(|fd| slots::kind(*fd) == SlotKind::Copy)?;
    beside(fd)
}

#[cold]
fn beside(fd: RawFd) -> Option<OriginPath> {
    inside::run(|| {
        let (number, file) = manage::beside_copy(fd)?;
        let path = CString::new(format!("/proc/self/fd/{number}")).ok()?;
        Some(OriginPath { path, _file: file })
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
        assert_eq!(named(c"/dev/stdin"), Some(0));
        for path in [
            c"/proc/self/fd/12/x",
            c"/proc/1/fd/12",
            c"/dev/null",
            c"/dev/fd/-1",
            c"/a/dev/fd/3",
            c"/proc/self/maps",
        ] {
            assert_eq!(named(path), None, "{path:?}");
        }
    }
}
