//! A file that ranks are about to open by another driver: what this one has staged for it goes there first.

#![expect(unsafe_code, reason = "a C function that the VOL connector calls with a path")]

use std::{
    ffi::{CStr, OsStr, c_char, c_int},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use forebay_process::guard;

use crate::settle::{SettledFile, SettledOpening, wait_until_settled};

/// No libhdf5 has this number: whatever any of them has staged is looked at.
const ANY_SLOT: usize = usize::MAX;

/// Steps of ranks that open a file, as the VOL connector names them.
const OPENING: c_int = 0;
const REPLACING: c_int = 1;

/// Brings what was staged for the file at `path` there: 0, or -1 where that cannot be done. `step` is 0 before ranks open the file with
/// its bytes, 1 before they replace it, and 2 after they have replaced it: what killed processes have staged for it is forgotten then.
///
/// # Safety
/// `path` ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_vfd_settle_v2(path: *const c_char, step: c_int) -> c_int {
    guard(-1, || {
        // SAFETY: as promised by the caller.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
        let settle = |opening| wait_until_settled(ANY_SLOT, path, opening);
        let settled = match step {
            OPENING => settle(SettledOpening::Existing).map(drop),
            REPLACING => settle(SettledOpening::Replacing).map(drop),
            _ => settle(SettledOpening::Replacing).and_then(SettledFile::replaced),
        };
        if settled.is_ok() { 0 } else { -1 }
    })
}
