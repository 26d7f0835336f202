//! A file of the driver, as HDF5 holds it.

#![expect(unsafe_code, reason = "HDF5 hands files by their address")]

use forebay_libhdf5::hdf5_types::herr_t;
use forebay_process::Result;

use crate::{
    class::{H5FD_FEAT_ACCUMULATE_METADATA, H5FD_t},
    driver_library::DriverLibrary,
    failure::{self, Failure},
    managed_file::ManagedFile,
    sec2::OriginFile,
};

/// What a callback answers that has failed.
pub(crate) const FAIL: herr_t = -1;

/// A file of this driver: what HDF5 knows of it, then ours.
#[repr(C)]
pub(crate) struct DriverFile {
    pub(crate) head: H5FD_t,
    pub(crate) library: &'static DriverLibrary,
    pub(crate) origin: OriginFile,
    /// `None` for a file that is left to the library's own driver.
    pub(crate) managed: Option<ManagedFile>,
}

impl DriverFile {
    /// The code that HDF5 gets; an error of ours is put on its stack first.
    pub(crate) fn answer(&self, kind: Failure, answer: Result<herr_t>) -> herr_t {
        let Some(managed) = &self.managed else { return answer.unwrap_or(FAIL) };
        answer.unwrap_or_else(|error| {
            failure::tell(&self.library.stack, kind, managed.destination(), &error);
            FAIL
        })
    }

    /// The managed file, if it is one. From the moment that HDF5 has the file in SWMR mode, which shows in its flags alone, others
    /// read it while it is written: then all goes directly to it.
    pub(crate) fn managed(&mut self) -> Result<Option<(&mut ManagedFile, &OriginFile)>> {
        let Some(managed) = &mut self.managed else { return Ok(None) };
        let is_swmr = self.head.feature_flags & H5FD_FEAT_ACCUMULATE_METADATA == 0;
        if is_swmr && !self.head.cls.is_null() {
            managed.go_direct()?;
        }
        Ok(Some((managed, &self.origin)))
    }
}

/// # Safety
/// `file` is one that the callback `open` gave and that is not closed yet.
pub(crate) unsafe fn of<'a>(file: *const H5FD_t) -> &'a DriverFile {
    // SAFETY: as said: the structure begins with what HDF5 sees.
    unsafe { &*file.cast::<DriverFile>() }
}

/// # Safety
/// As [`of`]; HDF5 makes no two calls for one file at once.
pub(crate) unsafe fn of_mut<'a>(file: *mut H5FD_t) -> &'a mut DriverFile {
    // SAFETY: as said.
    unsafe { &mut *file.cast::<DriverFile>() }
}
