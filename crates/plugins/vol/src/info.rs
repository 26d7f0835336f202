//! What a file access list says of this connector: which one lies below, and whether reads are cached.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::{CStr, CString, c_char, c_int},
    ptr::null_mut,
};

use forebay_config::InfoText;
use forebay_libhdf5::hdf5_types::hid_t;

use crate::{functions::RawPointer, settings, slots::LoadedLibrary};

/// The number of the native connector.
const NATIVE: c_int = 0;
/// The number of HDF5's own pass-through connector.
const PASS_THROUGH: c_int = 1;
/// The number of Async VOL. Its work is done by this connector: where it is not installed, what is below it is taken.
const ASYNC_VOL: c_int = 512;

/// The connector below, with what it is told; one reference of it is held.
#[derive(Debug)]
pub(crate) struct UnderConnector {
    pub(crate) connector: hid_t,
    pub(crate) info: RawPointer,
    /// The settings file that the connector string named.
    pub(crate) config: Option<String>,
    /// Whether reads are cached, where the connector string says so.
    pub(crate) cache: Option<bool>,
}

impl UnderConnector {
    /// The native connector.
    pub(crate) fn native(library: &LoadedLibrary) -> Option<Self> {
        let connector = register(library, NATIVE)?;
        Some(Self { connector, info: null_mut(), config: None, cache: None })
    }

    /// What `text` says.
    pub(crate) fn from_text(library: &LoadedLibrary, text: &str) -> Option<Self> {
        let said = InfoText::parse(text);
        if let Some(file) = &said.config {
            settings::name_file(file);
        }
        let (connector, under_info) = find(library, said.under.as_deref(), &said.under_info)?;
        let mut below = Self { connector, info: null_mut(), config: said.config, cache: said.cache };
        if !under_info.is_empty() {
            let Ok(text) = CString::new(under_info) else { return below.discard(library) };
            let info = &raw mut below.info;
            // SAFETY: a text that ends in NUL, a registered connector, and a place for the answer.
            if unsafe { (library.functions.H5VLconnector_str_to_info)(text.as_ptr(), connector, info) } < 0 {
                return below.discard(library);
            }
        }
        Some(below)
    }

    /// Another of the same.
    pub(crate) fn duplicate(&self, library: &LoadedLibrary) -> Option<Self> {
        // SAFETY: the connector is registered: `self` holds a reference.
        unsafe { (library.functions.H5Iinc_ref)(self.connector) };
        let (config, cache) = (self.config.clone(), self.cache);
        let mut copy = Self { connector: self.connector, info: null_mut(), config, cache };
        if self.info.is_null() {
            return Some(copy);
        }
        let copy_info = library.functions.H5VLcopy_connector_info;
        // SAFETY: the information belongs to that connector, and there is a place for the copy.
        if unsafe { copy_info(self.connector, &raw mut copy.info, self.info) } < 0 {
            return copy.discard(library);
        }
        Some(copy)
    }

    /// Gives back the reference and the information.
    pub(crate) fn release(self, library: &LoadedLibrary) {
        // SAFETY: both were taken when this was made, and are not used again.
        unsafe {
            if !self.info.is_null() {
                (library.functions.H5VLfree_connector_info)(self.connector, self.info);
            }
            (library.functions.H5Idec_ref)(self.connector);
        }
    }

    /// The text from which the same can be made.
    pub(crate) fn to_text(&self, library: &LoadedLibrary) -> String {
        let mut value = NATIVE;
        let mut text: *mut c_char = null_mut();
        // SAFETY: a registered connector, its own information, and places for the answers.
        unsafe {
            (library.functions.H5VLget_value)(self.connector, &raw mut value);
            if !self.info.is_null() {
                (library.functions.H5VLconnector_info_to_str)(self.info, self.connector, &raw mut text);
            }
        }
        if text.is_null() {
            return InfoText::compose(self.config.as_deref(), self.cache, value, "");
        }
        // SAFETY: HDF5 answered with a text that ends in NUL, which is the caller's to free.
        let under = unsafe {
            let under = CStr::from_ptr(text).to_string_lossy().into_owned();
            (library.functions.H5free_memory)(text.cast());
            under
        };
        InfoText::compose(self.config.as_deref(), self.cache, value, &under)
    }

    /// What the file access list `access` says of this connector; nothing said means the native one below.
    pub(crate) fn of_access(library: &LoadedLibrary, access: hid_t) -> Option<Self> {
        let mut info = null_mut();
        // SAFETY: a list that HDF5 handed to a callback; the answer is a copy made by our own `copy` callback.
        unsafe {
            if (library.functions.H5Pget_vol_info)(access, &raw mut info) < 0 {
                return None;
            }
            if info.is_null() {
                return Self::native(library);
            }
            Some(*Box::from_raw(info.cast::<Self>()))
        }
    }

    fn discard(self, library: &LoadedLibrary) -> Option<Self> {
        self.release(library);
        None
    }
}

/// The connector that `named` means, and what it is told.
fn find(library: &LoadedLibrary, named: Option<&str>, under_info: &str) -> Option<(hid_t, String)> {
    let Some(named) = named else { return Some((register(library, NATIVE)?, under_info.to_owned())) };
    let Ok(value) = named.parse::<c_int>() else {
        let name = CString::new(named).ok()?;
        // SAFETY: a name that ends in NUL; the default list.
        let connector = unsafe { (library.functions.H5VLregister_connector_by_name)(name.as_ptr(), 0) };
        return (connector >= 0).then(|| (connector, under_info.to_owned()));
    };
    if value != ASYNC_VOL {
        return Some((register(library, value)?, under_info.to_owned()));
    }
    if let Some(connector) = library.quietly(|| register(library, value)) {
        return Some((connector, under_info.to_owned()));
    }
    let below = InfoText::parse(under_info);
    find(library, below.under.as_deref().filter(|next| *next != named), &below.under_info)
}

/// A reference to the connector with the number `value`.
fn register(library: &LoadedLibrary, value: c_int) -> Option<hid_t> {
    if value == PASS_THROUGH
        && let Some(connector) = library.pass_through()
    {
        return Some(connector);
    }
    // SAFETY: any number may be asked for; the list is the default one.
    let connector = unsafe { (library.functions.H5VLregister_connector_by_value)(value, 0) };
    (connector >= 0).then_some(connector)
}
