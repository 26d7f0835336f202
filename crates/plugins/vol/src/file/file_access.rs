//! The access list that a file is opened with below: the connector there, and our file driver where the file is managed.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    cell::Cell,
    ffi::CStr,
    path::{Path, PathBuf},
};

use forebay_libhdf5::hdf5_types::hid_t;

use crate::{file::file_driver, info::UnderConnector, settings, slots::LoadedLibrary};

/// A copy of a program's list, made for the connector below.
#[derive(Debug)]
pub(crate) struct FileAccess {
    id: hid_t,
    /// Whether the list, or the connector string, switches caching for this file.
    cache: Cell<Option<bool>>,
}

/// The properties that switch caching for one file: Cache VOL's name for it, and that of this project.
const CACHE_PROPERTIES: [&CStr; 2] = [c"HDF5_CACHE_RD", c"forebay_cache"];

impl FileAccess {
    /// A copy of `access` that names the connector `below`.
    pub(crate) fn over(library: &LoadedLibrary, access: hid_t, below: &UnderConnector) -> Option<Self> {
        let functions = &library.functions;
        // SAFETY: a list that HDF5 handed to a callback, and a connector that is registered.
        let id = unsafe {
            let id = (functions.H5Pcopy)(access);
            if id < 0 {
                return None;
            }
            if (functions.H5Pset_vol)(id, below.connector, below.info) < 0 {
                library.errors.kept(|| (functions.H5Pclose)(id));
                return None;
            }
            id
        };
        let list = Self { id, cache: Cell::new(None) };
        list.cache.set(list.property(library).or(below.cache));
        Some(list)
    }

    /// The handle of the list.
    pub(crate) fn id(&self) -> hid_t {
        self.id
    }

    /// True when reads of this file are cached: by the list, the connector string, or the settings.
    pub(crate) fn is_on(&self) -> bool {
        self.cache.get().unwrap_or_else(|| settings::current().caches)
    }

    /// The absolute name of the file `path`, if it is managed and opened by a driver that reads it as plain bytes.
    pub(crate) fn managed_path(&self, library: &LoadedLibrary, path: &Path) -> Option<PathBuf> {
        let managed = settings::current().managed.find(path)?;
        self.has_plain_driver(library).then_some(managed)
    }

    /// Puts this project's file driver in the place of HDF5's default one, where it can be had.
    pub(crate) fn use_file_driver(&self, library: &LoadedLibrary) {
        // SAFETY: a list of our own.
        if is_environments(library, unsafe { (library.functions.H5Pget_driver)(self.id) }) {
            return;
        }
        let Some(driver) = file_driver::registered(library) else { return };
        // SAFETY: a list of our own, and a registered driver that needs no configuration.
        unsafe { (library.functions.H5Pset_driver)(self.id, driver, std::ptr::null()) };
    }

    /// Names HDF5's default driver in `list`, a file's access list, where ours took its place.
    pub(crate) fn hide_file_driver(library: &LoadedLibrary, list: hid_t) {
        let Some(driver) = library.driver.known() else { return };
        // SAFETY: a list that was just made for the program.
        unsafe {
            if (library.functions.H5Pget_driver)(list) == driver {
                (library.functions.H5Pset_fapl_sec2)(list);
            }
        }
    }

    /// Ends the list.
    pub(crate) fn close(self, library: &LoadedLibrary) {
        // SAFETY: a list of our own.
        unsafe { (library.functions.H5Pclose)(self.id) };
    }

    /// True when the driver is HDF5's own for plain files, or ours: not one in memory, of several files, or of MPI.
    fn has_plain_driver(&self, library: &LoadedLibrary) -> bool {
        let functions = &library.functions;
        // SAFETY: lists of our own.
        unsafe {
            let driver = (functions.H5Pget_driver)(self.id);
            if library.driver.known() == Some(driver) || is_environments(library, driver) {
                return true;
            }
            let plain = (functions.H5Pcopy)(self.id);
            let is_plain =
                (functions.H5Pset_fapl_sec2)(plain) >= 0 && (functions.H5Pget_driver)(plain) == driver;
            (functions.H5Pclose)(plain);
            is_plain
        }
    }

    fn property(&self, library: &LoadedLibrary) -> Option<bool> {
        let functions = &library.functions;
        CACHE_PROPERTIES.iter().find_map(|name| {
            let (mut value, mut len) = ([0_u8; 8], 0);
            // SAFETY: a list of our own, a name that ends in NUL, and room for as much as the property holds.
            unsafe {
                if (functions.H5Pexist)(self.id, name.as_ptr()) <= 0
                    || (functions.H5Pget_size)(self.id, name.as_ptr(), &raw mut len) < 0
                    || len > value.len()
                    || (functions.H5Pget)(self.id, name.as_ptr(), value.as_mut_ptr().cast()) < 0
                {
                    return None;
                }
            }
            Some(value.iter().any(|byte| *byte != 0))
        })
    }
}

/// True when `driver` is the default one because `HDF5_DRIVER` names this project's.
fn is_environments(library: &LoadedLibrary, driver: hid_t) -> bool {
    std::env::var_os("HDF5_DRIVER").is_some_and(|name| name == "forebay")
        && library.default_driver() == driver
}
