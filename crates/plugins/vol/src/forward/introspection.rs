//! What the connector can do: what the one below can.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use forebay_libhdf5::hdf5_types::herr_t;

use super::passes;
use crate::{functions::RawPointer, info::UnderConnector, optional_ops, slots, vol_object::object_at};

passes!(optional, H5VLoptional, arguments: RawPointer);

/// `H5VL_GET_CONN_LVL_CURR`
const CURRENT_LEVEL: c_int = 0;

/// The class of this connector, or of the lowest one.
pub(crate) unsafe extern "C" fn connector_class<const N: usize>(
    object: RawPointer,
    level: c_int,
    class: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; the class lives as long as the process.
    unsafe {
        if level == CURRENT_LEVEL {
            *class = (&raw const library.class).cast::<c_void>().cast_mut();
            return 0;
        }
        let object = object_at(object);
        (library.functions.H5VLintrospect_get_conn_cls)(object.under, object.connector, level, class)
    }
}

/// The capabilities of the connector below; nothing said of it means the native one.
pub(crate) unsafe extern "C" fn capabilities<const N: usize>(info: RawPointer, flags: *mut u64) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; `info` is one of ours or null.
    unsafe {
        let ask = library.functions.H5VLintrospect_get_cap_flags;
        if !info.is_null() {
            let below = &*info.cast::<UnderConnector>();
            return ask(below.info, below.connector, flags);
        }
        let Some(native) = UnderConnector::native(library) else { return super::FAILED };
        let answer = ask(null_mut(), native.connector, flags);
        native.release(library);
        answer
    }
}

/// `H5VL_OPT_QUERY_SUPPORTED`
const SUPPORTED: u64 = 1;

/// Whether an optional operation is there: those of this connector, and those of the one below.
pub(crate) unsafe extern "C" fn optional_query<const N: usize>(
    object: RawPointer,
    subclass: c_int,
    operation: c_int,
    flags: *mut u64,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback.
    unsafe {
        if optional_ops::is_own(library, subclass, operation) {
            *flags = SUPPORTED;
            return 0;
        }
        let object = object_at(object);
        (library.functions.H5VLintrospect_opt_query)(
            object.under,
            object.connector,
            subclass,
            operation,
            flags,
        )
    }
}
