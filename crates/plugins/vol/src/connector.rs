//! The connector as HDF5 sees it: a table of callbacks for each libhdf5 that asks.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::{
    ffi::{CStr, c_int, c_void},
    ptr::null,
};

use forebay_libhdf5::{
    ErrorStack,
    entry::H5PL_TYPE_VOL,
    hdf5_types::{herr_t, hid_t},
    in_slot, plugin_entry,
};
use forebay_process::{Result, WarnOnce, guard};

use crate::{
    file::{driver_handle::DriverHandle, file_state::VolFiles},
    forward::{
        attributes, blobs, connector_info, datasets, datatypes, file_close, files, groups, introspection,
        links, objects, requests, tokens, wrapping,
    },
    functions::VolFunctions,
    info::UnderConnector,
    operation_numbers::OperationNumbers,
    optional_ops,
    parallel::{mpi_lists::forget_lists, process_area::close_at_end},
    read::read_cache::ReadCache,
    slots::{LIBRARIES, LoadedLibrary, VolVariables},
    vol_class::{CACHE_VOL_VALUE, CLASS_VERSION, CONNECTOR_VALUE, VolClass},
};

static REFUSED: WarnOnce = WarnOnce::new();

/// Names of Cache VOL's connector, which this one answers to where the environment asks for it.
const CACHE_VOL_NAMES: [&CStr; 2] = [c"cache_ext", c"cache"];

plugin_entry!(H5PL_TYPE_VOL, plugin_info);

/// The table for the libhdf5 whose code `return_address` lies in; null where it is too old or lacks a function.
unsafe extern "C" fn plugin_info(return_address: *const c_void) -> *const c_void {
    guard(null(), || match load(return_address) {
        Ok(Some(library)) => (&raw const library.class).cast(),
        Ok(None) => {
            REFUSED.say(format_args!("more libraries of HDF5 than the connector has places for"));
            null()
        }
        Err(error) => {
            REFUSED.say(format_args!("{error}; this library is used without the connector"));
            null()
        }
    })
}

fn load(return_address: *const c_void) -> Result<Option<&'static LoadedLibrary>> {
    LIBRARIES.for_caller(return_address, |library, slot| {
        let (functions, errors) = (VolFunctions::load(&library)?, ErrorStack::load(&library)?);
        let variables = VolVariables::load(&library)?;
        let class = in_slot!(slot, class);
        let (files, operations) = (VolFiles::default(), OperationNumbers::new());
        let driver = DriverHandle::new();
        Ok(LoadedLibrary { library, functions, errors, class, files, operations, driver, variables })
    })
}

/// Name and number: Cache VOL's where the environment asks for that one.
fn identity() -> (&'static CStr, c_int) {
    let wanted = std::env::var("HDF5_VOL_CONNECTOR").unwrap_or_default();
    let wanted = wanted.split_whitespace().next().unwrap_or_default();
    let as_cache_vol = CACHE_VOL_NAMES.into_iter().find(|name| name.to_bytes() == wanted.as_bytes());
    as_cache_vol.map_or((c"forebay", CONNECTOR_VALUE), |name| (name, CACHE_VOL_VALUE))
}

unsafe extern "C" fn initialize<const N: usize>(_list: hid_t) -> herr_t {
    guard((), || optional_ops::register(crate::slots::library::<N>()));
    0
}

unsafe extern "C" fn terminate<const N: usize>() -> herr_t {
    guard((), || {
        let library = crate::slots::library::<N>();
        library.driver.forget();
        library.files.forget();
        if let Some(cache) = ReadCache::in_use() {
            cache.wait(std::time::Duration::from_millis(500));
        }
        close_at_end();
        forget_lists();
    });
    0
}

/// The addresses of callbacks, for one slot.
macro_rules! addresses {
    ($($callback:path),* $(,)?) => { [$($callback as *const () as usize),*] };
}

fn class<const N: usize>() -> VolClass {
    let (name, value) = identity();
    VolClass {
        version: CLASS_VERSION,
        value,
        name: name.as_ptr().expose_provenance(),
        connector_version: 1,
        capabilities: 0,
        initialize: initialize::<N> as *const () as usize,
        terminate: terminate::<N> as *const () as usize,
        info_size: size_of::<UnderConnector>(),
        info: addresses!(
            connector_info::copy::<N>,
            connector_info::compare::<N>,
            connector_info::free::<N>,
            connector_info::to_text::<N>,
            connector_info::from_text::<N>,
        ),
        wrap: addresses!(
            wrapping::get_object::<N>,
            wrapping::get_context::<N>,
            wrapping::wrap_object::<N>,
            wrapping::unwrap_object::<N>,
            wrapping::free_context::<N>,
        ),
        attribute: addresses!(
            attributes::create::<N>,
            attributes::open::<N>,
            attributes::read::<N>,
            attributes::write::<N>,
            attributes::get::<N>,
            attributes::specific::<N>,
            attributes::optional::<N>,
            attributes::close::<N>,
        ),
        dataset: addresses!(
            datasets::create::<N>,
            datasets::open::<N>,
            datasets::read::<N>,
            datasets::write::<N>,
            datasets::get::<N>,
            datasets::specific::<N>,
            datasets::optional::<N>,
            datasets::close::<N>,
        ),
        datatype: addresses!(
            datatypes::commit::<N>,
            datatypes::open::<N>,
            datatypes::get::<N>,
            datatypes::specific::<N>,
            datatypes::optional::<N>,
            datatypes::close::<N>,
        ),
        file: addresses!(
            files::create::<N>,
            files::open::<N>,
            files::get::<N>,
            files::specific::<N>,
            files::optional::<N>,
            file_close::close::<N>,
        ),
        group: addresses!(
            groups::create::<N>,
            groups::open::<N>,
            groups::get::<N>,
            groups::specific::<N>,
            groups::optional::<N>,
            groups::close::<N>,
        ),
        link: addresses!(
            links::create::<N>,
            links::copy::<N>,
            links::rename::<N>,
            links::get::<N>,
            links::specific::<N>,
            links::optional::<N>,
        ),
        object: addresses!(
            objects::open::<N>,
            objects::copy::<N>,
            objects::get::<N>,
            objects::specific::<N>,
            objects::optional::<N>,
        ),
        introspect: addresses!(
            introspection::connector_class::<N>,
            introspection::capabilities::<N>,
            introspection::optional_query::<N>,
        ),
        request: addresses!(
            requests::wait::<N>,
            requests::notify::<N>,
            requests::cancel::<N>,
            requests::specific::<N>,
            requests::optional::<N>,
            requests::free::<N>,
        ),
        blob: addresses!(blobs::put::<N>, blobs::get::<N>, blobs::specific::<N>, blobs::optional::<N>),
        token: addresses!(tokens::compare::<N>, tokens::to_text::<N>, tokens::from_text::<N>),
        optional: introspection::optional::<N> as *const () as usize,
    }
}
