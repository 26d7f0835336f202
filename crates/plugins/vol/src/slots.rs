//! What is kept for each libhdf5 that has loaded the connector.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::{CStr, c_void},
    ptr::NonNull,
};

use forebay_libhdf5::{ErrorStack, Hdf5Library, LibrarySlots, hdf5_types::hid_t};
use forebay_process::Result;

use crate::{
    file::{driver_handle::DriverHandle, file_state::VolFiles},
    functions::VolFunctions,
    operation_numbers::OperationNumbers,
    vol_class::VolClass,
};

/// One libhdf5: its functions, the callbacks it was given, the managed files it has open.
#[derive(Debug)]
pub(crate) struct LoadedLibrary {
    pub(crate) library: Hdf5Library,
    pub(crate) functions: VolFunctions,
    pub(crate) errors: ErrorStack,
    pub(crate) class: VolClass,
    pub(crate) files: VolFiles,
    pub(crate) operations: OperationNumbers,
    pub(crate) driver: DriverHandle,
    pub(crate) variables: VolVariables,
}

/// Where a libhdf5 has the handles of its own lists and connectors. Looked for once: the loader takes 14 us to say which object an
/// address lies in, a tenth of a read of 1 MiB.
#[derive(Debug)]
pub(crate) struct VolVariables {
    transfer_list: NonNull<hid_t>,
    access_list: NonNull<hid_t>,
    pass_through: Option<NonNull<hid_t>>,
}

// SAFETY: variables of a library that stays loaded; they are only read, by threads that HDF5 lets in.
unsafe impl Send for VolVariables {}
// SAFETY: as above.
unsafe impl Sync for VolVariables {}

impl VolVariables {
    /// Finds them in `library`.
    pub(crate) fn load(library: &Hdf5Library) -> Result<Self> {
        let find = |name: &CStr| library.variable(name).map(NonNull::cast);
        Ok(Self {
            transfer_list: find(c"H5P_LST_DATASET_XFER_ID_g")?,
            access_list: find(c"H5P_LST_FILE_ACCESS_ID_g")?,
            pass_through: find(c"H5VL_PASSTHRU_g").ok(),
        })
    }
}

/// Every libhdf5 that has loaded the connector.
pub(crate) static LIBRARIES: LibrarySlots<LoadedLibrary> = LibrarySlots::new();

/// The library of slot `N`, whose callbacks are called by no other.
#[inline]
pub(crate) fn library<const N: usize>() -> &'static LoadedLibrary {
    LIBRARIES.get(N).expect("callbacks of a slot are handed out once it is filled")
}

impl LoadedLibrary {
    /// What `body` gives; whatever fails in it is neither printed nor left on the error stack.
    pub(crate) fn quietly<R>(&self, body: impl FnOnce() -> R) -> R {
        self.errors.quietly(body)
    }

    /// The default list of transfers. Calls of the connector below need one: HDF5 looks it up when the call that the program made ends,
    /// and does not leave that call's context, which lies on its stack, where it finds none.
    pub(crate) fn default_transfer(&self) -> hid_t {
        // SAFETY: a variable of a loaded library that holds a handle.
        unsafe { *self.variables.transfer_list.as_ptr() }
    }

    /// The driver of the default access list: what `HDF5_DRIVER` names, or the one for plain files.
    pub(crate) fn default_driver(&self) -> hid_t {
        // SAFETY: as above; the list lives as long as the library.
        unsafe { (self.functions.H5Pget_driver)(*self.variables.access_list.as_ptr()) }
    }

    /// A reference to HDF5's own pass-through connector, which some versions do not give by its number.
    pub(crate) fn pass_through(&self) -> Option<hid_t> {
        // SAFETY: as above.
        let found = self.variables.pass_through.map(|id| unsafe { *id.as_ptr() }).filter(|id| *id > 0);
        if let Some(connector) = found {
            // SAFETY: a registered connector.
            unsafe { (self.functions.H5Iinc_ref)(connector) };
            return found;
        }
        let register = self.library.symbol(c"H5VL_pass_through_register")?;
        // SAFETY: this function has had this signature in all versions that have it.
        let connector =
            unsafe { std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn() -> hid_t>(register)() };
        if connector < 0 {
            return None;
        }
        // SAFETY: a registered connector; the library holds a reference of its own.
        unsafe { (self.functions.H5Iinc_ref)(connector) };
        Some(connector)
    }
}
