//! Reads and writes of several data sets at once, as HDF5 hands them to a callback.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};

use super::FAILED;
use crate::{
    functions::RawPointer,
    parallel::staged_write::WriteRequest,
    read::cached_read::DatasetRead,
    slots::LoadedLibrary,
    vol_object::{VolObject, object_at, wrap_request},
};

/// The arguments of a read or write of several data sets at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfers {
    pub(crate) count: usize,
    pub(crate) datasets: *mut RawPointer,
    pub(crate) memory_types: *mut hid_t,
    pub(crate) memory_spaces: *mut hid_t,
    pub(crate) file_spaces: *mut hid_t,
    pub(crate) transfer: hid_t,
    pub(crate) buffers: *mut RawPointer,
    pub(crate) request: *mut RawPointer,
}

pub(crate) type TransferFunction = unsafe extern "C" fn(
    usize,
    *mut RawPointer,
    hid_t,
    *mut hid_t,
    *mut hid_t,
    *mut hid_t,
    hid_t,
    *mut RawPointer,
    *mut RawPointer,
) -> herr_t;

/// True when both handles stand for one connector: a library may give another handle of it to each file.
fn is_same_connector(library: &LoadedLibrary, one: hid_t, other: hid_t) -> bool {
    let mut order = 0;
    // SAFETY: handles of registered connectors, and a place for the answer.
    one == other
        || unsafe { (library.functions.H5VLcmp_connector_cls)(&raw mut order, one, other) >= 0 && order == 0 }
}

impl Transfers {
    /// Hands all of them to `function` of the connector below.
    ///
    /// # Safety
    /// They are what HDF5 handed to a callback, or parts of it.
    pub(crate) unsafe fn forward(&self, library: &LoadedLibrary, function: TransferFunction) -> herr_t {
        let mut one: RawPointer;
        let mut many = Vec::new();
        // SAFETY: as for every callback: each list has `count` entries, and the data sets are ours.
        unsafe {
            let connector = object_at(*self.datasets).connector;
            let under: *mut RawPointer = if self.count == 1 {
                one = object_at(*self.datasets).under;
                &raw mut one
            } else {
                for index in 0..self.count {
                    let object = object_at(*self.datasets.add(index));
                    if !is_same_connector(library, object.connector, connector) {
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

    /// What is read of the data set at `index`.
    ///
    /// # Safety
    /// As for [`forward`](Self::forward); `index` is below `count`.
    pub(crate) unsafe fn read_request(&self, index: usize) -> DatasetRead {
        // SAFETY: each list has `count` entries, and `index` is below that.
        unsafe {
            DatasetRead {
                memory_type: *self.memory_types.add(index),
                memory_space: *self.memory_spaces.add(index),
                file_space: *self.file_spaces.add(index),
                transfer: self.transfer,
                fill_transfer: self.transfer,
                into: *self.buffers.add(index),
            }
        }
    }

    /// What is written to the data set at `index`.
    ///
    /// # Safety
    /// As for [`read_request`](Self::read_request).
    pub(crate) unsafe fn write_request(&self, index: usize) -> WriteRequest {
        // SAFETY: as promised by the caller.
        unsafe {
            WriteRequest {
                memory_type: *self.memory_types.add(index),
                memory_space: *self.memory_spaces.add(index),
                file_space: *self.file_spaces.add(index),
                transfer: self.transfer,
                from: *self.buffers.add(index),
            }
        }
    }

    /// The data set at `index`.
    ///
    /// # Safety
    /// As for [`read_request`](Self::read_request).
    pub(crate) unsafe fn object(&self, index: usize) -> &VolObject {
        // SAFETY: as promised by the caller.
        unsafe { object_at(*self.datasets.add(index)) }
    }

    /// The transfer at `index` alone.
    ///
    /// # Safety
    /// As for [`read_request`](Self::read_request).
    pub(crate) unsafe fn only(&self, index: usize) -> Self {
        // SAFETY: as promised by the caller.
        unsafe {
            Self {
                count: 1,
                datasets: self.datasets.add(index),
                memory_types: self.memory_types.add(index),
                memory_spaces: self.memory_spaces.add(index),
                file_spaces: self.file_spaces.add(index),
                buffers: self.buffers.add(index),
                ..*self
            }
        }
    }
}
