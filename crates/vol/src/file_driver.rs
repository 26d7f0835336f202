//! The file driver of this project, under files that this connector opens.

use forebay_plugin::hdf5_types::hid_t;

use crate::slots::LoadedLibrary;

/// The driver's handle in `library`, registered if need be; `None` where the driver's library is not beside this one.
pub(crate) fn registered(_library: &LoadedLibrary) -> Option<hid_t> {
    None
}

/// The driver's handle in `library`, if it was registered.
pub(crate) fn known(_library: &LoadedLibrary) -> Option<hid_t> {
    None
}

/// True when `driver` is the one that `HDF5_DRIVER` names, and that is this project's.
pub(crate) fn is_environments(_library: &LoadedLibrary, _driver: hid_t) -> bool {
    std::env::var_os("HDF5_DRIVER").is_some_and(|name| name == "forebay")
}
