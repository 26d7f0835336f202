//! Data sets: reads through the cache, writes and resizes noted, everything else handed on.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};
use forebay_process::guard;

use super::{closes, opens, passes, rank_transfers, transfers::Transfers};
use crate::{
    dataset::{chunk_addresses, dataset_changes},
    functions::RawPointer,
    hdf5_arguments::{
        DATASET, DATASET_REFRESH, DATASET_SET_EXTENT, OptionalArguments, READING_DATASET_OPTIONALS,
    },
    optional_ops,
    parallel::settling,
    read::{cached_read::read_cached, prestage},
    slots::{self, LoadedLibrary},
    vol_object::{VolObject, object_at},
};

opens!(open, H5VLdataset_open, name: RawPointer, access: hid_t, transfer: hid_t);
// A new data set may lie where one was that is gone.
opens!(create, H5VLdataset_create, name: RawPointer, link: hid_t, kind: hid_t, space: hid_t, creation: hid_t,
    access: hid_t, transfer: hid_t; then dataset_changes::changed);
passes!(get, H5VLdataset_get, arguments: RawPointer);
passes!(specific, H5VLdataset_specific, arguments: RawPointer; first before_specific(arguments));
passes!(optional, H5VLdataset_optional, arguments: RawPointer; first before_optional(arguments));
closes!(close, H5VLdataset_close);

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

/// Resizes change a data set, and a refresh looks for changes of others.
unsafe fn before_specific(
    library: &LoadedLibrary,
    object: &VolObject,
    arguments: RawPointer,
) -> Option<herr_t> {
    // SAFETY: as for every callback; the arguments begin with the operation.
    let operation = unsafe { *arguments.cast::<c_int>() };
    match operation {
        DATASET_SET_EXTENT => dataset_changes::changed(library, object),
        DATASET_REFRESH => dataset_changes::refreshed(library),
        _ => {}
    }
    settling::refused(library, settling::before_dataset_operation(library, object, operation))
}

/// Operations of this connector are answered; of those of the one below some write.
unsafe fn before_optional(
    library: &LoadedLibrary,
    object: &VolObject,
    arguments: RawPointer,
) -> Option<herr_t> {
    // SAFETY: as for every callback; the arguments have the layout of the header.
    let (asked, answer) = unsafe {
        let asked = &*arguments.cast::<OptionalArguments>();
        (asked, optional_ops::on_dataset(library, object, asked))
    };
    if answer.is_some() {
        return answer;
    }
    if !READING_DATASET_OPTIONALS.contains(&asked.operation) {
        dataset_changes::changed(library, object);
    }
    chunk_addresses::before_told(library, object, asked.operation);
    settling::refused(library, settling::before_look(library, object, DATASET))
}
