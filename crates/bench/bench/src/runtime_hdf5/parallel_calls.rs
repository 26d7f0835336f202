//! Calls that parallel builds of libhdf5 have, looked up when they are asked for: MPI-IO, subfiling.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use forebay::Result;
use forebay_libhdf5::{hdf5_functions, hdf5_types::hid_t};
use forebay_mpi::MpiHandle;

use crate::runtime_hdf5::RuntimeHdf5;

hdf5_functions! {
    /// Of parallel builds since 1.10, with objects of MPI as wide as a register, of which a function that takes 32 bits looks at
    /// the low ones.
    struct MpiIoFunction {
        fn H5Pset_fapl_mpio(hid_t, MpiHandle, MpiHandle) -> c_int;
    }
}

hdf5_functions! {
    /// Of builds with subfiling since 1.14.
    struct SubfilingFunctions {
        fn H5Pset_mpi_params(hid_t, MpiHandle, MpiHandle) -> c_int;
        fn H5Pset_fapl_subfiling(hid_t, *const c_void) -> c_int;
    }
}

hdf5_functions! {
    /// Of parallel builds since 1.10.
    struct CollectiveFunctions {
        fn H5Pset_all_coll_metadata_ops(hid_t, bool) -> c_int;
        fn H5Pset_coll_metadata_write(hid_t, bool) -> c_int;
        fn H5Pset_dxpl_mpio(hid_t, c_int) -> c_int;
    }
}

impl RuntimeHdf5 {
    /// Has files opened with `list` be read and written by MPI-IO over the ranks of `comm`; an error where the library was built
    /// without MPI. Collective.
    pub(crate) fn list_set_mpi_io(&self, list: hid_t, comm: MpiHandle, info: MpiHandle) -> Result<c_int> {
        let set = MpiIoFunction::load(self.calls.library())?.H5Pset_fapl_mpio;
        // SAFETY: the library is linked to the MPI that the handles are of.
        Ok(unsafe { set(list, comm, info) })
    }

    /// Has files opened with `list` go through the subfiling driver, over the ranks of `comm`, with its default settings.
    pub(crate) fn list_set_subfiling(&self, list: hid_t, comm: MpiHandle, info: MpiHandle) -> Result<c_int> {
        let functions = SubfilingFunctions::load(self.calls.library())?;
        // SAFETY: the handles are as above; no settings are allowed.
        unsafe {
            let set = (functions.H5Pset_mpi_params)(list, comm, info);
            Ok(if set < 0 { set } else { (functions.H5Pset_fapl_subfiling)(list, ptr::null()) })
        }
    }

    /// Has metadata of files opened with `list` be read and written by all ranks together.
    pub(crate) fn list_set_collective_metadata(&self, list: hid_t) -> Result<c_int> {
        let functions = CollectiveFunctions::load(self.calls.library())?;
        // SAFETY: the arguments are numbers.
        unsafe {
            let set = (functions.H5Pset_all_coll_metadata_ops)(list, true);
            Ok(if set < 0 { set } else { (functions.H5Pset_coll_metadata_write)(list, true) })
        }
    }

    /// Has reads and writes with `list` be collective.
    pub(crate) fn list_set_collective(&self, list: hid_t) -> Result<c_int> {
        let set = CollectiveFunctions::load(self.calls.library())?.H5Pset_dxpl_mpio;
        // SAFETY: the arguments are numbers; 1 is H5FD_MPIO_COLLECTIVE.
        Ok(unsafe { set(list, 1) })
    }
}
