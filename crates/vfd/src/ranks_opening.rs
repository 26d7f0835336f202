//! A file that ranks are about to open by another driver: what this one has staged for it goes there first.

#![expect(unsafe_code, reason = "a C function that the VOL connector calls with a path")]

use std::{
    ffi::{CStr, OsStr, c_char, c_int},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use forebay_plugin::guard;

use crate::settle::{SettledOpening, wait_until_settled};

/// No libhdf5 has this number: whatever any of them has staged is looked at.
const ANY_SLOT: usize = usize::MAX;

/// Returns when what was staged for the file at `path` is in it: 0, or -1 where it does not come there. `opening` is 0 for a
/// file that is read, 1 for one that is changed, 2 for one that is replaced.
///
/// # Safety
/// `path` ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_vfd_settle_v1(path: *const c_char, opening: c_int) -> c_int {
    guard(-1, || {
        let opening = match opening {
            0 => SettledOpening::Reading,
            1 => SettledOpening::Changing,
            _ => SettledOpening::Replacing,
        };
        // SAFETY: as promised by the caller.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
        match wait_until_settled(ANY_SLOT, path, opening) {
            Ok(()) => 0,
            Err(_) => -1,
        }
    })
}
