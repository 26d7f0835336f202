//! Maps: a copy is mapped in place of the origin, and the origin again in its place once the program writes to the file.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_SHARED, PROT_EXEC, c_int, c_void, off_t, size_t};

use super::exported;
use crate::{
    manage::{
        self, copy_maps,
        slots::{self, SlotKind},
        writers,
    },
    system::real,
};

/// Maps by `map`, which takes the number to be mapped.
fn mapped(fd: c_int, protection: c_int, flags: c_int, map: impl Fn(c_int) -> *mut c_void) -> *mut c_void {
    let is_file = flags & MAP_ANONYMOUS == 0 && fd >= 0;
    if is_file && slots::kind(fd) != SlotKind::Plain {
        return manage::mapping(fd, protection & PROT_EXEC != 0, map);
    }
    // It may be laid over another map.
    let at = if flags & MAP_FIXED == 0 { map(fd) } else { copy_maps::changing(|| map(fd)) };
    if !is_file {
        return at;
    }
    // Both kinds of shared maps have this bit.
    if flags & MAP_SHARED != 0 && at != MAP_FAILED && writers::has_any() {
        manage::mapped_shared(fd);
    }
    at
}

// SAFETY of all that follow: the arguments are handed on as they came, but for the number of a descriptor that is open.
exported! {
    fn mmap(at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
        // SAFETY: above.
        mapped(fd, protection, flags, |fd| unsafe { real::mmap(at, len, protection, flags, fd, offset) })
    }

    fn mmap64(at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
        // SAFETY: above.
        mapped(fd, protection, flags, |fd| unsafe { real::mmap64(at, len, protection, flags, fd, offset) })
    }

    fn munmap(at: *mut c_void, len: size_t) -> c_int {
        // SAFETY: above.
        copy_maps::changing(|| unsafe { real::munmap(at, len) })
    }

    fn mremap(at: *mut c_void, len: size_t, new_len: size_t, flags: c_int, new: *mut c_void) -> *mut c_void {
        // SAFETY: above.
        copy_maps::changing(|| unsafe { real::mremap(at, len, new_len, flags, new) })
    }

    fn mprotect(at: *mut c_void, len: size_t, protection: c_int) -> c_int {
        // SAFETY: above.
        copy_maps::changing(|| unsafe { real::mprotect(at, len, protection) })
    }

    fn pkey_mprotect(at: *mut c_void, len: size_t, protection: c_int, key: c_int) -> c_int {
        // SAFETY: above.
        copy_maps::changing(|| unsafe { real::pkey_mprotect(at, len, protection, key) })
    }
}
