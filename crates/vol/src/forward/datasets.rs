//! Data sets: reads through the cache, writes and resizes noted, everything else handed on.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_plugin::{
    guard,
    hdf5_types::{herr_t, hid_t},
};

use super::{closes, opens, passes, rank_transfers, transfers::Transfers};
use crate::{
    cached_read::read_cached,
    dataset_changes,
    functions::RawPointer,
    hdf5_arguments::{DATASET_SET_EXTENT, OptionalArguments, READING_DATASET_OPTIONALS},
    optional_ops,
    parallel::settling,
    prestage,
    slots::{self, LoadedLibrary},
    vol_object::{VolObject, object_at, wrap, wrap_request},
};

opens!(open, H5VLdataset_open, name: RawPointer, access: hid_t, transfer: hid_t);
passes!(get, H5VLdataset_get, arguments: RawPointer);
closes!(close, H5VLdataset_close; first before_close);

/// One without links is deleted when it is closed.
unsafe fn before_close(library: &LoadedLibrary, object: &VolObject) -> Option<herr_t> {
    settling::refused(library, guard(Ok(()), || settling::before_dataset_close(library, object)))
}

/// Creates a data set, perhaps where one was that is gone.
pub(crate) unsafe extern "C" fn create<const N: usize>(
    object: RawPointer,
    location: RawPointer,
    name: RawPointer,
    link: hid_t,
    kind: hid_t,
    space: hid_t,
    creation: hid_t,
    access: hid_t,
    transfer: hid_t,
    request: *mut RawPointer,
) -> RawPointer {
    let library = slots::library::<N>();
    // SAFETY: as for every callback.
    unsafe {
        let (under, connector) = (object_at(object).under, object_at(object).connector);
        let made = (library.functions.H5VLdataset_create)(
            under, location, connector, name, link, kind, space, creation, access, transfer, request,
        );
        wrap_request(library, request, connector);
        let made = wrap(library, made, connector);
        if !made.is_null() {
            dataset_changes::changed(library, object_at(made));
        }
        made
    }
}

/// Reads data sets: from the cache what it has or is worth keeping, the rest by the connector below.
pub(crate) unsafe extern "C" fn read<const N: usize>(
    count: usize,
    datasets: *mut RawPointer,
    memory_types: *mut hid_t,
    memory_spaces: *mut hid_t,
    file_spaces: *mut hid_t,
    transfer: hid_t,
    buffers: *mut RawPointer,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    let all =
        Transfers { count, datasets, memory_types, memory_spaces, file_spaces, transfer, buffers, request };
    let function = library.functions.H5VLdataset_read;
    // SAFETY: as for every callback.
    if let Some(answer) = unsafe { rank_transfers::read(library, &all) } {
        return answer;
    }
    if library.files.is_empty() || !request.is_null() || count == 0 {
        // SAFETY: as for every callback.
        return unsafe { all.forward(library, function) };
    }
    for index in 0..count {
        // SAFETY: as for every callback.
        let answer = unsafe {
            let (object, wanted) = (object_at(*datasets.add(index)), all.read_request(index));
            guard(None, || {
                prestage::before_read(library, object);
                read_cached(library, object, &wanted)
            })
            .unwrap_or_else(|| all.only(index).forward(library, function))
        };
        if answer < 0 {
            return answer;
        }
    }
    0
}

/// Writes data sets, of which nothing that was cached is used again.
pub(crate) unsafe extern "C" fn write<const N: usize>(
    count: usize,
    datasets: *mut RawPointer,
    memory_types: *mut hid_t,
    memory_spaces: *mut hid_t,
    file_spaces: *mut hid_t,
    transfer: hid_t,
    buffers: *mut RawPointer,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    let all =
        Transfers { count, datasets, memory_types, memory_spaces, file_spaces, transfer, buffers, request };
    // SAFETY: as for every callback.
    unsafe {
        for index in 0..count {
            dataset_changes::changed(library, object_at(*datasets.add(index)));
        }
        if let Some(answer) = rank_transfers::write(library, &all) {
            return answer;
        }
        all.forward(library, library.functions.H5VLdataset_write)
    }
}

/// Resizes change a data set; flushes and refreshes do not.
pub(crate) unsafe extern "C" fn specific<const N: usize>(
    object: RawPointer,
    arguments: RawPointer,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; the arguments begin with the operation. A refresh may replace the object.
    unsafe {
        if *arguments.cast::<c_int>() == DATASET_SET_EXTENT {
            dataset_changes::changed(library, object_at(object));
        }
        let operation = *arguments.cast::<c_int>();
        let settled = settling::before_dataset_operation(library, object_at(object), operation);
        if let Some(answer) = settling::refused(library, settled) {
            return answer;
        }
        let (under, connector) = (object_at(object).under, object_at(object).connector);
        let answer = (library.functions.H5VLdataset_specific)(under, connector, arguments, transfer, request);
        wrap_request(library, request, connector);
        answer
    }
}

/// Operations of this connector on a data set, and those of the one below, of which some write.
pub(crate) unsafe extern "C" fn optional<const N: usize>(
    object: RawPointer,
    arguments: RawPointer,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; the arguments have the layout of the header.
    unsafe {
        let asked = &*arguments.cast::<OptionalArguments>();
        if let Some(answer) = optional_ops::on_dataset(library, object_at(object), asked) {
            return answer;
        }
        if !READING_DATASET_OPTIONALS.contains(&asked.operation) {
            dataset_changes::changed(library, object_at(object));
        }
        let drained = settling::before_look(library, object_at(object), dataset_changes::DATASET);
        if let Some(answer) = settling::refused(library, drained) {
            return answer;
        }
        let (under, connector) = (object_at(object).under, object_at(object).connector);
        let answer = (library.functions.H5VLdataset_optional)(under, connector, arguments, transfer, request);
        wrap_request(library, request, connector);
        answer
    }
}
