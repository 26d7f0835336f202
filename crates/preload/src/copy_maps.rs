//! Maps of copies: where the program itself begins to write to the file, they are replaced in place by maps of the origin, so that it reads
//! what it writes.
//!
//! A map is found by the path of the copy in `/proc/self/maps`, wherever the program has moved or cut it since. A private map that may be
//! written to is left: whether it shows later writes to the file is unspecified (POSIX), and its own pages would be lost.

#![expect(unsafe_code, reason = "maps a file over a map that the program has made")]

use std::{
    fs,
    os::{fd::RawFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use forebay_source::record_locks::LockSafeFile;
use rustix::mm::{MapFlags, ProtFlags};

use crate::{
    inside,
    kernel::{self, KernelIdentity},
};

/// A copy that was mapped, and the origin's file.
#[derive(Debug)]
struct CopyMap {
    copy: PathBuf,
    identity: KernelIdentity,
    origin: LockSafeFile,
}

/// A part of this process's memory that shows a file.
#[derive(Debug, PartialEq, Eq)]
struct MapPart {
    start: usize,
    len: usize,
    offset: u64,
    protection: ProtFlags,
    is_shared: bool,
}

static MAPS: Mutex<Vec<CopyMap>> = Mutex::new(Vec::new());
static HAS_ANY: AtomicBool = AtomicBool::new(false);

/// So many copies are known before it is looked which of them are not mapped any more.
const SWEEP_AT: usize = 64;

/// Notes that the program is about to map `copy`, a copy of the file that `origin` is open on; false where its maps could not be replaced.
pub(crate) fn note(copy: RawFd, origin: RawFd, identity: &KernelIdentity) -> bool {
    let (Some(path), Some(mut maps)) = (kernel::path_of(copy), lock()) else { return false };
    if maps.iter().any(|known| known.copy == path && known.identity.is_same_file(identity)) {
        return true;
    }
    if maps.len() >= SWEEP_AT {
        let text = fs::read("/proc/self/maps").unwrap_or_default();
        maps.retain(|known| !parts_of(&text, &known.copy).is_empty());
    }
    let Some(origin) = kernel::kept_beside(origin).map(LockSafeFile::new) else { return false };
    maps.push(CopyMap { copy: path, identity: *identity, origin });
    HAS_ANY.store(true, Relaxed);
    true
}

/// The bytes of `identity` change, by this process: its maps of copies show the origin from now on.
pub(crate) fn written(identity: &KernelIdentity) {
    if !HAS_ANY.load(Relaxed) {
        return;
    }
    let Some(mut maps) = lock() else { return };
    let is_written = |map: &CopyMap| map.identity.is_same_file(identity);
    if !maps.iter().any(is_written) {
        return;
    }
    let text = fs::read("/proc/self/maps").unwrap_or_default();
    for map in maps.iter().filter(|map| is_written(map)) {
        for part in parts_of(&text, &map.copy) {
            part.show(&map.origin);
        }
    }
    maps.retain(|map| !is_written(map));
    HAS_ANY.store(!maps.is_empty(), Relaxed);
}

/// What `call` gives, which may unmap memory: not while maps are replaced, as another may come to lie there.
pub(crate) fn unmapping<R>(call: impl Fn() -> R) -> R {
    if !HAS_ANY.load(Relaxed) {
        return call();
    }
    inside::uninterrupted(|| {
        let _maps = if inside::is_program() { None } else { lock() };
        call()
    })
}

fn lock() -> Option<MutexGuard<'static, Vec<CopyMap>>> {
    // In a forked child it may be held for ever by a thread of the parent.
    for _ in 0..2000 {
        match MAPS.try_lock() {
            Ok(maps) => return Some(maps),
            Err(TryLockError::Poisoned(poisoned)) => return Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_micros(50)),
        }
    }
    None
}

impl MapPart {
    /// Replaces this part by the same bytes of `origin`.
    fn show(&self, origin: &LockSafeFile) {
        let way = if self.is_shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        // SAFETY: the range is a map of a copy, which has the same bytes; no call of the program unmaps it meanwhile, and the kernel
        // replaces it at once, so that a thread that reads it sees one of both.
        let _shown = unsafe {
            let at = std::ptr::without_provenance_mut(self.start);
            rustix::mm::mmap(at, self.len, self.protection, way | MapFlags::FIXED, &**origin, self.offset)
        };
    }
}

/// The parts of `maps`, the text of `/proc/self/maps`, that show the file at `path` and can be replaced.
fn parts_of(maps: &[u8], path: &std::path::Path) -> Vec<MapPart> {
    let path = path.as_os_str().as_bytes();
    let part = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'/')?;
        let name = &line[at..];
        if name.strip_suffix(b" (deleted)").unwrap_or(name) != path {
            return None;
        }
        let mut words = std::str::from_utf8(&line[..at]).ok()?.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let rights = words.next()?.as_bytes();
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_shared = rights.get(3) == Some(&b's');
        let flags = [(b'r', ProtFlags::READ), (b'w', ProtFlags::WRITE), (b'x', ProtFlags::EXEC)];
        let protection: ProtFlags =
            flags.iter().filter(|(letter, _)| rights.contains(letter)).map(|(_, flag)| *flag).collect();
        let is_left = !is_shared && protection.contains(ProtFlags::WRITE);
        (!is_left).then(|| MapPart { start, len: end - start, offset, protection, is_shared })
    };
    maps.split(|byte| *byte == b'\n').filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_a_copy_are_found_by_its_path_and_private_ones_that_may_be_written_are_left() {
        let text = b"7f00-8f00 r--p 00001000 00:1f 77 /dev/shm/forebay-tier-1/a b\n\
            9000-a000 r--s 00000000 00:1f 77 /dev/shm/forebay-tier-1/a b (deleted)\n\
            b000-c000 rw-p 00000000 00:1f 77 /dev/shm/forebay-tier-1/a b\n\
            c000-d000 r--p 00000000 00:1f 78 /dev/shm/forebay-tier-1/a\n\
            d000-e000 rw-p 00000000 00:00 0 \n";
        let parts = parts_of(text, std::path::Path::new("/dev/shm/forebay-tier-1/a b"));
        let read = ProtFlags::READ;
        let part =
            |start, offset, is_shared| MapPart { start, len: 0x1000, offset, protection: read, is_shared };
        assert_eq!(parts, [part(0x7f00, 0x1000, false), part(0x9000, 0, true)]);
    }
}
