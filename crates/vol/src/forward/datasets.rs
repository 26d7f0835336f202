//! Data sets: reads through the cache, writes and resizes noted, everything else handed on.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_plugin::{
    guard,
    hdf5_types::{herr_t, hid_t},
};

use super::{FAILED, closes, opens, passes};
use crate::{
    cached_read::{ReadRequest, read_cached},
    dataset_changes,
    functions::Opaque,
    hdf5_arguments::{DATASET_SET_EXTENT, OptionalArguments, READING_DATASET_OPTIONALS},
    optional_ops, prestage,
    slots::{self, LoadedLibrary},
    vol_object::{object_at, wrap, wrap_request},
};

opens!(open, H5VLdataset_open, name: Opaque, access: hid_t, transfer: hid_t);
passes!(get, H5VLdataset_get, arguments: Opaque);
closes!(close, H5VLdataset_close);

/// Creates a data set, perhaps where one was that is gone.
pub(crate) unsafe extern "C" fn create<const N: usize>(
    object: Opaque,
    location: Opaque,
    name: Opaque,
    link: hid_t,
    kind: hid_t,
    space: hid_t,
    creation: hid_t,
    access: hid_t,
    transfer: hid_t,
    request: *mut Opaque,
) -> Opaque {
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

/// The arguments of a read or write of several data sets at once.
struct Transfers {
    count: usize,
    datasets: *mut Opaque,
    memory_types: *mut hid_t,
    memory_spaces: *mut hid_t,
    file_spaces: *mut hid_t,
    transfer: hid_t,
    buffers: *mut Opaque,
    request: *mut Opaque,
}

type TransferFunction = unsafe extern "C" fn(
    usize,
    *mut Opaque,
    hid_t,
    *mut hid_t,
    *mut hid_t,
    *mut hid_t,
    hid_t,
    *mut Opaque,
    *mut Opaque,
) -> herr_t;

impl Transfers {
    /// Hands all of them to `function` of the connector below.
    unsafe fn forward(&self, library: &LoadedLibrary, function: TransferFunction) -> herr_t {
        let mut one: Opaque;
        let mut many = Vec::new();
        // SAFETY: as for every callback: each list has `count` entries, and the data sets are ours.
        unsafe {
            let connector = object_at(*self.datasets).connector;
            let under: *mut Opaque = if self.count == 1 {
                one = object_at(*self.datasets).under;
                &raw mut one
            } else {
                for index in 0..self.count {
                    let object = object_at(*self.datasets.add(index));
                    if object.connector != connector {
                        return FAILED;
                    }
                    many.push(object.under);
                }
                many.as_mut_ptr()
            };
            let answer = function(
                self.count,
                under,
                connector,
                self.memory_types,
                self.memory_spaces,
                self.file_spaces,
                self.transfer,
                self.buffers,
                self.request,
            );
            wrap_request(library, self.request, connector);
            answer
        }
    }

    unsafe fn read_request(&self, index: usize) -> ReadRequest {
        // SAFETY: each list has `count` entries, and `index` is below that.
        unsafe {
            ReadRequest {
                memory_type: *self.memory_types.add(index),
                memory_space: *self.memory_spaces.add(index),
                file_space: *self.file_spaces.add(index),
                transfer: self.transfer,
                into: *self.buffers.add(index),
            }
        }
    }
}

/// Reads data sets: from the cache what it has or is worth keeping, the rest by the connector below.
pub(crate) unsafe extern "C" fn read<const N: usize>(
    count: usize,
    datasets: *mut Opaque,
    memory_types: *mut hid_t,
    memory_spaces: *mut hid_t,
    file_spaces: *mut hid_t,
    transfer: hid_t,
    buffers: *mut Opaque,
    request: *mut Opaque,
) -> herr_t {
    let library = slots::library::<N>();
    let all =
        Transfers { count, datasets, memory_types, memory_spaces, file_spaces, transfer, buffers, request };
    let function = library.functions.H5VLdataset_read;
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
            .unwrap_or_else(|| {
                Transfers {
                    count: 1,
                    datasets: datasets.add(index),
                    memory_types: memory_types.add(index),
                    memory_spaces: memory_spaces.add(index),
                    file_spaces: file_spaces.add(index),
                    buffers: buffers.add(index),
                    ..all
                }
                .forward(library, function)
            })
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
    datasets: *mut Opaque,
    memory_types: *mut hid_t,
    memory_spaces: *mut hid_t,
    file_spaces: *mut hid_t,
    transfer: hid_t,
    buffers: *mut Opaque,
    request: *mut Opaque,
) -> herr_t {
    let library = slots::library::<N>();
    let all =
        Transfers { count, datasets, memory_types, memory_spaces, file_spaces, transfer, buffers, request };
    // SAFETY: as for every callback.
    unsafe {
        for index in 0..count {
            dataset_changes::changed(library, object_at(*datasets.add(index)));
        }
        all.forward(library, library.functions.H5VLdataset_write)
    }
}

/// Resizes change a data set; flushes and refreshes do not.
pub(crate) unsafe extern "C" fn specific<const N: usize>(
    object: Opaque,
    arguments: Opaque,
    transfer: hid_t,
    request: *mut Opaque,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; the arguments begin with the operation. A refresh may replace the object.
    unsafe {
        if *arguments.cast::<c_int>() == DATASET_SET_EXTENT {
            dataset_changes::changed(library, object_at(object));
        }
        let (under, connector) = (object_at(object).under, object_at(object).connector);
        let answer = (library.functions.H5VLdataset_specific)(under, connector, arguments, transfer, request);
        wrap_request(library, request, connector);
        answer
    }
}

/// Operations of this connector on a data set, and those of the one below, of which some write.
pub(crate) unsafe extern "C" fn optional<const N: usize>(
    object: Opaque,
    arguments: Opaque,
    transfer: hid_t,
    request: *mut Opaque,
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
        let (under, connector) = (object_at(object).under, object_at(object).connector);
        let answer = (library.functions.H5VLdataset_optional)(under, connector, arguments, transfer, request);
        wrap_request(library, request, connector);
        answer
    }
}
