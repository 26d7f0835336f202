//! Drivers and connectors that not every build of libhdf5 has, looked up when they are asked for: MPI-IO, subfiling, VOL.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
};

use forebay::Result;
use forebay_mpi::MpiHandle;

use super::{Hdf5Functions, Hdf5Id, symbol};

impl Hdf5Functions {
    /// Has files opened with `list` be read and written by MPI-IO over the ranks of `comm`; an error where the library was built
    /// without MPI. Collective.
    pub(crate) fn list_set_mpi_io(&self, list: Hdf5Id, comm: MpiHandle, info: MpiHandle) -> Result<c_int> {
        type SetMpiIo = unsafe extern "C" fn(Hdf5Id, MpiHandle, MpiHandle) -> c_int;
        // SAFETY: the signature is that of parallel builds since 1.10, with objects of MPI as wide as a register, of which a
        // function that takes 32 bits looks at the low ones. The library is linked to the MPI that the handles are of.
        unsafe { Ok(symbol::<SetMpiIo>(&self.library, "H5Pset_fapl_mpio")?(list, comm, info)) }
    }

    /// Has files opened with `list` go through the subfiling driver, over the ranks of `comm`, with its default settings.
    pub(crate) fn list_set_subfiling(&self, list: Hdf5Id, comm: MpiHandle, info: MpiHandle) -> Result<c_int> {
        type SetRanks = unsafe extern "C" fn(Hdf5Id, MpiHandle, MpiHandle) -> c_int;
        type SetSubfiling = unsafe extern "C" fn(Hdf5Id, *const c_void) -> c_int;
        // SAFETY: the signatures are those of builds with subfiling since 1.14, the handles as above; no settings are allowed.
        unsafe {
            let subfiling = symbol::<SetSubfiling>(&self.library, "H5Pset_fapl_subfiling")?;
            let set = symbol::<SetRanks>(&self.library, "H5Pset_mpi_params")?(list, comm, info);
            Ok(if set < 0 { set } else { subfiling(list, ptr::null()) })
        }
    }

    /// Has metadata of files opened with `list` be read and written by all ranks together.
    pub(crate) fn list_set_collective_metadata(&self, list: Hdf5Id) -> Result<c_int> {
        type SetCollective = unsafe extern "C" fn(Hdf5Id, bool) -> c_int;
        // SAFETY: the signatures are those of parallel builds since 1.10.
        unsafe {
            let set = symbol::<SetCollective>(&self.library, "H5Pset_all_coll_metadata_ops")?(list, true);
            let write = symbol::<SetCollective>(&self.library, "H5Pset_coll_metadata_write")?;
            Ok(if set < 0 { set } else { write(list, true) })
        }
    }

    /// Has reads and writes with `list` be collective.
    pub(crate) fn list_set_collective(&self, list: Hdf5Id) -> Result<c_int> {
        type SetMode = unsafe extern "C" fn(Hdf5Id, c_int) -> c_int;
        // SAFETY: the signature is that of parallel builds since 1.10; 1 is H5FD_MPIO_COLLECTIVE.
        unsafe { Ok(symbol::<SetMode>(&self.library, "H5Pset_dxpl_mpio")?(list, 1)) }
    }

    /// Adds a folder to those that plug-ins are looked for in, after those of `HDF5_PLUGIN_PATH`.
    pub(crate) fn add_plugin_folder(&self, folder: &CStr) -> Result<c_int> {
        type Append = unsafe extern "C" fn(*const c_char) -> c_int;
        // SAFETY: the signature is that of all versions since 1.10.1; the path ends with a NUL.
        unsafe { Ok(symbol::<Append>(&self.library, "H5PLappend")?(folder.as_ptr())) }
    }

    /// True when the VOL connector `name` is loaded; before 1.12 there are none.
    pub(crate) fn has_connector(&self, name: &CStr) -> bool {
        type IsThere = unsafe extern "C" fn(*const c_char) -> c_int;
        // SAFETY: the signature is that of all versions since 1.12; the name ends with a NUL.
        let is_there = unsafe { symbol::<IsThere>(&self.library, "H5VLis_connector_registered_by_name") };
        // SAFETY: as above.
        is_there.is_ok_and(|is_there| unsafe { is_there(name.as_ptr()) } > 0)
    }
}
