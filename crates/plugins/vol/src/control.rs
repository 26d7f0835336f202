//! What programs in other languages call by name: they find this library among those of the process.

#![expect(unsafe_code, reason = "called from C, with handles and addresses")]

use std::{
    ffi::{CStr, c_char, c_double, c_int},
    ptr::null_mut,
};

use crate::units::cache_stats::CacheCounters;
use forebay_libhdf5::{hdf5_types::hid_t, slots::SLOT_COUNT};
use forebay_process::guard;

use crate::{
    functions::RawPointer,
    hdf5_arguments::OptionalArguments,
    operation_numbers::{ControlOp, DATASET_SUBCLASS, FILE_SUBCLASS},
    optional_ops::{self, PrestageArguments},
    slots::{LIBRARIES, LoadedLibrary},
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
    let mut arguments = PrestageArguments { file_space: 0, is_blocking };
    // SAFETY: as promised by the caller; these are the operation's arguments.
    unsafe { call(library, dataset, DATASET_SUBCLASS, ControlOp::Prestage, (&raw mut arguments).cast()) }
}

/// Finishes what is prestaged step by step of a data set.
///
/// # Safety
/// As for [`forebay_hdf5_prestage_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hdf5_finish_of(library: *const c_char, dataset: hid_t) -> c_int {
    // SAFETY: as promised by the caller; without arguments it waits for all.
    unsafe { call(library, dataset, DATASET_SUBCLASS, ControlOp::Wait, null_mut()) }
}

/// Switches caching for the file `file`.
///
/// # Safety
/// As for [`forebay_hdf5_prestage_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hdf5_switch_of(
    library: *const c_char,
    file: hid_t,
    mut is_on: c_int,
) -> c_int {
    // SAFETY: as promised by the caller; these are the operation's arguments.
    unsafe { call(library, file, FILE_SUBCLASS, ControlOp::Switch, (&raw mut is_on).cast()) }
}

/// Has the libhdf5 whose file name contains `name` call an operation of this connector on the object behind `id`.
///
/// HDF5 itself knows which object of ours that is: what `H5VLobject` gives is one of the lowest connector.
unsafe fn call(
    name: *const c_char,
    id: hid_t,
    subclass: c_int,
    op: ControlOp,
    arguments: RawPointer,
) -> c_int {
    guard(-1, || {
        // SAFETY: as promised by the caller.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let is_it = |library: &&LoadedLibrary| library.library.path().to_string_lossy().contains(&*name);
        let library = (0..SLOT_COUNT).filter_map(|slot| LIBRARIES.get(slot)).find(is_it);
        let Some(library) = library else { return -1 };
        let functions = &library.functions;
        let ask = if subclass == FILE_SUBCLASS {
            functions.H5VLfile_optional_op
        } else {
            functions.H5VLdataset_optional_op
        };
        library.quietly(|| {
            let (mut value, transfer) = (-1, library.default_transfer());
            // SAFETY: any number may be asked about; the operation goes to objects of our connector alone.
            unsafe {
                let connector = (functions.H5VLget_connector_id)(id);
                if connector < 0 {
                    return -1;
                }
                (functions.H5VLget_value)(connector, &raw mut value);
                (functions.H5VLclose)(connector);
                let Some(operation) = library.operations.number(subclass, op) else { return -1 };
                if value != library.class.value {
                    return -1;
                }
                let mut call = OptionalArguments { operation, arguments };
                let place = c"forebay".as_ptr();
                ask(place, place, 0, id, (&raw mut call).cast(), transfer, 0)
            }
        })
    })
}
