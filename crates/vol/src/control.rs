//! What programs in other languages call by name: they find this library among those of the process.

#![expect(unsafe_code, reason = "called from C, with handles and addresses")]

use std::ffi::{CStr, c_char, c_double, c_int};

use forebay_plugin::{guard, hdf5_types::hid_t, slots::SLOT_COUNT};

use crate::{
    cache_stats::CacheCounters,
    optional_ops, prestage,
    slots::{LIBRARIES, LoadedLibrary},
    vol_object::object_at,
};

/// Reads pass through, and nothing is put into the cache, until `forebay_hdf5_start`.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hdf5_pause() {
    guard((), optional_ops::pause);
}

/// Ends a pause.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hdf5_start() {
    guard((), optional_ops::start);
}

/// Waits until what was read is in the cache, at most `seconds`: 1 then, 0 when that was not enough.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_hdf5_wait(seconds: c_double) -> c_int {
    guard(0, || c_int::from(optional_ops::wait(seconds)))
}

/// The counters of this process.
///
/// # Safety
/// `into` is a place for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hdf5_stats(into: *mut CacheCounters) {
    let counters = guard(CacheCounters::default(), optional_ops::stats);
    // SAFETY: as promised by the caller.
    unsafe { *into = counters };
}

/// Reads the data set `dataset` of the libhdf5 whose file name contains `library` into the cache: 0, or -1 where it is none of ours.
///
/// # Safety
/// `library` ends in NUL; called on a thread that may call that library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hdf5_prestage_of(
    library: *const c_char,
    dataset: hid_t,
    is_blocking: c_int,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe {
        with_object(library, dataset, |library, object| {
            prestage::prestage(library, object_at(object), 0, is_blocking != 0)
        })
    }
}

/// Finishes what is prestaged step by step of a data set.
///
/// # Safety
/// As for [`forebay_hdf5_prestage_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hdf5_finish_of(library: *const c_char, dataset: hid_t) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe {
        with_object(library, dataset, |library, object| {
            prestage::finish(library, object_at(object));
            0
        })
    }
}

/// Switches caching for the file `file`.
///
/// # Safety
/// As for [`forebay_hdf5_prestage_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hdf5_switch_of(library: *const c_char, file: hid_t, is_on: c_int) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe {
        with_object(library, file, |_, object| {
            if let Some(file) = &object_at(object).file {
                file.switch(is_on != 0);
            }
            0
        })
    }
}

/// Calls `body` with the object of ours behind `id`, a handle of the libhdf5 whose file name contains `name`.
unsafe fn with_object(
    name: *const c_char,
    id: hid_t,
    body: impl FnOnce(&LoadedLibrary, crate::functions::RawPointer) -> c_int,
) -> c_int {
    guard(-1, || {
        // SAFETY: as promised by the caller.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let is_it = |library: &&LoadedLibrary| library.library.path().to_string_lossy().contains(&*name);
        let library = (0..SLOT_COUNT).filter_map(|slot| LIBRARIES.get(slot)).find(is_it);
        let Some(library) = library else { return -1 };
        let functions = &library.functions;
        library.quietly(|| {
            let mut value = -1;
            // SAFETY: any number may be asked about; an object of ours is handed out for handles of our connector alone.
            let object = unsafe {
                let connector = (functions.H5VLget_connector_id)(id);
                if connector < 0 {
                    return -1;
                }
                (functions.H5VLget_value)(connector, &raw mut value);
                (functions.H5VLclose)(connector);
                if value != library.class.value {
                    return -1;
                }
                (functions.H5VLobject)(id)
            };
            if object.is_null() { -1 } else { body(library, object) }
        })
    })
}
